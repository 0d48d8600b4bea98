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

// --- memory that is there anyway

static bool takes_over(const struct plan_buffer *b, const struct plan_candidate *c, int32_t n, int32_t i, int32_t j)
{
    for (int32_t k = 0; k < n; k++)
        if (c[k].a == i && c[k].b == j && b[i].first == b[j].last) return true;
    return false;
}

static int32_t from_of(const struct plan_buffer *b, int32_t i)
{
    return b[i].flags & PLAN_GIVEN ? INT32_MIN : b[i].first;
}

static int32_t to_of(const struct plan_buffer *b, int32_t i)
{
    return b[i].flags & PLAN_RESULT ? INT32_MAX : b[i].last;
}

// Whether two buffers may lie in one memory.
static bool apart(const struct plan_buffer *b, const struct plan_candidate *c, int32_t n, int32_t i, int32_t j)
{
    return to_of(b, i) < from_of(b, j) || to_of(b, j) < from_of(b, i) || takes_over(b, c, n, i, j) ||
           takes_over(b, c, n, j, i);
}

static void check_hosts(const struct plan_buffer *b, int32_t n, const struct plan_candidate *c, int32_t n_candidates,
                        const struct memory_plan *p)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t host = p->within[i];
        if (host < 0) continue;
        bool result = b[i].flags == PLAN_RESULT;
        assert_true(b[host].flags & (PLAN_RESULT | PLAN_GIVEN) && p->within[host] < 0 && b[i].size_B);
        assert_true(result || b[i].flags == 0);
        assert_true(result ? b[host].flags == PLAN_GIVEN && b[i].size_B == b[host].size_B
                           : b[i].size_B <= b[host].size_B);
        assert_true(p->offset_B[i] == PLAN_NOWHERE && apart(b, c, n_candidates, i, host));
        for (int32_t j = 0; j < i; j++)
            if (p->within[j] == host && !apart(b, c, n_candidates, i, j))
                fail_msg("buffers %d and %d meet in %d", (int)j, (int)i, (int)host);
    }
}

static void hosts_are_sound(void **state)
{
    uint64_t random = 11;
    int n_within = 0, n_over = 0;
    for (int trial = 0; trial < 2000; trial++) {
        int32_t n = 1 + (int32_t)(next(&random) % 40), n_candidates = 0;
        struct plan_buffer b[40];
        struct plan_candidate c[400];
        struct memory_plan p;
        for (int32_t i = 0; i < n; i++) {
            int32_t first = (int32_t)(next(&random) % 12), kind = (int32_t)(next(&random) % 4);
            b[i] = (struct plan_buffer){(1 + next(&random) % 3) * 1000, first, first + (int32_t)(next(&random) % 4), 0};
            if (kind == 0) b[i].flags = PLAN_RESULT;
            if (kind == 1) b[i] = (struct plan_buffer){b[i].size_B, -1, first - 1, PLAN_GIVEN};
            if (next(&random) % 15 == 0) b[i].flags = PLAN_ARENA;
        }
        for (int32_t i = 0; i < n; i++)
            for (int32_t j = 0; j < n && n_candidates < 400; j++)
                if (i != j && b[j].last == b[i].first && b[i].first >= 0 && !(b[i].flags & PLAN_GIVEN) &&
                    b[j].flags != PLAN_RESULT && next(&random) % 2)
                    c[n_candidates++] = (struct plan_candidate){i, j, b[i].first};
        assert_int_equal(memory_plan_make(b, n, c, n_candidates, &p), KILN_OK);
        check_hosts(b, n, c, n_candidates, &p);
        for (int32_t i = 0; i < n; i++) {
            n_within += p.within[i] >= 0;
            n_over += p.within[i] >= 0 && b[i].flags == PLAN_RESULT;
        }
        memory_plan_free(&p);
    }
    assert_true(n_within > 4000 && n_over > 500);
}

// A chain of equal values, the first of which is given and the last a result, needs no memory at all.
static void a_chain_lies_in_what_was_given(void **state)
{
    struct plan_buffer b[] = {{1000, -1, 0, PLAN_GIVEN}, {1000, 0, 1, 0}, {1000, 1, 2, 0}, {1000, 2, 2, PLAN_RESULT}};
    struct plan_candidate c[] = {{1, 0, 0}, {2, 1, 1}, {3, 2, 2}};
    struct memory_plan p;
    assert_int_equal(memory_plan_make(b, 4, c, 3, &p), KILN_OK);
    for (int i = 1; i < 4; i++) assert_int_equal(p.within[i], 0);
    assert_int_equal(p.total_B, 0);
    memory_plan_free(&p);
    assert_int_equal(memory_plan_make(b, 4, c, 1, &p), KILN_OK); // each is read where the next one is written
    assert_int_equal(p.within[3], 0);
    assert_int_equal(p.within[1], 0);
    assert_int_equal(p.within[2], -1);
    memory_plan_free(&p);
    b[1].size_B = b[2].size_B = 1001; // too large, both
    assert_int_equal(memory_plan_make(b, 4, c, 3, &p), KILN_OK);
    assert_int_equal(p.within[3], 0);
    assert_int_equal(p.total_B, 1024);
    memory_plan_free(&p);
    b[3].size_B = 999; // a result of another size
    assert_int_equal(memory_plan_make(b, 4, c, 3, &p), KILN_OK);
    assert_int_equal(p.within[3], -1);
    memory_plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_are_sound),         cmocka_unit_test(chains_share),
        cmocka_unit_test(one_place_is_taken_once),        cmocka_unit_test(mistakes_are_refused),
        cmocka_unit_test(large_plans_are_quick),          cmocka_unit_test(hosts_are_sound),
        cmocka_unit_test(a_chain_lies_in_what_was_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
