// Inside fusion: groups of roots, each of which is one kernel, while they are found. See groups.c.
#pragma once
#include "fuse/roots.h"

enum { MAX_GROUP = 64 }; // roots

struct group {
    int32_t *roots; // in order
    int n;          // 0: merged into another
    struct fused_kernel *k;
    double bytes, steps; // that its kernel moves and computes
    bool anchored;       // around a product
};

struct pair {
    int32_t a, b; // roots
    double bytes;
};

struct fuser {
    const struct units *u;
    const struct device_caps *caps;
    const struct fuse_options *o;
    struct fuse_schedule *out;
    struct roots r;
    struct group *groups; // by first root
    int32_t *group_of;    // by root; -1: it runs by itself
    bool *inside;         // by unit, while a set is tried
    bool *escapes;        // by buffer, while a set is tried
    int32_t *mark;        // by root: visited by search n
    int32_t search;
    int32_t *stack, *queue; // of a search
    // By root: the last root of all groups that begin up to here, the first of all that end from here on.
    int32_t *reach, *reach_back;
    const char **why;   // by root
    int32_t *units;     // of the set that is tried
    bool for_attention; // while rows and their product are tried
    bool prologues;     // products may take in what makes their operands
    VEC(struct pair) pairs;
};

static inline const struct unit *group_unit(const struct fuser *f, int32_t i)
{
    return &f->u->v.v[i];
}

static inline uint32_t result_of(const struct fuser *f, int32_t unit)
{
    return group_unit(f, unit)->l.operands[group_unit(f, unit)->n_in].slot;
}

// What runs as one: a group by its first root, or a root.
static inline int32_t whole_of(const struct fuser *f, int32_t root)
{
    return f->group_of[root] >= 0 ? f->group_of[root] : root;
}

static inline const int32_t *roots_of(const struct fuser *f, const int32_t *whole, int *n)
{
    bool grouped = f->group_of[*whole] >= 0;
    *n = grouped ? f->groups[*whole].n : 1;
    return grouped ? f->groups[*whole].roots : whole;
}

// --- group_path.c ---

// Whether a path leads from group `from` to group `to` through another one.
bool group_path_between(struct fuser *f, int32_t from, int32_t to);
void group_find_reach(struct fuser *f);
void group_set_reach(struct fuser *f, int32_t whole); // after a merge into it

// --- group_merge.c ---

// The roots and what they inline into f->units, in order, once each; how many. Marks them in f->inside.
int group_gather(struct fuser *f, const int32_t *roots, int n_roots);
// The kernel of these roots, and what it costs. NULL without an error: *why says why there is none.
kiln_status group_try(struct fuser *f, const int32_t *roots, int n_roots, struct group *out, const char **why);
void group_merge_lists(const struct group *a, const struct group *b, int32_t *out);
// Makes the groups of two roots one, if that is worth it; says in f->why if it is not.
kiln_status group_merge(struct fuser *f, int32_t x, int32_t y, bool *done);

// --- plan.c ---

struct fuse_plan *group_plan(const struct fuser *f, size_t *size_B); // allocated; NULL: out of memory
// Groups as the plan has them, each of them built. Not *done: it cannot be followed, and what it has left is to be
// forgotten.
kiln_status group_follow(struct fuser *f, const struct fuse_plan *p, size_t size_B, bool *done);
void group_forget(struct fuser *f);

// --- group_attention.c ---

kiln_status group_find_attention(struct fuser *f);

// --- group_order.c: the steps ---

kiln_status group_order(struct fuser *f);
bool group_is_kernel_alone(const struct fuser *f, int32_t root); // though it is one unit
