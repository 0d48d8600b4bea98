// Tensors filled with a number. Where another number was seen at this place, it is taken at run time: chosen by a
// `where` whose condition holds everywhere, so that every bit of it arrives.
#include "jit/auto/auto.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include <string.h>

static bool fills_alike(const struct auto_step *s, const struct attr *attrs)
{
    if (s->op != &op_instances[OP_full] || s->asked[AT_full_dtype].i != attrs[AT_full_dtype].i) return false;
    const struct attr *a = &s->asked[AT_full_shape], *b = &attrs[AT_full_shape];
    return a->count == b->count && !memcmp(a->v, b->v, a->count * sizeof *a->v);
}

// 0: no such place; 1: this very number; 2: another one.
static int seen_fill(const struct auto_step *at, const struct attr *attrs)
{
    int seen = 0;
    for (const struct auto_step *s = at->children; s; s = s->next) {
        if (!fills_alike(s, attrs)) continue;
        if (s->asked[AT_full_value].i == attrs[AT_full_value].i) return 1; // by its bits
        seen = 2;
    }
    return seen;
}

static kiln_status emit_chosen(struct auto_walk *w, const struct attr *attrs, struct ref *out)
{
    const struct attr *dtype = &attrs[AT_full_dtype], *shape = &attrs[AT_full_shape];
    bool whole = dtype_kind_of[dtype->i] == KIND_INT;
    double v = attrs[AT_full_value].f;
    struct attr yes[] = {
        [AT_full_dtype] = attr_of_dtype(KILN_BOOL), [AT_full_shape] = *shape, [AT_full_value] = attr_of_float(1)};
    struct attr zero[] = {[AT_full_dtype] = *dtype, [AT_full_shape] = *shape, [AT_full_value] = attr_of_float(0)};
    struct type number = {.dtype = whole ? KILN_I64 : KILN_F64, .weak = true};
    struct type mask = {.dtype = KILN_BOOL, .rank = shape->count}, filled = {.rank = shape->count};
    filled.dtype = (uint8_t)dtype->i;
    memcpy(mask.dims, shape->v, sizeof mask.dims);
    memcpy(filled.dims, shape->v, sizeof filled.dims);
    struct ref in[] = {{0}, {REF_NUMBER, number.dtype, 0, v, whole ? (int64_t)v : 0}, {0}};
    TRY(auto_emit(w, &op_instances[OP_full], yes, 0, NULL, NULL, &in[0]));
    TRY(auto_emit(w, &op_instances[OP_full], zero, 0, NULL, NULL, &in[2]));
    const struct auto_step_key k = {
        .op = &op_instances[OP_where], .n_in = 3, .in = in, .mode = STEP_INNER, .run_time = true};
    return auto_emit_key(w, &k, (const struct type *[]){&mask, &number, &filled}, out);
}

static bool can_choose(const struct attr *attrs)
{
    uint8_t kind = dtype_kind_of[attrs[AT_full_dtype].i];
    double v = attrs[AT_full_value].f;
    return kind == KIND_FLOAT || (kind == KIND_INT && v == (double)(int32_t)v);
}

bool auto_fill_changes(const struct auto_walk *w, const struct attr *attrs)
{
    return seen_fill(w->seg->at, attrs) == 2 && can_choose(attrs);
}

kiln_status auto_emit_fill(struct auto_walk *w, const struct attr *attrs, struct ref *out)
{
    if (auto_fill_changes(w, attrs)) return emit_chosen(w, attrs, out);
    return auto_emit(w, &op_instances[OP_full], attrs, 0, NULL, NULL, out);
}
