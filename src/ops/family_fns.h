// Declares the functions that the rows of structured.def name.
#pragma once
#include "ir/op.h"

#define INFER(f) kiln_status f(struct op_call *c);
#define LOWER(f) kiln_status f(const struct op_call *c, struct lowering *lo);
#define VIEW(f)  kiln_status f(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy);

#define FN(infer, lower) \
    INFER(infer)         \
    LOWER(lower)
#define VIEW_FN(infer, view) \
    INFER(infer)             \
    VIEW(view)
#define VIEW_OR_COPY_FN(infer, lower, view) \
    INFER(infer)                            \
    LOWER(lower)                            \
    VIEW(view)
#define REGIONS_FN(rule)          extern const struct op_regions_rule rule;
#define STRUCTURED(name, fn, ...) fn
#include "ops/structured.def"
#undef STRUCTURED
#undef REGIONS_FN
#undef VIEW_OR_COPY_FN
#undef VIEW_FN
#undef FN
#undef VIEW
#undef LOWER
#undef INFER
