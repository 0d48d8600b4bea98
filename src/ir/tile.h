// The pieces in which GPUs work: the one place that knows their sizes. Each kind of kernel has a list of tiles; which
// of them is taken says a table of what was measured on the device, else a start value.
#pragma once
#include "ir/caps.h"

enum tile_kind {
    TILE_PRODUCT, // a square of results of a matrix product that a workgroup computes
    // In kernels of the catalogue:
    TILE_ROW,    // invocations that share a row that is dense in memory
    TILE_COLUMN, // invocations that share a row of those that lie side by side
    TILE_POINT,  // invocations of a workgroup, and fours of points that each has
    TILE_KINDS
};
#define TILE_LISTED 8 // of a kind, at most
extern const char *const tile_kind_names[TILE_KINDS];

struct tile {
    uint16_t size; // product: results along a side; rows: lanes; points: invocations. A power of two; 0: there is none
    uint16_t run;  // product: steps along the sum that are one run of instructions; points: fours; else 1
};
#define TILE_MIDDLE 64 // the middle square of products
// Products of so few multiply-adds have one form, however operands lie and where tiles end: others would gain less than
// they take to compile.
#define SMALL_PRODUCT (1 << 15)

// Work of the same class has the same tile. Sizes of products: m, n, batches; of rows: how many, their length, 1; of
// points: how many, neighbours in an access (1 or 4), 1.
struct tile_work {
    enum tile_kind kind;
    uint8_t cls; // enum scalar_class
    uint64_t sizes[3];
};
enum { TILE_SIDES = 7, TILE_BATCHES = 4, TILE_CLASSES = 5 };
enum { TILE_PLACES = TILE_KINDS * TILE_CLASSES * TILE_SIDES * TILE_SIDES * TILE_BATCHES };
uint32_t tile_place(const struct tile_work *w); // the number of its class, below TILE_PLACES
// The largest work of a class; of one without an end, what a class of the usual width would have.
struct tile_work tile_largest_of(uint32_t place);
struct tile tile_of(enum tile_kind kind, unsigned n);     // of the kind's list, from 1 on
unsigned tile_number(enum tile_kind kind, struct tile t); // 0: the list has none such
// Whether the device has room for it: invocations and shared memory.
bool tile_fits(const struct device_caps *caps, enum tile_kind kind, uint8_t cls, struct tile t);
// Whether it may be the best there: on processors long runs only cost minutes of compiling.
bool tile_is_worth_trying(const struct device_caps *caps, enum tile_kind kind, struct tile t);
uint32_t tile_local(enum tile_kind kind, struct tile t); // invocations of a workgroup

// What was measured. Threads read while one writes, byte by byte.
struct tile_table {
    uint8_t number[TILE_PLACES]; // of the kind's list; 0: not measured
    bool notes;                  // which classes are asked for
    bool forced;                 // it was not measured
    uint8_t asked[TILE_PLACES];
};
static inline void tile_set(struct tile_table *t, uint32_t place, unsigned number)
{
    __atomic_store_n(&t->number[place], (uint8_t)number, __ATOMIC_RELAXED);
}

struct tile tile_start(const struct device_caps *caps, const struct tile_work *w);
struct tile tile_choose(const struct device_caps *caps, const struct tile_work *w); // as measured, else the start value
