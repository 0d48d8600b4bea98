// Inputs of the graph: each is a source, with a variable of its own.
#include "jit/capture/recorder.h"
#include "ops/families.h"
#include <stdio.h>

kiln_status recorder_add_source(struct recorder *r, struct source *s, const struct type *type, const char *name,
                                int32_t *variable)
{
    s->value = ir_add_input(r->sink.builder.graph, type, name);
    kiln_tensor *t = variable_handle(r, type, s->value);
    if (!t) return error_pending;
    if (s->leaf) tape_set_node(t, s->place ? s->place : s->leaf, 0);
    kiln_status status = replayed_source(r, s->value, t->node);
    if (!status) status = variable_new(r, t, &s->layout, variable);
    tensor_destroy(t);
    if (status) return status;
    struct variable *v = &r->variables.v[*variable];
    int32_t number = (int32_t)r->sources.n;
    v->source = number;
    TRY(recorder_lay(r, *variable, s->storage));
    s->variable = *variable;
    s->row_major = layout_is_contiguous(&s->type, &s->layout);
    TRY(chains_add(&r->sources_on, s->storage, number));
    TRY(chains_add(&r->sources_of, s->leaf, number));
    TRY(vec_push(&r->sources, *s));
    node_ref(s->leaf);
    if (source_holds_storage(s)) storage_ref(s->storage);
    return KILN_OK;
}

kiln_status recorder_add_parameter(struct recorder *r, struct source *s, const char *name, int32_t *variable)
{
    TRY(leaf_hold_gradient(s->leaf, &s->gradient));
    if (s->gradient) kiln_own(s->gradient);
    kiln_status status = recorder_add_source(r, s, &s->type, name, variable);
    if (status && s->gradient) tensor_destroy(s->gradient);
    return status;
}

kiln_tensor *recorder_number_of_call(struct recorder *r, double (*fn)(void *user), void *user)
{
    char name[32];
    int32_t variable;
    struct source s = {.kind = SOURCE_HOST, .number = fn, .user = user, .type = {.dtype = KILN_F64, .weak = true}};
    snprintf(name, sizeof name, "host%zu", r->sources.n);
    kiln_tensor *t = NULL;
    if (recorder_add_source(r, &s, &s.type, name, &variable)) return NULL;
    variable_show(r, variable, &s.type, &s.layout, &t);
    return t;
}

kiln_status recorder_add_memory(struct recorder *r, struct storage *storage, uint8_t dtype, int32_t *variable)
{
    for (int32_t i = chains_first(&r->sources_on, storage); i >= 0; i = chains_next(&r->sources_on, i)) {
        const struct source *s = &r->sources.v[i];
        if (s->kind == SOURCE_MEMORY) {
            *variable = s->variable;
            return KILN_OK;
        }
    }
    char name[32];
    struct source s = {.kind = SOURCE_MEMORY, .storage = storage, .type = {.dtype = dtype, .rank = 1}};
    s.type.dims[0] = (int64_t)(storage->block.size_B / dtype_size_B[dtype]);
    s.layout = (struct layout){0, {1}};
    snprintf(name, sizeof name, "memory%zu", r->sources.n);
    return recorder_add_source(r, &s, &s.type, name, variable);
}

kiln_status recorder_check_device(struct recorder *r, const char *op, kiln_device *dev)
{
    if (!dev || dev == r->dev) return KILN_OK;
    if (r->dev)
        return error_set(KILN_E_DEVICE_MISMATCH, "%s: %s runs on %s, a tensor is on %s", op, r->name, r->dev->name,
                         dev->name);
    r->dev = dev;
    return KILN_OK;
}
