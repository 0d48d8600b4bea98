// Growing strings. The first failure drops the text, and all that is added later.
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void str_init(struct str *s)
{
    *s = (struct str){0};
}

void str_free(struct str *s)
{
    if (!s) return;
    free(s->text);
    *s = (struct str){0};
}

void str_fail(struct str *s)
{
    s->failed = true;
    s->len = 0;
    if (s->text) s->text[0] = '\0';
}

// Makes room for n more characters and the terminator.
static bool reserve(struct str *s, size_t n)
{
    if (s->failed) return false;
    if (n < s->cap - s->len) return true;
    size_t cap = s->cap ? s->cap : 64;
    while (cap - s->len <= n && cap <= SIZE_MAX / 2) cap *= 2;
    char *text = cap - s->len > n ? realloc(s->text, cap) : NULL;
    if (!text) {
        str_fail(s);
        return false;
    }
    s->text = text;
    s->cap = cap;
    return true;
}

void str_addn(struct str *s, const char *text, size_t n)
{
    if (!reserve(s, n)) return;
    memcpy(s->text + s->len, text, n);
    s->len += n;
    s->text[s->len] = '\0';
}

void str_add(struct str *s, const char *text)
{
    str_addn(s, text, strlen(text));
}

void str_add_word(struct str *s, uint64_t w)
{
    unsigned char bytes[10];
    size_t n = 0;
    if (KILN_LIKELY(w < 0x80 && s->len + 1 < s->cap && !s->failed)) { // most are: keys of graphs are made of words
        s->text[s->len++] = (char)w;
        s->text[s->len] = '\0';
        return;
    }
    for (; w >= 0x80; w >>= 7) bytes[n++] = (unsigned char)(w | 0x80);
    bytes[n++] = (unsigned char)w;
    str_addn(s, (const char *)bytes, n);
}

static void addv(struct str *s, const char *format, va_list args)
{
    char small[256];
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    if (n < 0) {
        str_fail(s);
    } else if ((size_t)n < sizeof small) {
        str_addn(s, small, (size_t)n);
    } else if (reserve(s, (size_t)n)) {
        vsnprintf(s->text + s->len, (size_t)n + 1, format, again);
        s->len += (size_t)n;
    }
    va_end(again);
}

void str_addf(struct str *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    addv(s, format, args);
    va_end(args);
}

const char *str_text(const struct str *s)
{
    return s->text ? s->text : "";
}

kiln_status str_check(const struct str *s)
{
    return s->failed ? error_set(KILN_E_MEMORY, "out of memory for a text") : KILN_OK;
}
