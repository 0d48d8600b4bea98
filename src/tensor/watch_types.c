// What an op is given, looked at before it runs: indices by their values, floats by their widths.
#include "base/str.h"
#include "base/where.h"
#include "ops/index_check.h"
#include "tensor/watch.h"

#include <stdlib.h>

static int64_t integer_at(unsigned dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case KILN_U8: return ((const uint8_t *)data)[i];
    case KILN_I8: return ((const int8_t *)data)[i];
    case KILN_U16: return ((const uint16_t *)data)[i];
    case KILN_I16: return ((const int16_t *)data)[i];
    case KILN_U32: return ((const uint32_t *)data)[i];
    case KILN_I32: return ((const int32_t *)data)[i];
    default: return ((const int64_t *)data)[i];
    }
}

static void add_place(struct str *s, const struct type *t, int64_t element)
{
    int64_t at[MAX_RANK];
    for (int i = t->rank; i-- > 0; element /= t->dims[i]) at[i] = element % t->dims[i];
    for (int i = 0; i < t->rank; i++) str_addf(s, "%s%lld", i ? "," : " at [", (long long)at[i]);
    if (t->rank) str_add(s, "]");
}

static kiln_status refuse(const struct op_call *c, const struct index_bounds *b, int64_t element, int64_t index,
                          int64_t size)
{
    struct str place = {0};
    add_place(&place, c->in[b->operand], element);
    kiln_status status =
        error_set(KILN_E_ARGUMENT, "%s: %s %lld%s is out of range for %s%lld %s%s", c->op->name,
                  b->labels ? "label" : "index", (long long)index, str_text(&place), b->labels ? "" : "an axis of ",
                  (long long)size, b->labels ? "classes" : "elements",
                  b->labels && index < 0 ? "; options .ignore and .ignore_index leave a label out" : "");
    str_free(&place);
    return status;
}

static kiln_status check(const struct op_call *c, const struct index_bounds *b, const void *data)
{
    const struct type *t = c->in[b->operand];
    int64_t n = type_numel(t), columns = b->tuples && t->rank ? t->dims[t->rank - 1] : 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t index = integer_at(t->dtype, data, i), size = b->sizes[b->tuples ? i % columns : 0];
        if (index >= (b->labels ? 0 : -size) && index < size) continue;
        if (!b->ignores || index != b->ignored) return refuse(c, b, i, index, size);
    }
    return KILN_OK;
}

kiln_status watch_indices(const struct op_call *c, kiln_tensor *const *in)
{
    struct index_bounds b;
    uint64_t size_B;
    if (!op_call_checks_index(c) || c->op->indexed.bound == INDEX_VALUES) return KILN_OK;
    op_index_bounds(c, &b);
    const kiln_tensor *t = in[b.operand];
    if (!t->storage) return KILN_OK;
    TRY(type_size_B(&t->type, &size_B));
    void *data = malloc(size_B ? (size_t)size_B : 1);
    if (!data) return error_set(KILN_E_MEMORY, "%s: out of memory to look at indices", c->op->name);
    kiln_status status = tensor_read(t, data);
    if (!status) status = check(c, &b, data);
    free(data);
    return status;
}

static bool is_smaller_float(const struct type *t)
{
    return t && !t->weak && dtype_is_float(t->dtype) && t->dtype != KILN_F64;
}

void watch_promotion(const struct op_call *c)
{
    char text[TYPE_TEXT_MAX], place[512];
    bool smaller = false, wide = false;
    for (int i = 0; i < c->n_in; i++) {
        smaller |= is_smaller_float(c->in[i]);
        wide |= c->in[i] && !c->in[i]->weak && c->in[i]->dtype == KILN_F64;
    }
    if (!smaller || !wide || c->out[0].dtype != KILN_F64) return;
    struct str s = {0};
    for (int i = 0; i < c->n_in && i < 4; i++)
        if (c->in[i]) str_addf(&s, "%s%s", s.len ? ", " : "", type_text(c->in[i], text, sizeof text));
    where_describe(where_now(), place, sizeof place);
    log_warn("promote: %s made f64 of %s (%s)", c->op->name, str_text(&s), place);
    str_free(&s);
}
