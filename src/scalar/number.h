// One element in memory, as a value of its dtype's compute class: what a load and a store of a kernel do, on the host.
#pragma once
#include "base/dtype.h"
#include "scalar/scalar.h"

enum scalar_class dtype_class(unsigned dtype); // the compute class of a storage dtype
union scalar_value number_read(unsigned dtype, const void *at);
void number_write(unsigned dtype, void *at, union scalar_value v); // floats round to nearest even, integers wrap
// What a store and a load in between make of a value.
union scalar_value number_stored(unsigned dtype, union scalar_value v);
double number_of_dtype(unsigned dtype, union scalar_value v);
// A number as an integer of the dtype's class: saturating at 64 bits, NaN as 0.
int64_t number_whole(unsigned dtype, double v);
double number_as_double(enum scalar_class cls, union scalar_value v);
