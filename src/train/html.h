// Curves as a page.
#pragma once
#include "train/curves.h"
#include "train/training.h"

// One file, without others beside it: the picture, a table of the names, and what makes numbers show under the pointer.
void html_write(struct str *s, const struct curves *c, const kiln_training *t);
