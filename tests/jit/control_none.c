// Scans of no rows: what is stacked has the same type in all modes, and the body has no effect.
#include "jit_cells.h"
#include <kiln/control.h>
#include <kiln/host.h>
#include <stdio.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

// --- types

static kiln_tensor *parameter; // f32[3]

REGION(tells)
{
    out[0] = kiln_add(kiln_mul(in[0], kiln_scalar(0.5)), kiln_mul(kiln_dropout(in[0], 0.5), parameter));
    out[1] = kiln_mul(kiln_reshape(in[0], KILN_SHAPE(3, 1)), in[1]);
    out[2] = kiln_cast(in[1], KILN_I32);
    out[3] = kiln_sum(in[0], NULL);
    out[4] = kiln_scalar(2);
    return kiln_error();
}

REGION(scans)
{
    return kiln_scan(tells, NULL, in, 2, KILN_SCAN(.carried = 1, .reverse = user != NULL), out, 5);
}

// A scan of no rows in a scan of no rows, in a branch.
REGION(in_branch)
{
    return kiln_cond(kiln_less(kiln_sum(in[0], NULL), kiln_scalar(100)), scans, scans, user, in, 2, out, 5);
}

REGION(nested_row)
{
    kiln_tensor *all[] = {in[0], kiln_reshape(in[1], KILN_SHAPE(1, 2))};
    return in_branch(NULL, all, 2, out, 5);
}

REGION(nested)
{
    return kiln_scan(nested_row, NULL, in, 2, KILN_SCAN(.carried = 1), out, 5);
}

static void same_type(enum cell cell, size_t i, kiln_tensor *got, kiln_tensor *want)
{
    bool same = kiln_tensor_dtype(got) == kiln_tensor_dtype(want) && kiln_rank(got) == kiln_rank(want) &&
                !memcmp(kiln_dims(got), kiln_dims(want), sizeof(int64_t) * (size_t)kiln_rank(want));
    if (!same) print_error("%s: output %zu has another type\n", cell_names[cell], i);
    assert_true(same);
    assert_ptr_equal(kiln_tensor_device(got), kiln_tensor_device(want));
}

static void make_parameter(struct fixture *f)
{
    parameter = vec(f, 3, 0.25, 0.5, 0.75);
    ok(kiln_set_requires_grad(parameter, true));
}

static void types_are_those_of_graphs(void **state)
{
    static const kiln_fn fns[] = {scans, in_branch, nested};
    struct fixture *f = *state;
    make_parameter(f);
    kiln_tensor *in[] = {vec(f, 3, 1, 2, 3), kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(0, 2))}, *want[5], *got[5];
    for (int k = 0; k < 3; k++) {
        ok(kiln_set_mode(KILN_MODE_EAGER));
        ok(fns[k](NULL, in, 2, want, 5));
        assert_true(equal(want[0], in[0]));
        for (enum cell cell = 0; cell < CELLS; cell++) {
            kiln_function *j = capture_in(cell, fns[k], NULL);
            for (int call = 0; call < 2; call++) {
                ok(kiln_call(j, in, 2, got, 5));
                assert_true(equal(got[0], in[0]));
                for (size_t i = 0; i < 5; i++) same_type(cell, i, got[i], want[i]);
            }
            kiln_function_free(&j);
        }
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
    ok(scans(f, in, 2, got, 5));
    const int64_t all[] = {0, 3, 2};
    assert_int_equal(kiln_rank(got[1]), 3);
    assert_memory_equal(kiln_dims(got[1]), all, sizeof all);
    assert_int_equal(kiln_tensor_dtype(got[2]), KILN_I32);
}

// --- gradients

REGION(loss)
{
    kiln_tensor *y[5];
    TRY_(scans(NULL, in, 2, y, 5));
    out[0] = kiln_add(kiln_sum(kiln_mul(y[0], y[0]), NULL), kiln_sum(y[1], NULL));
    return kiln_error();
}

REGION(slope)
{
    return kiln_value_and_grad(loss, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, 3);
}

static void gradients_are_those_of_what_is_carried(void **state)
{
    struct fixture *f = *state;
    make_parameter(f);
    kiln_tensor *in[] = {vec(f, 3, 1, 2, 3), kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(0, 2))}, *want[3], *got[3];
    ok(kiln_set_mode(KILN_MODE_EAGER));
    ok(slope(NULL, in, 2, want, 3));
    assert_true(equal(want[1], kiln_mul(in[0], kiln_scalar(2))));
    assert_int_equal(kiln_dims(want[2])[0], 0);
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, slope, NULL);
        ok(kiln_call(j, in, 2, got, 3));
        for (int i = 0; i < 3; i++) same_or_say(cell, i, "a gradient", got[i], want[i]);
        kiln_function_free(&j);
    }
}

// --- effects

struct outside {
    kiln_tensor *plain, *state, *written;
    FILE *file;
    int calls;
};

static kiln_status calls(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    ((struct outside *)user)->calls++;
    out[0] = kiln_add(in[0], kiln_scalar(1));
    return kiln_error();
}

REGION(has_effects)
{
    struct outside *o = user;
    const int64_t three[] = {3};
    kiln_host_spec spec = {.dtype = KILN_F32, .rank = 1, .dims = three};
    kiln_tensor *y;
    kiln_print(in[0], o->file);
    TRY_(kiln_assign(o->written, in[0]));
    TRY_(kiln_assign(o->state, in[0]));
    TRY_(kiln_host_call(calls, o, in, 1, &spec, &y, 1, 0, NULL));
    TRY_(kiln_assert(kiln_less(kiln_sum(in[0], NULL), kiln_scalar(-100)), "never {}", in[0]));
    out[0] = kiln_add(kiln_mul(y, o->plain), kiln_normal(NULL, KILN_F32, KILN_SHAPE(3), 0, 1));
    out[1] = kiln_add(o->written, o->state);
    return kiln_error();
}

static void the_body_has_no_effect(void **state)
{
    struct fixture *f = *state;
    struct outside o = {vec(f, 3, 1, 1, 1), vec(f, 3, 5, 6, 7), vec(f, 3, 7, 8, 9), tmpfile(), 0};
    uint64_t seed, before, after;
    kiln_tensor *in[] = {vec(f, 3, 1, 2, 3), kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(0, 2))}, *y[2], *z[2];
    assert_non_null(o.file);
    ok(kiln_state(o.state));
    ok(kiln_set_mode(KILN_MODE_EAGER));
    ok(kiln_rng_state(f->dev, &seed, &before));
    ok(kiln_scan(has_effects, &o, in, 2, KILN_SCAN(.carried = 1), y, 2));
    ok(kiln_rng_state(f->dev, &seed, &after));
    assert_int_equal(after - before, 1); // a scan takes one number
    assert_int_equal(kiln_rank(y[1]), 2);
    assert_int_equal(kiln_dims(y[1])[1], 3);
    assert_true(equal(o.written, vec(f, 3, 7., 8., 9.)));
    assert_true(equal(o.state, vec(f, 3, 5., 6., 7.)));
    assert_int_equal(o.calls, 0);
    assert_int_equal(ftell(o.file), 0);
    ok(kiln_scan(has_effects, &o, y, 1, KILN_SCAN(.carried = 1), z, 2)); // .length 0
    assert_int_equal(kiln_dims(z[1])[0], 0);
    fclose(o.file);
}

// --- what cannot be known without a trip

REGION(reads)
{
    out[0] = in[0];
    out[1] = kiln_item(kiln_sum(in[0], NULL)) > 0 ? in[0] : kiln_sum(in[0], NULL);
    return kiln_error();
}

static void errors_are_those_of_the_body(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 3, 1, 2, 3), kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(0, 2))}, *y[2];
    ok(kiln_set_mode(KILN_MODE_EAGER));
    assert_int_not_equal(kiln_scan(reads, NULL, in, 2, KILN_SCAN(.carried = 1), y, 2), KILN_OK);
    assert_int_equal(kiln_error(), KILN_E_STATE);
    assert_null(y[0]);
    assert_non_null(strstr(kiln_error_message(),
                           "scan: no trip tells what is stacked, nor does the body without values: "
                           "item: the value depends on an input of scan"));
    kiln_error_clear();
    ok(kiln_error());
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(types_are_those_of_graphs),
        FIXTURE(gradients_are_those_of_what_is_carried),
        FIXTURE(the_body_has_no_effect),
        FIXTURE(errors_are_those_of_the_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
