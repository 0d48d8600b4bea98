// AUTO: errors that ops meet as they run. The function sees them where it sees them eagerly, and what came before them
// has happened.
#include "jit_fixture.h"

static kiln_function *automatic(kiln_fn fn, void *user)
{
    return kiln_jit(fn, user, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
}

// --- ops with indices

static kiln_tensor *by_gather(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_gather(x, 0, kiln_expand(kiln_reshape(ids, KILN_SHAPE(2, 1)), KILN_SHAPE(2, 2)));
}

static kiln_tensor *by_take(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_take(x, 0, ids);
}

static kiln_tensor *by_index_select(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_index_select(kiln_transpose(x, 0, 1), -1, ids);
}

static kiln_tensor *by_embedding(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_embedding(x, ids);
}

static kiln_tensor *by_gather_nd(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_gather_nd(x, kiln_stack((kiln_tensor *[]){ids, kiln_zeros_like(ids)}, 2, 1));
}

static kiln_tensor *by_scatter(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_scatter(x, 0, kiln_reshape(ids, KILN_SHAPE(2, 1)), kiln_scalar(7));
}

static kiln_tensor *by_scatter_add(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_scatter_add(x, 0, kiln_reshape(ids, KILN_SHAPE(2, 1)), kiln_scalar(7));
}

static kiln_tensor *by_index_add(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_index_add(x, 0, ids, kiln_scalar(7));
}

static kiln_tensor *by_scatter_nd(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_scatter_nd(kiln_reshape(ids, KILN_SHAPE(2, 1)), kiln_narrow(x, 0, 0, 2), KILN_SHAPE(3, 2));
}

static kiln_tensor *(*const indexed[])(kiln_tensor *x, kiln_tensor *ids) = {
    by_gather,  by_take,        by_index_select, by_embedding,  by_gather_nd,
    by_scatter, by_scatter_add, by_index_add,    by_scatter_nd,
};
enum { INDEXED = sizeof indexed / sizeof *indexed };

enum ids_kind { IDS_GIVEN, IDS_COMPUTED, IDS_WRITTEN, IDS_KINDS };

struct lookup {
    kiln_tensor *(*op)(kiln_tensor *x, kiln_tensor *ids);
    kiln_tensor *log;
    enum ids_kind kind;
    bool handle;
    char seen[200]; // the error, up to the caller's line
};

static kiln_tensor *prepare_ids(kiln_tensor *ids, enum ids_kind kind)
{
    if (kind == IDS_COMPUTED) return kiln_sub(kiln_mul(ids, kiln_scalar_int(2)), ids);
    if (kind == IDS_WRITTEN && kiln_add_(ids, kiln_scalar_int(0))) return NULL;
    return ids;
}

static void note_error(char *text, size_t size)
{
    const char *message = kiln_error_message(), *place = strrchr(message, '(');
    snprintf(text, size, "%d %.*s", (int)kiln_error(), (int)(place ? place - message : (int)strlen(message)), message);
}

static kiln_status look_up(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct lookup *l = user;
    kiln_tensor *x = kiln_tanh(kiln_mul(in[0], kiln_scalar(0.5)));
    TRY_(kiln_add_(l->log, kiln_scalar(1)));
    kiln_tensor *rows = l->op(x, prepare_ids(in[1], l->kind));
    l->seen[0] = '\0';
    if (!rows && !l->handle) return kiln_error();
    if (!rows) {
        note_error(l->seen, sizeof l->seen);
        kiln_error_clear();
        TRY_(kiln_mul_(l->log, kiln_scalar(10)));
        rows = kiln_exp(x);
    }
    TRY_(kiln_add_(l->log, kiln_scalar(0.5)));
    out[0] = kiln_neg(rows);
    return kiln_error();
}

static void look_up_both_ways(struct fixture *f, kiln_function *j, struct lookup *eager, struct lookup *captured,
                              int bad, bool handle)
{
    kiln_scope *scope = kiln_scope_begin();
    const int64_t good_ids[] = {-1, 1}, bad_ids[] = {1, 3}, worse_ids[] = {-4, 0};
    const int64_t *ids = bad == 0 ? good_ids : bad == 1 ? bad_ids : worse_ids;
    kiln_tensor *x = mat(f, 3, 2, 1., 2., 3., 4., 5., 6.), *got = NULL, *want = NULL;
    kiln_tensor *in[] = {x, kiln_from_data(f->dev, KILN_I64, 1, (int64_t[]){2}, ids)};
    char text[200] = "";
    captured->handle = eager->handle = handle;
    kiln_status status = look_up(eager, in, 2, &want, 1);
    if (status) note_error(text, sizeof text);
    kiln_error_clear();
    assert_int_equal(kiln_call(j, in, 2, &got, 1), status);
    if (status) note_error(captured->seen, sizeof captured->seen);
    kiln_error_clear();
    assert_string_equal(captured->seen, status ? text : eager->seen);
    if (status)
        assert_null(got);
    else
        same(got, want);
    same(captured->log, eager->log);
    kiln_scope_end(&scope);
}

static void a_bad_index_is_seen_at_the_op(void **state)
{
    struct fixture *f = *state;
    for (int op = 0; op < INDEXED; op++) {
        for (int kind = 0; kind < IDS_KINDS; kind++) {
            struct lookup eager = {indexed[op], vec(f, 1, 0), (enum ids_kind)kind}, captured = eager;
            captured.log = vec(f, 1, 0);
            kiln_function *j = automatic(look_up, &captured);
            for (int i = 0; i < 12; i++) look_up_both_ways(f, j, &eager, &captured, i % 3, i % 2);
            assert_int_equal(stats_of(j).fallbacks, 0);
            kiln_function_free(&j);
        }
    }
}

// Indices that are at hand cost no break.
static kiln_status embeds(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_tanh(kiln_mul(kiln_embedding(in[0], in[1]), kiln_scalar(2)));
    return kiln_error();
}

// Nor do those of which it is known what they can be.
static kiln_status picks(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *best = kiln_argmax(in[0], KILN_REDUCE(.axes = KILN_AXES(1)));
    kiln_tensor *sorted[2], *second = kiln_take(in[0], 0, kiln_scalar_int(1));
    TRY_(kiln_sort(in[0], 0, true, &sorted[0], &sorted[1]));
    out[0] = kiln_add(kiln_take(in[0], 1, kiln_reshape(best, KILN_SHAPE(3))),
                      kiln_sum(kiln_gather(in[0], 0, sorted[1]), NULL));
    out[1] = kiln_add(second, kiln_take(in[0], 0, kiln_cast(kiln_select(best, 0, 0), KILN_I64)));
    return kiln_error();
}

static void indices_of_known_range_break_nothing(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = automatic(picks, NULL);
    kiln_tensor *x = mat(f, 3, 2, 1., 2., 4., 3., 5., 6.), *want[2] = {NULL}, *got[2] = {NULL};
    for (int i = 0; i < 3; i++) {
        ok(picks(NULL, &x, 1, want, 2));
        ok(kiln_call(j, &x, 1, got, 2));
        same(got[0], want[0]);
        same(got[1], want[1]);
    }
    assert_int_equal(stats_of(j).breaks, 0);
    kiln_function_free(&j);
}

static void indices_at_hand_break_nothing(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = automatic(embeds, NULL);
    kiln_tensor *in[] = {mat(f, 3, 2, 1., 2., 3., 4., 5., 6.), NULL}, *want = NULL, *got = NULL;
    uint64_t last = 0;
    for (int i = 0; i < 4; i++) {
        in[1] = kiln_from_data(f->dev, KILN_I32, 1, (int64_t[]){2}, (int32_t[]){i % 3, -1});
        ok(embeds(NULL, in, 2, &want, 1));
        uint64_t before = launches_of(f);
        ok(kiln_call(j, in, 2, &got, 1));
        last = launches_of(f) - before;
        same(got, want);
    }
    if (fuses(f)) assert_int_equal(last, 1);
    assert_int_equal(stats_of(j).breaks, 0);
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

// --- functions that are left by longjmp

static jmp_buf back;

struct leaving {
    kiln_tensor *log, *p;
    kiln_function *inner;
    kiln_cell *cell;
    bool leaves;
};

static void work(struct leaving *l, kiln_tensor *x)
{
    kiln_scope *left_open = kiln_scope_begin();
    kiln_add_(l->log, kiln_scalar(1));
    assert_non_null(left_open);
    assert_non_null(kiln_exp(x));
    if (l->leaves) longjmp(back, 1);
    kiln_scope_end(&left_open);
}

static kiln_status is_left(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_tanh(in[0]);
    work(user, y);
    out[0] = kiln_mul(y, in[0]);
    return kiln_error();
}

static kiln_status calls_inner(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct leaving *l = user;
    kiln_tensor *twice = kiln_add(in[0], in[0]);
    return kiln_call(l->inner, &twice, 1, out, 1);
}

static kiln_status differentiates(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_value_and_grad(is_left, user, in, 1, NULL, out, 2);
}

static kiln_tensor *hook_is_left(void *user, kiln_tensor *grad)
{
    work(user, grad);
    return kiln_mul(grad, kiln_scalar(2));
}

static kiln_status runs_back(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct leaving *l = user;
    kiln_tensor *y = kiln_square(kiln_mul(l->p, in[0]));
    if (!kiln_register_hook(y, hook_is_left, user)) return kiln_error();
    TRY_(kiln_backward(kiln_sum(y, NULL), NULL));
    out[0] = kiln_mul(kiln_gradient(l->p), kiln_scalar(1));
    return kiln_error();
}

static kiln_status construct_is_left(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in,
                                     kiln_tensor **out, size_t n_out)
{
    return is_left(user, in, n_in, out, n_out);
}

static kiln_status calls_cell(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct leaving *l = user;
    return kiln_cell_call_n(l->cell, in, n_in, out, n_out);
}

static kiln_status in_region(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_device *dev = kiln_tensor_device(in[0]);
    KILN_CAPTURE(dev)
    {
        TRY_(is_left(user, in, n_in, out, n_out));
        out[0] = kiln_keep(out[0]);
    }
    return kiln_error();
}

enum { WAY_EAGER, WAY_STRICT, WAY_AUTO, WAY_TRACE, WAYS };

// Whether the call came back.
static bool returns(int way, kiln_function *j, kiln_fn fn, void *user, kiln_tensor *x, size_t n_out)
{
    kiln_tensor *out[2] = {NULL};
    if (setjmp(back)) return false;
    ok(way == WAY_EAGER ? fn(user, &x, 1, out, n_out) : kiln_call(j, &x, 1, out, n_out));
    for (size_t i = 0; i < n_out; i++) kiln_keep(out[i]);
    return true;
}

// Left, called, left again: what comes next finds all as it was. What was written before has been written, unless the
// function was only being captured.
static void leave_and_return(struct fixture *f, kiln_fn fn, size_t n_out, int way)
{
    static const kiln_capture captures[] = {KILN_CAPTURE_AUTO, KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO,
                                            KILN_CAPTURE_TRACE};
    struct leaving l = {.log = vec(f, 1, 0), .p = kiln_parameter(vec(f, 2, 1, 2), "p")};
    double runs = 0;
    ok(kiln_state(l.log));
    l.inner = kiln_jit(is_left, &l, KILN_JIT(.capture = captures[way]));
    l.cell = kiln_cell_create(KILN_CELL(.kind = "leaving", .construct = construct_is_left, .user = &l));
    kiln_function *j = kiln_jit(fn, &l, KILN_JIT(.capture = captures[way]));
    kiln_tensor *x = vec(f, 2, 0.5, 1);
    for (int i = 0; i < 6; i++) {
        l.leaves = i % 2 == 0;
        kiln_scope *scope = kiln_scope_begin();
        bool returned = returns(way, j, fn, &l, x, n_out);
        assert_int_equal(kiln_error(), KILN_OK);
        assert_true(kiln_grad_enabled());
        runs += returned || way == WAY_EAGER || way == WAY_AUTO;
        kiln_scope_end(&scope);
        uint64_t before = launches_of(f);
        assert_non_null(kiln_neg(x)); // eager again
        assert_int_equal(launches_of(f) - before, 1);
        expect(l.log, 1, runs);
        if (l.leaves && (i == 0 || way == WAY_EAGER || way == WAY_AUTO)) assert_false(returned);
        if (!l.leaves) assert_true(returned);
    }
    kiln_function_free(&j);
    kiln_function_free(&l.inner);
    kiln_cell_free(&l.cell);
}

static void functions_may_be_left_by_longjmp(void **state)
{
    static const struct {
        kiln_fn fn;
        size_t n_out;
    } cases[] = {{is_left, 1}, {calls_inner, 1}, {differentiates, 2}, {runs_back, 1}, {calls_cell, 1}, {in_region, 1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int way = 0; way < WAYS; way++) leave_and_return(*state, cases[k].fn, cases[k].n_out, way);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(a_bad_index_is_seen_at_the_op),
        FIXTURE(indices_at_hand_break_nothing),
        FIXTURE(functions_may_be_left_by_longjmp),
        FIXTURE(indices_of_known_range_break_nothing),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
