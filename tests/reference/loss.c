// Cross entropy: for each row of logits l with target distribution t, -sum_j t_j log softmax(l)_j.
#include "reference/structured.h"

// The target probability of a class; NaN for a label that is none.
static long double target(const struct host *labels, const struct lines *l, int64_t o, int64_t i, int64_t k,
                          double smoothing)
{
    long double hard;
    if (is_float(labels->dtype))
        hard = labels->v[line_at(l, o, i, k)];
    else {
        long double label = labels->v[o * l->inner + i];
        hard = label < 0 || label >= l->length ? NAN : label == k;
    }
    return (1 - (long double)smoothing) * hard + (long double)smoothing / l->length;
}

static bool is_ignored(const struct host *labels, const struct lines *l, const struct loss *o, int64_t outer,
                       int64_t inner)
{
    return o->ignore && !is_float(labels->dtype) && labels->v[outer * l->inner + inner] == o->ignore_index;
}

static int64_t counted(const struct host *labels, const struct lines *l, const struct loss *o)
{
    int64_t n = 0;
    for (int64_t a = 0; a < l->outer; a++)
        for (int64_t b = 0; b < l->inner; b++) n += !is_ignored(labels, l, o, a, b);
    return n;
}

struct host reference_cross_entropy(const struct host *logits, const struct host *labels, const struct loss *o,
                                    const struct host *dy, int dtype)
{
    int axis = logits->rank > 1 ? 1 : 0, rank = 0;
    struct lines l = lines_of(logits, axis);
    struct host logs = reference_softmax(logits, axis, true, KILN_F64);
    int64_t dims[HOST_MAX_RANK];
    for (int i = 0; i < logits->rank; i++)
        if (i != axis) dims[rank++] = logits->dims[i];
    struct host out =
        dy ? host_new(dtype, logits->rank, logits->dims) : host_new(dtype, o->reduction == 2 ? rank : 0, dims);
    long double n = counted(labels, &l, o), total = 0;
    for (int64_t a = 0; a < l.outer; a++)
        for (int64_t b = 0; b < l.inner; b++) {
            bool ignored = is_ignored(labels, &l, o, a, b);
            long double row = 0, mass = 0;
            for (int64_t k = 0; k < l.length && !ignored; k++) {
                long double t = target(labels, &l, a, b, k, o->smoothing);
                if (t != 0) row -= t * logs.v[line_at(&l, a, b, k)];
                mass += t;
            }
            total += row;
            if (!dy && o->reduction == 2) out.v[a * l.inner + b] = row;
            for (int64_t k = 0; k < l.length && dy; k++) {
                long double g = dy->v[o->reduction == 2 ? a * l.inner + b : 0] / (o->reduction == 0 ? n : 1);
                int64_t at = line_at(&l, a, b, k);
                out.v[at] = ignored ? 0 : g * (expl(logs.v[at]) * mass - target(labels, &l, a, b, k, o->smoothing));
            }
        }
    if (!dy && o->reduction != 2) out.v[0] = o->reduction == 0 ? total / n : total;
    host_free(&logs);
    return out;
}
