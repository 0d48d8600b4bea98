// What the calls in the tables of docs/guide/from-pytorch.md and from-jax.md are about; see check_tables.py.
#pragma once
#include <kiln/kiln.h>

extern kiln_tensor *a, *b, *x, *y, *z, *w, *p, *q, *k, *v, *loss, *mask, *ids, *labels, *logits;
extern kiln_tensor *in[2], *out[4], *many[4], *params[8];
extern const char *names[8], *path;
extern size_t n;
extern uint64_t seed, offset;
extern float buffer[8];
extern bool more;
extern void *user;
extern kiln_device *dev;
extern kiln_cell *net, *layer;
extern kiln_optim *opt;
extern kiln_function *f;
extern kiln_loader *loader;
extern kiln_archive *file;
extern kiln_checkpoint *checkpoint;
extern kiln_generator *generator;
extern kiln_device_stats stats;
extern kiln_device_info infos[4];
extern kiln_types types;
extern kiln_cost cost;
extern kiln_training *training;
extern kiln_metric *metric;
extern kiln_bench_result result;
extern struct DLManagedTensor *managed;
extern const kiln_field_spec *const *fields;
extern kiln_fn fn, branches[2];
extern kiln_get_fn get;
extern kiln_bprop_fn rule;
extern kiln_grad_hook grad_hook;
extern kiln_construct_fn construct;
extern kiln_cell_hook_fn forward_hook;
extern uint64_t (*hash)(void *user);
