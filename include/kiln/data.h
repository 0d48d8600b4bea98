/// @file data.h
/// Loaders: shuffled mini-batches of samples in host memory, prepared ahead by threads.
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
/// epoch gives every sample once. Its order depends on seed and epoch alone, and what is drawn for a sample on seed,
/// epoch and the sample's index, so that a program which saves the state of the loader and continues from it sees the
/// same batches, on any machine, with any number of workers and any prefetching.
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
    int64_t prefetch KILN_0; ///< batches prepared ahead, which is what memory is for; 0 = 2, or the number of workers
                             ///< where that is more; -1 = none and no threads
    int64_t workers KILN_0;  ///< threads that prepare them, which share the samples of a batch; 0 = 1, 256 at most
} kiln_loader_opts;
#define KILN_LOADER(...) KILN_OPTS_(kiln_loader_opts, __VA_ARGS__)

/// A loader that puts batches on `dev` (NULL: this thread's default device). The n tensors become its first n fields;
/// their values are copied to the host, so that they may be freed at once. n may be 0, and fields added below.
/// Errors: KILN_E_SHAPE for a tensor of rank 0 and for numbers of samples that differ, KILN_E_ARGUMENT for a negative
/// batch, and for a prefetch or a number of workers out of range.
KILN_API kiln_loader *kiln_loader_create(kiln_device *dev, kiln_tensor *const *tensors, size_t n,
                                         const kiln_loader_opts *opts);
/// Stops the threads, once they are done with their samples, frees what the loader owns, and nulls the pointer; NULL is
/// fine.
KILN_API void kiln_loader_free(kiln_loader **loader);

/// Adds a field of row-major host data, which stays the caller's and must stay as it is until the loader is freed.
/// Fields can be added, and converted, before the first batch is taken; later that is KILN_E_STATE.
KILN_API kiln_status kiln_loader_add_host(kiln_loader *loader, kiln_dtype dtype, size_t rank, const int64_t *dims,
                                          const void *data);

/// Writes sample `index`, exactly row_B bytes, to `row`; KILN_OK on success. It runs on the loader's threads: one call
/// at a time, or where there are several workers as many as these. Tensors that it makes are freed when it returns; the
/// loader's device is the thread's default. The error it leaves pending, or else its status, is raised, with the
/// sample's index, on the thread that asks for the batch; of several in a batch that of the first sample. Asking again
/// after clearing the error tries again.
typedef kiln_status (*kiln_sample_fn)(void *user, int64_t index, void *row, size_t row_B);
/// Adds a field whose samples are made by a function, for data that does not fit in memory.
KILN_API kiln_status kiln_loader_add_fn(kiln_loader *loader, kiln_dtype dtype, size_t rank, const int64_t *dims,
                                        kiln_sample_fn fn, void *user);

/// Dtype and shape of a field of one sample.
typedef struct kiln_field_spec {
    size_t size KILN_0; ///< set by KILN_FIELD
    kiln_dtype dtype KILN_0;
    size_t rank KILN_0;
    const int64_t *dims KILN_0;
} kiln_field_spec;
#define KILN_FIELD(...) KILN_OPTS_(kiln_field_spec, __VA_ARGS__)
/// Writes all n fields of sample `index` to the rows, each of the size of its field. Threads and errors as for
/// kiln_sample_fn.
typedef kiln_status (*kiln_get_fn)(void *user, int64_t index, void *const *rows, size_t n);
/// Adds the n fields of a data set that is given by its count and a function that makes a sample.
///     kiln_loader_add_dataset(loader, files->n, 2, (const kiln_field_spec *[]){
///         KILN_FIELD(.dtype = KILN_U8, .rank = 3, .dims = (int64_t[]){32, 32, 3}),
///         KILN_FIELD(.dtype = KILN_I32)}, get, files);
KILN_API kiln_status kiln_loader_add_dataset(kiln_loader *loader, int64_t count, size_t n,
                                             const kiln_field_spec *const *fields, kiln_get_fn get, void *user);

/// Adds two fields for a language model, i64 [count, length]: windows of `ids` (rank 1, any integer dtype; copied), and
/// the same moved by one: what comes next. Window i begins at i stride (0: length). Errors: KILN_E_SHAPE where there is
/// no whole window and one more id.
KILN_API kiln_status kiln_loader_add_windows(kiln_loader *loader, const kiln_tensor *ids, int64_t length,
                                             int64_t stride);

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

// --- augmentation: steps that change samples as batches are made

/// A sample as it stands in a batch, converted: what a step may change.
typedef struct kiln_sample {
    size_t size KILN_0;    ///< of this struct
    int64_t index KILN_0;  ///< in the set
    uint64_t epoch KILN_0; ///< from 0
    uint64_t seed KILN_0;  ///< of this sample, epoch and step: see kiln_sample_uniform
    size_t n_fields KILN_0;
    void *const *fields KILN_0; ///< the rows, of the dtypes that batches have
} kiln_sample;
/// Changes a sample in place. Threads and errors as for kiln_sample_fn.
typedef kiln_status (*kiln_augment_fn)(void *user, const kiln_sample *sample);
/// Adds a step of yours. Steps run in the order in which they were added, after conversion.
KILN_API kiln_status kiln_loader_augment(kiln_loader *loader, kiln_augment_fn fn, void *user);
/// The k-th number of a seed, in [0, 1): the same each time, and independent of all others.
KILN_API double kiln_sample_uniform(const kiln_sample *sample, uint64_t k);

/// Ready steps for images: fields [count, channels, height, width] or [count, height, width], in batches u8, f32 or
/// f64. Results are rounded to u8 and saturate. Errors: KILN_E_SHAPE, KILN_E_DTYPE for other fields, KILN_E_ARGUMENT
/// for numbers out of range. A field can't be converted once it has steps: that is KILN_E_STATE.
typedef struct kiln_image_opts {
    size_t size KILN_0;
    bool channels_last KILN_0; ///< [count, height, width, channels]
    double fill KILN_0;        ///< what stands where the image ends or is cut out
    double chance KILN_0;      ///< of the step, in (0, 1]; 0: 1, of a flip one half
} kiln_image_opts;
#define KILN_IMAGE(...) KILN_OPTS_(kiln_image_opts, __VA_ARGS__)
/// The image with `padding` more on each side, cropped to its size at a random place.
KILN_API kiln_status kiln_loader_random_crop(kiln_loader *loader, size_t field, int64_t padding,
                                             const kiln_image_opts *opts);
/// Left for right, with that chance.
KILN_API kiln_status kiln_loader_random_flip(kiln_loader *loader, size_t field, const kiln_image_opts *opts);
/// A square of side x side around a random place, as far as it lies in the image, is filled (DeVries and Taylor 2017).
KILN_API kiln_status kiln_loader_cutout(kiln_loader *loader, size_t field, int64_t side, const kiln_image_opts *opts);
/// Brightness and contrast: m + c (b x - m), with b and c evenly drawn within 1 - range and 1 + range, and m the mean
/// of b x over the image. Ranges in [0, 1]. A u8 saturates, floats do not.
KILN_API kiln_status kiln_loader_jitter(kiln_loader *loader, size_t field, double brightness, double contrast,
                                        const kiln_image_opts *opts);
/// (x - mean[c]) / std_dev[c] by channel, of a field in floats. `n` is the number of channels. .chance has no effect.
KILN_API kiln_status kiln_loader_normalise(kiln_loader *loader, size_t field, size_t n, const double *mean,
                                           const double *std_dev, const kiln_image_opts *opts);

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
