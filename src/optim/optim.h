// What an optimiser is made of; shared by the files of this folder.
#pragma once
#include "base/options.h"
#include "base/base.h"
#include <kiln/optim.h>

#define MAX_SLOTS 3
#define WHOLE_MAX 4

struct kiln_optim;
struct optim_group;

// The numbers of a formula; a kind names those that it has (struct optim_field).
struct optim_numbers {
    double lr, momentum, weight_decay, dampening, beta1, beta2, eps, eps2, decay, clip, start;
    bool nesterov, decoupled;
    int64_t steps; // of an iteration inside of the formula
};

// The numbers of a step, scalars: minus the rate at which the parameters move, eps, by what decay multiplies them, and
// one of the kind's own, or NULL.
struct optim_step {
    kiln_tensor *minus_rate, *eps, *decay, *more;
};
// Moves p by its gradient g. slots: the state tensors of this parameter, which may be replaced.
typedef kiln_status (*optim_update_fn)(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                                       const struct optim_step *s);
typedef double (*optim_number_fn)(const struct optim_group *o);

// A number that may be chosen, and from where to where: in [0, end), with `closed` in [0, end].
struct optim_field {
    const char *name;
    size_t at; // in struct optim_numbers
    double end;
    bool closed;
};
#define OPTIM_FIELD(name, member, ...)                            \
    {                                                             \
        name, offsetof(struct optim_numbers, member), __VA_ARGS__ \
    }

// One row a kind of optimiser.
struct optim_kind {
    const char *name;
    optim_update_fn update;
    const char *slots[MAX_SLOTS];     // what is kept beside a parameter, by name
    optim_number_fn rate;             // of a step; NULL: the learning rate
    optim_number_fn eps;              // of a step; NULL: always the same
    optim_number_fn more;             // of a step; NULL: none
    const struct optim_field *fields; // up to one without a name
    // The shape of slot j beside p, in dims, which has p's; false: p has no such slot. NULL: p's.
    bool (*slot_dims)(kiln_tensor *p, size_t j, int64_t *dims);
    // Whether it can move p, the i-th parameter; NULL: any.
    kiln_status (*accepts)(const char *name, kiln_tensor *p, size_t i);
    // Of a kind that moves all parameters together, instead of `update`, and what it does with a closure.
    kiln_status (*whole)(struct kiln_optim *opt, const struct optim_step *s);
    kiln_status (*closure)(struct kiln_optim *opt, kiln_closure_fn fn, void *user, double *loss);
};

struct optim_group {
    struct kiln_optim *opt;
    size_t n, first;      // first: the number of its first parameter in the optimiser
    kiln_tensor **params; // n
    kiln_tensor **slots;  // n * opt->n_slots; NULL where a parameter has none
    char **names;         // of the slots
    struct optim_numbers o;
    bool own_rate; // numbers.lr or its schedule, not the optimiser's
    double scale;  // of the rate
    double lr_now; // of the step in progress
    kiln_schedule *schedule;
};

struct kiln_optim {
    struct optim_kind kind; // by value: an sgd without momentum keeps nothing
    size_t n_slots, n_groups;
    struct optim_group **groups; // each where it stays: captured steps ask it for numbers
    int64_t steps;
    double lr; // without a schedule
    kiln_schedule *schedule;
    // Of kinds that move all parameters together.
    kiln_tensor *whole[WHOLE_MAX];
    const char *whole_names[WHOLE_MAX];
    struct optim_search {
        int64_t iterations, evaluations;
        double tolerance_grad, tolerance_change;
        bool fixed; // steps of the learning rate, no search
    } search;
};

// The rate of the group's next step.
double optim_group_rate(const struct optim_group *g);
// The new state takes the place of the old one, outside the scope of the step. In a graph it is the memory that stays.
kiln_status optim_replace(kiln_tensor **slot, kiln_tensor *next);
// A new state tensor, outside of all scopes.
kiln_tensor *optim_state_tensor(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double fill);
// The numbers of a step of this group.
kiln_status optim_begin_step(struct optim_group *g, struct optim_step *s);
