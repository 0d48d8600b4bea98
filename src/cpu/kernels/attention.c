// Products of tiles of attention, and where its operands lie.
#include "cpu/kernels/attention.h"

#include <float.h>
#include <math.h>

void CPU_FN(attention_start)(struct attention_work *a, const struct launch *l, int64_t block)
{
    const int64_t *s = (const int64_t *)l->scalars;
    enum scalar_class cls = (enum scalar_class)kernel_catalogue[l->kernel].cls;
    *a = (struct attention_work){
        .l = l,
        .kind = cls == CLASS_F64 ? &CPU_FN(cpu_gemm_f64) : &CPU_FN(cpu_gemm_f32),
        .rows = CPU_FN(attention_row_fns)(cls),
        .cls = cls,
        .real_B = cpu_class_size_B[cls],
        .queries = s[0],
        .keys = s[1],
        .width = s[2],
        .value_width = s[3],
        .batches = 1,
        .causal = s[4] != 0,
        .scale = f64_bits((uint64_t)s[5]),
        .masked = s[6] != 0,
        .block = block,
    };
    for (int d = 0; d < l->rank - 2; d++) a->batches *= l->sizes[d];
}

void CPU_FN(attention_take_pairs)(struct attention_work *a)
{
    bool bf16 = true;
    for (int i = 0; i < 3; i++) bf16 = bf16 && a->l->operands[i].dtype == KILN_BF16;
    const struct gemm_kind *pairs = bf16 ? CPU_FN(cpu_gemm_pairs)() : NULL;
    if (pairs) a->kind = pairs;
}

struct gemm_matrix CPU_FN(attention_matrix)(const struct attention_work *a, int o, int64_t batch, int64_t row)
{
    const struct launch_operand *x = &a->l->operands[o];
    int64_t at = row * x->strides[a->l->rank - 2];
    for (int d = a->l->rank - 3; d >= 0; d--) {
        at += batch % a->l->sizes[d] * x->strides[d];
        batch /= a->l->sizes[d];
    }
    static char nowhere; // of an operand without elements, whose address is none
    char *first = (char *)(uintptr_t)x->address;
    if (!first || (o < 2 && a->width == 0)) return (struct gemm_matrix){&nowhere, 0, 0, x->dtype};
    return (struct gemm_matrix){first + at * cpu_dtype_size_B[x->dtype], x->strides[a->l->rank - 2],
                                x->strides[a->l->rank - 1], x->dtype};
}

int64_t CPU_FN(attention_seen)(const struct attention_work *a, int64_t query, int64_t key)
{
    return a->causal ? query + a->keys - a->queries + 1 - key : INT32_MAX;
}

static uint32_t any_infinite_f32(const float *x, int64_t n)
{
    uint32_t any = 0;
#pragma omp simd reduction(| : any)
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        any |= (bits & 0x7f800000) == 0x7f800000; // or NaN
    }
    return any;
}

static uint32_t any_infinite_f64(const double *x, int64_t n)
{
    uint32_t any = 0;
    for (int64_t i = 0; i < n; i++) any |= !(fabs(x[i]) <= DBL_MAX);
    return any;
}

static bool all_finite(const struct attention_work *a, const struct gemm_matrix *m, int64_t rows)
{
    enum { PIECE = 256 };
    union {
        float f32[PIECE];
        double f64[PIECE];
    } x;
    int64_t size_B = cpu_dtype_size_B[m->dtype];
    uint32_t any = 0;
    for (int64_t r = 0; r < rows && !any; r++)
        for (int64_t c = 0; c < a->value_width; c += PIECE) {
            int64_t n = least(a->value_width - c, PIECE);
            const char *at = m->at + (r * m->row + c * m->col) * size_B;
            bool as_is = a->cls == CLASS_F32 && m->dtype == KILN_F32 && m->col == 1;
            if (!as_is) CPU_FN(cpu_load)(m->dtype, a->cls, &x, at, n, m->col);
            any |= a->cls == CLASS_F64 ? any_infinite_f64(x.f64, n)
                                       : any_infinite_f32(as_is ? (const float *)(const void *)at : x.f32, n);
        }
    return !any;
}

int64_t CPU_FN(attention_reach)(const struct attention_work *a, int64_t batch, int64_t row, int64_t rows, int64_t key,
                                int64_t keys)
{
    enum { V = 2, MASK = 3 };
    int64_t reach = 0;
    if (!a->masked) return keys;
    struct gemm_matrix mask = CPU_FN(attention_matrix)(a, MASK, batch, row);
    if (mask.dtype != KILN_BOOL || mask.col != 1) return keys;
    for (int64_t r = 0; r < (mask.row ? rows : 1) && reach < keys; r++)
        reach = attention_last_truth(mask.at + key + r * mask.row, keys, reach);
    if (reach == keys) return keys;
    struct gemm_matrix values = CPU_FN(attention_matrix)(a, V, batch, key + reach);
    return all_finite(a, &values, keys - reach) ? reach : keys;
}

// Truths at the start of a row, where none follow; else -1.
static int64_t leading_truths(const char *row, int64_t n)
{
    const char *hidden = memchr(row, 0, (size_t)n);
    int64_t first = hidden ? hidden - row : n;
    return attention_last_truth(row, n, first) > first ? -1 : first;
}

bool CPU_FN(attention_stairs)(const struct attention_work *a, int64_t batch, int64_t row, int64_t rows, int64_t key,
                              int64_t reach, int64_t *seen)
{
    enum { V = 2, MASK = 3 };
    struct gemm_matrix mask = CPU_FN(attention_matrix)(a, MASK, batch, row);
    if (mask.dtype != KILN_BOOL || mask.col != 1) return false;
    int64_t lowest = reach, first = 0; // keys that row 0 sees
    bool begun = false;
    for (int64_t r = 0; r < (mask.row ? rows : 1); r++) {
        int64_t n = leading_truths(mask.at + key + r * mask.row, reach);
        if (n > 0 && !begun) {
            if (r > 0 && n != 1) return false;
            first = n - r;
            begun = true;
        }
        if (n != (begun ? least(first + r, reach) : 0)) return false;
        lowest = least(lowest, n);
    }
    if (!begun || (!mask.row && lowest < reach)) return false;
    struct gemm_matrix values = CPU_FN(attention_matrix)(a, V, batch, key + lowest);
    if (!all_finite(a, &values, reach - lowest)) return false;
    *seen = first;
    return true;
}

static int64_t spaced_row(const struct attention_work *a, int64_t columns)
{
    return parts(columns, a->kind->depth) + ATTENTION_SPARE_B / a->kind->unit_B;
}

int64_t CPU_FN(attention_rows_B)(const struct attention_work *a, int64_t rows, int64_t columns)
{
    return parts(rows * spaced_row(a, columns) * a->kind->unit_B, ATTENTION_ALIGN) * ATTENTION_ALIGN;
}

struct attention_rows CPU_FN(attention_rows_of)(const struct attention_work *a, const struct gemm_matrix *m,
                                                int64_t rows, int64_t columns, char *room)
{
    const struct gemm_kind *kind = a->kind;
    if (m->dtype == kind->dtype && (m->col == 1 || columns == 1) && columns % kind->depth == 0)
        return (struct attention_rows){m->at, m->row * kind->unit_B / kind->depth};
    if (columns > 0) kind->pack_a(m, rows, columns, room, spaced_row(a, columns));
    return (struct attention_rows){room, spaced_row(a, columns) * kind->unit_B};
}

static int64_t panel_B(const struct attention_work *a, int64_t k)
{
    return parts(k, a->kind->depth) * a->kind->tiles.columns * a->kind->unit_B;
}

int64_t CPU_FN(attention_panels_B)(const struct attention_work *a, int64_t k, int64_t columns)
{
    return parts(columns, a->kind->tiles.columns) * panel_B(a, k);
}

void CPU_FN(attention_pack)(const struct attention_work *a, const struct gemm_matrix *m, int64_t k, int64_t columns,
                            char *panels)
{
    int64_t wide = a->kind->tiles.columns;
    for (int64_t c = 0; c < columns; c += wide, panels += panel_B(a, k)) {
        struct gemm_matrix from = *m;
        from.at += c * m->col * cpu_dtype_size_B[m->dtype];
        a->kind->pack_b(&from, k, columns - c < wide ? columns - c : wide, panels, 0);
    }
}

static int64_t within(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

// `rows` rows from row r on by one panel.
static void multiply_rows(const struct attention_work *a, const struct attention_product *p, int64_t r, int64_t rows,
                          int64_t column, struct gemm_tile *t)
{
    // Of pairs of bf16 there are no gradients, whose products alone start later.
    int64_t from = p->cut == CUT_START ? within(r - p->seen + 1, p->k) : 0;
    int64_t to = p->cut == CUT_END ? within(p->seen + r + rows - 1, p->k) : p->k;
    if (p->cut == CUT_COLUMNS && column >= p->seen + r + rows - 1) return;
    if (p->add && from == to) return;
    t->k = parts(to, a->kind->depth) - from;
    t->a = p->a + r * p->row_B + from * p->step_B;
    t->b = p->panels + column / a->kind->tiles.columns * panel_B(a, p->k + p->unused) + from * t->b_step_B;
    t->out = p->out + (r * p->ld + column) * a->real_B;
    t->next = t->b;
    a->kind->tile[rows - 1][t->columns > a->kind->lanes](t);
}

void CPU_FN(attention_multiply)(const struct attention_work *a, const struct attention_product *p)
{
    int64_t wide = a->kind->tiles.columns, heights = parts(p->rows, a->kind->tiles.rows);
    struct gemm_tile t = {
        .row_B = p->row_B, .step_B = p->step_B, .b_step_B = wide * a->kind->unit_B, .ld_out = p->ld, .add = p->add};
    for (int64_t column = 0; column < p->columns; column += wide) {
        t.columns = p->columns - column < wide ? p->columns - column : wide;
        for (int64_t i = 0, r = 0; i < heights; i++) {
            int64_t rows = p->rows / heights + (i < p->rows % heights);
            multiply_rows(a, p, r, rows, column, &t);
            r += rows;
        }
    }
}
