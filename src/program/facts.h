// What the launches of a program do, for profiles: made with the program, so that a profile may begin at any time.
#pragma once
#include "ir/launch_facts.h"
#include "program/maker.h"

// Of the kernels of n steps that are one launch.
kiln_status facts_of_steps(struct program_maker *m, const struct fuse_step *steps, int n, struct launch_facts **out);
// Of the compilation of a graph: its inputs and results, what the program reads, writes and computes, and the line that
// made it.
struct compile_facts {
    struct launch_facts facts;
    uintptr_t place;
    char in[600], out[600];
};
const struct launch_facts *facts_of_graph(const struct kiln_graph *g, const struct program *p, struct compile_facts *f);
// Of a launch that stands for a unit, or a part of it.
kiln_status facts_of_unit(struct program_maker *m, const struct unit *u, const struct launch *l,
                          struct launch_facts **out);
