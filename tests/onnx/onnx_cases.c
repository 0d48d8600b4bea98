// Running a model and comparing what it gives. Bounds are by dtype: integers and truths are exact, floats may be off by
// what other orders of adding make of sums of some hundred elements.
#include "../clock.h"
#include "onnx_cases.h"
#include "onnx/model.h"
#include "onnx/wire.h"
#include "scalar/number.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double worst, seconds;

double onnx_case_worst(void)
{
    return worst;
}

double onnx_case_seconds(void)
{
    return seconds;
}

unsigned char *read_bytes(const char *path, size_t *size_B)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    unsigned char *bytes = malloc(n > 0 ? (size_t)n : 1);
    *size_B = bytes && n > 0 ? fread(bytes, 1, (size_t)n, f) : 0;
    fclose(f);
    return bytes;
}

kiln_tensor *onnx_case_tensor(kiln_device *dev, const unsigned char *bytes, size_t size_B)
{
    static char where[] = "test";
    struct onnx_model m = {.where = where};
    struct onnx_constant c = {.name = ""};
    struct wire w = {.at = bytes, .end = bytes + size_B, .file = bytes, .where = where};
    kiln_tensor *t = NULL;
    if (!onnx_parse_tensor(&m, w, &c))
        t = kiln_from_data(dev, (kiln_dtype)c.host.dtype, c.host.rank, c.host.dims, c.host.numel ? c.raw : NULL);
    free(c.list);
    arena_finish(&m.arena);
    return t;
}

static double tolerance(kiln_dtype dtype, double want)
{
    switch (dtype) {
    case KILN_F16: return 2e-3 + 4e-3 * fabs(want);
    case KILN_BF16: return 2e-2 + 2e-2 * fabs(want);
    case KILN_F32: return 2e-5 + 2e-4 * fabs(want);
    case KILN_F64: return 1e-7 + 1e-7 * fabs(want);
    default: return 0;
    }
}

static bool same_type(kiln_tensor *a, kiln_tensor *b)
{
    bool same = kiln_tensor_dtype(a) == kiln_tensor_dtype(b) && kiln_rank(a) == kiln_rank(b);
    return same && (!kiln_rank(a) || !memcmp(kiln_dims(a), kiln_dims(b), kiln_rank(a) * sizeof(int64_t)));
}

static const char *type_of(kiln_tensor *t, char *text, size_t size_B)
{
    size_t n = (size_t)snprintf(text, size_B, "%s[", kiln_dtype_name(kiln_tensor_dtype(t)));
    for (size_t i = 0; i < kiln_rank(t) && n + 24 < size_B; i++)
        n += (size_t)snprintf(text + n, size_B - n, "%s%lld", i ? "," : "", (long long)kiln_dims(t)[i]);
    snprintf(text + n, size_B - n, "]");
    return text;
}

static void *read_elements(kiln_tensor *t)
{
    size_t size_B = (size_t)kiln_numel(t) * kiln_dtype_size(kiln_tensor_dtype(t));
    void *data = malloc(size_B + 1);
    if (!data || !kiln_read(t, data, size_B)) return data;
    free(data);
    return NULL;
}

static double element(kiln_tensor *t, const void *data, size_t i)
{
    unsigned dtype = kiln_tensor_dtype(t);
    return number_as_double(dtype_class(dtype), number_read(dtype, (const char *)data + i * kiln_dtype_size(dtype)));
}

static bool is_near(kiln_tensor *got, kiln_tensor *want, const void *a, const void *b, size_t i)
{
    size_t item_B = kiln_dtype_size(kiln_tensor_dtype(want));
    double x = element(got, a, i), y = element(want, b, i);
    double off = fabs(x - y), bound = tolerance(kiln_tensor_dtype(want), y);
    if (!bound) return !memcmp((const char *)a + i * item_B, (const char *)b + i * item_B, item_B);
    if (x == y || (isnan(x) && isnan(y))) return true;
    if (off / bound > worst) worst = off / bound;
    return off <= bound;
}

static bool compare(kiln_tensor *got, kiln_tensor *want, char *why, size_t why_B)
{
    char x[200], y[200];
    if (!same_type(got, want)) {
        snprintf(why, why_B, "is %s, not %s", type_of(got, x, sizeof x), type_of(want, y, sizeof y));
        return false;
    }
    size_t n = (size_t)kiln_numel(want), bad = n, count = 0;
    void *a = read_elements(got), *b = read_elements(want);
    for (size_t i = 0; a && b && i < n; i++)
        if (!is_near(got, want, a, b, i) && !count++) bad = i;
    bool same = a && b && !count;
    if (!a || !b)
        snprintf(why, why_B, "%s", kiln_error_message());
    else if (!same)
        snprintf(why, why_B, "element %zu is %.9g, not %.9g (%zu of %zu)", bad, element(got, a, bad),
                 element(want, b, bad), count, n);
    free(a);
    free(b);
    return same;
}

static bool compare_all(const char *way, kiln_tensor **out, const struct onnx_case *c, char *why, size_t why_B)
{
    for (size_t i = 0; i < c->n_want; i++) {
        char text[300];
        if (compare(out[i], c->want[i], text, sizeof text)) continue;
        snprintf(why, why_B, "%s: output %zu %s", way, i, text);
        return false;
    }
    return true;
}

static enum onnx_outcome refused(const char *way, char *why, size_t why_B)
{
    kiln_status status = kiln_error();
    snprintf(why, why_B, "%s: %s", way, kiln_error_message());
    kiln_error_clear();
    return status == KILN_E_UNSUPPORTED ? CASE_UNSUPPORTED : CASE_FAILED;
}

static enum onnx_outcome run_eager(struct onnx_model *m, const struct onnx_case *c, char *why, size_t why_B)
{
    kiln_tensor *out[CASE_TENSORS_MAX];
    kiln_scope *scope = kiln_scope_begin();
    enum onnx_outcome outcome = CASE_PASSED;
    if (onnx_run(m, c->in, c->n_in, out, c->n_want))
        outcome = refused("eager", why, why_B);
    else if (!compare_all("eager", out, c, why, why_B))
        outcome = CASE_FAILED;
    kiln_scope_end(&scope);
    return outcome;
}

// Shapes that are inputs, as ONNX's own tests have them, are not known in a capture; nor which branch runs, of which
// the other may not fit. Then all inputs but the first, and that too if it may be a shape, are constants of the
// captured function.
struct bound {
    struct onnx_model *m;
    kiln_tensor *const *in;
    size_t n_in;
    bool first; // is an input
};

static kiln_status run_bound(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct bound *b = user;
    kiln_tensor *all[CASE_TENSORS_MAX];
    for (size_t i = 0; i < b->n_in; i++) all[i] = b->first && i == 0 ? in[0] : kiln_constant(b->in[i]);
    return onnx_run(b->m, all, b->n_in, out, n_out);
}

// The best of 20 calls, each read.
static double time_calls(kiln_function *f, size_t n_in, const struct onnx_case *c)
{
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        kiln_tensor *out[CASE_TENSORS_MAX];
        kiln_scope *scope = kiln_scope_begin();
        double begin = clock_s();
        if (!kiln_call(f, c->in, n_in, out, c->n_want)) free(read_elements(out[0]));
        double took = clock_s() - begin;
        if (took < best) best = took;
        kiln_scope_end(&scope);
    }
    return best;
}

// The second call runs the program that the first one made.
static enum onnx_outcome call_twice(kiln_fn fn, void *user, size_t n_in, const struct onnx_case *c, char *why,
                                    size_t why_B)
{
    kiln_tensor *out[CASE_TENSORS_MAX];
    kiln_function *f = kiln_jit(fn, user, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
    enum onnx_outcome outcome = CASE_PASSED;
    for (int i = 0; i < 2 && outcome == CASE_PASSED; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_status status = kiln_call(f, c->in, n_in, out, c->n_want);
        if (status) outcome = status == KILN_E_STATE || status == KILN_E_SHAPE ? CASE_UNKNOWN : CASE_FAILED;
        if (status)
            refused("captured", why, why_B);
        else if (!compare_all("captured", out, c, why, why_B))
            outcome = CASE_FAILED;
        kiln_scope_end(&scope);
    }
    if (outcome == CASE_PASSED && getenv("KILN_TEST_ONNX_TIME")) seconds = time_calls(f, n_in, c);
    kiln_function_free(&f);
    return outcome;
}

static enum onnx_outcome run_captured(struct onnx_model *m, const struct onnx_case *c, char *why, size_t why_B)
{
    enum onnx_outcome outcome = call_twice(onnx_run, m, c->n_in, c, why, why_B);
    if (outcome != CASE_UNKNOWN) return outcome;
    struct bound b = {m, c->in, c->n_in, kiln_tensor_dtype(c->in[0]) != KILN_I64 && kiln_numel(c->in[0]) > 1};
    return call_twice(run_bound, &b, b.first, c, why, why_B);
}

// --- written again

static size_t written, unwritten;

void onnx_case_written(size_t *n, size_t *refused)
{
    *n = written;
    *refused = unwritten;
}

static enum onnx_outcome call_again(kiln_device *dev, const char *path, const struct onnx_case *c, size_t n_in,
                                    char *why, size_t why_B)
{
    kiln_tensor *out[CASE_TENSORS_MAX];
    enum onnx_outcome outcome = CASE_PASSED;
    kiln_scope *scope = kiln_scope_begin();
    kiln_model *again = kiln_graph_import(dev, path);
    kiln_function *g = again ? kiln_model_function(again, "main") : NULL;
    if (!g || kiln_call(g, c->in, n_in, out, c->n_want)) {
        refused("written and read", why, why_B);
        outcome = CASE_FAILED;
    } else if (!compare_all("written and read", out, c, why, why_B))
        outcome = CASE_FAILED;
    kiln_function_free(&g);
    kiln_model_free(&again);
    kiln_scope_end(&scope);
    return outcome;
}

// Where $KILN_TEST_ONNX_KEEP names a folder: what check_written.py takes.
static void keep_again(const char *model, const struct onnx_case *c, size_t n_in)
{
    char path[400], data[500], command[1000];
    if (!getenv("KILN_TEST_ONNX_KEEP")) return;
    snprintf(path, sizeof path, "%s/%s", getenv("KILN_TEST_ONNX_KEEP"), c->name);
    snprintf(command, sizeof command, "mkdir -p '%s' && cp %s '%s/model.onnx'", path, model, path);
    if (system(command)) return;
    for (size_t i = 0; i < n_in + c->n_want; i++) {
        bool given = i < n_in;
        snprintf(data, sizeof data, given ? "%s/input_%zu.npy" : "%s/output_%zu.npy", path, given ? i : i - n_in);
        kiln_npy_save(data, given ? c->in[i] : c->want[i - n_in]);
        kiln_error_clear();
    }
}

// The model as a graph of Kiln's, as another model. What cannot be written is counted.
static enum onnx_outcome run_again(kiln_device *dev, struct onnx_model *m, const struct onnx_case *c, char *why,
                                   size_t why_B)
{
    char path[64];
    struct bound b = {m, c->in, c->n_in,
                      c->n_in && kiln_tensor_dtype(c->in[0]) != KILN_I64 && kiln_numel(c->in[0]) > 1};
    snprintf(path, sizeof path, "%s/kiln_again_%d.onnx", access("/dev/shm", W_OK) ? "." : "/dev/shm", (int)getpid());
    for (int i = 0; i < 2; i++) { // as it is, else with inputs bound
        size_t n_in = i ? b.first : c->n_in;
        kiln_function *f = i ? kiln_jit(run_bound, &b, NULL) : kiln_jit(onnx_run, m, NULL);
        kiln_status status = kiln_graph_export(f, c->in, n_in, c->n_want, path, NULL);
        kiln_function_free(&f);
        if (status && getenv("KILN_TEST_ONNX_REFUSED")) printf("%s: %s\n", c->name, kiln_error_message());
        kiln_error_clear();
        if (status) continue;
        written++;
        keep_again(path, c, n_in);
        enum onnx_outcome outcome = call_again(dev, path, c, n_in, why, why_B);
        unlink(path);
        return outcome;
    }
    unwritten++;
    return CASE_PASSED;
}

enum onnx_outcome run_onnx_case(kiln_device *dev, const struct onnx_case *c, char *why, size_t why_B)
{
    worst = 0;
    *why = 0;
    struct onnx_model *m = onnx_load("graph_import", dev, c->model);
    if (!m) return refused("load", why, why_B);
    enum onnx_outcome outcome = CASE_FAILED;
    if (onnx_input_count(m) != c->n_in || onnx_output_count(m) != c->n_want)
        snprintf(why, why_B, "has %zu inputs and %zu outputs, not %zu and %zu", onnx_input_count(m),
                 onnx_output_count(m), c->n_in, c->n_want);
    else
        outcome = run_eager(m, c, why, why_B);
    if (outcome == CASE_PASSED) outcome = run_captured(m, c, why, why_B);
    if (outcome == CASE_PASSED && !getenv("KILN_TEST_ONNX_TIME")) outcome = run_again(dev, m, c, why, why_B);
    onnx_free(&m);
    return outcome;
}
