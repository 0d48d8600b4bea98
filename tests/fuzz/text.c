// A program as text: where its sources lie, what happens before calls, its steps with what they made.
#include "world.h"

static const char *const source_names[] = {"input",  "state",   "parameter",  "constant",
                                           "number", "mutable", "host number"};
static const char *const form_names[FORMS] = {"",         " transposed", " every second",
                                              " flipped", " with gaps",  " repeated"};
static const char *const gradient_names[GRADIENTS] = {"no gradient",
                                                      "backward through the call",
                                                      "backward through that backward",
                                                      "backward in the function",
                                                      "value_and_grad of the steps",
                                                      "grad of the grad of the steps"};
static const char *const event_names[EVENTS] = {"",
                                                "other rules are registered",
                                                "no_grad",
                                                "parameters are frozen",
                                                "parameters are thawed",
                                                "parameters are written",
                                                "states are written with a gradient"};

static void print_source(const struct program *p, int i, FILE *f)
{
    int64_t dims[MAX_SOURCE_RANK];
    const struct source *s = &p->source[i];
    fprintf(f, "  v%d: %s%s", i, source_names[s->kind], s->leaf ? ", a leaf that requires a gradient" : "");
    if (s->same_as >= 0) fprintf(f, ", the handle v%d", s->same_as);
    if (s->beside >= 0) fprintf(f, ", in the memory of v%d", s->beside);
    if (s->stopped >= 0) fprintf(f, ", kiln_stop_gradient of v%d", s->stopped);
    if (s->given) fprintf(f, ", given away, a copy");
    bool placed = s->same_as < 0 && s->kind <= SOURCE_CONSTANT;
    for (int call = 0; call < p->n_calls && placed; call++) {
        bool again = call && !memcmp(&s->at[call], &s->at[call - 1], sizeof *s->at) &&
                     !memcmp(p->size[call], p->size[call - 1], sizeof *p->size);
        if (again || (call && s->kind != SOURCE_INPUT)) continue;
        world_dims(p, s, call, dims);
        fprintf(f, "%s%s[", call ? "; then [" : " ", call ? "" : kiln_dtype_name(p->dtype[s->base]));
        for (int k = 0; k < s->rank; k++) fprintf(f, "%s%d", k ? "," : "", (int)dims[k]);
        fprintf(f, "]");
        if (s->kind != SOURCE_PARAMETER)
            fprintf(f, " of base %d at %d%s", s->base, (int)s->at[call].offset, form_names[s->at[call].form]);
    }
    fprintf(f, "\n");
}

void print_program(struct harness *h, const struct program *p, FILE *f)
{
    struct trace t;
    fprintf(f, "program %llu: %s%s\n", (unsigned long long)p->seed, gradient_names[p->gradient],
            p->gradient && p->even ? ", even" : "");
    if (p->most) fprintf(f, "  segments of at most %d ops\n", p->most);
    if (p->level || p->eager_rounding || p->deterministic || p->verified)
        fprintf(f, "  captured with level %d%s%s%s\n", (int)p->level, p->eager_rounding ? ", eager rounding" : "",
                p->deterministic ? ", deterministic" : "", p->verified ? ", verified" : "");
    if (p->asks && p->gradient == GRADIENT_INSIDE) fprintf(f, "  gradients by kiln_gradients\n");
    if (p->breaks >= 0) fprintf(f, "  the last call fails before step %d\n", p->breaks);
    for (int i = 0; i < p->n_sources; i++) print_source(p, i, f);
    for (int call = 1; call < p->n_calls; call++) {
        if (p->event[call]) fprintf(f, "  before call %d: %s\n", call, event_names[p->event[call]]);
        if (p->fresh[call]) fprintf(f, "  before call %d: other bases\n", call);
        if (p->rewritten[call])
            fprintf(f, "  before call %d: bases of mask %d are written\n", call, p->rewritten[call]);
    }
    run_program(p, WAY_EAGER, h->cpu, 0, f, &t);
    trace_free(&t);
    fprintf(f, "  returns");
    for (int i = 0; i < p->n_results; i++) fprintf(f, " v%d", p->result[i]);
    fprintf(f, "%s\n", p->touches ? ", which are written after the call" : "");
}
