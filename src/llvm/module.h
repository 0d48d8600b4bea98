// A module of LLVM's on its way: opened, filled by an emitter, checked, made an object.
#pragma once
#include "llvm/emit.h"

#include <llvm-c/TargetMachine.h>

// The caller ends it with unbuild, also after an error.
kiln_status open_module(struct emitter *e, const char *name, LLVMTargetMachineRef *machine);
void *tables_make(struct emitter *e); // for e->k; NULL: no memory; to be freed
void set_attributes(struct emitter *e);
kiln_status verify(struct emitter *e);
kiln_status run_passes(struct emitter *e, const char *passes, LLVMTargetMachineRef machine);
kiln_status to_object(struct emitter *e, LLVMTargetMachineRef machine, struct codegen_code *code);
void unbuild(struct emitter *e, LLVMTargetMachineRef machine);

// series.c
kiln_status compile_series(const struct llvm_series *s, struct codegen_code *code);
