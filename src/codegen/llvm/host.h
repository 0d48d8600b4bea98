// The processor, as far as code for it depends on it.
#pragma once
#include "base/str.h"

// Appends what the processor and the system say of it: all that LLVM looks at when it compiles for the host. False
// where it is not known how to ask.
bool host_add_processor(struct str *out);
