// Ops whose nodes own regions. Graphs alone have them: no device runs one, what they are made of is run. Regions see
// nothing of the graph around them but numbers and constants: what they use comes as an operand, which the parameter of
// the same place shows.
#include "ir/regions.h"
#include "ops/family.h"
#include <stdio.h>

static kiln_status call_types(struct op_regions *r)
{
    if (r->n_regions != 1)
        return error_set(KILN_E_ARGUMENT, "%s: there are %d regions, not one", r->op->name, r->n_regions);
    TRY(op_regions_take_operands(r, r->n_in));
    r->n_out = r->regions[0].n_results;
    for (int i = 0; i < r->n_out; i++) r->out[i] = *r->regions[0].results[i];
    return KILN_OK;
}

// One integer or bool.
static kiln_status check_index(const struct op_regions *r, const struct type *t)
{
    char text[TYPE_TEXT_MAX];
    if (dtype_info[t->dtype].kind == KIND_FLOAT)
        return error_set(KILN_E_DTYPE, "%s: the index is %s, not an integer or a bool", r->op->name,
                         type_text(t, text, sizeof text));
    if (t->rank)
        return error_set(KILN_E_SHAPE, "%s: the index is %s, not of rank 0", r->op->name,
                         type_text(t, text, sizeof text));
    return KILN_OK;
}

// The region of the index's number, of a bool that of true first.
static kiln_status switch_types(struct op_regions *r)
{
    const struct op_region *first = r->regions;
    char other[48];
    if (!r->n_in || !r->n_regions)
        return error_set(KILN_E_ARGUMENT, "%s: there is no %s", r->op->name, r->n_in ? "region" : "index");
    TRY(check_index(r, r->in[r->n_in - 1]));
    TRY(op_regions_take_operands(r, r->n_in - 1));
    for (int i = 1; i < r->n_regions; i++) {
        const struct op_region *region = &r->regions[i];
        if (region->n_results != first->n_results)
            return error_set(KILN_E_ARGUMENT, "%s: region 0 gives %d results, region %d gives %d", r->op->name,
                             first->n_results, i, region->n_results);
        snprintf(other, sizeof other, "result %%d of region %d", i);
        for (int k = 0; k < first->n_results; k++)
            TRY(op_types_agree(r->op, k, "result %d of region 0", first->results[k], other, region->results[k]));
    }
    r->n_out = first->n_results;
    for (int i = 0; i < r->n_out; i++) r->out[i] = *first->results[i];
    return KILN_OK;
}

const struct op_regions_rule regions_of_call = {.types = call_types, .inlined = true};
const struct op_regions_rule regions_of_switch = {.types = switch_types};
