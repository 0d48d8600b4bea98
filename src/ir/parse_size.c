// Numbers that go with sizes: `(2 * length + -3)`, `((n + 6) / 4)`, `(1.0 / n)`.
//
// A file keeps them so where a dimension is open; a reader has their value for the sizes that it reads with. Sums,
// products and quotients rounded down, of integers, symbols and what stands in parentheses.
#include "ir/parse.h"
#include <string.h>

enum { MAX_DEPTH = 16 };

static kiln_status sum(struct parser *p, int depth, int64_t *out);

static kiln_status too_large(struct parser *p, const struct token *t)
{
    return parse_fail(p, t, "the number of this place is beyond 64 bits for these sizes");
}

static kiln_status symbol(struct parser *p, int64_t *out)
{
    for (size_t i = 0; i < p->g->symbols.n; i++) {
        if (!parse_is(p, p->g->symbols.v[i].name)) continue;
        *out = p->g->symbols.v[i].size;
        return parse_next(p);
    }
    return parse_expected(p, "a symbol that was declared");
}

static kiln_status factor(struct parser *p, int depth, int64_t *out)
{
    kiln_status status;
    if (depth == MAX_DEPTH) return parse_fail(p, &p->token, "parentheses nest more than %d deep", MAX_DEPTH);
    if (parse_accept(p, "(", &status)) {
        TRY(status);
        TRY(sum(p, depth + 1, out));
        return parse_sign(p, ")");
    }
    if (p->token.kind == TOKEN_WORD) return symbol(p, out);
    return parse_int(p, INT64_MIN, INT64_MAX, "an integer, a symbol or `(`", out);
}

static int64_t divided(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static kiln_status product(struct parser *p, int depth, int64_t *out)
{
    TRY(factor(p, depth, out));
    while (parse_is(p, "*") || parse_is(p, "/")) {
        struct token at = p->token;
        bool divides = parse_is(p, "/");
        int64_t by;
        TRY(parse_next(p));
        TRY(factor(p, depth, &by));
        if (divides && by < 1) return parse_fail(p, &at, "divided by %lld", (long long)by);
        if (divides)
            *out = divided(*out, by);
        else if (__builtin_mul_overflow(*out, by, out))
            return too_large(p, &at);
    }
    return KILN_OK;
}

static kiln_status sum(struct parser *p, int depth, int64_t *out)
{
    TRY(product(p, depth, out));
    while (parse_is(p, "+")) {
        struct token at = p->token;
        int64_t more;
        TRY(parse_next(p));
        TRY(product(p, depth, &more));
        if (__builtin_add_overflow(*out, more, out)) return too_large(p, &at);
    }
    return KILN_OK;
}

kiln_status parse_sized_int(struct parser *p, int64_t lowest, int64_t highest, const char *what, int64_t *out)
{
    struct token at = p->token;
    TRY(factor(p, 0, out));
    if (*out >= lowest && *out <= highest) return KILN_OK;
    return parse_fail(p, &at, "%s from %lld to %lld is expected, it is %lld for these sizes", what, (long long)lowest,
                      (long long)highest, (long long)*out);
}

bool parse_is_sized_float(const struct parser *p)
{
    struct parser ahead = *p; // parse_next touches nothing else
    if (parse_next(&ahead)) {
        kiln_error_clear();
        return false;
    }
    for (size_t i = 0; ahead.token.kind == TOKEN_NUMBER && i < ahead.token.size_B; i++)
        if (strchr(".eEn", ahead.token.at[i])) return true;
    return parse_is(&ahead, "inf") || parse_is(&ahead, "nan");
}

kiln_status parse_sized_float(struct parser *p, double *out)
{
    int64_t by;
    if (!parse_is_sized_float(p)) {
        TRY(factor(p, 0, &by));
        *out = (double)by;
        return KILN_OK;
    }
    TRY(parse_sign(p, "("));
    TRY(parse_float(p, out));
    bool divides = parse_is(p, "/");
    if (!divides && !parse_is(p, "*")) return parse_expected(p, "`*` or `/`");
    TRY(parse_next(p));
    TRY(factor(p, 0, &by));
    *out = divides ? *out / (double)by : *out * (double)by;
    return parse_sign(p, ")");
}
