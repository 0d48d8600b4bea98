// Attention that a captured function says by its parts is one launch on the CPU, with the values of its parts in f64,
// whichever numbers scale it, masks hide keys of it and views its operands are; and stays its parts where somebody sees
// what lies between.
#include "jit_fixture.h"

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

static kiln_tensor *keys_of(kiln_tensor *const *in)
{
    return kiln_transpose(in[1], -2, -1);
}

static kiln_status of_scores(kiln_tensor *scores, kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_matmul(kiln_softmax(scores, -1), in[2]);
    return kiln_error();
}

FN(plain)
{
    return of_scores(kiln_matmul(in[0], keys_of(in)), in, out);
}

FN(scaled)
{
    return of_scores(kiln_div(kiln_mul(kiln_scalar(0.75), kiln_matmul(in[0], keys_of(in))), kiln_scalar(3)), in, out);
}

FN(factors_scaled)
{
    kiln_tensor *q = kiln_mul(in[0], kiln_scalar(0.5)), *k = kiln_div(in[1], kiln_scalar(-2));
    return of_scores(kiln_matmul(q, kiln_transpose(k, -2, -1)), in, out);
}

FN(biased)
{
    kiln_tensor *scores = kiln_mul(kiln_matmul(in[0], keys_of(in)), kiln_scalar(0.25));
    return of_scores(kiln_add(in[3], scores), in, out);
}

FN(masked)
{
    kiln_tensor *scores = kiln_mul(kiln_matmul(in[0], keys_of(in)), kiln_scalar(0.25));
    return of_scores(kiln_where(in[3], scores, kiln_scalar(-INFINITY)), in, out);
}

FN(masked_by_numbers) // compared on the way
{
    kiln_tensor *scores = kiln_matmul(in[0], keys_of(in));
    return of_scores(kiln_where(kiln_greater(in[3], kiln_scalar(0)), scores, kiln_scalar(-INFINITY)), in, out);
}

FN(scaled_behind_the_mask)
{
    kiln_tensor *scores = kiln_add(kiln_matmul(in[0], keys_of(in)), in[3]);
    return of_scores(kiln_mul(scores, kiln_scalar(0.25)), in, out);
}

FN(hidden_by_a_number) // so that it still counts
{
    return of_scores(kiln_where(in[3], kiln_matmul(in[0], keys_of(in)), kiln_scalar(-1)), in, out);
}

FN(by_columns)
{
    out[0] = kiln_matmul(kiln_softmax(kiln_matmul(in[0], keys_of(in)), -2), in[2]);
    return kiln_error();
}

FN(weights_seen)
{
    out[1] = kiln_softmax(kiln_matmul(in[0], keys_of(in)), -1);
    out[0] = kiln_matmul(out[1], in[2]);
    return kiln_error();
}

FN(scores_seen)
{
    out[1] = kiln_matmul(in[0], keys_of(in));
    return of_scores(out[1], in, out);
}

FN(of_itself)
{
    out[0] = kiln_matmul(kiln_softmax(kiln_matmul(in[0], kiln_transpose(in[0], -2, -1)), -1), in[0]);
    return kiln_error();
}

FN(integer_queries)
{
    kiln_tensor *q = kiln_cast(in[0], KILN_I32);
    return of_scores(kiln_matmul(q, keys_of(in)), in, out);
}

FN(queries_of_one_number)
{
    kiln_tensor *q = kiln_full_like(in[0], 0.25);
    return of_scores(kiln_matmul(q, keys_of(in)), in, out);
}

FN(then_more)
{
    TRY_(scaled(user, in, n_in, out, n_out));
    out[0] = kiln_tanh(kiln_add(out[0], in[2]));
    return kiln_error();
}

// --- inputs

enum what { NUMBERS, BY_HEADS, RANDOM, CAUSAL, PADDING, LATE, ROW_HIDDEN, COLUMNS };
struct input {
    size_t rank;
    int64_t dims[4];
    enum what what;
};

struct example {
    const char *name;
    kiln_fn fn;
    size_t n_in, n_out;
    uint64_t launches;
    struct input in[4];
    uint64_t of_halves; // launches, which are rounded between ops where they are compared; 0: as many
};

#define A(...)      \
    {               \
        __VA_ARGS__ \
    }
#define M(rows, columns)    \
    {                       \
        2, A(rows, columns) \
    }
#define QKV(l, s, d, e) M(l, d), M(s, d), M(s, e)
#define HEADS(b, h, l, s, d, e)             \
    {4, A(b, h, l, d)}, {4, A(b, h, s, d)}, \
    {                                       \
        4, A(b, h, s, e)                    \
    }

static const struct example examples[] = {
    {"one tile", plain, 3, 1, 1, {QKV(7, 5, 3, 9)}},
    {"odd sizes", plain, 3, 1, 1, {QKV(67, 131, 17, 23)}},
    {"several tiles", plain, 3, 1, 1, {QKV(389, 521, 16, 40)}},
    {"one key", plain, 3, 1, 1, {QKV(5, 1, 3, 4)}},
    {"width 1", plain, 3, 1, 1, {QKV(6, 7, 1, 1)}},
    {"one query", plain, 3, 1, 3, {QKV(1, 40, 16, 16)}},
    {"scaled", scaled, 3, 1, 1, {QKV(33, 65, 16, 16)}},
    {"factors scaled", factors_scaled, 3, 1, 1, {HEADS(2, 3, 20, 30, 8, 12)}},
    {"heads", scaled, 3, 1, 1, {HEADS(2, 3, 50, 80, 20, 20)}},
    {"heads as they lie",
     factors_scaled,
     3,
     1,
     1,
     {{4, A(2, 3, 50, 20), BY_HEADS}, {4, A(2, 3, 80, 20), BY_HEADS}, {4, A(2, 3, 80, 24), BY_HEADS}}},
    {"keys by heads alone", scaled, 3, 1, 1, {{4, A(2, 3, 9, 8)}, {4, A(2, 3, 7, 8), BY_HEADS}, {4, A(2, 3, 7, 8)}}},
    {"values of one head", scaled, 3, 1, 1, {{4, A(2, 3, 50, 20)}, {4, A(2, 3, 80, 20)}, {4, A(2, 1, 80, 20)}}},
    {"keys of one head", scaled, 3, 1, 1, {{4, A(2, 3, 50, 20)}, {4, A(2, 1, 80, 20)}, {4, A(2, 1, 80, 20)}}},
    {"turned", plain, 3, 1, 1, {{2, A(30, 16), COLUMNS}, M(40, 16), {2, A(40, 24), COLUMNS}}},
    {"a bias for all", biased, 4, 1, 1, {HEADS(2, 3, 50, 80, 20, 20), M(50, 80)}},
    {"a bias by heads", biased, 4, 1, 1, {HEADS(2, 3, 50, 80, 20, 20), {3, A(3, 50, 80)}}},
    {"a bias by keys", biased, 4, 1, 1, {HEADS(2, 3, 50, 80, 20, 20), {4, A(2, 1, 1, 80)}}},
    {"a bias by queries", biased, 4, 1, 1, {HEADS(2, 3, 50, 80, 20, 20), M(50, 1)}},
    {"a bias, turned", biased, 4, 1, 1, {QKV(50, 80, 20, 20), {2, A(50, 80), COLUMNS}}},
    {"causal", masked, 4, 1, 1, {HEADS(1, 2, 600, 600, 16, 16), {2, A(600, 600), CAUSAL}}},
    {"causal, more keys", masked, 4, 1, 1, {QKV(300, 700, 16, 16), {2, A(300, 700), CAUSAL}}},
    {"padding", masked, 4, 1, 1, {HEADS(3, 2, 70, 600, 16, 16), {4, A(3, 1, 1, 600), PADDING}}},
    {"late keys alone", masked, 4, 1, 1, {QKV(70, 900, 16, 16), {2, A(70, 900), LATE}}},
    {"some hidden", masked, 4, 1, 1, {HEADS(2, 2, 70, 300, 16, 24), {4, A(2, 1, 70, 300), RANDOM}}},
    {"no key is seen", masked, 4, 1, 1, {QKV(20, 600, 16, 16), {2, A(20, 600), ROW_HIDDEN}}},
    {"hidden by numbers", masked_by_numbers, 4, 1, 2, {QKV(20, 30, 8, 8), M(20, 30)}, 3},
    {"of itself", of_itself, 1, 1, 1, {{3, A(3, 40, 16)}}},
    {"integers", integer_queries, 3, 1, 4, {QKV(20, 30, 3, 8)}},
    {"one number", queries_of_one_number, 3, 1, 2, {QKV(20, 30, 8, 8)}},
    {"then more", then_more, 3, 1, 2, {QKV(33, 33, 16, 16)}},
    {"scaled behind the mask", scaled_behind_the_mask, 4, 1, 3, {QKV(20, 30, 8, 8), M(20, 30)}},
    {"hidden by a number", hidden_by_a_number, 4, 1, 3, {QKV(20, 30, 8, 8), {2, A(20, 30), RANDOM}}},
    {"by columns", by_columns, 3, 1, 3, {QKV(20, 30, 8, 8)}},
    {"weights seen", weights_seen, 3, 2, 3, {QKV(20, 30, 8, 8)}},
    {"scores seen", scores_seen, 3, 2, 3, {QKV(20, 30, 8, 8)}},
};

static bool is_seen(const struct input *in, int64_t i)
{
    int64_t keys = in->dims[in->rank - 1], queries = in->dims[in->rank - 2], key = i % keys, query = i / keys % queries;
    int64_t batch = i / keys / queries;
    switch (in->what) {
    case CAUSAL: return key <= query + keys - queries;
    case PADDING: return key < keys * batch / 2 + 3; // 3 keys, some tiles, all
    case LATE: return key >= keys - 1 - query % 3;
    case ROW_HIDDEN: return query % 4 != 1 && key % 3 != 1;
    default: return i * 7919 % 13 < 6 || key == 0;
    }
}

static kiln_tensor *input_of(struct fixture *f, const struct input *in, int seed)
{
    int64_t n = 1, dims[4];
    for (size_t d = 0; d < in->rank; d++) n *= dims[d] = in->dims[d];
    if (in->what >= RANDOM && in->what != COLUMNS) {
        uint8_t *seen = malloc((size_t)n);
        assert_non_null(seen);
        for (int64_t i = 0; i < n; i++) seen[i] = is_seen(in, i);
        kiln_tensor *t = kiln_from_data(f->dev, KILN_BOOL, in->rank, dims, seen);
        free(seen);
        return t;
    }
    int a = in->what == BY_HEADS ? -3 : -2, b = in->what == BY_HEADS ? -2 : -1;
    if (in->what != NUMBERS) {
        dims[(int)in->rank + a] = in->dims[(int)in->rank + b];
        dims[(int)in->rank + b] = in->dims[(int)in->rank + a];
    }
    double *v = malloc(sizeof *v * (size_t)n);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++) v[i] = (double)((i * 7919 + seed * 131) % 211 - 105) / 64; // exact in every dtype
    kiln_tensor *t = kiln_from_data(f->dev, KILN_F64, in->rank, dims, v);
    free(v);
    return in->what == NUMBERS ? t : kiln_transpose(t, a, b);
}

// --- comparing

static void compare(const char *name, const char *dtype, kiln_tensor *got, kiln_tensor *want, double by)
{
    int64_t n = kiln_numel(want);
    double *x = malloc(sizeof *x * 2 * (size_t)n), *y = x + n;
    assert_non_null(x);
    assert_int_equal(kiln_numel(got), n);
    ok(kiln_read(kiln_cast(got, KILN_F64), x, sizeof *x * (size_t)n));
    ok(kiln_read(want, y, sizeof *y * (size_t)n));
    for (int64_t i = 0; i < n; i++) {
        bool same = isnan(x[i]) ? isnan(y[i]) : x[i] == y[i] || fabs(x[i] - y[i]) <= by * (1 + fabs(y[i]));
        if (!same) fail_msg("%s, %s: element %d is %g, not %g", name, dtype, (int)i, x[i], y[i]);
    }
    free(x);
}

static const struct {
    kiln_dtype dtype;
    double by;
} dtypes[] = {{KILN_F32, 4e-6}, {KILN_F64, 1e-13}, {KILN_F16, 4e-3}, {KILN_BF16, 3e-2}};

static void check(struct fixture *f, const struct example *e, int which)
{
    kiln_scope *scope = kiln_scope_begin();
    const char *dtype = kiln_dtype_name(dtypes[which].dtype);
    kiln_tensor *exact[4], *in[4], *want[2], *got[2];
    for (size_t i = 0; i < e->n_in; i++) {
        exact[i] = input_of(f, &e->in[i], (int)i);
        bool mask = kiln_tensor_dtype(exact[i]) == KILN_BOOL;
        in[i] = mask || which == 1 ? exact[i] : kiln_cast(exact[i], dtypes[which].dtype);
    }
    ok(e->fn(NULL, exact, e->n_in, want, e->n_out));
    kiln_function *j = kiln_jit(e->fn, NULL, NULL);
    for (int call = 0; call < 2; call++) {
        uint64_t before = launches_of(f);
        ok(kiln_call(j, in, e->n_in, got, e->n_out));
        uint64_t took = launches_of(f) - before;
        uint64_t promised = which > 1 && e->of_halves ? e->of_halves : e->launches;
        bool compiles = KILN_WITH_LLVM || promised == 1; // else what is beside attention are launches of their own
        if (compiles && took != promised)
            fail_msg("%s, %s: %d launches, not %d", e->name, dtype, (int)took, (int)promised);
        for (size_t i = 0; i < e->n_out; i++) compare(e->name, dtype, got[i], want[i], dtypes[which].by);
    }
    kiln_function_free(&j);
    kiln_scope_end(&scope);
}

static void examples_in_every_dtype(void **state)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) check(*state, &examples[i], (int)d);
}

// Weights of 0 times numbers that are none are none: hidden keys count where their values are not finite.
static void values_that_are_hidden(void **state)
{
    struct fixture *f = *state;
    enum { L = 20, S = 600, D = 8 };
    static const double bad[] = {NAN, INFINITY, 1e300};
    static const struct input of[] = {M(L, D), M(S, D), M(S, D), {2, A(L, S), CAUSAL}};
    kiln_function *j = kiln_jit(masked, NULL, NULL);
    kiln_tensor *in[4], *want, *got;
    for (int i = 0; i < 4; i++) in[i] = input_of(f, &of[i], i);
    for (int64_t i = 0; i < 4; i++) in[i] = i < 3 ? kiln_cast(in[i], KILN_F32) : in[i];
    for (int i = 0; i < 3; i++) {
        kiln_tensor *there = kiln_equal(kiln_arange(f->dev, KILN_F32, 0, S * D, 1), kiln_scalar((S - 1) * D + 3));
        in[2] = kiln_where(kiln_reshape(there, KILN_SHAPE(S, D)), kiln_scalar(bad[i]), in[2]);
        ok(masked(NULL, in, 4, &want, 1));
        ok(kiln_call(j, in, 4, &got, 1));
        compare("hidden values", "f32", got, kiln_cast(want, KILN_F64), 4e-6);
    }
    kiln_function_free(&j);
}

// What is written between the scores and the values is not read in its place.
FN(written_between)
{
    kiln_tensor *scores = kiln_matmul(in[0], keys_of(in));
    TRY_(kiln_assign(in[0], kiln_mul(in[0], kiln_scalar(2))));
    TRY_(kiln_assign(in[1], kiln_add(in[1], kiln_scalar(1))));
    return of_scores(scores, in, out);
}

static void writes_between(void **state)
{
    struct fixture *f = *state;
    static const struct input of[] = {QKV(20, 30, 8, 8)};
    kiln_tensor *in[3], *mine[3], *want, *got;
    for (int i = 0; i < 3; i++) {
        in[i] = kiln_cast(input_of(f, &of[i], i), KILN_F32);
        mine[i] = kiln_add(in[i], kiln_scalar(0));
    }
    kiln_function *j = kiln_jit(written_between, NULL, NULL);
    for (int call = 0; call < 3; call++) {
        ok(written_between(NULL, in, 3, &want, 1));
        ok(kiln_call(j, mine, 3, &got, 1));
        compare("written between", "f32", got, kiln_cast(want, KILN_F64), 4e-6);
        for (int i = 0; i < 3; i++) compare("what was written", "f32", mine[i], kiln_cast(in[i], KILN_F64), 0);
    }
    kiln_function_free(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(examples_in_every_dtype),
        FIXTURE(values_that_are_hidden),
        FIXTURE(writes_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
