// Kernels compiled for the CPU while the program runs, against the reference of fused kernels.
#include "../fuse/fused_fixture.h"
#include "base/process.h"
#include "codegen/llvm/llvm.h"
#include "cpu/compiled.h"
#include <kiln/kiln.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t random_seed; // of the kernel being tested, for messages

struct compiled {
    struct codegen_code code;
    struct llvm_function fn;
};

static void compile(const struct fused_kernel *k, struct compiled *out)
{
    struct codegen_plan plan;
    assert_int_equal(llvm_plan(k, NULL, &plan), KILN_OK);
    kiln_error_clear();
    if (llvm_compile(k, &plan, &out->code)) fail_msg("%s", kiln_error_message());
    if (llvm_load(&out->code, &out->fn)) fail_msg("%s", kiln_error_message());
}

static void discard(struct compiled *c)
{
    llvm_unload(&c->fn);
    free(c->code.code);
}

static uint32_t run_to(const struct fused_case *c, const struct compiled *code, bool past_caches)
{
    struct codegen_launch l;
    uint64_t addresses[FUSED_MAX_IN + FUSED_MAX_OUT];
    uint32_t failed = 0;
    for (int i = 0; i < c->k.n_in + c->k.n_out; i++) addresses[i] = (uint64_t)(uintptr_t)c->got[i];
    assert_int_equal(llvm_pack(&code->code.plan, &c->k, addresses, NULL, &l), KILN_OK);
    if (past_caches) l.words[llvm_word_at(&c->k, LLVM_STREAMS)] = 1;
    void *workspace = malloc(l.workspace_B + 1);
    if (l.workspace_at >= 0) l.words[l.workspace_at] = (uint64_t)(uintptr_t)workspace;
    if (l.failed_at >= 0) l.words[l.failed_at] = (uint64_t)(uintptr_t)&failed;
    assert_int_equal(cpu_run_compiled(code->fn.run, l.run_end ? code->fn.end : NULL, l.words, l.units, l.unit_cost),
                     KILN_OK);
    free(workspace);
    return failed;
}

static uint32_t run(const struct fused_case *c, const struct compiled *code)
{
    return run_to(c, code, false);
}

// Runs both and compares; then with more threads, past the caches with three, whose results must be the same bits.
static void check_finished(struct fused_case *c, double ulps)
{
    struct compiled code;
    uint32_t failed = 0;
    compile(&c->k, &code);
    assert_int_equal(fused_eval(&c->k, c->want, &failed), KILN_OK);
    omp_set_num_threads(1);
    uint32_t got = run(c, &code);
    if (!case_same(c, ulps)) fail_msg("%s, seed %llu", code.code.symbol, (unsigned long long)random_seed);
    assert_int_equal(got != 0, failed != 0);
    for (int threads = 2; threads <= 3; threads++) {
        int n = c->k.n_in + c->k.n_out;
        void *first[FUSED_MAX_IN + FUSED_MAX_OUT];
        for (int i = c->k.n_in; i < n; i++) {
            first[i] = malloc(c->size_B[i]);
            memcpy(first[i], c->got[i], c->size_B[i]);
            memset(c->got[i], 0x5a, c->size_B[i]);
        }
        omp_set_num_threads(threads);
        run_to(c, &code, threads == 3);
        for (int i = c->k.n_in; i < n; i++) {
            assert_memory_equal(first[i], c->got[i], c->size_B[i]);
            free(first[i]);
        }
    }
    discard(&code);
    case_end(c);
}

static void check_case(struct fused_case *c, double ulps)
{
    case_finish(c);
    check_finished(c, ulps);
}

#define SIZES(...)    \
    (const int64_t[]) \
    {                 \
        __VA_ARGS__   \
    }
#define STRIDES(...)  \
    (const int64_t[]) \
    {                 \
        __VA_ARGS__   \
    }

static void points_in_a_row(void **state)
{
    (void)state;
    static const int64_t lengths[] = {2, 15, 16, 64, 100, 4096, 100003};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        struct fused_case c;
        case_begin(&c, 1, 0, SIZES(lengths[i]));
        int x = case_in(&c, KILN_F32, STRIDES(1)), y = case_in(&c, KILN_F32, STRIDES(1));
        case_out(&c, case_expr(&c, "exp(x * y) + tanh(x)", CLASS_F32, x, y, -1), KILN_F32, STRIDES(1));
        check_case(&c, 0);
    }
}

static bool is_to_stream(const struct fused_case *c)
{
    struct codegen_plan plan;
    struct codegen_launch l;
    uint64_t addresses[FUSED_MAX_IN + FUSED_MAX_OUT] = {0};
    assert_int_equal(llvm_plan(&c->k, NULL, &plan), KILN_OK);
    assert_int_equal(llvm_pack(&plan, &c->k, addresses, NULL, &l), KILN_OK);
    int word = llvm_word_at(&c->k, LLVM_STREAMS);
    assert_int_equal(l.streams_at, l.words[word] ? word : -1); // where a run clears it
    return l.words[word];
}

// What the last cache can hold with room to spare is never written past it, what it cannot hold always.
static void large_results_pass_the_caches(void **state)
{
    (void)state;
    const int64_t points = process_last_cache_B() / 8; // each of which is read and written
    struct fused_case c;
    case_begin(&c, 1, 0, SIZES(64));
    int x = case_in(&c, KILN_F32, STRIDES(1));
    case_out(&c, case_expr(&c, "x + x", CLASS_F32, x, -1, -1), KILN_F32, STRIDES(1));
    case_finish(&c);
    assert_false(is_to_stream(&c));
    c.k.sizes[0] = points / 4 * 3;
    assert_false(is_to_stream(&c));
    c.k.sizes[0] = points / 2 * 3;
    assert_true(is_to_stream(&c));
    c.k.sizes[0] = 64;
    case_end(&c);
}

static void every_dtype_in_and_out(void **state)
{
    (void)state;
    static const uint8_t dtypes[] = {KILN_BOOL, KILN_U8,  KILN_I8,   KILN_I16, KILN_I32,
                                     KILN_I64,  KILN_F16, KILN_BF16, KILN_F32, KILN_F64};
    for (size_t i = 0; i < COUNT_OF(dtypes); i++)
        for (size_t j = 0; j < COUNT_OF(dtypes); j++) {
            static const char *const convert[] = {"f32(x)", "f64(x)", "i32(x)", "i64(x)", "bool(x)"};
            struct fused_case c;
            case_begin(&c, 1, 0, SIZES(1003));
            int x = case_in(&c, dtypes[i], STRIDES(1));
            int y = case_expr(&c, convert[class_of_dtype(dtypes[j])], class_of_dtype(dtypes[i]), x, -1, -1);
            case_out(&c, y, dtypes[j], STRIDES(1));
            check_case(&c, 0);
        }
}

static void layouts_of_points(void **state)
{
    (void)state;
    for (int layout = 0; layout < 8; layout++) {
        static const int64_t of_x[][4] = {{2652, 663, 17, 1},  {17, 0, 0, 1},       {0, 0, 17, 0},
                                          {1, 12, 156, 4},     {-2652, 663, 17, 1}, {2652, 663, 17, -1},
                                          {5304, 1326, 34, 2}, {2652, 663, 1, 39}};
        for (int mixed = 0; mixed < 2; mixed++) {
            struct fused_case c;
            case_begin(&c, 4, 0, SIZES(3, 4, 39, 17));
            int x = case_in(&c, KILN_F32, of_x[layout]);
            int y = case_in(&c, KILN_F32, mixed ? STRIDES(0, 17, 0, 1) : STRIDES(2652, 663, 17, 1));
            int z = case_expr(&c, "x * y + 1", CLASS_F32, x, y, -1);
            case_out(&c, z, KILN_F32, STRIDES(2652, 663, 17, 1));
            if (mixed) case_out(&c, case_expr(&c, "x < y", CLASS_F32, x, y, -1), KILN_BOOL, STRIDES(1, 3, 12, 468));
            check_case(&c, 0);
        }
    }
}

// Inputs that lie across the lanes, of sizes about those of squares and of tiles, few and many points.
static void squares_are_transposed(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 40},    {15, 17},   {16, 16},   {17, 131},   {127, 63},
                                       {129, 513}, {511, 515}, {513, 130}, {513, 2051}, {2051, 514}};
    static const uint8_t dtypes[] = {KILN_F32, KILN_F16, KILN_F64, KILN_U8};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
            int64_t rows = sizes[i][0], lanes = sizes[i][1];
            struct fused_case c;
            case_begin(&c, 2, 0, SIZES(rows, lanes));
            int x =
                case_expr(&c, "f32(x)", class_of_dtype(dtypes[t]), case_in(&c, dtypes[t], STRIDES(1, rows)), -1, -1);
            int y = case_in(&c, KILN_F32, STRIDES(1, rows + 3)), z = case_in(&c, KILN_F32, STRIDES(lanes, 1));
            case_out(&c, case_expr(&c, "x * y", CLASS_F32, x, y, -1), KILN_F32, STRIDES(lanes, 1));
            case_out(&c, case_expr(&c, "x - y", CLASS_F32, x, z, -1), KILN_F32, STRIDES(lanes, 1));
            check_case(&c, 0);
        }
}

static void a_kernel_of_one_point(void **state)
{
    (void)state;
    struct fused_case c;
    case_begin(&c, 0, 0, NULL);
    int x = case_in(&c, KILN_F32, NULL), s = case_scalar(&c, CLASS_F32, bits_f32(2.5f));
    case_out(&c, case_expr(&c, "x + y", CLASS_F32, x, s, -1), KILN_F16, NULL);
    check_case(&c, 0);
}

static void scalars_sizes_and_places(void **state)
{
    (void)state;
    struct fused_case c;
    case_begin(&c, 2, 0, SIZES(21, 70));
    int x = case_in(&c, KILN_I64, STRIDES(70, 1));
    int i = case_scalar(&c, CLASS_I64, 77), d = case_scalar(&c, CLASS_F64, bits_f64(0.1)),
        n = case_scalar(&c, CLASS_I32, 5);
    int b = case_scalar(&c, CLASS_BOOL, 1);
    int place = case_expr(&c, "x * 1000 + y * z", CLASS_I64, dag_dim(&c.b, 0), dag_dim(&c.b, 1), dag_size(&c.b, 1));
    int sum = case_expr(&c, "x + y + z", CLASS_I64, x, i, place);
    case_out(&c, sum, KILN_I64, STRIDES(70, 1));
    int f = case_expr(&c, "f64(x)", CLASS_I64, sum, -1, -1);
    case_out(&c, case_expr(&c, "x * y", CLASS_F64, f, d, -1), KILN_F64, STRIDES(70, 1));
    int j = case_expr(&c, "i32(x)", CLASS_I64, sum, -1, -1);
    int q = case_expr(&c, "x / y", CLASS_I32, j, n, -1);
    case_out(&c, dag_prim(&c.b, PRIM_select, b, q, j), KILN_I16, STRIDES(70, 1));
    check_case(&c, 0);
}

// y[i, j] = table[ids[i], j], zero where the id is out of range; and a gather along the lanes.
static void computed_places(void **state)
{
    (void)state;
    for (int along = 0; along < 2; along++) {
        struct fused_case c;
        case_begin(&c, 2, 0, SIZES(50, 37));
        int ids = case_in(&c, KILN_I8, along ? STRIDES(37, 1) : STRIDES(1, 0));
        int id = case_expr(&c, "i64(x & 15)", CLASS_I32, ids, -1, -1);
        int where = case_expr(&c, "x < 12", CLASS_I64, id, -1, -1);
        // An access whose range covers all places that the expression may name.
        c.k.in[c.k.n_in] = case_access(&c, KILN_F32, along ? STRIDES(0, 0) : STRIDES(0, 1));
        int at = case_expr(&c, "x * 37", CLASS_I64, id, -1, -1);
        int v = dag_load(&c.b, CLASS_F32, (uint16_t)c.k.n_in++, at, where);
        case_out(&c, v, KILN_F32, STRIDES(37, 1));
        c.table = 12 * 37 * 4;
        check_case(&c, 0);
    }
}

// --- rows ---

static int mean_of(struct fused_case *c, int x, int dim)
{
    int sum = dag_reduce(&c->b, REDUCE_SUM, x);
    return case_expr(c, "x / y", CLASS_F32, sum,
                     case_expr(c, "f32(x)", CLASS_I64, dag_size(&c->b, (uint16_t)dim), -1, -1), -1);
}

static int softmax_of(struct fused_case *c, int x)
{
    int e = case_expr(c, "exp(x - y)", CLASS_F32, x, dag_reduce(&c->b, REDUCE_MAX, x), -1);
    return case_expr(c, "x / y", CLASS_F32, e, dag_reduce(&c->b, REDUCE_SUM, e), -1);
}

static const int64_t row_lengths[] = {1, 2, 7, 8, 9, 16, 17, 64, 100, 257, 1000, 4097, 20000};

static void rows_of_every_length(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row_lengths); i++)
        for (int column = 0; column < 2; column++)
            for (int op = 0; op < 4; op++) {
                int64_t n = row_lengths[i], m = 19;
                struct fused_case c;
                case_begin(&c, 2, 1, SIZES(m, n));
                const int64_t *matrix = n == 1 ? STRIDES(1, 0) : column ? STRIDES(1, m) : STRIDES(n, 1);
                int x = case_in(&c, KILN_F32, matrix);
                // Finite values, so that sums can be compared.
                int f = case_expr(&c, "isfinite(x) ? x : 0.5", CLASS_F32, x, -1, -1);
                if (op == 0) case_out(&c, dag_reduce(&c.b, REDUCE_MAX, x), KILN_F32, STRIDES(1, 0));
                if (op == 1)
                    case_out(&c, mean_of(&c, case_expr(&c, "x * x", CLASS_F32, f, -1, -1), 1), KILN_F32, STRIDES(1, 0));
                if (op == 2) case_out(&c, softmax_of(&c, f), KILN_F32, matrix);
                if (op == 3) {
                    int centred = case_expr(&c, "x - y", CLASS_F32, f, mean_of(&c, f, 1), -1);
                    int var = mean_of(&c, case_expr(&c, "x * x", CLASS_F32, centred, -1, -1), 1);
                    int w = case_in(&c, KILN_F32, STRIDES(0, 1));
                    int y = case_expr(&c, "x / sqrt(y + 1e-5) * (isnan(z) ? 1 : z)", CLASS_F32, centred, var, w);
                    case_out(&c, y, KILN_F32, matrix);
                    case_out(&c, var, KILN_F32, STRIDES(1, 0));
                }
                c.least = op == 3 ? 0.1 : 0;
                check_case(&c, op == 0 ? 0 : op == 3 ? 32 : 8);
            }
}

static void reductions_of_every_class(void **state)
{
    (void)state;
    static const uint8_t dtypes[] = {KILN_BOOL, KILN_I32, KILN_I64, KILN_F32, KILN_F64, KILN_BF16};
    for (size_t i = 0; i < COUNT_OF(dtypes); i++)
        for (unsigned how = REDUCE_SUM; how <= REDUCE_ARGMIN; how++)
            for (int form = 0; form < 3; form++) {
                enum scalar_class cls = class_of_dtype(dtypes[i]);
                bool logical = how == REDUCE_ANY || how == REDUCE_ALL, folds = how <= REDUCE_PROD;
                if (logical != (cls == CLASS_BOOL)) continue;
                if (folds && (cls == CLASS_F32 || cls == CLASS_F64)) continue; // rows_of_every_length
                struct fused_case c;
                case_begin(&c, 3, 2, SIZES(9, 5, 77));
                int x = case_in(&c, dtypes[i],
                                form == 0   ? STRIDES(385, 77, 1)
                                : form == 1 ? STRIDES(1, 693, 9)
                                            : STRIDES(77, 700, 1));
                int r = dag_reduce(&c.b, (enum scalar_reduce)how, x);
                bool place = how == REDUCE_ARGMAX || how == REDUCE_ARGMIN;
                case_out(&c, r, place ? KILN_I64 : dtypes[i], STRIDES(1, 0, 0));
                check_case(&c, 0);
            }
}

// Rows of b that all rows of a are compared with: one vector of lanes goes along the rows of b.
static void pairs(int64_t m, int64_t n, int64_t length, int op)
{
    static const uint8_t of_b[] = {KILN_F32, KILN_BF16, KILN_F64, KILN_I8, KILN_F32, KILN_F32};
    struct fused_case c;
    struct codegen_plan plan;
    bool wide = op == 2, whole = op == 3;
    enum scalar_class cls = wide ? CLASS_F64 : whole ? CLASS_I32 : CLASS_F32;
    const uint8_t dtype = wide ? KILN_F64 : whole ? KILN_I32 : KILN_F32;
    case_begin(&c, 3, 1, SIZES(m, n, length));
    int a = case_in(&c, dtype, STRIDES(length, 0, 1));
    int b = case_in(&c, of_b[op], STRIDES(0, length + 3, 1));
    int d = case_expr(&c, whole ? "x * y" : "isfinite(x - y) ? x - y : 0.5", cls, a, b, -1);
    int square = case_expr(&c, "x * x", cls, d, -1, -1);
    const int64_t *matrix = STRIDES(n, 1, 0);
    if (op == 4) { // two passes over the row, and what each point has besides
        int e = case_expr(&c, "exp(x - y)", CLASS_F32, d, dag_reduce(&c.b, REDUCE_MAX, d), -1);
        int w = case_in(&c, KILN_F32, matrix);
        case_out(&c, case_expr(&c, "log(x) + (isnan(y) ? 0 : y)", CLASS_F32, dag_reduce(&c.b, REDUCE_SUM, e), w, -1),
                 KILN_F32, matrix);
        case_out(&c, dag_reduce(&c.b, REDUCE_ARGMIN, d), KILN_I64, matrix);
    } else {
        case_out(&c, dag_reduce(&c.b, REDUCE_SUM, square), dtype, matrix);
    }
    if (op == 5) {
        int most = dag_reduce(&c.b, REDUCE_MAX, d);
        case_out(&c, dag_reduce(&c.b, (enum scalar_reduce)(REDUCE_ARGMAX | REDUCE_ACROSS), most), KILN_I64,
                 STRIDES(0, 0, 0));
    }
    c.least = op == 4 ? 2 : 0.1;
    case_finish(&c);
    assert_int_equal(llvm_plan(&c.k, NULL, &plan), KILN_OK);
    assert_int_equal(plan.choices[LLVM_ACROSS] != 0, length <= 64);
    check_finished(&c, whole ? 0 : 8);
}

static void short_rows_beside_each_other(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 3, 15, 16, 17, 64, 65}, wide[] = {1, 7, 16, 33, 64, 131},
                         high[] = {1, 2, 64, 67};
    int turn = 0;
    for (size_t i = 0; i < COUNT_OF(lengths); i++)
        for (size_t j = 0; j < COUNT_OF(wide); j++, turn++)
            pairs(high[(i + j) % COUNT_OF(high)], wide[j], lengths[i], turn % 7 % 6);
    for (int op = 0; op < 6; op++) pairs(3, 31, 5, op);
}

static void folds_across_the_rows(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        int64_t m = form == 3 ? 3 : 700, n = form == 3 ? 300000 : 130;
        struct fused_case c;
        case_begin(&c, 2, form ? 1 : 0, SIZES(m, n));
        const int64_t *matrix = form == 2 ? STRIDES(1, m) : STRIDES(n, 1);
        int x = case_in(&c, KILN_F32, matrix);
        int f = case_expr(&c, "isfinite(x) ? rint(x) : 1", CLASS_F32, x, -1, -1); // sums are exact
        int row = form ? dag_reduce(&c.b, REDUCE_SUM, f) : f;
        int total = dag_reduce(&c.b, (enum scalar_reduce)(REDUCE_SUM | REDUCE_ACROSS), row);
        int most = dag_reduce(&c.b, (enum scalar_reduce)(REDUCE_ARGMAX | REDUCE_ACROSS), row);
        case_out(&c, case_expr(&c, "x * 2", CLASS_F32, total, -1, -1), KILN_F32, STRIDES(0, 0));
        case_out(&c, most, KILN_I64, STRIDES(0, 0));
        if (form) case_out(&c, row, KILN_F32, STRIDES(1, 0));
        check_case(&c, 0);
    }
}

static void long_rows_are_cut(void **state)
{
    (void)state;
    for (int form = 0; form < 3; form++) {
        struct fused_case c;
        int64_t m = 3, n = 400001;
        case_begin(&c, 2, 1, SIZES(m, n));
        int x = case_in(&c, KILN_F32, form == 1 ? STRIDES(1, m) : STRIDES(n, 1));
        int f = case_expr(&c, "isfinite(x) ? x : 1", CLASS_F32, x, -1, -1);
        case_out(&c, mean_of(&c, case_expr(&c, "x * x", CLASS_F32, f, -1, -1), 1), KILN_F32, STRIDES(1, 0));
        case_out(&c, dag_reduce(&c.b, REDUCE_ARGMIN, x), KILN_I64, STRIDES(1, 0));
        if (form == 2) case_out(&c, softmax_of(&c, f), KILN_F32, STRIDES(n, 1));
        check_case(&c, 8);
    }
}

static void checks_that_fail(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++)
        for (int rows = 0; rows < 2; rows++) {
            struct fused_case c;
            case_begin(&c, 2, rows, SIZES(40, 70));
            int x = case_in(&c, KILN_U8, STRIDES(70, 1));
            c.check_node[c.k.n_checks++] = case_expr(&c, fails ? "x < 250" : "x < 256", CLASS_I32, x, -1, -1);
            if (rows)
                case_out(&c, dag_reduce(&c.b, REDUCE_SUM, x), KILN_I32, STRIDES(1, 0));
            else
                case_out(&c, x, KILN_U8, STRIDES(70, 1));
            check_case(&c, 0);
        }
}

// Outputs may lie where an input lies that is read element for element.
static void results_in_place(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        struct fused_case c;
        struct compiled code;
        int64_t m = 37, n = 333;
        const int64_t *matrix = form == 1 ? STRIDES(1, m) : STRIDES(n, 1);
        case_begin(&c, 2, form == 2 ? 0 : 1, SIZES(m, n));
        int x = case_in(&c, KILN_F32, matrix);
        int f = case_expr(&c, "isfinite(x) ? x : 0.5", CLASS_F32, x, -1, -1);
        if (form == 2) {
            case_out(&c, case_expr(&c, "x * x + 1", CLASS_F32, f, -1, -1), KILN_F32, matrix);
        } else if (form == 3) { // known after the first fold; the input is read again for the other output
            int d = case_expr(&c, "x - y", CLASS_F32, f, dag_reduce(&c.b, REDUCE_MAX, f), -1);
            int square = case_expr(&c, "x * x", CLASS_F32, d, -1, -1);
            case_out(&c, d, KILN_F32, matrix);
            case_out(&c, case_expr(&c, "x + 1", CLASS_F32, f, -1, -1), KILN_F32, matrix);
            case_out(&c, dag_reduce(&c.b, REDUCE_SUM, square), KILN_F32, STRIDES(1, 0));
        } else {
            case_out(&c, softmax_of(&c, f), KILN_F32, matrix);
            case_out(&c, case_expr(&c, "x + 1", CLASS_F32, f, -1, -1), KILN_F32, matrix);
        }
        case_finish(&c);
        compile(&c.k, &code);
        assert_int_equal(fused_eval(&c.k, c.want, NULL), KILN_OK);
        void *out = c.got[1];
        c.got[1] = c.got[0];
        run(&c, &code);
        c.got[1] = out;
        memcpy(c.got[1], c.got[0], c.size_B[1]);
        memcpy(c.got[0], c.want[0], c.size_B[0]);
        assert_true(case_same(&c, form == 2 ? 0 : 8));
        discard(&code);
        case_end(&c);
    }
}

static void the_largest_kernel(void **state)
{
    (void)state;
    for (int n_reduce = 0; n_reduce <= 8; n_reduce += 4) {
        static const int64_t sizes[] = {2, 3, 2, 2, 3, 2, 2, 5};
        struct fused_case c;
        int sum = -1;
        case_begin(&c, 8, n_reduce, sizes);
        for (int i = 0; i < FUSED_MAX_IN; i++) {
            int64_t strides[8], stride = 1;
            for (int d = 0; d < 8; d++) {
                strides[(d * 3 + i) % 8] = (i >> (d % 5)) & 1 ? 0 : stride;
                stride *= 5;
            }
            if (i == 31) strides[7] = 1;
            int x = case_in(&c, KILN_I32, strides);
            sum = sum < 0 ? x : case_expr(&c, "x * 3 + y", CLASS_I32, sum, x, -1);
        }
        for (int i = 0; i < FUSED_MAX_SCALARS; i++)
            sum = case_expr(&c, "x + y", CLASS_I32, sum, case_scalar(&c, CLASS_I32, (uint64_t)i * i + 1), -1);
        for (int i = 0; i < FUSED_MAX_OUT; i++) {
            int64_t strides[8] = {0}, stride = 1;
            int y = case_expr(&c, "x ^ y", CLASS_I32, sum, dag_number(&c.b, CLASS_I32, i), -1);
            if (n_reduce) y = dag_reduce(&c.b, i % 2 ? REDUCE_MAX : REDUCE_SUM, y);
            for (int d = 7 - n_reduce; d >= 0; d--) {
                strides[d] = stride;
                stride *= sizes[d];
            }
            case_out(&c, y, KILN_I32, strides);
        }
        check_case(&c, 0);
    }
}

// --- random kernels ---

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

// --- objects ---

static void an_object_is_loaded_again(void **state)
{
    (void)state;
    struct fused_case c;
    struct compiled first, second;
    case_begin(&c, 2, 1, SIZES(30, 500));
    int x = case_in(&c, KILN_F32, STRIDES(500, 1));
    case_out(&c, dag_reduce(&c.b, REDUCE_MAX, x), KILN_F32, STRIDES(1, 0));
    case_finish(&c);
    compile(&c.k, &first);
    second.code = first.code;
    second.code.code = malloc(first.code.size_B);
    memcpy(second.code.code, first.code.code, first.code.size_B);
    assert_int_equal(llvm_load(&second.code, &second.fn), KILN_OK); // twice at a time
    discard(&first);
    llvm_unload(&first.fn);
    llvm_unload(NULL);
    assert_int_equal(fused_eval(&c.k, c.want, NULL), KILN_OK);
    run(&c, &second);
    assert_true(case_same(&c, 0));
    llvm_unload(&second.fn);
    memset(c.got[1], 0, c.size_B[1]);
    assert_int_equal(llvm_load(&second.code, &second.fn), KILN_OK);
    run(&c, &second);
    assert_true(case_same(&c, 0));
    discard(&second);
    case_end(&c);
}

static void a_broken_object_is_refused(void **state)
{
    (void)state;
    char bytes[256];
    memset(bytes, 7, sizeof bytes);
    struct codegen_code code = {.code = bytes, .size_B = sizeof bytes, .symbol = "k_broken"};
    struct llvm_function fn;
    assert_int_equal(llvm_load(&code, &fn), KILN_E_INTERNAL);
    assert_null(fn.run);
    kiln_error_clear();
}

static void text_and_host(void **state)
{
    (void)state;
    struct fused_case c;
    struct str text, host;
    str_init(&text);
    str_init(&host);
    case_begin(&c, 1, 0, SIZES(100));
    int x = case_in(&c, KILN_F32, STRIDES(1));
    case_out(&c, case_expr(&c, "x * 2", CLASS_F32, x, -1, -1), KILN_F32, STRIDES(1));
    case_finish(&c);
    assert_int_equal(llvm_ir_text(&c.k, &text), KILN_OK);
    assert_non_null(strstr(str_text(&text), "fmul"));
    assert_int_equal(llvm_host_key(&host), KILN_OK);
    assert_non_null(strstr(str_text(&host), "llvm"));
    str_free(&text);
    str_free(&host);
    case_end(&c);
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

// --- the module ---

// Run by a process of its own, which believes to lie in a folder without a module: exits with the status.
static int compile_alone(void)
{
    struct fused_case c;
    struct codegen_plan plan;
    struct codegen_code code = {0};
    struct llvm_function fn = {0};
    case_begin(&c, 1, 0, SIZES(100));
    int x = case_in(&c, KILN_F32, STRIDES(1));
    case_out(&c, x, KILN_F32, STRIDES(1));
    case_finish(&c);
    kiln_status status = llvm_plan(&c.k, NULL, &plan);
    if (!status) status = llvm_compile(&c.k, &plan, &code);
    if (!status) status = llvm_load(&code, &fn);
    llvm_unload(&fn);
    free(code.code);
    case_end(&c);
    return status == KILN_E_MISSING ? 2 : status ? 3 : 0;
}

static int alone_with(const char *module)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        char place[] = "/no/such/folder/test_llvm", what[] = "alone";
        char *const args[] = {place, what, NULL};
        setenv("KILN_LLVM", module, 1);
        execv("/proc/self/exe", args);
        _exit(100);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static void the_module_is_found_or_missed(void **state)
{
    (void)state;
    const char *named = getenv("KILN_LLVM");
    assert_int_equal(alone_with(""), 2);
    assert_int_equal(alone_with("/no/such/libkiln-llvm.so"), 2);
    assert_int_equal(alone_with("libm.so.6"), 2); // a library, but not this one
    if (named) assert_int_equal(alone_with(named), 0);
}

#define T(f) cmocka_unit_test(f)
int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "alone")) return compile_alone();
    const struct CMUnitTest tests[] = {
        T(points_in_a_row),
        T(large_results_pass_the_caches),
        T(every_dtype_in_and_out),
        T(layouts_of_points),
        T(squares_are_transposed),
        T(a_kernel_of_one_point),
        T(scalars_sizes_and_places),
        T(computed_places),
        T(rows_of_every_length),
        T(reductions_of_every_class),
        T(short_rows_beside_each_other),
        T(folds_across_the_rows),
        T(long_rows_are_cut),
        T(checks_that_fail),
        T(results_in_place),
        T(the_largest_kernel),
        T(random_kernels),
        T(random_loops),
        T(an_object_is_loaded_again),
        T(a_broken_object_is_refused),
        T(text_and_host),
        T(four_threads_compile),
        T(the_module_is_found_or_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
