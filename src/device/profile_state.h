// What a profile has noted. All of it is read and changed with the lock of profile.c.
#pragma once
#include "base/vec.h"
#include "device/profile.h"
#include <stdio.h>

enum { PROFILE_NAME_B = 64, PROFILE_PLACES = 16, PROFILE_EVENTS_MAX = 1 << 20 };

struct profile_event {
    uint64_t start_ns, end_ns;
    uint32_t track, label;
};

struct profile_count {
    uint64_t at_ns, used_B;
    uint32_t device;
};

// What the spans of one kind have in common, and how long they are together.
struct label {
    uint64_t hash;
    const char *category;
    char name[PROFILE_NAME_B];
    char *op, *in, *out;      // "": none
    int32_t device;           // -1: none
    double read_B, written_B; // 0: not known
    double flops;             // negative: not known
    uintptr_t places[PROFILE_PLACES];
    int n_places;
    bool has_facts;
    uint64_t n, total_ns;
};

struct profiled_device {
    char name[128], kind[16];
    uint64_t peak_B; // since the profile began
};

struct labels {
    struct label **v;
    size_t n, cap;
    uint32_t *slots; // 1 + number, by hash
    size_t n_slots;
};
// The number of the label, new or known; -1 where memory is out, or there are too many.
int64_t labels_find(struct labels *l, const struct label *key, const struct launch_facts *facts);
void labels_free(struct labels *l);

enum { DEVICES_MAX = 32 };
struct profile {
    FILE *file;
    char path[512];
    uint64_t from_ns, n_lost;
    struct profile_event *events;
    size_t n, cap;
    struct profile_count *counts;
    size_t n_counts, cap_counts;
    struct labels labels;
    struct profiled_device devices[DEVICES_MAX];
    int32_t n_devices;
};

struct track {
    char name[PROFILE_NAME_B];
};
// Where the spans of a label come from.
enum { PROFILE_LINES_B = 512 };
struct label_places {
    char line[PROFILE_LINES_B], lines[PROFILE_LINES_B]; // of the result; all, with ", " between
    char cells[PROFILE_LINES_B];
    bool backward;
};
void label_places(const struct label *l, struct label_places *out);
// Writes the file, whose n_tracks tracks these are.
void profile_write(FILE *f, const struct profile *p, const struct track *tracks, uint32_t n_tracks);
