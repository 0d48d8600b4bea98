// Making a text of unknown bytes fit to be shown: what is no printable UTF-8 is escaped.
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 1024 };

// The length of the UTF-8 sequence at `s` and its code point; 0: there is none, or a longer one than need be.
static size_t decode(const unsigned char *s, uint32_t *point)
{
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
    if (n == 0) return 0;
    *point = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if (s[i] >> 6 != 2) return 0; // the end of the text as well
        *point = *point << 6 | (s[i] & 0x3f);
    }
    bool surrogate = *point >= 0xd800 && *point < 0xe000;
    return *point < lowest[n] || *point > 0x10ffff || surrogate ? 0 : n;
}

static bool is_plain(uint32_t c)
{
    if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return false;
    // Ends of lines and paragraphs, and directions of writing.
    return !(c >= 0x2028 && c <= 0x202e) && !(c >= 0x2066 && c <= 0x2069) && c != 0x200e && c != 0x200f && c != 0x061c;
}

// The bytes at `s` that may be shown as they are; 0: the first must not.
static size_t plain_B(const char *s)
{
    uint32_t point = 0;
    size_t n = decode((const unsigned char *)s, &point);
    return n && is_plain(point) ? n : 0;
}

void text_escape(char *text, size_t size_B)
{
    size_t at = 0, n;
    while (text[at] && (n = plain_B(text + at))) at += n;
    if (!text[at]) return;
    char rest[TEXT_MAX];
    snprintf(rest, sizeof rest, "%s", text + at);
    for (const char *from = rest; *from; from += n) {
        n = plain_B(from);
        size_t need = n ? n : 4;
        if (at + need >= size_B) break;
        if (n)
            memcpy(text + at, from, n);
        else
            snprintf(text + at, 5, "\\x%02x", (unsigned char)*from);
        if (!n) n = 1;
        at += need;
    }
    text[at] = 0;
}
