// A function is recorded, and the graph thrown away: for those who ask what it would do. Nothing is written, printed or
// drawn, and nothing computed but what the function reads.
#pragma once
#include <kiln/grad.h>

// Fails as the function does, and where the thread captures already. `name` stands for it in messages.
kiln_status sketch_run(const char *name, kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, size_t n_out);

// Inside: how many nodes there are, and the products that those from `first` on add up, two operations each. Of a loop
// whose number of trips is not known one trip counts; of one that is still being recorded, too.
size_t sketch_nodes(void);
double sketch_flops(size_t first);
