// The families that the generator links against look at tables that it is about to write: here they are empty.
#include "ir/op.h"

const struct kernel_info kernel_catalogue[1];
const int kernel_count = 0;
const struct op *const op_table[1];
const int op_count = 0;
