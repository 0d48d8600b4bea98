// What goes with open dimensions.
//
// The function is captured for several sizes, each a row: a base, each open dimension moved by itself, all of them
// moved together. Their texts are equal but for numbers; each number that differs is fitted by an expression
// (fit_value.c). Where rows cannot tell which of two rounded quotients it is, a row is added that does. The last row is
// for none of this: the texts that came out are read with its sizes, and must be those of the capture.
#include "base/caller.h"
#include "jit/symbol.h"
#include "model/adding.h"
#include "model/fit_value.h"
#include "model/host.h"
#include "model/text.h"
#include <kiln/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = FIT_ROWS_MAX, LAST_ROWS = 8, NEAR = 6, FAR = 97, PARTS = 3, EXPRESSION_B = 512, SEARCH = 4096 };

struct row {
    struct texts t;
    token_list tokens[PARTS];
};

struct fitting {
    struct adding *a;
    struct row rows[ROWS_MAX];
    int64_t *sizes; // ROWS_MAX * n
    const char **names;
    size_t n, n_rows;
    struct kiln_graph *graph; // of the base, for messages
};

// --- sizes

static bool allows(const struct open_dim *o, int64_t size)
{
    const struct face_rule *r = &o->rule;
    return size >= r->min && size <= r->max && size > r->remainder && (size - r->remainder) % r->divisor == 0;
}

// The first size from `from` on that keeps the rule; -1: there is none.
static int64_t next_size(const struct open_dim *o, int64_t from)
{
    const struct face_rule *r = &o->rule;
    if (from < r->min) from = r->min;
    if (from <= r->remainder) from = r->remainder + 1;
    int64_t over = (from - r->remainder) % r->divisor;
    if (over) from += r->divisor - over;
    return allows(o, from) ? from : -1;
}

static int64_t step_from(const struct open_dim *o, int64_t from, int64_t steps)
{
    int64_t at = next_size(o, from + steps * o->rule.divisor);
    for (; at < 0 && steps > 1; steps /= 2) at = next_size(o, from + steps / 2 * o->rule.divisor);
    if (at >= 0) return at;
    at = next_size(o, 2);
    return at < 0 || at == from ? next_size(o, 0) : at;
}

// Sizes 0 and 1 are special to ops that broadcast; a base is larger where the rule allows it.
static int64_t base_size(const struct open_dim *o, size_t i)
{
    if (o->rule.seen > 1) return o->rule.seen;
    int64_t at = next_size(o, 3 + 2 * (int64_t)i);
    return at < 0 ? o->rule.seen : at;
}

// --- rows

static kiln_tensor *input_of(const struct fitting *f, size_t i, const struct type *t)
{
    const kiln_tensor *like = f->a->in[i];
    kiln_tensor *made = tensor_empty(like->storage->dev, t);
    if (!made || thread_state.no_grad || !tensor_requires_grad(like)) return made;
    bool leaf = like->node && like->node->kind == NODE_LEAF;
    if (kiln_set_requires_grad(made, true)) return NULL;
    return leaf ? made : kiln_mul(made, kiln_scalar(1));
}

static kiln_status make_inputs(const struct fitting *f, const int64_t *sizes, kiln_tensor **in)
{
    const struct adding *a = f->a;
    for (size_t i = 0; i < a->n_in; i++) {
        struct type t = a->in[i]->type;
        for (size_t k = 0; k < a->places.n; k++)
            if (a->places.v[k].input == i) t.dims[a->places.v[k].dim] = sizes[a->places.v[k].open];
        in[i] = type_equal(&t, &a->in[i]->type) ? a->in[i] : input_of(f, i, &t);
        if (!in[i]) return error_pending;
    }
    return KILN_OK;
}

static void say_sizes(const struct fitting *f, const int64_t *sizes, char *text, size_t size_B)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n && n < size_B; i++)
        n += (size_t)snprintf(text + n, size_B - n, "%s%s = %lld", i ? ", " : "", f->names[i], (long long)sizes[i]);
}

static kiln_status write_texts(struct adding *b, struct row *r, struct captured *c)
{
    TRY(adding_check(b, c));
    TRY(adding_gather(b, c, &r->t));
    const struct str *parts[PARTS] = {&r->t.interface, &r->t.forward, &r->t.backward};
    for (int p = 0; p < PARTS; p++) TRY(text_tokens(parts[p], &r->tokens[p]));
    return KILN_OK;
}

static kiln_status capture_row(struct fitting *f, struct row *r, const int64_t *sizes, struct kiln_graph **graph)
{
    struct adding b = *f->a;
    struct captured c = {0};
    kiln_tensor **in = calloc(b.n_in + 1, sizeof *in);
    b.open.v = malloc(sizeof *b.open.v * (f->n + 1));
    if (!in || !b.open.v) {
        free(in);
        free(b.open.v);
        return error_set(KILN_E_MEMORY, "model_add: out of memory");
    }
    memcpy(b.open.v, f->a->open.v, sizeof *b.open.v * f->n);
    for (size_t i = 0; i < f->n; i++) b.open.v[i].rule.seen = sizes[i];
    for (size_t i = 0; i < f->n; i++) b.open.v[i].rule.name = b.open.v[i].name;
    b.in = in;
    kiln_status status = make_inputs(f, sizes, in);
    if (!status) status = adding_record(&b, in, &c);
    if (!status) status = write_texts(&b, r, &c);
    if (!status && graph) {
        *graph = c.graph;
        c.graph = NULL;
    }
    captured_finish(&c);
    free(in);
    free(b.open.v);
    return status;
}

static kiln_status add_row(struct fitting *f, const int64_t *sizes, struct kiln_graph **graph)
{
    char text[400];
    for (size_t i = 0; i < f->n_rows; i++)
        if (!memcmp(f->sizes + i * f->n, sizes, sizeof *sizes * f->n)) return KILN_OK;
    if (f->n_rows == ROWS_MAX)
        return error_set(KILN_E_UNSUPPORTED, "model_add: what goes with the sizes of %s was not found in %d captures",
                         f->a->f->name, ROWS_MAX);
    memcpy(f->sizes + f->n_rows * f->n, sizes, sizeof *sizes * f->n);
    struct row *r = &f->rows[f->n_rows++];
    texts_init(&r->t);
    kiln_status status = capture_row(f, r, sizes, graph);
    if (status) {
        int n = snprintf(text, sizeof text, "model_add: %s has open dimensions; for ", f->a->f->name);
        say_sizes(f, sizes, text + n, sizeof text - (size_t)n);
        error_name_op(text);
    }
    return status;
}

static kiln_status add_rows(struct fitting *f)
{
    int64_t sizes[FIT_SIZES_MAX], base[FIT_SIZES_MAX];
    for (size_t i = 0; i < f->n; i++) base[i] = base_size(&f->a->open.v[i], i);
    TRY(add_row(f, base, &f->graph));
    for (size_t i = 0; i < f->n; i++)
        for (int64_t k = 1; k <= NEAR + 1; k++) {
            memcpy(sizes, base, sizeof base);
            sizes[i] = step_from(&f->a->open.v[i], base[i], k > NEAR ? FAR : k);
            TRY(add_row(f, sizes, NULL));
        }
    for (size_t k = 1; k <= f->n * f->n && f->n > 1; k++) {
        for (size_t i = 0; i < f->n; i++)
            sizes[i] = step_from(&f->a->open.v[i], base[i], (int64_t)(1 + (k * (2 * i + 1) + i) % 11));
        TRY(add_row(f, sizes, NULL));
    }
    return KILN_OK;
}

// --- places

static bool is_number(const struct token *t)
{
    return t->kind == TOKEN_NUMBER;
}

static bool is_float(const struct token *t)
{
    for (size_t i = 0; i < t->size_B; i++)
        if (strchr(".eEn", t->at[i])) return true;
    return false;
}

static bool same_token(const struct token *a, const struct token *b)
{
    return a->kind == b->kind && a->size_B == b->size_B && !memcmp(a->at, b->at, a->size_B);
}

static bool is_open_name(const struct fitting *f, const struct token *t)
{
    for (size_t i = 0; i < f->n; i++)
        if (t->kind == TOKEN_WORD && text_is(t, f->names[i])) return true;
    return false;
}

// `symbol n = 8`, and n=8 in a type: what was seen, which stays.
static bool is_seen_size(const struct fitting *f, const token_list *l, size_t i, bool in_brackets)
{
    if (i < 2 || !text_is(&l->v[i - 1], "=") || !is_open_name(f, &l->v[i - 2])) return false;
    return in_brackets || (i >= 3 && text_is(&l->v[i - 3], "symbol"));
}

static bool differs(const struct fitting *f, int part, size_t i)
{
    for (size_t r = 1; r < f->n_rows; r++)
        if (!same_token(&f->rows[0].tokens[part].v[i], &f->rows[r].tokens[part].v[i])) return true;
    return false;
}

// Of the same line, where sizes decide: its first attribute that differs from row to row.
static void find_attribute(const struct fitting *f, int part, size_t i, char *text, size_t size_B)
{
    const token_list *l = &f->rows[0].tokens[part];
    const struct token *name = NULL;
    int line = l->v[i].line;
    for (; i < l->n && l->v[i].line == line; i++) {
        bool of_attribute = i >= 2 && text_is(&l->v[i - 1], "=") && l->v[i - 2].kind == TOKEN_WORD;
        if (of_attribute) name = &l->v[i - 2];
        if (!name || !differs(f, part, i)) continue;
        snprintf(text, size_B, ", attribute %.*s", (int)name->size_B, name->at);
        return;
    }
}

static void find_line(const struct fitting *f, int32_t value, char *text, size_t size_B)
{
    const struct ir_value *v = value >= 0 && value < (int32_t)f->graph->values.n ? &f->graph->values.v[value] : NULL;
    uintptr_t caller = v && v->kind == IR_NODE ? f->graph->nodes.v[v->node].caller : 0;
    char place[CALLER_TEXT_MAX];
    if (!caller) return;
    caller_describe(caller, place, sizeof place);
    snprintf(text, size_B, ", at %s", place);
}

static const struct str *text_of(const struct row *r, int part)
{
    return part == 0 ? &r->t.interface : part == 1 ? &r->t.forward : &r->t.backward;
}

static kiln_status does_not_fit(const struct fitting *f, int part, size_t token, const char *why)
{
    static const char *const names[PARTS] = {"its interface", "its graph", "its backward graph"};
    const token_list *l = &f->rows[0].tokens[part];
    size_t i = token < l->n ? token : l->n - 1;
    char place[CALLER_TEXT_MAX + 8] = "", attribute[80] = "";
    const char *from = l->v[i].at, *text = str_text(text_of(&f->rows[0], part));
    while (from > text && from[-1] != '\n') from--;
    if (part == 1 && *from == '%') find_line(f, (int32_t)strtol(from + 1, NULL, 10), place, sizeof place);
    if (part) find_attribute(f, part, i, attribute, sizeof attribute);
    return error_set(KILN_E_UNSUPPORTED, "model_add: %s has open dimensions, and %s %s: %.*s%s%s", f->a->f->name,
                     names[part], why, (int)strcspn(from, "\n"), from, attribute, place);
}

// Whether all rows have the same words there.
static kiln_status check_alike(const struct fitting *f, int part)
{
    const token_list *base = &f->rows[0].tokens[part];
    for (size_t r = 1; r < f->n_rows; r++) {
        const token_list *l = &f->rows[r].tokens[part];
        for (size_t i = 0; i < base->n && i < l->n; i++) {
            bool numbers = is_number(&base->v[i]) && is_number(&l->v[i]);
            if (!numbers && !same_token(&base->v[i], &l->v[i]))
                return does_not_fit(f, part, i, "is another one for other sizes");
        }
        if (base->n != l->n) return does_not_fit(f, part, base->n, "is another one for other sizes");
    }
    return KILN_OK;
}

static kiln_status value_of(const struct token *t, int64_t *integer, double *number)
{
    struct parser p = {.at = t->at + t->size_B, .end = t->at + t->size_B, .token = *t, .name = "graph", .line = 1};
    return integer ? parse_int(&p, INT64_MIN, INT64_MAX, "an integer", integer) : parse_float(&p, number);
}

static struct fit_seen seen(const struct fitting *f)
{
    return (struct fit_seen){f->n_rows, f->n, f->sizes, f->names};
}

static kiln_status ints_of(const struct fitting *f, int part, size_t i, int64_t *v)
{
    for (size_t r = 0; r < f->n_rows; r++) TRY(value_of(&f->rows[r].tokens[part].v[i], &v[r], NULL));
    return KILN_OK;
}

static kiln_status fit_token(const struct fitting *f, int part, size_t i, char **out)
{
    char text[EXPRESSION_B];
    int64_t ints[ROWS_MAX];
    double floats[ROWS_MAX];
    const struct fit_seen s = seen(f);
    bool as_float = false, fits;
    for (size_t r = 0; r < f->n_rows; r++) as_float |= is_float(&f->rows[r].tokens[part].v[i]);
    for (size_t r = 0; r < f->n_rows && as_float; r++) TRY(value_of(&f->rows[r].tokens[part].v[i], NULL, &floats[r]));
    if (!as_float) TRY(ints_of(f, part, i, ints));
    fits = as_float ? fit_float(&s, floats, text, sizeof text) : fit_int(&s, ints, text, sizeof text);
    if (!fits) return does_not_fit(f, part, i, "has a number that goes with sizes in a way that was not found");
    *out = model_copy(text, strlen(text));
    return *out ? KILN_OK : error_pending;
}

// Calls visit for each number that differs between rows, sizes that were seen excepted.
typedef kiln_status visit_fn(struct fitting *f, int part, size_t i, void *user);
static kiln_status each_number(struct fitting *f, int part, visit_fn *visit, void *user)
{
    const token_list *l = &f->rows[0].tokens[part];
    char open[64] = ""; // brackets
    size_t depth = 0;
    for (size_t i = 0; i < l->n; i++) {
        const struct token *t = &l->v[i];
        char c = t->kind == TOKEN_SIGN && t->size_B == 1 ? *t->at : 0;
        if ((c == '[' || c == '{' || c == '(') && depth < sizeof open) open[depth++] = c;
        if ((c == ']' || c == '}' || c == ')') && depth) depth--;
        if (!is_number(t) || !differs(f, part, i)) continue;
        if (!is_seen_size(f, l, i, depth && open[depth - 1] == '[')) TRY(visit(f, part, i, user));
    }
    return KILN_OK;
}

// --- quotients

static int64_t floored(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

// A row that tells two offsets apart.
static kiln_status settle(struct fitting *f, int part, size_t i, void *user)
{
    bool *more = user;
    int64_t v[ROWS_MAX], sizes[FIT_SIZES_MAX];
    const struct fit_seen s = seen(f);
    struct fit_quotient q;
    if (is_float(&f->rows[0].tokens[part].v[i]) || *more) return KILN_OK;
    TRY(ints_of(f, part, i, v));
    if (!fit_is_quotient(&s, v, &q) || q.low == q.high) return KILN_OK;
    const struct open_dim *o = &f->a->open.v[q.of];
    memcpy(sizes, f->sizes, sizeof *sizes * f->n);
    int64_t at = next_size(o, 2);
    for (int k = 0; k < SEARCH && at >= 0; k++, at = next_size(o, at + 1)) {
        if (floored(q.p * at + q.low, q.q) == floored(q.p * at + q.high, q.q)) continue;
        sizes[q.of] = at;
        *more = true;
        return add_row(f, sizes, NULL);
    }
    return KILN_OK;
}

static kiln_status settle_quotients(struct fitting *f)
{
    bool more = true;
    while (more) {
        more = false;
        for (int p = 1; p <= PARTS; p++) { // graphs first, whose lines say more
            TRY(check_alike(f, p % PARTS));
            TRY(each_number(f, p % PARTS, settle, &more));
        }
    }
    return KILN_OK;
}

// --- writing

static kiln_status note_expression(struct fitting *f, int part, size_t i, void *user)
{
    char **with = user;
    return fit_token(f, part, i, &with[i]);
}

static kiln_status write_part(struct fitting *f, int part, const struct str *from, struct str *out)
{
    const token_list *l = &f->rows[0].tokens[part];
    char **with = calloc(l->n + 1, sizeof *with);
    if (!with) return error_set(KILN_E_MEMORY, "model_add: out of memory");
    kiln_status status = each_number(f, part, note_expression, (void *)with);
    if (!status) status = text_replace(from, l, with, out);
    for (size_t i = 0; i < l->n; i++) free(with[i]);
    free((void *)with);
    return status;
}

// --- the last row

static kiln_status same_interfaces(const struct fitting *f, const struct texts *fitted, const struct texts *of,
                                   const struct ir_sizes *sizes, bool *same)
{
    struct interface x = {0}, y = {0};
    struct str a, b;
    const struct face_names names = model_names(f->a->m);
    str_init(&a);
    str_init(&b);
    kiln_status status =
        interface_parse(str_text(&fitted->interface), fitted->interface.len, "model_add", &names, sizes, &x);
    if (!status) status = interface_parse(str_text(&of->interface), of->interface.len, "model_add", &names, sizes, &y);
    for (size_t i = 0; i < x.rules.n && !status; i++) x.rules.v[i].seen = y.rules.v[i].seen;
    if (!status) interface_text(&x, &names, &a);
    if (!status) interface_text(&y, &names, &b);
    *same = !status && !strcmp(str_text(&a), str_text(&b));
    interface_finish(&x);
    interface_finish(&y);
    str_free(&a);
    str_free(&b);
    return status;
}

static kiln_status same_graphs(const struct str *fitted, const struct str *of, const struct ir_sizes *sizes, bool *same)
{
    struct kiln_graph *g = ir_parse_sized(str_text(fitted), fitted->len, "model_add", sizes);
    struct kiln_graph *h = g ? ir_parse_sized(str_text(of), of->len, "model_add", sizes) : NULL;
    bool infers = g || error_pending == KILN_E_MEMORY; // what was found may be no graph for these sizes
    if (!infers) kiln_error_clear();
    *same = g && h && ir_graph_equal(g, h);
    ir_graph_destroy(&g);
    ir_graph_destroy(&h);
    return error_pending;
}

static kiln_status holds(const struct fitting *f, const struct texts *fitted, const struct texts *of,
                         const struct ir_sizes *sizes, bool *same)
{
    TRY(same_interfaces(f, fitted, of, sizes, same));
    if (*same) TRY(same_graphs(&fitted->forward, &of->forward, sizes, same));
    if (*same && fitted->backward.len) TRY(same_graphs(&fitted->backward, &of->backward, sizes, same));
    return KILN_OK;
}

// *same: what was found holds for other sizes, or the rules allow no others. Else there is one more row to fit.
static kiln_status check_last(struct fitting *f, const struct texts *fitted, int64_t attempt, bool *same)
{
    int64_t sizes[FIT_SIZES_MAX];
    size_t before = f->n_rows;
    *same = true;
    for (size_t i = 0; i < f->n; i++)
        sizes[i] = step_from(&f->a->open.v[i], f->sizes[i], 13 + 10 * (int64_t)i + 17 * attempt);
    TRY(add_row(f, sizes, NULL));
    if (f->n_rows == before) return KILN_OK;
    struct host_numbers numbers = {0};
    size_list list = {0};
    kiln_status status = host_numbers_of(f->a->m, &numbers, &list);
    for (size_t i = 0; i < f->n && !status; i++) {
        const struct ir_size s = {f->names[i], sizes[i]};
        status = vec_push(&list, s);
    }
    const struct ir_sizes s = {list.n, list.v};
    if (!status) status = holds(f, fitted, &f->rows[before].t, &s, same);
    host_numbers_drop(&numbers);
    vec_free(&list);
    return status;
}

static kiln_status write_all(struct fitting *f, struct texts *out)
{
    TRY(settle_quotients(f));
    texts_free(out);
    texts_init(out);
    TRY(write_part(f, 1, &f->rows[0].t.forward, &out->forward));
    TRY(write_part(f, 2, &f->rows[0].t.backward, &out->backward));
    return write_part(f, 0, &f->rows[0].t.interface, &out->interface);
}

static kiln_status fit(struct fitting *f, struct texts *out)
{
    bool same = false;
    TRY(add_rows(f));
    for (int64_t i = 0; i < LAST_ROWS && !same; i++) {
        TRY(write_all(f, out));
        TRY(check_last(f, out, i, &same));
    }
    if (same) return KILN_OK;
    return error_set(
        KILN_E_UNSUPPORTED,
        "model_add: %s has open dimensions, and what was found of how its graph goes with their sizes does "
        "not hold for others",
        f->a->f->name);
}

static void finish(struct fitting *f)
{
    for (size_t i = 0; i < f->n_rows; i++) {
        texts_free(&f->rows[i].t);
        for (int p = 0; p < PARTS; p++) vec_free(&f->rows[i].tokens[p]);
    }
    free(f->sizes);
    free((void *)f->names);
    ir_graph_destroy(&f->graph);
    free(f);
}

kiln_status fit_texts(struct adding *a, struct texts *out)
{
    if (a->open.n > FIT_SIZES_MAX)
        return error_set(KILN_E_UNSUPPORTED, "model_add: %s has %zu open dimensions, %d at most can be found",
                         a->f->name, a->open.n, FIT_SIZES_MAX);
    struct fitting *f = calloc(1, sizeof *f);
    if (!f) return error_set(KILN_E_MEMORY, "model_add: out of memory");
    f->a = a;
    f->n = a->open.n;
    f->sizes = calloc(ROWS_MAX * f->n + 1, sizeof *f->sizes);
    f->names = calloc(f->n + 1, sizeof *f->names);
    kiln_status status = f->sizes && f->names ? KILN_OK : error_set(KILN_E_MEMORY, "model_add: out of memory");
    for (size_t i = 0; i < f->n && !status; i++) f->names[i] = a->open.v[i].name;
    if (!status) status = fit(f, out);
    finish(f);
    return status;
}
