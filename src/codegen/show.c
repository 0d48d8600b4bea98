// Texts of a step: its name, its nodes, what kept others out, source and disassembly of its kernel.
#include "codegen/show.h"
#include "codegen/llvm/llvm.h"
#include "codegen/target.h"
#include <stdlib.h>

void show_step_init(struct show_step *s)
{
    str_init(&s->nodes);
    str_init(&s->kernel);
    str_init(&s->glsl);
    str_init(&s->spirv);
    str_init(&s->llvm);
    s->module = (struct spirv){NULL, 0};
}

void show_step_free(struct show_step *s)
{
    str_free(&s->nodes);
    str_free(&s->kernel);
    str_free(&s->glsl);
    str_free(&s->spirv);
    str_free(&s->llvm);
    free(s->module.words);
}

const char *show_step_name(const struct units *u, const struct fuse_step *step)
{
    if (step->kernel) return step->kernel->name;
    const struct unit *unit = &u->v.v[step->units[0]];
    return unit->node >= 0 ? u->graph->nodes.v[unit->node].op->name : unit->l.op;
}

const char *show_step_why(const struct units *u, const struct fuse_step *step)
{
    if (step->why || step->kernel) return step->why;
    if (!u->v.v[step->units[0]].body)
        return "its kernel is written by hand, without an expression that others could take";
    return "what it reads and feeds is given, kept, or made by kernels without an expression";
}

// In place of a text: why there is none.
static void explain_failure(struct str *s, const char *comment)
{
    str_addf(s, "%s %s\n", comment, kiln_error_message());
    kiln_error_clear();
}

// Units of one node follow each other; those behind the last node write what outlives the run.
static void show_nodes(const struct units *u, const struct fuse_step *step, struct str *s)
{
    int32_t last = -1;
    for (int i = 0; i < step->n_units; i++) {
        int32_t node = u->v.v[step->units[i]].node;
        if (node < 0) {
            str_addf(s, "# %s: into memory that outlives the run\n", u->v.v[step->units[i]].l.op);
        } else if (node != last) {
            ir_node_text(u->graph, node, s);
            str_add(s, "\n");
        }
        last = node;
    }
}

#if KILN_WITH_GLSLANG
static kiln_status compile(const char *name, const struct show_target *t, struct show_step *s)
{
    const struct spirv_source source = {.name = name, .text = str_text(&s->glsl), .include = t->include};
    TRY(spirv_compile(&source, &s->module));
    TRY(spirv_strip(&s->module));
    return spirv_disassemble(s->module.words, s->module.n_words, &s->spirv);
}
#else
static kiln_status compile(const char *name, const struct show_target *t, struct show_step *s)
{
    (void)t, (void)s;
    return error_set(KILN_E_MISSING, "kernel %s: this build has no glslang", name);
}
#endif

static void show_shader(const struct fused_kernel *k, const struct show_target *t, struct show_step *s)
{
    struct codegen_plan plan = {0};
    if (glsl_plan(k, t->caps, &plan) || glsl_text(k, &plan, &s->glsl))
        explain_failure(&s->glsl, "//");
    else if (compile(k->name, t, s))
        explain_failure(&s->spirv, ";");
}

kiln_status show_step(const struct units *u, const struct fuse_step *step, const struct show_target *t,
                      struct show_step *s)
{
    TRY(error_pending);
    show_nodes(u, step, &s->nodes);
    if (step->kernel) fused_text(step->kernel, &s->kernel);
    if (step->kernel && t->caps->code == CODE_LLVM && llvm_ir_text(step->kernel, &s->llvm))
        explain_failure(&s->llvm, ";");
    if (step->kernel && t->include) show_shader(step->kernel, t, s);
    TRY(str_check(&s->nodes));
    TRY(str_check(&s->kernel));
    TRY(str_check(&s->glsl));
    TRY(str_check(&s->spirv));
    return str_check(&s->llvm);
}
