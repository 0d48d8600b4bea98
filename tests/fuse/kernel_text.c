// GLSL is written when a kernel is compiled and at no other time: a hit of the table of kernels writes none. The writer
// is wrapped by the linker and counted.
#include "codegen/target.h"
#include "../jit/jit_fixture.h"
#include <stdatomic.h>

static atomic_int texts; // kernels compile on several threads
kiln_status __real_glsl_text(const struct fused_kernel *k, const struct codegen_plan *plan, struct str *text);
kiln_status __wrap_glsl_text(const struct fused_kernel *k, const struct codegen_plan *plan, struct str *text);
kiln_status __wrap_glsl_text(const struct fused_kernel *k, const struct codegen_plan *plan, struct str *text)
{
    atomic_fetch_add(&texts, 1);
    return __real_glsl_text(k, plan, text);
}

static int taken(void)
{
    return atomic_exchange(&texts, 0);
}

static int start(void **state)
{
    taken();
    return setup(state);
}

// A row kernel and one of points.
static kiln_status centred(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *mean = kiln_mean(kiln_exp(in[0]), KILN_REDUCE(.axes = KILN_AXES(0), .keepdims = true));
    out[0] = kiln_tanh(kiln_sub(in[0], mean));
    return kiln_error();
}

static void call(struct fixture *f, kiln_function *j, int64_t rows)
{
    kiln_tensor *x = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(rows, 6)), *out = NULL;
    ok(kiln_call(j, &x, 1, &out, 1));
    ok(kiln_device_synchronize(f->dev));
}

static void a_program_writes_the_text_of_its_kernels_once(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(centred, NULL, NULL);
    call(f, j, 4);
    int written = taken();
    assert_true(written > 0);
    assert_int_equal(written, stats_of(j).kernels_compiled);
    for (int i = 0; i < 3; i++) call(f, j, 4);
    assert_int_equal(taken(), 0);
    kiln_function_free(&j);
}

// A second program: of another function, of another capture, of another shape.
static void a_second_program_of_equal_kernels_writes_none(void **state)
{
    struct fixture *f = *state;
    kiln_function *first = kiln_jit(centred, NULL, NULL), *second = kiln_jit(centred, NULL, NULL);
    kiln_function *automatic = kiln_jit(centred, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    call(f, first, 20);
    assert_true(taken() > 0);
    call(f, second, 20);
    assert_int_equal(stats_of(second).programs, 1);
    assert_int_equal(stats_of(second).kernels_compiled, 0);
    assert_int_equal(taken(), 0);
    call(f, automatic, 20);
    assert_int_equal(stats_of(automatic).captures, 1);
    assert_int_equal(taken(), 0);
    call(f, first, 21);
    assert_int_equal(stats_of(first).programs, 2);
    assert_int_equal(taken(), 0);
    kiln_function_free(&first);
    kiln_function_free(&second);
    kiln_function_free(&automatic);
}

// What makes other code does write: the test sees misses.
static void other_kernels_write_their_own(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(centred, NULL, NULL), *other = kiln_jit(two_ops, NULL, NULL);
    call(f, j, 4);
    taken();
    call(f, other, 4);
    int written = taken();
    assert_int_equal(written, stats_of(other).kernels_compiled);
    assert_true(written > 0);
    // The kernels go with the last program that uses them, and come back as text.
    kiln_function_free(&other);
    other = kiln_jit(two_ops, NULL, NULL);
    call(f, other, 4);
    assert_int_equal(taken(), written);
    kiln_function_free(&other);
    kiln_function_free(&j);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_program_writes_the_text_of_its_kernels_once, start, teardown),
        cmocka_unit_test_setup_teardown(a_second_program_of_equal_kernels_writes_none, start, teardown),
        cmocka_unit_test_setup_teardown(other_kernels_write_their_own, start, teardown),
    };
    if (argc < 2) jit_device = "null";
    if (choose_device(argc, argv)) return 77;
    setenv("KILN_CACHE_DIR", "/dev/null/none", 1); // where no file can be: a miss of the table compiles
    return cmocka_run_group_tests(tests, NULL, NULL);
}
