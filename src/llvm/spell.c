// From the text of a primitive (column llvm of prim.def) to instructions.
//
// Grammar: expr := name | number | opcode ['.' suffix] '(' expr {',' expr} ')'. Names are a, b, c. Recursive descent,
// one instruction a call. A number waits until its neighbours are known, whose type it takes; where there are only
// numbers it has the type of the result. Ends because every step consumes text; texts are fixed at build time, so that
// a mistake in one is a mistake of ours and is reported as such.
#include "llvm/emit.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct speller {
    struct emitter *e;
    const char *at;
    const LLVMValueRef *arg;
    enum scalar_class result;
    int width;
};

struct spelled {
    LLVMValueRef v; // NULL: a number
    const char *number;
};

struct named_code {
    const char *name;
    int code;
};

static const struct named_code binaries[] = {
    {"fadd", LLVMFAdd}, {"fsub", LLVMFSub}, {"fmul", LLVMFMul}, {"fdiv", LLVMFDiv}, {"add", LLVMAdd},
    {"sub", LLVMSub},   {"mul", LLVMMul},   {"sdiv", LLVMSDiv}, {"and", LLVMAnd},   {"or", LLVMOr},
    {"xor", LLVMXor},   {"shl", LLVMShl},   {"ashr", LLVMAShr}, {"lshr", LLVMLShr},
};
static const struct named_code casts[] = {
    {"fptrunc", LLVMFPTrunc}, {"fpext", LLVMFPExt},   {"sitofp", LLVMSIToFP},
    {"uitofp", LLVMUIToFP},   {"fptosi", LLVMFPToSI}, {"bitcast", LLVMBitCast},
    {"zext", LLVMZExt},       {"sext", LLVMSExt},     {"trunc", LLVMTrunc},
};
static const struct named_code int_predicates[] = {
    {"eq", LLVMIntEQ},   {"ne", LLVMIntNE},   {"slt", LLVMIntSLT}, {"sle", LLVMIntSLE},
    {"sgt", LLVMIntSGT}, {"sge", LLVMIntSGE}, {"ult", LLVMIntULT},
};
static const struct named_code float_predicates[] = {
    {"oeq", LLVMRealOEQ}, {"une", LLVMRealUNE}, {"olt", LLVMRealOLT}, {"ole", LLVMRealOLE}, {"ogt", LLVMRealOGT},
    {"oge", LLVMRealOGE}, {"uno", LLVMRealUNO}, {"ult", LLVMRealULT}, {"ugt", LLVMRealUGT},
};

static int code_of(const struct named_code *table, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(table[i].name, name)) return table[i].code;
    return -1;
}
#define CODE_OF(table, name) code_of(table, COUNT_OF(table), name)

static LLVMTypeRef type_named(struct speller *s, const char *name)
{
    static const char *const names[] = {"f32", "f64", "i32", "i64"};
    for (int i = 0; i < (int)COUNT_OF(names); i++)
        if (!strcmp(names[i], name)) return emit_class_type(s->e, (enum scalar_class)i, s->width);
    return NULL;
}

static LLVMValueRef number_of(struct speller *s, const char *text, LLVMTypeRef type)
{
    LLVMTypeRef element = s->width == 1 ? type : LLVMGetElementType(type);
    bool whole = LLVMGetTypeKind(element) == LLVMIntegerTypeKind;
    LLVMValueRef v = whole ? LLVMConstInt(element, strtoull(text, NULL, 10), true)
                           : LLVMConstReal(element, *text == 'i' ? INFINITY : strtod(text, NULL));
    return emit_splat_const(v, s->width);
}

static LLVMValueRef mad(struct emitter *e, LLVMValueRef v[3])
{
    LLVMTypeRef type = LLVMTypeOf(v[0]);
    if (e->has_fma) return emit_call(e, "llvm.fma", &type, 1, v, 3);
    return LLVMBuildFAdd(e->b, LLVMBuildFMul(e->b, v[0], v[1], ""), v[2], "");
}

static LLVMValueRef lanes_of(struct emitter *e, LLVMValueRef a, LLVMValueRef b, int from, int n)
{
    LLVMValueRef lanes[64];
    for (int i = 0; i < n; i++) lanes[i] = LLVMConstInt(e->i32, (unsigned long long)(from + i), false);
    return LLVMBuildShuffleVector(e->b, a, b ? b : LLVMGetUndef(LLVMTypeOf(a)), LLVMConstVector(lanes, (unsigned)n),
                                  "");
}

// v * 2^n of vectors that fill registers of AVX-512: by halves, until they fill one.
static LLVMValueRef scaled(struct emitter *e, LLVMValueRef v, LLVMValueRef n, bool is_f32, int width)
{
    enum { CURRENT_ROUNDING = 4 };
    if (width == (is_f32 ? 16 : 8)) {
        LLVMValueRef args[] = {v, n, LLVMConstNull(LLVMTypeOf(v)), LLVMConstAllOnes(is_f32 ? e->i16 : e->i8),
                               LLVMConstInt(e->i32, CURRENT_ROUNDING, false)};
        return emit_call(e, is_f32 ? "llvm.x86.avx512.mask.scalef.ps.512" : "llvm.x86.avx512.mask.scalef.pd.512", NULL,
                         0, args, 5);
    }
    LLVMValueRef half[2];
    for (int i = 0; i < 2; i++)
        half[i] = scaled(e, lanes_of(e, v, NULL, i * width / 2, width / 2),
                         lanes_of(e, n, NULL, i * width / 2, width / 2), is_f32, width / 2);
    return lanes_of(e, half[0], half[1], 0, width);
}

// a * 2^n with b = n + 1.5 * 2^23 (2^52), 0 where n < -150 (-1075): by an instruction where there is one, else the
// third argument.
static LLVMValueRef scale(struct speller *s, LLVMValueRef v[3])
{
    struct emitter *e = s->e;
    bool is_f32 = s->result == CLASS_F32;
    if (!e->has_avx512 || s->width < (is_f32 ? 16 : 8)) return v[2];
    const char *const magic = is_f32 ? "12582912" : "6755399441055744";
    const char *const least = is_f32 ? "12582762" : "6755399441054669";
    LLVMTypeRef type = LLVMTypeOf(v[0]);
    LLVMValueRef n = LLVMBuildFSub(e->b, v[1], number_of(s, magic, type), "");
    LLVMValueRef vanishes = LLVMBuildFCmp(e->b, LLVMRealOLT, v[1], number_of(s, least, type), "");
    return LLVMBuildSelect(e->b, vanishes, LLVMConstNull(type), scaled(e, v[0], n, is_f32, s->width), "");
}

static LLVMValueRef build(struct speller *s, const char *name, const char *suffix, LLVMValueRef v[3])
{
    LLVMBuilderRef b = s->e->b;
    int binary = CODE_OF(binaries, name), cast = CODE_OF(casts, name);
    if (binary >= 0) return LLVMBuildBinOp(b, (LLVMOpcode)binary, v[0], v[1], "");
    if (cast >= 0 && type_named(s, suffix)) return LLVMBuildCast(b, (LLVMOpcode)cast, v[0], type_named(s, suffix), "");
    if (!strcmp(name, "fneg")) return LLVMBuildFNeg(b, v[0], "");
    if (!strcmp(name, "mad")) return mad(s->e, v);
    if (!strcmp(name, "scale")) return scale(s, v);
    if (!strcmp(name, "square_error"))
        return s->e->has_fma ? mad(s->e, (LLVMValueRef[]){v[0], v[0], LLVMBuildFNeg(b, v[1], "")}) : v[2];
    if (!strcmp(name, "select")) return LLVMBuildSelect(b, v[0], v[1], v[2], "");
    if (!strcmp(name, "icmp"))
        return LLVMBuildICmp(b, (LLVMIntPredicate)CODE_OF(int_predicates, suffix), v[0], v[1], "");
    if (!strcmp(name, "fcmp"))
        return LLVMBuildFCmp(b, (LLVMRealPredicate)CODE_OF(float_predicates, suffix), v[0], v[1], "");
    if (!strcmp(name, "llvm")) {
        char full[32] = "llvm.";
        LLVMTypeRef type = LLVMTypeOf(v[0]);
        strncat(full, suffix, sizeof full - 6);
        return emit_call(s->e, full, &type, 1, v, v[1] ? 2 : 1);
    }
    s->e->wrong = "the spelling of a primitive";
    return v[0];
}

static void word(struct speller *s, char *out, size_t size)
{
    size_t n = 0;
    while ((isalnum((unsigned char)*s->at) || *s->at == '_') && n + 1 < size) out[n++] = *s->at++;
    out[n] = 0;
}

static struct spelled expression(struct speller *s);

// The arguments of a call, numbers given the type of the first neighbour that is none.
static void arguments(struct speller *s, bool selects, LLVMValueRef v[3])
{
    struct spelled given[3] = {{NULL, NULL}, {NULL, NULL}, {NULL, NULL}};
    LLVMTypeRef type = NULL;
    int n = 0;
    do {
        s->at++;
        given[n++] = expression(s);
    } while (*s->at == ',' && n < 3);
    s->at++; // the closing parenthesis
    for (int i = selects ? 1 : 0; i < n && !type; i++)
        if (given[i].v) type = LLVMTypeOf(given[i].v);
    if (!type) type = emit_class_type(s->e, s->result, s->width);
    for (int i = 0; i < 3; i++) v[i] = i >= n ? NULL : given[i].v ? given[i].v : number_of(s, given[i].number, type);
}

static struct spelled expression(struct speller *s)
{
    char name[16], suffix[16] = "";
    LLVMValueRef v[3];
    while (*s->at == ' ') s->at++;
    const char *start = s->at;
    if (*start == '-' || isdigit((unsigned char)*start) || !strncmp(start, "inf", 3)) {
        while (*s->at && *s->at != ',' && *s->at != ')') s->at++;
        return (struct spelled){NULL, start};
    }
    word(s, name, sizeof name);
    if (!name[1] && name[0] >= 'a' && name[0] <= 'c') return (struct spelled){s->arg[name[0] - 'a'], NULL};
    if (*s->at == '.') {
        s->at++;
        word(s, suffix, sizeof suffix);
    }
    arguments(s, !strcmp(name, "select"), v);
    return (struct spelled){build(s, name, suffix, v), NULL};
}

LLVMValueRef emit_spelling(struct emitter *e, const char *text, const LLVMValueRef arg[3], enum scalar_class result,
                           int width)
{
    struct speller s = {e, text, arg, result, width};
    return expression(&s).v;
}
