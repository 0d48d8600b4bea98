// Regions that are wrong, counts, bounds and conditions that cannot be, in eager mode and in every capture: an error
// that says which region and what of it, and a function that works when it is called again.
#include "jit_cells.h"
#include <kiln/control.h>
#include <stdio.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

// Eagerly, then in each capture.
#define FIRST_WAY (-1)

static kiln_device *other;   // a second one
static kiln_tensor *foreign; // on it
static kiln_tensor *stolen;  // of a capture that is over
static kiln_tensor *frozen;  // a constant
static bool goes_wrong;

// --- what a region does wrong: it gives out[0], made of the last value that it is given

typedef kiln_tensor *wrong_fn(kiln_tensor *x);

static kiln_tensor *gives_nothing(kiln_tensor *x)
{
    return NULL;
}

static kiln_tensor *gives_f64(kiln_tensor *x)
{
    return kiln_cast(x, KILN_F64);
}

static kiln_tensor *gives_more(kiln_tensor *x)
{
    return kiln_concat((kiln_tensor *[]){x, x}, 2, 0);
}

static kiln_tensor *gives_rank(kiln_tensor *x)
{
    return kiln_unsqueeze(x, 0);
}

static kiln_tensor *gives_foreign(kiln_tensor *x)
{
    return foreign;
}

static kiln_tensor *mixes_devices(kiln_tensor *x)
{
    return kiln_add(x, foreign);
}

static kiln_tensor *fails_inside(kiln_tensor *x)
{
    return kiln_add(x, kiln_ones(kiln_tensor_device(x), KILN_F32, KILN_SHAPE(3)));
}

static kiln_tensor *gives_freed(kiln_tensor *x)
{
    kiln_tensor *own = kiln_own(kiln_neg(x)), *gone = own;
    kiln_free(&own);
    return gone;
}

static kiln_tensor *uses_freed(kiln_tensor *x)
{
    return kiln_add(x, gives_freed(x));
}

static kiln_tensor *gives_stolen(kiln_tensor *x)
{
    return stolen;
}

static kiln_tensor *uses_stolen(kiln_tensor *x)
{
    return kiln_add(x, stolen);
}

static kiln_tensor *writes_constant(kiln_tensor *x)
{
    kiln_add_(frozen, kiln_scalar(1));
    return kiln_neg(x);
}

static wrong_fn *wrong; // what the regions do when goes_wrong

static kiln_status does(kiln_tensor *x, kiln_tensor **out)
{
    out[0] = goes_wrong ? wrong(x) : kiln_mul(x, kiln_scalar(0.5));
    return kiln_error();
}

REGION(does_last)
{
    return does(in[n_in - 1], out);
}

REGION(is_right)
{
    out[0] = kiln_mul(in[n_in - 1], kiln_scalar(0.5));
    return kiln_error();
}

REGION(does_first)
{
    return does(in[0], out);
}

REGION(is_large)
{
    out[0] = kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0.6));
    return kiln_error();
}

REGION(by_cond)
{
    return kiln_cond(kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0)), does_last, is_right, NULL, in, 1, out, 1);
}

REGION(by_switch)
{
    static const kiln_fn branches[] = {is_right, does_last};
    kiln_tensor *index = kiln_cast(kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0)), KILN_I32);
    return kiln_switch(index, branches, 2, NULL, in, 1, out, 1);
}

REGION(by_while)
{
    return kiln_while(is_large, does_last, NULL, in, 1, KILN_LOOP(.bound = 9), out, 1);
}

REGION(by_for)
{
    return kiln_for(kiln_scalar_int(2), does_last, NULL, in, 1, NULL, out, 1);
}

REGION(by_scan)
{
    kiln_tensor *all[] = {in[0], kiln_stack((kiln_tensor *[]){in[0], in[0]}, 2, 0)};
    return kiln_scan(does_first, NULL, all, 2, KILN_SCAN(.carried = 1), out, 1);
}

static const struct construct {
    const char *name, *part; // that goes wrong
    kiln_fn fn;
    bool loops;
    double want; // of the first element, which is 1
} constructs[] = {
    {"cond", "then_fn", by_cond, false, 0.5},     {"switch", "branches[1]", by_switch, false, 0.5},
    {"while", "the body", by_while, true, 0.125}, {"for", "the body", by_for, true, 0.25},
    {"scan", "the body", by_scan, true, 0.25},
};
enum { CONSTRUCTS = sizeof constructs / sizeof *constructs };

// In messages %o is the construct, %p the part of it that went wrong.
static const struct mistake {
    wrong_fn *fn;
    kiln_status code;
    const char *of_branch, *of_loop;
    bool only_in_graphs, loops_too; // eager branches, and loops, may: there is nothing to agree with
} mistakes[] = {
    {gives_nothing, KILN_E_ARGUMENT, "%o: %p left output 0 of ", "%o: %p left output 0 of "},
    {gives_f64, KILN_E_DTYPE, "f64[2]", "%o: carried value 0 is f32[2] before trip 0 and f64[2] after it", true},
    {gives_more, KILN_E_SHAPE, "f32[4]", "%o: carried value 0 is f32[2] before trip 0 and f32[4] after it", true},
    {gives_rank, KILN_E_SHAPE, "they differ in rank", "they differ in rank", true},
    {gives_foreign, KILN_E_DEVICE_MISMATCH, "%o: ", "a tensor is on null", true, true},
    {mixes_devices, KILN_E_DEVICE_MISMATCH, "add: ", "add: "},
    {fails_inside, KILN_E_SHAPE, "add: shapes do not broadcast", "add: shapes do not broadcast"},
    {gives_freed, KILN_E_HANDLE, "%o: output 0 of %p is a handle that", "%o: output 0 of %p is a handle that"},
    {uses_freed, KILN_E_HANDLE, "add: b is a handle that was freed", "add: b is a handle that was freed"},
    {gives_stolen, KILN_E_STATE, "capture that has ended", "%o: "},
    {uses_stolen, KILN_E_STATE, "add: ", "capture that has ended"},
    {writes_constant, KILN_E_STATE, "add: a constant of ", "cannot be written", true, true},
};
enum { MISTAKES = sizeof mistakes / sizeof *mistakes };

REGION(steals)
{
    stolen = kiln_own(kiln_neg(in[0]));
    out[0] = kiln_exp(in[0]);
    return kiln_error();
}

static void steal(kiln_tensor *x)
{
    kiln_tensor *y;
    kiln_function *thief = kiln_jit(steals, NULL, NULL);
    ok(kiln_call(thief, &x, 1, &y, 1));
    kiln_function_free(&thief);
}

struct way {
    int cell;
    kiln_fn fn;
    void *user;
    kiln_function *captured; // NULL: eagerly
};

static struct way begin(int cell, kiln_fn fn, void *user)
{
    return (struct way){cell, fn, user, cell < 0 ? NULL : capture_in((enum cell)cell, fn, user)};
}

static kiln_status call(const struct way *w, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return w->captured ? kiln_call(w->captured, in, n_in, out, n_out) : w->fn(w->user, in, n_in, out, n_out);
}

static void end(struct way *w)
{
    kiln_function_free(&w->captured);
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static bool in_a_graph(const struct way *w)
{
    return w->cell >= 0 && w->cell != AUTO;
}

static const char *way_name(int cell)
{
    return cell < 0 ? "eager" : cell_names[cell];
}

static void say(const char *form, const struct construct *c, char *text, size_t size_B)
{
    size_t n = 0;
    for (; *form && n + 32 < size_B; form++)
        if (form[0] == '%')
            n += (size_t)snprintf(text + n, size_B - n, "%s", *++form == 'o' ? c->name : c->part);
        else
            text[n++] = *form;
    text[n] = '\0';
}

static void expect_mistake(const struct mistake *m, const struct construct *c, struct way *w, kiln_status status)
{
    char want[160];
    if (m->only_in_graphs && !in_a_graph(w) && (!c->loops || m->loops_too)) {
        ok(status);
        return;
    }
    say(c->loops ? m->of_loop : m->of_branch, c, want, sizeof want);
    if (status != m->code || !strstr(kiln_error_message(), want) || !strstr(kiln_error_message(), "control_wrong.c:"))
        fail_msg("%s, mistake %d, %s: %s: %s", c->name, (int)(m - mistakes), way_name(w->cell),
                 kiln_status_name(status), kiln_error_message());
    kiln_error_clear();
}

static void regions_that_are_wrong(void **state)
{
    struct fixture *f = *state;
    for (int m = 0; m < MISTAKES; m++)
        for (int c = 0; c < CONSTRUCTS; c++)
            for (int cell = FIRST_WAY; cell < CELLS; cell++) {
                kiln_scope *s = kiln_scope_begin();
                kiln_tensor *x = vec(f, 2, 1., 2.), *y = x;
                struct way w = begin(cell, constructs[c].fn, NULL);
                foreign = kiln_ones(other, KILN_F32, KILN_SHAPE(2));
                frozen = kiln_constant(vec(f, 2, 1., 2.));
                steal(x);
                wrong = mistakes[m].fn;
                goes_wrong = true;
                kiln_status status = call(&w, &x, 1, &y, 1);
                if (status) assert_null(y);
                expect_mistake(&mistakes[m], &constructs[c], &w, status);
                goes_wrong = false;
                kiln_free(&stolen);
                if (status) // nothing is left of it
                    for (int t = 0; t < 2; t++) {
                        ok(call(&w, &x, 1, &y, 1));
                        expect(y, 2, constructs[c].want, 2 * constructs[c].want);
                    }
                end(&w);
                kiln_scope_end(&s);
            }
}

// --- what a region made, outside of it

static kiln_tensor *escaped;

REGION(lets_escape)
{
    kiln_free(&escaped);
    escaped = kiln_own(kiln_mul(in[n_in - 1], kiln_scalar(2)));
    out[0] = kiln_neg(in[n_in - 1]);
    return kiln_error();
}

REGION(uses_escaped)
{
    kiln_tensor *y;
    if (*(bool *)user)
        TRY_(kiln_for(kiln_scalar_int(2), lets_escape, NULL, in, 1, NULL, &y, 1));
    else
        TRY_(kiln_cond(kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0)), lets_escape, lets_escape, NULL, in, 1, &y,
                       1));
    out[0] = kiln_add(y, escaped);
    return kiln_error();
}

static void what_a_region_made_is_used_outside(void **state)
{
    struct fixture *f = *state;
    for (int loops = 0; loops < 2; loops++)
        for (int cell = FIRST_WAY; cell < CELLS; cell++) {
            bool is_loop = loops;
            kiln_tensor *x = vec(f, 2, 1., 2.), *y;
            struct way w = begin(cell, uses_escaped, &is_loop);
            kiln_status status = call(&w, &x, 1, &y, 1);
            if (in_a_graph(&w))
                fails(status, KILN_E_STATE,
                      loops ? "in a region of for at control_wrong.c:" : "return it as an output");
            else
                ok(status);
            kiln_free(&escaped);
            end(&w);
        }
}

// --- a function in its own body

static kiln_function *recursive;

REGION(calls_itself)
{
    return kiln_call(recursive, in + n_in - 1, 1, out, 1);
}

REGION(holds_itself)
{
    if (*(bool *)user) return kiln_for(kiln_scalar_int(2), calls_itself, NULL, in, 1, NULL, out, 1);
    kiln_tensor *large = kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(4));
    return kiln_cond(large, is_right, calls_itself, NULL, in, 1, out, 1);
}

static void a_function_in_its_own_body(void **state)
{
    struct fixture *f = *state;
    for (int loops = 0; loops < 2; loops++)
        for (int cell = 0; cell < AUTO; cell++) {
            bool is_loop = loops;
            kiln_tensor *x = vec(f, 2, 1., 2.), *y;
            struct way w = begin(cell, holds_itself, &is_loop);
            recursive = w.captured;
            for (int t = 0; t < 2; t++)
                fails(call(&w, &x, 1, &y, 1), KILN_E_STATE, "calls itself while it is captured");
            end(&w);
        }
}

// --- counts

static int64_t bound;

REGION(adds_one)
{
    out[0] = kiln_add(in[n_in - 1], kiln_scalar(1));
    return kiln_error();
}

REGION(for_count)
{
    return kiln_for(in[1], adds_one, NULL, in, 1, KILN_LOOP(.bound = bound), out, 1);
}

// Where the device decides, who waits is told.
static void fails_at_last(struct fixture *f, kiln_status status, kiln_status want, const char *part)
{
    fails(status ? status : kiln_device_synchronize(f->dev), want, part);
    ok(kiln_device_synchronize(f->dev));
}

static void counts_that_cannot_be(void **state)
{
    struct fixture *f = *state;
    static const int64_t huge[] = {11, (int64_t)1 << 31, (int64_t)1 << 32, (int64_t)1 << 62, INT64_MAX};
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, for_count, NULL);
        kiln_tensor *in[] = {vec(f, 2, 1., 2.), kiln_ones(f->dev, KILN_F32, KILN_SHAPE0)}, *y;
        for (int t = 0; t < 2; t++) {
            bound = 10;
            in[1] = kiln_ones(f->dev, KILN_F32, KILN_SHAPE0);
            fails(call(&w, in, 2, &y, 1), KILN_E_DTYPE, "for: count is f32[], not an integer");
            in[1] = kiln_ones(f->dev, KILN_BOOL, KILN_SHAPE0);
            fails(call(&w, in, 2, &y, 1), KILN_E_DTYPE, "for: count is bool[], not an integer");
            in[1] = kiln_full(f->dev, KILN_I64, KILN_SHAPE(1), 3);
            fails(call(&w, in, 2, &y, 1), KILN_E_SHAPE, "for: count is i64[1], not one integer of rank 0");
            for (int64_t n = -1; n < 0; n = n < -1 ? 0 : INT64_MIN) {
                char part[64];
                snprintf(part, sizeof part, "for: count is %lld", (long long)n);
                in[1] = kiln_full_int(f->dev, KILN_I64, KILN_SHAPE0, n);
                fails_at_last(f, call(&w, in, 2, &y, 1), KILN_E_ARGUMENT, part);
            }
            for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
                in[1] = kiln_full_int(f->dev, KILN_I64, KILN_SHAPE0, huge[i]);
                fails_at_last(f, call(&w, in, 2, &y, 1), KILN_E_STATE,
                              "for: the loop goes on after 10 trips, its .bound");
            }
            for (int64_t n = 0; n <= 10; n += 5) {
                in[1] = kiln_full_int(f->dev, KILN_I64, KILN_SHAPE0, n);
                ok(call(&w, in, 2, &y, 1));
                expect(y, 2, 1. + (double)n, 2. + (double)n);
            }
        }
        end(&w);
    }
}

REGION(adds_and_tells)
{
    out[0] = kiln_add(in[0], kiln_scalar(1));
    out[1] = out[2] = in[0];
    return kiln_error();
}

REGION(stacks_without_end)
{
    kiln_tensor *y[3] = {NULL};
    TRY_(kiln_scan(adds_and_tells, NULL, in, 1, KILN_SCAN(.carried = 1, .length = bound), y, 3));
    out[0] = y[0];
    out[1] = kiln_sum(y[1], NULL);
    out[2] = kiln_sum(y[2], NULL);
    return kiln_error();
}

// More rows than there is memory for.
static void lengths_beyond_memory(void **state)
{
    struct fixture *f = *state;
    static const int64_t lengths[] = {(int64_t)1 << 48, (int64_t)1 << 60, (int64_t)1 << 61, (int64_t)1 << 62,
                                      INT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int cell = FIRST_WAY; cell < CELLS; cell++) {
            struct way w = begin(cell, stacks_without_end, NULL);
            kiln_tensor *x = vec(f, 2, 1., 2.), *y[3] = {NULL};
            bound = lengths[i];
            kiln_status status = call(&w, &x, 1, y, 3);
            bool told = status == KILN_E_MEMORY || status == KILN_E_DEVICE_MEMORY || status == KILN_E_SHAPE;
            if (!told || y[0]) fail_msg("%s: %s", way_name(cell), kiln_error_message());
            kiln_error_clear();
            bound = 3;
            struct way again = begin(cell, stacks_without_end, NULL);
            ok(call(&again, &x, 1, y, 3));
            expect(y[1], 1, 15.); // 1 2, 2 3, 3 4
            end(&again);
            end(&w);
        }
}

// --- loops that do not end, and conditions of what is no number

static kiln_tensor *counter;

REGION(counts_in_memory)
{
    TRY_(kiln_add_(counter, kiln_scalar(1)));
    out[0] = kiln_mul(in[n_in - 1], kiln_scalar(0.5));
    return kiln_error();
}

REGION(raises_little)
{
    out[0] = kiln_add(in[0], kiln_scalar(0.125));
    return kiln_error();
}

REGION(holds_always)
{
    out[0] = kiln_greater_equal(kiln_sum(in[0], NULL), kiln_scalar(0));
    return kiln_error();
}

REGION(never_ends)
{
    return kiln_while(holds_always, counts_in_memory, NULL, in, 1, KILN_LOOP(.bound = bound), out, 1);
}

REGION(counts_too_far)
{
    return kiln_for(in[1], counts_in_memory, NULL, in, 1, KILN_LOOP(.bound = bound), out, 1);
}

// The message says what is left, and it is so.
static void a_loop_that_never_ends(void **state)
{
    struct fixture *f = *state;
    static const int64_t bounds[] = {1, 7, 100, 5000};
    for (int counted = 0; counted < 2; counted++)
        for (int i = 0; i < 4; i++)
            for (int cell = FIRST_WAY; cell < CELLS; cell++) {
                struct way w = begin(cell, counted ? counts_too_far : never_ends, NULL);
                kiln_tensor *in[] = {vec(f, 2, 1., 2.), kiln_full_int(f->dev, KILN_I64, KILN_SHAPE0, INT64_MAX)}, *y;
                char part[80];
                counter = kiln_zeros(f->dev, KILN_F32, KILN_SHAPE0);
                ok(kiln_state(counter));
                bound = bounds[i];
                snprintf(part, sizeof part, "%s: the loop goes on after %lld trips, its .bound",
                         counted ? "for" : "while", (long long)bound);
                for (int t = 1; t < 3; t++) {
                    kiln_status status = call(&w, in, 1 + (size_t)counted, &y, 1);
                    if (!status) status = kiln_device_synchronize(f->dev);
                    const char *message = kiln_error_message();
                    bool written = strstr(message, "what these have written is written") != NULL;
                    bool dropped = strstr(message, "given and written is dropped") != NULL;
                    bool useless = strstr(message, "what it gave and wrote is of no use") != NULL;
                    if (written + dropped + useless != 1) fail_msg("%s", message);
                    fails(status, KILN_E_STATE, part);
                    double n = kiln_item(counter);
                    if ((written && n != (double)(t * bound)) || (dropped && n != 0))
                        fail_msg("%s, %s, bound %d: counted to %g", part, way_name(cell), (int)bound, n);
                }
                end(&w);
            }
}

// Where the device decides, a loop without a bound ends when a wait would.
REGION(never_ends_unbounded)
{
    return kiln_while(holds_always, raises_little, NULL, in, 1, NULL, out, 1);
}

static void a_loop_without_a_bound_that_never_ends(void **state)
{
    const char *debug = getenv("KILN_DEBUG");
    if (strcmp(jit_device, "vulkan") || (debug && strstr(debug, "replay"))) skip();
    setenv("KILN_WAIT_S", "1", 1);
    kiln_device *dev = kiln_device_open(jit_device);
    unsetenv("KILN_WAIT_S");
    assert_non_null(dev);
    kiln_scope *s = kiln_scope_begin();
    kiln_function *j = kiln_jit(never_ends_unbounded, NULL, NULL);
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), *y, *ends = kiln_neg(x);
    for (int t = 0; t < 2; t++) {
        fails(kiln_call(j, &x, 1, &y, 1), KILN_E_TIMEOUT, "trips and 1 s, in the function at control_wrong.c:");
        assert_null(y);
        ok(kiln_device_synchronize(dev));
        ok(kiln_call(j, &ends, 1, &y, 1));
        expect(y, 2, -1., -1.);
    }
    kiln_function_free(&j);
    kiln_scope_end(&s);
    kiln_device_close(&dev);
}

// Every comparison with what is no number is false, but that for being different.
REGION(is_below_ten)
{
    out[0] = kiln_less(kiln_sum(in[0], NULL), kiln_scalar(10));
    return kiln_error();
}

REGION(is_not_below_ten)
{
    out[0] = kiln_logical_not(kiln_less(kiln_sum(in[0], NULL), kiln_scalar(10)));
    return kiln_error();
}

REGION(differs_from_itself)
{
    kiln_tensor *s = kiln_sum(in[0], NULL);
    out[0] = kiln_not_equal(s, s);
    return kiln_error();
}

REGION(raises)
{
    out[0] = kiln_add(in[n_in - 1], kiln_scalar(4));
    return kiln_error();
}

REGION(spoils) // beyond six what it gives is no number
{
    kiln_tensor *x = in[n_in - 1];
    out[0] = kiln_add(x, kiln_mul(kiln_scalar(0), kiln_log(kiln_sub(kiln_scalar(6), x))));
    out[0] = kiln_add(out[0], kiln_scalar(2));
    return kiln_error();
}

REGION(conditions_of_nan)
{
    kiln_tensor *holds;
    TRY_(is_below_ten(NULL, in, 1, &holds, 1));
    TRY_(kiln_cond(holds, raises, adds_one, NULL, in + 1, 1, out, 1));
    TRY_(is_not_below_ten(NULL, in, 1, &holds, 1));
    TRY_(kiln_cond(holds, raises, adds_one, NULL, in + 1, 1, out + 1, 1));
    TRY_(differs_from_itself(NULL, in, 1, &holds, 1));
    TRY_(kiln_cond(holds, raises, adds_one, NULL, in + 1, 1, out + 2, 1));
    TRY_(kiln_cond(kiln_cast(kiln_sum(in[0], NULL), KILN_BOOL), raises, adds_one, NULL, in + 1, 1, out + 3, 1));
    return kiln_while(is_below_ten, spoils, NULL, in + 1, 1, NULL, out + 4, 1);
}

REGION(goes_on_for_nan)
{
    return kiln_while(is_not_below_ten, raises, NULL, in, 1, KILN_LOOP(.bound = 5), out, 1);
}

static void conditions_of_what_is_no_number(void **state)
{
    struct fixture *f = *state;
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, conditions_of_nan, NULL), again = begin(cell, goes_on_for_nan, NULL);
        for (int t = 0; t < 3; t++) {
            kiln_tensor *in[] = {vec(f, 2, NAN, 2.), vec(f, 1, 3.)}, *y[5], *numbers = vec(f, 1, 3.);
            ok(call(&w, in, 2, y, 5));
            expect(y[0], 1, 4.);
            expect(y[1], 1, 7.);
            expect(y[2], 1, 7.);
            expect(y[3], 1, 7.);                 // what is no number is not zero
            assert_true(isnan(kiln_item(y[4]))); // 3, 5, 7, and then no number ends the loop
            ok(call(&again, &numbers, 1, y, 1));
            expect(y[0], 1, 3.);
            fails_at_last(f, call(&again, in, 1, y, 1), KILN_E_STATE, "while: the loop goes on after 5 trips");
        }
        end(&w);
        end(&again);
    }
}

// --- indices

REGION(by_index)
{
    static const kiln_fn branches[] = {is_right, adds_one, raises};
    return kiln_switch(in[1], branches, 3, NULL, in, 1, out, 1);
}

static void an_index_without_a_branch(void **state)
{
    struct fixture *f = *state;
    static const int64_t indices[] = {3, -1, 1 << 20, (int64_t)1 << 32, ((int64_t)1 << 32) + 1, INT64_MIN, INT64_MAX};
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, by_index, NULL);
        for (size_t i = 0; i < 2 * sizeof indices / sizeof *indices; i++) {
            char part[80];
            kiln_tensor *in[] = {vec(f, 2, 1., 2.), kiln_full_int(f->dev, KILN_I64, KILN_SHAPE0, indices[i / 2])}, *y;
            snprintf(part, sizeof part, "switch: index is %lld, there are 3 branches", (long long)indices[i / 2]);
            fails_at_last(f, call(&w, in, 2, &y, 1), KILN_E_ARGUMENT, part);
            in[1] = kiln_full_int(f->dev, KILN_I64, KILN_SHAPE0, 2);
            ok(call(&w, in, 2, &y, 1));
            expect(y, 2, 5., 6.);
        }
        kiln_tensor *in[] = {vec(f, 2, 1., 2.), kiln_full(f->dev, KILN_F32, KILN_SHAPE0, 1)}, *y;
        fails(call(&w, in, 2, &y, 1), KILN_E_DTYPE, "switch: index is f32[], not an integer");
        in[1] = kiln_full(f->dev, KILN_I32, KILN_SHAPE(1), 1);
        fails(call(&w, in, 2, &y, 1), KILN_E_SHAPE, "switch: index is i32[1], not one integer of rank 0");
        end(&w);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(regions_that_are_wrong),
        FIXTURE(what_a_region_made_is_used_outside),
        FIXTURE(a_function_in_its_own_body),
        FIXTURE(counts_that_cannot_be),
        FIXTURE(lengths_beyond_memory),
        FIXTURE(a_loop_that_never_ends),
        FIXTURE(a_loop_without_a_bound_that_never_ends),
        FIXTURE(conditions_of_what_is_no_number),
        FIXTURE(an_index_without_a_branch),
    };
    if (choose_device(argc, argv)) return 77;
    other = kiln_device_open("null");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&other);
    return failed;
}
