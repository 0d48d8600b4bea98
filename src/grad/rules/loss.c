// Cross entropy: softmax minus the target, in one kernel; the gradient of that kernel by its decomposition.
#include "grad/rules/parts.h"
#include "base/dtype.h"

enum { REDUCTION_MEAN, REDUCTION_SUM, REDUCTION_NONE };
struct loss {
    int64_t reduction, axis;
    double smooth;
    bool ignore, soft;
    int64_t ignore_index;
};

static struct loss read_loss(void)
{
    kiln_dtype labels = kiln_rule_in_dtype(1);
    return (struct loss){
        .reduction = kiln_rule_int("reduction"),
        .axis = kiln_rule_in_shape(0, NULL) > 1 ? 1 : 0,
        .smooth = kiln_rule_float("label_smoothing"),
        .ignore = kiln_rule_int("ignore") != 0,
        .ignore_index = kiln_rule_int("ignore_index"),
        .soft = dtype_is_float(labels),
    };
}

// dy for each row, with the class axis of size 1.
static kiln_tensor *row_gradient(const struct loss *a, kiln_tensor *logits, kiln_tensor *labels, kiln_tensor *dy)
{
    if (a->reduction == REDUCTION_NONE) return kiln_unsqueeze(dy, a->axis);
    if (a->reduction == REDUCTION_SUM) return dy;
    if (a->ignore && !a->soft) {
        kiln_tensor *counted =
            kiln_cast(kiln_not_equal(labels, kiln_scalar_int(a->ignore_index)), kiln_tensor_dtype(logits));
        return kiln_div(dy, kiln_sum(counted, NULL));
    }
    return kiln_div(dy, kiln_scalar((double)kiln_numel(logits) / (double)kiln_dim(logits, a->axis)));
}

// The probabilities that the labels stand for, smoothed; rows that are ignored are zero.
static kiln_tensor *target(const struct loss *a, kiln_tensor *logits, kiln_tensor *labels)
{
    int64_t n = kiln_dim(logits, a->axis);
    kiln_tensor *t = labels;
    if (!a->soft) {
        int64_t dims[KILN_MAX_RANK];
        for (size_t i = 0; i < kiln_rank(logits); i++) dims[i] = 1;
        dims[a->axis] = n;
        kiln_tensor *classes =
            kiln_reshape(kiln_arange(kiln_tensor_device(logits), KILN_I64, 0, (double)n, 1), kiln_rank(logits), dims);
        t = kiln_cast(kiln_equal(kiln_unsqueeze(labels, a->axis), classes), kiln_tensor_dtype(logits));
    }
    return a->smooth ? kiln_add(kiln_mul(t, kiln_scalar(1 - a->smooth)), kiln_scalar(a->smooth / (double)n)) : t;
}

RULE(cross_entropy)
{
    struct loss a = read_loss();
    if (kiln_rule_wants(0))
        din[0] = kiln_cross_entropy_backward(in[0], in[1], dout[0], a.reduction, a.smooth, a.ignore, a.ignore_index);
    if (a.soft && kiln_rule_wants(1))
        din[1] = kiln_mul(kiln_mul(kiln_log_softmax(in[0], a.axis), kiln_scalar(a.smooth - 1)),
                          row_gradient(&a, in[0], in[1], dout[0]));
    return kiln_error();
}

// Of (logits, labels, dy): (softmax(logits) sum(target) - target) dy.
static kiln_status backward_parts(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct loss *a = user;
    kiln_tensor *t = target(a, in[0], in[1]);
    kiln_tensor *total = kiln_sum(t, KILN_REDUCE(.axes = KILN_AXES(a->axis), .keepdims = true));
    kiln_tensor *dx =
        kiln_mul(kiln_sub(kiln_mul(kiln_softmax(in[0], a->axis), total), t), row_gradient(a, in[0], in[1], in[2]));
    if (a->ignore && !a->soft) {
        kiln_tensor *drop = kiln_equal(kiln_unsqueeze(in[1], a->axis), kiln_scalar_int(a->ignore_index));
        dx = kiln_where(drop, kiln_scalar(0), dx);
    }
    out[0] = dx;
    return kiln_error();
}

RULE(cross_entropy_backward)
{
    struct loss a = read_loss();
    return rule_by_parts(backward_parts, &a, in, 3, dout[0], din);
}

static const kiln_rule_spec rules[] = {
    {.op = "cross_entropy", .fn = cross_entropy, .needs_in = 3},
    {.op = "cross_entropy_backward", .fn = cross_entropy_backward, .needs_in = 7},
};
RULES(loss, rules);
