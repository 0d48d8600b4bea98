// Rows of kiln-bench that take longer captured than eager: which are marked, where a case is made to take longer, and
// where a moment of the machine alone made it look so.
#include "bench.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 64, SIDE = 64, TIMES_LONGER = 100 };
static kiln_device *dev;
static const struct plan plan = {.size = "tiny", .budget_s = 0.001};

static kiln_status setup(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(ROWS, SIDE));
    random_input(s, 1, KILN_SHAPE(SIDE, SIDE));
    return kiln_error();
}

static kiln_status products(kiln_tensor *const *in, int n, kiln_tensor **out)
{
    *out = in[0];
    for (int i = 0; i < n; i++) *out = kiln_matmul(*out, in[1]);
    return kiln_error();
}

static kiln_status run_longer_captured(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    return products(in, s->function ? TIMES_LONGER : 1, out);
}

static kiln_status run_longer_eager(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    return products(in, s->function ? 1 : TIMES_LONGER, out);
}

static const struct bench_case longer_captured = {"matrix", "longer_captured", setup, run_longer_captured};
static const struct bench_case longer_eager = {"matrix", "longer_eager", setup, run_longer_eager};

// A captured row of the case, of which the runs before took that long.
static double slower_of(const struct bench_case *c, enum mode mode, double eager_ns, double captured_ns)
{
    struct row eager = {.time_ns = eager_ns, .min_ns = eager_ns};
    struct row captured = {.time_ns = captured_ns, .min_ns = captured_ns, .slower = NAN};
    mark_slower(&plan, dev, c, mode, &eager, &captured);
    assert_int_equal(kiln_error(), 0);
    return captured.slower;
}

static void what_takes_longer_is_marked(void **state)
{
    for (enum mode mode = MODE_JIT; mode < MODE_COUNT; mode++) {
        double slower = slower_of(&longer_captured, mode, 1e12, 2e12);
        assert_true(slower > 2 && slower < 10 * TIMES_LONGER);
    }
}

static void a_moment_of_the_machine_marks_nothing(void **state)
{
    for (enum mode mode = MODE_JIT; mode < MODE_COUNT; mode++)
        assert_true(isnan(slower_of(&longer_eager, mode, 1e12, 2e12)));
}

// Nothing is measured again, which would mark these.
static void what_is_allowed_is_not_marked(void **state)
{
    assert_true(isnan(slower_of(&longer_captured, MODE_JIT, 1000, 1029)));
    assert_true(isnan(slower_of(&longer_captured, MODE_AUTO, 1000, 1099)));
    assert_false(isnan(slower_of(&longer_captured, MODE_JIT, 1000e9, 1031e9)));
    assert_false(isnan(slower_of(&longer_captured, MODE_AUTO, 1000e9, 1101e9)));
}

int main(void)
{
    dev = kiln_device_open("cpu");
    if (!dev) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_takes_longer_is_marked),
        cmocka_unit_test(a_moment_of_the_machine_marks_nothing),
        cmocka_unit_test(what_is_allowed_is_not_marked),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failed;
}
