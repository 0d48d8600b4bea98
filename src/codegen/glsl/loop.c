// Loops over the elements of a fused kernel: all of a pointwise one, the passes over a row (fuse/loops.h).
//
// A lane takes `chunk` elements at a time. Where four neighbours are one aligned access (`full`), they are its chunk,
// or eight of two bytes are, which drivers make one access of 16 bytes, and are loaded and stored whole; else the
// elements of a chunk lie a step apart, so that neighbouring lanes touch neighbouring memory. The body is written for
// one element of the chunk: once for whole chunks, where nothing is asked for an element, and once for others; but once
// for both in loops over what fits into registers, which are unrolled. Of points a lane may have several chunks, a
// workgroup's stride apart (form.each): where all of a workgroup are whole, nothing is asked for them either.
//
// A row that fits into registers (form.keep) is walked with a constant count; values that a later loop needs stay in
// arrays, which unrolling turns into registers. Of a longer row each loop computes what it needs from the inputs again.
// Invariant: a loop reads a kept value only at the elements where an earlier one wrote it, for all walk alike.
#include "codegen/glsl/emit.h"
#include "ir/type.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK_CHUNKS = 16, BLOCK_MOST = 64 }; // of each lane, to a block; elements

static const char *const vector_type[CLASS_COUNT] = {"vec4", "dvec4", "ivec4", "i64vec4", "bvec4"};

// A chunk is one vector of four, or two in an array; `c` counts its elements.
static bool has_two(const struct glsl_emitter *e)
{
    return e->form.chunk == 8;
}

static const char *of_chunk(const struct glsl_emitter *e)
{
    return has_two(e) ? "[c >> 2][c & 3u]" : "[c]";
}

// Of a pointwise kernel: what is stored, and what goes into totals.
static void mark_points(const struct fused_kernel *k, uint8_t *want)
{
    memset(want, 0, (size_t)k->dag.n_nodes);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (fused_is_fold(&k->dag.nodes[i], true)) want[k->dag.nodes[i].arg[0]] = 1;
    for (int i = 0; i < k->n_out; i++)
        if (k->level[k->out[i].node] != LEVEL_TOTAL) want[k->out[i].node] = 1;
}

// There are registers for all values, or for none (REGISTERS_KEPT); but indices are not worth them.
static bool is_worth_keeping(void *kernel, int node)
{
    return ((const struct fused_kernel *)kernel)->dag.nodes[node].kind != SCALAR_DIM;
}

void glsl_mark_kept(const struct fused_kernel *k, uint8_t *first, uint8_t *want, uint8_t *kept)
{
    fused_choose_kept(k, is_worth_keeping, (void *)(uintptr_t)k, first, want, kept);
}

// --- what one loop does ---

// What the body of a loop is written for: chunks of which `full` tells, whole ones, others; and those whose elements
// lie a step apart and are all there.
enum chunks { CHUNKS_ANY, CHUNKS_WHOLE, CHUNKS_LOOSE, CHUNKS_STEPS };

struct row_loop {
    int pass;
    enum chunks chunks;
    bool rest;       // all that is left of a row
    bool points;     // of a pointwise kernel
    bool blocks;     // folds gather in blocks, which keeps rounding errors short
    bool places_all; // some value needs its indices, or an access its place, at each element
    const char *indent;
};

static bool is_plain_load(const struct glsl_emitter *e, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    return e->want[node] && !e->local[node] && n->kind == SCALAR_LOAD && n->n_args == 0;
}

static bool is_kept_before(const struct glsl_emitter *e, int node, int pass)
{
    return e->form.keep && e->kept[node] && e->kept[node] <= pass;
}

static bool is_output_here(const struct glsl_emitter *e, const struct row_loop *l, int output)
{
    if (l->points) return e->k->level[e->k->out[output].node] != LEVEL_TOTAL;
    return fused_pass_stores(e->k, l->pass, output);
}

// Completes the marks: what wanted values stand on, up to what is in scope or kept.
static void want_arguments(struct glsl_emitter *e, struct row_loop *l)
{
    const struct scalar_dag *d = &e->k->dag;
    int first = glsl_first_walked(e->k, &e->form);
    memcpy(e->local, e->known, (size_t)d->n_nodes);
    l->places_all = false;
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        const struct scalar_node *n = &d->nodes[i];
        if (!e->want[i] || e->local[i]) continue;
        if (is_kept_before(e, i, l->pass)) continue;
        if (n->kind == SCALAR_DIM && n->code >= first) l->places_all = true;
        if (n->kind == SCALAR_LOAD && n->n_args > 0) l->places_all = true;
        if (n->kind == SCALAR_PRIM && n->n_args == 0) l->places_all = true;
        for (int a = 0; a < n->n_args; a++) e->want[n->arg[a]] = 1;
    }
}

// Which accesses an element's place is written for.
enum { PLACE_LOADS = 1, PLACE_STORES = 2, PLACE_GATHERS = 4, PLACE_ALL = 7 };

static void add_places(struct glsl_emitter *e, const struct row_loop *l, const char *indent, unsigned which)
{
    const struct fused_kernel *k = e->k;
    int first = glsl_first_walked(k, &e->form);
    bool used[FUSED_MAX_IN + FUSED_MAX_OUT] = {false};
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (n->kind != SCALAR_LOAD || !e->want[i] || e->known[i] || is_kept_before(e, i, l->pass)) continue;
        if (which & (n->n_args ? PLACE_GATHERS : PLACE_LOADS)) used[n->code] = true;
    }
    for (int i = 0; i < k->n_out; i++) used[k->n_in + i] = (which & PLACE_STORES) && is_output_here(e, l, i);
    if (l->chunks != CHUNKS_WHOLE)
        glsl_add_indices(e, indent, "r", first, k->n_dims);
    else if (which & PLACE_GATHERS)
        str_addf(e->out, "%sINDEX i%d = of_chunk + c;\n", indent, k->n_dims - 1);
    for (int i = 0; i < k->n_in + k->n_out; i++)
        if (used[i]) glsl_add_place(e, indent, 'o', l->points ? 0 : 'b', i, first, k->n_dims);
}

// --- whole chunks ---

// Which of the two fours, where there are two.
static void add_four(struct glsl_emitter *e, const char *prefix, int number, int four)
{
    str_addf(e->out, has_two(e) ? "%s%d[%d]" : "%s%d", prefix, number, four);
}

static void add_address_of_four(struct glsl_emitter *e, int access, int four)
{
    glsl_add_address(e, 'o', access);
    if (four) str_addf(e->out, " + %uul", 4u * dtype_size_B[fused_access_at(e->k, access)->dtype]);
}

static void add_vector_load(struct glsl_emitter *e, int node, int four, const char *indent)
{
    const struct fused_kernel *k = e->k;
    const struct scalar_node *n = &k->dag.nodes[node];
    bool moves = k->in[n->code].strides[k->n_dims - 1] != 0;
    str_add(e->out, indent);
    add_four(e, "v", node, four);
    if (four && !moves) {
        str_addf(e->out, " = v%d[0];\n", node);
        return;
    }
    str_addf(e->out, " = %s", moves ? "load4_" : vector_type[n->cls]);
    str_addf(e->out, moves ? "%s(" : "(load_%s(", dtype_name(k->in[n->code].dtype));
    add_address_of_four(e, n->code, four);
    str_add(e->out, moves ? ");\n" : "));\n");
}

static void add_vector_store(struct glsl_emitter *e, int output, int four, const char *indent)
{
    const struct fused_access *a = &e->k->out[output].to;
    bool moves = a->strides[e->k->n_dims - 1] != 0;
    if (four < has_two(e) && !moves) return; // the last element stays
    str_addf(e->out, "%sstore%s_%s(", indent, moves ? "4" : "", dtype_name(a->dtype));
    add_address_of_four(e, e->k->n_in + output, moves ? four : 0);
    str_add(e->out, ", ");
    add_four(e, "w", output, four);
    str_add(e->out, moves ? ");\n" : ".w);\n");
}

static void add_vector_loads(struct glsl_emitter *e, const struct row_loop *l, const char *indent)
{
    const struct fused_kernel *k = e->k;
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (is_plain_load(e, i) && !is_kept_before(e, i, l->pass))
            str_addf(e->out, "%s%s v%d%s;\n", indent, vector_type[k->dag.nodes[i].cls], i, has_two(e) ? "[2]" : "");
    for (int i = 0; i < k->n_out; i++)
        if (is_output_here(e, l, i))
            str_addf(e->out, "%s%s w%d%s;\n", indent, vector_type[k->out[i].to.cls], i, has_two(e) ? "[2]" : "");
    str_addf(e->out, "%s%s{\n%s    INDEX r = at;\n", indent, l->chunks == CHUNKS_ANY ? "if (full) " : "", indent);
    const char *inner = glsl_deeper(indent);
    add_places(e, l, inner, PLACE_LOADS);
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!is_plain_load(e, i) || is_kept_before(e, i, l->pass)) continue;
        for (int four = 0; four <= has_two(e); four++) add_vector_load(e, i, four, inner);
    }
    str_addf(e->out, "%s}\n", indent);
}

static void add_vector_stores(struct glsl_emitter *e, const struct row_loop *l, const char *indent)
{
    const struct fused_kernel *k = e->k;
    bool any = false;
    for (int i = 0; i < k->n_out; i++) any = any || is_output_here(e, l, i);
    if (!any) return;
    const char *inner = glsl_deeper(indent);
    str_addf(e->out, "%s%s{\n%sINDEX r = at;\n", indent, l->chunks == CHUNKS_ANY ? "if (full) " : "", inner);
    add_places(e, l, inner, PLACE_STORES);
    for (int i = 0; i < k->n_out; i++) {
        if (!is_output_here(e, l, i)) continue;
        for (int four = 0; four <= has_two(e); four++) add_vector_store(e, i, four, inner);
    }
    str_addf(e->out, "%s}\n", indent);
}

// --- one element ---

// Whether the body asks for each element whether its chunk is a whole one.
static bool is_vector(const struct glsl_emitter *e, const struct row_loop *l)
{
    return e->form.vector && l->chunks == CHUNKS_ANY;
}

static void add_element_loads(struct glsl_emitter *e, const struct row_loop *l, const char *indent)
{
    const struct fused_kernel *k = e->k;
    const char *inner = glsl_deeper(indent);
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!e->want[i] || e->local[i] || !is_kept_before(e, i, l->pass)) continue;
        str_addf(e->out, "%s%s t%d = k%d[slot + c];\n", indent, glsl_type(k->dag.nodes[i].cls), i, i);
        e->local[i] = 1;
    }
    if (l->chunks == CHUNKS_WHOLE) {
        for (int i = 0; i < k->dag.n_nodes; i++) {
            if (!is_plain_load(e, i)) continue;
            str_addf(e->out, "%s%s t%d = v%d%s;\n", indent, glsl_type(k->dag.nodes[i].cls), i, i, of_chunk(e));
            e->local[i] = 1;
        }
        return;
    }
    bool any = is_vector(e, l);
    if (any) {
        for (int i = 0; i < k->dag.n_nodes; i++)
            if (is_plain_load(e, i)) str_addf(e->out, "%s%s t%d;\n", indent, glsl_type(k->dag.nodes[i].cls), i);
        str_addf(e->out, "%sif (full) {\n", indent);
        for (int i = 0; i < k->dag.n_nodes; i++)
            if (is_plain_load(e, i)) str_addf(e->out, "%st%d = v%d%s;\n", inner, i, i, of_chunk(e));
        str_addf(e->out, "%s} else {\n", indent);
        if (!l->places_all) add_places(e, l, inner, PLACE_LOADS);
    }
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!is_plain_load(e, i)) continue;
        const struct scalar_node *n = &k->dag.nodes[i];
        if (any)
            str_addf(e->out, "%st%d = ", inner, i);
        else
            str_addf(e->out, "%s%s t%d = ", indent, glsl_type(n->cls), i);
        str_addf(e->out, "load_%s(", dtype_name(k->in[n->code].dtype));
        glsl_add_address(e, 'o', n->code);
        str_add(e->out, ");\n");
    }
    if (any) str_addf(e->out, "%s}\n", indent);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (is_plain_load(e, i)) e->local[i] = 1;
}

static void add_to_vectors(struct glsl_emitter *e, const struct row_loop *l, const char *indent)
{
    for (int i = 0; i < e->k->n_out; i++) {
        if (!is_output_here(e, l, i)) continue;
        str_addf(e->out, "%sw%d%s = ", indent, i, of_chunk(e));
        scalar_emit_ref(e->out, TARGET_GLSL, &e->k->dag, e->k->out[i].node);
        str_add(e->out, ";\n");
    }
}

static void add_element_stores(struct glsl_emitter *e, const struct row_loop *l, const char *indent)
{
    const struct fused_kernel *k = e->k;
    bool any = false;
    for (int i = 0; i < k->n_out; i++) any = any || is_output_here(e, l, i);
    if (!any) return;
    if (l->chunks == CHUNKS_WHOLE) {
        add_to_vectors(e, l, indent);
        return;
    }
    const char *inner = is_vector(e, l) ? glsl_deeper(indent) : indent;
    if (is_vector(e, l)) {
        str_addf(e->out, "%sif (full) {\n", indent);
        add_to_vectors(e, l, inner);
        str_addf(e->out, "%s} else {\n", indent);
        if (!l->places_all) add_places(e, l, inner, PLACE_STORES);
    }
    for (int i = 0; i < k->n_out; i++)
        if (is_output_here(e, l, i)) glsl_add_store(e, inner, 'o', i);
    if (is_vector(e, l)) str_addf(e->out, "%s}\n", indent);
}

static void add_element(struct glsl_emitter *e, const struct row_loop *l, const char *indent)
{
    const struct fused_kernel *k = e->k;
    if (l->places_all || !e->form.vector || l->chunks == CHUNKS_LOOSE) add_places(e, l, indent, PLACE_ALL);
    add_element_loads(e, l, indent);
    glsl_emit_wanted(e, indent, e->local);
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        bool feeds = l->points ? fused_is_fold(n, true) : fused_pass_folds(k, l->pass, i);
        if (feeds) glsl_add_collect(e, indent, l->blocks ? "part" : "acc", i, "r");
        if (e->form.keep && e->kept[i] == l->pass + 1) str_addf(e->out, "%sk%d[slot + c] = t%d;\n", indent, i, i);
    }
    add_element_stores(e, l, indent);
}

// --- the loop ---

static void add_loop_head(struct glsl_emitter *e, const struct row_loop *l)
{
    const struct glsl_form *f = &e->form;
    uint32_t pace = l->points ? f->lanes * f->rows : f->lanes, stride = pace * f->chunk;
    if (f->keep && !l->points) {
        str_addf(e->out, "%s[[unroll]] for (uint b = 0u; b < %uu; b++) {\n%s    uint slot = b * %uu;\n", l->indent,
                 f->keep / f->chunk, l->indent, f->chunk);
        str_addf(e->out, "%s    INDEX at = INDEX(b * %uu", l->indent, stride);
    } else if (l->points && !e->k->has_total) {
        str_addf(e->out, "%s{\n%s    INDEX at = (INDEX(group_index()) * %uu", l->indent, l->indent, stride);
    } else if (l->points) {
        str_addf(e->out,
                 "%sfor (INDEX b = INDEX(group_index()) * %uu; b < end; b += INDEX(arg(%d)) * %uu) {\n"
                 "%s    INDEX at = (b",
                 l->indent, stride, e->layout.groups, stride, l->indent);
    } else {
        str_addf(e->out, "%sfor (INDEX b = %s; b < %s; b += %uu) {\n%s    INDEX at = (b", l->indent,
                 l->blocks ? "block_begin" : "begin", l->blocks ? "block_end" : "end", stride, l->indent);
    }
    if (f->vector) {
        str_addf(e->out, ") + INDEX(aligned ? lane * %uu : lane);\n%s    uint step = aligned ? 1u : %uu;\n", f->chunk,
                 l->indent, pace);
        str_addf(e->out, "%s    bool full = aligned && at + %uu <= end;\n", l->indent, f->chunk);
    } else {
        str_addf(e->out, ") + INDEX(lane);\n%s    const uint step = %uu;\n", l->indent, pace);
    }
}

// What the elements of a whole chunk, neighbours along the fast dimension, have in common.
static void add_chunk_indices(struct glsl_emitter *e, const char *indent)
{
    int n = e->k->n_dims;
    glsl_add_indices(e, indent, "at", glsl_first_walked(e->k, &e->form), n);
    str_addf(e->out, "%sINDEX of_chunk = i%d;\n", indent, n - 1);
}

// Chunks of elements, as e->form.vector and l->chunks say.
static void add_body(struct glsl_emitter *e, const struct row_loop *l, const char *indent)
{
    bool whole = l->chunks == CHUNKS_WHOLE, loose = l->chunks == CHUNKS_LOOSE;
    const char *inner = glsl_deeper(indent);
    if (whole) add_chunk_indices(e, indent);
    if (e->form.vector && !loose) add_vector_loads(e, l, indent);
    if (!l->rest)
        str_addf(e->out, "%s[[%s]] for (uint c = 0u; c < %uu; c++) {\n", indent, loose ? "dont_unroll" : "unroll",
                 e->form.chunk);
    else
        str_addf(e->out, "%sfor (INDEX r = at; r < end; r += step) {\n", indent);
    if (!l->rest) str_addf(e->out, whole ? "%sINDEX r = at + c;\n" : "%sINDEX r = at + c * step;\n", inner);
    str_addf(e->out, whole || l->rest || l->chunks == CHUNKS_STEPS ? "%s{\n" : "%sif (r < end) {\n", inner);
    add_element(e, l, glsl_deeper(inner));
    str_addf(e->out, "%s}\n%s}\n", inner, indent);
    // The marks of what is known inside the element's scope do not hold outside.
    memcpy(e->local, e->known, (size_t)e->k->dag.n_nodes);
    if (e->form.vector && !loose) add_vector_stores(e, l, indent);
}

// Of a row: whole chunks, as far as they go, then the rest of the row, for each lane in the same order as by chunks.
static void add_two_loops(struct glsl_emitter *e, struct row_loop *l)
{
    const struct glsl_form *f = &e->form;
    const char *indent = l->indent, *inner = glsl_deeper(indent), *end = l->blocks ? "block_end" : "end";
    str_addf(e->out, "%s{\n%sINDEX end = %s, at = %s + INDEX(aligned ? lane * %uu : lane);\n", indent, inner, end,
             l->blocks ? "block_begin" : "begin", f->chunk);
    str_addf(e->out, "%suint step = aligned ? 1u : %uu;\n", inner, f->lanes);
    str_addf(e->out, "%sfor (; aligned && at + %uu <= end; at += %uu) {\n", inner, f->chunk, f->lanes * f->chunk);
    l->chunks = CHUNKS_WHOLE;
    add_body(e, l, glsl_deeper(inner));
    str_addf(e->out, "%s}\n", inner);
    l->chunks = CHUNKS_LOOSE;
    l->rest = true;
    add_body(e, l, inner);
    str_addf(e->out, "%s}\n", indent);
}

// A chunk of points: whole, or not; on processors, which go both ways, once for both.
static void add_two_bodies(struct glsl_emitter *e, struct row_loop *l)
{
    const char *inner = glsl_deeper(l->indent);
    add_loop_head(e, l);
    str_addf(e->out, "%sif (full) {\n", inner);
    l->chunks = CHUNKS_WHOLE;
    add_body(e, l, glsl_deeper(inner));
    str_addf(e->out, "%s} else {\n", inner);
    l->chunks = CHUNKS_LOOSE;
    add_body(e, l, glsl_deeper(inner));
    str_addf(e->out, "%s}\n%s}\n", inner, l->indent);
}

// One of several chunks of points that a lane has. Where fours may be had, `place` is where they are.
static void add_chunk_of(struct glsl_emitter *e, struct row_loop *l, enum chunks chunks, const char *place)
{
    const struct glsl_form *f = &e->form;
    uint32_t pace = f->lanes * f->rows;
    const char *indent = glsl_deeper(glsl_deeper(l->indent)), *inner = glsl_deeper(indent);
    str_addf(e->out, "%s[[%s]] for (uint s = 0u; s < %uu; s++) {\n", indent,
             chunks == CHUNKS_WHOLE || chunks == CHUNKS_STEPS ? "unroll" : "dont_unroll", f->each);
    str_addf(e->out, "%sINDEX at = first + s * %uu + %s;\n", inner, pace * f->chunk, place);
    if (chunks == CHUNKS_ANY)
        str_addf(e->out, "%suint step = aligned ? 1u : %uu;\n%sbool full = aligned && at + %uu <= end;\n", inner, pace,
                 inner, f->chunk);
    else if (chunks != CHUNKS_WHOLE)
        str_addf(e->out, "%sconst uint step = %uu;\n", inner, pace);
    l->chunks = chunks;
    add_body(e, l, inner);
    str_addf(e->out, "%s}\n", indent);
}

// Several chunks of points a lane: a workgroup whose points are all there asks for none, any other goes chunk by chunk.
static void add_workgroup(struct glsl_emitter *e, struct row_loop *l)
{
    const struct glsl_form *f = &e->form;
    uint32_t points = f->lanes * f->rows * f->chunk * f->each;
    const char *indent = l->indent, *inner = glsl_deeper(indent);
    char fours[32], either[48];
    snprintf(fours, sizeof fours, "lane * %uu", f->chunk);
    snprintf(either, sizeof either, "(aligned ? lane * %uu : lane)", f->chunk);
    str_addf(e->out, "%s{\n%sINDEX first = INDEX(group_index()) * %uu;\n", indent, inner, points);
    str_addf(e->out, "%sif (%sfirst + %uu <= end) {\n", inner, f->vector ? "aligned && " : "", points);
    add_chunk_of(e, l, f->vector ? CHUNKS_WHOLE : CHUNKS_STEPS, f->vector ? fours : "lane");
    str_addf(e->out, "%s} else {\n", inner);
    add_chunk_of(e, l, f->vector ? CHUNKS_ANY : CHUNKS_LOOSE, f->vector ? either : "lane");
    str_addf(e->out, "%s}\n%s}\n", inner, indent);
}

// The body of a loop, and the loop where it has no blocks.
static void add_chunks(struct glsl_emitter *e, const struct row_loop *loop)
{
    struct row_loop l = *loop;
    want_arguments(e, &l);
    if (e->form.vector && !l.points && !e->form.keep) {
        add_two_loops(e, &l);
    } else if (e->form.each > 1) {
        add_workgroup(e, &l);
    } else if (e->form.vector == GLSL_VECTOR_SPLIT && l.points) {
        add_two_bodies(e, &l);
    } else {
        add_loop_head(e, &l);
        add_body(e, &l, glsl_deeper(l.indent));
        str_addf(e->out, "%s}\n", l.indent);
    }
}

static void add_blocks(struct glsl_emitter *e, struct row_loop *l, const char *indent)
{
    uint32_t each = e->form.chunk * BLOCK_CHUNKS;
    uint32_t block = e->form.lanes * (each < BLOCK_MOST ? each : BLOCK_MOST);
    const char *inner = glsl_deeper(indent);
    str_addf(e->out, "%sfor (INDEX block_begin = begin; block_begin < end; block_begin += %uu) {\n", indent, block);
    str_addf(e->out, "%sINDEX block_end = min(block_begin + %uu, end);\n", inner, block);
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (fused_pass_folds(e->k, l->pass, i)) glsl_add_accumulator(e, inner, "part", i);
    l->blocks = true;
    l->indent = inner;
    add_chunks(e, l);
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (fused_pass_folds(e->k, l->pass, i)) glsl_add_merge(e, inner, i);
    str_addf(e->out, "%s}\n", indent);
}

void glsl_add_loop(struct glsl_emitter *e, const char *indent, int pass)
{
    const struct fused_kernel *k = e->k;
    struct row_loop l = {.pass = pass, .points = e->form.kind == GLSL_POINTS, .indent = indent};
    if (l.points)
        mark_points(k, e->want);
    else
        fused_pass_mark(k, pass, e->want);
    if (l.points || e->form.keep || pass == k->n_stages)
        add_chunks(e, &l);
    else
        add_blocks(e, &l, indent);
}
