// A kernel that makes the trips of a loop: an invocation takes one point through all of them, or the lanes of a row
// take the row.
//
// What an output carries is a variable c<output>; the new values of a trip are all there, as d<output>, before the
// first of them becomes an old one. The addresses A<access> go on by their steps. The count is bounded by who
// launches: the code itself runs as long as it is told.
//
// Elements of a row are carried in memory: each is read by the lane that wrote it, for all loops over a row walk alike,
// in all trips, so that a lane sees what it needs without a barrier. Hence neighbours are one access in all trips or in
// none: where rows that are scanned do not all begin at an aligned address, folds add in another order than in launches
// of one trip each, which see their own rows alone. A value of the row is known to all its lanes, of which one stores
// it; they carry it in variables.
#include "codegen/glsl/emit.h"
#include "ir/type.h"
#include <string.h>

bool glsl_is_carried_row(const struct glsl_emitter *e, int node)
{
    return e->k->trips.in_place && !e->k->trips.together && e->form.kind != GLSL_POINTS &&
           fused_is_carried(e->k, node) && !fused_by_element(e->k, e->k->trips.carried[e->k->dag.nodes[node].code] - 1);
}

static bool carries_row(const struct fused_kernel *k, int output)
{
    return !k->trips.together && fused_carries(k, output) && !fused_by_element(k, output);
}

static void declare_carriers(struct glsl_emitter *e, const char *indent, bool rows)
{
    static const char *const zero[CLASS_COUNT] = {"0.0", "0.0lf", "0", "0l", "false"};
    const struct fused_kernel *k = e->k;
    for (int i = 0; i < k->n_out; i++)
        if (rows ? carries_row(k, i) : fused_carries(k, i))
            str_addf(e->out, "%s%s c%d = %s;\n", indent, glsl_type(k->out[i].to.cls), i, zero[k->out[i].to.cls]);
}

static void begin_loop(struct glsl_emitter *e, const char *indent)
{
    const struct fused_trips *t = &e->k->trips;
    str_addf(e->out, "%sint64_t number = int64_t(arg64(%d));\n", indent, e->layout.scalar[t->first]);
    str_addf(e->out, "%sfor (uint trip = 0u; trip < arg(%d); trip++, number++) {\n", indent,
             e->layout.scalar[t->count]);
}

// The values of this trip become those of the one before.
static void hand_on(struct glsl_emitter *e, const char *indent, bool rows)
{
    const struct fused_kernel *k = e->k;
    for (int i = 0; i < k->n_out; i++) {
        if (!(rows ? carries_row(k, i) : fused_carries(k, i))) continue;
        str_addf(e->out, "%s%s d%d = stored_%s(", indent, glsl_type(k->out[i].to.cls), i,
                 dtype_name(k->out[i].to.dtype));
        scalar_emit_ref(e->out, TARGET_GLSL, &k->dag, k->out[i].node);
        str_add(e->out, ");\n");
    }
    for (int i = 0; i < k->n_out; i++)
        if (rows ? carries_row(k, i) : fused_carries(k, i)) str_addf(e->out, "%sc%d = d%d;\n", indent, i, i);
    for (int i = 0; i < k->n_in + k->n_out; i++)
        if (fused_step(k, i)) str_addf(e->out, "%sA%d += arg64(%d);\n", indent, i, e->layout.step[i]);
}

// --- points ---

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
    const struct fused_kernel *k = e->k;
    declare_carriers(e, "    ", false);
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
    for (int i = 0; i < k->n_out; i++)
        if (!k->trips.last[i]) glsl_add_store(e, indent, 'o', i);
    hand_on(e, indent, false);
}

static void add_apart(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    add_point(e);
    want_row(e, false);
    glsl_emit_wanted(e, "    ", e->known);
    add_carriers(e);
    begin_loop(e, "    ");
    add_trip(e);
    str_add(e->out, "    }\n");
    for (int i = 0; i < k->n_out; i++) {
        if (!k->trips.last[i]) continue;
        str_addf(e->out, "    store_%s(", dtype_name(k->out[i].to.dtype));
        glsl_add_address(e, 'o', k->n_in + i);
        str_addf(e->out, ", c%d);\n", i);
    }
}

// --- all points together ---

// The addresses of what is carried: the last trip writes the outputs, the one before it the workspace, and so on.
static void take_turns(struct glsl_emitter *e, const char *indent)
{
    const struct fused_kernel *k = e->k;
    const struct glsl_layout *l = &e->layout;
    str_addf(e->out, "%sbool odd = ((arg(%d) - 1u - trip) & 1u) != 0u;\n", indent, l->scalar[k->trips.count]);
    for (int i = 0; i < k->n_in; i++) {
        int from = k->n_in + k->trips.carried[i] - 1;
        if (k->trips.carried[i])
            str_addf(e->out, "%sif (trip > 0u) A%d = (odd ? arg64(%d) : arg64(%d) + arg64(%d)) + arg64(%d);\n", indent,
                     i, 2 * from, l->workspace, l->step[from], l->step[i]);
    }
    for (int i = k->n_in; i < k->n_in + k->n_out; i++)
        if (fused_takes_turns(k, i))
            str_addf(e->out, "%sA%d = odd ? arg64(%d) + arg64(%d) : arg64(%d);\n", indent, i, l->workspace, l->step[i],
                     2 * i);
}

// Behind all that the points do in a trip. Of a workgroup every invocation comes here.
static void wait_for_all(struct glsl_emitter *e, const char *indent)
{
    for (int i = 0; i < e->k->n_in + e->k->n_out; i++)
        if (fused_step(e->k, i)) str_addf(e->out, "%sA%d += arg64(%d);\n", indent, i, e->layout.step[i]);
    str_addf(e->out, "%smemoryBarrierBuffer();\n%sbarrier();\n", indent, indent);
}

void glsl_begin_together(struct glsl_emitter *e)
{
    begin_loop(e, "    ");
    take_turns(e, "        ");
}

void glsl_end_together(struct glsl_emitter *e)
{
    wait_for_all(e, "        ");
    str_add(e->out, "    }\n");
}

// Of points: each invocation takes some of them.
static void add_together(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    const char *indent = "            ";
    glsl_begin_together(e);
    str_addf(e->out, "        for (INDEX r = INDEX(gl_LocalInvocationIndex); r < arg_index(%d); r += %uu) {\n",
             e->layout.points, e->form.lanes * e->form.rows);
    glsl_add_indices(e, indent, "r", 0, k->n_dims);
    for (int i = 0; i < k->n_in + k->n_out; i++) glsl_add_place(e, indent, 'o', 0, i, 0, k->n_dims);
    want_row(e, false);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (e->needed[i] && k->turns[i] && k->dag.nodes[i].kind != SCALAR_CONST) e->want[i] = 1;
    glsl_emit_wanted(e, indent, e->known);
    for (int i = 0; i < k->n_out; i++) glsl_add_store(e, indent, 'o', i);
    str_add(e->out, "        }\n");
    glsl_end_together(e);
}

// --- rows ---

void glsl_begin_trips(struct glsl_emitter *e)
{
    declare_carriers(e, "        ", true);
    begin_loop(e, "        ");
}

void glsl_end_trips(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    const char *indent = "        ";
    hand_on(e, indent, true);
    for (int i = 0; i < k->n_in; i++)
        if (k->trips.carried[i]) str_addf(e->out, "%sA%d = A%d;\n", indent, i, k->n_in + k->trips.carried[i] - 1);
    str_addf(e->out, "%s}\n", indent);
}

void glsl_add_trips(struct glsl_emitter *e)
{
    if (e->k->trips.together)
        add_together(e);
    else
        add_apart(e);
}
