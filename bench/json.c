// Recursive descent over RFC 8259, bounded in depth. Beyond it, NaN and Infinity are numbers, as Python writes them.
#include "json.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64

struct reader {
    const char *start, *p, *error;
};

static struct json *value(struct reader *r, int depth);

static void space(struct reader *r)
{
    while (*r->p && strchr(" \t\r\n", *r->p)) r->p++;
}

static bool take(struct reader *r, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(r->p, word, n)) return false;
    r->p += n;
    return true;
}

static void *fail(struct reader *r, const char *why)
{
    if (!r->error) r->error = why;
    return NULL;
}

static char *put_utf8(char *out, unsigned code)
{
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 63));
    } else {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 63));
        *out++ = (char)(0x80 | (code & 63));
    }
    return out;
}

// The character behind a backslash; NULL when it is none. Halves of surrogate pairs are kept one by one.
static char *escape(struct reader *r, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at = *r->p ? strchr(from, *r->p) : NULL;
    if (at) {
        *out++ = to[at - from];
        r->p++;
        return out;
    }
    if (*r->p != 'u') return fail(r, "a bad escape in a string");
    char digits[5] = "";
    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)r->p[1 + i])) return fail(r, "a bad escape in a string");
        digits[i] = r->p[1 + i];
    }
    r->p += 5;
    return put_utf8(out, (unsigned)strtoul(digits, NULL, 16));
}

// Behind the opening quote: the bytes before the closing one.
static size_t string_length(const char *p)
{
    size_t n = 0;
    while (p[n] && p[n] != '"') n += p[n] == '\\' && p[n + 1] ? 2 : 1;
    return n;
}

// At the opening quote. An escape is never longer in UTF-8 than in the text.
static char *string(struct reader *r)
{
    if (*r->p != '"') return fail(r, "a string is expected");
    char *text = malloc(string_length(r->p + 1) + 1), *out = text;
    if (!text) return fail(r, "out of memory");
    for (r->p++; *r->p != '"' && out;) {
        if ((unsigned char)*r->p < 0x20) {
            fail(r, "a string has no end");
            out = NULL;
        } else if (*r->p == '\\') {
            r->p++;
            out = escape(r, out);
        } else {
            *out++ = *r->p++;
        }
    }
    if (!out) {
        free(text);
        return NULL;
    }
    *out = 0;
    r->p++;
    return text;
}

static struct json *node(struct reader *r, enum json_kind kind)
{
    struct json *j = calloc(1, sizeof *j);
    if (!j) return fail(r, "out of memory");
    j->kind = kind;
    return j;
}

// One member; in an object with its key and a colon before it.
static struct json *member(struct reader *r, bool object, int depth)
{
    char *key = NULL;
    space(r);
    if (object) {
        key = string(r);
        space(r);
        if (key && *r->p++ != ':') {
            free(key);
            return fail(r, "a colon is expected");
        }
        if (!key) return NULL;
    }
    struct json *j = value(r, depth);
    if (j)
        j->key = key;
    else
        free(key);
    return j;
}

static struct json *children(struct reader *r, bool object, int depth)
{
    const char end = object ? '}' : ']';
    struct json *j = node(r, object ? JSON_OBJECT : JSON_ARRAY), **last = j ? &j->first : NULL;
    r->p++;
    space(r);
    if (*r->p == end) {
        r->p++;
        return j;
    }
    while (j) {
        *last = member(r, object, depth + 1);
        if (!*last) break;
        last = &(*last)->next;
        space(r);
        char c = *r->p;
        if (c == ',' || c == end) r->p++;
        if (c == end) return j;
        if (c != ',') {
            fail(r, "a comma or the end of a list is expected");
            break;
        }
    }
    json_free(j);
    return NULL;
}

static struct json *number(struct reader *r)
{
    char *end;
    double v = strtod(r->p, &end);
    if (end == r->p) return fail(r, "a value is expected");
    r->p = end;
    struct json *j = node(r, JSON_NUMBER);
    if (j) j->number = v;
    return j;
}

static struct json *value(struct reader *r, int depth)
{
    if (depth > MAX_DEPTH) return fail(r, "nested too deep");
    space(r);
    if (*r->p == '{' || *r->p == '[') return children(r, *r->p == '{', depth);
    if (*r->p == '"') {
        char *text = string(r);
        struct json *j = text ? node(r, JSON_STRING) : NULL;
        if (j)
            j->text = text;
        else
            free(text);
        return j;
    }
    if (take(r, "null")) return node(r, JSON_NULL);
    bool yes = take(r, "true");
    if (yes || take(r, "false")) {
        struct json *j = node(r, JSON_BOOL);
        if (j) j->number = yes;
        return j;
    }
    return number(r);
}

struct json *json_parse(const char *text, char *why, size_t why_size)
{
    struct reader r = {.start = text, .p = text};
    struct json *j = value(&r, 0);
    space(&r);
    if (j && *r.p) fail(&r, "text after the document");
    if (!r.error) return j;
    snprintf(why, why_size, "%s at byte %zu", r.error, (size_t)(r.p - r.start));
    json_free(j);
    return NULL;
}

void json_free(struct json *j)
{
    while (j) {
        struct json *next = j->next;
        json_free(j->first);
        free(j->text);
        free(j->key);
        free(j);
        j = next;
    }
}

const struct json *json_get(const struct json *object, const char *key)
{
    for (const struct json *j = object && object->kind == JSON_OBJECT ? object->first : NULL; j; j = j->next) {
        if (j->key && !strcmp(j->key, key)) return j;
    }
    return NULL;
}

const char *json_text(const struct json *object, const char *key)
{
    const struct json *j = json_get(object, key);
    return j && j->kind == JSON_STRING ? j->text : "";
}

double json_number(const struct json *object, const char *key)
{
    const struct json *j = json_get(object, key);
    return j && j->kind == JSON_NUMBER ? j->number : NAN;
}
