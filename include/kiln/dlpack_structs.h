/// @file dlpack_structs.h
/// The structs of DLPack 1.1 for programs that do not have its own header; one that has includes that alone, or first.
/// This header is not part of kiln.h.
///
///     #include <kiln/dlpack_structs.h>
///     struct DLManagedTensor *ours = kiln_to_dlpack(x);
///     float *data = ours->dl_tensor.data;
#ifndef KILN_DLPACK_STRUCTS_H
#define KILN_DLPACK_STRUCTS_H

#include <stdint.h>

#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)

typedef enum {
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3,
    kDLVulkan = 7,
    kDLROCM = 10,
    kDLROCMHost = 11,
} DLDeviceType;

typedef enum {
    kDLInt = 0,
    kDLUInt = 1,
    kDLFloat = 2,
    kDLBfloat = 4,
    kDLComplex = 5,
    kDLBool = 6,
    kDLFloat8_e4m3fn = 10,
    kDLFloat8_e5m2 = 12,
} DLDataTypeCode;

typedef struct {
    uint32_t major, minor;
} DLPackVersion;

typedef struct {
    DLDeviceType device_type;
    int32_t device_id;
} DLDevice;

typedef struct {
    uint8_t code, bits; ///< a DLDataTypeCode
    uint16_t lanes;
} DLDataType;

typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape, *strides; ///< in elements; strides NULL: row-major
    uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;
#endif

#endif
