// Included by searchsorted.c once a class, with T, IS_NAN and NAME: n values from the walk's place on, `steps` apart.
#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

// Elements before v; NaN is above all.
static inline bool JOIN(NAME, _before)(T a, T v, bool right)
{
    if (right) return a <= v || IS_NAN(v);
    return a < v || (IS_NAN(v) && !IS_NAN(a));
}

// What is not yet decided is halved for all lanes at once: the steps depend on the size alone.
static inline void JOIN(NAME, _lanes)(const T *const *lines, const T *v, int64_t *found, int64_t size, int64_t stride,
                                      bool right)
{
    for (int64_t i = 0; i < LOOKUPS; i++) found[i] = 0;
    for (int64_t left = size, half; left > 0; left -= half) {
        half = left > 1 ? left / 2 : 1;
        for (int64_t i = 0; i < LOOKUPS; i++)
            found[i] += half & -(int64_t)JOIN(NAME, _before)(lines[i][(found[i] + half - 1) * stride], v[i], right);
    }
}

// The same in one line whose elements lie side by side, of values that are no NaN: what vectors do.
static inline void JOIN(NAME, _shared)(const T *line, const T *v, int32_t *found, int32_t size, bool right)
{
    for (int32_t i = 0; i < LOOKUPS; i++) found[i] = 0;
    for (int32_t left = size, half; left > 0; left -= half) {
        half = left > 1 ? left / 2 : 1;
        const T *at = line + half - 1;
        for (int32_t i = 0; i < LOOKUPS; i++) {
            T a = at[found[i]];
            found[i] += (right ? a <= v[i] : a < v[i]) ? half : 0;
        }
    }
}

static void NAME(const struct walk *w, int64_t n, const int64_t *steps)
{
    const T *line = (const T *)(const void *)w->at[0] + w->inner * steps[0], *lines[LOOKUPS];
    const T *values = (const T *)(const void *)w->at[1] + w->inner * steps[1];
    int64_t *out = (int64_t *)(void *)w->at[2] + w->inner * steps[2], found[LOOKUPS];
    int64_t size = (int64_t)w->l->scalars[0], stride = (int64_t)w->l->scalars[1];
    int32_t near[LOOKUPS];
    bool right = w->l->variant[0], any_nan = false;
    T v[LOOKUPS];
    for (int64_t i = 0; i < LOOKUPS; i++) { // lanes without a value do the first again
        int64_t k = i < n ? i : 0;
        v[i] = values[k * steps[1]];
        lines[i] = line + k * steps[0];
        any_nan |= IS_NAN(v[i]);
    }
    bool shared = steps[0] == 0 && stride == 1 && size <= INT32_MAX && !any_nan;
    if (shared)
        right ? JOIN(NAME, _shared)(line, v, near, (int32_t)size, true)
              : JOIN(NAME, _shared)(line, v, near, (int32_t)size, false);
    else
        right ? JOIN(NAME, _lanes)(lines, v, found, size, stride, true)
              : JOIN(NAME, _lanes)(lines, v, found, size, stride, false);
    for (int64_t i = 0; i < n; i++) out[i * steps[2]] = shared ? near[i] : found[i];
}
#undef T
#undef NAME
#undef IS_NAN
#undef JOIN
#undef JOIN_
