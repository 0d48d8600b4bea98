// Recordings of a program's launches, inside.
#pragma once
#include "program/records.h"

enum {
    RECORDS_SEEN = 4, // values of one quantity
    RECORDS_EACH = 4, // recordings of a piece
};

// An address, or a number of the host, that a run brings.
struct record_value {
    uint64_t bits, more;
};
// By their number: where each buffer lies that has memory of its own, where the arena lies, and the numbers of the
// host.
struct quantity {
    struct record_value seen[RECORDS_SEEN];
    uint8_t n, now; // how many, and which it is in this run
    bool moves;     // it had more: its launches are made anew
    bool is_used;   // of a buffer: launches touch [lo_B, hi_B), from where it lies
    int64_t lo_B, hi_B;
    struct block stand_in; // lies still for it; no address: there is none
    uint64_t base;         // what lies there for the buffer's own base
};

struct recording {
    struct device_record *record; // NULL: free
    uint8_t *key;                 // n_quantities of the piece: which value each has
    uint64_t used;                // run
};
struct record_piece {
    int first, end; // actions
    int32_t *quantities;
    int n_quantities;
    struct recording recordings[RECORDS_EACH];
    uint64_t n_made, n_run;
    bool off;
    struct record_piece *next;
};

struct program_records {
    struct program *p;
    struct quantity *quantities;
    int32_t *of_buffer;          // the quantity
    uint32_t *listed, n_lists;   // by quantity: the list that it was last entered into
    int32_t *uses, *first_use;   // of each action: its quantities; -1: it cannot be recorded
    struct record_piece *pieces; // in order
    struct block arena;          // where temporaries lie; address 0: wherever the heap has room
    uint64_t runs;
    bool planned, off;
};

// records_uses.c
typedef VEC(int32_t) quantity_list;
kiln_status records_find_uses(struct program_records *x);
// Each quantity once between two calls of records_next_list.
kiln_status records_add_use(struct program_records *x, quantity_list *list, int32_t quantity);
void records_next_list(struct program_records *x);
// What this run brings. A quantity with one value too many moves, and what was planned is so no more.
void records_see(struct program_records *x, const struct program_call *r);
static inline int32_t records_arena_number(const struct program *p)
{
    return p->n_buffers;
}

// records_hold.c: what moves is given a place that stays, if that is cheap.
void records_settle(struct program_records *x, const struct program_call *r);
bool records_may_copy(const struct program_records *x, const struct program_call *r); // false: it is also written
kiln_status records_copy_in(const struct program_records *x, const struct program_call *r);
kiln_status records_copy_out(const struct program_records *x, const struct program_call *r);
void records_let_go(struct program_records *x);
