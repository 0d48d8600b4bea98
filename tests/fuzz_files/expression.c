// Texts of the scalar language: what parses is expanded, computed in two ways, differentiated and emitted; then the
// text as an op that a user registers.
#include "fuzz_file.h"

#include "scalar/scalar.h"

enum { PARAMS = 3, POINTS = 5, REGISTERED_MAX = 200 };

static bool has_reduction(const struct scalar_dag *d)
{
    for (int i = 0; i < d->n_nodes; i++)
        if (d->nodes[i].kind == SCALAR_REDUCE) return true;
    return false;
}

static union scalar_value point(enum scalar_class cls, int i)
{
    static const double numbers[] = {0.75, -1, 2, -0.0, 1e30};
    static const int64_t integers[] = {1, -1, 7, 0, INT64_MIN};
    union scalar_value v = {.bits = 0};
    switch (cls) {
    case CLASS_F32: v.f32 = (float)numbers[i % 5]; break;
    case CLASS_F64: v.f64 = numbers[i % 5]; break;
    case CLASS_I32: v.i32 = (int32_t)(integers[i % 5] >> (i % 5 == 4 ? 32 : 0)); break;
    case CLASS_I64: v.i64 = integers[i % 5]; break;
    default: v.b = (uint8_t)(i & 1); break;
    }
    return v;
}

static size_t class_B(enum scalar_class cls)
{
    return cls == CLASS_BOOL ? 1 : cls == CLASS_F32 || cls == CLASS_I32 ? 4 : 8;
}

static bool same_value(enum scalar_class cls, const void *a, const union scalar_value *b)
{
    double d;
    float f;
    if (cls == CLASS_F32 && (memcpy(&f, a, sizeof f), f != f)) return b->f32 != b->f32;
    if (cls == CLASS_F64 && (memcpy(&d, a, sizeof d), d != d)) return b->f64 != b->f64;
    return !memcmp(a, b, class_B(cls));
}

static void compute(const struct scalar_dag *d, const struct scalar_dag *expanded, enum scalar_class cls)
{
    union scalar_value in[PARAMS], one[POINTS];
    uint64_t columns[PARAMS][POINTS], out[POINTS];
    const void *arrays[PARAMS];
    for (int k = 0; k < POINTS; k++) {
        for (int i = 0; i < PARAMS; i++) {
            in[i] = point(cls, k + 2 * i);
            memcpy((char *)columns[i] + (size_t)k * class_B(cls), &in[i], class_B(cls));
        }
        one[k] = scalar_eval(d, in);
    }
    for (int i = 0; i < PARAMS; i++) arrays[i] = columns[i];
    void *scratch = aligned_alloc(64, (scalar_block_scratch_B(expanded) + 127) / 64 * 64);
    NEED(scratch != NULL);
    scalar_eval_block(expanded, arrays, out, POINTS, scratch);
    free(scratch);
    enum scalar_class result = d->nodes[d->root].cls;
    for (int k = 0; k < POINTS; k++) NEED(same_value(result, (char *)out + (size_t)k * class_B(result), &one[k]));
}

static void leaf(struct str *s, const struct scalar_dag *d, int node, void *user)
{
    (void)user;
    str_addf(s, "leaf%d", d->nodes[node].code);
}

static void emit(const struct scalar_dag *d)
{
    for (int target = TARGET_GLSL; target <= TARGET_C; target++) {
        struct str s;
        str_init(&s);
        scalar_emit(&s, d, &(struct scalar_emit){.target = (enum scalar_target)target, .indent = "", .leaf = leaf});
        NEED(!str_check(&s));
        str_free(&s);
    }
}

// Whether the text is an expression of that class.
static bool try_class(const char *text, enum scalar_class cls)
{
    struct arena a;
    struct scalar_dag d = {0}, expanded = {0}, derivative = {0};
    struct scalar_param params[] = {{"a", cls}, {"b", cls}, {"c", cls}};
    arena_init(&a);
    bool good = !scalar_parse(&a, text, params, PARAMS, cls, &d);
    if (good) {
        bool expands = !scalar_expand(&a, &d, &expanded);
        if (!expands) FUZZ_REFUSED(KILN_E_UNSUPPORTED, KILN_E_ARGUMENT);
        if (expands) emit(&expanded);
        if (expands && !has_reduction(&expanded)) compute(&d, &expanded, cls);
        if (scalar_diff(&a, &d, 0, PARAMS, &derivative)) FUZZ_REFUSED(KILN_E_UNSUPPORTED, KILN_E_ARGUMENT);
    } else {
        FUZZ_REFUSED(KILN_E_ARGUMENT, KILN_E_UNSUPPORTED);
    }
    arena_finish(&a);
    return good;
}

// Ops stay registered, so that only some are; what is refused is gone.
static void register_op(const char *text, bool is_f32)
{
    static int registered;
    if (registered == REGISTERED_MAX && is_f32) return;
    char name[32];
    snprintf(name, sizeof name, "fuzz_%d", registered);
    if (kiln_register_op(KILN_OP(.name = name, .n_in = PARAMS, .expr = text, .grad = {text}))) {
        FUZZ_REFUSED(KILN_E_ARGUMENT, KILN_E_UNSUPPORTED);
        return;
    }
    NEED(is_f32);
    registered++;
    kiln_tensor *in[PARAMS];
    for (int i = 0; i < PARAMS; i++) in[i] = kiln_full(NULL, KILN_F32, KILN_SHAPE(3), 0.5 + i);
    kiln_tensor *out = kiln_apply(name, in, PARAMS);
    NEED(out && kiln_numel(out) == 3);
    (void)kiln_item(kiln_max(kiln_cast(out, KILN_F32), NULL));
    NEED(!kiln_error());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    char *text = malloc(size_B + 1);
    NEED(text != NULL);
    memcpy(text, data, size_B);
    text[size_B] = 0;
    fuzz_begin();
    bool is_f32 = try_class(text, CLASS_F32);
    for (int cls = CLASS_F64; cls < CLASS_COUNT; cls++) try_class(text, (enum scalar_class)cls);
    register_op(text, is_f32);
    fuzz_end();
    free(text);
    return 0;
}
