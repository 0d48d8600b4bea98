// Devices: names, closed ones, two in one call.
#include "mistakes.h"

#if KILN_WITH_VULKAN
// False: the machine has no driver at all, and the row is left out.
static bool has_driver(void)
{
    not_here |= kiln_device_list(NULL, 0) == 0;
    return !not_here;
}

static void device_of_cuda(void)
{
    AT(kiln_device_open("cuda"));
}

static void device_of_a_cuda_index(void)
{
    AT(kiln_device_open("cuda:0"));
}

static void device_in_capitals(void)
{
    AT(kiln_device_open("CPU"));
}

static void device_number_that_is_not_there(void)
{
    if (has_driver()) AT(kiln_device_open("vulkan:7"));
}

static void device_number_that_is_none(void)
{
    if (has_driver()) AT(kiln_device_open("vulkan:first"));
}

static void gpu_without_one(void)
{
    kiln_device_info infos[8] = {{.size = sizeof *infos}};
    size_t n = kiln_device_list(infos, 8);
    for (size_t i = 0; i < n && i < 8; i++) not_here |= !infos[i].software;
    if (has_driver()) AT(kiln_device_open("gpu"));
}

static void gpu_without_a_driver(void)
{
    AT(kiln_device_open("gpu"));
}
#endif

static void tensors_of_two_devices(void)
{
    AT(kiln_add(F32(2), kiln_ones(other, KILN_F32, KILN_SHAPE(2))));
}

static void lists_of_two_devices(void)
{
    kiln_tensor *t[] = {F32(2), kiln_ones(other, KILN_F32, KILN_SHAPE(2))};
    AT(kiln_concat(t, 2, 0));
}

static void input_on_another_device_than_the_network(void)
{
    kiln_cell *net = kiln_nn_dense(dev, 3, 4, NULL);
    AT(kiln_cell_call(net, kiln_ones(other, KILN_F32, KILN_SHAPE(2, 3))));
    kiln_cell_free(&net);
}

static void device_after_close(void)
{
    kiln_device *d = kiln_device_open("null"), *closed = d;
    kiln_device_close(&d);
    AT(kiln_zeros(closed, KILN_F32, KILN_SHAPE(2)));
}

static void device_closed_twice(void)
{
    kiln_device *d = kiln_device_open("null"), *closed = d;
    kiln_device_close(&d);
    AT(kiln_device_close(&closed));
}

static void closed_device_as_the_default(void)
{
    kiln_device *d = kiln_device_open("null"), *closed = d;
    kiln_device_close(&d);
    AT(kiln_set_device(closed));
}

static void optimiser_before_the_network_moves(void)
{
    kiln_tensor *p[2];
    kiln_cell *net = kiln_nn_dense(dev, 2, 2, NULL);
    kiln_optim *opt = kiln_optim_sgd(p, kiln_cell_parameters(net, p, 2), NULL);
    kiln_cell_to_device(net, other);
    kiln_backward(kiln_sum(kiln_cell_call(net, kiln_ones(other, KILN_F32, KILN_SHAPE(1, 2))), NULL), NULL);
    AT(kiln_optim_step(opt));
    kiln_optim_free(&opt);
    kiln_cell_free(&net);
}

static void more_memory_than_the_limit(void)
{
    kiln_device_set_memory_limit(dev, 1 << 20);
    AT(kiln_zeros(dev, KILN_F32, KILN_SHAPE(1 << 20)));
}

// clang-format takes rows without commas for calls.
// clang-format off
const struct mistake mistakes_in_devices[] = {
#if KILN_WITH_VULKAN
    ROW(device_of_cuda, KILN_E_ARGUMENT, WHAT_TO_DO,
        "device_open: there is no device \"cuda\" in this build; built in: cpu, vulkan, null, gpu, vulkan:N; GPUs of "
        "any maker are reached by Vulkan, \"gpu\" is the first one ({here})")
    ROW(device_of_a_cuda_index, KILN_E_ARGUMENT, WHAT_TO_DO,
        "device_open: there is no device \"cuda:0\" in this build; built in: cpu, vulkan, null, gpu, vulkan:N; GPUs "
        "of any maker are reached by Vulkan, \"gpu\" is the first one ({here})")
    ROW(device_in_capitals, KILN_E_ARGUMENT, WHAT_TO_DO,
        "device_open: there is no device \"CPU\" in this build; built in: cpu, vulkan, null, gpu, vulkan:N ({here})")
    ROW(device_number_that_is_not_there, KILN_E_MISSING, WHAT_TO_DO,
        "vulkan:7: there is no such device; the loader lists {gpus} "
        "({here})")
    ROW(device_number_that_is_none, KILN_E_ARGUMENT, WHAT_TO_DO,
        "vulkan:first: the part after ':' is not a number; the loader lists {gpus} ({here})")
    ROW(gpu_without_one, KILN_E_MISSING, WHAT_TO_DO,
        "gpu: no driver lists a real GPU; the loader lists {gpus} ({here})")
    PROCESS_ON(ON_CPU, "VK_DRIVER_FILES=/dev/null VK_ICD_FILENAMES=/dev/null", gpu_without_a_driver, 0,
        WHAT,
        "kiln: device_close: an error is pending that nobody has read: vulkan: no Vulkan driver: "
        "vkCreateInstance failed with VK_ERROR_INCOMPATIBLE_DRIVER ({here})")
#endif
    ROW(tensors_of_two_devices, KILN_E_DEVICE_MISMATCH, WHAT_TO_DO,
        "add: a is on {device}, b is on null; copy one with kiln_to_device ({here})")
    ROW(lists_of_two_devices, KILN_E_DEVICE_MISMATCH, WHAT_TO_DO,
        "concat: tensors[0] is on {device}, tensors[1] is on null; copy one with kiln_to_device ({here})")
    ROW(input_on_another_device_than_the_network, KILN_E_DEVICE_MISMATCH, WHAT_TO_DO,
        "dense 3 → 4: matmul: a is on null, b is on {device}; copy one with kiln_to_device ({here})")
    ROW(device_after_close, KILN_E_HANDLE, WHAT,
        "zeros: the device was closed, or is no device ({here})")
    ROW(device_closed_twice, KILN_E_HANDLE, WHAT,
        "device_close: the device was closed, or is no device ({here})")
    ROW(closed_device_as_the_default, KILN_E_HANDLE, WHAT,
        "set_device: the device was closed, or is no device ({here})")
    ROW(optimiser_before_the_network_moves, KILN_OK, WHAT_TO_DO,
        "optim_step: none of the 2 parameters has a gradient, none has moved; is kiln_backward called before the "
        "step? ({here})")
    ROW(more_memory_than_the_limit, KILN_E_DEVICE_MEMORY, WHAT,
        "zeros: out of memory on {device}: 4194304 bytes are asked for, 0 are in use, 0 reserved, the limit is "
        "1048576 ({here})")
    LAST_ROW
};
// clang-format on
