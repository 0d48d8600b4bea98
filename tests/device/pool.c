// The threads of the CPU device: each unit once, nobody waits for a thread that has not come, errors arrive, loops of
// several threads and inside of loops, after a fork.
#include "../clock.h"
#include "cpu/parallel.h"
#include <kiln/kiln.h>

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { UNITS = 64, LONG_COST = 1 << 20 };

static atomic_int done[UNITS];
static pthread_t caller;
static atomic_int finished, begun_elsewhere;

static kiln_status count(void *user, int64_t begin, int64_t end)
{
    (void)user;
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&done[i], 1);
    return KILN_OK;
}

static void expect_each(int times)
{
    for (int i = 0; i < UNITS; i++) assert_int_equal(atomic_exchange(&done[i], 0), times);
}

static void each_unit_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 7; threads++) {
        omp_set_num_threads(threads);
        for (int i = 0; i < 200; i++) assert_int_equal(cpu_parallel(UNITS, LONG_COST, count, NULL), KILN_OK);
        expect_each(200);
        for (int units = 0; units <= UNITS; units += 9)
            assert_int_equal(cpu_parallel(units, LONG_COST, count, NULL), KILN_OK);
        for (int i = 0; i < UNITS; i++) assert_int_equal(atomic_exchange(&done[i], 0), 7 - i / 9);
        assert_int_equal(omp_get_max_threads(), threads);
    }
}

// A thread that is not the caller stands still within its first piece until all else is done.
static kiln_status stand_still(void *user, int64_t begin, int64_t end)
{
    int64_t piece = end - begin;
    if (pthread_equal(pthread_self(), caller)) {
        atomic_fetch_add(&finished, (int)piece);
        for (double t = clock_s() + 1; !atomic_load(&begun_elsewhere) && clock_s() < t;) sched_yield();
        return KILN_OK;
    }
    atomic_store(&begun_elsewhere, 1);
    for (double t = clock_s() + 20; atomic_load(&finished) + piece < UNITS;) {
        if (clock_s() > t) return error_set(KILN_E_STATE, "%d of %d units were done", atomic_load(&finished), UNITS);
        sched_yield();
    }
    *(bool *)user = true;
    return KILN_OK;
}

static void a_thread_comes_and_others_take_what_it_has_not_begun(void **state)
{
    (void)state;
    caller = pthread_self();
    omp_set_num_threads(7);
    assert_int_equal(cpu_parallel(UNITS, LONG_COST, count, NULL), KILN_OK); // more threads than the loops below want
    expect_each(1);
    omp_set_num_threads(2);
    int came = 0;
    for (int i = 0; i < 10; i++) {
        bool stood = false;
        atomic_store(&finished, 0), atomic_store(&begun_elsewhere, 0);
        if (cpu_parallel(UNITS, LONG_COST, stand_still, &stood)) fail_msg("%s", kiln_error_message());
        came += stood;
    }
    if (came < 8) fail_msg("a second thread came in %d loops of 10", came);
}

static kiln_status fail_at_the_end(void *user, int64_t begin, int64_t end)
{
    (void)user, (void)begin;
    return end == UNITS ? error_set(KILN_E_UNSUPPORTED, "unit %d", UNITS - 1) : KILN_OK;
}

static kiln_status count_inside(void *user, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) TRY(cpu_parallel(UNITS, LONG_COST, count, user));
    return cpu_threads() == 1 ? KILN_OK : error_set(KILN_E_STATE, "%d threads inside of a loop", cpu_threads());
}

static void errors_and_loops_inside(void **state)
{
    (void)state;
    omp_set_num_threads(3);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(cpu_parallel(UNITS, LONG_COST, fail_at_the_end, NULL), KILN_E_UNSUPPORTED);
        assert_non_null(strstr(kiln_error_message(), "unit 63"));
        kiln_error_clear();
    }
    assert_int_equal(cpu_parallel(10, LONG_COST, count_inside, NULL), KILN_OK);
    expect_each(10);
}

static void *loop(void *user)
{
    omp_set_num_threads(3);
    for (int i = 0; i < 500; i++)
        if (cpu_parallel(UNITS, LONG_COST, count, NULL)) return user;
    return NULL;
}

static void several_callers(void **state)
{
    (void)state;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, loop, &threads), 0);
    for (int i = 0; i < 3; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    expect_each(1500);
}

// A child has none of the threads: alone at first, and with new ones where it asks for them.
static void children(void **state)
{
    (void)state;
    omp_set_num_threads(3);
    for (int asks = 0; asks < 2; asks++) {
        assert_int_equal(cpu_parallel(UNITS, LONG_COST, count, NULL), KILN_OK);
        expect_each(1);
        pid_t child = fork();
        if (!child) {
            alarm(20);
            if (asks) omp_set_num_threads(3);
            for (int i = 0; i < 100; i++)
                if (cpu_parallel(UNITS, LONG_COST, count, NULL)) _exit(1);
            for (int i = 0; i < UNITS; i++)
                if (atomic_load(&done[i]) != 100) _exit(2);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_unit_once),
        cmocka_unit_test(a_thread_comes_and_others_take_what_it_has_not_begun),
        cmocka_unit_test(errors_and_loops_inside),
        cmocka_unit_test(several_callers),
        cmocka_unit_test(children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
