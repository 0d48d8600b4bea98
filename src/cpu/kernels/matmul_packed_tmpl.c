// Included by matmul_packed.c with T and NAME: a block of w at a time is unpacked in memory.
static void NAME(const struct launch *l, const struct block_format *f, int64_t begin, int64_t end)
{
    enum { SUMS = 8 };
    const T *x = (const T *)(uintptr_t)l->operands[0].address;
    const unsigned char *w = (const unsigned char *)(uintptr_t)l->operands[1].address;
    T *out = (T *)(uintptr_t)l->operands[2].address;
    int64_t m = l->sizes[0], n = l->sizes[1], k = (int64_t)l->scalars[0], row_B = (int64_t)l->scalars[1];
    for (int64_t first = 0; first < m; first += TILE)
        for (int64_t j = begin; j < end; j++) {
            int64_t rows = m - first < TILE ? m - first : TILE;
            const unsigned char *p = w + j * row_B;
            T sums[TILE][SUMS] = {{0}};
            for (int64_t at = 0; at < k; at += f->elements, p += f->size_B) {
                float block[BLOCKS_MAX];
                unpack_block(f, p, block);
                for (int64_t r = 0; r < rows; r++)
                    for (int i = 0; i < f->elements; i += SUMS)
                        for (int s = 0; s < SUMS; s++) sums[r][s] += (T)block[i + s] * x[(first + r) * k + at + i + s];
            }
            for (int64_t r = 0; r < rows; r++) {
                for (int s = 1; s < SUMS; s++) sums[r][0] += sums[r][s];
                out[(first + r) * n + j] = sums[r][0];
            }
        }
}
#undef T
#undef NAME
