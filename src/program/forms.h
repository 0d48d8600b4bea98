// What was found out while graphs were compiled, for graphs that differ from them in sizes alone: which passes have
// something to do, and what becomes one kernel. A function has one such table for all its programs; what it does not
// know may lie on disk, if it was found out about the very same graph. Safe from several threads.
#pragma once
#include "fuse/fuse.h"
#include "pass/pass.h"

struct program_forms;
struct program_forms *program_forms_new(void); // NULL and an error: out of memory
struct program_forms *program_forms_ref(struct program_forms *f);
void program_forms_unref(struct program_forms **f);

// All take NULL for a table, which knows nothing and keeps nothing but what is on disk.

// Whether a graph of this form was compiled before.
bool program_forms_know(struct program_forms *f, const struct kiln_graph *g);
// pass_run_all, or what it did for a graph of this form.
kiln_status program_forms_run_passes(struct program_forms *f, struct kiln_graph **g, const struct pass_options *o);
// fuse, by what was decided about units of this form. `name`: of the program, for people; may be NULL.
kiln_status program_forms_fuse(struct program_forms *f, const char *name, const struct units *u, const kiln_device *dev,
                               const struct fuse_options *o, struct fuse_schedule *out);
