// Values of inputs and outputs on the host, and what an op has made of them.
#include "tensor/watch.h"
#include "base/str.h"
#include "base/where.h"
#include "scalar/number.h"

#include <math.h>
#include <stdlib.h>

struct values {
    int64_t n, nans, infinities, first; // first: the element, row-major, that is none or infinite; -1: all are finite
    double least, most;                 // of the finite ones
};

struct watched {
    int n_in;
    struct values in[];
};

atomic_int watch_known = -1;

int watch_ask(void)
{
    int on = (debug_flag("nan") ? WATCH_NAN : 0) | (debug_flag("indices") ? WATCH_INDICES : 0) |
             (debug_flag("promote") ? WATCH_PROMOTE : 0);
    atomic_store(&watch_known, on);
    return on;
}

static void look_at(struct values *v, double x)
{
    if (!isfinite(x) && v->first < 0) v->first = v->n;
    v->n++;
    v->nans += isnan(x);
    v->infinities += isinf(x) != 0;
    if (!isfinite(x)) return;
    if (x < v->least) v->least = x;
    if (x > v->most) v->most = x;
}

// False: it has no floats, or they cannot be read.
static bool read_values(const kiln_tensor *t, struct values *v)
{
    uint64_t size_B;
    *v = (struct values){.first = -1, .least = INFINITY, .most = -INFINITY};
    if (!t || !dtype_is_float(t->type.dtype) || t->builder) return false;
    if (!t->storage) {
        look_at(v, t->number);
        return true;
    }
    char *data = type_size_B(&t->type, &size_B) ? NULL : malloc(size_B ? (size_t)size_B : 1);
    bool read = data && !tensor_read(t, data);
    size_t element_B = dtype_size_B[t->type.dtype];
    for (uint64_t at = 0; read && at < size_B; at += element_B)
        look_at(v, number_of_dtype(t->type.dtype, number_read(t->type.dtype, data + at)));
    free(data);
    return read;
}

// The place of ops that reading runs, which are not watched: no code lies there.
#define OWN_READS ((uintptr_t)1)

struct watched *watch_inputs(const struct op_call *c, kiln_tensor *const *in)
{
    bool floats = false;
    if (error_pending || where_now() == OWN_READS) return NULL;
    for (int i = 0; i < c->n_out; i++) floats |= dtype_is_float(c->out[i].dtype);
    if (!c->n_in || !floats) return NULL; // what makes numbers of none means what it makes
    struct watched *w = malloc(sizeof *w + sizeof *w->in * (size_t)c->n_in);
    if (!w) return NULL;
    w->n_in = c->n_in;
    uintptr_t where = where_give(OWN_READS);
    for (int i = 0; i < c->n_in; i++) read_values(in[i], &w->in[i]);
    where_give(where);
    return w;
}

static bool had(const struct watched *w, bool infinities)
{
    for (int i = 0; i < w->n_in; i++)
        if (w->in[i].nans || (infinities && w->in[i].infinities)) return true;
    return false;
}

static void add_count(struct str *s, int64_t n, const char *one, const char *many)
{
    if (n) str_addf(s, "%lld %s", (long long)n, n == 1 ? one : many);
}

static void add_index(struct str *s, const struct type *t, int64_t element)
{
    int64_t at[MAX_RANK];
    for (int i = t->rank; i-- > 0; element /= t->dims[i]) at[i] = element % t->dims[i];
    for (int i = 0; i < t->rank; i++) str_addf(s, "%s%lld", i ? "," : " at [", (long long)at[i]);
    if (t->rank) str_add(s, "]");
}

static void add_range(struct str *s, const struct values *v)
{
    if (v->least > v->most)
        str_add(s, v->n ? " without a finite number" : " empty");
    else if (v->n == 1)
        str_addf(s, " is %.6g", v->least);
    else
        str_addf(s, " in [%.6g, %.6g]", v->least, v->most);
    if (v->infinities) str_addf(s, " with %lld infinite", (long long)v->infinities);
}

static void tell(const struct watched *w, const struct op_call *c, int output, const kiln_tensor *t,
                 const struct values *v)
{
    char type[TYPE_TEXT_MAX], place[512];
    struct str s = {0};
    add_count(&s, v->nans, "NaN", "NaN");
    if (v->nans && v->infinities) str_add(&s, " and ");
    add_count(&s, v->infinities, "infinity", "infinities");
    str_addf(&s, " in %s", type_text(&t->type, type, sizeof type));
    if (c->n_out > 1) str_addf(&s, ", result %d", output);
    str_add(&s, ", the first");
    add_index(&s, &t->type, v->first);
    for (int i = 0; i < w->n_in; i++) {
        if (!w->in[i].n && !(c->in[i] && dtype_is_float(c->in[i]->dtype))) continue;
        const char *name = c->op->in_names && c->op->in_names[i] ? c->op->in_names[i] : "an input";
        str_addf(&s, "; %s %s", name, type_text(c->in[i], type, sizeof type));
        add_range(&s, &w->in[i]);
    }
    where_describe(where_now(), place, sizeof place);
    log_warn("nan: %s made %s (%s)", c->op->name, str_text(&s), place);
    str_free(&s);
}

void watch_outputs(struct watched *w, const struct op_call *c, kiln_tensor *const *out, kiln_status status)
{
    for (int i = 0; i < c->n_out && !status; i++) {
        struct values v;
        uintptr_t where = where_give(OWN_READS);
        bool read = read_values(out[i], &v);
        where_give(where);
        if (read && ((v.nans && !had(w, false)) || (v.infinities && !had(w, true)))) tell(w, c, i, out[i], &v);
    }
    free(w);
}
