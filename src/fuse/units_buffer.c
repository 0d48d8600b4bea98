// Buffers of the units.
#include "fuse/units.h"

enum { BUFFERS_MAX = 1 << 24 };

int32_t units_add_buffer(struct units *u, enum buffer_kind kind, const struct type *t, int32_t value)
{
    struct unit_buffer b = {
        .kind = (uint8_t)kind, .dtype = t->dtype, .value = value, .numel = type_numel(t), .writer = -1};
    if (u->buffers.n >= BUFFERS_MAX) {
        error_set(KILN_E_UNSUPPORTED, "graph: more than %d buffers", BUFFERS_MAX);
        return -1;
    }
    return vec_push(&u->buffers, b) ? -1 : (int32_t)u->buffers.n - 1;
}
