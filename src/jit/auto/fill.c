// Tensors filled with a number. Where another number was seen at this place, it is taken at run time: chosen by a
// `where` whose condition holds everywhere, so that every bit of it arrives.
#include "jit/auto/auto.h"
#include "ops/families.h"
#include <string.h>

static bool fills_alike(const struct step *s, const struct attr *attrs)
{
    return s->op == &op_instances[OP_full] && s->asked[0].i == attrs[0].i && s->asked[1].count == attrs[1].count &&
           !memcmp(s->asked[1].v, attrs[1].v, attrs[1].count * sizeof *attrs[1].v);
}

// 0: no such place; 1: this very number; 2: another one.
static int seen_fill(const struct step *at, const struct attr *attrs)
{
    int seen = 0;
    for (const struct step *s = at->children; s; s = s->next) {
        if (!fills_alike(s, attrs)) continue;
        if (s->asked[2].i == attrs[2].i) return 1; // by its bits
        seen = 2;
    }
    return seen;
}

static kiln_status emit_chosen(struct walk *w, const struct attr *attrs, struct ref *out)
{
    bool whole = dtype_kind_of[attrs[0].i] == KIND_INT;
    double v = attrs[2].f;
    struct attr yes[] = {attr_of_dtype(KILN_BOOL), attrs[1], attr_of_float(1)};
    struct attr zero[] = {attrs[0], attrs[1], attr_of_float(0)};
    struct type number = {.dtype = whole ? KILN_I64 : KILN_F64, .weak = true};
    struct type mask = {.dtype = KILN_BOOL, .rank = attrs[1].count}, filled = {.rank = attrs[1].count};
    filled.dtype = (uint8_t)attrs[0].i;
    memcpy(mask.dims, attrs[1].v, sizeof mask.dims);
    memcpy(filled.dims, attrs[1].v, sizeof filled.dims);
    struct ref in[] = {{0}, {REF_NUMBER, number.dtype, 0, v, whole ? (int64_t)v : 0}, {0}};
    TRY(auto_emit(w, &op_instances[OP_full], yes, 0, NULL, NULL, &in[0]));
    TRY(auto_emit(w, &op_instances[OP_full], zero, 0, NULL, NULL, &in[2]));
    const struct step_key k = {
        .op = &op_instances[OP_where], .n_in = 3, .in = in, .mode = STEP_INNER, .run_time = true};
    return auto_emit_key(w, &k, (const struct type *[]){&mask, &number, &filled}, out);
}

static bool can_choose(const struct attr *attrs)
{
    uint8_t kind = dtype_kind_of[attrs[0].i];
    double v = attrs[2].f;
    return kind == KIND_FLOAT || (kind == KIND_INT && v == (double)(int32_t)v);
}

bool auto_fill_changes(const struct walk *w, const struct attr *attrs)
{
    return seen_fill(w->seg->at, attrs) == 2 && can_choose(attrs);
}

kiln_status auto_emit_fill(struct walk *w, const struct attr *attrs, struct ref *out)
{
    if (auto_fill_changes(w, attrs)) return emit_chosen(w, attrs, out);
    return auto_emit(w, &op_instances[OP_full], attrs, 0, NULL, NULL, out);
}
