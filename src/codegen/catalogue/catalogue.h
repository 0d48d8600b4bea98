// The catalogue of kernels, built from the tables: every row in every compute class, with its expression. The build's
// generator and the tools that show kernels use it; running ops never does.
#pragma once
#include "codegen/catalogue/kernel.h"
#include "ops/families.h"
#include "ops/row.h"

// A gradient row: hidden op `source.gradN` over some of the source's inputs, its result and dy.
struct gradient_row {
    char name[64];
    int source, input; // elementwise row and which of its inputs
    int n_in;
    uint8_t from[5]; // input index, GRADIENT_Y or GRADIENT_DY
    const char *in_names[5];
    const char *expr;
    bool passes; // the gradient is dy itself: no op
};

// One catalogue entry, with its expression unless it is hand-written.
struct catalogue_kernel {
    bool present;
    struct kernel_info info;
    struct kernel kernel; // POINTWISE and ROW
    const char *symbol;   // "mul_grad0_f32"
};

struct catalogue {
    struct arena arena;
    struct gradient_row *gradients;
    int n_gradients, n_families;
    struct catalogue_kernel *kernels; // n_families * CLASS_COUNT
};

kiln_status
catalogue_init(struct catalogue *g); // tables -> gradients and kernels; a mistake in a row is an error naming it
void catalogue_finish(struct catalogue *g);
