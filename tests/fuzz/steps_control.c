// Steps of control flow: conditions and loops of a few ops, nested, that read and write what is visible.
#include "fuzz.h"
#include <kiln/control.h>

enum { DEEPEST = 4, FAR = 8 }; // mostly, and now and then

// What a region does depends on its seed and on its operands' types alone, so that it does the same each time.
struct nest {
    uint64_t seed;
    int depth; // regions inside it, at most
    kiln_tensor *other;
    struct run *run;
    bool far;            // rather deep, with few ops and trips
    bool tells;          // the host is called in regions
    kiln_tensor *memory; // what regions read, write and make views of
};

static kiln_status slopes_of(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_mul(kiln_tanh(in[0]), in[0]), NULL);
    (void)user, (void)n_in, (void)n_out;
    return kiln_error();
}

static kiln_status squared_slopes(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *d;
    if (kiln_grad(slopes_of, user, in, n_in, NULL, &d, 1)) return kiln_error();
    out[0] = kiln_mul(kiln_sum(kiln_square(d), NULL), kiln_scalar(0.125));
    (void)n_out;
    return kiln_error();
}

static kiln_tensor *slope_at(kiln_tensor *x, bool second)
{
    kiln_tensor *d;
    return kiln_grad(second ? squared_slopes : slopes_of, NULL, &x, 1, NULL, &d, 1) ? NULL : d;
}

static kiln_tensor *some_op(struct rng *r, kiln_tensor *x, kiln_tensor *other)
{
    kiln_tensor *y = other && same_shape(x, other) ? other : kiln_scalar(0.5);
    switch (rng_below(r, 13)) {
    case 0: return kiln_tanh(x);
    case 1: return kiln_sin(kiln_add(x, y));
    case 2: return kiln_mul(x, kiln_scalar(0.75));
    case 3: return kiln_sub(x, kiln_mul(y, kiln_scalar(0.25)));
    case 4: return kiln_mul(x, kiln_sigmoid(y));
    case 5: return kiln_rank(x) ? kiln_flip(kiln_neg(x), 1, (const int64_t[]){0}) : kiln_neg(x);
    case 6: return kiln_sub(x, kiln_mean(x, KILN_REDUCE(.keepdims = true)));
    case 7: return kiln_dropout(x, 0.5);
    case 8: { // drawn in f32 in any run, so that all draw the same
        kiln_tensor *u = kiln_uniform(kiln_tensor_device(x), KILN_F32, kiln_rank(x), kiln_dims(x), -1, 1);
        return kiln_add(x, kiln_cast(u, kiln_tensor_dtype(x)));
    }
    case 9: return slope_at(x, false);
    case 10: return slope_at(x, true);
    case 11: return kiln_add(kiln_mul(x, kiln_scalar(0.5)), kiln_tanh(kiln_stop_gradient(x)));
    default: return kiln_lerp(x, y, kiln_scalar(0.25));
    }
}

static kiln_tensor *some_flow(struct nest *n, struct rng *r, kiln_tensor *x);

// Writes memory of outside, or a view of it made here, and reads it.
static kiln_tensor *use_memory(struct nest *n, struct rng *r, kiln_tensor *x)
{
    kiln_tensor *m = n->memory;
    if (kiln_rank(m) && kiln_dims(m)[0] && rng_chance(r, 50)) m = kiln_select(m, 0, 0);
    switch (rng_below(r, 4)) {
    case 0: kiln_mul_(m, kiln_scalar(0.5)); break;
    case 1: kiln_add_(m, kiln_mul(kiln_mean(x, NULL), kiln_scalar(0.25))); break;
    case 2: kiln_assign(m, kiln_tanh(m)); break;
    default: break;
    }
    return rng_chance(r, 60) ? kiln_add(x, kiln_mean(rng_chance(r, 50) ? m : n->memory, NULL)) : x;
}

// Of the type that it is given, last.
static kiln_status some_ops(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct nest *n = user;
    struct rng r = {n->seed};
    kiln_tensor *x = in[n_in - 1];
    for (uint32_t i = n->far ? 1 : 1 + rng_below(&r, 2); i--;) {
        kiln_tensor *y = with_noise(n->run, some_op(&r, x, n->other));
        if (y && same_shape(x, y)) x = y;
    }
    struct nest inner = *n;
    inner.seed = n->seed * 31 + 7, inner.depth--;
    if (n->tells && rng_chance(&r, 30)) host_note(n->run, x);
    if (n->tells && rng_chance(&r, 30)) x = with_noise(n->run, host_tanh(n->run, &r, x));
    if (n->memory && rng_chance(&r, 50)) x = use_memory(n, &r, x);
    if (n->depth > 0 && rng_chance(&r, n->far ? 95 : 50)) x = some_flow(&inner, &r, x);
    if (n->memory && rng_chance(&r, 25)) x = use_memory(n, &r, x);
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

static kiln_tensor *is_large(kiln_tensor *x)
{
    return kiln_greater(kiln_sum(x, NULL), kiln_scalar(0.25));
}

static kiln_tensor *some_flow(struct nest *n, struct rng *r, kiln_tensor *x)
{
    kiln_tensor *y = NULL;
    static const kiln_fn branches[] = {some_ops, other_ops, some_ops};
    switch (rng_below(r, 4)) {
    case 0: return kiln_cond(is_large(x), some_ops, other_ops, n, &x, 1, &y, 1) ? NULL : y;
    case 1: {
        kiln_tensor *index = kiln_add(kiln_cast(is_large(x), KILN_I32), kiln_cast(is_large(kiln_neg(x)), KILN_I32));
        return kiln_switch(index, branches, 3, n, &x, 1, &y, 1) ? NULL : y;
    }
    default: return kiln_for(kiln_scalar_int(rng_below(r, n->far ? 3 : 8)), some_ops, n, &x, 1, NULL, &y, 1) ? NULL : y;
    }
}

static bool is_wide(kiln_tensor *t)
{
    return kiln_tensor_dtype(t) == KILN_F32 || kiln_tensor_dtype(t) == KILN_F64;
}

kiln_tensor *step_flow(struct operands *o)
{
    struct nest n = {.seed = rng_next(&o->choice), .depth = (int)choose(o, DEEPEST), .run = o->run};
    n.other = is_wide(o->b) ? o->b : NULL;
    n.far = choose(o, 10) == 0, n.tells = choose(o, 4) == 0;
    if (n.far) n.depth = FAR - 1;
    if (!is_wide(o->a) || (n.other && kiln_tensor_dtype(n.other) != kiln_tensor_dtype(o->a))) return NULL;
    say(o, "conditions and loops of ops on %s and %s, %d deep at most%s", o->na, o->nb, n.depth + 1,
        n.tells ? ", with calls of the host" : "");
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
    struct nest n = {.seed = rng_next(&o->choice), .depth = (int)choose(o, 2), .run = o->run};
    bool rows = choose(o, 2), back = choose(o, 2);
    if (!is_wide(o->a) || !kiln_rank(o->a) || !kiln_dims(o->a)[0] || !kiln_numel(o->a)) return NULL;
    kiln_tensor *all[] = {kiln_mul(kiln_select(o->a, 0, 0), kiln_scalar(0)), o->a}, *out[2];
    say(o, "%s of a scan %s along %s", rows ? "rows" : "the last", back ? "back" : "on", o->na);
    if (kiln_scan(carry_row, &n, all, 2, KILN_SCAN(.carried = 1, .reverse = back), out, 2)) return NULL;
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
    struct nest n = {.seed = rng_next(&o->choice), .run = o->run};
    bool rows = choose(o, 2), back = choose(o, 2);
    if (!is_wide(o->a) || !kiln_rank(o->a) || !kiln_numel(o->a) || too_deep(o, o->a, 4)) return NULL;
    int64_t step = 1 + choose(o, 2);
    kiln_tensor *places = kiln_arange(o->run->dev, KILN_I32, 0, (double)(kiln_dims(o->a)[0] * step), (double)step);
    kiln_tensor *all[] = {kiln_mul(o->a, kiln_scalar(0.5)), o->a, places}, *out[2];
    say(o, "%s of a scan %s along %s that changes parts", rows ? "rows" : "the last", back ? "back" : "on", o->na);
    if (kiln_scan(change_part, &n, all, 3, KILN_SCAN(.carried = 1, .reverse = back), out, 2)) return NULL;
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
    struct nest n = {.seed = rng_next(&o->choice), .depth = (int)choose(o, 2), .run = o->run};
    kiln_tensor *out[2], *count = kiln_zeros(o->run->dev, dtype_of_run(o->run, KILN_F32), KILN_SHAPE0);
    if (!is_wide(o->a)) return NULL;
    kiln_tensor *all[] = {count, o->a};
    const kiln_loop_opts *opts = KILN_LOOP(.bound = 5 * choose(o, 3)); // 0: without a gradient in most captures
    say(o, "three trips of a while of ops on %s, %d at most", o->na, (int)opts->bound);
    return kiln_while(is_below, count_up, &n, all, 2, opts, out, 2) ? NULL : out[1];
}

// --- writes

struct target {
    kiln_tensor *memory, *by;
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

kiln_tensor *step_write_in_region(struct operands *o)
{
    bool fits = broadcasts(o->a, o->b, true) && is_wide(o->b);
    struct target t = {o->a, fits ? o->b : kiln_scalar(0.5)};
    if (!is_wide(o->a)) return NULL;
    kiln_status status;
    switch (choose(o, 3)) {
    case 0:
        say(o, "add_(%s, %s), if %s is large", o->na, fits ? o->nb : "0.5", o->na);
        status = kiln_cond(is_large(o->a), write_memory, NULL, &t, NULL, 0, NULL, 0);
        break;
    case 1:
        say(o, "add_(%s, %s), or half, if %s is large", o->na, fits ? o->nb : "0.5", o->na);
        status = kiln_cond(is_large(o->a), halve_memory, write_memory, &t, NULL, 0, NULL, 0);
        break;
    default:
        say(o, "add_(%s, %s), twice", o->na, fits ? o->nb : "0.5");
        status = kiln_for(kiln_scalar_int(2), write_memory, &t, NULL, 0, NULL, NULL, 0);
    }
    return status ? NULL : o->a;
}

kiln_tensor *step_flow_with_memory(struct operands *o)
{
    struct nest n = {.seed = rng_next(&o->choice), .depth = (int)choose(o, DEEPEST), .run = o->run, .memory = o->a};
    n.far = choose(o, 8) == 0, n.tells = choose(o, 4) == 0;
    if (n.far) n.depth = FAR - 1;
    bool fits = is_wide(o->b) && kiln_tensor_dtype(o->a) == kiln_tensor_dtype(o->b) && kiln_rank(o->b);
    if (!is_wide(o->a) || !fits) return NULL;
    say(o, "conditions and loops of ops on %s that read and write %s, %d deep at most%s", o->nb, o->na, n.depth + 1,
        n.tells ? ", with calls of the host" : "");
    kiln_tensor *x = some_flow(&n, &o->choice, kiln_mul(o->b, kiln_scalar(0.5)));
    return x && !kiln_add_(o->a, kiln_mul(kiln_mean(x, NULL), kiln_scalar(0.25))) ? o->a : NULL;
}
