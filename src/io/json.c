// Reads JSON strictly (strings in UTF-8, whole numbers), and writes its strings.
#include "io/json.h"
#include "io/file.h"

#include <stdlib.h>
#include <string.h>

kiln_status json_bad(const struct json *j, const char *what)
{
    int n = (int)(j->end - j->at < 16 ? j->end - j->at : 16), shown = 0;
    while (shown < n && (unsigned char)j->at[shown] >= ' ' && (unsigned char)j->at[shown] < 127) shown++;
    return error_set(KILN_E_FORMAT, "%s: bad JSON: %s before \"%.*s\"", j->where, what, shown, j->at);
}

static void skip_space(struct json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\t' || *j->at == '\r')) j->at++;
}

bool json_take(struct json *j, char c)
{
    skip_space(j);
    if (j->at == j->end || *j->at != c) return false;
    j->at++;
    return true;
}

kiln_status json_expect(struct json *j, char c)
{
    if (json_take(j, c)) return KILN_OK;
    char what[] = "'?' is missing";
    what[1] = c;
    return json_bad(j, what);
}

kiln_status json_end(struct json *j)
{
    skip_space(j);
    return j->at == j->end ? KILN_OK : json_bad(j, "the text goes on");
}

// Length of the UTF-8 sequence at the start of n bytes; 0 when it is not valid (overlong, a surrogate, above 10FFFF).
static size_t utf8_length(const unsigned char *at, size_t n)
{
    if (at[0] < 0x80) return 1;
    size_t len = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || len > n) return 0;
    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
    }
    if (at[0] == 0xe0 && at[1] < 0xa0) return 0;
    if (at[0] == 0xed && at[1] > 0x9f) return 0;
    if (at[0] == 0xf0 && at[1] < 0x90) return 0;
    if (at[0] == 0xf4 && at[1] > 0x8f) return 0;
    return len;
}

bool json_is_utf8(const char *text, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        len = utf8_length((const unsigned char *)text + i, n - i);
        if (!len) return false;
    }
    return true;
}

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((len == 2 ? 0xc0 : len == 3 ? 0xe0 : 0xf0) | c);
    return len;
}

// Four hexadecimal digits after "\u".
static bool take_hex4(struct json *j, uint32_t *out)
{
    if (j->end - j->at < 4) return false;
    *out = 0;
    for (int i = 0; i < 4; i++) {
        char c = *j->at++;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

// What follows a backslash; the escape is never shorter than what it stands for.
static kiln_status take_escape(struct json *j, char *out, size_t *n)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (j->at == j->end) return json_bad(j, "a string does not end");
    char c = *j->at++;
    const char *found = c ? strchr(letters, c) : NULL;
    if (found) {
        out[(*n)++] = meanings[found - letters];
        return KILN_OK;
    }
    uint32_t code, low;
    if (c != 'u' || !take_hex4(j, &code)) return json_bad(j, "an unknown escape");
    if (code >= 0xd800 && code < 0xe000) {
        bool pair = code < 0xdc00 && j->end - j->at >= 6 && j->at[0] == '\\' && j->at[1] == 'u';
        if (pair) j->at += 2;
        if (!pair || !take_hex4(j, &low) || low < 0xdc00 || low >= 0xe000) return json_bad(j, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code == 0) return json_bad(j, "a zero character");
    *n += put_utf8(out + *n, code);
    return KILN_OK;
}

static kiln_status string_body(struct json *j, char *out)
{
    size_t n = 0;
    while (j->at < j->end && *j->at != '"') {
        unsigned char c = (unsigned char)*j->at;
        if (c < 0x20) return json_bad(j, "a control character in a string");
        if (c == '\\') {
            j->at++;
            TRY(take_escape(j, out, &n));
            continue;
        }
        size_t len = utf8_length((const unsigned char *)j->at, (size_t)(j->end - j->at));
        if (!len) return json_bad(j, "a byte that is not UTF-8");
        memcpy(out + n, j->at, len);
        n += len;
        j->at += len;
    }
    out[n] = '\0';
    if (j->at == j->end) return json_bad(j, "a string does not end");
    j->at++;
    return KILN_OK;
}

kiln_status json_string(struct json *j, char **out)
{
    *out = NULL;
    TRY(json_expect(j, '"'));
    // The raw length bounds the result.
    const char *end = j->at;
    while (end < j->end && *end != '"') end += *end == '\\' && end + 1 < j->end ? 2 : 1;
    char *text;
    TRY(io_alloc(j->where, (uint64_t)(end - j->at) + 1, &text));
    kiln_status status = string_body(j, text);
    if (status)
        free(text);
    else
        *out = text;
    return status;
}

kiln_status json_u64(struct json *j, uint64_t *out)
{
    skip_space(j);
    const char *start = j->at;
    *out = 0;
    for (; j->at < j->end && *j->at >= '0' && *j->at <= '9'; j->at++) {
        if (__builtin_mul_overflow(*out, 10u, out) || __builtin_add_overflow(*out, (uint64_t)(*j->at - '0'), out))
            return json_bad(j, "an integer is too large");
    }
    if (j->at == start) return json_bad(j, "an integer is missing");
    if (*start == '0' && j->at > start + 1) return json_bad(j, "an integer begins with 0");
    if (j->at < j->end && (*j->at == '.' || *j->at == 'e' || *j->at == 'E')) {
        return json_bad(j, "a number is not an integer");
    }
    return KILN_OK;
}

void json_write_text(FILE *f, const char *text, size_t n)
{
    fputc('"', f);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < 0x20)
            fprintf(f, "\\u%04x", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}

void json_write_string(FILE *f, const char *text)
{
    json_write_text(f, text, strlen(text));
}
