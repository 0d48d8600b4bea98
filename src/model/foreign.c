// Models of ONNX as models: one function, "main".
#include "model/foreign.h"
#include "base/handles.h"
#include <kiln/grad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char main_name[] = "main";

// A safetensors file has an object behind the length of its header; a message of ONNX begins with the number of its
// version, a text or a part.
bool foreign_is(const char *path)
{
    unsigned char first[9] = {0};
    FILE *f = path ? fopen(path, "rb") : NULL;
    size_t n = f ? fread(first, 1, sizeof first, f) : 0;
    if (f) fclose(f);
    size_t len = path ? strlen(path) : 0;
    bool named = len > 5 && !strcmp(path + len - 5, ".onnx");
    bool is_safetensors = n == sizeof first && first[8] == '{';
    return n && !is_safetensors && (named || first[0] == 0x08);
}

// --- what is told of it

static void text_of(const struct onnx_port *p, struct str *s)
{
    str_add(s, p->typed ? dtype_name((unsigned)p->dtype) : "?");
    if (!p->shaped) {
        str_add(s, "[...]");
        return;
    }
    str_add(s, "[");
    for (size_t d = 0; d < p->rank; d++) {
        const char *symbol = p->symbols ? p->symbols[d] : NULL;
        if (d) str_add(s, ",");
        if (p->dims[d] >= 0)
            str_addf(s, "%lld", (long long)p->dims[d]);
        else
            str_add(s, symbol && *symbol ? symbol : "?");
    }
    str_add(s, "]");
}

static kiln_status tell(const struct onnx_port *p, struct model_function *f, size_t at, struct type *type, char **text)
{
    struct str s;
    str_init(&s);
    text_of(p, &s);
    *text = str_check(&s) ? NULL : model_copy(str_text(&s), s.len);
    str_free(&s);
    *type =
        (struct type){.dtype = (uint8_t)(p->typed ? p->dtype : KILN_F32), .rank = (uint8_t)(p->shaped ? p->rank : 0)};
    for (size_t d = 0; d < type->rank; d++) {
        f->dims[at * MAX_RANK + d] = p->dims[d];
        type->dims[d] = p->dims[d] < 0 ? 0 : p->dims[d];
    }
    return *text ? KILN_OK : error_pending;
}

static kiln_status describe(const struct onnx_model *o, struct model_function *f)
{
    size_t n_in = onnx_input_count(o), n_out = onnx_output_count(o);
    f->name = model_copy(main_name, strlen(main_name));
    f->input_texts = calloc(n_in + 1, sizeof *f->input_texts);
    f->output_texts = calloc(n_out + 1, sizeof *f->output_texts);
    f->dims = calloc((n_in + n_out) * MAX_RANK + 1, sizeof *f->dims);
    if (!f->name || !f->input_texts || !f->output_texts || !f->dims)
        return error_set(KILN_E_MEMORY, "graph_import: out of memory");
    for (size_t i = 0; i < n_in; i++) {
        struct face_input in = {.name = onnx_input(o, i)->name};
        TRY(vec_push(&f->face.in, in));
        TRY(tell(onnx_input(o, i), f, i, &f->face.in.v[i].type, &f->input_texts[i]));
    }
    for (size_t i = 0; i < n_out; i++) {
        struct face_result out = {.name = onnx_output(o, i)->name};
        TRY(vec_push(&f->face.results, out));
        TRY(tell(onnx_output(o, i), f, n_in + i, &f->face.results.v[i].r.type, &f->output_texts[i]));
    }
    return KILN_OK;
}

static kiln_status list_weights(struct model *m)
{
    for (size_t i = 0; i < onnx_weight_count(m->onnx); i++) {
        kiln_tensor *t = kiln_alias(onnx_weight(m->onnx, i));
        char *name = t ? model_free_name(m, onnx_weight_name(m->onnx, i)) : NULL; // of graphs inside, too
        if (t) kiln_own(t);
        kiln_status status = name ? model_add_weight(m, name, t, WEIGHT_CONSTANT) : error_pending;
        free(name);
        if (status && t) tensor_destroy(t);
        TRY(status);
    }
    return KILN_OK;
}

static kiln_status read_model(struct model *m, const char *path)
{
    struct model_function f = {0};
    m->onnx = onnx_load("graph_import", m->dev, path);
    if (!m->onnx) return error_pending;
    TRY(list_weights(m));
    kiln_status status = describe(m->onnx, &f);
    if (!status) status = vec_push(&m->functions, f);
    if (status) model_function_finish(&f);
    return status;
}

kiln_model *foreign_import(kiln_device *dev, const char *path)
{
    struct model *m = model_new();
    if (m) m->dev = dev ? dev : kiln_get_device();
    if (!m || (m->dev && !read_model(m, path))) return m ? model_handle(m) : NULL;
    model_unref(m);
    return NULL;
}

// --- its function

static kiln_status run(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct model *m = user;
    return onnx_run(m->onnx, in, n_in, out, n_out);
}

static void drop(void *user)
{
    model_unref(user);
}

kiln_function *foreign_function(struct model *m, const char *name)
{
    const struct capture_origin origin = {.drop = drop, .user = model_ref(m)};
    const kiln_jit_opts o = {.size = sizeof o, .name = name};
    return function_of_origin("model_function", run, &origin, &o);
}

static kiln_status make_parameter(struct model *m, size_t i)
{
    struct model_weight *w = &m->weights.v[i];
    if (dtype_kind_of[w->t->type.dtype] != KIND_FLOAT || w->role == WEIGHT_PARAMETER) return KILN_OK;
    kiln_tensor *p = kiln_parameter(w->t, w->name);
    if (!p) return error_pending;
    kiln_own(p);
    if (onnx_set_weight(m->onnx, i, p)) {
        tensor_destroy(p);
        return error_pending;
    }
    tensor_destroy(w->t);
    w->t = p;
    w->role = WEIGHT_PARAMETER;
    return KILN_OK;
}

kiln_status kiln_model_train(kiln_model *m)
{
    if (error_pending) return error_pending;
    TRY(handle_check("model_train", "m", HANDLE_MODEL, m));
    if (!m->model->onnx) return KILN_OK;
    if (atomic_load(&m->model->refs) > 1)
        return error_set(KILN_E_STATE, "model_train: a function of the model was made before, and is still there");
    for (size_t i = 0; i < m->model->weights.n; i++) TRY(make_parameter(m->model, i));
    return KILN_OK;
}
