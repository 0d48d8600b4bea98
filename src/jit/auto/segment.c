// Segments: what a walk has recorded since the last break, and the storages that wait for it.
//
// A segment lives as long as its walk records it, a storage waits for one of its values, or, until the walk ends, a
// node of the tape tells by which step it was left. It keeps its inputs: whoever is about to write one of them calls
// storage's `keep`, which gives the readers the memory as it is now.
#include "jit/auto/auto.h"
#include <stdlib.h>
#include <string.h>

void segment_wait(const struct segment *s)
{
    while (s->busy && !pthread_equal(s->runner, pthread_self())) auto_lock_wait();
}

// Inputs

static void unlink_reader(struct lazy_reader *r)
{
    if (r->prev)
        r->prev->next = r->next;
    else
        __atomic_store_n(&r->storage->readers, r->next, __ATOMIC_RELEASE);
    if (r->next) r->next->prev = r->prev;
}

static void link_reader(struct lazy_reader *r, struct storage *st)
{
    r->storage = storage_ref(st);
    r->prev = NULL;
    r->next = st->readers;
    if (r->next) r->next->prev = r;
    __atomic_store_n(&st->readers, r, __ATOMIC_RELEASE);
}

static void reader_free(struct lazy_reader *r)
{
    unlink_reader(r);
    storage_unref(r->storage);
    free(r);
}

static bool same_place(const struct lazy_reader *r, const struct type *type, const struct layout *layout)
{
    if (r->type.dtype != type->dtype || r->type.weak != type->weak || !type_same_shape(&r->type, type) ||
        r->layout.offset != layout->offset)
        return false;
    for (int i = 0; i < type->rank; i++)
        if (type->dims[i] > 1 && r->layout.strides[i] != layout->strides[i]) return false;
    return true;
}

// Lists of inputs, so that one is found among many that lie in one storage. The last is first.

static uint64_t place_of(const struct storage *st, const struct layout *layout)
{
    uint64_t at = ((uint64_t)(uintptr_t)st >> 4) + (uint64_t)layout->offset * 0x9e3779b97f4a7c15u;
    return at ^ at >> 29;
}

static int32_t *list_of(const struct segment *s, uint64_t place)
{
    return &s->lists[place & (s->n_lists - 1)];
}

static void list_input(struct segment *s, struct lazy_reader *r)
{
    int32_t *list = list_of(s, r->place);
    r->older = *list;
    *list = r->index;
}

static bool has_room(struct segment *s)
{
    if (s->inputs.n < s->n_lists) return true;
    size_t n = s->n_lists ? 2 * s->n_lists : COUNT_OF(s->few_lists);
    int32_t *more = s->n_lists ? malloc(n * sizeof *more) : s->few_lists;
    if (!more) return error_set(KILN_E_MEMORY, "jit: out of memory for a segment"), false;
    if (s->lists != s->few_lists) free(s->lists);
    s->lists = more;
    s->n_lists = n;
    memset(more, 0xff, n * sizeof *more);
    for (size_t i = 0; i < s->inputs.n; i++) list_input(s, s->inputs.v[i]);
    return true;
}

static int32_t find_input(const struct segment *s, const struct storage *st, const struct type *type,
                          const struct layout *layout)
{
    if (!st->readers || !s->n_lists) return -1;
    for (int32_t i = *list_of(s, place_of(st, layout)); i >= 0; i = s->inputs.v[i]->older)
        if (s->inputs.v[i]->storage == st && same_place(s->inputs.v[i], type, layout)) return i;
    return -1;
}

kiln_status segment_input(struct segment *s, struct storage *st, const struct type *type, const struct layout *layout,
                          struct ref *out)
{
    out->kind = REF_INPUT;
    out->index = find_input(s, st, type, layout);
    if (out->index >= 0) return KILN_OK;
    struct lazy_reader *r = has_room(s) ? malloc(sizeof *r) : NULL;
    if (!r) return error_pending ? error_pending : error_set(KILN_E_MEMORY, "jit: out of memory for a segment");
    r->seg = s;
    r->type = *type;
    r->layout = *layout;
    r->place = place_of(st, layout);
    r->index = (int32_t)s->inputs.n;
    if (vec_push(&s->inputs, r)) {
        free(r);
        return error_pending;
    }
    link_reader(r, st);
    list_input(s, r);
    out->index = r->index;
    return KILN_OK;
}

void segment_forget_inputs(struct segment *s, size_t since)
{
    while (s->inputs.n > since) {
        struct lazy_reader *r = s->inputs.v[--s->inputs.n];
        *list_of(s, r->place) = r->older;
        reader_free(r);
    }
    while (s->given.n && (size_t)s->given.v[s->given.n - 1].input >= since) s->given.n--;
}

void segment_unref(struct segment *s)
{
    if (--s->refs) return;
    segment_forget_inputs(s, 0);
    if (s->lists != s->few_lists) free(s->lists);
    if (s->first) s->first->pins--;
    vec_free(&s->inputs);
    vec_free(&s->given);
    vec_free(&s->numbers);
    device_unref(s->dev);
    trie_unref(s->trie);
    free(s->failed);
    free(s);
}

// Memory that changes hands

static void move_readers(struct storage *from, struct storage *to)
{
    while (from->readers) {
        struct lazy_reader *r = from->readers;
        unlink_reader(r);
        link_reader(r, to);
        storage_unref(from);
    }
}

kiln_status storage_replace(struct storage *s, struct block *b)
{
    struct storage *old = NULL;
    if (s->readers && s->block.address) {
        old = storage_pending(s->dev, s->block.size_B);
        if (!old) return error_pending;
        old->block = s->block;
        move_readers(s, old);
        storage_unref(old); // the readers have it
    } else if (s->block.address && !s->borrowed)
        device_release(s->dev, &s->block);
    s->block = *b;
    s->borrowed = false;
    return KILN_OK;
}

static bool is_being_read(const struct storage *s)
{
    for (const struct lazy_reader *r = s->readers; r; r = r->next)
        if (r->seg->busy && !pthread_equal(r->seg->runner, pthread_self())) return true;
    return false;
}

// Readers get a copy: whoever writes has the address of the memory already.
kiln_status segment_keep(struct storage *s)
{
    auto_lock();
    while (is_being_read(s)) auto_lock_wait();
    struct storage *copy = s->readers ? storage_new(s->dev, s->block.size_B) : NULL;
    kiln_status status = s->readers && !copy ? error_pending : KILN_OK;
    if (copy && s->block.size_B) status = device_copy(s->dev, copy->block.address, s->block.address, s->block.size_B);
    if (copy && !status) move_readers(s, copy);
    if (copy) storage_unref(copy);
    auto_unlock();
    return status;
}

// Lazies

kiln_status lazy_new(struct segment *s, struct storage *st, const struct type *base, const struct ref *value,
                     bool outside, struct lazy **out)
{
    static uint32_t serial;
    struct lazy *l = malloc(sizeof *l);
    if (!l) return error_set(KILN_E_MEMORY, "jit: out of memory for a handle");
    l->storage = outside ? storage_ref(st) : st;
    l->seg = s;
    l->base = *base;
    l->base.weak = false;
    l->value = *value;
    l->outside = outside;
    l->asked = l->failed = false;
    l->serial = ++serial ? serial : ++serial;
    l->version = 0;
    l->shown.v = NULL;
    l->shown.n = l->shown.cap = 0;
    l->prev = NULL;
    l->next = s->lazies;
    if (l->next) l->next->prev = l;
    s->lazies = l;
    s->refs++;
    __atomic_store_n(&st->lazy, l, __ATOMIC_RELEASE);
    *out = l;
    return KILN_OK;
}

void lazy_free(struct lazy *l)
{
    struct segment *s = l->seg;
    if (l->prev)
        l->prev->next = l->next;
    else
        s->lazies = l->next;
    if (l->next) l->next->prev = l->prev;
    __atomic_store_n(&l->storage->lazy, NULL, __ATOMIC_RELEASE);
    if (l->outside) storage_unref(l->storage);
    vec_free(&l->shown);
    free(l);
    if (!s->lazies && s->ended && !s->busy) segment_forget_inputs(s, 0);
    segment_unref(s);
}

kiln_status lazy_show(struct lazy *l, const struct type *type, const struct layout *layout, const struct ref *value)
{
    struct shown s = {*type, *layout, *value};
    return vec_push(&l->shown, s);
}

void segment_release(struct storage *s)
{
    auto_lock();
    if (s->lazy) lazy_free(s->lazy);
    auto_unlock();
}

// Nodes of the tape know the step that left them.

static void drop_tag(void *segment)
{
    auto_lock();
    segment_unref(segment);
    auto_unlock();
}

void auto_tag(struct auto_walk *w, const struct auto_step *s, struct tape_node *n)
{
    w->seg->refs++;
    n->held = w->seg;
    n->held_place = s;
    n->drop = drop_tag;
}

bool auto_is_tagged(const struct tape_node *n)
{
    return n->drop == drop_tag;
}
