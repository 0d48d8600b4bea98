// What trainings log: rows as means, CSV and JSON with odd names and numbers, files that others change or that cannot
// be written, loops that end when they should.
#include "fixture.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define QUIET .progress = "none"

static void expect_rows(const char *text)
{
    char *found = without_seconds(in_folder("log.csv"));
    assert_string_equal(found, text);
    free(found);
}

static void rows_are_means_of_steps(void **state)
{
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.steps = 5, .log_every = 2, QUIET));
    for (int i = 1; kiln_training_goes_on(t); i++) {
        kiln_training_log(t, "loss", i);
        if (i == 4) kiln_training_log_mean(t, "valid", 1, 3), kiln_training_log_mean(t, "valid", 5, 1);
        kiln_training_step(t);
    }
    no_error();
    assert_int_equal(kiln_training_steps(t), 5);
    int64_t steps[2];
    double values[2];
    assert_int_equal(kiln_training_history(t, "loss", steps, values, 2), 3);
    assert_true(steps[0] == 4 && steps[1] == 5 && values[0] == 3.5 && values[1] == 5);
    assert_int_equal(kiln_training_history(t, "none", NULL, NULL, 0), 0);
    expect_rows("step,epoch,loss,valid\n2,0,1.5,\n4,0,3.5,2\n5,0,5,\n");
    kiln_training_free(&t);
    assert_null(t);
    expect_rows("step,epoch,loss,valid\n2,0,1.5,\n4,0,3.5,2\n5,0,5,\n");
}

// The row of an epoch's end is that of its last step, and gets what is logged then.
static void epochs_end_rows(void **state)
{
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.epochs = 2, .log_every = 2, QUIET));
    int64_t seen = 0;
    while (kiln_training_epoch(t)) {
        assert_int_equal(kiln_training_epochs(t), seen++);
        for (int i = 0; i < 3 && kiln_training_goes_on(t); i++) {
            kiln_training_log(t, "a", i);
            kiln_training_step(t);
        }
        kiln_training_log(t, "b", seen);
    }
    no_error();
    assert_int_equal(kiln_training_epochs(t), 2);
    expect_rows("step,epoch,a,b\n2,1,0.5,\n3,1,2,1\n4,2,0,\n6,2,1.5,2\n");
    kiln_training_free(&t);
}

static void tensors_are_read_as_they_were(void **state)
{
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.log_every = 100, QUIET));
    kiln_scope *outer = kiln_scope_begin();
    kiln_tensor *x = kiln_zeros(dev, KILN_F32, KILN_SHAPE(1, 1));
    kiln_tensor *p = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE0), "p");
    double sum = 0;
    for (int i = 0; i < 100; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_assign(x, kiln_scalar(0.1 * i)); // the same memory at each step
        sum += (float)(0.1 * i);
        kiln_training_log_tensor(t, "f32", x);
        kiln_training_log_tensor(t, "grad", kiln_mul(p, x));
        kiln_training_log_tensor(t, "half", kiln_cast(x, KILN_BF16));
        kiln_training_log_tensor(t, "int", kiln_cast(kiln_scalar_int(i % 2), KILN_U8));
        kiln_training_log_tensor(t, "bool", kiln_greater(x, kiln_scalar(5)));
        // Dtypes may change on the way.
        kiln_training_log_tensor(t, "mixed", i % 2 ? kiln_cast(x, KILN_F64) : x);
        kiln_training_step(t);
        kiln_scope_end(&scope);
    }
    no_error();
    double v;
    const char *const exact[] = {"f32", "grad", "mixed"};
    for (size_t i = 0; i < COUNT_OF(exact); i++) {
        assert_int_equal(kiln_training_history(t, exact[i], NULL, &v, 1), 1);
        assert_true(v == sum / 100);
    }
    kiln_training_history(t, "half", NULL, &v, 1);
    assert_true(fabs(v - sum / 100) < 0.02 && v != sum / 100);
    kiln_training_history(t, "int", NULL, &v, 1);
    assert_true(v == 0.5);
    kiln_training_history(t, "bool", NULL, &v, 1);
    assert_true(v == 0.49);
    // Nothing of a step is kept alive by what was logged.
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_scope_end(&outer);
    kiln_device_get_stats(dev, &stats);
    assert_int_equal(stats.tensors, 0);
    kiln_training_log_tensor(t, "f32", kiln_zeros(dev, KILN_F32, KILN_SHAPE(2)));
    expect_error(KILN_E_SHAPE, "training_log_tensor: \"f32\" has 2 elements");
    kiln_training_log_tensor(t, "f32", kiln_cast(kiln_scalar(1), KILN_C64));
    expect_error(KILN_E_DTYPE, "\"f32\" is of c64");
    kiln_training_free(&t);
}

static void odd_names_and_numbers(void **state)
{
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.log_every = 1, QUIET));
    const double odd[] = {NAN, INFINITY, -INFINITY, 1e-300, 0.1};
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        kiln_training_log(t, "a, \"b\" \\ \xc3\xa9", odd[i]);
        kiln_training_step(t);
    }
    kiln_training_free(&t);
    no_error();
    expect_rows("step,epoch,\"a, \"\"b\"\" \\ \xc3\xa9\"\n1,0,nan\n2,0,inf\n3,0,-inf\n4,0,1e-300\n5,0,0.1\n");
    char *json = text_of(in_folder("log.jsonl"));
    assert_non_null(strstr(json, ",\"a, \\\"b\\\" \\\\ \xc3\xa9\":\"NaN\"}\n"));
    assert_non_null(strstr(json, ":\"Infinity\"}\n"));
    assert_non_null(strstr(json, ":\"-Infinity\"}\n"));
    assert_non_null(strstr(json, ":1e-300}\n"));
    free(json);
    // The library's own reader takes it back.
    kiln_table *table = kiln_csv_load(in_folder("log.csv"), NULL);
    assert_string_equal(kiln_table_name(table, 3), "a, \"b\" \\ \xc3\xa9");
    assert_int_equal(kiln_table_type(table, 3), KILN_COLUMN_FLOAT);
    assert_int_equal(kiln_table_rows(table), 5);
    kiln_table_free(&table);
    no_error();
}

// Columns that come late stand in the first line, and JSON has each row once.
static void late_columns(void **state)
{
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.log_every = 1, QUIET));
    for (int i = 0; i < 3; i++) {
        if (i) kiln_training_log(t, "late", i);
        kiln_training_log(t, "a", i);
        kiln_training_step(t);
    }
    kiln_training_free(&t);
    no_error();
    expect_rows("step,epoch,a,late\n1,0,0,\n2,0,1,1\n3,0,2,2\n");
    char *json = text_of(in_folder("log.jsonl"));
    int lines = 0;
    for (const char *at = json; (at = strchr(at, '\n')); at++) lines++;
    assert_int_equal(lines, 3);
    free(json);
}

// A process that is killed leaves the rows before its last one.
static void rows_are_in_the_file_at_once(void **state)
{
    pid_t child = fork();
    if (child == 0) {
        kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.log_every = 1, QUIET));
        for (int i = 0; i < 4; i++) {
            kiln_training_log(t, "a", i);
            kiln_training_step(t);
        }
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    expect_rows("step,epoch,a\n1,0,0\n2,0,1\n3,0,2\n");
}

static void folders_of_earlier_trainings(void **state)
{
    kiln_training *t = kiln_training_create(in_folder("a/b"), KILN_TRAINING(.log_every = 1, QUIET));
    kiln_training_log(t, "a", 1);
    kiln_training_step(t);
    kiln_training_free(&t);
    no_error();
    assert_null(kiln_training_create(in_folder("a/b"), KILN_TRAINING(QUIET)));
    expect_error(KILN_E_STATE, "holds an earlier training (log.csv); .resume goes on");
    t = kiln_training_create(in_folder("a/b"), KILN_TRAINING(.overwrite = true, QUIET));
    assert_non_null(t);
    assert_int_not_equal(access(in_folder("a/b/log.csv"), F_OK), 0);
    kiln_training_log(t, "b", 1);
    kiln_training_step(t);
    kiln_training_free(&t);
    char *text = without_seconds(in_folder("a/b/log.csv"));
    assert_string_equal(text, "step,epoch,b\n1,0,1\n"); // what is left at the end is a row
    free(text);
}

static void step_logging(kiln_training *t, double v)
{
    kiln_training_log(t, "a", v);
    kiln_training_step(t);
}

// A file that was removed or cut, or could not be written for a while, is whole in the end.
static void files_that_others_change(void **state)
{
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.log_every = 1, QUIET));
    for (int i = 0; i < 3; i++) step_logging(t, i);
    assert_int_equal(truncate(in_folder("log.csv"), 10), 0);
    assert_int_equal(unlink(in_folder("log.jsonl")), 0);
    step_logging(t, 3);
    kiln_training_free(&t);
    no_error();
    assert_int_equal(warnings, 0);
    expect_rows("step,epoch,a\n1,0,0\n2,0,1\n3,0,2\n4,0,3\n");
    char *json = text_of(in_folder("log.jsonl"));
    assert_memory_equal(json, "{\"step\":1,", 10);
    free(json);
}

static void set_file_limit(rlim_t most_B)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = most_B;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void full_disks_are_told_and_borne(void **state)
{
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.log_every = 1, QUIET));
    signal(SIGXFSZ, SIG_IGN);
    step_logging(t, 0);
    set_file_limit(40);
    for (int i = 1; i < 6; i++) step_logging(t, i);
    no_error();
    set_file_limit(RLIM_INFINITY);
    assert_int_equal(warnings, 2); // once a file
    if (!strstr(first_warning, "cannot be written: File too large; the training goes on"))
        fail_msg("%s", first_warning);
    kiln_training_free(&t);
    expect_rows("step,epoch,a\n1,0,0\n2,0,1\n3,0,2\n4,0,3\n5,0,4\n6,0,5\n");

    t = kiln_training_create(folder, KILN_TRAINING(.log_every = 1, .overwrite = true, .strict = true, QUIET));
    step_logging(t, 0);
    set_file_limit(10);
    step_logging(t, 1);
    expect_error(KILN_E_IO, "log.csv cannot be written: File too large");
    assert_int_equal(kiln_training_steps(t), 1);
    set_file_limit(RLIM_INFINITY);
    kiln_training_step(t); // what was logged before the error is in this step's row
    kiln_training_free(&t);
    no_error();
    expect_rows("step,epoch,a\n1,0,0\n2,0,1\n");
}

static void folders_that_cannot_be_made(void **state)
{
    FILE *f = fopen(in_folder("file"), "w");
    fclose(f);
    kiln_training *t = kiln_training_create(in_folder("file/run"), KILN_TRAINING(.log_every = 1, QUIET));
    assert_non_null(t);
    assert_int_equal(warnings, 1);
    for (int i = 0; i < 3; i++) step_logging(t, i);
    double v;
    assert_int_equal(kiln_training_history(t, "a", NULL, &v, 1), 3);
    no_error();
    kiln_training_free(&t);
    assert_null(kiln_training_create(in_folder("file/run"), KILN_TRAINING(.strict = true, QUIET)));
    expect_error(KILN_E_IO, "cannot be made: Not a directory");
}

static void loops_end(void **state)
{
    kiln_training *t = kiln_training_create(NULL, KILN_TRAINING(.epochs = 3, .steps = 4, QUIET));
    int64_t steps = 0, epochs = 0;
    for (; kiln_training_epoch(t); epochs++)
        for (int i = 0; i < 2 && kiln_training_goes_on(t); i++, steps++) kiln_training_step(t);
    assert_true(steps == 4 && epochs == 2); // all steps are done before the third
    kiln_training_free(&t);
    t = kiln_training_create(NULL, KILN_TRAINING(QUIET));
    for (steps = 0; kiln_training_goes_on(t); kiln_training_step(t))
        if (++steps == 7) kiln_training_stop(t);
    assert_int_equal(steps, 7);
    assert_false(kiln_training_epoch(t));
    kiln_training_free(&t);
    // An error ends them, too, and freeing writes what there is.
    t = kiln_training_create(folder, KILN_TRAINING(QUIET));
    for (steps = 0; kiln_training_goes_on(t); steps++) {
        kiln_training_log(t, "a", 1);
        if (steps == 12) kiln_matmul(NULL, NULL);
        kiln_training_step(t);
    }
    assert_int_equal(steps, 13);
    assert_int_equal(kiln_training_log(t, "a", 1), KILN_E_ARGUMENT);
    kiln_training_free(&t);
    assert_null(t);
    expect_error(KILN_E_ARGUMENT, "matmul");
    expect_rows("step,epoch,a\n10,0,1\n");
}

static void wrong_calls(void **state)
{
    assert_null(kiln_training_create(NULL, KILN_TRAINING(.epochs = -1)));
    expect_error(KILN_E_ARGUMENT, "training_create: .epochs is -1");
    assert_null(kiln_training_create(NULL, KILN_TRAINING(.log_every = -3)));
    expect_error(KILN_E_ARGUMENT, ".log_every is -3");
    assert_null(kiln_training_create("", NULL));
    expect_error(KILN_E_ARGUMENT, "the path is empty");
    assert_null(kiln_training_create(NULL, KILN_TRAINING(.progress = "loud")));
    expect_error(KILN_E_ARGUMENT, ".progress is \"loud\"");
    kiln_training *t = kiln_training_create(NULL, KILN_TRAINING(QUIET));
    char longer[200];
    memset(longer, 'x', sizeof longer);
    longer[101] = '\0';
    const struct {
        const char *name, *text;
    } names[] = {{NULL, "the name is NULL"},
                 {"", "the name is empty"},
                 {"step", "\"step\" is a column"},
                 {"a\nb", "control characters: \"a\\x0ab\""},
                 {"\xff", "no UTF-8"},
                 {longer, "longer than 100 bytes"}};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        kiln_training_log(t, names[i].name, 1);
        expect_error(KILN_E_ARGUMENT, names[i].text);
    }
    kiln_training_log_mean(t, "a", 1, 0);
    expect_error(KILN_E_ARGUMENT, "training_log_mean: the weight of \"a\" is 0");
    kiln_training_log_mean(t, "a", 1, NAN);
    expect_error(KILN_E_ARGUMENT, "is nan");
    kiln_training_log_tensor(t, "a", NULL);
    expect_error(KILN_E_ARGUMENT, "training_log_tensor: the tensor of \"a\" is NULL");
    assert_int_equal(kiln_training_history(t, "a", NULL, NULL, 0), 0);
    kiln_training *stale = t;
    kiln_training_free(&t);
    kiln_training_step(stale);
    expect_error(KILN_E_HANDLE, "training_step: the training was freed");
}

static kiln_status logs_inside(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(in[0], NULL);
    return kiln_training_log_tensor(user, "a", out[0]);
}

static void captures_do_not_log(void **state)
{
    kiln_training *t = kiln_training_create(NULL, KILN_TRAINING(QUIET));
    kiln_function *f = kiln_jit(logs_inside, t, NULL);
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), *y = NULL;
    kiln_call(f, &x, 1, &y, 1);
    expect_error(KILN_E_STATE, "\"a\" is not computed yet in a capture");
    kiln_function_free(&f);
    kiln_training_free(&t);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(rows_are_means_of_steps),
        TEST(epochs_end_rows),
        TEST(tensors_are_read_as_they_were),
        TEST(odd_names_and_numbers),
        TEST(late_columns),
        TEST(rows_are_in_the_file_at_once),
        TEST(folders_of_earlier_trainings),
        TEST(files_that_others_change),
        TEST(full_disks_are_told_and_borne),
        TEST(folders_that_cannot_be_made),
        TEST(loops_end),
        TEST(wrong_calls),
        TEST(captures_do_not_log),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
