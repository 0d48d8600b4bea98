// Connectionist temporal classification: A. Graves et al., Connectionist temporal classification: labelling unsegmented
// sequence data with recurrent neural networks, 2006.
//
// The labels of a sample with a blank before, between and behind them are S' = 2 S + 1 places. alpha[s] is the
// logarithm of the probability of all paths that are at place s after the steps so far. A step comes from the same
// place, the one before, or, where neither is blank and the labels differ, the one before that. Before the first step
// all paths are at place 0, from which the first step goes to 0 or 1. The steps are a kiln_scan; what lies behind a
// sample's length leaves its alpha as it is. An impossible path has FAR instead of -INFINITY, whose gradient would be
// NaN.
#include "compose/losses.h"

#include <kiln/control.h>

#define FAR (-1e30)

struct ctc {
    kiln_tensor *log_probs, *labels, *input_lengths, *label_lengths;
    int64_t steps, batch, classes, length, places;
    const kiln_loss_ctc_opts *o;
};

static bool integers(const char *name, kiln_tensor *t, size_t rank, const int64_t *dims)
{
    bool fits = kiln_rank(t) == rank;
    for (size_t i = 0; fits && i < rank; i++) fits = dims[i] < 0 || kiln_dims(t)[i] == dims[i];
    if (!error_pending && dtype_info[kiln_tensor_dtype(t)].kind != KIND_INT)
        error_set(KILN_E_DTYPE, "%s must be integers, it is %s", name, type_of(t).s);
    else if (!error_pending && !fits)
        error_set(KILN_E_SHAPE, "%s is %s, with log_probs for %lld samples", name, type_of(t).s, (long long)dims[0]);
    return !error_pending;
}

static bool sound(struct ctc *c)
{
    if (kiln_rank(c->log_probs) != 3 || !dtype_is_float(kiln_tensor_dtype(c->log_probs)))
        error_set(KILN_E_SHAPE, "log_probs must be floats [T, N, C], it is %s", type_of(c->log_probs).s);
    if (error_pending) return false;
    const int64_t *dims = kiln_dims(c->log_probs);
    c->steps = dims[0], c->batch = dims[1], c->classes = dims[2];
    if (!integers("labels", c->labels, 2, (int64_t[]){c->batch, -1}) ||
        !integers("input_lengths", c->input_lengths, 1, &c->batch) ||
        !integers("label_lengths", c->label_lengths, 1, &c->batch))
        return false;
    c->length = kiln_dims(c->labels)[1];
    c->places = 2 * c->length + 1;
    if (c->o->blank < 0 || c->o->blank >= c->classes)
        error_set(KILN_E_ARGUMENT, "blank is %lld, there are %lld classes", (long long)c->o->blank,
                  (long long)c->classes);
    return loss_reduction_is(c->o->reduction, c->log_probs);
}

static kiln_tensor *iota(const struct ctc *c, int64_t n)
{
    return kiln_arange(kiln_tensor_device(c->log_probs), KILN_I64, 0, (double)n, 1);
}

// [N, S']: blank, label, blank, label, ... blank. Labels behind a sample's length, which may be anything, are blanks.
static kiln_tensor *with_blanks(const struct ctc *c)
{
    kiln_tensor *lengths = kiln_unsqueeze(kiln_cast(c->label_lengths, KILN_I64), 1);
    kiln_tensor *blank = kiln_scalar_int(c->o->blank), *wide = kiln_cast(c->labels, KILN_I64);
    kiln_tensor *below = kiln_sub(wide, kiln_scalar_int(c->classes)); // no class counted from the end
    wide = kiln_where(kiln_less(wide, kiln_scalar_int(0)), below, wide);
    kiln_tensor *own = kiln_where(kiln_less(iota(c, c->length), lengths), wide, blank);
    kiln_tensor *blanks =
        kiln_full_int(kiln_tensor_device(c->log_probs), KILN_I64, KILN_SHAPE(c->batch, c->length + 1), c->o->blank);
    if (c->length == 0) return blanks;
    kiln_tensor *pairs = kiln_stack((kiln_tensor *[]){kiln_narrow(blanks, 1, 0, c->length), own}, 2, 2);
    kiln_tensor *front = kiln_reshape(pairs, KILN_SHAPE(c->batch, 2 * c->length));
    return kiln_concat((kiln_tensor *[]){front, kiln_narrow(blanks, 1, c->length, 1)}, 2, 1);
}

// t with n places of `value` in front along the last axis, and as many less at its end.
static kiln_tensor *moved(kiln_tensor *t, int64_t n, double value)
{
    if (error_pending) return NULL;
    size_t rank = kiln_rank(t);
    int64_t before[KILN_MAX_RANK] = {0}, size = kiln_dims(t)[rank - 1];
    before[rank - 1] = n;
    kiln_tensor *wide = kiln_pad(t, KILN_PAD(.before = {rank, before}, .value = value));
    return kiln_narrow(wide, -1, 0, size);
}

// carried: alpha [N, S']; each step: log probabilities of the places [N, S'], whether the sample is that long [N, 1];
// the same in all: whether the place before the last may be skipped [N, S'].
static kiln_status step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *skips = user, *alpha = in[0];
    kiln_tensor *two = kiln_logaddexp(alpha, moved(alpha, 1, FAR));
    kiln_tensor *third = kiln_where(skips, moved(alpha, 2, FAR), kiln_scalar(FAR));
    kiln_tensor *next = kiln_add(kiln_logaddexp(two, third), in[1]);
    out[0] = kiln_where(in[2], next, alpha);
    (void)n_in, (void)n_out;
    return kiln_error();
}

static kiln_tensor *walked(const struct ctc *c, kiln_tensor *places, kiln_tensor *log_probs)
{
    kiln_tensor *blank = kiln_scalar_int(c->o->blank), *before = moved(places, 2, -1);
    kiln_tensor *skips = kiln_logical_and(kiln_not_equal(places, blank), kiln_not_equal(places, before));
    kiln_tensor *index = kiln_expand(places, KILN_SHAPE(c->steps, c->batch, c->places));
    kiln_tensor *scores = kiln_maximum(kiln_gather(log_probs, 2, index), kiln_scalar(FAR));
    kiln_tensor *lengths = kiln_reshape(kiln_cast(c->input_lengths, KILN_I64), KILN_SHAPE(1, -1, 1));
    kiln_tensor *runs = kiln_less(kiln_reshape(iota(c, c->steps), KILN_SHAPE(-1, 1, 1)), lengths);
    kiln_tensor *first = kiln_equal(iota(c, c->places), kiln_scalar_int(0));
    kiln_tensor *start = kiln_where(first, kiln_scalar(0), kiln_scalar(FAR));
    start =
        kiln_contiguous(kiln_expand(kiln_cast(start, kiln_tensor_dtype(log_probs)), KILN_SHAPE(c->batch, c->places)));
    kiln_tensor *alpha;
    if (c->steps == 0) return start;
    kiln_scan(step, skips, (kiln_tensor *[]){start, scores, runs}, 3, KILN_SCAN(.carried = 1), &alpha, 1);
    return alpha;
}

kiln_tensor *compose_loss_ctc(kiln_tensor *log_probs, kiln_tensor *labels, kiln_tensor *input_lengths,
                              kiln_tensor *label_lengths, const kiln_loss_ctc_opts *o)
{
    struct ctc c = {log_probs, labels, input_lengths, label_lengths, .o = o};
    if (!sound(&c)) return NULL;
    kiln_tensor *none = kiln_scalar_int(0), *one = kiln_scalar_int(1);
    label_lengths = c.label_lengths = kiln_clip(label_lengths, none, kiln_scalar_int(c.length));
    kiln_dtype dtype = kiln_tensor_dtype(log_probs);
    kiln_tensor *wide = dtype == KILN_F64 ? log_probs : kiln_cast(log_probs, KILN_F32);
    kiln_tensor *alpha = walked(&c, with_blanks(&c), wide);
    // Paths end at the last label or the blank behind it.
    kiln_tensor *last = kiln_mul(kiln_unsqueeze(kiln_cast(label_lengths, KILN_I64), 1), kiln_scalar_int(2));
    kiln_tensor *at_blank = kiln_gather(alpha, 1, last);
    kiln_tensor *at_label = kiln_gather(alpha, 1, kiln_maximum(kiln_sub(last, one), none));
    at_label = kiln_where(kiln_greater(last, none), at_label, kiln_scalar(FAR));
    kiln_tensor *loss = kiln_neg(kiln_squeeze(kiln_logaddexp(at_blank, at_label), KILN_AXES(1)));
    kiln_tensor *impossible = kiln_greater(loss, kiln_scalar(-FAR / 2));
    loss = kiln_where(impossible, kiln_scalar(o->zero_infinity ? 0 : INFINITY), loss);
    if (o->reduction == KILN_REDUCTION_MEAN) {
        kiln_tensor *divisor = kiln_maximum(kiln_cast(label_lengths, kiln_tensor_dtype(wide)), kiln_scalar(1));
        loss = kiln_div(loss, divisor);
    }
    return kiln_cast(loss_reduce(loss, o->reduction), dtype);
}
