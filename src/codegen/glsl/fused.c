// Fused kernels as GLSL compute shaders, standing on shaders/fused.glsl.
//
// Input: a kernel that fused_finish accepted. A pointwise kernel is one loop over points. A kernel with rows is, for
// each row: the row values that need no fold; for each stage a loop over the row that feeds the folds of that stage,
// the folds across the lanes, and the row values they make known; a loop that stores; the row outputs. Folds across
// rows gather in each invocation, then in the workgroup, then through the workspace in the workgroup that finishes
// last, which computes the totals.
//
// With `splits` workgroups to a row, each takes a part of it and leaves what it folded in the workspace; the last one
// to come combines the parts in their order and goes on with the row alone. There is one dispatch, no workgroup waits,
// and the order of every addition is fixed. Invariant: `known` marks the nodes whose names are in scope at the level of
// main(), outside of loops over elements.
#include "codegen/glsl/emit.h"
#include "ir/type.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOTAL_COUNTER (GLSL_COUNTERS_B / 4 - 1)

// --- values outside of loops ---

// All that is uniform; then the row values of a stage. Those that no loop stands on wait for the last: a load of one
// element of the row, say, finds it in a cache then.
static void add_values(struct glsl_emitter *e, const char *indent, enum fused_level level, int stage)
{
    const struct fused_kernel *k = e->k;
    uint32_t uniform_places = 0, *placed = level == LEVEL_ROW ? &e->row_places : &uniform_places;
    memset(e->want, 0, (size_t)k->dag.n_nodes);
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        bool here = e->needed[i] && !e->known[i] && k->level[i] == level && k->stage[i] <= stage;
        if (level == LEVEL_ROW && stage < k->n_stages && !e->early[i]) here = false;
        e->want[i] = here && n->kind != SCALAR_CONST && n->kind != SCALAR_REDUCE;
        if (!e->want[i] || n->kind != SCALAR_LOAD || *placed >> n->code & 1) continue;
        // Several loads may go through one access; at the level of a row its place may be there from an earlier stage.
        *placed |= 1u << n->code;
        str_addf(e->out, level == LEVEL_ROW ? "%sOFFSET o%d = b%d;\n" : "%sOFFSET o%d = OFFSET(0);\n", indent, n->code,
                 n->code);
    }
    glsl_emit_wanted(e, indent, e->known);
}

static void add_accumulators(struct glsl_emitter *e, const char *indent, bool across, int stage)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        if (!fused_is_fold(&e->k->dag.nodes[i], across) || (!across && e->k->stage[i] != stage)) continue;
        glsl_add_accumulator(e, indent, "acc", i);
    }
}

static void add_across(struct glsl_emitter *e, const char *indent, const char *how, int node)
{
    str_addf(e->out, "%sacc%d = across_%s_", indent, node, how);
    glsl_add_fold_name(e->out, e->k, node);
    str_addf(e->out, "(acc%d);\n", node);
}

static void add_result(struct glsl_emitter *e, const char *indent, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    str_addf(e->out, "%s%s t%d = ", indent, glsl_type(n->cls), node);
    if (reduce_finds_place(n))
        str_addf(e->out, "acc%d.place == INDEX(-1) ? -1l : int64_t(acc%d.place);\n", node, node);
    else
        str_addf(e->out, "acc%d;\n", node);
    e->known[node] = 1;
}

// --- what workgroups leave to each other ---

// Saves acc<node>, or combines what `n` parties saved into it, party `own` first and every `pace` parties.
static void add_save(struct glsl_emitter *e, const char *indent, int node, const char *slot)
{
    str_addf(e->out, "%ssave(partial_at(%s), acc%d);\n", indent, slot, node);
}

static void add_combine_saved(struct glsl_emitter *e, const char *indent, int node, const char *loop, const char *slot)
{
    str_addf(e->out, "%sacc%d = nothing_", indent, node);
    glsl_add_fold_name(e->out, e->k, node);
    str_addf(e->out, "();\n%s%s {\n%s    ", indent, loop, indent);
    glsl_add_partial_type(e->out, e->k, node);
    str_addf(e->out, " other;\n%s    restore(partial_at(%s), other);\n%s    acc%d = combine_%s(acc%d, other);\n%s}\n",
             indent, slot, indent, node, reduce_info[reduce_of(&e->k->dag.nodes[node])].name, node, indent);
}

static void add_join_splits(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    char slot[96];
    int number = 0;
    str_add(e->out, "        if (splits > 1u) {\n            if (exists && lane == 0u) {\n");
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!fused_is_fold(&k->dag.nodes[i], false)) continue;
        snprintf(slot, sizeof slot, "(%du * uint(rows) + uint(row)) * splits + split", number++);
        add_save(e, "                ", i, slot);
    }
    str_add(e->out, "            }\n            if (!comes_last(uint(block), splits)) return;\n");
    number = 0;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!fused_is_fold(&k->dag.nodes[i], false)) continue;
        snprintf(slot, sizeof slot, "(%du * uint(rows) + uint(row)) * splits + s", number++);
        add_combine_saved(e, "            ", i, "for (uint s = lane; s < splits; s += LANES)", slot);
        add_across(e, "            ", "row", i);
    }
    str_add(e->out, "        }\n");
}

static void add_totals(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    int number = 0, n_folds = 0;
    char slot[96];
    for (int i = 0; i < k->dag.n_nodes; i++) n_folds += glsl_is_made(e, i) && fused_is_fold(&k->dag.nodes[i], false);
    if (e->form.splits)
        str_addf(e->out,
                 "    uint parties = splits > 1u ? uint(blocks) : arg(%d), party = splits > 1u ? uint(block) : "
                 "group_index();\n    uint first = splits > 1u ? %du * uint(rows) * splits : 0u;\n",
                 e->layout.groups, n_folds);
    else
        str_addf(e->out, "    uint parties = arg(%d), party = group_index(), first = 0u;\n", e->layout.groups);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (fused_is_fold(&k->dag.nodes[i], true)) add_across(e, "    ", "all", i);
    str_add(e->out, "    if (parties > 1u) {\n        if (gl_LocalInvocationIndex == 0u) {\n");
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!fused_is_fold(&k->dag.nodes[i], true)) continue;
        snprintf(slot, sizeof slot, "first + %du * parties + party", number++);
        add_save(e, "            ", i, slot);
    }
    str_addf(e->out, "        }\n        if (!comes_last(%du, parties)) return;\n", TOTAL_COUNTER);
    number = 0;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!fused_is_fold(&k->dag.nodes[i], true)) continue;
        snprintf(slot, sizeof slot, "first + %du * parties + s", number++);
        add_combine_saved(e, "        ", i, "for (uint s = gl_LocalInvocationIndex; s < parties; s += N_LOCAL)", slot);
        add_across(e, "        ", "all", i);
    }
    str_add(e->out, "    }\n    if (gl_LocalInvocationIndex != 0u) return;\n");
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (fused_is_fold(&k->dag.nodes[i], true)) add_result(e, "    ", i);
    add_values(e, "    ", LEVEL_TOTAL, k->n_stages);
    for (int i = 0; i < k->n_out; i++) {
        if (k->level[k->out[i].node] != LEVEL_TOTAL) continue;
        str_addf(e->out, "    OFFSET o%d = OFFSET(0);\n", k->n_in + i);
        glsl_add_store(e, "    ", 'o', i);
    }
}

// --- pointwise ---

static void add_points(struct glsl_emitter *e)
{
    str_addf(e->out, "    uint lane = gl_LocalInvocationIndex;\n    INDEX end = arg_index(%d);\n", e->layout.points);
    add_values(e, "    ", LEVEL_UNIFORM, 0);
    if (e->k->has_total) {
        str_addf(e->out, "    if (group_index() >= arg(%d)) return;\n", e->layout.groups);
        add_accumulators(e, "    ", true, 0);
    }
    glsl_add_loop(e, "    ", 0);
    if (e->k->has_total) add_totals(e);
}

// --- rows ---

static void add_row_begin(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    const struct glsl_form *f = &e->form;
    const char *splits = f->splits ? " * splits" : "";
    if (k->has_total) {
        str_addf(e->out, "    for (INDEX job = INDEX(group_index()); job < blocks%s; job += INDEX(arg(%d))) {\n",
                 splits, e->layout.groups);
    } else if (k->trips.together) {
        str_add(e->out, "    for (INDEX job = 0; job < blocks; job++) {\n");
    } else {
        str_addf(e->out, "    INDEX job = INDEX(group_index());\n    if (job >= blocks%s) return;\n    {\n", splits);
    }
    if (f->splits)
        str_add(e->out, "        block = job / splits;\n        uint split = uint(job - block * splits);\n");
    else
        str_add(e->out, "        block = job;\n");
    str_addf(e->out,
             "        INDEX row = block * %uu + INDEX(gl_LocalInvocationIndex %s %uu);\n"
             "        bool exists = row < rows;\n"
             "        if (!exists) row = 0;   // takes part in barriers only\n",
             f->rows, f->kind == GLSL_ROWS ? "/" : "%", f->kind == GLSL_ROWS ? f->lanes : f->rows);
    if (f->splits)
        str_addf(e->out,
                 "        INDEX begin = INDEX(split) * arg_index(%d);\n"
                 "        INDEX end = exists ? min(begin + arg_index(%d), length) : 0;\n",
                 e->layout.part, e->layout.part);
    else
        str_addf(e->out, "        %sINDEX end = exists ? length : 0;\n",
                 f->keep ? "" : "const INDEX begin = 0;\n        ");
    glsl_add_indices(e, "        ", "row", 0, k->n_dims - k->n_reduce);
    for (int i = 0; i < k->n_in + k->n_out; i++) glsl_add_place(e, "        ", 'b', 0, i, 0, k->n_dims - k->n_reduce);
    for (int i = 0; f->keep && i < k->dag.n_nodes; i++)
        if (e->kept[i]) str_addf(e->out, "        %s k%d[%u];\n", glsl_type(k->dag.nodes[i].cls), i, f->keep);
}

static void add_stage(struct glsl_emitter *e, int stage)
{
    const struct fused_kernel *k = e->k;
    int pass = stage - 1;
    str_addf(e->out, "\n        // Stage %d.\n", stage);
    add_accumulators(e, "        ", false, stage);
    glsl_add_loop(e, "        ", pass);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (fused_pass_folds(k, pass, i)) add_across(e, "        ", "row", i);
    if (e->form.splits) add_join_splits(e);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (fused_pass_folds(k, pass, i)) add_result(e, "        ", i);
    add_values(e, "        ", LEVEL_ROW, stage);
}

static void add_row_end(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    str_add(e->out, "\n");
    if (fused_last_pass(k) == k->n_stages) glsl_add_loop(e, "        ", k->n_stages);
    str_add(e->out, "        if (exists && lane == 0u) {\n");
    for (int i = 0; i < k->n_out; i++) {
        bool by_row = k->level[k->out[i].node] != LEVEL_TOTAL && !fused_by_element(k, i);
        if (by_row) glsl_add_store(e, "            ", 'b', i);
    }
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (fused_is_fold(&k->dag.nodes[i], true)) glsl_add_collect(e, "            ", "acc", i, "row");
    str_add(e->out, "        }\n");
    if (k->trips.on && !k->trips.together) glsl_end_trips(e);
    str_add(e->out, "    }\n");
    if (k->trips.together) glsl_end_together(e);
}

static void add_rows(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    const struct glsl_form *f = &e->form;
    str_addf(e->out, "    uint lane = gl_LocalInvocationIndex %s %uu;\n", f->kind == GLSL_ROWS ? "%" : "/",
             f->kind == GLSL_ROWS ? f->lanes : f->rows);
    str_addf(e->out, "    INDEX rows = arg_index(%d), length = arg_index(%d);\n", e->layout.points, e->layout.length);
    str_addf(e->out, "    INDEX blocks = (rows + %uu) / %uu, block = 0;\n", f->rows - 1, f->rows);
    if (f->splits) str_addf(e->out, "    uint splits = arg(%d);\n", e->layout.splits);
    add_values(e, "    ", LEVEL_UNIFORM, 0);
    if (k->has_total) {
        str_addf(e->out, "    if (group_index() >= arg(%d)) return;\n", e->layout.groups);
        add_accumulators(e, "    ", true, 0);
    }
    bool apart = k->trips.on && !k->trips.together;
    if (k->trips.together) glsl_begin_together(e);
    add_row_begin(e);
    if (apart) glsl_begin_trips(e);
    add_values(e, "        ", LEVEL_ROW, 0);
    for (int stage = 1; stage <= k->n_stages; stage++) add_stage(e, stage);
    add_row_end(e);
    if (k->has_total) add_totals(e);
}

// --- the whole ---

// Whether neighbours go four at a time: strides and sizes allow it, and the addresses are aligned in this launch.
static void add_alignment(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    str_addf(e->out, "    bool aligned = (arg(%d) & %uu) != 0u && (0u", e->layout.flags, GLSL_FLAG_NEIGHBOURS);
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        unsigned four_B = dtype_size_B[fused_access_at(k, i)->dtype] * 4u;
        if (glsl_takes_neighbours(k, i)) str_addf(e->out, " | (arg(%d) & %uu)", 2 * i, (four_B < 16 ? four_B : 16) - 1);
    }
    str_add(e->out, ") == 0u;\n");
}

static void mark_needed(const struct fused_kernel *k, uint8_t *needed)
{
    for (int i = 0; i < k->n_out; i++) needed[k->out[i].node] = 1;
    for (int i = k->dag.n_nodes - 1; i >= 0; i--) {
        if (k->dag.nodes[i].kind == SCALAR_REDUCE) needed[i] = 1;
        for (int a = 0; needed[i] && a < k->dag.nodes[i].n_args; a++) needed[k->dag.nodes[i].arg[a]] = 1;
    }
}

static void mark_early(const struct fused_kernel *k, uint8_t *early)
{
    for (int i = 0; i < k->n_out; i++)
        if (fused_by_element(k, i)) early[k->out[i].node] = 1;
    for (int i = k->dag.n_nodes - 1; i >= 0; i--) {
        const struct scalar_node *n = &k->dag.nodes[i];
        bool in_loop = k->level[i] == LEVEL_ELEMENT || fused_is_fold(n, false);
        for (int a = 0; (in_loop || early[i]) && a < n->n_args; a++) early[n->arg[a]] = 1;
    }
}

static void add_main(struct glsl_emitter *e)
{
    str_addf(e->out, "\nvoid main()\n{\n%s", e->k->table ? "    find_entry();\n" : "");
    for (int i = 0; i < e->k->n_in + e->k->n_out; i++) str_addf(e->out, "    uint64_t A%d = arg64(%d);\n", i, 2 * i);
    if (e->form.vector) add_alignment(e);
    if (e->form.kind == GLSL_POINTS && e->k->trips.on)
        glsl_add_trips(e);
    else if (e->form.kind == GLSL_POINTS)
        add_points(e);
    else
        add_rows(e);
    str_add(e->out, "}\n");
}

// The emitter with its marks, which are the caller's to free; NULL: out of memory.
static uint8_t *begin(struct glsl_emitter *e, const struct fused_kernel *k, struct str *text)
{
    size_t n = (size_t)k->dag.n_nodes;
    uint8_t *marks = calloc(n ? n : 1, 8);
    if (!marks) {
        error_set(KILN_E_MEMORY, "out of memory for kernel %s", k->name);
        return NULL;
    }
    *e = (struct glsl_emitter){.out = text,
                               .k = k,
                               .wide = fused_needs_wide_index(k),
                               .needed = marks,
                               .known = marks + n,
                               .local = marks + 2 * n,
                               .want = marks + 3 * n,
                               .kept = marks + 4 * n,
                               .early = marks + 5 * n,
                               .read = marks + 6 * n,
                               .within = marks + 7 * n};
    glsl_mark_kept(k, e->local, e->want, e->kept);
    for (int i = 0; i < k->dag.n_nodes; i++) e->read[i] = e->kept[i] != 0;
    for (int i = 0; i < k->n_out; i++) e->read[k->out[i].node] = 1;
    for (int i = 0; i < k->n_checks; i++) e->read[k->checks[i]] = 1;
    return marks;
}

kiln_status glsl_plan(const struct fused_kernel *k, const struct device_caps *caps, struct codegen_plan *plan)
{
    struct glsl_emitter e;
    uint8_t *marks = begin(&e, k, NULL);
    if (!marks) return error_pending;
    int n_kept = 0;
    for (int i = 0; i < k->dag.n_nodes; i++) n_kept += e.kept[i] != 0;
    free(marks);
    glsl_form_choose(k, caps, n_kept, &e.form);
    glsl_layout_make(k, &e.form, e.wide, &e.layout);
    *plan = (struct codegen_plan){.target = CODE_GLSL,
                                  .n_access = (uint8_t)(k->n_in + k->n_out),
                                  .wide = e.wide,
                                  .indirect = k->table || (uint32_t)e.layout.n_words * 4 > caps->max_push_B};
    glsl_form_save(&e.form, plan);
    return KILN_OK;
}

kiln_status glsl_text(const struct fused_kernel *k, const struct codegen_plan *plan, struct str *text)
{
    struct glsl_emitter e;
    uint8_t *marks = begin(&e, k, text);
    if (!marks) return error_pending;
    glsl_form_load(plan, &e.form);
    glsl_layout_make(k, &e.form, e.wide, &e.layout);
    mark_needed(k, e.needed);
    mark_early(k, e.early);
    glsl_add_head(&e, plan);
    if (e.form.kind == GLSL_ATTENTION)
        glsl_add_attention(&e);
    else if (glsl_is_product(&e.form))
        glsl_add_product(&e);
    else
        add_main(&e);
    free(marks);
    return str_check(text);
}
