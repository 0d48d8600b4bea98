// Intel's instructions for matrices.
#pragma once
#include <stdbool.h>

// Why products of bf16 cannot use them, or NULL where they can. Linux gives the registers, 8 KiB, to programs that ask:
// the first call does, for all threads of the process. From then on Linux refuses stacks for signals that could not
// hold them (sigaltstack), and it gives none to a program that has such a stack.
const char *cpu_amx_missing(void);
