// What a loop of no trips would have stacked: it is captured for its types alone, and the graph thrown away. Nothing is
// computed, written, printed or drawn; what the body reaches from outside is an input of that graph.
#include "grad/state.h"
#include "jit/capture/region_gradient.h"
#include "jit/capture/region_loop.h"
#include <stdlib.h>

struct loop_rows {
    struct recorder r;
    struct kiln_scope scope;
    kiln_tensor **in, **out;
};

static void finish(void *at)
{
    struct loop_rows *c = at;
    recorder_finish(&c->r);
    free(c->in);
}

static kiln_status add_inputs(struct loop_rows *c, const struct control_loop *l)
{
    for (size_t i = 0; i < l->n_carried + l->n_scanned; i++) {
        kiln_tensor *t = l->in[i];
        struct source s = {.kind = SOURCE_CARRIED, .type = t->type, .outer = -1};
        int32_t variable;
        c->in[i] = t;
        if (is_number(t)) continue;
        if (t->storage) TRY(recorder_check_device(&c->r, l->op, t->storage->dev));
        layout_contiguous(&s.type, &s.layout);
        TRY(recorder_add_source(&c->r, &s, &s.type, "in", &variable));
        TRY(variable_show(&c->r, variable, &s.type, &s.layout, &c->in[i]));
    }
    return KILN_OK;
}

static kiln_status find_types(struct loop_rows *c, const struct control_loop *l, struct type *rows)
{
    struct control_loop abstract = *l;
    bool taken;
    TRY(add_inputs(c, l));
    abstract.in = c->in;
    abstract.draws = (struct control_draws){.given = false};
    TRY(capture_loop(&c->r.sink.base, &abstract, c->out, &taken));
    for (size_t k = 0; k < l->n_stacked; k++) rows[k] = c->out[l->n_carried + k]->type;
    return KILN_OK;
}

kiln_status loop_rows(const struct control_loop *l, struct type *rows, kiln_device **dev)
{
    static const struct flow_ops flow = {.branches = capture_branches, .loop = capture_loop};
    struct loop_rows c = {.in = NULL};
    size_t n_in = l->n_carried + l->n_scanned;
    TRY(recorder_init(&c.r, l->op, KILN_CAPTURE_STRICT, KILN_SYNTAX_LAX));
    c.r.sink.base.flow = &flow;
    c.r.types_alone = true;
    c.in = calloc(n_in + l->n_carried + l->n_stacked + 1, sizeof *c.in);
    if (!c.in) {
        finish(&c);
        return error_set(KILN_E_MEMORY, "%s: out of memory", l->op);
    }
    c.out = c.in + n_in;
    struct state_leave left;
    state_push(&left, finish, &c);
    struct recorder_switch before = recorder_enter(&c.r);
    scope_enter(&c.scope);
    thread_state.no_grad++;
    kiln_status status = find_types(&c, l, rows);
    thread_state.no_grad--;
    scope_leave(&c.scope, NULL, 0);
    recorder_leave(&before);
    state_pop(&left);
    *dev = c.r.dev;
    finish(&c);
    return status;
}
