// Steps of control flow: conditions and loops of a few ops, nested, that read and write what is visible.
#include "fuzz.h"
#include <kiln/control.h>

// Mostly a few regions in each other, now and then eight.
static int draw_depth(struct operands *o)
{
    return choose(o, 20) ? (int)choose(o, 4) : 7;
}

// What a region does depends on its seed and on its operands' types alone, so that it does the same each time.
struct nest {
    uint64_t seed;
    int depth; // regions inside it, at most
    kiln_tensor *other;
    struct run *run;
};

static kiln_status waves(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_sin(kiln_mul(in[0], user ? (kiln_tensor *)user : kiln_scalar(0.5))), NULL);
    (void)n_in, (void)n_out;
    return kiln_error();
}

// A gradient that is taken here, with a tape of its own or without.
static kiln_tensor *some_gradient(struct rng *r, kiln_tensor *x, kiln_tensor *y)
{
    kiln_tensor *d;
    const kiln_grad_opts *opts = KILN_GRAD(.create_graph = rng_chance(r, 70));
    if (!kiln_rank(x)) return x;
    return kiln_grad(waves, y, &x, 1, opts, &d, 1) ? NULL : kiln_add(x, kiln_mul(d, kiln_scalar(0.5)));
}

static kiln_tensor *some_op(struct run *run, struct rng *r, kiln_tensor *x, kiln_tensor *other)
{
    kiln_tensor *y = other && same_shape(x, other) ? other : kiln_scalar(0.5);
    switch (rng_below(r, 14)) {
    case 9: return some_gradient(r, x, y);
    case 10: return kiln_add(kiln_stop_gradient(x), kiln_mul(x, kiln_scalar(0.25)));
    case 11: return host_halves(run, HOST_IN_REGION, x);
    case 12: host_tells(run, HOST_IN_REGION, x); return kiln_tanh(x);
    case 0: return kiln_tanh(x);
    case 1: return kiln_sin(kiln_add(x, y));
    case 2: return kiln_mul(x, kiln_scalar(0.75));
    case 3: return kiln_sub(x, kiln_mul(y, kiln_scalar(0.25)));
    case 4: return kiln_mul(x, kiln_sigmoid(y));
    case 5: return kiln_rank(x) ? kiln_flip(kiln_neg(x), KILN_AXES(0)) : kiln_neg(x);
    case 6: return kiln_sub(x, kiln_mean(x, KILN_REDUCE(.keepdims = true)));
    case 7: return kiln_dropout(x, 0.5);
    case 8: { // drawn in f32 in any run, so that all draw the same
        kiln_tensor *u = kiln_uniform(kiln_tensor_device(x), KILN_F32, kiln_rank(x), kiln_dims(x), -1, 1);
        return kiln_add(x, kiln_cast(u, kiln_tensor_dtype(x)));
    }
    default: return kiln_lerp(x, y, kiln_scalar(0.25));
    }
}

static kiln_tensor *some_flow(struct nest *n, struct rng *r, kiln_tensor *x);

// Of the type that it is given, last.
static kiln_status some_ops(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct nest *n = user;
    struct rng r = {n->seed};
    kiln_tensor *x = in[n_in - 1];
    for (uint32_t i = 1 + rng_below(&r, 2); i--;) {
        kiln_tensor *y = with_noise(n->run, some_op(n->run, &r, x, n->other));
        if (y && same_shape(x, y)) x = y;
    }
    struct nest inner = {n->seed * 31 + 7, n->depth - 1, n->other, n->run};
    if (n->depth > 0 && rng_chance(&r, 50)) x = some_flow(&inner, &r, x);
    if (x == in[n_in - 1]) x = kiln_add(x, kiln_scalar(0.125));
    out[0] = x;
    (void)n_out;
    return kiln_error();
}

static kiln_status other_ops(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct nest n = *(struct nest *)user;
    n.seed += 1000003;
    return some_ops(&n, in, n_in, out, n_out);
}

// A sum of numbers that cancel may be 0 in another order of additions.
static kiln_tensor *is_large(struct run *run, kiln_tensor *x)
{
    kiln_tensor *sum = kiln_sum(x, NULL);
    if (noise_tosses(run)) {
        kiln_tensor *least = kiln_mul(kiln_sum(kiln_abs(x), NULL), kiln_scalar(noise_of(run, x)));
        sum = kiln_where(kiln_less(kiln_abs(sum), least), kiln_scalar(0), sum);
    }
    return kiln_greater(sum, kiln_scalar(0.25));
}

static kiln_tensor *some_flow(struct nest *n, struct rng *r, kiln_tensor *x)
{
    kiln_tensor *y = NULL;
    static const kiln_fn branches[] = {some_ops, other_ops, some_ops};
    switch (rng_below(r, 4)) {
    case 0: return kiln_cond(is_large(n->run, x), some_ops, other_ops, n, &x, 1, &y, 1) ? NULL : y;
    case 1: {
        kiln_tensor *index =
            kiln_add(kiln_cast(is_large(n->run, x), KILN_I32), kiln_cast(is_large(n->run, kiln_neg(x)), KILN_I32));
        return kiln_switch(index, branches, 3, n, &x, 1, &y, 1) ? NULL : y;
    }
    default: {
        kiln_tensor *count = kiln_scalar_int(rng_below(r, 8));
        const kiln_loop_opts *opts = KILN_LOOP(.unroll = rng_below(r, 5), .save_every = rng_below(r, 4));
        return kiln_for(count, some_ops, n, &x, 1, opts, &y, 1) ? NULL : y;
    }
    }
}

static bool is_wide(kiln_tensor *t)
{
    return kiln_tensor_dtype(t) == KILN_F32 || kiln_tensor_dtype(t) == KILN_F64;
}

kiln_tensor *step_flow(struct operands *o)
{
    struct nest n = {rng_next(&o->choice), draw_depth(o), is_wide(o->b) ? o->b : NULL, o->run};
    if (!is_wide(o->a) || (n.other && kiln_tensor_dtype(n.other) != kiln_tensor_dtype(o->a))) return NULL;
    say(o, "conditions and loops of ops on %s and %s, %d deep at most", o->na, o->nb, n.depth + 1);
    kiln_tensor *zero = kiln_zeros(o->run->dev, kiln_tensor_dtype(o->a), KILN_SHAPE0); // of a number a tensor
    return some_flow(&n, &o->choice, kiln_rank(o->a) ? o->a : kiln_add(o->a, zero));
}

// --- scans

static kiln_status carry_row(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct nest *n = user;
    struct rng r = {n->seed};
    kiln_tensor *sum = with_noise(n->run, kiln_add(kiln_mul(in[0], kiln_scalar(0.5)), in[1]));
    out[0] = rng_chance(&r, 50) ? kiln_tanh(sum) : sum;
    if (n->depth > 0 && some_ops(n, out, 1, out, 1)) return kiln_error();
    if (n_out > 1) out[1] = kiln_mul(out[0], in[1]);
    (void)n_in;
    return kiln_error();
}

kiln_tensor *step_scan_rows(struct operands *o)
{
    struct nest n = {rng_next(&o->choice), (int)choose(o, 2), NULL, o->run};
    bool rows = choose(o, 2), back = choose(o, 2);
    int64_t unroll = choose(o, 5);
    if (!is_wide(o->a) || !kiln_rank(o->a) || !kiln_dims(o->a)[0] || !kiln_numel(o->a)) return NULL;
    kiln_tensor *all[] = {kiln_mul(kiln_select(o->a, 0, 0), kiln_scalar(0)), o->a}, *out[2];
    say(o, "%s of a scan %s along %s", rows ? "rows" : "the last", back ? "back" : "on", o->na);
    const kiln_scan_opts *opts = KILN_SCAN(.carried = 1, .reverse = back, .unroll = unroll, .save_every = n.seed % 4);
    if (kiln_scan(carry_row, &n, all, 2, opts, out, 2)) return NULL;
    return rows ? out[1] : out[0];
}

// A table that each trip changes in part, once or twice, and reads before that, behind it, or not at all.
static kiln_status change_part(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct nest *n = user;
    struct rng r = {n->seed};
    kiln_tensor *row = kiln_unsqueeze(in[1], 0), *at = in[2];
    if (rng_chance(&r, 30)) row = kiln_add(row, kiln_slice_at(in[0], 0, kiln_neg(at), 1));
    out[0] = kiln_update_at(in[0], 0, at, row);
    if (rng_chance(&r, 30)) out[0] = kiln_update_at(out[0], 0, kiln_scalar_int(0), kiln_tanh(row));
    if (n_out > 1) out[1] = kiln_tanh(kiln_slice_at(rng_chance(&r, 70) ? out[0] : in[0], 0, at, 1));
    (void)n_in;
    return kiln_error();
}

kiln_tensor *step_scan_parts(struct operands *o)
{
    struct nest n = {rng_next(&o->choice), 0, NULL, o->run};
    bool rows = choose(o, 2), back = choose(o, 2);
    if (!is_wide(o->a) || !kiln_rank(o->a) || !kiln_numel(o->a) || too_deep(o, o->a, 4)) return NULL;
    int64_t step = 1 + choose(o, 2), unroll = choose(o, 4);
    kiln_tensor *places = kiln_arange(o->run->dev, KILN_I32, 0, (double)(kiln_dims(o->a)[0] * step), (double)step);
    kiln_tensor *all[] = {kiln_mul(o->a, kiln_scalar(0.5)), o->a, places}, *out[2];
    say(o, "%s of a scan %s along %s that changes parts", rows ? "rows" : "the last", back ? "back" : "on", o->na);
    const kiln_scan_opts *opts = KILN_SCAN(.carried = 1, .reverse = back, .unroll = unroll);
    if (kiln_scan(change_part, &n, all, 3, opts, out, 2)) return NULL;
    return rows ? out[1] : out[0];
}

// --- loops of as many trips as values say

static kiln_status is_below(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_less(in[0], kiln_scalar(3));
    (void)user, (void)n_in, (void)n_out;
    return kiln_error();
}

static kiln_status count_up(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], kiln_scalar(1));
    (void)n_in, (void)n_out;
    return some_ops(user, in + 1, 1, out + 1, 1);
}

kiln_tensor *step_while(struct operands *o)
{
    struct nest n = {rng_next(&o->choice), (int)choose(o, 2), NULL, o->run};
    kiln_tensor *out[2], *count = kiln_zeros(o->run->dev, dtype_of_run(o->run, KILN_F32), KILN_SHAPE0);
    if (!is_wide(o->a)) return NULL;
    kiln_tensor *all[] = {count, o->a};
    // Without a bound there is no gradient in most captures.
    const kiln_loop_opts *opts = KILN_LOOP(.bound = 5 * choose(o, 3), .save_every = choose(o, 2));
    say(o, "three trips of a while of ops on %s, %d at most", o->na, (int)opts->bound);
    return kiln_while(is_below, count_up, &n, all, 2, opts, out, 2) ? NULL : out[1];
}

// --- writes

struct target {
    kiln_tensor *memory, *by;
    int depth; // regions around the write, at most
    struct run *run;
};

static kiln_status write_memory(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct target *t = user;
    (void)in, (void)n_in, (void)out, (void)n_out;
    return kiln_add_(t->memory, t->by);
}

static kiln_status halve_memory(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct target *t = user;
    (void)in, (void)n_in, (void)out, (void)n_out;
    return kiln_mul_(t->memory, kiln_scalar(0.5));
}

// A view of it, in regions in each other.
static kiln_status write_deep(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct target *t = user, inner = *t;
    if (--inner.depth > 0 && inner.depth % 2)
        return kiln_for(kiln_scalar_int(1), write_deep, &inner, NULL, 0, NULL, NULL, 0);
    if (inner.depth > 0)
        return kiln_cond(is_large(t->run, kiln_tanh(t->memory)), write_deep, halve_memory, &inner, NULL, 0, NULL, 0);
    kiln_tensor *part = t->memory;
    if (kiln_rank(part) && kiln_dims(part)[0] > 1) part = kiln_narrow(part, 0, 1, kiln_dims(part)[0] - 1);
    (void)in, (void)n_in, (void)out, (void)n_out;
    return kiln_mul_(part, kiln_scalar(0.75));
}

kiln_tensor *step_write_in_region(struct operands *o)
{
    bool fits = broadcasts(o->a, o->b, true) && is_wide(o->b);
    struct target t = {o->a, fits ? o->b : kiln_scalar(0.5), 1 + draw_depth(o), o->run};
    if (!is_wide(o->a)) return NULL;
    kiln_status status;
    switch (choose(o, 4)) {
    case 3:
        say(o, "a part of %s by 0.75, in regions %d deep", o->na, t.depth);
        status = write_deep(&t, NULL, 0, NULL, 0);
        break;
    case 0:
        say(o, "add_(%s, %s), if %s is large", o->na, fits ? o->nb : "0.5", o->na);
        status = kiln_cond(is_large(o->run, o->a), write_memory, NULL, &t, NULL, 0, NULL, 0);
        break;
    case 1:
        say(o, "add_(%s, %s), or half, if %s is large", o->na, fits ? o->nb : "0.5", o->na);
        status = kiln_cond(is_large(o->run, o->a), halve_memory, write_memory, &t, NULL, 0, NULL, 0);
        break;
    default:
        say(o, "add_(%s, %s), twice", o->na, fits ? o->nb : "0.5");
        status = kiln_for(kiln_scalar_int(2), write_memory, &t, NULL, 0, NULL, NULL, 0);
    }
    return status ? NULL : o->a;
}

// --- gradients that are left in a parameter

struct training {
    kiln_tensor *weight, *x;
    bool updates, clears;
};

static kiln_status train_once(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct training *t = user;
    (void)in, (void)n_in, (void)out, (void)n_out;
    kiln_tensor *loss = kiln_mean(kiln_tanh(kiln_mul(t->weight, kiln_mean(t->x, NULL))), NULL);
    if (t->clears && kiln_set_gradient(t->weight, NULL)) return kiln_error();
    if (kiln_backward(loss, NULL) || !t->updates) return kiln_error();
    if (!kiln_gradient(t->weight)) return kiln_error(); // without a tape, in a branch that is recorded and not taken
    kiln_no_grad_begin();
    kiln_sub_(t->weight, kiln_mul(kiln_gradient(t->weight), kiln_scalar(0.25)));
    kiln_no_grad_end();
    return kiln_error();
}

kiln_tensor *step_train_in_region(struct operands *o)
{
    const struct program *p = o->run->p;
    struct training t = {.x = kiln_stop_gradient(o->a), .updates = choose(o, 2), .clears = choose(o, 2)};
    for (int i = 0; i < p->n_sources; i++)
        if (p->source[i].kind == SOURCE_PARAMETER && kiln_requires_grad(o->run->source[i]))
            t.weight = o->run->source[i];
    if (!t.weight || !is_wide(o->a) || !is_wide(t.weight)) return NULL;
    bool twice = choose(o, 2);
    say(o, "a step of training by %s, %s%s%s", o->na, twice ? "twice" : "if it is large",
        t.updates ? ", with an update" : "", t.clears ? ", from no gradient" : "");
    kiln_status status = twice ? kiln_for(kiln_scalar_int(2), train_once, &t, NULL, 0, NULL, NULL, 0)
                               : kiln_cond(is_large(o->run, o->a), train_once, NULL, &t, NULL, 0, NULL, 0);
    return status ? NULL : kiln_add(o->a, with_noise(o->run, kiln_mean(t.weight, NULL)));
}
