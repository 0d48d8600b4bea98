// A kernel that makes the trips of a loop: an invocation takes one point through all of them.
//
// What an output carries is a variable c<output>; the new values of a trip are all there, as d<output>, before the
// first of them becomes an old one. The addresses A<access> go on by their steps. The count is bounded by who
// launches: the code itself runs as long as it is told.
#include "codegen/glsl/emit.h"
#include "ir/type.h"
#include <string.h>

static void add_point(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    str_addf(e->out, "    INDEX r = INDEX(group_index()) * %uu + INDEX(gl_LocalInvocationIndex);\n",
             e->form.lanes * e->form.rows);
    str_addf(e->out, "    if (r >= arg_index(%d)) return;\n", e->layout.points);
    glsl_add_indices(e, "    ", "r", 0, k->n_dims);
    for (int i = 0; i < k->n_in + k->n_out; i++) glsl_add_place(e, "    ", 'o', 0, i, 0, k->n_dims);
}

static void want_row(struct glsl_emitter *e, bool turning)
{
    const struct fused_kernel *k = e->k;
    for (int i = 0; i < k->dag.n_nodes; i++)
        e->want[i] = e->needed[i] && !e->known[i] && k->turns[i] == turning && k->dag.nodes[i].kind != SCALAR_CONST;
}

static int output_of(const struct fused_kernel *k, int node) // that a carried load takes its value from
{
    return k->trips.carried[k->dag.nodes[node].code] - 1;
}

static void add_carriers(struct glsl_emitter *e)
{
    static const char *const zero[CLASS_COUNT] = {"0.0", "0.0lf", "0", "0l", "false"};
    const struct fused_kernel *k = e->k;
    for (int i = 0; i < k->n_out; i++)
        if (fused_carries(k, i))
            str_addf(e->out, "    %s c%d = %s;\n", glsl_type(k->out[i].to.cls), i, zero[k->out[i].to.cls]);
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!e->needed[i] || !fused_is_carried(k, i)) continue;
        int access = k->dag.nodes[i].code;
        str_addf(e->out, "    c%d = load_%s(", output_of(k, i), dtype_name(k->in[access].dtype));
        glsl_add_address(e, 'o', access);
        str_add(e->out, ");\n");
    }
}

static void add_trip(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    const char *indent = "        ";
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!e->needed[i] || !fused_is_carried(k, i)) continue;
        str_addf(e->out, "%s%s t%d = c%d;\n", indent, glsl_type(k->dag.nodes[i].cls), i, output_of(k, i));
        e->known[i] = 1;
    }
    want_row(e, true);
    glsl_emit_wanted(e, indent, e->known);
    for (int i = 0; i < k->n_out; i++) {
        if (!k->trips.last[i]) glsl_add_store(e, indent, 'o', i);
        if (!fused_carries(k, i)) continue;
        str_addf(e->out, "%s%s d%d = stored_%s(", indent, glsl_type(k->out[i].to.cls), i,
                 dtype_name(k->out[i].to.dtype));
        scalar_emit_ref(e->out, TARGET_GLSL, &k->dag, k->out[i].node);
        str_add(e->out, ");\n");
    }
    for (int i = 0; i < k->n_out; i++)
        if (fused_carries(k, i)) str_addf(e->out, "%sc%d = d%d;\n", indent, i, i);
    for (int i = 0; i < k->n_in + k->n_out; i++)
        if (fused_step(k, i)) str_addf(e->out, "%sA%d += arg64(%d);\n", indent, i, e->layout.step[i]);
}

void glsl_add_trips(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    add_point(e);
    want_row(e, false);
    glsl_emit_wanted(e, "    ", e->known);
    add_carriers(e);
    str_addf(e->out, "    int64_t number = int64_t(arg64(%d));\n", e->layout.scalar[k->trips.first]);
    str_addf(e->out, "    for (uint trip = 0u; trip < arg(%d); trip++, number++) {\n", e->layout.scalar[k->trips.count]);
    add_trip(e);
    str_add(e->out, "    }\n");
    for (int i = 0; i < k->n_out; i++) {
        if (!k->trips.last[i]) continue;
        str_addf(e->out, "    store_%s(", dtype_name(k->out[i].to.dtype));
        glsl_add_address(e, 'o', k->n_in + i);
        str_addf(e->out, ", c%d);\n", i);
    }
}
