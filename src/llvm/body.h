// What the files that emit a step share: sweep.c, row.c, body.c, end.c.
#pragma once
#include "llvm/emit.h"

struct sweep {
    void (*body)(struct emitter *e, int pass);
    int pass; // the row's reductions of this pass have lanes of their own; -1: those across the rows have
};
void sweep(struct emitter *e, const struct sweep *s, LLVMValueRef from, LLVMValueRef to);
void sweep_begin(struct emitter *e, const struct sweep *s, int width);
// One loop; `to`: the lanes' end where the body is masked, NULL where all lanes exist; `once`: at most one vector.
void sweep_once(struct emitter *e, const struct sweep *s, LLVMValueRef from, LLVMValueRef limit, int width,
                LLVMValueRef to, bool once);
void sweep_end(struct emitter *e, const struct sweep *s);

void trips_body(struct emitter *e, int unused); // trips.c: all trips of a vector of points

// Values that another point or element has: of elements alone, and of those only what differs between lanes.
void row_forget(struct emitter *e, bool elements_only, bool varying_only);
void row_values(struct emitter *e, int stage, bool hoisted); // of points; hoisted: the same in all lanes
void row_values_for(struct emitter *e, int pass);
void row_element(struct emitter *e, int pass); // one vector of elements: values, folds, stores, checks
void row_accumulators(struct emitter *e, int pass, int width, bool wide);
void row_results(struct emitter *e, int pass);
void row_finish(struct emitter *e);          // values, checks and outputs of the point, its share of totals
void row_finish_or_leave(struct emitter *e); // ... or partial results, where the row is cut
void row_join_partials(struct emitter *e, LLVMValueRef chunk);
