// A program while it is made: its units, then its actions, then where its buffers lie.
#pragma once
#include "program/dump.h"
#include "program/impl.h"

struct program_maker {
    struct program *p;
    const struct kiln_graph *g;
    struct kiln_graph *simplified; // g, once passes have run
    const struct program_options *o;
    struct dump *dump; // NULL: not asked for
    struct units units;
    struct fuse_schedule schedule;
    struct jit_kernel **ahead; // by step: compiled already
    VEC(struct action) actions;
    int32_t last_to_fail;      // of the actions, by an index or a number; -1: none can
    program_create_fn *create; // of children
    void (*destroy)(struct program **p);
};

// actions.c: the actions of the steps from this one that make one action, or of its units one by one where no code can
// be had; how many steps these are, through *n.
kiln_status maker_add_steps(struct program_maker *m, size_t first, int *n);

void action_finish(kiln_device *dev, const struct action *a, void (*destroy)(struct program **p));
// trips.c: where one kernel can make the trips of the loop, it becomes the schedule.
kiln_status maker_take_trips(struct program_maker *m, const struct fuse_options *fo);

// after.c: products and what goes on with their results become pairs, one launch each.
kiln_status maker_pair_products(struct program_maker *m);

// places.c
kiln_status maker_place_all(struct program_maker *m);
kiln_status maker_make_zeroed(struct program_maker *m); // the memory of workspaces that must be zero
kiln_status maker_add_outputs(struct program_maker *m);
