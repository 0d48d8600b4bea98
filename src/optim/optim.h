// What an optimiser is made of; shared by the files of this folder.
#pragma once
#include "base/options.h"
#include "base/base.h"
#include <kiln/optim.h>

#define MAX_SLOTS 2

struct kiln_optim;

// The numbers of a step, scalars: minus the rate at which the parameters move, eps, and by what decay multiplies them.
struct optim_step {
    kiln_tensor *minus_rate, *eps, *decay;
};
// Moves p by its gradient g. slots: the state tensors of this parameter, which may be replaced.
typedef kiln_status (*optim_update_fn)(const struct kiln_optim *opt, kiln_tensor *p, kiln_tensor *g,
                                       kiln_tensor **slots, const struct optim_step *s);

// One row a kind of optimiser.
struct optim_kind {
    const char *name;
    optim_update_fn update;
    const char *slots[MAX_SLOTS];                 // what is kept beside a parameter, by name
    double (*rate)(const struct kiln_optim *opt); // of a step; NULL: the learning rate
    double (*eps)(const struct kiln_optim *opt);  // of a step; NULL: always the same
};

struct kiln_optim {
    struct optim_kind kind; // by value: an sgd without momentum keeps nothing
    size_t n, n_slots;
    kiln_tensor **params; // n
    kiln_tensor **slots;  // n * n_slots
    char **names;         // of the slots
    int64_t steps;
    double lr;     // without a schedule
    double lr_now; // of the step in progress
    kiln_schedule *schedule;
    double momentum, weight_decay, dampening, beta1, beta2, eps;
    bool nesterov, decoupled;
};
