// What a program's function finds at each call: bases, views of them, parameters, numbers.
#pragma once
#include "fuzz.h"

void world_open(struct run *r);
// Makes what differs at this call, and its inputs.
void world_before_call(struct run *r);
// Values as a base has them.
void world_dims(const struct program *p, const struct source *s, int call, int64_t *dims);
// The sources as the function sees them, of its inputs and of what it reaches.
void world_values(struct run *r, kiln_tensor *const *in, kiln_tensor **values);
size_t world_inputs(struct run *r, kiln_tensor **in);
// The inputs that calls give away, by number.
kiln_ints world_given(const struct program *p, int64_t *numbers);
bool is_input(const struct source *s);
