// Copies between layouts: launches whose result is their one input, element by element, in the same dtype.
//
// Only the size of an element matters. Dimensions are ordered so that the output's fastest is the last; elements that
// lie together in both operands, up to eight bytes, are taken as one. Then there are three ways, by what the input does
// along the last dimension:
//   runs:   it lies as in the output: runs of bytes are copied;
//   tiles:  another of its dimensions is contiguous: squares of both are transposed straight into the output;
//   picks:  neither: elements are picked one by one, at small steps out of whole vectors.
//
// A unit of work is a panel of the last two dimensions. A large result is written past the caches.
#include "cpu/kernels/move.h"
#include "cpu/kernels/stream.h"
#include "cpu/parallel.h"
#include <stdlib.h>

#define T    uint8_t
#define NAME pick_8
#include "cpu/kernels/pick_tmpl.c"
#define T    uint16_t
#define NAME pick_16
#include "cpu/kernels/pick_tmpl.c"
#define T    uint32_t
#define NAME pick_32
#include "cpu/kernels/pick_tmpl.c"
#define T    loose_u64
#define NAME pick_64
// Elements that were joined lie as their parts do.
typedef uint64_t loose_u64 __attribute__((aligned(1), may_alias));
#include "cpu/kernels/pick_tmpl.c"

__attribute__((noinline)) void CPU_FN(cpu_pick)(void *dst, const void *src, int64_t n, int64_t step, int size_B)
{
    switch (size_B) {
    case 1: pick_8(dst, src, n, step); break;
    case 2: pick_16(dst, src, n, step); break;
    case 4: pick_32(dst, src, n, step); break;
    default: pick_64(dst, src, n, step); break;
    }
}

void CPU_FN(cpu_place)(void *dst, int64_t dst_step, const void *src, int64_t src_step, int64_t n, int size_B)
{
    char *to = dst;
    const char *from = src;
    int64_t to_B = dst_step * size_B, from_B = src_step * size_B;
    for (int64_t i = 0; i < n; i++, to += to_B, from += from_B) {
        if (size_B == 4)
            memcpy(to, from, 4);
        else if (size_B == 8)
            memcpy(to, from, 8);
        else if (size_B == 2)
            memcpy(to, from, 2);
        else
            *to = *from;
    }
}

enum { FROM, TO };
enum { SIDE = 64, SHORT = 8, PANEL = 1 << 13 }; // elements
enum { LARGE_B = 1 << 24, LEAST_STREAM_B = 256 };

struct move {
    int rank, size_B;
    int64_t sizes[MAX_RANK + 1], steps[2][MAX_RANK + 1]; // in bytes
    char *base[2];
    int64_t rows, cols, row_panels, col_panels; // of a panel; of the last two dimensions
    bool tiles;
    bool streams; // the result is too large to be found in a cache
};

static void swap_dims(struct move *m, int a, int b)
{
    int64_t t = m->sizes[a];
    m->sizes[a] = m->sizes[b], m->sizes[b] = t;
    for (int i = 0; i < 2; i++) t = m->steps[i][a], m->steps[i][a] = m->steps[i][b], m->steps[i][b] = t;
}

// A short last dimension that is contiguous in both becomes part of the element.
static void join_last(struct move *m)
{
    int last = m->rank - 1;
    int64_t whole_B = m->sizes[last] * m->size_B;
    if (m->rank < 2 || m->steps[FROM][last] != m->size_B || m->steps[TO][last] != m->size_B) return;
    if (whole_B != 2 && whole_B != 4 && whole_B != 8) return;
    for (int i = 0; i < 2; i++)
        for (int d = 0; d < last; d++)
            if (m->steps[i][d] % whole_B || (uintptr_t)m->base[i] % (size_t)whole_B) return;
    m->size_B = (int)whole_B;
    m->rank--;
}

static void order(struct move *m)
{
    for (int pass = 0; pass < 2; pass++) {
        int last = m->rank - 1;
        for (int d = 0; d < last; d++)
            if (m->steps[TO][last] != m->size_B && m->steps[TO][d] == m->size_B && m->sizes[d] > 1)
                swap_dims(m, d, last);
        if (pass == 0) join_last(m);
    }
    if (m->rank > 1) return;
    m->sizes[1] = m->sizes[0];
    for (int i = 0; i < 2; i++) m->steps[i][1] = m->steps[i][0], m->steps[i][0] = 0;
    m->sizes[0] = 1;
    m->rank = 2;
}

// From its other end.
static void reverse(struct move *m, int d)
{
    for (int i = 0; i < 2; i++) {
        m->base[i] += (m->sizes[d] - 1) * m->steps[i][d];
        m->steps[i][d] = -m->steps[i][d];
    }
}

static int find_tile_dim(struct move *m)
{
    int last = m->rank - 1;
    if (m->sizes[last] < SHORT || m->steps[TO][last] != m->size_B) return -1;
    for (int d = 0; d < last; d++) {
        if (llabs(m->steps[FROM][d]) != m->size_B || m->sizes[d] < SHORT) continue;
        if (m->steps[FROM][d] < 0) reverse(m, d);
        return d;
    }
    return -1;
}

// A short last dimension that is no run changes places with a long one, that of the input's runs where it is long:
// elements are placed at its steps.
static void avoid_short(struct move *m)
{
    int last = m->rank - 1, along = last;
    if (m->sizes[last] >= SHORT || m->steps[FROM][last] == m->size_B) return;
    for (int d = 0; d < last; d++)
        if (m->sizes[d] >= SHORT && (along == last || m->steps[FROM][d] == m->size_B)) along = d;
    if (along == last) return;
    swap_dims(m, along, last);
    if (along != last - 1) swap_dims(m, along, last - 1);
}

// Which dimension is the panel's other one, and how large panels are.
static void plan(struct move *m)
{
    int last = m->rank - 1, aside = last - 1;
    avoid_short(m);
    if (m->steps[FROM][last] != m->size_B) {
        int d = find_tile_dim(m);
        m->tiles = d >= 0;
        if (m->tiles) aside = d;
    }
    if (!m->tiles && m->sizes[aside] * m->sizes[last] < SIDE * SIDE / 8)
        for (int d = 0; d < last; d++)
            if (m->sizes[d] > m->sizes[aside]) aside = d;
    swap_dims(m, aside, last - 1);
    m->cols = m->tiles ? SIDE : PANEL;
    if (m->cols > m->sizes[last]) m->cols = m->sizes[last];
    m->rows = m->tiles ? SIDE : PANEL / m->cols;
    if (m->rows > m->sizes[last - 1]) m->rows = m->sizes[last - 1];
    m->col_panels = (m->sizes[last] + m->cols - 1) / m->cols;
    m->row_panels = (m->sizes[last - 1] + m->rows - 1) / m->rows;
}

static __attribute__((noinline)) void copy_runs(char *to, int64_t to_step_B, const char *from, int64_t from_step_B,
                                                int64_t count, int64_t run_B)
{
    for (int64_t k = 0; k < count; k++) move_run(to + k * to_step_B, from + k * from_step_B, run_B);
}

// A tile is made of short pieces of many lines, too many for what fetches ahead of its own: those of the next tile are
// asked for here, a few lines at a time.
static void transpose_tile(const struct move *m, char *to, int64_t row, const char *from, int64_t rows, int64_t cols)
{
    enum { STRIP = 8, CACHE_LINE_B = 64 };
    int size_B = m->size_B;
    int64_t line_B = m->steps[FROM][m->rank - 1], piece_B = SIDE * size_B;
    int64_t ahead_B = m->col_panels > 1 ? SIDE * line_B : piece_B;
    for (int64_t c = 0; c < cols; c += STRIP, to += STRIP * size_B, from += STRIP * line_B) {
        int64_t n = cols - c < STRIP ? cols - c : STRIP;
        for (int64_t k = 0; k < n; k++)
            for (int64_t i = 0; i < piece_B; i += CACHE_LINE_B) __builtin_prefetch(from + k * line_B + ahead_B + i);
        CPU_FN(cpu_transpose)(to, row, from, line_B / size_B, rows, n, size_B);
    }
}

static void move_tile(const struct move *m, char *to, const char *from, int64_t rows, int64_t cols)
{
    _Alignas(64) char tile[SIDE * SIDE * 8];
    int64_t row_B = m->steps[TO][m->rank - 2], piece_B = cols * m->size_B;
    bool whole = row_B == piece_B; // all of the tile is one piece
    if (!m->streams || (!whole && piece_B < LEAST_STREAM_B)) {
        transpose_tile(m, to, row_B / m->size_B, from, rows, cols);
        return;
    }
    transpose_tile(m, tile, cols, from, rows, cols);
    if (whole) stream(to, tile, rows * piece_B);
    for (int64_t r = 0; !whole && r < rows; r++) stream(to + r * row_B, tile + r * piece_B, piece_B);
}

static void move_panel(const struct move *m, char *to, const char *from, int64_t rows, int64_t cols)
{
    int last = m->rank - 1, aside = last - 1;
    const int64_t *from_B = m->steps[FROM], *to_B = m->steps[TO];
    if (m->tiles) {
        move_tile(m, to, from, rows, cols);
        return;
    }
    bool whole = to_B[last] == m->size_B;
    if (whole && from_B[last] == m->size_B) {
        int64_t run_B = cols * m->size_B;
        if (!m->streams || run_B < LEAST_STREAM_B)
            copy_runs(to, to_B[aside], from, from_B[aside], rows, run_B);
        else
            for (int64_t r = 0; r < rows; r++) stream(to + r * to_B[aside], from + r * from_B[aside], run_B);
        return;
    }
    for (int64_t r = 0; r < rows; r++, to += to_B[aside], from += from_B[aside])
        if (whole)
            CPU_FN(cpu_pick)(to, from, cols, from_B[last] / m->size_B, m->size_B);
        else
            CPU_FN(cpu_place)(to, to_B[last] / m->size_B, from, from_B[last] / m->size_B, cols, m->size_B);
}

static kiln_status run_panels(void *user, int64_t begin, int64_t end)
{
    const struct move *m = user;
    int last = m->rank - 1, aside = last - 1;
    int64_t panels = m->row_panels * m->col_panels;
    for (int64_t u = begin; u < end;) {
        int64_t outer = u / panels, stop = (outer + 1) * panels < end ? (outer + 1) * panels : end;
        const char *from = m->base[FROM];
        char *to = m->base[TO];
        for (int d = aside - 1; d >= 0; outer /= m->sizes[d--]) {
            from += outer % m->sizes[d] * m->steps[FROM][d];
            to += outer % m->sizes[d] * m->steps[TO][d];
        }
        for (; u < stop; u++) {
            int64_t r = u % panels / m->col_panels * m->rows, c = u % panels % m->col_panels * m->cols;
            int64_t rows = m->sizes[aside] - r < m->rows ? m->sizes[aside] - r : m->rows;
            int64_t cols = m->sizes[last] - c < m->cols ? m->sizes[last] - c : m->cols;
            move_panel(m, to + r * m->steps[TO][aside] + c * m->steps[TO][last],
                       from + r * m->steps[FROM][aside] + c * m->steps[FROM][last], rows, cols);
        }
    }
    if (m->streams) stream_end();
    return KILN_OK;
}

// cold: -O3 makes eight times the code of loops over a few dimensions.
static __attribute__((cold, noinline)) bool prepare(struct move *m, const struct launch *l)
{
    const struct launch_operand *o = l->operands;
    if (o[0].flags & OPERAND_IMMEDIATE || o[0].dtype != o[1].dtype || o[0].dtype == KILN_BOOL || l->rank == 0)
        return false;
    *m = (struct move){.rank = l->rank, .size_B = cpu_dtype_size_B[o[0].dtype]};
    for (int d = 0; d < l->rank; d++) {
        m->sizes[d] = l->sizes[d];
        // Repeated; a few times one after the other is what avoid_short is for.
        if (o[0].strides[d] == 0 && (o[1].strides[d] != 1 || l->sizes[d] >= SHORT || d == 0)) return false;
    }
    for (int i = 0; i < 2; i++) {
        m->base[i] = (char *)(uintptr_t)o[i].address;
        for (int d = 0; d < l->rank; d++) m->steps[i][d] = o[i].strides[d] * m->size_B;
    }
    int64_t all_B = m->size_B;
    for (int d = 0; d < l->rank; d++) all_B *= l->sizes[d];
    m->streams = all_B >= LARGE_B;
    order(m);
    plan(m);
    return true;
}

bool CPU_FN(cpu_move)(const struct launch *l, kiln_status *status)
{
    struct move m;
    if (!prepare(&m, l)) return false;
    int64_t units = m.row_panels * m.col_panels;
    for (int d = 0; d < m.rank - 2; d++) units *= m.sizes[d];
    *status = cpu_parallel(units, m.rows * m.cols, run_panels, &m);
    return true;
}
