// Ops of the user that a file defines.
#pragma once
#include "model/model.h"

// Makes them known to the process; one that is there already must be the same.
kiln_status user_ops_register(const struct model *m);
