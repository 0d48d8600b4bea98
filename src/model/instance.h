// From texts to a captured function: one instance of it, for the inputs of a call.
#pragma once
#include "model/model.h"

struct model_instance {
    const struct model *m;
    const struct model_function *f;
    const struct capture_request *q;
    struct interface face; // for the sizes of this call
    struct captured *c;
    int32_t *input_values; // of the graph, by source
};

// "<function>: ", then what of its file does not hold; KILN_E_FORMAT.
kiln_status instance_fails(const struct model_instance *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Named constants are the weights of these names.
kiln_status instance_bind_constants(struct model_instance *in, struct kiln_graph *g);
// Whether a place of the tape is asked for, and the graph backward.
kiln_status instance_make_gradient(struct model_instance *in, struct kiln_graph *backward);
bool instance_wants_gradient(const struct model_instance *in);
const struct type *instance_output_type(const struct model_instance *in, int32_t output); // NULL: there is none
// Symbols of prints and assertions as the numbers that they have in this process.
typedef VEC(struct ir_size) size_list;
