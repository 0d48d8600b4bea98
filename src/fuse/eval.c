// The reference of fused kernels: point by point, in the order of the space, sums and products of f32 in f64.
//
// For each point of P, pass by pass (fuse/loops.h): the row values that are known, then one walk over R that computes
// element values and does what the pass is for. At the end of the point, row outputs, and the row values go into the
// folds across rows; totals at the very end.
#include "scalar/reduce.h"
#include "scalar/number.h"
#include "fuse/loops.h"
#include "scalar/prim.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fold {
    union scalar_value v; // f32 in f64
    int64_t place, count;
};

struct eval_walk {
    const struct fused_kernel *k;
    void *const *buffers;
    int64_t point[FUSED_MAX_DIMS];
    union scalar_value *value; // n_nodes
    struct fold *folds;        // n_nodes
    uint32_t *failed;
    int64_t trip;                // of a kernel that makes the trips
    union scalar_value *carried; // n_out: what the trip before has left
    char *left[FUSED_MAX_OUT];   // where all points go together: copies of what it has written
};

static const char *place_of(const struct eval_walk *w, const struct fused_access *a, int64_t more)
{
    int64_t at = a->offset + more;
    for (int i = 0; w->trip && i < w->k->n_in + w->k->n_out; i++)
        if (fused_access_at(w->k, i) == a) at += w->trip * fused_step(w->k, i);
    for (int d = 0; d < w->k->n_dims; d++) at += w->point[d] * a->strides[d];
    return (const char *)w->buffers[a->buffer] + at * dtype_size_B[a->dtype];
}

static union scalar_value carried_from(const struct eval_walk *w, int access, int64_t more)
{
    int output = w->k->trips.carried[access] - 1;
    const struct fused_access *to = &w->k->out[output].to, *from = &w->k->in[access];
    int64_t lo_B, hi_B;
    if (!w->k->trips.in_place) return w->carried[output];
    if (!w->k->trips.together) return number_read(to->dtype, place_of(w, to, 0));
    fused_range(w->k, to, &lo_B, &hi_B);
    const char *at = w->left[output] - lo_B + (place_of(w, from, more) - (const char *)w->buffers[from->buffer]);
    return number_read(to->dtype, at);
}

static union scalar_value number_of_trip(const struct eval_walk *w, enum scalar_class cls)
{
    int64_t n = (int64_t)w->k->scalars[w->k->trips.first] + w->trip;
    union scalar_value v = {.bits = 0};
    switch (cls) {
    case CLASS_F32: v.f32 = (float)n; break;
    case CLASS_F64: v.f64 = (double)n; break;
    case CLASS_I32: v.i32 = (int32_t)n; break;
    case CLASS_I64: v.i64 = n; break;
    default: v.b = n != 0;
    }
    return v;
}

static union scalar_value compute(struct eval_walk *w, int i)
{
    const struct scalar_node *n = &w->k->dag.nodes[i];
    union scalar_value arg[3] = {{.bits = 0}, {.bits = 0}, {.bits = 0}}, v = {.bits = 0};
    for (int a = 0; a < n->n_args; a++) arg[a] = w->value[n->arg[a]];
    switch (n->kind) {
    case SCALAR_CONST: return n->value;
    case SCALAR_INPUT:
        if (fused_is_number(w->k, i)) return number_of_trip(w, n->cls);
        v.bits = w->k->scalars[n->code];
        return v;
    case SCALAR_DIM: v.i64 = w->point[n->code]; return v;
    case SCALAR_SIZE: v.i64 = w->k->sizes[n->code]; return v;
    case SCALAR_LOAD:
        if (n->n_args > 1 && !arg[1].b) return v;
        if (w->trip && fused_is_carried(w->k, i)) return carried_from(w, n->code, n->n_args > 0 ? arg[0].i64 : 0);
        return number_read(w->k->in[n->code].dtype, place_of(w, &w->k->in[n->code], n->n_args > 0 ? arg[0].i64 : 0));
    default: {
        enum scalar_class key = w->k->dag.nodes[n->arg[prim_key_arg(n->code)]].cls;
        return prim_spelling(n->code, key)->host(arg);
    }
    }
}

// --- folding ---

static bool wins(unsigned how, enum scalar_class cls, union scalar_value x, union scalar_value best)
{
    bool largest = reduce_info[how].best > 0;
    if (cls == CLASS_I64) return largest ? x.i64 > best.i64 : x.i64 < best.i64;
    double a = number_as_double(cls, x), b = number_as_double(cls, best);
    if (isnan(b)) return false;
    return isnan(a) || (largest ? a > b : a < b);
}

static void fold_sum(struct fold *f, enum scalar_class cls, union scalar_value x, bool product)
{
    switch (cls) {
    case CLASS_F32: f->v.f64 = product ? f->v.f64 * (double)x.f32 : f->v.f64 + (double)x.f32; break;
    case CLASS_F64: f->v.f64 = product ? f->v.f64 * x.f64 : f->v.f64 + x.f64; break;
    case CLASS_I32: {
        uint32_t a = (uint32_t)f->v.i32, b = (uint32_t)x.i32;
        f->v.i32 = (int32_t)(product ? a * b : a + b);
        break;
    }
    default: {
        uint64_t a = (uint64_t)f->v.i64, b = (uint64_t)x.i64;
        f->v.i64 = (int64_t)(product ? a * b : a + b);
    }
    }
}

static void fold_begin(struct fold *f, unsigned how, enum scalar_class cls)
{
    *f = (struct fold){.v = reduce_identity(how, reduce_gathers_wide(how, cls) ? CLASS_F64 : cls)};
}

static void fold_one(struct fold *f, unsigned how, enum scalar_class cls, union scalar_value x)
{
    switch (how) {
    case REDUCE_SUM:
    case REDUCE_PROD: fold_sum(f, cls, x, how == REDUCE_PROD); break;
    case REDUCE_ANY: f->v.b = f->v.b || x.b; break;
    case REDUCE_ALL: f->v.b = f->v.b && x.b; break;
    default:
        if (f->count == 0 || wins(how, cls, x, f->v)) {
            f->v = x;
            f->place = f->count;
        }
    }
    f->count++;
}

static union scalar_value fold_end(const struct fold *f, unsigned how, enum scalar_class cls)
{
    union scalar_value v = f->v;
    if (reduce_info[how].finds_place) v.i64 = f->count ? f->place : -1;
    if (reduce_gathers_wide(how, cls)) {
        v.bits = 0;
        v.f32 = (float)f->v.f64;
    }
    return v;
}

// --- walking ---

static enum scalar_class folded_class(const struct fused_kernel *k, int node)
{
    return k->dag.nodes[k->dag.nodes[node].arg[0]].cls;
}

static void compute_level(struct eval_walk *w, enum fused_level level, int stage)
{
    const struct fused_kernel *k = w->k;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        bool here = level == LEVEL_ROW ? k->level[i] <= LEVEL_ROW : k->level[i] == level;
        if (here && k->stage[i] <= stage && k->dag.nodes[i].kind != SCALAR_REDUCE) w->value[i] = compute(w, i);
    }
}

static void store(struct eval_walk *w, const struct fused_output *o)
{
    number_write(o->to.dtype, (void *)(uintptr_t)place_of(w, &o->to, 0), w->value[o->node]);
}

static void check(struct eval_walk *w, enum fused_level level)
{
    for (int c = 0; c < w->k->n_checks; c++) {
        int node = w->k->checks[c];
        bool here = level == LEVEL_ROW ? w->k->level[node] <= LEVEL_ROW : w->k->level[node] == level;
        if (here && !w->value[node].b && w->failed && !*w->failed) *w->failed = (uint32_t)c + 1;
    }
}

static bool next(struct eval_walk *w, int from, int to)
{
    for (int d = to - 1; d >= from; d--) {
        if (++w->point[d] < w->k->sizes[d]) return true;
        w->point[d] = 0;
    }
    return false;
}

static void walk_row(struct eval_walk *w, int pass)
{
    const struct fused_kernel *k = w->k;
    int n_parallel = k->n_dims - k->n_reduce;
    if (fused_row_length(k) == 0) return;
    do {
        compute_level(w, LEVEL_ELEMENT, pass);
        for (int i = 0; i < k->dag.n_nodes; i++)
            if (fused_pass_folds(k, pass, i))
                fold_one(&w->folds[i], k->dag.nodes[i].code, folded_class(k, i), w->value[k->dag.nodes[i].arg[0]]);
        if (pass < fused_last_pass(k)) continue;
        check(w, LEVEL_ELEMENT);
        for (int i = 0; i < k->n_out; i++)
            if (fused_by_element(k, i)) store(w, &k->out[i]);
    } while (next(w, n_parallel, k->n_dims));
}

static void walk_point(struct eval_walk *w)
{
    const struct fused_kernel *k = w->k;
    for (int pass = 0; pass <= fused_last_pass(k); pass++) {
        for (int i = 0; i < k->dag.n_nodes; i++)
            if (fused_pass_folds(k, pass, i)) fold_begin(&w->folds[i], k->dag.nodes[i].code, folded_class(k, i));
        compute_level(w, LEVEL_ROW, pass);
        walk_row(w, pass);
        for (int i = 0; i < k->dag.n_nodes; i++)
            if (fused_pass_folds(k, pass, i))
                w->value[i] = fold_end(&w->folds[i], k->dag.nodes[i].code, folded_class(k, i));
    }
    compute_level(w, LEVEL_ROW, k->n_stages);
    check(w, LEVEL_ROW);
    for (int i = 0; i < k->n_out; i++)
        if (k->level[k->out[i].node] != LEVEL_TOTAL && !fused_by_element(k, i)) store(w, &k->out[i]);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (fused_is_fold(&k->dag.nodes[i], true))
            fold_one(&w->folds[i], k->dag.nodes[i].code & ~(unsigned)REDUCE_ACROSS, folded_class(k, i),
                     w->value[k->dag.nodes[i].arg[0]]);
}

static void walk_in_registers(struct eval_walk *w, bool is_last)
{
    const struct fused_kernel *k = w->k;
    union scalar_value left[FUSED_MAX_OUT];
    compute_level(w, LEVEL_ROW, 0);
    for (int i = 0; i < k->n_out; i++) {
        const struct fused_output *o = &k->out[i];
        if (!k->trips.last[i] || is_last) store(w, o);
        left[i] = number_stored(o->to.dtype, w->value[o->node]);
    }
    memcpy(w->carried, left, sizeof *left * (size_t)k->n_out);
}

// All trips of one point.
static void walk_trips(struct eval_walk *w)
{
    int64_t n = (int64_t)w->k->scalars[w->k->trips.count];
    for (w->trip = 0; w->trip < n; w->trip++) {
        if (w->k->trips.in_place)
            walk_point(w);
        else
            walk_in_registers(w, w->trip == n - 1);
    }
    w->trip = 0;
}

static kiln_status copy_left(struct eval_walk *w)
{
    for (int i = 0; i < w->k->n_out; i++) {
        int64_t lo_B, hi_B;
        if (!w->k->trips.last[i]) continue;
        fused_range(w->k, &w->k->out[i].to, &lo_B, &hi_B);
        if (!w->left[i]) w->left[i] = malloc((size_t)(hi_B - lo_B));
        if (!w->left[i])
            return error_set(KILN_E_MEMORY, "fused kernel %s: out of memory for the reference", w->k->name);
        memcpy(w->left[i], (const char *)w->buffers[w->k->out[i].to.buffer] + lo_B, (size_t)(hi_B - lo_B));
    }
    return KILN_OK;
}

// All points make a trip, then the next one.
static void walk_together(struct eval_walk *w)
{
    int64_t n = (int64_t)w->k->scalars[w->k->trips.count];
    for (w->trip = 0; w->trip < n; w->trip++) {
        if (w->trip && copy_left(w)) break;
        do {
            walk_point(w);
        } while (next(w, 0, w->k->n_dims - w->k->n_reduce));
    }
    for (int i = 0; i < w->k->n_out; i++) free(w->left[i]);
}

static void finish_totals(struct eval_walk *w)
{
    const struct fused_kernel *k = w->k;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (fused_is_fold(&k->dag.nodes[i], true))
            w->value[i] = fold_end(&w->folds[i], k->dag.nodes[i].code & ~(unsigned)REDUCE_ACROSS, folded_class(k, i));
        else if (k->level[i] == LEVEL_TOTAL)
            w->value[i] = compute(w, i);
    }
    for (int i = 0; i < k->n_out; i++)
        if (k->level[k->out[i].node] == LEVEL_TOTAL) store(w, &k->out[i]);
}

kiln_status fused_eval(const struct fused_kernel *k, void *const *buffers, uint32_t *failed_checks)
{
    union scalar_value carried[FUSED_MAX_OUT];
    struct eval_walk w = {.k = k, .buffers = buffers, .failed = failed_checks, .carried = carried};
    w.value = calloc((size_t)k->dag.n_nodes + 1, sizeof *w.value);
    w.folds = calloc((size_t)k->dag.n_nodes + 1, sizeof *w.folds);
    if (w.value && w.folds) {
        for (int i = 0; i < k->dag.n_nodes; i++)
            if (fused_is_fold(&k->dag.nodes[i], true))
                fold_begin(&w.folds[i], k->dag.nodes[i].code & ~(unsigned)REDUCE_ACROSS, folded_class(k, i));
        if (k->trips.together)
            walk_together(&w);
        else if (fused_points(k) > 0)
            do {
                if (k->trips.on)
                    walk_trips(&w);
                else
                    walk_point(&w);
            } while (next(&w, 0, k->n_dims - k->n_reduce));
        finish_totals(&w);
    } else
        error_set(KILN_E_MEMORY, "fused kernel %s: out of memory for the reference", k->name);
    free(w.value);
    free(w.folds);
    return error_pending;
}
