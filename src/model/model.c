// Models as objects: made, asked, freed.
#include "model/model.h"
#include "base/handles.h"
#include "base/options.h"
#include "model/foreign.h"
#include <stdlib.h>
#include <string.h>

char *model_copy(const char *text, size_t size_B)
{
    char *copy = malloc(size_B + 1);
    if (!copy) {
        error_set(KILN_E_MEMORY, "model: out of memory");
        return NULL;
    }
    memcpy(copy, text, size_B);
    copy[size_B] = '\0';
    return copy;
}

struct model *model_new(void)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m) {
        error_set(KILN_E_MEMORY, "model: out of memory");
        return NULL;
    }
    atomic_init(&m->refs, 1);
    return m;
}

struct model *model_ref(struct model *m)
{
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

void model_function_finish(struct model_function *f)
{
    for (size_t i = 0; f->input_texts && i < f->face.in.n; i++) free(f->input_texts[i]);
    for (size_t i = 0; f->output_texts && i < f->face.results.n; i++) free(f->output_texts[i]);
    free((void *)f->input_texts);
    free((void *)f->output_texts);
    free(f->dims);
    free(f->name);
    free(f->interface);
    free(f->forward);
    free(f->backward);
    free(f->callers);
    interface_finish(&f->face);
}

static void free_op(struct model_op *op)
{
    free(op->name);
    free(op->expr);
    for (size_t i = 0; i < COUNT_OF(op->grads); i++) free(op->grads[i]);
}

void model_unref(struct model *m)
{
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) return;
    for (size_t i = 0; i < m->weights.n; i++) {
        free(m->weights.v[i].name);
        tensor_destroy(m->weights.v[i].t);
    }
    for (size_t i = 0; i < m->hosts.n; i++) {
        free(m->hosts.v[i].kind);
        free(m->hosts.v[i].text);
        free(m->hosts.v[i].place);
    }
    for (size_t i = 0; i < m->ops.n; i++) free_op(&m->ops.v[i]);
    for (size_t i = 0; i < m->functions.n; i++) model_function_finish(&m->functions.v[i]);
    onnx_free(&m->onnx);
    vec_free(&m->weights);
    vec_free(&m->hosts);
    vec_free(&m->ops);
    vec_free(&m->functions);
    free(m);
}

kiln_model *model_handle(struct model *m)
{
    kiln_model *handle = m ? handle_new(HANDLE_MODEL, sizeof *handle) : NULL;
    if (handle)
        handle->model = m;
    else {
        if (!error_pending) error_set(KILN_E_MEMORY, "model: out of memory");
        model_unref(m);
    }
    return handle;
}

kiln_model *kiln_model_create(void)
{
    return error_pending ? NULL : model_handle(model_new());
}

void kiln_model_free(kiln_model **m)
{
    if (!handle_may_free("model_free", HANDLE_MODEL, m)) return;
    model_unref((*m)->model);
    handle_free(HANDLE_MODEL, *m);
    *m = NULL;
}

static const char *name_of(const void *user, int32_t weight)
{
    const struct model *m = user;
    return m->weights.v[weight].name;
}

static int32_t find_by_name(const void *user, const char *name)
{
    return model_find_weight(user, name);
}

struct face_names model_names(const struct model *m)
{
    return (struct face_names){name_of, find_by_name, m};
}

const struct model_function *model_find(const struct model *m, const char *name)
{
    for (size_t i = 0; i < m->functions.n; i++)
        if (!strcmp(m->functions.v[i].name, name)) return &m->functions.v[i];
    return NULL;
}

// --- what is told of a function

// Dimensions that are open: symbols of inputs, and of results those that go with them.
struct openness {
    const int16_t *symbols;
    uint32_t open;
    const char *dims; // of results, as text
};

static bool is_open(const struct openness *o, int d)
{
    return o->symbols ? o->symbols[d] != 0 : o->open >> d & 1;
}

static char *text_of(const struct interface *f, const struct type *t, const struct openness *o)
{
    struct str s;
    str_init(&s);
    str_addf(&s, "%s[", dtype_name(t->dtype));
    if (o->dims) str_add(&s, o->dims);
    for (int d = 0; d < t->rank && !o->dims; d++) {
        if (d) str_add(&s, ",");
        if (is_open(o, d))
            str_add(&s, f->rules.v[o->symbols[d] - 1].name);
        else
            str_addf(&s, "%lld", (long long)t->dims[d]);
    }
    str_add(&s, "]");
    char *text = str_check(&s) ? NULL : model_copy(str_text(&s), s.len);
    str_free(&s);
    return text;
}

static kiln_status tell(struct model_function *f, const struct type *t, struct openness o, size_t at, char **text)
{
    for (int d = 0; d < t->rank; d++) f->dims[at * MAX_RANK + (size_t)d] = is_open(&o, d) ? -1 : t->dims[d];
    *text = text_of(&f->face, t, &o);
    return *text ? KILN_OK : error_pending;
}

static kiln_status tell_result(struct model_function *f, size_t i)
{
    const struct face_result *r = &f->face.results.v[i];
    return tell(f, &r->r.type, (struct openness){NULL, r->open, r->dims}, f->face.in.n + i, &f->output_texts[i]);
}

kiln_status model_describe(const struct model *m, struct model_function *f, const char *where)
{
    const struct face_names weights = model_names(m);
    TRY(interface_parse(f->interface, strlen(f->interface), where, &weights, NULL, &f->face));
    size_t n_in = f->face.in.n, n_out = f->face.results.n;
    f->name = model_copy(f->face.name, strlen(f->face.name));
    f->input_texts = calloc(n_in + 1, sizeof *f->input_texts);
    f->output_texts = calloc(n_out + 1, sizeof *f->output_texts);
    f->dims = calloc((n_in + n_out) * MAX_RANK + 1, sizeof *f->dims);
    if (!f->name || !f->input_texts || !f->output_texts || !f->dims)
        return error_set(KILN_E_MEMORY, "model: out of memory");
    for (size_t i = 0; i < n_in; i++)
        TRY(tell(f, &f->face.in.v[i].type, (struct openness){f->face.in.v[i].symbols, 0, NULL}, i, &f->input_texts[i]));
    for (size_t i = 0; i < n_out; i++) TRY(tell_result(f, i));
    return KILN_OK;
}

size_t kiln_model_function_count(const kiln_model *m)
{
    return error_pending || handle_check("model_function_count", "m", HANDLE_MODEL, m) ? 0 : m->model->functions.n;
}

const char *kiln_model_function_name(const kiln_model *m, size_t i)
{
    if (error_pending || handle_check("model_function_name", "m", HANDLE_MODEL, m)) return NULL;
    if (i < m->model->functions.n) return m->model->functions.v[i].name;
    error_set(KILN_E_ARGUMENT, "model_function_name: function %zu of %zu", i, m->model->functions.n);
    return NULL;
}

static void list_functions(const struct model *m, struct str *s)
{
    for (size_t i = 0; i < m->functions.n && i < 8; i++) str_addf(s, "%s\"%s\"", i ? ", " : "", m->functions.v[i].name);
    if (m->functions.n > 8) str_add(s, " ...");
    if (!m->functions.n) str_add(s, "none");
}

static kiln_status find_function(const char *op, const kiln_model *m, const char *name,
                                 const struct model_function **out)
{
    struct str s;
    if (error_pending) return error_pending;
    TRY(handle_check(op, "m", HANDLE_MODEL, m));
    if (!name) return error_set(KILN_E_ARGUMENT, "%s: the name of the function is NULL", op);
    if ((*out = model_find(m->model, name))) return KILN_OK;
    str_init(&s);
    list_functions(m->model, &s);
    error_set(KILN_E_ARGUMENT, "%s: there is no function \"%.200s\"; there are: %s", op, name, str_text(&s));
    str_free(&s);
    return error_pending;
}

size_t kiln_model_input_count(const kiln_model *m, const char *function)
{
    const struct model_function *f;
    return find_function("model_input_count", m, function, &f) ? 0 : f->face.in.n;
}

size_t kiln_model_output_count(const kiln_model *m, const char *function)
{
    const struct model_function *f;
    return find_function("model_output_count", m, function, &f) ? 0 : f->face.results.n;
}

static kiln_status give(const struct model_function *f, const char *name, const struct type *t, size_t at,
                        const char *text, kiln_model_value *out)
{
    const kiln_model_value v = {.size = sizeof v,
                                .name = name,
                                .dtype = (kiln_dtype)t->dtype,
                                .rank = t->rank,
                                .dims = f->dims + at * MAX_RANK,
                                .is_number = t->weak,
                                .text = text};
    sized_fill(out, &v, sizeof v);
    return KILN_OK;
}

kiln_status kiln_model_input(const kiln_model *m, const char *function, size_t i, kiln_model_value *out)
{
    const struct model_function *f;
    TRY(find_function("model_input", m, function, &f));
    TRY(sized_check("model_input", kiln_model_value, out));
    if (i >= f->face.in.n)
        return error_set(KILN_E_ARGUMENT, "model_input: input %zu of %zu of %s", i, f->face.in.n, f->name);
    return give(f, f->face.in.v[i].name, &f->face.in.v[i].type, i, f->input_texts[i], out);
}

kiln_status kiln_model_output(const kiln_model *m, const char *function, size_t i, kiln_model_value *out)
{
    const struct model_function *f;
    TRY(find_function("model_output", m, function, &f));
    TRY(sized_check("model_output", kiln_model_value, out));
    if (i >= f->face.results.n)
        return error_set(KILN_E_ARGUMENT, "model_output: output %zu of %zu of %s", i, f->face.results.n, f->name);
    return give(f, f->face.results.v[i].name, &f->face.results.v[i].r.type, f->face.in.n + i, f->output_texts[i], out);
}

// --- functions

// Open dimensions become symbols, so that a call checks them by their rules.
static int64_t open_dim(const struct face_rule *r)
{
    kiln_symbol_opts o = {.size = sizeof o,
                          .min = r->min,
                          .max = r->max == INT64_MAX ? 0 : r->max,
                          .divisor = r->divisor,
                          .remainder = r->remainder,
                          .unique = true};
    return kiln_symbol(r->name, &o);
}

static kiln_status fill_types(const struct interface *f, kiln_type *types, int64_t *dims)
{
    for (size_t i = 0; i < f->in.n; i++) {
        const struct face_input *in = &f->in.v[i];
        int64_t *own = dims + i * MAX_RANK;
        for (int d = 0; d < in->type.rank; d++) {
            own[d] = in->symbols[d] ? open_dim(&f->rules.v[in->symbols[d] - 1]) : in->type.dims[d];
            if (!own[d] && in->symbols[d]) return error_pending;
        }
        types[i] = (kiln_type){(kiln_dtype)in->type.dtype, in->type.rank, own};
    }
    return KILN_OK;
}

static kiln_function *make_function(struct model *m, const struct model_function *f, const kiln_type *types)
{
    struct instance_user *user = malloc(sizeof *user);
    if (!user) {
        error_set(KILN_E_MEMORY, "model_function: out of memory");
        return NULL;
    }
    *user = (struct instance_user){model_ref(m), (size_t)(f - m->functions.v)};
    const struct capture_origin origin = {instance_make, instance_drop, user};
    const kiln_jit_opts o = {.size = sizeof o, .input_types = {f->face.in.n, types}, .name = f->name};
    kiln_function *made = function_of_origin("model_function", NULL, &origin, &o);
    for (size_t i = 0; made && i < f->face.in.n; i++) made->signature.v[i].weak = f->face.in.v[i].type.weak;
    return made;
}

kiln_function *kiln_model_function(kiln_model *m, const char *name)
{
    const struct model_function *f;
    if (find_function("model_function", m, name, &f)) return NULL;
    if (m->model->onnx) return foreign_function(m->model, f->name);
    kiln_type *types = calloc(f->face.in.n + 1, sizeof *types);
    int64_t *dims = calloc(f->face.in.n * MAX_RANK + 1, sizeof *dims);
    kiln_function *made = NULL;
    if (!types || !dims)
        error_set(KILN_E_MEMORY, "model_function: out of memory");
    else if (!fill_types(&f->face, types, dims))
        made = make_function(m->model, f, types);
    free(types);
    free(dims);
    return made;
}
