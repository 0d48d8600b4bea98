// Addresses to source lines by libdw, which is opened at the first question; programs do not depend on it.
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct dwarf_place {
    const char *path;
    int line;
}; // the path lives as long as the process

// False when there is no libdw or no debug information for the address. Answers are remembered. Thread-safe.
bool dwarf_resolve(uintptr_t address, struct dwarf_place *out);
// Whether there is a libdw.
bool dwarf_found(void);
