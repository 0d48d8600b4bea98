// Tokens of the text form, and errors that say where they are. White space and `# comments` lie between tokens and
// mean nothing else; a string ends on its line.
#include "ir/parse.h"
#include <stdio.h>
#include <string.h>

enum { SHOWN_B = 40 };

kiln_status parse_fail(struct parser *p, const struct token *t, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(KILN_E_FORMAT, "%.200s:%d:%d: %s", p->name, t->line, t->column, text);
}

kiln_status parse_expected_at(struct parser *p, const struct token *t, const char *what)
{
    char found[SHOWN_B + 1];
    size_t n = t->size_B < SHOWN_B ? t->size_B : SHOWN_B;
    for (size_t i = 0; i < n; i++) found[i] = t->at[i] >= ' ' && t->at[i] < 0x7f ? t->at[i] : '?';
    found[n] = '\0';
    if (t->kind == TOKEN_END) return parse_fail(p, t, "%s is expected, the text ends", what);
    return parse_fail(p, t, "%s is expected, found `%s`", what, found);
}

kiln_status parse_expected(struct parser *p, const char *what)
{
    return parse_expected_at(p, &p->token, what);
}

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool is_word_part(int c)
{
    return is_letter(c) || is_digit(c) || c == '.';
}

static void skip_space(struct parser *p)
{
    for (; p->at < p->end; p->at++) {
        if (*p->at == '#')
            while (p->at + 1 < p->end && p->at[1] != '\n') p->at++;
        else if (*p->at == '\n') {
            p->line++;
            p->line_start = p->at + 1;
        } else if (*p->at != ' ' && *p->at != '\t' && *p->at != '\r')
            return;
    }
}

// Signs only after the letter of an exponent, except for the first.
static const char *number_end(const char *at, const char *end)
{
    for (at++; at < end; at++) {
        bool exponent = at[-1] == 'e' || at[-1] == 'E';
        if (!is_word_part(*at) && *at != ':' && !(exponent && (*at == '+' || *at == '-'))) break;
    }
    return at;
}

static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end && *at != '"' && *at != '\n'; at++)
        if (*at == '\\' && at + 1 < end && at[1] != '\n') at++;
    return at < end && *at == '"' ? at + 1 : NULL;
}

kiln_status parse_next(struct parser *p)
{
    skip_space(p);
    struct token *t = &p->token;
    *t = (struct token){.at = p->at, .kind = TOKEN_SIGN, .line = p->line, .column = (int)(p->at - p->line_start) + 1};
    if (p->at == p->end) {
        t->kind = TOKEN_END;
        return KILN_OK;
    }
    const char *end = p->at + 1;
    if (is_letter(*p->at)) {
        t->kind = TOKEN_WORD;
        while (end < p->end && is_word_part(*end)) end++;
        // A NaN's payload.
        if (end - p->at == 3 && !memcmp(p->at, "nan", 3) && end < p->end && *end == ':') {
            t->kind = TOKEN_NUMBER;
            end = number_end(p->at, p->end);
        }
    } else if (is_digit(*p->at) || *p->at == '-') {
        t->kind = TOKEN_NUMBER;
        end = number_end(p->at, p->end);
    } else if (*p->at == '%') {
        t->kind = TOKEN_VALUE;
        while (end < p->end && is_digit(*end)) end++;
    } else if (*p->at == '"') {
        t->kind = TOKEN_STRING;
        end = string_end(p->at, p->end);
        if (!end) return parse_fail(p, t, "the string has no end on its line");
    } else if (!strchr("=,:(){}[]+*/", *p->at) || !*p->at)
        return parse_fail(p, t, "byte 0x%02x is not part of any graph's text", (unsigned char)*p->at);
    t->size_B = (size_t)(end - p->at);
    p->at = end;
    return KILN_OK;
}

bool parse_is(const struct parser *p, const char *text)
{
    const struct token *t = &p->token;
    return (t->kind == TOKEN_WORD || t->kind == TOKEN_SIGN) && t->size_B == strlen(text) &&
           !memcmp(t->at, text, t->size_B);
}

// Goes past the token when it is `text`. An error of the next token is in *status.
bool parse_accept(struct parser *p, const char *text, kiln_status *status)
{
    *status = KILN_OK;
    if (!parse_is(p, text)) return false;
    *status = parse_next(p);
    return true;
}

kiln_status parse_sign(struct parser *p, const char *sign)
{
    char quoted[16];
    if (parse_is(p, sign)) return parse_next(p);
    snprintf(quoted, sizeof quoted, "`%s`", sign);
    return parse_expected(p, quoted);
}

static int hex_digit(int c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The byte of an escape, whose letter is at *at; moves past it. -1: there is no such escape.
static int escaped(const char **at, const char *end)
{
    const char *c = (*at)++;
    switch (*c) {
    case '"':
    case '\\': return *c;
    case 'n': return '\n';
    case 't': return '\t';
    case 'x': {
        int high = c + 2 < end ? hex_digit(c[1]) : -1, low = high < 0 ? -1 : hex_digit(c[2]);
        *at = c + 3;
        return low < 0 || !(high | low) ? -1 : high * 16 + low;
    }
    default: return -1;
    }
}

kiln_status parse_string(struct parser *p, const char **out)
{
    const struct token *t = &p->token;
    if (t->kind == TOKEN_STRING && t->size_B > IR_MAX_NAME + 2)
        return parse_fail(p, t, "the name has more than %d bytes", IR_MAX_NAME);
    return parse_text(p, out);
}

kiln_status parse_text(struct parser *p, const char **out)
{
    const struct token *t = &p->token;
    if (t->kind != TOKEN_STRING) return parse_expected(p, "a name in quotes");
    const char *at = t->at + 1, *end = t->at + t->size_B - 1;
    char *text = arena_alloc(&p->g->arena, t->size_B), *to = text;
    if (!text) return error_pending;
    while (at < end) {
        int c = (unsigned char)*at++;
        if (c == '\\') c = escaped(&at, end);
        if (c <= 0) return parse_fail(p, t, "the name has an escape other than \\\" \\\\ \\n \\t \\xHH, or a byte 0");
        *to++ = (char)c;
    }
    *out = text;
    return parse_next(p);
}
