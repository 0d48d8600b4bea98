// KILN_DUMP=DIR: a folder for each program that is made, with its graph before and after passes, its kernels and its
// plan. What cannot be written is warned of once and stops nothing.
#pragma once
#include "base/str.h"
#include "fuse/fuse.h"
#include "pass/pass.h"

struct kiln_device;
struct dump;

// NULL where KILN_DUMP is not set; all that follows takes that NULL and does nothing.
struct dump *dump_open(const char *name);
void dump_close(struct dump **d);

void dump_graph(struct dump *d, const char *stage, const struct kiln_graph *g);
void dump_pass(void *d, const struct pass_stats *s, const struct kiln_graph *g); // pass_options.each
void dump_steps(struct dump *d, const struct units *u, const struct fuse_schedule *schedule, struct kiln_device *dev);
void dump_text(struct dump *d, const char *file, const struct str *text);
