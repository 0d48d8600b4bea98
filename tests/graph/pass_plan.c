// Plans of memory: a checker on random instances, and how close they come to the bound.
#include "base/base.h"
#include "fuse/memory.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *state ^ *state >> 33;
    return (x * 0xff51afd7ed558ccdu) >> 32;
}

static uint64_t end_of(const struct plan_buffer *b, const struct memory_plan *p, int32_t i)
{
    return p->offset_B[i] + b[i].size_B;
}

// Whether j lies, over any number of steps, in the place of i.
static bool follows(const struct memory_plan *p, int32_t j, int32_t i)
{
    while (j >= 0 && j != i) j = p->in_place[j];
    return j == i;
}

static void check(const struct plan_buffer *b, int32_t n, const struct memory_plan *p)
{
    for (int32_t i = 0; i < n; i++) {
        if (b[i].flags || !b[i].size_B) {
            assert_true(p->offset_B[i] == PLAN_NOWHERE);
            continue;
        }
        assert_true(p->offset_B[i] % PLAN_ALIGN_B == 0 && end_of(b, p, i) <= p->total_B);
        if (p->in_place[i] >= 0) {
            int32_t first = i;
            while (p->in_place[first] >= 0) first = p->in_place[first];
            assert_true(p->offset_B[i] == p->offset_B[first] && b[p->in_place[i]].last == b[i].first);
            assert_true(b[i].size_B <= (b[first].size_B + PLAN_ALIGN_B - 1) / PLAN_ALIGN_B * PLAN_ALIGN_B);
        }
        for (int32_t j = 0; j < i; j++) {
            if (b[j].flags || !b[j].size_B || b[j].last < b[i].first || b[i].last < b[j].first) continue;
            if (follows(p, i, j) || follows(p, j, i)) continue;
            if (p->offset_B[i] < end_of(b, p, j) && p->offset_B[j] < end_of(b, p, i))
                fail_msg("buffers %d and %d overlap", (int)j, (int)i);
        }
    }
    assert_true(p->total_B <= p->naive_B && p->total_B >= p->bound_B);
}

// Lives as in a network: most short, some across the whole run.
static void make(struct plan_buffer *b, int32_t n, uint64_t *state)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t life = (int32_t)(next(state) % 8 ? next(state) % 6 : next(state) % (uint64_t)n);
        b[i] = (struct plan_buffer){
            .first = i, .last = i + life, .size_B = (1 + next(state) % 64) * (next(state) % 3 ? 1024 : 77777)};
        if (next(state) % 10 == 0) b[i].flags = 1u << next(state) % 3;
        if (next(state) % 20 == 0) b[i].size_B = 0;
    }
}

static void random_plans_are_sound(void **state)
{
    uint64_t random = 5;
    double worst = 1, sum = 0;
    int count = 0;
    for (int trial = 0; trial < 400; trial++) {
        int32_t n = 1 + (int32_t)(next(&random) % 120), n_candidates = 0;
        struct plan_buffer b[128];
        struct plan_candidate c[400];
        struct memory_plan p, q;
        make(b, n, &random);
        for (int32_t i = 0; i < n && trial % 2; i++)
            for (int32_t j = 0; j < i && n_candidates < 300; j++)
                if (b[j].last == b[i].first && next(&random) % 2)
                    c[n_candidates++] = (struct plan_candidate){i, j, b[i].first};
        assert_int_equal(memory_plan_make(b, n, c, n_candidates, &p), KILN_OK);
        check(b, n, &p);
        assert_int_equal(memory_plan_make(b, n, c, n_candidates, &q), KILN_OK);
        assert_memory_equal(p.offset_B, q.offset_B, sizeof *p.offset_B * (size_t)n);
        if (p.bound_B) {
            double ratio = (double)p.total_B / (double)p.bound_B;
            worst = ratio > worst ? ratio : worst;
            sum += ratio;
            count++;
        }
        memory_plan_free(&p);
        memory_plan_free(&q);
    }
    print_message("arena against the most that is live: mean %.4f, worst %.4f\n", sum / count, worst);
    assert_true(sum / count < 1.05 && worst < 1.35);
}

// A chain of layers needs two buffers; in place it needs one.
static void chains_share(void **state)
{
    enum { N = 50 };
    struct plan_buffer b[N];
    struct plan_candidate c[N];
    struct memory_plan p;
    for (int32_t i = 0; i < N; i++) {
        b[i] = (struct plan_buffer){.size_B = 1000, .first = i, .last = i + 1};
        c[i] = (struct plan_candidate){i + 1, i, i + 1};
    }
    assert_int_equal(memory_plan_make(b, N, NULL, 0, &p), KILN_OK);
    check(b, N, &p);
    assert_int_equal(p.total_B, 2048);
    assert_int_equal(p.naive_B, N * 1024);
    memory_plan_free(&p);
    assert_int_equal(memory_plan_make(b, N, c, N - 1, &p), KILN_OK);
    check(b, N, &p);
    assert_int_equal(p.total_B, 1024);
    assert_int_equal(p.in_place[7], 6);
    memory_plan_free(&p);
}

static void one_place_is_taken_once(void **state)
{
    struct plan_buffer b[] = {{1000, 0, 1, 0}, {1000, 1, 2, 0}, {1000, 1, 2, 0}, {5000, 2, 3, 0}};
    struct plan_candidate c[] = {{1, 0, 1}, {2, 0, 1}, {3, 1, 2}};
    struct memory_plan p;
    assert_int_equal(memory_plan_make(b, 4, c, 3, &p), KILN_OK);
    check(b, 4, &p);
    assert_int_equal(p.in_place[1], 0);
    assert_int_equal(p.in_place[2], -1);
    assert_int_equal(p.in_place[3], -1); // larger
    memory_plan_free(&p);
}

static void mistakes_are_refused(void **state)
{
    struct memory_plan p;
    struct plan_buffer backwards = {10, 3, 2, 0}, two[] = {{10, 0, 1, 0}, {10, 2, 3, 0}};
    struct plan_buffer huge[] = {{INT64_MAX, 0, 1, 0}, {INT64_MAX, 0, 1, 0}, {INT64_MAX, 0, 1, 0}};
    struct plan_candidate early = {1, 0, 1}, self = {0, 0, 0}, beyond = {2, 0, 1};
    assert_int_equal(memory_plan_make(&backwards, 1, NULL, 0, &p), KILN_E_ARGUMENT);
    kiln_error_clear();
    assert_int_equal(memory_plan_make(two, 2, &early, 1, &p), KILN_E_ARGUMENT);
    kiln_error_clear();
    assert_int_equal(memory_plan_make(two, 2, &self, 1, &p), KILN_E_ARGUMENT);
    kiln_error_clear();
    assert_int_equal(memory_plan_make(two, 2, &beyond, 1, &p), KILN_E_ARGUMENT);
    kiln_error_clear();
    assert_int_equal(memory_plan_make(huge, 3, NULL, 0, &p), KILN_E_SHAPE);
    kiln_error_clear();
    assert_int_equal(memory_plan_make(NULL, 0, NULL, 0, &p), KILN_OK);
    assert_int_equal(p.total_B, 0);
    memory_plan_free(&p);
    memory_plan_free(NULL);
}

static void large_plans_are_quick(void **state)
{
    enum { N = 20000 };
    static struct plan_buffer b[N];
    uint64_t random = 9;
    struct memory_plan p;
    for (int32_t i = 0; i < N; i++)
        b[i] = (struct plan_buffer){
            .size_B = 1 + next(&random) % 1000000, .first = i, .last = i + (int32_t)(next(&random) % 20)};
    clock_t start = clock();
    assert_int_equal(memory_plan_make(b, N, NULL, 0, &p), KILN_OK);
    print_message("%d buffers: %.1f ms, arena %.4f of the bound\n", N,
                  (double)(clock() - start) * 1000 / CLOCKS_PER_SEC, (double)p.total_B / (double)p.bound_B);
    memory_plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_are_sound),  cmocka_unit_test(chains_share),
        cmocka_unit_test(one_place_is_taken_once), cmocka_unit_test(mistakes_are_refused),
        cmocka_unit_test(large_plans_are_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
