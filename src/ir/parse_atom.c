// Numbers, types and definitions of the text form.
#include "ir/parse.h"
#include "base/c_locale.h"
#include <stdlib.h>
#include <string.h>

// The token as a string of its own. False: it is no number, or too long to be one.
static bool number_text(const struct parser *p, char *text)
{
    const struct token *t = &p->token;
    if (t->kind != TOKEN_NUMBER || t->size_B >= PARSE_MAX_NUMBER_B) return false;
    memcpy(text, t->at, t->size_B);
    text[t->size_B] = '\0';
    return true;
}

kiln_status parse_int(struct parser *p, int64_t lowest, int64_t highest, const char *what, int64_t *out)
{
    const struct token *t = &p->token;
    const char *at = t->at, *end = t->at + t->size_B;
    if (parse_is(p, "(")) return parse_sized_int(p, lowest, highest, what, out);
    if (t->kind != TOKEN_NUMBER) return parse_expected(p, what);
    bool negative = *at == '-', overflow = false;
    int64_t v = 0;
    if ((at += negative) == end) return parse_expected(p, what);
    for (; at < end; at++) {
        if (*at < '0' || *at > '9') return parse_expected(p, what);
        overflow |= __builtin_mul_overflow(v, 10, &v);
        overflow |= negative ? __builtin_sub_overflow(v, *at - '0', &v) : __builtin_add_overflow(v, *at - '0', &v);
    }
    if (overflow || v < lowest || v > highest)
        return parse_fail(p, t, "%s from %lld to %lld is expected", what, (long long)lowest, (long long)highest);
    *out = v;
    return parse_next(p);
}

static double nan_of(bool negative, uint64_t payload)
{
    union {
        uint64_t u;
        double f;
    } bits = {.u = IR_NAN_EXPONENT | payload | (negative ? 1ull << 63 : 0)};
    return bits.f;
}

// `nan`, or `nan:0x8000000000001`, after a sign. False: it is neither.
static bool parse_nan(const char *text, bool negative, double *out)
{
    if (strncmp(text, "nan", 3)) return false;
    if (!text[3]) {
        *out = nan_of(negative, IR_NAN_QUIET);
        return true;
    }
    if (strncmp(text + 3, ":0x", 3)) return false;
    size_t n = strspn(text + 6, "0123456789abcdef");
    uint64_t payload = n && n <= 13 ? strtoull(text + 6, NULL, 16) : 0;
    *out = nan_of(negative, payload);
    return payload && !text[6 + n];
}

kiln_status parse_float(struct parser *p, double *out)
{
    char buffer[PARSE_MAX_NUMBER_B];
    if (parse_is(p, "(")) return parse_sized_float(p, out);
    bool word = parse_is(p, "inf") || parse_is(p, "nan");
    if (word) {
        memcpy(buffer, p->token.at, 3);
        buffer[3] = '\0';
    } else if (!number_text(p, buffer))
        return parse_expected(p, "a number");
    bool negative = buffer[0] == '-';
    const char *text = buffer + negative;
    char *end = NULL;
    if (!strcmp(text, "inf"))
        *out = negative ? -__builtin_inf() : __builtin_inf();
    else if (!parse_nan(text, negative, out)) {
        bool decimal = text[0] >= '0' && text[0] <= '9' && text[strspn(text, "0123456789.eE+-")] == '\0';
        *out = decimal ? c_strtod(buffer, &end) : 0;
        if (!decimal || *end || *out - *out != 0)
            return parse_expected(p, decimal && !*end ? "a number that a double holds" : "a number");
    }
    return parse_next(p);
}

kiln_status parse_bool(struct parser *p, int64_t *out)
{
    if (!parse_is(p, "true") && !parse_is(p, "false")) return parse_expected(p, "`true` or `false`");
    *out = parse_is(p, "true");
    return parse_next(p);
}

kiln_status parse_dtype(struct parser *p, uint8_t *out)
{
    for (unsigned d = 0; d < DTYPE_COUNT; d++) {
        if (!parse_is(p, dtype_name(d))) continue;
        *out = (uint8_t)d;
        return parse_next(p);
    }
    return parse_expected(p, "a dtype");
}

// As the public functions that make weak scalars: both forms of the number are there.
kiln_status parse_literal(struct parser *p, struct ir_value *v)
{
    unsigned kind = dtype_kind_of[v->type.dtype];
    if (kind == KIND_FLOAT) {
        TRY(parse_float(p, &v->number));
        double x = v->number;
        v->integer = x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
        return KILN_OK;
    }
    TRY(kind == KIND_BOOL ? parse_bool(p, &v->integer) : parse_int(p, INT64_MIN, INT64_MAX, "an integer", &v->integer));
    v->number = (double)v->integer;
    return KILN_OK;
}

static kiln_status find_symbol(struct parser *p, int16_t *mark)
{
    for (size_t i = 0; i < p->g->symbols.n; i++) {
        if (!parse_is(p, p->g->symbols.v[i].name)) continue;
        *mark = (int16_t)(i + 1);
        return KILN_OK;
    }
    return parse_expected(p, "a size, or a symbol that was declared,");
}

static kiln_status parse_dim(struct parser *p, struct definition *d)
{
    struct type *type = &d->type;
    struct token at = p->token;
    int16_t mark = 0;
    if (type->rank == MAX_RANK) return parse_fail(p, &at, "a type has more than %d dimensions", MAX_RANK);
    if (p->token.kind == TOKEN_WORD) {
        TRY(find_symbol(p, &mark));
        TRY(parse_next(p));
        TRY(parse_sign(p, "="));
    }
    int64_t *dim = &type->dims[type->rank];
    d->sized |= (uint32_t)parse_is(p, "(") << type->rank;
    TRY(parse_int(p, 0, INT64_MAX, "a size", dim));
    if (mark && *dim != p->seen.v[mark - 1])
        return parse_fail(p, &at, "symbol %s is %lld, not %lld", p->g->symbols.v[mark - 1].name,
                          (long long)p->seen.v[mark - 1], (long long)*dim);
    if (mark) *dim = p->g->symbols.v[mark - 1].size;
    d->symbols[type->rank++] = mark;
    d->has_symbols |= mark != 0;
    return KILN_OK;
}

kiln_status parse_type(struct parser *p, struct definition *d)
{
    kiln_status status;
    if (parse_accept(p, "token", &status)) {
        d->type = ir_token_type();
        return status;
    }
    d->type.weak = parse_accept(p, "weak", &status);
    TRY(status);
    TRY(parse_dtype(p, &d->type.dtype));
    TRY(parse_sign(p, "["));
    while (!parse_is(p, "]")) {
        if (d->type.rank) TRY(parse_sign(p, ","));
        TRY(parse_dim(p, d));
    }
    return parse_next(p);
}

kiln_status parse_definition(struct parser *p, struct definition *d)
{
    int64_t number = 0;
    d->token = p->token;
    if (p->token.kind != TOKEN_VALUE || p->token.size_B < 2 || p->token.size_B > 11)
        return parse_expected(p, "a value (% and a number)");
    for (size_t i = 1; i < p->token.size_B; i++) number = number * 10 + (p->token.at[i] - '0');
    if (number > INT32_MAX) return parse_expected(p, "a value below %2147483648");
    d->number = (int32_t)number;
    TRY(parse_next(p));
    TRY(parse_sign(p, ":"));
    return parse_type(p, d);
}
