// The environment as a whole: names and values of KILN_* that mean nothing.
#pragma once

// Warns of them, once a process.
void environment_check(void);
