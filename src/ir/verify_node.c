// One node: its operands and attributes fit the op's row, its outputs have the types that the op infers from them.
#include "ir/verify.h"
#include "ir/regions.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kiln_status check_operands(struct verifier *v, const struct ir_node *n)
{
    const struct op *op = n->op;
    bool effect = op->flags & OP_EFFECT;
    int n_tensors = n->n_in - effect;
    if (n_tensors < op->min_in || n_tensors > op->max_in)
        return verify_fail("%s takes %d to %d tensors%s, there are %d operands", op->name, op->min_in, op->max_in,
                           effect ? " and a token" : "", (int)n->n_in);
    for (int i = 0; i < n->n_in; i++) {
        int32_t value = ir_operands(v->g, n)[i];
        char what[40];
        snprintf(what, sizeof what, "operand %d", i);
        if (value == -1 && i >= op->min_in && i < n_tensors && !(op->flags & OP_VARIADIC)) continue;
        if (value == -1) return verify_fail("operand %d of %s must not be absent", i, op->name);
        TRY(verify_use(v, value, n->region, n->first_out, what));
        if (ir_is_token(&v->g->values.v[value].type) != (i >= n_tensors))
            return verify_fail("operand %d of %s is %s token", i, op->name, i >= n_tensors ? "no" : "a");
    }
    return KILN_OK;
}

static kiln_status check_attrs(const struct ir_node *n)
{
    const struct op *op = n->op;
    if (op->n_attrs > OP_MAX_ATTRS || (op->n_attrs && !n->attrs))
        return verify_fail("%s lacks its attributes", op->name);
    for (int i = 0; i < op->n_attrs; i++) {
        const struct attr *a = &n->attrs[i];
        const char *name = op->attrs[i].name;
        if (a->kind != op->attrs[i].kind) return verify_fail("attribute %s of %s is of another kind", name, op->name);
        if (a->kind == ATTR_INTS && a->count > MAX_RANK)
            return verify_fail("attribute %s of %s has %d entries", name, op->name, a->count);
        if (a->kind == ATTR_BOOL && a->i != 0 && a->i != 1)
            return verify_fail("attribute %s of %s is %lld, no bool", name, op->name, (long long)a->i);
        if (a->kind == ATTR_DTYPE && (a->i < 0 || a->i >= DTYPE_COUNT))
            return verify_fail("attribute %s of %s is %lld, no dtype", name, op->name, (long long)a->i);
    }
    return KILN_OK;
}

static const char *shown(const struct type *t, char text[TYPE_TEXT_MAX])
{
    char plain[TYPE_TEXT_MAX - 8];
    if (ir_is_token(t)) return "token";
    snprintf(text, TYPE_TEXT_MAX, "%s%s", t->weak ? "weak " : "", type_text(t, plain, sizeof plain));
    return text;
}

static kiln_status check_out_type(const struct verifier *v, const struct ir_node *n, int k, const struct type *want)
{
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
    const struct type *have = &v->g->values.v[n->first_out + k].type;
    if (type_equal(have, want) && have->weak == want->weak) return KILN_OK;
    return verify_fail("output %d is %s, %s gives %s", k, shown(have, a), n->op->name, shown(want, b));
}

// Without a rule of its own a node has the types of what its last region gives.
static kiln_status check_by_region(const struct verifier *v, const struct ir_node *n)
{
    const struct kiln_graph *g = v->g;
    const struct ir_region *r = n->n_regions ? &g->regions.v[n->first_region + n->n_regions - 1] : NULL;
    if (!r) return verify_fail("%s has no rule for types and no region", n->op->name);
    if (r->n_results != ir_node_outputs(n))
        return verify_fail("%s has %d outputs, its last region gives %d", n->op->name, ir_node_outputs(n),
                           (int)r->n_results);
    for (int k = 0; k < r->n_results; k++) {
        int32_t value = g->operands.v[r->first_result + k];
        if (value < 0 || (size_t)value >= g->values.n)
            return verify_fail("a result of a region is value %d", (int)value);
        TRY(check_out_type(v, n, k, &g->values.v[value].type));
    }
    return KILN_OK;
}

static kiln_status check_by_rule(const struct verifier *v, const struct ir_node *n)
{
    struct ir_regions_types t;
    const struct ir_new_node again = ir_node_again(v->g, v->node);
    kiln_status status = ir_regions_infer(v->g, &again, &t);
    int n_out = n->n_out;
    if (!status && t.r.n_out != n_out)
        status = verify_fail("%s has %d outputs, its regions give %d", n->op->name, n_out, t.r.n_out);
    for (int k = 0; k < n_out && !status; k++) status = check_out_type(v, n, k, &t.r.out[k]);
    struct type token = ir_token_type();
    if (!status && n->op->flags & OP_EFFECT) status = check_out_type(v, n, n_out, &token);
    ir_regions_finish(&t);
    return status;
}

// infer may normalise attributes, so it works on a copy; operands left out at the end are absent for it.
static kiln_status check_types(struct verifier *v, const struct ir_node *n)
{
    const struct op *op = n->op;
    int n_tensors = n->n_in - !!(op->flags & OP_EFFECT);
    size_t room = (size_t)(op->flags & OP_VARIADIC ? n_tensors : op->max_in) + 1;
    struct attr attrs[OP_MAX_ATTRS];
    if (op_regions_rule(op)) return check_by_rule(v, n);
    if (!op->fn || !op->fn->infer) return check_by_region(v, n);
    if (n->n_regions && (op->fn->lower || op->fn->view)) return verify_fail("%s takes no regions", op->name);
    if (room > v->in_cap) {
        const struct type **in = realloc(v->in, sizeof *in * room);
        if (!in) return error_set(KILN_E_MEMORY, "graph: out of memory");
        v->in = in;
        v->in_cap = room;
    }
    for (size_t i = 0; i < room; i++) {
        int32_t value = i < (size_t)n_tensors ? ir_operands(v->g, n)[i] : -1;
        v->in[i] = value < 0 ? NULL : &v->g->values.v[value].type;
    }
    if (op->n_attrs) memcpy(attrs, n->attrs, sizeof *attrs * op->n_attrs);
    struct op_call c = {.op = op, .n_in = n_tensors, .n_out = op->n_out, .in = v->in, .attrs = attrs};
    TRY(op_infer(&c));
    for (int k = 0; k < op->n_out; k++) TRY(check_out_type(v, n, k, &c.out[k]));
    struct type token = ir_token_type();
    return op->flags & OP_EFFECT ? check_out_type(v, n, op->n_out, &token) : KILN_OK;
}

// Puts the node's text before the message, as far as it is short.
static void name_node(const struct kiln_graph *g, int32_t index)
{
    struct str s;
    str_init(&s);
    ir_node_text(g, index, &s);
    if (s.len < 400 && !s.failed) error_name_op(str_text(&s));
    str_free(&s);
}

kiln_status verify_node(struct verifier *v, int32_t index)
{
    const struct ir_node *n = &v->g->nodes.v[index];
    v->node = index;
    kiln_status status = check_attrs(n);
    if (!status) status = check_operands(v, n);
    if (status) return status;
    status = check_types(v, n);
    if (status) name_node(v->g, index);
    return status;
}
