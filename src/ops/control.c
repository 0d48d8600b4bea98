// Ops whose nodes own regions. Graphs alone have them: no device runs one, what they are made of is run. Regions see
// nothing of the graph around them but numbers and constants: what they use comes as an operand, which the parameter of
// the same place shows.
#include "ir/regions.h"
#include "ops/attrs.h"
#include "ops/family.h"
#include <stdio.h>
#include <string.h>

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

static kiln_status check_loop(const struct op_regions *r, int n_taken, int n_carried, int n_scanned)
{
    if (r->n_regions < 1 || r->n_regions > 2)
        return error_set(KILN_E_ARGUMENT, "%s: there are %d regions, not one or two", r->op->name, r->n_regions);
    if (n_carried < 0 || n_scanned < 0 || n_carried > n_taken || n_scanned > n_taken - n_carried)
        return error_set(KILN_E_ARGUMENT, "%s: of %d operands %d are carried and %d scanned", r->op->name, n_taken,
                         n_carried, n_scanned);
    if (r->regions[0].n_results < n_carried)
        return error_set(KILN_E_ARGUMENT, "%s: region 0 gives %d results, %d are carried", r->op->name,
                         r->regions[0].n_results, n_carried);
    return KILN_OK;
}

// How many rows there are of what is scanned and given by trip: where their number is not known, as many as there may
// be, of which the first are those of the trips. -1: any number, so none.
static int64_t rows_of(const struct op_regions *r)
{
    int64_t trips = r->attrs[AT_loop_trips].i, bound = r->attrs[AT_loop_bound].i;
    return trips >= 0 ? trips : bound > 0 ? bound : -1;
}

static kiln_status check_loop_params(const struct op_regions *r, int region, int n_taken, int n_carried, int n_scanned)
{
    const struct type number = {.dtype = KILN_I64, .weak = true};
    const struct op_region *of = &r->regions[region];
    if (of->n_params != n_taken + 1)
        return error_set(KILN_E_ARGUMENT, "%s: region %d has %d parameters, %d operands and the trip's number go there",
                         r->op->name, region, of->n_params, n_taken);
    for (int k = 0; k < n_taken; k++) {
        struct type t = *r->in[k];
        if (k >= n_carried && k < n_carried + n_scanned) {
            if (!t.rank || t.dims[0] != rows_of(r))
                return error_set(KILN_E_SHAPE, "%s: operand %d has no row for each trip", r->op->name, k);
            t.rank--;
            memmove(t.dims, t.dims + 1, sizeof *t.dims * t.rank);
        }
        TRY(op_types_agree(r->op, k, "operand %d", &t, "the region's parameter %d", of->params[k]));
    }
    return op_types_agree(r->op, n_taken, "the trip's number, %d,", &number, "the region's parameter %d",
                          of->params[n_taken]);
}

static kiln_status check_rows(const char *op, int64_t rows, const struct type *row)
{
    char text[TYPE_TEXT_MAX];
    int64_t n = type_numel(row);
    if (!rows || n <= IR_MAX_NUMEL / rows) return KILN_OK;
    return error_set(KILN_E_SHAPE, "%s: %lld rows of %s are more than 2^48 elements", op, (long long)rows,
                     type_text(row, text, sizeof text));
}

static kiln_status loop_types(struct op_regions *r)
{
    const struct op_region *body = r->regions, *cond = r->n_regions > 1 ? &r->regions[1] : NULL;
    const struct type yes = {.dtype = KILN_BOOL};
    int n_carried = (int)r->attrs[AT_loop_carried].i, n_scanned = (int)r->attrs[AT_loop_scanned].i;
    int n_taken = r->n_in - (r->attrs[AT_loop_counted].i != 0);
    int64_t rows = rows_of(r);
    TRY(check_loop(r, n_taken, n_carried, n_scanned));
    for (int i = 0; i < r->n_regions; i++) TRY(check_loop_params(r, i, n_taken, n_carried, n_scanned));
    if (n_taken < r->n_in) TRY(check_index(r, r->in[n_taken]));
    if (cond && cond->n_results != 1)
        return error_set(KILN_E_ARGUMENT, "%s: region 1 gives %d results, not one", r->op->name, cond->n_results);
    if (cond) TRY(op_types_agree(r->op, 1, "what goes on, %d,", &yes, "the result of region %d", cond->results[0]));
    for (int k = 0; k < body->n_results; k++) {
        r->out[k] = *body->results[k];
        if (k < n_carried) TRY(op_types_agree(r->op, k, "operand %d", r->in[k], "result %d", body->results[k]));
        if (k < n_carried) continue;
        if (rows < 0 || r->out[k].rank >= MAX_RANK)
            return error_set(KILN_E_SHAPE, "%s: result %d has no place in rows", r->op->name, k);
        TRY(check_rows(r->op->name, rows, &r->out[k]));
        memmove(r->out[k].dims + 1, r->out[k].dims, sizeof *r->out[k].dims * r->out[k].rank++);
        r->out[k].dims[0] = rows;
    }
    r->n_out = body->n_results;
    return KILN_OK;
}

static bool loop_keeps_param(const struct attr *attrs, int n_params, int i)
{
    return i < attrs[AT_loop_carried].i + attrs[AT_loop_scanned].i || i == n_params - 1;
}

static bool loop_keeps_result(const struct attr *attrs, int i)
{
    return i < attrs[AT_loop_carried].i;
}

// More trips than the bound, or fewer than none.
static bool loop_can_fail(const struct attr *attrs, const struct type *last)
{
    (void)last;
    return attrs[AT_loop_counted].i || attrs[AT_loop_bound].i;
}

// An index without a region.
static bool switch_can_fail(const struct attr *attrs, const struct type *last)
{
    (void)attrs;
    return last->dtype != KILN_BOOL;
}

const struct op_regions_rule regions_of_loop = {.types = loop_types,
                                                .keeps_param = loop_keeps_param,
                                                .keeps_result = loop_keeps_result,
                                                .decision_can_fail = loop_can_fail};
const struct op_regions_rule regions_of_call = {.types = call_types, .inlined = true};
const struct op_regions_rule regions_of_switch = {.types = switch_types, .decision_can_fail = switch_can_fail};
