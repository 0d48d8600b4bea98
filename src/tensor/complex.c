// Complex tensors: handles on pairs of floats, which lie along a last dimension that the handle does not show. A kind
// of view by which nothing moves: the same memory, the same place in the graph of gradients. Ops on them are made of
// ops on pairs or parts, by src/complex.
#include "tensor/tensor.h"
#include <stdio.h>
#include <string.h>

static kiln_tensor *seen_as(kiln_tensor *t, bool complex)
{
    kiln_tensor *r = kiln_alias(t);
    if (r) r->complex = complex;
    return r;
}

kiln_tensor *tensor_as_pairs(kiln_tensor *t)
{
    return t && t->complex ? seen_as(t, false) : t;
}

kiln_tensor *tensor_as_complex(kiln_tensor *pairs)
{
    return pairs && !pairs->complex ? seen_as(pairs, true) : pairs;
}

char *tensor_text(const kiln_tensor *t, char *buf, size_t cap)
{
    struct type seen = t->type;
    if (!t->complex) return type_text(&seen, buf, cap);
    seen.rank--;
    const char *name = dtype_name(t->type.dtype == KILN_F64 ? KILN_C128 : KILN_C64);
    size_t n = (size_t)snprintf(buf, cap, "%s", name);
    char dims[TYPE_TEXT_MAX];
    const char *list = strchr(type_text(&seen, dims, sizeof dims), '[');
    if (n < cap) snprintf(buf + n, cap - n, "%s", list ? list : "");
    return buf;
}
