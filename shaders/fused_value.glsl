// Folds of one class in a fused kernel: how two values become one, travel between lanes and lie in the workspace.
// Included once a class, with VALUE (its type), IS_NAN(a), ABOVE(a, b), TO_BITS(v) and FROM_BITS(bits) for a uvec2,
// EXCHANGED(v, distance) by shuffle, LOGICAL for bool, FOLDS_<fold> for the folds in use, and FOUND when places are
// looked for.
#ifdef LOGICAL
#define combine_any(a, b) ((a) || (b))
#define combine_all(a, b) ((a) && (b))
#else
#ifdef FOLDS_sum
VALUE combine_sum(const VALUE a, const VALUE b) { precise VALUE r = a + b; return r; }
#endif
#ifdef FOLDS_prod
VALUE combine_prod(const VALUE a, const VALUE b) { precise VALUE r = a * b; return r; }
#endif
#endif
#ifdef FOLDS_max
VALUE combine_max(const VALUE a, const VALUE b) { return ABOVE(a, b) || IS_NAN(a) ? a : b; }
#endif
#ifdef FOLDS_min
VALUE combine_min(const VALUE a, const VALUE b) { return ABOVE(b, a) || IS_NAN(a) ? a : b; }
#endif
#ifdef SHUFFLES
VALUE from_lane(const VALUE v, const uint distance) { return EXCHANGED(v, distance); }
#endif
#ifdef WORKSPACE
void save(const uint64_t at, const VALUE v) { Partial64(at).v = TO_BITS(v); }
void restore(const uint64_t at, out VALUE v) { v = FROM_BITS(Partial64(at).v); }
#endif

#ifdef FOUND
// A value and its place: the first among equals, the first NaN before all else.
struct FOUND { VALUE value; INDEX place; };
#ifdef FOLDS_argmax
#define BEFORE_IT(a, b) (IS_NAN(a) ? !IS_NAN(b) : ABOVE(a, b))
FOUND combine_argmax(const FOUND a, const FOUND b)
{
    bool take_b = BEFORE_IT(b.value, a.value) || (!BEFORE_IT(a.value, b.value) && b.place < a.place);
    if (take_b) return b;
    return a;
}
#undef BEFORE_IT
#endif
#ifdef FOLDS_argmin
#define BEFORE_IT(a, b) (IS_NAN(a) ? !IS_NAN(b) : ABOVE(b, a))
FOUND combine_argmin(const FOUND a, const FOUND b)
{
    bool take_b = BEFORE_IT(b.value, a.value) || (!BEFORE_IT(a.value, b.value) && b.place < a.place);
    if (take_b) return b;
    return a;
}
#undef BEFORE_IT
#endif
#ifdef SHUFFLES
FOUND from_lane(const FOUND v, const uint distance)
{
    uvec2 place = subgroupShuffleXor(unpackUint2x32(uint64_t(v.place)), distance);
    return FOUND(from_lane(v.value, distance), INDEX(packUint2x32(place)));
}
#endif
#ifdef WORKSPACE
void save(const uint64_t at, const FOUND v)
{
    save(at, v.value);
    Partial64(at + 8ul).v = unpackUint2x32(uint64_t(v.place));
}
void restore(const uint64_t at, out FOUND v)
{
    restore(at, v.value);
    v.place = INDEX(packUint2x32(Partial64(at + 8ul).v));
}
#endif
#endif
#undef VALUE
#undef LOGICAL
#undef EXCHANGED
#undef IS_NAN
#undef ABOVE
#undef TO_BITS
#undef FROM_BITS
#undef FOUND
