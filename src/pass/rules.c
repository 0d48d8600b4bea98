// Reads the texts of the rewrite rules into terms, once a process.
#include "base/process.h"
#include "pass/rules.h"
#include "base/arena.h"
#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const struct rule rule_table[] = {
#define RULE(...) {__VA_ARGS__},
#include "pass/rules.def"
};
const int rule_count = (int)COUNT_OF(rule_table);

unsigned rule_dtype_bit(unsigned dtype)
{
    if (dtype == KILN_BOOL) return BOOLEAN;
    if (dtype_kind_of[dtype] == KIND_INT) return dtype_info[dtype].is_signed ? SIGNED : UNSIGNED;
    return dtype_is_half_float(dtype) ? HALF : WIDE;
}

struct reader {
    struct arena *arena;
    const char *whole, *at;
};

static const struct rule_term *fail(const struct reader *r, const char *what)
{
    error_set(KILN_E_INTERNAL, "rule \"%s\": %s at \"%s\"", r->whole, what, r->at);
    return NULL;
}

static void skip_space(struct reader *r)
{
    while (*r->at == ' ') r->at++;
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static const struct rule_term *read_term(struct reader *r);

static const struct rule_term *read_arguments(struct reader *r, struct rule_term *t, size_t length)
{
    char *name = arena_strndup(r->arena, r->at, length);
    t->op = name ? op_find(name) : NULL;
    if (!t->op) return fail(r, "no such op");
    r->at += length + 1;
    while (*r->at != ')') {
        if (t->n_args == 3) return fail(r, "a fourth operand");
        t->arg[t->n_args] = read_term(r);
        if (!t->arg[t->n_args++]) return NULL;
        skip_space(r);
        if (*r->at == ',') r->at++;
        skip_space(r);
    }
    r->at++;
    if (t->n_args != t->op->min_in || t->op->n_attrs) return fail(r, "an op over other operands, or with attributes");
    return t;
}

static uint8_t kind_of_name(char c)
{
    if (strchr("xyz", c)) return TERM_ANY;
    if (strchr("uv", c)) return TERM_VALUE;
    return strchr("pq", c) ? TERM_CONDITION : TERM_NUMBER;
}

static const struct rule_term *read_computed(struct reader *r, struct rule_term *t)
{
    size_t length = strcspn(++r->at, "}");
    t->kind = TERM_COMPUTED;
    t->text = arena_strndup(r->arena, r->at, length);
    r->at += length + 1;
    return t->text ? t : NULL;
}

static const struct rule_term *read_term(struct reader *r)
{
    struct rule_term *t = arena_alloc(r->arena, sizeof *t);
    size_t length = 0;
    skip_space(r);
    if (!t) return NULL;
    if (*r->at == '{') return read_computed(r, t);
    while (is_name(r->at[length])) length++;
    if (length && r->at[length] == '(') return read_arguments(r, t, length);
    if (length == 1 && strchr("xyzuvpqcd", *r->at)) {
        t->name = *r->at++;
        t->kind = kind_of_name(t->name);
        return t;
    }
    t->kind = TERM_LITERAL;
    t->truth = !strncmp(r->at, "true", 4) || !strncmp(r->at, "false", 5);
    if (t->truth) {
        t->literal = *r->at == 't';
        r->at += length;
        return t;
    }
    char *end;
    t->literal = strtod(r->at, &end);
    if (end == r->at) return fail(r, "neither a name nor a number");
    r->at = end;
    return t;
}

static const struct rule_term *read_all(struct arena *a, const char *text)
{
    struct reader r = {a, text, text};
    const struct rule_term *t = read_term(&r);
    return t && *r.at ? fail(&r, "more text") : t;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_rules, lock)
static struct arena kept;
static _Atomic(struct rule_terms *) parsed;

static struct rule_terms *parse(void)
{
    arena_init(&kept);
    struct rule_terms *terms = arena_alloc(&kept, sizeof *terms * (size_t)rule_count);
    for (int i = 0; i < rule_count && terms; i++) {
        terms[i].pattern = read_all(&kept, rule_table[i].pattern);
        terms[i].replacement = terms[i].pattern ? read_all(&kept, rule_table[i].replacement) : NULL;
        if (!terms[i].replacement) terms = NULL;
    }
    if (!terms) arena_finish(&kept);
    return terms;
}

// Where memory was out, the next caller tries again.
const struct rule_terms *rule_terms(void)
{
    struct rule_terms *terms = atomic_load(&parsed);
    if (terms) return terms;
    pthread_mutex_lock(&lock);
    terms = atomic_load(&parsed);
    if (!terms) atomic_store(&parsed, terms = parse());
    pthread_mutex_unlock(&lock);
    return terms;
}
