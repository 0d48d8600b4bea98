// What the functions of a file share, as text: which weights are what, calls of the host, ops of the user.
#pragma once
#include "model/model.h"

void manifest_text(const struct model *m, struct str *s);
// Calls of the host and ops; the roles of weights, which are there.
kiln_status manifest_parse(struct model *m, const char *text, size_t size_B, const char *where);
