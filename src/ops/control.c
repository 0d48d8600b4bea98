// Ops whose nodes own regions. Graphs alone have them: no device runs one, what they are made of is run.
#include "ir/regions.h"
#include "ops/family.h"

static kiln_status call_types(struct op_regions *r)
{
    if (r->n_regions != 1)
        return error_set(KILN_E_ARGUMENT, "%s: there are %d regions, not one", r->op->name, r->n_regions);
    TRY(op_regions_take_operands(r));
    r->n_out = r->regions[0].n_results;
    for (int i = 0; i < r->n_out; i++) r->out[i] = *r->regions[0].results[i];
    return KILN_OK;
}

const struct op_regions_rule regions_of_call = {.types = call_types, .inlined = true};
