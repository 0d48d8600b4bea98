// Included by searchsorted.c once a class, with T, IS_NAN and NAME: n values from the walk's place on, `steps` apart.
#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

// Elements before v; NaN is above all.
static inline bool JOIN(NAME, _before)(T a, T v, bool right)
{
    if (right) return a <= v || IS_NAN(v);
    return a < v || (IS_NAN(v) && !IS_NAN(a));
}

static inline void JOIN(NAME, _block)(const T *const *lines, const T *v, int64_t *found, int64_t n, int64_t size,
                                      int64_t stride, bool right)
{
    for (int64_t i = 0; i < n; i++) found[i] = 0;
    for (int64_t left = size; left > 1;) {
        int64_t half = left / 2;
        for (int64_t i = 0; i < n; i++)
            found[i] += JOIN(NAME, _before)(lines[i][(found[i] + half - 1) * stride], v[i], right) ? half : 0;
        left -= half;
    }
    for (int64_t i = 0; i < n; i++) found[i] += JOIN(NAME, _before)(lines[i][found[i] * stride], v[i], right);
}

static void NAME(const struct walk *w, int64_t n, const int64_t *steps)
{
    const T *lines[LOOKUPS], *line = (const T *)(const void *)w->at[0] + w->inner * steps[0];
    const T *values = (const T *)(const void *)w->at[1] + w->inner * steps[1];
    int64_t *out = (int64_t *)(void *)w->at[2] + w->inner * steps[2], found[LOOKUPS];
    int64_t size = (int64_t)w->l->scalars[0], stride = (int64_t)w->l->scalars[1];
    T v[LOOKUPS];
    for (int64_t i = 0; i < n; i++) {
        v[i] = values[i * steps[1]];
        lines[i] = line + i * steps[0];
    }
    if (w->l->variant[0])
        JOIN(NAME, _block)(lines, v, found, n, size, stride, true);
    else
        JOIN(NAME, _block)(lines, v, found, n, size, stride, false);
    for (int64_t i = 0; i < n; i++) out[i * steps[2]] = found[i];
}
#undef T
#undef NAME
#undef IS_NAN
#undef JOIN
#undef JOIN_
