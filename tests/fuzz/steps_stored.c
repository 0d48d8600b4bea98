// Steps by storage dtypes: numbers go in, are moved as bytes, and come out.
#include "fuzz.h"

static kiln_tensor *moved(struct operands *o, kiln_tensor *t, const char **how)
{
    bool rows = kiln_rank(t) > 1;
    *how = "";
    switch (rows ? choose(o, 4) : 0) {
    case 1: return *how = ", in reverse", kiln_flip(t, KILN_AXES(0));
    case 2: return *how = ", twice", kiln_concat((kiln_tensor *[]){t, t}, 2, 0);
    case 3: return *how = ", of them the first", kiln_narrow(t, 0, 0, 1);
    default: return t;
    }
}

kiln_tensor *step_stored(struct operands *o)
{
    static const kiln_dtype to[] = {KILN_F8_E4M3, KILN_F8_E5M2, KILN_F8_E4M3, KILN_I4, KILN_U4};
    kiln_dtype dtype = to[choose(o, sizeof to / sizeof *to)], from = kiln_tensor_dtype(o->a);
    bool packed = dtype == KILN_I4 || dtype == KILN_U4, bits = choose(o, 3) == 0;
    if (kiln_rank(o->a) == 0 || !kiln_numel(o->a) || (packed && kiln_dim(o->a, -1) % 2)) return NULL;
    // What a float is rounded to, the last place may decide: of such, integers come out.
    kiln_tensor *x = kiln_stop_gradient(is_floating(from) ? with_noise(o->run, o->a) : o->a);
    const char *how;
    kiln_tensor *y = moved(o, kiln_cast(x, dtype), &how);
    kiln_dtype back = bits ? KILN_U8 : is_floating(from) ? KILN_I32 : dtype_of_run(o->run, KILN_F32);
    say(o, "%s as %s%s, %s %s", o->na, kiln_dtype_name(dtype), how, bits ? "the bits as" : "and back as",
        kiln_dtype_name(back));
    return bits ? kiln_bitcast(y, back) : kiln_cast(y, back);
}
