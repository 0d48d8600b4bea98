// Reading what a captured function is beside its graphs.
#include "model/interface.h"
#include "ir/parse.h"
#include <limits.h>
#include <string.h>

enum { ITEMS_MAX = 1 << 20 };

struct reader {
    struct parser p;
    const struct face_names *weights;
    struct interface *f;
};

void interface_finish(struct interface *f)
{
    vec_free(&f->rules);
    vec_free(&f->in);
    vec_free(&f->sources);
    vec_free(&f->results);
    vec_free(&f->left);
    vec_free(&f->happened);
    vec_free(&f->steps);
    vec_free(&f->targets);
    vec_free(&f->saved);
    vec_free(&f->rewritten);
    vec_free(&f->places);
    ir_graph_destroy(&f->text);
}

static kiln_status index_of(struct reader *r, const char *what, int64_t lowest, int32_t *out)
{
    int64_t v;
    TRY(parse_int(&r->p, lowest, INT32_MAX, what, &v));
    *out = (int32_t)v;
    return KILN_OK;
}

static kiln_status count(struct reader *r, const char *what, size_t *out)
{
    int64_t v;
    TRY(parse_int(&r->p, 0, INT32_MAX, what, &v));
    *out = (size_t)v;
    return KILN_OK;
}

// symbols, open: NULL where nobody asks.
static kiln_status read_type(struct reader *r, struct type *out, int16_t *symbols, uint32_t *open)
{
    struct definition d = {0};
    struct token at = r->p.token;
    TRY(parse_type(&r->p, &d));
    if (ir_is_token(&d.type)) return parse_fail(&r->p, &at, "a type of tensors is expected");
    *out = d.type;
    if (open) *open = d.sized;
    for (int i = 0; symbols && i < d.type.rank; i++) symbols[i] = d.has_symbols ? d.symbols[i] : 0;
    return KILN_OK;
}

static kiln_status read_number(struct reader *r, const struct type *t, double *number, int64_t *integer)
{
    struct ir_value v = {.type = *t};
    struct token at = r->p.token;
    if (!ir_type_is_literal(t)) return parse_fail(&r->p, &at, "a number has a type such as weak f64[]");
    TRY(parse_literal(&r->p, &v));
    *number = v.number;
    *integer = v.integer;
    return KILN_OK;
}

static kiln_status read_function(struct reader *r)
{
    struct token at = r->p.token;
    if (r->f->name) return parse_fail(&r->p, &at, "the function is named twice");
    return parse_string(&r->p, &r->f->name);
}

// A symbol's rule follows its declaration.
static kiln_status read_rule(struct reader *r)
{
    struct face_rule rule = {0};
    struct token at = r->p.token;
    size_t i = r->f->rules.n;
    if (i >= r->p.g->symbols.n || !parse_is(&r->p, r->p.g->symbols.v[i].name))
        return parse_expected(&r->p, "the symbol that was declared last");
    rule.name = r->p.g->symbols.v[i].name;
    rule.seen = r->p.seen.v[i];
    TRY(parse_next(&r->p));
    TRY(parse_int(&r->p, 0, INT64_MAX, "the least size", &rule.min));
    TRY(parse_int(&r->p, 0, INT64_MAX, "the largest size", &rule.max));
    TRY(parse_int(&r->p, 1, INT64_MAX, "a divisor", &rule.divisor));
    TRY(parse_int(&r->p, 0, INT64_MAX, "a remainder", &rule.remainder));
    if (rule.min > rule.max)
        return parse_fail(&r->p, &at, "no size is from %lld to %lld", (long long)rule.min, (long long)rule.max);
    return vec_push(&r->f->rules, rule);
}

static kiln_status read_input(struct reader *r)
{
    struct face_input in = {0};
    kiln_status status;
    TRY(parse_string(&r->p, &in.name));
    TRY(read_type(r, &in.type, in.symbols, NULL));
    in.fixed = parse_accept(&r->p, "=", &status);
    TRY(status);
    if (in.fixed) TRY(read_number(r, &in.type, &in.number, &in.integer));
    return vec_push(&r->f->in, in);
}

static kiln_status read_weight(struct reader *r, int32_t *index)
{
    struct token at = r->p.token;
    const char *name;
    TRY(parse_string(&r->p, &name));
    *index = r->weights->find(r->weights->user, name);
    return *index < 0 ? parse_fail(&r->p, &at, "the file has no weight \"%.200s\"", name) : KILN_OK;
}

static kiln_status read_source(struct reader *r)
{
    static const char *const words[] = {"input", "weight", "gradient", "input_gradient"};
    struct face_source s = {.from = UINT8_MAX};
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < COUNT_OF(words) && s.from == UINT8_MAX; i++)
        if (parse_accept(&r->p, words[i], &status)) s.from = (uint8_t)i;
    TRY(status);
    if (s.from == UINT8_MAX) return parse_expected(&r->p, "`input`, `weight`, `gradient` or `input_gradient`");
    bool named = s.from == FROM_WEIGHT || s.from == FROM_GRADIENT;
    TRY(named ? read_weight(r, &s.index) : index_of(r, "the number of an input", 0, &s.index));
    struct {
        const char *word;
        bool *flag;
    } flags[] = {{"written", &s.written}, {"again", &s.again},
                 {"grad", &s.grad},       {"gradient_read", &s.gradient_read},
                 {"changed", &s.changed}, {"no_gradient", &s.no_gradient}};
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        *flags[i].flag = parse_accept(&r->p, flags[i].word, &status);
        TRY(status);
    }
    return vec_push(&r->f->sources, s);
}

static kiln_status read_layout(struct reader *r, struct face_result *to)
{
    TRY(parse_sign(&r->p, "["));
    for (int i = 0; i < to->r.type.rank; i++) {
        if (i) TRY(parse_sign(&r->p, ","));
        TRY(parse_int(&r->p, INT64_MIN, INT64_MAX, "a stride", &to->r.layout.strides[i]));
    }
    TRY(parse_sign(&r->p, "]"));
    to->placed = true;
    return parse_int(&r->p, 0, INT64_MAX, "an offset", &to->r.layout.offset);
}

// Of `f32[(n),(2 * m + -1),3]` "n,2*m-1,3": parentheses around a whole dimension say nothing to who reads it.
static kiln_status note_dims(struct reader *r, const char *at, const char *end, const char **out)
{
    char *to = arena_alloc(&r->f->text->arena, (size_t)(end - at));
    int depth = 0;
    if (!to) return error_pending;
    *out = to;
    at = memchr(at, '[', (size_t)(end - at));
    for (at++; *at != ']'; at++) {
        bool outer = (*at == '(' && !depth++) || (*at == ')' && !--depth);
        if (outer || *at == ' ' || (*at == '+' && strspn(at + 1, " -") > strspn(at + 1, " "))) continue;
        *to++ = *at;
    }
    *to = 0;
    return KILN_OK;
}

static kiln_status read_result(struct reader *r)
{
    static const char *const words[] = {
        [RESULT_OUTPUT] = "output", [RESULT_SOURCE] = "source", [RESULT_NUMBER] = "number"};
    struct face_result to = {.r = {.kind = UINT8_MAX}};
    kiln_status status = KILN_OK;
    TRY(parse_string(&r->p, &to.name));
    const char *at = r->p.token.at;
    TRY(read_type(r, &to.r.type, NULL, &to.open));
    if (to.open) TRY(note_dims(r, at, r->p.token.at, &to.dims));
    for (size_t i = 0; i < COUNT_OF(words) && to.r.kind == UINT8_MAX; i++)
        if (parse_accept(&r->p, words[i], &status)) to.r.kind = (uint8_t)i;
    TRY(status);
    if (to.r.kind == UINT8_MAX) return parse_expected(&r->p, "`output`, `source` or `number`");
    if (to.r.kind == RESULT_NUMBER)
        TRY(read_number(r, &to.r.type, &to.r.number, &to.r.integer));
    else
        TRY(index_of(r, "the number of an output or a source", 0, &to.r.index));
    to.r.dense = parse_accept(&r->p, "dense", &status);
    TRY(status);
    if (parse_accept(&r->p, "at", &status)) TRY(status ? status : read_layout(r, &to));
    return vec_push(&r->f->results, to);
}

static kiln_status read_left(struct reader *r)
{
    struct left_gradient left = {0};
    TRY(index_of(r, "the number of a source", 0, &left.source));
    TRY(index_of(r, "the number of an output, or -1,", -1, &left.output));
    return vec_push(&r->f->left, left);
}

static kiln_status read_wrote(struct reader *r)
{
    struct happened h = {0};
    TRY(index_of(r, "the number of a value", 0, &h.value));
    TRY(index_of(r, "the number of a value", 0, &h.target));
    TRY(count(r, "a number of nodes", &h.n_nodes));
    TRY(index_of(r, "the number of a region, or -1,", -1, &h.region));
    return vec_push(&r->f->happened, h);
}

static kiln_status read_step(struct reader *r)
{
    struct gradient_step g = {0};
    int64_t event, accumulate, keep;
    TRY(parse_int(&r->p, 0, UINT8_MAX, "an event", &event));
    TRY(parse_int(&r->p, 0, 1, "0 or 1", &accumulate));
    TRY(parse_int(&r->p, 0, 1, "0 or 1", &keep));
    g.event = (uint8_t)event;
    g.accumulate = accumulate;
    g.keep = keep;
    TRY(index_of(r, "the number of a source, or -1,", -1, &g.source));
    TRY(index_of(r, "the number of an input", -1, &g.input));
    TRY(index_of(r, "the number of a value, or -1,", -1, &g.value));
    TRY(index_of(r, "the number of an output, or -1,", -1, &g.output));
    TRY(count(r, "a number of nodes", &g.n_nodes));
    return vec_push(&r->f->steps, g);
}

static kiln_status read_draws(struct reader *r)
{
    int64_t n;
    TRY(parse_int(&r->p, 0, INT64_MAX, "how many random numbers a run draws", &n));
    r->f->counters = (uint64_t)n;
    return KILN_OK;
}

static kiln_status read_target(struct reader *r)
{
    struct face_target t = {0};
    TRY(index_of(r, "the number of an input, or -1,", -1, &t.target.input));
    TRY(index_of(r, "the number of a source", 0, &t.target.source));
    TRY(index_of(r, "the number of a gradient, or -1,", -1, &t.output));
    return vec_push(&r->f->targets, t);
}

static kiln_status read_saved(struct reader *r)
{
    struct saved s = {0};
    TRY(index_of(r, "the number of a source, or -1,", -1, &s.source));
    TRY(index_of(r, "the number of an output, or -1,", -1, &s.output));
    TRY(read_type(r, &s.type, NULL, NULL));
    return vec_push(&r->f->saved, s);
}

static kiln_status read_rewritten(struct reader *r)
{
    struct rewritten w = {0};
    TRY(index_of(r, "the number of an input, or -1,", -1, &w.input));
    TRY(index_of(r, "the number of a source, or -1,", -1, &w.source));
    TRY(index_of(r, "the number of a place", 0, &w.output));
    return vec_push(&r->f->rewritten, w);
}

static kiln_status read_place(struct reader *r)
{
    struct face_place place = {0};
    TRY(index_of(r, "the number of a value, or -1,", -1, &place.value));
    TRY(index_of(r, "the number of a gradient, or -1,", -1, &place.dout));
    TRY(read_type(r, &place.type, NULL, NULL));
    if (r->p.token.kind == TOKEN_STRING) TRY(parse_string(&r->p, &place.used_up));
    return vec_push(&r->f->places, place);
}

static kiln_status read_once(struct reader *r)
{
    r->f->unlike = true;
    return KILN_OK;
}

static kiln_status read_without(struct reader *r)
{
    r->f->without = true;
    return KILN_OK;
}

static kiln_status read_item(struct reader *r)
{
    static const struct {
        const char *word;
        kiln_status (*read)(struct reader *r);
    } items[] = {{"function", read_function}, {"rule", read_rule},     {"input", read_input},
                 {"from", read_source},       {"result", read_result}, {"left", read_left},
                 {"wrote", read_wrote},       {"step", read_step},     {"draws", read_draws},
                 {"target", read_target},     {"saved", read_saved},   {"rewritten", read_rewritten},
                 {"place", read_place},       {"once", read_once},     {"no_gradient", read_without}};
    kiln_status status;
    if (parse_is(&r->p, "symbol")) return parse_symbol(&r->p);
    for (size_t i = 0; i < COUNT_OF(items); i++)
        if (parse_accept(&r->p, items[i].word, &status)) return status ? status : items[i].read(r);
    return parse_expected(&r->p, "a line of an interface");
}

static kiln_status read_items(struct reader *r)
{
    struct token at = r->p.token;
    TRY(parse_next(&r->p));
    TRY(parse_header(&r->p));
    for (size_t n = 0; r->p.token.kind != TOKEN_END; n++) {
        if (n == ITEMS_MAX) return parse_fail(&r->p, &r->p.token, "an interface has %d lines at most", ITEMS_MAX);
        TRY(read_item(r));
    }
    if (!r->f->name) return parse_fail(&r->p, &at, "the function has no name");
    if (r->f->rules.n != r->p.g->symbols.n) return parse_fail(&r->p, &at, "a symbol has no rule");
    return KILN_OK;
}

kiln_status interface_parse(const char *text, size_t size_B, const char *where, const struct face_names *weights,
                            const struct ir_sizes *sizes, struct interface *out)
{
    struct reader r = {.weights = weights, .f = out};
    *out = (struct interface){0};
    parse_begin(&r.p, text, size_B, where);
    r.p.sizes = sizes;
    out->text = r.p.g;
    kiln_status status = r.p.g ? read_items(&r) : error_pending;
    parse_finish(&r.p);
    if (status) interface_finish(out);
    return status;
}
