// Counts of instructions in the text of a kernel.
#pragma once
#include <stddef.h>

// SPIR-V as SPIRV-Tools disassembles it; the module's words, or 0 where they are not known.
void stats_spirv(const char *text, size_t n_words);
void stats_llvm(const char *text);
