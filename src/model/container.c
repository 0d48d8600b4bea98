// The file of a model: a safetensors file. Its tensors are the weights; its metadata holds "kiln.model", the version of
// this format, "kiln.check", a checksum of all texts, "kiln.manifest", and for each function i "kiln.i.interface",
// "kiln.i.forward" and, with a gradient, "kiln.i.backward". Readers of the format see the weights alone.
#include "base/handles.h"
#include "io/array.h"
#include "io/inflate.h"
#include "io/safetensors.h"
#include "model/export.h"
#include "model/foreign.h"
#include "model/manifest.h"
#include "model/model.h"
#include "model/user_ops.h"
#include <inttypes.h>
#include <kiln/grad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, PAIRS_OF_FUNCTION = 3, KEY_B = 48, FUNCTIONS_MAX = 4096 };

static const char version_key[] = "kiln.model", check_key[] = "kiln.check", manifest_key[] = "kiln.manifest";
static const char *const parts[PAIRS_OF_FUNCTION] = {"interface", "forward", "backward"};

static uint32_t add_check(uint32_t check, const char *text)
{
    return io_crc(check, text, strlen(text) + 1); // with the end, so that texts do not run into each other
}

// --- writing

struct writing {
    const struct model *m;
    const char **names;
    kiln_tensor **tensors;
    struct archive_pair *pairs;
    char (*keys)[KEY_B];
    size_t n_pairs;
    struct str manifest;
    char check[16], version[16];
};

static void add_pair(struct writing *w, const char *value, const char *format, ...)
{
    va_list args;
    if (!value) return;
    va_start(args, format);
    vsnprintf(w->keys[w->n_pairs], KEY_B, format, args);
    va_end(args);
    w->pairs[w->n_pairs] = (struct archive_pair){w->keys[w->n_pairs], (char *)value};
    w->n_pairs++;
}

static uint32_t check_of(const struct model *m, const char *manifest)
{
    uint32_t check = add_check(0, manifest);
    for (size_t i = 0; i < m->functions.n; i++) {
        const struct model_function *f = &m->functions.v[i];
        check = add_check(check, f->interface);
        check = add_check(check, f->forward);
        check = add_check(check, f->backward ? f->backward : "");
    }
    return check;
}

static kiln_status fill(struct writing *w)
{
    const struct model *m = w->m;
    manifest_text(m, &w->manifest);
    TRY(str_check(&w->manifest));
    for (size_t i = 0; i < m->weights.n; i++) {
        w->names[i] = m->weights.v[i].name;
        w->tensors[i] = m->weights.v[i].t;
    }
    snprintf(w->version, sizeof w->version, "%d", VERSION);
    snprintf(w->check, sizeof w->check, "%08" PRIx32, check_of(m, str_text(&w->manifest)));
    add_pair(w, w->version, "%s", version_key);
    add_pair(w, w->check, "%s", check_key);
    add_pair(w, str_text(&w->manifest), "%s", manifest_key);
    for (size_t i = 0; i < m->functions.n; i++) {
        add_pair(w, m->functions.v[i].interface, "kiln.%zu.%s", i, parts[0]);
        add_pair(w, m->functions.v[i].forward, "kiln.%zu.%s", i, parts[1]);
        add_pair(w, m->functions.v[i].backward, "kiln.%zu.%s", i, parts[2]);
    }
    return KILN_OK;
}

kiln_status kiln_model_save(const kiln_model *m, const char *path)
{
    if (error_pending) return error_pending;
    TRY(handle_check("model_save", "m", HANDLE_MODEL, m));
    const struct model *of = m->model;
    if (of->onnx)
        return error_set(KILN_E_UNSUPPORTED,
                         "model_save: the model was read from a file of ONNX; add its function to a "
                         "model of its own, with inputs, and save that");
    if (!of->functions.n) return error_set(KILN_E_ARGUMENT, "model_save: the model has no function");
    if (export_is_onnx(path)) return export_onnx(of, path);
    size_t n_pairs = 3 + PAIRS_OF_FUNCTION * of->functions.n;
    struct writing w = {.m = of,
                        .names = calloc(of->weights.n + 1, sizeof *w.names),
                        .tensors = calloc(of->weights.n + 1, sizeof *w.tensors),
                        .pairs = calloc(n_pairs, sizeof *w.pairs),
                        .keys = calloc(n_pairs, sizeof *w.keys)};
    str_init(&w.manifest);
    bool ok = w.names && w.tensors && w.pairs && w.keys;
    kiln_status status = ok ? fill(&w) : error_set(KILN_E_MEMORY, "model_save: out of memory");
    if (!status) status = safetensors_write("model_save", path, w.names, w.tensors, of->weights.n, w.pairs, w.n_pairs);
    free((void *)w.names);
    free((void *)w.tensors);
    free(w.pairs);
    free(w.keys);
    str_free(&w.manifest);
    return status;
}

kiln_status kiln_graph_export(kiln_function *f, kiln_tensor *const *in, size_t n_in, size_t n_out, const char *path,
                              const kiln_model_add_opts *opts)
{
    if (error_pending) return error_pending;
    kiln_model *m = kiln_model_create();
    bool onnx = export_is_onnx(path);
    kiln_status status = m ? model_add(m, "main", f, in, n_in, n_out, opts, onnx) : error_pending;
    if (!status) status = kiln_model_save(m, path);
    kiln_model_free(&m);
    if (status) error_name_op("graph_export");
    return status;
}

// --- reading

static const char *find(kiln_archive *a, const char *key)
{
    const char *name, *value;
    for (size_t i = 0; i < kiln_archive_metadata_count(a); i++)
        if (!kiln_archive_metadata(a, i, &name, &value) && !strcmp(name, key)) return value;
    return NULL;
}

static kiln_status check_version(kiln_archive *a, const char *path)
{
    const char *text = find(a, version_key);
    if (!text)
        return error_set(KILN_E_FORMAT, "graph_import: %s: there are no graphs in it: \"%s\" is missing", path,
                         version_key);
    char *end;
    long version = strtol(text, &end, 10);
    if (*end || end == text || version < 1)
        return error_set(KILN_E_FORMAT, "graph_import: %s: \"%.40s\" is no version", path, text);
    if (version <= VERSION) return KILN_OK;
    return error_set(KILN_E_UNSUPPORTED,
                     "graph_import: %s: it is of version %ld of the format, %d is the last known here", path, version,
                     VERSION);
}

static kiln_status read_weights(struct model *m, kiln_archive *a)
{
    size_t n = kiln_archive_count(a);
    for (size_t i = 0; i < n; i++) {
        kiln_tensor *t = kiln_archive_tensor(a, m->dev, i);
        if (!t) return error_pending;
        kiln_own(t);
        if (!model_add_weight(m, kiln_archive_name(a, i), t, WEIGHT_CONSTANT)) continue;
        tensor_destroy(t);
        return error_pending;
    }
    return error_pending;
}

// What a weight is decides what its handle is.
static kiln_status make_roles(struct model *m)
{
    for (size_t i = 0; i < m->weights.n; i++) {
        struct model_weight *w = &m->weights.v[i];
        if (w->role == WEIGHT_STATE) TRY(kiln_state(w->t));
        if (w->role != WEIGHT_PARAMETER) continue;
        kiln_tensor *p = kiln_parameter(w->t, w->name);
        if (!p) return error_pending;
        kiln_own(p);
        tensor_destroy(w->t);
        w->t = p;
    }
    return KILN_OK;
}

static kiln_status take_text(kiln_archive *a, size_t i, int part, const char *path, char **out)
{
    char key[KEY_B];
    snprintf(key, sizeof key, "kiln.%zu.%s", i, parts[part]);
    const char *text = find(a, key);
    if (!text && part == 2) return KILN_OK;
    if (!text) return error_set(KILN_E_FORMAT, "graph_import: %s: \"%s\" is missing", path, key);
    *out = model_copy(text, strlen(text));
    return *out ? KILN_OK : error_pending;
}

static kiln_status check_names(const struct model_function *f, const char *path)
{
    size_t n_in = f->face.in.n, n_out = f->face.results.n;
    const char **names = malloc((n_in + n_out + 1) * sizeof *names), *twice;
    if (!names) return error_set(KILN_E_MEMORY, "graph_import: out of memory");
    for (size_t i = 0; i < n_in; i++) names[i] = f->face.in.v[i].name;
    for (size_t i = 0; i < n_out; i++) names[n_in + i] = f->face.results.v[i].name;
    kiln_status status = io_find_twice("graph_import", names, n_in, &twice);
    if (!status && !twice) status = io_find_twice("graph_import", names + n_in, n_out, &twice);
    if (!status && twice)
        status = error_set(KILN_E_FORMAT, "graph_import: %s: two inputs or outputs of %.100s are named \"%.100s\"",
                           path, f->name, twice);
    free((void *)names);
    return status;
}

static kiln_status read_function(struct model *m, kiln_archive *a, size_t i, const char *path)
{
    struct model_function f = {0};
    kiln_status status = KILN_OK;
    char **const texts[PAIRS_OF_FUNCTION] = {&f.interface, &f.forward, &f.backward};
    for (int p = 0; p < PAIRS_OF_FUNCTION && !status; p++) status = take_text(a, i, p, path, texts[p]);
    if (!status) status = model_describe(m, &f, path);
    if (!status) status = check_names(&f, path);
    if (!status && model_find(m, f.name))
        status = error_set(KILN_E_FORMAT, "graph_import: %s: two functions are named \"%.100s\"", path, f.name);
    if (!status) status = vec_push(&m->functions, f);
    if (status) model_function_finish(&f);
    return status;
}

static bool has_function(kiln_archive *a, size_t i)
{
    char key[KEY_B];
    snprintf(key, sizeof key, "kiln.%zu.%s", i, parts[0]);
    return find(a, key) != NULL;
}

static kiln_status verify(const struct model *m, kiln_archive *a, const char *manifest, const char *path)
{
    char is[16];
    const char *said = find(a, check_key);
    snprintf(is, sizeof is, "%08" PRIx32, check_of(m, manifest));
    if (said && !strcmp(said, is)) return KILN_OK;
    return error_set(KILN_E_FORMAT,
                     "graph_import: %s: the checksum of its texts is %s, it says %.20s: the file is damaged", path, is,
                     said ? said : "nothing");
}

static kiln_status read_model(struct model *m, kiln_archive *a, const char *path)
{
    TRY(check_version(a, path));
    const char *manifest = find(a, manifest_key);
    if (!manifest) return error_set(KILN_E_FORMAT, "graph_import: %s: \"%s\" is missing", path, manifest_key);
    TRY(read_weights(m, a));
    TRY(manifest_parse(m, manifest, strlen(manifest), path));
    TRY(make_roles(m));
    TRY(user_ops_register(m));
    for (size_t i = 0; i < FUNCTIONS_MAX && has_function(a, i); i++) TRY(read_function(m, a, i, path));
    if (!m->functions.n) return error_set(KILN_E_FORMAT, "graph_import: %s: there is no function in it", path);
    return verify(m, a, manifest, path);
}

kiln_model *kiln_graph_import(kiln_device *dev, const char *path)
{
    if (error_pending || (dev && handle_check("graph_import", "dev", HANDLE_DEVICE, dev))) return NULL;
    if (foreign_is(path)) return foreign_import(dev, path);
    kiln_archive *a = kiln_safetensors_load(path);
    struct model *m = a ? model_new() : NULL;
    if (m) m->dev = dev ? dev : kiln_get_device();
    if (m && (!m->dev || read_model(m, a, path))) {
        model_unref(m);
        m = NULL;
    }
    kiln_archive_free(&a);
    if (error_pending) error_name_op("graph_import");
    return m ? model_handle(m) : NULL;
}
