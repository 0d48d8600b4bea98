// Loads and stores of one class, by the storage dtype. Included by args.glsl once a class, with CLASS, VALUE and
// VALUE4.
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define FROM_BITS JOIN(CLASS, _of_bits)
#define FROM_WIDE JOIN(CLASS, _of_wide)
#define TO_BITS JOIN(bits_of_, CLASS)
#define TO_WIDE JOIN(wide_of_, CLASS)

VALUE JOIN(load_as_, CLASS)(const uint operand, const uint64_t base, const int64_t at)
{
    if ((operand & IMMEDIATE) != 0) return JOIN(CLASS, _of_immediate)(base);
    uint dtype = operand & 255;
    uint64_t address = element_address(dtype, base, at);
    if (is_wide(dtype)) return FROM_WIDE(dtype, fetch_wide(address));
    return FROM_BITS(fetched_dtype(dtype), fetch(dtype, address));
}

VALUE4 JOIN(load4_as_, CLASS)(const uint operand, const uint64_t base, const int64_t at)
{
    if ((operand & (IMMEDIATE | SPLAT)) != 0) return VALUE4(JOIN(load_as_, CLASS)(operand, base, at));
    uint dtype = operand & 255;
    uint64_t address = element_address(dtype, base, at);
    if (is_wide(dtype)) return FROM_WIDE(dtype, fetch4_wide(address));
    return FROM_BITS(fetched_dtype(dtype), fetch4(dtype, address));
}

void JOIN(store_as_, CLASS)(const uint operand, const uint64_t base, const int64_t at, const VALUE x)
{
    uint dtype = operand & 255;
    uint64_t address = element_address(dtype, base, at);
    if (is_wide(dtype)) put_wide(address, TO_WIDE(dtype, x));
    else put(dtype, address, TO_BITS(fetched_dtype(dtype), x));
}

void JOIN(store4_as_, CLASS)(const uint operand, const uint64_t base, const int64_t at, const VALUE4 x)
{
    uint dtype = operand & 255;
    uint64_t address = element_address(dtype, base, at);
    if (is_wide(dtype)) put4_wide(address, TO_WIDE(dtype, x));
    else put4(dtype, address, TO_BITS(fetched_dtype(dtype), x));
}

#undef FROM_BITS
#undef FROM_WIDE
#undef TO_BITS
#undef TO_WIDE
#undef CLASS
#undef VALUE
#undef VALUE4
