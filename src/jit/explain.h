// What became of a function, as texts.
#pragma once
#include "jit/function.h"
#include <kiln/explain.h>

void function_explain(struct kiln_function *f, bool summary, struct str *s);
