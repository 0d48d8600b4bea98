// A graph in text form, compiled for a device, kernel by kernel.
#include "codegen/show.h"
#include "device/device.h"
#include "pass/pass.h"
#include <kiln/debug.h>
#include <stdlib.h>

struct showing {
    kiln_device *dev;
    kiln_graph_kernel_fn fn;
    void *user;
};

// Constants of a text have no data. They are taken to lie row-major: `held` is the type.
static struct type *hold_types(struct kiln_graph *g)
{
    struct type *types = calloc(g->values.n + 1, sizeof *types);
    if (!types) error_set(KILN_E_MEMORY, "graph_text_kernels: out of memory");
    for (size_t i = 0; i < g->values.n && types; i++) {
        types[i] = g->values.v[i].type;
        if (g->values.v[i].kind == IR_CONSTANT) g->values.v[i].held = &types[i];
    }
    return types;
}

static void constant_layout(const void *held, struct layout *out)
{
    layout_contiguous(held, out);
}

static kiln_status show(const struct showing *w, const struct units *u, const struct fuse_step *step)
{
    struct show_step s;
    const struct show_target target = {.caps = &w->dev->caps, .include = device_shown_text(w->dev)};
    show_step_init(&s);
    kiln_status status = show_step(u, step, &target, &s);
    if (!status) {
        const char *why = show_step_why(u, step);
        const kiln_graph_kernel k = {.size = sizeof k,
                                     .name = show_step_name(u, step),
                                     .fused = step->kernel != NULL,
                                     .nodes = str_text(&s.nodes),
                                     .why = why ? why : "",
                                     .kernel = str_text(&s.kernel),
                                     .glsl = str_text(&s.glsl),
                                     .spirv = str_text(&s.spirv),
                                     .llvm = str_text(&s.llvm),
                                     .words = s.module.words,
                                     .n_words = s.module.n_words};
        w->fn(w->user, &k);
    }
    show_step_free(&s);
    return status;
}

// Inputs are taken to lie apart, as those of most calls do: `shared` holds no value.
static kiln_status compile_apart(const struct showing *w, const struct kiln_graph *g, const bool *shared)
{
    struct units units = {0};
    struct fuse_schedule schedule = {0};
    const struct units_options uo = {
        .caps = &w->dev->caps, .constant_layout = constant_layout, .shared = shared, .attends = true};
    const struct fuse_options fo = {0};
    kiln_status status = units_make(&units, g, &uo);
    if (!status) status = fuse(&units, &w->dev->caps, &fo, &schedule);
    for (size_t i = 0; i < schedule.steps.n && !status; i++) status = show(w, &units, &schedule.steps.v[i]);
    schedule_finish(&schedule);
    units_finish(&units);
    return status;
}

static kiln_status compile(const struct showing *w, const struct kiln_graph *g)
{
    bool *shared = calloc(g->values.n + 1, sizeof *shared);
    if (!shared) return error_set(KILN_E_MEMORY, "graph_text_kernels: out of memory");
    kiln_status status = compile_apart(w, g, shared);
    free(shared);
    return status;
}

kiln_status kiln_graph_text_kernels(const char *text, size_t size_B, const char *name, kiln_device *dev,
                                    kiln_graph_kernel_fn fn, void *user)
{
    if (error_pending) return error_pending;
    if (!text || !name || !dev || !fn)
        return error_set(KILN_E_ARGUMENT, "graph_text_kernels: %s is NULL",
                         !text   ? "text"
                         : !name ? "name"
                         : !dev  ? "dev"
                                 : "fn");
    TRY(device_check("graph_text_kernels", dev));
    const struct showing w = {.dev = dev, .fn = fn, .user = user};
    struct pass_options o = {.why = name};
    pass_options_from_debug(&o);
    struct kiln_graph *g = ir_parse(text, size_B, name);
    struct type *types = g ? hold_types(g) : NULL;
    kiln_status status = types ? pass_run_all(&g, &o, NULL) : error_pending;
    if (!status) status = compile(&w, g);
    ir_graph_destroy(&g);
    free(types);
    return status;
}
