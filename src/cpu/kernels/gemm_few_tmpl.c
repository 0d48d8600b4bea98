// A few rows times columns that lie along k, as the weights of a layer do: each sum is gathered in a vector along k.
// In: NAME, VECTOR, STEP (elements of a vector), X and W (what an element of a row and of a column is stored in), SUM,
// ZERO, LOAD_X, LOAD_W (n elements at most, 0 behind them), MULADD, TOTAL; TARGET: attributes of functions.
//
// Four columns by up to four rows at once: what is loaded of a column serves all the rows, so that a large matrix
// crosses memory once, and 16 sums hide the latency of the multiply-adds.
#define JOIN2(a, b) a##_##b
#define JOIN(a, b)  JOIN2(a, b)

TARGET static inline __attribute__((always_inline)) void JOIN(meet, NAME)(const X *x, int64_t ld_x, const W *w,
                                                                          int64_t ld_w, int64_t k, SUM *out,
                                                                          int64_t ld_out, const int rows,
                                                                          const int columns)
{
    VECTOR s[4][4];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) s[i][c] = ZERO();
    for (int64_t q = 0; q < k; q += STEP) {
        VECTOR y[4];
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) y[c] = LOAD_W(w + c * ld_w + q, k - q);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            VECTOR z = LOAD_X(x + i * ld_x + q, k - q);
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++) s[i][c] = MULADD(z, y[c], s[i][c]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) out[i * ld_out + c] = TOTAL(s[i][c]);
}

TARGET static void JOIN(few, NAME)(const void *x, int64_t ld_x, const void *w, int64_t ld_w, int64_t k, void *out,
                                   int64_t ld_out, int64_t rows, int64_t columns)
{
    for (int64_t c = 0; c < columns; c += 4) {
        const W *at = (const W *)w + c * ld_w;
        for (int64_t i = 0; i < rows; i += 4) {
            const X *row = (const X *)x + i * ld_x;
            SUM *to = (SUM *)out + i * ld_out + c;
            int64_t high = rows - i, wide = columns - c;
            if (wide >= 4 && high >= 4)
                JOIN(meet, NAME)(row, ld_x, at, ld_w, k, to, ld_out, 4, 4);
            else if (wide >= 4 && high == 3)
                JOIN(meet, NAME)(row, ld_x, at, ld_w, k, to, ld_out, 3, 4);
            else if (wide >= 4 && high == 2)
                JOIN(meet, NAME)(row, ld_x, at, ld_w, k, to, ld_out, 2, 4);
            else if (wide >= 4)
                JOIN(meet, NAME)(row, ld_x, at, ld_w, k, to, ld_out, 1, 4);
            else
                for (int64_t j = 0; j < wide; j++)
                    for (int64_t h = 0; h < high && h < 4; h++)
                        JOIN(meet, NAME)
                        (row + h * ld_x, ld_x, at + j * ld_w, ld_w, k, to + h * ld_out + j, ld_out, 1, 1);
        }
    }
}
#undef JOIN2
#undef JOIN
#undef NAME
#undef X
#undef W
#undef LOAD_X
#undef LOAD_W
#undef STEP
