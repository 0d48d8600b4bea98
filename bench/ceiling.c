// What memory can do: the best time of a pass that reads, copies, or adds two arrays into a third (triad), with as many
// bytes as the row moves, so that a row that fits a cache has a cache's ceiling.
//
// On the CPU the passes are plain loops on the threads of OpenMP, compiled for the widest vectors of the machine; a
// copy is also tried with memcpy, which has stores of its own for large blocks. On a device they are the library's own
// sum, neg and add of f32: nothing else runs there.
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PASSES      25
#define LEAST_NS    1e8
#define HUGE_PAGE_B (2 << 20)

// --- the CPU's loops, each for a part of the arrays

#define BODY static inline __attribute__((always_inline))

BODY float read_body(const float *a, size_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++) sum += a[i];
    return sum;
}

BODY void copy_body(float *restrict out, const float *restrict a, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) out[i] = a[i];
}

BODY void triad_body(float *restrict out, const float *restrict a, const float *restrict b, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) out[i] = a[i] + 0.5f * b[i];
}

struct loops {
    float (*read)(const float *a, size_t n);
    void (*copy)(float *out, const float *a, size_t n);
    void (*triad)(float *out, const float *a, const float *b, size_t n);
};

static float read_plain(const float *a, size_t n)
{
    return read_body(a, n);
}
static void copy_plain(float *out, const float *a, size_t n)
{
    copy_body(out, a, n);
}
static void triad_plain(float *out, const float *a, const float *b, size_t n)
{
    triad_body(out, a, b, n);
}

#if defined(__x86_64__)
#define WIDE(isa) __attribute__((target(isa))) static
WIDE("avx2") float read_256(const float *a, size_t n)
{
    return read_body(a, n);
}
WIDE("avx2") void copy_256(float *out, const float *a, size_t n)
{
    copy_body(out, a, n);
}
WIDE("avx2") void triad_256(float *out, const float *a, const float *b, size_t n)
{
    triad_body(out, a, b, n);
}
WIDE("avx512f") float read_512(const float *a, size_t n)
{
    return read_body(a, n);
}
WIDE("avx512f") void copy_512(float *out, const float *a, size_t n)
{
    copy_body(out, a, n);
}
WIDE("avx512f") void triad_512(float *out, const float *a, const float *b, size_t n)
{
    triad_body(out, a, b, n);
}
#endif

static struct loops choose_loops(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return (struct loops){read_512, copy_512, triad_512};
    if (__builtin_cpu_supports("avx2")) return (struct loops){read_256, copy_256, triad_256};
#endif
    return (struct loops){read_plain, copy_plain, triad_plain};
}

static void copy_by_libc(float *out, const float *a, size_t n)
{
    memcpy(out, a, n * sizeof *a);
}

static volatile float sink;

// One pass over n elements of each array, spread over the threads.
static void pass(enum ceiling c, const struct loops *l, float *const v[3], size_t n)
{
    const size_t unit = 1 << 14;
    float total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
    for (size_t at = 0; at < n; at += unit) {
        size_t m = n - at < unit ? n - at : unit;
        if (c == CEILING_READ)
            total += l->read(v[0] + at, m);
        else if (c == CEILING_COPY)
            l->copy(v[0] + at, v[1] + at, m);
        else
            l->triad(v[0] + at, v[1] + at, v[2] + at, m);
    }
    sink = total;
}

static double best_pass(enum ceiling c, const struct loops *l, float *const v[3], size_t n)
{
    double best = INFINITY, start = now_ns();
    for (int i = 0; i < PASSES || now_ns() - start < LEAST_NS; i++) {
        double t0 = now_ns();
        pass(c, l, v, n);
        best = fmin(best, now_ns() - t0);
    }
    return best;
}

// An array on huge pages, as the library's own memory, with values that are not alike.
static float *new_array(size_t n)
{
    size_t size_B = (n * sizeof(float) / HUGE_PAGE_B + 1) * HUGE_PAGE_B;
    float *a = aligned_alloc(HUGE_PAGE_B, size_B);
    if (!a) return NULL;
    madvise(a, size_B, MADV_HUGEPAGE);
    for (size_t i = 0; i < n; i++) a[i] = (float)((i * 2654435761u) >> 16 & 0xffff) / 65536;
    return a;
}

static double cpu_ceiling(enum ceiling c, double bytes)
{
    float *v[3] = {NULL, NULL, NULL};
    int arrays = (int)c;
    size_t n = (size_t)(bytes / 4 / arrays);
    struct loops l = choose_loops();
    double best = NAN;
    bool ok = n > 0;
    for (int i = 0; i < arrays && ok; i++) ok = (v[i] = new_array(n)) != NULL;
    if (ok) best = best_pass(c, &l, v, n);
    if (ok && c == CEILING_COPY) {
        l.copy = copy_by_libc;
        best = fmin(best, best_pass(c, &l, v, n));
    }
    for (int i = 0; i < arrays; i++) free(v[i]);
    return best;
}

// --- a device's

static double device_ceiling(kiln_device *dev, enum ceiling c, double bytes)
{
    int64_t n = (int64_t)(bytes / 4 / (int)c);
    kiln_scope *outer = kiln_scope_begin();
    kiln_tensor *a = kiln_normal(dev, KILN_F32, KILN_SHAPE(n), 0, 1),
                *b = kiln_normal(dev, KILN_F32, KILN_SHAPE(n), 0, 1);
    double best = INFINITY;
    bool clock = has_device_clock(dev);
    kiln_device_synchronize(dev);
    for (int i = 0; i < PASSES && !kiln_error(); i++) {
        if (clock) kiln_device_mark(dev, 0);
        double t0 = now_ns();
        kiln_scope *inner = kiln_scope_begin();
        if (c == CEILING_READ)
            kiln_sum(a, NULL);
        else if (c == CEILING_COPY)
            kiln_neg(a);
        else
            kiln_add(a, b);
        kiln_scope_end(&inner);
        if (clock)
            kiln_device_mark(dev, 1);
        else
            kiln_device_synchronize(dev);
        best = fmin(best, clock ? kiln_device_elapsed(dev, 0, 1) : now_ns() - t0);
    }
    kiln_scope_end(&outer);
    kiln_device_trim(dev);
    return kiln_error() ? NAN : best;
}

// --- each figure is taken once a process

static struct {
    enum ceiling kind;
    double bytes, time_ns;
} known[64];
static int n_known;

const char *ceiling_name(enum ceiling c)
{
    static const char *const names[] = {"none", "read", "copy", "triad"};
    return names[c];
}

void ceiling_forget(void)
{
    n_known = 0;
}

double ceiling_ns(kiln_device *dev, enum ceiling c, double bytes)
{
    if (c == CEILING_NONE || !(bytes > 0)) return NAN;
    for (int i = 0; i < n_known; i++) {
        if (known[i].kind == c && known[i].bytes == bytes) return known[i].time_ns;
    }
    kiln_device_info info = {.size = sizeof info};
    if (kiln_device_get_info(dev, &info)) return NAN;
    double time_ns = strcmp(info.kind, "cpu") ? device_ceiling(dev, c, bytes) : cpu_ceiling(c, bytes);
    if (n_known < (int)(sizeof known / sizeof known[0])) {
        known[n_known].kind = c;
        known[n_known].bytes = bytes;
        known[n_known++].time_ns = time_ns;
    }
    return time_ns;
}
