// What a run left, as numbers that the host decodes from the bytes read.
#include "fuzz.h"

static double half(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -v : v;
}

static double brain(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float v;
    memcpy(&v, &bits, sizeof v);
    return (double)v;
}

// The places near 0, 2^63 and 2^64 keep their last digit, which a double lacks from 2^53 on.
static double wide(uint64_t v)
{
    const uint64_t middle = UINT64_C(1) << 63, near = UINT64_C(1) << 48;
    if (-v <= near) return -(double)-v - 0.5;
    if (v + near - middle <= 2 * near) return (double)(int64_t)(v - middle) + 0.25;
    return (double)v;
}

static double decode(kiln_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case KILN_BOOL:
    case KILN_U8: return ((const uint8_t *)data)[i];
    case KILN_I8: return ((const int8_t *)data)[i];
    case KILN_I16: return ((const int16_t *)data)[i];
    case KILN_I32: return ((const int32_t *)data)[i];
    case KILN_I64: return (double)((const int64_t *)data)[i];
    case KILN_U16: return ((const uint16_t *)data)[i];
    case KILN_U64: return wide(((const uint64_t *)data)[i]);
    case KILN_U32: return ((const uint32_t *)data)[i];
    case KILN_F16: return half(((const uint16_t *)data)[i]);
    case KILN_BF16: return brain(((const uint16_t *)data)[i]);
    case KILN_F32: return (double)((const float *)data)[i];
    default: return ((const double *)data)[i];
    }
}

static struct entry *next_entry(struct trace *t, const char *name)
{
    if (t->n == t->room) {
        t->room = t->room ? 2 * t->room : 64;
        t->entry = realloc(t->entry, t->room * sizeof *t->entry);
        if (!t->entry) abort();
    }
    struct entry *e = &t->entry[t->n++];
    *e = (struct entry){.call = t->call};
    snprintf(e->name, sizeof e->name, "%s", name);
    return e;
}

void trace_add(struct trace *t, const char *name, kiln_tensor *tensor)
{
    if (kiln_error()) return;
    struct entry *e = next_entry(t, name);
    e->dtype = kiln_tensor_dtype(tensor);
    e->rank = (int)kiln_rank(tensor);
    e->n = kiln_numel(tensor);
    memcpy(e->dims, kiln_dims(tensor), kiln_rank(tensor) * sizeof *e->dims);
    size_t size_B = (size_t)e->n * kiln_dtype_size(e->dtype);
    char *data = malloc(size_B + 8);
    e->v = malloc((size_t)e->n * sizeof *e->v + 8);
    if (!data || !e->v) abort();
    if (!kiln_read(tensor, data, size_B))
        for (int64_t i = 0; i < e->n; i++) e->v[i] = decode(e->dtype, data, i);
    else
        t->n--, free(e->v);
    free(data);
}

void trace_add_number(struct trace *t, const char *name, double v)
{
    if (kiln_error()) return;
    struct entry *e = next_entry(t, name);
    e->dtype = KILN_I64;
    e->n = 1;
    e->v = malloc(sizeof *e->v);
    if (!e->v) abort();
    e->v[0] = v;
}

void trace_free(struct trace *t)
{
    for (size_t i = 0; i < t->n; i++) free(t->entry[i].v);
    free(t->entry);
    *t = (struct trace){0};
}
