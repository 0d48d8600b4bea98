// DAG to GLSL and C: one statement a node. How a primitive is spelled stands in prim.def; here are literals, types and
// the substitution of arguments into a spelling.
#include "scalar/rare.h"
#include "base/dtype.h"
#include <ctype.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char c_prelude[] =
    "#include <stdbool.h>\n"
    "#include <stdint.h>\n"
#define HELPER(...) #__VA_ARGS__ "\n"
#include "scalar/prim_helper.def"
    "#ifdef __FMA__\n"
    "#define SCALAR_MAD(a, b, c, fused) fused(a, b, c)\n"
    "#define scalar_square_error_f32(a, b) __builtin_fmaf(a, a, -(b))\n"
    "#define scalar_square_error_f64(a, b) __builtin_fma(a, a, -(b))\n"
    "#else\n"
    "#define SCALAR_MAD(a, b, c, fused) (a) * (b) + (c)\n"
    "#endif\n"
    "static inline float scalar_mad_f32(float a, float b, float c) { return SCALAR_MAD(a, b, c, __builtin_fmaf); }\n"
    "static inline double scalar_mad_f64(double a, double b, double c)\n"
    "{\n"
    "    return SCALAR_MAD(a, b, c, __builtin_fma);\n"
    "}\n";

static const char glsl_prelude[] =
    "int scalar_umulhi(int a, int b)\n"
    "{\n"
    "    uint high, low;\n"
    "    umulExtended(uint(a), uint(b), high, low);\n"
    "    return int(high);\n"
    "}\n"
    // By words: of a choice by the same comparison drivers make one of their own, of more than twice the length.
    "int64_t scalar_choose(bool first, int64_t a, int64_t b)\n"
    "{\n"
    "    ivec2 x = unpackInt2x32(a), y = unpackInt2x32(b);\n"
    "    return packInt2x32(ivec2(first ? x.x : y.x, first ? x.y : y.y));\n"
    "}\n"
    "int64_t scalar_max(int64_t a, int64_t b) { return scalar_choose(a > b, a, b); }\n"
    "int64_t scalar_min(int64_t a, int64_t b) { return scalar_choose(a < b, a, b); }\n"
    "int scalar_div(int a, int b)\n"
    "{\n"
    "    int q = int(uint(max(a, -a)) / max(uint(max(b, -b)), 1u)), sign = (a ^ b) >> 31;\n"
    "    return b == 0 ? 0 : (q ^ sign) - sign;\n"
    "}\n"
    // High half of a product.
    "uint64_t scalar_high(uint64_t a, uint64_t b)\n"
    "{\n"
    "    uvec2 x = unpackUint2x32(a), y = unpackUint2x32(b);\n"
    "    uint carry = unpackUint2x32(uint64_t(x.x) * uint64_t(y.x)).y;\n"
    "    uvec2 middle = unpackUint2x32(uint64_t(x.y) * uint64_t(y.x) + uint64_t(carry));\n"
    "    carry = unpackUint2x32(uint64_t(x.x) * uint64_t(y.y) + uint64_t(middle.x)).y;\n"
    "    return uint64_t(x.y) * uint64_t(y.y) + uint64_t(middle.y) + uint64_t(carry);\n"
    "}\n"
    // Of 64 bits. The reciprocal begins as 2^64 (1 - 2^-20) / b in f32, which is below the true one by at most 2^-19 of
    // it and by 1 for what is cut off. A step of Newton squares the relative error, and cuts off less than 1 again.
    // After two, less than 2 is missing: so much may the quotient lack. Drivers go through 64 steps of a bit each.
    "int64_t scalar_div(int64_t a, int64_t b)\n"
    "{\n"
    "    int64_t sign_a = a >> 63, sign_b = b >> 63, sign = sign_a ^ sign_b;\n"
    "    uint64_t x = uint64_t((a ^ sign_a) - sign_a), y = uint64_t((b ^ sign_b) - sign_b);\n"
    "    uvec2 words = unpackUint2x32(y);\n"
    "    float first = 18446726481523507200.0 / (float(words.y) * 4294967296.0 + float(words.x));\n"
    "    float high = trunc(first * (1.0 / 4294967296.0));\n"
    "    uint64_t r = packUint2x32(uvec2(uint(first - high * 4294967296.0), uint(high)));\n"
    "    r += scalar_high(r, (0ul - y) * r);\n"
    "    r += scalar_high(r, (0ul - y) * r);\n"
    "    uint64_t q = scalar_high(x, r), rest = x - q * y;\n"
    "    bool more = rest >= y;\n"
    "    q = more ? q + 1ul : q;\n"
    "    rest = more ? rest - y : rest;\n"
    "    q = rest >= y ? q + 1ul : q;\n"
    "    return b == 0l ? 0l : (int64_t(q) ^ sign) - sign;\n"
    "}\n"
    "#ifdef USES_F64\n"
    // Above 2^52 all doubles are whole; below, a sum with it has no room for more.
    "double scalar_rint(double a)\n"
    "{\n"
    "    uvec2 words = unpackDouble2x32(a);\n"
    "    uint high = words.y & 0x7fffffffu;\n"
    "    double to_whole = packDouble2x32(uvec2(0u, high < 0x43300000u ? 0x43300000u : 0u));\n"
    "    precise double sum = packDouble2x32(uvec2(words.x, high)) + to_whole, whole = sum - to_whole;\n"
    "    uvec2 result = unpackDouble2x32(whole);\n"
    "    return packDouble2x32(uvec2(result.x, result.y | (words.y & 0x80000000u)));\n"
    "}\n"
    "#endif\n";

// The table of dtypes as GLSL has it: names, and sets as bits. Choices by dtype are constants of a pipeline.
#define SIZE_1(a, b, c, d) a
#define SIZE_2(a, b, c, d) b
#define SIZE_4(a, b, c, d) c
#define SIZE_8(a, b, c, d) d
#define IN(number)         " | 1u << " #number
static const char dtypes_glsl[] =
#define DTYPE(number, id, ...) "const uint DTYPE_" #id " = " #number ";\n"
#include "base/dtype.def"
#undef DTYPE
    "bool is_byte(const uint dtype) { const uint set = 0u"
#define DTYPE(number, id, name, size_B, ...) SIZE_##size_B(IN(number), "", "", "")
#include "base/dtype.def"
#undef DTYPE
    "; return (set >> dtype & 1u) != 0u; }\n"
    "bool is_half(const uint dtype) { const uint set = 0u"
#define DTYPE(number, id, name, size_B, ...) SIZE_##size_B("", IN(number), "", "")
#include "base/dtype.def"
#undef DTYPE
    "; return (set >> dtype & 1u) != 0u; }\n"
    "bool is_wide(const uint dtype) { const uint set = 0u"
#define DTYPE(number, id, name, size_B, ...) SIZE_##size_B("", "", "", IN(number))
#include "base/dtype.def"
#undef DTYPE
    "; return (set >> dtype & 1u) != 0u; }\n"
    "bool is_float(const uint dtype) { const uint set = 0u"
#define KIND_IN_BOOL(number)                       ""
#define KIND_IN_INT(number)                        ""
#define KIND_IN_FLOAT(number)                      IN(number)
#define DTYPE(number, id, name, size_B, kind, ...) KIND_IN_##kind(number)
#include "base/dtype.def"
#undef DTYPE
    "; return (set >> dtype & 1u) != 0u; }\n"
    "bool is_signed(const uint dtype) { const uint set = 0u"
#define DTYPE(number, id, name, size_B, kind, cls, form, is_signed, ...) SIGNED_##is_signed(number)
#define SIGNED_0(number)                                                 ""
#define SIGNED_1(number)                                                 IN(number)
#include "base/dtype.def"
#undef DTYPE
    "; return (set >> dtype & 1u) != 0u; }\n"
    "int integer_lowest(const uint dtype)\n"
    "{\n"
    "    return !is_signed(dtype) ? 0 : is_byte(dtype) ? -128 : is_half(dtype) ? -32768 : -2147483647 - 1;\n"
    "}\n"
    "int integer_highest(const uint dtype)\n"
    "{\n"
    "    int bits = is_byte(dtype) ? 8 : is_half(dtype) ? 16 : 32;\n"
    "    return int(0xffffffffu >> (32 - bits + (is_signed(dtype) ? 1 : 0)));\n"
    "}\n";
_Static_assert(DTYPE_COUNT <= 32, "a set of dtypes is a word");

const char *scalar_dtypes_glsl(void)
{
    return dtypes_glsl;
}

const char *scalar_prelude(enum scalar_target target)
{
    return target == TARGET_GLSL ? glsl_prelude : c_prelude;
}

const char *scalar_class_type(enum scalar_target target, enum scalar_class cls)
{
    static const char *const types[2][CLASS_COUNT] = {
        [TARGET_GLSL] = {"float", "double", "int", "int64_t", "bool"},
        [TARGET_C] = {"float", "double", "int32_t", "int64_t", "bool"},
    };
    return types[target][cls];
}

// A finite float in decimal with enough digits to give back its bits, with a point whatever the locale.
static void add_decimal(struct str *s, double v, int digits, const char *suffix)
{
    char text[40];
    snprintf(text, sizeof text - 2, "%.*g", digits, v);
    bool has_point = false;
    for (char *p = text; *p; p++) {
        if (!isalnum((unsigned char)*p) && *p != '-' && *p != '+') *p = '.';
        has_point = has_point || *p == '.' || *p == 'e';
    }
    if (!has_point) strcat(text, ".0");
    str_addf(s, signbit(v) ? "(%s%s)" : "%s%s", text, suffix);
}

// GLSL has no literal for infinity and NaN, and a compiler may read a denormal one as 0: all three are given by bits.
static void add_float(struct str *s, enum scalar_target target, union scalar_value v)
{
    bool plain = v.f32 == 0 || (isfinite(v.f32) && fabsf(v.f32) >= FLT_MIN);
    if (plain) {
        add_decimal(s, (double)v.f32, 9, target == TARGET_C ? "f" : "");
    } else if (target == TARGET_C) {
        str_addf(s, "scalar_from_bits_f32((int32_t)0x%08" PRIx32 "u)", (uint32_t)v.i32);
    } else {
        str_addf(s, "intBitsToFloat(int(0x%08" PRIx32 "u))", (uint32_t)v.i32);
    }
}

static void add_double(struct str *s, enum scalar_target target, union scalar_value v)
{
    bool plain = v.f64 == 0 || (isfinite(v.f64) && fabs(v.f64) >= DBL_MIN);
    if (plain) {
        add_decimal(s, v.f64, 17, target == TARGET_C ? "" : "lf");
    } else if (target == TARGET_C) {
        str_addf(s, "scalar_from_bits_f64((int64_t)UINT64_C(0x%016" PRIx64 "))", (uint64_t)v.i64);
    } else {
        str_addf(s, "int64BitsToDouble(int64_t(0x%016" PRIx64 "UL))", (uint64_t)v.i64);
    }
}

static void add_literal(struct str *s, enum scalar_target target, const struct scalar_node *n)
{
    bool glsl = target == TARGET_GLSL;
    union scalar_value v = n->value;
    switch (n->cls) {
    case CLASS_F32: add_float(s, target, v); break;
    case CLASS_F64: add_double(s, target, v); break;
    case CLASS_I32:
        if (v.i32 == INT32_MIN)
            str_add(s, "(-2147483647 - 1)");
        else
            str_addf(s, v.i32 < 0 ? "(%" PRId32 ")" : "%" PRId32, v.i32);
        break;
    case CLASS_I64:
        if (v.i64 == INT64_MIN)
            str_add(s, glsl ? "(-9223372036854775807L - 1L)" : "INT64_MIN");
        else
            str_addf(s, v.i64 < 0 ? "(%" PRId64 "%s)" : "%" PRId64 "%s", v.i64, glsl ? "L" : "LL");
        break;
    default: str_add(s, v.b ? "true" : "false"); break;
    }
}

void scalar_emit_ref(struct str *s, enum scalar_target target, const struct scalar_dag *d, int node)
{
    if (d->nodes[node].kind == SCALAR_CONST)
        add_literal(s, target, &d->nodes[node]);
    else
        str_addf(s, "t%d", node);
}

static bool is_in_scope(const struct scalar_emit *e, int i)
{
    return e->skip && e->skip[i];
}

static void add_ref(struct str *s, const struct scalar_dag *d, const struct scalar_emit *e, int node)
{
    if (e->name && d->nodes[node].kind != SCALAR_CONST && !is_in_scope(e, node))
        str_addf(s, "%c%d", e->name, node);
    else
        scalar_emit_ref(s, e->target, d, node);
}

// Copies a spelling, with the identifiers a, b, c replaced by the arguments of node n.
static void add_spelling(struct str *s, const struct scalar_dag *d, const struct scalar_emit *e,
                         const struct scalar_node *n, const char *text)
{
    while (*text) {
        size_t length = 1;
        if (isalnum((unsigned char)*text) || *text == '_')
            while (isalnum((unsigned char)text[length]) || text[length] == '_') length++;
        if (length == 1 && *text >= 'a' && *text <= 'c')
            add_ref(s, d, e, n->arg[*text - 'a']);
        else
            str_addn(s, text, length);
        text += length;
    }
}

static void add_value(struct str *s, const struct scalar_dag *d, const struct scalar_emit *e, int i)
{
    const struct scalar_node *n = &d->nodes[i];
    if (n->kind == SCALAR_CONST) {
        add_literal(s, e->target, n);
    } else if (n->kind == SCALAR_PRIM && n->code == PRIM_rare && e->usual) {
        add_ref(s, d, e, n->arg[2]);
    } else if (n->kind == SCALAR_PRIM && n->n_args) {
        enum scalar_class key = d->nodes[n->arg[prim_key_arg(n->code)]].cls;
        const struct scalar_node *count = n->n_args == 2 ? &d->nodes[n->arg[1]] : NULL;
        add_spelling(s, d, e, n, e->text ? e->text(n->code) : prim_text(n->code, key, e->target, count));
    } else {
        e->leaf(s, d, i, e->user);
    }
}

static void add_declaration(struct str *s, const struct scalar_dag *d, const struct scalar_emit *e, int i)
{
    enum scalar_class cls = d->nodes[i].cls;
    bool precise = e->target == TARGET_GLSL && (cls == CLASS_F32 || cls == CLASS_F64);
    str_addf(s, "%s%s%s %c%d = ", e->indent ? e->indent : "", precise ? "precise " : "",
             e->type ? e->type : scalar_class_type(e->target, cls), e->name ? e->name : 't', i);
}

static void add_statement(struct str *s, const struct scalar_dag *d, const struct scalar_emit *e, int i)
{
    add_declaration(s, d, e, i);
    add_value(s, d, e, i);
    str_add(s, ";\n");
}

// --- rare cases

// Marks what node i stands on of what waits.
static void mark_waiting(const struct scalar_dag *d, int i, const uint8_t *waits, uint8_t *mark)
{
    memset(mark, 0, (size_t)d->n_nodes);
    mark[i] = 1;
    for (; i >= 0; i--)
        for (int k = 0; mark[i] && k < d->nodes[i].n_args; k++)
            if (waits[d->nodes[i].arg[k]]) mark[d->nodes[i].arg[k]] = 1;
}

// The usual value, and a block that replaces it.
static void add_rare(struct str *s, const struct scalar_dag *d, const struct scalar_emit *e, int i, uint8_t *mark)
{
    const struct scalar_node *n = &d->nodes[i];
    const char *indent = e->indent ? e->indent : "";
    add_declaration(s, d, e, i);
    add_ref(s, d, e, n->arg[2]);
    str_addf(s, ";\n%sif (", indent);
    add_ref(s, d, e, n->arg[0]);
    str_add(s, ") {\n");
    mark_waiting(d, n->arg[1], e->within, mark);
    for (int k = 0; k <= n->arg[1]; k++)
        if (mark[k] && !is_in_scope(e, k)) add_statement(s, d, e, k);
    str_addf(s, "%st%d = ", indent, i);
    add_ref(s, d, e, n->arg[1]);
    str_addf(s, ";\n%s}\n", indent);
}

static void find_waiting(const struct scalar_dag *d, const struct scalar_emit *e, const uint8_t *want)
{
    for (int i = 0; i < d->n_nodes; i++)
        e->within[i] = want[i] && i != d->root && !is_in_scope(e, i) && !(e->read && e->read[i]);
    scalar_find_waiting(d, NULL, e->within);
}

static bool waits_for(const struct scalar_dag *d, const struct scalar_emit *e, int i)
{
    const struct scalar_node *n = &d->nodes[i];
    return n->kind == SCALAR_PRIM && n->code == PRIM_rare && e->within && e->within[n->arg[1]];
}

// Marks what the root needs: not beyond what is in scope, nor beyond a reduction, whose result the caller spells.
static void mark_needed(const struct scalar_dag *d, const struct scalar_emit *e, uint8_t *needed)
{
    needed[d->root] = 1;
    for (int i = d->root; i >= 0; i--) {
        const struct scalar_node *n = &d->nodes[i];
        if (!needed[i] || n->kind == SCALAR_REDUCE || (e->skip && e->skip[i])) continue;
        for (int k = 0; k < n->n_args; k++) needed[n->arg[k]] = 1;
    }
}

void scalar_emit(struct str *s, const struct scalar_dag *d, const struct scalar_emit *e)
{
    uint8_t *marks = calloc((size_t)d->n_nodes, 2);
    if (!marks) {
        s->failed = true;
        return;
    }
    if (!e->want) mark_needed(d, e, marks);
    const uint8_t *want = e->want ? e->want : marks;
    if (e->within) find_waiting(d, e, want);
    for (int i = 0; i < d->n_nodes; i++) {
        // Constants stand in the expressions that use them; only a constant root needs a name.
        bool named = d->nodes[i].kind != SCALAR_CONST || i == d->root;
        if (!want[i] || !named || is_in_scope(e, i) || (e->within && e->within[i])) continue;
        if (waits_for(d, e, i))
            add_rare(s, d, e, i, marks + d->n_nodes);
        else
            add_statement(s, d, e, i);
    }
    free(marks);
}
