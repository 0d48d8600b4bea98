// A profile as a table: launches and copies, put together by kernel, op, line or cell.
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "device/profile.h"

enum { TABLE_DEVICES = 32 };

struct table_device {
    char name[128], kind[16];
    double peak_B;
    double copy_B_per_s, flop_per_s; // at best; 0: not known
};

// Spans of the host, which are not of the table.
struct table_other {
    const char *category;
    double n, total_us;
};

struct table_row {
    uint64_t hash;
    const char *key;
    double n, total_us;
    double bytes, flops;
    bool flops_known; // of one of them at least
    double least_us;  // that devices need for their bytes and operations, where ceilings are known
    double bound_us;  // the part of total_us of which this is known
};

struct profile_table {
    struct arena arena; // keys
    kiln_profile_by by;
    VEC(struct table_row) rows;
    uint32_t *slots; // 1 + number, by hash
    size_t n_slots;
    struct table_device devices[TABLE_DEVICES];
    int n_devices;
    struct table_other others[8];
    int n_others;
    double lost;
};

void table_init(struct profile_table *t, kiln_profile_by by);
void table_finish(struct profile_table *t);
// Devices before spans, so that their ceilings count.
struct table_device *table_device(struct profile_table *t, const char *name); // NULL: it is not known
struct table_device *table_add_device(struct profile_table *t, const char *name, const char *kind); // NULL: no room
kiln_status table_add(struct profile_table *t, const struct profile_row *row);
// The longest first. The first `top`, and the others as one; 0: all.
void table_print(struct profile_table *t, const kiln_profile_print_opts *o, struct str *out);

// profile_read.c: the profile that lies in a file, into a table: devices, then spans. `ceilings` is asked for each
// device once they are known.
kiln_status profile_read(const char *path, struct profile_table *t, void (*ceilings)(struct table_device *));
