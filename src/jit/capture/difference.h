// Whether two captures of a function, under the same conditions, are alike.
#pragma once
#include "jit/capture/capture.h"

// *why: in words, the first thing that differs, with the line that made it; empty where they are alike. An error where
// that cannot be found out.
kiln_status captured_difference(const struct captured *was, const struct captured *is, struct str *why);
