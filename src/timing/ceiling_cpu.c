// What the CPU can do: plain loops on the library's threads, compiled for the widest vectors of the machine; a copy is
// also tried with memcpy, which has stores of its own for large blocks. Where others want the processors a thread alone
// is the faster one: some passes are its.
#include "base/clock.h"
#include "cpu/parallel.h"
#include "timing/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// With sanitizers clang does not vectorise, and says so.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

enum {
    PASSES = 25,
    LEAST_NS = 100000000,
    HUGE_PAGE_B = 2 << 20,
    UNIT = 1 << 14, // elements
    ALONE = 8,      // every so many passes on the calling thread alone
};

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

struct cpu_pass {
    kiln_ceiling kind;
    struct loops loops;
    struct arithmetic arithmetic;
    float *v[3];
    size_t n; // elements of each
    int64_t units;
};

static volatile float sink; // so that nothing is left out

static kiln_status run_units(void *user, int64_t begin, int64_t end)
{
    const struct cpu_pass *p = user;
    float total = 0;
    for (int64_t u = begin; u < end; u++) {
        size_t at = (size_t)u * UNIT, m = p->n - at < UNIT ? p->n - at : UNIT;
        switch (p->kind) {
        case KILN_CEILING_READ: total += p->loops.read(p->v[0] + at, m); break;
        case KILN_CEILING_COPY: p->loops.copy(p->v[0] + at, p->v[1] + at, m); break;
        case KILN_CEILING_TRIAD: p->loops.triad(p->v[0] + at, p->v[1] + at, p->v[2] + at, m); break;
        default: total += p->arithmetic.run(); break;
        }
    }
    sink = total;
    return KILN_OK;
}

static double best_pass_ns(struct cpu_pass *p)
{
    double best = INFINITY;
    uint64_t start = clock_now_ns();
    for (int i = 0; i < PASSES || clock_now_ns() - start < LEAST_NS; i++) {
        uint64_t t0 = clock_now_ns();
        bool alone = i % ALONE == ALONE - 1;
        if (alone ? run_units(p, 0, p->units) : cpu_parallel(p->units, UNIT, run_units, p)) return NAN;
        best = fmin(best, (double)(clock_now_ns() - t0));
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

static double memory_rate(struct cpu_pass *p, double bytes)
{
    int arrays = (int)p->kind + 1;
    p->n = (size_t)(bytes / sizeof(float) / arrays) + 1;
    p->units = (int64_t)((p->n + UNIT - 1) / UNIT);
    bool ok = true;
    for (int i = 0; i < arrays && ok; i++) ok = (p->v[i] = new_array(p->n)) != NULL;
    double best = ok ? best_pass_ns(p) : NAN;
    if (ok && p->kind == KILN_CEILING_COPY) {
        p->loops.copy = copy_by_libc;
        best = fmin(best, best_pass_ns(p));
    }
    for (int i = 0; i < arrays; i++) free(p->v[i]);
    if (!ok) error_set(KILN_E_MEMORY, "device_ceiling: no memory for arrays of %.0f bytes", bytes);
    return 1e9 * (double)p->n * sizeof(float) * arrays / best;
}

double ceiling_of_cpu(kiln_ceiling kind, double bytes)
{
    struct cpu_pass p = {.kind = kind, .loops = choose_loops()};
    if (kind <= KILN_CEILING_TRIAD) return memory_rate(&p, bytes);
    p.arithmetic = choose_arithmetic(kind);
    p.units = 64 * cpu_threads(); // long beside the start of a thread
    p.n = (size_t)p.units * UNIT; // not looked at
    return 1e9 * p.arithmetic.operations * (double)p.units / best_pass_ns(&p);
}
