// Control flow: what kiln_cond, kiln_switch, kiln_while, kiln_for and kiln_scan give, eagerly and captured, beside the
// same written out with statements of C.
#include "jit_fixture.h"
#include <kiln/control.h>

// --- a program in all ways, and the same written out

struct program {
    const char *name;
    kiln_fn fn, plain;
    const char *inputs; // x: f32[3], m: f32[4,3], s: f32[], b: true, f: false, n: an i64 of 5, 0 to 9: an i64
    size_t n_out;
    bool differentiable;
    bool of_inputs; // how often a loop runs depends on an input: STRICT and TRACE have no gradient
};

static kiln_tensor *input(struct fixture *f, char kind, int i)
{
    double shift = 0.25 * i;
    switch (kind) {
    case 'x': return kiln_add(kiln_mul(kiln_arange(f->dev, KILN_F32, 0, 3, 1), kiln_scalar(0.5)), kiln_scalar(shift));
    case 'm': {
        kiln_tensor *line = kiln_arange(f->dev, KILN_F32, 0, 12, 1);
        return kiln_reshape(kiln_sub(kiln_mul(line, kiln_scalar(0.125)), kiln_scalar(0.5)), KILN_SHAPE(4, 3));
    }
    case 's': return kiln_full(f->dev, KILN_F32, KILN_SHAPE0, 0.75 + shift);
    case 'b':
    case 'f': return kiln_full(f->dev, KILN_BOOL, KILN_SHAPE0, kind == 'b');
    case 'n': return kiln_full(f->dev, KILN_I64, KILN_SHAPE0, 5);
    default: return kiln_full(f->dev, KILN_I64, KILN_SHAPE0, kind - '0');
    }
}

static size_t make_inputs(struct fixture *f, const char *kinds, kiln_tensor **in)
{
    size_t n = strlen(kinds);
    for (size_t i = 0; i < n; i++) in[i] = input(f, kinds[i], (int)i);
    return n;
}

enum { MOST = 8 };

static void same_lists(const char *what, bool exact, kiln_tensor *const *got, kiln_tensor *const *want, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!equal(got[i], want[i])) print_error("%s: output %zu\n", what, i);
        if (exact) near(got[i], want[i], 0);
        same(got[i], want[i]);
    }
}

struct way {
    const char *name;
    bool captured;
    kiln_capture capture;
};
static const struct way ways[] = {
    {"eager", false, KILN_CAPTURE_STRICT},
    {"AUTO", true, KILN_CAPTURE_AUTO},
    {"STRICT", true, KILN_CAPTURE_STRICT},
    {"TRACE", true, KILN_CAPTURE_TRACE},
};

static void compare_values(struct fixture *f, const struct program *p, const struct way *w)
{
    kiln_tensor *in[MOST], *want[MOST], *got[MOST];
    char what[80];
    size_t n = make_inputs(f, p->inputs, in);
    ok(p->plain(f, in, n, want, p->n_out));
    kiln_function *j = w->captured ? kiln_jit(p->fn, f, KILN_JIT(.capture = w->capture)) : NULL;
    snprintf(what, sizeof what, "%s, %s", p->name, w->name);
    for (int call = 0; call < 3; call++) {
        kiln_status status = j ? kiln_call(j, in, n, got, p->n_out) : p->fn(f, in, n, got, p->n_out);
        if (status) print_error("%s:\n", what);
        ok(status);
        same_lists(what, !j, got, want, p->n_out);
    }
    kiln_function_free(&j);
}

struct sum_of {
    struct fixture *f;
    kiln_fn fn;
    kiln_tensor *const *all;
    const char *inputs;
    size_t n_out;
    kiln_function *function;
};

// A number of everything that it gives, by its inputs of floats.
static kiln_status sum_all(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct sum_of *s = user;
    kiln_tensor *all[MOST], *made[MOST];
    size_t n = strlen(s->inputs), k = 0;
    for (size_t i = 0; i < n; i++) all[i] = strchr("xms", s->inputs[i]) ? in[k++] : s->all[i];
    TRY_(s->function ? kiln_call(s->function, all, n, made, s->n_out) : s->fn(s->f, all, n, made, s->n_out));
    out[0] = kiln_scalar(0);
    for (size_t i = 0; i < s->n_out; i++) {
        if (kiln_tensor_dtype(made[i]) < KILN_F16) continue;
        kiln_tensor *weighed = kiln_mul(kiln_square(made[i]), kiln_scalar(0.5 + (double)i));
        out[0] = kiln_add(out[0], kiln_sum(weighed, NULL));
    }
    (void)n_in, (void)n_out;
    return kiln_error();
}

// The first derivatives, then the derivatives of their sum of squares.
static size_t differentiate(struct fixture *f, const struct program *p, const struct way *w, bool plain,
                            kiln_tensor **out);

static kiln_status slopes(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *d[MOST];
    int64_t wrt[MOST];
    for (size_t i = 0; i < n_in; i++) wrt[i] = (int64_t)i;
    kiln_grad_opts o = {.size = sizeof o, .wrt = {n_in, wrt}};
    TRY_(kiln_grad(sum_all, user, in, n_in, &o, d, n_in));
    out[0] = kiln_scalar(0);
    for (size_t i = 0; i < n_in; i++) out[0] = kiln_add(out[0], kiln_sum(kiln_square(d[i]), NULL));
    (void)n_out;
    return kiln_error();
}

static size_t differentiate(struct fixture *f, const struct program *p, const struct way *w, bool plain,
                            kiln_tensor **out)
{
    kiln_tensor *all[MOST], *in[MOST];
    int64_t wrt[MOST];
    size_t n = make_inputs(f, p->inputs, all), k = 0;
    struct sum_of s = {f, plain ? p->plain : p->fn, all, p->inputs, p->n_out, NULL};
    if (w->captured && !plain) s.function = kiln_jit(p->fn, f, KILN_JIT(.capture = w->capture));
    for (size_t i = 0; i < n; i++)
        if (strchr("xms", p->inputs[i])) in[k++] = all[i];
    for (size_t i = 0; i < k; i++) wrt[i] = (int64_t)i;
    kiln_grad_opts o = {.size = sizeof o, .wrt = {k, wrt}};
    ok(kiln_grad(sum_all, &s, in, k, &o, out, k));
    ok(kiln_grad(slopes, &s, in, k, &o, out + k, k));
    kiln_function_free(&s.function);
    return 2 * k;
}

static void compare_gradients(struct fixture *f, const struct program *p, const struct way *w)
{
    if (p->of_inputs && w->captured && w->capture != KILN_CAPTURE_AUTO) return;
    kiln_tensor *want[2 * MOST], *got[2 * MOST];
    char what[80];
    size_t n = differentiate(f, p, w, true, want);
    snprintf(what, sizeof what, "gradients of %s, %s", p->name, w->name);
    assert_int_equal(differentiate(f, p, w, false, got), n);
    for (size_t i = 0; i < n; i++) {
        if (!equal(got[i], want[i])) print_error("%s: number %zu\n", what, i);
        near(got[i], want[i], w->captured ? 1e-4 : 0); // eagerly the same ops run
    }
}

// --- the programs

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
#define BEGIN (void)user, (void)n_in, (void)n_out
#define END   return kiln_error()

FN(tanh_of)
{
    BEGIN;
    out[0] = kiln_tanh(kiln_mul(in[0], kiln_scalar(2)));
    END;
}

FN(exp_of)
{
    BEGIN;
    out[0] = kiln_exp(kiln_neg(in[0]));
    END;
}

FN(one_of_two)
{
    BEGIN;
    return kiln_cond(in[0], tanh_of, exp_of, NULL, in + 1, 1, out, 1);
}

FN(one_of_two_plain)
{
    return (kiln_item(in[0]) ? tanh_of : exp_of)(user, in + 1, n_in - 1, out, n_out);
}

// By a value that is computed, on what is visible from outside.
struct outer {
    kiln_tensor *x, *y;
};

FN(sum_of_both)
{
    BEGIN;
    const struct outer *o = user;
    out[0] = kiln_add(kiln_mul(o->x, o->y), in[0]);
    out[1] = kiln_sum(o->x, NULL);
    END;
}

FN(difference)
{
    BEGIN;
    const struct outer *o = user;
    out[0] = kiln_sub(o->x, in[0]);
    out[1] = kiln_mul(kiln_sum(o->y, NULL), kiln_scalar(3));
    END;
}

FN(visible)
{
    BEGIN;
    struct outer o = {kiln_sin(in[0]), kiln_cos(in[1])};
    kiln_tensor *larger = kiln_greater(kiln_sum(o.x, NULL), kiln_sum(o.y, NULL));
    return kiln_cond(larger, sum_of_both, difference, &o, &in[2], 1, out, 2);
}

FN(visible_plain)
{
    BEGIN;
    struct outer o = {kiln_sin(in[0]), kiln_cos(in[1])};
    bool larger = kiln_item(kiln_sum(o.x, NULL)) > kiln_item(kiln_sum(o.y, NULL));
    return (larger ? sum_of_both : difference)(&o, &in[2], 1, out, 2);
}

FN(add_one)
{
    BEGIN;
    return kiln_add_(user, kiln_scalar(1));
}

FN(double_half)
{
    BEGIN;
    kiln_tensor *half = kiln_narrow(user, 0, 1, 2);
    return kiln_mul_(half, kiln_sum(in[0], NULL));
}

FN(writes)
{
    BEGIN;
    kiln_tensor *memory = kiln_mul(in[1], kiln_scalar(1.5)), *row = kiln_select(in[2], 0, 1);
    TRY_(kiln_cond(in[0], add_one, double_half, memory, &row, 1, NULL, 0));
    out[0] = kiln_mul(memory, row);
    END;
}

FN(writes_plain)
{
    BEGIN;
    kiln_tensor *memory = kiln_mul(in[1], kiln_scalar(1.5)), *row = kiln_select(in[2], 0, 1);
    TRY_((kiln_item(in[0]) ? add_one : double_half)(memory, &row, 1, NULL, 0));
    out[0] = kiln_mul(memory, row);
    END;
}

// The function's own value_and_grad, by what a region writes: with an else, without one, and by a loop.
enum { WITH_ELSE, WITHOUT_ELSE, BY_LOOP, WRITTEN_OUT = 4 };

static kiln_status double_memory(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)in, (void)n_in, (void)out, (void)n_out;
    return kiln_add_(user, user);
}

static kiln_status write_input(int how, kiln_tensor *x)
{
    kiln_tensor *large = kiln_greater(kiln_sum(x, NULL), kiln_scalar(0));
    kiln_fn other = (how & 3) == WITH_ELSE ? add_one : NULL;
    if ((how & 3) == BY_LOOP) {
        if (!(how & WRITTEN_OUT)) return kiln_for(kiln_scalar_int(2), double_memory, x, NULL, 0, NULL, NULL, 0);
        TRY_(double_memory(x, NULL, 0, NULL, 0));
        return double_memory(x, NULL, 0, NULL, 0);
    }
    if (!(how & WRITTEN_OUT)) return kiln_cond(large, double_memory, other, x, NULL, 0, NULL, 0);
    if (kiln_item(large)) return double_memory(x, NULL, 0, NULL, 0);
    return other ? other(x, NULL, 0, NULL, 0) : KILN_OK;
}

static kiln_status loss_of_written(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)n_in, (void)n_out;
    TRY_(write_input(*(const int *)user, in[0]));
    out[0] = kiln_sum(kiln_mul(in[0], kiln_scalar(0.25)), NULL);
    END;
}

static kiln_status slopes_by_written(int how, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *x[] = {kiln_mul(kiln_stop_gradient(in[0]), kiln_scalar(2))};
    return kiln_value_and_grad(loss_of_written, &how, x, 1, NULL, out, 2);
}

#define WRITTEN(name, how)                      \
    FN(name)                                    \
    {                                           \
        BEGIN;                                  \
        return slopes_by_written(how, in, out); \
    }
WRITTEN(written_with_else, WITH_ELSE)
WRITTEN(written_with_else_plain, WITH_ELSE | WRITTEN_OUT)
WRITTEN(written_without_else, WITHOUT_ELSE)
WRITTEN(written_without_else_plain, WITHOUT_ELSE | WRITTEN_OUT)
WRITTEN(written_by_loop, BY_LOOP)
WRITTEN(written_by_loop_plain, BY_LOOP | WRITTEN_OUT)

// Memory without a gradient, to which a loop adds what has one.
struct sums {
    kiln_tensor *sum, *by;
};

FN(add_to_sum)
{
    BEGIN;
    const struct sums *s = user;
    return kiln_add_(s->sum, s->by);
}

FN(gains)
{
    BEGIN;
    struct sums s = {kiln_zeros_like(in[0]), kiln_sin(in[0])};
    TRY_(kiln_for(kiln_scalar_int(3), add_to_sum, &s, NULL, 0, NULL, NULL, 0));
    out[0] = s.sum;
    END;
}

FN(gains_plain)
{
    BEGIN;
    struct sums s = {kiln_zeros_like(in[0]), kiln_sin(in[0])};
    for (int i = 0; i < 3; i++) TRY_(add_to_sum(&s, NULL, 0, NULL, 0));
    out[0] = s.sum;
    END;
}

// Two handles on one memory, of which a region writes one.
FN(seen_by_both)
{
    BEGIN;
    kiln_tensor *line = kiln_reshape(kiln_mul(in[0], kiln_scalar(1.5)), 1, (const int64_t[]){kiln_numel(in[0])});
    TRY_(kiln_cond(kiln_less(kiln_sum(line, NULL), kiln_scalar(1e6)), add_one, NULL, line, NULL, 0, NULL, 0));
    out[0] = kiln_mul(line, kiln_sum(kiln_reshape(line, 2, (const int64_t[]){kiln_numel(in[0]), 1}), NULL));
    END;
}

FN(seen_by_both_plain)
{
    BEGIN;
    kiln_tensor *line = kiln_reshape(kiln_mul(in[0], kiln_scalar(1.5)), 1, (const int64_t[]){kiln_numel(in[0])});
    TRY_(add_one(line, NULL, 0, NULL, 0));
    out[0] = kiln_mul(line, kiln_sum(line, NULL));
    END;
}

// No trip, and what a gradient would keep of it.
FN(sin_of_carried)
{
    BEGIN;
    out[0] = kiln_sin(in[1]);
    END;
}

FN(no_trip)
{
    BEGIN;
    return kiln_for(kiln_scalar_int(0), sin_of_carried, NULL, in, 1, NULL, out, 1);
}

FN(no_trip_plain)
{
    BEGIN;
    out[0] = kiln_alias(in[0]);
    END;
}

FN(without_else)
{
    BEGIN;
    kiln_tensor *memory = kiln_sub(in[1], kiln_scalar(0.5));
    TRY_(kiln_cond(in[0], add_one, NULL, memory, NULL, 0, NULL, 0));
    out[0] = memory;
    END;
}

FN(without_else_plain)
{
    BEGIN;
    kiln_tensor *memory = kiln_sub(in[1], kiln_scalar(0.5));
    if (kiln_item(in[0])) TRY_(add_one(memory, NULL, 0, NULL, 0));
    out[0] = memory;
    END;
}

static const kiln_fn three[] = {tanh_of, exp_of, sum_of_both};
FN(one_of_three)
{
    BEGIN;
    struct outer o = {in[1], in[1]};
    kiln_tensor *both[2];
    TRY_(kiln_switch(in[0], three, 2, &o, in + 1, 1, out, 1));
    TRY_(kiln_switch(kiln_add(in[0], kiln_scalar_int(1)), (const kiln_fn[]){difference, difference, sum_of_both}, 3, &o,
                     in + 1, 1, both, 2));
    out[1] = both[0];
    out[2] = both[1];
    END;
}

FN(one_of_three_plain)
{
    BEGIN;
    struct outer o = {in[1], in[1]};
    kiln_tensor *both[2];
    TRY_(exp_of(&o, in + 1, 1, out, 1));
    TRY_(sum_of_both(&o, in + 1, 1, both, 2));
    out[1] = both[0];
    out[2] = both[1];
    END;
}

FN(is_large)
{
    BEGIN;
    out[0] = kiln_greater(kiln_sum(kiln_abs(in[0]), NULL), kiln_scalar(0.1));
    END;
}

FN(shrink)
{
    BEGIN;
    out[0] = kiln_mul(kiln_sin(in[0]), kiln_scalar(0.7));
    out[1] = kiln_add(in[1], kiln_scalar(1));
    END;
}

FN(shrinks)
{
    BEGIN;
    kiln_tensor *carried[] = {in[0], in[1]};
    return kiln_while(is_large, shrink, NULL, carried, 2, NULL, out, 2);
}

FN(shrinks_plain)
{
    BEGIN;
    kiln_tensor *now[] = {in[0], in[1]}, *next[2], *large;
    for (;;) {
        TRY_(is_large(NULL, now, 2, &large, 1));
        if (!kiln_item(large)) break;
        TRY_(shrink(NULL, now, 2, next, 2));
        now[0] = next[0];
        now[1] = next[1];
    }
    out[0] = kiln_alias(now[0]);
    out[1] = kiln_alias(now[1]);
    END;
}

FN(weighed_step)
{
    BEGIN;
    const struct outer *o = user;
    out[0] = kiln_add(kiln_mul(in[1], o->x), kiln_mul(in[0], kiln_scalar(0.125)));
    out[1] = kiln_add(in[2], kiln_sum(out[0], NULL)); // from a number
    END;
}

FN(counts)
{
    BEGIN;
    struct outer o = {kiln_tanh(in[1]), NULL};
    kiln_tensor *carried[] = {in[1], kiln_scalar(0)};
    return kiln_for(in[0], weighed_step, &o, carried, 2, NULL, out, 2);
}

FN(counts_plain)
{
    BEGIN;
    struct outer o = {kiln_tanh(in[1]), NULL};
    kiln_tensor *now[] = {NULL, in[1], kiln_scalar(0)};
    for (int64_t i = 0; i < kiln_item_int(in[0]); i++) {
        kiln_tensor *next[2];
        now[0] = kiln_scalar_int(i);
        TRY_(weighed_step(&o, now, 3, next, 2));
        now[1] = next[0];
        now[2] = next[1];
    }
    out[0] = kiln_alias(now[1]);
    out[1] = kiln_alias(now[2]);
    END;
}

FN(counts_to_three)
{
    BEGIN;
    struct outer o = {kiln_tanh(in[0]), NULL};
    kiln_tensor *carried[] = {in[0], kiln_scalar(0)};
    return kiln_for(kiln_scalar_int(3), weighed_step, &o, carried, 2, NULL, out, 2);
}

FN(counts_to_three_plain)
{
    kiln_tensor *all[] = {kiln_scalar_int(3), in[0]};
    return counts_plain(user, all, n_in + 1, out, n_out);
}

FN(recurrent)
{
    BEGIN;
    const struct outer *o = user;
    out[0] = kiln_tanh(kiln_add(kiln_mul(in[0], o->x), in[1]));
    out[1] = kiln_mul(out[0], kiln_scalar(2));
    out[2] = kiln_sum(in[1], NULL);
    END;
}

FN(scans)
{
    BEGIN;
    struct outer o = {kiln_sin(in[0]), NULL};
    return kiln_scan(recurrent, &o, in, 2, KILN_SCAN(.carried = 1), out, 3);
}

FN(scans_back)
{
    BEGIN;
    struct outer o = {kiln_sin(in[0]), NULL};
    return kiln_scan(recurrent, &o, in, 2, KILN_SCAN(.carried = 1, .reverse = true), out, 3);
}

static kiln_status scan_plain(kiln_tensor *const *in, kiln_tensor **out, bool back)
{
    struct outer o = {kiln_sin(in[0]), NULL};
    kiln_tensor *now[] = {in[0], NULL}, *rows[2][4], *next[3];
    for (int64_t i = 0; i < 4; i++) {
        int64_t row = back ? 3 - i : i;
        now[1] = kiln_select(in[1], 0, row);
        TRY_(recurrent(&o, now, 2, next, 3));
        now[0] = next[0];
        rows[0][row] = next[1];
        rows[1][row] = next[2];
    }
    out[0] = kiln_alias(now[0]);
    out[1] = kiln_stack(rows[0], 4, 0);
    out[2] = kiln_stack(rows[1], 4, 0);
    END;
}

FN(scans_plain)
{
    BEGIN;
    return scan_plain(in, out, false);
}

FN(scans_back_plain)
{
    BEGIN;
    return scan_plain(in, out, true);
}

// A loop in a branch in a loop.
FN(inner_step)
{
    BEGIN;
    out[0] = kiln_sin(kiln_add(in[1], in[0]));
    END;
}

FN(run_inner)
{
    BEGIN;
    return kiln_for(kiln_scalar_int(2), inner_step, NULL, in, 1, NULL, out, 1);
}

FN(outer_step)
{
    BEGIN;
    kiln_tensor *small = kiln_less(kiln_sum(in[1], NULL), kiln_scalar(1));
    return kiln_cond(small, run_inner, tanh_of, NULL, in + 1, 1, out, 1);
}

FN(nested)
{
    BEGIN;
    return kiln_for(in[1], outer_step, NULL, in, 1, NULL, out, 1);
}

FN(nested_plain)
{
    BEGIN;
    kiln_tensor *x = in[0], *next;
    for (int64_t i = 0; i < kiln_item_int(in[1]); i++) {
        if (kiln_item(kiln_sum(x, NULL)) < 1)
            for (int64_t k = 0; k < 2; k++) {
                kiln_tensor *all[] = {kiln_scalar_int(k), x};
                TRY_(inner_step(NULL, all, 2, &next, 1));
                x = next;
            }
        else {
            TRY_(tanh_of(NULL, &x, 1, &next, 1));
            x = next;
        }
    }
    out[0] = kiln_alias(x);
    END;
}

FN(nested_thrice)
{
    BEGIN;
    return kiln_for(kiln_scalar_int(3), outer_step, NULL, in, 1, NULL, out, 1);
}

FN(nested_thrice_plain)
{
    kiln_tensor *all[] = {in[0], kiln_scalar_int(3)};
    return nested_plain(user, all, n_in + 1, out, n_out);
}

static const struct program programs[] = {
    {"cond, true", one_of_two, one_of_two_plain, "bx", 1, true},
    {"cond, false", one_of_two, one_of_two_plain, "fx", 1, true},
    {"visible", visible, visible_plain, "xxs", 2, true},
    {"visible, the other", visible, visible_plain, "sxx", 2, true},
    {"writes, true", writes, writes_plain, "bxm", 1, true},
    {"writes to a part", writes, writes_plain, "fxm", 1, true},
    {"value_and_grad, written in a branch", written_with_else, written_with_else_plain, "x", 2, false},
    {"value_and_grad, written in the only branch", written_without_else, written_without_else_plain, "x", 2, false},
    {"value_and_grad, written in a loop", written_by_loop, written_by_loop_plain, "x", 2, false},
    {"gains a gradient", gains, gains_plain, "x", 1, true},
    {"seen by both", seen_by_both, seen_by_both_plain, "x", 1, true},
    {"no trip", no_trip, no_trip_plain, "x", 1, true},
    {"without else, true", without_else, without_else_plain, "bx", 1, true},
    {"without else, false", without_else, without_else_plain, "fx", 1, true},
    {"switch", one_of_three, one_of_three_plain, "1x", 3, true},
    {"while", shrinks, shrinks_plain, "xs", 2, true, true},
    {"for", counts, counts_plain, "nx", 2, true, true},
    {"for of none", nested, nested_plain, "x0", 1, true, true},
    {"for, a number", counts_to_three, counts_to_three_plain, "x", 2, true},
    {"scan", scans, scans_plain, "xm", 3, true},
    {"scan back", scans_back, scans_back_plain, "xm", 3, true},
    {"nested", nested, nested_plain, "xn", 1, true, true},
    {"nested, three times", nested_thrice, nested_thrice_plain, "x", 1, true},
};

static void values_are_those_written_out(void **state)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) compare_values(*state, &programs[i], &ways[w]);
}

static void gradients_are_those_written_out(void **state)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            if (programs[i].differentiable) compare_gradients(*state, &programs[i], &ways[w]);
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(values_are_those_written_out),
        FIXTURE(gradients_are_those_written_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
