// What steps share: the table of their kinds, what they ask about operands, and what they draw.
#include "fuzz.h"
#include <stdarg.h>

const struct step_kind step_kinds[] = {
#define STEP(name, weight, flags) {#name, step_##name, weight, flags},
#include "steps.def"
#undef STEP
};
const int n_step_kinds = sizeof step_kinds / sizeof *step_kinds;
uint64_t steps_done[sizeof step_kinds / sizeof *step_kinds], steps_failed[sizeof step_kinds / sizeof *step_kinds];

void say(struct operands *o, const char *format, ...)
{
    va_list args;
    if (!o->run->text) return;
    va_start(args, format);
    vsnprintf(o->run->said, sizeof o->run->said, format, args);
    va_end(args);
}

uint32_t choose(struct operands *o, uint32_t n)
{
    return rng_below(&o->choice, n);
}

int64_t choose_axis(struct operands *o, kiln_tensor *t)
{
    int64_t rank = (int64_t)kiln_rank(t);
    if (!rank) return 0;
    int64_t axis = choose(o, (uint32_t)rank);
    return choose(o, 4) ? axis : axis - rank;
}

bool too_deep(struct operands *o, kiln_tensor *t, size_t most)
{
    return !o->run->p->deep && kiln_rank(t) > most;
}

bool is_float(kiln_tensor *t)
{
    return is_floating(kiln_tensor_dtype(t));
}

bool is_bool(kiln_tensor *t)
{
    return kiln_tensor_dtype(t) == KILN_BOOL;
}

bool is_integer(kiln_tensor *t)
{
    return !is_float(t) && !is_bool(t);
}

bool same_shape(kiln_tensor *a, kiln_tensor *b)
{
    bool same = kiln_rank(a) == kiln_rank(b);
    for (size_t i = 0; same && i < kiln_rank(a); i++) same = kiln_dims(a)[i] == kiln_dims(b)[i];
    return same;
}

bool broadcasts(kiln_tensor *a, kiln_tensor *b, bool into_a)
{
    int64_t n = 1;
    size_t ra = kiln_rank(a), rb = kiln_rank(b), rank = ra > rb ? ra : rb;
    if (into_a && rb > ra) return false;
    for (size_t i = 1; i <= rank; i++) {
        int64_t x = i <= ra ? kiln_dims(a)[ra - i] : 1, y = i <= rb ? kiln_dims(b)[rb - i] : 1;
        if (x != y && y != 1 && (x != 1 || into_a)) return false;
        n *= x == 1 ? y : x;
    }
    return n <= LARGEST;
}

kiln_dtype dtype_of_run(const struct run *run, kiln_dtype dtype)
{
    return run->way == WAY_WIDE && is_floating(dtype) ? KILN_F64 : dtype;
}

kiln_tensor *fit(struct operands *o, const char **name)
{
    static const double numbers[] = {0.5, -1, 2, 0, 0.25};
    uint32_t i = choose(o, sizeof numbers / sizeof *numbers);
    static _Thread_local char text[16];
    if (broadcasts(o->a, o->b, false)) return *name = o->nb, o->b;
    snprintf(text, sizeof text, "%g", numbers[i]);
    *name = text;
    return is_float(o->a) || i == 0 || i == 4 ? kiln_scalar(numbers[i]) : kiln_scalar_int((int64_t)numbers[i]);
}

static kiln_tensor *index_of_host(struct operands *o, size_t rank, const int64_t *dims, int64_t n, int64_t size)
{
    int64_t v[LARGEST];
    bool negative = choose(o, 3) == 0;
    for (int64_t i = 0; i < n; i++) v[i] = choose(o, (uint32_t)size) - (negative && choose(o, 2) ? size : 0);
    return kiln_from_data(o->run->dev, KILN_I64, rank, dims, v);
}

kiln_tensor *make_index(struct operands *o, size_t rank, const int64_t *dims, int64_t size)
{
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= dims[i];
    if (size == 0 || n > LARGEST || rank > KILN_MAX_RANK) return NULL;
    bool fits = kiln_rank(o->c) == rank;
    for (size_t i = 0; fits && i < rank; i++) fits = kiln_dims(o->c)[i] == dims[i];
    if (fits && is_integer(o->c))
        return kiln_remainder(kiln_cast(o->c, choose(o, 2) ? KILN_I64 : KILN_I32), kiln_scalar_int(size));
    if (choose(o, 2)) return index_of_host(o, rank, dims, n, size);
    kiln_tensor *line = kiln_arange(o->run->dev, KILN_I64, 0, (double)n, 1);
    line = kiln_mul(line, kiln_scalar_int(1 + choose(o, 5)));
    return kiln_remainder(kiln_reshape(line, rank, dims), kiln_scalar_int(size));
}

kiln_tensor *pattern(struct operands *o, int period, size_t rank, const int64_t *dims)
{
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= dims[i];
    kiln_tensor *v = kiln_fmod(kiln_arange(kiln_tensor_device(o->a), KILN_F32, 0, (double)n, 1), period);
    v = kiln_div(kiln_sub(v, 0.5 * period), 4);
    return kiln_reshape(kiln_cast(v, kiln_tensor_dtype(o->a)), rank, dims);
}
