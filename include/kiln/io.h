/// @file io.h
/// Files: npy, npz, safetensors, GGUF, PyTorch's, IDX, and checkpoints.
///
///     kiln_npy_save("x.npy", x);
///     kiln_tensor *y = kiln_npy_load(NULL, "x.npy");
///
///     kiln_archive *weights = kiln_safetensors_load("model.safetensors");
///     kiln_tensor *w = kiln_archive_get(weights, dev, "layer.0.weight");
///     kiln_archive_free(&weights);
///
/// Reading trusts no file: sizes are checked against the file before memory is taken, and what does not hold is
/// KILN_E_FORMAT with the path and the offending value. KILN_E_MISSING: there is no such file. KILN_E_IO: the system
/// refused, with its reason. KILN_E_UNSUPPORTED: sound, but of a dtype, rank (above KILN_MAX_RANK) or variant that Kiln
/// does not have. Bytes of bool elements other than 0 read as 1.
///
/// Writing is all or nothing: the file is written under another name in the same folder, flushed to the disk and then
/// renamed, so that a failure (a full disk) leaves what was there before. Through a symbolic link the file behind it is
/// replaced; what is no regular file (a pipe, /dev/stdout) is written directly. A file that is replaced keeps its
/// permissions, without set-user-id and set-group-id, and its owner and group where the process may give them. What a
/// process leaves that is killed while it writes, "name.PROCESS-NUMBER.tmp", goes when the file is written again.
///
/// `dev` NULL is this thread's default device. Tensors returned are new handles of the caller's scope. Archives and
/// checkpoints may be used by one thread at a time.
#ifndef KILN_IO_H
#define KILN_IO_H

#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Reads an array of NumPy's format npy: versions 1 to 3, both byte orders, C and Fortran order (the result has the
/// same elements, row-major). dtypes bool, u1, i1, i2, i4, i8, f2, f4 and f8; unsigned integers above 8 bits, complex,
/// structured, text and object arrays are KILN_E_UNSUPPORTED.
KILN_API kiln_tensor *kiln_npy_load(kiln_device *dev, const char *path);
/// Writes t as npy. Errors: KILN_E_UNSUPPORTED for bf16, which the format does not have; cast it to f32 first, or use
/// safetensors.
KILN_API kiln_status kiln_npy_save(const char *path, const kiln_tensor *t);

/// Named arrays in a file. Data is read when a tensor is asked for, so opening is cheap; the file stays open until the
/// archive is freed, and must not be changed meanwhile.
typedef struct kiln_archive kiln_archive;

/// Opens NumPy's npz: a zip file of npy arrays, stored or deflated. The names are those of the members without ".npy".
/// A zip file in which nothing is an array is KILN_E_FORMAT: see kiln_torch_load.
KILN_API kiln_archive *kiln_npz_load(const char *path);
/// Opens a safetensors file. Errors beside those of all readers: KILN_E_FORMAT for a header above 100 MB, bad JSON or
/// UTF-8, a name given twice, a shape that disagrees with its offsets, and data that overlaps, leaves a gap or passes
/// the end of the file.
KILN_API kiln_archive *kiln_safetensors_load(const char *path);

/// Opens a GGUF file (llama.cpp, ggml), versions 2 and 3, little-endian. Shapes are row-major: GGUF lists dimensions
/// from the last to the first. Arrays of f16, bf16, f32, f64 and i8 to i64 are as they are; those of the quantised
/// types q4_0, q4_1, q5_0, q5_1, q8_0, q2_K to q6_K, iq4_nl and mxfp4 are unpacked to f32 when they are asked for.
/// Others (iq1 to iq3, iq4_xs, tq) are KILN_E_UNSUPPORTED then. Metadata are texts: numbers in decimal, true and false,
/// arrays as
/// "[1, 2]" with texts in quotes as in JSON. Errors beside those of all readers: KILN_E_FORMAT for lengths, counts and
/// offsets that pass the end of the file, overlap or miss the alignment, and for rows that are no whole blocks.
KILN_API kiln_archive *kiln_gguf_load(const char *path);

/// Opens a file of PyTorch (.pt, .pth), as torch.save writes since 1.6, without running anything in it: tensors, and
/// parameters, in dicts, lists and tuples. The names are the keys on the way, joined by dots ("model.0.weight",
/// "params.3"); a file that is one tensor has it as "tensor". Numbers and texts are metadata, their names made
/// likewise. Tensors that are views come dense. What is no state of tensors, a whole module say, is KILN_E_UNSUPPORTED
/// with the name that Python would have to give; so are files of older versions. Errors beside those of all readers:
/// KILN_E_FORMAT for tensors that reach beyond their storage and for pickles that are cut off or contain themselves.
KILN_API kiln_archive *kiln_torch_load(const char *path);

/// The number of arrays.
KILN_API size_t kiln_archive_count(const kiln_archive *a);
/// The name of array i in the order of the file (safetensors: of the data). Borrowed until the archive is freed; NULL
/// and an error when i is out of range.
KILN_API const char *kiln_archive_name(const kiln_archive *a, size_t i);
/// Whether there is an array of this name. Sets no error.
KILN_API bool kiln_archive_has(const kiln_archive *a, const char *name);
/// Array i as a tensor on `dev`.
KILN_API kiln_tensor *kiln_archive_tensor(kiln_archive *a, kiln_device *dev, size_t i);
/// The array of this name. Errors: KILN_E_ARGUMENT, with a name that is there, when there is none.
KILN_API kiln_tensor *kiln_archive_get(kiln_archive *a, kiln_device *dev, const char *name);
/// The array of this name as it is packed, u8 of its shape with bytes in the place of the elements of the last axis:
/// the blocks of ggml. *format, unless `format` is NULL, is its type ("q4_0"), a constant.
/// Errors: KILN_E_ARGUMENT where it is not packed, as in files other than GGUF; else as kiln_archive_get.
KILN_API kiln_tensor *kiln_archive_packed(kiln_archive *a, kiln_device *dev, const char *name, const char **format);
/// The number of entries of a file's metadata: "__metadata__" of safetensors, all pairs of GGUF, what is
/// no tensor in PyTorch's (0 for npz).
KILN_API size_t kiln_archive_metadata_count(const kiln_archive *a);
/// Key and value of entry i of the metadata, borrowed until the archive is freed.
KILN_API kiln_status kiln_archive_metadata(const kiln_archive *a, size_t i, const char **key, const char **value);
/// Closes the file and nulls the pointer; NULL is fine.
KILN_API void kiln_archive_free(kiln_archive **a);

typedef struct kiln_npz_opts {
    size_t size KILN_0;
    bool compress KILN_0; ///< deflate the members
} kiln_npz_opts;
#define KILN_NPZ(...) KILN_OPTS_(kiln_npz_opts, __VA_ARGS__)

/// Writes n tensors under n different names as npz. Errors: KILN_E_ARGUMENT for a name that is empty or given twice,
/// KILN_E_UNSUPPORTED for bf16, storage dtypes and for a file of 4 GiB or more (safetensors has no such bound).
KILN_API kiln_status kiln_npz_save(const char *path, const char *const *names, kiln_tensor *const *tensors, size_t n,
                                   const kiln_npz_opts *opts);
/// Writes n tensors under n different names as safetensors; all dtypes but KILN_C128, KILN_I4 and KILN_U4. Names are
/// UTF-8; "__metadata__" is taken.
KILN_API kiln_status kiln_safetensors_save(const char *path, const char *const *names, kiln_tensor *const *tensors,
                                           size_t n);

/// Reads an IDX file (the format of MNIST), plain or gzipped: u8, i8, i16, i32, f32 and f64, stored big-endian. A file
/// that is shorter or longer than its header says is KILN_E_FORMAT.
KILN_API kiln_tensor *kiln_idx_load(kiln_device *dev, const char *path);

/// Checkpoints: named tensors, integers, numbers and strings in one file, to go on from where a program stopped. The
/// file is a safetensors file, which others can read, with a checksum over all of it.
///
///     kiln_checkpoint *c = kiln_checkpoint_create();
///     kiln_checkpoint_put(c, names, params, n);
///     kiln_checkpoint_put_int(c, "step", step);
///     kiln_checkpoint_save(c, "run.ckpt");
///     kiln_checkpoint_free(&c);
///
///     kiln_checkpoint *c = kiln_checkpoint_load("run.ckpt");
///     kiln_checkpoint_restore(c, names, params, n);
///     kiln_checkpoint_get_int(c, "step", &step);
///     kiln_checkpoint_free(&c);
typedef struct kiln_checkpoint kiln_checkpoint;

/// An empty checkpoint in host memory.
KILN_API kiln_checkpoint *kiln_checkpoint_create(void);
/// Reads a checkpoint whole. Errors: KILN_E_FORMAT also for a checksum that does not fit and for a safetensors file
/// that is no checkpoint.
KILN_API kiln_checkpoint *kiln_checkpoint_load(const char *path);
/// Writes the checkpoint; it may be changed and saved again.
KILN_API kiln_status kiln_checkpoint_save(kiln_checkpoint *c, const char *path);
/// Frees and nulls the pointer; NULL is fine.
KILN_API void kiln_checkpoint_free(kiln_checkpoint **c);

/// Copies the values of n tensors into the checkpoint. Names live in one space with those of the other kinds: putting
/// one again replaces the entry. Errors: KILN_E_ARGUMENT for an empty name, "__metadata__", names that begin with
/// "kiln.", and names and strings that are not UTF-8.
KILN_API kiln_status kiln_checkpoint_put(kiln_checkpoint *c, const char *const *names, kiln_tensor *const *tensors,
                                         size_t n);
KILN_API kiln_status kiln_checkpoint_put_int(kiln_checkpoint *c, const char *name, int64_t value);
KILN_API kiln_status kiln_checkpoint_put_double(kiln_checkpoint *c, const char *name, double value);
KILN_API kiln_status kiln_checkpoint_put_string(kiln_checkpoint *c, const char *name, const char *value);

/// Whether there is an entry of this name, of any kind. Sets no error.
KILN_API bool kiln_checkpoint_has(const kiln_checkpoint *c, const char *name);
/// Writes the tensors of these names into n existing tensors, parameters included. All are checked first: when one is
/// missing (KILN_E_ARGUMENT) or differs in dtype (KILN_E_DTYPE) or shape (KILN_E_SHAPE) none is written.
KILN_API kiln_status kiln_checkpoint_restore(const kiln_checkpoint *c, const char *const *names,
                                             kiln_tensor *const *tensors, size_t n);
/// One tensor as a new handle on `dev`. Errors: KILN_E_ARGUMENT when there is none of this name.
KILN_API kiln_tensor *kiln_checkpoint_get(const kiln_checkpoint *c, kiln_device *dev, const char *name);
/// The other kinds; doubles come back to the bit. Errors: KILN_E_ARGUMENT when there is no entry of this name and kind.
KILN_API kiln_status kiln_checkpoint_get_int(const kiln_checkpoint *c, const char *name, int64_t *value);
KILN_API kiln_status kiln_checkpoint_get_double(const kiln_checkpoint *c, const char *name, double *value);
/// Borrowed until the entry is replaced or the checkpoint freed; NULL and an error when there is none.
KILN_API const char *kiln_checkpoint_get_string(const kiln_checkpoint *c, const char *name);

#ifdef __cplusplus
}
#endif
#endif
