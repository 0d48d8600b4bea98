// Inputs, parameters and states that lie in one memory: in every kind of capture a call does what it does eagerly, to
// the memory that it is given and to none around it.
#include "jit_cells.h"

enum { LENGTH = 48, CALLS = 6 };

// The inputs of call t, all of them in `memory`.
typedef size_t place_fn(kiln_tensor *memory, int t, kiln_tensor **in);

static kiln_tensor *memory_of(struct fixture *f, int rows, bool parameter)
{
    float v[LENGTH];
    for (int i = 0; i < LENGTH; i++) v[i] = (float)(i * i % 17) - 5;
    kiln_tensor *t = kiln_from_data(f->dev, KILN_F32, KILN_SHAPE(rows, LENGTH / rows), v);
    return parameter ? kiln_parameter(t, "memory") : t;
}

// Calls on views of one tensor, in every cell, beside the same calls of the function itself on another one. At most
// `captures` are made.
static void agree(struct fixture *f, kiln_fn fn, place_fn *place, int rows, uint64_t captures)
{
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, fn, NULL);
        kiln_tensor *a = memory_of(f, rows, false), *b = memory_of(f, rows, false);
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *in[4], *got = NULL, *want = NULL;
            size_t n = place(a, t, in);
            ok(kiln_call(j, in, n, &got, 1));
            n = place(b, t, in);
            ok(fn(NULL, in, n, &want, 1));
            same_or_say(cell, t, "the result", got, want);
            same_or_say(cell, t, "the memory", a, b);
        }
        if (cell < AUTO && stats_of(j).captures > captures)
            print_error("%s: %d captures\n", cell_names[cell], (int)stats_of(j).captures);
        assert_true(cell == AUTO || stats_of(j).captures <= captures);
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static kiln_tensor *row(kiln_tensor *t, int64_t i)
{
    return kiln_select(t, 0, i);
}

static kiln_tensor *part(kiln_tensor *t, int64_t from, int64_t to)
{
    return kiln_narrow(kiln_reshape(t, KILN_SHAPE(-1)), 0, from, to - from);
}

static size_t next_rows(kiln_tensor *memory, int t, kiln_tensor **in)
{
    in[0] = row(memory, t);
    in[1] = row(memory, t + 1);
    return 2;
}

static size_t windows(kiln_tensor *memory, int t, kiln_tensor **in)
{
    in[0] = part(memory, 3 * t, 3 * t + 8);
    in[1] = part(memory, 3 * t + 4, 3 * t + 12);
    return 2;
}

static size_t next_columns(kiln_tensor *memory, int t, kiln_tensor **in)
{
    in[0] = kiln_select(memory, 1, t % 5);
    in[1] = kiln_select(memory, 1, t % 5 + 1);
    return 2;
}

static size_t now_and_then_the_same(kiln_tensor *memory, int t, kiln_tensor **in)
{
    in[0] = row(memory, 1);
    in[1] = row(memory, t % 3);
    return 2;
}

static size_t whole_and_row(kiln_tensor *memory, int t, kiln_tensor **in)
{
    in[0] = memory;
    in[1] = row(memory, t);
    return 2;
}

// Together in one call, apart in the next.
static size_t coming_closer(kiln_tensor *memory, int t, kiln_tensor **in)
{
    in[0] = part(memory, 20, 28);
    in[1] = part(memory, 28 - 2 * t, 36 - 2 * t);
    return 2;
}

static size_t three(kiln_tensor *memory, int t, kiln_tensor **in)
{
    in[0] = part(memory, t, t + 8);
    in[1] = part(memory, t + 7, t + 15);
    in[2] = part(memory, t + 14 + t % 2, t + 22 + t % 2);
    return 3;
}

static kiln_status difference(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sub(kiln_mul(in[1], kiln_scalar(3)), in[0]);
    for (size_t i = 2; i < n_in; i++) out[0] = kiln_add(out[0], in[i]);
    return kiln_error();
}

static kiln_status write_first(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *doubled = kiln_mul(in[0], kiln_scalar(2));
    TRY_(kiln_assign(in[0], kiln_add(doubled, kiln_scalar(1))));
    out[0] = kiln_sub(in[1], doubled);
    for (size_t i = 2; i < n_in; i++) out[0] = kiln_add(out[0], in[i]);
    return kiln_error();
}

static kiln_status write_all(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    for (size_t i = n_in; i-- > 0;) kiln_add_(in[i], kiln_scalar((double)i + 1));
    out[0] = kiln_sum(in[0], NULL);
    return kiln_mul_(in[1], kiln_scalar(2)) ? kiln_error() : KILN_OK;
}

static kiln_status add_row(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], kiln_mul(in[1], kiln_scalar(2)));
    return kiln_error();
}

static kiln_status write_row(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_add_(in[1], kiln_scalar(1));
    out[0] = kiln_add(in[0], in[1]);
    kiln_mul_(in[0], kiln_scalar(2));
    return kiln_error();
}

static void the_rows_of_one_tensor(void **state)
{
    agree(*state, difference, next_rows, 8, 1);
    agree(*state, write_first, next_rows, 8, 1);
    agree(*state, write_all, next_rows, 8, 1);
}

static void windows_that_overlap(void **state)
{
    agree(*state, difference, windows, 8, 1);
    agree(*state, write_first, windows, 8, 1);
    agree(*state, write_all, windows, 8, 1);
}

static void columns_of_one_tensor(void **state)
{
    agree(*state, difference, next_columns, 8, 1);
    agree(*state, write_first, next_columns, 8, 1);
    agree(*state, write_all, next_columns, 8, 1);
}

static void one_row_twice_and_two_rows(void **state)
{
    agree(*state, difference, now_and_then_the_same, 8, 2);
    agree(*state, write_first, now_and_then_the_same, 8, 2);
    agree(*state, write_all, now_and_then_the_same, 8, 2);
}

static void a_tensor_and_a_row_of_it(void **state)
{
    agree(*state, add_row, whole_and_row, 8, 1);
    agree(*state, write_row, whole_and_row, 8, CALLS);
}

static void memory_that_overlaps_in_some_calls(void **state)
{
    agree(*state, difference, coming_closer, 8, 1);
    agree(*state, write_first, coming_closer, 8, CALLS);
    agree(*state, write_all, coming_closer, 8, CALLS);
    agree(*state, difference, three, 8, 1);
    agree(*state, write_first, three, 8, 2);
    agree(*state, write_all, three, 8, 2);
}

// A program that was made for parts of a large tensor meets a small one, with neighbours on both sides.
static void a_small_tensor_after_a_large_one(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, write_first, NULL);
        kiln_tensor *large = kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(1000, 8)), *small[9], *out = NULL;
        kiln_tensor *in[] = {kiln_narrow(large, 0, 500, 1), kiln_narrow(large, 0, 501, 1)};
        ok(kiln_call(j, in, 2, &out, 1));
        for (int i = 0; i < 9; i++) small[i] = kiln_full(f->dev, KILN_F32, KILN_SHAPE(1, 8), i);
        in[0] = in[1] = small[4];
        ok(kiln_call(j, in, 2, &out, 1));
        expect(out, 8, 1., 1., 1., 1., 1., 1., 1., 1.);
        for (int i = 0; i < 9; i++) {
            double v = i == 4 ? 9 : i;
            expect(small[i], 8, v, v, v, v, v, v, v, v);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// What a call gives lies where the call's inputs lie.
static kiln_status give_parts(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_add_(in[0], kiln_scalar(1));
    out[0] = kiln_narrow(in[1], 0, 1, 2);
    return kiln_error();
}

static void results_in_the_callers_memory(void **state)
{
    struct fixture *f = *state;
    place_fn *const places[] = {next_rows, windows, now_and_then_the_same, whole_and_row, coming_closer};
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            kiln_function *j = capture_in(cell, give_parts, NULL);
            kiln_tensor *a = memory_of(f, 8, false), *b = memory_of(f, 8, false);
            for (int t = 0; t < CALLS; t++) {
                kiln_tensor *in[4], *got = NULL, *want = NULL;
                size_t n = places[p](a, t, in);
                ok(kiln_call(j, in, n, &got, 1));
                kiln_add_(got, kiln_scalar(100));
                n = places[p](b, t, in);
                ok(give_parts(NULL, in, n, &want, 1));
                kiln_add_(want, kiln_scalar(100));
                same_or_say(cell, t, "the memory", a, b);
            }
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// A place by its number in the memory.
static kiln_status third_of_all(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    static const int64_t dims[] = {2}, strides[] = {1};
    out[0] = kiln_add(kiln_as_strided(in[0], 1, dims, 1, strides, 10), kiln_scalar(0));
    return kiln_error();
}

static size_t around_ten(kiln_tensor *memory, int t, kiln_tensor **in)
{
    in[0] = part(memory, 6 - t % 3, 16 - t % 3);
    return 1;
}

static void places_by_number(void **state)
{
    agree(*state, third_of_all, around_ten, 8, 3);
}

static kiln_status ask(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], kiln_scalar(kiln_is_view_of(in[0], in[1]) ? 1 : 2));
    return kiln_error();
}

static void functions_may_ask_who_shares(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, ask, NULL);
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *a = memory_of(f, 8, false), *in[] = {row(a, 1), row(t % 2 ? a : memory_of(f, 8, false), 2)};
            kiln_tensor *got = NULL, *want = NULL;
            ok(kiln_call(j, in, 2, &got, 1));
            ok(ask(NULL, in, 2, &want, 1));
            same_or_say(cell, t, "the result", got, want);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// States, and inputs that lie in them

struct states {
    kiln_tensor *whole, *a, *b;
    bool write, keep_whole;
};

static struct states make_states(struct fixture *f, int64_t from_b, bool write)
{
    struct states s = {.whole = memory_of(f, 8, false), .write = write};
    s.a = part(s.whole, 4, 12);
    s.b = part(s.whole, from_b, from_b + 8);
    ok(kiln_state(s.a));
    ok(kiln_state(s.b));
    return s;
}

static kiln_status use_states(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct states *s = user;
    kiln_tensor *before = kiln_add(s->a, in[0]);
    if (s->write) {
        kiln_add_(s->a, in[0]);
        kiln_mul_(s->b, kiln_scalar(2));
        kiln_add_(s->a, kiln_scalar(1));
    }
    out[0] = kiln_add(kiln_sub(s->a, kiln_mul(s->b, kiln_scalar(3))), before);
    return kiln_error();
}

static void states_that_share_memory(void **state)
{
    struct fixture *f = *state;
    static const int64_t from[] = {4, 6, 12, 20};
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (int k = 0; k < 8; k++) {
            struct states mine = make_states(f, from[k / 2], k % 2), theirs = make_states(f, from[k / 2], k % 2);
            kiln_function *j = capture_in(cell, use_states, &mine);
            for (int t = 0; t < CALLS; t++) {
                kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(8), t), *got = NULL, *want = NULL;
                ok(kiln_call(j, &x, 1, &got, 1));
                ok(use_states(&theirs, &x, 1, &want, 1));
                same_or_say(cell, t, "the result", got, want);
                same_or_say(cell, t, "the memory", mine.whole, theirs.whole);
            }
            if (cell < AUTO) assert_int_equal(stats_of(j).captures, 1);
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static void inputs_in_the_memory_of_a_state(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (int k = 0; k < 4; k++) {
            struct states mine = make_states(f, k / 2 ? 20 : 6, k % 2), theirs = make_states(f, k / 2 ? 20 : 6, k % 2);
            kiln_function *j = capture_in(cell, use_states, &mine);
            for (int t = 0; t < 2 * CALLS; t++) {
                kiln_tensor *x = part(mine.whole, 2 * t, 2 * t + 8), *got = NULL, *want = NULL;
                kiln_tensor *y = part(theirs.whole, 2 * t, 2 * t + 8);
                ok(kiln_call(j, &x, 1, &got, 1));
                ok(use_states(&theirs, &y, 1, &want, 1));
                same_or_say(cell, t, "the result", got, want);
                same_or_say(cell, t, "the memory", mine.whole, theirs.whole);
            }
            if (cell < AUTO && k % 2 == 0) assert_true(stats_of(j).captures <= 2);
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// A state that is freed and made anew in the same memory is another state.
static void a_state_in_shared_memory_is_replaced(void **state)
{
    struct fixture *f = *state;
    struct states s = make_states(f, 6, true);
    kiln_function *j = kiln_jit(use_states, &s, NULL);
    kiln_tensor *x = kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(8)), *out = NULL;
    ok(kiln_call(j, &x, 1, &out, 1));
    kiln_free(&s.b);
    s.b = kiln_full(f->dev, KILN_F32, KILN_SHAPE(8), 5);
    ok(kiln_state(s.b));
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(s.b, 8, 10., 10., 10., 10., 10., 10., 10., 10.);
    kiln_function_free(&j);
}

// Gradients

static kiln_status product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_mul(kiln_square(in[0]), in[1]), NULL);
    return kiln_error();
}

static size_t with_its_transpose(kiln_tensor *memory, int t, kiln_tensor **in)
{
    in[0] = kiln_narrow(memory, 1, 0, 6);
    in[1] = kiln_transpose(in[0], 0, 1);
    if (t % 2) in[0] = kiln_transpose(in[1], 0, 1);
    return 2;
}

static size_t itself(kiln_tensor *memory, int t, kiln_tensor **in)
{
    in[0] = memory;
    in[1] = t % 2 ? memory : kiln_mul(memory, kiln_scalar(2));
    return 2;
}

static void gradients_of_views(void **state)
{
    struct fixture *f = *state;
    static const struct {
        place_fn *place;
        int rows;
    } cases[] = {{next_rows, 8}, {windows, 8}, {now_and_then_the_same, 8}, {with_its_transpose, 6}, {itself, 8}};
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            kiln_function *j = capture_in(cell, product, NULL);
            for (int t = 0; t < CALLS; t++) {
                kiln_tensor *a = memory_of(f, cases[k].rows, true), *b = memory_of(f, cases[k].rows, true), *in[4];
                kiln_tensor *got = NULL, *want = NULL;
                size_t n = cases[k].place(a, t, in);
                ok(kiln_call(j, in, n, &got, 1));
                n = cases[k].place(b, t, in);
                ok(product(NULL, in, n, &want, 1));
                same_or_say(cell, t, "the result", got, want);
                ok(kiln_backward(got, NULL));
                ok(kiln_backward(want, NULL));
                assert_non_null(kiln_gradient(b));
                same_or_say(cell, t, "the gradient", kiln_gradient(a), kiln_gradient(b));
            }
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Two handles of one parameter are one parameter; two inputs that lie in the same place need not be.
static void one_parameter_twice_and_two_inputs_in_one_place(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (int first = 0; first < 2; first++) {
            kiln_function *j = capture_in(cell, product, NULL);
            for (int t = 0; t < 4; t++) {
                kiln_tensor *p = kiln_parameter(vec(f, 2, 1, 2), "p"), *q = kiln_parameter(vec(f, 2, 1, 2), "q");
                kiln_tensor *x = kiln_mul(p, kiln_scalar(1)), *twice[] = {p, p}, *apart[] = {p, q};
                kiln_tensor *stopped[] = {x, kiln_stop_gradient(x)}, *out = NULL;
                ok(kiln_call(j, (t + first) % 2 ? twice : t < 2 ? apart : stopped, 2, &out, 1));
                ok(kiln_backward(out, NULL));
                if ((t + first) % 2)
                    expect(kiln_gradient(p), 2, 3., 12.);
                else
                    expect(kiln_gradient(p), 2, 2., 8.);
                if ((t + first) % 2 == 0 && t < 2) expect(kiln_gradient(q), 2, 1., 4.);
            }
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static kiln_status dot(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_mul(in[0], in[1]), NULL);
    return kiln_error();
}

static void two_parameters_in_one_place(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (int first = 0; first < 2; first++) {
            kiln_function *j = capture_in(cell, dot, NULL);
            for (int t = 0; t < 4; t++) {
                bool twice = (t + first) % 2;
                kiln_tensor *p = kiln_parameter(vec(f, 2, 3, 4), "p"), *q = kiln_stop_gradient(p), *out = NULL;
                ok(kiln_set_requires_grad(q, true));
                kiln_tensor *in[] = {p, twice ? p : q};
                ok(kiln_call(j, in, 2, &out, 1));
                ok(kiln_backward(out, NULL));
                if (twice) {
                    expect(kiln_gradient(p), 2, 6., 8.);
                    assert_null(kiln_gradient(q));
                } else {
                    expect(kiln_gradient(p), 2, 3., 4.);
                    expect(kiln_gradient(q), 2, 3., 4.);
                }
            }
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static kiln_status write_parameter(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY_(kiln_assign(in[0], user));
    kiln_mul_(in[1], kiln_scalar(3));
    out[0] = kiln_sum(in[1], NULL);
    return kiln_error();
}

// What a call writes into views is seen by the tape of the tensor that they are views of.
static void gradients_through_memory_that_overlaps(void **state)
{
    struct fixture *f = *state;
    place_fn *const places[] = {windows, next_rows, coming_closer};
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (size_t k = 0; k < sizeof places / sizeof *places; k++)
            for (int t = 0; t < CALLS; t++) {
                kiln_tensor *p[2], *memory[2], *out;
                for (int i = 0; i < 2; i++) {
                    kiln_tensor *in[4];
                    memory[i] = memory_of(f, 8, false);
                    size_t n = places[k](memory[i], t, in);
                    p[i] = kiln_parameter(kiln_square(in[0]), "p");
                    kiln_function *j = capture_in(cell, write_parameter, p[i]);
                    ok(i ? write_parameter(p[i], in, n, &out, 1) : kiln_call(j, in, n, &out, 1));
                    kiln_tensor *loss = kiln_add(kiln_sum(kiln_square(memory[i]), NULL), out);
                    ok(kiln_backward(loss, NULL));
                    kiln_function_free(&j);
                }
                same_or_say(cell, t, "the memory", memory[0], memory[1]);
                assert_non_null(kiln_gradient(p[1]));
                same_or_say(cell, t, "the gradient", kiln_gradient(p[0]), kiln_gradient(p[1]));
            }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Parts of new memory that hold what an input holds: their callers may write them, and the input stays.
static kiln_status assign_to_parts(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *square = kiln_zeros(NULL, KILN_F32, KILN_SHAPE(2, 2)), *c = kiln_constant(user);
    out[0] = kiln_diagonal(square, 0, 0, 1);
    TRY_(kiln_assign(out[0], in[0]));
    out[1] = kiln_select(kiln_zeros(NULL, KILN_F32, KILN_SHAPE(2, 2)), 0, 1);
    TRY_(kiln_assign(out[1], c));
    out[2] = kiln_zeros(NULL, KILN_F32, KILN_SHAPE(2));
    TRY_(kiln_assign(out[2], c));
    out[3] = kiln_from_data(NULL, KILN_F32, KILN_SHAPE(2), (const float[]){7, 8});
    kiln_tensor *wide = kiln_zeros(NULL, KILN_F32, KILN_SHAPE(4));
    TRY_(kiln_assign(wide, kiln_narrow(in[0], 0, 1, 1)));
    out[4] = kiln_slice(kiln_sub(kiln_scalar(17), wide), KILN_SLICE(.step = KILN_ARGS(2)));
    return kiln_error();
}

static void parts_that_were_assigned_an_input_lie_apart(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *constant = vec(f, 2, 7, 8);
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, assign_to_parts, constant);
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *x = vec(f, 2, 1 + t, 2), *out[5];
            ok(kiln_call(j, &x, 1, out, 5));
            expect(out[0], 2, 1. + t, 2.);
            expect(out[4], 2, 15., 15.);
            ok(kiln_assign(kiln_select(out[4], 0, 1), kiln_scalar(3)));
            expect(out[4], 2, 15., 3.);
            for (int i = 0; i < 4; i++) {
                if (i) expect(out[i], 2, 7., 8.);
                ok(kiln_assign(out[i], kiln_scalar(-1)));
                expect(out[i], 2, -1., -1.);
            }
            expect(x, 2, 1. + t, 2.);
            expect(constant, 2, 7., 8.);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// A table of the function's own, and a row of it.
static kiln_status give_a_table(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_from_data(NULL, KILN_F32, KILN_SHAPE(2, 2), (const float[]){1, 2, 3, 4});
    out[1] = kiln_select(out[0], 0, 1);
    out[2] = kiln_add(in[0], out[1]);
    return kiln_error();
}

static void a_table_and_its_row_are_one_memory(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, give_a_table, NULL);
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *x = vec(f, 2, t, 0), *out[3];
            ok(kiln_call(j, &x, 1, out, 3));
            expect(out[0], 4, 1., 2., 3., 4.);
            expect(out[2], 2, 3. + t, 4.);
            ok(kiln_assign(out[1], kiln_scalar(9)));
            expect(out[0], 4, 1., 2., 9., 9.);
            ok(kiln_assign(out[0], kiln_scalar(5)));
            expect(out[1], 2, 5., 5.);
            expect(out[2], 2, 3. + t, 4.);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// One part of a tensor is written, another one is read, and a gradient needs it.
static kiln_status write_one_row(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_mul_(in[0], kiln_scalar(2));
    out[0] = kiln_atan2(in[1], in[2]);
    return kiln_error();
}

static void gradients_need_a_part_beside_one_that_is_written(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, write_one_row, NULL);
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *all = mat(f, 3, 2, 1., 2., 3., 4., 5., 6. + t), *w = kiln_parameter(vec(f, 2, 1, 2), "w"), *y;
            kiln_tensor *in[] = {kiln_select(all, 0, t % 2), kiln_select(all, 0, 2), w};
            ok(kiln_call(j, in, 3, &y, 1));
            ok(kiln_backward(kiln_sum(y, NULL), NULL));
            expect(kiln_gradient(w), 2, -5. / 26, -(6. + t) / (4 + (6. + t) * (6. + t)));
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// A state that others overlap keeps no history of what a capture writes there, so it is not written.
static kiln_status add_to_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *const *of = user;
    kiln_add_(of[0], of[1]);
    out[0] = kiln_sum(kiln_add(of[0], kiln_select(in[0], 0, 0)), NULL);
    return kiln_error();
}

static void a_state_that_others_overlap_has_a_gradient_or_an_error(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_tensor *all = mat(f, 2, 2, 1., 2., 3., 4.), *y = NULL;
        kiln_tensor *of[] = {kiln_select(all, 0, 1), kiln_parameter(vec(f, 2, 1, 2), "w")};
        ok(kiln_state(of[0]));
        kiln_function *j = capture_in(cell, add_to_state, of);
        if (cell != AUTO) {
            fails(kiln_call(j, &all, 1, &y, 1), KILN_E_UNSUPPORTED, "gave, shares with another tensor");
            expect(all, 4, 1., 2., 3., 4.);
        } else
            for (int t = 1; t <= CALLS; t++) {
                kiln_set_gradient(of[1], NULL);
                ok(kiln_call(j, &all, 1, &y, 1));
                ok(kiln_backward_with(y, KILN_BACKWARD(.keep_tape = true)));
                expect(kiln_gradient(of[1]), 2, 1. * t, 1. * t);
            }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// The largest of equal elements is any of them: nothing is folded, and each row is halved once.
static kiln_status halves_rows(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_div_(in[0], kiln_scalar(2));
    kiln_tensor *wide = kiln_expand(in[0], KILN_SHAPE(3, 64));
    out[0] = kiln_max(wide, KILN_REDUCE(.axes = KILN_ARGS(-1), .keepdims = true));
    out[1] = kiln_exp(kiln_sub(wide, out[0]));
    return kiln_error();
}

static void rows_that_repeat_are_written_once(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, halves_rows, NULL);
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *x = mat(f, 3, 1, 2., 4., 6.), *y[2];
            ok(kiln_call(j, &x, 1, y, 2));
            expect(x, 3, 1., 2., 3.);
            expect(y[0], 3, 1., 2., 3.);
            assert_float_equal(kiln_item(kiln_sum(y[1], NULL)), 3 * 64, 0);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(the_rows_of_one_tensor),
        FIXTURE(rows_that_repeat_are_written_once),
        FIXTURE(windows_that_overlap),
        FIXTURE(columns_of_one_tensor),
        FIXTURE(one_row_twice_and_two_rows),
        FIXTURE(a_tensor_and_a_row_of_it),
        FIXTURE(memory_that_overlaps_in_some_calls),
        FIXTURE(a_small_tensor_after_a_large_one),
        FIXTURE(results_in_the_callers_memory),
        FIXTURE(places_by_number),
        FIXTURE(functions_may_ask_who_shares),
        FIXTURE(states_that_share_memory),
        FIXTURE(inputs_in_the_memory_of_a_state),
        FIXTURE(a_state_in_shared_memory_is_replaced),
        FIXTURE(gradients_of_views),
        FIXTURE(one_parameter_twice_and_two_inputs_in_one_place),
        FIXTURE(two_parameters_in_one_place),
        FIXTURE(gradients_through_memory_that_overlaps),
        FIXTURE(parts_that_were_assigned_an_input_lie_apart),
        FIXTURE(a_table_and_its_row_are_one_memory),
        FIXTURE(gradients_need_a_part_beside_one_that_is_written),
        FIXTURE(a_state_that_others_overlap_has_a_gradient_or_an_error),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
