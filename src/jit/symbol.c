// Symbols are numbers below -1 that stand for a rule: rows of a table that only grows, found by name and rule, so that
// a declaration that is run again makes none.
#include "jit/symbol.h"
#include "base/options.h"
#include "base/process.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SYMBOLS_MAX = 65536, BLOCK = 256 };

static struct {
    pthread_mutex_t lock;
    struct symbol *blocks[SYMBOLS_MAX / BLOCK];
    size_t n;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

GUARD_LOCK(guard_symbols, table.lock)

static struct symbol *row(size_t i)
{
    return &table.blocks[i / BLOCK][i % BLOCK];
}

const struct symbol *symbol_of(int64_t dim)
{
    if (dim > -2 || dim < -1 - SYMBOLS_MAX) return NULL;
    size_t i = (size_t)(-2 - dim);
    pthread_mutex_lock(&table.lock);
    const struct symbol *s = i < table.n ? row(i) : NULL;
    pthread_mutex_unlock(&table.lock);
    return s;
}

bool symbol_allows(const struct symbol *s, int64_t size)
{
    return size >= s->min && size <= s->max && size > s->remainder && (size - s->remainder) % s->divisor == 0;
}

void symbol_text(const struct symbol *s, char *out, size_t size_B)
{
    int n = snprintf(out, size_B, "%lld", (long long)s->min);
    if (s->max == INT64_MAX)
        n += snprintf(out + n, size_B - (size_t)n, " or more");
    else
        n += snprintf(out + n, size_B - (size_t)n, " to %lld", (long long)s->max);
    if (s->divisor > 1 || s->remainder)
        snprintf(out + n, size_B - (size_t)n, ", %lld N + %lld with N from 1", (long long)s->divisor,
                 (long long)s->remainder);
}

static kiln_status check(const char *name, const struct symbol *s, const kiln_symbol_opts *o)
{
    if (!name || !*name) return error_set(KILN_E_ARGUMENT, "symbol: name is %s", name ? "empty" : "NULL");
    if (strlen(name) >= sizeof s->name)
        return error_set(KILN_E_ARGUMENT, "symbol: name has %zu characters, %zu at most", strlen(name),
                         sizeof s->name - 1);
    if (o->min < 0 || o->max < 0 || o->divisor < 0 || o->remainder < 0)
        return error_set(KILN_E_ARGUMENT,
                         "symbol: a bound of %s is negative: .min %lld, .max %lld, .divisor %lld, .remainder %lld",
                         name, (long long)o->min, (long long)o->max, (long long)o->divisor, (long long)o->remainder);
    return KILN_OK;
}

// The least size that the rule allows, without .max; INT64_MAX: beyond all.
static int64_t least(const struct symbol *s)
{
    int64_t n = s->min > s->remainder ? (s->min - s->remainder - 1) / s->divisor + 1 : 1, size;
    if (__builtin_mul_overflow(n, s->divisor, &size) || __builtin_add_overflow(size, s->remainder, &size))
        return INT64_MAX;
    return size;
}

static bool equal(const struct symbol *a, const struct symbol *b)
{
    return !strcmp(a->name, b->name) && a->min == b->min && a->max == b->max && a->divisor == b->divisor &&
           a->remainder == b->remainder && a->unique == b->unique;
}

// With the lock: its number, or 0 with an error.
static int64_t find_or_add(const struct symbol *s)
{
    for (size_t i = 0; i < table.n; i++)
        if (equal(row(i), s)) return -2 - (int64_t)i;
    if (table.n == SYMBOLS_MAX) {
        error_set(KILN_E_UNSUPPORTED, "symbol: %s would be one more than %d", s->name, SYMBOLS_MAX);
        return 0;
    }
    struct symbol **block = &table.blocks[table.n / BLOCK];
    if (!*block && !(*block = calloc(BLOCK, sizeof **block))) {
        error_set(KILN_E_MEMORY, "symbol: out of memory");
        return 0;
    }
    *row(table.n) = *s;
    return -2 - (int64_t)table.n++;
}

int64_t kiln_symbol(const char *name, const kiln_symbol_opts *opts)
{
    kiln_symbol_opts o;
    struct symbol s = {.name = ""};
    char rule[160];
    if (error_pending || options_read_as("symbol", "KILN_SYMBOL", &o, sizeof o, opts) || check(name, &s, &o)) return 0;
    memcpy(s.name, name, strlen(name) + 1);
    s.min = o.min ? o.min : 1;
    s.max = o.max ? o.max : INT64_MAX;
    s.divisor = o.divisor ? o.divisor : 1;
    s.remainder = o.remainder;
    s.unique = o.unique;
    if (least(&s) > s.max || least(&s) == INT64_MAX) {
        symbol_text(&s, rule, sizeof rule);
        error_set(KILN_E_ARGUMENT, "symbol: no size keeps the rule of %s: %s", name, rule);
        return 0;
    }
    pthread_mutex_lock(&table.lock);
    int64_t dim = find_or_add(&s);
    pthread_mutex_unlock(&table.lock);
    return dim;
}
