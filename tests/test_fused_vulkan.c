// Fused kernels as GLSL on the Vulkan device, against the reference that computes them on the host point by point.
#include "vulkan_fixture.h"

#include "codegen/spirv.h"
#include "codegen/target.h"
#include "pass/fused.h"

#include <time.h>

#define MAX_BUFFERS 16

// --- building kernels

struct build {
    struct arena arena;
    struct dag_builder dag;
    struct fused_kernel k;
    int outs[FUSED_MAX_OUT];
    int64_t elements[MAX_BUFFERS]; // of each buffer
    uint8_t dtypes[MAX_BUFFERS];
    int n_buffers;
};

static void build_begin(struct build *b, int n_reduce, int n_dims, const int64_t *sizes)
{
    *b = (struct build){.k = {.name = "kernel", .n_dims = n_dims, .n_reduce = n_reduce}};
    arena_init(&b->arena);
    dag_begin(&b->dag);
    for (int d = 0; d < n_dims; d++) b->k.sizes[d] = sizes[d];
}

static void build_end(struct build *b)
{
    dag_end(&b->dag);
    arena_finish(&b->arena);
}

static enum scalar_class class_of(unsigned dtype)
{
    switch (dtype) {
    case KILN_BOOL: return CLASS_BOOL;
    case KILN_I64: return CLASS_I64;
    case KILN_F64: return CLASS_F64;
    case KILN_F16:
    case KILN_BF16:
    case KILN_F32: return CLASS_F32;
    default: return CLASS_I32;
    }
}

static int new_buffer(struct build *b, unsigned dtype, int64_t elements)
{
    b->dtypes[b->n_buffers] = (uint8_t)dtype;
    b->elements[b->n_buffers] = elements;
    return b->n_buffers++;
}

// An access of a new buffer with these strides, which may be negative; `skip` elements lie before its lowest.
static struct fused_access new_access(struct build *b, unsigned dtype, const int64_t *strides, int64_t skip)
{
    struct fused_access a = {.dtype = (uint8_t)dtype, .cls = (uint8_t)class_of(dtype), .offset = skip};
    int64_t lo = 0, hi = 0;
    for (int d = 0; d < b->k.n_dims; d++) {
        a.strides[d] = strides[d];
        *(strides[d] < 0 ? &lo : &hi) += strides[d] * (b->k.sizes[d] - 1);
    }
    a.offset -= lo;
    a.buffer = (uint16_t)new_buffer(b, dtype, skip + hi - lo + 1);
    return a;
}

// Strides of a dense tensor over those dimensions whose bit is set in `dims`.
static void dense(const struct build *b, unsigned dims, int64_t *strides)
{
    int64_t step = 1;
    for (int d = b->k.n_dims - 1; d >= 0; d--) {
        strides[d] = dims >> d & 1 ? step : 0;
        if (dims >> d & 1) step *= b->k.sizes[d];
    }
}

static int add_in(struct build *b, unsigned dtype, const int64_t *strides)
{
    b->k.in[b->k.n_in] = new_access(b, dtype, strides, 0);
    return b->k.n_in++;
}

static int load(struct build *b, unsigned dtype, unsigned dims)
{
    int64_t strides[FUSED_MAX_DIMS];
    dense(b, dims, strides);
    int i = add_in(b, dtype, strides);
    return dag_load(&b->dag, class_of(dtype), (uint16_t)i, -1, -1);
}

static void store_strided(struct build *b, unsigned dtype, const int64_t *strides, int node)
{
    b->outs[b->k.n_out] = node;
    b->k.out[b->k.n_out++].to = new_access(b, dtype, strides, 0);
}

static void store(struct build *b, unsigned dtype, unsigned dims, int node)
{
    int64_t strides[FUSED_MAX_DIMS];
    dense(b, dims, strides);
    store_strided(b, dtype, strides, node);
}

// The value of an expression in a, b, c, d, which are the nodes of `args`.
static int expr(struct build *b, const char *text, enum scalar_class cls, const int *args, int n)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    struct scalar_param params[4];
    struct scalar_dag parsed, expanded;
    for (int i = 0; i < n; i++) params[i] = (struct scalar_param){names[i], dag_class(&b->dag, args[i])};
    assert_ok(scalar_parse(&b->arena, text, params, n, cls, &parsed));
    assert_ok(scalar_expand(&b->arena, &parsed, &expanded));
    int node = dag_inline(&b->dag, &expanded, args);
    assert_true(node >= 0);
    return node;
}

static int expr1(struct build *b, const char *text, int x)
{
    return expr(b, text, dag_class(&b->dag, x), (const int[]){x}, 1);
}

static int expr2(struct build *b, const char *text, int x, int y)
{
    return expr(b, text, dag_class(&b->dag, x), (const int[]){x, y}, 2);
}

static void finish(struct build *b)
{
    struct fused_kernel *k = &b->k;
    assert_ok(dag_finish_all(&b->dag, &b->arena, b->outs, k->n_out, &k->dag));
    for (int i = 0; i < k->n_out; i++) k->out[i].node = (uint16_t)b->outs[i];
    assert_ok(fused_finish(&b->arena, k));
}

// --- compiling and running

struct loaded {
    struct codegen_plan plan;
    void *compiled;
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double codegen_ms, glslang_ms, pipeline_ms;
static int n_compiled;

static struct loaded compile(const struct fused_kernel *k)
{
    struct loaded l;
    struct str text;
    struct spirv module;
    str_init(&text);
    double start = now_ms();
    assert_ok(glsl_fused(k, &dev->caps, &l.plan, &text));
    double emitted = now_ms();
    if (getenv("KILN_TEST_SHOW")) fprintf(stderr, "%s\n", str_text(&text));
    struct spirv_source source = {.name = k->name, .text = str_text(&text), .include = dev->ops->shader_text};
    assert_ok(spirv_compile(&source, &module));
    double compiled = now_ms();
    assert_ok(spirv_validate(k->name, module.words, module.n_words));
    double validated = now_ms();
    struct compiled_code code = {
        .name = k->name, .code = module.words, .code_B = module.n_words * 4, .indirect = l.plan.indirect};
    assert_ok(dev->ops->load_compiled(dev, &code, &l.compiled));
    codegen_ms += emitted - start;
    glslang_ms += compiled - emitted;
    pipeline_ms += now_ms() - validated;
    n_compiled++;
    spirv_free(&module);
    str_free(&text);
    return l;
}

// One launch, laid out: what a program keeps.
struct ready {
    struct codegen_launch packed;
    struct compiled_launch launch;
    struct compiled_range ranges[FUSED_MAX_IN + FUSED_MAX_OUT];
    uint32_t words[CODEGEN_MAX_WORDS];
    struct block workspace;
};

static void make_ready(const struct loaded *l, const struct fused_kernel *k, const struct block *buffers,
                       struct ready *r)
{
    uint64_t addresses[FUSED_MAX_IN + FUSED_MAX_OUT];
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        const struct block *b = &buffers[fused_access_at(k, i)->buffer];
        addresses[i] = b->address;
        r->ranges[i] = (struct compiled_range){b->address, 0, (int64_t)b->size_B, i >= k->n_in};
    }
    assert_ok(glsl_pack(&l->plan, k, addresses, &dev->caps, &r->packed));
    r->workspace = (struct block){0};
    if (r->packed.workspace_B) {
        void *zeros = calloc(1, r->packed.workspace_B);
        r->workspace = block_new(r->packed.workspace_B, zeros);
        free(zeros);
        r->packed.words[r->packed.workspace_at] = (uint32_t)r->workspace.address;
        r->packed.words[r->packed.workspace_at + 1] = r->workspace.address >> 32;
    }
    for (int i = 0; i < r->packed.n_words; i++) r->words[i] = (uint32_t)r->packed.words[i];
    r->launch = (struct compiled_launch){.compiled = l->compiled,
                                         .op = k->name,
                                         .words = r->words,
                                         .n_words = (uint32_t)r->packed.n_words,
                                         .work = r->packed.work,
                                         .n_ranges = (uint32_t)(k->n_in + k->n_out),
                                         .ranges = r->ranges,
                                         .workspace = r->workspace.address,
                                         .workspace_B = r->packed.workspace_B};
    memcpy(r->launch.groups, r->packed.groups, sizeof r->launch.groups);
}

static void release(struct ready *r)
{
    if (r->packed.workspace_B) device_release(dev, &r->workspace);
}

// --- values

static uint32_t seed;

static uint32_t next_random(void)
{
    seed = seed * 747796405u + 2891336453u;
    uint32_t v = ((seed >> ((seed >> 28) + 4)) ^ seed) * 277803737u;
    return (v >> 22) ^ v;
}

static uint32_t below(uint32_t n)
{
    return next_random() % n;
}

static void fill(void *at, unsigned dtype, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t r = next_random();
        float f = (float)(int32_t)r * 0x1p-30f;
        uint8_t *p = (uint8_t *)at + i * dtype_size_B[dtype];
        double d = (double)f;
        int64_t wide = (int64_t)((uint64_t)r << 20 ^ next_random());
        uint16_t half = dtype == KILN_F16 ? f16_from_float(f) : bf16_from_float(f);
        int32_t whole = (int32_t)(r % 201) - 100;
        switch (dtype) {
        case KILN_BOOL: *p = r >> 16 & 1; break;
        case KILN_U8:
        case KILN_I8: *p = (uint8_t)(r >> 7); break;
        case KILN_I16: memcpy(p, &r, 2); break;
        case KILN_F16:
        case KILN_BF16: memcpy(p, &half, 2); break;
        case KILN_I32: memcpy(p, &whole, 4); break;
        case KILN_I64: memcpy(p, &wide, 8); break;
        case KILN_F64: memcpy(p, &d, 8); break;
        default: memcpy(p, &f, 4);
        }
    }
}

static double value_at(const void *at, unsigned dtype, int64_t i)
{
    const uint8_t *p = (const uint8_t *)at + i * dtype_size_B[dtype];
    uint16_t half;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    float f;
    double d;
    memcpy(&half, p, dtype_size_B[dtype] == 2 ? 2 : 0);
    switch (dtype) {
    case KILN_BOOL:
    case KILN_U8: return *p;
    case KILN_I8: return *(const int8_t *)p;
    case KILN_I16: memcpy(&i16, p, 2); return i16;
    case KILN_F16: return (double)f16_to_float(half);
    case KILN_BF16: return (double)bf16_to_float(half);
    case KILN_I32: memcpy(&i32, p, 4); return i32;
    case KILN_I64: memcpy(&i64, p, 8); return (double)i64;
    case KILN_F64: memcpy(&d, p, 8); return d;
    default: memcpy(&f, p, 4); return (double)f;
    }
}

// How far two values are apart, in units of the last place of the dtype at the larger of them and `scale`.
static double distance(double x, double y, unsigned dtype, double scale)
{
    if (x == y || (isnan(x) && isnan(y))) return 0;
    if (isnan(x) || isnan(y) || isinf(x) || isinf(y)) return INFINITY;
    int digits = dtype == KILN_F16 ? 10 : dtype == KILN_BF16 ? 7 : dtype == KILN_F64 ? 52 : 23;
    double size = fmax(fmax(fabs(x), fabs(y)), scale);
    int exponent;
    (void)frexp(size, &exponent);
    return fabs(x - y) / ldexp(1, exponent - 1 - digits);
}

static void assert_near(const void *got, const void *expected, unsigned dtype, int64_t n, double ulps, double scale,
                        const struct fused_kernel *k, int buffer)
{
    for (int64_t i = 0; i < n; i++) {
        double x = value_at(got, dtype, i), y = value_at(expected, dtype, i), d = distance(x, y, dtype, scale);
        bool whole = dtype_kind_of[dtype] != KIND_FLOAT;
        if (d <= (whole ? 0 : ulps)) continue;
        struct str text;
        str_init(&text);
        fused_text(k, &text);
        fail_msg("buffer %d of %s, element %lld: %.9g instead of %.9g, %.1f ulp\n%s", buffer, dtype_name(dtype),
                 (long long)i, x, y, d, str_text(&text));
    }
}

struct arrays {
    void *expected[MAX_BUFFERS];
    struct block blocks[MAX_BUFFERS];
};

static uint64_t size_of(const struct build *b, int i)
{
    return (uint64_t)b->elements[i] * dtype_size_B[b->dtypes[i]];
}

static void arrays_begin(const struct build *b, struct arrays *a)
{
    for (int i = 0; i < b->n_buffers; i++) {
        a->expected[i] = malloc(size_of(b, i));
        fill(a->expected[i], b->dtypes[i], b->elements[i]);
        a->blocks[i] = block_new(size_of(b, i), a->expected[i]);
    }
}

static void arrays_compare(const struct build *b, struct arrays *a, double ulps, double scale)
{
    for (int i = 0; i < b->n_buffers; i++) {
        void *got = malloc(size_of(b, i));
        assert_ok(device_download(dev, got, a->blocks[i].address, size_of(b, i)));
        assert_near(got, a->expected[i], b->dtypes[i], b->elements[i], ulps, scale, &b->k, i);
        free(got);
    }
}

static void arrays_end(const struct build *b, struct arrays *a)
{
    for (int i = 0; i < b->n_buffers; i++) {
        free(a->expected[i]);
        device_release(dev, &a->blocks[i]);
    }
}

// Compiles, runs and compares with the reference. All buffers are compared: what is not an output stays as it was.
static void check_within(struct build *b, double ulps, double scale)
{
    struct arrays a;
    struct ready r;
    arrays_begin(b, &a);
    struct loaded l = compile(&b->k);
    make_ready(&l, &b->k, a.blocks, &r);
    assert_ok(device_launch_compiled(dev, &r.launch));
    assert_ok(fused_eval(&b->k, a.expected, NULL));
    arrays_compare(b, &a, ulps, scale);
    dev->ops->unload_compiled(dev, l.compiled);
    release(&r);
    arrays_end(b, &a);
}

static void check(struct build *b)
{
    check_within(b, 0, 0);
}

// --- pointwise

static void pointwise_chains(void **state)
{
    static const int64_t sizes[][2] = {{1}, {7}, {64}, {1000}, {4096}, {10001}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct build b;
        build_begin(&b, 0, 1, sizes[i]);
        int x = load(&b, KILN_F32, 1), y = load(&b, KILN_F32, 1);
        store(&b, KILN_F32, 1, expr2(&b, "(a + b) * a - b / (a * a + 1.0)", x, y));
        finish(&b);
        check(&b);
        build_end(&b);
    }
}

static void layouts_and_dimensions(void **state)
{
    const int64_t sizes[] = {3, 2, 5, 2, 4, 2, 3, 8};
    for (int n = 1; n <= 8; n++) {
        struct build b;
        int64_t mixed[8], reversed[8], step = 1;
        build_begin(&b, 0, n, sizes + 8 - n);
        for (int d = n - 1; d >= 0; d--) {
            mixed[d] = (d & 1 ? -1 : 1) * step * 2;
            step *= b.k.sizes[d];
        }
        step = 1;
        for (int d = 0; d < n; d++) {
            reversed[d] = step;
            step *= b.k.sizes[d];
        }
        int x = dag_load(&b.dag, CLASS_F32, (uint16_t)add_in(&b, KILN_F32, mixed), -1, -1);
        int y = dag_load(&b.dag, CLASS_F32, (uint16_t)add_in(&b, KILN_F32, reversed), -1, -1);
        int z = load(&b, KILN_F32, 0x55), u = load(&b, KILN_F32, 0xaa), w = load(&b, KILN_F32, 0);
        int v = expr(&b, "(a * b + c) - d", CLASS_F32, (const int[]){x, y, z, u}, 4);
        store(&b, KILN_F32, 0xff, expr2(&b, "a * b", v, w));
        store_strided(&b, KILN_F32, reversed, v);
        finish(&b);
        check(&b);
        build_end(&b);
    }
}

static void every_dtype_is_loaded_and_stored(void **state)
{
    for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (dtype == KILN_F64 && !dev->caps.f64) continue;
        for (int64_t n = 5; n <= 64; n += 59) {
            struct build b;
            build_begin(&b, 0, 2, (const int64_t[]){3, n});
            int x = load(&b, dtype, 3), y = load(&b, dtype, 2);
            store(&b, dtype, 3, dtype == KILN_BOOL ? expr2(&b, "a ^^ b", x, y) : expr2(&b, "a * b - a", x, y));
            store(&b, KILN_BOOL, 3, dtype == KILN_BOOL ? expr1(&b, "!a", x) : expr2(&b, "a < b", x, y));
            store(&b, KILN_F32, 3, expr1(&b, "f32(a)", x));
            store(&b, KILN_I64, 3, expr1(&b, "i64(a)", y));
            finish(&b);
            check(&b);
            build_end(&b);
        }
    }
}

static void indices_sizes_and_scalars(void **state)
{
    struct build b;
    build_begin(&b, 0, 2, (const int64_t[]){6, 20});
    b.k.n_scalars = 5;
    b.k.scalar_cls[0] = CLASS_F32, b.k.scalars[0] = bits_f32(2.5f);
    b.k.scalar_cls[1] = CLASS_I64, b.k.scalars[1] = (uint64_t)INT64_C(-70000000000);
    b.k.scalar_cls[2] = CLASS_I32, b.k.scalars[2] = (uint32_t)-9;
    b.k.scalar_cls[3] = CLASS_BOOL, b.k.scalars[3] = 1;
    b.k.scalar_cls[4] = dev->caps.f64 ? CLASS_F64 : CLASS_F32, b.k.scalars[4] = dev->caps.f64 ? bits_f64(0.1) : 0;
    int s[5];
    for (int i = 0; i < 5; i++) s[i] = dag_input(&b.dag, (enum scalar_class)b.k.scalar_cls[i], (uint16_t)i);
    int row = dag_dim(&b.dag, 0), column = dag_dim(&b.dag, 1), width = dag_size(&b.dag, 1);
    int x = load(&b, KILN_F32, 3);
    int place = expr(&b, "a * c + b", CLASS_I64, (const int[]){row, column, width}, 3);
    store(&b, KILN_I64, 3, expr2(&b, "a + b", place, s[1]));
    store(&b, KILN_F32, 3, expr2(&b, "a * b", x, s[0]));
    store(&b, KILN_I32, 3, expr(&b, "d ? i32(a) * b : b", CLASS_I32, (const int[]){place, s[2], s[2], s[3]}, 4));
    if (dev->caps.f64) store(&b, KILN_F64, 3, expr2(&b, "f64(a) + b", x, s[4]));
    finish(&b);
    check(&b);
    build_end(&b);
}

// out[i, j] = table[index[i], j] where the index is in range, else 0; and a shifted row, as padding makes it.
static void gathers_and_conditions(void **state)
{
    for (int64_t width = 6; width <= 32; width += 26) {
        struct build b;
        build_begin(&b, 0, 2, (const int64_t[]){9, width});
        int index = load(&b, KILN_I32, 1);
        int64_t strides[2] = {0, 1};
        int table = add_in(&b, KILN_F32, strides);
        b.elements[b.k.in[table].buffer] = 101 * width;
        int at = expr2(&b, "i64(a) * b", index, dag_size(&b.dag, 1));
        int ok = expr1(&b, "a >= 0 && a <= 100", index);
        int x = dag_load(&b.dag, CLASS_F32, (uint16_t)table, at, ok);
        int dense_in = add_in(&b, KILN_F32, (const int64_t[]){width, 1});
        int inside = expr1(&b, "a >= 2", dag_dim(&b.dag, 1));
        int minus_two = dag_number(&b.dag, CLASS_I64, -2);
        int shifted = dag_load(&b.dag, CLASS_F32, (uint16_t)dense_in, minus_two, inside);
        int plain = dag_load(&b.dag, CLASS_F32, (uint16_t)dense_in, -1, -1);
        store(&b, KILN_F32, 3, expr(&b, "a + b * c", CLASS_F32, (const int[]){x, shifted, plain}, 3));
        finish(&b);
        check(&b);
        build_end(&b);
    }
}

// --- rows

// Softmax and a sum of squares: three stages, element and row outputs.
static void build_softmax(struct build *b, unsigned dtype, int64_t rows, int64_t length, bool columns)
{
    build_begin(b, 1, 2, (const int64_t[]){rows, length});
    int64_t strides[2] = {columns ? 1 : length, length == 1 ? 0 : columns ? rows : 1};
    int x = dag_load(&b->dag, CLASS_F32, (uint16_t)add_in(b, dtype, strides), -1, -1);
    int m = dag_reduce(&b->dag, REDUCE_MAX, x);
    int e = expr2(b, "1.0 / (1.0 + (a - b) * (a - b))", x, m);
    int s = dag_reduce(&b->dag, REDUCE_SUM, e);
    store_strided(b, dtype, strides, expr2(b, "a / b", e, s));
    store(b, KILN_F32, 1, m);
    store(b, KILN_F32, 1, expr1(b, "a * 2.0", s));
    finish(b);
}

static void rows_of_every_length(void **state)
{
    static const int64_t shapes[][2] = {{5, 1},  {5, 3},   {70, 4},  {3, 8},    {9, 13},   {3, 16},
                                        {2, 33}, {17, 64}, {2, 100}, {3, 1000}, {2, 4096}, {1, 20000}};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        for (int columns = 0; columns < 2; columns++) {
            struct build b;
            build_softmax(&b, KILN_F32, shapes[i][0], shapes[i][1], columns);
            check_within(&b, 8, 0);
            build_end(&b);
        }
    }
}

static void rows_in_halves(void **state)
{
    static const unsigned dtypes[] = {KILN_F16, KILN_BF16};
    for (size_t i = 0; i < COUNT_OF(dtypes); i++) {
        struct build b;
        build_softmax(&b, dtypes[i], 6, 200, false);
        check_within(&b, 2, 0);
        build_end(&b);
    }
}

// Every fold in every class, over rows of several dimensions, in the middle of the tensor and at its end.
static void every_fold(void **state)
{
    static const unsigned dtypes[] = {KILN_F32, KILN_F64, KILN_I32, KILN_I64, KILN_BOOL};
    static const int64_t sizes[][4] = {{3, 4, 5, 7}, {2, 3, 40, 30}, {2, 1 << 10, 3, 5}};
    for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
        if (dtypes[t] == KILN_F64 && !dev->caps.f64) continue;
        for (size_t z = 0; z < COUNT_OF(sizes); z++) {
            for (int columns = 0; columns < 2; columns++) {
                struct build b;
                build_begin(&b, 2, 4, sizes[z]);
                int64_t across[4] = {1, sizes[z][0], sizes[z][1] * sizes[z][0],
                                     sizes[z][2] * sizes[z][1] * sizes[z][0]};
                int64_t along[4];
                dense(&b, 15, along);
                int i = add_in(&b, dtypes[t], columns ? across : along);
                int x = dag_load(&b.dag, class_of(dtypes[t]), (uint16_t)i, -1, -1);
                bool logical = dtypes[t] == KILN_BOOL;
                for (int how = logical ? REDUCE_ANY : REDUCE_SUM; how <= REDUCE_ARGMIN; how++) {
                    if (!logical && (how == REDUCE_ANY || how == REDUCE_ALL)) continue;
                    if (logical && how >= REDUCE_ARGMAX) continue;
                    bool place = how >= REDUCE_ARGMAX;
                    int v = dag_reduce(&b.dag, (enum scalar_reduce)how, x);
                    store(&b, place ? KILN_I64 : dtypes[t], 3, v);
                }
                finish(&b);
                // The reference sums f32 in f64, but f64 as the device does, in another order.
                check_within(&b, dtypes[t] == KILN_F64 ? 400 : 40, dtypes[t] == KILN_F32 ? 2 : 0.01);
                build_end(&b);
            }
        }
    }
}

static void row_indices_and_row_inputs(void **state)
{
    struct build b;
    build_begin(&b, 1, 3, (const int64_t[]){4, 3, 50});
    int x = load(&b, KILN_F32, 7), bias = load(&b, KILN_F32, 4), scale = load(&b, KILN_F32, 1),
        at = load(&b, KILN_I32, 3);
    int column = dag_dim(&b.dag, 2), row = dag_dim(&b.dag, 1);
    int masked = expr(&b, "a <= b * 10 ? c : -1.0e30", CLASS_F32, (const int[]){column, row, x}, 3);
    int m = dag_reduce(&b.dag, REDUCE_MAX, masked);
    int hit = expr(&b, "i64(a) == b ? c : 0.0", CLASS_F32, (const int[]){at, column, x}, 3);
    int picked = dag_reduce(&b.dag, REDUCE_SUM, hit);
    int y = expr(&b, "(a - b) * c + d", CLASS_F32, (const int[]){x, m, scale, bias}, 4);
    store(&b, KILN_F32, 7, y);
    store(&b, KILN_F32, 3, picked);
    store(&b, KILN_F32, 3, m);
    finish(&b);
    check(&b);
    build_end(&b);
}

// --- splits and totals

static void build_sums(struct build *b, int64_t rows, int64_t length, bool columns, bool totals)
{
    build_begin(b, 1, 2, (const int64_t[]){rows, length});
    int64_t strides[2] = {columns ? 1 : length, columns ? rows : 1};
    int x = dag_load(&b->dag, CLASS_F32, (uint16_t)add_in(b, KILN_F32, strides), -1, -1);
    int s = dag_reduce(&b->dag, REDUCE_SUM, expr1(b, "a * a", x)), m = dag_reduce(&b->dag, REDUCE_ARGMAX, x);
    int root = expr1(b, "sqrt(a)", s);
    store(b, KILN_F32, 1, root);
    store(b, KILN_I64, 1, m);
    if (totals) {
        int total = dag_reduce(&b->dag, REDUCE_SUM | REDUCE_ACROSS, root);
        store(b, KILN_F32, 0, expr1(b, "a * 0.5", total));
        store(b, KILN_I64, 0, dag_reduce(&b->dag, REDUCE_ARGMAX | REDUCE_ACROSS, s));
    }
    finish(b);
}

static void few_long_rows_are_split(void **state)
{
    static const int64_t shapes[][2] = {{1, 300000}, {3, 65536}, {2, 100003}, {1, 9000}};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        for (int totals = 0; totals < 2; totals++) {
            for (int columns = 0; columns < 2; columns++) {
                struct build b;
                build_sums(&b, shapes[i][0], shapes[i][1], columns, totals);
                check_within(&b, 40, 0);
                build_end(&b);
            }
        }
    }
}

static void totals_of_rows_and_points(void **state)
{
    static const int64_t shapes[][2] = {{1, 5}, {300, 7}, {5000, 20}, {64, 64}};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        struct build b;
        build_sums(&b, shapes[i][0], shapes[i][1], false, true);
        check_within(&b, 40, 0);
        build_end(&b);
        build_begin(&b, 0, 2, shapes[i]);
        int x = load(&b, KILN_F32, 3), y = load(&b, KILN_F32, 2);
        int d = expr2(&b, "(a - b) * (a - b)", x, y);
        store(&b, KILN_F32, 3, d);
        int total = dag_reduce(&b.dag, REDUCE_SUM | REDUCE_ACROSS, d);
        store(&b, KILN_F32, 0, expr1(&b, "sqrt(a)", total));
        store(&b, KILN_F32, 0, dag_reduce(&b.dag, REDUCE_MIN | REDUCE_ACROSS, x));
        store(&b, KILN_I64, 0, dag_reduce(&b.dag, REDUCE_ARGMIN | REDUCE_ACROSS, x));
        store(&b, KILN_BOOL, 0, dag_reduce(&b.dag, REDUCE_ANY | REDUCE_ACROSS, expr1(&b, "a > 1.99", x)));
        finish(&b);
        check_within(&b, 40, 0);
        build_end(&b);
    }
}

// The same launch again and again, without synchronising between: one bit pattern, and counters left at zero.
static void repeated_launches_give_one_bit_pattern(void **state)
{
    for (int form = 0; form < 2; form++) {
        struct build b;
        struct arrays a;
        struct ready r;
        build_sums(&b, form ? 5000 : 2, form ? 30 : 200000, false, true);
        arrays_begin(&b, &a);
        struct loaded l = compile(&b.k);
        make_ready(&l, &b.k, a.blocks, &r);
        assert_true(r.packed.workspace_B > 0 && r.packed.workspace_zeroed);
        void *first[MAX_BUFFERS] = {NULL};
        for (int round = 0; round < 50; round++) {
            for (int i = b.k.n_in; i < b.n_buffers; i++) {
                void *got = malloc(size_of(&b, i));
                memset(got, 0xee, size_of(&b, i));
                if (round) assert_ok(device_upload(dev, a.blocks[i].address, got, size_of(&b, i)));
                free(got);
            }
            assert_ok(device_launch_compiled(dev, &r.launch));
            for (int i = b.k.n_in; i < b.n_buffers; i++) {
                void *got = malloc(size_of(&b, i));
                assert_ok(device_download(dev, got, a.blocks[i].address, size_of(&b, i)));
                if (round) assert_memory_equal(got, first[i], size_of(&b, i));
                if (round)
                    free(got);
                else
                    first[i] = got;
            }
        }
        uint32_t counters[1024];
        assert_ok(device_download(dev, counters, r.workspace.address, sizeof counters));
        for (size_t i = 0; i < COUNT_OF(counters); i++) assert_int_equal(counters[i], 0);
        for (int i = 0; i < MAX_BUFFERS; i++) free(first[i]);
        dev->ops->unload_compiled(dev, l.compiled);
        release(&r);
        arrays_end(&b, &a);
        build_end(&b);
    }
}

// 64-bit indices: an access whose far points are never read needs them, and no memory out there.
static void wide_indices(void **state)
{
    for (int reduce = 0; reduce < 2; reduce++) {
        struct build b;
        build_begin(&b, reduce, 3, (const int64_t[]){2, 2, 300});
        int64_t strides[3] = {1 << 30, -(1 << 30), 1};
        struct fused_access *far = &b.k.in[b.k.n_in++];
        *far = (struct fused_access){.dtype = KILN_F32, .cls = CLASS_F32};
        memcpy(far->strides, strides, sizeof strides);
        far->buffer = (uint16_t)new_buffer(&b, KILN_F32, 300);
        int near = expr2(&b, "a == b", dag_dim(&b.dag, 0), dag_dim(&b.dag, 1));
        int zero = dag_number(&b.dag, CLASS_I64, 0);
        int x = dag_load(&b.dag, CLASS_F32, 0, zero, near), y = load(&b, KILN_F32, 7), z = load(&b, KILN_I64, 6);
        int v = expr2(&b, "a * b + b", x, y);
        store(&b, KILN_F32, 7, v);
        store(&b, KILN_I64, 7, expr2(&b, "a + b", z, dag_dim(&b.dag, 2)));
        if (reduce) {
            store(&b, KILN_F32, 3, dag_reduce(&b.dag, REDUCE_MAX, v));
            store(&b, KILN_I64, 3, dag_reduce(&b.dag, REDUCE_ARGMIN, y));
            int sum = dag_reduce(&b.dag, REDUCE_SUM, z);
            store(&b, KILN_I64, 0, dag_reduce(&b.dag, REDUCE_MAX | REDUCE_ACROSS, sum));
        }
        finish(&b);
        assert_true(fused_needs_wide_index(&b.k));
        check(&b);
        build_end(&b);
    }
}

// More accesses than push constants hold: the block lies in memory.
static void many_accesses(void **state)
{
    struct build b;
    build_begin(&b, 0, 2, (const int64_t[]){5, 33});
    int sum = load(&b, KILN_I32, 3);
    for (int i = 0; i < 6; i++) sum = expr2(&b, "a * 3 + b", sum, load(&b, KILN_I32, i & 1 ? 1 : 3));
    for (int i = 0; i < 4; i++) store(&b, KILN_I32, 3, sum = expr1(&b, "a * 5 - 1", sum));
    finish(&b);
    struct loaded l = compile(&b.k);
    assert_true(l.plan.indirect);
    dev->ops->unload_compiled(dev, l.compiled);
    check(&b);
    build_end(&b);
    build_begin(&b, 0, 4, (const int64_t[]){2, 3, 4, 5});
    int64_t strides[4] = {1, 2, 6, 24};
    sum = load(&b, KILN_I32, 15);
    for (int i = 0; i < 5; i++)
        sum = expr2(&b, "a * 3 + b", sum, dag_load(&b.dag, CLASS_I32, (uint16_t)add_in(&b, KILN_I32, strides), -1, -1));
    store(&b, KILN_I32, 15, sum);
    finish(&b);
    l = compile(&b.k);
    assert_true(l.plan.indirect);
    dev->ops->unload_compiled(dev, l.compiled);
    check(&b);
    build_end(&b);
}

// Starts that are not aligned to four elements: same code, other addresses.
static void unaligned_starts(void **state)
{
    static const unsigned dtypes[] = {KILN_F32, KILN_F16, KILN_U8, KILN_I64};
    for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
        for (int64_t skip = 0; skip < 5; skip++) {
            struct build b;
            build_begin(&b, 0, 1, (const int64_t[]){1003});
            const int64_t one[] = {1};
            b.k.in[b.k.n_in++] = new_access(&b, dtypes[t], one, skip);
            int x = dag_load(&b.dag, class_of(dtypes[t]), 0, -1, -1), y = load(&b, dtypes[t], 1);
            store(&b, dtypes[t], 1, expr2(&b, "a + b", x, y));
            finish(&b);
            check(&b);
            build_end(&b);
        }
    }
}

// The forms that a large device takes, and those of one whose lanes cannot exchange values, run here too.
static void the_forms_of_a_large_device(void **state)
{
    dev->caps.parallelism = 1 << 17;
    rows_of_every_length(state);
    every_fold(state);
    few_long_rows_are_split(state);
    totals_of_rows_and_points(state);
    repeated_launches_give_one_bit_pattern(state);
}

static void the_forms_without_shuffles(void **state)
{
    dev->caps.shuffle = false;
    rows_in_halves(state);
    totals_of_rows_and_points(state);
    dev->caps.parallelism = 1 << 17;
    every_fold(state);
    few_long_rows_are_split(state);
}

// --- random kernels

struct value {
    int node;
    enum scalar_class cls;
    enum fused_level level;
};

struct pool {
    struct build b;
    struct value values[64];
    int n;
};

static void pool_add(struct pool *p, int node, enum fused_level level)
{
    assert_true(node >= 0);
    p->values[p->n++] = (struct value){node, dag_class(&p->b.dag, node), level};
}

static void random_input(struct pool *p)
{
    static const uint8_t dtypes[] = {KILN_F32, KILN_F32, KILN_F16, KILN_BF16, KILN_I32, KILN_I64, KILN_BOOL, KILN_U8};
    struct build *b = &p->b;
    unsigned dtype = dtypes[below(COUNT_OF(dtypes))], n = (unsigned)b->k.n_dims;
    unsigned dims = below(2) ? (1u << n) - 1 : below(1u << n);
    int64_t strides[FUSED_MAX_DIMS], step = below(4) ? 1 : 2;
    bool reversed = below(4) == 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned d = reversed ? i : n - 1 - i;
        strides[d] = dims >> d & 1 ? (below(8) ? step : -step) : 0;
        if (dims >> d & 1) step *= b->k.sizes[d];
    }
    enum fused_level level = LEVEL_UNIFORM;
    for (int d = 0; d < b->k.n_dims; d++)
        if (strides[d])
            level = d >= b->k.n_dims - b->k.n_reduce ? LEVEL_ELEMENT : level > LEVEL_ROW ? level : LEVEL_ROW;
    int access = add_in(b, dtype, strides);
    pool_add(p, dag_load(&b->dag, class_of(dtype), (uint16_t)access, -1, -1), level);
}

static void random_operation(struct pool *p)
{
    static const char *const of_numbers[] = {"a + b", "a - b", "a * b", "a / b", "max(a, b)", "min(a, b)", "a < b"};
    static const char *const of_bools[] = {"a && b", "a || b", "a ^^ b", "!a && b"};
    static const char *const casts[] = {"f32(a)", "i32(a)", "i64(a)", "bool(a)"};
    struct build *b = &p->b;
    struct value x = p->values[below((uint32_t)p->n)], y = p->values[below((uint32_t)p->n)];
    enum fused_level level = x.level > y.level ? x.level : y.level;
    if (x.cls != y.cls || below(6) == 0) {
        int target = (int)below(4);
        static const enum scalar_class classes[] = {CLASS_F32, CLASS_I32, CLASS_I64, CLASS_BOOL};
        pool_add(p, classes[target] == x.cls ? x.node : expr1(b, casts[target], x.node), x.level);
    } else if (x.cls == CLASS_BOOL) {
        pool_add(p, expr2(b, of_bools[below(COUNT_OF(of_bools))], x.node, y.node), level);
    } else {
        pool_add(p, expr2(b, of_numbers[below(COUNT_OF(of_numbers))], x.node, y.node), level);
    }
}

// Folds whose value does not depend on the order: sums and products of integers only.
static void random_fold(struct pool *p, bool across)
{
    struct value x = p->values[below((uint32_t)p->n)];
    if (x.level == LEVEL_TOTAL || (across && x.level == LEVEL_ELEMENT)) return;
    bool exact = x.cls == CLASS_I32 || x.cls == CLASS_I64;
    unsigned how = x.cls == CLASS_BOOL ? REDUCE_ANY + below(2) : exact && below(2) ? below(2) : 0;
    if (x.cls != CLASS_BOOL && (!exact || below(2))) {
        static const uint8_t extremes[] = {REDUCE_MAX, REDUCE_MIN, REDUCE_ARGMAX, REDUCE_ARGMIN};
        how = extremes[below(4)];
    }
    int node = dag_reduce(&p->b.dag, (enum scalar_reduce)(how | (across ? REDUCE_ACROSS : 0)), x.node);
    if (across) { // only outputs may read it
        bool place = how == REDUCE_ARGMAX || how == REDUCE_ARGMIN;
        static const uint8_t dtype_of[CLASS_COUNT] = {KILN_F32, KILN_F64, KILN_I32, KILN_I64, KILN_BOOL};
        store(&p->b, place ? KILN_I64 : dtype_of[x.cls], 0, node);
        return;
    }
    pool_add(p, node, LEVEL_ROW);
}

static void random_output(struct pool *p, struct value v)
{
    static const uint8_t dtypes[CLASS_COUNT][4] = {[CLASS_F32] = {KILN_F32, KILN_F32, KILN_F16, KILN_BF16},
                                                   [CLASS_I32] = {KILN_I32, KILN_I16, KILN_U8, KILN_I8},
                                                   [CLASS_I64] = {KILN_I64, KILN_I64, KILN_I64, KILN_I64},
                                                   [CLASS_BOOL] = {KILN_BOOL, KILN_BOOL, KILN_BOOL, KILN_BOOL}};
    const struct fused_kernel *k = &p->b.k;
    unsigned all = (1u << k->n_dims) - 1, rows = (1u << (k->n_dims - k->n_reduce)) - 1;
    store(&p->b, dtypes[v.cls][below(4)], v.level == LEVEL_ROW ? rows : all, v.node);
}

static void random_kernels_match_the_reference(void **state)
{
    enum { ROUNDS = 150 };
    for (int round = 0; round < ROUNDS; round++) {
        struct pool p = {.n = 0};
        int64_t sizes[FUSED_MAX_DIMS];
        seed = (uint32_t)round * 7919 + 1;
        int n_dims = 1 + (int)below(4), n_reduce = (int)below((uint32_t)(n_dims < 2 ? n_dims : 2) + 1);
        for (int d = 0; d < n_dims; d++) sizes[d] = 2 + below(below(3) ? 8 : 40);
        build_begin(&p.b, n_reduce, n_dims, sizes);
        int n_inputs = 1 + (int)below(4), n_steps = 2 + (int)below(12);
        for (int i = 0; i < n_inputs; i++) random_input(&p);
        if (below(4) == 0)
            pool_add(&p, dag_dim(&p.b.dag, (uint16_t)(n_dims - 1)), n_reduce ? LEVEL_ELEMENT : LEVEL_ROW);
        for (int i = 0; i < n_steps; i++) {
            if (n_reduce && below(4) == 0)
                random_fold(&p, false);
            else
                random_operation(&p);
        }
        if (below(3) == 0) random_fold(&p, true);
        random_output(&p, p.values[p.n - 1]);
        random_output(&p, p.values[below((uint32_t)p.n)]);
        finish(&p.b);
        check(&p.b);
        build_end(&p.b);
    }
}

// --- the device

static struct launch eager_binary(const char *name, const struct block *a, const struct block *b,
                                  const struct block *out, int64_t n)
{
    static const int64_t one[] = {1};
    struct launch l = launch_new(name, CLASS_F32, 1, &n);
    add_operand(&l, a, KILN_F32, 0, one, false);
    add_operand(&l, b, KILN_F32, 0, one, false);
    add_operand(&l, out, KILN_F32, 0, one, true);
    return l;
}

// Compiled and eager launches in turn on the same three arrays: barriers order them.
static void launches_of_both_kinds_are_ordered(void **state)
{
    enum { N = 3000, ROUNDS = 20 };
    struct build b;
    struct arrays a;
    struct ready r;
    build_begin(&b, 0, 1, (const int64_t[]){N});
    int x = load(&b, KILN_F32, 1), y = load(&b, KILN_F32, 1);
    store(&b, KILN_F32, 1, expr2(&b, "a * 0.5 + b", x, y));
    finish(&b);
    arrays_begin(&b, &a);
    struct loaded l = compile(&b.k);
    make_ready(&l, &b.k, a.blocks, &r);
    kiln_device_reset_stats(dev);
    struct launch add = eager_binary("sub", &a.blocks[2], &a.blocks[1], &a.blocks[0], N);
    for (int i = 0; i < ROUNDS; i++) {
        assert_ok(device_launch_compiled(dev, &r.launch)); // c = a / 2 + b
        assert_ok(device_launch(dev, &add));               // a = c - b
    }
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(dev, &s);
    assert_int_equal(s.launches, 2 * ROUNDS);
    assert_true(s.barriers >= 2 * ROUNDS - 1 && s.barriers <= 2 * ROUNDS);
    float *in[3] = {a.expected[0], a.expected[1], a.expected[2]};
    for (int i = 0; i < ROUNDS; i++)
        for (int j = 0; j < N; j++) {
            in[2][j] = in[0][j] * 0.5f + in[1][j];
            in[0][j] = in[2][j] - in[1][j];
        }
    arrays_compare(&b, &a, 0, 0);
    kiln_device_reset_stats(dev);
    assert_ok(device_launch_compiled(dev, &r.launch));
    assert_ok(kiln_device_synchronize(dev));
    dev->ops->unload_compiled(dev, l.compiled);
    arrays_end(&b, &a);
    build_end(&b);
}

// The validation layer would tell of a pipeline that is destroyed in use.
static void kernels_may_be_unloaded_in_flight(void **state)
{
    struct build b;
    struct arrays a;
    struct ready r;
    build_begin(&b, 0, 1, (const int64_t[]){50000});
    store(&b, KILN_F32, 1, expr1(&b, "a * a + 1.0", load(&b, KILN_F32, 1)));
    finish(&b);
    arrays_begin(&b, &a);
    for (int i = 0; i < 5; i++) {
        struct loaded l = compile(&b.k);
        make_ready(&l, &b.k, a.blocks, &r);
        for (int j = 0; j < 30; j++) assert_ok(device_launch_compiled(dev, &r.launch));
        dev->ops->unload_compiled(dev, l.compiled);
    }
    assert_no_validation_message();
    assert_ok(fused_eval(&b.k, a.expected, NULL));
    arrays_compare(&b, &a, 0, 0);
    struct loaded kept = compile(&b.k); // closing the device frees it
    assert_non_null(kept.compiled);
    dev->ops->unload_compiled(dev, NULL);
    arrays_end(&b, &a);
    build_end(&b);
}

static VkResult VKAPI_PTR no_pipeline(VkDevice d, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *i,
                                      const VkAllocationCallbacks *a, VkPipeline *p)
{
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

static VkResult VKAPI_PTR lost_submit(VkQueue q, uint32_t n, const VkSubmitInfo2 *s, VkFence f)
{
    return VK_ERROR_DEVICE_LOST;
}

static void failures_name_the_kernel(void **state)
{
    struct build b;
    struct arrays a;
    struct ready r;
    build_begin(&b, 0, 1, (const int64_t[]){64});
    b.k.name = "scale_add";
    store(&b, KILN_F32, 1, expr1(&b, "a * a + 1.0", load(&b, KILN_F32, 1)));
    finish(&b);
    arrays_begin(&b, &a);
    struct loaded l = compile(&b.k);
    make_ready(&l, &b.k, a.blocks, &r);
    struct vk_device *vk = vk_of(dev);
    PFN_vkCreateComputePipelines create = vk->fn.vkCreateComputePipelines;
    uint32_t words[8] = {0};
    struct compiled_code code = {.name = "scale_add", .code = words, .code_B = sizeof words};
    vk->fn.vkCreateComputePipelines = no_pipeline;
    struct str text;
    struct spirv module;
    str_init(&text);
    assert_ok(glsl_fused(&b.k, &dev->caps, &l.plan, &text));
    struct spirv_source source = {.name = b.k.name, .text = str_text(&text), .include = dev->ops->shader_text};
    assert_ok(spirv_compile(&source, &module));
    code.code = module.words, code.code_B = module.n_words * 4;
    void *none;
    assert_int_equal(dev->ops->load_compiled(dev, &code, &none), KILN_E_MEMORY);
    vk->fn.vkCreateComputePipelines = create;
    assert_null(none);
    assert_non_null(strstr(kiln_error_message(), "scale_add: "));
    kiln_error_clear();
    spirv_free(&module);
    str_free(&text);
    r.launch.n_words = PUSH_WORDS + 1;
    assert_int_equal(device_launch_compiled(dev, &r.launch), KILN_E_INTERNAL);
    assert_non_null(strstr(kiln_error_message(), "scale_add"));
    kiln_error_clear();
    r.launch.n_words = (uint32_t)r.packed.n_words;
    vk->blocking = true;
    assert_ok(device_launch_compiled(dev, &r.launch));
    assert_true(vk_stream_idle(vk)); // a blocking launch has run when it returns
    vk->fn.vkQueueSubmit2 = lost_submit;
    assert_int_equal(device_launch_compiled(dev, &r.launch), KILN_E_DEVICE_LOST);
    assert_int_equal(strncmp(kiln_error_message(), "scale_add: ", 11), 0);
    kiln_error_clear();
    assert_int_equal(dev->ops->load_compiled(dev, &code, &none), KILN_E_DEVICE_LOST);
    kiln_error_clear();
    arrays_end(&b, &a);
    build_end(&b);
}

static void the_null_device_takes_compiled_launches(void **state)
{
    kiln_device *null = kiln_device_open("null");
    assert_non_null(null);
    struct block block;
    void *compiled;
    assert_ok(device_alloc(null, 256, &block));
    struct compiled_code code = {.name = "nothing"};
    assert_ok(null->ops->load_compiled(null, &code, &compiled));
    struct compiled_range range = {block.address, 0, 256, true};
    struct compiled_launch l = {.compiled = compiled, .op = "nothing", .n_ranges = 1, .ranges = &range};
    assert_ok(device_launch_compiled(null, &l));
    range.hi_B = INT64_C(1) << 40;
    assert_int_equal(device_launch_compiled(null, &l), KILN_E_INTERNAL);
    assert_non_null(strstr(kiln_error_message(), "nothing"));
    kiln_error_clear();
    null->ops->unload_compiled(null, compiled);
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(null, &s);
    assert_int_equal(s.launches, 2);
    device_release(null, &block);
    kiln_device_close(&null);
}

static void the_compiler_warms_up_once(void **state)
{
    spirv_warm();
    spirv_warm();
    struct spirv_source source = {.name = "empty", .text = "#version 460\nvoid main() {}\n"};
    struct spirv module;
    assert_ok(spirv_compile(&source, &module));
    spirv_free(&module);
    spirv_warm_end();
    spirv_warm_end();
}

// Times, for people: KILN_TEST_TIMES=1.
static void measure(const char *what, struct build *b)
{
    enum { N = 20, LAUNCHES = 10000 };
    struct arrays a;
    struct ready r;
    codegen_ms = glslang_ms = pipeline_ms = 0;
    for (int i = 0; i < N; i++) {
        struct loaded l = compile(&b->k);
        dev->ops->unload_compiled(dev, l.compiled);
    }
    print_message("%s: text %.3f ms, glslang %.2f ms, pipeline %.2f ms", what, codegen_ms / N, glslang_ms / N,
                  pipeline_ms / N);
    arrays_begin(b, &a);
    struct loaded l = compile(&b->k);
    make_ready(&l, &b->k, a.blocks, &r);
    assert_ok(device_launch_compiled(dev, &r.launch));
    assert_ok(kiln_device_synchronize(dev));
    double start = now_ms();
    for (int i = 0; i < 20; i++) assert_ok(device_launch_compiled(dev, &r.launch));
    assert_ok(kiln_device_synchronize(dev));
    print_message(", run %.3f ms\n", (now_ms() - start) / 20);
    dev->ops->unload_compiled(dev, l.compiled);
    release(&r);
    arrays_end(b, &a);
}

// (a + b) * a - b / (a * a + b) by six eager launches.
static void measure_eager_chain(int64_t n)
{
    struct block a[5];
    for (int i = 0; i < 5; i++) {
        void *data = malloc((size_t)n * 4);
        fill(data, KILN_F32, n);
        a[i] = block_new((uint64_t)n * 4, data);
        free(data);
    }
    struct launch chain[] = {
        eager_binary("add", &a[0], &a[1], &a[2], n), eager_binary("mul", &a[2], &a[0], &a[2], n),
        eager_binary("mul", &a[0], &a[0], &a[3], n), eager_binary("add", &a[3], &a[1], &a[3], n),
        eager_binary("div", &a[1], &a[3], &a[4], n), eager_binary("sub", &a[2], &a[4], &a[4], n),
    };
    double start = 0;
    for (int i = 0; i < 21; i++) {
        if (i == 1) {
            assert_ok(kiln_device_synchronize(dev));
            start = now_ms();
        }
        for (size_t j = 0; j < COUNT_OF(chain); j++) assert_ok(device_launch(dev, &chain[j]));
    }
    assert_ok(kiln_device_synchronize(dev));
    print_message("six eager launches, %lld elements: %.3f ms\n", (long long)n, (now_ms() - start) / 20);
    for (int i = 0; i < 5; i++) device_release(dev, &a[i]);
}

static void measure_recording(void)
{
    enum { N = 90 };
    struct build b;
    struct arrays a;
    struct ready r;
    build_begin(&b, 0, 1, (const int64_t[]){16});
    store(&b, KILN_F32, 1, expr2(&b, "a + b", load(&b, KILN_F32, 1), load(&b, KILN_F32, 1)));
    finish(&b);
    arrays_begin(&b, &a);
    struct loaded l = compile(&b.k);
    make_ready(&l, &b.k, a.blocks, &r);
    struct launch eager = eager_binary("add", &a.blocks[0], &a.blocks[1], &a.blocks[2], 16);
    double best[3] = {1e9, 1e9, 1e9};
    uint64_t addresses[3] = {a.blocks[0].address, a.blocks[1].address, a.blocks[2].address};
    for (int round = 0; round < 200; round++) {
        assert_ok(kiln_device_synchronize(dev));
        for (int i = 0; i < 20; i++) assert_ok(device_launch_compiled(dev, &r.launch)); // opens a batch of full size
        double start = now_ms();
        for (int i = 0; i < N; i++) assert_ok(device_launch_compiled(dev, &r.launch));
        double compiled = now_ms();
        assert_ok(kiln_device_synchronize(dev));
        for (int i = 0; i < 20; i++) assert_ok(device_launch(dev, &eager));
        double again = now_ms();
        for (int i = 0; i < N; i++) assert_ok(device_launch(dev, &eager));
        double done = now_ms();
        for (int i = 0; i < N; i++) assert_ok(glsl_pack(&l.plan, &b.k, addresses, &dev->caps, &r.packed));
        best[0] = fmin(best[0], compiled - start);
        best[1] = fmin(best[1], done - again);
        best[2] = fmin(best[2], now_ms() - done);
    }
    print_message("recording with a barrier: compiled %.0f ns, eager %.0f ns; packing %.0f ns\n", best[0] / N * 1e6,
                  best[1] / N * 1e6, best[2] / N * 1e6);
    dev->ops->unload_compiled(dev, l.compiled);
    arrays_end(&b, &a);
    build_end(&b);
}

static void times(void **state)
{
    if (!getenv("KILN_TEST_TIMES")) skip();
    measure_recording();
    measure_eager_chain(1 << 20);
    measure_eager_chain(1 << 12);
    struct build b;
    build_begin(&b, 0, 1, (const int64_t[]){1 << 12});
    store(&b, KILN_F32, 1, expr2(&b, "(a + b) * a - b / (a * a + b)", load(&b, KILN_F32, 1), load(&b, KILN_F32, 1)));
    finish(&b);
    measure("pointwise, 4K", &b);
    build_end(&b);
    build_begin(&b, 0, 1, (const int64_t[]){1 << 20});
    int x = load(&b, KILN_F32, 1), y = load(&b, KILN_F32, 1);
    store(&b, KILN_F32, 1, expr2(&b, "(a + b) * a - b / (a * a + 1.0)", x, y));
    finish(&b);
    measure("pointwise, 1M", &b);
    build_end(&b);
    build_begin(&b, 0, 1, (const int64_t[]){1 << 20});
    x = load(&b, KILN_F32, 1), y = load(&b, KILN_F32, 1);
    store(&b, KILN_F32, 1, expr2(&b, "tanh(exp(a * b)) + a", x, y));
    finish(&b);
    measure("tanh(exp), 1M", &b);
    build_end(&b);
    build_softmax(&b, KILN_F32, 1024, 1000, false);
    measure("softmax-like 1024 x 1000", &b);
    build_end(&b);
    build_softmax(&b, KILN_F32, 8192, 100, false);
    measure("softmax-like 8192 x 100", &b);
    build_end(&b);
    build_softmax(&b, KILN_F32, 1000, 1024, true);
    measure("softmax-like, columns of 1000 x 1024", &b);
    build_end(&b);
    build_sums(&b, 1, 1 << 20, false, true);
    measure("sums with totals, 1 x 1M", &b);
    build_end(&b);
}

static int open_seeded(void **state)
{
    seed = 1;
    return open_device(state);
}

int main(int argc, char **argv)
{
    setenv("KILN_DEBUG", "validate", 0);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_seeded, close_device)
    const struct CMUnitTest tests[] = {
        CASE(the_compiler_warms_up_once),
        CASE(pointwise_chains),
        CASE(layouts_and_dimensions),
        CASE(every_dtype_is_loaded_and_stored),
        CASE(indices_sizes_and_scalars),
        CASE(gathers_and_conditions),
        CASE(rows_of_every_length),
        CASE(rows_in_halves),
        CASE(every_fold),
        CASE(row_indices_and_row_inputs),
        CASE(few_long_rows_are_split),
        CASE(totals_of_rows_and_points),
        CASE(repeated_launches_give_one_bit_pattern),
        CASE(wide_indices),
        CASE(many_accesses),
        CASE(unaligned_starts),
        CASE(the_forms_of_a_large_device),
        CASE(the_forms_without_shuffles),
        CASE(random_kernels_match_the_reference),
        CASE(launches_of_both_kinds_are_ordered),
        CASE(kernels_may_be_unloaded_in_flight),
        CASE(failures_name_the_kernel),
        CASE(the_null_device_takes_compiled_launches),
        CASE(times),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    print_message("%d kernels, each: text %.2f ms, glslang %.2f ms, pipeline %.2f ms\n", n_compiled,
                  codegen_ms / (n_compiled ? n_compiled : 1), glslang_ms / (n_compiled ? n_compiled : 1),
                  pipeline_ms / (n_compiled ? n_compiled : 1));
    return failed;
}
