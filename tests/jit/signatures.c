// Signatures with open dimensions, and symbols.
#include "jit_fixture.h"

static kiln_status count(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(kiln_sum(in[0], NULL), kiln_scalar(2));
    return kiln_error();
}

static kiln_status run(const struct fixture *f, kiln_function *j, size_t rank, const int64_t *dims)
{
    kiln_scope *s = kiln_scope_begin();
    kiln_tensor *x = kiln_ones(f->dev, KILN_F32, rank, dims), *y = NULL;
    kiln_status status = kiln_call(j, &x, 1, &y, 1);
    if (!status) assert_true(kiln_item(y) == 2 * (double)kiln_numel(x));
    kiln_scope_end(&s);
    return status;
}

// The example of the documents: (None, s1, s1, s2, s2), s1 = 8 N + 1, s2 at most 32 and unique.
static void the_example_of_the_documents(void **state)
{
    struct fixture *f = *state;
    for (int c = KILN_CAPTURE_STRICT; c <= KILN_CAPTURE_TRACE; c++) {
        int64_t s1 = kiln_symbol("s1", KILN_SYMBOL(.divisor = 8, .remainder = 1));
        int64_t s2 = kiln_symbol("s2", KILN_SYMBOL(.max = 32, .unique = true));
        assert_true(s1 < -1 && s2 < -1 && s1 != s2);
        kiln_function *j = kiln_jit(
            count, NULL,
            KILN_JIT(.capture = (kiln_capture)c, .input_types = KILN_TYPES(KILN_TYPE(KILN_F32, -1, s1, s1, s2, s2))));
        ok(run(f, j, KILN_SHAPE(1, 9, 17, 32, 32)));
        ok(run(f, j, KILN_SHAPE(8, 25, 9, 30, 30)));
        ok(run(f, j, KILN_SHAPE(0, 25, 9, 30, 30)));
        fails(run(f, j, KILN_SHAPE(1, 8, 17, 32, 32)), KILN_E_SHAPE,
              "dimension 1 is 8, symbol s1 says 1 or more, 8 N + 1 with N from 1");
        fails(run(f, j, KILN_SHAPE(1, 1, 17, 32, 32)), KILN_E_SHAPE, "dimension 1 is 1, symbol s1");
        fails(run(f, j, KILN_SHAPE(1, 9, 16, 32, 32)), KILN_E_SHAPE, "dimension 2 is 16, symbol s1");
        fails(run(f, j, KILN_SHAPE(1, 9, 17, 33, 33)), KILN_E_SHAPE, "dimension 3 is 33, symbol s2 says 1 to 32");
        fails(run(f, j, KILN_SHAPE(1, 9, 17, 32, 31)), KILN_E_SHAPE,
              "dimension 4 is 31, but symbol s2 is 32, by dimension 3 of input 0");
        fails(run(f, j, KILN_SHAPE(1, 9, 17, 0, 0)), KILN_E_SHAPE, "dimension 3 is 0, symbol s2");
        fails(run(f, j, KILN_SHAPE(9, 17, 32, 32)), KILN_E_SHAPE,
              "is f32[9,17,32,32], its signature says f32[-1,s1,s1,s2,s2]");
        ok(run(f, j, KILN_SHAPE(8, 25, 9, 30, 30)));
        kiln_function_free(&j);
    }
}

static kiln_status product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_relu(kiln_matmul(in[0], in[1]));
    return kiln_error();
}

static void a_symbol_in_two_inputs(void **state)
{
    struct fixture *f = *state;
    int64_t inner = kiln_symbol("inner", KILN_SYMBOL(.min = 2, .unique = true));
    kiln_function *j =
        kiln_jit(product, NULL,
                 KILN_JIT(.input_types = KILN_TYPES(KILN_TYPE(KILN_F32, -1, inner), KILN_TYPE(KILN_F32, inner, 4))));
    for (int64_t n = 1; n < 6; n++) {
        kiln_tensor *in[] = {kiln_ones(f->dev, KILN_F32, KILN_SHAPE(3, n)),
                             kiln_ones(f->dev, KILN_F32, KILN_SHAPE(n, 4))},
                    *y;
        if (n == 1) {
            fails(kiln_call(j, in, 2, &y, 1), KILN_E_SHAPE, "input 0 of the function at signatures.c");
            continue;
        }
        ok(kiln_call(j, in, 2, &y, 1));
        assert_true(kiln_item(kiln_sum(y, NULL)) == 12. * (double)n);
        in[1] = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(n + 1, 4));
        fails(kiln_call(j, in, 2, &y, 1), KILN_E_SHAPE, "by dimension 1 of input 0");
        in[1] = kiln_ones(f->dev, KILN_F64, KILN_SHAPE(n, 4));
        fails(kiln_call(j, in, 2, &y, 1), KILN_E_SHAPE, "its signature says f32[inner,4]");
    }
    assert_int_equal(stats_of(j).captures, 4);
    kiln_function_free(&j);
}

// The least and the largest size, and their neighbours, of many rules.
static void rules_allow_what_they_say(void **state)
{
    static const int64_t rules[][4] = {{0, 0, 0, 0},  {1, 1, 0, 0},   {5, 9, 0, 0}, {0, 40, 8, 0},
                                       {0, 40, 8, 3}, {20, 50, 7, 2}, {3, 0, 5, 4}, {0, 64, 64, 0}};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const int64_t *r = rules[i];
        char name[16];
        snprintf(name, sizeof name, "rule%zu", i);
        int64_t s = kiln_symbol(name, KILN_SYMBOL(.min = r[0], .max = r[1], .divisor = r[2], .remainder = r[3]));
        assert_true(s < -1);
        assert_true(s == kiln_symbol(name, KILN_SYMBOL(.min = r[0], .max = r[1], .divisor = r[2], .remainder = r[3])));
        assert_true(s != kiln_symbol(name, KILN_SYMBOL(.min = r[0], .max = r[1], .divisor = r[2], .remainder = r[3],
                                                       .unique = true)));
        kiln_function *j = kiln_jit(count, NULL, KILN_JIT(.input_types = KILN_TYPES(KILN_TYPE(KILN_F32, s, 2))));
        for (int64_t n = 0; n < 70; n++) {
            int64_t divisor = r[2] ? r[2] : 1, by = n - r[3];
            bool allowed = n >= (r[0] ? r[0] : 1) && (!r[1] || n <= r[1]) && by > 0 && by % divisor == 0;
            kiln_status status = run(f, j, KILN_SHAPE(n, 2));
            assert_int_equal(status, allowed ? KILN_OK : KILN_E_SHAPE);
            kiln_error_clear();
        }
        kiln_function_free(&j);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(the_example_of_the_documents),
        FIXTURE(a_symbol_in_two_inputs),
        FIXTURE(rules_allow_what_they_say),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
