// Tensors of 9 to 16 dimensions that do not merge: the ops of rank/cases.def eagerly and captured, against values
// computed on the host; their gradients; writes through views; that what does merge is still fused.
#include "../jit/jit_fixture.h"
#include "rank/rank.h"

#include <stdio.h>

static const struct rank_case {
    const char *name;
    kiln_tensor *(*run)(kiln_tensor *const *in, int rank);
    struct array (*want)(const struct array *in, int rank);
    bool smooth;
    enum pattern in[3];
} cases[] = {
#define CASE(name, smooth, ...) {#name, run_##name, want_##name, smooth, {__VA_ARGS__}},
#include "rank/cases.def"
#undef CASE
};

static bool on_cpu(void)
{
    return !strcmp(jit_device, "cpu");
}

struct call {
    const struct rank_case *c;
    int rank;
    size_t n;
    struct array host[3];
    kiln_tensor *in[3];
};

static kiln_tensor *tensor_of(struct fixture *f, const struct array *a, kiln_dtype dtype)
{
    kiln_tensor *wide = kiln_from_data(f->dev, KILN_F64, (size_t)a->rank, a->dims, a->v);
    return kiln_cast(wide, dtype);
}

static void begin(struct call *call, struct fixture *f, const struct rank_case *c, int rank, kiln_dtype dtype)
{
    array_drop_all();
    *call = (struct call){.c = c, .rank = rank};
    for (size_t i = 0; i < 3 && c->in[i] != NO_INPUT; i++, call->n++) {
        call->host[i] = pattern_array(c->in[i], rank, (uint32_t)(i + 7 * (size_t)rank));
        call->in[i] = tensor_of(f, &call->host[i], pattern_is_index(c->in[i]) ? KILN_I64 : dtype);
    }
}

static void compare(const struct call *call, const char *way, kiln_tensor *got, const struct array *want)
{
    if (!got) print_error("%s of rank %d, %s: %s\n", call->c->name, call->rank, way, kiln_error_message());
    assert_non_null(got);
    assert_int_equal(kiln_rank(got), want->rank);
    for (int d = 0; d < want->rank; d++) assert_int_equal(kiln_dims(got)[d], want->dims[d]);
    double *v = array_new(want->rank, want->dims).v;
    read_all(got, v);
    for (int64_t i = 0; i < want->n; i++) {
        bool close = fabs(v[i] - want->v[i]) <= 2e-5 * (1 + fabs(want->v[i]));
        if (!close)
            print_error("%s of rank %d, %s: element %lld is %.9g, not %.9g\n", call->c->name, call->rank, way,
                        (long long)i, v[i], want->v[i]);
        assert_true(close);
    }
}

static void check(const struct call *call, const char *way, kiln_tensor *got)
{
    struct array want = call->c->want(call->host, call->rank);
    compare(call, way, got, &want);
}

// A software driver takes long to compile: where it may be one, the highest rank alone.
static void ops_are_right(void **state)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int rank = on_cpu() ? 9 : KILN_MAX_RANK; rank <= KILN_MAX_RANK; rank++) {
            kiln_scope *s = kiln_scope_begin();
            struct call call;
            begin(&call, *state, &cases[k], rank, KILN_F32);
            check(&call, "eagerly", cases[k].run(call.in, rank));
            kiln_scope_end(&s);
        }
}

static kiln_status run_case(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct call *call = user;
    out[0] = call->c->run(in, call->rank);
    return kiln_error();
}

// With a value before it and one behind it, which fusion may take in.
static kiln_status run_between(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct call *call = user;
    kiln_tensor *doubled[3];
    for (size_t i = 0; i < n_in; i++) {
        bool index = pattern_is_index(call->c->in[i]);
        doubled[i] = index ? in[i] : kiln_sub(kiln_mul(in[i], kiln_scalar(2)), in[i]);
    }
    kiln_tensor *y = call->c->run(doubled, call->rank);
    if (!y) return kiln_error();
    y = kiln_cast(y, KILN_F32);
    out[0] = kiln_sub(kiln_mul(y, kiln_scalar(2)), y);
    return kiln_error();
}

static void check_captured(struct call *call, kiln_fn fn, const char *way, kiln_capture capture)
{
    kiln_function *j = kiln_jit(fn, call, KILN_JIT(.capture = capture));
    for (int turn = 0; turn < 2; turn++) {
        kiln_tensor *out = NULL;
        if (kiln_call(j, call->in, call->n, &out, 1)) out = NULL;
        check(call, way, out);
    }
    kiln_function_free(&j);
}

// A software driver takes a second to compile the kernels of a case: on Vulkan KILN_TEST_FULL asks for all of them.
static void captures_are_right(void **state)
{
    static const int ranks[] = {KILN_MAX_RANK, 13, 12, 9};
    size_t step = on_cpu() || getenv("KILN_TEST_FULL") ? 1 : 3;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k += step)
        for (size_t r = 0; r < (on_cpu() ? sizeof ranks / sizeof *ranks : 1); r++) {
            kiln_scope *s = kiln_scope_begin();
            struct call call;
            begin(&call, *state, &cases[k], ranks[r], KILN_F32);
            check_captured(&call, run_between, "STRICT", KILN_CAPTURE_STRICT);
            if (r % 3 == 0) check_captured(&call, run_between, "TRACE", KILN_CAPTURE_TRACE);
            if (r % 3 == 0) check_captured(&call, run_between, "AUTO", KILN_CAPTURE_AUTO);
            kiln_scope_end(&s);
        }
}

// Central differences take a call an element: few dimensions, but more than 8; all of them where inputs are broadcast.
static void gradients_are_right(void **state)
{
    if (!on_cpu()) return;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        bool broadcasts = cases[k].in[0] == EVEN && cases[k].in[2] == NO_INPUT;
        for (int rank = 9; cases[k].smooth && rank <= KILN_MAX_RANK; rank += KILN_MAX_RANK - 9) {
            if (rank > 9 && !broadcasts) break;
            kiln_scope *s = kiln_scope_begin();
            struct call call;
            begin(&call, *state, &cases[k], rank, KILN_F64);
            if (kiln_gradcheck(run_case, &call, call.in, call.n, NULL))
                fail_msg("%s of rank %d: %s", cases[k].name, rank, kiln_error_message());
            kiln_scope_end(&s);
        }
    }
}

// On another device the gradients are those of the CPU.
static void gradients_are_those_of_the_cpu(void **state)
{
    struct fixture *f = *state, cpu = {.dev = kiln_device_open("cpu")};
    assert_non_null(cpu.dev);
    for (size_t k = 0; k < sizeof cases / sizeof *cases && !on_cpu(); k++) {
        if (!cases[k].smooth) continue;
        kiln_scope *s = kiln_scope_begin();
        kiln_tensor *right = NULL, *got = NULL;
        struct call call;
        begin(&call, &cpu, &cases[k], 10, KILN_F32);
        ok(kiln_grad(run_case, &call, call.in, call.n, NULL, &right, 1));
        begin(&call, f, &cases[k], 10, KILN_F32);
        ok(kiln_grad(run_case, &call, call.in, call.n, NULL, &got, 1));
        struct array want = array_new((int)kiln_rank(right), kiln_dims(right));
        read_all(right, want.v);
        compare(&call, "its gradient", got, &want);
        kiln_scope_end(&s);
    }
    kiln_device_close(&cpu.dev);
}

// Every second of 16 dimensions is walked backwards.
static void writes_through_views(void **state)
{
    struct fixture *f = *state;
    int64_t step[KILN_MAX_RANK], i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    array_drop_all();
    struct array x = pattern_array(EVEN, KILN_MAX_RANK, 1), y = pattern_array(ODD, KILN_MAX_RANK, 2);
    struct array base = pattern_array(FULL, KILN_MAX_RANK, 3);
    for (int d = 0; d < KILN_MAX_RANK; d++) step[d] = d % 2 ? -1 : 1;
    kiln_tensor *t = tensor_of(f, &base, KILN_F32);
    kiln_tensor *view = kiln_flip(t, KILN_AXES(1));
    view = kiln_slice(view, KILN_SLICE(.step = {KILN_MAX_RANK, step}));
    kiln_tensor *product = kiln_mul(tensor_of(f, &x, KILN_F32), tensor_of(f, &y, KILN_F32));
    ok(kiln_add_(view, product));
    double *v = array_new(KILN_MAX_RANK, base.dims).v;
    read_all(t, v);
    EACH(&base, i)
    {
        for (int d = 0; d < KILN_MAX_RANK; d++) j[d] = d % 2 && d != 1 ? base.dims[d] - 1 - i[d] : i[d];
        double want = at(&base, KILN_MAX_RANK, i) + at(&x, KILN_MAX_RANK, j) * at(&y, KILN_MAX_RANK, j);
        double got = v[array_at(&base, KILN_MAX_RANK, i) - base.v];
        assert_true(fabs(got - want) <= 2e-5 * (1 + fabs(want)));
    }
}

// Dimensions that all operands walk alike are one: a launch, whatever the rank.
static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = kiln_tanh(kiln_add(in[0], in[1]));
    out[0] = kiln_sum(kiln_mul(x, in[0]), KILN_REDUCE(.axes = KILN_AXES(-1, -2)));
    return kiln_error();
}

static void what_merges_is_fused(void **state)
{
    struct fixture *f = *state;
    if (!fuses(f)) return;
    array_drop_all();
    struct array a = pattern_array(FULL, KILN_MAX_RANK, 1), b = pattern_array(FULL, KILN_MAX_RANK, 2);
    kiln_tensor *in[] = {tensor_of(f, &a, KILN_F32), tensor_of(f, &b, KILN_F32)}, *out, *want;
    kiln_function *j = kiln_jit(chain, NULL, NULL);
    ok(kiln_call(j, in, 2, &out, 1));
    uint64_t before = launches_of(f);
    ok(kiln_call(j, in, 2, &out, 1));
    assert_int_equal(launches_of(f) - before, 1);
    ok(chain(NULL, in, 2, &want, 1));
    out = kiln_slice(kiln_reshape(out, KILN_SHAPE(-1)), KILN_SLICE(.stop = KILN_ARGS(200)));
    want = kiln_slice(kiln_reshape(want, KILN_SHAPE(-1)), KILN_SLICE(.stop = KILN_ARGS(200)));
    near(out, want, 1e-5);
    kiln_function_free(&j);
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(ops_are_right),        FIXTURE(captures_are_right),
        FIXTURE(gradients_are_right),  FIXTURE(gradients_are_those_of_the_cpu),
        FIXTURE(writes_through_views), FIXTURE(what_merges_is_fused),
    };
    return cmocka_run_group_tests_name("rank", tests, NULL, NULL);
}
