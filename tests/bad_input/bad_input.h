// Cases of wrong calls: each is one line with the call, the code that must be pending after it, and texts that its
// message must hold (the op, the argument, the values). Every message must end with the line of the call.
#pragma once
#include <kiln/debug.h>
#include <kiln/kiln.h>

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern kiln_device *dev;   // under test
extern kiln_device *other; // a second one, for calls that mix them

void check_bad(const char *call, uintptr_t result, kiln_status code, const char *file, int line,
               const char *const *parts);
// The call returns NULL, 0 or the code; the pending error is cleared.
#define BAD(call, code, ...) \
    check_bad(#call, (uintptr_t)(call), code, __FILE__, __LINE__, (const char *const[]){__VA_ARGS__, NULL})
// The same for calls that return nothing, or NaN or 0 in a way of their own.
#define BAD_VOID(call, code, ...) \
    ((call), check_bad(#call, 0, code, __FILE__, __LINE__, (const char *const[]){__VA_ARGS__, NULL}))

#define F32(...)   kiln_ones(dev, KILN_F32, KILN_SHAPE(__VA_ARGS__))
#define I64(...)   kiln_zeros(dev, KILN_I64, KILN_SHAPE(__VA_ARGS__))
#define BOOL(...)  kiln_ones(dev, KILN_BOOL, KILN_SHAPE(__VA_ARGS__))
#define THERE(...) kiln_ones(other, KILN_F32, KILN_SHAPE(__VA_ARGS__))

// The end of a message that follows from a wrong dtype and the like.
void wrong_shapes(void **state);
void too_many_dimensions(void **state);
void wrong_dtypes(void **state);
void wrong_axes(void **state);
void wrong_values(void **state);
void wrong_indices(void **state);
void indices_out_of_range(void **state);
void wrong_views(void **state);
void every_op_rejects_null(void **state);
void every_op_rejects_a_freed_handle(void **state);
void every_op_rejects_two_devices(void **state);
void every_op_waits_for_a_pending_error(void **state);
void every_op_moves_storage_dtypes_or_refuses(void **state);
void every_size_is_checked(void **state);
void other_versions_of_options(void **state);
void every_list_is_checked(void **state);
void every_freed_handle_is_found(void **state);
void freed_handles_stay_freed(void **state);
void wrong_tensors(void **state);
void wrong_writes(void **state);
void wrong_devices(void **state);
void wrong_gradients(void **state);
void wrong_calls_of_functions(void **state);
void functions_that_fail(void **state);
void functions_that_write_and_fail(void **state);
void reads_of_what_is_not_known(void **state);
void wrong_control_flow(void **state);
void wrong_host_calls(void **state);
void wrong_bundles(void **state);
void wrong_functions_of_bundles(void **state);
void wrong_cells(void **state);
void wrong_layers(void **state);
void wrong_convolutions(void **state);
void wrong_pools(void **state);
void wrong_images(void **state);
void wrong_cells_of_convolutions(void **state);
void wrong_losses(void **state);
void wrong_optimisers(void **state);
void wrong_loaders(void **state);
void wrong_files(void **state);
void wrong_debug_calls(void **state);
void pending_errors_stop_everything(void **state);
