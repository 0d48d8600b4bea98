// Gradients of what is taken apart: random pieces of a matrix, some of them the same, some overlapping, and what gaps
// they leave; eagerly, captured, and to the second order. With m[e] the sum of the weights of the pieces that hold
// element e, the loss sum w sum(piece^3) / 3 has the gradient m x^2, and the sum of its squares the gradient 4 m^2 x^3.
#include "../jit/jit_fixture.h"

enum { MAX_PIECES = 24 };

struct taking {
    int64_t rows, cols;
    int n;
    bool tall; // pieces of rows only
    struct {
        int kind, axis;
        int64_t start, stop, step;
        double weight;
    } pieces[MAX_PIECES];
};

static uint64_t random_state;

static int64_t below(int64_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(random_state >> 33) % n;
}

static void draw(struct taking *t)
{
    *t = (struct taking){.rows = 1 + below(6), .cols = 1 + below(6), .n = 1 + (int)below(MAX_PIECES), .tall = below(2)};
    for (int i = 0; i < t->n; i++) {
        int axis = t->pieces[i].axis = t->tall ? 0 : (int)below(2);
        int64_t size = axis ? t->cols : t->rows, a = below(size), b = below(size);
        t->pieces[i].kind = (int)below(4);
        t->pieces[i].start = a < b ? a : b;
        t->pieces[i].stop = (a < b ? b : a) + 1;
        t->pieces[i].step = t->pieces[i].kind == 3 ? 1 + below(2) : 1;
        if (t->pieces[i].kind == 0) t->pieces[i].stop = t->pieces[i].start + 1;
        t->pieces[i].weight = (double)(below(9) - 4) / 4;
    }
}

static kiln_tensor *piece(kiln_tensor *x, const struct taking *t, int i)
{
    int axis = t->pieces[i].axis;
    int64_t start = t->pieces[i].start, stop = t->pieces[i].stop, size = axis ? t->cols : t->rows;
    int64_t starts[2] = {0, 0}, stops[2] = {KILN_END, KILN_END}, steps[2] = {1, 1};
    starts[axis] = i % 2 ? start : start - size;
    stops[axis] = stop;
    steps[axis] = t->pieces[i].step;
    switch (t->pieces[i].kind) {
    case 0: return kiln_select(x, i % 2 ? axis : axis - 2, i % 3 ? start : start - size);
    case 1: return kiln_narrow(x, i % 2 ? axis : axis - 2, start, stop - start);
    default: return kiln_slice(x, KILN_SLICE(.start = {2, starts}, .stop = {2, stops}, .step = {2, steps}));
    }
}

static kiln_status loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct taking *t = user;
    kiln_tensor *sum = kiln_scalar(0);
    for (int i = 0; i < t->n; i++) {
        kiln_tensor *p = piece(in[0], t, i);
        kiln_tensor *cube = kiln_sum(kiln_mul(kiln_mul(p, p), p), NULL);
        sum = kiln_add(sum, kiln_mul(cube, kiln_scalar(t->pieces[i].weight / 3)));
    }
    out[0] = sum;
    return kiln_error();
}

static kiln_status gradient(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_grad(loss, user, in, n_in, NULL, out, 1);
}

static kiln_status squared_gradient(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *g;
    TRY_(gradient(user, in, n_in, &g, 1));
    out[0] = kiln_sum(kiln_square(g), NULL);
    return kiln_error();
}

static kiln_status second(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_grad(squared_gradient, user, in, n_in, NULL, out, 1);
}

static bool holds(const struct taking *t, int i, int64_t row, int64_t col)
{
    int64_t at = t->pieces[i].axis ? col : row, from = at - t->pieces[i].start;
    return from >= 0 && at < t->pieces[i].stop && from % t->pieces[i].step == 0;
}

static void close_to(kiln_tensor *got, const double *want, int round, const char *what)
{
    double v[64];
    ok(kiln_error());
    read_all(got, v);
    for (int64_t i = 0; i < kiln_numel(got); i++)
        if (!(fabs(v[i] - want[i]) <= 1e-4 * (1 + fabs(want[i]))))
            fail_msg("round %d, %s: element %d is %g, not %g", round, what, (int)i, v[i], want[i]);
}

static void gradients_of_pieces(void **state)
{
    struct fixture *f = *state;
    int rounds = strcmp(jit_device, "cpu") ? 30 : 150;
    for (int round = 0; round < rounds; round++) {
        struct taking t;
        float data[64];
        double first[64], twice[64];
        random_state = (uint64_t)round * 0x9E3779B97F4A7C15u;
        draw(&t);
        for (int64_t i = 0; i < t.rows * t.cols; i++) {
            double m = 0, x = data[i] = (float)(below(33) - 16) / 8;
            for (int k = 0; k < t.n; k++) m += holds(&t, k, i / t.cols, i % t.cols) ? t.pieces[k].weight : 0;
            first[i] = m * x * x;
            twice[i] = 4 * m * m * x * x * x;
        }
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_from_data(f->dev, KILN_F32, KILN_SHAPE(t.rows, t.cols), data), *g = NULL;
        ok(gradient(&t, &x, 1, &g, 1));
        close_to(g, first, round, "first order");
        ok(second(&t, &x, 1, &g, 1));
        close_to(g, twice, round, "second order");
        if (round % 10 == 0) {
            kiln_function *j = kiln_jit(round % 20 ? second : gradient, &t, NULL);
            for (int call = 0; call < 2; call++) {
                ok(kiln_call(j, &x, 1, &g, 1));
                close_to(g, round % 20 ? twice : first, round, "captured");
            }
            kiln_function_free(&j);
        }
        kiln_scope_end(&scope);
    }
}

// A parameter that is taken apart: its gradient, and the hook that sees it whole.
static kiln_tensor *see_whole(void *user, kiln_tensor *g)
{
    *(int64_t *)user = kiln_numel(g);
    return NULL;
}

static uint64_t launches_of_backward(struct fixture *f, int n)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_parameter(kiln_ones(f->dev, KILN_F32, KILN_SHAPE(n, 7)), "x"), *rows[512], *sum = NULL;
    int64_t seen = 0;
    ok(kiln_unstack(x, 0, rows, (size_t)n));
    for (int i = 0; i < n; i++) {
        kiln_tensor *y = kiln_mul(rows[i], kiln_scalar(i));
        sum = sum ? kiln_add(sum, y) : y;
    }
    kiln_register_hook(x, see_whole, &seen);
    uint64_t before = launches_of(f);
    ok(kiln_backward(kiln_sum(sum, NULL), NULL));
    uint64_t made = launches_of(f) - before;
    double v[512 * 7];
    read_all(kiln_gradient(x), v);
    for (int i = 0; i < n * 7; i++) assert_true(v[i] == i / 7);
    assert_int_equal(seen, n * 7);
    kiln_scope_end(&scope);
    return made;
}

// A multiplication and a copy a piece; not the whole, and its addition, for each.
static void pieces_cost_what_they_are(void **state)
{
    uint64_t some = launches_of_backward(*state, 100), more = launches_of_backward(*state, 500);
    print_message("%d and %d launches\n", (int)some, (int)more);
    assert_in_range(more - some, 1, 400 * 5 / 2);
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(gradients_of_pieces),
        FIXTURE(pieces_cost_what_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
