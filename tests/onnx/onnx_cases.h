// Models with inputs and the outputs that they are to give: from a packed file, or folders of ONNX's own tests.
#pragma once
#include "onnx/onnx.h"
#include <kiln/kiln.h>

enum { CASE_TENSORS_MAX = 32 };

struct onnx_case {
    const char *name;
    const char *model; // a path
    kiln_tensor *in[CASE_TENSORS_MAX], *want[CASE_TENSORS_MAX];
    size_t n_in, n_want;
};

// UNKNOWN: eagerly alone, for a shape depends on values.
enum onnx_outcome { CASE_PASSED, CASE_UNKNOWN, CASE_UNSUPPORTED, CASE_FAILED, CASE_OUTCOMES };

// Eagerly, then captured twice. What went wrong, and how far results were off, go to `why`.
enum onnx_outcome run_onnx_case(kiln_device *dev, const struct onnx_case *c, char *why, size_t why_B);

// A TensorProto as a tensor on dev; NULL with an error.
kiln_tensor *onnx_case_tensor(kiln_device *dev, const unsigned char *bytes, size_t size_B);
unsigned char *read_bytes(const char *path, size_t *size_B); // from malloc; NULL: there is no such file
// How many models that agreed were written as models again, which then agreed, and how many could not be.
void onnx_case_written(size_t *n, size_t *refused);
double onnx_case_seconds(void); // of a captured call, where $KILN_TEST_ONNX_TIME is set
double onnx_case_worst(void);   // the largest difference in the last case, relative to its bound
