/// @file print.h
/// How tensors are printed: digits, cuts, lines, notation, signs; for one call or for the process.
///
///     kiln_print_with(x, stdout, KILN_PRINT(.precision = 3, .edge = 2, .threshold = 100));
///     kiln_set_print_options(KILN_PRINT(.notation = KILN_PRINT_PLAIN));
///
/// What is printed is what NumPy prints with the same options. They are for tensors with elements in rows: of rank 0
/// all digits are written, as of NumPy's scalars.
#ifndef KILN_PRINT_H
#define KILN_PRINT_H

#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// When floats have exponents.
typedef enum kiln_print_notation {
    KILN_PRINT_AUTO = 0,       ///< from 1e8 on, below 1e-4, and where the largest is over 1,000 times the smallest
    KILN_PRINT_PLAIN = 1,      ///< from 1e8 on alone; what is too small for .precision is 0 (NumPy's suppress)
    KILN_PRINT_SCIENTIFIC = 2, ///< always
} kiln_print_notation;

/// What stands before numbers that are not negative.
typedef enum kiln_print_sign {
    KILN_PRINT_SIGN_NEGATIVE = 0, ///< nothing
    KILN_PRINT_SIGN_PLUS = 1,     ///< "+"
    KILN_PRINT_SIGN_SPACE = 2,    ///< a space, in the place of a sign
} kiln_print_sign;

/// Options of printing. What is 0 is as kiln_set_print_options has it, at first as said here.
typedef struct kiln_print_opts {
    size_t size KILN_0;
    int64_t precision KILN_0; ///< most digits after the point, to 32; 0: 8; -1: none
    int64_t threshold KILN_0; ///< tensors of more elements are cut; 0: 1,000; -1: all are
    int64_t edge KILN_0;      ///< elements that a cut leaves at each end of an axis; 0: 3
    int64_t width KILN_0;     ///< characters of a line; 0: 75
    kiln_print_notation notation KILN_0;
    kiln_print_sign sign KILN_0;
} kiln_print_opts;
#define KILN_PRINT(...) KILN_OPTS_(kiln_print_opts, __VA_ARGS__)

/// kiln_print and kiln_to_string with options, which may be NULL. Errors: KILN_E_ARGUMENT for a number that an option
/// does not take; those of kiln_print.
KILN_API kiln_status kiln_print_with(const kiln_tensor *t, FILE *f, const kiln_print_opts *opts);
KILN_API char *kiln_to_string_with(const kiln_tensor *t, const kiln_print_opts *opts);

/// What the options that a call leaves at 0 are from now on, in all threads, for kiln_print, kiln_to_string and
/// kiln_debug_print as well. An option that is 0 here is at its first value again; NULL: all are.
KILN_API kiln_status kiln_set_print_options(const kiln_print_opts *opts);
/// Fills *out (out->size must be set, as KILN_PRINT() does) with what holds now.
KILN_API kiln_status kiln_get_print_options(kiln_print_opts *out);

#ifdef __cplusplus
}
#endif
#endif
