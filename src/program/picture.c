// From a plan to boxes: the nodes of the graph after all passes, its inputs and results; where these are too many to
// look at, the launches.
#include "program/picture.h"
#include "base/quantity.h"
#include "base/where.h"
#include "program/facts.h"
#include <stdlib.h>
#include <string.h>

enum { NODES_MOST = 500, LAUNCHES_MOST = 1500 };

struct draw {
    struct program_maker *m;
    struct picture p;
    int32_t *box_of;    // by value; -1: it is not drawn
    int32_t *step_of;   // by node; -1: no launch
    struct str *titles; // by step: what its kernel is; made once
    struct str text;    // of one box
};

// --- texts

static double width_of(const char *a, const char *b)
{
    size_t n = strlen(a) > strlen(b) ? strlen(a) : strlen(b);
    return 7.2 * (double)n + 18;
}

static const char *step_name(const struct program_maker *m, const struct fuse_step *s)
{
    return s->kernel ? s->kernel->name : m->units.v.v[s->units[0]].l.op ? m->units.v.v[s->units[0]].l.op : "region";
}

static void add_cost(struct str *s, const struct launch_facts *f)
{
    str_add(s, "reads ");
    str_add_bytes(s, f->read_B);
    str_add(s, ", writes ");
    str_add_bytes(s, f->written_B);
    if (f->flops > 0) str_add(s, ", ");
    if (f->flops > 0) str_add_flops(s, f->flops);
    str_add(s, "\n");
}

static kiln_status step_facts(struct program_maker *m, const struct fuse_step *s, struct launch_facts **out)
{
    struct launch l;
    const struct unit *u = &m->units.v.v[s->units[0]];
    *out = NULL;
    if (s->kernel) return facts_of_steps(m, s, 1, out);
    if (u->region) return KILN_OK;
    unit_plain(u, &l);
    return facts_of_unit(m, u, &l, out);
}

static kiln_status make_titles(struct draw *d)
{
    struct program_maker *m = d->m;
    for (size_t i = 0; i < m->schedule.steps.n; i++) {
        const struct fuse_step *s = &m->schedule.steps.v[i];
        struct launch_facts *f;
        TRY(step_facts(m, s, &f));
        str_addf(&d->titles[i], "kernel %zu of %zu: %s", i + 1, m->schedule.steps.n, step_name(m, s));
        if (s->n_units > 1) str_addf(&d->titles[i], ", of %d ops", s->n_units);
        if (s->table >= 0) str_add(&d->titles[i], ", in one launch with others");
        str_add(&d->titles[i], "\n");
        if (f) add_cost(&d->titles[i], f);
        if (s->why) str_addf(&d->titles[i], "not fused further: %s\n", s->why);
    }
    return KILN_OK;
}

// --- boxes

static int32_t add_box(struct draw *d, struct picture_box b, const char *label, const char *type)
{
    b.label = strdup(label);
    b.type = strdup(type);
    b.title = strdup(str_text(&d->text));
    b.width = width_of(label, type);
    bool ok = b.label && b.type && b.title && !d->text.failed;
    if (!ok) error_set(KILN_E_MEMORY, "explain: out of memory");
    if (ok && !vec_push(&d->p.boxes, b)) return (int32_t)d->p.boxes.n - 1;
    free(b.label);
    free(b.type);
    free(b.title);
    return -1;
}

static void restart(struct draw *d)
{
    str_free(&d->text);
    str_init(&d->text);
}

static kiln_status join(struct draw *d, int32_t from, int32_t to)
{
    struct picture_edge e = {from, to};
    if (from < 0 || from == to) return KILN_OK;
    for (size_t i = d->p.edges.n; i-- > 0 && d->p.edges.v[i].to == to;)
        if (d->p.edges.v[i].from == from) return KILN_OK;
    return vec_push(&d->p.edges, e);
}

static void add_line_of(struct draw *d, uintptr_t caller)
{
    char place[512];
    if (caller && where_describe(caller, place, sizeof place)) str_addf(&d->text, "%s\n", place);
}

static const char *type_at(const struct draw *d, int32_t value, char *text, size_t size_B)
{
    return type_text(&d->m->g->values.v[value].type, text, size_B);
}

static void add_operands(struct draw *d, const struct ir_node *n)
{
    char text[TYPE_TEXT_MAX];
    const struct kiln_graph *g = d->m->g;
    for (int i = 0; i < n->n_in; i++) {
        int32_t v = ir_operands(g, n)[i];
        if (v < 0) continue;
        const struct ir_value *value = &g->values.v[v];
        str_addf(&d->text, "%s%s", i ? ", " : "takes ", type_at(d, v, text, sizeof text));
        if (value->kind == IR_NUMBER) str_addf(&d->text, " %g", value->number);
        if (value->name) str_addf(&d->text, " %s", value->name);
    }
    if (n->n_in) str_add(&d->text, "\n");
}

static kiln_status add_node(struct draw *d, int32_t node)
{
    char type[TYPE_TEXT_MAX];
    const struct kiln_graph *g = d->m->g;
    const struct ir_node *n = &g->nodes.v[node];
    int32_t step = d->step_of[node];
    uint64_t size_B = 0;
    if (n->region >= 0 || !ir_node_outputs(n)) return KILN_OK;
    restart(d);
    str_addf(&d->text, "%s\n", n->op->name);
    add_operands(d, n);
    str_addf(&d->text, "gives %s", type_at(d, n->first_out, type, sizeof type));
    if (g->values.v[n->first_out].type.dtype != DTYPE_TOKEN && !type_size_B(&g->values.v[n->first_out].type, &size_B))
        str_addf(&d->text, ", %llu bytes", (unsigned long long)size_B);
    str_add(&d->text, "\n");
    str_add(&d->text, step < 0 ? "no launch: a view, or computed where it is read\n" : str_text(&d->titles[step]));
    add_line_of(d, n->caller);
    struct picture_box b = {
        .kind = PICTURE_OP, .step = step, .fused = step >= 0 && d->m->schedule.steps.v[step].n_units > 1};
    int32_t at = add_box(d, b, n->op->name, type);
    if (at < 0) return error_pending;
    for (int i = 0; i < ir_node_outputs(n); i++) d->box_of[n->first_out + i] = at;
    for (int i = 0; i < n->n_in; i++)
        if (ir_operands(g, n)[i] >= 0) TRY(join(d, d->box_of[ir_operands(g, n)[i]], at));
    for (int32_t r = n->first_region; r < n->first_region + n->n_regions; r++) // what is reached from inside
        for (int32_t k = g->regions.v[r].first_node; k < g->regions.v[r].first_node + g->regions.v[r].n_nodes; k++)
            for (int i = 0; i < g->nodes.v[k].n_in; i++) {
                int32_t v = ir_operands(g, &g->nodes.v[k])[i];
                if (v >= 0 && d->box_of[v] < at) TRY(join(d, d->box_of[v], at));
            }
    return KILN_OK;
}

static kiln_status add_input(struct draw *d, int32_t value)
{
    char type[TYPE_TEXT_MAX];
    const struct ir_value *v = &d->m->g->values.v[value];
    if (v->kind != IR_INPUT && v->kind != IR_CONSTANT) return KILN_OK;
    restart(d);
    const char *name = v->name ? v->name : v->kind == IR_CONSTANT ? "constant" : "input";
    str_addf(&d->text, "%s %s\n%s\n", v->kind == IR_INPUT ? "input" : "constant", name,
             type_at(d, value, type, sizeof type));
    d->box_of[value] = add_box(d, (struct picture_box){.kind = PICTURE_INPUT, .step = -1}, name, type);
    return d->box_of[value] < 0 ? error_pending : KILN_OK;
}

static kiln_status add_output(struct draw *d, size_t i)
{
    char type[TYPE_TEXT_MAX], label[64];
    const struct ir_output *o = &d->m->g->outputs.v[i];
    snprintf(label, sizeof label, "%s", o->name ? o->name : "out");
    restart(d);
    str_addf(&d->text, "%s %s\n%s\n", o->target < 0 ? "result" : "written to", label,
             type_at(d, o->value, type, sizeof type));
    int32_t at = add_box(d, (struct picture_box){.kind = PICTURE_OUTPUT, .step = -1}, label, type);
    return at < 0 ? error_pending : join(d, d->box_of[o->value], at);
}

static kiln_status draw_nodes(struct draw *d)
{
    const struct kiln_graph *g = d->m->g;
    for (size_t i = 0; i < g->values.n; i++) TRY(add_input(d, (int32_t)i));
    for (size_t i = 0; i < g->nodes.n; i++) TRY(add_node(d, (int32_t)i));
    for (size_t i = 0; i < g->outputs.n; i++) TRY(add_output(d, i));
    return KILN_OK;
}

// --- launches: edges go by buffers, from the last one that wrote them

static void each_buffer(const struct draw *d, const struct fuse_step *s, int i, int32_t *buffer, bool *write)
{
    if (s->kernel) {
        *buffer = (int32_t)fused_access_at(s->kernel, i)->buffer;
        *write = i >= s->kernel->n_in;
        return;
    }
    const struct unit *u = &d->m->units.v.v[s->units[0]];
    *write = unit_writes(u, i);
    *buffer = *write || unit_reads(u, i) ? (int32_t)unit_operands(u)[i].slot : -1;
}

static kiln_status draw_launch(struct draw *d, size_t i, int32_t *writer)
{
    const struct fuse_step *s = &d->m->schedule.steps.v[i];
    int n = s->kernel ? s->kernel->n_in + s->kernel->n_out : unit_n_operands(&d->m->units.v.v[s->units[0]]);
    char label[48];
    restart(d);
    str_add(&d->text, str_text(&d->titles[i]));
    int32_t node = d->m->units.v.v[s->units[s->n_units - 1]].node;
    if (node >= 0) add_line_of(d, d->m->g->nodes.v[node].caller);
    snprintf(label, sizeof label, "%.40s", step_name(d->m, s));
    struct picture_box b = {.kind = PICTURE_LAUNCH, .step = (int32_t)i, .fused = s->n_units > 1};
    int32_t at = add_box(d, b, label, s->n_units > 1 ? "fused" : "op"), buffer;
    bool write;
    for (int k = 0; k < n && at >= 0; k++) {
        each_buffer(d, s, k, &buffer, &write);
        if (buffer >= 0 && !write) TRY(join(d, writer[buffer], at));
    }
    for (int k = 0; k < n && at >= 0; k++) {
        each_buffer(d, s, k, &buffer, &write);
        if (buffer >= 0 && write) writer[buffer] = at;
    }
    return at < 0 ? error_pending : KILN_OK;
}

static kiln_status draw_launches(struct draw *d)
{
    size_t n = d->m->units.buffers.n;
    int32_t *writer = malloc((n + 1) * sizeof *writer);
    if (!writer) return error_set(KILN_E_MEMORY, "explain: out of memory");
    memset(writer, 0xff, (n + 1) * sizeof *writer);
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < d->m->schedule.steps.n && !status; i++) status = draw_launch(d, i, writer);
    free(writer);
    return status;
}

// --- the whole

static void finish(struct draw *d)
{
    for (size_t i = 0; i < d->p.boxes.n; i++) {
        free(d->p.boxes.v[i].label);
        free(d->p.boxes.v[i].type);
        free(d->p.boxes.v[i].title);
    }
    for (size_t i = 0; d->titles && i < d->m->schedule.steps.n; i++) str_free(&d->titles[i]);
    vec_free(&d->p.boxes);
    vec_free(&d->p.edges);
    str_free(&d->text);
    free(d->titles);
    free(d->box_of);
    free(d->step_of);
}

static kiln_status start(struct draw *d)
{
    const struct program_maker *m = d->m;
    size_t n_steps = m->schedule.steps.n;
    d->box_of = malloc((m->g->values.n + 1) * sizeof *d->box_of);
    d->step_of = malloc((m->g->nodes.n + 1) * sizeof *d->step_of);
    d->titles = calloc(n_steps + 1, sizeof *d->titles);
    str_init(&d->text);
    if (!d->box_of || !d->step_of || !d->titles) return error_set(KILN_E_MEMORY, "explain: out of memory");
    memset(d->box_of, 0xff, (m->g->values.n + 1) * sizeof *d->box_of);
    memset(d->step_of, 0xff, (m->g->nodes.n + 1) * sizeof *d->step_of);
    for (size_t i = 0; i < n_steps; i++) str_init(&d->titles[i]);
    for (size_t i = n_steps; i-- > 0;) // of several the first
        for (int k = 0; k < m->schedule.steps.v[i].n_units; k++) {
            int32_t node = m->units.v.v[m->schedule.steps.v[i].units[k]].node;
            if (node >= 0) d->step_of[node] = (int32_t)i;
        }
    return KILN_OK;
}

static kiln_status draw(struct draw *d, bool launches)
{
    TRY(start(d));
    TRY(make_titles(d));
    TRY(launches ? draw_launches(d) : draw_nodes(d));
    return picture_layout(&d->p);
}

kiln_status picture_take(struct str *out, struct program_maker *m)
{
    struct draw d = {.m = m};
    bool launches = m->g->nodes.n > NODES_MOST;
    if (launches && m->schedule.steps.n > LAUNCHES_MOST) {
        str_addf(out, "<p>%zu launches are too many to draw.</p>\n", m->schedule.steps.n);
        return KILN_OK;
    }
    kiln_status status = draw(&d, launches);
    if (!status) {
        str_add(out, "<figure>\n");
        picture_svg(&d.p, out);
        str_addf(out, "<figcaption>%s</figcaption></figure>\n",
                 launches ? "Launches, one a box, from top to bottom."
                          : "Ops after all passes; those of one colour are one kernel.");
    }
    finish(&d);
    return status ? status : str_check(out);
}
