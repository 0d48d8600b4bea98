// Included by resample.c once a class, with T, NAME and CLS. Steps are in elements.
static void CPU_CAT(columns, NAME)(const struct taps *t, const char *from, int64_t x_step, char *to, int64_t out_step,
                                   int64_t n)
{
    T row[COLUMNS];
    for (int64_t i = 0; i < t->n; i++) {
        T *result = (T *)(void *)to + i * out_step, *y = t->past ? row : result;
        const T *x = (const T *)(const void *)from;
        int32_t k = t->begin[i], end = t->begin[i + 1];
        const T *a = x + (k < end ? t->at[k] : 0) * x_step;
        if (t->between) {
            const T *b = x + t->at[k + 1] * x_step;
            const T w = (T)t->weight[k + 1];
#pragma omp simd
            for (int64_t c = 0; c < n; c++) y[c] = a[c] + (b[c] - a[c]) * w;
            if (t->past) stream((char *)result, (const char *)row, n * (int64_t)sizeof *row);
            continue;
        }
        if (k == end) memset(y, 0, (size_t)n * sizeof *y);
        if (end - k == 1) {
            const T w = (T)t->weight[k];
#pragma omp simd
            for (int64_t c = 0; c < n; c++) y[c] = a[c] * w;
        }
        for (int32_t p = k; p + 1 < end; p += 2) { // by pairs: fewer sums go through memory
            const T *b = x + t->at[p] * x_step, *d = x + t->at[p + 1] * x_step;
            const T w = (T)t->weight[p], v = (T)t->weight[p + 1];
            if (p == k) {
#pragma omp simd
                for (int64_t c = 0; c < n; c++) y[c] = b[c] * w + d[c] * v;
            } else {
#pragma omp simd
                for (int64_t c = 0; c < n; c++) y[c] = (y[c] + b[c] * w) + d[c] * v;
            }
        }
        if (end - k > 1 && (end - k) % 2 == 1) {
            const T *b = x + t->at[end - 1] * x_step;
            const T w = (T)t->weight[end - 1];
#pragma omp simd
            for (int64_t c = 0; c < n; c++) y[c] = y[c] + b[c] * w;
        }
        if (t->past) stream((char *)result, (const char *)row, n * (int64_t)sizeof *row);
    }
}

static void CPU_CAT(picked, NAME)(const struct taps *t, const T *x, int64_t x_step, T *y, int64_t out_step, int64_t i,
                                  int64_t end)
{
    for (; i < end; i++) {
        int32_t k = t->begin[i], stop = t->begin[i + 1];
        T a = k < stop ? x[t->at[k] * x_step] : 0;
        if (t->between) {
            y[i * out_step] = a + (x[t->at[k + 1] * x_step] - a) * (T)t->weight[k + 1];
            continue;
        }
        T sum = k < stop ? a * (T)t->weight[k] : 0;
        for (k++; k < stop; k++) sum = sum + x[t->at[k] * x_step] * (T)t->weight[k];
        y[i * out_step] = sum;
    }
}

static void CPU_CAT(line, NAME)(const struct taps *t, const char *from, int64_t x_step, char *to, int64_t out_step)
{
    T *y = (T *)(void *)to;
    const T *x = (const T *)(const void *)from;
    bool permutes = sizeof(T) == sizeof(float) && t->between && x_step == 1 && out_step == 1;
    if (permutes && permuted(t, from, to)) return;
    CPU_CAT(picked, NAME)(t, x, x_step, y, out_step, 0, t->n);
}

// Tiles of TURNED_B a row: element i of each line.
static void CPU_CAT(tile, NAME)(const struct taps *t, const char *from, char *to)
{
    typedef T vector __attribute__((vector_size(VECTOR_B)));
    enum { VECTORS = TURNED_B / VECTOR_B };
    for (int64_t i = 0; i < t->n; i++, to += TURNED_B) {
        int32_t k = t->begin[i], end = t->begin[i + 1];
        const vector *a = (const vector *)(const void *)(from + (int64_t)(k < end ? t->at[k] : 0) * TURNED_B);
        vector sum[VECTORS];
        if (t->between) {
            const vector *b = (const vector *)(const void *)(from + (int64_t)t->at[k + 1] * TURNED_B);
            const T w = (T)t->weight[k + 1];
            for (int v = 0; v < VECTORS; v++) sum[v] = a[v] + (b[v] - a[v]) * w;
        } else {
            const T w = k < end ? (T)t->weight[k] : 0;
            for (int v = 0; v < VECTORS; v++) sum[v] = k < end ? a[v] * w : (vector){0};
            for (k++; k < end; k++) {
                const vector *b = (const vector *)(const void *)(from + (int64_t)t->at[k] * TURNED_B);
                const T more = (T)t->weight[k];
                for (int v = 0; v < VECTORS; v++) sum[v] = sum[v] + b[v] * more;
            }
        }
        memcpy(to, sum, sizeof sum);
    }
}

// n lines, x_next and out_next apart, as columns of a tile.
static void CPU_CAT(turned, NAME)(const struct taps *t, char *tiles, const char *x, int64_t x_step, int64_t x_next,
                                  char *out, int64_t out_step, int64_t out_next, int64_t n)
{
    int64_t ld = TURNED_B / (int64_t)sizeof(T);
    char *made = tiles + t->from * TURNED_B;
    CPU_FN(cpu_load_tile)(tiles, ld, CLS, x, cpu_class_dtype[CLS], t->from, n, x_step, x_next);
    CPU_CAT(tile, NAME)(t, tiles, made);
    CPU_FN(cpu_store_tile)(out, cpu_class_dtype[CLS], out_step, out_next, made, ld, CLS, t->n, n);
}
#undef T
#undef NAME
#undef CLS
