// Random kernels compiled for the CPU, alone and as the launch of a loop, against the reference of fused kernels, and
// by several threads at once.
#include "llvm_fixture.h"
#include <pthread.h>

static const uint8_t all_dtypes[] = {KILN_BOOL, KILN_U8,  KILN_I8,   KILN_I16, KILN_I32,
                                     KILN_I64,  KILN_F16, KILN_BF16, KILN_F32, KILN_F64};

// Strides of some layout over the dimensions [0, to): any order of dimensions, some broadcast, some reversed, gaps.
static void random_strides(struct fused_case *c, int64_t *strides, int to, bool output)
{
    int order[FUSED_MAX_DIMS], n = 0;
    int64_t stride = case_random(c) % 4 == 0 ? 2 : 1;
    for (int d = to - 1; d >= 0; d--) order[n++] = d;
    if (case_random(c) % 3 == 0)
        for (int i = n - 1; i > 0; i--) {
            int j = (int)(case_random(c) % (unsigned)(i + 1)), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
    for (int d = 0; d < FUSED_MAX_DIMS; d++) strides[d] = 0;
    for (int i = 0; i < n; i++) {
        if (!output && case_random(c) % 5 == 0) continue;
        strides[order[i]] = case_random(c) % 9 == 0 ? -stride : stride;
        stride = stride * c->k.sizes[order[i]] + (case_random(c) % 6 == 0 ? 3 : 0);
    }
}

// Which of two NaN an addition returns is not told: a kernel does not look at their bits.
static int with_known_bits(struct fused_case *c, int node)
{
    enum scalar_class cls = dag_class(&c->b, node);
    return cls == CLASS_F32 || cls == CLASS_F64 ? case_expr(c, "x == x ? x : 1", cls, node, -1, -1) : node;
}

// `scale` takes numbers from 1/2 to 1: with the sign and the digits of any node.
static int below_one(struct fused_case *c, int node)
{
    struct dag_builder *b = &c->b;
    bool is_f32 = dag_class(b, node) == CLASS_F32;
    enum scalar_class cls = is_f32 ? CLASS_I32 : CLASS_I64;
    union scalar_value kept = {.i64 = ~(INT64_C(0x7ff) << 52)}, half = {.i64 = INT64_C(0x3fe) << 52};
    if (is_f32) kept = (union scalar_value){.i32 = ~(0xff << 23)}, half = (union scalar_value){.i32 = 0x7e << 23};
    int digits = dag_prim(b, PRIM_and, dag_prim(b, PRIM_bits, node, 0, 0), dag_const(b, cls, kept), 0);
    return dag_prim(b, PRIM_from_bits, dag_prim(b, PRIM_or, digits, dag_const(b, cls, half), 0), 0, 0);
}

// and what holds a whole number in its low bits, from what vanishes on to 100 and 1020, or below 0.
static int whole_in_low_bits(struct fused_case *c, int node, bool below_zero)
{
    struct dag_builder *b = &c->b;
    bool is_f32 = dag_class(b, node) == CLASS_F32;
    enum scalar_class cls = is_f32 ? CLASS_I32 : CLASS_I64;
    int64_t range = (is_f32 ? 256 : 2048) >> below_zero;
    int low = dag_prim(b, PRIM_and, dag_prim(b, PRIM_bits, node, 0, 0), dag_number(b, cls, (double)(range - 1)), 0);
    union scalar_value least = {.i64 = INT64_C(0x4338000000000000) - 1080};
    if (is_f32) least = (union scalar_value){.i32 = 0x4b400000 - 155};
    return dag_prim(b, PRIM_from_bits, dag_prim(b, PRIM_add, low, dag_const(b, cls, least), 0), 0, 0);
}

// A primitive over nodes that are there; -1 where no choice of arguments fits.
static int random_prim(struct fused_case *c, const int *nodes, int n)
{
    enum scalar_prim p = (enum scalar_prim)(case_random(c) % PRIM_rindex);
    int arg[3];
    for (int i = 0; i < 3; i++) arg[i] = nodes[case_random(c) % (unsigned)n];
    int first = prim_key_arg((uint16_t)p);
    if (first && dag_class(&c->b, arg[0]) != CLASS_BOOL) return -1;
    enum scalar_class key = dag_class(&c->b, arg[first]);
    for (int i = first; i < prim_arity((uint16_t)p); i++)
        if (dag_class(&c->b, arg[i]) != key) return -1;
    if ((p == PRIM_scale || p == PRIM_scale_down) && prim_spelling(PRIM_scale, key)) {
        arg[0] = below_one(c, with_known_bits(c, arg[0]));
        arg[1] = whole_in_low_bits(c, with_known_bits(c, arg[1]), p == PRIM_scale_down);
    }
    if (p == PRIM_square_error && prim_spelling(PRIM_square_error, key)) {
        arg[0] = below_one(c, with_known_bits(c, arg[0]));
        arg[1] = dag_prim(&c->b, PRIM_mul, arg[0], arg[0], 0);
    }
    if (p == PRIM_bits || p == PRIM_signbit) arg[0] = with_known_bits(c, arg[0]);
    return prim_spelling((uint16_t)p, key) ? dag_prim(&c->b, p, arg[0], arg[1], arg[2]) : -1;
}

// Sums and products of floats are made exact, and -0 is made 0 for extremes, so that the order of folding does not
// show.
static int random_reduce(struct fused_case *c, int x, bool across)
{
    unsigned how = case_random(c) % 8;
    enum scalar_class cls = dag_class(&c->b, x);
    if ((cls == CLASS_BOOL) != (how == REDUCE_ANY || how == REDUCE_ALL)) return -1;
    bool real = cls == CLASS_F32 || cls == CLASS_F64;
    if (real && how == REDUCE_SUM) x = case_expr(c, "rint(x > 8 ? 8 : x < -8 ? -8 : x) + 0", cls, x, -1, -1);
    if (real && (how == REDUCE_MAX || how == REDUCE_MIN)) x = case_expr(c, "x + 0", cls, x, -1, -1);
    if (real && how == REDUCE_PROD) x = case_expr(c, "x > 2 ? -1 : 1", cls, x, -1, -1);
    return dag_reduce(&c->b, (enum scalar_reduce)(how | (across ? REDUCE_ACROSS : 0)), x);
}

static void random_kernel(struct fused_case *c, uint64_t seed)
{
    static const int64_t choices[] = {2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 40, 64, 70, 129, 300};
    int64_t sizes[FUSED_MAX_DIMS], strides[FUSED_MAX_DIMS], points = 1;
    int nodes[64], n = 0;
    case_begin(c, 0, 0, NULL);
    c->seed = seed * 7919;
    int n_dims = 1 + (int)(case_random(c) % 4);
    for (int d = 0; d < n_dims; d++) {
        do sizes[d] = choices[case_random(c) % COUNT_OF(choices)];
        while (sizes[d] > 2 && points * sizes[d] > 60000);
        points *= sizes[d];
        c->k.sizes[d] = sizes[d];
    }
    c->k.n_dims = n_dims;
    c->k.n_reduce = case_random(c) % 2 ? (int)(case_random(c) % (unsigned)(n_dims + 1)) : 0;
    int n_in = 1 + (int)(case_random(c) % 3);
    for (int i = 0; i < n_in; i++) {
        random_strides(c, strides, n_dims, false);
        nodes[n++] = case_in(c, all_dtypes[case_random(c) % COUNT_OF(all_dtypes)], strides);
    }
    nodes[n++] = case_scalar(c, CLASS_F32, bits_f32(1.5f));
    nodes[n++] = dag_dim(&c->b, (uint16_t)(case_random(c) % (unsigned)n_dims));
    nodes[n++] = dag_number(&c->b, CLASS_I32, 3);
    for (int tries = 0; tries < 60 && n < 24; tries++) {
        bool reduces = c->k.n_reduce && case_random(c) % 8 == 0;
        int made = reduces ? random_reduce(c, nodes[case_random(c) % (unsigned)n], false) : random_prim(c, nodes, n);
        if (made >= 0) nodes[n++] = made;
    }
    // Levels, to know what may be stored where.
    for (int i = 0, tries = 0; c->k.n_out < 3 && tries < 40; tries++) {
        int node = nodes[n - 1 - (i++ % n)];
        struct fused_kernel probe = c->k;
        int root = node;
        if (dag_finish_all(&c->b, &c->arena, &root, 1, &probe.dag)) continue;
        probe.n_out = 1;
        probe.out[0].node = (uint16_t)root;
        probe.out[0].to = (struct fused_access){.cls = (uint8_t)dag_class(&c->b, node)};
        static const uint8_t stored[] = {KILN_F32, KILN_F64, KILN_I32, KILN_I64, KILN_BOOL};
        unsigned dtype = stored[dag_class(&c->b, node)];
        probe.out[0].to.dtype = (uint8_t)dtype;
        if (fused_finish(&c->arena, &probe)) fail_msg("%s", kiln_error_message());
        enum fused_level level = (enum fused_level)probe.level[root];
        random_strides(c, strides, level == LEVEL_ELEMENT ? n_dims : n_dims - c->k.n_reduce, true);
        if (level != LEVEL_ELEMENT && case_random(c) % 3 == 0) {
            int total = random_reduce(c, node, true);
            if (total < 0) continue;
            node = total;
            dtype = stored[dag_class(&c->b, node)];
            memset(strides, 0, sizeof strides);
        }
        if (dtype == KILN_F32 && case_random(c) % 4 == 0) dtype = case_random(c) % 2 ? KILN_F16 : KILN_BF16;
        if (dtype == KILN_I32 && case_random(c) % 4 == 0) dtype = KILN_I8;
        case_out(c, node, dtype, strides);
    }
}

// As the only launch of a loop of one trip, with constants for sizes and strides.
static void check_as_loop(struct fused_case *c)
{
    struct compiled plain, loop;
    struct codegen_launch l;
    uint64_t addresses[FUSED_MAX_IN + FUSED_MAX_OUT];
    bool fixed[CODEGEN_MAX_WORDS];
    int n = c->k.n_in + c->k.n_out;
    for (int i = 0; i < n; i++) addresses[i] = (uint64_t)(uintptr_t)c->got[i];
    compile(&c->k, &plain);
    assert_int_equal(llvm_pack(&plain.code.plan, &c->k, addresses, NULL, &l), KILN_OK);
    for (int i = 0; i < l.n_words; i++) fixed[i] = i >= n && i != l.workspace_at && i != l.failed_at;
    if (l.units == 1 && l.failed_at < 0) {
        const struct llvm_series_item item = {
            .k = &c->k, .plan = &plain.code.plan, .words = l.words, .fixed = fixed, .run_end = l.run_end};
        const struct llvm_series s = {&item, 1, 0};
        run(c, &plain);
        for (int i = c->k.n_in; i < n; i++) {
            memcpy(c->want[i], c->got[i], c->size_B[i]);
            memset(c->got[i], 0x5a, c->size_B[i]);
        }
        assert_int_equal(llvm_compile_series(&s, &loop.code), KILN_OK);
        assert_int_equal(llvm_load(&loop.code, &loop.fn), KILN_OK);
        int64_t stop = 0;
        void *workspace = malloc(l.workspace_B + 1);
        if (l.workspace_at >= 0) l.words[l.workspace_at] = (uint64_t)(uintptr_t)workspace;
        uint64_t args[6] = {(uint64_t)(uintptr_t)l.words, (uint64_t)(uintptr_t)l.words, 0, 0, 0,
                            (uint64_t)(uintptr_t)&stop};
        loop.fn.run(args, 7, 8);
        assert_int_equal(stop, 8);
        if (!case_same(c, 0)) fail_msg("seed %llu", (unsigned long long)random_seed);
        free(workspace);
        discard(&loop);
    }
    discard(&plain);
}

static void random_loops(void **state)
{
    (void)state;
    const char *count = getenv("KILN_TEST_SEEDS");
    for (uint64_t seed = 1; seed <= (count ? strtoull(count, NULL, 10) : 60); seed++) {
        struct fused_case c;
        random_kernel(&c, seed);
        random_seed = seed;
        case_finish(&c);
        check_as_loop(&c);
        case_end(&c);
    }
}

static void random_kernels(void **state)
{
    (void)state;
    const char *first = getenv("KILN_TEST_SEED"), *count = getenv("KILN_TEST_SEEDS");
    uint64_t from = first ? strtoull(first, NULL, 10) : 1;
    uint64_t to = from - 1 + (count ? strtoull(count, NULL, 10) : first ? 1 : 300);
    for (uint64_t seed = from; seed <= to; seed++) {
        struct fused_case c;
        random_kernel(&c, seed);
        random_seed = seed;
        check_case(&c, 0);
    }
}

static void *compile_some(void *user)
{
    uint64_t seed = *(uint64_t *)user;
    for (uint64_t i = 0; i < 6; i++) {
        struct fused_case c;
        struct compiled code;
        random_kernel(&c, 1000 + seed * 100 + i);
        case_finish(&c);
        compile(&c.k, &code);
        fused_eval(&c.k, c.want, NULL);
        run(&c, &code);
        if (!case_same(&c, 0)) *(uint64_t *)user = UINT64_MAX;
        discard(&code);
        case_end(&c);
    }
    return NULL;
}

static void four_threads_compile(void **state)
{
    (void)state;
    pthread_t threads[4];
    uint64_t seeds[4] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, compile_some, &seeds[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (uint64_t i = 0; i < 4; i++) assert_int_equal(seeds[i], i);
}

#define T(f) cmocka_unit_test(f)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(random_kernels),
        T(random_loops),
        T(four_threads_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
