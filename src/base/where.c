// The table of places and what this thread is at.
#include "base/where.h"
#include "base/base.h"
#include "base/caller.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Places beyond addresses of code: the upper half of the numbers, which no program has.
enum { BLOCK = 256, BLOCKS = 256, SLOTS = 1 << 17 };
#define NUMBERED (UINTPTR_MAX / 2 + 1)

struct op_place {
    uintptr_t address;
    const char *cell;
    bool backward;
};

// By a key, for it is asked for rarely, and thread storage of a library is short.
struct present {
    struct where_cell cell;
    uintptr_t given;
    uintptr_t address, place; // the last one asked for in this run of the cell, and its number; 0: none
};
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_key(void)
{
    pthread_key_create(&key, NULL);
}

static void drop(void)
{
    free(pthread_getspecific(key));
    pthread_setspecific(key, NULL);
}

static struct present *find_present(void)
{
    pthread_once(&once, make_key);
    return pthread_getspecific(key);
}

// NULL when memory is out: places are told without what it would hold.
static struct present *make_present(void)
{
    struct present *p = find_present();
    if (p) return p;
    p = calloc(1, sizeof *p);
    if (p && pthread_setspecific(key, p)) {
        free(p);
        return NULL;
    }
    if (p) thread_at_end(THREAD_PLACE, drop);
    return p;
}

struct where_cell where_enter_cell(struct where_cell cell)
{
    struct present *p = make_present();
    struct where_cell before = p ? p->cell : (struct where_cell){NULL, NULL};
    if (p) p->cell = cell;
    if (p) p->address = 0;
    return before;
}

uintptr_t where_give(uintptr_t place)
{
    struct present *p = place ? make_present() : find_present();
    uintptr_t before = p ? p->given : 0;
    if (p) p->given = place;
    return before;
}

// What is in the table stays where it is, so that it is read without the lock.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_where, lock)
static struct op_place *blocks[BLOCKS];
static uint32_t n_places;
static uint32_t *slots; // 1 + number, by hash; 0: free

static const struct op_place *place_at(uintptr_t place)
{
    uintptr_t i = place - NUMBERED;
    return place < NUMBERED ? NULL : &blocks[i / BLOCK][i % BLOCK];
}

static bool is_same(const struct op_place *a, uintptr_t address, const char *cell, bool backward)
{
    return a->address == address && a->backward == backward && !strcmp(a->cell, cell);
}

// 0: memory or the table is out.
static uintptr_t add(uintptr_t address, const char *cell, bool backward)
{
    if (n_places == BLOCK * BLOCKS) return 0;
    struct op_place **block = &blocks[n_places / BLOCK];
    if (!*block) *block = calloc(BLOCK, sizeof **block);
    char *text = *block ? strdup(cell) : NULL;
    if (!text) return 0;
    (*block)[n_places % BLOCK] = (struct op_place){address, text, backward};
    return NUMBERED + n_places++;
}

static uintptr_t number_of(uintptr_t address, const char *cell, bool backward)
{
    uintptr_t found = 0;
    size_t slot = (hash_str(cell) ^ (address * 31 + backward)) % SLOTS;
    pthread_mutex_lock(&lock);
    if (!slots) slots = calloc(SLOTS, sizeof *slots);
    for (; slots && slots[slot] && !found; slot = (slot + 1) % SLOTS) {
        uintptr_t place = NUMBERED + slots[slot] - 1;
        if (is_same(place_at(place), address, cell, backward)) found = place;
    }
    if (slots && !found) {
        found = add(address, cell, backward);
        if (found) slots[slot] = (uint32_t)(found - NUMBERED) + 1;
    }
    pthread_mutex_unlock(&lock);
    return found ? found : address;
}

uintptr_t where_now(void)
{
    char cell[192] = "";
    struct present *p = find_present();
    if (p && p->given) return p->given;
    uintptr_t address = caller_find();
    if (!p || !p->cell.describe) return address;
    if (p->address == address && address) return p->place;
    p->cell.describe(p->cell.cell, cell, sizeof cell);
    p->place = number_of(address, cell, false);
    p->address = address;
    return p->place;
}

uintptr_t where_backward_of(uintptr_t place)
{
    return place ? number_of(where_address(place), where_cell_of(place), true) : 0;
}

uintptr_t where_address(uintptr_t place)
{
    const struct op_place *p = place_at(place);
    return p ? p->address : place;
}

const char *where_cell_of(uintptr_t place)
{
    const struct op_place *p = place_at(place);
    return p ? p->cell : "";
}

bool where_is_backward(uintptr_t place)
{
    const struct op_place *p = place_at(place);
    return p && p->backward;
}

size_t where_describe(uintptr_t place, char *out, size_t size_B)
{
    char line[CALLER_TEXT_MAX];
    const char *cell = where_cell_of(place);
    caller_describe(place, line, sizeof line);
    bool backward = where_is_backward(place);
    int n = snprintf(out, size_B, "%s%s%s", line, backward ? ", in the backward" : "", *cell && backward ? " of " : "");
    size_t len = n < 0 ? 0 : (size_t)n < size_B ? (size_t)n : size_B - 1;
    if (*cell) snprintf(out + len, size_B - len, backward ? "%s" : ", in %s", cell);
    return strlen(out);
}
