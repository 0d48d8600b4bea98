/// @file error.h
/// Errors and the log of libkiln.
///
/// Every thread has one error state. The first failure sets it; until kiln_error_clear() is called, every operation
/// returns NULL and every function that returns a kiln_status returns the pending code, at once and without effect.
/// So a whole computation can be written without a check and asked at the end whether it worked:
///
///     kiln_tensor *y = kiln_relu(kiln_add(kiln_matmul(x, w), b));
///     if (!y) fprintf(stderr, "%s\n", kiln_error_message());
///
/// Freeing, scopes, closing and the functions of this header work while an error is pending. The library prints
/// no error that a program has asked for, never exits and never aborts. All functions here may be called from any
/// thread at any time.
#ifndef KILN_ERROR_H
#define KILN_ERROR_H

#include <stdbool.h>

/// Marks what the shared library exports.
#ifndef KILN_API
#define KILN_API __attribute__((visibility("default")))
#endif
/// Marks a name that has another one now, which compilers tell (docs/changes.md).
#define KILN_DEPRECATED(now) __attribute__((deprecated("it is " now " now")))

#ifdef __cplusplus
extern "C" {
#endif

/// Codes come in bands of a hundred: who has to act is code / 100. Values are part of the ABI and only ever added to.
typedef enum kiln_status {
    KILN_OK = 0,

    // 100: the environment failed the program; the same call may work later or elsewhere.
    KILN_E_MEMORY = 100,  ///< host memory is exhausted
    KILN_E_IO = 101,      ///< reading or writing a file failed; the message holds the system's reason
    KILN_E_MISSING = 102, ///< a file, shared library or driver was not found
    KILN_E_TIMEOUT = 103, ///< a wait reached its time limit

    // 200: the call itself is wrong; the message names the operation, the argument and the offending values.
    KILN_E_ARGUMENT = 200,        ///< a value out of range, a NULL where a tensor is required
    KILN_E_SHAPE = 201,           ///< shapes do not fit together or do not fit the data
    KILN_E_DTYPE = 202,           ///< a dtype that the operation does not take
    KILN_E_AXIS = 203,            ///< an axis outside [-rank, rank) or named twice
    KILN_E_DEVICE_MISMATCH = 204, ///< tensors of different devices in one operation
    KILN_E_STATE = 205,           ///< the call is not allowed now (order of calls, open scopes, closed devices)
    KILN_E_FORMAT = 206,          ///< a file or text does not follow its format
    KILN_E_HANDLE = 207,          ///< a handle that was freed, a device that was closed
    KILN_E_GRADIENT = 208,        ///< no gradient can be taken here
    KILN_E_ASSERT = 209,          ///< an assertion of the program's own does not hold; see kiln_assert

    // 300: a sound request that this version, build or device does not offer.
    KILN_E_UNSUPPORTED = 300,

    // 400: the compute device failed.
    KILN_E_DEVICE = 400,        ///< a driver call failed; the message names the call and its result
    KILN_E_DEVICE_MEMORY = 401, ///< device memory is exhausted; the message holds the figures
    KILN_E_DEVICE_LOST = 402,   ///< the device stopped answering; it stays lost until it is opened anew

    // 900: a defect of libkiln.
    KILN_E_INTERNAL = 900,
} kiln_status;

/// The pending error of the calling thread, KILN_OK when there is none.
KILN_API kiln_status kiln_error(void);

/// The text of the pending error, "" when there is none. It names the operation, the argument, the offending values and
/// the line of the caller: "matmul: inner dimensions differ: a is f32[2,3], b is f32[4,5] (train.c:42)". Without debug
/// information the place reads "train+0x1085". The text lives in a buffer of the calling thread and is valid until that
/// thread clears the error or ends. A text that nobody has asked for when a device is closed, or the thread ends, goes
/// to the log; when the process ends, to stderr, unless the environment says KILN_LOG=0.
KILN_API const char *kiln_error_message(void);

/// Forgets the pending error of the calling thread.
KILN_API void kiln_error_clear(void);

/// Prints the pending error to stderr behind a place of the program, as "train.c:42: KILN_E_SHAPE: matmul: …", and says
/// whether there was one. For KILN_CHECK.
KILN_API bool kiln_error_report(const char *file, int line);

/// Evaluates a call, a whole expression or an assignment. Where an error is pending then, prints it with the place of
/// this line, and ends the program with status 1.
///
///     KILN_CHECK(loss = kiln_mean(kiln_square(kiln_sub(y, target)), NULL));
///     KILN_CHECK(kiln_backward(loss, NULL));
#define KILN_CHECK(call) ((void)(call), kiln_error_report(__FILE__, __LINE__) ? exit(1) : (void)0)

/// The same, but returns `value` from the function around it.
#define KILN_CHECK_RETURN(call, value)                           \
    do {                                                         \
        (void)(call);                                            \
        if (kiln_error_report(__FILE__, __LINE__)) return value; \
    } while (0)

/// Evaluates a call and returns the pending error, if there is one, from the function around it, without a word: for
/// functions that return a kiln_status, such as those of kiln_jit.
#define KILN_TRY(call)                         \
    do {                                       \
        (void)(call);                          \
        if (kiln_error()) return kiln_error(); \
    } while (0)

/// The name of a code, "KILN_E_SHAPE" for example; "unknown status" for a number that is none. Never NULL; static.
KILN_API const char *kiln_status_name(kiln_status status);

/// Receives one warning: a computation that fell back to the CPU, a limit of recompilations. `message` is one line
/// without a line break, valid during the call. It may be called from any thread, several at once, and must not call
/// into libkiln.
typedef void (*kiln_log_fn)(void *user, const char *message);

/// Sends the warnings of all threads to `fn`, which gets `user` and each distinct text once from then on. NULL restores
/// the default, which writes "kiln: <message>" to stderr unless the environment says KILN_LOG=0.
KILN_API void kiln_set_log(kiln_log_fn fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
