// What the rules of a loop's node share: the trips, as often as the loop has made them.
#include "jit/capture/loop_gradient.h"
#include <kiln/ops.h>
#include <stdlib.h>

void loop_held_finish(struct loop_held *h)
{
    free(h->inputs);
    free(h->targets);
    free(h->states);
    free(h->rows);
}

struct control_loop loop_of_trips(const struct loop_held *h, kiln_tensor *const *kept, bool reverse)
{
    return (struct control_loop){.op = h->op,
                                 .count = h->trips,
                                 .count_of = h->trips < 0 ? kept[h->count] : NULL,
                                 .bound = h->trips < 0 ? h->bound : 0,
                                 .unroll = h->unroll,
                                 .numbered = true,
                                 .reverse = reverse,
                                 .draws = {.given = true, .place = h->number}};
}

kiln_tensor *loop_last_trip(const struct loop_held *h, kiln_tensor *const *kept)
{
    return h->trips < 0 ? kiln_sub(kept[h->count], kiln_scalar_int(1)) : kiln_scalar_int(h->trips - 1);
}

kiln_status loop_check_row(const char *op, const struct type *t)
{
    if (t->rank < KILN_MAX_RANK) return KILN_OK;
    return error_set(KILN_E_UNSUPPORTED,
                     "%s: the gradient keeps a tensor of rank %d of each trip, and rows of rank %d are the most", op,
                     KILN_MAX_RANK, KILN_MAX_RANK - 1);
}
