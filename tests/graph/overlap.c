// Memory that a view shows twice: which layouts do is told exactly, and no op writes through one.
#include "ir/overlap.h"
#include "../jit/jit_fixture.h"

// --- layouts, by marking each element ---

static bool marks_twice(const struct type *t, const struct layout *l)
{
    uint8_t seen[512] = {0};
    int64_t index[MAX_RANK] = {0}, n = type_numel(t);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 256;
        for (int d = 0; d < t->rank; d++) at += index[d] * l->strides[d];
        if (seen[at]++) return true;
        for (int d = t->rank; d-- > 0;) {
            if (++index[d] < t->dims[d]) break;
            index[d] = 0;
        }
    }
    return false;
}

static void layouts_that_overlap(void **state)
{
    uint64_t random = 1;
    int n[2] = {0, 0};
    for (int i = 0; i < 200000; i++) {
        struct type t = {.rank = (uint8_t)(i % 5)};
        struct layout l = {.offset = 3};
        for (int d = 0; d < t.rank; d++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            t.dims[d] = (int64_t)(random >> 40) % (i % 3 ? 4 : 5);
            l.strides[d] = (int64_t)(random >> 50) % 29 - 10;
        }
        bool want = marks_twice(&t, &l);
        n[want]++;
        if (layout_overlaps(&t, &l) != want)
            fail_msg("%lld %lld %lld %lld by %lld %lld %lld %lld: %d", (long long)t.dims[0], (long long)t.dims[1],
                     (long long)t.dims[2], (long long)t.dims[3], (long long)l.strides[0], (long long)l.strides[1],
                     (long long)l.strides[2], (long long)l.strides[3], want);
    }
    assert_true(n[0] > 10000 && n[1] > 10000);
}

static void large_layouts(void **state)
{
    const int64_t m = 1 << 20;
    struct type t = {.rank = 3, .dims = {1000, 1000, 1000}};
    assert_false(layout_overlaps(&t, &(struct layout){.strides = {1, m, m * m}}));
    assert_true(layout_overlaps(&t, &(struct layout){.strides = {m * m, 0, m}}));
    assert_true(layout_overlaps(&t, &(struct layout){.strides = {3, 2, m * m}}));
    assert_true(layout_overlaps(&t, &(struct layout){.strides = {1, 999, m * m}}));
    assert_false(layout_overlaps(&t, &(struct layout){.strides = {1, -1000, m * m}}));
    t.dims[1] = 0;
    assert_false(layout_overlaps(&t, &(struct layout){.strides = {0, 0, 0}}));
}

// --- writes ---

enum write { ADD, EXP, ASSIGN, SET_SLICE, WRITE, WRITES };

static kiln_status write_to(kiln_tensor *t, enum write how)
{
    const float data[64] = {0};
    kiln_slice_opts all = {.size = sizeof all};
    switch (how) {
    case ADD: return kiln_add_(t, kiln_scalar(1));
    case EXP: return kiln_exp_(t);
    case ASSIGN: return kiln_assign(t, kiln_scalar(2));
    case SET_SLICE: return kiln_set_slice(t, &all, kiln_scalar(2));
    default: return kiln_write(t, data, (size_t)kiln_numel(t) * sizeof *data);
    }
}

static kiln_tensor *windows(kiln_tensor *x) // [3, 2] of [6]: neighbours share an element
{
    return kiln_as_strided(x, KILN_SHAPE(3, 2), KILN_SHAPE(1, 1), 0);
}

static kiln_tensor *expanded(kiln_tensor *x)
{
    return kiln_expand(kiln_narrow(x, 0, 0, 1), KILN_SHAPE(4));
}

static kiln_tensor *apart(kiln_tensor *x) // strides that are not nested, and yet no element twice: 0 2 4 3 5 7
{
    return kiln_as_strided(x, KILN_SHAPE(2, 3), KILN_SHAPE(3, 2), 0);
}

static void writes_through_shared(void **state)
{
    struct fixture *f = *state;
    for (int how = 0; how < WRITES; how++) {
        kiln_tensor *x = vec(f, 6, 1, 2, 3, 4, 5, 6);
        fails(write_to(expanded(x), how), KILN_E_ARGUMENT, "share memory: f32[4] with strides (0)");
        fails(write_to(windows(x), how), KILN_E_ARGUMENT, "share memory: f32[3,2] with strides (1, 1)");
        expect(x, 6, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0);
    }
    kiln_tensor *x = vec(f, 6, 1, 2, 3, 4, 5, 6);
    fails(kiln_mul_(expanded(x), kiln_scalar(2)), KILN_E_ARGUMENT, "mul_: elements of a share memory");
    fails(kiln_assign(expanded(x), kiln_scalar(2)), KILN_E_ARGUMENT, "assign_: elements of dst share memory");
    ok(kiln_add_(kiln_select(kiln_expand(kiln_reshape(x, KILN_SHAPE(1, 6)), KILN_SHAPE(3, 6)), 0, 1), kiln_scalar(1)));
    expect(x, 6, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0);
    kiln_tensor *y = vec(f, 8, 0, 0, 0, 0, 0, 0, 0, 0);
    ok(kiln_add_(apart(y), mat(f, 2, 3, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)));
    expect(y, 8, 1.0, 0.0, 2.0, 4.0, 3.0, 5.0, 0.0, 6.0);
}

struct written {
    enum write how;
    kiln_tensor *(*view)(kiln_tensor *); // NULL: the input itself
};

static kiln_status writes(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct written *w = user;
    kiln_tensor *x = w->view ? kiln_mul(in[0], kiln_scalar(1)) : in[0];
    TRY_(write_to(w->view ? w->view(x) : x, w->how));
    out[0] = kiln_add(x, kiln_scalar(1));
    return kiln_error();
}

static void captured_writes(void **state)
{
    struct fixture *f = *state;
    static kiln_tensor *(*const views[])(kiln_tensor *) = {expanded, windows, NULL};
    static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE, KILN_CAPTURE_AUTO};
    for (int i = 0; i < 3 * 3 * WRITES; i++) {
        struct written w = {(enum write)(i / 9), views[i % 3]};
        kiln_tensor *x = vec(f, 6, 1, 2, 3, 4, 5, 6), *in = w.view ? x : expanded(x), *out = NULL;
        kiln_function *j = kiln_jit(writes, &w, KILN_JIT(.capture = captures[i / 3 % 3]));
        fails(kiln_call(j, &in, 1, &out, 1), KILN_E_ARGUMENT, "share memory");
        expect(x, 6, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0);
        kiln_function_free(&j);
    }
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_that_overlap),
        cmocka_unit_test(large_layouts),
        FIXTURE(writes_through_shared),
        FIXTURE(captured_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
