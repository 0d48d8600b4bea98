// Rings of mapped memory: staging for uploads and downloads, argument blocks that do not fit the push constants.
//
// `head` and `tail` only grow; a position is the value modulo the size. What lies between them may still be read by the
// device. At each submission a mark notes the head and the batch's value; once that value is completed the tail moves
// to the mark. A piece never straddles the end: the rest of the round is skipped.
#include "vulkan/vk.h"

#define ALIGNMENT_B 64

kiln_status vk_ring_init(struct vk_device *vk, struct vk_ring *r, uint64_t size_B, enum vk_memory_use use)
{
    *r = (struct vk_ring){0};
    TRY(vk_buffer_create(vk, size_B, use, &r->buffer));
    if (!r->buffer.host) return error_set(KILN_E_UNSUPPORTED, "%s: no memory that the host can map", vk->owner->name);
    return KILN_OK;
}

void vk_ring_finish(struct vk_device *vk, struct vk_ring *r)
{
    vk_buffer_destroy(vk, &r->buffer);
}

void vk_ring_mark(struct vk_ring *r, uint64_t value)
{
    const int cap = (int)COUNT_OF(r->marks);
    int last = (r->first_mark + r->n_marks - 1) % cap;
    if (r->n_marks ? r->marks[last].head_B == r->head_B : r->tail_B == r->head_B) return;
    // More marks than batches can be in flight: the oldest is done.
    if (r->n_marks == cap) {
        r->tail_B = r->marks[r->first_mark].head_B;
        r->first_mark = (r->first_mark + 1) % cap;
        r->n_marks--;
    }
    int next = (r->first_mark + r->n_marks++) % cap;
    r->marks[next].value = value;
    r->marks[next].head_B = r->head_B;
}

static void reclaim(struct vk_ring *r, uint64_t completed)
{
    while (r->n_marks && r->marks[r->first_mark].value <= completed) {
        r->tail_B = r->marks[r->first_mark].head_B;
        r->first_mark = (r->first_mark + 1) % (int)COUNT_OF(r->marks);
        r->n_marks--;
    }
}

kiln_status vk_ring_take(struct vk_device *vk, struct vk_ring *r, uint64_t size_B, uint64_t *offset_B)
{
    uint64_t need_B = (size_B + ALIGNMENT_B - 1) & ~(uint64_t)(ALIGNMENT_B - 1), ring_B = r->buffer.size_B;
    uint64_t at = r->head_B % ring_B, skip_B = at + need_B > ring_B ? ring_B - at : 0;
    while (r->head_B + skip_B + need_B - r->tail_B > ring_B) {
        if (r->n_marks == 0) {
            // All of it belongs to the open batch, or to nobody.
            TRY(vk_stream_submit(vk));
            if (r->n_marks == 0) {
                r->tail_B = r->head_B;
                break;
            }
        }
        if (r->marks[r->first_mark].value > vk->completed) TRY(vk_stream_wait(vk, r->marks[r->first_mark].value));
        reclaim(r, vk->completed);
    }
    r->head_B += skip_B;
    *offset_B = r->head_B % ring_B;
    r->head_B += need_B;
    // After a submission on the way a new batch has to be open.
    return vk_stream_open(vk);
}
