// Two texts of a fused kernel: the canonical bytes of its family, and one for people.
#include "fuse/kernel.h"
#include "scalar/reduce.h"
#include "scalar/prim.h"
#include <string.h>

static void add_byte(struct str *s, unsigned v)
{
    char c = (char)v;
    str_addn(s, &c, 1);
}

static void add_u16(struct str *s, unsigned v)
{
    add_byte(s, v & 255);
    add_byte(s, v >> 8);
}

static unsigned stride_class(int64_t stride)
{
    return stride == 0 ? 0 : stride == 1 ? 1 : stride < 0 ? 3 : 2;
}

static void add_access(struct str *s, const struct fused_kernel *k, const struct fused_access *a)
{
    add_byte(s, a->dtype);
    for (int d = 0; d < k->n_dims; d++) add_byte(s, stride_class(a->strides[d]));
    if (!k->n_reduce) add_byte(s, fused_is_linear(k, a));
}

static void add_node(struct str *s, const struct scalar_node *n)
{
    add_byte(s, (unsigned)n->kind << 4 | (unsigned)n->cls);
    add_byte(s, n->n_args);
    add_u16(s, n->code);
    for (int i = 0; i < n->n_args; i++) add_u16(s, n->arg[i]);
    if (n->kind == SCALAR_CONST) str_addn(s, (const char *)&n->value.bits, sizeof n->value.bits);
}

static void add_trips(struct str *s, const struct fused_kernel *k)
{
    const struct fused_trips *t = &k->trips;
    add_byte(s, (unsigned)t->on << 2 | (unsigned)t->in_place << 1 | t->together);
    if (!t->on) return;
    add_u16(s, t->first);
    add_u16(s, t->count);
    add_u16(s, t->numbers & 0xffff);
    add_u16(s, t->numbers >> 16);
    for (int i = 0; i < k->n_in + k->n_out; i++) add_byte(s, t->step[i] != 0);
    for (int i = 0; i < k->n_in; i++) add_byte(s, t->carried[i]);
    for (int i = 0; i < k->n_out; i++) add_byte(s, t->last[i]);
}

void fused_family(const struct fused_kernel *k, struct str *out)
{
    add_byte(out, (unsigned)k->n_dims << 4 | (unsigned)k->n_reduce);
    bool product = k->product.n_m > 0 || k->attention.n_m > 0; // walks R in steps, however long it is
    add_byte(out, k->n_reduce && !product ? (unsigned)fused_bucket(k) : 0);
    add_byte(out, product ? k->product.n_batch : 255u);
    add_byte(out, k->product.n_m);
    add_byte(out, k->attention.n_batch);
    add_byte(out, k->attention.n_m);
    add_byte(out, k->attention.n_d);
    add_byte(out, k->attention.n_n);
    add_byte(out, fused_needs_wide_index(k));
    add_byte(out, (unsigned)k->n_in);
    add_byte(out, (unsigned)k->n_out);
    add_byte(out, (unsigned)k->n_scalars);
    add_byte(out, (unsigned)k->n_checks << 1 | k->table);
    for (int i = 0; i < k->n_in + k->n_out; i++) add_access(out, k, fused_access_at(k, i));
    for (int i = 0; i < k->n_out; i++) add_u16(out, k->out[i].node);
    for (int i = 0; i < k->n_scalars; i++) add_byte(out, k->scalar_cls[i]);
    for (int i = 0; i < k->n_checks; i++) add_u16(out, k->checks[i]);
    add_u16(out, (unsigned)k->dag.n_nodes);
    for (int i = 0; i < k->dag.n_nodes; i++) add_node(out, &k->dag.nodes[i]);
    add_trips(out, k);
}

static const char *const level_name[] = {"uniform", "row", "element", "total"};

static void access_text(struct str *s, const struct fused_kernel *k, const char *what, int i)
{
    const struct fused_access *a = fused_access_at(k, i);
    str_addf(s, "  %s %d: %s of buffer %d, offset %lld, strides [", what, i, dtype_name(a->dtype), a->buffer,
             (long long)a->offset);
    for (int d = 0; d < k->n_dims; d++) str_addf(s, d ? ", %lld" : "%lld", (long long)a->strides[d]);
    str_add(s, "]");
    if (fused_step(k, i)) str_addf(s, ", step %lld", (long long)fused_step(k, i));
    if (k->trips.on && i < k->n_in && k->trips.carried[i])
        str_addf(s, ", then output %d", k->n_in + k->trips.carried[i] - 1);
    if (k->trips.on && i >= k->n_in && k->trips.last[i - k->n_in]) str_add(s, ", last trip");
}

static void constant_text(struct str *s, const struct scalar_node *n)
{
    switch (n->cls) {
    case CLASS_F32: str_addf(s, "%.9g", (double)n->value.f32); break;
    case CLASS_F64: str_addf(s, "%.17g", n->value.f64); break;
    case CLASS_I32: str_addf(s, "%d", n->value.i32); break;
    case CLASS_I64: str_addf(s, "%lld", (long long)n->value.i64); break;
    default: str_add(s, n->value.b ? "true" : "false");
    }
}

static void operation_text(struct str *s, const struct scalar_node *n)
{
    switch (n->kind) {
    case SCALAR_CONST: constant_text(s, n); return;
    case SCALAR_INPUT: str_addf(s, "scalar %d", n->code); return;
    case SCALAR_DIM: str_addf(s, "index %d", n->code); return;
    case SCALAR_SIZE: str_addf(s, "size %d", n->code); return;
    case SCALAR_LOAD: str_addf(s, "load %d", n->code); break;
    case SCALAR_REDUCE:
        str_addf(s, "%s%s", n->code & REDUCE_ACROSS ? "across " : "", reduce_info[reduce_of(n)].name);
        break;
    default: str_add(s, scalar_prim_name(n->code));
    }
    for (int i = 0; i < n->n_args; i++) str_addf(s, i ? ", v%d" : " v%d", n->arg[i]);
}

void fused_text(const struct fused_kernel *k, struct str *out)
{
    str_addf(out, "kernel %s: space [", k->name);
    for (int d = 0; d < k->n_dims; d++) {
        bool reduced = k->n_reduce && d == k->n_dims - k->n_reduce;
        str_addf(out, "%s%lld", d == 0 ? (reduced ? "| " : "") : reduced ? " | " : ", ", (long long)k->sizes[d]);
    }
    str_addf(out, "], %d stage%s%s%s\n", k->n_stages, k->n_stages == 1 ? "" : "s", k->has_total ? ", totals" : "",
             k->product.n_m      ? ", by tiles"
             : k->attention.n_m  ? ", attention"
             : k->trips.together ? ", makes the trips with all points together"
             : k->trips.on       ? ", makes the trips"
                                 : "");
    for (int i = 0; i < k->n_in; i++) {
        access_text(out, k, "in", i);
        str_add(out, "\n");
    }
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        str_addf(out, "  v%d: %s %s = ", i, level_name[k->level[i]], scalar_class_name(n->cls));
        operation_text(out, n);
        str_add(out, "\n");
    }
    for (int i = 0; i < k->n_checks; i++) str_addf(out, "  check v%d\n", k->checks[i]);
    for (int i = 0; i < k->n_out; i++) {
        access_text(out, k, "out", k->n_in + i);
        str_addf(out, " = v%d\n", k->out[i].node);
    }
}
