// Included by resample.c once a class, with T and NAME. Steps are in elements.
static void CPU_CAT(columns, NAME)(const struct taps *t, const char *from, int64_t x_step, char *to, int64_t out_step,
                                   int64_t n)
{
    for (int64_t i = 0; i < t->n; i++) {
        T *y = (T *)(void *)to + i * out_step;
        const T *x = (const T *)(const void *)from;
        int32_t k = t->begin[i], end = t->begin[i + 1];
        const T *a = x + (k < end ? t->at[k] : 0) * x_step;
        if (t->between) {
            const T *b = x + t->at[k + 1] * x_step;
            const T w = (T)t->weight[k + 1];
#pragma omp simd
            for (int64_t c = 0; c < n; c++) y[c] = a[c] + (b[c] - a[c]) * w;
            continue;
        }
        const T w = k < end ? (T)t->weight[k] : 0;
        if (k == end) memset(y, 0, (size_t)n * sizeof *y);
#pragma omp simd
        for (int64_t c = 0; c < (k < end ? n : 0); c++) y[c] = a[c] * w;
        for (k++; k < end; k++) {
            const T *b = x + t->at[k] * x_step;
            const T v = (T)t->weight[k];
#pragma omp simd
            for (int64_t c = 0; c < n; c++) y[c] = y[c] + b[c] * v;
        }
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
#undef T
#undef NAME
