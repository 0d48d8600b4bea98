// The messages of ONNX: model, graphs, nodes, attributes, ports, functions. Each is gone through twice: how many of
// what it repeats, then what they are. Fields that say nothing about what is computed are passed over.
#include "onnx/model.h"
#include "onnx/wire.h"
#include <string.h>

struct onnx_parser {
    struct onnx_model *m;
    int depth;
};

static kiln_status count_fields(struct wire w, uint32_t number, int32_t *n)
{
    struct wire_field f;
    bool more;
    size_t found = 0;
    for (;;) {
        TRY(wire_next(&w, &f, &more));
        if (!more) break;
        found += f.number == number;
    }
    if (found > INT32_MAX / 2) return wire_bad(&w, w.at, "field %u comes too often", (unsigned)number);
    *n = (int32_t)found;
    return KILN_OK;
}

// Names and texts are kept with a 0 behind them.
kiln_status onnx_take_text(struct onnx_model *m, const struct wire *w, const unsigned char *data, size_t size_B,
                           const char **out)
{
    char *text;
    if (memchr(data, 0, size_B)) return wire_bad(w, data, "a text has a byte of 0");
    TRY(onnx_take(m, size_B + 1, 1, &text));
    memcpy(text, data, size_B);
    *out = text;
    return KILN_OK;
}

static kiln_status take_text(struct onnx_parser *p, const struct wire *w, const struct wire_field *f, const char **out)
{
    TRY(wire_expect(w, f, WIRE_BYTES));
    return onnx_take_text(p->m, w, f->data, f->size_B, out);
}

static kiln_status take_number(const struct wire *w, const struct wire_field *f, int64_t *out)
{
    TRY(wire_expect(w, f, WIRE_VARINT));
    *out = (int64_t)f->value;
    return KILN_OK;
}

#define EACH_FIELD(w, f)            \
    for (bool more_ = true; more_;) \
        if (TRY_FIELD(w, f, more_)) \
            return error_pending;   \
        else if (more_)
#define TRY_FIELD(w, f, more) (wire_next(&(w), &(f), &(more)))

// --- attributes

static kiln_status parse_graph(struct onnx_parser *p, struct wire w, struct onnx_graph *g);

struct numbers {
    struct onnx_parser *p;
    float *floats;
    int64_t *ints;
    size_t n;
};

static kiln_status count_number(void *user, uint64_t bits)
{
    ((struct numbers *)user)->n++;
    return KILN_OK;
}

static kiln_status take_float(void *user, uint64_t bits)
{
    struct numbers *n = user;
    uint32_t low = (uint32_t)bits;
    memcpy(&n->floats[n->n++], &low, 4);
    return KILN_OK;
}

static kiln_status take_int(void *user, uint64_t bits)
{
    struct numbers *n = user;
    n->ints[n->n++] = (int64_t)bits;
    return KILN_OK;
}

static kiln_status parse_lists(struct onnx_parser *p, struct wire w, struct onnx_attr *a)
{
    struct wire_field f;
    struct wire again = w;
    struct numbers floats = {p}, ints = {p};
    int32_t n_strings;
    EACH_FIELD(w, f)
    {
        if (f.number == 7) TRY(wire_numbers(&w, &f, WIRE_4, count_number, &floats));
        if (f.number == 8) TRY(wire_numbers(&w, &f, WIRE_VARINT, count_number, &ints));
    }
    TRY(count_fields(again, 9, &n_strings));
    TRY(onnx_take(p->m, floats.n, sizeof *a->floats, &a->floats));
    TRY(onnx_take(p->m, ints.n, sizeof *a->ints, &a->ints));
    TRY(onnx_take(p->m, (size_t)n_strings, sizeof *a->strings, &a->strings));
    floats = (struct numbers){p, .floats = a->floats};
    ints = (struct numbers){p, .ints = a->ints};
    n_strings = 0;
    EACH_FIELD(again, f)
    {
        if (f.number == 7) TRY(wire_numbers(&again, &f, WIRE_4, take_float, &floats));
        if (f.number == 8) TRY(wire_numbers(&again, &f, WIRE_VARINT, take_int, &ints));
        if (f.number == 9) TRY(take_text(p, &again, &f, &a->strings[n_strings++]));
    }
    a->n = a->type == ONNX_FLOATS ? floats.n : a->type == ONNX_INTS ? ints.n : (size_t)n_strings;
    return KILN_OK;
}

static kiln_status parse_tensor_field(struct onnx_parser *p, const struct wire *w, const struct wire_field *f,
                                      struct onnx_constant **out)
{
    TRY(wire_expect(w, f, WIRE_BYTES));
    if (*out) return wire_bad(w, f->begin, "an attribute has two tensors");
    TRY(onnx_take(p->m, 1, sizeof **out, out));
    TRY(vec_push(&p->m->constants, *out));
    return onnx_parse_tensor(p->m, wire_message(w, f), *out);
}

static kiln_status parse_graph_field(struct onnx_parser *p, const struct wire *w, const struct wire_field *f,
                                     struct onnx_graph **out)
{
    TRY(wire_expect(w, f, WIRE_BYTES));
    if (*out) return wire_bad(w, f->begin, "an attribute has two graphs");
    TRY(onnx_take(p->m, 1, sizeof **out, out));
    if (++p->depth > ONNX_DEPTH_MAX)
        return wire_bad(w, f->begin, "graphs lie in each other more than %d deep", ONNX_DEPTH_MAX);
    TRY(parse_graph(p, wire_message(w, f), *out));
    p->depth--;
    return KILN_OK;
}

static kiln_status parse_attr_field(struct onnx_parser *p, const struct wire *w, const struct wire_field *f,
                                    struct onnx_attr *a)
{
    int64_t number;
    uint32_t bits;
    switch (f->number) {
    case 1: return take_text(p, w, f, &a->name);
    case 2:
        TRY(wire_expect(w, f, WIRE_4));
        bits = (uint32_t)f->value;
        memcpy(&a->f, &bits, 4);
        return KILN_OK;
    case 3: return take_number(w, f, &a->i);
    case 4: return take_text(p, w, f, &a->s);
    case 5: return parse_tensor_field(p, w, f, &a->tensor);
    case 6: return parse_graph_field(p, w, f, &a->graph);
    case 20:
        TRY(take_number(w, f, &number));
        if (number < 0 || number > 255)
            return wire_bad(w, f->begin, "there is no type of attribute %lld", (long long)number);
        a->type = (uint8_t)number;
        return KILN_OK;
    case 21: return take_text(p, w, f, &a->of_caller);
    default: return KILN_OK;
    }
}

static kiln_status parse_attr(struct onnx_parser *p, struct wire w, struct onnx_attr *a)
{
    struct wire_field f;
    struct wire again = w;
    const unsigned char *begin = w.at;
    a->name = a->s = "";
    EACH_FIELD(w, f) TRY(parse_attr_field(p, &w, &f, a));
    if (!*a->name) return wire_bad(&w, begin, "an attribute has no name");
    if (a->of_caller && !*a->of_caller) a->of_caller = NULL;
    bool has = a->of_caller || (a->type == ONNX_TENSOR ? a->tensor != NULL : a->type != ONNX_GRAPH || a->graph);
    if (!a->type || !has)
        return wire_bad(&w, begin, "attribute \"%.80s\" has no value of its type %d", a->name, a->type);
    return parse_lists(p, again, a);
}

// --- nodes

static kiln_status parse_node_field(struct onnx_parser *p, const struct wire *w, const struct wire_field *f,
                                    struct onnx_node *n)
{
    switch (f->number) {
    case 1: return take_text(p, w, f, &n->in_names[n->n_in++]);
    case 2: return take_text(p, w, f, &n->out_names[n->n_out++]);
    case 3: return take_text(p, w, f, &n->name);
    case 4: return take_text(p, w, f, &n->op);
    case 5: TRY(wire_expect(w, f, WIRE_BYTES)); return parse_attr(p, wire_message(w, f), &n->attrs[n->n_attrs++]);
    case 7: return take_text(p, w, f, &n->domain);
    case 8: return take_text(p, w, f, &n->overload);
    default: return KILN_OK;
    }
}

static kiln_status check_attr_names(const struct wire *w, const struct onnx_node *n)
{
    for (int32_t i = 0; i < n->n_attrs; i++)
        for (int32_t k = 0; k < i; k++)
            if (!strcmp(n->attrs[i].name, n->attrs[k].name))
                return wire_bad(w, w->at, "node %d \"%.60s\" has attribute \"%.60s\" twice", n->index, n->name,
                                n->attrs[i].name);
    return KILN_OK;
}

static kiln_status parse_node(struct onnx_parser *p, struct wire w, struct onnx_node *n)
{
    struct wire_field f;
    int32_t n_in, n_out, n_attrs;
    TRY(count_fields(w, 1, &n_in));
    TRY(count_fields(w, 2, &n_out));
    TRY(count_fields(w, 5, &n_attrs));
    if (n_attrs > ONNX_ATTRS_MAX)
        return wire_bad(&w, w.at, "node %d has %d attributes, more than %d", n->index, n_attrs, ONNX_ATTRS_MAX);
    n->name = n->op = n->domain = n->overload = "";
    TRY(onnx_take(p->m, (size_t)n_in, sizeof *n->in_names, &n->in_names));
    TRY(onnx_take(p->m, (size_t)n_out, sizeof *n->out_names, &n->out_names));
    TRY(onnx_take(p->m, (size_t)n_in, sizeof *n->in, &n->in));
    TRY(onnx_take(p->m, (size_t)n_out, sizeof *n->out, &n->out));
    TRY(onnx_take(p->m, (size_t)n_attrs, sizeof *n->attrs, &n->attrs));
    EACH_FIELD(w, f) TRY(parse_node_field(p, &w, &f, n));
    if (!strcmp(n->domain, "ai.onnx")) n->domain = "";
    return check_attr_names(&w, n);
}

// --- inputs and outputs

struct dims {
    struct onnx_port *port;
    int64_t *dims;
    const char **symbols;
};

static kiln_status parse_dim(struct onnx_parser *p, struct wire w, int64_t *dim, const char **symbol)
{
    struct wire_field f;
    *dim = -1;
    EACH_FIELD(w, f)
    {
        if (f.number == 1) TRY(take_number(&w, &f, dim));
        if (f.number == 2) TRY(take_text(p, &w, &f, symbol));
    }
    if (*dim < 0) *dim = -1; // what some exporters write for an open one
    return KILN_OK;
}

static kiln_status parse_shape(struct onnx_parser *p, struct wire w, struct onnx_port *port)
{
    struct wire_field f;
    int32_t rank;
    int64_t *dims;
    const char **symbols;
    TRY(count_fields(w, 1, &rank));
    if (rank > KILN_MAX_RANK)
        return error_set(KILN_E_UNSUPPORTED, "%s: \"%.80s\" has rank %d, more than %d", p->m->where, port->name, rank,
                         KILN_MAX_RANK);
    TRY(onnx_take(p->m, (size_t)rank, sizeof *dims, &dims));
    TRY(onnx_take(p->m, (size_t)rank, sizeof *symbols, &symbols));
    port->shaped = true;
    port->dims = dims;
    port->symbols = symbols;
    port->rank = 0;
    EACH_FIELD(w, f)
    {
        if (f.number != 1) continue;
        TRY(wire_expect(&w, &f, WIRE_BYTES));
        TRY(parse_dim(p, wire_message(&w, &f), &dims[port->rank], &symbols[port->rank]));
        port->rank++;
    }
    return KILN_OK;
}

static kiln_status parse_tensor_type(struct onnx_parser *p, struct wire w, struct onnx_port *port)
{
    struct wire_field f;
    int64_t data_type = 0;
    EACH_FIELD(w, f)
    {
        if (f.number == 1) TRY(take_number(&w, &f, &data_type));
        if (f.number != 2) continue;
        TRY(wire_expect(&w, &f, WIRE_BYTES));
        TRY(parse_shape(p, wire_message(&w, &f), port));
    }
    if (!data_type) return KILN_OK;
    port->typed = true;
    if (onnx_dtype(data_type, &port->dtype)) return KILN_OK;
    return error_set(KILN_E_UNSUPPORTED, "%s: \"%.80s\" has the type %s", p->m->where, port->name,
                     onnx_dtype_text(data_type));
}

static kiln_status parse_type(struct onnx_parser *p, struct wire w, struct onnx_port *port)
{
    struct wire_field f;
    EACH_FIELD(w, f)
    {
        if (f.number == 6) continue; // what it means
        if (f.number != 1)
            return error_set(KILN_E_UNSUPPORTED, "%s: \"%.80s\" is a sequence, map or optional, no tensor", p->m->where,
                             port->name);
        TRY(wire_expect(&w, &f, WIRE_BYTES));
        TRY(parse_tensor_type(p, wire_message(&w, &f), port));
    }
    return KILN_OK;
}

static kiln_status parse_port(struct onnx_parser *p, struct wire w, struct onnx_port *port)
{
    struct wire_field f;
    struct wire again = w;
    port->name = "";
    EACH_FIELD(w, f) if (f.number == 1) TRY(take_text(p, &w, &f, &port->name));
    if (!*port->name) return wire_bad(&again, again.at, "an input or output has no name");
    EACH_FIELD(again, f)
    {
        if (f.number != 2) continue;
        TRY(wire_expect(&again, &f, WIRE_BYTES));
        TRY(parse_type(p, wire_message(&again, &f), port));
    }
    return KILN_OK;
}

// --- graphs

static kiln_status parse_graph_part(struct onnx_parser *p, const struct wire *w, const struct wire_field *f,
                                    struct onnx_graph *g)
{
    if (f->number == 2) return take_text(p, w, f, &g->name);
    if (f->number == 15) return error_set(KILN_E_UNSUPPORTED, "%s: has a sparse tensor", p->m->where);
    if (f->number != 1 && f->number != 5 && f->number != 11 && f->number != 12) return KILN_OK;
    TRY(wire_expect(w, f, WIRE_BYTES));
    struct wire part = wire_message(w, f);
    struct onnx_constant *c;
    switch (f->number) {
    case 1: g->nodes[g->n_nodes].index = g->n_nodes; return parse_node(p, part, &g->nodes[g->n_nodes++]);
    case 5:
        c = &g->constants[g->n_constants++];
        c->is_initialiser = true;
        TRY(vec_push(&p->m->constants, c));
        TRY(onnx_parse_tensor(p->m, part, c));
        return *c->name ? KILN_OK : wire_bad(w, f->begin, "an initialiser has no name");
    case 11: return parse_port(p, part, &g->in[g->n_in++]);
    default: return parse_port(p, part, &g->out[g->n_out++]);
    }
}

static kiln_status parse_graph(struct onnx_parser *p, struct wire w, struct onnx_graph *g)
{
    struct wire_field f;
    int32_t n_nodes, n_constants, n_in, n_out;
    TRY(count_fields(w, 1, &n_nodes));
    TRY(count_fields(w, 5, &n_constants));
    TRY(count_fields(w, 11, &n_in));
    TRY(count_fields(w, 12, &n_out));
    TRY(onnx_take(p->m, (size_t)n_nodes, sizeof *g->nodes, &g->nodes));
    TRY(onnx_take(p->m, (size_t)n_constants, sizeof *g->constants, &g->constants));
    TRY(onnx_take(p->m, (size_t)n_in, sizeof *g->in, &g->in));
    TRY(onnx_take(p->m, (size_t)n_out, sizeof *g->out, &g->out));
    g->name = "";
    EACH_FIELD(w, f) TRY(parse_graph_part(p, &w, &f, g));
    return KILN_OK;
}

// --- functions and the model

static kiln_status parse_opset(struct onnx_parser *p, struct wire w, int *opset)
{
    struct wire_field f;
    const char *domain = "";
    int64_t version = 0;
    EACH_FIELD(w, f)
    {
        if (f.number == 1) TRY(take_text(p, &w, &f, &domain));
        if (f.number == 2) TRY(take_number(&w, &f, &version));
    }
    if (*domain && strcmp(domain, "ai.onnx") != 0) return KILN_OK;
    if (*opset) return error_set(KILN_E_FORMAT, "%s: names the version of ONNX's operator set twice", p->m->where);
    *opset = version < 1 || version > 9999 ? 9999 : (int)version;
    return KILN_OK;
}

static kiln_status check_opset(const struct onnx_model *m, const char *of, int opset)
{
    if (!opset)
        return error_set(KILN_E_UNSUPPORTED, "%s: %s does not say which version of ONNX's operator set it uses",
                         m->where, of);
    if (opset >= ONNX_OPSET_MIN && opset <= ONNX_OPSET_MAX) return KILN_OK;
    return error_set(KILN_E_UNSUPPORTED, "%s: %s is of version %d of ONNX's operator set; versions %d to %d are read",
                     m->where, of, opset, ONNX_OPSET_MIN, ONNX_OPSET_MAX);
}

static kiln_status name_ports(struct onnx_parser *p, int32_t n, struct onnx_port **ports)
{
    return onnx_take(p->m, (size_t)n, sizeof **ports, ports);
}

static kiln_status parse_function_field(struct onnx_parser *p, const struct wire *w, const struct wire_field *f,
                                        struct onnx_function *fn)
{
    struct onnx_graph *g = &fn->body;
    switch (f->number) {
    case 1: return take_text(p, w, f, &fn->name);
    case 4: return take_text(p, w, f, &g->in[g->n_in++].name);
    case 5: return take_text(p, w, f, &g->out[g->n_out++].name);
    case 6: return take_text(p, w, f, &fn->attr_names[fn->n_attrs++]);
    case 7:
        TRY(wire_expect(w, f, WIRE_BYTES));
        g->nodes[g->n_nodes].index = g->n_nodes;
        return parse_node(p, wire_message(w, f), &g->nodes[g->n_nodes++]);
    case 9: TRY(wire_expect(w, f, WIRE_BYTES)); return parse_opset(p, wire_message(w, f), &g->opset);
    case 10: return take_text(p, w, f, &fn->domain);
    case 11:
        TRY(wire_expect(w, f, WIRE_BYTES));
        return parse_attr(p, wire_message(w, f), &fn->defaults[fn->n_defaults++]);
    case 13: return take_text(p, w, f, &fn->overload);
    default: return KILN_OK;
    }
}

static kiln_status parse_function(struct onnx_parser *p, struct wire w, struct onnx_function *fn)
{
    struct wire_field f;
    struct onnx_graph *g = &fn->body;
    int32_t n_in, n_out, n_attrs, n_nodes, n_defaults;
    fn->name = fn->domain = fn->overload = "";
    TRY(count_fields(w, 4, &n_in));
    TRY(count_fields(w, 5, &n_out));
    TRY(count_fields(w, 6, &n_attrs));
    TRY(count_fields(w, 7, &n_nodes));
    TRY(count_fields(w, 11, &n_defaults));
    TRY(name_ports(p, n_in, &g->in));
    TRY(name_ports(p, n_out, &g->out));
    TRY(onnx_take(p->m, (size_t)n_attrs, sizeof *fn->attr_names, &fn->attr_names));
    TRY(onnx_take(p->m, (size_t)n_nodes, sizeof *g->nodes, &g->nodes));
    TRY(onnx_take(p->m, (size_t)n_defaults, sizeof *fn->defaults, &fn->defaults));
    EACH_FIELD(w, f) TRY(parse_function_field(p, &w, &f, fn));
    g->name = fn->name;
    if (!*fn->name) return wire_bad(&w, w.at, "a function has no name");
    // One that uses nothing of ONNX needs not say which version.
    if (!g->opset) g->opset = p->m->opset;
    return check_opset(p->m, fn->name, g->opset);
}

static kiln_status parse_parts(struct onnx_parser *p, struct wire w, bool functions, bool *found)
{
    struct wire_field f;
    EACH_FIELD(w, f)
    {
        if (f.number != (functions ? 25u : 7u)) continue;
        TRY(wire_expect(&w, &f, WIRE_BYTES));
        if (functions) {
            TRY(parse_function(p, wire_message(&w, &f), &p->m->functions[p->m->n_functions++]));
            continue;
        }
        if (*found) return wire_bad(&w, f.begin, "the model has two graphs");
        *found = true;
        TRY(parse_graph(p, wire_message(&w, &f), &p->m->graph));
    }
    return KILN_OK;
}

kiln_status onnx_parse(struct onnx_model *m, const unsigned char *file, size_t size_B)
{
    struct onnx_parser p = {.m = m};
    struct wire w = {.at = file, .end = file + size_B, .file = file, .where = m->where}, again = w;
    struct wire_field f;
    int32_t n_functions;
    bool found = false;
    EACH_FIELD(w, f)
    {
        if (f.number != 8) continue;
        TRY(wire_expect(&w, &f, WIRE_BYTES));
        TRY(parse_opset(&p, wire_message(&w, &f), &m->opset));
    }
    TRY(check_opset(m, "the model", m->opset));
    TRY(count_fields(again, 25, &n_functions));
    TRY(onnx_take(m, (size_t)n_functions, sizeof *m->functions, &m->functions));
    TRY(parse_parts(&p, again, true, &found));
    TRY(parse_parts(&p, again, false, &found));
    m->graph.opset = m->opset;
    return found ? KILN_OK : error_set(KILN_E_FORMAT, "%s: is no ONNX model: it has no graph", m->where);
}
