// Factors of products that all trips of a loop read as they were when it began.
#pragma once
#include "program/series_code.h"

struct kept_factors {
    kiln_device *dev;
    struct block block; // of all of them
};

// What is kept stands in the launches until series_drop_kept. Where memory is out, nothing is.
void series_keep_factors(const struct program_series *s, struct series_launches *cond, struct series_launches *body,
                         struct kept_factors *out);
void series_drop_kept(struct kept_factors *k);
