// The register kernel of products for one kind of unit, and its sizes. In: NAME, VECTOR, LANES, UNIT (of a packed
// operand), SUM (of a result), ZERO, ALL (a unit to all lanes), LOAD, HOLD (what was loaded stays in its register for
// all uses), MULADD, SUM_ALL, STORE_ALL (of results), and for vectors of which a part is used MASK, FIRST, LOAD_FIRST,
// SUM_FIRST, STORE_FIRST; TARGET: attributes of functions. SPREAD: a table of tiles more, of two vectors whose
// positions lie where a list says.
//
// A tile of the result, at most 12 rows by one or two vectors, lies in registers for all of k: at each position two
// loads of b meet one element of each row of a, so that the multiply-adds set the pace, not the loads. Operands are
// read at any strides: packed ones, and ones that lie well, alike. Rows are reached from a pointer for each three of
// them.
#define JOIN2(a, b)       a##_##b
#define JOIN(a, b)        JOIN2(a, b)
#define TILE              JOIN(tile, NAME)
#define FORM              struct JOIN(form, NAME)
#define ADD_ONE           JOIN(add_one, NAME)
#define ASK               JOIN(ask, NAME)
#define ADD_UP            JOIN(add_up, NAME)
#define ADD_UP_AS_IT_LIES JOIN(add_up_as_it_lies, NAME)
#define FINISH            JOIN(finish, NAME)
#define INLINE            static inline __attribute__((always_inline))

// What is known of a tile as it is compiled. `partial`: the last vector of b is read as far as it is used. `asks`
// memory for what is to come. `at_once`: positions that are taken in one turn.
struct JOIN(form, NAME) {
    int rows, vectors, at_once;
    bool spread, partial, asks;
    int64_t row_B, step_B, b_step_B;
};

// What one position adds: b's vectors by one element of each row of a.
TARGET INLINE void ADD_ONE(VECTOR s[12][2], const char *const *a, const char *b, MASK last, const FORM f)
{
    VECTOR y[2];
#pragma GCC unroll 2
    for (int v = 0; v < f.vectors; v++) {
        const char *at = b + v * LANES * (int)sizeof(UNIT);
        y[v] = v == f.vectors - 1 && f.partial ? LOAD_FIRST(last, at) : LOAD(at);
        HOLD(y[v]);
    }
#pragma GCC unroll 12
    for (int i = 0; i < f.rows; i++) {
        VECTOR x = ALL(a[i / 3] + i % 3 * f.row_B);
#pragma GCC unroll 2
        for (int v = 0; v < f.vectors; v++) s[i][v] = MULADD(x, y[v], s[i][v]);
    }
}

// A spread tile has no line to come.
INLINE const char *ASK(const char *next, int64_t next_B, const FORM f)
{
    if (!f.asks) return next;
    __builtin_prefetch(next, 0, 2);
    if (f.rows <= 4) __builtin_prefetch(next + 64, 0, 2);
    return next + next_B;
}

// The sums of all positions. A core whose second thread is busy decodes half as many instructions, and then these set
// the pace, not the multiply-adds: turns of a few positions share the steps of pointers.
TARGET INLINE void ADD_UP(const struct gemm_tile *t, VECTOR s[12][2], const FORM f)
{
    const char *a[4], *b = t->b, *next = t->next;
#pragma GCC unroll 12
    for (int i = 0; i < f.rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < f.vectors; v++) s[i][v] = ZERO();
#pragma GCC unroll 4
    for (int i = 0; i < f.rows; i += 3) a[i / 3] = t->a + i * f.row_B;
    MASK last = FIRST(t->columns - (f.vectors - 1) * LANES);
    const int64_t next_B = t->next_B;
    const int32_t *at_B = t->at_B;
    int64_t q = t->k;
    for (; f.at_once > 1 && q >= f.at_once; q -= f.at_once) {
#pragma GCC unroll 4
        for (int j = 0; j < f.at_once; j++) {
            const char *now[4];
#pragma GCC unroll 4
            for (int i = 0; i < f.rows; i += 3) now[i / 3] = a[i / 3] + j * f.step_B;
            next = ASK(next, next_B, f);
            ADD_ONE(s, now, f.spread ? b + at_B[j] : b + j * f.b_step_B, last, f);
        }
#pragma GCC unroll 4
        for (int i = 0; i < f.rows; i += 3) a[i / 3] += f.at_once * f.step_B;
        if (f.spread)
            at_B += f.at_once;
        else
            b += f.at_once * f.b_step_B;
    }
#pragma GCC unroll 1
    for (; q > 0; q--) {
        next = ASK(next, next_B, f);
        ADD_ONE(s, a, f.spread ? b + *at_B++ : b, last, f);
#pragma GCC unroll 4
        for (int i = 0; i < f.rows; i += 3) a[i / 3] += f.step_B;
        if (!f.spread) b += f.b_step_B;
    }
}

// Places that follow each other are known as this is compiled: of a packed panel, of rows along k, of rows side by
// side.
TARGET INLINE void ADD_UP_AS_IT_LIES(const struct gemm_tile *t, VECTOR s[12][2], const int rows, const int vectors)
{
    const int64_t unit_B = sizeof(UNIT), packed_B = 2 * LANES * unit_B;
    FORM f = {rows, vectors, AT_ONCE, false, false, true, t->row_B, unit_B, packed_B};
    bool packed = t->b_step_B == packed_B, along = t->step_B == unit_B, across = t->row_B == unit_B;
    if (t->partial) {
        f.at_once = 1, f.partial = true, f.step_B = t->step_B, f.b_step_B = t->b_step_B;
        ADD_UP(t, s, f);
    } else if (along && packed && !t->next_B) {
        f.asks = false;
        ADD_UP(t, s, f);
    } else if (along && packed) {
        ADD_UP(t, s, f);
    } else if (along) {
        f.b_step_B = t->b_step_B;
        ADD_UP(t, s, f);
    } else if (across && packed) {
        f.row_B = unit_B, f.step_B = t->step_B;
        ADD_UP(t, s, f);
    } else {
        f.at_once = 1, f.step_B = t->step_B, f.b_step_B = t->b_step_B;
        ADD_UP(t, s, f);
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
    if (spread)
        ADD_UP(t, s, (FORM){rows, 2, AT_ONCE, true, false, false, t->row_B, sizeof(UNIT), 0});
    else
        ADD_UP_AS_IT_LIES(t, s, rows, vectors);
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
#undef FORM
#undef ADD_ONE
#undef ASK
#undef ADD_UP
#undef ADD_UP_AS_IT_LIES
#undef FINISH
#undef INLINE
