// What cannot be written as ONNX: all of it is listed, with lines, and the file that was there stays as it was.
#include "../jit/jit_fixture.h"
#include <kiln/control.h>
#include <kiln/host.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

extern char **environ;

static const char *program = "kiln-run";
static int lines[6];
static kiln_tensor *state_of_test;

static const char *model_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "refused_%d.onnx", (int)getpid());
    return path;
}

static void put_old(void)
{
    FILE *f = fopen(model_path(), "wb");
    fputs("old", f);
    fclose(f);
}

static void old_is_there(void)
{
    char text[8] = "";
    FILE *f = fopen(model_path(), "rb");
    assert_non_null(f);
    assert_int_equal(fread(text, 1, sizeof text, f), 3);
    fclose(f);
    assert_string_equal(text, "old");
    unlink(model_path());
}

FN(triple)
{
    out[0] = kiln_mul(in[0], kiln_scalar(3));
    return kiln_error();
}

// Five things that ONNX has not, and one that is not needed.
FN(with_misfits)
{
    const kiln_host_spec spec = {KILN_F32, 1, (const int64_t[]){3}};
    kiln_tensor *x = in[0], *y = NULL;
    lines[0] = __LINE__ + 1;
    x = kiln_dropout(x, 0.5);
    lines[1] = __LINE__ + 1;
    x = kiln_cumprod(x, 0);
    lines[2] = __LINE__ + 1;
    kiln_status status = kiln_host_call(triple, NULL, &x, 1, &spec, &y, 1, KILN_HOST_PURE, NULL);
    lines[3] = __LINE__ + 1;
    kiln_tensor *sign = kiln_cast(kiln_signbit(in[0]), KILN_F32);
    lines[4] = __LINE__ + 1;
    kiln_add_(state_of_test, in[0]);
    lines[5] = __LINE__ + 1;
    kiln_cummax(in[0], 0);
    out[0] = status ? NULL : kiln_add(y, sign);
    return kiln_error();
}

static void all_are_listed(void **state)
{
    struct fixture *f = *state;
    static const char *const what[] = {"dropout", "cumprod", "host_value", "signbit", "running", "cummax"};
    kiln_tensor *x = vec(f, 3, 1, 2, 3);
    state_of_test = kiln_parameter(vec(f, 3, 0, 0, 0), "running");
    ok(kiln_set_requires_grad(state_of_test, false));
    ok(kiln_state(state_of_test));
    put_old();
    kiln_function *j = kiln_jit(with_misfits, NULL, NULL);
    assert_int_equal(kiln_graph_export(j, &x, 1, 1, model_path(), NULL), KILN_E_UNSUPPORTED);
    for (int i = 0; i < 6; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s at refused.c:%d", what[i], lines[i]);
        if (!strstr(kiln_error_message(), text) != (i == 5)) print_error("%s: %s\n", text, kiln_error_message());
        assert_true(!strstr(kiln_error_message(), text) == (i == 5)); // the last is not needed
    }
    kiln_error_clear();
    kiln_function_free(&j);
    old_is_there();
}

// A model that is added and then saved: the lines are known there, too.
FN(of_cumprod)
{
    lines[0] = __LINE__ + 1;
    out[0] = kiln_cumprod(in[0], 0);
    return kiln_error();
}

static void a_model_that_is_saved(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 3, 1, 2, 3);
    kiln_function *j = kiln_jit(of_cumprod, NULL, NULL), *k = kiln_jit(triple, NULL, NULL);
    kiln_model *m = kiln_model_create();
    char text[64];
    put_old();
    ok(kiln_model_add(m, "one", j, &x, 1, 1, NULL));
    snprintf(text, sizeof text, "cumprod at refused.c:%d, ONNX has no such op", lines[0]);
    fails(kiln_model_save(m, model_path()), KILN_E_UNSUPPORTED, text);
    ok(kiln_model_add(m, "two", k, &x, 1, 1, NULL));
    fails(kiln_model_save(m, model_path()), KILN_E_UNSUPPORTED, "holds one function, the model has 2");
    kiln_model_free(&m);
    kiln_function_free(&j);
    kiln_function_free(&k);
    old_is_there();
}

FN(of_number)
{
    out[0] = kiln_mul(in[0], kiln_scalar(kiln_item(in[1])));
    return kiln_error();
}

FN(trains)
{
    kiln_tensor *loss = kiln_sum(kiln_mul(in[0], state_of_test), NULL);
    if (kiln_backward(loss, NULL)) return kiln_error();
    out[0] = loss;
    return kiln_error();
}

static void names_numbers_and_gradients(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 3, 1, 2, 3), kiln_scalar(2)};
    const char *names[] = {"x"}, *pair[] = {"x", "times"};
    kiln_function *j = kiln_jit(triple, NULL, NULL);
    fails(kiln_graph_export(j, in, 1, 1, model_path(), KILN_MODEL_ADD(.inputs = names, .outputs = names)),
          KILN_E_ARGUMENT, "output 0 and an input are both named \"x\"");
    fails(kiln_graph_export(j, in, 1, 1, "no/such/folder/f.onnx", NULL), KILN_E_MISSING, "no/such/folder");
    kiln_function_free(&j);
    j = kiln_jit(of_number, NULL, NULL);
    fails(kiln_graph_export(j, in, 2, 1, model_path(), KILN_MODEL_ADD(.inputs = pair)), KILN_E_UNSUPPORTED,
          "times, a number whose value the function reads");
    kiln_function_free(&j);
    state_of_test = kiln_parameter(vec(f, 3, 1, 1, 1), "weight");
    j = kiln_jit(trains, NULL, NULL);
    fails(kiln_graph_export(j, in, 1, 1, model_path(), NULL), KILN_E_UNSUPPORTED,
          "kiln_backward, gradients that it leaves are no outputs");
    kiln_function_free(&j);
    assert_int_not_equal(access(model_path(), F_OK), 0);
}

// A disk that is full: no part of a file, and the one before as it was.
FN(of_weight)
{
    out[0] = kiln_add(in[0], kiln_sum(state_of_test, NULL));
    return kiln_error();
}

static void a_full_disk(void **state)
{
    struct fixture *f = *state;
    struct rlimit old, small;
    kiln_tensor *x = vec(f, 3, 1, 2, 3);
    state_of_test = kiln_parameter(kiln_ones(f->dev, KILN_F32, KILN_SHAPE(1 << 20)), "large");
    kiln_function *j = kiln_jit(of_weight, NULL, NULL);
    put_old();
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){1 << 20, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    kiln_status status = kiln_graph_export(j, &x, 1, 1, model_path(), NULL);
    setrlimit(RLIMIT_FSIZE, &old);
    fails(status, KILN_E_IO, model_path());
    old_is_there();
    kiln_function_free(&j);
}

static void kiln_run_runs_it(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 3, 1, 2, 3);
    kiln_function *j = kiln_jit(triple, NULL, NULL);
    ok(kiln_graph_export(j, &x, 1, 1, model_path(), NULL));
    kiln_function_free(&j);
    ok(kiln_npy_save("refused_x.npy", x));
    const char *const argv[] = {program,    model_path(),         "--input",  "in0=refused_x.npy",
                                "--output", "out0=refused_y.npy", "--device", "cpu",
                                NULL};
    pid_t child;
    int how = -1;
    assert_int_equal(posix_spawn(&child, program, NULL, NULL, (char *const *)(uintptr_t)argv, environ), 0);
    waitpid(child, &how, 0);
    assert_int_equal(how, 0);
    kiln_tensor *y = kiln_npy_load(f->dev, "refused_y.npy");
    expect(y, 3, 3., 6., 9.);
    unlink(model_path());
    unlink("refused_x.npy");
    unlink("refused_y.npy");
}

int main(int argc, char **argv)
{
    if (argc > 1) program = argv[1];
    const struct CMUnitTest tests[] = {FIXTURE(all_are_listed), FIXTURE(a_model_that_is_saved),
                                       FIXTURE(names_numbers_and_gradients), FIXTURE(a_full_disk),
                                       FIXTURE(kiln_run_runs_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
