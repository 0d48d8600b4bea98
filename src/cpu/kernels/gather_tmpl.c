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
#undef T
#undef NAME
