// Objects made callable.
#pragma once
#include "codegen/llvm.h"

kiln_status load_object(const struct codegen_code *code, struct llvm_function *out);
void unload_object(struct llvm_function *f);
