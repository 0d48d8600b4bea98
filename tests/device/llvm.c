// Kernels compiled for the CPU while the program runs, against the reference of fused kernels.
#include "llvm_fixture.h"
#include "base/process.h"

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

// Many steps in a chain: more vectors go at once the longer it is, and fewer along short lines, of which a part is
// left.
static void long_chains_of_steps(void **state)
{
    (void)state;
    static const int64_t lines[][2] = {{1, 4096}, {1, 4097}, {1, 5007}, {70, 60},
                                       {45, 100}, {33, 131}, {20, 259}, {9, 577}};
    static const uint8_t dtypes[][2] = {
        {KILN_F32, KILN_F32}, {KILN_F64, KILN_F64}, {KILN_F32, KILN_F64}, {KILN_BF16, KILN_F32}};
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
            enum scalar_class cls = class_of_dtype(dtypes[t][1]);
            const char *convert = cls == CLASS_F64 ? "f64(x)" : "f32(x)";
            int64_t rows = lines[i][0], lanes = lines[i][1];
            for (int n_reduce = 0; n_reduce < 2; n_reduce++) {
                struct fused_case c;
                case_begin(&c, 2, n_reduce, SIZES(rows, lanes));
                int x = case_in(&c, dtypes[t][0], STRIDES(lanes, 1)), y = case_in(&c, dtypes[t][1], STRIDES(1, 0));
                x = case_expr(&c, convert, class_of_dtype(dtypes[t][0]), x, -1, -1);
                int z = case_expr(&c, "sigmoid(tanh(x * y) + exp(-abs(x))) * log1p(x * x)", cls, x, y, -1);
                if (n_reduce) z = case_expr(&c, "y - x", cls, z, dag_reduce(&c.b, REDUCE_MAX, z), -1);
                case_out(&c, z, dtypes[t][1], STRIDES(lanes, 1));
                check_case(&c, 0);
            }
        }
}

static struct codegen_plan plan_of(int64_t points, bool is_transposed)
{
    struct fused_case c;
    struct codegen_plan plan;
    case_begin(&c, 2, 0, SIZES(points / 512, 512));
    int x = case_in(&c, KILN_F32, is_transposed ? STRIDES(1, points / 512) : STRIDES(512, 1));
    int y = case_in(&c, KILN_F32, STRIDES(1, 0));
    case_out(&c, case_expr(&c, "tanh(x * y)", CLASS_F32, x, y, -1), KILN_F32, STRIDES(512, 1));
    case_finish(&c);
    assert_int_equal(llvm_plan(&c.k, NULL, &plan), KILN_OK);
    case_end(&c);
    return plan;
}

static void allows(struct codegen_plan plan, uint32_t vectors)
{
    assert_int_equal(plan.choices[LLVM_WIDTH], vectors * plan.choices[LLVM_TAIL_WIDTH]);
}

// What a plan allows; a sweep takes fewer where it has few steps.
static void how_many_vectors_go_at_once(void **state)
{
    (void)state;
    struct codegen_plan many = plan_of(1 << 16, false);
    allows(many, many.choices[LLVM_VECTOR_BITS] <= LLVM_SHORT_VECTOR_BITS ? 8 : 2);
    allows(plan_of(1 << 16, true), 1);
    allows(plan_of(1 << 11, false), 1);
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

#define T(f) cmocka_unit_test(f)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(points_in_a_row),
        T(long_chains_of_steps),
        T(how_many_vectors_go_at_once),
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
