// Calls in the text form: operands, attributes, regions.
//
// Operands wait in a list until the node is made, for the numbers of literals come after the values of the node's
// regions. Regions nest by recursion, IR_MAX_DEPTH deep at most; the list serves all calls that are open, so that each
// level costs little stack.
#include "ir/parse.h"
#include <stdlib.h>
#include <string.h>

static const struct op *find_op(struct parser *p)
{
    char name[256];
    const struct token *t = &p->token;
    if (t->kind != TOKEN_WORD || t->size_B >= sizeof name) return NULL;
    memcpy(name, t->at, t->size_B);
    name[t->size_B] = '\0';
    return op_find(name);
}

static bool has_any(const struct token *t, const char *bytes)
{
    for (size_t i = 0; i < t->size_B; i++)
        if (strchr(bytes, t->at[i])) return true;
    return false;
}

static kiln_status parse_operand(struct parser *p)
{
    struct operand o = {.token = p->token};
    const struct token *t = &p->token;
    kiln_status status;
    if (parse_accept(p, "none", &status)) {
        TRY(status);
        o.is_absent = true;
    } else if (t->kind == TOKEN_VALUE) {
        TRY(parse_next(p));
    } else {
        struct ir_value *v = &o.literal;
        bool is_word = t->kind == TOKEN_WORD, is_bool = parse_is(p, "true") || parse_is(p, "false");
        bool is_sized = parse_is(p, "(");
        bool is_float = is_sized ? parse_is_sized_float(p) : t->kind == TOKEN_NUMBER && has_any(t, ".eEn");
        if (!is_bool && !is_sized && t->kind != TOKEN_NUMBER &&
            !(is_word && (parse_is(p, "inf") || parse_is(p, "nan"))))
            return parse_expected(p, "an operand (a value, a number or `none`)");
        o.is_literal = true;
        v->kind = IR_NUMBER;
        v->node = -1;
        v->type = (struct type){.weak = true, .dtype = is_bool ? KILN_BOOL : is_float || is_word ? KILN_F64 : KILN_I64};
        TRY(parse_literal(p, v));
    }
    return vec_push(&p->operands, o);
}

static kiln_status parse_operands(struct parser *p, const struct op *op)
{
    int most = op->max_in + !!(op->flags & OP_EFFECT), n = 0;
    TRY(parse_sign(p, "("));
    for (; !parse_is(p, ")"); n++) {
        if (n) TRY(parse_sign(p, ","));
        if (n == most) return parse_fail(p, &p->token, "%s takes %d operands at most", op->name, most);
        TRY(parse_operand(p));
    }
    return parse_next(p);
}

static kiln_status parse_ints(struct parser *p, struct attr *a)
{
    TRY(parse_sign(p, "["));
    while (!parse_is(p, "]")) {
        if (a->count) TRY(parse_sign(p, ","));
        if (a->count == MAX_RANK) return parse_fail(p, &p->token, "a list has more than %d entries", MAX_RANK);
        TRY(parse_int(p, INT64_MIN, INT64_MAX, "an integer", &a->v[a->count]));
        a->count++;
    }
    return parse_next(p);
}

static kiln_status parse_attr(struct parser *p, struct attr *a)
{
    kiln_status status;
    uint8_t dtype = 0;
    a->set = !parse_accept(p, "default", &status);
    TRY(status);
    switch (a->kind) {
    case ATTR_FLOAT: return parse_float(p, &a->f);
    case ATTR_BOOL: return parse_bool(p, &a->i);
    case ATTR_INTS: return parse_ints(p, a);
    case ATTR_DTYPE:
        TRY(parse_dtype(p, &dtype));
        a->i = dtype;
        return KILN_OK;
    default: return parse_int(p, INT64_MIN, INT64_MAX, "an integer", &a->i);
    }
}

static int attr_index(const struct parser *p, const struct op *op)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (parse_is(p, op->attrs[i].name)) return i;
    return -1;
}

static kiln_status parse_attrs(struct parser *p, const struct op *op, struct attr *attrs)
{
    bool seen[OP_MAX_ATTRS] = {false};
    struct token at = p->token;
    kiln_status status;
    for (int i = 0; i < op->n_attrs; i++) attrs[i] = (struct attr){.kind = op->attrs[i].kind};
    if (parse_accept(p, "{", &status)) {
        TRY(status);
        for (bool first = true; !parse_is(p, "}"); first = false) {
            if (!first) TRY(parse_sign(p, ","));
            int i = attr_index(p, op);
            if (i < 0) return parse_expected(p, "the name of an attribute");
            if (seen[i]) return parse_fail(p, &p->token, "attribute %s is given twice", op->attrs[i].name);
            seen[i] = true;
            TRY(parse_next(p));
            TRY(parse_sign(p, "="));
            TRY(parse_attr(p, &attrs[i]));
        }
        TRY(parse_next(p));
    }
    for (int i = 0; i < op->n_attrs; i++) {
        if (!seen[i] && !op->attrs[i].has_default)
            return parse_fail(p, &at, "attribute %s of %s is missing", op->attrs[i].name, op->name);
        if (!seen[i]) attrs[i] = op_attr_default(&op->attrs[i]);
    }
    return KILN_OK;
}

// The operands that wait from `base` on, literals made values.
static kiln_status take_operands(struct parser *p, size_t base, int32_t *in)
{
    for (size_t i = base; i < p->operands.n; i++) {
        const struct operand *o = &p->operands.v[i];
        int32_t *value = &in[i - base];
        *value = -1;
        if (o->is_literal) {
            *value = ir_add_number(p->g, &o->literal.type, o->literal.number, o->literal.integer);
            if (*value < 0) return error_pending;
        } else if (!o->is_absent)
            TRY(parse_find(p, &o->token, value));
    }
    p->operands.n = base;
    return KILN_OK;
}

static kiln_status parse_params(struct parser *p)
{
    TRY(parse_sign(p, "("));
    for (bool first = true; !parse_is(p, ")"); first = false) {
        struct definition d = {0};
        if (!first) TRY(parse_sign(p, ","));
        TRY(parse_definition(p, &d));
        int32_t value = ir_add_param(p->g, &d.type);
        if (value < 0) return error_pending;
        TRY(parse_define(p, &d, value));
    }
    return parse_next(p);
}

static kiln_status parse_yield(struct parser *p)
{
    size_t base = p->operands.n;
    int n = 0;
    kiln_status status;
    if (!parse_accept(p, "yield", &status)) return parse_expected(p, "a definition or `yield`");
    TRY(status);
    for (; !parse_is(p, "}"); n++) {
        struct operand o;
        if (n) TRY(parse_sign(p, ","));
        o = (struct operand){.token = p->token};
        if (o.token.kind != TOKEN_VALUE) return parse_expected(p, "a value");
        TRY(parse_next(p));
        TRY(vec_push(&p->operands, o));
    }
    int32_t *results = malloc((size_t)(n + 1) * sizeof *results);
    kiln_status done = results ? take_operands(p, base, results) : error_set(KILN_E_MEMORY, "graph: out of memory");
    if (!done) done = ir_region_end(p->g, results, n);
    free(results);
    TRY(done);
    return parse_next(p);
}

static kiln_status parse_region(struct parser *p, int32_t region)
{
    if (p->g->open.n >= IR_MAX_DEPTH) return parse_fail(p, &p->token, "regions nest more than %d deep", IR_MAX_DEPTH);
    TRY(parse_next(p));
    TRY(ir_region_begin(p->g, region));
    TRY(parse_params(p));
    TRY(parse_sign(p, "{"));
    TRY(parse_block(p, true));
    return parse_yield(p);
}

// The regions of a node, linked in p->siblings; *first: the first of them.
static kiln_status parse_regions(struct parser *p, int32_t *first, int *n)
{
    int32_t last = -1;
    for (*n = 0; parse_is(p, "region"); (*n)++) {
        int32_t region = ir_add_regions(p->g, 1);
        if (region < 0) return error_pending;
        TRY(vec_push(&p->siblings, -1));
        if (*n)
            p->siblings.v[last] = region;
        else
            *first = region;
        last = region;
        TRY(parse_region(p, region));
    }
    return KILN_OK;
}

static kiln_status parse_fits(struct parser *p, const struct op *op, const struct token *at, int n_operands, int n_out)
{
    int effect = !!(op->flags & OP_EFFECT), least = op->min_in + effect;
    if (n_operands < least)
        return parse_fail(p, at, "%s takes %d operands at least, there are %d", op->name, least, n_operands);
    if (n_out != op->n_out + effect && !op_regions_rule(op))
        return parse_fail(p, at, "%s gives %d values, %d are defined", op->name, op->n_out + effect, n_out);
    if (p->g->values.n + (size_t)(n_operands + n_out) > PARSE_MAX_VALUES || p->places.n >= PARSE_MAX_VALUES)
        return parse_fail(p, at, "the graph has more than %d values or nodes", PARSE_MAX_VALUES);
    return KILN_OK;
}

static kiln_status add_node(struct parser *p, const struct op *op, struct attr *attrs, size_t base, size_t first_out,
                            int n_out)
{
    int32_t in[UINT8_MAX + 1];
    const struct ir_new_node n = {.op = op, .attrs = attrs, .n_in = (int)(p->operands.n - base), .in = in};
    TRY(take_operands(p, base, in));
    int32_t first = ir_push_node(p->g, &n);
    if (first < 0) return error_pending;
    int32_t node = (int32_t)p->g->nodes.n - 1;
    // The token of an effect is among the definitions, as it is among the operands.
    p->g->nodes.v[node].n_out = n_out - !!(op->flags & OP_EFFECT);
    for (int i = 0; i < n_out; i++) {
        const struct definition *d = &p->definitions.v[first_out + (size_t)i];
        struct ir_value v = {.type = d->type, .kind = IR_NODE, .out = i, .node = node};
        TRY(vec_push(&p->g->values, v));
        TRY(parse_define(p, d, first + i));
    }
    return KILN_OK;
}

kiln_status parse_call(struct parser *p, size_t first_out, int n_out)
{
    const struct op *op = find_op(p);
    struct attr attrs[OP_MAX_ATTRS];
    struct token at = p->token;
    size_t base = p->operands.n;
    int32_t first_region = 0;
    int n_regions;
    if (!op) return parse_expected(p, "the name of an op");
    TRY(parse_next(p));
    TRY(parse_operands(p, op));
    TRY(parse_fits(p, op, &at, (int)(p->operands.n - base), n_out));
    TRY(parse_attrs(p, op, attrs));
    TRY(parse_regions(p, &first_region, &n_regions));
    TRY(add_node(p, op, attrs, base, first_out, n_out));
    int32_t owner = (int32_t)p->g->nodes.n - 1;
    struct ir_node *n = &p->g->nodes.v[owner];
    n->first_region = first_region;
    n->n_regions = n_regions;
    for (int i = 0, r = first_region; i < n_regions; i++, r = p->siblings.v[r]) p->g->regions.v[r].owner = owner;
    return vec_push(&p->places, at);
}
