// The texts of a model, between weights that are always the same: manifest, then interface, forward and backward graph
// of each function, parted by bytes 0x1e. The file around them has the checksum that fits. What loads is called, node
// by node, where its numbers are small, and saved.
#include "fuzz_file.h"

#include "io/inflate.h"
#include "io/safetensors.h"

#include <ctype.h>

enum { TEXTS_MAX = 13, DIGITS_MAX = 2, VALUES_MAX = 64 };

static kiln_tensor *weights[3];
static const char *const names[] = {"the w", "the s", "weight"};

struct texts {
    char *v[TEXTS_MAX];
    size_t n;
};

static struct texts split(const uint8_t *data, size_t size_B)
{
    struct texts t = {.n = 0};
    for (size_t at = 0; at <= size_B && t.n < TEXTS_MAX;) {
        const uint8_t *end = at < size_B ? memchr(data + at, 0x1e, size_B - at) : NULL;
        size_t n = end ? (size_t)(end - data) - at : size_B - at;
        t.v[t.n] = malloc(n + 1);
        NEED(t.v[t.n]);
        memcpy(t.v[t.n], data + at, n);
        t.v[t.n++][n] = '\0';
        at += n + 1;
    }
    return t;
}

static bool write_model(const char *path, const struct texts *t)
{
    static const char *const parts[] = {"interface", "forward", "backward"};
    char keys[TEXTS_MAX][32], check[16];
    struct archive_pair pairs[TEXTS_MAX + 2];
    size_t n = 0;
    uint32_t crc = 0;
    for (size_t i = 0; i < t->n; i++) crc = io_crc(crc, t->v[i], strlen(t->v[i]) + 1);
    if ((t->n - 1) % 3 == 2) crc = io_crc(crc, "", 1);
    snprintf(check, sizeof check, "%08x", (unsigned)crc);
    pairs[n++] = (struct archive_pair){(char *)"kiln.model", (char *)"1"};
    pairs[n++] = (struct archive_pair){(char *)"kiln.check", check};
    for (size_t i = 0; i < t->n; i++) {
        snprintf(keys[i], sizeof keys[i], "kiln.%d.%s", i ? (int)(i - 1) / 3 : 0, i ? parts[(i - 1) % 3] : "");
        bool absent = i && (i - 1) % 3 == 2 && !*t->v[i];
        if (!absent) pairs[n++] = (struct archive_pair){i ? keys[i] : (char *)"kiln.manifest", t->v[i]};
    }
    return !safetensors_write("fuzz", path, names, weights, 3, pairs, n);
}

// Graphs may ask for any amount of time and memory; small numbers ask for little.
static bool is_small(const struct texts *t)
{
    for (size_t i = 1; i < t->n; i++)
        for (const char *at = t->v[i]; *at;) {
            size_t n = strspn(at, "0123456789");
            if (n > DIGITS_MAX && (at == t->v[i] || at[-1] != '%')) return false;
            at += n ? n : 1;
        }
    return true;
}

static kiln_tensor *value_of(const kiln_model_value *v)
{
    int64_t dims[KILN_MAX_RANK];
    for (size_t d = 0; d < v->rank; d++) dims[d] = v->dims[d] < 0 ? 3 : v->dims[d];
    if (!v->is_number) return kiln_ones(fuzz_device, v->dtype, v->rank, dims);
    return v->dtype == KILN_F64   ? kiln_mutable(1)
           : v->dtype == KILN_I64 ? kiln_mutable_int(1)
                                  : kiln_mutable_bool(true);
}

static void call(kiln_model *m, const char *name, bool gradients)
{
    kiln_tensor *in[VALUES_MAX], *out[VALUES_MAX];
    size_t n_in = kiln_model_input_count(m, name), n_out = kiln_model_output_count(m, name);
    kiln_function *f = n_in <= VALUES_MAX && n_out <= VALUES_MAX ? kiln_model_function(m, name) : NULL;
    if (!f && kiln_error()) FUZZ_REFUSED(KILN_E_FORMAT, KILN_E_UNSUPPORTED, KILN_E_ARGUMENT, KILN_E_SHAPE);
    if (!f) return;
    kiln_scope *s = kiln_scope_begin();
    if (!gradients) kiln_no_grad_begin();
    for (size_t i = 0; i < n_in && !kiln_error(); i++) {
        kiln_model_value v = {.size = sizeof v};
        if (!kiln_model_input(m, name, i, &v)) in[i] = value_of(&v);
    }
    if (!kiln_error() && !kiln_call(f, in, n_in, out, n_out) && gradients)
        for (size_t i = 0; i < n_out && !kiln_error(); i++)
            if (kiln_requires_grad(out[i])) kiln_backward(kiln_sum(out[i], NULL), NULL);
    if (!gradients) kiln_no_grad_end();
    kiln_error_clear(); // any: a graph may ask for what ops refuse
    kiln_scope_end(&s);
    kiln_function_free(&f);
}

static void use(kiln_model *m, const struct texts *t)
{
    for (size_t i = 0; i < kiln_model_function_count(m) && is_small(t); i++) {
        call(m, kiln_model_function_name(m, i), false);
        call(m, kiln_model_function_name(m, i), true);
    }
    NEED(!kiln_model_save(m, fuzz_saved[0]));
    kiln_model *again = kiln_graph_import(fuzz_device, fuzz_saved[0]);
    NEED(again && kiln_model_function_count(again) == kiln_model_function_count(m));
    NEED(!kiln_model_save(again, fuzz_saved[1]));
    fuzz_need_same_files(fuzz_saved[0], fuzz_saved[1]);
    kiln_model_free(&again);
}

static void make_weights(void)
{
    weights[0] = kiln_own(kiln_full(fuzz_device, KILN_F32, KILN_SHAPE(4, 4), 0.5));
    weights[1] = kiln_own(kiln_full(fuzz_device, KILN_F32, KILN_SHAPE(3), 2));
    weights[2] = kiln_own(kiln_full(fuzz_device, KILN_F32, KILN_SHAPE(3), 1));
    kiln_jit_enable(false);
    NEED(weights[0] && weights[1] && weights[2]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    if (!weights[0]) make_weights();
    fuzz_begin();
    struct texts t = split(data, size_B);
    const char *path = fuzz_input(data, 0);
    FILE *out = stdout;
    stdout = fopen("/dev/null", "w"); // prints
    if (write_model(path, &t)) {
        kiln_model *m = kiln_graph_import(fuzz_device, path);
        if (m)
            use(m, &t);
        else
            FUZZ_REFUSED(FUZZ_BAD_FILE, KILN_E_SHAPE, KILN_E_DTYPE, KILN_E_ARGUMENT, KILN_E_STATE, KILN_E_GRADIENT);
        kiln_model_free(&m);
    } else
        FUZZ_REFUSED(KILN_E_ARGUMENT); // no UTF-8
    fclose(stdout);
    stdout = out;
    for (size_t i = 0; i < t.n; i++) free(t.v[i]);
    fuzz_end();
    return 0;
}
