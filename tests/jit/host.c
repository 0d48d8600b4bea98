// Prints, assertions and calls of the host: in graphs they happen as they do eagerly, in that order, also where a later
// op fails.
#include "jit_cells.h"
#include <kiln/control.h>
#include <kiln/host.h>
#include <stdio.h>
#include <unistd.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

// --- what is printed

static FILE *file;

REGION(prints_trip)
{
    kiln_print(in[1], file);
    out[0] = kiln_add(kiln_mul(in[1], kiln_scalar(0.5)), kiln_scalar(1));
    return kiln_error();
}

REGION(prints_branch)
{
    kiln_print(kiln_neg(in[0]), file);
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

REGION(prints_other)
{
    kiln_print(in[0], file);
    out[0] = in[0];
    return kiln_error();
}

REGION(prints_in_nest)
{
    kiln_tensor *pred = kiln_greater(kiln_sum(in[1], NULL), kiln_scalar(4)), *y;
    TRY_(kiln_cond(pred, prints_branch, prints_other, NULL, in + 1, 1, &y, 1));
    return kiln_for(kiln_scalar_int(2), prints_trip, NULL, &y, 1, NULL, out, 1);
}

REGION(prints_while_small)
{
    kiln_print(in[0], file);
    out[0] = kiln_less(kiln_sum(in[0], NULL), kiln_scalar(20));
    return kiln_error();
}

REGION(prints_and_grows)
{
    out[0] = kiln_mul(in[0], kiln_scalar(1.5));
    kiln_print(kiln_sub(out[0], in[0]), file);
    return kiln_error();
}

REGION(prints_row)
{
    kiln_print(in[1], file);
    out[0] = kiln_add(in[0], in[1]);
    out[1] = kiln_mul(in[0], in[1]);
    kiln_print(out[1], file);
    return kiln_error();
}

// A while that prints in its condition, a switch, a scan back.
REGION(prints_in_all)
{
    static const kiln_fn branches[] = {prints_other, prints_branch, prints_other};
    kiln_tensor *y[2], *rows;
    TRY_(kiln_while(prints_while_small, prints_and_grows, NULL, in, 1, KILN_LOOP(.bound = 20), y, 1));
    TRY_(kiln_switch(kiln_cast(kiln_greater(kiln_sum(y[0], NULL), kiln_scalar(0)), KILN_I64), branches, 3, NULL, y, 1,
                     y + 1, 1));
    rows = kiln_stack((kiln_tensor *[]){y[0], in[0], y[1]}, 3, 0);
    return kiln_scan(prints_row, NULL, (kiln_tensor *[]){in[0], rows}, 2, KILN_SCAN(.carried = 1, .reverse = true), out,
                     2);
}

static char *text_of_all(struct fixture *f, kiln_function *j, double first)
{
    kiln_tensor *x = vec(f, 2, first, 2.), *y[2];
    rewind(file);
    assert_int_equal(ftruncate(fileno(file), 0), 0);
    ok(j ? kiln_call(j, &x, 1, y, 2) : prints_in_all(NULL, &x, 1, y, 2));
    for (int i = 0; i < 2; i++) kiln_print(y[i], file);
    char *text = calloc(1, 4096);
    rewind(file);
    assert_true(fread(text, 1, 4095, file) < 4095);
    return text;
}

static void prints_stand_in_every_construct(void **state)
{
    struct fixture *f = *state;
    file = tmpfile();
    assert_non_null(file);
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, prints_in_all, NULL);
        for (int i = 0; i < 4; i++) {
            ok(kiln_set_mode(KILN_MODE_EAGER));
            char *want = text_of_all(f, NULL, 1 + 3 * i);
            ok(kiln_set_mode(cell == GRAPH ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
            char *got = text_of_all(f, j, 1 + 3 * i);
            if (strcmp(got, want)) fail_msg("%s, call %d:\n%s--- not\n%s", cell_names[cell], i, got, want);
            free(want);
            free(got);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
    fclose(file);
}

// What kiln_debug_print says comes to stdout.
REGION(says_trip)
{
    kiln_debug_print("trip {}: {} and {}", in[0], in[1], kiln_neg(in[1]));
    out[0] = kiln_add(in[1], kiln_scalar(1));
    return kiln_error();
}

REGION(says_all)
{
    kiln_debug_print("begin");
    TRY_(kiln_for(kiln_scalar_int(3), says_trip, NULL, in, 1, NULL, out, 1));
    return kiln_debug_print("end with {}", out[0]);
}

static char *said(kiln_function *j, kiln_tensor *x)
{
    kiln_tensor *y;
    char *text = calloc(1, 1024);
    FILE *to = tmpfile();
    assert_non_null(to);
    fflush(stdout);
    int before = dup(STDOUT_FILENO);
    dup2(fileno(to), STDOUT_FILENO);
    kiln_status status = j ? kiln_call(j, &x, 1, &y, 1) : says_all(NULL, &x, 1, &y, 1);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    ok(status);
    rewind(to);
    assert_true(fread(text, 1, 1023, to) < 1023);
    fclose(to);
    return text;
}

static void what_is_said_in_loops(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++) {
        kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, says_all, NULL);
        for (int t = 0; t < 3; t++) {
            char *text = said(j, vec(f, 2, 1., 2.));
            assert_string_equal(text, "begin\ntrip 0: [1. 2.] and [-1. -2.]\ntrip 1: [2. 3.] and [-2. -3.]\n"
                                      "trip 2: [3. 4.] and [-3. -4.]\nend with [4. 5.]\n");
            free(text);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// The last op fails where the index is out of range; what stands behind it is not printed.
REGION(prints_everywhere)
{
    kiln_tensor *y, *z;
    kiln_print(in[0], file);
    TRY_(kiln_for(kiln_scalar_int(3), prints_in_nest, NULL, in, 1, NULL, &y, 1));
    z = kiln_gather(kiln_mul(y, y), 0, in[1]);
    kiln_print(y, file);
    out[0] = kiln_gather(z, 0, in[2]);
    kiln_print(out[0], file);
    return kiln_error();
}

// A capture keeps the file that it was given: one for all calls.
static char *text_of(struct fixture *f, kiln_function *j, int first, int second)
{
    kiln_tensor *y, *in[] = {vec(f, 2, 1., 2.), kiln_full(f->dev, KILN_I64, KILN_SHAPE(2), first),
                             kiln_full(f->dev, KILN_I64, KILN_SHAPE(2), second)};
    rewind(file);
    assert_int_equal(ftruncate(fileno(file), 0), 0);
    kiln_status status = j ? kiln_call(j, in, 3, &y, 1) : prints_everywhere(NULL, in, 3, &y, 1);
    fprintf(file, "%s\n", kiln_status_name(status));
    kiln_error_clear();
    char *text = calloc(1, 4096);
    rewind(file);
    assert_true(fread(text, 1, 4095, file) < 4095);
    return text;
}

static void prints_stand_in_their_place(void **state)
{
    struct fixture *f = *state;
    static const int indices[][2] = {{1, 1}, {1, 7}, {7, 1}, {0, 0}};
    file = tmpfile();
    assert_non_null(file);
    bool checks = !strcmp(jit_device, "cpu"); // on a GPU an index out of range reads 0
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, prints_everywhere, NULL);
        for (int i = 0; i < (checks ? 4 : 1); i++) {
            ok(kiln_set_mode(KILN_MODE_EAGER));
            char *want = text_of(f, NULL, indices[i][0], indices[i][1]);
            ok(kiln_set_mode(cell == GRAPH ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
            char *got = text_of(f, j, indices[i][0], indices[i][1]);
            if (strcmp(got, want)) fail_msg("%s, call %d:\n%s--- not\n%s", cell_names[cell], i, got, want);
            free(want);
            free(got);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
    fclose(file);
}

// --- assertions

REGION(asserts_trip)
{
    kiln_assert(kiln_less(in[1], kiln_scalar(4)), "x is {} of {}", in[1], in[0]);
    out[0] = kiln_mul(in[1], kiln_scalar(2));
    return kiln_error();
}

static kiln_tensor *counted;

REGION(asserts_in_loop)
{
    TRY_(kiln_assign(counted, kiln_add(counted, kiln_scalar(1))));
    TRY_(kiln_for(kiln_scalar_int(4), asserts_trip, NULL, in, 1, NULL, out, 1));
    return kiln_assign(counted, kiln_add(counted, kiln_scalar(1)));
}

static void assertions_name_line_values_and_trip(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++) {
        counted = vec(f, 1, 0.);
        ok(kiln_state(counted));
        kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, asserts_in_loop, NULL);
        for (int t = 0; t < 4; t++) {
            kiln_tensor *x = vec(f, 2, 0.125, t % 2 ? 0.125 : 1.), *y;
            kiln_status status = j ? kiln_call(j, &x, 1, &y, 1) : asserts_in_loop(NULL, &x, 1, &y, 1);
            if (t % 2) {
                assert_int_equal(status, KILN_OK);
                continue;
            }
            assert_int_equal(status, KILN_E_ASSERT);
            const char *message = kiln_error_message();
            if (!strstr(message, "host.c:") || !strstr(message, "in trip 2 of its loop: x is [0.5 4. ] of 2"))
                fail_msg("%s", message);
            kiln_error_clear();
        }
        assert_true(kiln_item(counted) == 6); // what stands before an assertion that fails has happened
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// --- calls

static int n_calls;

static kiln_status doubles(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    n_calls++;
    out[0] = kiln_mul(in[0], kiln_scalar(*(double *)user));
    return kiln_error();
}

static kiln_status doubled_slope(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                                 kiln_tensor **din)
{
    din[0] = kiln_mul(dout[0], kiln_scalar(*(double *)user));
    return kiln_error();
}

static double factor = 3;

static kiln_tensor *called(kiln_tensor *x, unsigned flags)
{
    kiln_tensor *y = NULL;
    const int64_t dims[] = {3};
    const kiln_host_spec spec = {KILN_F32, 1, dims};
    return kiln_host_call(doubles, &factor, &x, 1, &spec, &y, 1, flags, doubled_slope) ? NULL : y;
}

REGION(calls_host)
{
    out[0] = kiln_sin(called(kiln_mul(in[0], in[0]), KILN_HOST_READS));
    return kiln_error();
}

REGION(calls_in_trip)
{
    out[0] = kiln_mul(called(kiln_sin(in[1]), KILN_HOST_READS), kiln_scalar(0.5));
    return kiln_error();
}

REGION(calls_in_loop)
{
    return kiln_for(kiln_scalar_int(3), calls_in_trip, NULL, in, 1, NULL, out, 1);
}

static kiln_fn differentiated;

REGION(sum_of_squares)
{
    kiln_tensor *y;
    TRY_(differentiated(NULL, in, 1, &y, 1));
    out[0] = kiln_sum(kiln_square(y), NULL);
    return kiln_error();
}

REGION(slope)
{
    return kiln_value_and_grad(sum_of_squares, NULL, in, 1, NULL, out, 2);
}

REGION(sum_of_slope)
{
    kiln_tensor *d[2];
    TRY_(kiln_value_and_grad(sum_of_squares, NULL, in, 1, KILN_GRAD(.create_graph = true), d, 2));
    out[0] = kiln_sum(kiln_square(d[1]), NULL);
    return kiln_error();
}

REGION(second_slope)
{
    return kiln_value_and_grad(sum_of_slope, NULL, in, 1, NULL, out, 2);
}

static void calls_give_values_and_gradients(void **state)
{
    struct fixture *f = *state;
    static const kiln_fn functions[] = {calls_host, calls_in_loop}, ways[] = {slope, second_slope};
    kiln_tensor *x = vec(f, 3, 0.25, -0.5, 0.75), *want[2], *got[2];
    for (int k = 0; k < 4; k++) {
        differentiated = functions[k / 2];
        ok(ways[k % 2](NULL, &x, 1, want, 2));
        for (enum cell cell = 0; cell < CELLS; cell++) {
            kiln_function *j = capture_in(cell, ways[k % 2], NULL);
            for (int t = 0; t < 2; t++) {
                ok(kiln_call(j, &x, 1, got, 2));
                for (int i = 0; i < 2; i++) same_or_say(cell, t, "a call of the host", got[i], want[i]);
            }
            kiln_function_free(&j);
        }
        ok(kiln_set_mode(KILN_MODE_EAGER));
    }
}

static void calls_are_made_at_each_run(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 3, 0.25, -0.5, 0.75), *y;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, calls_in_loop, NULL);
        n_calls = 0;
        for (int t = 0; t < 4; t++) ok(kiln_call(j, &x, 1, &y, 1));
        assert_int_equal(n_calls, 12);
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Pure, and of constants: called once; not used: not called.
REGION(calls_of_constants)
{
    kiln_tensor *c = kiln_from_data(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(3), (float[]){1, 2, 3});
    out[0] = kiln_add(in[0], called(c, KILN_HOST_PURE));
    called(in[0], KILN_HOST_PURE);
    return kiln_error();
}

static void pure_calls_are_folded_and_dropped(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 3, 1., 1., 1.), *y;
    kiln_function *j = kiln_jit(calls_of_constants, NULL, NULL);
    n_calls = 0;
    for (int t = 0; t < 3; t++) ok(kiln_call(j, &x, 1, &y, 1));
    assert_int_equal(n_calls, 1);
    same(y, vec(f, 3, 4., 7., 10.));
    kiln_function_free(&j);
}

// --- undeclared results

static kiln_status counts_up(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    n_calls++;
    out[0] = kiln_add(in[0], in[1]);
    return kiln_error();
}

REGION(calls_undeclared)
{
    kiln_tensor *y;
    TRY_(kiln_host_call(counts_up, NULL, in, 2, NULL, &y, 1, KILN_HOST_IO, NULL));
    out[0] = kiln_abs(y);
    return kiln_error();
}

static void what_is_not_declared_is_f64(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++) {
        kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, calls_undeclared, NULL);
        kiln_tensor *in[] = {kiln_full(f->dev, KILN_I32, KILN_SHAPE0, -1),
                             kiln_full(f->dev, KILN_F32, KILN_SHAPE0, -1)},
                    *y;
        for (int t = 0; t < 2; t++) {
            ok(j ? kiln_call(j, in, 2, &y, 1) : calls_undeclared(NULL, in, 2, &y, 1));
            assert_int_equal(kiln_tensor_dtype(y), KILN_F64);
            assert_true(kiln_item(y) == 2);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// --- writes

static kiln_status fills(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_assign(in[0], kiln_scalar(7));
}

REGION(writes_input)
{
    unsigned flags = *(unsigned *)user;
    kiln_tensor *row = kiln_select(in[0], 0, 1);
    TRY_(kiln_host_call(fills, NULL, &row, 1, NULL, NULL, 0, flags, NULL));
    out[0] = kiln_sum(in[0], NULL);
    return kiln_error();
}

static void inputs_are_written_where_it_is_said(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++)
        for (int k = 0; k < 2; k++) {
            unsigned flags = k ? KILN_HOST_WRITES : KILN_HOST_IO;
            kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, writes_input, &flags);
            kiln_tensor *x = mat(f, 2, 2, 1., 2., 3., 4.), *y;
            kiln_status status = j ? kiln_call(j, &x, 1, &y, 1) : writes_input(&flags, &x, 1, &y, 1);
            if (k) {
                ok(status);
                assert_true(kiln_item(y) == 17);
                same(x, mat(f, 2, 2, 1., 2., 7., 7.));
            } else {
                assert_int_equal(status, KILN_E_ARGUMENT);
                if (!strstr(kiln_error_message(), "KILN_HOST_WRITES is not given"))
                    fail_msg("%s", kiln_error_message());
                kiln_error_clear();
            }
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Parts of one memory that are written before and behind the call, in place.
static kiln_status doubles_in_place(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_mul_(in[0], kiln_scalar(2));
}

REGION(writes_parts)
{
    kiln_tensor *five = kiln_full(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(2), 5);
    kiln_tensor *middle = kiln_narrow(in[0], 0, 1, 3);
    TRY_(kiln_assign(kiln_narrow(middle, 0, 0, 2), five));
    TRY_(kiln_host_call(doubles_in_place, NULL, &middle, 1, NULL, NULL, 0, KILN_HOST_WRITES, NULL));
    TRY_(kiln_add_(kiln_narrow(in[0], 0, 3, 2), kiln_scalar(1)));
    out[0] = kiln_sum(in[0], NULL);
    return kiln_error();
}

static void parts_are_written_around_it(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++) {
        kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, writes_parts, NULL);
        for (int t = 0; t < 2; t++) {
            kiln_tensor *x = vec(f, 6, 0., 1., 2., 3., 4., 6.), *y;
            ok(j ? kiln_call(j, &x, 1, &y, 1) : writes_parts(NULL, &x, 1, &y, 1));
            expect(x, 6, 0., 10., 10., 7., 5., 6.);
            assert_true(kiln_item(y) == 38);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// --- what a call keeps is its own

static kiln_tensor *kept[8];
static int n_kept;

static kiln_status keeps(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    if (n_kept < 8) kept[n_kept++] = kiln_own(kiln_narrow(in[0], 0, 1, 2));
    return kiln_error();
}

REGION(is_kept_in_trip)
{
    TRY_(kiln_host_call(keeps, NULL, in + 1, 1, NULL, NULL, 0, KILN_HOST_IO, NULL));
    out[0] = kiln_mul(in[1], kiln_scalar(2));
    return kiln_error();
}

REGION(is_kept)
{
    kiln_tensor *temporary = kiln_add(in[0], kiln_scalar(1));
    return kiln_for(kiln_scalar_int(3), is_kept_in_trip, NULL, &temporary, 1, NULL, out, 1);
}

// Views that outlive the run, the program, and what was computed where they lay.
static void views_are_kept(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++) {
        kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, is_kept, NULL);
        n_kept = 0;
        for (int t = 0; t < 2; t++) {
            kiln_tensor *x = vec(f, 3, 1., 2., 3. + t), *y;
            ok(j ? kiln_call(j, &x, 1, &y, 1) : is_kept(NULL, &x, 1, &y, 1));
        }
        kiln_function_free(&j);
        ok(kiln_set_mode(KILN_MODE_EAGER));
        for (int i = 0; i < 20; i++) kiln_full(f->dev, KILN_F32, KILN_SHAPE(3), -1);
        assert_int_equal(n_kept, 6);
        for (int t = 0; t < 2; t++)
            for (int i = 0; i < 3; i++) expect(kept[3 * t + i], 2, 3. * (1 << i), (4. + t) * (1 << i));
        for (int i = 0; i < n_kept; i++) kiln_free(&kept[i]);
    }
}

// --- an AUTO function may be called by the function that it calls, as in C

static kiln_function *recursive;
static int depth;

static kiln_status calls_back(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    if (depth++ < 2) return kiln_call(recursive, in, 1, out, 1);
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

REGION(is_called_back)
{
    const kiln_host_spec spec = {KILN_F32, 1, (const int64_t[]){2}};
    kiln_tensor *x = kiln_add(in[0], kiln_scalar(1)), *y;
    TRY_(kiln_host_call(calls_back, NULL, &x, 1, &spec, &y, 1, KILN_HOST_IO, NULL));
    out[0] = kiln_mul(y, kiln_scalar(2));
    return kiln_error();
}

static void auto_functions_are_called_back(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1., 2.), *y;
    recursive = capture_in(AUTO, is_called_back, NULL);
    for (int t = 0; t < 4; t++) {
        depth = 0;
        ok(kiln_call(recursive, &x, 1, &y, 1));
        expect(y, 2, -32., -40.); // three times: one more, and twice that
    }
    kiln_function_free(&recursive);
}

// --- any dtype and layout goes in and out

static kiln_status passes_on(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const int64_t *dims = user;
    for (size_t i = 0; i < n_in; i++) {
        bool alike = kiln_rank(in[i]) == (size_t)dims[0] && kiln_tensor_dtype(in[i]) == kiln_tensor_dtype(in[0]);
        for (size_t k = 0; k < kiln_rank(in[i]) && alike; k++) alike = kiln_dims(in[i])[k] == dims[k + 1];
        if (!alike) return KILN_E_SHAPE;
        out[i] = kiln_contiguous(in[i]);
    }
    return kiln_error();
}

REGION(passes_layouts)
{
    static const int64_t turned[] = {2, 3, 2}, row[] = {1, 2}, shown[] = {2, 4, 2}, none[] = {2, 0, 2}, one[] = {0};
    static const int64_t *const shapes[] = {turned, row, shown, none, one};
    kiln_tensor *views[] = {kiln_transpose(in[0], 0, 1), kiln_select(in[0], 1, 1),
                            kiln_broadcast_to(kiln_select(in[0], 1, 2), KILN_SHAPE(4, 2)),
                            kiln_reshape(kiln_narrow(in[0], 1, 0, 0), KILN_SHAPE(0, 2)),
                            kiln_select(kiln_select(in[0], 0, 1), 0, 0)};
    for (int i = 0; i < 5; i++) {
        const kiln_host_spec spec = {kiln_tensor_dtype(in[0]), (size_t)shapes[i][0], shapes[i] + 1};
        void *dims = (void *)(uintptr_t)shapes[i];
        TRY_(kiln_host_call(passes_on, dims, &views[i], 1, &spec, &out[i], 1, KILN_HOST_READS, NULL));
    }
    return kiln_error();
}

static void any_dtype_and_layout(void **state)
{
    struct fixture *f = *state;
    for (kiln_dtype d = 0; d <= KILN_F64; d++) {
        kiln_tensor *x = kiln_cast(mat(f, 2, 3, 0., 1., 2., 3., 4., 5.), d), *y[5];
        for (int cell = -1; cell < CELLS; cell++) {
            kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, passes_layouts, NULL);
            for (int t = 0; t < 2; t++) {
                ok(j ? kiln_call(j, &x, 1, y, 5) : passes_layouts(NULL, &x, 1, y, 5));
                for (int i = 0; i < 5; i++) assert_int_equal(kiln_tensor_dtype(y[i]), d);
                if (d == KILN_BOOL) continue;
                expect(kiln_reshape(y[0], KILN_SHAPE(6)), 6, 0., 3., 1., 4., 2., 5.);
                expect(y[1], 2, 1., 4.);
                expect(kiln_reshape(y[2], KILN_SHAPE(8)), 8, 2., 5., 2., 5., 2., 5., 2., 5.);
                assert_int_equal(kiln_numel(y[3]), 0);
                expect(y[4], 1, 3.);
            }
            kiln_function_free(&j);
        }
        ok(kiln_set_mode(KILN_MODE_EAGER));
    }
}

REGION(fills_on_the_way)
{
    kiln_tensor *y = kiln_mul(in[0], kiln_scalar(3)), *row = kiln_select(y, 0, 1);
    TRY_(kiln_host_call(fills, NULL, &row, 1, NULL, NULL, 0, KILN_HOST_WRITES, NULL));
    out[0] = kiln_sum(kiln_mul(y, in[0]), NULL);
    return kiln_error();
}

REGION(slope_of_filled)
{
    return kiln_grad(fills_on_the_way, user, in, n_in, NULL, out, n_out);
}

// 3 x * x where nothing is written, 7 x where 7 is.
static void no_gradient_goes_through_what_is_written(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++) {
        kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, slope_of_filled, NULL);
        kiln_tensor *x = mat(f, 2, 2, 1., 2., 3., 4.), *y;
        ok(j ? kiln_call(j, &x, 1, &y, 1) : slope_of_filled(NULL, &x, 1, &y, 1));
        same(y, mat(f, 2, 2, 6., 12., 7., 7.));
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

REGION(fills_the_other)
{
    TRY_(kiln_host_call(fills, NULL, (kiln_tensor **)&in[1], 1, NULL, NULL, 0, KILN_HOST_WRITES, NULL));
    out[0] = kiln_sum(kiln_mul(in[0], kiln_scalar(3)), NULL);
    return kiln_error();
}

REGION(slope_beside_filled)
{
    return kiln_value_and_grad(fills_the_other, user, in, n_in, KILN_GRAD(.wrt = KILN_ARGS(0)), out, n_out);
}

// The input that is written is not differentiated by, and shows the memory of the one that is.
static void no_gradient_goes_through_what_another_wrote(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++) {
        kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, slope_beside_filled, NULL);
        kiln_tensor *x = mat(f, 2, 2, 1., 2., 3., 4.), *row = kiln_select(x, 0, 1);
        for (int part = 0; part < 2; part++) {
            kiln_tensor *in[] = {part ? row : x, part ? row : x}, *y[2];
            ok(j ? kiln_call(j, in, 2, y, 2) : slope_beside_filled(NULL, in, 2, y, 2));
            assert_true(kiln_item(y[0]) == (part ? 42 : 84));
            assert_true(kiln_item(kiln_max(kiln_abs(y[1]), NULL)) == 0);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// --- what has effects is called once

static int n_halved;

static kiln_status halves(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    n_halved++;
    out[0] = kiln_mul(in[0], kiln_scalar(0.5));
    return kiln_error();
}

static kiln_status halves_back(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                               kiln_tensor **din)
{
    din[0] = kiln_mul(dout[0], kiln_scalar(0.5));
    return kiln_error();
}

static kiln_status host_half(kiln_tensor *x, unsigned flags, kiln_tensor **y)
{
    static const int64_t dims[] = {2};
    const kiln_host_spec spec = {KILN_F32, 1, dims};
    return kiln_host_call(halves, NULL, &x, 1, &spec, y, 1, flags, halves_back);
}

REGION(cube_of_half)
{
    kiln_tensor *y;
    TRY_(host_half(in[0], *(const unsigned *)user, &y));
    out[0] = kiln_sum(kiln_mul(y, kiln_square(y)), NULL);
    return kiln_error();
}

REGION(half_in_a_loop)
{
    return host_half(in[n_in - 1], *(const unsigned *)user, out);
}

REGION(cube_of_quarter)
{
    kiln_tensor *y;
    TRY_(kiln_for(kiln_scalar_int(2), half_in_a_loop, user, in, 1, NULL, &y, 1));
    out[0] = kiln_sum(kiln_mul(y, kiln_square(y)), NULL);
    return kiln_error();
}

static kiln_fn cube;
static bool keeps_tape;

REGION(slope_of_cube)
{
    kiln_tensor *d;
    TRY_(kiln_grad(cube, user, in, 1, KILN_GRAD(.create_graph = keeps_tape), &d, 1));
    out[0] = kiln_sum(d, NULL);
    return kiln_error();
}

REGION(curvature_of_cube)
{
    return kiln_grad(slope_of_cube, user, in, 1, NULL, out, 1);
}

// First gradients need no second call. Gradients of gradients do in a graph: what only reads is called again, what
// does more is an error.
static void effects_happen_once(void **state)
{
    struct fixture *f = *state;
    static unsigned flags[] = {KILN_HOST_READS, KILN_HOST_IO};
    static const kiln_fn orders[] = {slope_of_cube, curvature_of_cube};
    for (int k = 0; k < 8; k++)
        for (int cell = -1; cell < CELLS; cell++) {
            bool io = k % 2, second = k / 2 % 2, loop = k / 4;
            kiln_fn fn = orders[second];
            keeps_tape = second;
            cube = loop ? cube_of_quarter : cube_of_half;
            kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, fn, &flags[io]);
            kiln_tensor *x = vec(f, 2, 1., 2.), *y;
            bool refused = cell >= 0 && cell != AUTO && io && second && loop; // by its region
            kiln_status status = j ? kiln_call(j, &x, 1, &y, 1) : fn(&flags[io], &x, 1, &y, 1);
            if (refused)
                fails(status, KILN_E_UNSUPPORTED, "the host is not asked again");
            else
                ok(status);
            n_halved = 0;
            if (j && !refused) ok(kiln_call(j, &x, 1, &y, 1));
            if (j && io && !refused) assert_int_equal(n_halved, 1 + loop);
            double c = loop ? 1. / 64 : 1. / 8;
            if (!refused && second) expect(y, 2, 6 * c, 12 * c);
            if (!second) assert_true(fabs(kiln_item(y) - 15 * c) < 1e-6);
            kiln_function_free(&j);
            ok(kiln_set_mode(KILN_MODE_EAGER));
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(prints_stand_in_their_place),
        FIXTURE(assertions_name_line_values_and_trip),
        FIXTURE(calls_give_values_and_gradients),
        FIXTURE(calls_are_made_at_each_run),
        FIXTURE(pure_calls_are_folded_and_dropped),
        FIXTURE(what_is_not_declared_is_f64),
        FIXTURE(inputs_are_written_where_it_is_said),
        FIXTURE(prints_stand_in_every_construct),
        FIXTURE(what_is_said_in_loops),
        FIXTURE(views_are_kept),
        FIXTURE(auto_functions_are_called_back),
        FIXTURE(any_dtype_and_layout),
        FIXTURE(no_gradient_goes_through_what_is_written),
        FIXTURE(no_gradient_goes_through_what_another_wrote),
        FIXTURE(effects_happen_once),
        FIXTURE(parts_are_written_around_it),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
