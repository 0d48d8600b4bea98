// The gradient of max_pool2d_backward by dy: what reaches the element that was each window's largest. Every place of
// the kernel is taken in turn, as a strided slice of the padded image: where its element equals the maximum, and none
// before it did, the gradient there is the window's.
#include "grad/rules/rules.h"
#include <math.h>

struct window {
    int64_t kernel[2], stride[2], padding[2], dilation[2], image[2], count[2];
};

static void copy_pair(int64_t *out, const char *attr)
{
    const int64_t *v;
    if (kiln_rule_ints(attr, &v) == 2) out[0] = v[0], out[1] = v[1];
}

static void read_window(struct window *w)
{
    *w = (struct window){.kernel = {1, 1}, .dilation = {1, 1}};
    copy_pair(w->kernel, "kernel");
    copy_pair(w->stride, "stride");
    copy_pair(w->padding, "padding");
    copy_pair(w->dilation, "dilation");
    for (int i = 0; i < 2; i++) {
        if (!w->stride[i]) w->stride[i] = w->kernel[i];
        w->image[i] = rule_in_dims(0)[2 + i];
        w->count[i] = rule_in_dims(1)[2 + i];
    }
}

static kiln_tensor *padded(kiln_tensor *t, const struct window *w, double value)
{
    int64_t before[4] = {0}, after[4] = {0};
    for (int i = 0; i < 2; i++) {
        int64_t reach = (w->count[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
        before[2 + i] = w->padding[i];
        after[2 + i] = reach > w->image[i] + w->padding[i] ? reach - w->image[i] - w->padding[i] : 0;
    }
    return kiln_pad(t, KILN_PAD(.before = {4, before}, .after = {4, after}, .value = value));
}

// The elements at place (i, j) of all windows.
static kiln_tensor *at_place(kiln_tensor *t, const struct window *w, int64_t i, int64_t j)
{
    int64_t start[4] = {0, 0, i * w->dilation[0], j * w->dilation[1]}, step[4] = {1, 1, w->stride[0], w->stride[1]};
    int64_t stop[4] = {KILN_END, KILN_END, start[2] + (w->count[0] - 1) * step[2] + 1,
                       start[3] + (w->count[1] - 1) * step[3] + 1};
    return kiln_slice(t, KILN_SLICE(.start = {4, start}, .stop = {4, stop}, .step = {4, step}));
}

static kiln_status max_pool2d_backward(void *user, kiln_tensor *const *in, kiln_tensor *const *out,
                                       kiln_tensor *const *dout, kiln_tensor **din)
{
    struct window w;
    if (!kiln_rule_wants(1)) return KILN_OK;
    read_window(&w);
    kiln_tensor *x = padded(in[0], &w, (double)-INFINITY), *g = padded(dout[0], &w, 0), *y = at_place(x, &w, 0, 0),
                *open = NULL;
    for (int64_t k = 1; k < w.kernel[0] * w.kernel[1]; k++)
        y = kiln_maximum(y, at_place(x, &w, k / w.kernel[1], k % w.kernel[1]));
    for (int64_t k = 0; k < w.kernel[0] * w.kernel[1] && !kiln_error(); k++) {
        int64_t i = k / w.kernel[1], j = k % w.kernel[1];
        kiln_tensor *hit = kiln_equal(at_place(x, &w, i, j), y), *first = open ? kiln_logical_and(hit, open) : hit;
        kiln_tensor *one = kiln_where(first, at_place(g, &w, i, j), kiln_scalar(0));
        din[1] = din[1] ? kiln_add(din[1], one) : one;
        open = open ? kiln_logical_and(open, kiln_logical_not(hit)) : kiln_logical_not(hit);
    }
    return kiln_error();
}

static const kiln_rule_spec rules[] = {
    {.op = "max_pool2d_backward", .fn = max_pool2d_backward, .needs_in = 1 << 0},
};
RULES(pool, rules);
