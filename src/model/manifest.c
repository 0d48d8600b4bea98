// What the functions of a file share, as text.
#include "model/manifest.h"
#include "ir/parse.h"
#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 1 << 20 };

static const char *const roles[] = {
    [WEIGHT_CONSTANT] = "constant", [WEIGHT_STATE] = "state", [WEIGHT_PARAMETER] = "parameter"};

void manifest_text(const struct model *m, struct str *s)
{
    str_addf(s, "kiln %d\n", IR_TEXT_VERSION);
    for (size_t i = 0; i < m->weights.n; i++) {
        str_addf(s, "%s ", roles[m->weights.v[i].role]);
        ir_string_text(m->weights.v[i].name, s);
        str_add(s, "\n");
    }
    for (size_t i = 0; i < m->hosts.n; i++) {
        const char *const texts[] = {m->hosts.v[i].kind, m->hosts.v[i].text, m->hosts.v[i].place};
        str_add(s, "host");
        for (size_t k = 0; k < COUNT_OF(texts); k++) {
            str_add(s, " ");
            ir_string_text(texts[k], s);
        }
        str_add(s, "\n");
    }
    for (size_t i = 0; i < m->ops.n; i++) {
        const struct model_op *op = &m->ops.v[i];
        str_add(s, "op ");
        ir_string_text(op->name, s);
        str_addf(s, " %d ", op->n_in);
        ir_string_text(op->expr, s);
        for (int k = 0; k < op->n_in; k++) {
            str_add(s, op->grads[k] ? " " : " none");
            if (op->grads[k]) ir_string_text(op->grads[k], s);
        }
        str_add(s, "\n");
    }
}

static kiln_status read_text(struct parser *p, char **out)
{
    const char *text;
    TRY(parse_text(p, &text));
    *out = model_copy(text, strlen(text));
    return *out ? KILN_OK : error_pending;
}

static kiln_status read_role(struct parser *p, struct model *m, enum weight_role role)
{
    struct token at = p->token;
    const char *name;
    TRY(parse_string(p, &name));
    int32_t w = model_find_weight(m, name);
    if (w < 0) return parse_fail(p, &at, "the file has no tensor \"%.200s\"", name);
    struct model_weight *of = &m->weights.v[w];
    if (of->has_role) return parse_fail(p, &at, "tensor \"%.200s\" has a role already", name);
    of->has_role = true;
    of->role = role;
    return KILN_OK;
}

static kiln_status read_host(struct parser *p, struct model *m)
{
    struct model_host h = {0};
    if (m->hosts.n == IR_MAX_SYMBOLS)
        return parse_fail(p, &p->token, "there are more than %d calls of the host", IR_MAX_SYMBOLS);
    TRY(vec_push(&m->hosts, h));
    struct model_host *to = &m->hosts.v[m->hosts.n - 1];
    TRY(read_text(p, &to->kind));
    TRY(read_text(p, &to->text));
    return read_text(p, &to->place);
}

static kiln_status read_op(struct parser *p, struct model *m)
{
    struct model_op op = {0};
    int64_t n_in;
    kiln_status status;
    TRY(vec_push(&m->ops, op));
    struct model_op *to = &m->ops.v[m->ops.n - 1];
    TRY(read_text(p, &to->name));
    TRY(parse_int(p, 1, (int64_t)COUNT_OF(to->grads), "a number of inputs", &n_in));
    to->n_in = (int)n_in;
    TRY(read_text(p, &to->expr));
    for (int i = 0; i < to->n_in; i++) {
        if (parse_accept(p, "none", &status))
            TRY(status);
        else
            TRY(read_text(p, &to->grads[i]));
    }
    return KILN_OK;
}

static kiln_status read_line(struct parser *p, struct model *m)
{
    kiln_status status;
    for (size_t i = 0; i < COUNT_OF(roles); i++)
        if (parse_accept(p, roles[i], &status)) return status ? status : read_role(p, m, (enum weight_role)i);
    if (parse_accept(p, "host", &status)) return status ? status : read_host(p, m);
    if (parse_accept(p, "op", &status)) return status ? status : read_op(p, m);
    return parse_expected(p, "a line of a manifest");
}

static kiln_status read_lines(struct parser *p, struct model *m)
{
    TRY(parse_next(p));
    TRY(parse_header(p));
    for (size_t n = 0; p->token.kind != TOKEN_END; n++) {
        if (n == LINES_MAX) return parse_fail(p, &p->token, "a manifest has %d lines at most", LINES_MAX);
        TRY(read_line(p, m));
    }
    return KILN_OK;
}

kiln_status manifest_parse(struct model *m, const char *text, size_t size_B, const char *where)
{
    struct parser p;
    parse_begin(&p, text, size_B, where);
    kiln_status status = p.g ? read_lines(&p, m) : error_pending;
    parse_finish(&p);
    ir_graph_destroy(&p.g);
    return status;
}
