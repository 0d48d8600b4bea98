// Fields of a loader: where samples come from and what they become in a batch.
#pragma once
#include "base/base.h"
#include <kiln/data.h>

struct field {
    kiln_dtype dtype, out_dtype;
    size_t rank;
    int64_t dims[KILN_MAX_RANK]; // dims[0] counts the samples
    int64_t row_items;
    const unsigned char *data; // NULL: a function makes the samples
    unsigned char *owned;      // data, when it is the loader's
    kiln_sample_fn fn;         // NULL too: that of a data set
    void *user;
    bool has_steps;        // its dtype is fixed
    bool converts, scales; // scales: more than a change of dtype
    double scale, mean, std_dev;
};

// Checks rank, dimensions and size.
kiln_status field_init(struct field *f, kiln_dtype dtype, size_t rank, const int64_t *dims);
void field_finish(struct field *f);
kiln_status field_convert(struct field *f, kiln_dtype dtype, const kiln_convert_opts *opts);
size_t field_out_row_B(const struct field *f);
size_t field_in_row_B(const struct field *f);
// Writes the sample `in` as it stands in a batch; both may be the same where nothing is converted.
void field_row(const struct field *f, const unsigned char *in, unsigned char *out);
