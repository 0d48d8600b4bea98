/// @file bundle.h
/// Bundles: ordered containers of entries with or without names, as input and output of functions.
///
///     kiln_bundle *b = kiln_bundle_create();
///     kiln_bundle_append(b, "x", KILN_TENSOR(x));
///     kiln_bundle_append(b, "steps", KILN_INT(3));
///     kiln_tensor *y = kiln_mul(kiln_bundle_tensor(b, "x"), kiln_scalar(2));
///     kiln_bundle_set(b, "x", KILN_TENSOR(y));
///
/// An entry is nothing, a tensor, a number, a string, a bundle, or a pointer of the caller's. What is put into a bundle
/// is a value: a tensor as a handle of the bundle's own on the same memory, a string as a copy, a bundle as it is now;
/// to change a bundle in a bundle, take it out, change it and set it. So no bundle holds itself. Copies cost nothing
/// until one of them is changed.
///
/// A handle is owned as that of a tensor is: by the innermost scope open on the thread that made it, else by the
/// caller. Several handles may be on one bundle, and see each other's changes. A bundle may be read by several threads
/// at once and changed by one at a time.
///
/// Indexes below zero count from the end. Names are not empty, and different within a bundle. Errors of all functions:
/// KILN_E_ARGUMENT for an index or a name that is not there and for an entry of another kind, KILN_E_HANDLE for a
/// bundle that was freed, KILN_E_STATE for a change of a bundle from outside in a function while it is captured.
#ifndef KILN_BUNDLE_H
#define KILN_BUNDLE_H

#include <kiln/error.h>
#include <kiln/macros.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_bundle kiln_bundle;

/// A function of bundles, in the sense of kiln_bundle_grad and kiln_bundle_jit. `in` is borrowed, and a copy: its
/// changes are the function's own, unless .in_place says otherwise. *out is NULL at first, and may be left so: nothing.
/// It may be set to a bundle that the function made, to `in`, or to a bundle from outside, which is given as that very
/// one.
typedef kiln_status (*kiln_bundle_fn)(void *user, kiln_bundle *in, kiln_bundle **out);

/// What an entry is. Values are fixed; new ones are appended.
typedef enum kiln_kind {
    KILN_KIND_NONE = 0,
    KILN_KIND_TENSOR = 1,
    KILN_KIND_INT = 2,
    KILN_KIND_DOUBLE = 3,
    KILN_KIND_BOOL = 4,
    KILN_KIND_STRING = 5,
    KILN_KIND_BUNDLE = 6,
    KILN_KIND_POINTER = 7,
} kiln_kind;

/// The value of an entry: what goes in is written with the macros below.
typedef struct kiln_value {
    size_t size KILN_0;
    kiln_kind kind KILN_0;
    kiln_tensor *tensor KILN_0;
    int64_t integer KILN_0; ///< KILN_KIND_INT, KILN_KIND_BOOL
    double number KILN_0;
    const char *string KILN_0;
    kiln_bundle *bundle KILN_0;
    void *pointer KILN_0;
    void (*release)(void *pointer) KILN_0;
    bool is_mutable KILN_0; ///< a number that programs take at run time, as kiln_mutable makes it
} kiln_value;
#define KILN_NONE KILN_OPTS_(kiln_value, .kind = KILN_KIND_NONE)
/// A tensor. A number (kiln_scalar, kiln_mutable and their kin) becomes an entry of its own kind.
#define KILN_TENSOR(v) KILN_OPTS_(kiln_value, .kind = KILN_KIND_TENSOR, .tensor = (v))
#define KILN_INT(v)    KILN_OPTS_(kiln_value, .kind = KILN_KIND_INT, .integer = (int64_t)(v))
#define KILN_DOUBLE(v) KILN_OPTS_(kiln_value, .kind = KILN_KIND_DOUBLE, .number = (double)(v))
#define KILN_TRUTH(v)  KILN_OPTS_(kiln_value, .kind = KILN_KIND_BOOL, .integer = (v) ? 1 : 0)
#define KILN_STRING(v) KILN_OPTS_(kiln_value, .kind = KILN_KIND_STRING, .string = (v))
#define KILN_BUNDLE(v) KILN_OPTS_(kiln_value, .kind = KILN_KIND_BUNDLE, .bundle = (v))
/// A pointer of the caller's, which the library passes on and compares. `done` (NULL: none) is called with it, once,
/// when nothing holds it any more: no bundle, and no program that was made for it. A call that fails does not take it.
#define KILN_POINTER(v, done) KILN_OPTS_(kiln_value, .kind = KILN_KIND_POINTER, .pointer = (v), .release = (done))

/// An empty bundle.
KILN_API kiln_bundle *kiln_bundle_create(void);
/// A bundle of n tensors without names.
KILN_API kiln_bundle *kiln_bundle_of(kiln_tensor *const *tensors, size_t n);
/// Another bundle with the same entries.
KILN_API kiln_bundle *kiln_bundle_copy(const kiln_bundle *b);
/// A copy in which all numbers, those in bundles too, are taken by programs at run time: other values run the same
/// program. Gradients by them are given.
KILN_API kiln_bundle *kiln_mutable_bundle(const kiln_bundle *b);
/// A second handle on the same bundle.
KILN_API kiln_bundle *kiln_bundle_alias(kiln_bundle *b);
/// Whether both are handles on the same bundle.
KILN_API bool kiln_bundle_is(const kiln_bundle *a, const kiln_bundle *b);
/// Frees the handle and nulls it; NULL is fine. The bundle goes with its last handle.
KILN_API void kiln_bundle_free(kiln_bundle **b);
/// Moves b from the scope that owns it to the next one out, or to the caller. Returns b.
KILN_API kiln_bundle *kiln_bundle_keep(kiln_bundle *b);
/// Takes b out of all scopes: the caller frees it. Returns b.
KILN_API kiln_bundle *kiln_bundle_own(kiln_bundle *b);

/// The number of entries, without those in bundles in it.
KILN_API size_t kiln_bundle_count(const kiln_bundle *b);
/// Whether there is an entry of this name. Sets no error for one that is not there.
KILN_API bool kiln_bundle_has(const kiln_bundle *b, const char *name);
/// The index of the entry of this name; -1 and an error when there is none.
KILN_API int64_t kiln_bundle_index(const kiln_bundle *b, const char *name);
/// The name of an entry, borrowed until the entry goes; NULL where it has none.
KILN_API const char *kiln_bundle_name(const kiln_bundle *b, int64_t index);

/// Adds an entry at the end. `name` NULL: without one; it is copied. Errors: KILN_E_ARGUMENT for a name that is there
/// already, for more than 16777216 entries in all, and for bundles in bundles more than 64 deep.
KILN_API kiln_status kiln_bundle_append(kiln_bundle *b, const char *name, const kiln_value *value);
/// Adds an entry before that of `index`, which may be the count: at the end.
KILN_API kiln_status kiln_bundle_insert(kiln_bundle *b, int64_t index, const char *name, const kiln_value *value);
/// Replaces the value of the entry of this name, or adds one at the end.
KILN_API kiln_status kiln_bundle_set(kiln_bundle *b, const char *name, const kiln_value *value);
/// Replaces the value of an entry, which keeps its name.
KILN_API kiln_status kiln_bundle_set_at(kiln_bundle *b, int64_t index, const kiln_value *value);
KILN_API kiln_status kiln_bundle_remove(kiln_bundle *b, const char *name);
KILN_API kiln_status kiln_bundle_remove_at(kiln_bundle *b, int64_t index);
/// Removes an entry and gives its value in `out`, as kiln_bundle_get does; `out` NULL: it is dropped.
KILN_API kiln_status kiln_bundle_pop(kiln_bundle *b, const char *name, kiln_value *out);
KILN_API kiln_status kiln_bundle_pop_at(kiln_bundle *b, int64_t index, kiln_value *out);
KILN_API kiln_status kiln_bundle_reverse(kiln_bundle *b);
/// Adds the entries of `from` in order: those with names as kiln_bundle_set does, the others at the end.
KILN_API kiln_status kiln_bundle_extend(kiln_bundle *b, const kiln_bundle *from);
/// A bundle of the entries from `start`, before `stop`, with their names; each bound NULL: from the first, to the last.
/// Bounds below zero count from the end, those out of range are clipped.
KILN_API kiln_bundle *kiln_bundle_slice(const kiln_bundle *b, const int64_t *start, const int64_t *stop);

/// The kind of an entry.
KILN_API kiln_kind kiln_bundle_kind(const kiln_bundle *b, const char *name);
KILN_API kiln_kind kiln_bundle_kind_at(const kiln_bundle *b, int64_t index);
/// The value of an entry. The caller sets out->size to sizeof(kiln_value). Tensors and bundles are new handles; a
/// string is borrowed until the entry goes (of a pop: until the next one, or until b is freed), and so is a pointer.
/// Of a number that is mutable, .tensor is set, a new handle, and not .integer or .number: see kiln_bundle_int.
KILN_API kiln_status kiln_bundle_get(const kiln_bundle *b, const char *name, kiln_value *out);
KILN_API kiln_status kiln_bundle_get_at(const kiln_bundle *b, int64_t index, kiln_value *out);
/// A tensor, a new handle on the same value. A number is one as kiln_scalar and its kin make it.
KILN_API kiln_tensor *kiln_bundle_tensor(const kiln_bundle *b, const char *name);
KILN_API kiln_tensor *kiln_bundle_tensor_at(const kiln_bundle *b, int64_t index);
/// A number. An int is a double too, a bool is both. In a captured function a mutable one is read as kiln_item reads a
/// tensor; kiln_bundle_tensor gives it to compute with.
KILN_API int64_t kiln_bundle_int(const kiln_bundle *b, const char *name);
KILN_API int64_t kiln_bundle_int_at(const kiln_bundle *b, int64_t index);
KILN_API double kiln_bundle_double(const kiln_bundle *b, const char *name);
KILN_API double kiln_bundle_double_at(const kiln_bundle *b, int64_t index);
KILN_API bool kiln_bundle_bool(const kiln_bundle *b, const char *name);
KILN_API bool kiln_bundle_bool_at(const kiln_bundle *b, int64_t index);
/// A string, borrowed until the entry goes.
KILN_API const char *kiln_bundle_string(const kiln_bundle *b, const char *name);
KILN_API const char *kiln_bundle_string_at(const kiln_bundle *b, int64_t index);
/// A bundle in b: a new handle on a bundle of its own, with the same entries.
KILN_API kiln_bundle *kiln_bundle_bundle(const kiln_bundle *b, const char *name);
KILN_API kiln_bundle *kiln_bundle_bundle_at(const kiln_bundle *b, int64_t index);
/// A pointer, borrowed until the entry goes.
KILN_API void *kiln_bundle_pointer(const kiln_bundle *b, const char *name);
KILN_API void *kiln_bundle_pointer_at(const kiln_bundle *b, int64_t index);

/// Prints `[None, 3]`, or `{x: [1. 2.], y: "a"}` where entries have names, and a newline.
KILN_API void kiln_bundle_print(const kiln_bundle *b, FILE *f);

#ifdef __cplusplus
}
#endif
#endif
