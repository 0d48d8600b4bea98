// From the text form to a graph. One pass over the text by recursive descent; only regions recurse.
//
// Input: bytes from anywhere. Output: a verified graph, or an error that names the place. Each step consumes a token or
// fails, so the pass ends; what it allocates is proportional to the tokens read, never to a number that they spell. The
// numbers of values in the text only have to rise; in the graph they are counted without gaps. A graph that was written
// by ir_graph_text has none, so it gets its own numbers back.
#include "ir/parse.h"
#include <stdio.h>
#include <string.h>

kiln_status parse_find(struct parser *p, const struct token *t, int32_t *value)
{
    int64_t number = 0;
    bool is_value = t->kind == TOKEN_VALUE && t->size_B >= 2 && t->size_B <= 11;
    for (size_t i = 1; i < t->size_B && is_value; i++) number = number * 10 + (t->at[i] - '0');
    size_t low = 0, high = p->names.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->names.v[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (!is_value || low == p->names.n || p->names.v[low].number != number)
        return parse_expected_at(p, t, "a value that was defined before");
    *value = p->names.v[low].value;
    return KILN_OK;
}

kiln_status parse_value(struct parser *p, int32_t *value)
{
    TRY(parse_find(p, &p->token, value));
    return parse_next(p);
}

kiln_status parse_define(struct parser *p, const struct definition *d, int32_t value)
{
    struct kiln_graph *g = p->g;
    struct value_name name = {d->number, value};
    if (value < 0) return error_pending;
    if (p->names.n && p->names.v[p->names.n - 1].number >= d->number)
        return parse_fail(p, &d->token, "%%%d is defined after %%%d: numbers of values rise", (int)d->number,
                          (int)p->names.v[p->names.n - 1].number);
    if (g->values.n > PARSE_MAX_VALUES)
        return parse_fail(p, &d->token, "the graph has more than %d values", PARSE_MAX_VALUES);
    for (int i = 0; i < d->type.rank && d->has_symbols; i++)
        if (d->symbols[i]) TRY(ir_mark_symbol(g, value, i, d->symbols[i] - 1));
    return vec_push(&p->names, name);
}

static kiln_status parse_constant(struct parser *p, const struct definition *d)
{
    const char *name = NULL;
    if (p->token.kind == TOKEN_STRING) TRY(parse_string(p, &name));
    return parse_define(p, d, ir_add_named_constant(p->g, &d->type, name));
}

static kiln_status parse_entry(struct parser *p, const struct definition *d)
{
    if (p->has_entry) return parse_fail(p, &d->token, "a graph has one entry token, this is the second");
    if (!ir_is_token(&d->type)) return parse_fail(p, &d->token, "the entry is a token");
    p->has_entry = true;
    return parse_define(p, d, ir_add_token(p->g));
}

static kiln_status parse_number(struct parser *p, const struct definition *d)
{
    struct ir_value v = {.type = d->type};
    if (ir_is_token(&d->type)) return parse_fail(p, &d->token, "a number is no token");
    TRY(parse_literal(p, &v));
    return parse_define(p, d, ir_add_number(p->g, &v.type, v.number, v.integer));
}

// What makes values: `input "x"`, `constant`, `entry`, a number, or a call.
static kiln_status parse_source(struct parser *p, size_t first, int n)
{
    const struct definition *d = &p->definitions.v[first]; // parse_call may move it
    kiln_status status;
    const char *name;
    const struct token *t = &p->token;
    bool is_call = t->kind == TOKEN_WORD && p->at < p->end && *p->at == '(';
    if (is_call || n != 1) return parse_call(p, first, n);
    if (parse_accept(p, "input", &status)) {
        TRY(status);
        TRY(parse_string(p, &name));
        return parse_define(p, d, ir_add_input(p->g, &d->type, name));
    }
    if (parse_accept(p, "constant", &status)) return status ? status : parse_constant(p, d);
    if (parse_accept(p, "entry", &status)) return status ? status : parse_entry(p, d);
    if (t->kind == TOKEN_NUMBER || parse_is(p, "(") || parse_is(p, "true") || parse_is(p, "false") ||
        parse_is(p, "inf") || parse_is(p, "nan"))
        return parse_number(p, d);
    if (t->kind == TOKEN_WORD) return parse_call(p, first, n);
    return parse_expected(p, "`input`, `constant`, `entry`, a number or a call");
}

static kiln_status parse_definitions(struct parser *p)
{
    size_t first = p->definitions.n;
    do {
        struct definition d = {0};
        if (p->definitions.n > first) TRY(parse_next(p));
        TRY(parse_definition(p, &d));
        TRY(vec_push(&p->definitions, d));
    } while (parse_is(p, ","));
    TRY(parse_sign(p, "="));
    TRY(parse_source(p, first, (int)(p->definitions.n - first)));
    p->definitions.n = first;
    return KILN_OK;
}

static kiln_status parse_output(struct parser *p, bool is_write)
{
    int32_t value, target = -1;
    const char *name;
    TRY(parse_next(p));
    TRY(parse_value(p, &value));
    if (is_write) {
        if (!parse_is(p, "to")) return parse_expected(p, "`to`");
        TRY(parse_next(p));
        TRY(parse_value(p, &target));
    }
    TRY(parse_string(p, &name));
    return ir_add_write(p->g, value, target, name);
}

// What it is in this reading.
static int64_t size_of(const struct parser *p, const char *name, int64_t seen)
{
    for (size_t i = 0; p->sizes && i < p->sizes->n; i++)
        if (!strcmp(p->sizes->v[i].name, name)) return p->sizes->v[i].size;
    return seen;
}

kiln_status parse_symbol(struct parser *p)
{
    char name[256];
    int64_t size;
    TRY(parse_next(p));
    struct token at = p->token;
    if (at.kind != TOKEN_WORD || at.size_B >= sizeof name || memchr(at.at, '.', at.size_B))
        return parse_expected(p, "the name of a symbol");
    memcpy(name, at.at, at.size_B);
    name[at.size_B] = '\0';
    TRY(parse_next(p));
    TRY(parse_sign(p, "="));
    TRY(parse_int(p, 0, INT64_MAX, "a size", &size));
    size_t before = p->g->symbols.n;
    if (before == IR_MAX_SYMBOLS) return parse_fail(p, &at, "a graph has %d symbols at most", IR_MAX_SYMBOLS);
    for (size_t i = 0; i < before; i++)
        if (!strcmp(p->g->symbols.v[i].name, name)) return parse_fail(p, &at, "symbol %s is declared twice", name);
    TRY(vec_push(&p->seen, size));
    return ir_add_symbol(p->g, name, size_of(p, name, size)) < 0 ? error_pending : KILN_OK;
}

kiln_status parse_block(struct parser *p, bool in_region)
{
    kiln_status status;
    for (;;) {
        if (p->token.kind == TOKEN_VALUE)
            TRY(parse_definitions(p));
        else if (parse_accept(p, "_", &status)) {
            TRY(status);
            TRY(parse_sign(p, "="));
            TRY(parse_call(p, p->definitions.n, 0));
        } else if (in_region)
            return KILN_OK;
        else if (parse_is(p, "return") || parse_is(p, "write"))
            TRY(parse_output(p, parse_is(p, "write")));
        else if (parse_is(p, "symbol"))
            TRY(parse_symbol(p));
        else if (p->token.kind == TOKEN_END)
            return KILN_OK;
        else
            return parse_expected(p, "a definition, `return`, `write` or `symbol`");
    }
}

kiln_status parse_header(struct parser *p)
{
    int64_t version;
    if (!parse_is(p, "kiln")) return KILN_OK;
    TRY(parse_next(p));
    struct token at = p->token;
    TRY(parse_int(p, 0, INT64_MAX, "the version of the format", &version));
    if (version == IR_TEXT_VERSION) return KILN_OK;
    return parse_fail(p, &at, "the format is of version %lld, only %d is known", (long long)version, IR_TEXT_VERSION);
}

// While reading, a region has the number under which it was found, so that those of one node may lie apart. Here they
// are put side by side, in the order of their nodes.
static kiln_status order_regions(struct parser *p)
{
    struct kiln_graph *g = p->g;
    struct {
        VEC(struct ir_region) regions;
        VEC(int32_t) number;
    } to = {0};
    kiln_status status = vec_reserve(&to.regions, g->regions.n);
    if (!status) status = vec_reserve(&to.number, g->regions.n);
    for (size_t i = 0; i < g->nodes.n && !status; i++) {
        struct ir_node *n = &g->nodes.v[i];
        int32_t r = n->first_region;
        n->first_region = n->n_regions ? (int32_t)to.regions.n : 0;
        for (int k = 0; k < n->n_regions; k++, r = p->siblings.v[r]) {
            to.number.v[r] = (int32_t)to.regions.n;
            to.regions.v[to.regions.n++] = g->regions.v[r];
        }
    }
    for (size_t i = 0; i < g->nodes.n && !status; i++)
        if (g->nodes.v[i].region >= 0) g->nodes.v[i].region = to.number.v[g->nodes.v[i].region];
    for (size_t i = 0; i < g->values.n && !status; i++)
        if (g->values.v[i].kind == IR_PARAM) g->values.v[i].node = to.number.v[g->values.v[i].node];
    for (size_t i = 0; i < to.regions.n && !status; i++) g->regions.v[i] = to.regions.v[i];
    vec_free(&to.regions);
    vec_free(&to.number);
    return status;
}

// The message gets the place of the node in front.
static kiln_status verify(struct parser *p)
{
    int32_t node;
    char place[256];
    kiln_status status = ir_verify_node_of(p->g, &node);
    if (!status) return KILN_OK;
    if (node >= 0)
        snprintf(place, sizeof place, "%.200s:%d:%d", p->name, p->places.v[node].line, p->places.v[node].column);
    else
        snprintf(place, sizeof place, "%.200s", p->name);
    error_name_op(place);
    return status;
}

static kiln_status parse(struct parser *p, size_t size_B)
{
    struct token start = {.line = 1, .column = 1};
    if (size_B > PARSE_MAX_TEXT_B)
        return parse_fail(p, &start, "the text has %zu bytes, %d are the most", size_B, PARSE_MAX_TEXT_B);
    TRY(parse_next(p));
    TRY(parse_header(p));
    TRY(parse_block(p, false));
    TRY(order_regions(p));
    return verify(p);
}

void parse_begin(struct parser *p, const char *text, size_t size_B, const char *name)
{
    *p = (struct parser){.at = text, .end = text + size_B, .line_start = text, .name = name, .line = 1};
    p->g = ir_graph_create();
}

void parse_finish(struct parser *p)
{
    vec_free(&p->names);
    vec_free(&p->definitions);
    vec_free(&p->operands);
    vec_free(&p->places);
    vec_free(&p->siblings);
    vec_free(&p->seen);
}

struct kiln_graph *ir_parse_sized(const char *text, size_t size_B, const char *name, const struct ir_sizes *sizes)
{
    struct parser p;
    if (error_pending) return NULL;
    parse_begin(&p, text, size_B, name);
    p.sizes = sizes;
    if (p.g && parse(&p, size_B)) ir_graph_destroy(&p.g);
    parse_finish(&p);
    return p.g;
}

struct kiln_graph *ir_parse(const char *text, size_t size_B, const char *name)
{
    return ir_parse_sized(text, size_B, name, NULL);
}
