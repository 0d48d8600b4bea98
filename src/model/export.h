// Functions of a model as files of ONNX.
#pragma once
#include "model/adding.h"
#include "model/misfit.h"

bool export_is_onnx(const char *path); // by its ending
// What of a capture has no form there.
void export_check_capture(const struct adding *a, const struct captured *c, struct misfits *m);
// The only function of a model.
kiln_status export_onnx(const struct model *m, const char *path);

// A function's graph, and what of it a file is made of.
struct exporting {
    const struct model *m;
    const struct model_function *f;
    struct kiln_graph *g;
    VEC(struct onnx_given) given;
    VEC(struct onnx_made) made;
    VEC(const char *) symbols;
    bool *open; // by value of the graph and dimension
    struct onnx_export e;
};
kiln_status exporting_init(struct exporting *x, const struct model *m, const struct ir_sizes *sizes);
void exporting_finish(struct exporting *x);
// export_open.c: finds which sizes of x are open, and makes sure that its nodes are the same for other ones.
kiln_status export_open(struct exporting *x);
