// Random programs of ops, views, writes and reads, whose numbers are small integers, run eagerly and in AUTO: the same
// bits, at each of several calls, and the same gradients of what leaves them.
#include "jit_fixture.h"

enum { POOL = 6, LENGTH = 24, CALLS = 4, SIDE = 4, MODULUS = 13 };

struct program {
    struct fixture *f;
    uint8_t code[LENGTH][4];
    kiln_tensor *state; // outside of the function
    double number;      // another one at each call
    double read;        // what the host has read
};

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static kiln_tensor *wrap(kiln_tensor *t)
{
    return kiln_remainder(t, kiln_scalar(MODULUS));
}

static kiln_tensor *host_matrix(struct fixture *f, double first)
{
    float v[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) v[i] = (float)fmod(first + 3 * i, MODULUS);
    return kiln_from_data(f->dev, KILN_F32, KILN_SHAPE(SIDE, SIDE), v);
}

static kiln_status write_part(kiln_tensor *a, kiln_tensor *b, int row)
{
    kiln_tensor *part = kiln_select(a, row & 1, row % SIDE);
    TRY_(kiln_add_(part, kiln_select(b, 0, 1)));
    return kiln_assign(part, wrap(part));
}

static kiln_status write_flat(kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *flat = kiln_reshape(a, KILN_SHAPE(-1)); // a view, or a copy
    return kiln_assign(kiln_narrow(flat, 0, 3, SIDE), kiln_select(b, 1, 0));
}

static kiln_tensor *drawn(struct fixture *f)
{
    kiln_tensor *u = kiln_uniform(f->dev, KILN_F32, KILN_SHAPE(SIDE, SIDE), 0, 1);
    return kiln_floor(kiln_mul(u, kiln_scalar(MODULUS)));
}

// Instructions that make a tensor; NULL for the others.
static kiln_tensor *compute(struct program *p, int op, kiln_tensor *a, kiln_tensor *b)
{
    switch (op) {
    case 0: return wrap(kiln_add(a, b));
    case 1: return wrap(kiln_sub(a, kiln_mul(b, kiln_scalar(2))));
    case 2: return kiln_maximum(a, b);
    case 3: return wrap(kiln_mul(a, b));
    case 4: return kiln_transpose(a, 0, 1);
    case 5: return kiln_where(kiln_greater(a, b), a, kiln_add(b, kiln_scalar(1)));
    case 6: return wrap(kiln_add(kiln_mul(a, kiln_scalar(p->number)), b));
    case 7: return drawn(p->f);
    case 8: return wrap(kiln_matmul(a, kiln_transpose(b, 0, 1)));
    case 9: return kiln_narrow(kiln_concat((kiln_tensor *[]){a, b}, 2, 0), 0, 2, SIDE);
    case 10: return wrap(kiln_add(p->state, a));
    case 11: return kiln_alias(a);
    case 12: return host_matrix(p->f, p->number);
    default: return NULL;
    }
}

static kiln_status effect(struct program *p, int op, kiln_tensor *a, kiln_tensor *b, int last)
{
    switch (op) {
    case 13: TRY_(kiln_add_(a, b)); return kiln_assign(a, wrap(a));
    case 14: return write_part(a, b, last);
    case 15: return write_flat(a, b);
    case 16: return kiln_assign(a, b);
    case 17: return kiln_assign(p->state, a);
    case 18: return write_part(p->state, b, last);
    case 19: p->read += kiln_item(kiln_sum(a, NULL)); return kiln_error();
    case 20: return kiln_item(kiln_max(a, NULL)) > 6 ? kiln_neg_(b) : kiln_assign(b, kiln_scalar(last));
    case 21: p->read += kiln_item(kiln_select(kiln_select(a, 0, last % SIDE), 0, 0)); return kiln_error();
    default: return kiln_assign(kiln_select(p->state, 0, 0), kiln_scalar(p->number));
    }
}

static kiln_status run_program(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct program *p = user;
    kiln_tensor *pool[POOL];
    for (int i = 0; i < POOL; i++) pool[i] = wrap(kiln_add(in[i % 2], kiln_scalar(i)));
    for (int i = 0; i < LENGTH; i++) {
        const uint8_t *c = p->code[i];
        kiln_tensor *a = pool[c[1] % POOL], *b = pool[c[2] % POOL];
        kiln_tensor *made = compute(p, c[0] % 23, a, b);
        if (made)
            pool[c[3] % POOL] = made;
        else
            TRY_(effect(p, c[0] % 23, a, b, c[3]));
    }
    for (int i = 0; i < POOL; i++) out[i] = pool[i];
    return kiln_error();
}

static kiln_status run_in_region(struct program *p, kiln_tensor *const *in, kiln_tensor **out)
{
    KILN_CAPTURE(p->f->dev)
    {
        TRY_(run_program(p, in, 2, out, POOL));
        for (int i = 0; i < POOL; i++) out[i] = kiln_keep(kiln_alias(out[i]));
    }
    return kiln_error();
}

enum way { EAGER, FUNCTION, REGION };

// Everything that a program leaves, as numbers.
static void run_calls(const struct program *from, enum way way, double *left)
{
    struct program p = *from;
    kiln_tensor *out[POOL];
    kiln_scope *scope = kiln_scope_begin();
    p.state = host_matrix(p.f, 5);
    kiln_function *j = kiln_jit(run_program, &p, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    ok(kiln_seed(p.f->dev, 3));
    for (int i = 0; i < CALLS; i++) {
        kiln_tensor *in[] = {host_matrix(p.f, i), host_matrix(p.f, 2 * i + 1)};
        p.number = i;
        p.read = 0;
        ok(way == EAGER      ? run_program(&p, in, 2, out, POOL)
           : way == FUNCTION ? kiln_call(j, in, 2, out, POOL)
                             : run_in_region(&p, in, out));
        for (int k = 0; k < POOL; k++, left += SIDE * SIDE) read_all(out[k], left);
        *left++ = p.read;
    }
    read_all(p.state, left);
    kiln_function_free(&j);
    kiln_scope_end(&scope);
}

static void random_programs_are_those_of_eager(void **state)
{
    static double want[CALLS * (POOL * SIDE * SIDE + 1) + SIDE * SIDE], got[sizeof want / sizeof *want];
    const char *from = getenv("KILN_TEST_SEED"), *count = getenv("KILN_TEST_PROGRAMS");
    uint64_t first = from ? strtoull(from, NULL, 10) : 1, n = count ? strtoull(count, NULL, 10) : 40;
    for (uint64_t k = first; k < first + n; k++) {
        struct program p = {.f = *state};
        uint64_t seed = k * UINT64_C(0x9e3779b97f4a7c15);
        for (int i = 0; i < LENGTH; i++)
            for (int c = 0; c < 4; c++) p.code[i][c] = (uint8_t)next(&seed);
        run_calls(&p, EAGER, want);
        for (enum way way = FUNCTION; way <= REGION; way++) {
            run_calls(&p, way, got);
            for (size_t i = 0; i < sizeof want / sizeof *want; i++)
                if (got[i] != want[i]) fail_msg("seed %d: number %d is %g, not %g", (int)k, (int)i, got[i], want[i]);
        }
    }
}

// A sum of all results that have gradients, run back. False: eager mode refuses it.
static bool run_back(struct program *p, kiln_tensor *const *out)
{
    kiln_tensor *sum = NULL;
    for (int k = 0; k < POOL; k++) {
        if (!kiln_requires_grad(out[k])) continue;
        kiln_tensor *part = kiln_mul(kiln_sum(kiln_mul(out[k], host_matrix(p->f, k)), NULL), kiln_scalar(.125));
        sum = sum ? kiln_add(sum, part) : part;
    }
    if (!sum || !kiln_backward(sum, NULL)) return true;
    assert_int_equal(kiln_error(), KILN_E_GRADIENT);
    kiln_error_clear();
    return false;
}

struct gradients {
    bool done[CALLS];
    double of[CALLS][2 * SIDE * SIDE];
};

static void run_gradients(const struct program *from, enum way way, struct gradients *g)
{
    struct program p = *from;
    kiln_tensor *out[POOL];
    kiln_scope *scope = kiln_scope_begin();
    kiln_function *j = kiln_jit(run_program, &p, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    ok(kiln_seed(p.f->dev, 3));
    for (int i = 0; i < CALLS; i++) {
        kiln_tensor *in[] = {kiln_parameter(host_matrix(p.f, i), "x"),
                             kiln_parameter(host_matrix(p.f, 2 * i + 1), "y")};
        p.state = host_matrix(p.f, 5);
        p.number = i;
        ok(way == EAGER ? run_program(&p, in, 2, out, POOL) : kiln_call(j, in, 2, out, POOL));
        g->done[i] = run_back(&p, out);
        for (int k = 0; k < 2; k++) {
            kiln_tensor *d = kiln_gradient(in[k]);
            memset(g->of[i] + k * SIDE * SIDE, 0, sizeof *g->of[i] * SIDE * SIDE);
            if (d) read_all(d, g->of[i] + k * SIDE * SIDE);
        }
    }
    kiln_function_free(&j);
    kiln_scope_end(&scope);
}

// Where eager mode has a gradient, AUTO has the same. It may have one where a write has spoilt what single ops keep.
static bool same_gradients(const struct gradients *want, const struct gradients *got, int call)
{
    double largest = 0;
    if (!want->done[call] || !strcmp(jit_device, "null")) return true; // where nothing computes, paths may differ
    for (int i = 0; i < 2 * SIDE * SIDE; i++) largest = fmax(largest, fabs(want->of[call][i]));
    for (int i = 0; i < 2 * SIDE * SIDE; i++)
        if (!(fabs(want->of[call][i] - got->of[call][i]) <= 1e-5 * largest)) return false;
    return got->done[call];
}

static void random_gradients_are_those_of_eager(void **state)
{
    const char *from = getenv("KILN_TEST_SEED"), *count = getenv("KILN_TEST_PROGRAMS");
    uint64_t first = from ? strtoull(from, NULL, 10) : 1, n = count ? strtoull(count, NULL, 10) : 40;
    int done = 0;
    for (uint64_t k = first; k < first + n; k++) {
        struct program p = {.f = *state};
        struct gradients want, got;
        uint64_t seed = k * UINT64_C(0x9e3779b97f4a7c15);
        for (int i = 0; i < LENGTH; i++)
            for (int c = 0; c < 4; c++) p.code[i][c] = (uint8_t)next(&seed);
        for (int i = 0; i < LENGTH; i++) // few writes: they spoil what single ops have kept
            if (p.code[i][0] % 23 >= 13 && p.code[i][0] % 23 < 19 && next(&seed) % 8) p.code[i][0] %= 13;
        run_gradients(&p, EAGER, &want);
        run_gradients(&p, FUNCTION, &got);
        for (int i = 0; i < CALLS; i++) {
            done += want.done[i];
            if (!same_gradients(&want, &got, i)) fail_msg("seed %d, call %d: other gradients", (int)k, i);
        }
    }
    print_message("%d calls of %d programs had gradients\n", done, (int)n);
    assert_true(n < 10 || done > (int)n);
}

int main(int argc, char **argv)
{
    setenv("KILN_JIT_RECOMPILES", "100000", 1); // all programs share one region
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {FIXTURE(random_programs_are_those_of_eager),
                                       FIXTURE(random_gradients_are_those_of_eager)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
