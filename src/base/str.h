// A growing string. A failed allocation is sticky: `failed` stays set, the string is empty and stays so, str_check
// reports it. So a part of a text is never taken for the whole.
#pragma once
#include "base/base.h"

struct str {
    char *text;
    size_t len, cap;
    bool failed;
};

void str_init(struct str *s);
void str_free(struct str *s);
void str_add(struct str *s, const char *text);
void str_addn(struct str *s, const char *text, size_t n);
void str_addf(struct str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void str_add_word(struct str *s, uint64_t w); // as bytes of seven bits, so that small numbers are short
void str_fail(struct str *s);                 // as if memory were out
const char *str_text(const struct str *s);    // never NULL
kiln_status str_check(const struct str *s);   // KILN_E_MEMORY when an allocation failed on the way
