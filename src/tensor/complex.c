// Complex tensors: handles on pairs of floats, which lie along a last dimension that the handle does not show. A kind
// of view by which nothing moves: the same memory, the same place in the graph of gradients. Ops on them are made of
// ops on pairs or parts, by src/complex.
#include "tensor/tensor.h"
#include <kiln/ops.h>

static kiln_tensor *seen_as(kiln_tensor *t, bool complex)
{
    kiln_tensor *r = kiln_alias(t);
    if (r) r->type.complex = complex;
    return r;
}

kiln_tensor *tensor_as_pairs(kiln_tensor *t)
{
    return t && t->type.complex ? seen_as(t, false) : t;
}

kiln_tensor *tensor_as_complex(kiln_tensor *pairs)
{
    return pairs && !pairs->type.complex ? seen_as(pairs, true) : pairs;
}

kiln_tensor *kiln_view_as_real(kiln_tensor *z)
{
    if (error_pending || tensor_check_any("view_as_real", "z", z)) return NULL;
    if (z->type.complex) return seen_as(z, false);
    char text[TYPE_TEXT_MAX];
    error_set(KILN_E_DTYPE, "view_as_real: z must be complex, it is %s", type_text(&z->type, text, sizeof text));
    return NULL;
}

kiln_tensor *kiln_view_as_complex(kiln_tensor *pairs)
{
    if (error_pending || tensor_check("view_as_complex", "pairs", pairs)) return NULL;
    const struct type *t = &pairs->type;
    char text[TYPE_TEXT_MAX];
    bool floats = t->dtype == KILN_F32 || t->dtype == KILN_F64;
    if (floats && t->rank && t->dims[t->rank - 1] == 2) return seen_as(pairs, true);
    error_set(floats ? KILN_E_SHAPE : KILN_E_DTYPE, "view_as_complex: pairs must be f32 or f64 [..., 2], it is %s",
              type_text(t, text, sizeof text));
    return NULL;
}
