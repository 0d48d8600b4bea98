// The loader: fields, steps and states. crew.c fills its batches.
#include "data/loader.h"
#include "base/handles.h"
#include "base/options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// --- life

kiln_status loader_check(const char *function, const kiln_loader *l)
{
    if (error_pending) return error_pending;
    return handle_check(function, "the loader", HANDLE_LOADER, l);
}

// A free place for a field, once it is known to fit the others.
static kiln_status new_field(const char *function, kiln_loader *l, kiln_dtype dtype, size_t rank, const int64_t *dims,
                             struct field **out)
{
    if (l->started)
        return error_set(KILN_E_STATE, "%s: the loader has given batches; set it up before the first", function);
    if (l->n_fields == FIELDS_MAX) return error_set(KILN_E_ARGUMENT, "%s: more than %d fields", function, FIELDS_MAX);
    if (rank && !dims) return error_set(KILN_E_ARGUMENT, "%s: dims is NULL", function);
    struct field *f = &l->fields[l->n_fields];
    TRY(field_init(f, dtype, rank, dims));
    if (l->n_fields && dims[0] != l->samples) {
        return error_set(KILN_E_SHAPE, "%s: field %zu has %" PRId64 " samples, those before it have %" PRId64, function,
                         l->n_fields, dims[0], l->samples);
    }
    *out = f;
    return KILN_OK;
}

static void accept_field(kiln_loader *l)
{
    l->samples = l->fields[l->n_fields++].dims[0];
}

static kiln_status add_tensor(kiln_loader *l, const kiln_tensor *t, size_t i)
{
    if (!t) return error_set(KILN_E_ARGUMENT, "loader_create: tensor %zu is NULL", i);
    kiln_dtype dtype = kiln_tensor_dtype(t);
    if (error_pending) return error_pending;
    struct field *f;
    TRY(new_field("loader_create", l, dtype, kiln_rank(t), kiln_dims(t), &f));
    size_t size_B = (size_t)kiln_numel(t) * kiln_dtype_size(dtype);
    f->owned = malloc(size_B + 1);
    if (!f->owned) return error_set(KILN_E_MEMORY, "loader_create: no memory for %zu bytes", size_B);
    kiln_status status = kiln_read(t, f->owned, size_B);
    if (status) {
        field_finish(f);
        return status;
    }
    f->data = f->owned;
    accept_field(l);
    return KILN_OK;
}

kiln_status kiln_loader_add_host(kiln_loader *loader, kiln_dtype dtype, size_t rank, const int64_t *dims,
                                 const void *data)
{
    TRY(loader_check("loader_add_host", loader));
    struct field *f;
    TRY(new_field("loader_add_host", loader, dtype, rank, dims, &f));
    if (!data && dims[0] && f->row_items) return error_set(KILN_E_ARGUMENT, "loader_add_host: the data is NULL");
    // Without elements nothing is read; any address does.
    f->data = data ? data : (const void *)f->dims;
    accept_field(loader);
    return KILN_OK;
}

kiln_status kiln_loader_add_fn(kiln_loader *loader, kiln_dtype dtype, size_t rank, const int64_t *dims,
                               kiln_sample_fn fn, void *user)
{
    TRY(loader_check("loader_add_fn", loader));
    if (!fn) return error_set(KILN_E_ARGUMENT, "loader_add_fn: the function is NULL");
    struct field *f;
    TRY(new_field("loader_add_fn", loader, dtype, rank, dims, &f));
    f->fn = fn;
    f->user = user;
    loader->calls_user = true;
    accept_field(loader);
    return KILN_OK;
}

// The fields stay as they were where one is refused.
kiln_status loader_add_dataset(const char *function, kiln_loader *l, int64_t count, size_t n,
                               const kiln_field_spec *const *fields, const struct dataset *d)
{
    size_t before = l->n_fields;
    int64_t samples_before = l->samples;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n && !status; i++) {
        kiln_field_spec given;
        int64_t dims[KILN_MAX_RANK] = {count};
        struct field *f;
        status = options_read_as(function, "KILN_FIELD", &given, sizeof given, fields[i]);
        if (!status && given.rank >= KILN_MAX_RANK)
            status = error_set(KILN_E_SHAPE, "%s: field %zu has rank %zu, up to %d are allowed", function, i,
                               given.rank, KILN_MAX_RANK - 1);
        if (!status && given.rank && !given.dims)
            status = error_set(KILN_E_ARGUMENT, "%s: the dims of field %zu are NULL", function, i);
        if (!status && given.rank) memcpy(dims + 1, given.dims, given.rank * sizeof *dims);
        if (!status) status = new_field(function, l, given.dtype, given.rank + 1, dims, &f);
        if (!status) accept_field(l);
    }
    if (status) {
        l->n_fields = before;
        l->samples = samples_before;
        return status;
    }
    l->datasets[l->n_datasets] = *d;
    l->datasets[l->n_datasets].first = before;
    l->datasets[l->n_datasets++].n = n;
    return KILN_OK;
}

kiln_status kiln_loader_add_dataset(kiln_loader *loader, int64_t count, size_t n, const kiln_field_spec *const *fields,
                                    kiln_get_fn get, void *user)
{
    TRY(loader_check("loader_add_dataset", loader));
    if (!get) return error_set(KILN_E_ARGUMENT, "loader_add_dataset: the function is NULL");
    if (n == 0 || !fields)
        return error_set(KILN_E_ARGUMENT, "loader_add_dataset: the list of fields is %s", fields ? "empty" : "NULL");
    for (size_t i = 0; i < n; i++)
        if (!fields[i]) return error_set(KILN_E_ARGUMENT, "loader_add_dataset: field %zu is NULL", i);
    TRY(loader_add_dataset("loader_add_dataset", loader, count, n, fields,
                           &(struct dataset){.get = get, .user = user}));
    loader->calls_user = true;
    return KILN_OK;
}

kiln_status loader_add_step(const char *function, kiln_loader *l, const struct step *s)
{
    if (l->started)
        return error_set(KILN_E_STATE, "%s: the loader has given batches; set it up before the first", function);
    if (l->n_steps == STEPS_MAX) return error_set(KILN_E_ARGUMENT, "%s: more than %d steps", function, STEPS_MAX);
    l->steps[l->n_steps++] = *s;
    return KILN_OK;
}

kiln_status kiln_loader_augment(kiln_loader *loader, kiln_augment_fn fn, void *user)
{
    TRY(loader_check("loader_augment", loader));
    if (!fn) return error_set(KILN_E_ARGUMENT, "loader_augment: the function is NULL");
    TRY(loader_add_step("loader_augment", loader, &(struct step){.fn = fn, .user = user}));
    loader->calls_user = true;
    return KILN_OK;
}

kiln_status kiln_loader_convert(kiln_loader *loader, size_t field, kiln_dtype dtype, const kiln_convert_opts *opts)
{
    TRY(loader_check("loader_convert", loader));
    if (loader->started)
        return error_set(KILN_E_STATE, "loader_convert: the loader has given batches; set it up before the first");
    if (field >= loader->n_fields) {
        return error_set(KILN_E_ARGUMENT, "loader_convert: there is no field %zu, the loader has %zu, from 0", field,
                         loader->n_fields);
    }
    if (loader->fields[field].has_steps)
        return error_set(KILN_E_STATE, "loader_convert: field %zu has steps already", field);
    return field_convert(&loader->fields[field], dtype, opts);
}

static kiln_status set_options(kiln_loader *l, const kiln_loader_opts *opts)
{
    TRY(options_read("loader_create", KILN_LOADER, &l->opts, opts));
    kiln_loader_opts *o = &l->opts;
    if (o->batch < 0) return error_set(KILN_E_ARGUMENT, "loader_create: a batch of %" PRId64 " samples", o->batch);
    if (o->prefetch < -1 || o->prefetch > DEPTH_MAX) {
        return error_set(KILN_E_ARGUMENT, "loader_create: prefetch is %" PRId64 ", from -1 to %d are allowed",
                         o->prefetch, DEPTH_MAX);
    }
    if (o->workers < 0 || o->workers > WORKERS_MAX || (o->workers && o->prefetch < 0)) {
        return error_set(KILN_E_ARGUMENT, "loader_create: %" PRId64 " workers, %s", o->workers,
                         o->prefetch < 0 ? "but .prefetch is -1" : "from 0 to 256 are allowed");
    }
    if (o->batch == 0) o->batch = 1;
    if (o->workers == 0) o->workers = 1;
    if (o->prefetch == 0) o->prefetch = o->workers > 2 ? o->workers : 2;
    l->threaded = o->prefetch > 0;
    l->depth = l->threaded ? (size_t)o->prefetch : 1;
    return KILN_OK;
}

kiln_loader *kiln_loader_create(kiln_device *dev, kiln_tensor *const *tensors, size_t n, const kiln_loader_opts *opts)
{
    if (error_pending) return NULL;
    if (!dev) dev = kiln_get_device();
    if (!dev || handle_check("loader_create", "dev", HANDLE_DEVICE, dev)) return NULL;
    kiln_loader *l = handle_new(HANDLE_LOADER, sizeof *l);
    if (!l) {
        error_set(KILN_E_MEMORY, "loader_create: no memory");
        return NULL;
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->dev = dev;
    kiln_status status = set_options(l, opts);
    if (!status && n && !tensors) status = error_set(KILN_E_ARGUMENT, "loader_create: the list of tensors is NULL");
    for (size_t i = 0; i < n && !status; i++) status = add_tensor(l, tensors[i], i);
    if (status) kiln_loader_free(&l);
    return l;
}

void kiln_loader_free(kiln_loader **loader)
{
    if (!handle_may_free("loader_free", HANDLE_LOADER, loader)) return;
    kiln_loader *l = *loader;
    crew_stop(l);
    crew_free(l);
    for (size_t i = 0; i < l->n_fields; i++) field_finish(&l->fields[i]);
    for (size_t i = 0; i < l->n_datasets; i++)
        if (l->datasets[i].user_free) l->datasets[i].user_free(l->datasets[i].user);
    for (size_t i = 0; i < l->n_steps; i++)
        if (l->steps[i].user_free) l->steps[i].user_free(l->steps[i].user);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    handle_free(HANDLE_LOADER, l);
    *loader = NULL;
}

// --- batches

static kiln_status start(kiln_loader *l)
{
    if (l->n_fields == 0) return error_set(KILN_E_STATE, "loader_next: the loader has no fields");
    if (!crew_create(l)) {
        crew_free(l);
        return error_set(KILN_E_MEMORY, "loader_next: no memory for %zu batches of %" PRId64 " samples", l->depth,
                         l->opts.batch);
    }
    l->started = true;
    crew_rewind(l);
    return KILN_OK;
}

static kiln_status make_tensors(const kiln_loader *l, const struct batch_slot *s, kiln_tensor **out)
{
    for (size_t k = 0; k < l->n_fields; k++) {
        const struct field *f = &l->fields[k];
        int64_t dims[KILN_MAX_RANK];
        memcpy(dims, f->dims, sizeof dims);
        dims[0] = s->rows;
        out[k] = kiln_from_data(l->dev, f->out_dtype, f->rank, dims, s->data[k]);
        if (out[k]) continue;
        while (k-- > 0) kiln_free(&out[k]);
        return error_pending;
    }
    return KILN_OK;
}

kiln_status kiln_loader_next(kiln_loader *loader, kiln_tensor **out, size_t n_out, bool *more)
{
    if (more) *more = false;
    for (size_t i = 0; out && i < n_out; i++) out[i] = NULL;
    TRY(loader_check("loader_next", loader));
    if (!out || !more) return error_set(KILN_E_ARGUMENT, "loader_next: %s is NULL", out ? "more" : "out");
    if (n_out != loader->n_fields && loader->n_fields) {
        return error_set(KILN_E_ARGUMENT, "loader_next: %zu outputs for %zu fields", n_out, loader->n_fields);
    }
    if (!loader->started) TRY(start(loader));
    if (loader->opts.drop_last && loader->samples < loader->opts.batch)
        log_warn_here(
            "loader_next: an epoch has no batch: .drop_last leaves out the only one, which has %lld samples of a "
            "batch of %lld",
            (long long)loader->samples, (long long)loader->opts.batch);
    struct batch_slot *s;
    TRY(crew_wait(loader, &s));
    int64_t rows = s->rows;
    if (rows) TRY(make_tensors(loader, s, out));
    crew_advance(&loader->state, rows);
    crew_release(loader);
    *more = rows > 0;
    return KILN_OK;
}

// --- queries and state

int64_t kiln_loader_samples(const kiln_loader *loader)
{
    return loader_check("loader_samples", loader) ? 0 : loader->samples;
}

int64_t kiln_loader_batches(const kiln_loader *loader)
{
    if (loader_check("loader_batches", loader)) return 0;
    int64_t whole = loader->samples / loader->opts.batch;
    return whole + (!loader->opts.drop_last && loader->samples % loader->opts.batch != 0);
}

kiln_status kiln_loader_get_state(const kiln_loader *loader, kiln_loader_state *out)
{
    TRY(loader_check("loader_get_state", loader));
    TRY(sized_check("loader_get_state", kiln_loader_state, out));
    kiln_loader_state s = {.seed = loader->opts.seed, .epoch = loader->state.epoch, .position = loader->state.position};
    sized_fill(out, &s, sizeof s);
    return KILN_OK;
}

kiln_status kiln_loader_set_state(kiln_loader *loader, const kiln_loader_state *state)
{
    TRY(loader_check("loader_set_state", loader));
    TRY(sized_check("loader_set_state", kiln_loader_state, state));
    kiln_loader_state s = {0};
    memcpy(&s, state, state->size < sizeof s ? state->size : sizeof s);
    if (s.position < 0 || s.position > loader->samples) {
        return error_set(KILN_E_ARGUMENT, "loader_set_state: position %" PRId64 " in a set of %" PRId64 " samples",
                         s.position, loader->samples);
    }
    // The threads read the options: they must be gone before these change.
    crew_stop(loader);
    loader->opts.seed = s.seed;
    loader->order_known = false;
    loader->state = (struct cursor){.epoch = s.epoch, .position = s.position};
    if (loader->started) crew_rewind(loader);
    return KILN_OK;
}
