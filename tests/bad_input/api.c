// Wrong calls of what is no op: creation, reading, writing, scopes, devices, gradients, the debug functions.
#include "bad_input.h"

void wrong_tensors(void **state)
{
    const int64_t minus[] = {2, -1}, huge[] = {INT64_MAX, 3};
    float v[6] = {0};
    kiln_tensor *a = F32(2, 3), *gone = kiln_own(F32(2));
    BAD(kiln_from_data(dev, KILN_F32, 1, minus + 1, v), KILN_E_SHAPE, "from_data: ", "dimension 0 is negative: -1");
    BAD(kiln_from_data(dev, KILN_F32, 2, huge, v), KILN_E_SHAPE, "overflow");
    BAD(kiln_from_data(dev, KILN_F32, 17, huge, v), KILN_E_SHAPE, "from_data: ", "rank 17 is above 16");
    BAD(kiln_from_data(dev, KILN_F32, 2, NULL, v), KILN_E_ARGUMENT, "from_data: ", "dims is NULL");
    BAD(kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 3), NULL), KILN_E_ARGUMENT, "from_data: ", "data is NULL");
    BAD(kiln_from_data(dev, (kiln_dtype)31, KILN_SHAPE(2), v), KILN_E_DTYPE, "from_data: ", "dtype 31");
    const int32_t labels[] = {3, 1, 4};
    BAD(kiln_from_bytes(dev, KILN_I64, KILN_SHAPE(3), KILN_BYTES(labels)), KILN_E_SHAPE,
        "from_bytes: i64[3] takes 24 bytes, data has 12");
    BAD(kiln_from_bytes(dev, KILN_C64, KILN_SHAPE(2, 1), v, 8), KILN_E_SHAPE, "c64[2,1] takes 16 bytes, data has 8");
    BAD(kiln_from_bytes(dev, KILN_I4, KILN_SHAPE(8), v, 8), KILN_E_SHAPE, "i4[8] takes 4 bytes, data has 8");
    BAD(kiln_from_bytes(dev, KILN_I4, KILN_SHAPE(7), v, 3), KILN_E_SHAPE, "the last axis must be of even size");
    BAD(kiln_from_bytes(dev, KILN_F32, 2, huge, v, 8), KILN_E_SHAPE, "overflow");
    BAD(kiln_from_bytes(dev, KILN_F32, 17, huge, v, 8), KILN_E_SHAPE, "rank 17 is above 16");
    BAD(kiln_from_bytes(dev, KILN_F32, 1, minus + 1, v, 4), KILN_E_SHAPE, "dimension 0 is negative: -1");
    BAD(kiln_from_bytes(dev, (kiln_dtype)31, KILN_SHAPE(2), v, 4), KILN_E_DTYPE, "dtype 31");
    BAD(kiln_from_bytes(dev, KILN_F32, KILN_SHAPE(2), NULL, 8), KILN_E_ARGUMENT, "data is NULL");
    BAD(kiln_read(a, v, 4), KILN_E_ARGUMENT, "read: ", "f32[2,3]", "24 bytes", "size_B is 4");
    BAD(kiln_read(a, NULL, 24), KILN_E_ARGUMENT, "read: ", "dst is NULL");
    BAD(kiln_read(NULL, v, 24), KILN_E_ARGUMENT, "read: ", "t is NULL");
    BAD(kiln_to_device(a, NULL), KILN_E_ARGUMENT, "to_device: ", "dev is NULL");
    BAD(kiln_to_device(NULL, dev), KILN_E_ARGUMENT, "to_device: ", "t is NULL");
    BAD(kiln_alias(NULL), KILN_E_ARGUMENT, "alias: ", "t is NULL");
    BAD(kiln_keep(NULL), KILN_E_ARGUMENT, "keep: ", "t is NULL");
    BAD(kiln_own(NULL), KILN_E_ARGUMENT, "own: ", "t is NULL");
    BAD(kiln_replace(NULL, a), KILN_E_ARGUMENT, "replace: ", "t is NULL");
    BAD(kiln_replace(&(kiln_tensor *){a}, NULL), KILN_E_ARGUMENT, "replace: ", "next is NULL");
    BAD(kiln_to_string(NULL), KILN_E_ARGUMENT, "t is NULL");
    BAD_VOID(kiln_print(NULL, stdout), KILN_E_ARGUMENT, "t is NULL");
    BAD_VOID(kiln_print(a, NULL), KILN_E_ARGUMENT, "NULL");
    BAD(kiln_print_with(NULL, stdout, NULL), KILN_E_ARGUMENT, "print_with: ", "t is NULL");
    BAD(kiln_print_with(a, NULL, NULL), KILN_E_ARGUMENT, "print_with: ", "NULL");
    BAD(kiln_print_with(a, stdout, KILN_PRINT(.precision = 33)), KILN_E_ARGUMENT, "print_with: ", ".precision is 33");
    BAD(kiln_to_string_with(NULL, NULL), KILN_E_ARGUMENT, "to_string_with: ", "t is NULL");
    BAD(kiln_set_print_options(KILN_PRINT(.width = -1)), KILN_E_ARGUMENT, "set_print_options: ", ".width is -1");
    BAD(kiln_get_print_options(NULL), KILN_E_ARGUMENT, "get_print_options: ");
    BAD_VOID(assert_true(isnan(kiln_item(NULL))), KILN_E_ARGUMENT, "item: ", "t is NULL");
    BAD_VOID(assert_int_equal(kiln_tensor_dtype(NULL), KILN_F32), KILN_E_ARGUMENT, "tensor_dtype: ", "t is NULL");
    BAD_VOID(assert_int_equal(kiln_rank(NULL), 0), KILN_E_ARGUMENT, "rank: ", "t is NULL");
    BAD_VOID(assert_null(kiln_dims(NULL)), KILN_E_ARGUMENT, "dims: ", "t is NULL");
    BAD_VOID(assert_null(kiln_strides(NULL)), KILN_E_ARGUMENT, "strides: ", "t is NULL");
    BAD_VOID(assert_int_equal(kiln_numel(NULL), 0), KILN_E_ARGUMENT, "numel: ", "t is NULL");
    BAD_VOID(assert_null(kiln_tensor_device(NULL)), KILN_E_ARGUMENT, "tensor_device: ", "t is NULL");
    BAD_VOID(assert_int_equal(kiln_tensor_version(NULL), 0), KILN_E_ARGUMENT, "tensor_version: ", "t is NULL");
    BAD_VOID(assert_false(kiln_is_contiguous(NULL)), KILN_E_ARGUMENT, "is_contiguous: ", "t is NULL");
    BAD_VOID(assert_false(kiln_is_view_of(a, NULL)), KILN_E_ARGUMENT, "is_view_of: ", "NULL");

    // Freed twice through a second pointer to the handle, and read after it.
    kiln_tensor *second = gone;
    kiln_free(&gone);
    assert_null(gone);
    BAD_VOID(kiln_free(&second), KILN_E_HANDLE, "free: ", "freed already");
    BAD(kiln_read(second, v, 8), KILN_E_HANDLE, "read: ", "freed");
    BAD(kiln_relu(second), KILN_E_HANDLE, "relu: ", "x is a handle that was freed");
    BAD(kiln_backward(second, NULL), KILN_E_HANDLE, "freed");
    kiln_free(NULL);
    kiln_free(&gone);
}

void wrong_writes(void **state)
{
    float v[6] = {0};
    kiln_tensor *a = F32(2, 3), *i = I64(2, 3), *p = kiln_parameter(F32(2), "p");
    BAD(kiln_assign(NULL, a), KILN_E_ARGUMENT, "assign: ", "dst is NULL");
    BAD(kiln_assign(a, NULL), KILN_E_ARGUMENT, "assign: ", "src is NULL");
    BAD(kiln_assign(a, F32(4)), KILN_E_SHAPE, "assign: ", "f32[4]", "f32[2,3]");
    BAD(kiln_assign(i, a), KILN_E_DTYPE, "assign: ", "f32[2,3]", "i64[2,3]", "cast it first");
    BAD(kiln_assign(kiln_scalar(1), kiln_scalar(2)), KILN_E_ARGUMENT, "assign", "weak scalar");
    BAD(kiln_assign(p, F32(2)), KILN_E_GRADIENT, "assign", "leaf that requires a gradient");
    BAD(kiln_mul_(p, F32(2)), KILN_E_GRADIENT, "mul_", "leaf that requires a gradient");
    BAD(kiln_relu_(kiln_narrow(p, 0, 0, 1)), KILN_E_GRADIENT, "relu_", "view of a leaf");
    BAD(kiln_write(a, v, 8), KILN_E_ARGUMENT, "write: ", "f32[2,3]", "24 bytes", "size_B is 8");
    BAD(kiln_write(a, NULL, 24), KILN_E_ARGUMENT, "write: ", "data is NULL");
    BAD(kiln_write(NULL, v, 24), KILN_E_ARGUMENT, "write: ", "dst is NULL");
    BAD(kiln_write(p, v, 8), KILN_E_GRADIENT, "leaf that requires a gradient");
    BAD(kiln_set_slice(a, KILN_SLICE(.start = KILN_ARGS(0, 0, 0)), a), KILN_E_SHAPE, "slice: ", "f32[2,3]");
    BAD(kiln_set_slice(a, KILN_SLICE(.start = KILN_ARGS(1)), F32(9)), KILN_E_SHAPE, "assign: ", "f32[9]");
    BAD(kiln_set_slice(NULL, NULL, a), KILN_E_ARGUMENT, "NULL");
    BAD(kiln_split(a, 0, NULL, 2), KILN_E_ARGUMENT, "split_sizes: ", "out is NULL");
    BAD(kiln_split_sizes(a, 0, 2, NULL, (kiln_tensor *[2]){NULL}), KILN_E_ARGUMENT, "split_sizes: ", "sizes is NULL");
    BAD(kiln_split(NULL, 0, (kiln_tensor *[2]){NULL}, 2), KILN_E_ARGUMENT, "split: ", "t is NULL");

    // A value that a rule needs was written: both ops are named.
    kiln_tensor *y = kiln_exp(p), *z = kiln_sum(y, NULL);
    assert_int_equal(kiln_mul_(y, kiln_scalar(2)), KILN_OK);
    BAD(kiln_backward(z, NULL), KILN_E_GRADIENT, "backward: ", "exp", "mul");
}

void wrong_devices(void **state)
{
    kiln_device_info info = {.size = sizeof info};
    kiln_device_stats none = {0};
    BAD(kiln_device_open("tpu"), KILN_E_ARGUMENT, "device_open: ", "\"tpu\"", "cpu", "null");
    BAD(kiln_set_device(NULL), KILN_E_ARGUMENT, "set_device: ", "dev is NULL");
    BAD(kiln_device_get_info(NULL, &info), KILN_E_ARGUMENT, "device_get_info: ", "dev is NULL");
    BAD(kiln_device_get_info(dev, NULL), KILN_E_ARGUMENT, "device_get_info: ", "out");
    BAD_VOID(kiln_device_get_stats(dev, &none), KILN_E_ARGUMENT, "device_get_stats: ", "size");
    BAD_VOID(kiln_device_get_stats(NULL, &none), KILN_E_ARGUMENT, "device_get_stats: ", "dev is NULL");
    BAD(kiln_device_set_memory_limit(NULL, 1), KILN_E_ARGUMENT, "device_set_memory_limit: ", "dev is NULL");
    BAD(kiln_device_trim(NULL), KILN_E_ARGUMENT, "device_trim: ", "dev is NULL");
    BAD(kiln_device_tune(NULL), KILN_E_ARGUMENT, "device_tune: ", "dev is NULL");
    BAD(kiln_device_set_strict(NULL, true), KILN_E_ARGUMENT, "device_set_strict: ", "dev is NULL");
    BAD(kiln_device_synchronize(NULL), KILN_E_ARGUMENT, "device_synchronize: ", "dev is NULL");
    BAD(kiln_device_mark(NULL, 0), KILN_E_ARGUMENT, "device_mark: ", "dev is NULL");
    BAD(kiln_device_mark(dev, 99), KILN_E_ARGUMENT, "device_mark: ", "99");
    BAD_VOID(assert_true(isnan(kiln_device_elapsed(dev, 30, 31))), KILN_E_STATE, "device_elapsed: ", "never set");
    kiln_device *closed = NULL;
    kiln_device_close(&closed);
    kiln_device_close(NULL);
}

static kiln_status twice(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], in[0]);
    return kiln_error();
}

static kiln_status nothing(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return KILN_OK;
}

static kiln_status refuse(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return KILN_E_STATE;
}

static kiln_tensor *same(void *user, kiln_tensor *grad)
{
    return NULL;
}

void wrong_gradients(void **state)
{
    kiln_tensor *x = F32(2), *in[] = {x}, *g[2] = {NULL}, *p = kiln_parameter(F32(2), "p"), *y = kiln_square(p),
                *null[] = {NULL};
    BAD(kiln_grad(NULL, NULL, in, 1, NULL, g, 1), KILN_E_ARGUMENT, "grad: ", "fn is NULL");
    BAD(kiln_grad(twice, NULL, NULL, 1, NULL, g, 1), KILN_E_ARGUMENT, "grad: ", "in is NULL");
    BAD(kiln_grad(twice, NULL, null, 1, NULL, g, 1), KILN_E_ARGUMENT, "grad", "NULL");
    BAD(kiln_grad(twice, NULL, in, 1, NULL, g, 2), KILN_E_ARGUMENT, "grad: ", "1 results", "2");
    BAD(kiln_grad(twice, NULL, in, 1, NULL, NULL, 1), KILN_E_ARGUMENT, "grad: ", "results");
    BAD(kiln_grad(nothing, NULL, in, 1, NULL, g, 1), KILN_E_ARGUMENT, "grad: ", "output 0 of 1 NULL");
    BAD(kiln_grad(refuse, NULL, in, 1, NULL, g, 1), KILN_E_STATE, "grad: ", "fn failed", "KILN_E_STATE");
    BAD(kiln_grad(twice, NULL, in, 1, KILN_GRAD(.wrt = KILN_ARGS(-1)), g, 1), KILN_E_ARGUMENT, "grad: ", "input -1",
        "1");
    BAD(kiln_grad(twice, NULL, in, 1, KILN_GRAD(.wrt = KILN_ARGS(0, 0)), g, 2), KILN_E_ARGUMENT,
        "grad: ", "input 0 twice");
    BAD(kiln_grad(twice, NULL, in, 1, KILN_GRAD(.params = KILN_PARAMS(x)), g, 1), KILN_E_ARGUMENT,
        "grad: ", ".params entry 0");
    BAD(kiln_grad(twice, NULL, in, 1, KILN_GRAD(.params = KILN_PARAMS(p, p)), g, 2), KILN_E_ARGUMENT,
        "grad: ", "p twice");
    BAD(kiln_grad(twice, NULL, in, 1, KILN_GRAD(.sens = KILN_TENSORS(x, x)), g, 1), KILN_E_SHAPE, "grad: ", "sens size",
        "2", "1");
    BAD(kiln_grad(twice, NULL, in, 1, KILN_GRAD(.sens = KILN_TENSORS(F32(3))), g, 1), KILN_E_SHAPE, "sens", "f32[2]",
        "f32[3]");
    BAD(kiln_grad(twice, NULL, in, 1, KILN_GRAD(.sens = KILN_TENSORS(I64(2))), g, 1), KILN_E_DTYPE, "sens", "f32",
        "i64");
    BAD(kiln_value_and_grad(twice, NULL, in, 1, NULL, g, 1), KILN_E_ARGUMENT, "value_and_grad: ", "2 results", "1");
    BAD(kiln_backward(NULL, NULL), KILN_E_ARGUMENT, "backward: ", "NULL");
    BAD(kiln_backward(y, F32(3)), KILN_E_SHAPE, "backward: ", "f32[2]", "f32[3]");
    BAD(kiln_backward_graph(x), KILN_E_GRADIENT, "backward_graph: ", "nothing that requires");
    BAD(kiln_parameter(NULL, "w"), KILN_E_ARGUMENT, "parameter: ", "NULL");
    BAD(kiln_parameter(BOOL(2), "w"), KILN_E_DTYPE, "bool");
    BAD(kiln_set_requires_grad(y, true), KILN_E_GRADIENT, "set_requires_grad: ", "square");
    BAD(kiln_set_requires_grad(NULL, true), KILN_E_ARGUMENT, "set_requires_grad: ", "NULL");
    BAD(kiln_set_gradient(p, F32(3)), KILN_E_SHAPE, "set_gradient: ", "f32[3]", "f32[2]");
    BAD(kiln_set_gradient(x, F32(2)), KILN_E_GRADIENT, "set_gradient: ", "no leaf");
    BAD(kiln_gradient(NULL), KILN_E_ARGUMENT, "gradient: ", "NULL");
    BAD(kiln_jit(NULL, NULL, NULL), KILN_E_ARGUMENT, "jit: fn is NULL");
    BAD(kiln_jit(twice, NULL, KILN_JIT(.syntax = (kiln_syntax)3)), KILN_E_ARGUMENT, "jit: ", ".syntax 3");
    BAD(kiln_call(NULL, in, 1, g, 1), KILN_E_ARGUMENT, "call: f is NULL");
    BAD(kiln_set_mode((kiln_mode)9), KILN_E_ARGUMENT, "set_mode: ", "9");
    BAD(kiln_set_default_mode((kiln_mode)9), KILN_E_ARGUMENT, "set_default_mode: ", "9");
    BAD(kiln_constant(NULL), KILN_E_ARGUMENT, "constant: ", "NULL");
    BAD(kiln_state(NULL), KILN_E_ARGUMENT, "state: ", "NULL");
    BAD(kiln_state(y), KILN_E_GRADIENT, "state: ", "no leaf", "square");
    BAD(kiln_state(kiln_scalar(1)), KILN_E_STATE, "state: ", "a number");
    BAD(kiln_host_number(NULL, NULL), KILN_E_ARGUMENT, "host_number: ", "NULL");
    BAD(kiln_cell_jit(NULL, NULL), KILN_E_ARGUMENT, "cell_jit: ", "NULL");
    BAD(kiln_stop_gradient(NULL), KILN_E_ARGUMENT, "NULL");
    BAD_VOID(kiln_no_capture_end(), KILN_E_STATE, "no_capture_end: ", "kiln_no_capture_begin");
    BAD_VOID(kiln_no_grad_end(), KILN_E_STATE, "no_grad_end: ", "kiln_no_grad_begin");
    BAD(kiln_register_bprop("frobnicate", NULL, NULL), KILN_E_ARGUMENT, "register_bprop: ", "\"frobnicate\"");
    BAD(kiln_register_bprop(NULL, NULL, NULL), KILN_E_ARGUMENT, "register_bprop: ", "op is NULL");
    BAD(kiln_register_rule(NULL), KILN_E_ARGUMENT, "register_rule: ", "spec is NULL");
    BAD_VOID(assert_int_equal(kiln_rule_n_in(), 0), KILN_E_STATE, "rule_n_in: ", "inside a rule");
    BAD_VOID(assert_int_equal(kiln_rule_int("axis"), 0), KILN_E_STATE, "rule_int: ", "inside a rule");
    BAD(kiln_register_hook(x, same, NULL), KILN_E_GRADIENT, "register_hook: ", "requires no gradient");
    BAD(kiln_register_hook(p, NULL, NULL), KILN_E_ARGUMENT, "register_hook: ", "fn is NULL");
    BAD(kiln_remove_hook(p, 77), KILN_E_ARGUMENT, "remove_hook: ", "77");
    BAD(kiln_gradcheck(twice, NULL, in, 1, NULL), KILN_E_ARGUMENT, "gradcheck: ", "f64");
    BAD(kiln_gradcheck(NULL, NULL, in, 1, NULL), KILN_E_ARGUMENT, "gradcheck: ", "fn is NULL");
    BAD(kiln_graph_print(NULL, stdout), KILN_E_ARGUMENT, "NULL");
    BAD(kiln_graph_parse(NULL), KILN_E_ARGUMENT, "NULL");
    BAD(kiln_graph_parse("%0: f32[2] = inputs"), KILN_E_FORMAT, "graph:1:14: ");
    BAD(kiln_graph_node_op(NULL, 0), KILN_E_ARGUMENT, "NULL");
}

static void ignore(void *user, const kiln_fact *fact) {}

void wrong_debug_calls(void **state)
{
    kiln_kernel_info k = {.size = sizeof k}, unset = {0};
    BAD(kiln_kernel_get_info(1u << 30, &k), KILN_E_ARGUMENT, "kernel_get_info: ", "1073741824");
    BAD(kiln_kernel_get_info(0, &unset), KILN_E_ARGUMENT, "kernel_get_info: ", "size");
    BAD(kiln_kernel_glsl(1u << 30, false), KILN_E_ARGUMENT, "kernel_glsl: ", "1073741824");
    BAD(kiln_kernel_spirv(0, NULL), KILN_E_ARGUMENT, "kernel_spirv: ", "n_words is NULL");
    BAD(kiln_kernel_disassemble(1u << 30), KILN_E_ARGUMENT, "kernel_disassemble: ", "1073741824");
    size_t n_words;
    BAD(kiln_kernel_specialise(1u << 30, NULL, NULL, 0, &n_words), KILN_E_ARGUMENT,
        "kernel_specialise: ", "1073741824");
    BAD(kiln_kernel_specialise(0, NULL, NULL, 0, NULL), KILN_E_ARGUMENT, "kernel_specialise: ", "n_words is NULL");
    BAD(kiln_kernel_specialise(0, NULL, NULL, 1, &n_words), KILN_E_ARGUMENT, "kernel_specialise: ", "ids is NULL");
    const uint32_t no_module[8] = {0x07230203};
    BAD(kiln_spirv_with_modes(NULL, 8, &n_words), KILN_E_ARGUMENT, "spirv_with_modes: ", "words is NULL");
    BAD(kiln_spirv_with_modes(no_module, 8, NULL), KILN_E_ARGUMENT, "spirv_with_modes: ", "n_out is NULL");
    BAD(kiln_spirv_with_modes(no_module, 3, &n_words), KILN_E_ARGUMENT, "spirv_with_modes: ", "the 3 words are no");
    kiln_pass_info pass = {.size = sizeof pass}, no_size = {0};
    kiln_optimize_opts opts = {.size = sizeof opts, .passes = (const char *[]){"fold", "fuel"}, .n_passes = 2},
                       bare = {0};
    BAD(kiln_pass_get_info(1u << 30, &pass), KILN_E_ARGUMENT, "pass_get_info: ", "1073741824");
    BAD(kiln_pass_get_info(0, &no_size), KILN_E_ARGUMENT, "pass_get_info: ", "size");
    BAD(kiln_graph_text_optimize(NULL, 0, "x", NULL), KILN_E_ARGUMENT, "graph_text_optimize: ", "text is NULL");
    BAD(kiln_graph_text_optimize("", 0, NULL, NULL), KILN_E_ARGUMENT, "graph_text_optimize: ", "name is NULL");
    BAD(kiln_graph_text_optimize("", 0, "x", &opts), KILN_E_ARGUMENT, "graph_text_optimize: ", "\"fuel\"");
    BAD(kiln_graph_text_optimize("", 0, "x", &bare), KILN_E_ARGUMENT, "graph_text_optimize: ", "size");
    BAD(kiln_graph_text_optimize("%0 = 1", 6, "x", NULL), KILN_E_FORMAT, "x:1:");
    BAD(kiln_cache_visit(NULL, NULL), KILN_E_ARGUMENT, "cache_visit: ", "fn is NULL");
    BAD(kiln_cache_clear(KILN_CACHE_CLEAR(.older_s = -1), NULL, NULL), KILN_E_ARGUMENT,
        "cache_clear: ", "older_s is -1");
    BAD(kiln_cache_clear(KILN_CACHE_CLEAR(.older_s = NAN), NULL, NULL), KILN_E_ARGUMENT, "cache_clear: ", "nan");
    BAD(kiln_library_facts(NULL, NULL), KILN_E_ARGUMENT, "library_facts: ", "fn is NULL");
    BAD(kiln_device_facts("tpu", ignore, NULL), KILN_E_ARGUMENT, "device_facts: ", "\"tpu\"");
    BAD(kiln_device_facts(NULL, ignore, NULL), KILN_E_ARGUMENT, "device_facts: ", "device is NULL");
}
