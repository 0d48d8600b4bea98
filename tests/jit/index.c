// Ops that fail as they run, for an index out of range or a matrix without a result. In AUTO a function sees the error
// where it sees it eagerly, and what came before it has happened.
#include "jit_fixture.h"
#include "ir/op.h"

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

static kiln_tensor *by_scatter_mul(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_scatter_mul(x, 0, kiln_reshape(ids, KILN_SHAPE(2, 1)), kiln_scalar(7));
}

static kiln_tensor *by_scatter_max(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_scatter_max(x, 0, kiln_reshape(ids, KILN_SHAPE(2, 1)), kiln_scalar(7));
}

static kiln_tensor *by_scatter_min(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_scatter_min(x, 0, kiln_reshape(ids, KILN_SHAPE(2, 1)), kiln_scalar(7));
}

static kiln_tensor *by_index_add(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_index_add(x, 0, ids, kiln_scalar(7));
}

static kiln_tensor *by_scatter_nd(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_scatter_nd(kiln_reshape(ids, KILN_SHAPE(2, 1)), kiln_narrow(x, 0, 0, 2), KILN_SHAPE(3, 2));
}

static kiln_tensor *by_cross_entropy(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_cross_entropy(kiln_transpose(x, 0, 1), ids, NULL);
}

// The label to ignore is one of those that are out of range.
static kiln_tensor *by_masked_cross_entropy(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_cross_entropy(kiln_transpose(x, 0, 1), kiln_cast(ids, KILN_I32),
                              KILN_CROSS_ENTROPY(.reduction = 2, .ignore = true, .ignore_index = -1));
}

static kiln_tensor *by_one_label(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_cross_entropy(kiln_select(x, 1, 0), kiln_select(ids, 0, 0), NULL);
}

// Ops that have no result of some numbers: of a diagonal matrix of the indices, or of one over them.
static kiln_tensor *diagonal_of(kiln_tensor *t)
{
    return kiln_mul(kiln_eye(kiln_tensor_device(t), KILN_F32, 2, 2), kiln_cast(t, KILN_F32));
}

static kiln_tensor *by_cholesky(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_matmul(kiln_cholesky(diagonal_of(ids), false), kiln_transpose(x, 0, 1));
}

static kiln_tensor *by_solve(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_solve(diagonal_of(ids), kiln_transpose(x, 0, 1));
}

static kiln_tensor *by_solve_triangular(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_solve_triangular(diagonal_of(ids), kiln_transpose(x, 0, 1), false, false, false);
}

static kiln_tensor *by_inv(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_matmul(x, kiln_inv(diagonal_of(ids)));
}

static kiln_tensor *by_eigh(kiln_tensor *x, kiln_tensor *ids)
{
    kiln_tensor *w, *v;
    if (kiln_eigh(diagonal_of(kiln_reciprocal(ids)), &w, &v)) return NULL;
    return kiln_matmul(x, kiln_mul(v, w));
}

static kiln_tensor *by_eigvalsh(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_mul(x, kiln_eigvalsh(diagonal_of(kiln_reciprocal(ids))));
}

static kiln_tensor *by_svd(kiln_tensor *x, kiln_tensor *ids)
{
    kiln_tensor *u, *s, *vh;
    if (kiln_svd(diagonal_of(kiln_reciprocal(ids)), false, &u, &s, &vh)) return NULL;
    return kiln_matmul(x, kiln_matmul(kiln_mul(u, s), vh));
}

static kiln_tensor *by_svdvals(kiln_tensor *x, kiln_tensor *ids)
{
    return kiln_mul(x, kiln_svdvals(diagonal_of(kiln_reciprocal(ids))));
}

static kiln_tensor *by_eig_parts(kiln_tensor *x, kiln_tensor *ids)
{
    kiln_tensor *w[2], *v[2];
    if (kiln_eig_parts(diagonal_of(kiln_reciprocal(ids)), &w[0], &w[1], &v[0], &v[1])) return NULL;
    return kiln_matmul(x, kiln_add(kiln_mul(v[0], w[0]), v[1]));
}

static kiln_tensor *by_eigvals_parts(kiln_tensor *x, kiln_tensor *ids)
{
    kiln_tensor *w[2];
    if (kiln_eigvals_parts(diagonal_of(kiln_reciprocal(ids)), &w[0], &w[1])) return NULL;
    return kiln_mul(x, kiln_add(w[0], w[1]));
}

static const struct indexed {
    const char *op;
    kiln_tensor *(*call)(kiln_tensor *x, kiln_tensor *ids);
    int64_t good[2], bad[2], worse[2];
} indexed[] = {
    {"gather", by_gather, {-1, 1}, {1, 3}, {-4, 0}},
    {"take", by_take, {-1, 1}, {1, 3}, {-4, 0}},
    {"index_select", by_index_select, {-1, 1}, {1, 3}, {-4, 0}},
    {"embedding", by_embedding, {-1, 1}, {1, 3}, {-4, 0}},
    {"gather_nd", by_gather_nd, {-1, 1}, {1, 3}, {-4, 0}},
    {"scatter", by_scatter, {-1, 1}, {1, 3}, {-4, 0}},
    {"scatter_add", by_scatter_add, {-1, 1}, {1, 3}, {-4, 0}},
    {"scatter_mul", by_scatter_mul, {-1, 1}, {1, 3}, {-4, 0}},
    {"scatter_max", by_scatter_max, {-1, 1}, {1, 3}, {-4, 0}},
    {"scatter_min", by_scatter_min, {-1, 1}, {1, 3}, {-4, 0}},
    {"index_add", by_index_add, {-1, 1}, {1, 3}, {-4, 0}},
    {"scatter_nd", by_scatter_nd, {-1, 1}, {1, 3}, {-4, 0}},
    {"cross_entropy", by_cross_entropy, {2, 0}, {1, 3}, {-1, 0}},
    {"cross_entropy", by_masked_cross_entropy, {-1, 1}, {-1, 3}, {1, -2}},
    {"cross_entropy", by_one_label, {2, 7}, {3, 0}, {-1, 0}},
    {"cholesky", by_cholesky, {2, 1}, {1, -1}, {0, 3}},
    {"solve", by_solve, {-1, 1}, {1, 0}, {0, 2}},
    {"solve_triangular", by_solve_triangular, {-1, 1}, {1, 0}, {0, 2}},
    {"inv", by_inv, {-1, 1}, {1, 0}, {0, 2}},
    {"eigh", by_eigh, {-1, 1}, {1, 0}, {0, 2}},
    {"eigvalsh", by_eigvalsh, {-1, 1}, {1, 0}, {0, 2}},
    {"eig_parts", by_eig_parts, {-1, 1}, {1, 0}, {0, 2}},
    {"eigvals_parts", by_eigvals_parts, {-1, 1}, {1, 0}, {0, 2}},
    {"svd", by_svd, {-1, 1}, {1, 0}, {0, 2}},
    {"svdvals", by_svdvals, {-1, 1}, {1, 0}, {0, 2}},
};

// Each row of the op table that has indices is tried here, and no other.
static void every_row_with_indices_is_tried(void **state)
{
    (void)state;
    for (int i = 0; i < op_count; i++) {
        bool tried = false;
        for (size_t k = 0; k < COUNT_OF(indexed); k++) tried |= !strcmp(op_table[i]->name, indexed[k].op);
        if (tried != (op_table[i]->indexed.bound != INDEX_NONE)) print_error("%s\n", op_table[i]->name);
        assert_true(tried == (op_table[i]->indexed.bound != INDEX_NONE));
    }
}

static kiln_status soft_loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_cross_entropy(in[0], kiln_mul(in[1], kiln_scalar(2)), NULL);
    return kiln_error();
}

static void labels_that_are_probabilities_are_no_indices(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = mat(f, 2, 3, 1., 2., 3., 4., 5., 6.), *t = mat(f, 2, 3, 9., -2., 3., 4., -5., 6.);
    kiln_function *j = automatic(soft_loss, NULL);
    kiln_tensor *in[] = {x, t}, *got = NULL, *want = NULL;
    for (int i = 0; i < 3; i++) {
        ok(soft_loss(NULL, in, 2, &want, 1));
        ok(kiln_call(j, in, 2, &got, 1));
        same(got, want);
    }
    assert_int_equal(stats_of(j).breaks, 0);
    kiln_function_free(&j);
}

// On a GPU an index out of range is no error, a matrix without a result is.
static bool raises(const struct indexed *by)
{
    for (int i = 0; i < op_count; i++)
        if (!strcmp(op_table[i]->name, by->op) && op_table[i]->indexed.bound == INDEX_VALUES)
            return strcmp(jit_device, "null") != 0;
    return !strcmp(jit_device, "cpu");
}

enum ids_kind { IDS_GIVEN, IDS_COMPUTED, IDS_WRITTEN, IDS_KINDS };

struct lookup {
    const struct indexed *by;
    kiln_tensor *log;
    enum ids_kind kind;
    bool handle;
    int runs;
    char seen[300]; // the error
};

static kiln_tensor *prepare_ids(kiln_tensor *ids, enum ids_kind kind)
{
    if (kind == IDS_COMPUTED) return kiln_sub(kiln_mul(ids, kiln_scalar_int(2)), ids);
    if (kind == IDS_WRITTEN && kiln_add_(ids, kiln_scalar_int(0))) return NULL;
    return ids;
}

static void note_error(char *text, size_t size)
{
    snprintf(text, size, "%d %s", (int)kiln_error(), kiln_error_message());
}

static kiln_status look_up(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct lookup *l = user;
    kiln_tensor *x = kiln_tanh(kiln_mul(in[0], kiln_scalar(0.5)));
    TRY_(kiln_add_(l->log, kiln_scalar(1)));
    kiln_tensor *rows = l->by->call(x, prepare_ids(in[1], l->kind));
    l->runs++;
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
    const int64_t *ids = bad == 0 ? eager->by->good : bad == 1 ? eager->by->bad : eager->by->worse;
    kiln_tensor *x = mat(f, 3, 2, 1., 2., 3., 4., 5., 6.), *got = NULL, *want = NULL;
    kiln_tensor *in[] = {x, kiln_from_data(f->dev, KILN_I64, 1, (int64_t[]){2}, ids)};
    char text[300] = "";
    captured->handle = eager->handle = handle;
    captured->seen[0] = eager->seen[0] = '\0';
    kiln_status status = look_up(eager, in, 2, &want, 1);
    if (status) note_error(text, sizeof text);
    kiln_error_clear();
    if (raises(eager->by)) assert_int_equal(bad != 0, status || eager->seen[0]);
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

static void try_all(struct fixture *f, bool pure)
{
    for (size_t op = 0; op < COUNT_OF(indexed); op++) {
        for (int kind = 0; kind < IDS_KINDS; kind++) {
            struct lookup eager = {&indexed[op], vec(f, 1, 0), (enum ids_kind)kind}, captured = eager;
            captured.log = vec(f, 1, 0);
            ok(kiln_state(captured.log));
            kiln_function *j = kiln_jit(look_up, &captured, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .pure_host = pure));
            for (int i = 0; i < 12; i++) look_up_both_ways(f, j, &eager, &captured, i % 3, i % 2);
            assert_int_equal(stats_of(j).fallbacks, 0);
            if (pure && raises(&indexed[op])) assert_int_equal(captured.runs, 1 + 8); // captured, and the bad ones
            kiln_function_free(&j);
        }
    }
}

static void a_bad_index_is_seen_at_the_op(void **state)
{
    try_all(*state, false);
}

// What needs not run, because it is one graph, runs where that fails.
static void a_replay_that_fails_is_run(void **state)
{
    try_all(*state, true);
}

static kiln_status draws(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *noise = kiln_uniform(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(2, 2), 0, 1);
    kiln_tensor *rows = kiln_take(in[0], 0, in[1]);
    if (!rows) kiln_error_clear();
    out[0] = rows ? kiln_add(rows, noise) : kiln_mul(noise, noise);
    return kiln_error();
}

// It draws the same numbers again.
static void a_replay_that_fails_has_drawn_nothing(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(draws, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .pure_host = true));
    kiln_tensor *in[] = {mat(f, 3, 2, 1., 2., 3., 4., 5., 6.), NULL}, *want[6] = {NULL}, *got[6] = {NULL};
    for (int way = 0; way < 2; way++) {
        kiln_seed(f->dev, 7);
        for (int i = 0; i < 6; i++) {
            in[1] = kiln_from_data(f->dev, KILN_I64, 1, (int64_t[]){2}, (int64_t[]){i % 4, 1});
            ok(way ? kiln_call(j, in, 2, &got[i], 1) : draws(NULL, in, 2, &want[i], 1));
        }
    }
    for (int i = 0; i < 6; i++) same(got[i], want[i]);
    kiln_function_free(&j);
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

// What fills zeros fills the result that indices add to, if nobody else has the zeros.

struct filled {
    bool gives_zeros;
    int filler;
};

static kiln_tensor *filling(const struct filled *w, kiln_tensor *like)
{
    if (w->filler == 0) return kiln_zeros_like(like);
    if (w->filler == 1) return kiln_full_like(like, 3);
    return kiln_reshape(kiln_arange(kiln_tensor_device(like), KILN_F32, 0, 6, 1), KILN_SHAPE(3, 2));
}

static kiln_status adds_to_what_is_filled(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                          size_t n_out)
{
    const struct filled *w = user;
    kiln_tensor *t = filling(w, in[0]);
    out[0] = kiln_index_add(t, 0, in[1], in[0]);
    out[1] = w->gives_zeros ? t : kiln_neg(in[0]);
    return kiln_error();
}

static uint64_t launches_of_adding(struct fixture *f, struct filled *w)
{
    kiln_function *j = kiln_jit(adds_to_what_is_filled, w, NULL);
    kiln_tensor *in[] = {mat(f, 3, 2, 1., 2., 3., 4., 5., 6.),
                         kiln_from_data(f->dev, KILN_I32, 1, (int64_t[]){3}, (int32_t[]){2, 0, 2})};
    kiln_tensor *want[2] = {NULL}, *got[2] = {NULL};
    ok(adds_to_what_is_filled(w, in, 2, want, 2));
    uint64_t before = 0;
    for (int i = 0; i < 2; i++) {
        before = launches_of(f);
        ok(kiln_call(j, in, 2, got, 2));
        before = launches_of(f) - before;
        same(got[0], want[0]);
        same(got[1], want[1]);
    }
    kiln_function_free(&j);
    return before;
}

static void what_is_filled_is_not_copied(void **state)
{
    struct fixture *f = *state;
    for (int filler = 0; filler < 3; filler++) {
        uint64_t given = launches_of_adding(f, &(struct filled){true, filler}),
                 alone = launches_of_adding(f, &(struct filled){false, filler});
        if (fuses(f)) assert_true(alone <= given); // one more op, and no copy
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(every_row_with_indices_is_tried),
        FIXTURE(a_bad_index_is_seen_at_the_op),
        FIXTURE(a_replay_that_fails_is_run),
        FIXTURE(a_replay_that_fails_has_drawn_nothing),
        FIXTURE(labels_that_are_probabilities_are_no_indices),
        FIXTURE(indices_at_hand_break_nothing),
        FIXTURE(indices_of_known_range_break_nothing),
        FIXTURE(what_is_filled_is_not_copied),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
