// Compiling in the background: a program that runs single ops at once, and a better one that another thread makes.
//
// The thread works on copies of all that it was given; the program joins it before it goes. It opens no scope and
// raises no error: when the better program cannot be made, the first one stays.
#include "base/process.h"
#include "ir/rewrite.h"
#include "program/forms.h"
#include "program/impl.h"
#include <stdlib.h>
#include <string.h>

struct background {
    pthread_t thread;
    unsigned generation; // of the process that has the thread
    struct arena arena;
    struct kiln_graph *graph;
    const struct layout **layouts;
    struct program_options options;
    kiln_device *dev; // the program's
    program_create_fn *create;
    _Atomic(struct program *) better;
};

static kiln_status copy_node(struct ir_rewrite *r, int32_t node, void *unused)
{
    (void)unused;
    return ir_rewrite_copy(r, node);
}

static void *copy_array(struct arena *a, const void *from, size_t size_B)
{
    void *to = from ? arena_alloc(a, size_B + 1) : NULL;
    if (to) memcpy(to, from, size_B);
    return to;
}

static kiln_status copy_layouts(struct background *b, const struct layout *const *layouts, size_t n)
{
    b->layouts = layouts ? arena_alloc(&b->arena, sizeof *b->layouts * (n + 1)) : NULL;
    for (size_t i = 0; b->layouts && i < n; i++) b->layouts[i] = copy_array(&b->arena, layouts[i], sizeof **layouts);
    return error_pending;
}

static kiln_status copy_given(struct background *b, const struct kiln_graph *g, const struct layout *const *layouts,
                              const struct program_options *o)
{
    size_t n_inputs = 0;
    for (size_t i = 0; i < g->values.n; i++) n_inputs += g->values.v[i].kind == IR_INPUT;
    TRY(ir_rewrite_graph(g, NULL, copy_node, NULL, &b->graph));
    TRY(copy_layouts(b, layouts, n_inputs));
    b->options = *o;
    b->options.background = false;
    b->options.count = kernel_count_ref(o->count);
    b->options.forms = program_forms_ref(o->forms);
    b->options.name = o->name ? arena_strdup(&b->arena, o->name) : NULL;
    b->options.numbers = copy_array(&b->arena, o->numbers, sizeof *o->numbers * n_inputs);
    b->options.aliases = copy_array(&b->arena, o->aliases, sizeof *o->aliases * n_inputs);
    b->options.given = copy_array(&b->arena, o->given, sizeof *o->given * n_inputs);
    b->options.dense = copy_array(&b->arena, o->dense, sizeof *o->dense * g->outputs.n);
    return error_pending;
}

static void *work(void *user)
{
    struct background *b = user;
    struct program *better = NULL;
    if (b->create(b->graph, b->dev, b->layouts, &b->options, &better)) kiln_error_clear();
    atomic_store(&b->better, better);
    return NULL;
}

static void destroy(struct background *b)
{
    kernel_count_unref(&b->options.count);
    program_forms_unref(&b->options.forms);
    ir_graph_destroy(&b->graph);
    arena_finish(&b->arena);
    free(b);
}

kiln_status background_start(struct program *p, const struct kiln_graph *g, const struct layout *const *layouts,
                             const struct program_options *o, program_create_fn *create)
{
    struct background *b = calloc(1, sizeof *b);
    if (!b) return error_set(KILN_E_MEMORY, "graph: out of memory");
    arena_init(&b->arena);
    b->dev = p->dev;
    b->create = create;
    b->generation = process_generation();
    kiln_status status = copy_given(b, g, layouts, o);
    if (!status && pthread_create(&b->thread, NULL, work, b))
        status = error_set(KILN_E_MEMORY, "jit: no thread to compile on");
    if (status)
        destroy(b);
    else
        p->background = b;
    return status;
}

struct program *background_better(const struct program *p)
{
    return p->background ? atomic_load(&p->background->better) : NULL;
}

struct program *background_end(struct program *p)
{
    struct background *b = p->background;
    if (!b) return NULL;
    p->background = NULL;
    // In a child: what the thread was doing nobody ends.
    if (b->generation != process_generation()) return atomic_load(&b->better);
    pthread_join(b->thread, NULL);
    struct program *better = atomic_load(&b->better);
    destroy(b);
    return better;
}
