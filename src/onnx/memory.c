// Memory for what is read of a file, bounded.
#include "onnx/model.h"

kiln_status onnx_take(struct onnx_model *m, size_t count, size_t item_B, void *out)
{
    void **to = out;
    *to = NULL;
    // An arena's own use for small ones counts, too.
    if (m->taken_B > ONNX_MEMORY_MAX_B - 16 || count > ONNX_MEMORY_MAX_B / item_B ||
        count * item_B > ONNX_MEMORY_MAX_B - m->taken_B - 16)
        return error_set(KILN_E_UNSUPPORTED, "%s: holds more nodes, names and attributes than %d MiB of memory",
                         m->where, ONNX_MEMORY_MAX_B >> 20);
    m->taken_B += count * item_B + 16;
    *to = arena_alloc(&m->arena, count ? count * item_B : 1);
    return *to ? KILN_OK : error_pending;
}
