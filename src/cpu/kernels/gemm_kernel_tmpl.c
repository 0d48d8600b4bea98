// The register kernel of products for one kind of unit, and its sizes. In: NAME, VECTOR, LANES, UNIT (of a packed
// operand), SUM (of a result), ZERO, ALL (a unit to all lanes), LOAD, MULADD, SUM_ALL, STORE_ALL (of results), and for
// vectors of which a part is used MASK, FIRST, LOAD_FIRST, SUM_FIRST, STORE_FIRST; TARGET: attributes of functions.
// SPREAD: a table of tiles more, of two vectors whose positions lie where a list says.
//
// A tile of the result, at most 12 rows by one or two vectors, lies in registers for all of k: at each position two
// loads of b meet one element of each row of a, so that the multiply-adds set the pace, not the loads. Operands are
// read at any strides: packed ones, and ones that lie well, alike. Rows are reached from a pointer for each three of
// them.
#define JOIN2(a, b) a##_##b
#define JOIN(a, b)  JOIN2(a, b)
#define TILE        JOIN(tile, NAME)
#define ADD_UP      JOIN(add_up, NAME)
#define FINISH      JOIN(finish, NAME)
#define INLINE      static inline __attribute__((always_inline))

// The sums of all positions. `partial`: the last vector of b is read as far as it is used.
TARGET INLINE void ADD_UP(const struct gemm_tile *t, VECTOR s[12][2], const int rows, const int vectors,
                          const bool spread, const bool partial)
{
    const char *a[4], *b = t->b;
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) s[i][v] = ZERO();
#pragma GCC unroll 4
    for (int i = 0; i < rows; i += 3) a[i / 3] = t->a + i * t->row_B;
    const int64_t row_B = t->row_B, step_B = t->step_B, b_step_B = t->b_step_B;
    MASK last = FIRST(t->columns - (vectors - 1) * LANES);
    const char *next = t->next;
    const int64_t next_B = t->next_B;
    const int32_t *at_B = t->at_B;
    for (int64_t q = t->k; q > 0; q--, next = spread ? next : next + next_B) {
        if (spread) b = t->b + *at_B++;
        if (!spread) __builtin_prefetch(next, 0, 2);
        if (!spread && rows <= 4) __builtin_prefetch(next + 64, 0, 2);
        VECTOR y[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            const char *at = b + v * LANES * (int)sizeof(UNIT);
            y[v] = v == vectors - 1 && partial ? LOAD_FIRST(last, at) : LOAD(at);
        }
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            VECTOR x = ALL(a[i / 3] + i % 3 * row_B);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) s[i][v] = MULADD(x, y[v], s[i][v]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < rows; i += 3) a[i / 3] += step_B;
        if (!spread) b += b_step_B;
    }
}

// To memory, `whole` vectors or a part of the last one: with AVX2 a store through a mask takes as long as ten without.
TARGET INLINE void FINISH(const struct gemm_tile *t, VECTOR s[12][2], const int rows, const int vectors,
                          const bool whole)
{
    SUM *out = t->out;
    MASK last = FIRST(t->columns - (vectors - 1) * LANES);
    if (t->add) {
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) {
                SUM *at = out + i * t->ld_out + v * LANES;
                s[i][v] = whole || v < vectors - 1 ? SUM_ALL(at, s[i][v]) : SUM_FIRST(last, at, s[i][v]);
            }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++, out += t->ld_out)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            SUM *at = out + v * LANES;
            if (whole || v < vectors - 1)
                STORE_ALL(at, s[i][v]);
            else
                STORE_FIRST(last, at, s[i][v]);
        }
}

TARGET INLINE void TILE(const struct gemm_tile *t, const int rows, const int vectors, const bool spread)
{
    VECTOR s[12][2];
    const SUM *out = t->out;
    for (int i = 0; i < rows && t->add; i++)
        for (int v = 0; v < vectors; v++) __builtin_prefetch(out + i * t->ld_out + v * LANES, 1);
    if (!spread && t->partial)
        ADD_UP(t, s, rows, vectors, spread, true);
    else
        ADD_UP(t, s, rows, vectors, spread, false);
    if (t->columns >= vectors * LANES)
        FINISH(t, s, rows, vectors, true);
    else
        FINISH(t, s, rows, vectors, false);
}

#define SIZE(rows)                                                     \
    TARGET static void JOIN(TILE, rows##_1)(const struct gemm_tile *t) \
    {                                                                  \
        TILE(t, rows, 1, false);                                       \
    }                                                                  \
    TARGET static void JOIN(TILE, rows##_2)(const struct gemm_tile *t) \
    {                                                                  \
        TILE(t, rows, 2, false);                                       \
    }
#include "cpu/kernels/gemm_sizes.def"
#undef SIZE

static gemm_tile_fn *const JOIN(TILE, table)[][2] = {
#define SIZE(rows) {JOIN(TILE, rows##_1), JOIN(TILE, rows##_2)},
#include "cpu/kernels/gemm_sizes.def"
#undef SIZE
};

#ifdef SPREAD
#define SIZE(rows)                                                     \
    TARGET static void JOIN(TILE, rows##_s)(const struct gemm_tile *t) \
    {                                                                  \
        TILE(t, rows, 2, true);                                        \
    }
#include "cpu/kernels/gemm_sizes.def"
#undef SIZE

static gemm_tile_fn *const JOIN(TILE, spread)[] = {
#define SIZE(rows) JOIN(TILE, rows##_s),
#include "cpu/kernels/gemm_sizes.def"
#undef SIZE
};
#endif
#undef JOIN2
#undef JOIN
#undef TILE
#undef ADD_UP
#undef FINISH
#undef INLINE
