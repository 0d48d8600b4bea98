// Writing what a captured function is beside its graphs.
#include "model/interface.h"
#include "ir/graph_text.h"
#include <stdio.h>

struct writer {
    const struct interface *f;
    const struct face_names *weights;
    struct str *s;
};

static void type(const struct writer *w, const struct type *t, const int16_t *symbols)
{
    str_addf(w->s, "%s%s[", t->weak ? "weak " : "", dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) {
        if (i) str_add(w->s, ",");
        if (symbols && symbols[i]) str_addf(w->s, "%s=", w->f->rules.v[symbols[i] - 1].name);
        str_addf(w->s, "%lld", (long long)t->dims[i]);
    }
    str_add(w->s, "]");
}

static void number(const struct writer *w, const struct type *t, double v, int64_t i)
{
    const struct ir_value value = {.kind = IR_NUMBER, .type = *t, .number = v, .integer = i};
    ir_number_text(&value, w->s);
}

static void rules(const struct writer *w)
{
    for (size_t i = 0; i < w->f->rules.n; i++) {
        const struct face_rule *r = &w->f->rules.v[i];
        str_addf(w->s, "symbol %s = %lld\n", r->name, (long long)r->seen);
        str_addf(w->s, "rule %s %lld %lld %lld %lld\n", r->name, (long long)r->min, (long long)r->max,
                 (long long)r->divisor, (long long)r->remainder);
    }
}

static void inputs(const struct writer *w)
{
    for (size_t i = 0; i < w->f->in.n; i++) {
        const struct face_input *in = &w->f->in.v[i];
        str_add(w->s, "input ");
        ir_string_text(in->name, w->s);
        str_add(w->s, " ");
        type(w, &in->type, in->symbols);
        if (in->fixed) str_add(w->s, " = ");
        if (in->fixed) number(w, &in->type, in->number, in->integer);
        str_add(w->s, "\n");
    }
}

static void flag(const struct writer *w, bool is, const char *word)
{
    if (is) str_addf(w->s, " %s", word);
}

static void sources(const struct writer *w)
{
    static const char *const words[] = {"input", "weight", "gradient", "input_gradient"};
    for (size_t i = 0; i < w->f->sources.n; i++) {
        const struct face_source *from = &w->f->sources.v[i];
        str_addf(w->s, "from %s ", words[from->from]);
        if (from->from == FROM_WEIGHT || from->from == FROM_GRADIENT)
            ir_string_text(w->weights->name(w->weights->user, from->index), w->s);
        else
            str_addf(w->s, "%d", (int)from->index);
        flag(w, from->written, "written");
        flag(w, from->again, "again");
        flag(w, from->grad, "grad");
        flag(w, from->gradient_read, "gradient_read");
        flag(w, from->changed, "changed");
        flag(w, from->no_gradient, "no_gradient");
        str_add(w->s, "\n");
    }
}

static void layout(const struct writer *w, const struct type *t, const struct layout *l)
{
    str_add(w->s, " at [");
    for (int i = 0; i < t->rank; i++) str_addf(w->s, "%s%lld", i ? ", " : "", (long long)l->strides[i]);
    str_addf(w->s, "] %lld", (long long)l->offset);
}

static void results(const struct writer *w)
{
    static const char *const words[] = {
        [RESULT_OUTPUT] = "output", [RESULT_SOURCE] = "source", [RESULT_NUMBER] = "number"};
    for (size_t i = 0; i < w->f->results.n; i++) {
        const struct face_result *r = &w->f->results.v[i];
        str_add(w->s, "result ");
        ir_string_text(r->name, w->s);
        str_add(w->s, " ");
        type(w, &r->r.type, NULL);
        str_addf(w->s, " %s ", words[r->r.kind]);
        if (r->r.kind == RESULT_NUMBER)
            number(w, &r->r.type, r->r.number, r->r.integer);
        else
            str_addf(w->s, "%d", (int)r->r.index);
        flag(w, r->r.dense, "dense");
        if (r->placed) layout(w, &r->r.type, &r->r.layout);
        str_add(w->s, "\n");
    }
}

static void effects(const struct writer *w)
{
    const struct interface *f = w->f;
    for (size_t i = 0; i < f->left.n; i++)
        str_addf(w->s, "left %d %d\n", (int)f->left.v[i].source, (int)f->left.v[i].output);
    for (size_t i = 0; i < f->happened.n; i++) {
        const struct happened *h = &f->happened.v[i];
        str_addf(w->s, "wrote %d %d %zu %d\n", (int)h->value, (int)h->target, h->n_nodes, (int)h->region);
    }
    for (size_t i = 0; i < f->steps.n; i++) {
        const struct gradient_step *g = &f->steps.v[i];
        str_addf(w->s, "step %d %d %d %d %d %d %d %zu\n", (int)g->event, (int)g->accumulate, (int)g->keep,
                 (int)g->source, (int)g->input, (int)g->value, (int)g->output, g->n_nodes);
    }
    if (f->counters) str_addf(w->s, "draws %llu\n", (unsigned long long)f->counters);
}

static void gradient(const struct writer *w)
{
    const struct interface *f = w->f;
    for (size_t i = 0; i < f->targets.n; i++) {
        const struct face_target *t = &f->targets.v[i];
        str_addf(w->s, "target %d %d %d\n", (int)t->target.input, (int)t->target.source, (int)t->output);
    }
    for (size_t i = 0; i < f->saved.n; i++) {
        str_addf(w->s, "saved %d %d ", (int)f->saved.v[i].source, (int)f->saved.v[i].output);
        type(w, &f->saved.v[i].type, NULL);
        str_add(w->s, "\n");
    }
    for (size_t i = 0; i < f->rewritten.n; i++) {
        const struct rewritten *r = &f->rewritten.v[i];
        str_addf(w->s, "rewritten %d %d %d\n", (int)r->input, (int)r->source, (int)r->output);
    }
    for (size_t i = 0; i < f->places.n; i++) {
        const struct face_place *p = &f->places.v[i];
        str_addf(w->s, "place %d %d ", (int)p->value, (int)p->dout);
        type(w, &p->type, NULL);
        if (p->used_up) str_add(w->s, " ");
        if (p->used_up) ir_string_text(p->used_up, w->s);
        str_add(w->s, "\n");
    }
    if (f->unlike) str_add(w->s, "once\n");
    if (f->without) str_add(w->s, "no_gradient\n");
}

void interface_text(const struct interface *f, const struct face_names *weights, struct str *s)
{
    const struct writer w = {f, weights, s};
    str_addf(s, "kiln %d\nfunction ", IR_TEXT_VERSION);
    ir_string_text(f->name, s);
    str_add(s, "\n");
    rules(&w);
    inputs(&w);
    sources(&w);
    results(&w);
    effects(&w);
    gradient(&w);
}
