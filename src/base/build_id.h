// Which build of a library this is: versions tell releases apart, not the builds between them.
#pragma once
#include "base/str.h"

// Appends the linker's build id, a hash of all that was linked, of the library or program that `address` lies in: 40
// digits or so; nothing where it was linked without one.
void build_id_add(struct str *out, const void *address);
// The same of a library's file that nobody has opened. False: it has none, or cannot be read.
bool build_id_of_file(struct str *out, const char *path);
