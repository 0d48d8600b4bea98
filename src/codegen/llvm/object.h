// Objects of llvm_compile made callable without LLVM, whose start takes longer than all kernels of a program.
#pragma once
#include "codegen/llvm/llvm.h"

// Only what such objects hold is known: code and constants, which point to each other and to nothing else. False
// without an error for any other object, and where there is no memory that may hold code: LLVM's linker may know.
bool object_load(const struct codegen_code *code, struct llvm_function *out);
void object_unload(struct llvm_function *f);
