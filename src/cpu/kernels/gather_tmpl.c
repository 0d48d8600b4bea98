// Included by gather.c once an element size, with T and NAME.
static void NAME(const struct gather_run *r)
{
    T *out = (T *)(void *)r->out;
    const T *x = (const T *)(const void *)r->x;
    int64_t n = r->n, out_step = r->out_step, x_step = r->x_step, axis_stride = r->axis_stride;
    if (out_step == 1 && x_step == 0)
        for (int64_t i = 0; i < n; i++) out[i] = x[r->index[i] * axis_stride];
    else
        for (int64_t i = 0; i < n; i++) out[i * out_step] = x[i * x_step + r->index[i] * axis_stride];
}

// The same by indices that lie in a row, from a table that is far: what is picked later is on its way.
static void CPU_CAT(NAME, far)(char *to, const char *from, const int64_t *index, int64_t n, int64_t stride)
{
    T *out = (T *)(void *)to;
    const T *x = (const T *)(const void *)from;
    int64_t i = 0;
    for (; i + AHEAD < n; i++) {
        __builtin_prefetch(x + index[i + AHEAD] * stride);
        out[i] = x[index[i] * stride];
    }
    for (; i < n; i++) out[i] = x[index[i] * stride];
}
#undef T
#undef NAME
