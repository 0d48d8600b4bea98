// What a training keeps: everything that a checkpoint has to hold of a program.
#pragma once
#include "train/training.h"
#include <kiln/io.h>

enum kept_kind {
    KEPT_CELL,
    KEPT_OPTIM,
    KEPT_AVERAGE,
    KEPT_LOADER,
    KEPT_GENERATOR,
    KEPT_TENSOR,
    KEPT_INT,
    KEPT_DOUBLE,
};

struct train_kept {
    enum kept_kind kind;
    char *name;
    union {
        kiln_cell *cell;
        kiln_optim *opt;
        kiln_average *average;
        kiln_loader *loader;
        kiln_generator *generator;
        kiln_tensor *tensor; // a handle of the training's own
        int64_t *whole;
        double *number;
    };
};

// Tensors by the names that they have in a checkpoint; tensors are borrowed.
struct kept_tensors {
    size_t n;
    char **names;
    kiln_tensor **tensors;
};

// All, or those that a model is evaluated with.
kiln_status kept_list(const kiln_training *t, bool weights, struct kept_tensors *out);
void kept_list_free(struct kept_tensors *list);
// What is no tensor: into a checkpoint, and out of it; without `set` it is only looked whether it is there.
kiln_status kept_put(const kiln_training *t, kiln_checkpoint *c);
kiln_status kept_get(const kiln_training *t, const kiln_checkpoint *c, bool set);
// "cell net, optimiser opt": equal where the same is kept.
kiln_status kept_text(const kiln_training *t, struct str *s);
