// Distances between names: letters put in, left out, exchanged with the next one, or others (Damerau 1964); small and
// capital ones are the same.
#include "base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH_MAX = sizeof((struct nearest *)0)->best - 1 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][LENGTH_MAX + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++) last[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + !same(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *free_row = before;
        before = last, last = row, row = free_row;
    }
    return last[m];
}

void nearest_begin(struct nearest *n, const char *wanted, size_t length)
{
    n->wanted = wanted;
    n->length = length;
    n->best[0] = 0;
    n->distance = SIZE_MAX;
}

void nearest_try(struct nearest *n, const char *name, size_t length)
{
    size_t wanted = n->length;
    if (!wanted || wanted > LENGTH_MAX || length > LENGTH_MAX || !length) return;
    size_t d = distance(n->wanted, wanted, name, length);
    if (d > (wanted + 2) / 3 || d >= wanted || d >= n->distance) return;
    n->distance = d;
    memcpy(n->best, name, length);
    n->best[length] = 0;
}

struct nearest_hint nearest_hint(const struct nearest *n)
{
    struct nearest_hint hint = {""};
    if (n->best[0]) snprintf(hint.s, sizeof hint.s, "; is \"%s\" meant?", n->best);
    return hint;
}

struct nearest_hint nearest_of(const char *wanted, const char *const *names)
{
    struct nearest n;
    nearest_begin(&n, wanted, strlen(wanted));
    for (; *names; names++) nearest_try(&n, *names, strlen(*names));
    return nearest_hint(&n);
}
