// Fields of a loader: where samples come from and what they become in a batch.
#pragma once
#include "base/base.h"
#include <kiln/data.h>

struct field {
    kiln_dtype dtype, out_dtype;
    size_t rank;
    int64_t dims[KILN_MAX_RANK]; // dims[0] counts the samples
    int64_t row_items;
    const unsigned char *data; // NULL: fn makes the samples
    unsigned char *owned;      // data, when it is the loader's
    kiln_sample_fn fn;
    void *user;
    bool converts, scales; // scales: more than a change of dtype
    double scale, mean, std_dev;
    unsigned char *scratch; // one row of fn, before it is converted
};

// Checks rank, dimensions and size.
kiln_status field_init(struct field *f, kiln_dtype dtype, size_t rank, const int64_t *dims);
void field_finish(struct field *f);
kiln_status field_convert(struct field *f, kiln_dtype dtype, const kiln_convert_opts *opts);
size_t field_out_row_B(const struct field *f);
// Writes sample `index` as it stands in a batch. `number` names the field in messages.
kiln_status field_row(const struct field *f, size_t number, int64_t index, unsigned char *out);
