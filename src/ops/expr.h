// The texts of rows as typed expressions.
#pragma once
#include "base/arena.h"
#include "ops/row.h"

const char *elementwise_input_name(int n_in, int i); // "x" of one, else "a", "b", "c"
// The text of a row for a class: integers and bool may have their own.
const char *elementwise_expr(const struct op_elementwise *e, enum scalar_class cls);
// "x t:i64" into parameters; a name without a class has `cls`. Returns how many.
int expr_params(struct arena *a, const char *text, enum scalar_class cls, struct scalar_param *out);
// Parsed, with `$T` standing for the class's name.
kiln_status expr_parse(struct arena *a, const char *text, const struct scalar_param *params, int n_params,
                       enum scalar_class cls, struct scalar_dag *out);
