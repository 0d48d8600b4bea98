/// @file weights.h
/// Weights of files as the state of functions and cells, each way in one call.
///
///     kiln_archive *file = kiln_archive_load("model.safetensors");
///     kiln_bundle *state = kiln_archive_bundle(file, dev, KILN_ARCHIVE_BUNDLE(.prefix = "encoder."));
///     kiln_archive_free(&file);
///     kiln_tensor *y = kiln_matmul(x, kiln_bundle_tensor(state, "0.weight"));
///     kiln_bundle_save(state, "encoder.safetensors");
///
/// A bundle of weights is an input like any other: of kiln_bundle_jit, by which it becomes inputs of a graph, and of
/// kiln_bundle_grad, which gives a bundle of gradients. For cells there is kiln_cell_load (kiln/nn.h).
///
/// Errors beside those below are those of kiln/io.h.
#ifndef KILN_WEIGHTS_H
#define KILN_WEIGHTS_H

#include <kiln/bundle.h>
#include <kiln/io.h>
#include <kiln/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Opens an archive of any format, which the first bytes of the file tell: GGUF, PyTorch's (a zip file with data.pkl in
/// it), npz (any other zip file), else safetensors. See kiln_gguf_load and its kin.
KILN_API kiln_archive *kiln_archive_load(const char *path);

/// Options of kiln_archive_bundle.
typedef struct kiln_archive_bundle_opts {
    size_t size KILN_0;
    const char *prefix KILN_0;    ///< arrays whose names begin so, with the rest as their name; others are passed over
    kiln_rename_fn rename KILN_0; ///< of the name without prefix; NULL: names are the file's
    void *user KILN_0;            ///< of .rename
    kiln_dtype dtype KILN_0;      ///< a float, to which floats are cast; 0: they are as in the file
    bool trained KILN_0;          ///< floats become parameters, which gradients come to by kiln_backward
    bool packed KILN_0; ///< weights in a packing that kiln_matmul_packed takes stay packed: an entry "NAME" of
                        ///< bytes as kiln_archive_packed gives them, and "NAME.format", its kiln_packing
} kiln_archive_bundle_opts;
#define KILN_ARCHIVE_BUNDLE(...) KILN_OPTS_(kiln_archive_bundle_opts, __VA_ARGS__)
/// The arrays of an archive, all of them or those below a prefix, as a bundle of tensors with names, in the order of
/// the file, on `dev`. It needs the archive no more. Errors: KILN_E_ARGUMENT where two are called the same by .rename,
/// or none has the prefix; KILN_E_DTYPE for a .dtype that is no float.
KILN_API kiln_bundle *kiln_archive_bundle(kiln_archive *a, kiln_device *dev, const kiln_archive_bundle_opts *opts);

/// The number by which kiln_matmul_packed and kiln_unpack_blocks know a packing: of "q4_0", "q8_0", "q4_K" and "q6_K",
/// as kiln_archive_packed says it, in either case. -1 and KILN_E_UNSUPPORTED for another: see kiln_archive_get.
KILN_API int64_t kiln_packing(const char *format);

/// Writes a bundle of tensors as safetensors. The names of entries in bundles are joined by dots, "layer.0.weight";
/// one without a name is called by its index. Entries of KILN_KIND_NONE are passed over. Errors: KILN_E_ARGUMENT for an
/// entry of another kind, and where two have one name.
KILN_API kiln_status kiln_bundle_save(const kiln_bundle *b, const char *path);
/// Writes the parameters and buffers of a cell as safetensors, under the names by which kiln_cell_load reads them.
KILN_API kiln_status kiln_cell_save(kiln_cell *cell, const char *path);

#ifdef __cplusplus
}
#endif
#endif
