// A few rows times columns that lie along k, as the weights of a layer do: each sum is gathered in vectors along k. In:
// NAME, VECTOR, STEP (elements of a vector), X and W (what an element of a row and of a column is stored in), SUM,
// ZERO, LOAD_X, LOAD_W (n elements at most, 0 behind them), MULADD, TOTAL, TOTALS (of four vectors); TARGET: attributes
// of functions.
//
// One column by up to four rows at once, four vectors of k after each other: a large matrix is one stream through
// memory and what is loaded of it serves all the rows, and 16 sums hide the latency of the multiply-adds.
#define JOIN2(a, b) a##_##b
#define JOIN(a, b)  JOIN2(a, b)

TARGET static inline __attribute__((always_inline)) void
JOIN(meet, NAME)(const X *x, int64_t ld_x, const W *w, int64_t k, SUM *out, int64_t ld_out, const int rows)
{
    VECTOR s[4][4];
    int64_t q = 0;
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int u = 0; u < 4; u++) s[i][u] = ZERO();
    for (; q + 4 * STEP <= k; q += 4 * STEP) {
        VECTOR y[4];
#pragma GCC unroll 4
        for (int u = 0; u < 4; u++) {
            y[u] = LOAD_W(w + q + u * STEP, STEP);
            if ((size_t)u * sizeof(VECTOR) % 64 == 0) __builtin_prefetch((const char *)(w + q + u * STEP) + AHEAD);
        }
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int u = 0; u < 4; u++) s[i][u] = MULADD(LOAD_X(x + i * ld_x + q + u * STEP, STEP), y[u], s[i][u]);
    }
    for (; q < k; q += STEP) {
        VECTOR y = LOAD_W(w + q, k - q);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) s[i][0] = MULADD(LOAD_X(x + i * ld_x + q, k - q), y, s[i][0]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) out[i * ld_out] = TOTAL((s[i][0] + s[i][1]) + (s[i][2] + s[i][3]));
}

// One row by up to four short columns, whose totals are gathered together: those of one took as long as its products.
TARGET static inline __attribute__((always_inline)) void JOIN(meet_short, NAME)(const X *x, const W *w, int64_t ld_w,
                                                                                int64_t k, SUM *out, int64_t columns)
{
    VECTOR s[4][2];
    const W *at[4];
    int64_t q = 0;
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        at[c] = w + (c < columns ? c : 0) * ld_w;
        s[c][0] = s[c][1] = ZERO();
    }
    for (; q + 2 * STEP <= k; q += 2 * STEP) {
        VECTOR z[2] = {LOAD_X(x + q, STEP), LOAD_X(x + q + STEP, STEP)};
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            s[c][0] = MULADD(z[0], LOAD_W(at[c] + q, STEP), s[c][0]);
            s[c][1] = MULADD(z[1], LOAD_W(at[c] + q + STEP, STEP), s[c][1]);
            __builtin_prefetch((const char *)(at[c] + q) + AHEAD);
        }
    }
    for (; q < k; q += STEP) {
        VECTOR z = LOAD_X(x + q, k - q);
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) s[c][0] = MULADD(z, LOAD_W(at[c] + q, k - q), s[c][0]);
    }
    SUM totals[4];
    TOTALS(s[0][0] + s[0][1], s[1][0] + s[1][1], s[2][0] + s[2][1], s[3][0] + s[3][1], totals);
    for (int64_t c = 0; c < 4 && c < columns; c++) out[c] = totals[c];
}

TARGET static inline __attribute__((always_inline)) void JOIN(meet_four, NAME)(const X *x, int64_t ld_x, const W *w,
                                                                               int64_t ld_w, int64_t k, SUM *out,
                                                                               int64_t ld_out, const int rows)
{
    VECTOR s[4][4];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) s[i][c] = ZERO();
    for (int64_t q = 0; q < k; q += STEP) {
        VECTOR y[4];
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            y[c] = k - q >= STEP ? LOAD_W(w + c * ld_w + q, STEP) : LOAD_W(w + c * ld_w + q, k - q);
            __builtin_prefetch((const char *)(w + c * ld_w + q) + AHEAD);
        }
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            VECTOR z = LOAD_X(x + i * ld_x + q, k - q);
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++) s[i][c] = MULADD(z, y[c], s[i][c]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) out[i * ld_out + c] = TOTAL(s[i][c]);
}

TARGET static void JOIN(few, NAME)(const void *x, int64_t ld_x, const void *w, int64_t ld_w, int64_t k, void *out,
                                   int64_t ld_out, int64_t rows, int64_t columns)
{
    int64_t c = 0;
    for (; rows == 1 && k <= SHORT && c < columns; c += 4)
        JOIN(meet_short, NAME)(x, (const W *)w + c * ld_w, ld_w, k, (SUM *)out + c, columns - c);
    for (; rows > 2 && c + 4 <= columns; c += 4) {
        const W *four = (const W *)w + c * ld_w;
        int64_t i = 0;
        for (; i + 4 <= rows; i += 4)
            JOIN(meet_four, NAME)((const X *)x + i * ld_x, ld_x, four, ld_w, k, (SUM *)out + i * ld_out + c, ld_out, 4);
        for (; i < rows; i++)
            JOIN(meet_four, NAME)((const X *)x + i * ld_x, ld_x, four, ld_w, k, (SUM *)out + i * ld_out + c, ld_out, 1);
    }
    for (; c < columns; c++)
        for (int64_t i = 0; i < rows; i += 4) {
            const X *row = (const X *)x + i * ld_x;
            const W *column = (const W *)w + c * ld_w;
            SUM *to = (SUM *)out + i * ld_out + c;
            switch (rows - i) {
            case 1: JOIN(meet, NAME)(row, ld_x, column, k, to, ld_out, 1); break;
            case 2: JOIN(meet, NAME)(row, ld_x, column, k, to, ld_out, 2); break;
            case 3: JOIN(meet, NAME)(row, ld_x, column, k, to, ld_out, 3); break;
            default: JOIN(meet, NAME)(row, ld_x, column, k, to, ld_out, 4); break;
            }
        }
}
#ifdef SPREAD
// One or two rows times a matrix whose rows lie along n: out += the products of eight positions, whose elements of x
// stay in registers while their rows of w pass by in long runs.
TARGET static inline __attribute__((always_inline)) void JOIN(add_rows, NAME)(const X *x, int64_t ld_x, const W *w,
                                                                              int64_t ld_w, SUM *out, int64_t ld_out,
                                                                              int64_t columns, bool first,
                                                                              const int rows, const int positions)
{
    VECTOR z[2][8];
#pragma GCC unroll 2
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int q = 0; q < positions; q++) z[i][q] = SPREAD(x[i * ld_x + q]);
    for (int64_t c = 0; c < columns; c += STEP) {
        VECTOR s[2];
#pragma GCC unroll 2
        for (int i = 0; i < rows; i++) s[i] = first ? ZERO() : LOAD_X(out + i * ld_out + c, columns - c);
#pragma GCC unroll 8
        for (int q = 0; q < positions; q++) {
            VECTOR y = LOAD_W(w + q * ld_w + c, columns - c);
#pragma GCC unroll 2
            for (int i = 0; i < rows; i++) s[i] = MULADD(z[i][q], y, s[i]);
        }
#pragma GCC unroll 2
        for (int i = 0; i < rows; i++) STORE(out + i * ld_out + c, s[i], columns - c);
    }
}

TARGET static void JOIN(along, NAME)(const void *x, int64_t ld_x, const void *w, int64_t ld_w, int64_t k, void *out,
                                     int64_t ld_out, int64_t rows, int64_t columns)
{
    const X *from = x;
    const W *row = w;
    int64_t q = 0;
    for (; q + 8 <= k; q += 8) {
        if (rows == 1)
            JOIN(add_rows, NAME)(from + q, ld_x, row + q * ld_w, ld_w, out, ld_out, columns, q == 0, 1, 8);
        else
            JOIN(add_rows, NAME)(from + q, ld_x, row + q * ld_w, ld_w, out, ld_out, columns, q == 0, 2, 8);
    }
    for (; q < k; q++) {
        if (rows == 1)
            JOIN(add_rows, NAME)(from + q, ld_x, row + q * ld_w, ld_w, out, ld_out, columns, q == 0, 1, 1);
        else
            JOIN(add_rows, NAME)(from + q, ld_x, row + q * ld_w, ld_w, out, ld_out, columns, q == 0, 2, 1);
    }
}
#endif
#undef JOIN2
#undef JOIN
#undef NAME
#undef X
#undef W
#undef LOAD_X
#undef LOAD_W
#undef STEP
