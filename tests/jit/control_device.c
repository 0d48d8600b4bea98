// Loops and conditions of which the device decides: what they give is what eager mode gives, for any number of trips;
// nobody waits for a device that has nothing to do; what was recorded in vain is less than a chunk; what a device finds
// wrong comes to whoever waits next.
#include "jit_cells.h"
#include <kiln/control.h>
#include <pthread.h>
#include <unistd.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

static kiln_device_stats device_stats(struct fixture *f)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(f->dev, &s);
    return s;
}

static void expect_in_explanation(kiln_function *j, const char *part, char *out, size_t size_B)
{
    char *text = NULL;
    size_t text_B;
    FILE *file = open_memstream(&text, &text_B);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    const char *at = strstr(text, part);
    if (!at && !out) fail_msg("\"%s\" is not in\n%s", part, text);
    if (out) snprintf(out, size_B, "%s", at ? at + strlen(part) : "");
    free(text);
}

static void expect_not_in_explanation(kiln_function *j, const char *part)
{
    char text[32];
    expect_in_explanation(j, part, text, sizeof text);
    assert_int_equal(strlen(text), 0);
}

// Trips of a chunk; 0: the host decides.
static int64_t chunk_of(kiln_function *j)
{
    char text[32];
    expect_in_explanation(j, "which the device decides, in chunks of ", text, sizeof text);
    return atoll(text);
}

// Of a child of the loop; 0: it is not there.
static uint64_t launches_in(kiln_function *j, const char *child)
{
    char text[64];
    expect_in_explanation(j, child, text, sizeof text);
    const char *at = strstr(text, " in ");
    return at ? (uint64_t)atoll(at + 4) : 0;
}

static bool decides(void)
{
    return !strcmp(jit_device, "vulkan");
}

static kiln_tensor *number(struct fixture *f, double v)
{
    return kiln_full(f->dev, KILN_F32, KILN_SHAPE0, v);
}

static kiln_tensor *integer(struct fixture *f, int64_t v)
{
    return kiln_full(f->dev, KILN_I64, KILN_SHAPE0, (double)v);
}

// --- loops: what is carried is how many trips there were, and a value that tells their order

static int64_t bound;
enum { CHUNK = 64 }; // trips of a loop whose body is one launch

REGION(is_less)
{
    out[0] = kiln_less(in[0], user);
    return kiln_error();
}

REGION(counts_up)
{
    out[0] = kiln_add(in[0], kiln_scalar(1));
    out[1] = kiln_add(kiln_mul(in[1], kiln_scalar(0.75)), in[0]);
    return kiln_error();
}

REGION(while_less)
{
    kiln_tensor *all[] = {kiln_zeros_like(in[0]), kiln_ones_like(in[0])};
    return kiln_while(is_less, counts_up, in[0], all, 2, KILN_LOOP(.bound = bound), out, 2);
}

REGION(counts_up_at)
{
    out[0] = kiln_add(kiln_mul(in[1], kiln_scalar(0.75)), in[0]);
    return kiln_error();
}

REGION(for_count)
{
    kiln_tensor *one = kiln_ones(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE0);
    out[1] = kiln_cast(in[0], KILN_F32);
    return kiln_for(in[0], counts_up_at, NULL, &one, 1, KILN_LOOP(.bound = bound), out, 1);
}

static void host_values(int64_t trips, float *value)
{
    *value = 1;
    for (int64_t i = 0; i < trips; i++) *value = *value * 0.75f + (float)i;
}

struct counted {
    uint64_t waits, idle_waits, wasted, launches;
};

static struct counted call_once(struct fixture *f, kiln_function *j, kiln_tensor *n, kiln_tensor **y)
{
    struct counted c;
    ok(kiln_device_synchronize(f->dev));
    kiln_device_reset_stats(f->dev);
    ok(kiln_call(j, &n, 1, y, 2));
    kiln_device_stats s = device_stats(f);
    c.waits = s.waits;
    c.idle_waits = s.idle_waits;
    c.launches = s.launches;
    ok(kiln_device_synchronize(f->dev));
    c.wasted = device_stats(f).wasted_launches;
    return c;
}

// As many launches as were recorded and not run: all of the trips that a loop of at most one chunk might have made, and
// what brings home what an odd number of trips leaves elsewhere.
static void expect_no_waste(kiln_function *j, const struct counted *c, int64_t trips, int64_t most)
{
    int64_t chunk = chunk_of(j);
    uint64_t of_trip = launches_in(j, " body: ") + launches_in(j, " cond: ");
    assert_true(chunk >= 2 && chunk % 2 == 0 && of_trip > 0);
    assert_int_equal(c->idle_waits, 0);
    if (most && most <= chunk) {
        uint64_t at_end = trips % 2 ? 0 : launches_in(j, " end, after an odd number of trips: ");
        assert_int_equal(c->waits, 0);
        assert_int_equal(c->wasted, (uint64_t)(most - trips) * of_trip + at_end);
    } else {
        assert_true(c->wasted <= (uint64_t)chunk * of_trip);
        assert_true(c->waits <= 2 + 2 * (uint64_t)trips / (uint64_t)chunk);
    }
}

static void makes_trips(struct fixture *f, bool of_count, int64_t trips, int64_t most)
{
    float want;
    kiln_tensor *y[2], *n = of_count ? integer(f, trips) : number(f, (double)trips);
    bound = most;
    kiln_function *j = kiln_jit(of_count ? for_count : while_less, NULL, NULL);
    call_once(f, j, n, y); // compiles
    struct counted c = call_once(f, j, n, y);
    host_values(trips, &want);
    assert_true(kiln_item(y[of_count ? 0 : 1]) == want);
    assert_true(kiln_item(y[of_count ? 1 : 0]) == (double)trips);
    bool inside = of_count && (!most || most > CHUNK); // of a kernel: the count is read once, by the host
    if (decides() && inside) assert_true(c.waits <= 1 && c.wasted == 0 && c.launches <= 6);
    if (decides() && !inside) expect_no_waste(j, &c, trips, most);
    kiln_function_free(&j);
}

static void any_number_of_trips(void **state)
{
    struct fixture *f = *state;
    static const int64_t trips[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000};
    for (int of_count = 0; of_count < 2; of_count++)
        for (size_t i = 0; i < sizeof trips / sizeof *trips; i++) {
            kiln_scope *s = kiln_scope_begin();
            makes_trips(f, of_count, trips[i], 0);
            makes_trips(f, of_count, trips[i], trips[i] + 1);
            if (trips[i]) makes_trips(f, of_count, trips[i], trips[i]);
            if (trips[i] < 20) makes_trips(f, of_count, trips[i], 20);
            makes_trips(f, of_count, trips[i], 100000);
            kiln_scope_end(&s);
        }
}

// --- what is found to be wrong

static void fails_late(struct fixture *f, kiln_status status, kiln_status want, const char *part)
{
    fails(status ? status : kiln_device_synchronize(f->dev), want, part);
    ok(kiln_device_synchronize(f->dev));
}

static void a_bound_is_exceeded(void **state)
{
    struct fixture *f = *state;
    static const int64_t bounds[] = {1, 5, 64, 65, 200};
    for (int of_count = 0; of_count < 2; of_count++)
        for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
            char part[80];
            kiln_tensor *y[2], *n = of_count ? integer(f, bounds[i] + 1) : number(f, (double)bounds[i] + 1),
                               *fits = of_count ? integer(f, bounds[i]) : number(f, (double)bounds[i]);
            bound = bounds[i];
            kiln_function *j = kiln_jit(of_count ? for_count : while_less, NULL, NULL);
            snprintf(part, sizeof part, "%s: the loop goes on after %lld trips, its .bound", of_count ? "for" : "while",
                     (long long)bound);
            for (int t = 0; t < 2; t++) {
                fails_late(f, kiln_call(j, &n, 1, y, 2), KILN_E_STATE, part);
                ok(kiln_call(j, &fits, 1, y, 2)); // the next call is fine
                ok(kiln_device_synchronize(f->dev));
                assert_true(kiln_item(y[of_count ? 1 : 0]) == (double)bounds[i]);
            }
            kiln_function_free(&j);
        }
}

// Who reads gets the error, once.
static void a_read_tells_of_a_bound(void **state)
{
    struct fixture *f = *state;
    float v;
    kiln_tensor *y[2], *n = number(f, 6);
    bound = 5;
    kiln_function *j = kiln_jit(while_less, NULL, NULL);
    kiln_status status = kiln_call(j, &n, 1, y, 2);
    fails(status ? status : kiln_read(y[0], &v, sizeof v), KILN_E_STATE, "goes on after 5 trips");
    if (!status) ok(kiln_read(y[0], &v, sizeof v));
    kiln_function_free(&j);
}

// The function and its program are gone by the time that somebody waits.
static void a_fault_outlives_its_function(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *y[2], *n = number(f, 6);
    bound = 5;
    kiln_function *j = kiln_jit(while_less, NULL, NULL);
    kiln_status status = kiln_call(j, &n, 1, y, 2);
    kiln_function_free(&j);
    fails_late(f, status, KILN_E_STATE, "goes on after 5 trips");
}

static void a_count_is_negative(void **state)
{
    struct fixture *f = *state;
    static const int64_t bounds[] = {0, 5, 500};
    for (size_t i = 0; i < 3; i++) {
        kiln_tensor *y[2], *n = integer(f, -3);
        bound = bounds[i];
        kiln_function *j = kiln_jit(for_count, NULL, NULL);
        fails_late(f, kiln_call(j, &n, 1, y, 2), KILN_E_ARGUMENT, "for: count is -3");
        kiln_function_free(&j);
    }
}

// --- conditions

REGION(plus_one)
{
    out[0] = kiln_add(in[0], kiln_scalar(1));
    return kiln_error();
}

REGION(times_three)
{
    out[0] = kiln_mul(in[0], kiln_scalar(3));
    return kiln_error();
}

REGION(root_of)
{
    out[0] = kiln_sqrt(in[0]);
    return kiln_error();
}

REGION(chooses)
{
    static const kiln_fn all[] = {plus_one, times_three, root_of};
    TRY_(kiln_switch(in[1], all, 3, NULL, in, 1, out, 1));
    return kiln_cond(kiln_greater(out[0], kiln_scalar(5)), plus_one, times_three, NULL, out, 1, &out[1], 1);
}

static void an_index_is_of_any_integer(void **state)
{
    struct fixture *f = *state;
    static const kiln_dtype dtypes[] = {KILN_U8, KILN_I8, KILN_I16, KILN_I32, KILN_I64};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        kiln_function *j = kiln_jit(chooses, NULL, NULL);
        kiln_tensor *y[2], *in[] = {number(f, 4), kiln_full(f->dev, dtypes[d], KILN_SHAPE0, 2)};
        ok(kiln_call(j, in, 2, y, 2));
        expect(y[0], 1, 2.0);
        in[1] = kiln_full(f->dev, dtypes[d], KILN_SHAPE0, d ? -2 : 200);
        fails_late(f, kiln_call(j, in, 2, y, 2), KILN_E_ARGUMENT, d ? "index is -2" : "index is 200");
        kiln_function_free(&j);
    }
}

// Whether small branches become selections.
static bool selects(void)
{
    const char *debug = getenv("KILN_DEBUG");
    return !debug || !strstr(debug, "skip=select");
}

static void conditions_wait_for_nothing(void **state)
{
    struct fixture *f = *state;
    static const double want[3][2] = {{5, 15}, {12, 13}, {2, 6}};
    kiln_function *j = kiln_jit(chooses, NULL, NULL);
    for (int t = 0; t < 2; t++)
        for (int64_t i = 0; i < 3; i++) {
            kiln_tensor *y[2], *in[] = {number(f, 4), integer(f, i)};
            ok(kiln_device_synchronize(f->dev));
            kiln_device_reset_stats(f->dev);
            ok(kiln_call(j, in, 2, y, 2));
            if (decides() && t) assert_int_equal(device_stats(f).waits, 0);
            ok(kiln_device_synchronize(f->dev));
            // Of three regions one was taken; of two one, unless both are computed.
            if (decides()) assert_int_equal(device_stats(f).wasted_launches, selects() ? 2 : 3);
            expect(y[0], 1, want[i][0]);
            expect(y[1], 1, want[i][1]);
        }
    if (decides()) expect_in_explanation(j, "switch: 3 regions, the device decides by the index", NULL, 0);
    for (int64_t i = -1; i < 4; i += 4) {
        kiln_tensor *y[2], *in[] = {number(f, 4), integer(f, i)};
        fails_late(f, kiln_call(j, in, 2, y, 2), KILN_E_ARGUMENT,
                   i < 0 ? "switch: index is -1, there are 3 branches" : "switch: index is 3, there are 3 branches");
    }
    kiln_function_free(&j);
}

// --- gradients: the trips of the loop, from the last to the first

REGION(grows)
{
    out[0] = kiln_mul(in[0], kiln_add(kiln_sin(in[1]), kiln_scalar(0.25)));
    out[1] = kiln_add(in[1], kiln_scalar(1));
    return kiln_error();
}

REGION(is_second_less)
{
    out[0] = kiln_less(in[1], user);
    return kiln_error();
}

REGION(product)
{
    kiln_tensor *all[] = {in[0], kiln_zeros_like(in[1])}, *y[2];
    TRY_(kiln_while(is_second_less, grows, in[1], all, 2, KILN_LOOP(.bound = bound), y, 2));
    out[0] = kiln_sum(kiln_mul(y[0], in[0]), NULL);
    return kiln_error();
}

REGION(grows_at)
{
    out[0] = kiln_mul(in[1], kiln_add(kiln_sin(in[1]), kiln_scalar(0.75)));
    return kiln_error();
}

REGION(product_by_count)
{
    kiln_tensor *y;
    TRY_(kiln_for(in[1], grows_at, NULL, in, 1, KILN_LOOP(.bound = bound), &y, 1));
    out[0] = kiln_sum(kiln_mul(y, in[0]), NULL);
    return kiln_error();
}

REGION(slope)
{
    return kiln_value_and_grad(*(const kiln_fn *)user, NULL, in, n_in, KILN_GRAD(.wrt = KILN_ARGS(0)), out, 2);
}

static void slope_is_that_of_eager_mode(struct fixture *f, kiln_fn fn, int64_t trips)
{
    kiln_tensor *x = vec(f, 3, 0.75, -1.5, 1), *y[2], *want[2];
    kiln_tensor *in[] = {x, fn == product ? number(f, (double)trips) : integer(f, trips)};
    kiln_function *j = kiln_jit(slope, &fn, NULL);
    ok(slope(&fn, in, 2, want, 2));
    for (int t = 0; t < 2; t++) {
        ok(kiln_device_synchronize(f->dev));
        kiln_device_reset_stats(f->dev);
        ok(kiln_call(j, in, 2, y, 2));
        kiln_device_stats s = device_stats(f);
        bool inside = bound > CHUNK; // of kernels: what goes back reads the count, and what goes forward by one
        if (decides() && t) assert_true(s.idle_waits <= (inside ? 2 : 0));
        if (decides() && t && bound <= 2) assert_int_equal(s.waits, 0);
        near(y[0], want[0], 1e-5);
        near(y[1], want[1], 1e-5);
    }
    if (decides()) expect_in_explanation(j, "at most, from the last row to the first", NULL, 0);
    if (decides()) expect_not_in_explanation(j, "the host waits");
    kiln_function_free(&j);
}

static void slopes_of_any_number_of_trips(void **state)
{
    static const int64_t bounds[] = {1, 2, 7, 64, 150};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        for (int64_t trips = 0; trips <= bounds[i]; trips += trips < 3 ? 1 : bounds[i] / 5 + 1) {
            kiln_scope *s = kiln_scope_begin();
            bound = bounds[i];
            slope_is_that_of_eager_mode(*state, product, trips);
            slope_is_that_of_eager_mode(*state, product_by_count, trips);
            kiln_scope_end(&s);
        }
}

// --- regions inside of regions

REGION(is_small)
{
    out[0] = kiln_less(kiln_sum(in[0], NULL), kiln_scalar(1000));
    return kiln_error();
}

REGION(inner_goes_on)
{
    out[0] = kiln_less(in[1], in[2]);
    return kiln_error();
}

REGION(inner_step)
{
    out[0] = kiln_add(in[0], kiln_scalar(0.5));
    out[1] = kiln_add(in[1], kiln_scalar(1));
    out[2] = kiln_mul(in[2], kiln_scalar(1));
    return kiln_error();
}

REGION(adds_rows)
{
    out[0] = kiln_add(in[0], in[1]);
    return kiln_error();
}

// A condition, a loop of unknown length, one by a count and one by rows, in each trip.
REGION(does_much)
{
    kiln_tensor *x, *y[3];
    TRY_(kiln_cond(kiln_greater(kiln_max(in[0], NULL), kiln_scalar(20)), times_three, plus_one, NULL, in, 1, &x, 1));
    kiln_tensor *all[] = {x, kiln_scalar(0), kiln_fmod(kiln_abs(kiln_max(x, NULL)), kiln_scalar(7))};
    all[1] = kiln_zeros_like(all[2]);
    TRY_(kiln_while(inner_goes_on, inner_step, NULL, all, 3, NULL, y, 3));
    kiln_tensor *count = kiln_cast(kiln_fmod(kiln_abs(kiln_min(y[0], NULL)), kiln_scalar(3)), KILN_I64), *z;
    TRY_(kiln_for(count, counts_up_at, NULL, y, 1, NULL, &z, 1));
    kiln_tensor *rows[] = {z, kiln_stack((kiln_tensor *[]){z, y[0], x}, 3, 0)};
    TRY_(kiln_scan(adds_rows, NULL, rows, 2, KILN_SCAN(.carried = 1), &z, 1));
    out[0] = kiln_maximum(z, kiln_add(in[0], kiln_scalar(5)));
    return kiln_error();
}

REGION(nests)
{
    return kiln_while(is_small, does_much, NULL, in, 1, NULL, out, 1);
}

static void regions_stand_in_each_other(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(nests, NULL, NULL);
    for (double start = -3; start < 1500; start += 201.5) {
        kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(3), start), *y, *want;
        ok(nests(NULL, &x, 1, &want, 1));
        for (int t = 0; t < 2; t++) {
            ok(kiln_device_synchronize(f->dev));
            kiln_device_reset_stats(f->dev);
            ok(kiln_call(j, &x, 1, &y, 1));
            if (decides() && (t || start > 0)) assert_int_equal(device_stats(f).idle_waits, 0);
            same(y, want);
        }
    }
    kiln_function_free(&j);
}

// --- more launches than a gate has room for at a time

enum { PRODUCTS = 150 };

REGION(many_products)
{
    out[0] = in[0];
    for (int i = 0; i < PRODUCTS; i++) out[0] = kiln_matmul(out[0], in[1]);
    return kiln_error();
}

REGION(other_products)
{
    TRY_(many_products(user, in, n_in, out, n_out));
    out[0] = kiln_neg(out[0]);
    return kiln_error();
}

REGION(chooses_products)
{
    kiln_tensor *large = kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0));
    return kiln_cond(large, many_products, other_products, NULL, in, 2, out, 1);
}

REGION(product_step)
{
    TRY_(chooses_products(user, in, n_in, out, 1));
    out[1] = in[1];
    out[2] = kiln_add(in[2], kiln_scalar(1));
    return kiln_error();
}

REGION(few_steps)
{
    out[0] = kiln_less(in[2], user);
    return kiln_error();
}

REGION(product_steps)
{
    kiln_tensor *all[] = {in[0], in[1], kiln_zeros_like(in[2])}, *y[3];
    TRY_(kiln_while(few_steps, product_step, in[2], all, 3, NULL, y, 3));
    out[0] = y[0];
    return kiln_error();
}

static void regions_of_many_launches(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *turn = mat(f, 2, 2, 0.8, 0.6, -0.6, 0.8), *y, *want;
    for (int steps = 0; steps < 4; steps++) {
        kiln_tensor *in[] = {mat(f, 2, 2, 1.0, 2.0, 3.0, 4.0), turn, number(f, steps)};
        kiln_function *j = kiln_jit(product_steps, NULL, NULL), *once = kiln_jit(chooses_products, NULL, NULL);
        ok(product_steps(NULL, in, 3, &want, 1));
        ok(kiln_device_synchronize(f->dev));
        ok(kiln_call(j, in, 3, &y, 1));
        near(y, want, 1e-4);
        kiln_device_reset_stats(f->dev);
        ok(kiln_call(j, in, 3, &y, 1));
        if (decides()) assert_int_equal(device_stats(f).idle_waits, 0);
        near(y, want, 1e-4);
        // By itself a condition with so much in it is read.
        ok(chooses_products(NULL, in, 2, &want, 1));
        ok(kiln_call(once, in, 2, &y, 1));
        near(y, want, 1e-4);
        if (decides()) expect_in_explanation(once, "switch: 2 regions, for which the host waits by the index", NULL, 0);
        kiln_function_free(&once);
        kiln_function_free(&j);
    }
}

// A region that is not taken makes no trips, and finds nothing wrong.
REGION(bounded_inside)
{
    kiln_tensor *all[] = {kiln_zeros_like(in[0]), in[0]}, *y[2];
    TRY_(kiln_while(is_less, counts_up, in[0], all, 2, KILN_LOOP(.bound = 3), y, 2));
    out[0] = y[0];
    return kiln_error();
}

REGION(minus)
{
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

REGION(perhaps_bounded)
{
    return kiln_cond(kiln_less(in[0], kiln_scalar(100)), bounded_inside, minus, NULL, in, 1, out, 1);
}

static void what_is_not_taken_finds_nothing_wrong(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(perhaps_bounded, NULL, NULL);
    kiln_tensor *y, *far = number(f, 200), *fits = number(f, 3), *more = number(f, 4);
    for (int t = 0; t < 2; t++) {
        ok(kiln_call(j, &far, 1, &y, 1));
        ok(kiln_device_synchronize(f->dev));
        expect(y, 1, -200.0);
        ok(kiln_call(j, &fits, 1, &y, 1));
        expect(y, 1, 3.0);
        fails_late(f, kiln_call(j, &more, 1, &y, 1), KILN_E_STATE, "goes on after 3 trips");
    }
    kiln_function_free(&j);
}

// --- who decides

REGION(sine_in_f64)
{
    out[0] = kiln_add(kiln_cast(kiln_sin(kiln_cast(in[0], KILN_F64)), KILN_F32), kiln_scalar(1));
    return kiln_error();
}

REGION(is_under_user)
{
    out[0] = kiln_less(in[0], kiln_scalar(1.9));
    return kiln_error();
}

REGION(falls_back)
{
    return kiln_while(is_under_user, sine_in_f64, NULL, in, 1, NULL, out, 1);
}

static void the_host_decides_where_the_device_cannot(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = number(f, 0.25), *y, *want;
    kiln_function *j = kiln_jit(falls_back, NULL, NULL);
    ok(falls_back(NULL, &x, 1, &want, 1));
    ok(kiln_call(j, &x, 1, &y, 1));
    same(y, want);
    if (decides()) expect_in_explanation(j, "for which the host waits in each trip (", NULL, 0);
    kiln_function_free(&j);
}

// --- threads: each has its loops and its faults

struct worker {
    struct fixture *f;
    int64_t first;
    int n_faults;
    bool right;
};

static void *work(void *user)
{
    struct worker *w = user;
    kiln_scope *s = kiln_scope_begin();
    kiln_function *j = kiln_jit(while_less, NULL, NULL);
    w->right = true;
    for (int64_t i = 0; i < 40; i++) {
        float want, got = 0;
        int64_t trips = (w->first + 17 * i) % 90;
        kiln_tensor *y[2], *n = number(w->f, (double)trips);
        kiln_status status = kiln_call(j, &n, 1, y, 2);
        if (!status) status = kiln_read(y[1], &got, sizeof got);
        host_values(trips, &want);
        bool beyond = trips > 70;
        w->n_faults += beyond;
        w->right &= beyond ? status == KILN_E_STATE : !status && got == want;
        kiln_error_clear();
    }
    kiln_function_free(&j);
    kiln_scope_end(&s);
    return NULL;
}

static void threads_have_their_own(void **state)
{
    struct worker workers[3];
    pthread_t threads[3];
    bound = 70;
    for (int i = 0; i < 3; i++) {
        workers[i] = (struct worker){.f = *state, .first = 13 * i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) {
        assert_true(workers[i].right);
        assert_true(workers[i].n_faults > 0);
    }
}

// --- the device that computes nothing: its gates are never open, and it looks at all addresses of what is recorded

static void calls_twice(struct fixture *f, kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, size_t n_out)
{
    kiln_tensor *y[2];
    kiln_function *j = kiln_jit(fn, user, NULL);
    for (int t = 0; t < 2; t++) {
        kiln_device_reset_stats(f->dev);
        ok(kiln_call(j, in, n_in, y, n_out));
        assert_true(device_stats(f).launches > 0);
    }
    expect_not_in_explanation(j, "the host waits");
    kiln_function_free(&j);
}

static void what_is_recorded_lies_in_memory(void **state)
{
    struct fixture *f = *state;
    static const int64_t bounds[] = {0, 3, 64, 65, 1000};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        static const kiln_fn functions[] = {product, product_by_count};
        kiln_tensor *x = vec(f, 3, 1, 2, 3), *n[] = {number(f, 7), integer(f, 7)};
        bound = bounds[i];
        calls_twice(f, while_less, NULL, n, 1, 2);
        calls_twice(f, for_count, NULL, n + 1, 1, 2);
        for (int k = 0; k < 2 && bound; k++)
            calls_twice(f, slope, (void *)(uintptr_t)&functions[k], (kiln_tensor *[]){x, n[k]}, 2, 2);
    }
    kiln_tensor *in[] = {number(f, 4), integer(f, 1)}, *x = vec(f, 3, 1, 2, 3);
    calls_twice(f, chooses, NULL, in, 2, 2);
    calls_twice(f, nests, NULL, &x, 1, 1);
    calls_twice(f, perhaps_bounded, NULL, in, 1, 1);
}

static void few_trips_of_a_loop_without_end_are_recorded(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *y[2], *n = number(f, 1e9);
    bound = 0;
    kiln_function *j = kiln_jit(while_less, NULL, NULL);
    ok(kiln_call(j, &n, 1, y, 2));
    kiln_device_reset_stats(f->dev);
    ok(kiln_call(j, &n, 1, y, 2));
    uint64_t half = (uint64_t)chunk_of(j) / 2, of_trip = launches_in(j, " body: ") + launches_in(j, " cond: ");
    uint64_t made = device_stats(f).launches;
    assert_true(half > 0 && made >= half * (of_trip + 1) && made <= half * (of_trip + 1) + 10);
    kiln_function_free(&j);
}

static int run_on_null(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(what_is_recorded_lies_in_memory),
        FIXTURE(few_trips_of_a_loop_without_end_are_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(any_number_of_trips),
        FIXTURE(a_bound_is_exceeded),
        FIXTURE(a_read_tells_of_a_bound),
        FIXTURE(a_fault_outlives_its_function),
        FIXTURE(a_count_is_negative),
        FIXTURE(conditions_wait_for_nothing),
        FIXTURE(an_index_is_of_any_integer),
        FIXTURE(slopes_of_any_number_of_trips),
        FIXTURE(regions_stand_in_each_other),
        FIXTURE(regions_of_many_launches),
        FIXTURE(what_is_not_taken_finds_nothing_wrong),
        FIXTURE(the_host_decides_where_the_device_cannot),
        FIXTURE(threads_have_their_own),
    };
    if (choose_device(argc, argv)) return 77;
    if (!strcmp(jit_device, "null")) return run_on_null();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
