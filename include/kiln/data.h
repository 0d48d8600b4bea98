/// @file data.h
/// Loaders: shuffled mini-batches of samples in host memory, prepared ahead by a thread.
///
///     kiln_tensor *sets[] = {images, labels};               // u8[60000,1,28,28], u8[60000]
///     kiln_loader *loader = kiln_loader_create(dev, sets, 2, KILN_LOADER(.batch = 64, .shuffle = true, .seed = 1));
///     kiln_loader_convert(loader, 0, KILN_F32, KILN_CONVERT(.scale = 1.0 / 255));
///     kiln_loader_convert(loader, 1, KILN_I32, NULL);
///     for (int epoch = 0; epoch < 2; epoch++) {
///         for (bool more = true; more;) {
///             kiln_scope *scope = kiln_scope_begin();
///             kiln_tensor *batch[2];
///             if (kiln_loader_next(loader, batch, 2, &more)) return kiln_error();
///             if (more) train(batch[0], batch[1]);
///             kiln_scope_end(&scope);
///         }
///     }
///     kiln_loader_free(&loader);
///
/// A loader has fields (images, labels), each an array whose first dimension counts the samples, the same for all. An
/// epoch gives every sample once. Its order depends on seed and epoch alone, so that a program which saves the state of
/// the loader and continues from it sees the same batches, on any machine and with any prefetching.
///
/// A loader may be used by one thread at a time. Its device must stay open while it is used.
#ifndef KILN_DATA_H
#define KILN_DATA_H

#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_loader kiln_loader;

typedef struct kiln_loader_opts {
    size_t size KILN_0;
    int64_t batch KILN_0;    ///< samples in a batch; 0 = 1
    bool shuffle KILN_0;     ///< another order each epoch
    uint64_t seed KILN_0;    ///< of the orders
    bool drop_last KILN_0;   ///< leave out the last batch of an epoch when it is smaller
    int64_t prefetch KILN_0; ///< batches prepared ahead by a thread; 0 = 2, -1 = none and no thread
} kiln_loader_opts;
#define KILN_LOADER(...) KILN_OPTS_(kiln_loader_opts, __VA_ARGS__)

/// A loader that puts batches on `dev` (NULL: this thread's default device). The n tensors become its first n fields;
/// their values are copied to the host, so that they may be freed at once. n may be 0, and fields added below.
/// Errors: KILN_E_SHAPE for a tensor of rank 0 and for numbers of samples that differ, KILN_E_ARGUMENT for a negative
/// batch.
KILN_API kiln_loader *kiln_loader_create(kiln_device *dev, kiln_tensor *const *tensors, size_t n,
                                         const kiln_loader_opts *opts);
/// Stops the thread, frees what the loader owns, and nulls the pointer; NULL is fine.
KILN_API void kiln_loader_free(kiln_loader **loader);

/// Adds a field of row-major host data, which stays the caller's and must stay as it is until the loader is freed.
/// Fields can be added, and converted, before the first batch is taken; later that is KILN_E_STATE.
KILN_API kiln_status kiln_loader_add_host(kiln_loader *loader, kiln_dtype dtype, size_t rank, const int64_t *dims,
                                          const void *data);

/// Writes sample `index`, exactly row_B bytes, to `row`; KILN_OK on success. It runs on the loader's thread, one call
/// at a time. The error it leaves pending, or else its status, is raised on the thread that asks for the batch;
/// asking again after clearing the error tries again.
typedef kiln_status (*kiln_sample_fn)(void *user, int64_t index, void *row, size_t row_B);
/// Adds a field whose samples are made by a function, for data that does not fit in memory.
KILN_API kiln_status kiln_loader_add_fn(kiln_loader *loader, kiln_dtype dtype, size_t rank, const int64_t *dims,
                                        kiln_sample_fn fn, void *user);

typedef struct kiln_convert_opts {
    size_t size KILN_0;
    double scale KILN_0; ///< 0 = 1
    double mean KILN_0;
    double std_dev KILN_0; ///< 0 = 1
} kiln_convert_opts;
#define KILN_CONVERT(...) KILN_OPTS_(kiln_convert_opts, __VA_ARGS__)

/// Gives the elements of a field another dtype as batches are made: (x * scale - mean) / std_dev, computed in f64 and
/// rounded once; to integers it truncates and saturates, NaN gives 0. Errors: KILN_E_DTYPE unless the result is i32,
/// i64, f32 or f64 and the field is not f16 or bf16; KILN_E_ARGUMENT for a field that is not there.
KILN_API kiln_status kiln_loader_convert(kiln_loader *loader, size_t field, kiln_dtype dtype,
                                         const kiln_convert_opts *opts);

/// The next batch: fills out[i] with field i, as a new handle of the caller's scope, and sets *more. At the end of an
/// epoch *more is false, the handles are NULL, and the next call gives the first batch of the next epoch. n_out is the
/// number of fields. On failure the handles are NULL and the state is as before.
KILN_API kiln_status kiln_loader_next(kiln_loader *loader, kiln_tensor **out, size_t n_out, bool *more);

/// Samples in the set, and batches in an epoch.
KILN_API int64_t kiln_loader_samples(const kiln_loader *loader);
KILN_API int64_t kiln_loader_batches(const kiln_loader *loader);

/// Where a loader stands: what a checkpoint has to hold.
typedef struct kiln_loader_state {
    size_t size KILN_0; ///< set to sizeof(kiln_loader_state) by the caller
    uint64_t seed KILN_0;
    uint64_t epoch KILN_0;   ///< from 0
    int64_t position KILN_0; ///< samples of this epoch that were given
} kiln_loader_state;
KILN_API kiln_status kiln_loader_get_state(const kiln_loader *loader, kiln_loader_state *out);
/// Continues from a state, of this loader or of one made alike. Errors: KILN_E_ARGUMENT for a position outside the set.
KILN_API kiln_status kiln_loader_set_state(kiln_loader *loader, const kiln_loader_state *state);

#ifdef __cplusplus
}
#endif
#endif
