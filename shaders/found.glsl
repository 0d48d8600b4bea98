// Included by row.glsl once a class: the struct FOUND of a VALUE and its place, and how two become one.
struct FOUND { VALUE value; uint index; };

FOUND combine_argmax(const FOUND a, const FOUND b)
{
    bool take_b = above(b.value, a.value) || (!above(a.value, b.value) && b.index < a.index);
    if (take_b) return b;
    return a;
}
FOUND combine_argmin(const FOUND a, const FOUND b)
{
    bool take_b = below(b.value, a.value) || (!below(a.value, b.value) && b.index < a.index);
    if (take_b) return b;
    return a;
}
void scratch_save(const uint64_t address, const FOUND v)
{
    scratch_save(address, v.value);
    Memory32(address + 8).v = v.index;
}
void scratch_load(const uint64_t address, out FOUND v)
{
    scratch_load(address, v.value);
    v.index = Memory32(address + 8).v;
}
#undef VALUE
#undef FOUND
