// What is told without being asked: errors that nobody has read, errors when they arise, variables that mean nothing,
// and the macros that check. Each in a process of its own, whose output is read.
#include <kiln/kiln.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// --- programs, by name

static kiln_tensor *wrong(void)
{
    return kiln_matmul(NULL, NULL);
}

static int leaves(void)
{
    return wrong() ? 9 : 0;
}

static int leaves_after_reading(void)
{
    wrong();
    return strstr(kiln_error_message(), "matmul") ? 0 : 9;
}

static int leaves_after_clearing(void)
{
    wrong();
    kiln_error_clear();
    return 0;
}

static void *wrong_thread(void *unused)
{
    (void)unused;
    return wrong();
}

static int leaves_in_a_thread(void)
{
    pthread_t t;
    if (pthread_create(&t, NULL, wrong_thread, NULL)) return 9;
    pthread_join(t, NULL);
    return 0;
}

static int two_errors(void)
{
    wrong();
    kiln_relu(NULL); // not the first
    kiln_error_clear();
    kiln_relu(NULL);
    bool second = kiln_error() == KILN_E_ARGUMENT;
    kiln_error_clear();
    return second ? 0 : 9;
}

static int checks(void)
{
    kiln_tensor *one = NULL;
    KILN_CHECK(kiln_error_clear());
    KILN_CHECK(one = kiln_relu(NULL));
    return one ? 8 : 9; // not reached
}

static int returned(void)
{
    KILN_CHECK_RETURN(wrong(), 3);
    return 9;
}

static kiln_status tried(void)
{
    KILN_TRY(wrong());
    return KILN_OK;
}

static int tries(void)
{
    return tried() == KILN_E_ARGUMENT && strstr(kiln_error_message(), "matmul") ? 4 : 9;
}

static int opens(void)
{
    kiln_device *dev = kiln_device_open("cpu"), *other = kiln_device_open("null");
    kiln_device_close(&dev);
    kiln_device_close(&other);
    return kiln_error() ? 9 : 0;
}

// --- numbers that are none

enum { LOG_LINE = __LINE__ + 5, CALL_LINE = LOG_LINE + 1 };

// The logarithm of zeros, behind a layer whose sums overflow where in[1] is large.
static kiln_status layers(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *logs = kiln_log(in[2]);
    kiln_tensor *y = kiln_cell_call(user, in[0]);
    (void)n_in, (void)n_out;
    out[0] = kiln_add(kiln_mean(logs, NULL), kiln_mean(kiln_mul(y, in[1]), NULL));
    return kiln_error();
}

// way 0: eagerly, else captured.
static int watches(const char *device, int way)
{
    kiln_device *dev = kiln_device_open(device);
    if (!dev) return 77;
    kiln_scope *scope = kiln_scope_begin();
    kiln_cell *dense = kiln_nn_dense(dev, 3, 4, KILN_NN_DENSE(.weight_init = "ones", .bias_init = "zeros"));
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_relu(), dense));
    kiln_tensor *in[] = {kiln_full(dev, KILN_F32, KILN_SHAPE(2, 3), 3e38), kiln_zeros(dev, KILN_F32, KILN_SHAPE(4)),
                         kiln_parameter(kiln_arange(dev, KILN_F32, 0, 3, 1), "p")};
    kiln_tensor *out = NULL;
    kiln_function *f = way ? kiln_jit(layers, net, KILN_JIT(.capture = (kiln_capture)(way - 1))) : NULL;
    KILN_CHECK(f ? kiln_call(f, in, 3, &out, 1) : layers(net, in, 3, &out, 1));
    KILN_CHECK(kiln_backward(out, NULL));
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    kiln_cell_free(&net);
    kiln_device_close(&dev);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} programs[] = {{"leaves", leaves},
                {"leaves_after_reading", leaves_after_reading},
                {"leaves_after_clearing", leaves_after_clearing},
                {"leaves_in_a_thread", leaves_in_a_thread},
                {"two_errors", two_errors},
                {"checks", checks},
                {"returned", returned},
                {"tries", tries},
                {"opens", opens}};

// --- what they say

static char said[8192];

static int status_of(const char *environment, const char *program)
{
    char path[1024], command[2048];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(len > 0);
    path[len] = 0;
    snprintf(command, sizeof command, "%s '%s' %s 2>&1", environment, path, program);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    said[fread(said, 1, sizeof said - 1, f)] = 0;
    int ended = pclose(f);
    if (!WIFEXITED(ended)) fail_msg("%s %s ended with %#x and said \"%s\"", environment, program, ended, said);
    return WEXITSTATUS(ended);
}

static void run(const char *environment, const char *program, int want)
{
    int status = status_of(environment, program);
    if (status != want) fail_msg("%s %s ended with %d and said \"%s\"", environment, program, status, said);
}

// False: the program has no such device.
static bool try_run(const char *environment, const char *program)
{
    int status = status_of(environment, program);
    if (status && status != 77) fail_msg("%s %s ended with %d and said \"%s\"", environment, program, status, said);
    return !status;
}

static int times(const char *text)
{
    int n = 0;
    for (const char *at = said; (at = strstr(at, text)); at++) n++;
    return n;
}

static void says(const char *text)
{
    if (times(text) != 1) fail_msg("\"%s\" once expected in \"%s\"", text, said);
}

static void an_error_at_the_end_of_the_process(void **state)
{
    run("", "leaves", 0);
    says("kiln: the process ends with an error that nobody has read: matmul: a is NULL (told.c:20)");
    run("KILN_LOG=0", "leaves", 0);
    assert_string_equal(said, "");
    run("", "leaves_after_reading", 0);
    assert_string_equal(said, "");
    run("", "leaves_after_clearing", 0);
    assert_string_equal(said, "");
}

static void an_error_at_the_end_of_a_thread(void **state)
{
    run("", "leaves_in_a_thread", 0);
    says("kiln: a thread ends with an error that nobody has read: matmul: a is NULL");
    run("KILN_LOG=0", "leaves_in_a_thread", 0);
    assert_string_equal(said, "");
}

static void each_error_when_it_arises(void **state)
{
    run("KILN_DEBUG=errors", "two_errors", 0);
    says("kiln: error KILN_E_ARGUMENT: matmul: a is NULL (told.c:20)");
    says("kiln: error KILN_E_ARGUMENT: relu: x is NULL (told.c:");
    assert_int_equal(times("error KILN_E"), 2);
    run("KILN_DEBUG=errors KILN_LOG=0", "two_errors", 0);
    assert_string_equal(said, "");
}

static void macros_that_check(void **state)
{
    run("", "checks", 1);
    says("told.c:70: KILN_E_ARGUMENT: relu: x is NULL (told.c:70)");
    assert_int_equal(times("\n"), 1);
    run("", "returned", 3);
    says("told.c:76: KILN_E_ARGUMENT: matmul: a is NULL (told.c:20)");
    assert_int_equal(times("\n"), 1);
    run("", "tries", 4);
    assert_string_equal(said, "");
}

static void variables_that_mean_nothing(void **state)
{
    run("KILN_DEBGU=nan", "opens", 0);
    says("the environment has KILN_DEBGU, which means nothing; known are KILN_BLAS KILN_CACHE_DIR");
    run("KILN_JIT=off", "opens", 0);
    says("KILN_JIT: there is no \"off\"; known are 0 1");
    run("KILN_LAUNCH_BLOCKING=yes", "opens", 0);
    says("KILN_LAUNCH_BLOCKING: there is no \"yes\"; known are 0 1");
    run("KILN_WAIT_S=soon", "opens", 0);
    says("KILN_WAIT_S: \"soon\" is no number above 0; it is as if it were not set");
    run("KILN_JIT_RECOMPILES=-1", "opens", 0);
    says("KILN_JIT_RECOMPILES: \"-1\" is no number above 0");
    run("KILN_LOG=1 KILN_JIT=0 KILN_WAIT_S=3.5 KILN_JIT_RECOMPILES= KILN_TEST_OWN=1 KILN=1", "opens", 0);
    assert_string_equal(said, "");
}

// Each op is told once: what follows from it had no number to begin with, or only made it into another.
static void what_made_no_number(void **state)
{
    static const char *const devices[] = {"cpu", "vulkan"};
    for (int d = 0; d < 2; d++)
        for (int way = 0; way < 4; way++) {
            char program[40], line[200];
            snprintf(program, sizeof program, "watches %s %d", devices[d], way);
            if (!try_run("KILN_DEBUG=nan", program)) continue; // no such device
            snprintf(line, sizeof line,
                     "nan: log made 1 infinity in f32[3], the first at [0]; x f32[3] in [0, 2] (told.c:%d)", LOG_LINE);
            says(line);
            snprintf(line, sizeof line, "b f32[3,4] in [1, 1] (told.c:%d, in sequential.1 (dense 3 → 4))", CALL_LINE);
            says("matmul made 8 infinities in f32[2,4], the first at [0,0]; a f32[2,3] in [3e+38, 3e+38]; b");
            says(line);
            says(
                "mul made 8 NaN in f32[2,4], the first at [0,0]; a f32[2,4] without a finite number with 8 infinite; ");
            says("nan: log.grad0 made 1 infinity in f32[3], the first at [0]");
            snprintf(line, sizeof line, "(told.c:%d, in the backward)", LOG_LINE);
            if (!strstr(said, line)) fail_msg("%s: \"%s\" expected in \"%s\"", program, line, said);
        }
    run("", "watches cpu 1", 0);
    assert_string_equal(said, "");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_at_the_end_of_the_process), cmocka_unit_test(an_error_at_the_end_of_a_thread),
        cmocka_unit_test(each_error_when_it_arises),          cmocka_unit_test(macros_that_check),
        cmocka_unit_test(variables_that_mean_nothing),        cmocka_unit_test(what_made_no_number),
    };
    if (argc == 4 && !strcmp(argv[1], "watches")) return watches(argv[2], atoi(argv[3]));
    for (size_t i = 0; argc > 1 && i < sizeof programs / sizeof programs[0]; i++)
        if (!strcmp(argv[1], programs[i].name)) return programs[i].run();
    return argc > 1 ? 2 : cmocka_run_group_tests(tests, NULL, NULL);
}
