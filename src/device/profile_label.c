// Labels of spans: a hash table of what is equal but for its times, so that a loop of a million launches keeps a
// million pairs of times, and each of its shapes and lines once.
#include "base/hash.h"
#include "device/profile_state.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 256, LABELS_MAX = 1 << 17 };

static bool same_text(const char *a, const char *b)
{
    return !strcmp(a, b ? b : "");
}

static bool is_label(const struct label *l, const struct label *key, const struct launch_facts *f)
{
    if (l->hash != key->hash || l->category != key->category || l->device != key->device || strcmp(l->name, key->name))
        return false;
    if (!f) return !l->has_facts;
    return l->has_facts && same_text(l->op, f->op) && same_text(l->in, f->in) && same_text(l->out, f->out) &&
           l->read_B == f->read_B && l->written_B == f->written_B && l->flops == f->flops &&
           l->n_places == key->n_places &&
           (!l->n_places || !memcmp(l->places, key->places, sizeof *l->places * (size_t)l->n_places));
}

static uint64_t hash_text(uint64_t h, const char *text)
{
    return text ? hash_bytes(h, text, strlen(text)) : h;
}

static uint64_t hash_of(const struct label *key, const struct launch_facts *f)
{
    uint64_t h = hash_text(hash_u64((uint64_t)key->device, (uintptr_t)key->category), key->name);
    if (!f) return h;
    h = hash_text(hash_text(hash_text(h, f->op), f->in), f->out);
    const double numbers[] = {f->read_B, f->written_B, f->flops};
    h = hash_bytes(h, numbers, sizeof numbers);
    return key->n_places ? hash_bytes(h, key->places, sizeof *key->places * (size_t)key->n_places) : h;
}

static bool has_room(struct labels *l)
{
    if (l->n == LABELS_MAX) return false;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : FIRST_SLOTS / 2;
        struct label **more = realloc(l->v, cap * sizeof *more);
        if (!more) return false;
        l->v = more;
        l->cap = cap;
    }
    if (2 * (l->n + 1) <= l->n_slots) return true;
    size_t n = l->n_slots ? 2 * l->n_slots : FIRST_SLOTS;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < l->n; i++) {
        size_t at = l->v[i]->hash & (n - 1);
        while (slots[at]) at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(l->slots);
    l->slots = slots;
    l->n_slots = n;
    return true;
}

static void put_text(char **at, char **field, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    *field = *at;
    if (n) memcpy(*at, text, n);
    (*at)[n] = '\0';
    *at += n + 1;
}

static size_t length(const char *text)
{
    return text ? strlen(text) : 0;
}

static struct label *make(const struct label *key, const struct launch_facts *f)
{
    static const struct launch_facts none = {.flops = -1};
    const struct launch_facts *facts = f ? f : &none;
    struct label *l = malloc(sizeof *l + length(facts->op) + length(facts->in) + length(facts->out) + 3);
    if (!l) return NULL;
    char *at = (char *)(l + 1);
    *l = *key;
    l->has_facts = f != NULL;
    put_text(&at, &l->op, facts->op);
    put_text(&at, &l->in, facts->in);
    put_text(&at, &l->out, facts->out);
    l->read_B = facts->read_B;
    l->written_B = facts->written_B;
    l->flops = facts->flops;
    return l;
}

int64_t labels_find(struct labels *l, const struct label *wanted, const struct launch_facts *facts)
{
    struct label key = *wanted;
    int places = facts ? facts->n_places : 0;
    key.n_places = places < PROFILE_PLACES ? places : PROFILE_PLACES;
    // The last ones: among them that of the result.
    for (int i = 0; i < key.n_places; i++) key.places[i] = facts->places[places - key.n_places + i];
    key.hash = hash_of(&key, facts);
    if (!has_room(l)) return -1;
    size_t at = key.hash & (l->n_slots - 1);
    for (; l->slots[at]; at = (at + 1) & (l->n_slots - 1))
        if (is_label(l->v[l->slots[at] - 1], &key, facts)) return (int64_t)l->slots[at] - 1;
    struct label *made = make(&key, facts);
    if (!made) return -1;
    l->v[l->n++] = made;
    l->slots[at] = (uint32_t)l->n;
    return (int64_t)l->n - 1;
}

void labels_free(struct labels *l)
{
    for (size_t i = 0; i < l->n; i++) free(l->v[i]);
    free(l->v);
    free(l->slots);
    *l = (struct labels){0};
}
