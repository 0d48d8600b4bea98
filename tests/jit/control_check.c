// Gradients of control flow and of calls of the host beside central differences in f64, of the first and the second
// order: eagerly, of captured functions, and of functions that take the gradient inside of a capture.
#include "jit_cells.h"
#include <kiln/bundle.h>
#include <kiln/control.h>
#include <kiln/host.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

// Eagerly, then in each capture.
#define FIRST_WAY (-1)

static kiln_tensor *weight; // what the regions see beside what they are given

// Polynomials, which every device computes in f64.
REGION(bends)
{
    kiln_tensor *x = in[n_in - 1];
    out[0] = kiln_add(kiln_mul(kiln_square(x), weight), kiln_mul(x, kiln_scalar(0.5)));
    return kiln_error();
}

REGION(turns)
{
    kiln_tensor *x = in[n_in - 1];
    out[0] = kiln_sub(kiln_mul(weight, kiln_scalar(0.75)), kiln_mul(x, kiln_square(x)));
    return kiln_error();
}

REGION(is_low)
{
    out[0] = kiln_less(kiln_sum(in[0], NULL), kiln_scalar(1.5));
    return kiln_error();
}

REGION(is_wide)
{
    out[0] = kiln_greater(kiln_sum(kiln_square(in[0]), NULL), kiln_scalar(0.25));
    return kiln_error();
}

REGION(chooses)
{
    kiln_tensor *low;
    TRY_(is_low(NULL, in + n_in - 1, 1, &low, 1));
    return kiln_cond(low, bends, turns, NULL, in + n_in - 1, 1, out, 1);
}

REGION(switches)
{
    static const kiln_fn branches[] = {turns, bends, chooses};
    kiln_tensor *low;
    TRY_(is_low(NULL, in, 1, &low, 1));
    kiln_tensor *index = kiln_add(kiln_cast(low, KILN_I32), kiln_scalar_int(1));
    return kiln_switch(index, branches, 3, NULL, in, 1, out, 1);
}

REGION(shrinks)
{
    TRY_(bends(user, in, n_in, out, n_out));
    out[0] = kiln_mul(out[0], kiln_scalar(0.625));
    return kiln_error();
}

REGION(loops)
{
    return kiln_for(kiln_scalar_int(3), chooses, NULL, in, 1, NULL, out, 1);
}

REGION(counts)
{
    kiln_tensor *count = kiln_cast(kiln_mul(kiln_sum(kiln_stop_gradient(in[0]), NULL), kiln_scalar(3)), KILN_I64);
    return kiln_for(count, shrinks, NULL, in, 1, KILN_LOOP(.bound = 8), out, 1);
}

REGION(goes_on)
{
    return kiln_while(is_wide, shrinks, NULL, in, 1, KILN_LOOP(.bound = 12), out, 1);
}

REGION(takes_row)
{
    out[0] = kiln_add(kiln_mul(in[0], in[1]), weight);
    out[1] = kiln_mul(kiln_square(out[0]), in[1]);
    return kiln_error();
}

static kiln_status scan(kiln_tensor *x, bool reverse, kiln_tensor **out)
{
    kiln_tensor *all[] = {kiln_mul(weight, kiln_scalar(0.5)), x}, *y[2];
    TRY_(kiln_scan(takes_row, NULL, all, 2, KILN_SCAN(.carried = 1, .reverse = reverse), y, 2));
    out[0] = kiln_add(y[1], y[0]);
    return kiln_error();
}

REGION(scans)
{
    return scan(in[0], false, out);
}

REGION(scans_back)
{
    return scan(in[0], true, out);
}

REGION(inner)
{
    TRY_(kiln_for(kiln_scalar_int(2), chooses, NULL, in + n_in - 1, 1, NULL, out, 1));
    out[0] = kiln_mul(out[0], kiln_scalar(0.75));
    return kiln_error();
}

REGION(nests)
{
    return kiln_for(kiln_scalar_int(2), inner, NULL, in, 1, NULL, out, 1);
}

static kiln_tensor *memory;

REGION(writes_memory)
{
    return kiln_mul_(memory, weight);
}

REGION(writes)
{
    kiln_tensor *low;
    memory = kiln_square(in[0]);
    TRY_(is_low(NULL, in, 1, &low, 1));
    TRY_(kiln_cond(low, writes_memory, NULL, NULL, NULL, 0, NULL, 0));
    TRY_(kiln_for(kiln_scalar_int(2), writes_memory, NULL, NULL, 0, NULL, NULL, 0));
    out[0] = memory;
    return kiln_error();
}

static kiln_status cubes(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(in[0], kiln_square(in[0]));
    return kiln_error();
}

static kiln_status cube_slope(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                              kiln_tensor **din)
{
    din[0] = kiln_mul(dout[0], kiln_mul(kiln_scalar(3), kiln_square(in[0])));
    return kiln_error();
}

REGION(calls_host)
{
    const kiln_host_spec spec = {KILN_F64, 1, (const int64_t[]){3}};
    kiln_tensor *x = kiln_mul(in[n_in - 1], weight);
    return kiln_host_call(cubes, NULL, &x, 1, &spec, out, 1, KILN_HOST_READS, cube_slope);
}

static kiln_status cubes_bundle(void *user, kiln_bundle *in, kiln_bundle **out)
{
    kiln_tensor *x = kiln_bundle_tensor(in, "x"), *y = kiln_mul(x, kiln_square(x));
    *out = kiln_bundle_create();
    return kiln_bundle_append(*out, "y", KILN_TENSOR(y));
}

REGION(calls_host_by_bundle)
{
    kiln_bundle *given = kiln_bundle_create(), *made, *spec = kiln_bundle_create();
    kiln_bundle_append(given, "x", KILN_TENSOR(kiln_mul(in[n_in - 1], weight)));
    kiln_bundle_append(spec, "y", KILN_TENSOR(in[n_in - 1]));
    TRY_(kiln_bundle_host_call(cubes_bundle, NULL, given, spec, &made, KILN_HOST_READS, cube_slope));
    out[0] = kiln_bundle_tensor(made, "y");
    return kiln_error();
}

REGION(calls_in_loop)
{
    kiln_tensor *y;
    TRY_(kiln_for(kiln_scalar_int(2), calls_host, NULL, in, 1, NULL, &y, 1));
    return calls_host_by_bundle(NULL, &y, 1, out, 1);
}

static const struct form {
    const char *name;
    kiln_fn fn;
} forms[] = {
    {"cond", chooses},
    {"switch", switches},
    {"for", loops},
    {"for, by a count that is a value", counts},
    {"while", goes_on},
    {"scan", scans},
    {"scan back", scans_back},
    {"for in for, with cond", nests},
    {"written in regions", writes},
    {"calls of the host", calls_host},
    {"calls by bundles", calls_host_by_bundle},
    {"calls in a loop", calls_in_loop},
};
enum { FORMS = sizeof forms / sizeof *forms };

REGION(runs_form)
{
    const struct form *form = user;
    kiln_tensor *y;
    weight = in[1];
    TRY_(form->fn(NULL, in, 1, &y, 1));
    out[0] = kiln_sum(kiln_mul(kiln_square(y), kiln_scalar(0.5)), NULL);
    return kiln_error();
}

REGION(slope_of_form)
{
    kiln_tensor *d[2];
    TRY_(kiln_grad(runs_form, user, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1), .create_graph = true), d, 2));
    out[0] = kiln_add(kiln_sum(kiln_square(d[0]), NULL), kiln_square(d[1]));
    return kiln_error();
}

REGION(calls_captured)
{
    return kiln_call(user, in, n_in, out, n_out);
}

// Two points, so that conditions and numbers of trips are others.
static void check(struct fixture *f, const struct form *form, int cell, bool inside)
{
    for (int point = 0; point < 2; point++) {
        kiln_scope *s = kiln_scope_begin();
        kiln_fn fn = inside ? slope_of_form : runs_form;
        const double at[2][3] = {{0.4, -0.3, 0.6}, {0.7, 0.9, 0.5}};
        kiln_tensor *in[] = {kiln_from_data(f->dev, KILN_F64, KILN_SHAPE(3), at[point]),
                             kiln_full(f->dev, KILN_F64, KILN_SHAPE0, 0.8)};
        kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, fn, (void *)(uintptr_t)form);
        const kiln_gradcheck_opts *by = KILN_GRADCHECK(.order = inside ? 1 : 2, .eps = 1e-5, .atol = 1e-6);
        kiln_status status =
            j ? kiln_gradcheck(calls_captured, j, in, 2, by) : kiln_gradcheck(fn, (void *)(uintptr_t)form, in, 2, by);
        if (status)
            fail_msg("%s, %s, point %d%s: %s", form->name, cell < 0 ? "eager" : cell_names[cell], point,
                     inside ? ", inside" : "", kiln_error_message());
        kiln_function_free(&j);
        ok(kiln_set_mode(KILN_MODE_EAGER));
        kiln_scope_end(&s);
    }
}

static void gradients_are_those_of_differences(void **state)
{
    for (int i = 0; i < FORMS; i++)
        for (int cell = FIRST_WAY; cell < CELLS; cell++) check(*state, &forms[i], cell, false);
}

static void gradients_inside_of_captures_too(void **state)
{
    for (int i = 0; i < FORMS; i++)
        for (int cell = FIRST_WAY; cell < CELLS; cell++) check(*state, &forms[i], cell, true);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(gradients_are_those_of_differences),
        FIXTURE(gradients_inside_of_captures_too),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
