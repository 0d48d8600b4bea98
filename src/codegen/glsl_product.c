// Fused kernels around a sum of products, by tiles: the text between the head and the template shaders/product.glsl.
//
// The template asks for an element of each side and says what a sum is; the kernel's values on the way into the sum
// become the functions a_value and b_value, those made of the sum become store_result. A function computes uniform
// values again, which costs an invocation little beside the element that it loads. What lies in the batch is found
// once for each tile: the structs a_side, b_side and c_side carry the place of each access.
#include "codegen/glsl_emit.h"

#include <stdio.h>
#include <string.h>

static const char *const quad_type[CLASS_COUNT] = {"vec4", "dvec4", "ivec4", "i64vec4", "bvec4"};

// One of the template's functions: what it computes, along which sections.
struct part {
    char letter;       // a, b, c
    int first, second; // sections that it is asked with
    const char *first_name, *second_name;
    bool access[FUSED_MAX_IN + FUSED_MAX_OUT];
};

static void mark_wanted(struct glsl_emitter *e, struct part *p)
{
    const struct fused_kernel *k = e->k;
    memset(e->want, 0, (size_t)k->dag.n_nodes);
    memset(e->local, 0, (size_t)k->dag.n_nodes);
    if (p->letter == 'c') {
        e->local[k->product.sum] = 1;
        for (int i = 0; i < k->n_out; i++) {
            e->want[k->out[i].node] = 1;
            p->access[k->n_in + i] = true;
        }
    } else {
        e->want[p->letter == 'a' ? k->product.a : k->product.b] = 1;
    }
    for (int i = k->dag.n_nodes - 1; i >= 0; i--) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (!e->want[i] || e->local[i]) continue;
        if (n->kind == SCALAR_LOAD) p->access[n->code] = true;
        for (int a = 0; a < n->n_args; a++) e->want[n->arg[a]] = 1;
    }
}

static bool names_batch(const struct glsl_emitter *e)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        const struct scalar_node *n = &e->k->dag.nodes[i];
        if (e->want[i] && n->kind == SCALAR_DIM && n->code < e->k->product.n_batch) return true;
    }
    return false;
}

// The struct, and the function that fills it for a batch.
static void add_struct(struct glsl_emitter *e, const struct part *p)
{
    struct str *s = e->out;
    int n = e->k->n_in + e->k->n_out;
    str_addf(s, "\nstruct %c_side { uint batch;", p->letter);
    for (int i = 0; i < n; i++)
        if (p->access[i]) str_addf(s, " OFFSET b%d;", i);
    str_addf(s, " };\n%c_side %c_of(const uint batch)\n{\n", p->letter, p->letter);
    glsl_add_indices(e, "    ", "batch", 0, e->k->product.n_batch);
    for (int i = 0; i < n; i++)
        if (p->access[i]) glsl_add_place(e, "    ", 'b', 0, i, 0, e->k->product.n_batch);
    str_addf(s, "    return %c_side(batch", p->letter);
    for (int i = 0; i < n; i++)
        if (p->access[i]) str_addf(s, ", b%d", i);
    str_add(s, ");\n}\n");
}

static void add_indices(struct glsl_emitter *e, const struct glsl_sections *s, int section, const char *name)
{
    glsl_add_indices(e, "    ", name, s->begin[section], s->begin[section + 1]);
}

static void add_body(struct glsl_emitter *e, const struct glsl_sections *s, const struct part *p)
{
    const struct fused_kernel *k = e->k;
    if (names_batch(e)) add_indices(e, s, 0, "s.batch");
    add_indices(e, s, p->first, p->first_name);
    add_indices(e, s, p->second, p->second_name);
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        if (!p->access[i]) continue;
        str_addf(e->out, "    uint64_t A%d = arg64(%d);\n    OFFSET b%d = s.b%d;\n", i, 2 * i, i, i);
        glsl_add_place(e, "    ", 'o', 'b', i, k->product.n_batch, k->n_dims);
    }
    glsl_emit_wanted(e, "    ", e->local);
}

static void add_side(struct glsl_emitter *e, const struct glsl_sections *s, struct part *p)
{
    const struct fused_kernel *k = e->k;
    int node = p->letter == 'a' ? k->product.a : k->product.b;
    mark_wanted(e, p);
    add_struct(e, p);
    str_addf(e->out, "%s %c_value(const %c_side s, const uint %s, const uint k)\n{\n",
             glsl_type(k->dag.nodes[node].cls), p->letter, p->letter, p->first_name);
    add_body(e, s, p);
    str_add(e->out, "    return ");
    scalar_emit_ref(e->out, TARGET_GLSL, &k->dag, node);
    str_add(e->out, ";\n}\n");
}

static void add_store(struct glsl_emitter *e, const struct glsl_sections *s, struct part *p)
{
    const struct fused_kernel *k = e->k;
    int sum = k->product.sum;
    mark_wanted(e, p);
    add_struct(e, p);
    str_addf(e->out, "void store_result(const c_side s, const uint m, const uint n, const %s t%d)\n{\n",
             glsl_type(k->dag.nodes[sum].cls), sum);
    add_body(e, s, p);
    for (int i = 0; i < k->n_out; i++) glsl_add_store(e, "    ", 'o', i);
    str_add(e->out, "}\n");
}

// Whether neighbours along K are nearer in memory than those along M or N: by the first access that tells.
static bool dense_along_k(const struct fused_kernel *k, const struct part *p, const struct glsl_sections *s)
{
    int along = k->n_dims - 1, beside = s->begin[p->first + 1] - 1;
    for (int i = 0; i < k->n_in; i++)
        if (p->access[i] && (k->in[i].strides[along] == 1) != (k->in[i].strides[beside] == 1))
            return k->in[i].strides[along] == 1;
    return false;
}

static void add_main(struct glsl_emitter *e, bool a_k_first, bool b_k_first)
{
    const struct glsl_layout *l = &e->layout;
    str_addf(e->out,
             "#define RESULTS [[dont_unroll]]\n#include \"product.glsl\"\n\nvoid main()\n{\n"
             "    product p = product(uint(arg_index(%d)), uint(arg_index(%d)), uint(arg_index(%d)), %s, %s);\n"
             "    uint tiles_n = (p.n_size + TILE - 1) / TILE, tiles_m = (p.m_size + TILE - 1) / TILE;\n"
             "    uint t = group_index() / tiles_n, batch = t / tiles_m;\n"
             "    if (batch >= uint(arg_index(%d))) return;\n"
             "    multiply(a_of(batch), b_of(batch), c_of(batch), p, (t - batch * tiles_m) * TILE,\n"
             "             (group_index() - t * tiles_n) * TILE);\n}\n",
             l->m, l->n, l->length, a_k_first ? "true" : "false", b_k_first ? "true" : "false", l->batches);
}

void glsl_add_product(struct glsl_emitter *e)
{
    struct glsl_sections s;
    struct part a = {'a', 1, 3, "m", "k", {false}}, b = {'b', 2, 3, "n", "k", {false}};
    struct part c = {'c', 1, 2, "m", "n", {false}};
    glsl_sections_of(e->k, &e->form, &s);
    str_addf(e->out, "#define TILE %uu\n#define QUAD %s\n", e->form.tile,
             quad_type[e->k->dag.nodes[e->k->product.sum].cls]);
    add_side(e, &s, &a);
    add_side(e, &s, &b);
    add_store(e, &s, &c);
    add_main(e, dense_along_k(e->k, &a, &s), dense_along_k(e->k, &b, &s));
}
