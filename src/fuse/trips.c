// A loop inside of a kernel.
//
// Input: the kernel of a body, and which of its accesses read and write what the loop carries. It can make the trips
// itself where no point waits for another: what is carried is read at the places where the same point writes it; or
// where there are few of them. Output: the same kernel with one more loop, around all that a point does.
//
// A point of a row kernel is a row, and a row lies in memory: from the second trip on it is read where the first one
// has written it. That is possible as outputs by element are stored in the last pass alone, each after it was read
// (fuse/loops.h), but points must not share elements. Where nothing is folded, values stay in registers: then points
// may share elements, as those of a broadcast do, for each computes its values for itself, from what the loop began
// with, which must not lie where the results do. On a CPU many points are better off in place, too: rows that are
// scanned are read in long pieces then.
//
// Where points read what others have written, as in a stencil or a product with a vector, and there are few, all of
// them make a trip before the next one begins: a thread, or a workgroup with a barrier behind each trip. What is
// carried then takes turns between the outputs and the workspace, so that nobody writes what is still to be read.
//
// The number of the trip is a scalar of any class; as trips go on inside, it is counted as an i64 and converted.
#include "fuse/trips.h"
#include "fuse/loops.h"
#include <string.h>

enum {
    MANY_POINTS = 256,
    LONG_ROW = 2048 // shorter ones are never cut among threads or workgroups
};

static int output_of(const struct fused_kernel *k, const struct trips_of *of, int result)
{
    for (int i = 0; i < k->n_out; i++)
        if (of->writes[i] == result) return i;
    return -1;
}

// Points that have an element together.
static bool shares(const struct fused_kernel *k, const struct fused_access *to)
{
    for (int d = 0; d < k->n_dims - k->n_reduce; d++)
        if (!to->strides[d] && k->sizes[d] > 1) return true;
    return false;
}

static bool any_shares(const struct fused_kernel *k, const struct trips_of *of)
{
    for (int i = 0; i < k->n_out; i++)
        if (of->writes[i] < of->n_carried && shares(k, &k->out[i].to)) return true;
    return false;
}

// Whether points need nothing of each other.
static bool are_apart(const struct fused_kernel *k, const struct trips_of *of)
{
    if (k->n_stages && any_shares(k, of)) return false;
    for (int i = 0; i < k->n_in; i++) {
        if (of->reads[i] < 0) continue;
        const struct fused_access *from = &k->in[i], *to = &k->out[output_of(k, of, of->reads[i])].to;
        if (fused_is_placed(k, i) || from->dtype != to->dtype || !fused_same_places(k, from, to)) return false;
    }
    return true;
}

static const char *objection(const struct fused_kernel *k, const struct trips_of *of)
{
    if (k->has_total || k->product.n_m || k->attention.n_m) return "a trip folds more than rows";
    if (k->n_stages && fused_may_cut(k) && fused_longest_row(k) > LONG_ROW) return "long rows are cut in each trip";
    if (k->n_checks) return "indices are checked in each trip";
    if (k->n_scalars + 2 > FUSED_MAX_SCALARS) return "too many scalars";
    for (int i = 0; i < k->n_out; i++)
        if (of->writes[i] < 0) return "something else than the loop's results is written";
    for (int c = 0; c < of->n_carried; c++)
        if (output_of(k, of, c) < 0) return "a carried value is not written";
    bool few = fused_points(k) * fused_row_length(k) <= of->few;
    return few || are_apart(k, of) ? NULL : "a carried value is read elsewhere than it is written, by many points";
}

static int add_scalar(struct fused_kernel *k, uint16_t input)
{
    k->scalar_cls[k->n_scalars] = CLASS_I64;
    k->scalars[k->n_scalars] = 0;
    k->scalar_input[k->n_scalars] = (uint16_t)(input + 1);
    return k->n_scalars++;
}

static void set_trips(struct fused_kernel *k, const struct trips_of *of)
{
    struct fused_trips *t = &k->trips;
    bool many = fused_points(k) > MANY_POINTS && !any_shares(k, of);
    bool together = !are_apart(k, of);
    *t = (struct fused_trips){.on = true,
                              .in_place = k->n_stages || many || together,
                              .together = together,
                              .most = of->most < 1 ? 1 : of->most};
    for (int i = 0; i < k->n_scalars; i++) t->numbers |= (uint32_t)(k->scalar_input[i] == of->number + 1) << i;
    for (int i = 0; i < k->n_in + k->n_out; i++)
        t->step[i] = of->step_B[i] / dtype_size_B[fused_access_at(k, i)->dtype];
    for (int i = 0; i < k->n_in; i++)
        if (of->reads[i] >= 0) t->carried[i] = (uint8_t)(output_of(k, of, of->reads[i]) + 1);
    for (int i = 0; i < k->n_out; i++) t->last[i] = of->writes[i] < of->n_carried;
    t->first = (uint16_t)add_scalar(k, of->number);
    t->count = (uint16_t)add_scalar(k, of->count);
}

kiln_status fuse_trips(struct arena *a, const struct fused_kernel *k, const struct trips_of *of,
                       struct fused_kernel **out, const char **why)
{
    *out = NULL;
    *why = objection(k, of);
    if (*why) return KILN_OK;
    struct fused_kernel *made = arena_alloc(a, sizeof *made);
    if (!made) return error_pending;
    *made = *k;
    if (fused_is_flat(made)) made->n_reduce = 0;
    set_trips(made, of);
    if (!fused_finish(a, made)) {
        *out = made;
        return KILN_OK;
    }
    if (kiln_error() != KILN_E_INTERNAL) return error_pending;
    kiln_error_clear();
    *why = "what changes with the trip alone is stored for each element of a row";
    return KILN_OK;
}
