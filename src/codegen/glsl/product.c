// Fused kernels around a sum of products, by tiles: the text between the head and the template, shaders/product.glsl
// or, where the sum goes over the taps of an image, shaders/direct.glsl.
//
// The template asks for an element of each side and says what a sum is; the kernel's values on the way into the sum
// become the functions a_value and b_value, those made of the sum become store_result. A function computes uniform
// values again, which costs an invocation little beside the element that it loads. What lies in the batch is found
// once for each tile: the structs a_side, b_side and c_side carry the place of each access.
#include "codegen/glsl/emit.h"
#include "ir/type.h"

#include <stdio.h>
#include <string.h>

static const char *const quad_type[CLASS_COUNT] = {"vec4", "dvec4", "ivec4", "i64vec4", "bvec4"};

void glsl_part_mark(struct glsl_emitter *e, struct glsl_part *p)
{
    const struct fused_kernel *k = e->k;
    memset(e->want, 0, (size_t)k->dag.n_nodes);
    memset(e->local, 0, (size_t)k->dag.n_nodes);
    for (int i = 0; i < 2; i++)
        if (p->given[i] >= 0) e->local[p->given[i]] = 1;
    if (p->root >= 0) e->want[p->root] = 1;
    for (int i = 0; p->root < 0 && i < k->n_out; i++) {
        e->want[k->out[i].node] = 1;
        p->access[k->n_in + i] = true;
    }
    for (int i = k->dag.n_nodes - 1; i >= 0; i--) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (!e->want[i] || e->local[i]) continue;
        if (n->kind == SCALAR_LOAD) p->access[n->code] = true;
        for (int a = 0; a < n->n_args; a++) e->want[n->arg[a]] = 1;
    }
}

static bool names_batch(const struct glsl_emitter *e, int n_batch)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        const struct scalar_node *n = &e->k->dag.nodes[i];
        if (e->want[i] && n->kind == SCALAR_DIM && n->code < n_batch) return true;
    }
    return false;
}

// The struct, and the function that fills it for a batch.
void glsl_part_struct(struct glsl_emitter *e, const struct glsl_part *p, int n_batch)
{
    struct str *s = e->out;
    int n = e->k->n_in + e->k->n_out;
    str_addf(s, "\nstruct %c_side { uint batch;", p->letter);
    for (int i = 0; i < n; i++)
        if (p->access[i]) str_addf(s, " OFFSET b%d;", i);
    str_addf(s, " };\n%c_side %c_of(const uint batch)\n{\n", p->letter, p->letter);
    glsl_add_indices(e, "    ", "batch", 0, n_batch);
    for (int i = 0; i < n; i++)
        if (p->access[i]) glsl_add_place(e, "    ", 'b', 0, i, 0, n_batch);
    str_addf(s, "    return %c_side(batch", p->letter);
    for (int i = 0; i < n; i++)
        if (p->access[i]) str_addf(s, ", b%d", i);
    str_add(s, ");\n}\n");
}

static void add_indices(struct glsl_emitter *e, const struct glsl_sections *s, int section, const char *name)
{
    glsl_add_indices(e, "    ", name, s->begin[section], s->begin[section + 1]);
}

// The dimensions of K from the outermost: (outer), (outer, kx) or (outer, ky, kx).
static const char *tap_name(const struct glsl_sections *s, int d)
{
    int at = d - s->begin[3], n = s->begin[4] - s->begin[3];
    return at == 0 ? "outer" : at == n - 1 ? "kx" : "ky";
}

static void add_taps(struct glsl_emitter *e, const struct glsl_sections *s)
{
    for (int d = s->begin[3]; d < s->begin[4]; d++) str_addf(e->out, "    INDEX i%d = %s;\n", d, tap_name(s, d));
}

// Where the point lies in each access.
static void add_part_places(struct glsl_emitter *e, const struct glsl_sections *s, const struct glsl_part *p)
{
    const struct fused_kernel *k = e->k;
    if (names_batch(e, s->begin[1])) add_indices(e, s, 0, "s.batch");
    add_indices(e, s, p->first, p->first_name);
    if (p->taps)
        add_taps(e, s);
    else
        add_indices(e, s, p->second, p->second_name);
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        if (!p->access[i]) continue;
        str_addf(e->out, "    uint64_t A%d = arg64(%d);\n    OFFSET b%d = s.b%d;\n", i, 2 * i, i, i);
        glsl_add_place(e, "    ", 'o', 'b', i, s->begin[1], k->n_dims);
    }
}

void glsl_part_body(struct glsl_emitter *e, const struct glsl_sections *s, const struct glsl_part *p)
{
    add_part_places(e, s, p);
    glsl_emit_wanted(e, "    ", e->local);
}

void glsl_part_value(struct glsl_emitter *e, const struct glsl_sections *s, struct glsl_part *p)
{
    const struct fused_kernel *k = e->k;
    glsl_part_mark(e, p);
    glsl_part_struct(e, p, s->begin[1]);
    str_addf(e->out, "%s %c_value(const %c_side s, const uint %s, const uint %s", glsl_type(k->dag.nodes[p->root].cls),
             p->letter, p->letter, p->first_name, p->taps ? "outer, const uint ky, const uint kx" : p->second_name);
    if (p->given[0] >= 0) str_addf(e->out, ", const %s t%d", glsl_type(k->dag.nodes[p->given[0]].cls), p->given[0]);
    str_add(e->out, ")\n{\n");
    glsl_part_body(e, s, p);
    str_add(e->out, "    return ");
    scalar_emit_ref(e->out, TARGET_GLSL, &k->dag, p->root);
    str_add(e->out, ";\n}\n");
}

void glsl_part_store(struct glsl_emitter *e, const struct glsl_sections *s, struct glsl_part *p)
{
    const struct fused_kernel *k = e->k;
    int sum = p->given[0];
    glsl_part_mark(e, p);
    glsl_part_struct(e, p, s->begin[1]);
    str_addf(e->out, "void store_result(const c_side s, const uint %s, const uint %s, const %s t%d)\n{\n",
             p->first_name, p->second_name, glsl_type(k->dag.nodes[sum].cls), sum);
    glsl_part_body(e, s, p);
    for (int i = 0; i < k->n_out; i++) glsl_add_store(e, "    ", 'o', i);
    str_add(e->out, "}\n");
}

// The same four of f16 as they lie in memory.
static void add_fetch(struct glsl_emitter *e, const struct glsl_sections *s, struct glsl_part *p)
{
    char name = (char)(p->letter - 'a' + 'A');
    str_addf(e->out, "uvec2 %c_bits(const %c_side s, const uint %s, const uint %s)\n{\n", p->letter, p->letter,
             p->first_name, p->second_name);
    add_part_places(e, s, p);
    str_add(e->out, "    return Memory16x4(");
    glsl_add_address(e, 'o', e->k->dag.nodes[p->root].code);
    str_addf(e->out, ").v;\n}\n#define %c_FETCH(s, i, j) %c_bits(s, i, j)\n", name, p->letter);
}

// Four values along the fast dimension of a side, with one access for each that is loaded; and whether they may be
// had so: the macros <NAME>_FOURS and <NAME>_FOUR.
void glsl_part_fours(struct glsl_emitter *e, const struct glsl_sections *s, struct glsl_part *p, int number)
{
    const struct fused_kernel *k = e->k;
    struct glsl_side sides[GLSL_MAX_SIDES];
    glsl_sides_of(k, &e->form, sides);
    const struct glsl_side *side = &sides[number];
    char name = (char)(p->letter - 'a' + 'A');
    str_addf(e->out, "#define %c_ALONG %s\n", name, side->along_second ? "true" : "false");
    if (!(e->form.vector >> number & 1)) return;
    str_addf(e->out, "bool %c_fours()\n{\n    return (arg(%d) & %uu) != 0u && (0u", p->letter, e->layout.flags,
             1u << number);
    for (int i = 0; i < k->n_in; i++) {
        unsigned four_B = dtype_size_B[k->in[i].dtype] * 4u;
        if (side->access[i] && k->in[i].strides[side->fast] == 1)
            str_addf(e->out, " | (arg(%d) & %uu)", 2 * i, (four_B < 16 ? four_B : 16) - 1);
    }
    const char *type = quad_type[k->dag.nodes[p->root].cls];
    glsl_part_mark(e, p);
    str_addf(e->out, ") == 0u;\n}\n%s %c_four(const %c_side s, const uint %s, const uint %s)\n{\n", type, p->letter,
             p->letter, p->first_name, p->second_name);
    add_part_places(e, s, p);
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (!e->want[i] || n->kind != SCALAR_LOAD) continue;
        bool moves = k->in[n->code].strides[side->fast] == 1;
        str_addf(e->out, "    %s v%d = %s", quad_type[n->cls], i, moves ? "load4_" : quad_type[n->cls]);
        str_addf(e->out, moves ? "%s(" : "(load_%s(", dtype_name(k->in[n->code].dtype));
        glsl_add_address(e, 'o', n->code);
        str_add(e->out, moves ? ");\n" : "));\n");
    }
    str_addf(e->out, "    %s four;\n    [[unroll]] for (uint c = 0; c < 4; c++) {\n        INDEX i%d = %s + c;\n", type,
             side->fast, side->along_second ? p->second_name : p->first_name);
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!e->want[i] || k->dag.nodes[i].kind != SCALAR_LOAD) continue;
        str_addf(e->out, "        %s t%d = v%d[c];\n", glsl_type(k->dag.nodes[i].cls), i, i);
        e->local[i] = 1;
    }
    glsl_emit_wanted(e, "        ", e->local);
    str_add(e->out, "        four[c] = ");
    scalar_emit_ref(e->out, TARGET_GLSL, &k->dag, p->root);
    str_addf(e->out,
             ";\n    }\n    return four;\n}\n#define %c_FOURS %c_fours()\n#define %c_FOUR(s, i, j) %c_four(s, i, j)\n",
             name, p->letter, name, p->letter);
    if (e->form.matrix) add_fetch(e, s, p);
}

static void add_main(struct glsl_emitter *e)
{
    const struct glsl_layout *l = &e->layout;
    enum scalar_class cls = e->k->dag.nodes[e->k->product.sum].cls;
    str_addf(e->out, "#define TILE %uu\n#define RUN %uu\n#define QUAD %s\n", e->form.tile_n, e->form.run,
             quad_type[cls]);
    if (e->form.small) str_add(e->out, "#define SMALL true\n");
    str_addf(e->out,
             "#define RESULTS [[dont_unroll]]\nconst uint ROWS = 8u;\n#include \"product.glsl\"\n\nvoid main()\n{\n"
             "    product p = product(uint(arg_index(%d)), uint(arg_index(%d)), uint(arg_index(%d)));\n"
             "    uint tiles_n = (p.n_size + TILE - 1) / TILE, tiles_m = (p.m_size + TILE - 1) / TILE;\n"
             "    uint t = group_index() / tiles_n, batch = t / tiles_m;\n"
             "    if (batch >= uint(arg_index(%d))) return;\n"
             "    multiply(a_of(batch), b_of(batch), c_of(batch), p, (t - batch * tiles_m) * TILE,\n"
             "             (group_index() - t * tiles_n) * TILE);\n}\n",
             l->m, l->n, l->length, l->batches);
}

// --- taps ---

// What is known of a pixel for all its taps: indices and places of side b, kept for each pixel at hand.
static void add_neighbours(struct glsl_emitter *e, const struct glsl_sections *s, struct glsl_part *p)
{
    const struct fused_kernel *k = e->k;
    int first = s->begin[2], end = s->begin[3], node = k->product.b;
    glsl_part_mark(e, p);
    glsl_part_struct(e, p, s->begin[1]);
    str_add(e->out, "a_side a_at;\nb_side b_at;\nc_side c_at;\n");
    for (int d = first; d < end; d++) str_addf(e->out, "INDEX pixel_i%d[4];\n", d);
    for (int i = 0; i < k->n_in; i++)
        if (p->access[i]) str_addf(e->out, "OFFSET pixel_b%d[4];\n", i);
    str_add(e->out, "void locate_pixel(const uint i, const uint p)\n{\n");
    add_indices(e, s, 2, "p");
    for (int d = first; d < end; d++) str_addf(e->out, "    pixel_i%d[i] = i%d;\n", d, d);
    for (int i = 0; i < k->n_in; i++) {
        if (!p->access[i]) continue;
        str_addf(e->out, "    OFFSET b%d = b_at.b%d;\n", i, i);
        glsl_add_place(e, "    ", 'o', 'b', i, first, end);
        str_addf(e->out, "    pixel_b%d[i] = o%d;\n", i, i);
    }
    str_addf(e->out,
             "}\n%s neighbour(const uint i, const uint outer, const uint ky, const uint kx, const uint at)\n{\n",
             glsl_type(k->dag.nodes[node].cls));
    if (names_batch(e, s->begin[1])) add_indices(e, s, 0, "b_at.batch");
    for (int d = first; d < end; d++) str_addf(e->out, "    INDEX i%d = pixel_i%d[i];\n", d, d);
    add_taps(e, s);
    for (int i = 0; i < k->n_in; i++) {
        if (!p->access[i]) continue;
        str_addf(e->out, "    uint64_t A%d = arg64(%d);\n    OFFSET b%d = pixel_b%d[i];\n", i, 2 * i, i, i);
        glsl_add_place(e, "    ", 'o', 'b', i, s->begin[3], k->n_dims);
    }
    glsl_emit_wanted(e, "    ", e->local);
    str_add(e->out, "    return ");
    scalar_emit_ref(e->out, TARGET_GLSL, &k->dag, node);
    str_add(e->out, ";\n}\n");
}

static void add_taps_main(struct glsl_emitter *e, const struct glsl_sections *s)
{
    const struct glsl_layout *l = &e->layout;
    int n = s->begin[4] - s->begin[3], last = s->begin[4] - 1;
    char height[48] = "1u", width[48] = "1u";
    if (n > 2) snprintf(height, sizeof height, "uint(arg_index(%d))", l->size[last - 1]);
    if (n > 1) snprintf(width, sizeof width, "uint(arg_index(%d))", l->size[last]);
    str_addf(e->out, "#define VALUE %s\n#define KERNEL_H %s\n#define KERNEL_W %s\n",
             glsl_type(e->k->dag.nodes[e->k->product.sum].cls), height, width);
    str_addf(e->out,
             "#define weight(m, outer, ky, kx) a_value(a_at, m, outer, ky, kx)\n"
             "#define result(i, p, m, v) store_result(c_at, m, p, v)\n"
             "#define PLACE uint\n#define place_of_tap(outer, ky, kx) 0u\n"
             "#define RESULTS [[dont_unroll]]\nconst uint ROWS = 8u;\n#include \"direct.glsl\"\n\nvoid main()\n{\n"
             "    read_arguments();\n"
             "    uint m_size = uint(arg_index(%d)), p_size = uint(arg_index(%d)), k_size = uint(arg_index(%d));\n"
             "    uint tiles_p = (p_size + PIXELS - 1) / PIXELS, tiles_m = (m_size + ROWS - 1) / ROWS;\n"
             "    uint t = group_index() / tiles_p, batch = t / tiles_m;\n"
             "    if (batch >= uint(arg_index(%d))) return;\n"
             "    a_at = a_of(batch);\n    b_at = b_of(batch);\n    c_at = c_of(batch);\n"
             "    convolve((t - batch * tiles_m) * ROWS, (group_index() - t * tiles_p) * PIXELS, m_size, p_size,\n"
             "             k_size / (KERNEL_H * KERNEL_W));\n}\n",
             l->m, l->n, l->length, l->batches);
}

// For each tap a pixel asks for strides, sizes and numbers: they are read once, into registers.
static void add_arguments(struct glsl_emitter *e)
{
    str_addf(
        e->out,
        "uint told[%d];\nvoid read_arguments()\n{\n    [[unroll]] for (uint i = 0; i < %d; i++) told[i] = arg(i);\n"
        "}\n#undef arg\n#define arg(i) told[i]\n",
        e->layout.n_words, e->layout.n_words);
}

void glsl_add_product(struct glsl_emitter *e)
{
    struct glsl_sections s;
    const struct fused_product *p = &e->k->product;
    struct glsl_part a = {'a', 1, 3, "m", "k", p->a, {-1, -1}}, b = {'b', 2, 3, "n", "k", p->b, {-1, -1}};
    struct glsl_part c = {'c', 1, 2, "m", "n", -1, {p->sum, -1}};
    glsl_sections_of(e->k, &e->form, &s);
    bool taps = e->form.kind == GLSL_TAPS;
    a.taps = b.taps = taps;
    if (taps) add_arguments(e);
    glsl_part_value(e, &s, &a);
    if (!taps) glsl_part_value(e, &s, &b);
    glsl_part_store(e, &s, &c);
    if (taps) {
        add_neighbours(e, &s, &b);
        add_taps_main(e, &s);
    } else {
        glsl_part_fours(e, &s, &a, 0);
        glsl_part_fours(e, &s, &b, 1);
        add_main(e);
    }
}
