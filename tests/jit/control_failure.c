// A run that fails has done what stands before the op that fails, also in the midst of loops and branches, and has not
// called the host twice for that.
#include "jit_cells.h"
#include <kiln/control.h>
#include <kiln/host.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

// What the host has, of eager mode and of a captured function.
struct world {
    kiln_tensor *memory, *second; // states
    int calls, numbers;
    kiln_tensor *buffer; // that the host gives and writes again
};

static struct world *world;
static enum way { BY_ASSERTION, BY_INDEX, BY_MATRIX } way; // what fails

static double number(void *user)
{
    (void)user;
    return 0.5 * ++world->numbers;
}

// Gives the same memory each time.
REGION(doubles)
{
    world->calls++;
    TRY_(kiln_assign(world->buffer, kiln_mul(in[0], kiln_scalar(2))));
    TRY_(kiln_add_(world->buffer, kiln_scalar(world->calls)));
    out[0] = world->buffer;
    return kiln_error();
}

static kiln_tensor *doubled(kiln_tensor *x)
{
    const kiln_host_spec spec = {KILN_F32, 1, (const int64_t[]){2}};
    kiln_tensor *y = NULL;
    return kiln_host_call(doubles, NULL, &x, 1, &spec, &y, 1, KILN_HOST_READS, NULL) ? NULL : y;
}

// Fails where `place` is `limit`.
static kiln_tensor *check(kiln_tensor *x, kiln_tensor *place, kiln_tensor *limit)
{
    kiln_tensor *bad = kiln_greater_equal(place, limit);
    if (way == BY_ASSERTION) {
        if (kiln_assert(kiln_logical_not(bad), "{} is too much", place)) return NULL;
        return x;
    }
    if (way == BY_MATRIX) {
        kiln_tensor *one = kiln_cast(kiln_reshape(kiln_logical_not(bad), KILN_SHAPE(1, 1)), KILN_F32);
        return kiln_mul(x, kiln_reshape(kiln_inv(one), KILN_SHAPE(1)));
    }
    kiln_tensor *index = kiln_mul(kiln_cast(kiln_reshape(bad, KILN_SHAPE(1)), KILN_I64), kiln_scalar_int(7));
    return kiln_add(x, kiln_gather(x, 0, index));
}

REGION(adds_number)
{
    TRY_(kiln_add_(world->second, kiln_host_number(number, NULL)));
    out[0] = check(kiln_add(in[0], world->memory), in[1], in[2]);
    return kiln_error();
}

REGION(adds_call)
{
    TRY_(kiln_add_(world->memory, doubled(in[0])));
    out[0] = check(kiln_mul(in[0], kiln_scalar(0.5)), in[1], in[2]);
    TRY_(kiln_add_(world->memory, kiln_scalar(100)));
    return kiln_error();
}

// in: the trip, x, the place, the limit.
REGION(inner)
{
    kiln_tensor *pred = kiln_equal(kiln_remainder(in[2], kiln_scalar_int(2)), kiln_scalar_int(1));
    TRY_(kiln_mul_(world->second, kiln_scalar(1.25)));
    TRY_(kiln_cond(pred, adds_number, adds_call, NULL, in + 1, 3, out, 1));
    TRY_(kiln_add_(world->second, kiln_sum(out[0], NULL)));
    out[1] = kiln_add(in[2], kiln_scalar_int(1));
    out[2] = in[3];
    return kiln_error();
}

REGION(outer)
{
    kiln_tensor *x = doubled(in[1]), *from[] = {x, in[2], in[3]};
    TRY_(kiln_add_(world->memory, kiln_mul(x, kiln_host_number(number, NULL))));
    TRY_(kiln_for(kiln_scalar_int(2), inner, NULL, from, 3, NULL, out, 3));
    return kiln_sub_(world->memory, kiln_mul(out[0], kiln_scalar(0.125)));
}

REGION(goes_on)
{
    out[0] = kiln_less(in[1], kiln_scalar_int(9));
    return kiln_error();
}

REGION(step_on)
{
    kiln_tensor *args[] = {kiln_scalar_int(0), in[0], in[1], in[2]};
    return inner(NULL, args, 4, out, 3);
}

// in: x, the limit. Three trips of two trips, then trips up to nine, of which the bound allows two.
REGION(writes)
{
    kiln_tensor *y = doubled(in[0]), *from[] = {y, kiln_zeros_like(in[1]), in[1]}, *made[3], *last[3];
    TRY_(kiln_mul_(world->memory, y));
    TRY_(kiln_for(kiln_scalar_int(3), outer, NULL, from, 3, NULL, made, 3));
    TRY_(kiln_add_(world->second, kiln_scalar(1000)));
    TRY_(kiln_while(goes_on, step_on, NULL, made, 3, KILN_LOOP(.bound = 2), last, 3));
    TRY_(kiln_add_(world->second, kiln_scalar(2000)));
    out[0] = last[0];
    return kiln_error();
}

static void begin(struct fixture *f, struct world *w)
{
    *w = (struct world){.memory = vec(f, 2, 1., 2.), .second = vec(f, 2, 3., -1.), .buffer = vec(f, 2, 0., 0.)};
    ok(kiln_state(w->memory));
    ok(kiln_state(w->second));
}

static void run(struct fixture *f, enum cell cell)
{
    struct world eager, graph;
    begin(f, &eager);
    begin(f, &graph);
    world = &graph;
    kiln_function *j = capture_in(cell, writes, NULL);
    for (int t = 0; t < 12; t++) {
        kiln_tensor *in[] = {vec(f, 2, 0.5, -0.25 * t), kiln_full(f->dev, KILN_I64, KILN_SHAPE0, (t * 5) % 12)};
        kiln_tensor *got = NULL, *want = NULL;
        world = &eager;
        kiln_status expected = writes(NULL, in, 2, &want, 1);
        kiln_error_clear();
        assert_int_not_equal(expected, KILN_OK);
        world = &graph;
        kiln_status status = kiln_call(j, in, 2, &got, 1);
        if (status != expected) print_error("%s, call %d: %s\n", cell_names[cell], t, kiln_error_message());
        assert_int_equal(status, expected);
        kiln_error_clear();
        same_or_say(cell, t, "memory", graph.memory, eager.memory);
        same_or_say(cell, t, "second", graph.second, eager.second);
        assert_int_equal(graph.calls, eager.calls);
        assert_int_equal(graph.numbers, eager.numbers);
        ok(kiln_assign(graph.memory, vec(f, 2, 1., 2.))); // what differs in the last digit stays small
        ok(kiln_assign(eager.memory, vec(f, 2, 1., 2.)));
        ok(kiln_assign(graph.second, vec(f, 2, 1., 2.)));
        ok(kiln_assign(eager.second, vec(f, 2, 1., 2.)));
    }
    kiln_function_free(&j);
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static void what_stands_before_has_happened(void **state)
{
    for (enum cell cell = 0; cell < CELLS; cell++) {
        for (way = BY_ASSERTION; way <= BY_MATRIX; way++)
            if (way != BY_INDEX || !strcmp(jit_device, "cpu")) run(*state, cell); // on a GPU such an index reads 0
    }
}

// --- memory that shows its elements several times

static kiln_status fails_always(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return KILN_E_IO;
}

REGION(writes_then_fails)
{
    TRY_(kiln_assign(kiln_narrow(in[0], 0, 0, 1), kiln_full(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(1), 7)));
    TRY_(kiln_host_call(fails_always, NULL, NULL, 0, NULL, NULL, 0, KILN_HOST_IO, NULL));
    out[0] = kiln_sum(in[0], NULL);
    return kiln_error();
}

static void repeated_memory_is_written(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, writes_then_fails, NULL);
        for (int t = 0; t < 2; t++) {
            kiln_tensor *base = vec(f, 3, 1., 2., 3.), *y;
            kiln_tensor *x = kiln_as_strided(base, KILN_SHAPE(3), KILN_SHAPE(0), 1);
            fails(kiln_call(j, &x, 1, &y, 1), KILN_E_IO, "fn failed with KILN_E_IO");
            expect(base, 3, 1., 7., 3.);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(what_stands_before_has_happened),
        FIXTURE(repeated_memory_is_written),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
