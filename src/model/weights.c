// The weights of a model: what its functions reach, each once, each by one name.
#include "grad/tape.h"
#include "model/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t model_find_weight(const struct model *m, const char *name)
{
    for (size_t i = 0; i < m->weights.n; i++)
        if (!strcmp(m->weights.v[i].name, name)) return (int32_t)i;
    return -1;
}

char *model_free_name(const struct model *m, const char *wanted)
{
    size_t n = strlen(wanted) + 24;
    char *name = malloc(n);
    if (!name) {
        error_set(KILN_E_MEMORY, "model_add: out of memory");
        return NULL;
    }
    snprintf(name, n, "%s", *wanted ? wanted : "weight");
    for (unsigned i = 1; model_find_weight(m, name) >= 0; i++)
        snprintf(name, n, "%s.%u", *wanted ? wanted : "weight", i);
    return name;
}

kiln_status model_add_weight(struct model *m, const char *name, kiln_tensor *t, enum weight_role role)
{
    struct model_weight w = {.name = model_copy(name, strlen(name)), .t = t, .role = role};
    if (w.name && !vec_push(&m->weights, w)) return KILN_OK;
    free(w.name);
    return error_pending;
}

static bool is_same(const kiln_tensor *t, const struct source *s)
{
    return t->storage == s->storage && type_equal(&t->type, &s->type) && t->layout.offset == s->layout.offset &&
           !memcmp(t->layout.strides, s->layout.strides, sizeof *t->layout.strides * t->type.rank);
}

static int32_t find(const struct model *m, const struct source *s)
{
    for (size_t i = 0; i < m->weights.n; i++) {
        const kiln_tensor *t = m->weights.v[i].t;
        if ((s->leaf && t->node == s->leaf) || is_same(t, s)) return (int32_t)i;
    }
    return -1;
}

static int32_t add(struct model *m, const struct source *s)
{
    const char *own = s->leaf && s->leaf->leaf->name ? s->leaf->leaf->name : "";
    kiln_tensor *t = tensor_on(s->storage, &s->type, &s->layout);
    char *name = t ? model_free_name(m, own) : NULL;
    if (t && name) {
        kiln_own(t);
        if (s->leaf) tape_set_node(t, s->leaf, 0);
        enum weight_role role = s->grad ? WEIGHT_PARAMETER : s->leaf ? WEIGHT_STATE : WEIGHT_CONSTANT;
        if (!model_add_weight(m, name, t, role)) t = NULL;
    }
    free(name);
    if (!t && !error_pending) return (int32_t)m->weights.n - 1;
    if (t) tensor_destroy(t);
    return -1;
}

int32_t model_weight_of(struct model *m, const struct source *s)
{
    int32_t found = find(m, s);
    if (found < 0) return add(m, s);
    struct model_weight *w = &m->weights.v[found];
    if (s->leaf && !w->t->node) tape_set_node(w->t, s->leaf, 0); // it became a state after it was named
    if (s->leaf) w->role = s->grad ? WEIGHT_PARAMETER : WEIGHT_STATE;
    return found;
}

kiln_status kiln_model_name_weights(kiln_model *handle, size_t n, const char *const *names, kiln_tensor *const *tensors)
{
    if (error_pending) return error_pending;
    TRY(handle_check("model_name_weights", "m", HANDLE_MODEL, handle));
    struct model *m = handle->model;
    if (n && (!names || !tensors))
        return error_set(KILN_E_ARGUMENT, "model_name_weights: the list of %s is NULL", names ? "tensors" : "names");
    for (size_t i = 0; i < n; i++) {
        char argument[48];
        snprintf(argument, sizeof argument, "tensor %zu", i);
        TRY(tensor_check("model_name_weights", argument, tensors[i]));
        if (!names[i] || !*names[i]) return error_set(KILN_E_ARGUMENT, "model_name_weights: name %zu is empty", i);
        if (!tensors[i]->storage)
            return error_set(KILN_E_ARGUMENT, "model_name_weights: tensor %zu, \"%s\", has no memory", i, names[i]);
        const struct tape_node *node = tensors[i]->node;
        bool leaf = node && node->kind == NODE_LEAF;
        struct source s = {.leaf = leaf ? tensors[i]->node : NULL,
                           .storage = tensors[i]->storage,
                           .type = tensors[i]->type,
                           .layout = tensors[i]->layout};
        int32_t known = find(m, &s), taken = model_find_weight(m, names[i]);
        if (known >= 0 && known == taken) continue;
        if (known >= 0)
            return error_set(KILN_E_ARGUMENT, "model_name_weights: tensor %zu, \"%s\", is \"%s\" already", i, names[i],
                             m->weights.v[known].name);
        if (taken >= 0)
            return error_set(KILN_E_ARGUMENT, "model_name_weights: the name \"%s\" is taken by another tensor",
                             names[i]);
        kiln_tensor *t = kiln_alias(tensors[i]);
        if (!t) return error_pending;
        kiln_own(t);
        enum weight_role role = leaf && node->leaf->requires_grad ? WEIGHT_PARAMETER
                                : leaf                            ? WEIGHT_STATE
                                                                  : WEIGHT_CONSTANT;
        if (model_add_weight(m, names[i], t, role)) {
            tensor_destroy(t);
            return error_pending;
        }
    }
    return KILN_OK;
}

size_t kiln_model_weights(const kiln_model *m, const char **names, kiln_tensor **tensors, size_t max)
{
    if (error_pending || handle_check("model_weights", "m", HANDLE_MODEL, m)) return 0;
    for (size_t i = 0; i < m->model->weights.n && i < max; i++) {
        if (names) names[i] = m->model->weights.v[i].name;
        if (tensors) tensors[i] = m->model->weights.v[i].t;
    }
    return m->model->weights.n;
}

size_t kiln_model_parameters(const kiln_model *m, kiln_tensor **out, size_t max)
{
    size_t n = 0;
    if (error_pending || handle_check("model_parameters", "m", HANDLE_MODEL, m)) return 0;
    if (max && !out) {
        error_set(KILN_E_ARGUMENT, "model_parameters: out is NULL, of %zu", max);
        return 0;
    }
    for (size_t i = 0; i < m->model->weights.n; i++) {
        kiln_tensor *t = m->model->weights.v[i].t;
        if (!tensor_requires_grad(t)) continue;
        if (n < max) out[n] = t;
        n++;
    }
    return n;
}
