// Objects made callable.
#pragma once
#include "codegen/llvm/llvm.h"
#include <llvm-c/TargetMachine.h>

// A machine of the host's kind that knows nothing of its processor, and so is made at once. NULL: an error is set.
LLVMTargetMachineRef machine_for_linking(void);

kiln_status load_object(const struct codegen_code *code, struct llvm_function *out);
void unload_object(struct llvm_function *f);
