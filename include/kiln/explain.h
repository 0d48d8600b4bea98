/// @file explain.h
/// What became of a captured function: a summary, all of it, or a page with its graphs.
///
///     kiln_explain(f, stdout);                                                        // a summary
///     kiln_explain_with(f, stdout, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));       // each kernel, value by value
///     FILE *page = fopen("f.html", "w");
///     kiln_explain_with(f, page, KILN_EXPLAIN(.level = KILN_EXPLAIN_HTML));           // for a browser
#ifndef KILN_EXPLAIN_H
#define KILN_EXPLAIN_H

#include <kiln/jit.h>

#ifdef __cplusplus
extern "C" {
#endif

/// How much is told.
typedef enum kiln_explain_level {
    KILN_EXPLAIN_SUMMARY =
        0, ///< counts, captures and breaks with their reasons; equal kernels once, with what they cost
    KILN_EXPLAIN_DETAIL = 1, ///< each launch, its values and accesses
    KILN_EXPLAIN_HTML = 2,   ///< both, and drawings of the graphs, as one page without other files
} kiln_explain_level;

/// Options of kiln_explain_with; NULL means all zero.
typedef struct kiln_explain_opts {
    size_t size KILN_0;
    kiln_explain_level level KILN_0;
} kiln_explain_opts;
#define KILN_EXPLAIN(...) KILN_OPTS_(kiln_explain_opts, __VA_ARGS__)

/// kiln_explain at a level. Of a page, passes and fusion run again, and nothing is compiled. Errors: KILN_E_ARGUMENT
/// for another level, KILN_E_IO where the file cannot be written.
KILN_API kiln_status kiln_explain_with(kiln_function *f, FILE *file, const kiln_explain_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
