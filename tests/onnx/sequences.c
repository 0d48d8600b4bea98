// Attention with caches and shared heads, rotary embeddings, recurrent networks with lengths and the batch first,
// norms: models of one node against plain loops, or against the op of Kiln that says the same in another form.
//
// usage: test_onnx_sequences [DEVICE]
#include "build.h"
#include "onnx/onnx.h"
#include <kiln/kiln.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static kiln_device *dev;

static struct onnx_model *load(struct message *m)
{
    char path[] = "/tmp/kiln-onnx-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, m->bytes, m->n) == (ssize_t)m->n && !close(fd));
    free_message(m);
    struct onnx_model *loaded = onnx_load("graph_import", dev, path);
    if (!loaded) print_error("%s\n", kiln_error_message());
    assert_non_null(loaded);
    unlink(path);
    return loaded;
}

// A model of one node. `ins`: words, as in node(); each that is not "-" is an input of its dims and type, in order.
struct one_node {
    struct message node;
    int opset;
    const char *inputs[8], *dims[8];
    int types[8]; // 1 f32, 7 i64, 9 bool, 6 i32; 0: the end
    const char *outputs[4];
};

static void run(const struct one_node *o, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct message g = {0};
    put_text(&g, 2, "main");
    for (int i = 0; i < 8 && o->types[i]; i++) add_input(&g, port(o->inputs[i], o->types[i], o->dims[i]));
    add_node(&g, o->node);
    for (size_t i = 0; i < n_out; i++) add_output(&g, o->outputs[i]);
    struct message m = model(o->opset, &g);
    struct onnx_model *loaded = load(&m);
    kiln_function *f = kiln_jit(onnx_run, loaded, NULL);
    if (kiln_call(f, in, n_in, out, n_out)) fail_msg("%s", kiln_error_message());
    kiln_function_free(&f);
    onnx_free(&loaded);
}

static void attribute(struct message *node, struct message attr)
{
    put_message(node, 5, &attr);
}

static kiln_tensor *wave(double phase, size_t rank, const int64_t *dims)
{
    float v[512];
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= dims[i];
    assert_true(n <= 512);
    for (int64_t i = 0; i < n; i++) v[i] = (float)sin(1.7 * (double)i + phase);
    return kiln_from_data(dev, KILN_F32, rank, dims, v);
}

static void read_floats(kiln_tensor *t, float *v, size_t n)
{
    if (!t) fail_msg("%s", kiln_error_message());
    assert_int_equal(kiln_numel(t), n);
    assert_int_equal(kiln_read(kiln_cast(t, KILN_F32), v, n * sizeof *v), KILN_OK);
}

static void expect_same(kiln_tensor *got, kiln_tensor *want)
{
    float a[512], b[512];
    size_t n = (size_t)kiln_numel(want);
    assert_true(n <= 512 && kiln_rank(got) == kiln_rank(want));
    for (size_t i = 0; i < kiln_rank(want); i++) assert_int_equal(kiln_dims(got)[i], kiln_dims(want)[i]);
    read_floats(want, b, n);
    read_floats(got, a, n);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5F * (1 + fabsf(b[i])))) fail_msg("element %zu: %g, expected %g", i, a[i], b[i]);
}

// --- attention by loops, of [B, L, H * D] with keys behind those of a past [B, K, P, D]

enum { B = 2, L = 2, PAST = 3, H = 4, KV = 2, D = 2, S = PAST + L };

struct attention {
    float q[B][L][H][D], k[B][L][KV][D], v[B][L][KV][D], past_k[B][KV][PAST][D], past_v[B][KV][PAST][D];
    float mask[L][S];
    float weights[B][H][L][S], y[B][L][H][D];
};

static float key_at(const struct attention *a, int b, int h, int s, int d, int values)
{
    int kv = h / (H / KV);
    if (s < PAST) return values ? a->past_v[b][kv][s][d] : a->past_k[b][kv][s][d];
    return values ? a->v[b][s - PAST][kv][d] : a->k[b][s - PAST][kv][d];
}

static void attend(struct attention *a, double scale, double cap)
{
    for (int n = 0; n < B * H * L; n++) {
        int b = n / (H * L), h = n / L % H, i = n % L;
        double score[S], total = 0;
        for (int s = 0; s < S; s++) {
            score[s] = 0;
            for (int d = 0; d < D; d++) score[s] += (double)a->q[b][i][h][d] * (double)key_at(a, b, h, s, d, 0) * scale;
            score[s] = cap * tanh(score[s] / cap) + (double)a->mask[i][s];
            total += s <= PAST + i ? exp(score[s]) : 0;
        }
        for (int s = 0; s < S; s++) {
            double w = s <= PAST + i ? exp(score[s]) / total : 0;
            a->weights[b][h][i][s] = (float)w;
            for (int d = 0; d < D; d++) a->y[b][i][h][d] += (float)(w * (double)key_at(a, b, h, s, d, 1));
        }
    }
}

static void attention_with_a_past(void **state)
{
    (void)state;
    struct attention a = {0};
    kiln_tensor *in[] = {wave(0, KILN_SHAPE(B, L, H * D)),    wave(1, KILN_SHAPE(B, L, KV * D)),
                         wave(2, KILN_SHAPE(B, L, KV * D)),   wave(3, KILN_SHAPE(L, S)),
                         wave(4, KILN_SHAPE(B, KV, PAST, D)), wave(5, KILN_SHAPE(B, KV, PAST, D))};
    read_floats(in[0], (float *)a.q, B * L * H * D);
    read_floats(in[1], (float *)a.k, B * L * KV * D);
    read_floats(in[2], (float *)a.v, B * L * KV * D);
    read_floats(in[3], (float *)a.mask, L * S);
    read_floats(in[4], (float *)a.past_k, B * KV * PAST * D);
    read_floats(in[5], (float *)a.past_v, B * KV * PAST * D);
    attend(&a, 0.5, 2);
    struct one_node o = {.node = node("Attention", "q k v m pk pv", "y nk nv w"),
                         .opset = 23,
                         .inputs = {"q", "k", "v", "m", "pk", "pv"},
                         .dims = {"2 2 8", "2 2 4", "2 2 4", "2 5", "2 2 3 2", "2 2 3 2"},
                         .types = {1, 1, 1, 1, 1, 1},
                         .outputs = {"y", "nk", "nv", "w"}};
    attribute(&o.node, int_attr("is_causal", 1));
    attribute(&o.node, int_attr("q_num_heads", H));
    attribute(&o.node, int_attr("kv_num_heads", KV));
    attribute(&o.node, int_attr("qk_matmul_output_mode", 3));
    attribute(&o.node, float_attr("scale", 0.5F));
    attribute(&o.node, float_attr("softcap", 2));
    kiln_tensor *out[4];
    run(&o, in, 6, out, 4);
    expect_same(out[0], kiln_from_data(dev, KILN_F32, KILN_SHAPE(B, L, H * D), a.y));
    expect_same(out[3], kiln_from_data(dev, KILN_F32, KILN_SHAPE(B, H, L, S), a.weights));
    kiln_tensor *new_k = kiln_transpose(kiln_reshape(in[1], KILN_SHAPE(B, L, KV, D)), 1, 2);
    expect_same(out[1], kiln_concat((kiln_tensor *[]){in[4], new_k}, 2, 2));
}

// A mask of bool that ends before the keys, the raw scores.
static void attention_with_a_short_mask(void **state)
{
    (void)state;
    kiln_tensor *q = wave(0, KILN_SHAPE(1, 2, 3, 2)), *k = wave(1, KILN_SHAPE(1, 2, 4, 2));
    kiln_tensor *v = wave(2, KILN_SHAPE(1, 2, 4, 3)), *out[2];
    kiln_tensor *mask = kiln_from_data(dev, KILN_BOOL, KILN_SHAPE(3, 2), (uint8_t[]){1, 1, 1, 0, 0, 1});
    kiln_tensor *in[] = {q, k, v, mask};
    struct one_node o = {.node = node("Attention", "q k v m", "y - - w"),
                         .opset = 23,
                         .inputs = {"q", "k", "v", "m"},
                         .dims = {"1 2 3 2", "1 2 4 2", "1 2 4 3", "3 2"},
                         .types = {1, 1, 1, 9},
                         .outputs = {"y", "w"}};
    run(&o, in, 4, out, 2);
    k = kiln_narrow(k, 2, 0, 2);
    expect_same(out[0], kiln_sdpa(q, k, kiln_narrow(v, 2, 0, 2), mask, NULL));
    kiln_tensor *raw = kiln_mul(kiln_matmul(q, kiln_transpose(k, 2, 3)), kiln_scalar(1 / sqrt(2)));
    expect_same(kiln_narrow(out[1], 3, 0, 2), raw);
}

static void rotary(const char *x_dims, kiln_tensor *x, bool flat, bool pairs)
{
    kiln_tensor *cos = wave(1, KILN_SHAPE(9, 2)), *sin = wave(2, KILN_SHAPE(9, 2)), *y;
    kiln_tensor *at = kiln_from_data(dev, KILN_I64, KILN_SHAPE(2, 3), (int64_t[]){0, 4, 8, 2, 1, 0});
    kiln_tensor *in[] = {x, cos, sin, at};
    struct one_node o = {.node = node("RotaryEmbedding", "x c s p", "y"),
                         .opset = 23,
                         .inputs = {"x", "c", "s", "p"},
                         .dims = {x_dims, "9 2", "9 2", "2 3"},
                         .types = {1, 1, 1, 7},
                         .outputs = {"y"}};
    attribute(&o.node, int_attr("interleaved", pairs));
    attribute(&o.node, int_attr("rotary_embedding_dim", 4));
    if (flat) attribute(&o.node, int_attr("num_heads", 2));
    run(&o, in, 4, &y, 1);
    float v[60], c[18], s[18], got[60];
    read_floats(x, v, 60);
    read_floats(cos, c, 18);
    read_floats(sin, s, 18);
    static const int places[] = {0, 4, 8, 2, 1, 0};
    for (int row = 0; row < 12; row++) { // [2, 3, 2, 5] flat, else [2, 2, 3, 5]
        int place = places[row / 6 * 3 + (flat ? row / 2 % 3 : row % 3)];
        for (int i = 0; i < 2; i++) {
            float *a = &v[row * 5 + (pairs ? 2 * i : i)], *b = a + (pairs ? 1 : 2), was = *a;
            *a = was * c[place * 2 + i] - *b * s[place * 2 + i];
            *b = *b * c[place * 2 + i] + was * s[place * 2 + i];
        }
    }
    read_floats(y, got, 60);
    for (int i = 0; i < 60; i++) assert_true(fabsf(got[i] - v[i]) < 1e-5F);
}

static void rotary_embeddings(void **state)
{
    (void)state;
    rotary("2 2 3 5", wave(0, KILN_SHAPE(2, 2, 3, 5)), false, false);
    rotary("2 2 3 5", wave(0, KILN_SHAPE(2, 2, 3, 5)), false, true);
    rotary("2 3 10", wave(0, KILN_SHAPE(2, 3, 10)), true, true);
}

// Gates i, o, f, c of ONNX in the order i, f, c, o.
static kiln_tensor *reordered(kiln_tensor *t, int64_t direction, int64_t hidden)
{
    static const int64_t from[] = {0, 2, 3, 1};
    kiln_tensor *part[4];
    t = kiln_select(t, 0, direction);
    for (int i = 0; i < 4; i++) part[i] = kiln_narrow(t, 0, from[i] * hidden, hidden);
    return kiln_concat(part, 4, 0);
}

static void lstm_with_lengths(void **state)
{
    (void)state;
    enum { HIDDEN = 2 };
    for (int layout = 0; layout < 2; layout++) {
        kiln_tensor *x = wave(0, KILN_SHAPE(4, 3, 2)), *w = wave(1, KILN_SHAPE(2, 8, 2)), *out[3], *want[3];
        kiln_tensor *r = wave(2, KILN_SHAPE(2, 8, 2)), *bias = wave(3, KILN_SHAPE(2, 16));
        kiln_tensor *lengths = kiln_from_data(dev, KILN_I32, KILN_SHAPE(3), (int32_t[]){2, 4, 0});
        kiln_tensor *h = wave(4, KILN_SHAPE(2, 3, 2)), *c = wave(5, KILN_SHAPE(2, 3, 2)), *weights[8];
        for (int64_t d = 0; d < 2; d++) {
            weights[4 * d] = reordered(w, d, HIDDEN);
            weights[4 * d + 1] = reordered(r, d, HIDDEN);
            weights[4 * d + 2] = reordered(kiln_narrow(bias, 1, 0, 8), d, HIDDEN);
            weights[4 * d + 3] = reordered(kiln_narrow(bias, 1, 8, 8), d, HIDDEN);
        }
        kiln_lstm(x, h, c, lengths, weights, 8, KILN_RECURRENT(.bidirectional = true), &want[0], &want[1], &want[2]);
        want[0] = kiln_reshape(want[0], KILN_SHAPE(4, 3, 2, 2)); // [T, B, D, H]
        want[0] = layout ? kiln_transpose(want[0], 0, 1) : kiln_transpose(want[0], 1, 2);
        struct one_node o = {.node = node("LSTM", "x w r b l h c", "y hn cn"),
                             .opset = 14,
                             .inputs = {"x", "w", "r", "b", "l", "h", "c"},
                             .dims = {layout ? "3 4 2" : "4 3 2", "2 8 2", "2 8 2", "2 16", "3",
                                      layout ? "3 2 2" : "2 3 2", layout ? "3 2 2" : "2 3 2"},
                             .types = {1, 1, 1, 1, 6, 1, 1},
                             .outputs = {"y", "hn", "cn"}};
        attribute(&o.node, int_attr("hidden_size", HIDDEN));
        attribute(&o.node, int_attr("layout", layout));
        attribute(&o.node, text_attr("direction", "bidirectional"));
        kiln_tensor *in[] = {x, w, r, bias, lengths, h, c};
        for (int i = 0; i < 7 && layout; i++)
            if (i == 0 || i > 4) in[i] = kiln_contiguous(kiln_transpose(in[i], 0, 1));
        run(&o, in, 7, out, 3);
        for (int i = 1; i < 3 && layout; i++) want[i] = kiln_transpose(want[i], 0, 1);
        for (int i = 0; i < 3; i++) expect_same(out[i], want[i]);
    }
}

static void norms(void **state)
{
    (void)state;
    kiln_tensor *x = wave(0, KILN_SHAPE(2, 4, 3)), *w = wave(1, KILN_SHAPE(4, 3)), *y;
    struct one_node o = {.node = node("RMSNormalization", "x w", "y"),
                         .opset = 23,
                         .inputs = {"x", "w"},
                         .dims = {"2 4 3", "4 3"},
                         .types = {1, 1},
                         .outputs = {"y"}};
    attribute(&o.node, int_attr("axis", 1));
    run(&o, (kiln_tensor *[]){x, w}, 2, &y, 1);
    expect_same(y, kiln_rms_norm(x, 2, KILN_RMS_NORM(.weight = w)));
    for (int opset = 18; opset <= 21; opset += 3) {
        int64_t n = opset < 21 ? 2 : 4;
        kiln_tensor *s = wave(2, KILN_SHAPE(n)), *b = wave(3, KILN_SHAPE(n));
        struct one_node g = {.node = node("GroupNormalization", "x s b", "y"),
                             .opset = opset,
                             .inputs = {"x", "s", "b"},
                             .dims = {"2 4 3", opset < 21 ? "2" : "4", opset < 21 ? "2" : "4"},
                             .types = {1, 1, 1},
                             .outputs = {"y"}};
        attribute(&g.node, int_attr("num_groups", 2));
        run(&g, (kiln_tensor *[]){x, s, b}, 3, &y, 1);
        if (opset < 21) s = kiln_repeat_interleave(s, 2, 0), b = kiln_repeat_interleave(b, 2, 0);
        expect_same(y, kiln_group_norm(x, 2, KILN_GROUP_NORM(.weight = s, .bias = b)));
    }
}

static kiln_scope *scope;

static int begin(void **state)
{
    (void)state;
    kiln_error_clear();
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    kiln_scope_end(&scope);
    return kiln_error() ? -1 : 0;
}

int main(int argc, char **argv)
{
    dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    if (!dev || kiln_set_device(dev)) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(attention_with_a_past, begin, end),
        cmocka_unit_test_setup_teardown(attention_with_a_short_mask, begin, end),
        cmocka_unit_test_setup_teardown(rotary_embeddings, begin, end),
        cmocka_unit_test_setup_teardown(lstm_with_lengths, begin, end),
        cmocka_unit_test_setup_teardown(norms, begin, end),
    };
    int failures = cmocka_run_group_tests_name("onnx_sequences", tests, NULL, NULL);
    kiln_device_close(&dev);
    return failures;
}
