// Included by scatter.c once an element type and verb, with T, NAME and JOIN(a, b): what becomes of a and what comes.
static void NAME(const struct scatter_run *r)
{
    T *out = (T *)(void *)r->out;
    const T *src = (const T *)(const void *)r->src;
    int64_t n = r->n, out_step = r->out_step, src_step = r->src_step, axis_stride = r->axis_stride;
    if (r->index && out_step == 1 && src_step == 1)
        for (int64_t i = 0; i < n; i++) {
            T *to = out + i + r->index[i] * axis_stride;
            *to = (T)JOIN(*to, src[i]);
        }
    else if (r->index)
        for (int64_t i = 0; i < n; i++) {
            T *to = out + i * out_step + r->index[i] * axis_stride;
            *to = (T)JOIN(*to, src[i * src_step]);
        }
    else if (out_step == 1 && src_step == 1)
        for (int64_t i = 0; i < n; i++) out[i] = (T)JOIN(out[i], src[i]);
    else
        for (int64_t i = 0; i < n; i++) out[i * out_step] = (T)JOIN(out[i * out_step], src[i * src_step]);
}
#undef T
#undef NAME
