// Recurrent cells, attention, transformer layers, wrappers and norms of weights, on every device there is; against what
// PyTorch gives of the same parameters where it has the module.
#include "torch_values.h"

#include <kiln/kiln.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *dev;
static bool on_cpu;
static kiln_scope *scope;
static uint64_t tensors_before;

static uint64_t tensors_alive(void)
{
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(dev, &stats);
    return stats.tensors;
}

static int begin(void **state)
{
    (void)state;
    kiln_error_clear();
    kiln_seed(dev, 7);
    tensors_before = tensors_alive();
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    if (kiln_error()) {
        fprintf(stderr, "left pending: %s\n", kiln_error_message());
        return -1;
    }
    kiln_scope_end(&scope);
    uint64_t left = tensors_alive() - tensors_before;
    if (left) fprintf(stderr, "%llu storages left\n", (unsigned long long)left);
    return left ? -1 : 0;
}

// --- comparing

static void read_all(kiln_tensor *t, double *got, size_t n)
{
    if (!t) fail_msg("%s", kiln_error_message());
    assert_int_equal(kiln_numel(t), n);
    kiln_scope *inner = kiln_scope_begin();
    assert_int_equal(kiln_read(kiln_cast(t, KILN_F64), got, n * sizeof *got), KILN_OK);
    kiln_scope_end(&inner);
}

static void expect(kiln_tensor *t, const double *want, size_t n, double tolerance)
{
    double got[256];
    assert_true(n <= 256);
    read_all(t, got, n);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("element %zu: %.12g, expected %.12g", i, got[i], want[i]);
}

static void expect_same(kiln_tensor *t, kiln_tensor *want, double tolerance)
{
    double values[256];
    read_all(want, values, (size_t)kiln_numel(want));
    expect(t, values, (size_t)kiln_numel(want), tolerance);
}

static void expect_error(kiln_status code, const char *text)
{
    assert_string_equal(kiln_status_name(kiln_error()), kiln_status_name(code));
    if (!strstr(kiln_error_message(), text)) fail_msg("\"%s\" does not hold \"%s\"", kiln_error_message(), text);
    kiln_error_clear();
}

// --- inputs and parameters by formula, see make_torch_values.py

static kiln_tensor *waves(double scale, double step, double phase, size_t rank, const int64_t *dims)
{
    double v[512];
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= dims[i];
    assert_true(n <= 512);
    for (int64_t i = 0; i < n; i++) v[i] = scale * sin(step * (double)i + phase);
    return kiln_from_data(dev, KILN_F64, rank, dims, v);
}

#define WAVE(...) waves(1, 0.9, 1.5707963267948966, KILN_SHAPE(__VA_ARGS__))

static void fill(kiln_cell *cell)
{
    kiln_tensor *p[64];
    if (!cell) fail_msg("%s", kiln_error_message());
    size_t n = kiln_cell_parameters(cell, p, 64);
    assert_true(n <= 64);
    kiln_no_grad_begin();
    for (size_t j = 0; j < n; j++) kiln_assign(p[j], waves(0.5, 1.3, (double)j, kiln_rank(p[j]), kiln_dims(p[j])));
    kiln_no_grad_end();
}

// The outputs of a cell with these parameters, one behind the other, eagerly and as a graph. Frees the cell.
static void expect_of(kiln_cell *cell, kiln_tensor *const *in, size_t n_in, size_t n_out, const double *want, size_t n)
{
    fill(cell);
    for (int captured = 0; captured < 2; captured++) {
        kiln_tensor *out[3];
        if (captured) kiln_cell_jit(cell, NULL);
        kiln_cell_call_n(cell, in, n_in, out, n_out);
        if (kiln_error()) fail_msg("%s", kiln_error_message());
        for (size_t i = 0, at = 0; i < n_out; at += (size_t)kiln_numel(out[i++]))
            expect(out[i], want + at, (size_t)kiln_numel(out[i]), 1e-9);
        size_t all = 0;
        for (size_t i = 0; i < n_out; i++) all += (size_t)kiln_numel(out[i]);
        assert_int_equal(all, n);
    }
    kiln_cell_free(&cell);
}

#define EXPECT_OF(cell, n_out, values, ...)                                                                         \
    expect_of(cell, (kiln_tensor *[]){__VA_ARGS__}, sizeof((kiln_tensor *[]){__VA_ARGS__}) / sizeof(kiln_tensor *), \
              n_out, values, sizeof values / sizeof *values)

static void recurrent_as_torch(void **state)
{
    (void)state;
    kiln_tensor *x = WAVE(3, 2, 3);
    EXPECT_OF(kiln_nn_lstm(dev, 3, 2, KILN_NN_RECURRENT(.layers = 2, .bidirectional = true, .dtype = KILN_F64)), 3,
              torch_lstm, x);
    EXPECT_OF(kiln_nn_lstm(dev, 3, 4, KILN_NN_RECURRENT(.projection = 2, .dtype = KILN_F64)), 3, torch_lstm_projected,
              x);
    EXPECT_OF(kiln_nn_rnn(dev, 3, 2, KILN_NN_RECURRENT(.relu = true, .no_bias = true, .dtype = KILN_F64)), 2, torch_rnn,
              x, WAVE(1, 2, 2));
    kiln_tensor *lengths = kiln_from_data(dev, KILN_I64, KILN_SHAPE(2), (int64_t[]){1, 3});
    EXPECT_OF(kiln_nn_gru(dev, 3, 2, KILN_NN_RECURRENT(.bidirectional = true, .lengths = true, .dtype = KILN_F64)), 2,
              torch_gru, x, lengths);
}

static kiln_tensor *added_causal(void)
{
    double v[9];
    for (int i = 0; i < 9; i++) v[i] = i % 3 > i / 3 ? -INFINITY : 0;
    return kiln_from_data(dev, KILN_F64, KILN_SHAPE(3, 3), v);
}

static void attention_as_torch(void **state)
{
    (void)state;
    kiln_tensor *x = WAVE(2, 3, 4), *memory = WAVE(2, 5, 4), *mask = added_causal();
    const kiln_nn_attention_opts *plain = KILN_NN_ATTENTION(.dtype = KILN_F64);
    EXPECT_OF(kiln_nn_multi_head_attention(dev, 4, 2, plain), 1, torch_attention, x, memory, memory);
    EXPECT_OF(kiln_nn_multi_head_attention(dev, 4, 2, plain), 1, torch_attention_causal, x, mask);
    EXPECT_OF(kiln_nn_multi_head_attention(dev, 4, 2, plain), 1, torch_attention_causal, x, x, x, mask);
    EXPECT_OF(kiln_nn_multi_head_attention(dev, 4, 2, KILN_NN_ATTENTION(.causal = true, .dtype = KILN_F64)), 1,
              torch_attention_causal, x);
}

static void transformers_as_torch(void **state)
{
    (void)state;
    kiln_tensor *x = WAVE(2, 3, 4), *memory = WAVE(2, 5, 4), *mask = added_causal();
    kiln_nn_transformer_opts o = {.size = sizeof o, .feed_forward = 6, .dtype = KILN_F64};
    EXPECT_OF(kiln_nn_transformer_decoder_layer(dev, 4, 2, &o), 1, torch_decoder_layer, x, memory, mask);
    o.final_norm = true;
    EXPECT_OF(kiln_nn_transformer_encoder(dev, 4, 2, 2, &o), 1, torch_encoder, x);
    o.norm_first = true;
    EXPECT_OF(kiln_nn_transformer_encoder_layer(dev, 4, 2, &o), 1, torch_encoder_layer_norm_first, x);
    o.norm_first = false;
    o.activation = "gelu";
    EXPECT_OF(kiln_nn_transformer_encoder_layer(dev, 4, 2, &o), 1, torch_encoder_layer, x);
    o.activation = NULL;
    o.causal = true;
    EXPECT_OF(kiln_nn_transformer_decoder_layer(dev, 4, 2, &o), 1, torch_decoder_layer, x, memory);
}

// --- names, modes, what does not fit

static void expect_names(kiln_cell *cell, const char *const *want, size_t n)
{
    const char *names[64];
    assert_int_equal(kiln_cell_state(cell, names, NULL, 64), n);
    for (size_t i = 0; i < n; i++) assert_string_equal(names[i], want[i]);
    kiln_cell_free(&cell);
}

static size_t biases_of(kiln_cell *cell)
{
    const char *names[64];
    size_t n = kiln_error() ? 0 : kiln_cell_state(cell, names, NULL, 64), biases = 0;
    assert_non_null(cell);
    for (size_t i = 0; i < n; i++) biases += strstr(names[i], "bias") != NULL;
    kiln_cell_free(&cell);
    return biases;
}

// Every layer that may have a bias takes .bias and .no_bias: the default stays, each is heard, both are an error.
#define BIASES(layer, OPTIONS, by_default, all)                                             \
    do {                                                                                    \
        assert_int_equal(biases_of(layer(OPTIONS(.dtype = KILN_F32))), by_default);         \
        assert_int_equal(biases_of(layer(OPTIONS(.bias = true))), all);                     \
        assert_int_equal(biases_of(layer(OPTIONS(.no_bias = true))), 0);                    \
        assert_null(layer(OPTIONS(.bias = true, .no_bias = true)));                         \
        assert_non_null(strstr(kiln_error_message(), ": .bias and .no_bias are both set")); \
        kiln_error_clear();                                                                 \
    } while (0)

static void biases_are_asked_for_alike(void **state)
{
    (void)state;
#define CONV1D(o)    kiln_nn_conv1d(dev, 2, 2, 1, o)
#define CONV2D(o)    kiln_nn_conv2d(dev, 2, 2, 1, o)
#define CONV3D(o)    kiln_nn_conv3d(dev, 2, 2, 1, o)
#define BACK1D(o)    kiln_nn_conv_transpose1d(dev, 2, 2, 1, o)
#define BACK2D(o)    kiln_nn_conv_transpose2d(dev, 2, 2, 1, o)
#define BACK3D(o)    kiln_nn_conv_transpose3d(dev, 2, 2, 1, o)
#define DENSE(o)     kiln_nn_dense(dev, 2, 2, o)
#define BILINEAR(o)  kiln_nn_bilinear(dev, 2, 2, 2, o)
#define LSTM_OF(o)   kiln_nn_lstm(dev, 2, 2, o)
#define GRU_STEP(o)  kiln_nn_gru_cell(dev, 2, 2, o)
#define ATTENTION(o) kiln_nn_multi_head_attention(dev, 2, 1, o)
    BIASES(CONV1D, KILN_NN_CONV1D, 0, 1);
    BIASES(CONV2D, KILN_NN_CONV2D, 0, 1);
    BIASES(CONV3D, KILN_NN_CONV3D, 0, 1);
    BIASES(BACK1D, KILN_NN_CONV_TRANSPOSE, 0, 1);
    BIASES(BACK2D, KILN_NN_CONV_TRANSPOSE, 0, 1);
    BIASES(BACK3D, KILN_NN_CONV_TRANSPOSE, 0, 1);
    BIASES(DENSE, KILN_NN_DENSE, 1, 1);
    BIASES(BILINEAR, KILN_NN_DENSE, 1, 1);
    BIASES(LSTM_OF, KILN_NN_RECURRENT, 2, 2);
    BIASES(GRU_STEP, KILN_NN_RECURRENT, 2, 2);
    BIASES(ATTENTION, KILN_NN_ATTENTION, 2, 2);
    const kiln_nn_transformer_opts *both = KILN_NN_TRANSFORMER(.bias = true, .no_bias = true);
    assert_null(kiln_nn_transformer_encoder_layer(dev, 2, 1, both));
    expect_error(KILN_E_ARGUMENT, "nn_transformer_encoder_layer: .bias and .no_bias are both set");
}

static void names_are_those_of_files(void **state)
{
    (void)state;
    static const char *const lstm[] = {"weight_ih_l0",         "weight_hh_l0",         "weight_hr_l0",
                                       "weight_ih_l0_reverse", "weight_hh_l0_reverse", "weight_hr_l0_reverse"};
    static const char *const gru[] = {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0",
                                      "weight_ih_l1", "weight_hh_l1", "bias_ih_l1", "bias_hh_l1"};
    static const char *const step[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    static const char *const stack[] = {"layers.0.self_attn.in_proj_weight",
                                        "layers.0.self_attn.out_proj.weight",
                                        "layers.0.linear1.weight",
                                        "layers.0.linear2.weight",
                                        "layers.0.norm1.gamma",
                                        "layers.0.norm1.beta",
                                        "layers.0.norm2.gamma",
                                        "layers.0.norm2.beta"};
    expect_names(kiln_nn_lstm(dev, 3, 4, KILN_NN_RECURRENT(.bidirectional = true, .no_bias = true, .projection = 2)),
                 lstm, 6);
    expect_names(kiln_nn_gru(dev, 3, 4, KILN_NN_RECURRENT(.layers = 2)), gru, 8);
    expect_names(kiln_nn_lstm_cell(dev, 3, 4, NULL), step, 4);
    expect_names(kiln_nn_transformer_encoder(dev, 4, 2, 1, KILN_NN_TRANSFORMER(.feed_forward = 3, .no_bias = true)),
                 stack, 8);
}

static void steps_make_sequences(void **state)
{
    (void)state;
    kiln_tensor *x = WAVE(4, 2, 3), *h = WAVE(2, 2), *c = h, *y[3];
    kiln_cell *step = kiln_nn_lstm_cell(dev, 3, 2, KILN_NN_RECURRENT(.dtype = KILN_F64)),
              *whole = kiln_nn_lstm(dev, 3, 2, KILN_NN_RECURRENT(.dtype = KILN_F64, .batch_first = true));
    fill(step);
    fill(whole);
    kiln_tensor *first = kiln_unsqueeze(h, 0), *in[] = {kiln_transpose(x, 0, 1), first, first};
    kiln_cell_call_n(whole, in, 3, y, 3);
    for (int64_t t = 0; t < 4; t++) {
        kiln_tensor *now[] = {kiln_select(x, 0, t), h, c}, *next[2];
        kiln_cell_call_n(step, now, 3, next, 2);
        h = next[0], c = next[1];
        expect_same(kiln_select(y[0], 1, t), h, 1e-12);
    }
    expect_same(y[1], h, 1e-12);
    expect_same(y[2], c, 1e-12);
    kiln_cell_free(&step);
    step = kiln_nn_gru_cell(dev, 3, 2, NULL);
    kiln_tensor *pair[] = {kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 2))};
    kiln_cell_call_n(step, pair, 2, y, 1);
    assert_int_equal(kiln_dims(y[0])[1], 2);
    kiln_cell_free(&step);
    kiln_cell_free(&whole);
}

static void mistakes_are_told(void **state)
{
    (void)state;
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(3, 2, 3)), *in[] = {x, x, x, x}, *out[3];
    kiln_cell *lstm = kiln_nn_lstm(dev, 3, 2, NULL);
    kiln_cell_call_n(lstm, in, 2, out, 1);
    expect_error(KILN_E_ARGUMENT, "lstm cell: takes x and perhaps 2 states, and gives 1 to 3 outputs, got 2 inputs");
    kiln_cell_call_n(lstm, in, 3, out, 1);
    expect_error(KILN_E_SHAPE, "lstm: h0 must be [1,2,2], it is f32[3,2,3], x is f32[3,2,3]");
    assert_null(kiln_cell_call(lstm, kiln_ones(dev, KILN_F32, KILN_SHAPE(3, 2, 4))));
    expect_error(KILN_E_SHAPE, "lstm: layer 0: w_ih must be [4 H,4], it is f32[8,3], x is f32[3,2,4]");
    kiln_cell_free(&lstm);
    assert_null(kiln_nn_gru(dev, 3, 2, KILN_NN_RECURRENT(.projection = 2)));
    expect_error(KILN_E_ARGUMENT, "nn_gru: .projection is of lstm");
    assert_null(kiln_nn_lstm_cell(dev, 3, 2, KILN_NN_RECURRENT(.layers = 2)));
    expect_error(KILN_E_ARGUMENT, "nn_lstm_cell: a step has only");
    assert_null(kiln_nn_multi_head_attention(dev, 4, 3, NULL));
    expect_error(KILN_E_ARGUMENT, "heads must divide width");
    kiln_cell *heads = kiln_nn_multi_head_attention(dev, 4, 2, NULL);
    assert_null(kiln_cell_call(heads, x));
    expect_error(KILN_E_SHAPE, "input 0 must be [...,L,4]");
    kiln_cell_free(&heads);
    assert_null(kiln_nn_transformer_encoder(dev, 4, 2, 0, NULL));
    expect_error(KILN_E_ARGUMENT, "layers must be 1 to 900, got 0");
    assert_null(kiln_nn_glu("gelu", 1));
    expect_error(KILN_E_ARGUMENT, "unknown \"gelu\"");
    assert_null(kiln_nn_residual(NULL));
    expect_error(KILN_E_ARGUMENT, "\"body\" is NULL");
    assert_null(kiln_nn_group_norm(dev, 2, 3, NULL));
    expect_error(KILN_E_ARGUMENT, "groups must be positive and divide channels");
}

#define REFUSES(call, code, text) \
    do {                          \
        kiln_tensor *made = call; \
        assert_null(made);        \
        expect_error(code, text); \
    } while (0)

static void ops_name_what_does_not_fit(void **state)
{
    (void)state;
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), *m = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 4));
    kiln_tensor *ids = kiln_zeros(dev, KILN_I64, KILN_SHAPE(2, 2)), *v = kiln_ones(dev, KILN_F32, KILN_SHAPE(3));
    kiln_tensor *q = kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 4, 3, 2)),
                *k = kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 3, 3, 2));
    REFUSES(kiln_glu(x, -1), KILN_E_SHAPE, "glu: axis -1 of x is to be halved, x is f32[2,3]");
    REFUSES(kiln_swiglu(x, 2), KILN_E_AXIS, "swiglu: axis 2 is out of range for f32[2,3]");
    REFUSES(kiln_maxout(x, 1, 2), KILN_E_SHAPE, "maxout: pieces 2 do not divide axis 1 of x, f32[2,3]");
    REFUSES(kiln_softmax2d(x), KILN_E_SHAPE, "softmax2d: x must be [N,C,H,W] or [C,H,W], it is f32[2,3]");
    REFUSES(kiln_rrelu(x, KILN_RRELU(.lower = 2, .upper = 1)), KILN_E_ARGUMENT, "rrelu: .lower must not be above");
    REFUSES(kiln_instance_norm(x, NULL), KILN_E_SHAPE, "instance_norm: x must be [N,C,...]");
    REFUSES(kiln_local_response_norm(x, 0, NULL), KILN_E_ARGUMENT, "local_response_norm: size must be positive");
    REFUSES(kiln_cdist(x, m, NULL), KILN_E_SHAPE,
            "cdist: a and b must be rows of one size, a is f32[2,3], b is f32[2,4]");
    REFUSES(kiln_cosine_similarity(x, m, 1, NULL), KILN_E_SHAPE, "cosine_similarity");
    REFUSES(kiln_weight_norm(x, m, 0), KILN_E_SHAPE,
            "weight_norm: g must have the size of axis 0 of v and 1 elsewhere");
    REFUSES(kiln_rope(x, m, NULL), KILN_E_SHAPE, "x is f32[2,3], 3 are turned");
    REFUSES(kiln_rope(m, v, NULL), KILN_E_SHAPE,
            "positions must broadcast to x's shape without the last axis, they are f32[3], x is f32[2,4]");
    REFUSES(kiln_rotary_embedding(x, m, m, NULL), KILN_E_SHAPE, "rotary_embedding: cos and sin must be alike");
    REFUSES(kiln_sinusoidal_positions(dev, KILN_F32, 2, 0), KILN_E_ARGUMENT, "got 2 and 0");
    REFUSES(kiln_alibi_bias(dev, KILN_F32, 0, 1, 1), KILN_E_ARGUMENT, "got 0, 1 and 1");
    REFUSES(kiln_sdpa(x, m, m, NULL, NULL), KILN_E_SHAPE,
            "scaled_dot_product_attention: the last axes of q and k must agree; q is f32[2,3], k is f32[2,4]");
    REFUSES(kiln_sdpa(q, k, k, NULL, NULL), KILN_E_SHAPE,
            "heads of k and v must be as many and divide those of q; q is f32[1,4,3,2], k is f32[1,3,3,2]");
    REFUSES(kiln_sdpa(q, q, q, x, NULL), KILN_E_SHAPE, "mask must broadcast to the scores [...,3,3], it is f32[2,3]");
    REFUSES(kiln_sdpa(q, q, q, NULL, KILN_ATTENTION(.dropout = 1)), KILN_E_ARGUMENT, ".dropout must be in [0, 1)");
    REFUSES(kiln_sdpa(q, kiln_narrow(q, 2, 0, 2), kiln_narrow(q, 2, 0, 2), NULL, KILN_ATTENTION(.causal = true)),
            KILN_E_SHAPE, "causal queries must not be more than keys");
    REFUSES(kiln_embedding_bag(x, ids, NULL, NULL, KILN_EMBEDDING_BAG(.mode = "min")), KILN_E_ARGUMENT,
            "embedding_bag: unknown .mode \"min\"");
    REFUSES(kiln_embedding_bag(x, ids, ids, NULL, NULL), KILN_E_SHAPE, "ids are i64[2,2], offsets are i64[2,2]");
    REFUSES(kiln_embedding_bag(x, ids, NULL, x, NULL), KILN_E_ARGUMENT, "weights go with .mode \"sum\"");
    REFUSES(kiln_bilinear(x, x, m, NULL), KILN_E_SHAPE,
            "bilinear: w must be [O,I,J] of a [...,I] and b [...,J], w is f32[2,4]");
    REFUSES(kiln_gru_cell(x, x, m, m, NULL, NULL), KILN_E_SHAPE,
            "gru_cell: w_ih must be [3 H,3], it is f32[2,4], x is f32[2,3]");
    REFUSES(kiln_rms_norm(x, 1, KILN_RMS_NORM(.weight = m)), KILN_E_SHAPE, "rms_norm: weight is f32[2,4]");
    REFUSES(kiln_group_norm(x, 2, NULL), KILN_E_SHAPE,
            "group_norm: 2 groups do not divide the channels of x, f32[2,3]");
    REFUSES(kiln_glu(NULL, 0), KILN_E_ARGUMENT, "glu: x is NULL");
    kiln_tensor *out[3], *weights[] = {x, x, x};
    kiln_lstm(q, NULL, NULL, NULL, weights, 2, NULL, &out[0], &out[1], &out[2]);
    expect_error(KILN_E_SHAPE, "lstm: x must be [T,N,I] or [T,I], it is f32[1,4,3,2]");
    kiln_lstm(x, NULL, NULL, NULL, weights, 3, NULL, &out[0], &out[1], &out[2]);
    expect_error(KILN_E_ARGUMENT,
                 "lstm: 1 layers in 1 directions have 4 weights each, or 2 without biases, got 3 in all");
    kiln_gru(kiln_select(q, 0, 0), NULL, ids, weights, 2, NULL, &out[0], &out[1]);
    expect_error(KILN_E_SHAPE, "gru: lengths must be [3], they are i64[2,2], x is f32[4,3,2]");
    kiln_attention_cached(q, q, q, k, k, ids, NULL, &out[0], &out[1], &out[2]);
    expect_error(KILN_E_SHAPE, "attention_cached: q, k and v must have as many places and fit in the caches");
    kiln_attention_cached(q, q, q, q, q, v, NULL, &out[0], &out[1], &out[2]);
    expect_error(KILN_E_SHAPE, "position must be one number, or one for each of the first axis of q, it is f32[3]");
    kiln_spectral_norm(x, v, v, 0, NULL, &out[0], &out[1], &out[2]);
    expect_error(KILN_E_SHAPE, "spectral_norm: u must be [2] and v [3] for w f32[2,3], u is f32[3], v is f32[3]");
}

// --- wrappers and small layers

static kiln_status twice(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)n_in, (void)n_out;
    out[0] = kiln_mul(in[0], kiln_scalar(*(double *)user));
    return kiln_error();
}

static void wrappers(void **state)
{
    (void)state;
    double factor = 2;
    kiln_tensor *x = kiln_reshape(kiln_arange(dev, KILN_F32, 0, 12, 1), KILN_SHAPE(2, 6));
    kiln_cell *net =
        kiln_nn_sequential(KILN_CELLS(kiln_nn_identity(), kiln_nn_residual(kiln_nn_lambda(twice, &factor)),
                                      kiln_nn_unflatten(1, KILN_SHAPE(3, -1)), kiln_nn_glu("bilinear_glu", -1)));
    kiln_tensor *y = kiln_cell_call(net, x);
    assert_int_equal(kiln_rank(y), 3);
    expect(y, (double[]){0, 9 * 2 * 3, 9 * 4 * 5, 9 * 6 * 7, 9 * 8 * 9, 9 * 10 * 11}, 6, 1e-6);
    kiln_cell_free(&net);

    kiln_tensor *image = kiln_normal(dev, KILN_F32, KILN_SHAPE(2, 4, 3), 1, 2);
    kiln_cell *norm = kiln_nn_group_norm(dev, 2, 4, KILN_NN_NORM(.gamma_init = "2", .beta_init = "1"));
    kiln_tensor *want = kiln_add(kiln_mul(kiln_group_norm(image, 2, NULL), kiln_scalar(2)), kiln_scalar(1));
    expect_same(kiln_cell_call(norm, image), want, 1e-5);
    assert_null(kiln_cell_call(norm, x));
    expect_error(KILN_E_SHAPE, "group_norm cell: x must have 4 channels");
    kiln_cell_free(&norm);
    norm = kiln_nn_instance_norm(dev, 4, KILN_NN_NORM(.no_affine = true));
    expect_same(kiln_cell_call(norm, image), kiln_instance_norm(image, NULL), 1e-6);
    kiln_cell_free(&norm);
}

static void bags_pairs_and_positions(void **state)
{
    (void)state;
    kiln_cell *bag = kiln_nn_embedding_bag(dev, 4, 2, "sum", "1");
    kiln_tensor *ids = kiln_from_data(dev, KILN_I64, KILN_SHAPE(3), (int64_t[]){3, 0, 3}), *y;
    kiln_tensor *in[] = {ids, kiln_from_data(dev, KILN_I64, KILN_SHAPE(2), (int64_t[]){0, 1})};
    kiln_cell_call_n(bag, in, 2, &y, 1);
    expect(y, (double[]){1, 1, 2, 2}, 4, 0);
    expect(kiln_cell_call(bag, kiln_unsqueeze(ids, 0)), (double[]){3, 3}, 2, 0);
    kiln_cell_free(&bag);
    kiln_cell *pairs = kiln_nn_bilinear(dev, 2, 3, 2, KILN_NN_DENSE(.weight_init = "1", .bias_init = "0.5"));
    kiln_tensor *two[] = {kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 2)), kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 3))};
    kiln_cell_call_n(pairs, two, 2, &y, 1);
    expect(y, (double[]){6.5, 6.5}, 2, 1e-6);
    kiln_cell_free(&pairs);
    kiln_cell *positions = kiln_nn_positional_encoding(dev, 5, 4, 0.5);
    kiln_tensor *x = kiln_zeros(dev, KILN_F32, KILN_SHAPE(1, 2, 4));
    expect(kiln_cell_call(positions, x), (double[]){0, 1, 0, 1, sin(1), cos(1), sin(0.01), cos(0.01)}, 8, 1e-6);
    assert_null(kiln_cell_call(positions, kiln_zeros(dev, KILN_F32, KILN_SHAPE(1, 6, 4))));
    expect_error(KILN_E_SHAPE, "with L up to 5");
    kiln_cell_free(&positions);
}

// --- norms of weights

static void weight_norm_keeps_values(void **state)
{
    (void)state;
    kiln_cell *cell = kiln_nn_dense(dev, 3, 2, NULL);
    kiln_tensor *x = kiln_normal(dev, KILN_F32, KILN_SHAPE(4, 3), 0, 1), *before = kiln_cell_call(cell, x), *g[3];
    assert_int_equal(kiln_cell_weight_norm(cell, "weight", 0), KILN_OK);
    const char *names[4];
    assert_int_equal(kiln_cell_state(cell, names, NULL, 4), 3);
    assert_string_equal(names[0], "weight_v");
    assert_string_equal(names[1], "bias");
    assert_string_equal(names[2], "weight_g");
    for (int captured = 0; captured < 2; captured++) {
        kiln_tensor *y = kiln_cell_call(cell, x);
        expect_same(y, before, 1e-6);
        kiln_backward(kiln_sum(kiln_square(y), NULL), NULL);
        // |v| does not matter: the gradient by v is at right angles to it.
        kiln_tensor *v = kiln_cell_parameter(cell, "weight_v");
        g[captured] = kiln_contiguous(kiln_gradient(kiln_cell_parameter(cell, "weight_g")));
        expect(kiln_sum(kiln_mul(kiln_gradient(v), v), KILN_REDUCE(.axes = KILN_AXES(1))), (double[]){0, 0}, 2, 1e-4);
        kiln_cell_jit(cell, NULL);
    }
    expect_same(g[0], g[1], 1e-5);
    kiln_cell_weight_norm(cell, "weight", 0);
    expect_error(KILN_E_ARGUMENT, "has no parameter \"weight\" of its own");
    kiln_cell_weight_norm(cell, "weight_v", 0);
    expect_error(KILN_E_ARGUMENT, "\"weight_v\" is of a norm already");
    kiln_cell_weight_norm(cell, "bias", 1);
    expect_error(KILN_E_AXIS, "axis 1 is out of range for \"bias\" of rank 1");
    assert_null(kiln_cell_call(cell, kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 2)))); // fails inside
    expect_error(KILN_E_SHAPE, "matmul");
    assert_non_null(kiln_cell_parameter(cell, "weight_v"));
    kiln_cell_free(&cell);
}

static void spectral_norm_bounds(void **state)
{
    (void)state;
    kiln_cell *cell = kiln_nn_dense(dev, 2, 2, KILN_NN_DENSE(.no_bias = true));
    kiln_no_grad_begin();
    kiln_write(kiln_cell_parameter(cell, "weight"), (float[]){3, 0, 0, 1}, 16);
    kiln_no_grad_end();
    assert_int_equal(kiln_cell_spectral_norm(cell, "weight", 0, 0), KILN_OK);
    assert_non_null(kiln_cell_parameter(cell, "weight_orig"));
    kiln_tensor *x = kiln_eye(dev, KILN_F32, 2, 2), *u = kiln_cell_parameter(cell, "weight_u");
    kiln_cell_set_training(cell, true);
    for (int i = 0; i < 30; i++) kiln_cell_call(cell, x);
    expect(kiln_cell_call(cell, x), (double[]){1, 0, 0, 1 / 3.0}, 4, 1e-5);
    expect(kiln_abs(u), (double[]){1, 0}, 2, 1e-5);
    kiln_cell_set_training(cell, false);
    kiln_tensor *still = kiln_contiguous(u);
    kiln_cell_jit(cell, NULL);
    expect(kiln_cell_call(cell, x), (double[]){1, 0, 0, 1 / 3.0}, 4, 1e-5);
    expect_same(u, still, 0);
    kiln_cell_free(&cell);
}

// --- what becomes one kernel

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

FN(attend)
{
    (void)n_in, (void)n_out;
    out[0] = kiln_scaled_dot_product_attention(in[0], in[1], in[2], NULL, user);
    return kiln_error();
}

FN(attend_masked)
{
    (void)n_in, (void)n_out, (void)user;
    out[0] = kiln_sdpa(in[0], in[1], in[2], in[3], NULL);
    return kiln_error();
}

FN(group_between)
{
    (void)n_in, (void)n_out, (void)user;
    out[0] = kiln_relu(kiln_group_norm(kiln_mul(in[0], kiln_scalar(2)), 2, KILN_GROUP_NORM(.weight = in[1])));
    return kiln_error();
}

FN(rms_between)
{
    (void)n_in, (void)n_out, (void)user;
    out[0] = kiln_relu(kiln_rms_norm(kiln_mul(in[0], kiln_scalar(2)), 1, NULL));
    return kiln_error();
}

static void expect_launches(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n, uint64_t want)
{
    kiln_tensor *y, *eager;
    kiln_function *f = kiln_jit(fn, user, NULL);
    kiln_call(f, in, n, &y, 1);
    fn(user, in, n, &eager, 1);
    expect_same(y, eager, 1e-5);
    kiln_jit_stats stats = {.size = sizeof stats};
    kiln_function_stats(f, &stats);
    // A build without a generator of code runs op by op: its values count, and more launches.
    if (on_cpu ? KILN_WITH_LLVM : KILN_WITH_GLSLANG)
        assert_int_equal(stats.launches, want);
    else
        assert_true(stats.launches >= want);
    kiln_function_free(&f);
}

static void few_launches(void **state)
{
    (void)state;
    kiln_tensor *q = kiln_normal(dev, KILN_F32, KILN_SHAPE(1, 4, 8, 4), 0, 1);
    kiln_tensor *few = kiln_normal(dev, KILN_F32, KILN_SHAPE(1, 2, 8, 4), 0, 1);
    kiln_tensor *mask = kiln_cast(kiln_tril(kiln_ones(dev, KILN_F32, KILN_SHAPE(8, 8)), 0), KILN_BOOL);
    kiln_tensor *same[] = {q, q, q, mask}, *shared[] = {q, few, few, mask};
    // What attention by tiles does not cover has products as kernels of their own on the CPU.
    expect_launches(attend, KILN_ATTENTION(.softcap = 5), same, 3, on_cpu ? 4 : 1);
    expect_launches(attend, KILN_ATTENTION(.causal = true), same, 3, 1);
    expect_launches(attend, KILN_ATTENTION(.causal = true), shared, 3, 1);
    expect_launches(attend_masked, NULL, same, 4, 1);
    expect_launches(attend_masked, NULL, shared, 4, 1);
    kiln_tensor *x = kiln_normal(dev, KILN_F32, KILN_SHAPE(2, 4, 5), 0, 1);
    kiln_tensor *normed[] = {x, kiln_full(dev, KILN_F32, KILN_SHAPE(4), 0.5)};
    expect_launches(group_between, NULL, normed, 2, 1);
    expect_launches(rms_between, NULL, normed, 1, 1);
}

#define TEST(name)                    \
    {                                 \
#name, name, begin, end, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(recurrent_as_torch),
        TEST(attention_as_torch),
        TEST(transformers_as_torch),
        TEST(names_are_those_of_files),
        TEST(steps_make_sequences),
        TEST(mistakes_are_told),
        TEST(ops_name_what_does_not_fit),
        TEST(wrappers),
        TEST(bags_pairs_and_positions),
        TEST(weight_norm_keeps_values),
        TEST(biases_are_asked_for_alike),
        TEST(spectral_norm_bounds),
        TEST(few_launches),
    };
    static const char *const devices[] = {"cpu", "vulkan"};
    int failures = 0;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        kiln_error_clear(); // of a test that failed
        dev = kiln_device_open(devices[i]);
        if (!dev) {
            printf("# no device \"%s\": %s\n", devices[i], kiln_error_message());
            if (i == 0) failures++;
            kiln_error_clear();
            continue;
        }
        on_cpu = i == 0;
        kiln_set_device(dev);
        char group[64];
        snprintf(group, sizeof group, "networks on %s", devices[i]);
        failures += _cmocka_run_group_tests(group, tests, sizeof tests / sizeof *tests, NULL, NULL);
        kiln_device_close(&dev);
    }
    return failures != 0;
}
