// What a file of rules needs, beside the public headers: the list it defines and list.def names.
#pragma once
#include <kiln/grad.h>
#include <kiln/ops.h>

struct rule_list {
    const kiln_rule_spec *specs;
    size_t count;
};
#define RULES(family, specs) const struct rule_list grad_rules_##family = {specs, sizeof specs / sizeof *(specs)}
#define FAMILY(name)         extern const struct rule_list grad_rules_##name;
#include "grad/rules/list.def"
#undef FAMILY

#define RULE(name)                                                                                                 \
    static kiln_status name(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout, \
                            kiln_tensor **din)

// The shape that input `i` had, as the two arguments of kiln_reshape and others.
#define IN_SHAPE(i) kiln_rule_in_shape(i, NULL), rule_in_dims(i)
const int64_t *rule_in_dims(size_t input);
kiln_tensor *rule_keep_dims(kiln_tensor *t); // a reduction's result or gradient with the reduced axes of size 1
int64_t rule_row_length(void);               // how many elements a reduction folds into one
uint32_t rule_axes_mask(void);               // the reduced axes of input 0, from "axes"
