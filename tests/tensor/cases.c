// The example programs of the documents, E1 to E8 and those of D1 to D12 that have a form in C, in every way to run a
// function: plain, captured in each of the three captures, and in graph mode. A row says what comes out, and where the
// ways differ, how.
#include "../jit/jit_fixture.h"

#define MAX_TENSORS 3
#define MAX_CALLS   2

// What a way makes of a function that looks at values, or at variables of C.
enum outcome { AS_IN_C, AS_STRICT, AS_TRACE };

static const struct way {
    const char *name;
    bool captured;
    kiln_capture capture;
    kiln_mode mode;
    enum outcome outcome;
} ways[] = {
    {"plain", false, 0, KILN_MODE_EAGER, AS_IN_C},
    {"strict", true, KILN_CAPTURE_STRICT, KILN_MODE_EAGER, AS_STRICT},
    {"auto", true, KILN_CAPTURE_AUTO, KILN_MODE_EAGER, AS_IN_C},
    {"trace", true, KILN_CAPTURE_TRACE, KILN_MODE_EAGER, AS_TRACE},
    {"plain in graph mode", false, 0, KILN_MODE_GRAPH, AS_IN_C},
    {"strict in graph mode", true, KILN_CAPTURE_STRICT, KILN_MODE_GRAPH, AS_STRICT},
    {"auto in graph mode", true, KILN_CAPTURE_AUTO, KILN_MODE_GRAPH, AS_IN_C},
    {"trace in graph mode", true, KILN_CAPTURE_TRACE, KILN_MODE_GRAPH, AS_TRACE},
};

// An input, or what a result must be.
struct value {
    enum { NONE, TENSOR, NUMBER } kind;
    kiln_dtype dtype;
    size_t rank;
    int64_t dims[4];
    double v[9];
    bool filled; // all elements are v[0]
    int same_as; // a result: 1 + i: a view of input i; -1: of the first result
};
#define VEC(type, n, ...)                                                           \
    {                                                                               \
        .kind = TENSOR, .dtype = type, .rank = 1, .dims = {n}, .v = { __VA_ARGS__ } \
    }
#define MAT(r, c, ...)                                                                     \
    {                                                                                      \
        .kind = TENSOR, .dtype = KILN_F32, .rank = 2, .dims = {r, c}, .v = { __VA_ARGS__ } \
    }
#define FILLED(x, rank_, ...)                                                                             \
    {                                                                                                     \
        .kind = TENSOR, .dtype = KILN_F32, .rank = rank_, .dims = {__VA_ARGS__}, .v = {x}, .filled = true \
    }
#define INTEGER(x)                                    \
    {                                                 \
        .kind = NUMBER, .dtype = KILN_I64, .v = { x } \
    }
#define SAME(i, ...)                                                                                \
    {                                                                                               \
        .kind = TENSOR, .dtype = KILN_F32, .rank = 1, .dims = {2}, .v = {__VA_ARGS__}, .same_as = i \
    }

struct world;

struct call {
    struct value in[MAX_TENSORS], out[MAX_TENSORS];
    const char *text[MAX_TENSORS]; // of results, as NumPy prints them
    int64_t len;                   // the variable of C
    struct value attr;             // the state, after the call
    // The first result, where it is another one.
    struct value strict, trace;
    const char *strict_error;
};

struct example {
    const char *name;
    kiln_fn fn;
    void (*begin)(struct world *w);
    bool is_cell;               // in graph mode it is a graph as it is
    const kiln_grad_opts *grad; // gradients of fn are the results
    struct call calls[MAX_CALLS];
};

// A row, a way, and what lives while it runs. It is the user data of all functions.
struct world {
    const struct example *e;
    const struct way *way;
    bool inside; // gradients are taken inside of what is captured, not around it
    char name[80];
    kiln_scope *scope;
    kiln_function *f, *inner;
    kiln_cell *cell;
    kiln_tensor *z, *attr;
    kiln_grad_opts grad;
    int64_t len;
    int read_line, rule_runs;
    bool has_rule;
    uint64_t tensors;
};

static kiln_device *dev;

// --- the programs ---

static kiln_status call_cell(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    return kiln_cell_call_n(w->cell, in, n_in, out, n_out);
}

static kiln_status construct_mul(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                 size_t n_out)
{
    out[0] = kiln_mul(in[0], in[1]);
    return kiln_error();
}

static void e1_begin(struct world *w)
{
    w->cell = kiln_cell_create(KILN_CELL(.kind = "net", .construct = construct_mul, .n_in = 2, .n_out = 1));
}

static kiln_status add(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], in[1]);
    return kiln_error();
}

static kiln_status construct_product(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in,
                                     kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_matmul(kiln_mul(in[0], kiln_cell_parameter(cell, "z")), in[1]);
    return kiln_error();
}

static void e3_begin(struct world *w)
{
    w->cell = kiln_cell_create(KILN_CELL(.kind = "net", .construct = construct_product, .n_in = 2, .n_out = 1));
    kiln_cell_make_parameter(w->cell, "z", dev, KILN_F32, KILN_SHAPE(1), "2.0");
    w->z = kiln_cell_parameter(w->cell, "z");
}

// x + x, times p, squared.
static kiln_status add_mul_mul(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_tensor *x = kiln_mul(kiln_add(in[0], in[0]), kiln_cell_parameter(w->cell, "param"));
    out[0] = kiln_mul(x, x);
    return kiln_error();
}

static kiln_status construct_conv_bn(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in,
                                     kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_tensor *y = NULL, *x = kiln_cell_call(kiln_cell_child(cell, "conv"), in[0]);
    x = kiln_cell_call(kiln_cell_child(cell, "bn"), x);
    TRY_(kiln_call(w->inner, &x, 1, &y, 1));
    out[0] = kiln_cell_call(kiln_cell_child(cell, "relu"), y);
    return kiln_error();
}

static void e4_begin(struct world *w)
{
    w->inner = kiln_jit(add_mul_mul, w, NULL);
    w->cell =
        kiln_cell_create(KILN_CELL(.kind = "net", .construct = construct_conv_bn, .user = w, .n_in = 1, .n_out = 1));
    kiln_cell_make_parameter(w->cell, "param", dev, KILN_F32, KILN_SHAPE0, "0.5");
    kiln_cell_add_child(w->cell, "conv",
                        kiln_nn_conv2d(dev, 1, 2, 2, KILN_NN_CONV2D(.weight_init = "ones", .pad_mode = "valid")));
    kiln_cell_add_child(w->cell, "bn", kiln_nn_batch_norm2d(dev, 2, KILN_NN_BATCH_NORM(.momentum = 0.99, .eps = 1e-5)));
    kiln_cell_add_child(w->cell, "relu", kiln_nn_relu());
}

static kiln_status tensor_cal(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(kiln_matmul(in[0], in[1]), in[2]);
    return kiln_error();
}

static kiln_status mul_rule(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                            kiln_tensor **din)
{
    ((struct world *)user)->rule_runs++;
    if (kiln_rule_wants(0)) din[0] = kiln_mul(in[1], dout[0]);
    if (kiln_rule_wants(1)) din[1] = kiln_mul(in[0], dout[0]);
    return kiln_error();
}

static void e7_begin(struct world *w)
{
    kiln_register_bprop("Mul", mul_rule, w);
    w->has_rule = true;
}

static kiln_status scaled_product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_matmul(kiln_mul(in[0], in[2]), in[1]);
    return kiln_error();
}

static kiln_status from_host(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const int64_t x[] = {1, 2, 3};
    out[0] = kiln_from_data(dev, KILN_I64, KILN_SHAPE(3), x);
    return kiln_error();
}

static kiln_status count_up(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    int64_t a = 0;
    kiln_tensor *m = kiln_mul(in[0], kiln_scalar_int(3));
    w->read_line = __LINE__ + 1;
    for (int64_t i = kiln_item_int(m); i > 0; i--) a++;
    out[0] = kiln_scalar_int(a);
    return kiln_error();
}

static kiln_status set_attr(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    out[0] = kiln_add(in[0], kiln_scalar(1));
    return kiln_assign(w->attr, out[0]);
}

static void d4_begin(struct world *w)
{
    w->attr = kiln_zeros(dev, KILN_F32, KILN_SHAPE(3));
    kiln_state(w->attr);
}

static kiln_status add_len(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct world *w = user;
    out[0] = kiln_add(in[0], kiln_scalar_int(w->len));
    return kiln_error();
}

static kiln_status construct_add_len(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in,
                                     kiln_tensor **out, size_t n_out)
{
    return add_len(user, in, n_in, out, n_out);
}

static void d5_begin(struct world *w)
{
    w->cell =
        kiln_cell_create(KILN_CELL(.kind = "net", .construct = construct_add_len, .user = w, .n_in = 1, .n_out = 1));
}

static kiln_status xyz(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(kiln_mul(in[0], in[1]), in[2]);
    return kiln_error();
}

static kiln_status with_aux(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(kiln_mul(in[0], kiln_exp(in[1])), kiln_pow(in[2], kiln_scalar(2)));
    out[1] = in[2];
    return kiln_error();
}

static kiln_status product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_matmul(in[0], in[1]);
    return kiln_error();
}

static kiln_status sum_of_three(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(kiln_add(in[0], in[1]), in[2]);
    return kiln_error();
}

static kiln_status add_in_place(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY_(kiln_add_(in[0], in[1]));
    out[0] = in[0];
    return kiln_error();
}

static kiln_status identity(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[1];
    return KILN_OK;
}

static kiln_status twins(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = out[1] = kiln_add(in[0], in[0]);
    return kiln_error();
}

static kiln_status nothing(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return KILN_OK;
}

static kiln_status only_writes(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    return kiln_assign(w->attr, kiln_mul(in[0], in[0]));
}

// --- the table ---

#define E3_X MAT(2, 3, .8, .6, .2, 1.8, 1.3, 1.1)
#define E3_Y MAT(3, 3, .11, 3.3, 1.1, 1.1, .2, 1.4, 1.1, 2.2, .3)
#define E3_G MAT(2, 3, 9.02, 5.4, 7.2, 9.02, 5.4, 7.2)
#define E3_Z VEC(KILN_F32, 1, 2.6 * 4.51 + 1.9 * 2.7 + 1.3 * 3.6)

static const kiln_grad_opts by_first = {.size = sizeof(kiln_grad_opts), .wrt = {1, (int64_t[]){0}}},
                            by_0_and_1 = {.size = sizeof(kiln_grad_opts), .wrt = {2, (int64_t[]){0, 1}}},
                            by_0_and_2 = {.size = sizeof(kiln_grad_opts), .wrt = {2, (int64_t[]){0, 2}}},
                            by_1_and_2 = {.size = sizeof(kiln_grad_opts), .wrt = {2, (int64_t[]){1, 2}}},
                            beside_aux = {.size = sizeof(kiln_grad_opts),
                                          .wrt = {2, (int64_t[]){1, 2}},
                                          .outputs = 2,
                                          .has_aux = true};

static const struct example examples[] = {
    {"E1", call_cell, e1_begin, .is_cell = true,
     .calls = {{{VEC(KILN_F32, 3, 1, 2, 3), VEC(KILN_F32, 3, 4, 5, 6)},
                {VEC(KILN_F32, 3, 4, 10, 18)},
                .text = {"[ 4. 10. 18.]"}}}},
    {"E2", add,
     .calls = {{{FILLED(1, 4, 1, 3, 3, 4), FILLED(1, 4, 1, 3, 3, 4)},
                {FILLED(2, 4, 1, 3, 3, 4)},
                .text = {"[[[[2. 2. 2. 2.]\n   [2. 2. 2. 2.]\n   [2. 2. 2. 2.]]\n\n"
                         "  [[2. 2. 2. 2.]\n   [2. 2. 2. 2.]\n   [2. 2. 2. 2.]]\n\n"
                         "  [[2. 2. 2. 2.]\n   [2. 2. 2. 2.]\n   [2. 2. 2. 2.]]]]"}}}},
    {"E3", call_cell, e3_begin, .is_cell = true, .grad = &by_first, .calls = {{{E3_X, E3_Y}, {E3_G, E3_Z}}}},
    {"E4", call_cell, e4_begin, .is_cell = true,
     .calls = {{{FILLED(1, 4, 1, 1, 2, 2)}, {FILLED(15.99984, 4, 1, 2, 1, 1)}}}},
    {"E5, E6, D1", tensor_cal,
     .calls = {{{FILLED(1, 2, 2, 3), FILLED(1, 2, 3, 4), FILLED(1, 2, 2, 4)},
                {FILLED(4, 2, 2, 4)},
                {"[[4. 4. 4. 4.]\n [4. 4. 4. 4.]]"}}}},
    {"E7", scaled_product, e7_begin, .grad = &by_0_and_2, .calls = {{{E3_X, E3_Y, VEC(KILN_F32, 1, 2)}, {E3_G, E3_Z}}}},
    {"E8", from_host, .calls = {{.out = {VEC(KILN_I64, 3, 1, 2, 3)}, .text = {"[1 2 3]"}}}},
    {"D3", count_up,
     .calls = {{{VEC(KILN_I64, 1, 1)}, {INTEGER(3)}, {"3"}, .strict_error = "item_int: the value depends on an input"},
               {{VEC(KILN_I64, 1, 2)}, {INTEGER(6)}, .trace = INTEGER(3), .strict_error = "item_int: the value"}}},
    {"D4", set_attr, d4_begin,
     .calls =
         {{{VEC(KILN_F32, 3, 1, 2, 3)}, {VEC(KILN_F32, 3, 2, 3, 4)}, {"[2. 3. 4.]"}, .attr = VEC(KILN_F32, 3, 2, 3, 4)},
          {{VEC(KILN_F32, 3, 5, 6, 7)}, {VEC(KILN_F32, 3, 6, 7, 8)}, .attr = VEC(KILN_F32, 3, 6, 7, 8)}}},
    {"D5", add_len,
     .calls = {{{VEC(KILN_I64, 1, 2)}, {VEC(KILN_I64, 1, 3)}, {"[3]"}, .len = 1},
               {{VEC(KILN_I64, 1, 2)},
                {VEC(KILN_I64, 1, 4)},
                .len = 2,
                .strict = VEC(KILN_I64, 1, 3),
                .trace = VEC(KILN_I64, 1, 3)}}},
    {"D5 as a cell", call_cell, d5_begin, .is_cell = true,
     .calls = {{{VEC(KILN_I64, 1, 2)}, {VEC(KILN_I64, 1, 3)}, .len = 1},
               {{VEC(KILN_I64, 1, 2)},
                {VEC(KILN_I64, 1, 4)},
                .len = 2,
                .strict = VEC(KILN_I64, 1, 3),
                .trace = VEC(KILN_I64, 1, 3)}}},
    {"D6", add_len,
     .calls = {{{INTEGER(1)}, {INTEGER(4)}, {"4"}, .len = 3}, {{INTEGER(2)}, {INTEGER(5)}, {"5"}, .len = 3}}},
    {"D8", xyz, .grad = &by_1_and_2,
     .calls = {{{VEC(KILN_F32, 2, 1, 2), VEC(KILN_F32, 2, -2, 3), VEC(KILN_F32, 2, 0, 3)},
                {VEC(KILN_F32, 2, 0, 6), VEC(KILN_F32, 2, -2, 6)},
                {"[0. 6.]", "[-2.  6.]"}}}},
    {"D9", with_aux, .grad = &beside_aux,
     .calls = {{{VEC(KILN_F32, 2, 3, 3), VEC(KILN_F32, 2, 0, 0), VEC(KILN_F32, 2, 5, 5)},
                {VEC(KILN_F32, 2, 75, 75), VEC(KILN_F32, 2, 30, 30), SAME(3, 5, 5)},
                {"[75. 75.]", "[30. 30.]", "[5. 5.]"}}}},
    {"D10", product, .grad = &by_0_and_1,
     .calls = {{{MAT(2, 3, .5, .6, .4, 1.2, 1.3, 1.1), MAT(3, 3, .01, .3, 1.1, .1, .2, 1.3, 2.1, 1.2, 3.3)},
                {MAT(2, 3, 1.41, 1.6, 6.6, 1.41, 1.6, 6.6), MAT(3, 3, 1.7, 1.7, 1.7, 1.9, 1.9, 1.9, 1.5, 1.5, 1.5)}}}},
    {"D11", sum_of_three, .grad = &by_0_and_2,
     .calls = {{{VEC(KILN_I64, 1, 1), INTEGER(2), VEC(KILN_I64, 1, 3)},
                {VEC(KILN_I64, 1, 1), VEC(KILN_I64, 1, 1)},
                {"[1]", "[1]"}}}},
    {"D12", add_in_place,
     .calls = {{{VEC(KILN_I32, 1, 2), VEC(KILN_I32, 1, 3)}, {{TENSOR, KILN_I32, 1, {1}, {5}, .same_as = 1}}, {"[5]"}}}},
    {"D12, its gradient", add_in_place, .grad = &by_first,
     .calls = {{{VEC(KILN_I32, 1, 2), VEC(KILN_I32, 1, 3)}, {VEC(KILN_I32, 1, 1)}, {"[1]"}}}},
    {"an input returned", identity,
     .calls = {{{VEC(KILN_F32, 2, 7, 7), VEC(KILN_F32, 2, 1, 2)}, {SAME(2, 1, 2)}, {"[1. 2.]"}}}},
    {"one value twice", twins,
     .calls = {{{VEC(KILN_F32, 2, 1, 2)}, {VEC(KILN_F32, 2, 2, 4), SAME(-1, 2, 4)}, {"[2. 4.]", "[2. 4.]"}}}},
    {"nothing returned", nothing, .calls = {{{VEC(KILN_F32, 2, 1, 2)}}, {{VEC(KILN_I64, 1, 1)}}}},
    {"nothing returned, a write", only_writes, d4_begin,
     .calls = {{{VEC(KILN_F32, 3, 1, 2, 3)}, .attr = VEC(KILN_F32, 3, 1, 4, 9)},
               {{VEC(KILN_F32, 3, 0, 5, -3)}, .attr = VEC(KILN_F32, 3, 0, 25, 9)}}},
};

// --- running a row ---

static size_t count_values(const struct value *v)
{
    size_t n = 0;
    while (n < MAX_TENSORS && v[n].kind != NONE) n++;
    return n;
}

static int64_t elements_of(const struct value *v)
{
    int64_t n = 1;
    for (size_t i = 0; i < v->rank; i++) n *= v->dims[i];
    return n;
}

static kiln_tensor *make(const struct value *v)
{
    if (v->kind == NUMBER) return kiln_scalar_int((int64_t)v->v[0]);
    double wide[64];
    for (int64_t i = 0; i < elements_of(v); i++) wide[i] = v->v[v->filled ? 0 : i];
    return kiln_cast(kiln_from_data(dev, KILN_F64, v->rank, v->dims, wide), v->dtype);
}

static void compare(kiln_tensor *t, const struct value *want, const char *text)
{
    assert_non_null(t);
    assert_int_equal(kiln_tensor_dtype(t), want->dtype);
    assert_int_equal(kiln_rank(t), want->rank);
    for (size_t i = 0; i < want->rank; i++) assert_int_equal(kiln_dims(t)[i], want->dims[i]);
    double got[64];
    read_all(t, got);
    for (int64_t i = 0; i < elements_of(want); i++) {
        double x = want->v[want->filled ? 0 : i];
        if (!(fabs(got[i] - x) <= 1e-6 * fabs(x))) fail_msg("element %d is %.9g, not %.9g", (int)i, got[i], x);
    }
    char *printed = kiln_to_string(t);
    assert_non_null(printed);
    if (text) assert_string_equal(printed, text);
    free(printed);
}

// The gradients of the row's function, as a function that can be captured itself.
static kiln_status gradients(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    return kiln_grad(w->e->fn, w, in, n_in, &w->grad, out, n_out);
}

static kiln_status call_captured(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    return kiln_call(w->f, in, n_in, out, n_out);
}

static kiln_status call(struct world *w, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    if (w->e->grad && !w->inside) return kiln_grad(w->f ? call_captured : w->e->fn, w, in, n_in, &w->grad, out, n_out);
    if (w->f) return kiln_call(w->f, in, n_in, out, n_out);
    return (w->e->grad ? gradients : w->e->fn)(w, in, n_in, out, n_out);
}

// The mark of AUTO, which graph mode does not take.
static bool is_void(const struct way *way)
{
    return way->captured && way->capture == KILN_CAPTURE_AUTO && way->mode == KILN_MODE_GRAPH;
}

static enum outcome outcome_of(const struct world *w)
{
    bool plain = !w->f || is_void(w->way);
    return w->e->is_cell && w->way->mode == KILN_MODE_GRAPH && plain ? AS_STRICT : w->way->outcome;
}

static const struct value *wanted(const struct call *c, size_t i, enum outcome outcome)
{
    if (i == 0 && outcome == AS_STRICT && c->strict.kind) return &c->strict;
    if (i == 0 && outcome == AS_TRACE && c->trace.kind) return &c->trace;
    return &c->out[i];
}

static void expect_error(struct world *w, const struct call *c, kiln_status status)
{
    char place[40];
    snprintf(place, sizeof place, "(cases.c:%d)", w->read_line);
    assert_int_equal(status, KILN_E_STATE);
    assert_non_null(strstr(kiln_error_message(), c->strict_error));
    assert_non_null(strstr(kiln_error_message(), place));
    kiln_error_clear();
}

static void run_call(struct world *w, const struct call *c)
{
    kiln_tensor *in[MAX_TENSORS] = {NULL}, *out[MAX_TENSORS] = {NULL};
    size_t n_in = count_values(c->in), n_out = count_values(c->out);
    enum outcome outcome = outcome_of(w);
    kiln_scope *scope = kiln_scope_begin();
    for (size_t i = 0; i < n_in; i++) in[i] = make(&c->in[i]);
    w->len = c->len;
    kiln_status status = call(w, in, n_in, out, n_out);
    if (c->strict_error && outcome == AS_STRICT) {
        expect_error(w, c, status);
        for (size_t i = 0; i < n_out; i++) assert_null(out[i]);
    } else {
        ok(status);
        for (size_t i = 0; i < n_out; i++) {
            const struct value *want = wanted(c, i, outcome);
            compare(out[i], want, want == &c->out[i] ? c->text[i] : NULL);
            if (want->same_as) assert_true(kiln_is_view_of(out[i], want->same_as > 0 ? in[want->same_as - 1] : out[0]));
        }
        if (c->attr.kind) compare(w->attr, &c->attr, NULL);
    }
    kiln_scope_end(&scope);
}

static int begin(void **state)
{
    struct world *w = *state;
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(dev, &s);
    w->tensors = s.tensors;
    w->scope = kiln_scope_begin();
    if (w->e->begin) w->e->begin(w);
    if (w->e->grad) w->grad = *w->e->grad;
    if (w->z) w->grad.params = (kiln_tensors){1, &w->z};
    kiln_set_mode(w->way->mode);
    if (w->way->captured)
        w->f = kiln_jit(w->e->grad && w->inside ? gradients : w->e->fn, w, KILN_JIT(.capture = w->way->capture));
    return kiln_error() ? -1 : 0;
}

// Nothing may be left: no error, no storage.
static int end(void **state)
{
    struct world *w = *state;
    bool failed = kiln_error();
    if (failed) print_error("left: %s\n", kiln_error_message());
    kiln_error_clear();
    kiln_set_mode(KILN_MODE_EAGER);
    if (w->has_rule) kiln_register_bprop("mul", NULL, NULL);
    kiln_function_free(&w->f);
    kiln_function_free(&w->inner);
    kiln_cell_free(&w->cell);
    kiln_scope_end(&w->scope);
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(dev, &s);
    if (s.tensors != w->tensors) print_error("%d storages are left\n", (int)(s.tensors - w->tensors));
    return failed || s.tensors != w->tensors ? -1 : 0;
}

// Each call three times: what was captured runs again, and AUTO has learnt by the third.
static void run_example(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < MAX_CALLS && (w->e->calls[i].in[0].kind || i == 0); i++)
        for (int again = 0; again < 3; again++) run_call(w, &w->e->calls[i]);
    if (w->has_rule) assert_true(w->rule_runs > 0);
    if (!w->f) return;
    kiln_jit_stats s = stats_of(w->f);
    assert_int_equal(s.fallbacks, is_void(w->way) ? s.calls : 0);
    assert_true(s.calls >= 3);
    bool fails = w->e->calls[0].strict_error && w->way->outcome == AS_STRICT;
    if (w->way->outcome != AS_IN_C) assert_int_equal(s.captures > 0, !fails);
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

int main(int argc, char **argv)
{
    static struct world worlds[2 * COUNT(examples) * COUNT(ways)];
    static struct CMUnitTest tests[COUNT(worlds)];
    size_t n = 0;
    for (size_t e = 0; e < COUNT(examples); e++)
        for (size_t w = 0; w < COUNT(ways); w++)
            for (int inside = 0; inside <= (examples[e].grad != NULL); inside++, n++) {
                worlds[n] = (struct world){.e = &examples[e], .way = &ways[w], .inside = inside};
                snprintf(worlds[n].name, sizeof worlds[n].name, "%s, %s%s", examples[e].name, ways[w].name,
                         !examples[e].grad ? ""
                         : inside          ? ", gradient inside"
                                           : ", gradient around");
                tests[n] = (struct CMUnitTest){worlds[n].name, run_example, begin, end, &worlds[n]};
            }
    if (choose_device(argc, argv)) return 77;
    dev = kiln_device_open(jit_device);
    if (!dev) return 1;
    int failed = _cmocka_run_group_tests("cases", tests, n, NULL, NULL);
    kiln_device_close(&dev);
    return failed;
}
