// Included by searchsorted.c once a class, with T, REAL, of which a part is computed, IS_NAN and NAME: n values from
// the walk's place on, `steps` apart.
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

// The lanes before whose value the element lies that they have come to go on by half. gcc picks it lane by lane.
static inline void JOIN(NAME, _halve)(const T *at, const T *v, int32_t *found, int32_t half, bool right)
{
#ifdef GATHERS
    for (int32_t i = 0; i < LOOKUPS; i += 16) {
        __m512i to = _mm512_loadu_si512(found + i);
        __m512 a = _mm512_i32gather_ps(to, at, sizeof *at), b = _mm512_loadu_ps(v + i);
        __mmask16 before = right ? _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ) : _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
        _mm512_storeu_si512(found + i, _mm512_mask_add_epi32(to, before, to, _mm512_set1_epi32(half)));
    }
#else
    for (int32_t i = 0; i < LOOKUPS; i++) {
        T a = at[found[i]];
        found[i] += (right ? a <= v[i] : a < v[i]) ? half : 0;
    }
#endif
}

// The same in one line whose elements lie side by side, of values that are no NaN: what vectors do. `found` elements
// come before each for certain, `left` more may.
static inline void JOIN(NAME, _shared)(const T *line, const T *v, int32_t *found, int32_t left, bool right)
{
    for (int32_t half; left > 0; left -= half) {
        half = left > 1 ? left / 2 : 1;
        JOIN(NAME, _halve)(line + half - 1, v, found, half, right);
    }
}

// The parts of n values: never less of a greater one, for each of its steps rounds in order.
static inline void JOIN(NAME, _parts)(const struct parted *p, const T *v, int32_t *part, int64_t n)
{
    REAL low = (REAL)p->low, scale = (REAL)p->scale, top = (REAL)(p->n - 1);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        REAL at = ((REAL)v[i] - low) * scale;
        at = at < top ? at : top;
        part[i] = (int32_t)(at > 0 ? at : 0);
    }
}

// The parts of a line, at most as many as there is room for; false: its range cannot be parted.
static bool JOIN(NAME, _part)(struct parted *p, const struct launch *l)
{
    const T *line = (const T *)(uintptr_t)l->operands[0].address;
    int64_t size = (int64_t)l->scalars[0];
    while (size > 0 && IS_NAN(line[size - 1])) size--;
    double low = size ? (double)line[0] : 0, range = size ? (double)line[size - 1] - low : 0;
    int32_t n = p->n;
    REAL scale = (REAL)((n - 1) / range);
    if (!(range > 0 && scale > 0 && scale < (REAL)1e30)) return false;
    p->low = low, p->scale = (double)scale, p->size = (int32_t)size;
    memset(p->begin, 0, (size_t)(n + 1) * sizeof *p->begin);
    for (int32_t i = 0; i < size; i += LOOKUPS) {
        int32_t part[LOOKUPS], m = (int32_t)least(LOOKUPS, size - i);
        JOIN(NAME, _parts)(p, line + i, part, m);
        for (int32_t k = 0; k < m; k++) p->begin[part[k] + 1] = i + k + 1;
    }
    for (int32_t k = 1; k <= n; k++)
        if (p->begin[k] < p->begin[k - 1]) p->begin[k] = p->begin[k - 1];
    return true;
}

// Where to look for each value: from `found` on among `left` elements, which end in the line.
static inline int32_t JOIN(NAME, _places)(const struct parted *p, const T *v, int32_t *found)
{
    int32_t part[LOOKUPS], most = 0;
    JOIN(NAME, _parts)(p, v, part, LOOKUPS);
#pragma omp simd reduction(max : most)
    for (int i = 0; i < LOOKUPS; i++) {
        int32_t begin = p->begin[part[i]], length = p->begin[part[i] + 1] - begin;
        found[i] = begin;
        most = length > most ? length : most;
    }
    for (int i = 0; i < LOOKUPS; i++) found[i] = found[i] < p->size - most ? found[i] : p->size - most;
    return most;
}

static void NAME(const struct walk *w, const struct parted *p, int64_t n, const int64_t *steps)
{
    const T *line = (const T *)(const void *)w->at[0] + w->inner * steps[0], *lines[LOOKUPS];
    const T *values = (const T *)(const void *)w->at[1] + w->inner * steps[1];
    int64_t *out = (int64_t *)(void *)w->at[2] + w->inner * steps[2], found[LOOKUPS];
    int64_t size = (int64_t)w->l->scalars[0], stride = (int64_t)w->l->scalars[1];
    int32_t near[LOOKUPS] = {0};
    bool right = w->l->variant[0], any_nan = false;
    T v[LOOKUPS];
    if (n == LOOKUPS && steps[1] == 1)
        memcpy(v, values, sizeof v);
    else
        for (int64_t i = 0; i < LOOKUPS; i++) v[i] = values[(i < n ? i : 0) * steps[1]]; // no value: the first again
    for (int64_t i = 0; i < LOOKUPS; i++) any_nan |= IS_NAN(v[i]);
    if (steps[0] == 0 && stride == 1 && size <= INT32_MAX && !any_nan) {
        int32_t left = p->n ? JOIN(NAME, _places)(p, v, near) : (int32_t)size;
        right ? JOIN(NAME, _shared)(line, v, near, left, true) : JOIN(NAME, _shared)(line, v, near, left, false);
        for (int64_t i = 0; i < n; i++) out[i * steps[2]] = near[i];
        return;
    }
    for (int64_t i = 0; i < LOOKUPS; i++) lines[i] = line + (i < n ? i : 0) * steps[0];
    right ? JOIN(NAME, _lanes)(lines, v, found, size, stride, true)
          : JOIN(NAME, _lanes)(lines, v, found, size, stride, false);
    for (int64_t i = 0; i < n; i++) out[i * steps[2]] = found[i];
}
#undef T
#undef NAME
#undef IS_NAN
#undef REAL
#undef GATHERS
#undef JOIN
#undef JOIN_
