// The entries of a bundle, in order and by name.
#include "bundle/bundle.h"
#include <stdlib.h>
#include <string.h>

enum { FEW_NAMES = 16 }; // are found one by one

static uint32_t hash_text(const char *text)
{
    uint32_t h = 2166136261u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

struct bundle_name *bundle_name_new(const char *function, const char *text)
{
    if (!*text) {
        error_set(KILN_E_ARGUMENT, "%s: the name is empty; NULL is for entries without one", function);
        return NULL;
    }
    size_t size_B = strlen(text) + 1;
    struct bundle_name *n = malloc(sizeof *n + size_B);
    if (!n) {
        error_set(KILN_E_MEMORY, "%s: out of memory", function);
        return NULL;
    }
    atomic_init(&n->refs, 1);
    n->hash = hash_text(text);
    memcpy(n->text, text, size_B);
    return n;
}

struct bundle_name *bundle_name_ref(struct bundle_name *n)
{
    if (n) atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
    return n;
}

void bundle_name_unref(struct bundle_name *n)
{
    if (n && atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) == 1) free(n);
}

struct bundle_content *bundle_content_new(void)
{
    struct bundle_content *c = calloc(1, sizeof *c);
    if (!c) {
        error_set(KILN_E_MEMORY, "out of memory for a bundle");
        return NULL;
    }
    atomic_init(&c->refs, 1);
    return c;
}

struct bundle_content *bundle_content_ref(struct bundle_content *c)
{
    if (c) atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

static bool is_named(const struct bundle_content *c, size_t i, const char *name, uint32_t hash)
{
    if (i >= c->entries.n) return false;
    const struct bundle_name *n = c->entries.v[i].name;
    return n && n->hash == hash && !strcmp(n->text, name);
}

int64_t bundle_content_find(const struct bundle_content *c, const char *name)
{
    uint32_t hash = hash_text(name);
    if (!c->n_named) return -1;
    for (size_t i = 0; !c->n_places && i < c->entries.n; i++)
        if (is_named(c, i, name, hash)) return (int64_t)i;
    for (size_t p = hash; c->n_places && c->places[p & (c->n_places - 1)]; p++) {
        size_t i = c->places[p & (c->n_places - 1)] - 1;
        if (is_named(c, i, name, hash)) return (int64_t)i;
    }
    return -1;
}

static void place(struct bundle_content *c, size_t i)
{
    size_t p = c->entries.v[i].name->hash;
    while (c->places[p & (c->n_places - 1)]) p++;
    c->places[p & (c->n_places - 1)] = (uint32_t)i + 1;
    c->n_taken++;
}

static void place_all(struct bundle_content *c)
{
    if (!c->n_places) return;
    memset(c->places, 0, sizeof *c->places * c->n_places);
    c->n_taken = 0;
    for (size_t i = 0; i < c->entries.n; i++)
        if (c->entries.v[i].name) place(c, i);
}

// Room for one more name; at most half of the places are taken.
static kiln_status reserve_place(struct bundle_content *c)
{
    if (c->n_places ? c->n_taken < c->n_places / 2 : c->n_named < FEW_NAMES) return KILN_OK;
    size_t n = c->n_places ? c->n_places : 4 * FEW_NAMES;
    while ((c->n_named + 1) * 3 > n) n *= 2;
    uint32_t *more = calloc(n, sizeof *more);
    if (!more) return error_set(KILN_E_MEMORY, "out of memory for a bundle");
    free(c->places);
    c->places = more;
    c->n_places = n;
    place_all(c);
    return KILN_OK;
}

struct bundle_content *bundle_content_copy(const struct bundle_content *from)
{
    struct bundle_content *c = bundle_content_new();
    if (!c) return NULL;
    kiln_status status = vec_reserve(&c->entries, from->entries.n);
    if (!status && from->n_places && !(c->places = malloc(sizeof *c->places * from->n_places)))
        status = error_set(KILN_E_MEMORY, "out of memory for a bundle");
    if (status) {
        bundle_content_unref(c);
        return NULL;
    }
    for (size_t i = 0; i < from->entries.n; i++) {
        const struct bundle_entry *e = &from->entries.v[i];
        c->entries.v[i] = (struct bundle_entry){bundle_name_ref(e->name), bundle_value_ref(e->value)};
    }
    c->entries.n = from->entries.n;
    if (from->n_places) memcpy(c->places, from->places, sizeof *c->places * from->n_places);
    c->n_places = from->n_places;
    c->n_taken = from->n_taken;
    c->n_named = from->n_named;
    c->height = from->height;
    c->n_entries = from->n_entries;
    c->n_slots = from->n_slots;
    return c;
}

static const struct bundle_content *inside(const struct bundle_value *v)
{
    return v->kind == KILN_KIND_BUNDLE ? v->bundle : NULL;
}

static void count(struct bundle_content *c, const struct bundle_value *v)
{
    const struct bundle_content *in = inside(v);
    c->n_entries += 1 + (in ? in->n_entries : 0);
    c->n_slots += v->slot + (in ? in->n_slots : 0);
    if (in && in->height + 1 > c->height) c->height = in->height + 1;
}

static void uncount(struct bundle_content *c, const struct bundle_value *v)
{
    const struct bundle_content *in = inside(v);
    c->n_entries -= 1 + (in ? in->n_entries : 0);
    c->n_slots -= v->slot + (in ? in->n_slots : 0);
    if (!in || in->height + 1 < c->height) return;
    c->height = 0;
    for (size_t i = 0; i < c->entries.n; i++) {
        in = inside(c->entries.v[i].value);
        if (in && in->height + 1 > c->height) c->height = in->height + 1;
    }
}

static kiln_status check_bounds(const char *function, const struct bundle_content *c, const struct bundle_value *v)
{
    const struct bundle_content *in = inside(v);
    if (in && in->height + 1 >= BUNDLE_HEIGHT_MAX)
        return error_set(KILN_E_ARGUMENT, "%s: bundles in bundles would be more than %d deep", function,
                         BUNDLE_HEIGHT_MAX);
    uint64_t n = c->n_entries + 1 + (in ? in->n_entries : 0);
    if (n > BUNDLE_ENTRIES_MAX)
        return error_set(KILN_E_ARGUMENT, "%s: the bundle would have %llu entries in all, more than %llu", function,
                         (unsigned long long)n, (unsigned long long)BUNDLE_ENTRIES_MAX);
    return KILN_OK;
}

static kiln_status insert(const char *function, struct bundle_content *c, size_t at, struct bundle_name *name,
                          struct bundle_value *v)
{
    TRY(check_bounds(function, c, v));
    TRY(vec_reserve(&c->entries, c->entries.n + 1));
    if (name) TRY(reserve_place(c));
    memmove(c->entries.v + at + 1, c->entries.v + at, sizeof *c->entries.v * (c->entries.n - at));
    c->entries.v[at] = (struct bundle_entry){bundle_name_ref(name), v};
    bool last = at == c->entries.n++;
    if (name) c->n_named++;
    if (!last)
        place_all(c);
    else if (name && c->n_places)
        place(c, at);
    count(c, v);
    return KILN_OK;
}

kiln_status bundle_content_insert(const char *function, struct bundle_content *c, size_t at, struct bundle_name *name,
                                  struct bundle_value *v)
{
    kiln_status status = insert(function, c, at, name, v);
    if (status) bundle_value_reject(v);
    return status;
}

kiln_status bundle_content_replace(const char *function, struct bundle_content *c, size_t at, struct bundle_value *v)
{
    struct bundle_value *before = c->entries.v[at].value;
    kiln_status status = check_bounds(function, c, v);
    if (status) {
        bundle_value_reject(v);
        return status;
    }
    c->entries.v[at].value = v;
    count(c, v);
    uncount(c, before);
    bundle_value_unref(before);
    return KILN_OK;
}

struct bundle_value *bundle_content_take(struct bundle_content *c, size_t at)
{
    struct bundle_entry e = c->entries.v[at];
    memmove(c->entries.v + at, c->entries.v + at + 1, sizeof *c->entries.v * (c->entries.n - at - 1));
    bool last = at == --c->entries.n;
    if (e.name) c->n_named--;
    if (!last && c->n_named) place_all(c);
    bundle_name_unref(e.name);
    uncount(c, e.value);
    return e.value;
}

void bundle_content_reverse(struct bundle_content *c)
{
    for (size_t i = 0, k = c->entries.n; i + 1 < k; i++) {
        struct bundle_entry e = c->entries.v[i];
        c->entries.v[i] = c->entries.v[--k];
        c->entries.v[k] = e;
    }
    place_all(c);
}
