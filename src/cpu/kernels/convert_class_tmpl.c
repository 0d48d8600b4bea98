// One pair of storage dtype and compute class. In: DTYPE (name), STORED (its C type), NUM (letter of the number type it
// reads as), READ(s), WRITE(letter, x) from convert_dtype_tmpl.c; CLS (name), CTYPE, LETTER (of the class).
static void NAME3(load, DTYPE, CLS)(void *dst, const void *src, int64_t n)
{
    const STORED *s = src;
    CTYPE *d = dst;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) d[i] = NAME3(f, NUM, LETTER)(READ(s[i]));
}

static void NAME3(store, DTYPE, CLS)(void *dst, const void *src, int64_t n)
{
    const CTYPE *s = src;
    STORED *d = dst;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) d[i] = (STORED)WRITE(LETTER, s[i]);
}
#undef CLS
#undef CTYPE
#undef LETTER
