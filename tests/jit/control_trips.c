// Loops inside of kernels: what the trips of a body give is to the bit what its kernel gives trip by trip, and how many
// launches a loop takes.
#include "jit_cells.h"
#include <kiln/control.h>
#include <stdio.h>

// A build without LLVM, or without glslang, has no kernels of its own.
static bool compiles(void)
{
    return strcmp(jit_device, "cpu") ? KILN_WITH_GLSLANG : KILN_WITH_LLVM;
}

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

enum { MOST = 4, ROWS = 6, SOME = 4 };

static kiln_tensor *half(kiln_tensor *x)
{
    return kiln_mul(x, kiln_scalar(0.5));
}

REGION(decays)
{
    out[0] = kiln_add(half(in[0]), in[1]);
    return kiln_error();
}

REGION(decays_and_tells)
{
    out[0] = kiln_add(half(in[0]), in[1]);
    out[1] = kiln_mul(out[0], in[1]);
    return kiln_error();
}

// The first two change places, the third stays.
REGION(swaps)
{
    out[0] = in[1];
    out[1] = kiln_add(in[0], in[3]);
    out[2] = in[2];
    return kiln_error();
}

REGION(flags)
{
    out[0] = in[1];
    out[1] = kiln_logical_xor(in[0], in[3]);
    out[2] = in[2];
    return kiln_error();
}

// Each takes what the other was: neither may see the other's new value.
REGION(swaps_and_adds)
{
    out[0] = kiln_add(in[1], kiln_scalar(1));
    out[1] = kiln_add(half(in[0]), in[2]);
    return kiln_error();
}

// What is carried has fewer elements than the points that read it.
REGION(shares)
{
    out[0] = half(in[0]);
    out[1] = kiln_add(kiln_mul(in[1], in[0]), in[2]);
    return kiln_error();
}

REGION(softens)
{
    out[0] = kiln_softmax(decays(user, in, n_in, out, n_out) ? NULL : out[0], -1);
    return kiln_error();
}

// A value of a row beside its elements.
REGION(keeps_the_peak)
{
    out[0] = kiln_maximum(in[0], kiln_max(in[1], KILN_REDUCE(.axes = KILN_AXES(-1), .keepdims = true)));
    out[1] = kiln_sub(kiln_add(half(in[1]), in[2]), out[0]);
    return kiln_error();
}

REGION(centres_and_tells)
{
    kiln_tensor *m = kiln_mean(in[0], KILN_REDUCE(.axes = KILN_AXES(-1), .keepdims = true));
    out[0] = kiln_add(half(kiln_sub(in[0], m)), in[1]);
    out[1] = kiln_mul(in[0], m);
    return kiln_error();
}

REGION(gathers_up)
{
    out[0] = kiln_add(half(in[0]), kiln_sum(in[1], KILN_REDUCE(.axes = KILN_AXES(-1))));
    return kiln_error();
}

REGION(turns_round)
{
    out[0] = kiln_add(half(kiln_flip(in[0], KILN_AXES(0))), in[1]);
    return kiln_error();
}

REGION(tips_over)
{
    out[0] = kiln_add(half(kiln_transpose(in[0], 0, 1)), in[1]);
    return kiln_error();
}

// Of a bar, heat to both sides.
REGION(spreads)
{
    kiln_tensor *left = kiln_roll(in[0], KILN_ARGS(1), KILN_AXES(0)),
                *right = kiln_roll(in[0], KILN_ARGS(-1), KILN_AXES(0));
    out[0] = kiln_add(half(kiln_add(half(kiln_add(left, right)), in[0])), in[1]);
    out[1] = kiln_sub(out[0], in[0]);
    return kiln_error();
}

REGION(crosses)
{
    out[0] = kiln_add(kiln_flip(in[1], KILN_AXES(0)), in[2]);
    out[1] = half(kiln_sub(in[0], kiln_flip(in[0], KILN_AXES(0))));
    return kiln_error();
}

// Rows are folded of what lies in columns.
REGION(centres_columns)
{
    kiln_tensor *m = kiln_mean(in[0], KILN_REDUCE(.axes = KILN_AXES(0), .keepdims = true));
    out[0] = kiln_add(half(kiln_sub(in[0], m)), in[1]);
    return kiln_error();
}

// A product with a vector, of which each row needs all.
REGION(sums_rows)
{
    kiln_tensor *sums = kiln_sum(kiln_mul(in[1], in[0]), KILN_REDUCE(.axes = KILN_AXES(-1), .keepdims = true));
    out[1] = kiln_add(half(kiln_sub(in[1], sums)), in[2]);
    out[0] = half(in[0]);
    return kiln_error();
}

REGION(sums_all)
{
    out[0] = kiln_add(in[0], kiln_sum(in[1], NULL));
    return kiln_error();
}

REGION(counts)
{
    out[0] = kiln_add(half(in[1]), in[0]);
    return kiln_error();
}

struct loop_case {
    const char *what;
    kiln_fn body;
    int carried, stacked;
    bool inside; // of a kernel
    size_t rank[MOST];
    int64_t dims[MOST][2]; // of what is carried, then of a row
    bool numbered;         // kiln_for
    bool orders;           // a GPU adds in an order that goes by where a row begins
};

static const struct loop_case cases[] = {
    {"elements", decays, 1, 0, true, {1, 1}, {{5}, {5}}},
    {"a value a trip", decays_and_tells, 1, 1, true, {1, 1}, {{5}, {5}}},
    {"places changed", swaps, 3, 0, true, {1, 1, 1, 1}, {{4}, {4}, {4}, {4}}},
    {"both new", swaps_and_adds, 2, 0, true, {1, 1, 1}, {{4}, {4}, {4}}},
    {"many, places changed", swaps, 3, 0, true, {2, 2, 2, 2}, {{40, 25}, {40, 25}, {40, 25}, {40, 25}}},
    {"many, both new", swaps_and_adds, 2, 0, true, {2, 2, 2}, {{40, 25}, {40, 25}, {40, 25}}},
    {"many, a value a trip", decays_and_tells, 1, 1, true, {1, 1}, {{1027}, {1027}}},
    {"an element for all", shares, 2, 0, true, {0, 1, 1}, {{0}, {7}, {7}}},
    {"an element for many", shares, 2, 0, true, {0, 1, 1}, {{0}, {700}, {700}}},
    {"an element for a row", shares, 2, 0, true, {2, 2, 2}, {{3, 1}, {3, 5}, {3, 5}}},
    {"an element for a column", shares, 2, 0, true, {1, 2, 2}, {{5}, {5, 5}, {5, 5}}},
    {"a number", decays, 1, 0, true, {0, 0}, {{0}, {0}}},
    {"rows", softens, 1, 0, true, {2, 2}, {{3, 7}, {3, 7}}},
    {"long rows", softens, 1, 0, true, {2, 2}, {{2, 5000}, {2, 5000}}},
    {"one row", softens, 1, 0, true, {1, 1}, {{72}, {72}}},
    {"rows that begin anywhere", softens, 1, 0, true, {1, 1}, {{70}, {70}}, .orders = true},
    {"many rows", softens, 1, 0, true, {2, 2}, {{300, 3}, {300, 3}}},
    {"a value of each row", keeps_the_peak, 2, 0, true, {2, 2, 2}, {{3, 1}, {3, 9}, {3, 9}}},
    {"rows, a value a trip", centres_and_tells, 1, 1, true, {2, 2}, {{3, 9}, {3, 9}}},
    {"sums of rows", gathers_up, 1, 0, true, {1, 2}, {{3}, {3, 2000}}},
    {"sums of long rows", gathers_up, 1, 0, false, {1, 2}, {{3}, {3, 9000}}},
    {"other places", turns_round, 1, 0, true, {1, 1}, {{6}, {6}}},
    {"other places of some", turns_round, 1, 0, true, {2, 2}, {{20, 12}, {20, 12}}},
    {"other places of many", turns_round, 1, 0, false, {2, 2}, {{100, 60}, {100, 60}}},
    {"rows for columns", tips_over, 1, 0, true, {2, 2}, {{16, 16}, {16, 16}}},
    {"neighbours", spreads, 1, 1, true, {1, 1}, {{200}, {200}}},
    {"places of another", crosses, 2, 0, true, {1, 1, 1}, {{40}, {40}, {40}}},
    {"all of a row", centres_columns, 1, 0, true, {2, 2}, {{16, 12}, {16, 12}}},
    {"a row for all", sums_rows, 2, 0, true, {1, 2, 2}, {{12}, {8, 12}, {8, 12}}},
    {"the number of the trip", counts, 1, 0, true, {1}, {{5}}, .numbered = true},
    {"the number, many", counts, 1, 0, true, {2}, {{30, 37}}, .numbered = true},
};

// --- a loop, and its trips one by one

struct loop {
    const struct loop_case *c;
    bool reverse;
};

static int scanned(const struct loop_case *c)
{
    return c->numbered ? 0 : 1;
}

REGION(runs)
{
    const struct loop *l = user;
    const struct loop_case *c = l->c;
    if (c->numbered) return kiln_for(in[c->carried], c->body, NULL, in, (size_t)c->carried, NULL, out, n_out);
    return kiln_scan(c->body, NULL, in, n_in, KILN_SCAN(.carried = (size_t)c->carried, .reverse = l->reverse), out,
                     n_out);
}

static kiln_status by_trips(const struct loop *l, int64_t trips, kiln_tensor *const *in, kiln_tensor **out)
{
    const struct loop_case *c = l->c;
    kiln_function *body = kiln_jit(c->body, NULL, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
    kiln_tensor *now[MOST], *next[MOST], *given[MOST][ROWS];
    for (int i = 0; i < c->carried; i++) now[i + c->numbered] = in[i];
    for (int64_t trip = 0; trip < trips; trip++) {
        int64_t row = l->reverse ? trips - 1 - trip : trip;
        if (c->numbered)
            now[0] = kiln_scalar_int(trip);
        else
            now[c->carried] = kiln_select(in[c->carried], 0, row);
        ok(kiln_call(body, now, (size_t)c->carried + 1, next, (size_t)(c->carried + c->stacked)));
        for (int i = 0; i < c->carried; i++) now[i + c->numbered] = next[i];
        for (int i = 0; i < c->stacked; i++) given[i][row] = next[c->carried + i];
    }
    for (int i = 0; i < c->carried; i++) out[i] = kiln_alias(now[i + c->numbered]);
    for (int i = 0; i < c->stacked; i++) out[c->carried + i] = kiln_stack(given[i], (size_t)trips, 0);
    kiln_function_free(&body);
    return kiln_error();
}

static kiln_tensor *some(struct fixture *f, kiln_dtype dtype, size_t rank, const int64_t *dims)
{
    bool is_float = dtype == KILN_F16 || dtype == KILN_BF16 || dtype == KILN_F32 || dtype == KILN_F64;
    return kiln_cast(kiln_normal(f->dev, KILN_F32, rank, dims, 0, is_float ? 1 : 90), dtype);
}

static int make_inputs(struct fixture *f, const struct loop_case *c, kiln_dtype dtype, int64_t trips, kiln_tensor **in)
{
    for (int i = 0; i < c->carried; i++) in[i] = some(f, dtype, c->rank[i], c->dims[i]);
    int64_t dims[3] = {trips, c->dims[c->carried][0], c->dims[c->carried][1]};
    in[c->carried] = c->numbered ? kiln_cast(kiln_full(f->dev, KILN_F32, 0, NULL, (double)trips), KILN_I64)
                                 : some(f, dtype, c->rank[c->carried] + 1, dims);
    ok(kiln_error());
    return c->carried + 1;
}

static bool same_bits(kiln_tensor *a, kiln_tensor *b)
{
    size_t n = (size_t)kiln_numel(a) * kiln_dtype_size(kiln_tensor_dtype(a));
    if (kiln_numel(a) != kiln_numel(b) || kiln_tensor_dtype(a) != kiln_tensor_dtype(b)) return false;
    char *x = calloc(2, n + 1), *y = x + n;
    ok(kiln_read(a, x, n));
    ok(kiln_read(b, y, n));
    bool same = !memcmp(x, y, n);
    free(x);
    return same;
}

// The first calls of an AUTO function run op by op.
static bool is_near(kiln_tensor *a, kiln_tensor *b)
{
    return kiln_item(kiln_max(kiln_abs(kiln_sub(a, b)), NULL)) < 1e-2;
}

static void compare(struct fixture *f, const struct loop *l, enum cell cell, kiln_dtype dtype, int64_t trips)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[MOST], *want[MOST], *got[MOST];
    bool by_order = cell == AUTO || (l->c->orders && strcmp(jit_device, "cpu"));
    int n = make_inputs(f, l->c, dtype, trips, in), n_out = l->c->carried + l->c->stacked;
    ok(by_trips(l, trips, in, want));
    kiln_function *j = capture_in(cell, runs, (void *)(uintptr_t)l);
    for (int call = 0; call < 3; call++) {
        ok(kiln_call(j, in, (size_t)n, got, (size_t)n_out));
        for (int i = 0; i < n_out; i++)
            if (by_order ? !is_near(got[i], want[i]) : !same_bits(got[i], want[i]))
                fail_msg("%s, %s, %s, %d trips%s: result %d of call %d differs", l->c->what, cell_names[cell],
                         kiln_dtype_name(dtype), (int)trips, l->reverse ? " back" : "", i, call);
    }
    kiln_function_free(&j);
    ok(kiln_set_mode(KILN_MODE_EAGER));
    kiln_scope_end(&scope);
}

static void trips_give_the_bits_that_they_give_one_by_one(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int reverse = 0; reverse < 1 + scanned(&cases[i]); reverse++) {
            struct loop l = {&cases[i], reverse};
            for (enum cell cell = 0; cell < CELLS; cell++) compare(*state, &l, cell, KILN_F32, ROWS - 1);
            for (int64_t trips = 1; trips < ROWS - 1; trips++) compare(*state, &l, STRICT, KILN_F32, trips);
        }
}

// What is carried is rounded, or wraps, as memory would make it.
static void dtypes_are_kept_from_trip_to_trip(void **state)
{
    static const kiln_dtype dtypes[] = {KILN_F16, KILN_BF16, KILN_F64};
    static const kiln_dtype integers[] = {KILN_U8, KILN_I8, KILN_I16, KILN_I32, KILN_I64};
    static const struct loop_case truths = {"truths", flags, 3, 0, true, {1, 1, 1, 1}, {{9}, {9}, {9}, {9}}};
    static const struct loop_case whole = {"whole numbers", swaps, 3, 0, true, {1, 1, 1, 1}, {{9}, {9}, {9}, {9}}};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            bool some = dtypes[d] == KILN_F16 || i < SOME; // a software driver takes long for each kernel
            if (!some && strcmp(jit_device, "cpu")) continue;
            struct loop l = {&cases[i], false};
            compare(*state, &l, STRICT, dtypes[d], ROWS - 1);
        }
    for (size_t d = 0; d < sizeof integers / sizeof *integers; d++) {
        struct loop l = {&whole, false};
        compare(*state, &l, STRICT, integers[d], ROWS - 1);
    }
    struct loop l = {&truths, false};
    compare(*state, &l, STRICT, KILN_BOOL, ROWS - 1);
}

// --- launches

static uint64_t launches_of_call(struct fixture *f, kiln_function *j, kiln_tensor *const *in, int n, kiln_tensor **out,
                                 int n_out)
{
    kiln_device_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    ok(kiln_call(j, in, (size_t)n, out, (size_t)n_out));
    kiln_device_get_stats(f->dev, &before);
    ok(kiln_call(j, in, (size_t)n, out, (size_t)n_out));
    kiln_device_get_stats(f->dev, &after);
    return after.launches - before.launches;
}

static void a_loop_inside_of_a_kernel_is_one_launch(void **state)
{
    if (!compiles()) skip();
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loop l = {&cases[i], false};
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *in[MOST], *out[MOST];
        int n = make_inputs(f, l.c, KILN_F32, ROWS, in);
        kiln_function *j = capture_in(STRICT, runs, &l);
        uint64_t launches = launches_of_call(f, j, in, n, out, l.c->carried + l.c->stacked);
        bool copies = strcmp(jit_device, "cpu") && !strncmp(l.c->what, "the number", 10); // whose count is a value
        copies |= l.c->body == swaps; // what never changes is an input, of which the result is a copy
        if (launches != (uint64_t)((l.c->inside ? 1 : ROWS) + copies))
            fail_msg("%s: %d launches of %d trips", l.c->what, (int)launches, ROWS);
        kiln_function_free(&j);
        kiln_scope_end(&scope);
    }
}

REGION(mixes) // exact in i64
{
    out[0] = kiln_add(kiln_mul(in[2], kiln_scalar_int(3)), in[0]);
    out[1] = kiln_bitwise_xor(in[1], in[0]);
    return kiln_error();
}

REGION(mixes_often)
{
    return kiln_for(in[2], mixes, NULL, in, 2, NULL, out, 2);
}

// A GPU is given so many trips at a time.
static void trips_beyond_a_launch(void **state)
{
    if (!compiles()) skip();
    struct fixture *f = *state;
    static const int64_t counts[] = {0, 1, 2, 1000, 32767, 32768, 32769, 65536, 70001};
    kiln_function *j = capture_in(STRICT, mixes_often, NULL);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int64_t a = 5, b = 7, y[2];
        kiln_tensor *in[] = {kiln_from_data(f->dev, KILN_I64, 0, NULL, &a),
                             kiln_from_data(f->dev, KILN_I64, 0, NULL, &b),
                             kiln_from_data(f->dev, KILN_I64, 0, NULL, &counts[i])},
                    *out[2];
        uint64_t launches = launches_of_call(f, j, in, 3, out, 2);
        for (int64_t t = 0; t < counts[i]; t++) {
            int64_t next = (int64_t)((uint64_t)b * 3 + (uint64_t)t);
            b = a ^ t;
            a = next;
        }
        ok(kiln_read(out[0], &y[0], sizeof *y));
        ok(kiln_read(out[1], &y[1], sizeof *y));
        assert_true(y[0] == a && y[1] == b);
        // On a GPU what is carried is copied first.
        uint64_t most = strcmp(jit_device, "cpu") ? (uint64_t)(counts[i] + 32767) / 32768 + 1 : 1;
        if (counts[i]) assert_int_equal(launches, most);
    }
    kiln_function_free(&j);
}

REGION(mixes_places)
{
    out[0] = kiln_add(kiln_mul(kiln_flip(in[1], KILN_AXES(0)), kiln_scalar_int(3)), in[0]);
    return kiln_error();
}

REGION(mixes_places_often)
{
    return kiln_for(in[1], mixes_places, NULL, in, 1, NULL, out, 1);
}

// Rows take more turns, and so do points that go together: fewer trips at a time.
static void rows_and_states_beyond_a_launch(void **state)
{
    if (!compiles()) skip();
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loop l = {&cases[i], false};
        if (!strcmp(cases[i].what, "one row")) compare(f, &l, STRICT, KILN_F32, 1500);
    }
    int64_t x[] = {1, 2, 3}, y[3], trips = 40000;
    kiln_function *j = capture_in(STRICT, mixes_places_often, NULL);
    kiln_tensor *in[] = {kiln_from_data(f->dev, KILN_I64, KILN_SHAPE(3), x),
                         kiln_from_data(f->dev, KILN_I64, 0, NULL, &trips)},
                *out[1];
    uint64_t launches = launches_of_call(f, j, in, 2, out, 1);
    for (int64_t t = 0; t < trips; t++)
        for (int i = 0; i < 3; i++) {
            y[i] = (int64_t)((uint64_t)x[2 - i] * 3 + (uint64_t)t);
            if (i == 2) memcpy(x, y, sizeof x);
        }
    ok(kiln_read(out[0], y, sizeof y));
    assert_memory_equal(x, y, sizeof x);
    if (strcmp(jit_device, "cpu"))
        assert_in_range(launches, 2, 10);
    else
        assert_int_equal(launches, 1);
    kiln_function_free(&j);
}

// The number of the trip as a float, beyond where floats count.
REGION(adds_number)
{
    out[0] = kiln_add(in[1], kiln_mul(in[0], kiln_scalar(0.25)));
    return kiln_error();
}

REGION(adds_numbers)
{
    return kiln_for(in[1], adds_number, NULL, in, 1, NULL, out, 1);
}

static void the_number_of_the_trip_goes_on(void **state)
{
    struct fixture *f = *state;
    int64_t trips = 40000;
    float zero = 0, want = 0, got;
    kiln_function *j = capture_in(STRICT, adds_numbers, NULL);
    kiln_tensor *in[] = {kiln_from_data(f->dev, KILN_F32, 0, NULL, &zero),
                         kiln_from_data(f->dev, KILN_I64, 0, NULL, &trips)},
                *out[1];
    ok(kiln_call(j, in, 2, out, 1));
    for (int64_t t = 0; t < trips; t++) want += (float)t * 0.25f;
    ok(kiln_read(out[0], &got, sizeof got));
    assert_true(got == want);
    kiln_function_free(&j);
}

// --- what they begin with

REGION(scans_views)
{
    kiln_tensor *rows = kiln_transpose(in[1], 0, 1); // each second column from memory that goes the other way
    kiln_tensor *all[] = {kiln_transpose(in[0], 0, 1), kiln_expand_dims(rows, -1)};
    return kiln_scan(decays, NULL, all, 2, KILN_SCAN(.carried = 1), out, 1);
}

// Rows that lie apart, and what is carried the other way round: it is copied first.
static void views_are_followed(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {kiln_normal(f->dev, KILN_F32, KILN_SHAPE(4, 3), 0, 1),
                         kiln_normal(f->dev, KILN_F32, KILN_SHAPE(3, 8), 0, 1)},
                *want, *got;
    ok(scans_views(NULL, in, 2, &want, 1));
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, scans_views, NULL);
        for (int call = 0; call < 2; call++) {
            ok(kiln_call(j, in, 2, &got, 1));
            same_or_say(cell, call, "a loop over views", got, want);
        }
        kiln_function_free(&j);
        ok(kiln_set_mode(KILN_MODE_EAGER));
    }
}

REGION(scans_numbers)
{
    kiln_tensor *all[] = {kiln_zeros(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(8)), in[0]};
    return kiln_scan(decays, NULL, all, 2, KILN_SCAN(.carried = 1), out, 1);
}

// What the loop began with is not written.
static void what_it_begins_with_stays(void **state)
{
    struct fixture *f = *state;
    struct loop l = {&cases[4], false};
    kiln_tensor *in[MOST], *before[MOST], *out[MOST];
    int n = make_inputs(f, l.c, KILN_F32, ROWS, in);
    for (int i = 0; i < n; i++) before[i] = kiln_add(in[i], kiln_scalar(0));
    kiln_function *j = capture_in(STRICT, runs, &l);
    for (int call = 0; call < 3; call++) ok(kiln_call(j, in, (size_t)n, out, 3));
    for (int i = 0; i < n; i++) assert_true(same_bits(in[i], before[i]));
    kiln_function_free(&j);
    kiln_function *k = capture_in(STRICT, scans_numbers, NULL);
    kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(3, 8), 1), *y;
    for (int call = 0; call < 3; call++) ok(kiln_call(k, &x, 1, &y, 1));
    assert_true(equal(y, kiln_full(f->dev, KILN_F32, KILN_SHAPE(8), 1.75)));
    kiln_function_free(&k);
}

REGION(scans_rows)
{
    return kiln_scan(decays_and_tells, NULL, in, 2, KILN_SCAN(.carried = 1), out, 2);
}

// No elements, and no trips: what is carried is what it was.
static void nothing_to_do(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = capture_in(STRICT, scans_rows, NULL);
    for (int call = 0; call < 2; call++) {
        kiln_tensor *empty[] = {kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(0)),
                                kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(5, 0))};
        kiln_tensor *still[] = {vec(f, 3, 1, 2, 3), kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(0, 3))}, *y[2];
        ok(kiln_call(j, empty, 2, y, 2));
        assert_int_equal(kiln_numel(y[0]), 0);
        assert_int_equal(kiln_dims(y[1])[0], 5);
        ok(kiln_call(j, still, 2, y, 2));
        assert_true(same_bits(y[0], still[0]));
        assert_int_equal(kiln_numel(y[1]), 0);
    }
    kiln_function_free(&j);
}

// --- gradients

REGION(loss)
{
    kiln_tensor *y[2];
    TRY_(kiln_scan(decays_and_tells, NULL, in, 2, KILN_SCAN(.carried = 1), y, 2));
    out[0] = kiln_add(kiln_sum(kiln_mul(y[0], y[0]), NULL), kiln_sum(kiln_tanh(y[1]), NULL));
    return kiln_error();
}

REGION(slope)
{
    return kiln_value_and_grad(loss, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, 3);
}

static void gradients_are_loops_inside_of_kernels_too(void **state)
{
    if (!compiles()) skip();
    struct fixture *f = *state;
    kiln_tensor *few[] = {vec(f, 3, 1, -2, 3), kiln_normal(f->dev, KILN_F32, KILN_SHAPE(5, 3), 0, 1)};
    kiln_tensor *many[] = {vec(f, 3, 1, -2, 3), kiln_normal(f->dev, KILN_F32, KILN_SHAPE(50, 3), 0, 1)};
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, slope, NULL);
        kiln_tensor *got[3], *want[3];
        uint64_t launches = launches_of_call(f, j, few, 2, got, 3);
        uint64_t of_many = launches_of_call(f, j, many, 2, got, 3);
        if (cell == STRICT) assert_int_equal(of_many, launches);
        ok(kiln_set_mode(KILN_MODE_EAGER));
        ok(slope(NULL, many, 2, want, 3));
        for (int i = 0; i < 3; i++) same_or_say(cell, i, "a gradient", got[i], want[i]);
        kiln_function_free(&j);
    }
}

// --- what stays outside

REGION(scans_embedding)
{
    return kiln_scan(sums_all, NULL, in, n_in, KILN_SCAN(.carried = 1), out, 1);
}

REGION(looks_up)
{
    out[0] = kiln_add(half(in[0]), kiln_take(*(kiln_tensor **)user, 0, in[1]));
    return kiln_error();
}

REGION(scans_indices)
{
    kiln_tensor *table = in[2];
    return kiln_scan(looks_up, &table, in, 2, KILN_SCAN(.carried = 1), out, 1);
}

// An index that is out of range is found in the trip that reads it.
static void indices_are_checked(void **state)
{
    struct fixture *f = *state;
    int64_t good[] = {0, 2, 1, 2, 0, 1}, bad[] = {0, 2, 1, 3, 0, 1};
    kiln_tensor *in[] = {kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(3)),
                         kiln_from_data(f->dev, KILN_I64, KILN_SHAPE(2, 3), good), vec(f, 3, 1, 2, 3)},
                *want, *got;
    ok(scans_indices(NULL, in, 3, &want, 1));
    kiln_function *j = capture_in(STRICT, scans_indices, NULL);
    for (int call = 0; call < 2; call++) {
        ok(kiln_call(j, in, 3, &got, 1));
        same_or_say(STRICT, call, "a loop of look-ups", got, want);
    }
    in[1] = kiln_from_data(f->dev, KILN_I64, KILN_SHAPE(2, 3), bad);
    if (!strcmp(jit_device, "cpu")) fails(kiln_call(j, in, 3, &got, 1), KILN_E_ARGUMENT, "out of range");
    kiln_function_free(&j);
}

REGION(divides)
{
    out[0] = kiln_add(half(in[0]), kiln_solve(in[1], in[0]));
    return kiln_error();
}

REGION(scans_systems)
{
    return kiln_scan(divides, NULL, in, 2, KILN_SCAN(.carried = 1), out, 1);
}

// A matrix without an inverse is found in the trip that it is for.
static void systems_are_checked(void **state)
{
    struct fixture *f = *state;
    if (!strcmp(jit_device, "null")) return;
    float good[] = {2, 0, 0, 2, 1, 2, 3, 4, 5, 1, 1, 3}, bad[] = {2, 0, 0, 2, 1, 2, 2, 4, 5, 1, 1, 3};
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, scans_systems, NULL);
        for (int call = 0; call < 4; call++) {
            const float *systems = call == 2 ? bad : good;
            kiln_tensor *in[] = {vec(f, 2, 1, 2), kiln_from_data(f->dev, KILN_F32, KILN_SHAPE(3, 2, 2), systems)};
            kiln_tensor *want = NULL, *got = NULL;
            if (call == 2) {
                fails(scans_systems(NULL, in, 2, &want, 1), KILN_E_ARGUMENT, "solve: a f32[2,2] is singular");
                fails(kiln_call(j, in, 2, &got, 1), KILN_E_ARGUMENT, "solve: a f32[2,2] is singular");
                continue;
            }
            ok(scans_systems(NULL, in, 2, &want, 1));
            ok(kiln_call(j, in, 2, &got, 1));
            same_or_say(cell, call, "a loop of systems", got, want);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static void a_total_waits_for_all(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 2, 1, 2), kiln_full(f->dev, KILN_F32, KILN_SHAPE(4, 3, 2), 0.5)}, *got;
    kiln_function *j = capture_in(STRICT, scans_embedding, NULL);
    for (int call = 0; call < 2; call++) {
        ok(kiln_call(j, in, 2, &got, 1));
        assert_true(equal(got, vec(f, 2, 13, 14)));
    }
    kiln_function_free(&j);
}

REGION(counts_to_bound)
{
    return kiln_for(in[1], adds_number, NULL, in, 1, KILN_LOOP(.bound = 10), out, 1);
}

// Where the device decides, who waits is told.
static void fails_at_last(struct fixture *f, kiln_status status, const char *part)
{
    fails(status ? status : kiln_device_synchronize(f->dev), KILN_E_STATE, part);
}

static void more_trips_than_the_bound_are_an_error(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = capture_in(STRICT, counts_to_bound, NULL);
    for (int64_t trips = 9; trips < 13; trips++) {
        kiln_tensor *in[] = {vec(f, 2, 1, 2), kiln_from_data(f->dev, KILN_I64, 0, NULL, &trips)}, *out[1];
        if (trips <= 10)
            ok(kiln_call(j, in, 2, out, 1));
        else
            fails_at_last(f, kiln_call(j, in, 2, out, 1), "the loop goes on after 10 trips, its .bound");
    }
    kiln_function_free(&j);
}

static void explained(kiln_fn fn, const struct loop *l, struct fixture *f, const char *part)
{
    kiln_tensor *in[MOST], *out[MOST];
    int n = make_inputs(f, l->c, KILN_F32, ROWS, in);
    kiln_function *j = capture_in(STRICT, fn, (void *)(uintptr_t)l);
    ok(kiln_call(j, in, (size_t)n, out, (size_t)(l->c->carried + l->c->stacked)));
    char *text = NULL;
    size_t size_B;
    FILE *file = open_memstream(&text, &size_B);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    if (!strstr(text, part)) fail_msg("\"%s\" is not in\n%s", part, text);
    free(text);
    kiln_function_free(&j);
}

static void an_explanation_says_where_the_loop_is(void **state)
{
    if (!compiles()) skip();
    struct loop inside = {&cases[0], false}, outside = {NULL, false};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (cases[i].body == turns_round && !cases[i].inside) outside.c = &cases[i];
    explained(runs, &inside, *state, "makes the trips\n");
    explained(runs, &inside, *state, ", then output ");
    explained(runs, &outside, *state, "a carried value is read elsewhere than it is written");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(trips_give_the_bits_that_they_give_one_by_one),
        FIXTURE(dtypes_are_kept_from_trip_to_trip),
        FIXTURE(a_loop_inside_of_a_kernel_is_one_launch),
        FIXTURE(trips_beyond_a_launch),
        FIXTURE(rows_and_states_beyond_a_launch),
        FIXTURE(the_number_of_the_trip_goes_on),
        FIXTURE(views_are_followed),
        FIXTURE(what_it_begins_with_stays),
        FIXTURE(nothing_to_do),
        FIXTURE(gradients_are_loops_inside_of_kernels_too),
        FIXTURE(indices_are_checked),
        FIXTURE(systems_are_checked),
        FIXTURE(a_total_waits_for_all),
        FIXTURE(more_trips_than_the_bound_are_an_error),
        FIXTURE(an_explanation_says_where_the_loop_is),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
