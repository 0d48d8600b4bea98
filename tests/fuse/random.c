// Random functions of elementwise ops, views and reductions of every kind, over all axes or some, of values that some
// axes of the space do not have, some of them written back over an input: fused, they must give what eager mode
// computes in f64. The number of a function that fails is printed with its steps.
#include "fuse_fixture.h"

enum { N_IN = 5, STEPS = 11, POOL = N_IN + STEPS, N_OUT = 4, MOST = 60 };

// A value and what bounds it: where products could grow, a step is a tanh instead.
struct value {
    kiln_tensor *t;
    double bound;
    bool exact; // the same in f32 and f64, so that argmax has one answer
};

struct machine {
    uint64_t random;
    struct value pool[POOL];
    int n;
    int64_t base[3];
};

static uint32_t below(struct machine *m, uint32_t n)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->random >> 33) % n;
}

static bool broadcasts(const kiln_tensor *a, const kiln_tensor *b, size_t *rank, int64_t *dims)
{
    size_t ra = kiln_rank(a), rb = kiln_rank(b);
    *rank = ra > rb ? ra : rb;
    for (size_t i = 0; i < *rank; i++) {
        int64_t x = i + ra >= *rank ? kiln_dims(a)[i + ra - *rank] : 1;
        int64_t y = i + rb >= *rank ? kiln_dims(b)[i + rb - *rank] : 1;
        if (x != y && x != 1 && y != 1) return false;
        dims[i] = x > y ? x : y;
    }
    return true;
}

static struct value some(struct machine *m)
{
    return m->pool[below(m, 3) ? below(m, (uint32_t)m->n) : (uint32_t)m->n - 1];
}

static struct value unary(struct machine *m, struct value a)
{
    uint32_t which = below(m, 4);
    if (which == 2 && a.bound >= 4) which = 3;
    switch (which) {
    case 0: return (struct value){kiln_neg(a.t), a.bound, a.exact};
    case 1: return (struct value){kiln_relu(a.t), a.bound, a.exact};
    case 2: return (struct value){kiln_square(a.t), a.bound * a.bound, false};
    default: return (struct value){kiln_tanh(a.t), 1, false};
    }
}

static struct value binary(struct machine *m, struct value a, struct value b)
{
    size_t rank;
    int64_t dims[KILN_MAX_RANK];
    if (!broadcasts(a.t, b.t, &rank, dims)) return unary(m, a);
    switch (below(m, 4)) {
    case 0: return (struct value){kiln_add(a.t, b.t), a.bound + b.bound, a.exact && b.exact};
    case 1: return (struct value){kiln_sub(a.t, b.t), a.bound + b.bound, a.exact && b.exact};
    case 2: return (struct value){kiln_maximum(a.t, b.t), fmax(a.bound, b.bound), a.exact && b.exact};
    default:
        if (a.bound * b.bound > MOST) return (struct value){kiln_tanh(kiln_sub(a.t, b.t)), 1, false};
        return (struct value){kiln_mul(a.t, b.t), a.bound * b.bound, false};
    }
}

static struct value wider(struct machine *m, struct value a, kiln_dtype dtype)
{
    size_t rank;
    int64_t dims[KILN_MAX_RANK], some[3];
    for (int i = 0; i < 3; i++) some[i] = below(m, 3) ? m->base[i] : 1;
    kiln_tensor *shape = kiln_full(dev, dtype, 3, some, 0.5);
    if (!below(m, 3)) return (struct value){shape, 0.5, true};
    if (!broadcasts(a.t, shape, &rank, dims)) return unary(m, a);
    return (struct value){kiln_expand(a.t, rank, dims), a.bound, a.exact};
}

static struct value view(struct machine *m, struct value a)
{
    int64_t rank = (int64_t)kiln_rank(a.t), axis = rank ? (int64_t)below(m, (uint32_t)rank) : 0;
    if (rank < 2) return a;
    switch (below(m, 4)) {
    case 0: return (struct value){kiln_transpose(a.t, axis, rank - 1), a.bound, a.exact};
    case 1: return (struct value){kiln_flip(a.t, (kiln_ints){1, &axis}), a.bound, a.exact};
    case 2: return (struct value){kiln_repeat_interleave(a.t, 2, axis), a.bound, a.exact};
    default: {
        int64_t dims[KILN_MAX_RANK], n = 0;
        for (int64_t i = 0; i < rank; i++)
            if (i != 0) dims[n++] = kiln_dims(a.t)[i];
        dims[0] *= kiln_dims(a.t)[0];
        return (struct value){kiln_reshape(a.t, (size_t)n, dims), a.bound, a.exact};
    }
    }
}

static double count(const kiln_tensor *t, const kiln_reduce_opts *o)
{
    double n = 1;
    for (size_t i = 0; i < o->axes.count; i++) n *= (double)kiln_dims(t)[o->axes.v[i]];
    return o->axes.count ? n : (double)kiln_numel(t);
}

static struct value folded(struct machine *m, struct value a, const kiln_reduce_opts *o, kiln_dtype dtype)
{
    double n = count(a.t, o);
    kiln_tensor *above = kiln_greater(a.t, kiln_scalar(0.37));
    switch (below(m, 11)) {
    case 0:
    case 1: return (struct value){kiln_mean(a.t, o), a.bound, false};
    case 2: return (struct value){kiln_max(a.t, o), a.bound, a.exact};
    case 3: return (struct value){kiln_min(a.t, o), a.bound, a.exact};
    case 4: return (struct value){kiln_cast(kiln_any(above, o), dtype), 1, a.exact};
    case 5: return (struct value){kiln_cast(kiln_all(above, o), dtype), 1, a.exact};
    case 6:
        if (n > 64) break;
        return (struct value){kiln_prod(kiln_add(kiln_tanh(a.t), kiln_scalar(0.6)), o), pow(1.6, n), false};
    case 7: return (struct value){kiln_logsumexp(kiln_tanh(a.t), o), 1 + log(n), false};
    case 8:
        if (!a.exact || o->axes.count != 1) break;
        return (struct value){kiln_cast(kiln_argmax(a.t, o), dtype), n, true};
    default: break;
    }
    return (struct value){kiln_sum(a.t, o), a.bound * n, a.exact};
}

static struct value reduced(struct machine *m, struct value a, kiln_dtype dtype)
{
    int64_t axes[KILN_MAX_RANK], rank = (int64_t)kiln_rank(a.t);
    kiln_reduce_opts o = {.size = sizeof o, .keepdims = below(m, 3) != 0};
    size_t n = 0;
    for (int64_t i = 0; i < rank; i++)
        if (below(m, 2)) axes[n++] = i;
    if (below(m, 3) && n) o.axes.count = n, o.axes.v = axes;
    return folded(m, a, &o, dtype);
}

static struct value step(struct machine *m, kiln_dtype dtype)
{
    struct value a = some(m), v;
    switch (below(m, 8)) {
    case 0: v = unary(m, a); break;
    case 1:
    case 2: v = binary(m, a, some(m)); break;
    case 3: v = wider(m, a, dtype); break;
    case 4: v = view(m, a); break;
    default: v = reduced(m, a, dtype); break;
    }
    if (v.bound > MOST) v = (struct value){kiln_tanh(kiln_mul(v.t, kiln_scalar(1.0 / v.bound))), 1, false};
    return v;
}

static bool same_shape(const kiln_tensor *a, const kiln_tensor *b)
{
    return kiln_rank(a) == kiln_rank(b) && !memcmp(kiln_dims(a), kiln_dims(b), kiln_rank(a) * sizeof(int64_t));
}

// What becomes of the inputs: NULL, or a new value.
static void choose_writes(struct machine *m, bool apart, kiln_tensor **writes)
{
    bool any = false;
    for (int k = 0; k < N_IN; k++) {
        writes[k] = NULL;
        if (below(m, 3) || (any && !apart)) continue;
        for (int i = m->n - 1; i >= N_IN && !writes[k]; i--)
            if (same_shape(m->pool[i].t, m->pool[k].t)) writes[k] = kiln_mul(m->pool[i].t, kiln_scalar(0.5));
        any = any || writes[k];
    }
}

// The function of a number; inputs and the dtype decide what it computes in.
static void function(uint64_t number, bool apart, kiln_tensor *const *in, kiln_tensor **out, kiln_tensor **writes)
{
    struct machine m = {.random = number * 0x9E3779B97F4A7C15u, .n = N_IN};
    kiln_dtype dtype = kiln_tensor_dtype(in[0]);
    for (int i = 0; i < N_IN; i++) m.pool[i] = (struct value){in[i], 1, true};
    for (int i = 0; i < 3; i++) m.base[i] = kiln_dims(in[0])[i];
    while (m.n < POOL) {
        m.pool[m.n] = step(&m, dtype);
        m.n++;
    }
    for (int i = 0; i < N_OUT; i++) { // totals beside rows and elements
        struct value v = m.pool[POOL - 1 - 2 * i];
        const kiln_reduce_opts all = {.size = sizeof all};
        if (below(&m, 2)) v = folded(&m, v, &all, dtype);
        out[i] = kiln_add(v.t, kiln_scalar(0.25));
    }
    choose_writes(&m, apart, writes);
}

// Of the shape [a, b, c], and of shapes that lack some of it. Now and then one size is large: several threads, or
// workgroups, share the work. Inputs that are not apart lie over each other in one storage.
static void inputs(uint64_t number, bool apart, kiln_tensor **in)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7};
    static const uint8_t has[N_IN] = {7, 1, 2, 4, 6};
    struct machine m = {.random = number};
    int64_t base[3], dims[3];
    static float data[7 * 7 * 5000 + N_IN];
    for (int i = 0; i < 3; i++) base[i] = sizes[below(&m, COUNT_OF(sizes))];
    if (number % 16 == 7) base[number / 16 % 3] = number / 48 % 2 ? 700 : 5000;
    int64_t most = base[0] * base[1] * base[2] + N_IN;
    kiln_tensor *line = NULL;
    for (int k = 0; k < N_IN; k++) {
        int64_t n = 1;
        for (int i = 0; i < 3; i++) n *= dims[i] = has[k] >> i & 1 ? base[i] : 1;
        for (int64_t i = 0; i < most && !(line && !apart); i++) data[i] = (float)((int)below(&m, 17) - 8) / 8;
        if (!line || apart) line = kiln_from_data(dev, KILN_F32, 1, &most, data);
        in[k] = kiln_reshape(kiln_narrow(line, 0, apart ? 0 : below(&m, N_IN), n), 3, dims);
    }
}

static struct kiln_graph *record(uint64_t number, bool apart, kiln_tensor *const *in)
{
    struct kiln_graph *g = ir_graph_create();
    struct graph_sink sink;
    graph_sink_init(&sink, g);
    kiln_tensor *abstract[N_IN], *out[N_OUT], *writes[N_IN];
    for (int i = 0; i < N_IN; i++)
        abstract[i] = graph_tensor(&sink.builder, &in[i]->type, ir_add_input(g, &in[i]->type, "x"));
    thread_state.sink = &sink.base;
    function(number, apart, abstract, out, writes);
    thread_state.sink = NULL;
    if (kiln_error()) fail_msg("function %llu: %s", (unsigned long long)number, kiln_error_message());
    for (int i = 0; i < N_OUT; i++) assert_int_equal(ir_add_output(g, out[i]->value, "y"), 0);
    for (int i = 0; i < N_IN; i++)
        if (writes[i]) assert_int_equal(ir_add_write(g, writes[i]->value, abstract[i]->value, "x"), 0);
    return g;
}

static double difference(kiln_tensor *got, kiln_tensor *want)
{
    int64_t n = type_numel(&want->type);
    double worst = 0, *p = malloc(sizeof *p * (size_t)(2 * n + 1));
    if (!type_same_shape(&got->type, &want->type)) return INFINITY;
    assert_int_equal(kiln_read(kiln_cast(got, KILN_F64), p, sizeof *p * (size_t)n), 0);
    assert_int_equal(kiln_read(want, p + n, sizeof *p * (size_t)n), 0);
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(p[i] - p[n + i]) / (1 + fabs(p[n + i]));
        if (!(d <= worst)) worst = d;
    }
    free(p);
    return worst;
}

static void tell(const struct kiln_graph *g, const struct program *p)
{
    struct str s;
    str_init(&s);
    ir_graph_text(g, &s);
    program_explain(p, &s);
    print_message("%s\n", str_text(&s));
    str_free(&s);
}

static void check(uint64_t number, bool reference)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[N_IN], *wide[N_IN], *want[N_OUT + N_IN], *got[N_OUT + N_IN];
    const struct layout *layouts[N_IN];
    int32_t aliases[N_IN];
    bool apart = number % 4 != 2;
    inputs(number, apart, in);
    for (int i = 0; i < N_IN; i++) {
        wide[i] = kiln_cast(in[i], KILN_F64);
        layouts[i] = &in[i]->layout;
        aliases[i] = i;
    }
    function(number, apart, wide, want, want + N_OUT);
    struct kiln_graph *g = record(number, apart, in);
    struct program *p;
    struct program_options o = {.reference = reference, .name = "random", .aliases = apart ? aliases : NULL};
    if (program_create(g, dev, layouts, &o, &p) || program_run(p, in, NULL, got))
        fail_msg("function %llu: %s", (unsigned long long)number, kiln_error_message());
    memcpy(got + N_OUT, in, sizeof in);
    for (int i = 0; i < N_OUT + N_IN; i++) {
        double d = want[i] ? difference(got[i], want[i]) : 0;
        if (d < 1e-4) continue;
        tell(g, p);
        fail_msg("function %llu: %s %d differs by %g", (unsigned long long)number, i < N_OUT ? "result" : "input",
                 i < N_OUT ? i : i - N_OUT, d);
    }
    program_destroy(&p);
    ir_graph_destroy(&g);
    kiln_scope_end(&scope);
}

// The first ones, and some more in which totals count rows often, or inputs lie over each other.
static void check_some(uint64_t n, bool reference)
{
    static const uint64_t more[] = {125, 650, 842, 1120, 1358, 2085, 2401};
    for (size_t i = 0; i < COUNT_OF(more); i++) check(more[i], reference);
    for (uint64_t i = 0; i < n; i++) check(i, reference);
}

static void interpreted(void **unused)
{
    dev = cpu;
    check_some(900, true);
}

static void compiled(void **unused)
{
    dev = cpu;
    check_some(60, false);
}

static void compiled_for_vulkan(void **unused)
{
    use_vulkan();
    check_some(30, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interpreted),
        cmocka_unit_test(compiled),
        cmocka_unit_test(compiled_for_vulkan),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
