// Kernels that make the trips of a loop: against trips one by one, by the reference and by compiled code; what has to
// stay outside; what the verifier finds.
#include "fused_fixture.h"
#include "codegen/llvm/llvm.h"
#include "fuse/fuse.h"
#include "fuse/trips.h"
#include "ir/graph.h"
#include "ir/launch.h"
#include "program/program.h"
#include <kiln/kiln.h>

enum { TRIPS = 7, ROOM = 1 << 14, MOST_BUFFERS = 12 };

static struct fused_case c;
static struct trips_of of;

// A body: inputs and outputs by hand, no buffers yet.
static void begin(int n_dims, int n_reduce, const int64_t *sizes)
{
    case_begin(&c, n_dims, n_reduce, sizes);
    of = (struct trips_of){.number = 40, .count = 41, .few = 4096, .most = TRIPS};
    for (int i = 0; i < FUSED_MAX_IN; i++) of.reads[i] = -1;
}

static void finish(void)
{
    int roots[FUSED_MAX_OUT];
    for (int i = 0; i < c.k.n_out; i++) roots[i] = c.out_node[i];
    assert_int_equal(dag_finish_all(&c.b, &c.arena, roots, c.k.n_out, &c.k.dag), KILN_OK);
    for (int i = 0; i < c.k.n_out; i++) c.k.out[i].node = (uint16_t)roots[i];
    for (int i = 0; i < c.k.n_in + c.k.n_out; i++)
        *(i < c.k.n_in ? &c.k.in[i].buffer : &c.k.out[i - c.k.n_in].to.buffer) = (uint16_t)i;
    if (fused_finish(&c.arena, &c.k)) fail_msg("%s", kiln_error_message());
}

static struct fused_kernel *looped(void)
{
    struct fused_kernel *k;
    const char *why;
    finish();
    assert_int_equal(fuse_trips(&c.arena, &c.k, &of, &k, &why), KILN_OK);
    if (!k) fail_msg("stays outside: %s", why);
    struct unit_buffer buffers[MOST_BUFFERS] = {{0}};
    if (fused_verify(k, buffers)) fail_msg("%s", kiln_error_message());
    return k;
}

static void outside(const char *what)
{
    struct fused_kernel *k;
    const char *why;
    finish();
    assert_int_equal(fuse_trips(&c.arena, &c.k, &of, &k, &why), KILN_OK);
    assert_null(k);
    if (!strstr(why, what)) fail_msg("\"%s\" is not about \"%s\"", why, what);
    case_end(&c);
}

static int carried(int which, unsigned dtype, const int64_t *strides)
{
    of.reads[c.k.n_in] = (int16_t)which;
    return case_in(&c, dtype, strides);
}

static int row(unsigned dtype, int64_t step, const int64_t *strides)
{
    of.step_B[c.k.n_in] = step * (int64_t)dtype_size_B[dtype];
    return case_in(&c, dtype, strides);
}

// Call it once all inputs are there.
static void result(int which, int node, unsigned dtype, int64_t step, const int64_t *strides)
{
    of.writes[c.k.n_out] = (int16_t)which;
    of.step_B[c.k.n_in + c.k.n_out] = step * (int64_t)dtype_size_B[dtype];
    if (!step) of.n_carried++;
    case_out(&c, node, dtype, strides);
}

static int number(void) // of the trip, in f32
{
    int node = case_scalar(&c, CLASS_F32, 0);
    c.k.scalar_input[c.k.n_scalars - 1] = (uint16_t)(of.number + 1);
    return node;
}

// --- bodies

// a' = b + n, b' = a / 2 + x, given: a' b'
static void swaps(unsigned dtype, int64_t n)
{
    const int64_t one[] = {1};
    begin(1, 0, (const int64_t[]){n});
    int a = carried(0, dtype, one), b = carried(1, dtype, one), x = row(dtype, n, one), trip = number();
    int new_a = dag_prim(&c.b, PRIM_add, b, trip, 0), new_b = case_expr(&c, "x / 2 + y", CLASS_F32, a, x, -1);
    result(0, new_a, dtype, 0, one);
    result(1, new_b, dtype, 0, one);
    result(2, dag_prim(&c.b, PRIM_mul, new_a, new_b, 0), dtype, n, one);
}

// s' = s / 2 for all, h' = h * s + x, from the last row to the first
static void shares(int64_t n)
{
    const int64_t one[] = {1}, none[] = {0};
    begin(1, 0, (const int64_t[]){n});
    int s = carried(0, KILN_F32, none), h = carried(1, KILN_F32, one), x = row(KILN_F32, -n, one);
    c.k.in[2].offset = (TRIPS - 1) * n;
    result(0, case_expr(&c, "x / 2", CLASS_F32, s, -1, -1), KILN_F32, 0, none);
    result(1, case_expr(&c, "x * y + z", CLASS_F32, h, s, x), KILN_F32, 0, one);
}

// h' = h / 2 - max of h + x; m' = max(m, max of h), one for each row
static void folds(int64_t rows, int64_t n)
{
    const int64_t element[] = {n, n > 1}, point[] = {1, 0};
    begin(2, 1, (const int64_t[]){rows, n});
    int h = carried(0, KILN_F32, element), x = row(KILN_F32, rows * n, element), m = carried(1, KILN_F32, point);
    int most = dag_reduce(&c.b, REDUCE_MAX, h);
    result(0, case_expr(&c, "x / 2 - y + z", CLASS_F32, h, most, x), KILN_F32, 0, element);
    result(1, case_expr(&c, "max(x, y)", CLASS_F32, m, most, -1), KILN_F32, 0, point);
}

// a' = b turned round + x, b' = a turned round / 2, given: both
static void turns(unsigned dtype, int64_t n)
{
    const int64_t one[] = {1}, back[] = {-1};
    begin(1, 0, (const int64_t[]){n});
    int a = carried(0, dtype, back), b = carried(1, dtype, back), x = row(dtype, n, one);
    int new_a = dag_prim(&c.b, PRIM_add, b, x, 0), new_b = case_expr(&c, "x / 2", CLASS_F32, a, -1, -1);
    result(0, new_a, dtype, 0, one);
    result(1, new_b, dtype, 0, one);
    result(2, dag_prim(&c.b, PRIM_sub, new_a, new_b, 0), dtype, n, one);
}

// v' = w v / 8 + x
static void multiplies(int64_t n)
{
    const int64_t point[] = {1, 0}, along[] = {0, 1}, all[] = {n, 1};
    begin(2, 1, (const int64_t[]){n, n});
    int v = carried(0, KILN_F32, along), w = case_in(&c, KILN_F32, all), x = row(KILN_F32, n, point);
    int sum = dag_reduce(&c.b, REDUCE_SUM, dag_prim(&c.b, PRIM_mul, v, w, 0));
    result(0, case_expr(&c, "x / 8 + y", CLASS_F32, sum, x, -1), KILN_F32, 0, point);
}

// --- what they give

struct memory {
    void *at[MOST_BUFFERS];
};

static void make(struct memory *m)
{
    c.seed = 7;
    for (int i = 0; i < c.k.n_in + c.k.n_out; i++) {
        unsigned dtype = fused_access_at(&c.k, i)->dtype;
        m->at[i] = calloc(1, ROOM);
        if (i < c.k.n_in) case_fill(&c, dtype, m->at[i], ROOM / dtype_size_B[dtype]);
    }
}

static void drop(struct memory *m)
{
    for (int i = 0; i < c.k.n_in + c.k.n_out; i++) free(m->at[i]);
}

// The body, trip by trip: what it has written is copied to where it reads.
static void one_by_one(struct memory *m)
{
    struct fused_kernel k = c.k;
    void *at[MOST_BUFFERS];
    for (int64_t trip = 0; trip < TRIPS; trip++) {
        for (int i = 0; i < k.n_in + k.n_out; i++) at[i] = (char *)m->at[i] + trip * of.step_B[i];
        for (int i = 0; i < k.n_scalars; i++)
            if (k.scalar_input[i]) k.scalars[i] = bits_f32((float)(3 + trip));
        assert_int_equal(fused_eval(&k, at, NULL), KILN_OK);
        for (int i = 0; i < k.n_in; i++)
            for (int o = 0; o < k.n_out && of.reads[i] >= 0; o++)
                if (of.writes[o] == of.reads[i]) memcpy(m->at[i], m->at[k.n_in + o], ROOM);
    }
}

static void set_counts(struct fused_kernel *k)
{
    k->scalars[k->trips.first] = 3;
    k->scalars[k->trips.count] = TRIPS;
}

#if KILN_WITH_LLVM
static void compiled(const struct fused_kernel *k, const struct memory *m)
{
    struct codegen_plan plan;
    struct codegen_code code;
    struct codegen_launch l;
    struct llvm_function fn;
    uint64_t addresses[MOST_BUFFERS];
    for (int i = 0; i < k->n_in + k->n_out; i++) addresses[i] = (uint64_t)(uintptr_t)m->at[i];
    assert_int_equal(llvm_plan(k, NULL, &plan), KILN_OK);
    if (llvm_compile(k, &plan, &code)) fail_msg("%s", kiln_error_message());
    if (llvm_load(&code, &fn)) fail_msg("%s", kiln_error_message());
    assert_int_equal(llvm_pack(&plan, k, addresses, NULL, &l), KILN_OK);
    void *workspace = malloc(l.workspace_B + 1);
    if (l.workspace_at >= 0) l.words[l.workspace_at] = (uint64_t)(uintptr_t)workspace;
    fn.run(l.words, 0, l.units);
    free(workspace);
    llvm_unload(&fn);
    free(code.code);
}
#endif

static void same_outputs(const struct memory *got, const struct memory *want, const char *what)
{
    for (int i = c.k.n_in; i < c.k.n_in + c.k.n_out; i++) {
        const unsigned dtype = fused_access_at(&c.k, i)->dtype, size_B = dtype_size_B[dtype];
        for (size_t e = 0; e < ROOM / size_B; e++) {
            const char *a = (const char *)got->at[i] + e * size_B, *b = (const char *)want->at[i] + e * size_B;
            if (memcmp(a, b, size_B) && case_distance(&c, dtype, a, b) != 0)
                fail_msg("%s: element %zu of output %d differs", what, e, i - c.k.n_in);
        }
    }
}

static void check(bool in_place)
{
    struct memory want, reference, code;
    struct fused_kernel *k = looped();
    assert_int_equal(k->trips.in_place, in_place);
    set_counts(k);
    make(&want);
    make(&reference);
    make(&code);
    one_by_one(&want);
    assert_int_equal(fused_eval(k, reference.at, NULL), KILN_OK);
    same_outputs(&reference, &want, "by the reference");
#if KILN_WITH_LLVM
    compiled(k, &code);
    same_outputs(&code, &want, "by compiled code");
#endif
    drop(&want);
    drop(&reference);
    drop(&code);
    case_end(&c);
}

static void in_registers(void **unused)
{
    static const unsigned dtypes[] = {KILN_F32, KILN_F16, KILN_BF16};
    static const int64_t lengths[] = {1, 4, 16, 33, 100, 250};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
            swaps(dtypes[i], lengths[n]);
            check(false);
        }
    shares(5);
    check(false);
    shares(300); // many points, which have an element together
    check(false);
}

static void in_memory(void **unused)
{
    swaps(KILN_F32, 300);
    check(true);
    swaps(KILN_F16, 520);
    check(true);
    for (int64_t n = 1; n < 70; n += 17) {
        folds(1, n);
        check(true);
        folds(5, n);
        check(true);
    }
}

static void all_points_together(void **unused)
{
    for (int64_t n = 2; n < 400; n = n * 3 + 1) {
        turns(KILN_F32, n);
        check(true);
        turns(KILN_BF16, n);
        check(true);
    }
    for (int64_t n = 3; n < 64; n += 20) {
        multiplies(n);
        check(true);
    }
}

// Where programs are interpreted, their loops are, too.
static void programs_by_the_reference(void **unused)
{
    static const char text[] =
        "%0: f32[2] = input \"x\"\n"
        "%1: f32[4,2] = input \"m\"\n"
        "%9: f32[2], %10: f32[4,2] = loop(%0, %1) {carried = 1, scanned = 1, trips = 4, counted = false, bound = 0, "
        "reverse = true, draws = -1, unroll = 0} region(%4: f32[2], %5: f32[2], %6: weak i64[]) {\n"
        "    %7: f32[2] = mul(%4, %5)\n"
        "    %8: f32[2] = add(%7, %6)\n"
        "    yield %8, %4\n"
        "}\n"
        "return %9 \"y\"\n"
        "return %10 \"rows\"\n";
    static const float want[] = {8, 9, 5, 6, 3, 4, 1, 1, 1, 1}; // the last value, then what each trip began with
    kiln_device *dev = kiln_device_open("cpu");
    kiln_scope *scope = kiln_scope_begin();
    struct kiln_graph *g = ir_parse(text, strlen(text), "test");
    if (!g) fail_msg("%s", kiln_error_message());
    kiln_tensor *in[] = {kiln_full(dev, KILN_F32, KILN_SHAPE(2), 1),
                         kiln_from_data(dev, KILN_F32, KILN_SHAPE(4, 2), (float[]){1, 1, 1, 1, 2, 3, 1, 1})};
    for (int reference = 0; reference < 2; reference++) {
        struct program_options o = {.reference = reference, .name = "test"};
        struct program *p;
        kiln_tensor *out[2];
        float got[10];
        if (program_create(g, dev, NULL, &o, &p) || program_run(p, in, NULL, out)) fail_msg("%s", kiln_error_message());
        struct str how;
        str_init(&how);
        program_explain(p, &how);
        if (KILN_WITH_LLVM) assert_non_null(strstr(how.text, "makes the trips"));
        str_free(&how);
        assert_int_equal(kiln_read(out[0], got, 8), KILN_OK);
        assert_int_equal(kiln_read(out[1], got + 2, 32), KILN_OK);
        for (int i = 0; i < 10; i++)
            if (got[i] != want[i])
                fail_msg("%d: value %d is %g, not %g", reference, i, (double)got[i], (double)want[i]);
        program_destroy(&p);
    }
    ir_graph_destroy(&g);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

// --- what stays outside

static void what_cannot_be_inside(void **unused)
{
    const int64_t one[] = {1};
    begin(1, 0, (const int64_t[]){5000}); // the other way round
    int a = carried(0, KILN_F32, (const int64_t[]){-1});
    result(0, a, KILN_F32, 0, one);
    outside("read elsewhere");
    begin(1, 0, (const int64_t[]){4}); // nothing is written for it
    a = carried(0, KILN_F32, one);
    result(1, a, KILN_F32, 4, one);
    of.n_carried = 1;
    outside("not written");
    begin(2, 1, (const int64_t[]){2, 5000}); // threads share a row
    a = carried(0, KILN_F32, (const int64_t[]){1, 0});
    int x = row(KILN_F32, 10000, (const int64_t[]){5000, 1});
    result(0, dag_prim(&c.b, PRIM_add, a, dag_reduce(&c.b, REDUCE_SUM, x), 0), KILN_F32, 0, (const int64_t[]){1, 0});
    outside("cut in each trip");
    begin(2, 1, (const int64_t[]){2, 5}); // the number of the trip for all elements, beside a fold
    a = carried(0, KILN_F32, (const int64_t[]){5, 1});
    result(0, case_expr(&c, "x - y", CLASS_F32, a, dag_reduce(&c.b, REDUCE_MAX, a), -1), KILN_F32, 0,
           (const int64_t[]){5, 1});
    result(1, number(), KILN_F32, 10, (const int64_t[]){5, 1});
    outside("with the trip alone");
    begin(2, 1, (const int64_t[]){2, 4000}); // rows that would write one element
    a = carried(0, KILN_F32, (const int64_t[]){0, 1});
    x = dag_reduce(&c.b, REDUCE_MAX, row(KILN_F32, 4000, (const int64_t[]){0, 1}));
    result(0, dag_prim(&c.b, PRIM_add, a, x, 0), KILN_F32, 0, (const int64_t[]){0, 1});
    outside("by many points");
}

// --- families

static void family_is(struct fused_kernel *k, struct str *out)
{
    str_init(out);
    fused_family(k, out);
}

// Trips are not in the key, what is done in a trip is.
static void a_family_knows_the_loop(void **unused)
{
    struct str a, b;
    swaps(KILN_F32, 4);
    struct fused_kernel *k = looped();
    family_is(&c.k, &a);
    family_is(k, &b);
    assert_true(a.len != b.len || memcmp(a.text, b.text, a.len));
    str_free(&a);
    family_is(k, &a);
    k->trips.most = 100000;
    str_free(&b);
    family_is(k, &b);
    assert_true(a.len == b.len && !memcmp(a.text, b.text, a.len));
    k->trips.last[0] = false;
    str_free(&b);
    family_is(k, &b);
    assert_memory_not_equal(a.text, b.text, a.len);
    str_free(&a);
    str_free(&b);
    case_end(&c);
}

// Code may rely on strides of 0, 1 and below, and on neighbours all over the space; not on sizes.
static void a_family_knows_how_memory_is_walked(void **unused)
{
    static const struct {
        int64_t sizes[2], strides[2];
        int as; // the first that is of the same family
    } walks[] = {{{5, 8}, {8, 1}, 0},  {{7, 3}, {3, 1}, 0},  {{5, 8}, {12, 1}, 2}, {{5, 8}, {9, 1}, 2},
                 {{5, 8}, {-8, 1}, 4}, {{5, 8}, {0, 1}, 5},  {{5, 8}, {8, -1}, 6}, {{5, 8}, {1, 5}, 7},
                 {{5, 8}, {1, 9}, 7},  {{5, 8}, {12, 2}, 9}, {{5, 8}, {1, -5}, 10}};
    struct str text[COUNT_OF(walks)];
    for (size_t i = 0; i < COUNT_OF(walks); i++) {
        begin(2, 0, walks[i].sizes);
        case_out(&c, dag_load(&c.b, CLASS_F32, (uint16_t)case_in(&c, KILN_F32, walks[i].strides), -1, -1), KILN_F32,
                 (const int64_t[]){walks[i].sizes[1], 1});
        finish();
        family_is(&c.k, &text[i]);
        case_end(&c);
    }
    for (size_t i = 0; i < COUNT_OF(walks); i++)
        for (size_t k = 0; k < i; k++) {
            bool same = text[i].len == text[k].len && !memcmp(text[i].text, text[k].text, text[i].len);
            if (same != (walks[i].as == walks[k].as)) fail_msg("%zu and %zu: %s", i, k, same ? "same" : "not the same");
        }
    for (size_t i = 0; i < COUNT_OF(walks); i++) str_free(&text[i]);
}

// --- side by side

static struct fused_kernel *alone(void)
{
    finish();
    struct fused_kernel *k = arena_alloc(&c.arena, sizeof *k);
    *k = c.k;
    return k;
}

static struct fused_kernel *copies(int n_dims, const int64_t *sizes, const int64_t *strides, uint16_t from, uint16_t to,
                                   struct arena *keep)
{
    begin(n_dims, 0, sizes);
    case_out(&c, dag_prim(&c.b, PRIM_neg, case_in(&c, KILN_F32, strides), 0, 0), KILN_F32, strides);
    struct fused_kernel *k = alone();
    k->in[0].buffer = from;
    k->out[0].to.buffer = to;
    *keep = c.arena;
    dag_end(&c.b);
    return k;
}

static void kernels_beside_each_other(void **unused)
{
    struct arena arenas[3], room;
    struct fused_kernel *joined;
    arena_init(&room);
    const struct fused_kernel *all[] = {
        copies(2, (const int64_t[]){4, 6}, (const int64_t[]){1, 4}, 0, 1, &arenas[0]), // transposed
        copies(1, (const int64_t[]){24}, (const int64_t[]){1}, 2, 3, &arenas[1]),
        copies(0, NULL, NULL, 4, 5, &arenas[2]),
    };
    assert_int_equal(fuse_beside(&room, all, 3, &joined), KILN_OK);
    assert_non_null(joined);
    assert_int_equal(joined->n_dims, 2);
    assert_int_equal(joined->n_out, 3);
    assert_int_equal(joined->in[1].strides[0], 6); // cut as the largest is
    assert_int_equal(joined->in[1].strides[1], 1);
    assert_int_equal(joined->in[2].strides[0], 0);
    float in[3][24], out[3][24];
    for (int i = 0; i < 72; i++) in[i / 24][i % 24] = (float)i;
    void *at[] = {in[0], out[0], in[1], out[1], in[2], out[2]};
    assert_int_equal(fused_eval(joined, at, NULL), KILN_OK);
    for (int i = 0; i < 49; i++) assert_true(out[i / 24][i % 24] == -(float)i);
    ((struct fused_kernel *)(uintptr_t)all[1])->in[0].buffer = 1; // reads what the first one writes
    assert_int_equal(fuse_beside(&room, all, 3, &joined), KILN_OK);
    assert_null(joined);
    for (int i = 0; i < 3; i++) arena_finish(&arenas[i]);
    arena_finish(&room);
}

static void other_spaces_stay_apart(void **unused)
{
    struct arena arenas[2], room;
    struct fused_kernel *joined;
    arena_init(&room);
    const struct fused_kernel *all[] = {copies(1, (const int64_t[]){24}, (const int64_t[]){1}, 0, 1, &arenas[0]),
                                        copies(1, (const int64_t[]){5}, (const int64_t[]){1}, 2, 3, &arenas[1])};
    assert_int_equal(fuse_beside(&room, all, 2, &joined), KILN_OK);
    assert_null(joined);
    for (int i = 0; i < 2; i++) arena_finish(&arenas[i]);
    arena_finish(&room);
}

// --- the verifier

static void broken(const struct fused_kernel *k, const char *what)
{
    struct unit_buffer buffers[MOST_BUFFERS] = {{0}};
    assert_int_equal(fused_verify(k, buffers), KILN_E_INTERNAL);
    if (!strstr(kiln_error_message(), what)) fail_msg("\"%s\" is not about \"%s\"", kiln_error_message(), what);
    kiln_error_clear();
}

static void the_verifier_knows_trips(void **unused)
{
    swaps(KILN_F32, 4);
    struct fused_kernel *k = looped(), good = *k;
    k->trips.count = 30;
    broken(k, "not counted");
    *k = good;
    k->out[0].to.offset++;
    broken(k, "from another place");
    *k = good;
    k->trips.carried[1] = FUSED_MAX_OUT;
    broken(k, "from nowhere");
    *k = good;
    k->turns[k->out[0].node] = false;
    broken(k, "levels");
    k->turns[k->out[0].node] = true;
    case_end(&c);
    folds(2, 3);
    k = looped();
    k->trips.in_place = false;
    broken(k, "cannot");
    case_end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_registers),
        cmocka_unit_test(in_memory),
        cmocka_unit_test(all_points_together),
        cmocka_unit_test(programs_by_the_reference),
        cmocka_unit_test(what_cannot_be_inside),
        cmocka_unit_test(a_family_knows_the_loop),
        cmocka_unit_test(a_family_knows_how_memory_is_walked),
        cmocka_unit_test(kernels_beside_each_other),
        cmocka_unit_test(other_spaces_stay_apart),
        cmocka_unit_test(the_verifier_knows_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
