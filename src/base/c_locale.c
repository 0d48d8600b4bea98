// The C locale is made once, at the first number, and kept.
#include "base/c_locale.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// (locale_t)0 when memory is out; then the program's locale has to do.
static locale_t c_locale(void)
{
    static _Atomic(locale_t) kept;
    locale_t locale = atomic_load(&kept);
    if (locale) return locale;
    locale_t mine = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!mine || atomic_compare_exchange_strong(&kept, &locale, mine)) return mine;
    freelocale(mine);
    return locale;
}

double c_strtod(const char *text, char **end)
{
    locale_t c = c_locale();
    return c ? strtod_l(text, end, c) : strtod(text, end);
}

int c_snprintf(char *text, size_t size_B, const char *format, ...)
{
    locale_t c = c_locale(), before = c ? uselocale(c) : (locale_t)0;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, size_B, format, args);
    va_end(args);
    if (c) uselocale(before);
    return n;
}

const char *c_shortest(char text[C_NUMBER_B], double v, int single)
{
    if (isnan(v)) return strcpy(text, "nan");
    for (int digits = single ? 6 : 15; digits <= 17; digits++) {
        c_snprintf(text, C_NUMBER_B, "%.*g", digits, v);
        double back = c_strtod(text, NULL);
        if (single ? (float)back == (float)v : back == v) break;
    }
    return text;
}
