// Included by scan.c once a class, with T, the type of the sums ACC, and NAME.
#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define CLS         (sizeof(T) == 4 ? CLASS_F32 : (T)0.5 != 0 ? CLASS_F64 : CLASS_I64)

static void JOIN(NAME, _row)(const struct launch *l, const char *x, char *out)
{
    int last = l->rank - 1;
    const struct launch_operand *o = l->operands;
    int64_t count = l->sizes[last], x_step = walk_stride_B(l, 0, last), out_step = walk_stride_B(l, 1, last);
    T block[BLOCK];
    ACC acc = l->variant[0] == SCAN_PROD;
    for (int64_t k = 0; k < count; k += BLOCK) {
        int64_t n = count - k < BLOCK ? count - k : BLOCK;
        CPU_FN(cpu_loads)[o[0].dtype][CLS](block, x + k * x_step, n, o[0].strides[last]);
        if (l->variant[0] == SCAN_PROD)
            for (int64_t i = 0; i < n; i++) block[i] = (T)(acc *= block[i]);
        else
            for (int64_t i = 0; i < n; i++) block[i] = (T)(acc += block[i]);
        CPU_FN(cpu_stores)[o[1].dtype][CLS](out + k * out_step, block, n, o[1].strides[last]);
    }
}

static void JOIN(NAME, _columns)(const struct launch *l, const char *x, char *out, int64_t n, int j)
{
    int last = l->rank - 1;
    const struct launch_operand *o = l->operands;
    int64_t count = l->sizes[last], x_step = walk_stride_B(l, 0, last), out_step = walk_stride_B(l, 1, last);
    T block[COLUMNS];
    ACC acc[COLUMNS];
    for (int64_t i = 0; i < n; i++) acc[i] = l->variant[0] == SCAN_PROD;
    for (int64_t k = 0; k < count; k++) {
        CPU_FN(cpu_loads)[o[0].dtype][CLS](block, x + k * x_step, n, o[0].strides[j]);
        if (l->variant[0] == SCAN_PROD)
            for (int64_t i = 0; i < n; i++) block[i] = (T)(acc[i] *= block[i]);
        else
            for (int64_t i = 0; i < n; i++) block[i] = (T)(acc[i] += block[i]);
        CPU_FN(cpu_stores)[o[1].dtype][CLS](out + k * out_step, block, n, o[1].strides[j]);
    }
}
#undef T
#undef ACC
#undef NAME
#undef CLS
#undef JOIN_
#undef JOIN
