// The passes of the table, one file each.
#pragma once
#include "pass/pass.h"

#define PASS(name) \
    kiln_status pass_##name(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
PASS(inline);
PASS(types);
PASS(fold);
PASS(prune);
PASS(unroll);
PASS(carry);
PASS(hoist);
PASS(select);
PASS(sink);
PASS(simplify);
PASS(casts);
PASS(views);
PASS(move);
PASS(cse);
PASS(dce);
#undef PASS

// Uses of each value by kept nodes, outputs, writes and results of regions; calloc'ed, the caller frees it. NULL with
// an error when memory is out.
int32_t *pass_count_uses(const struct kiln_graph *g);
// The layout that a view op gives to its operand when that lies in row-major order from 0. False where the op is no
// view, or where it must copy.
bool pass_view_layout(const struct kiln_graph *g, const struct ir_node *n, struct layout *out);
bool pass_has_symbols(const struct ir_value *v); // a dimension that may differ from call to call
