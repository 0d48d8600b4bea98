// The texts of rows as typed expressions.
#pragma once
#include "base/arena.h"
#include "ops/row.h"

const char *elementwise_input_name(int n_in, int i); // in expressions: "x" of one, else "a", "b", "c"
// What users call input i, and the input that the public function takes at place k.
const char *elementwise_public_name(const struct elementwise_row *r, int i);
int elementwise_parameter(const struct elementwise_row *r, int k);
// Input i of an elementwise op as its expression names it: hidden gradients have names of their own.
const char *elementwise_name_in_expr(const struct op *op, int i);
// The text of a row for a class: integers and bool may have their own.
const char *elementwise_expr(const struct op_elementwise *e, enum scalar_class cls);
// "x t:i64" into parameters; a name without a class has `cls`. Returns how many.
int expr_params(struct arena *a, const char *text, enum scalar_class cls, struct scalar_param *out);
// Parsed, with `$T` standing for the class's name.
kiln_status expr_parse(struct arena *a, const char *text, const struct scalar_param *params, int n_params,
                       enum scalar_class cls, struct scalar_dag *out);
