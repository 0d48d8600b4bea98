// Input: two kernels. `score` has the space [batch, M, N | K]; `rest` has [.. | N], reads the score, and stores what it
// makes of one sum over N. Output: one kernel over [batch, M, D | N, K], in whose DAG the load of the score is replaced
// by what computes it.
//
// The dimensions of the two are matched by the strides with which they walk the score, which is dense: equal strides
// are the same index. What `rest` has besides is D. Then the DAG is searched for the softmax: with x the element before
// it, peak = max over N of x, e = exp(x - peak), out = sum over N of e / (sum over N of e) * v. That e is an
// exponential is seen by its expression, which is compared with that of the library; so its identity exp(x + y) =
// exp(x) * exp(y) may be used, and the sums can be kept relative to the peak so far while N goes by:
//
//     sum of exp(x - new) = exp(old - new) * sum of exp(x - old)
#include "fuse/attention.h"
#include "scalar/dag.h"
#include "scalar/prim.h"
#include <stdio.h>
#include <string.h>

enum { BATCH, M, D, N, K, SECTIONS };

struct attention_maker {
    struct arena *arena;
    struct fused_kernel *score, *rest; // copies, whose dimensions may be cut
    struct fused_kernel *k;
    int read;                                              // the input of rest that is the score
    int of_score[FUSED_MAX_DIMS], of_rest[FUSED_MAX_DIMS]; // where their dimensions went
    int partner[FUSED_MAX_DIMS];                           // of a parallel dimension of the score, in rest
    bool swapped;                                          // the score's N are rows
    bool failed;
};

// --- dimensions ---

static bool find_read(struct attention_maker *m)
{
    const struct fused_output *o = &m->score->out[0];
    m->read = -1;
    for (int i = 0; i < m->rest->n_in; i++) {
        const struct fused_access *in = &m->rest->in[i];
        if (in->buffer != o->to.buffer) continue;
        if (m->read >= 0 || in->cls != o->to.cls || in->offset != o->to.offset) return false;
        m->read = i;
    }
    return m->read >= 0;
}

static kiln_status copy_kernel(struct arena *a, const struct fused_kernel *k, struct fused_kernel **out)
{
    size_t size_B = sizeof *k->dag.nodes * (size_t)k->dag.n_nodes;
    struct scalar_node *nodes = arena_alloc(a, size_B);
    *out = arena_alloc(a, sizeof **out);
    if (!nodes || !*out) return error_pending;
    **out = *k;
    memcpy(nodes, k->dag.nodes, size_B);
    (*out)->dag.nodes = nodes;
    return KILN_OK;
}

// Dimension d becomes two, the inner one of this size. False where an index along d is a value.
static bool split_dim(struct fused_kernel *k, int d, int64_t inner)
{
    struct scalar_node *nodes = (struct scalar_node *)(uintptr_t)k->dag.nodes; // a copy of our own
    if (k->n_dims == FUSED_MAX_DIMS) return false;
    for (int i = 0; i < k->dag.n_nodes; i++)
        if ((nodes[i].kind == SCALAR_DIM || nodes[i].kind == SCALAR_SIZE) && nodes[i].code == d) return false;
    for (int i = 0; i < k->dag.n_nodes; i++)
        nodes[i].code = (uint16_t)(nodes[i].code + ((nodes[i].kind == SCALAR_DIM || nodes[i].kind == SCALAR_SIZE) &&
                                                    nodes[i].code > d));
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        int64_t *s = i < k->n_in ? k->in[i].strides : k->out[i - k->n_in].to.strides;
        memmove(s + d + 1, s + d, sizeof *s * (size_t)(k->n_dims - d));
        s[d] *= inner;
    }
    memmove(k->sizes + d + 1, k->sizes + d, sizeof *k->sizes * (size_t)(k->n_dims - d));
    k->sizes[d] /= inner;
    k->sizes[d + 1] = inner;
    struct fused_product *p = &k->product;
    *(d < p->n_batch ? &p->n_batch : d < p->n_batch + p->n_m ? &p->n_m : &p->n_n) += 1;
    if (d >= k->n_dims - k->n_reduce) k->n_reduce++;
    k->n_dims++;
    return true;
}

// One cut of a dimension that the other kernel has in two; false when there is none to be made.
static bool refine(struct attention_maker *m)
{
    struct fused_kernel *s = m->score, *r = m->rest;
    for (int d = 0; d < s->n_dims - s->n_reduce; d++) {
        for (int i = 0; i < r->n_dims; i++) {
            int64_t a = s->sizes[d], b = r->sizes[i], stride = r->in[m->read].strides[i];
            if (!stride || stride != s->out[0].to.strides[d] || a == b) continue;
            if (a > b && a % b == 0 && split_dim(s, d, b)) return true;
            if (b > a && b % a == 0 && split_dim(r, i, a)) return true;
        }
    }
    return false;
}

static bool match_dims(struct attention_maker *m)
{
    const struct fused_kernel *s = m->score, *r = m->rest;
    bool taken[FUSED_MAX_DIMS] = {false};
    for (int d = 0; d < s->n_dims - s->n_reduce; d++) {
        int found = -1;
        for (int i = 0; i < r->n_dims && found < 0; i++)
            if (!taken[i] && r->sizes[i] == s->sizes[d] && r->in[m->read].strides[i] == s->out[0].to.strides[d])
                found = i;
        if (found < 0) return false;
        taken[found] = true;
        m->partner[d] = found;
    }
    for (int i = 0; i < r->n_dims; i++)
        if (!taken[i] && (r->in[m->read].strides[i] || i >= r->n_dims - r->n_reduce)) return false;
    return true;
}

static int section_of(const struct attention_maker *m, int d) // of the score
{
    const struct fused_product *p = &m->score->product;
    if (d < p->n_batch) return BATCH;
    if (d >= p->n_batch + p->n_m + p->n_n) return K;
    return (d < p->n_batch + p->n_m) != m->swapped ? M : N;
}

static bool sections_fit(const struct attention_maker *m)
{
    int reduced = m->rest->n_dims - m->rest->n_reduce;
    for (int d = 0; d < m->score->n_dims - m->score->n_reduce; d++)
        if ((section_of(m, d) == N) != (m->partner[d] >= reduced)) return false;
    return true;
}

static bool place_dims(struct attention_maker *m)
{
    const struct fused_kernel *s = m->score, *r = m->rest;
    uint8_t count[SECTIONS] = {0};
    int n = 0, parallel = s->n_dims - s->n_reduce;
    for (int i = 0; i < r->n_dims; i++) m->of_rest[i] = -1;
    for (int section = BATCH; section < SECTIONS; section++) {
        int before = n;
        for (int d = 0; d < s->n_dims && section != D; d++) {
            if (section_of(m, d) != section || n == FUSED_DIMS) continue;
            if (d < parallel) m->of_rest[m->partner[d]] = n;
            m->k->sizes[n] = s->sizes[d];
            m->of_score[d] = n++;
        }
        for (int i = 0; i < r->n_dims && section == D; i++) {
            bool shared = false;
            for (int d = 0; d < parallel; d++) shared = shared || m->partner[d] == i;
            if (shared || n == FUSED_DIMS) continue;
            m->k->sizes[n] = r->sizes[i];
            m->of_rest[i] = n++;
        }
        count[section] = (uint8_t)(n - before);
    }
    m->k->attention = (struct fused_attention){
        .n_batch = count[BATCH], .n_m = count[M], .n_d = count[D], .n_n = count[N], .n_k = count[K]};
    m->k->n_dims = n;
    m->k->n_reduce = count[N] + count[K];
    int all = s->n_dims + count[D];
    return n == all && count[M] && count[D] && count[N] && count[K];
}

// --- the DAG ---

static struct fused_access moved(const struct fused_access *a, const int *to, int n)
{
    struct fused_access out = *a;
    memset(out.strides, 0, sizeof out.strides);
    for (int d = 0; d < n; d++) out.strides[to[d]] = a->strides[d];
    return out;
}

static bool join_arguments(struct attention_maker *m)
{
    const struct fused_kernel *s = m->score, *r = m->rest;
    struct fused_kernel *k = m->k;
    if (s->n_in + r->n_in - 1 > FUSED_MAX_IN || s->n_scalars + r->n_scalars > FUSED_MAX_SCALARS) return false;
    for (int i = 0; i < s->n_in; i++) k->in[k->n_in++] = moved(&s->in[i], m->of_score, s->n_dims);
    for (int i = 0; i < r->n_in; i++)
        if (i != m->read) k->in[k->n_in++] = moved(&r->in[i], m->of_rest, r->n_dims);
    for (int i = 0; i < r->n_out; i++) {
        k->out[i] = r->out[i];
        k->out[i].to = moved(&r->out[i].to, m->of_rest, r->n_dims);
    }
    k->n_out = r->n_out;
    for (int i = 0; i < s->n_scalars + r->n_scalars; i++) {
        const struct fused_kernel *from = i < s->n_scalars ? s : r;
        int at = i < s->n_scalars ? i : i - s->n_scalars;
        k->scalar_cls[i] = from->scalar_cls[at];
        k->scalars[i] = from->scalars[at];
        k->scalar_input[i] = from->scalar_input[at];
    }
    k->n_scalars = s->n_scalars + r->n_scalars;
    return true;
}

// Copies the nodes of one kernel; the load of the score becomes node `score`.
static bool copy_nodes(const struct attention_maker *m, struct dag_builder *b, const struct fused_kernel *from,
                       int score, int *at)
{
    bool of_rest = from == m->rest;
    const int *dims = of_rest ? m->of_rest : m->of_score;
    for (int i = 0; i < from->dag.n_nodes; i++) {
        struct scalar_node n = from->dag.nodes[i];
        int arg[3] = {-1, -1, -1};
        for (int a = 0; a < n.n_args; a++) arg[a] = at[n.arg[a]];
        if (n.kind == SCALAR_DIM || n.kind == SCALAR_SIZE) n.code = (uint16_t)dims[n.code];
        if (of_rest && n.kind == SCALAR_INPUT) n.code = (uint16_t)(n.code + m->score->n_scalars);
        bool is_score = of_rest && n.kind == SCALAR_LOAD && n.code == m->read;
        if (of_rest && n.kind == SCALAR_LOAD && !is_score)
            n.code = (uint16_t)(n.code + m->score->n_in - (n.code > m->read));
        at[i] = is_score ? score : dag_copy(b, &n, arg);
        if (at[i] < 0) return false;
    }
    return true;
}

static kiln_status join_dags(struct attention_maker *m)
{
    const struct fused_kernel *s = m->score, *r = m->rest;
    struct fused_kernel *k = m->k;
    int *at_s = arena_alloc(m->arena, sizeof *at_s * (size_t)(s->dag.n_nodes + 1));
    int *at_r = arena_alloc(m->arena, sizeof *at_r * (size_t)(r->dag.n_nodes + 1));
    if (!at_s || !at_r) return error_pending;
    struct dag_builder b;
    int roots[3 + FUSED_MAX_OUT];
    dag_begin(&b);
    bool good = copy_nodes(m, &b, s, -1, at_s) && copy_nodes(m, &b, r, at_s[s->out[0].node], at_r);
    roots[0] = at_s[s->product.sum];
    roots[1] = at_s[m->swapped ? s->product.b : s->product.a];
    roots[2] = at_s[m->swapped ? s->product.a : s->product.b];
    for (int i = 0; good && i < r->n_out; i++) roots[3 + i] = at_r[r->out[i].node];
    kiln_status status = good ? dag_finish_all(&b, m->arena, roots, 3 + r->n_out, &k->dag) : error_pending;
    dag_end(&b);
    TRY(status);
    k->attention.score = (uint16_t)roots[0];
    k->attention.q = (uint16_t)roots[1];
    k->attention.k = (uint16_t)roots[2];
    for (int i = 0; i < r->n_out; i++) k->out[i].node = (uint16_t)roots[3 + i];
    return KILN_OK;
}

// --- the softmax ---

static bool is_prim(const struct scalar_dag *d, int node, enum scalar_prim prim)
{
    return d->nodes[node].kind == SCALAR_PRIM && d->nodes[node].code == prim;
}

struct likeness {
    const struct scalar_dag *d, *model;
    int arg;    // what stands for the model's parameter
    int *equal; // by node of the model: the node that is it, -1: not seen
};

static bool is_like(struct likeness *l, int node, int model)
{
    const struct scalar_node *a = &l->d->nodes[node], *b = &l->model->nodes[model];
    if (l->equal[model] >= 0) return l->equal[model] == node;
    bool same = b->kind == SCALAR_INPUT
                    ? node == l->arg
                    : a->kind == b->kind && a->cls == b->cls && a->code == b->code && a->n_args == b->n_args &&
                          (a->kind != SCALAR_CONST || a->value.bits == b->value.bits);
    for (int i = 0; same && i < b->n_args; i++) same = is_like(l, a->arg[i], b->arg[i]);
    if (same) l->equal[model] = node;
    return same;
}

// Sets *yes when `node` is what `text` says of x = arg.
static kiln_status is_exp(struct attention_maker *m, const char *text, int node, int arg, bool *yes)
{
    const struct scalar_param x = {"x", m->k->dag.nodes[arg].cls};
    struct scalar_dag call, model;
    TRY(scalar_parse(m->arena, text, &x, 1, x.cls, &call));
    TRY(scalar_expand(m->arena, &call, &model));
    struct likeness l = {.d = &m->k->dag, .model = &model, .arg = arg};
    l.equal = arena_alloc(m->arena, sizeof *l.equal * (size_t)model.n_nodes);
    if (!l.equal) return error_pending;
    for (int i = 0; i < model.n_nodes; i++) l.equal[i] = -1;
    *yes = is_like(&l, node, model.root);
    return KILN_OK;
}

// exp(arg - the largest arg of the row): of softmax, or of one that is written by its parts.
static kiln_status find_exp(struct attention_maker *m, int node, int arg, bool *yes)
{
    TRY(is_exp(m, "exp_down(x - rmax(x))", node, arg, yes));
    return *yes ? KILN_OK : is_exp(m, "exp(x - rmax(x))", node, arg, yes);
}

// The folds beside the score's, in order; false when they are not max, sum, sum.
static bool find_folds(const struct fused_kernel *k, int *fold)
{
    static const enum scalar_reduce how[3] = {REDUCE_MAX, REDUCE_SUM, REDUCE_SUM};
    int n = 0;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (k->dag.nodes[i].kind != SCALAR_REDUCE || i == k->attention.score) continue;
        if (n == 3 || k->dag.nodes[i].code != how[n]) return false;
        fold[n++] = i;
    }
    return n == 3;
}

// Whether `node` is e / sum, or e * (1 / sum).
static bool is_share(const struct scalar_dag *d, int node, int e, int sum)
{
    const struct scalar_node *n = d->nodes + node;
    if (is_prim(d, node, PRIM_div)) return n->arg[0] == e && n->arg[1] == sum;
    for (int side = 0; is_prim(d, node, PRIM_mul) && side < 2; side++) {
        const struct scalar_node *r = d->nodes + n->arg[1 - side];
        if (n->arg[side] != e || !is_prim(d, n->arg[1 - side], PRIM_div) || r->arg[1] != sum) continue;
        const struct scalar_node *one = d->nodes + r->arg[0];
        if (one->kind == SCALAR_CONST && one->value.f32 == 1) return true;
    }
    return false;
}

static kiln_status find_softmax(struct attention_maker *m)
{
    struct fused_attention *t = &m->k->attention;
    const struct scalar_node *nodes = m->k->dag.nodes;
    int fold[3];
    bool yes = false;
    m->failed = true;
    if (!find_folds(m->k, fold)) return KILN_OK;
    int x = nodes[fold[0]].arg[0], e = nodes[fold[1]].arg[0], times = nodes[fold[2]].arg[0];
    if (!is_prim(&m->k->dag, times, PRIM_mul) || nodes[x].cls != CLASS_F32) return KILN_OK;
    for (int side = 0; side < 2; side++) {
        int y = nodes[times].arg[side], v = nodes[times].arg[1 - side];
        if (!is_share(&m->k->dag, y, e, fold[1])) continue;
        TRY(find_exp(m, e, x, &yes));
        t->x = (uint16_t)x, t->peak = (uint16_t)fold[0], t->e = (uint16_t)e, t->v = (uint16_t)v;
        t->out = (uint16_t)fold[2];
        if (yes) break;
    }
    m->failed = !yes;
    return KILN_OK;
}

// Which dimensions a value depends on, as bits; what lies below `end` counts as known.
static uint32_t dims_below(const struct fused_kernel *k, int node, int end, bool *seen)
{
    uint32_t dims = 0;
    memset(seen, 0, (size_t)k->dag.n_nodes);
    seen[node] = true;
    for (int i = node; i >= 0; i--) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (!seen[i] || i == end) continue;
        if (n->kind == SCALAR_DIM) dims |= 1u << n->code;
        if (n->kind == SCALAR_REDUCE) dims |= UINT32_MAX;
        for (int d = 0; n->kind == SCALAR_LOAD && d < k->n_dims; d++)
            dims |= (uint32_t)(k->in[n->code].strides[d] != 0) << d;
        for (int a = 0; a < n->n_args; a++) seen[n->arg[a]] = true;
    }
    return dims;
}

static bool depends_as_attention(const struct attention_maker *m)
{
    const struct fused_kernel *k = m->k;
    const struct fused_attention *t = &k->attention;
    bool *seen = arena_alloc(m->arena, (size_t)k->dag.n_nodes);
    if (!seen) return false;
    int at_d = t->n_batch + t->n_m, at_n = at_d + t->n_d, at_k = at_n + t->n_n;
    uint32_t of_m = (1u << at_d) - (1u << t->n_batch), of_d = (1u << at_n) - (1u << at_d);
    uint32_t of_k = (1u << k->n_dims) - (1u << at_k), of_n = (1u << at_k) - (1u << at_n);
    if (dims_below(k, t->x, t->score, seen) & (of_d | of_k)) return false;
    if (dims_below(k, t->v, -1, seen) & (of_m | of_k)) return false;
    for (int i = 0; i < k->n_out; i++)
        if (dims_below(k, k->out[i].node, t->out, seen) & (of_n | of_k)) return false;
    return true;
}

kiln_status attention_make(struct arena *a, const struct fused_kernel *score, const struct fused_kernel *rest,
                           struct fused_kernel **out)
{
    struct attention_maker m = {.arena = a, .k = arena_alloc(a, sizeof *m.k)};
    *out = NULL;
    if (!m.k) return error_pending;
    TRY(copy_kernel(a, score, &m.score));
    TRY(copy_kernel(a, rest, &m.rest));
    if (!score->product.n_m || score->n_out != 1 || rest->n_checks || !find_read(&m)) return KILN_OK;
    while (refine(&m)) {}
    if (!match_dims(&m)) return KILN_OK;
    m.swapped = !sections_fit(&m);
    if (m.swapped && !sections_fit(&m)) return KILN_OK;
    if (!place_dims(&m) || !join_arguments(&m)) return KILN_OK;
    TRY(join_dags(&m));
    TRY(find_softmax(&m));
    int64_t width = 1;
    const struct fused_attention *t = &m.k->attention;
    for (int d = 0; d < t->n_d; d++) width *= m.k->sizes[t->n_batch + t->n_m + d];
    if (m.failed || width > ATTENTION_MAX_WIDTH || !depends_as_attention(&m)) return KILN_OK;
    char name[96];
    snprintf(name, sizeof name, "%.40s_%.40s", score->name, rest->name);
    m.k->name = arena_strdup(a, name);
    if (!m.k->name) return error_pending;
    TRY(fused_finish(a, m.k));
    *out = m.k;
    return KILN_OK;
}
