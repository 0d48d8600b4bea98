// Variables of the environment, errors that nobody reads, loops without scopes: each in a process of its own.
#include "mistakes.h"

static void word_of_debug_misspelt(void)
{
    kiln_relu(F32(2));
}

static void word_of_debug_that_is_none(void)
{
    kiln_relu(F32(2));
}

static void variable_misspelt(void) {}

static void variable_of_another_library(void) {}

static void switch_that_is_none(void) {}

static void mode_that_is_none(void)
{
    kiln_get_mode();
}

static void seconds_that_are_none(void) {}

#if KILN_WITH_LLVM
static kiln_status much(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = in[0];
    (void)user, (void)n_in, (void)n_out;
    for (int i = 0; i < 12; i++) x = kiln_tanh(kiln_add(x, in[0]));
    out[0] = x;
    return kiln_error();
}

static int compile(void)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = F32(64), *y;
    kiln_function *f = kiln_jit(much, NULL, NULL);
    kiln_call(f, &x, 1, &y, 1);
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    return kiln_error();
}

static void compiler_that_is_not_there(void)
{
    compile();
}
#endif

static void error_that_nobody_reads(void)
{
    AT(kiln_matmul(F32(2, 3), F32(4, 5)));
}

static void error_that_a_check_prints(void)
{
    THERE(kiln_matmul(F32(2, 3), F32(4, 5)));
    AT(KILN_CHECK(kiln_error()));
}

static void error_that_is_cleared_unread(void)
{
    AT(kiln_matmul(F32(2, 3), F32(4, 5)));
    kiln_error_clear();
}

static void first_nan(void)
{
    kiln_tensor *x = kiln_sub(F32(3), F32(3));
    AT(kiln_log(x));
}

static void nan_in_a_network(void)
{
    kiln_cell *net = kiln_nn_sequential(
        KILN_CELLS(kiln_nn_relu(), kiln_nn_dense(dev, 2, 3, KILN_NN_DENSE(.weight_init = "ones", .no_bias = true))));
    kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(1, 2), 3e38);
    AT(kiln_cell_call(net, x));
    kiln_cell_free(&net);
}

static void nan_in_a_backward(void)
{
    kiln_tensor *w = kiln_parameter(kiln_arange(dev, KILN_F32, 0, 3, 1), "w");
    kiln_tensor *y = THERE(kiln_sqrt(w));
    kiln_backward(kiln_sum(y, NULL), NULL);
}

static kiln_status logs(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    kiln_tensor *y = THERE(kiln_log(in[0]));
    out[0] = kiln_mean(y, NULL);
    return kiln_error();
}

static void nan_in_a_capture(void)
{
    kiln_tensor *x = kiln_sub(F32(3), F32(3)), *y;
    kiln_function *f = kiln_jit(logs, NULL, KILN_JIT(.name = "step"));
    AT(kiln_call(f, &x, 1, &y, 1));
    kiln_function_free(&f);
}

static void error_that_nobody_reads_and_nobody_wants(void)
{
    AT(kiln_matmul(F32(2, 3), F32(4, 5)));
}

static void loop_without_a_scope(void)
{
    for (int i = 0; i < 5000; i++) AT(kiln_relu(kiln_scalar(1)));
}

static void loop_in_one_scope(void)
{
    kiln_scope *scope = THERE(kiln_scope_begin());
    for (int i = 0; i < 100000; i++) AT(kiln_scalar(1));
    kiln_scope_end(&scope);
}

static void label_out_of_range_on_a_gpu(void)
{
    const int64_t labels[] = {0, 9, 10, 3};
    AT(kiln_cross_entropy(F32(4, 10), kiln_from_bytes(dev, KILN_I64, KILN_SHAPE(4), KILN_BYTES(labels)), NULL));
}

static void id_out_of_range_on_a_gpu(void)
{
    const int32_t ids[] = {3, -11};
    AT(kiln_embedding(F32(10, 4), kiln_from_bytes(dev, KILN_I32, KILN_SHAPE(1, 2), KILN_BYTES(ids))));
}

static kiln_status embed(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = THERE(kiln_embedding(kiln_exp(in[0]), in[1]));
    return kiln_error();
}

static void id_out_of_range_in_a_capture_on_a_gpu(void)
{
    const int64_t ids[] = {3, 10};
    kiln_tensor *in[] = {F32(10, 4), kiln_from_bytes(dev, KILN_I64, KILN_SHAPE(2), KILN_BYTES(ids))}, *y;
    kiln_function *f = kiln_jit(embed, NULL, KILN_JIT(.name = "embed"));
    AT(kiln_call(f, in, 2, &y, 1));
    kiln_function_free(&f);
}

static void f32_and_f64(void)
{
    AT(kiln_mul(F32(2), kiln_ones(dev, KILN_F64, KILN_SHAPE(2))));
}

static void handles_left_on_a_device(void)
{
    AT(kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 3)));
}

static void freed_handle_that_is_tracked(void)
{
    kiln_tensor *x = THERE(kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 3))), *same = x;
    kiln_free(&x);
    AT(kiln_exp(same));
}

// clang-format off
const struct mistake mistakes_in_environment[] = {
    PROCESS("KILN_DEBUG=errros", word_of_debug_misspelt, 0, WHAT_TO_DO,
        "kiln: KILN_DEBUG: there is no \"errros\"; known are breaks, errors, fuse-all, guards, halves, handles, "
        "host-flow, indices, loops, nan, no-halves, no-matrices, passes, promote, record-all, redzones, replay, "
        "skip=NAME, spec, tile=TILE, validate, verify; is \"errors\" meant?")
    PROCESS("KILN_DEBUG=1", word_of_debug_that_is_none, 0, WHAT_TO_DO,
        "kiln: KILN_DEBUG: there is no \"1\"; known are breaks, errors, fuse-all, guards, halves, handles, "
        "host-flow, indices, loops, nan, no-halves, no-matrices, passes, promote, record-all, redzones, replay, "
        "skip=NAME, spec, tile=TILE, validate, verify")
    PROCESS("KILN_LOGS=0", variable_misspelt, 0, WHAT_TO_DO,
        "kiln: the environment has KILN_LOGS, which means nothing; known are KILN_BLAS KILN_CACHE_DIR "
        "KILN_CACHE_LIMIT KILN_CPU_ISA KILN_DEBUG KILN_DEVICE KILN_DUMP KILN_JIT KILN_JIT_RECOMPILES "
        "KILN_LAUNCH_BLOCKING KILN_LLVM KILN_LOG KILN_MODE KILN_PROFILE KILN_TUNE KILN_WAIT_S; is \"KILN_LOG\" meant?")
    PROCESS("KILN_CUDA_VISIBLE_DEVICES=0", variable_of_another_library, 0, WHAT_TO_DO,
        "kiln: the environment has KILN_CUDA_VISIBLE_DEVICES, which means nothing; known are KILN_BLAS "
        "KILN_CACHE_DIR KILN_CACHE_LIMIT KILN_CPU_ISA KILN_DEBUG KILN_DEVICE KILN_DUMP KILN_JIT KILN_JIT_RECOMPILES "
        "KILN_LAUNCH_BLOCKING KILN_LLVM KILN_LOG KILN_MODE KILN_PROFILE KILN_TUNE KILN_WAIT_S")
    PROCESS("KILN_JIT=off", switch_that_is_none, 0, WHAT_TO_DO,
        "kiln: KILN_JIT: there is no \"off\"; known are 0 1")
    PROCESS("KILN_MODE=grahp", mode_that_is_none, 0, WHAT_TO_DO,
        "kiln: KILN_MODE: there is no \"grahp\"; known are eager, graph")
    PROCESS("KILN_WAIT_S=-1", seconds_that_are_none, 0, WHAT,
        "kiln: KILN_WAIT_S: \"-1\" is no number above 0; it is as if it were not set")
#if KILN_WITH_LLVM
    PROCESS_ON(ON_CPU, "KILN_CACHE_DIR=/dev/null/none KILN_LLVM=/nonexistent/module.so",
        compiler_that_is_not_there, 0, WHAT,
        "kiln: KILN_LLVM: /nonexistent/module.so: No such file or directory")
#endif
    PROCESS("KILN_LOG=1", error_that_nobody_reads, 0, WHAT,
        "kiln: device_close: an error is pending that nobody has read: matmul: inner dimensions differ: a is "
        "f32[2,3], b is f32[4,5] ({here})")
    PROCESS("KILN_LOG=1", error_that_a_check_prints, 1, WHAT,
        "{here}: KILN_E_SHAPE: matmul: inner dimensions differ: a is f32[2,3], b is f32[4,5] ({there})")
    PROCESS("KILN_DEBUG=errors", error_that_is_cleared_unread, 0, WHAT,
        "kiln: error KILN_E_SHAPE: matmul: inner dimensions differ: a is f32[2,3], b is f32[4,5] ({here})")
    PROCESS("KILN_DEBUG=nan", first_nan, 0, WHAT,
        "kiln: nan: log made 3 infinities in f32[3], the first at [0]; x f32[3] in [0, 0] ({here})")
    PROCESS("KILN_DEBUG=nan", nan_in_a_network, 0, WHAT,
        "kiln: nan: matmul made 3 infinities in f32[1,3], the first at [0,0]; a f32[1,2] in [3e+38, 3e+38]; b "
        "f32[2,3] in [1, 1] ({here}, in sequential.1 (dense 2 → 3))")
    PROCESS("KILN_DEBUG=nan", nan_in_a_backward, 0, WHAT,
        "kiln: nan: sqrt.grad0 made 1 infinity in f32[3], the first at [0]; y f32[3] in [0, 1.41421]; dy f32[3] in "
        "[1, 1] ({there}, in the backward)")
    PROCESS("KILN_DEBUG=nan", nan_in_a_capture, 0, WHAT,
        "kiln: nan: log made 3 infinities in f32[3], the first at [0]; x f32[3] in [0, 0] ({there})")
    PROCESS("KILN_LOG=0", error_that_nobody_reads_and_nobody_wants, 0, WHAT,
        "")
    PROCESS("KILN_LOG=1", loop_without_a_scope, 0, WHAT_TO_DO,
        "kiln: 10000 tensors are alive that no scope owns: each needs kiln_free; a loop takes a scope in each turn, "
        "from kiln_scope_begin to kiln_scope_end, which frees what was made in it ({here})")
    PROCESS("KILN_LOG=1", loop_in_one_scope, 0, WHAT_TO_DO,
        "kiln: the scope begun at {there} owns 100000 tensors, which live until it ends: a loop takes a scope of its "
        "own in each turn, from kiln_scope_begin to kiln_scope_end ({here})")
    PROCESS("KILN_DEBUG=indices", label_out_of_range_on_a_gpu, 0, WHAT,
        "kiln: device_close: an error is pending that nobody has read: cross_entropy: label 10 at [2] is out of "
        "range for 10 classes ({here})")
    PROCESS_ON(ON_CPU, "KILN_DEBUG=indices",
        id_out_of_range_on_a_gpu, 0, WHAT,
        "kiln: device_close: an error is pending that nobody has read: embedding: index -11 is out of range for an "
        "axis of 10 elements ({here})")
    PROCESS_ON(ON_CPU, "KILN_DEBUG=indices",
        id_out_of_range_in_a_capture_on_a_gpu, 0, WHAT,
        "kiln: device_close: an error is pending that nobody has read: embedding: index 10 is out of range for an "
        "axis of 10 elements ({here})")
    PROCESS_ON(ON_VULKAN, "KILN_DEBUG=indices",
        id_out_of_range_on_a_gpu, 0, WHAT,
        "kiln: device_close: an error is pending that nobody has read: embedding: index -11 at [0,1] is out of range "
        "for an axis of 10 elements ({here})")
    PROCESS_ON(ON_VULKAN, "KILN_DEBUG=indices",
        id_out_of_range_in_a_capture_on_a_gpu, 0, WHAT,
        "kiln: device_close: an error is pending that nobody has read: embedding: index 10 at [1] is out of range "
        "for an axis of 10 elements ({here})")
    PROCESS("KILN_DEBUG=promote", f32_and_f64, 0, WHAT,
        "kiln: promote: mul made f64 of f32[2], f64[2] ({here})")
    PROCESS("KILN_DEBUG=handles", handles_left_on_a_device, 0, WHAT,
        "kiln: device_close: 1 handle on {device} is still alive: f32[2,3] made at {here}")
    PROCESS("KILN_DEBUG=handles", freed_handle_that_is_tracked, 0, WHAT,
        "kiln: device_close: an error is pending that nobody has read: exp: x is a handle that was freed: f32[2,3] "
        "made at {there} ({here})")
    LAST_ROW
};
// clang-format on
