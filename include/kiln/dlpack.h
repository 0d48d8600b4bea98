/// @file dlpack.h
/// Tensors to and from other libraries (NumPy, PyTorch, JAX, CuPy …) without a copy, by DLPack.
///
///     DLManagedTensor *theirs = …;                       // of another library
///     kiln_tensor *x = kiln_from_dlpack(NULL, theirs);    // their memory; their deleter is called with the last use
///     DLManagedTensor *ours = kiln_to_dlpack(x);          // for another library, which calls ours->deleter(ours)
///
/// The structs are those of DLPack 1.1, https://dmlc.github.io/dlpack: of its own header, or of kiln/dlpack_structs.h.
#ifndef KILN_DLPACK_H
#define KILN_DLPACK_H

#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor;
struct DLManagedTensorVersioned;

/// A tensor of host memory as one of `dev` (NULL: the thread's default device), which takes it over: its deleter, which
/// may be NULL, is called exactly once, with the last of what Kiln needs of the memory, on whichever thread that goes.
/// On an error it is not called, and the tensor stays the caller's. On the CPU nothing is copied, and the strides stay;
/// a copy is made, and the deleter called at once, for other devices, negative strides, and data that is not aligned to
/// its elements. Until then the owner must not change the memory; writes into the tensor may show there or not. Bools
/// must be 0 or 1. Errors: KILN_E_ARGUMENT for NULL, KILN_E_DEVICE_MISMATCH for memory that is not the host's,
/// KILN_E_DTYPE for what Kiln has not, KILN_E_SHAPE for ranks above KILN_MAX_RANK and sizes that overflow, KILN_E_STATE
/// inside of a capture.
KILN_API kiln_tensor *kiln_from_dlpack(kiln_device *dev, struct DLManagedTensor *theirs);
/// The same of the struct with a version. What is marked read-only is copied. Errors: also KILN_E_UNSUPPORTED for a
/// major version above 1.
KILN_API kiln_tensor *kiln_from_dlpack_versioned(kiln_device *dev, struct DLManagedTensorVersioned *theirs);

/// The memory of a tensor on the CPU for another library, whose last act is `result->deleter(result)`; until then the
/// memory stays, whatever becomes of `t` and its device. Strides may be of a view. Gradients do not follow. Errors:
/// KILN_E_DEVICE_MISMATCH for a tensor on another device (kiln_to_device first), KILN_E_DTYPE for i4 and u4,
/// KILN_E_STATE inside of a capture.
KILN_API struct DLManagedTensor *kiln_to_dlpack(kiln_tensor *t);
/// The same as a struct with the version 1.0.
KILN_API struct DLManagedTensorVersioned *kiln_to_dlpack_versioned(kiln_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
