// Included by scan.c once a class, with T, the type of the sums ACC and that of comparisons ORDERED, its bounds LEAST
// and MOST, and NAME.
#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define CLS         (sizeof(T) == 4 ? CLASS_F32 : (T)0.5 != 0 ? CLASS_F64 : CLASS_I64)

static ACC JOIN(NAME, _start)(uint32_t verb)
{
    return verb == SCAN_SUM ? 0 : verb == SCAN_PROD ? 1 : verb == SCAN_MAX ? (ACC)LEAST : (ACC)MOST;
}

// n steps of one accumulator (step 0), or one step of n of them (step 1). An extremum that met NaN stays NaN.
static inline void JOIN(NAME, _steps)(uint32_t verb, T *block, ACC *acc, int64_t n, int64_t step)
{
    switch (verb) {
    case SCAN_SUM:
        for (int64_t i = 0; i < n; i++) block[i] = (T)(acc[i * step] += block[i]);
        break;
    case SCAN_PROD:
        for (int64_t i = 0; i < n; i++) block[i] = (T)(acc[i * step] *= block[i]);
        break;
    case SCAN_MAX:
        for (int64_t i = 0; i < n; i++) {
            ORDERED a = (ORDERED)acc[i * step], b = (ORDERED)block[i];
            block[i] = (T)(acc[i * step] = (ACC)(a >= b || IS_NAN(a) ? a : b));
        }
        break;
    default:
        for (int64_t i = 0; i < n; i++) {
            ORDERED a = (ORDERED)acc[i * step], b = (ORDERED)block[i];
            block[i] = (T)(acc[i * step] = (ACC)(a <= b || IS_NAN(a) ? a : b));
        }
        break;
    }
}

// n steps of ROWS sums, which wait for themselves and not for each other.
static inline void JOIN(NAME, _sums)(T (*block)[PART], ACC *all, int64_t n)
{
    ACC acc[ROWS];
    for (int r = 0; r < ROWS; r++) acc[r] = all[r];
    for (int64_t i = 0; i < n; i++)
        for (int r = 0; r < ROWS; r++) block[r][i] = (T)(acc[r] += block[r][i]);
    for (int r = 0; r < ROWS; r++) all[r] = acc[r];
}

// Sums along ROWS rows.
static void JOIN(NAME, _rows)(const struct launch *l, const char *x, char *out, int j)
{
    int last = l->rank - 1;
    const struct launch_operand *o = l->operands;
    int64_t count = l->sizes[last], x_step = walk_stride_B(l, 0, last), out_step = walk_stride_B(l, 1, last);
    int64_t x_row = walk_stride_B(l, 0, j), out_row = walk_stride_B(l, 1, j);
    T block[ROWS][PART];
    ACC acc[ROWS] = {0};
    for (int64_t k = 0; k < count; k += PART) {
        int64_t n = count - k < PART ? count - k : PART;
        for (int r = 0; r < ROWS; r++)
            CPU_FN(cpu_load)(o[0].dtype, CLS, block[r], x + r * x_row + k * x_step, n, o[0].strides[last]);
        JOIN(NAME, _sums)(block, acc, n);
        for (int r = 0; r < ROWS; r++)
            CPU_FN(cpu_store)(o[1].dtype, CLS, out + r * out_row + k * out_step, block[r], n, o[1].strides[last]);
    }
}

static void JOIN(NAME, _row)(const struct launch *l, const char *x, char *out)
{
    int last = l->rank - 1;
    const struct launch_operand *o = l->operands;
    int64_t count = l->sizes[last], x_step = walk_stride_B(l, 0, last), out_step = walk_stride_B(l, 1, last);
    T block[BLOCK];
    ACC acc = JOIN(NAME, _start)(l->variant[0]);
    for (int64_t k = 0; k < count; k += BLOCK) {
        int64_t n = count - k < BLOCK ? count - k : BLOCK;
        CPU_FN(cpu_load)(o[0].dtype, CLS, block, x + k * x_step, n, o[0].strides[last]);
        JOIN(NAME, _steps)(l->variant[0], block, &acc, n, 0);
        CPU_FN(cpu_store)(o[1].dtype, CLS, out + k * out_step, block, n, o[1].strides[last]);
    }
}

// A step of n sums that lie as the class has them; what the next one reads is on its way.
static void JOIN(NAME, _sums_beside)(const T *x, const T *next, T *out, ACC *acc, int64_t n)
{
    for (int64_t i = 0; i < n; i += LINE_B / (int64_t)sizeof(T)) __builtin_prefetch(next + i);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        ACC sum = acc[i] + x[i];
        acc[i] = sum;
        out[i] = (T)sum;
    }
}

static void JOIN(NAME, _columns)(const struct launch *l, const char *x, char *out, int64_t n, int j, bool streams)
{
    int last = l->rank - 1;
    const struct launch_operand *o = l->operands;
    int64_t count = l->sizes[last], x_step = walk_stride_B(l, 0, last), out_step = walk_stride_B(l, 1, last);
    T block[COLUMNS];
    ACC acc[COLUMNS];
    bool lie = l->variant[0] == SCAN_SUM;
    for (int i = 0; i < 2; i++) lie = lie && o[i].dtype == cpu_class_dtype[CLS] && o[i].strides[j] == 1;
    for (int64_t i = 0; i < n; i++) acc[i] = JOIN(NAME, _start)(l->variant[0]);
    for (int64_t k = 0; k < count; k++, x += x_step, out += out_step) {
        if (lie) {
            const char *next = k + 1 < count ? x + x_step : x;
            JOIN(NAME, _sums_beside)
            ((const T *)(const void *)x, (const T *)(const void *)next, streams ? block : (T *)(void *)out, acc, n);
            if (streams) stream(out, (const char *)block, n * (int64_t)sizeof(T));
            continue;
        }
        CPU_FN(cpu_load)(o[0].dtype, CLS, block, x, n, o[0].strides[j]);
        JOIN(NAME, _steps)(l->variant[0], block, acc, n, 1);
        CPU_FN(cpu_store)(o[1].dtype, CLS, out, block, n, o[1].strides[j]);
    }
}
#undef T
#undef ACC
#undef ORDERED
#undef IS_NAN
#undef LEAST
#undef MOST
#undef NAME
#undef CLS
#undef JOIN_
#undef JOIN
