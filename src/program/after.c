// Products and what goes on with their results, as pairs on the host.
//
// Input: actions in order. The first action behind a product that reads its result is made along with it, slice by
// slice of rows, if each of its points reads the result in one row alone, points of a row follow each other, and
// nothing in it depends on how many rows there are. It is moved to the place behind the product; what lies between the
// two must not feed it, nor touch what it writes. The product still stores its result, rounded to its dtype, so that
// values are those of two launches. Output: the product's action knows the slices; places in memory are chosen
// afterwards.
#include "codegen/llvm/llvm.h"
#include "ir/launch_after.h"
#include "program/maker.h"
#include <string.h>

enum {
    ROWS = 24,
    POINTS = 2048,   // of a slice: multiples of what a tile has, and enough to be worth a call
    LOOK_AHEAD = 256 // actions: what is read later has left the caches, and looking would take as long as there are
};

struct product_rows { // of a product: one matrix, row by row
    int32_t buffer;
    int64_t offset_B, rows, columns;
};

static bool find_result(const struct program_maker *m, const struct launch *l, struct product_rows *out)
{
    int nb = l->rank - 3;
    if (!m->p->dev->caps.host || !kernel_info(l->kernel)->hands_on || nb < 0) return false;
    const struct launch_operand *b = &l->operands[1], *c = &l->operands[2];
    if ((b->flags | c->flags) & OPERAND_IMMEDIATE) return false;
    *out = (struct product_rows){(int32_t)c->slot, (int64_t)c->address, l->sizes[nb], l->sizes[nb + 1]};
    if (c->strides[nb + 1] != 1 || c->strides[nb] != out->columns) return false;
    for (int d = nb - 1; d >= 0; d--) {
        if (b->strides[d] || c->strides[d] != out->rows * out->columns) return false;
        out->rows *= l->sizes[d];
    }
    return out->rows > ROWS && out->columns > 1 && l->sizes[l->rank - 1] > 0;
}

// A way through a buffer whose first dimension has `size` points: it keeps to rows of the result, each of which is
// passed by `size` / rows points of that dimension.
static bool keeps_to_rows(const struct product_rows *r, int64_t at, const int64_t *strides, const int64_t *sizes,
                          int n_dims)
{
    int64_t each = sizes[0] / r->rows, reach = at;
    if (sizes[0] % r->rows || strides[0] * each != r->columns || at < 0) return false;
    for (int d = 1; d < n_dims; d++) {
        if (strides[d] < 0) return false;
        reach += strides[d] * (sizes[d] - 1);
    }
    return reach < strides[0];
}

static bool is_sliced(const struct product_rows *r, int64_t size, int n_dims)
{
    return n_dims > 0 && size % r->rows == 0;
}

static bool kernel_follows(const struct product_rows *r, const struct action *a)
{
    const struct fused_kernel *k = a->compiled && a->n_entries == 1 ? a->fused[0] : NULL;
    if (!k || !jit_is_wide(a->compiled) || k->has_total || k->n_checks || k->trips.on || k->table) return false;
    if (a->compiled->c.run_end || a->compiled->c.workspace_B || k->n_dims == k->n_reduce) return false;
    if (!is_sliced(r, k->sizes[0], k->n_dims)) return false;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if ((n->kind == SCALAR_DIM || n->kind == SCALAR_SIZE) && n->code == 0) return false;
    }
    bool reads = false;
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        const struct fused_access *x = fused_access_at(k, i);
        if (i >= k->n_in && (x->strides[0] == 0 || x->buffer == (uint32_t)r->buffer)) return false;
        if (x->buffer != (uint32_t)r->buffer) continue;
        int64_t at = x->offset - r->offset_B / dtype_size_B[x->dtype];
        if (fused_is_placed(k, i) || !keeps_to_rows(r, at, x->strides, k->sizes, k->n_dims)) return false;
        reads = true;
    }
    return reads;
}

static bool launch_follows(const struct product_rows *r, const struct action *a)
{
    const struct launch *l = a->plain;
    if (!l || a->random || kernel_info(l->kernel)->kind != KERNEL_POINTWISE || user_kernel(l->kernel)) return false;
    if (!is_sliced(r, l->sizes[0], l->rank)) return false;
    bool reads = false;
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        bool out = i == l->n_operands - 1;
        if (o->flags & OPERAND_IMMEDIATE) continue;
        if (out && (o->strides[0] == 0 || o->slot == (uint32_t)r->buffer)) return false;
        if (o->slot != (uint32_t)r->buffer) continue;
        int64_t at = ((int64_t)o->address - r->offset_B) / dtype_size_B[o->dtype];
        if (!keeps_to_rows(r, at, o->strides, l->sizes, l->rank)) return false;
        reads = true;
    }
    return reads;
}

// --- what lies between ---

static bool touches(const struct action *a, int32_t buffer, bool *writes)
{
    bool any = false;
    *writes = false;
    for (int i = 0; i < a->n_operands * a->n_entries; i++) {
        any |= a->operands[i].buffer == buffer;
        *writes |= a->operands[i].buffer == buffer && a->operands[i].write;
    }
    for (int i = 0; a->plain && i < a->plain->n_operands; i++) {
        const struct launch_operand *o = &a->plain->operands[i];
        if (o->flags & OPERAND_IMMEDIATE || (int32_t)o->slot != buffer) continue;
        any = true;
        *writes |= (o->flags & OPERAND_WRITE) != 0;
    }
    return any;
}

// Whether two actions may change places.
static bool meet_at(const struct action *a, int32_t buffer, bool write)
{
    bool writes;
    return touches(a, buffer, &writes) && (write || writes);
}

static bool are_apart(const struct action *a, const struct action *b)
{
    if (a->region || a->host || b->region || b->host) return false;
    for (int i = 0; i < b->n_operands * b->n_entries; i++)
        if (meet_at(a, b->operands[i].buffer, b->operands[i].write)) return false;
    for (int i = 0; b->plain && i < b->plain->n_operands; i++) {
        const struct launch_operand *o = &b->plain->operands[i];
        if (!(o->flags & OPERAND_IMMEDIATE) && meet_at(a, (int32_t)o->slot, (o->flags & OPERAND_WRITE) != 0))
            return false;
    }
    return true;
}

// The first action behind `i` that reads the result, if it may stand right behind; 0: there is none.
static size_t find_follower(const struct program_maker *m, size_t i, const struct product_rows *r)
{
    const struct action *v = m->actions.v;
    for (size_t j = i + 1; j < m->actions.n && j - i <= LOOK_AHEAD; j++) {
        bool writes;
        if (v[j].region || v[j].host) return 0;
        if (!touches(&v[j], r->buffer, &writes)) continue;
        if (writes || v[j].after || !(kernel_follows(r, &v[j]) || launch_follows(r, &v[j]))) return 0;
        if (j > i + 1 && m->last_to_fail >= (int32_t)i) return 0;
        for (size_t k = i + 1; k < j; k++)
            if (!are_apart(&v[k], &v[j])) return 0;
        return j;
    }
    return 0;
}

// --- the slices ---

static void patch(struct launch_after *a, int at, int64_t whole, int64_t last)
{
    a->patch_at[a->n_patches] = at;
    a->patch[0][a->n_patches] = (uint64_t)whole;
    a->patch[1][a->n_patches++] = (uint64_t)last;
}

static kiln_status slice_kernel(struct program_maker *m, const struct action *follower, int64_t each,
                                struct launch_after *out)
{
    const struct fused_kernel *k = follower->fused[0];
    const struct jit_launch *l = follower->compiled;
    struct codegen_launch *packed = arena_alloc(&m->p->arena, 2 * sizeof *packed);
    if (!packed) return error_pending;
    for (int i = 0; i < 2; i++) {
        out->first_size[i] *= each;
        TRY(jit_launch_slice(l, k, m->p->dev, out->first_size[i], &packed[i]));
        out->units[i] = packed[i].units;
        if (packed[i].workspace_B) return KILN_OK; // rows would be cut
    }
    patch(out, llvm_size_at(k, 0), out->first_size[0], out->first_size[1]);
    for (int w = 0; w < LLVM_WORD_COUNT; w++) {
        int at = llvm_word_at(k, (enum llvm_word)w);
        if (w == LLVM_WORKSPACE || w == LLVM_FAILED) continue;
        patch(out, at, (int64_t)packed[0].words[at], (int64_t)packed[1].words[at]);
    }
    out->n_operands = k->n_in + k->n_out;
    for (int i = 0; i < out->n_operands; i++) {
        const struct fused_access *x = fused_access_at(k, i);
        out->step_B[i] = x->strides[0] * out->first_size[0] * dtype_size_B[x->dtype];
    }
    return KILN_OK;
}

static void slice_launch(const struct launch *l, int64_t each, struct launch_after *out)
{
    for (int i = 0; i < 2; i++) out->first_size[i] *= each;
    out->n_operands = l->n_operands;
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        bool moves = !(o->flags & OPERAND_IMMEDIATE);
        out->step_B[i] = moves ? o->strides[0] * out->first_size[0] * dtype_size_B[o->dtype] : 0;
    }
}

static kiln_status pair(struct program_maker *m, size_t i, size_t j, const struct product_rows *r)
{
    struct action *v = m->actions.v, follower = v[j];
    struct launch_after *a = arena_alloc(&m->p->arena, sizeof *a);
    if (!a) return error_pending;
    *a = (struct launch_after){.rows = ROWS * ((POINTS + ROWS * r->columns - 1) / (ROWS * r->columns))};
    a->slices = (r->rows + a->rows - 1) / a->rows;
    a->points = a->rows * r->columns;
    a->first_size[0] = a->rows;
    a->first_size[1] = r->rows - (a->slices - 1) * a->rows;
    int64_t size = follower.plain ? follower.plain->sizes[0] : follower.fused[0]->sizes[0];
    if (follower.plain)
        slice_launch(follower.plain, size / r->rows, a);
    else
        TRY(slice_kernel(m, &follower, size / r->rows, a));
    if (!a->n_operands) return KILN_OK;
    memmove(&v[i + 2], &v[i + 1], (j - i - 1) * sizeof *v);
    v[i + 1] = follower;
    v[i].after = a;
    return KILN_OK;
}

kiln_status maker_pair_products(struct program_maker *m)
{
    for (size_t i = 0; i + 1 < m->actions.n; i++) {
        struct product_rows r;
        const struct action *a = &m->actions.v[i];
        if (!a->plain || a->random || !find_result(m, a->plain, &r)) continue;
        size_t j = find_follower(m, i, &r);
        if (!j) continue;
        TRY(pair(m, i, j, &r));
        i += m->actions.v[i].after != NULL;
    }
    return KILN_OK;
}
