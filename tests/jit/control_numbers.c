// Numbers of the host in regions: each is asked for when the region runs, in the order in which eager mode asks.
#include "jit_cells.h"
#include <kiln/control.h>
#include <kiln/host.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

// What was asked, in order: which number, and how often it had been asked for before.
struct log {
    int n;
    struct {
        char who;
        int count;
    } v[256];
    int counts[128];
};

static struct log *heard;

static double tell(char who)
{
    struct log *l = heard;
    assert_true(l->n < 256);
    l->v[l->n].who = who;
    l->v[l->n++].count = l->counts[(int)who];
    return who == 'r' ? 0.1 / ++l->counts['r'] : ++l->counts[(int)who];
}

static double rate(void *user)
{
    (void)user;
    return tell('r');
}

static double other(void *user)
{
    (void)user;
    return tell('o');
}

static double after(void *user)
{
    (void)user;
    return tell('a');
}

REGION(scales)
{
    out[0] = kiln_mul(in[0], kiln_add(kiln_host_number(other, NULL), kiln_scalar(0.25)));
    return kiln_error();
}

REGION(leaves)
{
    out[0] = in[0];
    return kiln_error();
}

// In each trip a number, and in every branch that is taken another one.
REGION(trip)
{
    kiln_tensor *y = kiln_sub(in[1], kiln_mul(in[1], kiln_host_number(rate, NULL)));
    kiln_tensor *pred = kiln_greater(kiln_sum(y, NULL), kiln_scalar(4));
    return kiln_cond(pred, scales, leaves, NULL, &y, 1, out, 1);
}

REGION(trips_in_trips)
{
    kiln_tensor *y;
    TRY_(kiln_for(kiln_scalar_int(3), trip, NULL, in + 1, 1, NULL, &y, 1));
    out[0] = kiln_mul(y, kiln_host_number(other, NULL));
    return kiln_error();
}

REGION(is_small)
{
    out[0] = kiln_less(kiln_sum(in[0], NULL), kiln_mul(kiln_host_number(other, NULL), kiln_scalar(3)));
    return kiln_error();
}

REGION(grows)
{
    out[0] = kiln_add(kiln_mul(in[0], kiln_scalar(3)), kiln_host_number(rate, NULL));
    return kiln_error();
}

// Numbers before, in and behind of loops.
REGION(asks_everywhere)
{
    kiln_tensor *x = kiln_mul(in[0], kiln_host_number(after, NULL)), *y, *z;
    TRY_(kiln_for(kiln_scalar_int(2), trips_in_trips, NULL, &x, 1, NULL, &y, 1));
    y = kiln_add(y, kiln_host_number(after, NULL));
    kiln_tensor *start = kiln_abs(kiln_mul(y, kiln_scalar(0.01)));
    TRY_(kiln_while(is_small, grows, NULL, &start, 1, KILN_LOOP(.bound = 40), &z, 1));
    out[0] = kiln_div(y, kiln_host_number(after, NULL));
    out[1] = kiln_add(z, kiln_host_number(rate, NULL));
    return kiln_error();
}

static void each_is_asked_for_in_its_place(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        struct log logs[2] = {{0}};
        kiln_function *j = capture_in(cell, asks_everywhere, NULL);
        for (int t = 0; t < 3; t++) {
            kiln_tensor *x = vec(f, 3, 1.5, 2 + t, -0.25), *got[2], *want[2];
            heard = &logs[0];
            ok(asks_everywhere(NULL, &x, 1, want, 2));
            heard = &logs[1];
            ok(kiln_call(j, &x, 1, got, 2));
            for (int i = 0; i < 2; i++) same_or_say(cell, t, i ? "z" : "y", got[i], want[i]);

            assert_int_equal(logs[0].n, logs[1].n);
            assert_memory_equal(logs[0].v, logs[1].v, sizeof logs[0].v);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// --- gradients

REGION(trip_with_slope)
{
    out[0] = kiln_sin(kiln_mul(in[1], kiln_host_number(rate, NULL)));
    return kiln_error();
}

REGION(sum_of_trips)
{
    kiln_tensor *y;
    TRY_(kiln_for(kiln_scalar_int(3), trip_with_slope, NULL, in, 1, NULL, &y, 1));
    out[0] = kiln_sum(kiln_square(y), NULL);
    return kiln_error();
}

REGION(slope)
{
    return kiln_value_and_grad(sum_of_trips, NULL, in, 1, NULL, out, 2);
}

REGION(sum_of_slope)
{
    kiln_tensor *both[2];
    TRY_(kiln_value_and_grad(sum_of_trips, NULL, in, 1, KILN_GRAD(.create_graph = true), both, 2));
    out[0] = kiln_sum(kiln_square(both[1]), NULL);
    return kiln_error();
}

REGION(slope_of_slope)
{
    return kiln_value_and_grad(sum_of_slope, NULL, in, 1, NULL, out, 2);
}

// A gradient goes by the numbers that the trip got, and asks for no more. One of a gradient would have to.
static void gradients_ask_for_none(void **state)
{
    static const kiln_fn fns[] = {slope, slope_of_slope};
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++)
        for (enum cell cell = 0; cell < CELLS; cell++) {
            struct log logs[2] = {{0}};
            kiln_function *j = capture_in(cell, fns[i], NULL);
            for (int t = 0; t < 3; t++) {
                kiln_tensor *x = vec(f, 3, 1.5, 2 + t, -0.25), *got[2], *want[2];
                heard = &logs[0];
                ok(fns[i](NULL, &x, 1, want, 2));
                heard = &logs[1];
                if (i && cell != AUTO) {
                    fails(kiln_call(j, &x, 1, got, 2), KILN_E_UNSUPPORTED, "the host is not asked again");
                    break;
                }
                ok(kiln_call(j, &x, 1, got, 2));
                for (int k = 0; k < 2; k++) same_or_say(cell, t, k ? "slope" : "value", got[k], want[k]);
                assert_int_equal(logs[0].n, logs[1].n);
                assert_memory_equal(logs[0].v, logs[1].v, sizeof logs[0].v);
            }
            kiln_function_free(&j);
            ok(kiln_set_mode(KILN_MODE_EAGER));
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(each_is_asked_for_in_its_place),
        FIXTURE(gradients_ask_for_none),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
