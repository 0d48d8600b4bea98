// Handles that show their memory as something else: pairs of floats as complex numbers, whose last dimension they hide,
// and bytes as numbers of a storage dtype, of which a byte may hold two. A kind of view by which nothing moves: the
// same memory, the same place in the graph of gradients. Ops on them are made of ops on what they are, by src/complex
// and src/stored.
#include "tensor/tensor.h"
#include <stdio.h>
#include <string.h>

void tensor_show(kiln_tensor *t, enum shown_as shown)
{
    t->shown = (uint8_t)shown;
    if (!shown_is_packed(shown)) return;
    for (int i = 0; i < t->type.rank; i++) t->packed_dims[i] = t->type.dims[i];
    int64_t *last = &t->packed_dims[t->type.rank - 1];
    if (__builtin_mul_overflow(*last, 2, last)) *last = INT64_MAX;
}

kiln_tensor *tensor_shown_as(kiln_tensor *t, enum shown_as shown)
{
    if (!t || t->shown == shown) return t;
    kiln_tensor *r = kiln_alias(t);
    if (r) tensor_show(r, shown);
    return r;
}

kiln_tensor *tensor_as_pairs(kiln_tensor *t)
{
    return t && t->shown == SHOWN_COMPLEX ? tensor_shown_as(t, SHOWN_PLAIN) : t;
}

kiln_tensor *tensor_as_complex(kiln_tensor *pairs)
{
    return tensor_shown_as(pairs, SHOWN_COMPLEX);
}

char *tensor_text(const kiln_tensor *t, char *buf, size_t cap)
{
    struct type seen = t->type;
    if (t->shown == SHOWN_PLAIN) return type_text(&seen, buf, cap);
    seen.rank = (uint8_t)tensor_shown_rank(t);
    if (seen.rank) memcpy(seen.dims, tensor_shown_dims(t), seen.rank * sizeof *seen.dims);
    size_t n = (size_t)snprintf(buf, cap, "%s", dtype_name(shown_dtype(t->shown, t->type.dtype)));
    char dims[TYPE_TEXT_MAX];
    const char *list = strchr(type_text(&seen, dims, sizeof dims), '[');
    if (n < cap) snprintf(buf + n, cap - n, "%s", list ? list : "");
    return buf;
}
