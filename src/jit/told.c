// Types, bytes and the line of a call. Bytes are those of the inputs and of the results; what its launches move stands
// with them.
#include "jit/told.h"
#include "base/where.h"
#include "tensor/facts.h"

enum { MOST = 32 };

static double tell(kiln_tensor *const *list, size_t n, char *out, size_t size_B)
{
    const struct type *types[MOST] = {NULL};
    double bytes = 0;
    for (size_t i = 0; i < n; i++) {
        if (!list[i]) continue;
        if (i < MOST) types[i] = &list[i]->type;
        bytes += (double)type_numel(&list[i]->type) * dtype_size_B[list[i]->type.dtype];
    }
    types_text(types, n < MOST ? (int)n : MOST, out, size_B);
    return bytes;
}

void call_told_begin(struct call_told *t, kiln_tensor *const *in, size_t n_in)
{
    t->place = where_now();
    t->out[0] = '\0';
    t->facts = (struct launch_facts){
        .op = "call", .in = t->in, .out = t->out, .flops = -1, .places = &t->place, .n_places = 1};
    t->facts.read_B = tell(in, n_in, t->in, sizeof t->in);
}

void call_told_end(struct call_told *t, const struct outputs *o)
{
    if (error_pending) return;
    t->facts.written_B = tell(o->v, o->n, t->out, sizeof t->out);
    if (o->flops > 0) t->facts.flops = o->flops;
}
