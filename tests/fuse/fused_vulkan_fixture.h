// What the tests of fused kernels on Vulkan share: kernels built by hand, compiled, run, and held to the reference.
#pragma once
#include "../device/vulkan_fixture.h"

#include "spirv/spirv.h"
#include "codegen/target.h"
#include "fuse/kernel.h"

#include <time.h>

#define MAX_BUFFERS 16
#define BEHIND_B    64 // behind each buffer, which stay as they were

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

static inline void build_begin(struct build *b, int n_reduce, int n_dims, const int64_t *sizes)
{
    *b = (struct build){.k = {.name = "kernel", .n_dims = n_dims, .n_reduce = n_reduce}};
    arena_init(&b->arena);
    dag_begin(&b->dag);
    for (int d = 0; d < n_dims; d++) b->k.sizes[d] = sizes[d];
}

static inline void build_end(struct build *b)
{
    dag_end(&b->dag);
    arena_finish(&b->arena);
}

static inline enum scalar_class class_of(unsigned dtype)
{
    switch (dtype) {
    case KILN_BOOL: return CLASS_BOOL;
    case KILN_I64: return CLASS_I64;
    case KILN_F64: return CLASS_F64;
    case KILN_F16:
    case KILN_BF16:
    case KILN_F32: return CLASS_F32;
    case KILN_U32:
    case KILN_U64: return CLASS_I64;
    default: return CLASS_I32;
    }
}

static inline int new_buffer(struct build *b, unsigned dtype, int64_t elements)
{
    b->dtypes[b->n_buffers] = (uint8_t)dtype;
    b->elements[b->n_buffers] = elements;
    return b->n_buffers++;
}

// An access of a new buffer with these strides, which may be negative; `skip` elements lie before its lowest.
static inline struct fused_access new_access(struct build *b, unsigned dtype, const int64_t *strides, int64_t skip)
{
    struct fused_access a = {.dtype = (uint8_t)dtype, .cls = (uint8_t)class_of(dtype), .offset = skip};
    int64_t lo = 0, hi = 0;
    for (int d = 0; d < b->k.n_dims; d++) {
        a.strides[d] = strides[d];
        *(strides[d] < 0 ? &lo : &hi) += strides[d] * (b->k.sizes[d] - 1);
    }
    for (int d = 0; d < b->k.n_dims; d++)
        if (b->k.sizes[d] == 0 && strides[d]) lo = hi = 0; // nothing is touched
    a.offset -= lo;
    a.buffer = (uint16_t)new_buffer(b, dtype, skip + hi - lo + 1);
    return a;
}

// Strides of a dense tensor over those dimensions whose bit is set in `dims`.
static inline void dense(const struct build *b, unsigned dims, int64_t *strides)
{
    int64_t step = 1;
    for (int d = b->k.n_dims - 1; d >= 0; d--) {
        strides[d] = dims >> d & 1 ? step : 0;
        if (dims >> d & 1) step *= b->k.sizes[d];
    }
}

static inline int add_in(struct build *b, unsigned dtype, const int64_t *strides)
{
    b->k.in[b->k.n_in] = new_access(b, dtype, strides, 0);
    return b->k.n_in++;
}

static inline int load(struct build *b, unsigned dtype, unsigned dims)
{
    int64_t strides[FUSED_MAX_DIMS];
    dense(b, dims, strides);
    int i = add_in(b, dtype, strides);
    return dag_load(&b->dag, class_of(dtype), (uint16_t)i, -1, -1);
}

static inline void store_strided(struct build *b, unsigned dtype, const int64_t *strides, int node)
{
    b->outs[b->k.n_out] = node;
    b->k.out[b->k.n_out++].to = new_access(b, dtype, strides, 0);
}

static inline void store(struct build *b, unsigned dtype, unsigned dims, int node)
{
    int64_t strides[FUSED_MAX_DIMS];
    dense(b, dims, strides);
    store_strided(b, dtype, strides, node);
}

// The value of an expression in a, b, c, d, which are the nodes of `args`.
static inline int expr(struct build *b, const char *text, enum scalar_class cls, const int *args, int n)
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

static inline int expr1(struct build *b, const char *text, int x)
{
    return expr(b, text, dag_class(&b->dag, x), (const int[]){x}, 1);
}

static inline int expr2(struct build *b, const char *text, int x, int y)
{
    return expr(b, text, dag_class(&b->dag, x), (const int[]){x, y}, 2);
}

static inline void finish(struct build *b)
{
    struct fused_kernel *k = &b->k;
    assert_ok(dag_finish_all(&b->dag, &b->arena, b->outs, k->n_out, &k->dag));
    for (int i = 0; i < k->n_out; i++) k->out[i].node = (uint16_t)b->outs[i];
    assert_ok(fused_finish(&b->arena, k));
}

// Softmax and a sum of squares: three stages, element and row outputs.
static inline void build_softmax(struct build *b, unsigned dtype, int64_t rows, int64_t length, bool columns)
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

static inline void build_sums(struct build *b, int64_t rows, int64_t length, bool columns, bool totals)
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

// --- compiling and running

struct loaded {
    struct codegen_plan plan;
    void *compiled;
};

static inline double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double codegen_ms, glslang_ms, pipeline_ms;
static int n_compiled;

static inline struct loaded compile(const struct fused_kernel *k)
{
    struct loaded l;
    struct str text;
    struct spirv module;
    str_init(&text);
    double start = now_ms();
    assert_ok(glsl_plan(k, &dev->caps, &l.plan));
    assert_ok(glsl_text(k, &l.plan, &text));
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

static inline void make_ready(const struct loaded *l, const struct fused_kernel *k, const struct block *buffers,
                              struct ready *r)
{
    uint64_t addresses[FUSED_MAX_IN + FUSED_MAX_OUT];
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        const struct block *b = &buffers[fused_access_at(k, i)->buffer];
        addresses[i] = b->address;
        r->ranges[i] = (struct compiled_range){b->address, 0, (int64_t)b->size_B, i >= k->n_in};
    }
    // As a program does: laid out without knowing the addresses, which follow at each run.
    static const uint64_t nowhere[FUSED_MAX_IN + FUSED_MAX_OUT];
    assert_ok(glsl_pack(&l->plan, k, nowhere, &dev->caps, &r->packed));
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        const struct fused_access *a = fused_access_at(k, i);
        addresses[i] += (uint64_t)a->offset * dtype_size_B[a->dtype];
        r->packed.words[2 * i] = (uint32_t)addresses[i];
        r->packed.words[2 * i + 1] = addresses[i] >> 32;
    }
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

static inline void release(struct ready *r)
{
    if (r->packed.workspace_B) device_release(dev, &r->workspace);
}

// --- values

static uint32_t seed;

static inline uint32_t next_random(void)
{
    seed = seed * 747796405u + 2891336453u;
    uint32_t v = ((seed >> ((seed >> 28) + 4)) ^ seed) * 277803737u;
    return (v >> 22) ^ v;
}

static inline uint32_t below(uint32_t n)
{
    return next_random() % n;
}

static inline void fill(void *at, unsigned dtype, int64_t n)
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
        case KILN_I16:
        case KILN_U16: memcpy(p, &r, 2); break;
        case KILN_F16:
        case KILN_BF16: memcpy(p, &half, 2); break;
        case KILN_I32: memcpy(p, &whole, 4); break;
        case KILN_U32: memcpy(p, &r, 4); break;
        case KILN_I64:
        case KILN_U64: memcpy(p, &wide, 8); break;
        case KILN_F64: memcpy(p, &d, 8); break;
        default: memcpy(p, &f, 4);
        }
    }
}

static inline double value_at(const void *at, unsigned dtype, int64_t i)
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
    case KILN_U16: return half;
    case KILN_U32: memcpy(&i32, p, 4); return (uint32_t)i32;
    case KILN_U64: memcpy(&i64, p, 8); return (double)(uint64_t)i64;
    case KILN_F64: memcpy(&d, p, 8); return d;
    default: memcpy(&f, p, 4); return (double)f;
    }
}

// How far two values are apart, in units of the last place of the dtype at the larger of them and `scale`.
static inline double distance(double x, double y, unsigned dtype, double scale)
{
    if (x == y || (isnan(x) && isnan(y))) return 0;
    if (isnan(x) || isnan(y) || isinf(x) || isinf(y)) return INFINITY;
    int digits = dtype == KILN_F16 ? 10 : dtype == KILN_BF16 ? 7 : dtype == KILN_F64 ? 52 : 23;
    double size = fmax(fmax(fabs(x), fabs(y)), scale);
    int exponent;
    (void)frexp(size, &exponent);
    return fabs(x - y) / ldexp(1, exponent - 1 - digits);
}

static inline void assert_near(const void *got, const void *expected, unsigned dtype, int64_t n, double ulps,
                               double scale, const struct fused_kernel *k, int buffer)
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

static inline uint64_t size_of(const struct build *b, int i)
{
    return (uint64_t)b->elements[i] * dtype_size_B[b->dtypes[i]];
}

static inline void arrays_begin(const struct build *b, struct arrays *a)
{
    for (int i = 0; i < b->n_buffers; i++) {
        a->expected[i] = malloc(size_of(b, i) + BEHIND_B);
        fill(a->expected[i], b->dtypes[i], b->elements[i]);
        memset((uint8_t *)a->expected[i] + size_of(b, i), 0x5a, BEHIND_B);
        a->blocks[i] = block_new(size_of(b, i) + BEHIND_B, a->expected[i]);
    }
}

static inline void arrays_compare(const struct build *b, struct arrays *a, double ulps, double scale)
{
    for (int i = 0; i < b->n_buffers; i++) {
        uint8_t *got = malloc(size_of(b, i) + BEHIND_B);
        assert_ok(device_download(dev, got, a->blocks[i].address, size_of(b, i) + BEHIND_B));
        assert_near(got, a->expected[i], b->dtypes[i], b->elements[i], ulps, scale, &b->k, i);
        for (int at = 0; at < BEHIND_B; at++)
            if (got[size_of(b, i) + (size_t)at] != 0x5a)
                fail_msg("%s: byte %d behind buffer %d, of %lld elements, is not what it was", b->k.name, at, i,
                         (long long)b->elements[i]);
        free(got);
    }
}

static inline void arrays_end(const struct build *b, struct arrays *a)
{
    for (int i = 0; i < b->n_buffers; i++) {
        free(a->expected[i]);
        device_release(dev, &a->blocks[i]);
    }
}

// Compiles, runs and compares with the reference. All buffers are compared: what is not an output stays as it was.
static inline void check_within(struct build *b, double ulps, double scale)
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

static inline void check(struct build *b)
{
    check_within(b, 0, 0);
}

static inline int open_seeded(void **state)
{
    seed = 1;
    return open_device(state);
}

static inline void print_compile_times(void)
{
    if (!n_compiled) return;
    print_message("%d kernels, each: text %.2f ms, glslang %.2f ms, pipeline %.2f ms\n", n_compiled,
                  codegen_ms / n_compiled, glslang_ms / n_compiled, pipeline_ms / n_compiled);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_seeded, close_device)
