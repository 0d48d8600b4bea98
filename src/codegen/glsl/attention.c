// Attention as a compute shader: the functions that the template shaders/attention.glsl asks for.
#include "codegen/glsl/emit.h"

#include <string.h>

// exp(x - peak), for x and peak of any point: it stands on nothing else.
static void add_exp(struct glsl_emitter *e)
{
    const struct fused_attention *t = &e->k->attention;
    struct glsl_part p = {'e', 1, 3, "m", "n", t->e, {t->x, t->peak}};
    glsl_part_mark(e, &p);
    str_addf(e->out, "\nfloat e_value(const float t%d, const float t%d)\n{\n", t->x, t->peak);
    glsl_emit_wanted(e, "    ", e->local);
    str_add(e->out, "    return ");
    scalar_emit_ref(e->out, TARGET_GLSL, &e->k->dag, t->e);
    str_add(e->out, ";\n}\n");
}

void glsl_add_attention(struct glsl_emitter *e)
{
    const struct fused_attention *t = &e->k->attention;
    const struct glsl_layout *l = &e->layout;
    struct glsl_sections s;
    struct glsl_part q = {'q', 1, 4, "m", "k", t->q, {-1, -1}}, k = {'k', 3, 4, "n", "k", t->k, {-1, -1}};
    struct glsl_part x = {'x', 1, 3, "m", "n", t->x, {t->score, -1}}, v = {'v', 3, 2, "n", "d", t->v, {-1, -1}};
    struct glsl_part c = {'c', 1, 2, "m", "d", -1, {t->out, -1}};
    glsl_sections_of(e->k, &e->form, &s);
    glsl_part_value(e, &s, &q);
    glsl_part_value(e, &s, &k);
    glsl_part_value(e, &s, &x);
    glsl_part_value(e, &s, &v);
    glsl_part_store(e, &s, &c);
    add_exp(e);
    glsl_part_fours(e, &s, &q, 0);
    glsl_part_fours(e, &s, &k, 1);
    glsl_part_fours(e, &s, &v, 2);
    str_addf(e->out,
             "#define WIDTH %uu\n#define TILE %uu\n#include \"attention.glsl\"\n\nvoid main()\n{\n"
             "    attention a = attention(uint(arg_index(%d)), uint(arg_index(%d)), uint(arg_index(%d)),\n"
             "                            uint(arg_index(%d)));\n"
             "    uint tiles = (a.m_size + TILE - 1) / TILE, batch = group_index() / tiles;\n"
             "    if (batch >= uint(arg_index(%d))) return;\n"
             "    attend(q_of(batch), k_of(batch), x_of(batch), v_of(batch), c_of(batch), a,\n"
             "           (group_index() - batch * tiles) * TILE);\n}\n",
             e->form.tile_n, e->form.tile_m, l->m, l->keys, l->depth, l->n, l->batches);
}
