// Products with what is around them, on a Vulkan device: how many launches a function takes, and that its values are
// those of eager mode.
#include "program/program.h"
#include "tensor/graph.h"
#include <kiln/kiln.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_TENSORS 8

static kiln_device *dev;

typedef void fn(kiln_tensor *const *in, kiln_tensor **out);

struct example {
    const char *name;
    fn *fn;
    int n_in, n_out;
    struct {
        size_t rank;
        int64_t dims[4];
        kiln_dtype dtype; // 0: f32
        bool transposed;  // the last two dimensions
        bool positive;
        bool counts; // 0, 1, 2 and so on
    } in[6];
    int launches;
    double tolerance; // 0: 2e-6
};

// --- functions ---

static void bias_gelu_residual(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_add(kiln_gelu(kiln_add(kiln_matmul(in[0], in[1]), in[2])), in[3]);
}

static void of_exp(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_matmul(kiln_exp(in[0]), in[1]);
}

static void of_gelu(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_matmul(kiln_gelu(in[0]), in[1]);
}

static void product(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_relu(kiln_matmul(in[0], in[1]));
}

static void several_results(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_matmul(in[0], in[1]);
    out[1] = kiln_relu(kiln_add(out[0], in[2]));
    out[2] = kiln_cast(kiln_mul(out[0], in[3]), KILN_F16);
}

static void two_layers(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *h = kiln_relu(kiln_add(kiln_matmul(in[0], in[1]), in[2]));
    out[0] = kiln_sigmoid(kiln_add(kiln_matmul(h, in[3]), in[4]));
}

static void masked_operand(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_neg(kiln_matmul(kiln_tril(in[0], 0), kiln_mul(in[1], in[1])));
}

static void to_heads(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *y = kiln_add(kiln_matmul(in[0], in[1]), in[2]); // [2, 9, 24]
    y = kiln_permute(kiln_reshape(y, KILN_SHAPE(2, 9, 4, 6)), KILN_AXES(0, 2, 1, 3));
    out[0] = kiln_mul(kiln_contiguous(y), kiln_scalar(0.5));
}

static void operand_twice(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *e = kiln_exp(in[0]);
    out[0] = kiln_matmul(e, in[1]);
    out[1] = e;
}

static void row_then_product(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_softmax(kiln_matmul(in[0], in[1]), -1);
}

static void dot_scaled(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_mul(kiln_matmul(in[0], in[1]), kiln_scalar(3));
}

static void slices(kiln_tensor *const *in, kiln_tensor **out)
{
    const int64_t start[] = {1, 2}, stop[] = {KILN_END, KILN_END}, step[] = {2, 3};
    const kiln_slice_opts o = {.size = sizeof o, .start = {2, start}, .stop = {2, stop}, .step = {2, step}};
    out[0] = kiln_abs(kiln_matmul(kiln_slice(in[0], &o), in[1]));
}

static kiln_status linear_loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_add(kiln_matmul(in[0], in[1]), in[2]);
    out[0] = kiln_sum(kiln_mul(kiln_relu(y), in[3]), NULL);
    return kiln_error();
}

static void linear_backward(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_grad(linear_loss, NULL, in, 4, KILN_GRAD(.wrt = KILN_ARGS(0, 1, 2)), out, 3);
}

static void conv_norm_relu(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *y = kiln_conv2d(in[0], in[1], KILN_CONV2D(.padding = {1, 1}));
    out[0] = kiln_relu(kiln_batch_norm(y, in[2], in[3], KILN_BATCH_NORM(.weight = in[4], .bias = in[5])));
}

static void conv_bias_relu(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_relu(kiln_conv2d(in[0], in[1], KILN_CONV2D(.bias = in[2])));
}

static void conv_strided(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *y = kiln_conv2d(in[0], in[1], KILN_CONV2D(.padding = {2, 1}, .stride = {2, 3}, .dilation = {2, 1}));
    out[0] = kiln_add(y, in[2]);
}

static void conv_groups(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_neg(kiln_conv2d(in[0], in[1], KILN_CONV2D(.padding = {1, 1}, .groups = 2)));
}

static void conv_of_exp(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_neg(kiln_conv2d(kiln_exp(in[0]), in[1], KILN_CONV2D(.padding = {1, 1})));
}

static void conv_half(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *y =
        kiln_conv2d(kiln_cast(in[0], KILN_F16), kiln_cast(in[1], KILN_F16), KILN_CONV2D(.padding = {1, 1}));
    out[0] = kiln_cast(kiln_relu(y), KILN_F32);
}

static kiln_tensor *scores_of(kiln_tensor *q, kiln_tensor *k)
{
    return kiln_mul(kiln_matmul(q, kiln_transpose(k, -2, -1)), kiln_scalar(0.3));
}

static void attention_plain(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_matmul(kiln_softmax(scores_of(in[0], in[1]), -1), in[2]);
}

static void attention_additive(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_matmul(kiln_softmax(kiln_add(scores_of(in[0], in[1]), in[3]), -1), in[2]);
}

// A mask of numbers: seen where it is positive.
static void attention_where(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *seen = kiln_greater(in[3], kiln_scalar(-0.5));
    kiln_tensor *s = kiln_matmul(kiln_mul(in[0], kiln_scalar(0.3)), kiln_transpose(in[1], -2, -1));
    out[0] = kiln_matmul(kiln_softmax(kiln_where(seen, s, kiln_scalar(-INFINITY)), -1), in[2]);
}

// Causal: positions are numbers along the rows and the columns.
static void attention_causal(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *seen = kiln_less_equal(in[3], in[4]);
    out[0] = kiln_matmul(kiln_softmax(kiln_where(seen, scores_of(in[0], in[1]), kiln_scalar(-INFINITY)), -1), in[2]);
}

static void attention_by_hand(kiln_tensor *const *in, kiln_tensor **out)
{
    const int64_t axis[] = {-1};
    const kiln_reduce_opts o = {.size = sizeof o, .axes = {1, axis}, .keepdims = true};
    kiln_tensor *s = scores_of(in[0], in[1]), *e = kiln_exp(kiln_sub(s, kiln_max(s, &o)));
    out[0] = kiln_relu(kiln_matmul(kiln_div(e, kiln_sum(e, &o)), in[2]));
}

static void attention_seen(kiln_tensor *const *in, kiln_tensor **out)
{
    out[1] = kiln_softmax(scores_of(in[0], in[1]), -1);
    out[0] = kiln_matmul(out[1], in[2]);
}

#define A(...)      \
    {               \
        __VA_ARGS__ \
    }
#define S(...)            \
    {                     \
        2, A(__VA_ARGS__) \
    }
static const struct example examples[] = {
    {"bias, gelu, residual", bias_gelu_residual, 4, 1, {S(70, 37), S(37, 90), {1, A(90)}, S(70, 90)}, 1},
    {"one tile", bias_gelu_residual, 4, 1, {S(5, 3), S(3, 7), {1, A(7)}, S(5, 7)}, 1},
    {"row bias", bias_gelu_residual, 4, 1, {S(70, 37), S(37, 33), S(70, 1), S(70, 33)}, 1},
    {"large", bias_gelu_residual, 4, 1, {S(300, 130), S(130, 260), {1, A(260)}, S(300, 260)}, 1},
    {"of exp", of_exp, 2, 1, {S(40, 50), S(50, 70)}, 1, 4e-6},
    {"of exp, batches", of_exp, 2, 1, {{3, A(3, 20, 30)}, {3, A(3, 30, 40)}}, 1, 4e-6},
    {"too much to do again", of_gelu, 2, 1, {S(40, 50), S(50, 700)}, 2, 4e-6},
    {"done once", of_gelu, 2, 1, {S(40, 50), S(50, 60)}, 1, 4e-6},
    {"transposed a", product, 2, 1, {{2, A(40, 50), .transposed = true}, S(50, 70)}, 1},
    {"transposed b", product, 2, 1, {S(40, 50), {2, A(50, 70), .transposed = true}}, 1},
    {"batches", product, 2, 1, {{4, A(2, 3, 20, 30)}, {4, A(2, 3, 30, 10)}}, 1},
    {"broadcast batches", product, 2, 1, {{4, A(2, 3, 20, 30)}, {3, A(3, 30, 10)}}, 1},
    {"batches of one matrix", product, 2, 1, {{3, A(4, 20, 30)}, S(30, 10)}, 1},
    {"matrix of batches", product, 2, 1, {S(20, 30), {3, A(4, 30, 10)}}, 1},
    {"f16", bias_gelu_residual, 4, 1, {S(40, 50), S(50, 70), {1, A(70)}, S(40, 70)}, 1},
    {"half operands", product, 2, 1, {{2, A(40, 50), .dtype = KILN_F16}, {2, A(50, 70), .dtype = KILN_F16}}, 1, 2e-3},
    {"bf16 operands", product, 2, 1, {{2, A(40, 50), .dtype = KILN_BF16}, {2, A(50, 70), .dtype = KILN_BF16}}, 1, 2e-2},
    {"f64", product, 2, 1, {{2, A(40, 50), .dtype = KILN_F64}, {2, A(50, 70), .dtype = KILN_F64}}, 1},
    {"i32", product, 2, 1, {{2, A(40, 50), .dtype = KILN_I32}, {2, A(50, 70), .dtype = KILN_I32}}, 1},
    {"i64", product, 2, 1, {{2, A(40, 50), .dtype = KILN_I64}, {2, A(50, 70), .dtype = KILN_I64}}, 1},
    {"vector and matrix", product, 2, 1, {{1, A(50)}, S(50, 70)}, 1},
    {"matrix and vector", product, 2, 1, {S(40, 50), {1, A(50)}}, 1},
    {"vectors", dot_scaled, 2, 1, {{1, A(50)}, {1, A(50)}}, 1},
    {"long sum", product, 2, 1, {S(3, 5000), S(5000, 4)}, 1, 1e-5},
    {"several results", several_results, 4, 3, {S(40, 50), S(50, 70), {1, A(70)}, S(40, 70)}, 1, 1e-3},
    {"two layers", two_layers, 5, 1, {S(40, 50), S(50, 70), {1, A(70)}, S(70, 30), {1, A(30)}}, 2},
    {"masked operand", masked_operand, 2, 1, {S(40, 40), S(40, 70)}, 1},
    {"to heads", to_heads, 3, 1, {{3, A(2, 9, 16)}, S(16, 24), {1, A(24)}}, 1},
    {"operand read twice", operand_twice, 2, 2, {S(40, 50), S(50, 70)}, 2, 4e-6},
    {"rows of a product", row_then_product, 2, 1, {S(40, 50), S(50, 70)}, 2},
    {"slices", slices, 2, 1, {S(40, 50), S(16, 70)}, 1},
    {"conv, norm, relu",
     conv_norm_relu,
     6,
     1,
     {{4, A(2, 3, 17, 13)}, {4, A(11, 3, 3, 3)}, {1, A(11)}, {1, A(11), .positive = true}, {1, A(11)}, {1, A(11)}},
     1},
    {"conv 1x1", conv_bias_relu, 3, 1, {{4, A(2, 30, 9, 8)}, {4, A(40, 30, 1, 1)}, {1, A(40)}}, 1},
    {"conv of one channel", conv_bias_relu, 3, 1, {{4, A(3, 1, 20, 20)}, {4, A(6, 1, 5, 5)}, {1, A(6)}}, 1},
    {"conv of one row",
     conv_norm_relu,
     6,
     1,
     {{4, A(2, 1, 17, 13)}, {4, A(9, 1, 3, 3)}, {1, A(9)}, {1, A(9), .positive = true}, {1, A(9)}, {1, A(9)}},
     1},
    {"conv, strides", conv_strided, 3, 1, {{4, A(2, 5, 17, 23)}, {4, A(9, 5, 3, 4)}, {4, A(2, 9, 9, 8)}}, 1},
    {"conv, groups", conv_groups, 2, 1, {{4, A(2, 6, 9, 8)}, {4, A(10, 3, 3, 3)}}, 1},
    {"conv of exp", conv_of_exp, 2, 1, {{4, A(2, 6, 9, 8)}, {4, A(10, 6, 3, 3)}}, 2, 4e-6},
    {"conv of halves", conv_half, 2, 1, {{4, A(2, 6, 9, 8)}, {4, A(10, 6, 3, 3)}}, 2, 2e-3},
    {"attention", attention_plain, 3, 1, {S(70, 16), S(90, 16), S(90, 24)}, 1, 1e-5},
    {"attention, one tile", attention_plain, 3, 1, {S(7, 5), S(9, 5), S(9, 3)}, 1, 1e-5},
    {"attention, few rows", attention_plain, 3, 1, {S(20, 16), S(90, 16), S(90, 40)}, 1, 1e-5},
    {"attention, rows of a small tile", attention_plain, 3, 1, {S(32, 20), S(32, 20), S(32, 32)}, 1, 1e-5},
    {"attention, a row more", attention_plain, 3, 1, {S(33, 20), S(33, 20), S(33, 33)}, 1, 1e-5},
    {"attention, heads",
     attention_plain,
     3,
     1,
     {{4, A(2, 3, 50, 20)}, {4, A(2, 3, 80, 20)}, {4, A(2, 3, 80, 20)}},
     1,
     1e-5},
    {"attention, 256", attention_plain, 3, 1, {S(70, 256), S(90, 256), S(90, 256)}, 1, 1e-5},
    {"attention, 130", attention_plain, 3, 1, {S(65, 130), S(64, 130), S(64, 130)}, 1, 1e-5},
    {"attention, wider", attention_plain, 3, 1, {S(10, 16), S(20, 16), S(20, 257)}, 3, 1e-5},
    {"attention, additive mask",
     attention_additive,
     4,
     1,
     {{3, A(3, 50, 20)}, {3, A(3, 80, 20)}, {3, A(3, 80, 30)}, S(50, 80)},
     1,
     1e-5},
    {"attention, padding mask",
     attention_additive,
     4,
     1,
     {{4, A(2, 3, 50, 20)}, {4, A(2, 3, 80, 20)}, {4, A(2, 3, 80, 30)}, {4, A(2, 1, 1, 80)}},
     1,
     1e-5},
    {"attention, bias of heads",
     attention_additive,
     4,
     1,
     {{4, A(2, 3, 50, 20)}, {4, A(2, 3, 80, 20)}, {4, A(2, 3, 80, 30)}, {3, A(3, 50, 80)}},
     1,
     1e-5},
    {"attention, values of one head",
     attention_plain,
     3,
     1,
     {{4, A(2, 3, 50, 20)}, {4, A(2, 3, 80, 20)}, {4, A(2, 1, 80, 20)}},
     1,
     1e-5},
    {"attention, mask",
     attention_where,
     4,
     1,
     {{3, A(3, 50, 20)}, {3, A(3, 80, 20)}, {3, A(3, 80, 30)}, S(50, 80)},
     1,
     1e-5},
    {"attention, causal",
     attention_causal,
     5,
     1,
     {{3, A(3, 70, 20)},
      {3, A(3, 70, 20)},
      {3, A(3, 70, 30)},
      {1, A(70), .counts = true},
      {2, A(70, 1), .counts = true}},
     1,
     1e-5},
    {"attention by hand", attention_by_hand, 3, 1, {S(70, 16), S(90, 16), S(90, 24)}, 1, 1e-5},
    {"attention, weights seen", attention_seen, 3, 2, {S(70, 16), S(90, 16), S(90, 24)}, 3, 1e-5},
    {"attention, transposed values",
     attention_plain,
     3,
     1,
     {{2, A(70, 16), .transposed = true}, S(90, 16), {2, A(90, 24), .transposed = true}},
     1,
     1e-5},
    {"backward of a layer", linear_backward, 4, 3, {S(40, 50), S(50, 70), {1, A(70)}, S(40, 70)}, 4, 4e-6},
};

// --- comparing ---

static uint64_t state;

static double random_value(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 33) / (double)(1u << 30) - 1;
}

static kiln_tensor *random_input(const struct example *e, int i)
{
    size_t rank = e->in[i].rank;
    int64_t dims[4], n = 1;
    for (size_t d = 0; d < rank; d++) dims[d] = e->in[i].dims[d];
    if (e->in[i].transposed) dims[rank - 1] = e->in[i].dims[rank - 2], dims[rank - 2] = e->in[i].dims[rank - 1];
    for (size_t d = 0; d < rank; d++) n *= dims[d];
    float *data = malloc(sizeof *data * (size_t)n);
    assert_non_null(data);
    unsigned dtype = e->in[i].dtype ? e->in[i].dtype : KILN_F32;
    bool whole = dtype == KILN_I32 || dtype == KILN_I64;
    for (int64_t k = 0; k < n; k++) {
        double v = random_value();
        data[k] = (float)(e->in[i].counts ? (double)k : e->in[i].positive ? fabs(v) + 0.1 : whole ? floor(v * 100) : v);
    }
    kiln_tensor *t = kiln_from_data(dev, KILN_F32, rank, dims, data);
    free(data);
    if (dtype != KILN_F32) t = kiln_cast(t, dtype);
    return e->in[i].transposed ? kiln_transpose(t, -2, -1) : t;
}

static struct kiln_graph *record(const struct example *e, kiln_tensor *const *in)
{
    struct kiln_graph *g = ir_graph_create();
    struct graph_sink sink;
    graph_sink_init(&sink, g);
    kiln_tensor *abstract[MAX_TENSORS], *out[MAX_TENSORS];
    for (int i = 0; i < e->n_in; i++)
        abstract[i] = graph_tensor(&sink.builder, &in[i]->type, ir_add_input(g, &in[i]->type, "x"));
    thread_state.sink = &sink.base;
    e->fn(abstract, out);
    thread_state.sink = NULL;
    if (kiln_error()) fail_msg("%s: %s", e->name, kiln_error_message());
    for (int i = 0; i < e->n_out; i++) assert_int_equal(ir_add_output(g, out[i]->value, "y"), 0);
    return g;
}

// The largest difference, relative where values are above 1.
static double difference(const kiln_tensor *a, const kiln_tensor *b)
{
    int64_t n = type_numel(&a->type);
    double worst = 0;
    if (!type_same_shape(&a->type, &b->type) || a->type.dtype != b->type.dtype) return INFINITY;
    kiln_tensor *x = kiln_cast((kiln_tensor *)(uintptr_t)a, KILN_F64),
                *y = kiln_cast((kiln_tensor *)(uintptr_t)b, KILN_F64);
    double *p = malloc(sizeof *p * (size_t)(2 * n + 1));
    assert_non_null(p);
    assert_int_equal(kiln_read(x, p, sizeof *p * (size_t)n), 0);
    assert_int_equal(kiln_read(y, p + n, sizeof *p * (size_t)n), 0);
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(p[i] - p[n + i]) / (1 + fabs(p[n + i]));
        if (p[i] == p[n + i] || (isnan(p[i]) && isnan(p[n + i]))) d = 0;
        if (!(d <= worst)) worst = d;
    }
    free(p);
    return worst;
}

static void check_count(const struct example *e, struct program *p)
{
    struct program_facts facts;
    program_get_facts(p, &facts);
    if (facts.n_launches == e->launches) return;
    struct str s;
    str_init(&s);
    program_explain(p, &s);
    print_message("%s\n", str_text(&s));
    str_free(&s);
    fail_msg("%s: %d launches, %d are promised", e->name, facts.n_launches, e->launches);
}

static void check(const struct example *e)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[MAX_TENSORS], *want[MAX_TENSORS] = {NULL}, *got[MAX_TENSORS] = {NULL};
    const struct layout *layouts[MAX_TENSORS];
    for (int i = 0; i < e->n_in; i++) {
        in[i] = random_input(e, i);
        assert_non_null(in[i]);
        layouts[i] = &in[i]->layout;
    }
    e->fn(in, want);
    struct kiln_graph *g = record(e, in);
    struct program *p;
    struct program_options o = {.name = "test"};
    if (program_create(g, dev, layouts, &o, &p)) fail_msg("%s: %s", e->name, kiln_error_message());
    check_count(e, p);
    for (int round = 0; round < 2; round++) {
        if (program_run(p, in, NULL, got)) fail_msg("%s: %s", e->name, kiln_error_message());
        for (int i = 0; i < e->n_out; i++) {
            double d = difference(got[i], want[i]);
            if (!(d < (e->tolerance ? e->tolerance : 2e-6))) fail_msg("%s: output %d differs by %g", e->name, i, d);
        }
    }
    program_destroy(&p);
    ir_graph_destroy(&g);
    kiln_scope_end(&scope);
}

static void need_device(void)
{
    if (dev) return;
    print_message("skipped: there is no Vulkan device\n");
    skip();
}

static void products(void **unused)
{
    need_device();
    for (size_t i = 0; i < COUNT_OF(examples); i++) check(&examples[i]);
}

// A new size in a known family compiles nothing.
static void sizes_share_a_kernel(void **unused)
{
    static const struct example sizes[] = {
        {"first size", bias_gelu_residual, 4, 1, {S(70, 37), S(37, 90), {1, A(90)}, S(70, 90)}, 1},
        {"second size", bias_gelu_residual, 4, 1, {S(67, 99), S(99, 110), {1, A(110)}, S(67, 110)}, 1}};
    struct program *p[COUNT_OF(sizes)];
    uint64_t compiled[COUNT_OF(sizes)];
    need_device();
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *in[MAX_TENSORS];
        for (int k = 0; k < sizes[i].n_in; k++) in[k] = random_input(&sizes[i], k);
        struct kiln_graph *g = record(&sizes[i], in);
        assert_int_equal(program_create(g, dev, NULL, NULL, &p[i]), 0);
        kiln_device_stats stats = {.size = sizeof stats};
        kiln_device_get_stats(dev, &stats);
        compiled[i] = stats.kernels_compiled;
        ir_graph_destroy(&g);
        kiln_scope_end(&scope);
    }
    assert_true(compiled[0] > 0);
    assert_int_equal(compiled[1], compiled[0]);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) program_destroy(&p[i]);
}

static int set_up(void **unused)
{
    setenv("KILN_CACHE_DIR", "/dev/null/none", 1); // where no file can be: what is counted must be compiled here
    dev = kiln_device_open("vulkan");
    if (!dev) kiln_error_clear();
    return 0;
}

static int tear_down(void **unused)
{
    kiln_device_close(&dev);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_share_a_kernel),
        cmocka_unit_test(products),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
