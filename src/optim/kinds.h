// Making an optimiser from a row and numbers, and what formulas share.
#pragma once
#include "optim/optim.h"

// Checks the numbers, adds handles on the parameters and state. NULL with an error pending.
kiln_optim *optim_make(const struct optim_kind *kind, const struct optim_numbers *numbers, kiln_tensor *const *params,
                       size_t n);
// p += minus_rate direction.
kiln_status optim_descend(kiln_tensor *p, kiln_tensor *direction, const struct optim_step *s);
// g + weight_decay p, or g where there is none or it is decoupled.
kiln_tensor *optim_decayed(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g);
// Decoupled decay, before the update.
kiln_status optim_shrink(const struct optim_group *o, kiln_tensor *p, const struct optim_step *s);
// g in f32 at least: the squares of small gradients would vanish in f16.
kiln_tensor *optim_wide(kiln_tensor *g);
// The corrections of both moments of Adam as two numbers: with s^2 = 1 - beta2^t and c = 1 - beta1^t,
// lr (m / c) / (sqrt(v / s^2) + eps) = (lr s / c) m / (sqrt(v) + s eps).
double optim_adam_s(const struct optim_group *o);
double optim_adam_eps(const struct optim_group *o);
double optim_adam_c(const struct optim_group *o);
