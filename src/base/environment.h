// The environment as a whole: names and values of KILN_* that mean nothing.
#pragma once

// Warns of them, once a process.
void environment_check(void);

// Each variable that is set, of the library and of those that it opens; `note` says what is wrong with it, NULL:
// nothing.
typedef void environment_fn(void *user, const char *name, const char *value, const char *note);
void environment_each(environment_fn *fn, void *user);
