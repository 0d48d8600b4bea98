// A sample on its way into a batch: rows of memory and of functions, conversion, steps. What is drawn for it is a hash
// of seed, epoch, index and step: there is no state, so that any thread may make any sample.
#include "base/process.h"
#include "base/options.h"
#include "data/loader.h"
#include "data/order.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// A user's function has failed: with an error of its own, which is given the sample's index, or with a status.
static kiln_status failure(kiln_status status, const char *what, size_t which, int64_t index)
{
    char name[96];
    snprintf(name, sizeof name, "loader: sample %" PRId64 "", index);
    if (error_pending)
        error_name_op(name);
    else if (status)
        error_set(status, "loader: the function of %s %zu failed on sample %" PRId64 " with %s", what, which, index,
                  kiln_status_name(status));
    return error_pending;
}

static kiln_status call_field(const kiln_loader *l, struct worker *w, size_t k, int64_t index, unsigned char *out)
{
    const struct field *f = &l->fields[k];
    unsigned char *row = w->scratch[k] ? w->scratch[k] : out;
    kiln_status status = f->fn(f->user, index, row, field_in_row_B(f));
    if (status || error_pending) return failure(status, "field", k, index);
    field_row(f, row, out);
    return KILN_OK;
}

static kiln_status call_dataset(const kiln_loader *l, struct worker *w, const struct dataset *d, int64_t index,
                                void *const *out)
{
    for (size_t k = d->first; k < d->first + d->n; k++) w->rows[k] = w->scratch[k] ? w->scratch[k] : out[k];
    kiln_status status = d->get(d->user, index, w->rows + d->first, d->n);
    if (status || error_pending) return failure(status, "fields from", d->first, index);
    for (size_t k = d->first; k < d->first + d->n; k++) field_row(&l->fields[k], w->rows[k], out[k]);
    return KILN_OK;
}

static kiln_status make_rows(const kiln_loader *l, struct worker *w, int64_t index, void *const *out)
{
    for (size_t k = 0; k < l->n_fields; k++) {
        const struct field *f = &l->fields[k];
        if (f->data)
            field_row(f, f->data + (size_t)index * field_in_row_B(f), out[k]);
        else if (f->fn)
            TRY(call_field(l, w, k, index, out[k]));
    }
    for (size_t i = 0; i < l->n_datasets; i++) TRY(call_dataset(l, w, &l->datasets[i], index, out));
    return KILN_OK;
}

static kiln_status run_steps(const kiln_loader *l, uint64_t epoch, int64_t index, void *const *out)
{
    for (size_t i = 0; i < l->n_steps; i++) {
        kiln_sample sample = {.size = sizeof sample,
                              .index = index,
                              .epoch = epoch,
                              .seed = order_key(l->opts.seed, epoch, (uint64_t)index, i),
                              .n_fields = l->n_fields,
                              .fields = out};
        kiln_status status = l->steps[i].fn(l->steps[i].user, &sample);
        if (status || error_pending) return failure(status, "step", i, index);
    }
    return KILN_OK;
}

kiln_status sample_make(const kiln_loader *l, struct worker *w, struct batch_slot *s, int64_t i)
{
    void *out[FIELDS_MAX];
    for (size_t k = 0; k < l->n_fields; k++) out[k] = s->data[k] + (size_t)i * field_out_row_B(&l->fields[k]);
    kiln_scope *scope = l->calls_user ? kiln_scope_begin() : NULL;
    kiln_status status = l->calls_user && !scope ? error_pending : make_rows(l, w, s->indices[i], out);
    if (!status) status = run_steps(l, s->epoch, s->indices[i], out);
    kiln_scope_end(&scope);
    return status;
}

double kiln_sample_uniform(const kiln_sample *sample, uint64_t k)
{
    return sized_check("sample_uniform", kiln_sample, sample) ? 0 : order_uniform(sample->seed, k);
}
