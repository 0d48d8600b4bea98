// Sorts rows: the last dimension of the space. Operands: x, values, indices, the last two immediate when not wanted;
// scalar: how many places are kept; variant 0: descending.
//
// A value becomes an unsigned key of the same order (turned round when descending), NaN the largest key, -0 that of 0.
// With the place it came from, keys are sorted by radix, least digit first, which is stable; short rows by insertion.
// Where few places of a long row are kept, a heap holds the least so far; of 32-bit keys only those are looked at that
// a bound leaves. Values are then read again by their places, so that their bits stay.
#include "cpu/kernels/convert.h"
#include "cpu/kernels/walk.h"
#include "cpu/parallel.h"
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

enum { BLOCK = 512, SHORT = 48, DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, HEAP_MOST = 256, HEAP_SHARE = 16 };

struct item {
    uint64_t key;
    uint32_t place;
};

static inline bool before(const struct item *a, const struct item *b)
{
    return a->key < b->key || (a->key == b->key && a->place < b->place);
}

static inline uint32_t key_f32(float x, bool descending)
{
    union {
        float f;
        uint32_t u;
    } v = {.f = x == 0 ? 0 : x};
    uint32_t key = v.u ^ ((uint32_t)((int32_t)v.u >> 31) | 0x80000000u);
    key ^= descending ? UINT32_MAX : 0;
    return x != x ? UINT32_MAX : key;
}

static inline uint32_t key_i32(int32_t x, bool descending)
{
    return (uint32_t)x ^ (descending ? 0x7fffffffu : 0x80000000u);
}

static inline uint64_t key_f64(double x, bool descending)
{
    union {
        double f;
        uint64_t u;
    } v = {.f = x == 0 ? 0 : x};
    if (x != x) return UINT64_MAX;
    uint64_t key = v.u >> 63 ? ~v.u : v.u | UINT64_C(1) << 63;
    return descending ? ~key : key;
}

// A row of keys of either width; 32-bit ones share a word with their place.
struct row {
    int64_t n, keep;
    bool narrow;
    uint64_t *keys, *keys_2;     // narrow: key << 32 | place
    uint32_t *places, *places_2; // wide
};

static void load_keys(const struct launch *l, enum scalar_class cls, const char *x, struct row *r)
{
    const struct launch_operand *o = &l->operands[0];
    int64_t step_B = walk_stride_B(l, 0, l->rank - 1), stride = o->strides[l->rank - 1];
    bool down = l->variant[0];
    union {
        float f32[BLOCK];
        double f64[BLOCK];
        int32_t i32[BLOCK];
        int64_t i64[BLOCK];
    } b;
    for (int64_t k = 0; k < r->n; k += BLOCK) {
        int64_t n = r->n - k < BLOCK ? r->n - k : BLOCK;
        uint64_t *keys = r->keys + k;
        CPU_FN(cpu_load)(o->dtype, cls, &b, x + k * step_B, n, stride);
        switch (cls) {
        case CLASS_F32:
            for (int64_t i = 0; i < n; i++) keys[i] = key_f32(b.f32[i], down);
            break;
        case CLASS_F64:
            for (int64_t i = 0; i < n; i++) keys[i] = key_f64(b.f64[i], down);
            break;
        case CLASS_I32:
            for (int64_t i = 0; i < n; i++) keys[i] = key_i32(b.i32[i], down);
            break;
        default:
            for (int64_t i = 0; i < n; i++) keys[i] = (uint64_t)b.i64[i] ^ (down ? INT64_MAX : UINT64_C(1) << 63);
            break;
        }
        if (r->narrow)
            for (int64_t i = 0; i < n; i++) keys[i] = keys[i] << 32 | (uint64_t)(k + i);
        else
            for (int64_t i = 0; i < n; i++) r->places[k + i] = (uint32_t)(k + i);
    }
}

static void insertion(struct row *r)
{
    for (int64_t i = 1; i < r->n; i++) {
        uint64_t key = r->keys[i];
        uint32_t place = r->narrow ? 0 : r->places[i];
        int64_t j = i;
        for (; j > 0 && r->keys[j - 1] > key; j--) {
            r->keys[j] = r->keys[j - 1];
            if (!r->narrow) r->places[j] = r->places[j - 1];
        }
        r->keys[j] = key;
        if (!r->narrow) r->places[j] = place;
    }
}

static void radix_pass(struct row *r, int shift, int64_t *count)
{
    int64_t at = 0;
    for (int d = 0; d < DIGITS; d++) {
        int64_t n = count[d];
        count[d] = at;
        at += n;
    }
    for (int64_t i = 0; i < r->n; i++) {
        uint64_t key = r->keys[i];
        int64_t to = count[key >> shift & (DIGITS - 1)]++;
        r->keys_2[to] = key;
        if (!r->narrow) r->places_2[to] = r->places[i];
    }
    uint64_t *keys = r->keys;
    uint32_t *places = r->places;
    r->keys = r->keys_2, r->keys_2 = keys;
    r->places = r->places_2, r->places_2 = places;
}

// Digits that all keys share are left out.
static void radix(struct row *r)
{
    int64_t count[DIGITS];
    uint64_t all_or = 0, all_and = UINT64_MAX;
    for (int64_t i = 0; i < r->n; i++) all_or |= r->keys[i], all_and &= r->keys[i];
    for (int shift = r->narrow ? 32 : 0; shift < 64; shift += DIGIT_BITS) {
        if (((all_or ^ all_and) >> shift & (DIGITS - 1)) == 0) continue;
        memset(count, 0, sizeof count);
        for (int64_t i = 0; i < r->n; i++) count[r->keys[i] >> shift & (DIGITS - 1)]++;
        radix_pass(r, shift, count);
    }
}

static void sift(struct item *heap, int64_t n, int64_t i)
{
    struct item v = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&heap[child], &heap[child + 1])) child++;
        if (!before(&v, &heap[child])) break;
        heap[i] = heap[child];
    }
    heap[i] = v;
}

static struct item item_of(const struct row *r, int64_t i)
{
    return (struct item){r->keys[i], r->narrow ? 0 : r->places[i]};
}

// The first `keep` in order, at the front of the row; the largest of them is the heap's top.
static void select_first(struct row *r)
{
    struct item heap[HEAP_MOST];
    int64_t n = r->keep;
    for (int64_t i = 0; i < n; i++) heap[i] = item_of(r, i);
    for (int64_t i = n / 2 - 1; i >= 0; i--) sift(heap, n, i);
    for (int64_t i = n; i < r->n; i++) {
        if (r->keys[i] >= heap[0].key) continue; // equal keys come later: they do not count
        heap[0] = item_of(r, i);
        sift(heap, n, 0);
    }
    for (int64_t m = n - 1; m >= 0; m--) {
        r->keys[m] = heap[0].key;
        if (!r->narrow) r->places[m] = heap[0].place;
        heap[0] = heap[m];
        sift(heap, m, 0);
    }
}

// 32-bit keys of a row.
static void load_narrow(const struct launch *l, enum scalar_class cls, const char *x, uint32_t *keys, int64_t count)
{
    const struct launch_operand *o = &l->operands[0];
    int64_t step_B = walk_stride_B(l, 0, l->rank - 1), stride = o->strides[l->rank - 1];
    bool down = l->variant[0], lies = o->dtype == cpu_class_dtype[cls] && stride == 1;
    union {
        float f32[BLOCK];
        int32_t i32[BLOCK];
    } b;
    for (int64_t k = 0; k < count; k += BLOCK) {
        int64_t n = count - k < BLOCK ? count - k : BLOCK;
        const void *block = lies ? (const void *)(x + k * step_B) : &b;
        const float *f32 = block;
        const int32_t *i32 = block;
        if (!lies) CPU_FN(cpu_load)(o->dtype, cls, &b, x + k * step_B, n, stride);
        if (cls == CLASS_F32)
#pragma omp simd
            for (int64_t i = 0; i < n; i++) keys[k + i] = key_f32(f32[i], down);
        else
#pragma omp simd
            for (int64_t i = 0; i < n; i++) keys[k + i] = key_i32(i32[i], down);
    }
}

// A key that at least `keep` of n keys are not above, and hardly more than those: each is the least of a group, of
// which there are more than are kept.
static uint32_t bound_of(const uint32_t *keys, int64_t n, int64_t keep)
{
    enum { GROUPS = 64, GROUPS_A_PLACE = 4, GROUPS_MOST = GROUPS_A_PLACE * HEAP_MOST };
    uint32_t first[GROUPS_MOST], low = UINT32_MAX, high = 0;
    int64_t groups = keep * GROUPS_A_PLACE > GROUPS ? keep * GROUPS_A_PLACE : GROUPS;
    for (int64_t g = 0; g < groups; g++) first[g] = UINT32_MAX;
    for (int64_t k = 0; k < n; k += groups) {
        int64_t m = least(groups, n - k);
#pragma omp simd
        for (int64_t g = 0; g < m; g++) first[g] = keys[k + g] < first[g] ? keys[k + g] : first[g];
    }
#pragma omp simd reduction(min : low) reduction(max : high)
    for (int64_t g = 0; g < groups; g++) {
        low = first[g] < low ? first[g] : low;
        high = first[g] > high ? first[g] : high;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, below = 0;
#pragma omp simd reduction(+ : below)
        for (int64_t g = 0; g < groups; g++) below += first[g] <= middle;
        if (below < keep)
            low = middle + 1;
        else
            high = middle;
        if (below >= keep && below <= keep + keep / 4) break;
    }
    return high;
}

// Which of STEP keys are not above the bound, a bit each.
enum { STEP = 16 };
static inline uint32_t within(const uint32_t *keys, uint32_t bound)
{
#ifdef __AVX512F__
    return _mm512_cmple_epu32_mask(_mm512_loadu_si512(keys), _mm512_set1_epi32((int)bound));
#else
    uint32_t any = 0, bits = 0;
#pragma omp simd reduction(| : any)
    for (int i = 0; i < STEP; i++) any |= keys[i] <= bound;
    for (int i = 0; any && i < STEP; i++) bits |= (uint32_t)(keys[i] <= bound) << i;
    return bits;
#endif
}

// The first `keep` of a row, in order, at the front of r->keys.
static void select_narrow(struct row *r, const uint32_t *keys)
{
    uint32_t bound = bound_of(keys, r->n, r->keep);
    struct row some = *r;
    int64_t k = 0;
    some.n = 0;
    for (; k + STEP <= r->n; k += STEP)
        for (uint32_t bits = within(keys + k, bound); bits; bits &= bits - 1) {
            int64_t place = k + __builtin_ctz(bits);
            some.keys[some.n++] = (uint64_t)keys[place] << 32 | (uint64_t)place;
        }
    for (; k < r->n; k++)
        if (keys[k] <= bound) some.keys[some.n++] = (uint64_t)keys[k] << 32 | (uint64_t)k;
    if (some.n <= SHORT)
        insertion(&some);
    else
        select_first(&some);
}

static void copy_values(char *to, int64_t to_step_B, const char *x, int64_t x_step_B, const int64_t *places, int64_t n,
                        int size_B)
{
    for (int64_t i = 0; i < n; i++) {
        const char *from = x + places[i] * x_step_B;
        switch (size_B) {
        case 1: *to = *from; break;
        case 2: memcpy(to, from, 2); break;
        case 4: memcpy(to, from, 4); break;
        default: memcpy(to, from, 8); break;
        }
        to += to_step_B;
    }
}

static void store(const struct launch *l, const struct row *r, const char *x, char *values, char *indices)
{
    int last = l->rank - 1;
    const struct launch_operand *o = l->operands;
    int64_t places[BLOCK], x_step = walk_stride_B(l, 0, last), value_step = walk_stride_B(l, 1, last);
    int64_t index_step = walk_stride_B(l, 2, last);
    for (int64_t k = 0; k < r->keep; k += BLOCK) {
        int64_t n = r->keep - k < BLOCK ? r->keep - k : BLOCK;
        for (int64_t i = 0; i < n; i++) places[i] = r->narrow ? (int64_t)(uint32_t)r->keys[k + i] : r->places[k + i];
        if (values)
            copy_values(values + k * value_step, value_step, x, x_step, places, n, cpu_dtype_size_B[o[0].dtype]);
        if (indices) CPU_FN(cpu_store)(o[2].dtype, CLASS_I64, indices + k * index_step, places, n, o[2].strides[last]);
    }
}

// The places that are kept, at the front of r->keys.
static void order_row(const struct launch *l, enum scalar_class cls, const char *x, struct row *r)
{
    bool few = r->keep <= HEAP_MOST && r->keep <= r->n / HEAP_SHARE;
    if (few && r->narrow) {
        uint32_t *keys = (uint32_t *)(void *)r->keys_2;
        load_narrow(l, cls, x, keys, r->n);
        select_narrow(r, keys);
        return;
    }
    load_keys(l, cls, x, r);
    if (few)
        select_first(r);
    else if (r->n <= SHORT)
        insertion(r);
    else
        radix(r);
}

struct cpu_work CPU_FN(cpu_units_sort_rows)(const struct launch *l)
{
    struct cpu_work w = {1, 32 * l->sizes[l->rank - 1]};
    for (int d = 0; d + 1 < l->rank; d++) w.units *= l->sizes[d];
    return w;
}

kiln_status CPU_FN(cpu_kernel_sort_rows)(const struct launch *l, int64_t begin, int64_t end)
{
    enum scalar_class cls = (enum scalar_class)kernel_catalogue[l->kernel].cls;
    int last = l->rank - 1;
    struct row r = {
        .n = l->sizes[last], .keep = (int64_t)l->scalars[0], .narrow = cls == CLASS_F32 || cls == CLASS_I32};
    if (r.n > UINT32_MAX)
        return error_set(KILN_E_UNSUPPORTED, "%s: rows of more than %u elements cannot be sorted", l->op, UINT32_MAX);
    size_t n = ((size_t)r.n + 15) & ~(size_t)15;
    char *memory = cpu_scratch(CPU_SCRATCH_CUSTOM, n * (r.narrow ? 16 : 24));
    if (!memory) return error_pending;
    uint64_t *keys = (uint64_t *)(void *)memory, *keys_2 = keys + n;
    uint32_t *places = (uint32_t *)(void *)(keys_2 + n), *places_2 = places + n;
    struct walk w;
    walk_start(&w, l, last, begin);
    int j = walk_inner(&w);
    for (; begin < end; begin++) {
        char *at[3];
        for (int o = 0; o < 3; o++) at[o] = w.at[o] && j >= 0 ? w.at[o] + w.inner * walk_stride_B(l, o, j) : w.at[o];
        r.keys = keys, r.keys_2 = keys_2;
        r.places = r.narrow ? NULL : places, r.places_2 = r.narrow ? NULL : places_2;
        order_row(l, cls, at[0], &r);
        store(l, &r, at[0], at[1], at[2]);
        walk_next(&w, 1);
    }
    return KILN_OK;
}
