// Models of other formats: of ONNX, whose function is code that goes through the nodes of the file.
#pragma once
#include "model/model.h"

bool foreign_is(const char *path); // by what the file begins with; false where it cannot be read
kiln_model *foreign_import(kiln_device *dev, const char *path);
kiln_function *foreign_function(struct model *m, const char *name);
