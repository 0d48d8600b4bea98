// What cannot go into a file, listed for one message.
#pragma once
#include "base/str.h"

struct misfits {
    struct str text;
    size_t n;
};
void misfits_init(struct misfits *m);
// `user` is the list. `caller`: the address of the call, 0: unknown. One that is there already is not added again.
void misfits_add(void *user, uintptr_t caller, const char *what, const char *why);
// KILN_E_UNSUPPORTED where there is one; frees the list. `kind`: "a file".
kiln_status misfits_end(struct misfits *m, const char *op, const char *name, const char *kind);
