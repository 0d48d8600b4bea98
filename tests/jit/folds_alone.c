// Folds that are the only op of a captured function, or have nothing to be fused with: large ones, and rows of half
// floats, are compiled, small ones run as they do eagerly. Values are those of the same op on f64.
#include "jit_fixture.h"
#include <stdio.h>

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

enum { ALL = -9 }; // in place of an axis

struct fold {
    const char *name;
    kiln_fn fn;
    bool by_element;
};

static const kiln_reduce_opts *over(const int64_t *axis, kiln_reduce_opts *room)
{
    *room = (kiln_reduce_opts){.size = sizeof *room, .axes = {*axis == ALL ? 0 : 1, axis}};
    return room;
}

FN(sums)
{
    kiln_reduce_opts room;
    out[0] = kiln_sum(in[0], over(user, &room));
    return kiln_error();
}

FN(means)
{
    kiln_reduce_opts room;
    out[0] = kiln_mean(in[0], over(user, &room));
    return kiln_error();
}

FN(largest)
{
    kiln_reduce_opts room;
    out[0] = kiln_max(in[0], over(user, &room));
    return kiln_error();
}

FN(variances)
{
    const int64_t *axis = user;
    out[0] = kiln_var(in[0], KILN_VAR(.axes = {*axis == ALL ? 0 : 1, axis}));
    return kiln_error();
}

FN(soft_largest)
{
    kiln_reduce_opts room;
    out[0] = kiln_logsumexp(in[0], over(user, &room));
    return kiln_error();
}

FN(softmaxes)
{
    const int64_t *axis = user;
    out[0] = kiln_softmax(in[0], *axis == ALL ? -1 : *axis);
    return kiln_error();
}

FN(normalised)
{
    const int64_t *axis = user;
    out[0] = kiln_layer_norm(in[0], *axis == ALL ? 2 : 1, NULL);
    return kiln_error();
}

static const struct fold folds[] = {
    {"sum", sums},
    {"mean", means},
    {"max", largest},
    {"var", variances},
    {"logsumexp", soft_largest},
    {"softmax", softmaxes, true},
    {"layer_norm", normalised, true},
};

static bool is_compiled(kiln_function *j)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    ok(kiln_explain_with(j, f, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL)));
    fclose(f);
    bool compiled = strstr(text, "stage") != NULL;
    free(text);
    return compiled;
}

static void compare(const char *what, kiln_tensor *got, kiln_tensor *want, double by)
{
    kiln_tensor *a = kiln_cast(got, KILN_F64);
    double off = kiln_item(kiln_max(kiln_abs(kiln_sub(a, want)), NULL));
    double most = kiln_item(kiln_max(kiln_abs(want), NULL));
    if (!(off <= by * (1e-3 + most))) fail_msg("%s: off by %g of %g", what, off, most);
}

static void check(struct fixture *f, const struct fold *fold, kiln_dtype dtype, int64_t m, int64_t n, int64_t axis,
                  bool turned)
{
    char what[160];
    kiln_scope *s = kiln_scope_begin();
    bool half = dtype == KILN_BF16 || dtype == KILN_F16, large = m * n >= 1 << 16;
    double by = dtype == KILN_F64 ? 1e-12 : dtype == KILN_F32 ? 1e-5 : dtype == KILN_F16 ? 2e-3 : 1e-2;
    kiln_tensor *x = kiln_normal(f->dev, KILN_F32, KILN_SHAPE(turned ? n : m, turned ? m : n), 0.5, 1), *want, *got[2];
    x = kiln_cast(turned ? kiln_transpose(x, 0, 1) : x, dtype);
    kiln_tensor *wide = kiln_cast(x, KILN_F64);
    snprintf(what, sizeof what, "%s of %s[%d,%d]%s over %d", fold->name, kiln_dtype_name(dtype), (int)m, (int)n,
             turned ? " turned" : "", (int)axis);
    ok(fold->fn(&axis, &wide, 1, &want, 1));
    ok(fold->fn(&axis, &x, 1, &got[0], 1));
    kiln_function *j = kiln_jit(fold->fn, &axis, NULL);
    for (int call = 0; call < 2; call++) ok(kiln_call(j, &x, 1, &got[1], 1));
    for (int captured = 0; captured < 2; captured++) compare(what, got[captured], want, by);
    bool in_rows = axis == -1 && !turned && (fold->by_element ? half && n >= 16 && m >= 64 : m >= 64);
    if (KILN_WITH_LLVM && (in_rows || !large) && is_compiled(j) != large)
        fail_msg("%s: %s", what, large ? "not compiled" : "compiled");
    kiln_function_free(&j);
    kiln_scope_end(&s);
}

static void of_every_kind(void **state)
{
    static const kiln_dtype dtypes[] = {KILN_F32, KILN_BF16, KILN_F16, KILN_F64};
    static const int64_t sizes[][2] = {{257, 311}, {4099, 17}, {3, 32771}, {16, 4096}, {5, 7}}, axes[] = {-1, 0, ALL};
    int turn = 0;
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++, turn++) {
            int64_t axis = folds[i].fn == normalised ? axes[turn % 2 * 2] : axes[turn % 3];
            check(*state, &folds[i], dtypes[turn % 4], sizes[s][0], sizes[s][1], axis, turn % 5 == 0);
            check(*state, &folds[i], dtypes[s % 2], sizes[s][0], sizes[s][1], -1, false);
        }
}

// What is not a number, and the largest there are, come through a compiled fold as through the catalogue's.
static void of_numbers_that_are_none(void **state)
{
    struct fixture *f = *state;
    enum { ROWS = 70, LONG = 1024 };
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0.0f, -0.0f};
    static float v[ROWS * LONG];
    int64_t axis = -1;
    for (int i = 0; i < ROWS * LONG; i++)
        v[i] = i % LONG == i / LONG * 7 ? odd[i / LONG % 7] : (float)(i % 13) / 8 - 0.75f;
    kiln_tensor *x = kiln_from_data(f->dev, KILN_F32, KILN_SHAPE(ROWS, LONG), v);
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++) {
        kiln_tensor *in = folds[i].by_element ? kiln_cast(x, KILN_BF16) : x, *want, *got;
        kiln_function *j = kiln_jit(folds[i].fn, &axis, NULL);
        ok(folds[i].fn(&axis, &in, 1, &want, 1));
        ok(kiln_call(j, &in, 1, &got, 1));
        kiln_tensor *a = kiln_cast(got, KILN_F32), *b = kiln_cast(want, KILN_F32);
        kiln_tensor *none = kiln_logical_and(kiln_isnan(a), kiln_isnan(b));
        kiln_tensor *near = kiln_less_equal(kiln_abs(kiln_sub(a, b)), kiln_mul(kiln_add(kiln_abs(b), 1), 0.01));
        kiln_tensor *fine = kiln_logical_or(kiln_logical_or(none, near), kiln_equal(a, b));
        if (!kiln_item(kiln_all(fine, NULL))) fail_msg("%s: other values than eager mode", folds[i].name);
        kiln_function_free(&j);
    }
}

struct norm {
    int64_t n_axes;
    kiln_tensor *dy;
};

static kiln_status affine(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct norm *n = user;
    out[0] = kiln_layer_norm(in[0], n->n_axes, KILN_LAYER_NORM(.weight = in[1], .bias = in[2]));
    return kiln_error();
}

// in: x, weight, bias, dy; out: y and the gradients of the first three.
FN(gradients)
{
    struct norm n = *(struct norm *)user;
    n.dy = in[3];
    return kiln_value_and_grad(affine, &n, in, 3, KILN_GRAD(.wrt = KILN_ARGS(0, 1, 2), .sens = {1, &n.dy}), out, 4);
}

static void check_gradients(struct fixture *f, kiln_dtype dtype, int64_t m, int64_t n, int64_t n_axes)
{
    static const char *const names[] = {"y", "dx", "dweight", "dbias"};
    kiln_scope *s = kiln_scope_begin();
    double by = dtype == KILN_F64 ? 1e-12 : dtype == KILN_F32 ? 3e-5 : 2e-2;
    bool rows = n_axes == 1;
    struct norm norm = {n_axes, NULL};
    kiln_tensor *in[4], *wide[4], *want[4], *got[2][4];
    for (int i = 0; i < 4; i++) {
        bool whole = i == 0 || i == 3;
        int64_t dims[] = {m, 2, n}, vector[] = {n}, plane[] = {2, n};
        kiln_tensor *t = kiln_normal(f->dev, KILN_F32,
                                     whole  ? 3
                                     : rows ? 1
                                            : 2,
                                     whole  ? dims
                                     : rows ? vector
                                            : plane,
                                     3, 1);
        in[i] = kiln_cast(t, dtype);
        wide[i] = kiln_cast(in[i], KILN_F64);
    }
    ok(gradients(&norm, wide, 4, want, 4));
    kiln_function *j = kiln_jit(gradients, &norm, NULL);
    for (int call = 0; call < 2; call++) ok(kiln_call(j, in, 4, got[call], 4));
    for (int i = 0; i < 4; i++) {
        char what[96];
        snprintf(what, sizeof what, "%s of %s[%d,2,%d] over %d", names[i], kiln_dtype_name(dtype), (int)m, (int)n,
                 (int)n_axes);
        compare(what, got[0][i], want[i], by);
        if (kiln_item(kiln_sum(kiln_cast(kiln_not_equal(got[0][i], got[1][i]), KILN_F32), NULL)))
            fail_msg("%s: other bits in the second call", what);
    }
    kiln_function_free(&j);
    kiln_scope_end(&s);
}

// The last of them touches more than caches hold, in rows that begin anywhere in a line.
static void norms_have_gradients(void **state)
{
    static const kiln_dtype dtypes[] = {KILN_F32, KILN_F64, KILN_BF16};
    static const int64_t sizes[][2] = {{1, 1}, {3, 7}, {37, 31}, {65, 257}, {5, 4099}, {64, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t n_axes = 1; n_axes < 3; n_axes++)
            check_gradients(*state, dtypes[(i + (size_t)n_axes) % 3], sizes[i][0], sizes[i][1], n_axes);
    check_gradients(*state, KILN_F32, 1501, 1031, 1);
}

int main(void)
{
    if (choose_device(0, NULL)) return 77;
    const struct CMUnitTest tests[] = {FIXTURE(of_every_kind), FIXTURE(of_numbers_that_are_none),
                                       FIXTURE(norms_have_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
