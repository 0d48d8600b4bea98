// A strict reader of JSON texts in memory, taken piece by piece by who knows what has to come.
#pragma once
#include "base/base.h"
#include <stdio.h>

struct json {
    const char *at, *end, *where;
};

// Skips white space; whether the next character is `c`, which is then taken.
bool json_take(struct json *j, char c);
kiln_status json_expect(struct json *j, char c);
// A string with its escapes resolved: valid UTF-8 without a zero byte. *out is the caller's to free.
kiln_status json_string(struct json *j, char **out);
// An integer from 0 to UINT64_MAX, without sign, fraction or exponent.
kiln_status json_u64(struct json *j, uint64_t *out);
// KILN_E_FORMAT when anything but white space is left.
kiln_status json_end(struct json *j);
// KILN_E_FORMAT "<what> at byte N".
kiln_status json_bad(const struct json *j, const char *what);

bool json_is_utf8(const char *text, size_t n);
// Writes the text with quotes and escapes.
void json_write_string(FILE *f, const char *text);
void json_write_text(FILE *f, const char *text, size_t n); // zero bytes too
