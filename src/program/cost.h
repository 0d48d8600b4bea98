// What a run of a program costs.
#pragma once
#include "program/impl.h"

double cost_flops(const struct kiln_graph *g); // two for each product that is added
// Of the nodes from there on. In regions that are being recorded one trip counts.
double cost_flops_from(const struct kiln_graph *g, size_t first);
double cost_moved_B(const struct program *p);                   // read and written by launches
double cost_access_B(const struct fused_kernel *k, int access); // elements that it touches, each once
int cost_kernels(struct program *p); // made of its graph, each once; sorts those that it holds
