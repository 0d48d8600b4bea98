// One capture, compiled: an object that the function, calls in flight and nodes of the tape share.
#include "jit/function.h"
#include "program/kernels.h"
#include "jit/capture/replay.h"
#include <stdlib.h>
#include <string.h>

struct entry *entry_ref(struct entry *e)
{
    if (e) atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    return e;
}

void entry_unref(struct entry **ref)
{
    struct entry *e = *ref;
    *ref = NULL;
    if (!e || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1) return;
    program_destroy(&e->program);
    guard_finish(&e->guard);
    captured_finish(&e->captured);
    kernel_count_unref(&e->kernels);
    program_forms_unref(&e->forms);
    free((char *)e->name);
    free(e);
}

kiln_status entry_new(const struct kiln_function *f, struct entry **out)
{
    struct entry *e = calloc(1, sizeof *e);
    if (!e) return error_set(KILN_E_MEMORY, "jit: out of memory");
    atomic_init(&e->refs, 1);
    e->name = strdup(f->name);
    e->kernels = kernel_count_ref(f->kernels);
    e->forms = program_forms_ref(f->forms);
    e->how = function_program_options(f);
    e->how.name = e->name;
    e->how.count = e->kernels;
    e->how.forms = e->forms;
    *out = e;
    if (e->name) return KILN_OK;
    entry_unref(out);
    return error_set(KILN_E_MEMORY, "jit: out of memory");
}

void entry_facts(const struct entry *e, struct program_facts *out)
{
    int n = (int)e->captured.graph->nodes.n;
    *out = (struct program_facts){.n_nodes = n, .n_launches = n};
    if (e->program) program_get_facts(e->program, out);
}

kiln_status entry_run_graph(const struct entry *e, struct program *p, const struct kiln_graph *g,
                            kiln_tensor *const *in, const struct rng *rng, kiln_tensor **out)
{
    if (p) return program_run(p, in, rng, out);
    thread_state.no_grad++;
    kiln_status status = graph_replay(g, e->captured.dev, in, rng, out);
    thread_state.no_grad--;
    if (status) error_name_op(e->name);
    return status;
}
