// What an optimiser is made of; shared by the files of this folder.
#pragma once
#include "base/base.h"
#include <kiln/optim.h>

#define MAX_SLOTS 2

struct kiln_optim;

// Moves p by its gradient g. slots: the state tensors of this parameter, which may be replaced. lr: of this step.
typedef kiln_status (*optim_update_fn)(const struct kiln_optim *opt, kiln_tensor *p, kiln_tensor *g,
                                       kiln_tensor **slots, double lr);

// One row a kind of optimiser.
struct optim_kind {
    const char *name;
    optim_update_fn update;
    const char *slots[MAX_SLOTS]; // what is kept beside a parameter, by name
};

struct kiln_optim {
    struct optim_kind kind; // by value: an sgd without momentum keeps nothing
    size_t n, n_slots;
    kiln_tensor **params; // n
    kiln_tensor **slots;  // n * n_slots
    char **names;         // of the slots
    int64_t steps;
    double lr; // without a schedule
    kiln_schedule *schedule;
    double momentum, weight_decay, dampening, beta1, beta2, eps;
    bool nesterov, decoupled;
};

static inline double option_or(double v, double fallback)
{
    return v == 0 ? fallback : v == KILN_ZERO ? 0 : v;
}
