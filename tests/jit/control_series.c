// Loops of several launches a trip, and loops that a condition ends: launches are laid out once, and what they give is
// to the bit what trips one by one give.
#include "jit_cells.h"
#include <kiln/control.h>
#include <stdio.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

enum { MOST = 4, ROWS = 9 };

static kiln_tensor *half(kiln_tensor *x)
{
    return kiln_mul(x, kiln_scalar(0.5));
}

static kiln_tensor *total(kiln_tensor *x)
{
    return kiln_sum(x, NULL);
}

// --- scans: carried values, then a row

// Every element needs the total of all.
REGION(adds_totals)
{
    out[0] = kiln_add(half(half(in[0])), kiln_mul(total(in[0]), half(in[1])));
    return kiln_error();
}

REGION(computes_and_rolls)
{
    kiln_tensor *h = kiln_tanh(kiln_add(in[0], in[1]));
    out[0] = kiln_add(h, half(kiln_roll(h, KILN_ARGS(1), KILN_AXES(0))));
    out[1] = total(h);
    return kiln_error();
}

// A recurrent network: the state, its weights as a value from outside, a row of inputs.
REGION(recurs)
{
    kiln_tensor *w = *(kiln_tensor **)user;
    out[0] = kiln_tanh(kiln_add(kiln_matmul(w, in[0]), in[1]));
    out[1] = half(out[0]);
    return kiln_error();
}

// Two that change places, through products.
REGION(crosses)
{
    kiln_tensor *w = *(kiln_tensor **)user;
    out[0] = kiln_tanh(kiln_matmul(w, in[1]));
    out[1] = kiln_add(half(in[0]), in[2]);
    return kiln_error();
}

// Parts are changed where they lie.
REGION(writes_parts)
{
    kiln_tensor *w = *(kiln_tensor **)user;
    kiln_tensor *row = kiln_tanh(kiln_add(kiln_matmul(w, in[1]), in[2]));
    out[0] = kiln_update_at(in[0], 0, in[3], kiln_expand_dims(row, 0));
    out[1] = row;
    return kiln_error();
}

struct scan_case {
    const char *what;
    kiln_fn body;
    int carried, stacked;
    size_t rank[MOST];
    int64_t dims[MOST][2]; // of what is carried, then of a row
};

static const struct scan_case scans[] = {
    {"totals", adds_totals, 1, 0, {1, 1}, {{5}, {5}}},
    {"totals of many", adds_totals, 1, 0, {2, 2}, {{70, 90}, {70, 90}}},
    {"rolled", computes_and_rolls, 1, 1, {1, 1}, {{6}, {6}}},
    {"rolled, many", computes_and_rolls, 1, 1, {2, 2}, {{80, 90}, {80, 90}}},
    {"recurrent", recurs, 1, 1, {1, 1}, {{8}, {8}}},
    {"recurrent, a batch", recurs, 1, 1, {2, 2}, {{8, 3}, {8, 3}}},
    {"places changed", crosses, 2, 0, {1, 1, 1}, {{8}, {8}, {8}}},
};

struct scan {
    const struct scan_case *c;
    kiln_tensor *w;
    bool reverse;
};

REGION(runs_scan) // the last input is the weights
{
    struct scan *s = user;
    kiln_tensor *w = in[n_in - 1];
    return kiln_scan(s->c->body, &w, in, n_in - 1, KILN_SCAN(.carried = (size_t)s->c->carried, .reverse = s->reverse),
                     out, n_out);
}

REGION(runs_body)
{
    struct scan *s = user;
    kiln_tensor *w = in[n_in - 1];
    return s->c->body(&w, in, n_in - 1, out, n_out);
}

static void by_trips(struct scan *s, int64_t trips, kiln_tensor *const *in, kiln_tensor **out)
{
    const struct scan_case *c = s->c;
    kiln_function *body = kiln_jit(runs_body, s, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
    kiln_tensor *now[MOST + 2], *next[MOST], *given[MOST][ROWS];
    for (int i = 0; i < c->carried; i++) now[i] = in[i];
    now[c->carried + 1] = in[c->carried + 1];
    for (int64_t trip = 0; trip < trips; trip++) {
        int64_t row = s->reverse ? trips - 1 - trip : trip;
        now[c->carried] = kiln_select(in[c->carried], 0, row);
        ok(kiln_call(body, now, (size_t)c->carried + 2, next, (size_t)(c->carried + c->stacked)));
        for (int i = 0; i < c->carried; i++) now[i] = next[i];
        for (int i = 0; i < c->stacked; i++) given[i][row] = next[c->carried + i];
    }
    for (int i = 0; i < c->carried; i++) out[i] = kiln_alias(now[i]);
    for (int i = 0; i < c->stacked; i++) out[c->carried + i] = kiln_stack(given[i], (size_t)trips, 0);
    kiln_function_free(&body);
    ok(kiln_error());
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

// The first calls of an AUTO function run op by op; a GPU folds rows in an order that goes by where they begin.
static bool is_near(kiln_tensor *a, kiln_tensor *b)
{
    return kiln_item(kiln_max(kiln_abs(kiln_sub(a, b)), NULL)) < 1e-3 * (1 + kiln_item(kiln_max(kiln_abs(b), NULL)));
}

static int make_inputs(struct fixture *f, const struct scan_case *c, int64_t trips, kiln_tensor **in)
{
    for (int i = 0; i < c->carried; i++) in[i] = kiln_normal(f->dev, KILN_F32, c->rank[i], c->dims[i], 0, 1);
    int64_t dims[3] = {trips, c->dims[c->carried][0], c->dims[c->carried][1]};
    in[c->carried] = kiln_normal(f->dev, KILN_F32, c->rank[c->carried] + 1, dims, 0, 1);
    in[c->carried + 1] = kiln_normal(f->dev, KILN_F32, KILN_SHAPE(8, 8), 0, 0.4);
    ok(kiln_error());
    return c->carried + 2;
}

static void compare_scan(struct fixture *f, struct scan *s, enum cell cell, int64_t trips)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[MOST + 2], *want[MOST], *got[MOST];
    int n = make_inputs(f, s->c, trips, in), n_out = s->c->carried + s->c->stacked;
    bool exact = cell != AUTO && !strcmp(jit_device, "cpu");
    by_trips(s, trips, in, want);
    kiln_function *j = capture_in(cell, runs_scan, s);
    for (int call = 0; call < 3; call++) {
        ok(kiln_call(j, in, (size_t)n, got, (size_t)n_out));
        for (int i = 0; i < n_out; i++)
            if (exact ? !same_bits(got[i], want[i]) : !is_near(got[i], want[i]))
                fail_msg("%s, %s, %d trips%s: result %d of call %d differs", s->c->what, cell_names[cell], (int)trips,
                         s->reverse ? " back" : "", i, call);
    }
    kiln_function_free(&j);
    ok(kiln_set_mode(KILN_MODE_EAGER));
    kiln_scope_end(&scope);
}

static void scans_give_the_bits_of_trips_one_by_one(void **state)
{
    for (size_t i = 0; i < sizeof scans / sizeof *scans; i++)
        for (int reverse = 0; reverse < 2; reverse++) {
            struct scan s = {.c = &scans[i], .reverse = reverse};
            for (enum cell cell = 0; cell < CELLS; cell++) compare_scan(*state, &s, cell, ROWS - 1);
            for (int64_t trips = 1; trips <= ROWS; trips++) compare_scan(*state, &s, STRICT, trips);
        }
}

REGION(scans_parts)
{
    kiln_tensor *w = in[4];
    return kiln_scan(writes_parts, &w, in, 4, KILN_SCAN(.carried = 2), out, 2);
}

static void parts_are_changed_where_they_lie(void **state)
{
    struct fixture *f = *state;
    int64_t places[] = {0, 2, 1, 1, 0, 2, 0};
    kiln_tensor *in[] = {kiln_normal(f->dev, KILN_F32, KILN_SHAPE(3, 8), 0, 1),
                         kiln_normal(f->dev, KILN_F32, KILN_SHAPE(8), 0, 1),
                         kiln_normal(f->dev, KILN_F32, KILN_SHAPE(7, 8), 0, 1),
                         kiln_from_data(f->dev, KILN_I64, KILN_SHAPE(7), places),
                         kiln_normal(f->dev, KILN_F32, KILN_SHAPE(8, 8), 0, 0.4)},
                *want[2], *got[2];
    ok(scans_parts(NULL, in, 5, want, 2));
    kiln_function *j = capture_in(STRICT, scans_parts, NULL);
    for (int call = 0; call < 3; call++) {
        ok(kiln_call(j, in, 5, got, 2));
        for (int i = 0; i < 2; i++) assert_true(is_near(got[i], want[i]));
    }
    kiln_function_free(&j);
}

// --- numbers of trips

REGION(counts_in_two)
{
    kiln_tensor *h = kiln_add(half(in[1]), in[0]);
    out[0] = kiln_add(half(kiln_flip(h, KILN_AXES(0))), kiln_mul(half(total(h)), half(in[0])));
    return kiln_error();
}

REGION(runs_counted)
{
    return kiln_for(in[1], counts_in_two, NULL, in, 1, NULL, out, 1);
}

static void the_number_of_the_trip_goes_on(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = capture_in(STRICT, runs_counted, NULL),
                  *body = kiln_jit(counts_in_two, NULL, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
    for (int64_t trips = 0; trips < 12; trips++) {
        kiln_tensor *in[] = {vec(f, 3, 1, -2, 3), kiln_from_data(f->dev, KILN_I64, 0, NULL, &trips)}, *got,
                    *now[2] = {NULL, in[0]};
        ok(kiln_call(j, in, 2, &got, 1));
        for (int64_t trip = 0; trip < trips; trip++) {
            now[0] = kiln_scalar_int(trip);
            kiln_tensor *next;
            ok(kiln_call(body, now, 2, &next, 1));
            now[1] = next;
        }
        assert_true(strcmp(jit_device, "cpu") ? is_near(got, now[1]) : same_bits(got, now[1]));
    }
    kiln_function_free(&body);
    kiln_function_free(&j);
}

// --- many trips, which one function makes in the end

enum { MANY = 40000 };

// Between 0 and 1, and of a bit that differs nothing is the same some trips later.
REGION(goes_round)
{
    kiln_tensor *h = kiln_mul(kiln_mul(in[1], kiln_sub(kiln_scalar(1), in[1])), kiln_scalar(3.9));
    kiln_tensor *mean = kiln_mul(kiln_mean(h, NULL), kiln_scalar(0.05));
    kiln_tensor *turned = kiln_mul(kiln_flip(h, KILN_AXES(0)), kiln_scalar(0.9));
    out[0] = kiln_add(kiln_add(turned, mean), kiln_mul(in[0], kiln_scalar(0x1p-20)));
    return kiln_error();
}

REGION(runs_many)
{
    return kiln_for(in[1], goes_round, NULL, in, 1, NULL, out, 1);
}

// Of the first call most trips are made by single launches, of the second none.
static void many_trips_give_the_bits_of_few(void **state)
{
    static const int64_t sizes[] = {1, 3, 4, 5, 8, 15, 16, 17, 31, 64, 67};
    struct fixture *f = *state;
    bool cpu = !strcmp(jit_device, "cpu");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        kiln_scope *scope = kiln_scope_begin();
        int64_t trips = cpu ? MANY : 100;
        kiln_tensor *first = kiln_uniform(f->dev, KILN_F32, 1, &sizes[i], 0.1, 0.9), *all[2];
        for (int turn = 0; turn < 2; turn++) {
            kiln_function *j = capture_in(STRICT, runs_many, NULL);
            kiln_tensor *in[] = {first, kiln_from_data(f->dev, KILN_I64, 0, NULL, &trips)};
            for (int call = 0; call <= turn; call++) ok(kiln_call(j, in, 2, &all[turn], 1));
            kiln_function_free(&j);
        }
        if (cpu ? !same_bits(all[0], all[1]) : !is_near(all[0], all[1]))
            fail_msg("%d elements: the second call differs", (int)sizes[i]);
        kiln_scope_end(&scope);
    }
}

// --- conditions

REGION(is_below)
{
    out[0] = kiln_less(kiln_max(in[0], NULL), in[1]);
    return kiln_error();
}

REGION(adds_one)
{
    out[0] = kiln_add(in[0], kiln_scalar(1));
    out[1] = in[1];
    return kiln_error();
}

// Several launches, of which the condition reads what two leave.
REGION(adds_and_rolls)
{
    kiln_tensor *h = kiln_add(in[0], kiln_mul(total(kiln_abs(in[0])), kiln_scalar(0.01)));
    out[0] = kiln_add(kiln_roll(h, KILN_ARGS(1), KILN_AXES(0)), kiln_scalar(1));
    out[1] = kiln_sub(in[1], kiln_mul(kiln_abs(kiln_min(out[0], NULL)), kiln_scalar(0.001)));
    return kiln_error();
}

struct while_case {
    const char *what;
    kiln_fn body;
    int64_t bound;
};

REGION(runs_while)
{
    const struct while_case *c = user;
    return kiln_while(is_below, c->body, NULL, in, 2, KILN_LOOP(.bound = c->bound), out, 2);
}

static int64_t while_by_trips(const struct while_case *c, kiln_tensor **now)
{
    kiln_function *body = kiln_jit(c->body, NULL, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
    int64_t trips = 0;
    for (;; trips++) {
        kiln_tensor *more;
        ok(is_below(NULL, now, 2, &more, 1));
        if (kiln_item(more) == 0) break;
        kiln_tensor *next[2];
        ok(kiln_call(body, now, 2, next, 2));
        memcpy(now, next, sizeof next);
    }
    kiln_function_free(&body);
    return trips;
}

static void conditions_end_loops_after_any_number_of_trips(void **state)
{
    static const struct while_case cases[] = {{"one launch", adds_one, 0},
                                              {"one launch, a bound", adds_one, 40},
                                              {"several launches", adds_and_rolls, 0},
                                              {"several launches, a bound", adds_and_rolls, 40}};
    struct fixture *f = *state;
    bool cpu = !strcmp(jit_device, "cpu");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int limit = 0; limit < 14; limit++) {
            kiln_scope *scope = kiln_scope_begin();
            kiln_tensor *in[] = {vec(f, 3, 1, 0.5, -2), kiln_full(f->dev, KILN_F32, 0, NULL, limit)}, *got[2],
                        *want[] = {in[0], in[1]};
            int64_t trips = while_by_trips(&cases[i], want);
            assert_in_range(trips, 0, 39);
            for (enum cell cell = 0; cell < CELLS; cell++) {
                kiln_function *j = capture_in(cell, runs_while, (void *)(uintptr_t)&cases[i]);
                for (int call = 0; call < 3; call++) {
                    ok(kiln_call(j, in, 2, got, 2));
                    for (int k = 0; k < 2; k++)
                        if (cpu && cell != AUTO ? !same_bits(got[k], want[k]) : !is_near(got[k], want[k]))
                            fail_msg("%s, %s, limit %d: result %d differs", cases[i].what, cell_names[cell], limit, k);
                }
                kiln_function_free(&j);
                ok(kiln_set_mode(KILN_MODE_EAGER));
            }
            kiln_scope_end(&scope);
        }
}

static void a_bound_ends_them_with_an_error(void **state)
{
    struct fixture *f = *state;
    for (int64_t bound = 1; bound < 9; bound++) {
        struct while_case c = {"bound", adds_one, bound};
        kiln_function *j = capture_in(STRICT, runs_while, &c);
        for (int64_t trips = bound - 1; trips < bound + 2; trips++) {
            kiln_tensor *in[] = {kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(3)),
                                 kiln_full(f->dev, KILN_F32, 0, NULL, (double)trips)},
                        *out[2];
            kiln_status status = kiln_call(j, in, 2, out, 2);
            if (trips <= bound) {
                ok(status);
                assert_true(kiln_item(kiln_max(out[0], NULL)) == (double)trips);
            } else
                fails(status ? status : kiln_device_synchronize(f->dev), KILN_E_STATE, "the loop goes on after");
        }
        kiln_function_free(&j);
    }
}

// --- what fails in a trip

REGION(looks_up_twice)
{
    kiln_tensor *table = *(kiln_tensor **)user;
    out[0] = kiln_mul(kiln_add(half(in[0]), kiln_take(table, 0, in[1])), kiln_add(half(total(in[0])), kiln_scalar(1)));
    return kiln_error();
}

REGION(scans_indices)
{
    kiln_tensor *table = in[2];
    return kiln_scan(looks_up_twice, &table, in, 2, KILN_SCAN(.carried = 1), out, 1);
}

static void an_index_out_of_range_ends_the_loop(void **state)
{
    struct fixture *f = *state;
    int64_t rows[12] = {0, 2, 1, 2, 0, 1, 1, 0, 2, 2, 0, 1};
    kiln_tensor *in[] = {kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(2)),
                         kiln_from_data(f->dev, KILN_I64, KILN_SHAPE(6, 2), rows), vec(f, 3, 1, 2, 3)},
                *want, *got;
    ok(scans_indices(NULL, in, 3, &want, 1));
    kiln_function *j = capture_in(STRICT, scans_indices, NULL);
    ok(kiln_call(j, in, 3, &got, 1));
    assert_true(is_near(got, want));
    for (int at = 0; at < 12 && !strcmp(jit_device, "cpu"); at++) {
        int64_t bad[12];
        memcpy(bad, rows, sizeof bad);
        bad[at] = 3;
        in[1] = kiln_from_data(f->dev, KILN_I64, KILN_SHAPE(6, 2), bad);
        fails(kiln_call(j, in, 3, &got, 1), KILN_E_ARGUMENT, "out of range");
    }
    kiln_function_free(&j);
}

// --- how they run

static char *explanation(kiln_function *j)
{
    char *text = NULL;
    size_t size_B;
    FILE *file = open_memstream(&text, &size_B);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    return text;
}

static void explained(kiln_function *j, const char *part)
{
    char *text = explanation(j);
    if (!strstr(text, part)) fail_msg("\"%s\" is not in\n%s", part, text);
    free(text);
}

REGION(draws)
{
    out[0] = kiln_add(half(in[0]), kiln_uniform(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(3), 0, 1));
    out[1] = in[1];
    return kiln_error();
}

// As many launches are counted as run.
static void an_explanation_says_that_launches_are_laid_out_once(void **state)
{
    if (strcmp(jit_device, "cpu") || !KILN_WITH_LLVM || getenv("KILN_DEBUG")) skip();
    static const struct while_case loops = {"a loop", adds_one, 0}, random = {"random", draws, 20};
    struct fixture *f = *state;
    kiln_function *j = capture_in(STRICT, runs_while, (void *)(uintptr_t)&loops);
    kiln_tensor *in[] = {vec(f, 3, 0, 0, 0), kiln_full(f->dev, KILN_F32, 0, NULL, 10)}, *out[MOST];
    uint64_t n[2];
    for (int i = 0; i < 2; i++) { // ten trips more
        ok(kiln_call(j, in, 2, out, 2));
        n[i] = launches_of(f);
        ok(kiln_call(j, in, 2, out, 2));
        n[i] = launches_of(f) - n[i];
        in[1] = kiln_full(f->dev, KILN_F32, 0, NULL, 20);
    }
    assert_in_range(n[1] - n[0], 20, 30); // one of the condition and one or two of the body
    assert_int_equal((n[1] - n[0]) % 10, 0);
    explained(j, "launches laid out once");
    kiln_function_free(&j);

    struct scan s = {.c = &scans[4]};
    kiln_tensor *rows[MOST + 2];
    int n_rows = make_inputs(f, s.c, ROWS, rows);
    j = capture_in(STRICT, runs_scan, &s);
    ok(kiln_call(j, rows, (size_t)n_rows, out, 2));
    explained(j, "launches laid out once");
    kiln_function_free(&j);

    j = capture_in(STRICT, runs_while, (void *)(uintptr_t)&random);
    in[1] = kiln_full(f->dev, KILN_F32, 0, NULL, -1);
    ok(kiln_call(j, in, 2, out, 2));
    explained(j, "launches laid out in each trip (random numbers)");
    kiln_function_free(&j);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(scans_give_the_bits_of_trips_one_by_one),
        FIXTURE(parts_are_changed_where_they_lie),
        FIXTURE(the_number_of_the_trip_goes_on),
        FIXTURE(many_trips_give_the_bits_of_few),
        FIXTURE(conditions_end_loops_after_any_number_of_trips),
        FIXTURE(a_bound_ends_them_with_an_error),
        FIXTURE(an_index_out_of_range_ends_the_loop),
        FIXTURE(an_explanation_says_that_launches_are_laid_out_once),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
