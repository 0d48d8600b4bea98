// Where the user's code called the library: found on failure by walking the stack, resolved to "file.c:42".
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CALLER_TEXT_MAX = 160 };

// An address inside the call instruction in the innermost frame outside libkiln; 0 when the stack has none, as on the
// library's own threads. Costs a stack walk. Graph nodes may keep the address and have it described later.
uintptr_t caller_find(void);

// Whether this code is libkiln's.
bool caller_is_library(uintptr_t address);

// Writes "train.c:42", or "train+0x1085" when the program has no debug information, and returns its length. Writes ""
// and returns 0 for address 0. Answers are remembered. Thread-safe.
size_t caller_describe(uintptr_t address, char *out, size_t size_B);
