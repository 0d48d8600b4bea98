// Gradients of tensors by tensors, and losses of derivatives: what a backward reaches through the results of gradients,
// and that it says so where it cannot. usage: test_gradients [DEVICE]
#include "../jit/jit_fixture.h"

static kiln_tensor *f64s(struct fixture *f, int n, const double *v)
{
    return kiln_from_data(f->dev, KILN_F64, KILN_SHAPE(n), v);
}

static void close_to(kiln_tensor *t, int n, const double *want, double tolerance)
{
    double v[16];
    assert_non_null(t);
    kiln_tensor *wide = kiln_cast(t, KILN_F64);
    ok(kiln_read(wide, v, sizeof *v * (size_t)n));
    for (int i = 0; i < n; i++)
        if (!(fabs(v[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("element %d is %.12g, not %.12g", i, v[i], want[i]);
}

// --- kiln_gradients

static void gradients_by_leaves_and_results(void **state)
{
    struct fixture *f = *state;
    const double v[] = {1, -2, 3}, cube[] = {3, 12, 27}, seconds[] = {6, -12, 18}, h_grads[] = {2, -4, 6};
    kiln_tensor *x = kiln_parameter(f64s(f, 3, v), "x"), *h = kiln_mul(x, kiln_scalar(2));
    kiln_tensor *y = kiln_sum(kiln_pow(x, kiln_scalar(3)), NULL), *g[3], *gg;
    ok(kiln_gradients(y, &x, 1, KILN_GRADIENTS(.create_graph = true), g));
    close_to(g[0], 3, cube, 1e-12);
    ok(kiln_gradients(kiln_sum(g[0], NULL), &x, 1, NULL, &gg));
    close_to(gg, 3, seconds, 1e-12);
    assert_null(kiln_gradient(x)); // the parameter has none of it

    // One of them lies behind the other: h = 2x, z = sum(h^2) / 2; dz/dh = h, dz/dx = 2h. And one twice.
    kiln_tensor *z = kiln_mul(kiln_sum(kiln_square(h), NULL), kiln_scalar(.5)), *wrt[] = {h, x, h};
    const double x_grads[] = {4, -8, 12};
    ok(kiln_gradients(z, wrt, 3, NULL, g));
    close_to(g[0], 3, h_grads, 1e-12);
    close_to(g[1], 3, x_grads, 1e-12);
    close_to(g[2], 3, h_grads, 1e-12);
    fails(kiln_gradients(z, &x, 1, NULL, g), KILN_E_GRADIENT, "used up by an earlier backward");
    assert_null(g[0]);
}

static void gradients_of_every_kind_of_place(void **state)
{
    struct fixture *f = *state;
    const double v[] = {1, 2, 3, 4}, w[] = {5, 7}, zeros[] = {0, 0, 0, 0}, tens[] = {10, 20, 30, 40};
    kiln_tensor *x = kiln_parameter(f64s(f, 4, v), "x"), *unused = kiln_parameter(f64s(f, 2, w), "unused"), *parts[2],
                *g[3];
    // The outputs of one op are places of their own.
    ok(kiln_split(kiln_mul(x, kiln_scalar(1)), 0, parts, 2));
    kiln_tensor *y = kiln_sum(kiln_mul(parts[0], parts[1]), NULL), *wrt[] = {parts[0], parts[1], unused};
    ok(kiln_gradients(y, wrt, 3, KILN_GRADIENTS(.keep_tape = true), g));
    const double first[] = {3, 4}, second[] = {1, 2};
    close_to(g[0], 2, first, 1e-12);
    close_to(g[1], 2, second, 1e-12);
    close_to(g[2], 2, zeros, 0);
    ok(kiln_gradients(y, &parts[1], 1, NULL, g)); // the tape was kept
    close_to(g[0], 2, second, 1e-12);
    // Of a tensor with a gradient of its own for each element, and by itself.
    kiln_tensor *s = kiln_square(x), *sens = f64s(f, 4, (const double[]){5, 5, 5, 5});
    ok(kiln_gradients(s, &x, 1, KILN_GRADIENTS(.sens = sens), g));
    close_to(g[0], 4, tens, 1e-12);
    kiln_tensor *t = kiln_square(x);
    ok(kiln_gradients(t, &t, 1, KILN_GRADIENTS(.sens = sens), g));
    close_to(g[0], 4, (const double[]){5, 5, 5, 5}, 0);
}

static void wrong_gradients(void **state)
{
    struct fixture *f = *state;
    const double v[] = {1, 2};
    kiln_tensor *x = kiln_parameter(f64s(f, 2, v), "x"), *y = kiln_square(x), *plain = f64s(f, 2, v), *g = x;
    fails(kiln_gradients(y, &plain, 1, NULL, &g), KILN_E_GRADIENT, "gradients: wrt 0 requires no gradient");
    assert_null(g);
    fails(kiln_gradients(plain, &x, 1, NULL, &g), KILN_E_GRADIENT, "gradients: out depends on nothing");
    fails(kiln_gradients(NULL, &x, 1, NULL, &g), KILN_E_ARGUMENT, "gradients: out is NULL");
    fails(kiln_gradients(y, NULL, 1, NULL, &g), KILN_E_ARGUMENT, "gradients: wrt is NULL");
    fails(kiln_gradients(y, &x, 1, NULL, NULL), KILN_E_ARGUMENT, "gradients: grads is NULL");
    fails(kiln_gradients(y, &x, 0, NULL, &g), KILN_E_ARGUMENT, "gradients: there is nothing");
    fails(kiln_gradients(y, &x, 1, KILN_GRADIENTS(.sens = f64s(f, 1, v)), &g), KILN_E_SHAPE, "gradients: sens");
}

// --- where nothing requires a gradient

struct nothing {
    kiln_tensor *w;
    int what;
};

static kiln_status constant_of(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct nothing *n = user;
    out[0] = kiln_sum(kiln_mul(kiln_stop_gradient(in[0]), kiln_floor(kiln_stop_gradient(n->w))), NULL);
    return kiln_error();
}

// Asks for gradients in one of the ways that there are.
static kiln_status ask(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct nothing *n = user;
    TRY_(constant_of(user, in, n_in, out, 1));
    kiln_tensor *constant = out[0];
    if (n->what == 0) return kiln_backward(constant, NULL);
    if (n->what == 1) return kiln_grad(constant_of, user, in, 1, NULL, out, 1);
    if (n->what == 2) return kiln_gradients(constant, &n->w, 1, NULL, out);
    return kiln_gradients(kiln_square(n->w), &constant, 1, NULL, out);
}

static void nothing_requires_a_gradient(void **state)
{
    static const char *const messages[] = {NULL, NULL, "gradients: out depends on nothing that requires a gradient",
                                           "gradients: wrt 0 requires no gradient"};
    struct fixture *f = *state;
    for (int way = -1; way <= KILN_CAPTURE_TRACE; way++)
        for (int what = 0; what < 4; what++) {
            struct nothing n = {kiln_parameter(f64s(f, 2, (const double[]){1, 2}), "w"), what};
            kiln_function *j = way < 0 ? NULL : kiln_jit(ask, &n, KILN_JIT(.capture = (kiln_capture)way));
            for (int i = 0; i < 2; i++) {
                kiln_tensor *x = f64s(f, 2, (const double[]){3, 4}), *out = NULL;
                kiln_status status = j ? kiln_call(j, &x, 1, &out, 1) : ask(&n, &x, 1, &out, 1);
                if (messages[what])
                    fails(status, KILN_E_GRADIENT, messages[what]);
                else
                    ok(status);
                if (what == 1) close_to(out, 2, (const double[]){0, 0}, 0);
                assert_null(kiln_gradient(n.w));
            }
            kiln_function_free(&j);
        }
    fails(kiln_backward_graph(f64s(f, 2, (const double[]){3, 4})) ? KILN_OK : kiln_error(), KILN_E_GRADIENT,
          "backward_graph: out depends on nothing that requires a gradient");
}

// --- a loss of a derivative: u = sum(tanh(w x)), loss = mean((du/dx - 1)^2), of which d loss / d w is

struct problem {
    kiln_tensor *w;
    bool create_graph, stop;
};

static kiln_status field(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct problem *p = user;
    out[0] = kiln_sum(kiln_tanh(kiln_mul(p->w, in[0])), NULL);
    return kiln_error();
}

static kiln_status slope_loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct problem *p = user;
    kiln_tensor *slope;
    TRY_(kiln_grad(field, p, in, 1, KILN_GRAD(.create_graph = p->create_graph), &slope, 1));
    if (p->stop) slope = kiln_stop_gradient(slope);
    out[0] = kiln_add(kiln_mean(kiln_square(kiln_sub(slope, kiln_scalar(1))), NULL), kiln_sum(kiln_square(p->w), NULL));
    return kiln_error();
}

static void the_graph_of_what_kept_no_tape(void **state)
{
    struct fixture *f = *state;
    struct problem p = {.w = kiln_parameter(f64s(f, 2, (const double[]){1, 2}), "w")};
    kiln_tensor *x = f64s(f, 2, (const double[]){3, 4}), *slope;
    ok(kiln_grad(field, &p, &x, 1, NULL, &slope, 1));
    assert_null(kiln_backward_graph(slope));
    fails(kiln_error(), KILN_E_GRADIENT, "backward_graph: out comes from a result of kiln_grad, which kept no tape");
}

// d/dw of mean((w (1 - tanh^2(w x)) - 1)^2) + w^2, by hand.
static double loss_gradient(double w, const double *x, int n, bool through_slope)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double t = tanh(w * x[i]), s = 1 - t * t;
        sum += 2 * (w * s - 1) * (s - 2 * w * t * s * x[i]) / n;
    }
    return (through_slope ? sum : 0) + 2 * w;
}

static const double xs[] = {-1, .5, 2};
static const kiln_jit_opts ways[] = {
    {.size = sizeof(kiln_jit_opts), .capture = KILN_CAPTURE_STRICT},
    {.size = sizeof(kiln_jit_opts), .capture = KILN_CAPTURE_AUTO},
    {.size = sizeof(kiln_jit_opts), .capture = KILN_CAPTURE_TRACE},
};

// Eagerly (way -1) or captured.
static kiln_status run_loss(struct problem *p, int way, kiln_tensor *x, kiln_tensor **loss)
{
    if (way < 0) return slope_loss(p, &x, 1, loss, 1);
    kiln_function *f = kiln_jit(slope_loss, p, &ways[way]);
    kiln_status status = KILN_OK;
    for (int i = 0; i < 4 && !status; i++) status = kiln_call(f, &x, 1, loss, 1);
    kiln_function_free(&f);
    return status;
}

static void losses_of_derivatives_reach_parameters(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = f64s(f, 3, xs), *loss;
    for (int way = -1; way < 3; way++) {
        const double w = .7, want = loss_gradient(w, xs, 3, true);
        struct problem p = {kiln_parameter(f64s(f, 1, &w), "w"), .create_graph = true};
        ok(run_loss(&p, way, x, &loss));
        ok(kiln_backward(loss, NULL));
        close_to(kiln_gradient(p.w), 1, &want, 1e-10);
    }
}

static void parts_are_not_dropped_in_silence(void **state)
{
    struct fixture *f = *state;
    const double w = .7, stopped = loss_gradient(w, xs, 3, false);
    kiln_tensor *x = f64s(f, 3, xs), *loss;
    for (int way = -1; way < 3; way++) {
        struct problem p = {kiln_parameter(f64s(f, 1, &w), "w")};
        ok(run_loss(&p, way, x, &loss));
        fails(kiln_backward(loss, NULL), KILN_E_GRADIENT, ".create_graph");
        assert_null(kiln_gradient(p.w));
        // What is meant as a constant is one.
        p.stop = true;
        ok(run_loss(&p, way, x, &loss));
        ok(kiln_backward(loss, NULL));
        close_to(kiln_gradient(p.w), 1, &stopped, 1e-10);
    }
}

static kiln_status slope_only(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct problem *p = user;
    return kiln_grad(field, p, in, 1, KILN_GRAD(.create_graph = p->create_graph), out, 1);
}

static kiln_status add_squares(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct problem *p = user;
    out[0] = kiln_add(kiln_sum(kiln_square(in[0]), NULL), kiln_sum(kiln_square(p->w), NULL));
    return kiln_error();
}

// The result of a capture, and an input of one, say the same as those of eager calls.
static void captures_hand_on_what_kept_no_tape(void **state)
{
    struct fixture *f = *state;
    const double w = .7;
    for (int way = 0; way < 3; way++) {
        struct problem p = {kiln_parameter(f64s(f, 1, &w), "w")};
        kiln_function *slope = kiln_jit(slope_only, &p, &ways[way]), *squares = kiln_jit(add_squares, &p, &ways[way]);
        kiln_tensor *x = f64s(f, 3, xs), *s = NULL, *loss = NULL;
        for (int i = 0; i < 3; i++) {
            ok(kiln_call(slope, &x, 1, &s, 1));
            assert_false(kiln_requires_grad(s));
            ok(slope_only(&p, &x, 1, &loss, 1));
            same(s, loss);
            fails(kiln_backward(kiln_sum(s, NULL), NULL), KILN_E_GRADIENT, ".create_graph");
            ok(kiln_call(squares, &s, 1, &loss, 1));
            fails(kiln_backward(loss, NULL), KILN_E_GRADIENT, ".create_graph");
        }
        kiln_function_free(&slope);
        kiln_function_free(&squares);
    }
}

static kiln_status total(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct problem *p = user;
    out[0] = kiln_sum(kiln_mul(kiln_square(in[0]), p->w), NULL);
    return kiln_error();
}

// Values of gradients are values: they are read, summed up in memory, given to optimisers, and leave no tape behind.
static void gradients_are_values(void **state)
{
    struct fixture *f = *state;
    const double w = 3, v[] = {1, 2}, twos[] = {6, 12}, sums[] = {18, 36}, third[] = {5};
    struct problem p = {kiln_parameter(f64s(f, 1, &w), "w")};
    kiln_tensor *x = f64s(f, 2, v), *r[3], *sum = f64s(f, 2, (const double[]){0, 0});
    kiln_state(sum);
    for (int i = 0; i < 3; i++) {
        ok(kiln_value_and_grad(total, &p, &x, 1, KILN_GRAD(.wrt = KILN_ARGS(0), .params = KILN_PARAMS(p.w)), r, 3));
        close_to(r[1], 2, twos, 1e-12);
        close_to(r[2], 1, third, 1e-12);
        ok(kiln_add_(sum, r[1]));
        assert_false(kiln_requires_grad(r[0]) || kiln_requires_grad(r[1]) || kiln_requires_grad(sum));
        assert_true(kiln_is_leaf(r[1]) && kiln_is_leaf(sum));
        ok(kiln_set_gradient(p.w, r[2]));
    }
    close_to(sum, 2, sums, 1e-12);
    // Leaves are made of them.
    kiln_tensor *q = kiln_parameter(r[1], "q"), *l = kiln_alias(r[1]);
    ok(kiln_set_requires_grad(l, true));
    ok(kiln_backward(kiln_sum(kiln_mul(kiln_square(q), l), NULL), NULL));
    close_to(kiln_gradient(q), 2, (const double[]){72, 288}, 1e-12);
    // No parameter, or none that is wanted: nothing could be dropped, nothing is said.
    kiln_tensor *one = f64s(f, 1, (const double[]){1}), *g, *pw = p.w;
    p.w = one;
    ok(kiln_grad(total, &p, &x, 1, NULL, &g, 1));
    ok(kiln_backward(kiln_sum(kiln_mul(g, l), NULL), NULL));
    p.w = pw;
    kiln_no_grad_begin();
    ok(kiln_grad(total, &p, &x, 1, NULL, &g, 1));
    kiln_no_grad_end();
    ok(kiln_backward(kiln_sum(kiln_mul(g, l), NULL), NULL));
    close_to(kiln_gradient(l), 2, twos, 1e-12);
}

static kiln_status weighted(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *const *reached = user;
    out[0] = kiln_sum(kiln_mul(kiln_mul(in[0], reached[0]), reached[1]), NULL);
    return kiln_error();
}

// Through views, writes into parts, and what has another gradient beside.
static void cuts_are_seen_through_memory(void **state)
{
    struct fixture *f = *state;
    const double w = 3, v[] = {1, 2};
    struct problem p = {kiln_parameter(f64s(f, 1, &w), "w")};
    kiln_tensor *x = f64s(f, 2, v), *g, *room = f64s(f, 4, (const double[]){0, 0, 0, 0});
    ok(kiln_grad(total, &p, &x, 1, NULL, &g, 1));
    ok(kiln_set_slice(room, KILN_SLICE(.start = KILN_ARGS(1), .stop = KILN_ARGS(3)), g));
    fails(kiln_backward(kiln_sum(kiln_mul(room, p.w), NULL), NULL), KILN_E_GRADIENT, ".create_graph");
    fails(kiln_backward(kiln_sum(kiln_narrow(room, 0, 1, 2), NULL), NULL), KILN_E_GRADIENT, ".create_graph");
    kiln_tensor *both = kiln_mul(p.w, kiln_ones(f->dev, KILN_F64, KILN_SHAPE(4)));
    ok(kiln_set_slice(both, KILN_SLICE(.stop = KILN_ARGS(2)), g));
    fails(kiln_backward(kiln_sum(both, NULL), NULL), KILN_E_GRADIENT, ".create_graph");
    ok(kiln_assign(room, kiln_scalar(1)));
    ok(kiln_backward(kiln_sum(kiln_mul(room, p.w), NULL), NULL));
    close_to(kiln_gradient(p.w), 1, (const double[]){4}, 1e-12);
    // By a parameter, inside kiln_grad and by kiln_gradients too.
    kiln_tensor *y = kiln_sum(kiln_mul(g, p.w), NULL), *gw;
    fails(kiln_gradients(y, &p.w, 1, NULL, &gw), KILN_E_GRADIENT, ".create_graph");
    kiln_tensor *r, *reached[] = {g, p.w};
    fails(kiln_grad(weighted, reached, &x, 1, KILN_GRAD(.params = KILN_PARAMS(p.w)), &r, 1), KILN_E_GRADIENT,
          ".create_graph");
    // By an input it is a function of values, and what a function is given are values.
    ok(kiln_grad(weighted, reached, &x, 1, NULL, &r, 1));
    close_to(r, 2, (const double[]){18, 36}, 1e-12);
    ok(kiln_grad(add_squares, &p, &g, 1, KILN_GRAD(.wrt = KILN_ARGS(0), .params = KILN_PARAMS(p.w)), reached, 2));
    close_to(reached[0], 2, (const double[]){12, 24}, 1e-12);
    close_to(reached[1], 1, (const double[]){6}, 1e-12);
}

// --- a network trained by its own derivatives: u'' = -sin x with u(0) = 0, u'(0) = 1, so u = sin x

#define POINTS 24
#define WIDTH  12

struct net {
    kiln_tensor *w[4];
    kiln_tensor *x, *zero;
    kiln_optim *opt;
};

static kiln_tensor *initial(struct fixture *f, size_t rank, const int64_t *dims, double scale, unsigned *seed)
{
    float v[256];
    size_t n = rank == 2 ? (size_t)(dims[0] * dims[1]) : (size_t)dims[0];
    for (size_t i = 0; i < n; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        v[i] = (float)(scale * ((double)(*seed >> 8) / (1 << 23) - 1));
    }
    return kiln_from_data(f->dev, KILN_F32, rank, dims, v);
}

static void make_net(struct fixture *f, struct net *n)
{
    float x[POINTS];
    unsigned seed = 1;
    for (int i = 0; i < POINTS; i++) x[i] = -2 + 4.f * (float)i / (POINTS - 1);
    n->x = kiln_from_data(f->dev, KILN_F32, KILN_SHAPE(POINTS, 1), x);
    n->zero = kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(1, 1));
    n->w[0] = kiln_parameter(initial(f, KILN_SHAPE(1, WIDTH), 1.5, &seed), "w0");
    n->w[1] = kiln_parameter(initial(f, KILN_SHAPE(WIDTH), 1, &seed), "b0");
    n->w[2] = kiln_parameter(initial(f, KILN_SHAPE(WIDTH, 1), .6, &seed), "w1");
    n->w[3] = kiln_parameter(initial(f, KILN_SHAPE(1), .1, &seed), "b1");
    n->opt = kiln_optim_adam(n->w, 4, KILN_ADAM(.lr = .02));
}

static kiln_tensor *u(struct net *n, kiln_tensor *x)
{
    return kiln_add(kiln_matmul(kiln_tanh(kiln_add(kiln_matmul(x, n->w[0]), n->w[1])), n->w[2]), n->w[3]);
}

static kiln_status u_fn(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = u(user, in[0]);
    return kiln_error();
}

static kiln_status u_x_fn(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_grad(u_fn, user, in, 1, KILN_GRAD(.create_graph = true), out, 1);
}

static kiln_tensor *loss_of(struct net *n, kiln_tensor *x, kiln_tensor *zero, kiln_tensor *u_xx, kiln_tensor *u_0)
{
    kiln_tensor *inside = kiln_mean(kiln_square(kiln_add(u_xx, kiln_sin(x))), NULL);
    kiln_tensor *slope = kiln_sum(kiln_square(kiln_sub(u_0, kiln_scalar(1))), NULL);
    return kiln_add(inside, kiln_add(slope, kiln_sum(kiln_square(u(n, zero)), NULL)));
}

static kiln_status finish_step(struct net *n, kiln_tensor *loss, kiln_tensor **out)
{
    TRY_(kiln_backward(loss, NULL));
    TRY_(kiln_optim_step(n->opt));
    *out = kiln_stop_gradient(loss);
    return kiln_error();
}

// By functions.
static kiln_status step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    kiln_tensor *u_xx, *u_0;
    TRY_(kiln_grad(u_x_fn, n, &in[0], 1, KILN_GRAD(.create_graph = true), &u_xx, 1));
    TRY_(u_x_fn(n, &in[1], 1, &u_0, 1));
    return finish_step(n, loss_of(n, in[0], in[1], u_xx, u_0), out);
}

// By tensors.
static kiln_status step_by_tensors(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    kiln_tensor *x = in[0], *zero = in[1], *u_x, *u_xx, *u_0;
    TRY_(kiln_gradients(u(n, x), &x, 1, KILN_GRADIENTS(.create_graph = true), &u_x));
    TRY_(kiln_gradients(u_x, &x, 1, KILN_GRADIENTS(.create_graph = true), &u_xx));
    TRY_(kiln_gradients(u(n, zero), &zero, 1, KILN_GRADIENTS(.create_graph = true), &u_0));
    return finish_step(n, loss_of(n, kiln_stop_gradient(x), zero, u_xx, u_0), out);
}

static double train(struct fixture *f, kiln_fn fn, int way, int steps, double *first)
{
    struct net n;
    make_net(f, &n);
    kiln_tensor *in[] = {n.x, n.zero};
    if (fn == step_by_tensors) {
        in[0] = kiln_parameter(n.x, "x");
        in[1] = kiln_parameter(n.zero, "zero");
    }
    kiln_function *j = way < 0 ? NULL : kiln_jit(fn, &n, &ways[way]);
    double loss = NAN;
    for (int i = 0; i < steps; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *out = NULL;
        ok(j ? kiln_call(j, in, 2, &out, 1) : fn(&n, in, 2, &out, 1));
        loss = kiln_item(out);
        if (first && i < 10) first[i] = loss;
        kiln_scope_end(&scope);
    }
    float values[POINTS];
    ok(kiln_read(u(&n, n.x), values, sizeof values));
    for (int i = 0; i < POINTS && steps > 100; i++)
        if (fabs(values[i] - sin(-2 + 4. * i / (POINTS - 1))) > .1) fail_msg("u[%d] is %g", i, (double)values[i]);
    kiln_function_free(&j);
    kiln_optim_free(&n.opt);
    return loss;
}

static void a_network_learns_from_its_derivatives(void **state)
{
    double first[10];
    double loss = train(*state, step, -1, 400, first);
    if (!(loss < .01) || !(first[0] > .3)) fail_msg("the loss went from %g to %g", first[0], loss);
}

static void every_way_gives_the_same_steps(void **state)
{
    double want[10], got[10];
    train(*state, step, -1, 10, want);
    for (int way = -1; way < 3; way++)
        for (int by_tensors = 0; by_tensors < 2; by_tensors++) {
            train(*state, by_tensors ? step_by_tensors : step, way, 10, got);
            for (int i = 0; i < 10; i++)
                if (!(fabs(got[i] - want[i]) < 1e-3 * fabs(want[i])))
                    fail_msg("way %d, by tensors %d, step %d: the loss is %g, not %g", way, by_tensors, i, got[i],
                             want[i]);
        }
    assert_true(want[9] < want[0]);
    double loss = train(*state, step, 0, 400, NULL);
    if (!(loss < .01)) fail_msg("captured, the loss is %g", loss);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(gradients_by_leaves_and_results),
        FIXTURE(gradients_of_every_kind_of_place),
        FIXTURE(wrong_gradients),
        FIXTURE(nothing_requires_a_gradient),
        FIXTURE(the_graph_of_what_kept_no_tape),
        FIXTURE(losses_of_derivatives_reach_parameters),
        FIXTURE(parts_are_not_dropped_in_silence),
        FIXTURE(captures_hand_on_what_kept_no_tape),
        FIXTURE(gradients_are_values),
        FIXTURE(cuts_are_seen_through_memory),
        FIXTURE(a_network_learns_from_its_derivatives),
        FIXTURE(every_way_gives_the_same_steps),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
