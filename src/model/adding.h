// From a captured function to texts.
#pragma once
#include "model/model.h"

// The texts of one capture.
struct texts {
    struct str interface, forward, backward; // backward empty: there is none
};
void texts_init(struct texts *t);
void texts_free(struct texts *t);

// A dimension of the function's signature that is open: one for each place, or for each symbol whose places agree.
struct open_dim {
    char name[72];
    struct face_rule rule;       // .name is the same
    const struct symbol *symbol; // NULL: -1
};
struct open_place {
    size_t input;
    int dim;
    size_t open; // which of them
};

struct adding {
    struct model *m;
    kiln_function *f;
    const char *name;
    const char *const *inputs, *const *outputs; // names, or NULL
    kiln_tensor *const *in;
    size_t n_in, n_out;
    bool onnx; // it is for a file of ONNX: what such a file cannot hold is listed, too
    VEC(struct open_dim) open;
    VEC(struct open_place) places;
};

// misfit.c: an error that lists what has no form in a file; `c` is of a.
kiln_status adding_check(const struct adding *a, const struct captured *c);
// user_ops.c: definitions of the user's ops that the graph uses.
kiln_status adding_take_ops(const struct adding *a, const struct kiln_graph *g);
// gather.c: the interface of a capture, with the texts of all. Names constants and sizes in its graphs.
kiln_status adding_gather(struct adding *a, struct captured *c, struct texts *out);
// One capture for these inputs.
kiln_status adding_record(const struct adding *a, kiln_tensor *const *in, struct captured *c);
// fit.c: instead of the texts in `out`, those in which what goes with open dimensions is written as that.
kiln_status fit_texts(struct adding *a, struct texts *out);
// text.c: graphs name calls of the host by symbols.
kiln_status text_name_hosts(const struct model *m, struct str *text);
