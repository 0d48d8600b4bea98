// attention_rows.c for one class. In: NAME, REAL, CLS, vector_NAME of LANES elements, ALL, LARGER, MULADD, EXP2.
#define VECTOR FN(vector)

INLINE VECTOR FN(load)(const REAL *at)
{
    VECTOR v;
    memcpy(&v, at, sizeof v);
    return v;
}

INLINE void FN(store)(REAL *at, VECTOR v)
{
    memcpy(at, &v, sizeof v);
}

INLINE REAL FN(total)(VECTOR v)
{
    REAL x[LANES], sum = 0;
    memcpy(x, &v, sizeof x);
    for (int i = 0; i < LANES; i++) sum += x[i];
    return sum;
}

INLINE REAL FN(largest)(VECTOR v)
{
    REAL x[LANES];
    memcpy(x, &v, sizeof x);
    REAL most = x[0];
    for (int i = 1; i < LANES; i++) most = x[i] > most ? x[i] : most;
    return most;
}

static int64_t FN(seen)(const struct attention_tile *t, int64_t r)
{
    int64_t n = t->seen + r;
    return n < 0 ? 0 : n < t->columns ? n : t->columns;
}

// Where a mask of truths hides nothing of a row but its end, the row is what stands before it. Else false.
static bool FN(ends_early)(const struct attention_tile *t, int64_t r, int64_t *n)
{
    const struct gemm_matrix *m = &t->mask;
    if (m->dtype != KILN_BOOL || m->col != 1) return false;
    const char *row = m->at + r * m->row, *hidden = memchr(row, 0, (size_t)*n);
    int64_t first = hidden ? hidden - row : *n;
    if (attention_last_truth(row, *n, first) > first) return false;
    *n = first;
    return true;
}

// Brings the mask into a row of scores, which are scaled then. What is behind its end counts as not seen.
static void FN(mask_row)(const struct attention_tile *t, int64_t r, int64_t n, REAL *s)
{
    REAL of_mask[ATTENTION_KEYS];
    const struct gemm_matrix *m = &t->mask;
    int64_t size_B = cpu_dtype_size_B[m->dtype];
    CPU_FN(cpu_load)(m->dtype, CLS, of_mask, m->at + r * m->row * size_B, n, m->col);
    if (m->dtype == KILN_BOOL)
        for (int64_t i = 0; i < n; i++) s[i] = of_mask[i] != 0 ? s[i] * (REAL)t->scale : -(REAL)INFINITY;
    else
        for (int64_t i = 0; i < n; i++) s[i] = s[i] * (REAL)t->scale + of_mask[i];
}

// The row as exponents to base 2 but for the factor that it returns, whole vectors of them.
static REAL FN(exponents)(const struct attention_tile *t, int64_t r, int64_t n, bool masked, REAL *s)
{
    const double log2e = 1.44269504088896340736;
    bool scaled = masked || !(t->scale > 0);
    if (masked)
        FN(mask_row)(t, r, n, s);
    else if (scaled)
        for (int64_t i = 0; i < n; i++) s[i] *= (REAL)t->scale;
    for (int64_t i = n; i % LANES; i++) s[i] = -(REAL)INFINITY;
    return (REAL)(scaled ? log2e : t->scale * log2e);
}

INLINE void FN(clear_unseen)(const struct attention_tile *t, int64_t n, REAL *s)
{
    int64_t whole = (n + LANES - 1) / LANES * LANES, end = (t->columns + LANES - 1) / LANES * LANES;
    if (whole < end) memset(s + whole, 0, sizeof *s * (size_t)(end - whole));
}

static void FN(weigh)(const struct attention_tile *t, void *peaks, void *sums, void *outs, int64_t ld_out,
                      int64_t width)
{
    REAL *peak = peaks, *sum = sums, *out = outs;
    for (int64_t r = 0; r < t->rows; r++) {
        REAL *s = (REAL *)t->scores + r * t->ld;
        int64_t n = FN(seen)(t, r);
        bool masked = t->mask.at && !FN(ends_early)(t, r, &n);
        REAL factor = FN(exponents)(t, r, n, masked, s);
        VECTOR most = ALL(-(REAL)INFINITY), total = ALL(0);
        for (int64_t i = 0; i < n; i += LANES) most = LARGER(FN(load)(s + i), most);
        REAL old = peak[r], new = FN(largest)(most) * factor;
        new = new > old ? new : old;
        // A query that has seen no key so far has weights 0, whatever they are relative to.
        REAL base = new == -(REAL)INFINITY ? 0 : new;
        VECTOR times = ALL(factor), less = ALL(-base);
        for (int64_t i = 0; i < n; i += LANES) {
            VECTOR p = EXP2(MULADD(FN(load)(s + i), times, less));
            total = total + p;
            FN(store)(s + i, p);
        }
        FN(clear_unseen)(t, n, s);
        REAL before = 0;
        if (old != -(REAL)INFINITY) before = sum[r];
        if (new != old && old != -(REAL)INFINITY) {
            REAL fade = FN(largest)(EXP2(ALL(old - base)));
            before *= fade;
            for (int64_t i = 0; i < width; i++) out[r * ld_out + i] *= fade;
        }
        sum[r] = before + FN(total)(total);
        peak[r] = new;
    }
}

static void FN(divide)(void *outs, int64_t ld, const void *sums, int64_t rows, int64_t width)
{
    REAL *out = outs;
    const REAL *sum = sums;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++) out[r * ld + i] *= 1 / sum[r];
}

static void FN(slopes)(const struct attention_tile *t, void *slopes, const void *peaks, const void *sums,
                       const void *deltas)
{
    const REAL *peak = peaks, *sum = sums, *delta = deltas;
    for (int64_t r = 0; r < t->rows; r++) {
        REAL *s = (REAL *)t->scores + r * t->ld, *d = (REAL *)slopes + r * t->ld;
        int64_t n = FN(seen)(t, r);
        REAL factor = FN(exponents)(t, r, n, t->mask.at != NULL, s), base = peak[r] == -(REAL)INFINITY ? 0 : peak[r];
        VECTOR times = ALL(factor), less = ALL(-base), share = ALL(1 / sum[r]), of_all = ALL(delta[r]);
        VECTOR scale = ALL((REAL)t->scale);
        for (int64_t i = n; i % LANES; i++) d[i] = 0;
        for (int64_t i = 0; i < n; i += LANES) {
            VECTOR p = EXP2(MULADD(FN(load)(s + i), times, less)) * share;
            FN(store)(s + i, p);
            FN(store)(d + i, p * (FN(load)(d + i) - of_all) * scale);
        }
        FN(clear_unseen)(t, n, s);
        FN(clear_unseen)(t, n, d);
    }
}

static void FN(dots)(void *outs, const void *xs, const void *ys, int64_t ld, int64_t rows, int64_t width)
{
    REAL *out = outs;
    for (int64_t r = 0; r < rows; r++) {
        const REAL *x = (const REAL *)xs + r * ld, *y = (const REAL *)ys + r * ld;
        VECTOR sum = ALL(0);
        int64_t i = 0;
        for (; i + LANES <= width; i += LANES) sum = MULADD(FN(load)(x + i), FN(load)(y + i), sum);
        out[r] = FN(total)(sum);
        for (; i < width; i++) out[r] += x[i] * y[i];
    }
}

#undef VECTOR
#undef NAME
#undef REAL
#undef CLS
#undef LANES
#undef ALL
#undef LARGER
#undef MULADD
#undef EXP2
