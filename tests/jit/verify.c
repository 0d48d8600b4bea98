// Functions that are captured again every so often (.verify), and what is said of what the host has changed.
#include "jit_fixture.h"
#include <kiln/nn.h>
#include <kiln/optim.h>

static char said[4096];
static void listen(void *user, const char *message)
{
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", message);
}

static void hear_nothing(void)
{
    if (*said) fail_msg("%s", said);
}

static void hear(const char *const *parts)
{
    for (; *parts; parts++)
        if (!strstr(said, *parts)) fail_msg("no \"%s\" in:\n%s", *parts, said);
    said[0] = '\0';
}
#define HEAR(...) hear((const char *const[]){__VA_ARGS__, NULL})

static int begin(void **state)
{
    said[0] = '\0';
    kiln_set_log(listen, NULL);
    return setup(state);
}

static int end(void **state)
{
    kiln_set_log(NULL, NULL);
    return teardown(state);
}

// What the host changes, and which of it the function reads.
struct host {
    enum { RATE, COUNTER, BRANCH, TIMES, TABLE, PARAMETER, STATE, OUTPUT, ATTRIBUTE, SIZE, NUMBER, HOST_NUMBER } reads;
    double rate;
    int64_t counter;
    float table[3];
    kiln_tensor *tensor;
    int line, runs;
    kiln_tensor *last; // a call that is a function's last has no line where the compiler makes a jump of it
};

static double ask(void *user)
{
    return ((struct host *)user)->rate;
}

static kiln_tensor *grown(struct host *h, kiln_tensor *x)
{
    for (int64_t i = 0; i < h->counter; i++) x = kiln_add(x, kiln_scalar(1));
    return x;
}

static kiln_tensor *chosen(const struct host *h, kiln_tensor *x, kiln_tensor *y)
{
    kiln_tensor *n = kiln_neg(y);
    return h->counter > 1 ? x : n;
}

static kiln_tensor *result(struct host *h, kiln_tensor *x, kiln_tensor *y)
{
    const int64_t three[] = {3}, axis = h->counter > 1 ? 0 : 1;
    switch (h->reads) {
    case RATE: h->line = __LINE__; return h->last = kiln_mul(y, kiln_scalar(h->rate));
    case COUNTER: h->line = __LINE__; return h->last = kiln_add(y, kiln_scalar_int(h->counter++));
    case BRANCH: h->line = __LINE__; return h->last = h->counter > 1 ? kiln_exp(y) : kiln_neg(y);
    case TIMES: return grown(h, y);
    case TABLE: return kiln_mul(y, kiln_from_data(kiln_tensor_device(x), KILN_F32, 1, three, h->table));
    case PARAMETER:
    case STATE: return kiln_mul(y, h->tensor);
    case OUTPUT: return chosen(h, x, y);
    case ATTRIBUTE: h->line = __LINE__; return h->last = kiln_cumsum(kiln_reshape(y, KILN_SHAPE(3, 1)), axis);
    case SIZE: return kiln_mul(kiln_sum(y, NULL), kiln_ones(kiln_tensor_device(x), KILN_F32, KILN_SHAPE(h->counter)));
    case NUMBER: return kiln_scalar(h->rate);
    default: return kiln_mul(y, kiln_host_number(ask, h));
    }
}

static kiln_status read_host(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct host *h = user;
    h->runs++;
    out[0] = result(h, in[0], kiln_neg(kiln_neg(in[0])));
    return kiln_error();
}

// What is frozen until the next check, and told then.
static kiln_tensor *call_after_check(struct fixture *f, kiln_function *j, struct host *h, kiln_tensor *x)
{
    kiln_tensor *frozen = NULL, *again = NULL, *out = NULL;
    int runs = h->runs;
    kiln_set_log(listen, NULL);          // each text is told once
    ok(kiln_call(j, &x, 1, &frozen, 1)); // 3
    assert_int_equal(h->runs, runs);
    hear_nothing();
    ok(kiln_call(j, &x, 1, &out, 1)); // 4, at which it is looked at
    assert_int_equal(h->runs, runs + 1);
    ok(kiln_call(j, &x, 1, &again, 1)); // 5
    assert_int_equal(h->runs, runs + 1);
    same(again, out);
    if (h->reads != SIZE && h->reads != COUNTER) assert_false(equal(frozen, out));
    return out;
}

static kiln_function *verified(struct fixture *f, kiln_capture capture, struct host *h, kiln_tensor *x)
{
    kiln_function *j = kiln_jit(read_host, h, KILN_JIT(.capture = capture, .verify = 4));
    kiln_tensor *out = NULL;
    ok(kiln_call(j, &x, 1, &out, 1)); // 1
    assert_int_equal(h->runs, 1);
    ok(kiln_call(j, &x, 1, &out, 1)); // 2
    assert_int_equal(h->runs, 1);
    hear_nothing();
    return j;
}

static void change(struct host *h, kiln_tensor *other)
{
    h->rate = 0.25;
    h->counter = 3;
    h->table[1] = 7;
    if (other) h->tensor = other;
}

static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE};

static void check(struct fixture *f, int reads, const char *text, const double *want, int n)
{
    for (int k = 0; k < 2; k++) {
        kiln_tensor *x = vec(f, 3, 1, 2, 4), *other = NULL;
        struct host h = {reads, 0.5, 1, {1, 2, 3}, .runs = 0};
        if (reads == PARAMETER) {
            h.tensor = kiln_parameter(vec(f, 3, 1, 1, 1), "first");
            other = kiln_parameter(vec(f, 3, 3, 3, 3), "second");
        } else if (reads == STATE) {
            h.tensor = vec(f, 3, 1, 1, 1);
            other = vec(f, 3, 3, 3, 3);
            ok(kiln_state(h.tensor));
            ok(kiln_state(other));
        }
        kiln_function *j = verified(f, captures[k], &h, x);
        change(&h, other);
        kiln_tensor *out = call_after_check(f, j, &h, x);
        char line[32];
        snprintf(line, sizeof line, "verify.c:%d", h.line);
        HEAR(text, "another recording than before", "the function at verify.c:", h.line ? line : "");
        double got[3];
        assert_int_equal(kiln_numel(out), n);
        read_all(out, got);
        for (int i = 0; i < n; i++) assert_true(fabs(got[i] - want[i]) < 1e-5 * fabs(want[i]));
        kiln_jit_stats s = stats_of(j);
        assert_int_equal(s.captures, 2);
        assert_int_equal(s.programs, 1);
        kiln_function_free(&j);
    }
}
#define CHECK(reads, text, ...) \
    check(f, reads, text, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

static void numbers(void **state)
{
    struct fixture *f = *state;
    CHECK(RATE, " takes the number 0.25, which was 0.5", 0.25, 0.5, 1);
    CHECK(NUMBER, "output 0 is another value", 0.25);
}

static void branches(void **state)
{
    struct fixture *f = *state;
    CHECK(BRANCH, "exp at ", exp(1), exp(2), exp(4));
    CHECK(TIMES, "add at verify.c:", 4, 5, 7);
    CHECK(OUTPUT, "other values are given back", 1, 2, 4);
}

static void data_and_shapes(void **state)
{
    struct fixture *f = *state;
    CHECK(TABLE, "element 1 of the f32[3] of host data that mul at ", 1, 14, 12);
    CHECK(ATTRIBUTE, " has axis 0, which was 1", 1, 3, 7);
    CHECK(SIZE, " has shape [3], which was [1]", 7, 7, 7);
}

static void tensors(void **state)
{
    struct fixture *f = *state;
    CHECK(PARAMETER, "second is read where another one was", 3, 6, 12);
    CHECK(STATE, "a state is read where another one was", 3, 6, 12);
}

// Each check finds the counter elsewhere; calls between them keep what it was.
static void counters(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 1, 10), *out = NULL;
    struct host h = {.reads = COUNTER};
    kiln_function *j = kiln_jit(read_host, &h, KILN_JIT(.verify = 2));
    const double want[] = {10, 11, 11, 12, 12, 13};
    for (int i = 0; i < 6; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 1, want[i]);
    }
    HEAR("takes the number 1, which was 0", "takes the number 2, which was 1", "takes the number 3, which was 2");
    kiln_function_free(&j);
    j = kiln_jit(read_host, &h, NULL); // without the option it is frozen
    for (int i = 0; i < 6; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 1, 14.);
    }
    hear_nothing();
    kiln_function_free(&j);
}

// What is found at one program makes the others suspect, which are looked at before they run.
static void programs_of_other_shapes(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *one = vec(f, 1, 1), *two = vec(f, 2, 1, 1), *out = NULL;
    struct host h = {.reads = RATE, .rate = 0.5};
    kiln_function *j = kiln_jit(read_host, &h, KILN_JIT(.verify = 4));
    ok(kiln_call(j, &one, 1, &out, 1));
    ok(kiln_call(j, &two, 1, &out, 1));
    h.rate = 0.25;
    ok(kiln_call(j, &two, 1, &out, 1));
    expect(out, 2, 0.5, 0.5);
    ok(kiln_call(j, &two, 1, &out, 1));
    expect(out, 2, 0.25, 0.25);
    assert_int_equal(h.runs, 3);
    ok(kiln_call(j, &one, 1, &out, 1)); // the fifth
    expect(out, 1, 0.25);
    assert_int_equal(h.runs, 4);
    ok(kiln_call(j, &two, 1, &out, 1)); // once more, since it may have changed meanwhile
    assert_int_equal(h.runs, 5);
    ok(kiln_call(j, &one, 1, &out, 1));
    assert_int_equal(h.runs, 5);
    kiln_function_free(&j);
}

// What the host may change without a word: numbers that are asked for, data of inputs, parameters and constants made
// anew that hold the same.
static void what_is_not_frozen(void **state)
{
    struct fixture *f = *state;
    const int ways[] = {HOST_NUMBER, PARAMETER, STATE, TABLE};
    for (int i = 0; i < 4; i++) {
        struct host h = {ways[i], 0.5, 1, {1, 2, 3}, .runs = 0};
        kiln_tensor *out = NULL;
        h.tensor = ways[i] == PARAMETER ? kiln_parameter(vec(f, 3, 2, 2, 2), "p") : vec(f, 3, 2, 2, 2);
        if (ways[i] == STATE) ok(kiln_state(h.tensor));
        kiln_function *j = kiln_jit(read_host, &h, KILN_JIT(.verify = 1));
        for (int call = 1; call < 5; call++) {
            kiln_tensor *x = vec(f, 3, call, 0, call);
            h.rate = call;
            if (ways[i] != TABLE) {
                kiln_no_grad_begin();
                ok(kiln_assign(h.tensor, kiln_scalar(call)));
                kiln_no_grad_end();
            }
            ok(kiln_call(j, &x, 1, &out, 1));
            assert_int_equal(h.runs, call);
            expect(out, 3, ways[i] == TABLE ? call : (double)call * call, 0., call * (ways[i] == TABLE ? 3. : call));
        }
        hear_nothing();
        assert_int_equal(stats_of(j).captures, 1);
        kiln_function_free(&j);
    }
}

struct training {
    kiln_cell *net;
    kiln_optim *optim;
};

static kiln_status train(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct training *t = user;
    kiln_tensor *y = kiln_dropout(kiln_cell_call(t->net, in[0]), 0.5);
    TRY_(kiln_optim_zero_grad(t->optim));
    out[0] = kiln_mean(kiln_square(kiln_sub(y, in[1])), NULL);
    TRY_(kiln_backward(out[0], NULL));
    return kiln_optim_step(t->optim);
}

static void losses(struct fixture *f, uint64_t verify, double *loss)
{
    ok(kiln_seed(f->dev, 7));
    struct training t = {.net = kiln_nn_dense(f->dev, 3, 2, KILN_NN_DENSE(.weight_init = "ones"))};
    kiln_tensor *params[] = {kiln_cell_parameter(t.net, "weight"), kiln_cell_parameter(t.net, "bias")};
    t.optim = kiln_optim_adam(params, 2, KILN_ADAM(.lr = 0.1));
    kiln_function *j = kiln_jit(train, &t, KILN_JIT(.verify = verify));
    kiln_tensor *in[] = {mat(f, 2, 3, 1., 2., 3., 4., 5., 6.), mat(f, 2, 2, 1., 0., 0., 1.)}, *out = NULL;
    for (int i = 0; i < 6; i++) {
        ok(kiln_call(j, in, 2, &out, 1));
        loss[i] = kiln_item(out);
    }
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
    kiln_optim_free(&t.optim);
    kiln_cell_free(&t.net);
}

// To capture again writes nothing, draws nothing and leaves no gradient.
static void training_goes_on(void **state)
{
    double plain[6], verified[6];
    losses(*state, 0, plain);
    losses(*state, 1, verified);
    hear_nothing();
    assert_memory_equal(plain, verified, sizeof plain);
}

static kiln_status read_host_construct(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in,
                                       kiln_tensor **out, size_t n_out)
{
    return read_host(user, in, n_in, out, n_out);
}

static void cells(void **state)
{
    struct fixture *f = *state;
    struct host h = {.reads = RATE, .rate = 0.5};
    kiln_cell *cell = kiln_cell_create(
        KILN_CELL(.kind = "scaled", .construct = read_host_construct, .user = &h, .n_in = 1, .n_out = 1));
    ok(kiln_cell_jit(cell, KILN_JIT(.verify = 2)));
    kiln_tensor *x = vec(f, 1, 1);
    for (int i = 0; i < 2; i++) expect(kiln_cell_call(cell, x), 1, 0.5);
    h.rate = 3;
    expect(kiln_cell_call(cell, x), 1, 0.5);
    hear_nothing();
    expect(kiln_cell_call(cell, x), 1, 3.);
    HEAR("the cell at verify.c:", "takes the number 3, which was 0.5");
    kiln_cell_free(&cell);
}

// AUTO runs the C code anyway, but for functions that are said to be pure.
static void pure_functions(void **state)
{
    struct fixture *f = *state;
    struct host h = {.reads = RATE, .rate = 0.5};
    kiln_function *j = kiln_jit(read_host, &h, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .pure_host = true, .verify = 2));
    kiln_tensor *x = vec(f, 1, 1), *out = NULL;
    for (int i = 1; i < 5; i++) {
        if (i == 3) h.rate = 3;
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 1, i == 4 ? 3. : 0.5);
    }
    HEAR("takes the number 3, which was 0.5");
    assert_int_equal(h.runs, 3);
    kiln_function_free(&j);
}

static kiln_status fails_later(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct host *h = user;
    h->runs++;
    out[0] = kiln_exp(kiln_neg(in[0]));
    if (h->counter > 1) kiln_item(out[0]);
    return kiln_error();
}

// An error of the check is the call's, and leaves what was captured.
static void checks_that_fail(void **state)
{
    struct fixture *f = *state;
    struct host h = {.counter = 1};
    kiln_function *j = kiln_jit(fails_later, &h, KILN_JIT(.verify = 3));
    kiln_tensor *x = vec(f, 1, 0), *out = NULL;
    for (int i = 1; i < 7; i++) {
        h.counter = i == 3 ? 2 : 1;
        if (i == 3)
            fails(kiln_call(j, &x, 1, &out, 1), KILN_E_STATE, "item: the value depends on an input");
        else
            ok(kiln_call(j, &x, 1, &out, 1));
        if (i != 3) expect(out, 1, 1.);
    }
    assert_int_equal(h.runs, 3);
    hear_nothing();
    kiln_function_free(&j);
}

// Inputs at other offsets, as they are and as views; one that is joined with another for being written.
enum { AS_IT_IS, WRITTEN, ANOTHER_PART };

static kiln_status gives_inputs(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    int how = *(int *)user;
    out[0] = in[0];
    out[1] = kiln_narrow(in[1], 1, how == ANOTHER_PART, 1);
    out[2] = kiln_transpose(in[2], 0, 1);
    out[3] = kiln_add(in[0], in[1]);
    if (how == WRITTEN) return kiln_mul_(in[1], kiln_scalar(1));
    return kiln_error();
}

static void inputs_at_other_offsets(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *base = kiln_arange(f->dev, KILN_F32, 0, 40, 1), *out[4];
    for (int first = AS_IT_IS; first <= WRITTEN; first++) {
        int how = first;
        kiln_function *j = kiln_jit(gives_inputs, &how, KILN_JIT(.verify = 1));
        for (int64_t i = 0; i < 5; i++) {
            const int64_t at[] = {i, 2 * i + 10, first == WRITTEN ? 2 * i + 11 : 3 * i + 25};
            kiln_tensor *in[3];
            for (int k = 0; k < 3; k++) in[k] = kiln_as_strided(base, KILN_SHAPE(1, 2), KILN_SHAPE(2, 1), at[k]);
            if (i == 4 && how == AS_IT_IS) how = ANOTHER_PART;
            ok(kiln_call(j, in, 3, out, 4));
            expect(out[0], 2, at[0] + 0., at[0] + 1.);
            expect(out[1], 1, at[1] + (how == ANOTHER_PART ? 1. : 0.));
            expect(out[2], 2, at[2] + 0., at[2] + 1.);
            if (how != ANOTHER_PART) hear_nothing();
        }
        if (how == ANOTHER_PART) HEAR("was captured again", "has start 1, which was 0");
        hear_nothing();
        kiln_function_free(&j);
    }
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {TEST(numbers),
                                       TEST(branches),
                                       TEST(data_and_shapes),
                                       TEST(tensors),
                                       TEST(counters),
                                       TEST(programs_of_other_shapes),
                                       TEST(what_is_not_frozen),
                                       TEST(training_goes_on),
                                       TEST(cells),
                                       TEST(pure_functions),
                                       TEST(checks_that_fail),
                                       TEST(inputs_at_other_offsets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
