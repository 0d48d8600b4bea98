/// @file debug.h
/// What runs and on what: the kernels of eager mode as text, passes over graphs, and facts about devices and libraries.
/// For tools.
///
///     for (size_t i = 0; i < kiln_kernel_count(); i++) {
///         kiln_kernel_info k = {.size = sizeof k};
///         kiln_kernel_get_info(i, &k);
///         printf("%s: %s, %u bytes of SPIR-V\n", k.symbol, k.kind, (unsigned)k.module_B);
///     }
///     char *glsl = kiln_kernel_glsl(0, false);
///     free(glsl);
///
/// No function here but kiln_graph_text_kernels needs an open device. Failures are reported as everywhere (see
/// error.h).
#ifndef KILN_DEBUG_H
#define KILN_DEBUG_H

#include <kiln/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/// One kernel of the catalogue: a row of the op table, or of the kernels that ops are made of, in one compute class.
/// Strings are static.
typedef struct kiln_kernel_info {
    size_t size KILN_0;       ///< set to sizeof(kiln_kernel_info) by the caller
    const char *row KILN_0;   ///< "add", "mul.grad0", "softmax", "matmul"
    const char *dtype KILN_0; ///< compute class: "f32", "f64", "i32", "i64", "bool"; others compute in one of these
    const char *kind KILN_0;  ///< "pointwise", "row" (reduces along rows) or "custom" (hand-written)
    char symbol[96] KILN_0;   ///< "mul_grad0_f32"
    uint32_t inputs KILN_0;   ///< operands that are read
    uint32_t outputs KILN_0;  ///< operands that are written
    uint32_t scalars KILN_0;  ///< run-time scalars
    uint32_t stages KILN_0;   ///< row kernels: reductions on the longest path from the inputs
    bool cpu_only KILN_0;     ///< Vulkan devices let the CPU run it
    uint64_t module_B KILN_0; ///< size of its SPIR-V module; 0 where it has none
} kiln_kernel_info;

/// The number of kernels; they are numbered from 0 in the order of the table.
KILN_API size_t kiln_kernel_count(void);

/// Fills *out (out->size must be set). Errors: KILN_E_ARGUMENT for a number out of range.
KILN_API kiln_status kiln_kernel_get_info(size_t kernel, kiln_kernel_info *out);

/// The compute shader of a kernel, GLSL for Vulkan 1.2, as the build compiled it; with `expand` the files that it
/// includes are put in. A string that the caller frees with free(). Errors: KILN_E_UNSUPPORTED for a kernel without a
/// shader (hand-written ones that run on the CPU alone; in builds without Vulkan all hand-written ones and `expand`).
KILN_API char *kiln_kernel_glsl(size_t kernel, bool expand);

/// The embedded SPIR-V module: borrowed, valid for the life of the process, NULL without an error where there is none.
KILN_API const uint32_t *kiln_kernel_spirv(size_t kernel, size_t *n_words);

/// The module disassembled by SPIRV-Tools. A string that the caller frees with free(). Errors: KILN_E_UNSUPPORTED where
/// the kernel has no module, or the build no SPIRV-Tools.
KILN_API char *kiln_kernel_disassemble(size_t kernel);

/// The module with specialisation constants put in, and what follows from them worked out, as a Vulkan device does it
/// before a driver sees the module: constant ids[i] gets the 32 bits values[i]; what the constants mean stands in
/// shaders/. Words that the caller frees with free(). Errors: KILN_E_UNSUPPORTED where the kernel has no module.
KILN_API uint32_t *kiln_kernel_specialise(size_t kernel, const uint32_t *ids, const uint32_t *values, size_t n_values,
                                          size_t *n_words);

/// A module, of a kernel or of a graph's kernel, as a Vulkan device gives it to a driver that offers all modes of
/// floats: with those that keep zeros' signs, infinities and NaN and, where it converts f16, denormals and rounding to
/// nearest. Words that the caller frees with free(). Errors: KILN_E_ARGUMENT where it is no SPIR-V module,
/// KILN_E_UNSUPPORTED in a build without Vulkan.
KILN_API uint32_t *kiln_spirv_with_modes(const uint32_t *words, size_t n_words, size_t *n_out);

/// One pass over graphs, in the order in which compilation runs them. Strings are static.
typedef struct kiln_pass_info {
    size_t size KILN_0;      ///< set to sizeof(kiln_pass_info) by the caller
    const char *name KILN_0; ///< "cse"
    const char *doc KILN_0;  ///< one sentence
} kiln_pass_info;

/// The number of passes; they are numbered from 0.
KILN_API size_t kiln_pass_count(void);

/// Fills *out (out->size must be set). Errors: KILN_E_ARGUMENT for a number out of range.
KILN_API kiln_status kiln_pass_get_info(size_t pass, kiln_pass_info *out);

/// One run of a pass over a graph. All strings are valid during the callback only.
typedef struct kiln_pass_run {
    const char *pass KILN_0;    ///< its name
    const char *graph KILN_0;   ///< text of the graph after it
    size_t nodes_before KILN_0; ///< nodes of the graph
    size_t nodes_after KILN_0;  ///< nodes of the graph after it
    uint64_t time_ns KILN_0;    ///< how long it took
    bool changed KILN_0;        ///< whether the graph is another one now
} kiln_pass_run;
typedef void (*kiln_pass_fn)(void *user, const kiln_pass_run *run);

/// Options of kiln_graph_text_optimize.
typedef struct kiln_optimize_opts {
    size_t size KILN_0;
    const char *const *passes KILN_0; ///< names, run in this order; NULL: all passes, until they find nothing to do
    size_t n_passes KILN_0;           ///< how many names
    bool inexact KILN_0;              ///< allow rewrites that change rounding or the signs of zeros
    kiln_pass_fn each KILN_0;         ///< called after each run; NULL: not called
    void *user KILN_0;                ///< for `each`
} kiln_optimize_opts;
#define KILN_OPTIMIZE(...) KILN_OPTS_(kiln_optimize_opts, __VA_ARGS__)

/// Reads a graph in text form (see the guide), runs passes over it, verifying after each, and returns its text, which
/// the caller frees with free(). `name` stands for the text in messages. Opts may be NULL. NULL with an error:
/// KILN_E_FORMAT for a text that is no graph, KILN_E_ARGUMENT for a name that is no pass.
KILN_API char *kiln_graph_text_optimize(const char *text, size_t size_B, const char *name,
                                        const kiln_optimize_opts *opts);

/// One kernel of a compiled graph. All strings are valid during the callback only; "" where there is none.
typedef struct kiln_graph_kernel {
    size_t size KILN_0;           ///< sizeof(kiln_graph_kernel)
    const char *name KILN_0;      ///< "mul_add_relu"; of an op that runs by itself, the op
    bool fused KILN_0;            ///< whether its code is made for this graph; else it is a kernel of eager mode
    const char *nodes KILN_0;     ///< the nodes that it computes, lines of the graph's text
    const char *why KILN_0;       ///< why it was not fused with what it reads or feeds
    const char *kernel KILN_0;    ///< fused: its space, what it reads and writes, one line a value
    const char *glsl KILN_0;      ///< fused, on Vulkan: its shader
    const char *spirv KILN_0;     ///< fused, on Vulkan: that disassembled
    const char *llvm KILN_0;      ///< fused, on the CPU: its LLVM IR
    const uint32_t *words KILN_0; ///< fused, on Vulkan: its SPIR-V module; NULL where there is none
    size_t n_words KILN_0;        ///< of it
} kiln_graph_kernel;
typedef void (*kiln_graph_kernel_fn)(void *user, const kiln_graph_kernel *kernel);

/// Reads a graph in text form, runs all passes over it and compiles it for a device, as a captured function's graph is;
/// `fn` is called for each kernel in the order of launches. `name` stands for the text in messages. Errors:
/// KILN_E_FORMAT for a text that is no graph, KILN_E_UNSUPPORTED for one that cannot be compiled.
KILN_API kiln_status kiln_graph_text_kernels(const char *text, size_t size_B, const char *name, kiln_device *dev,
                                             kiln_graph_kernel_fn fn, void *user);

/// What kind of value a fact has.
typedef enum kiln_fact_kind {
    KILN_FACT_TEXT = 0,
    KILN_FACT_NUMBER = 1,
    KILN_FACT_BOOL = 2,
} kiln_fact_kind;

/// One fact about a device or the machine. All strings are valid during the callback only.
typedef struct kiln_fact {
    const char *group KILN_0; ///< "library", "cache", "environment", "device", "limit", "feature" or "fast path"
    const char *name KILN_0;  ///< "blas path", "shared memory per workgroup"
    kiln_fact_kind kind KILN_0;
    const char *text KILN_0; ///< KILN_FACT_TEXT
    double number KILN_0;    ///< KILN_FACT_NUMBER, KILN_FACT_BOOL (0 or 1)
    const char *note KILN_0; ///< the unit; why a feature or fast path is off; what is wrong with a text. NULL: nothing
} kiln_fact;
typedef void (*kiln_fact_fn)(void *user, const kiln_fact *fact);

/// Facts about the library: its version, the libraries that it opens at run time, with path and version (the Vulkan
/// loader, the BLAS, the module with LLVM), the folder of its disk cache and how much lies there, and the variables of
/// the environment that are set.
KILN_API kiln_status kiln_library_facts(kiln_fact_fn fn, void *user);

/// Facts about the CPU device ("cpu") or a Vulkan device ("vulkan:N", in the loader's order, also one that lacks what
/// kiln_device_open asks for). Errors: KILN_E_ARGUMENT for another name, KILN_E_MISSING where there is no such device.
KILN_API kiln_status kiln_device_facts(const char *device, kiln_fact_fn fn, void *user);

/// What a file of the cache is.
typedef enum kiln_cache_state {
    KILN_CACHE_GOOD = 0,        ///< whole, and of this build of the library
    KILN_CACHE_OTHER_BUILD = 1, ///< whole, of another build: this one does not read it
    KILN_CACHE_DAMAGED = 2,     ///< not whole, under another's name, or nothing that the library wrote: never read
    KILN_CACHE_UNFINISHED = 3,  ///< a process writes it, or was killed while it did
} kiln_cache_state;

/// One file of the cache, which keeps what a process compiled for others (see KILN_CACHE_DIR in the guide). All strings
/// are valid during the callback only.
typedef struct kiln_cache_file {
    size_t size KILN_0;      ///< sizeof(kiln_cache_file)
    const char *kind KILN_0; ///< "object" (machine code), "module" (SPIR-V), "passes" (which change a graph), "fusion"
                             ///< (what becomes one kernel), "pipelines" (a driver's)
    const char *path KILN_0; ///< below the cache folder: "objects/0f12..."
    const char *name KILN_0; ///< of the kernel or the captured function; "" where it is not known
    uint64_t size_B KILN_0;  ///< its size
    double age_s KILN_0;     ///< since it was written or, to a day, last used; 0 where the clock was set back
    kiln_cache_state state KILN_0;
} kiln_cache_file;
typedef void (*kiln_cache_fn)(void *user, const kiln_cache_file *file);

/// The path of the cache folder, which need not exist; the caller frees it with free(). NULL with KILN_E_MISSING where
/// the environment names none.
KILN_API char *kiln_cache_folder(void);

/// Reads and checks all files of the cache, and calls `fn` for each, the one used longest ago first. What else lies in
/// the folder is left out. Errors: KILN_E_MISSING without a cache folder's path, KILN_E_STATE for a folder that the
/// library does not use since it, or one above it, is open to others' writing. A folder that does not exist has no
/// files.
KILN_API kiln_status kiln_cache_visit(kiln_cache_fn fn, void *user);

/// Options of kiln_cache_clear.
typedef struct kiln_cache_clear_opts {
    size_t size KILN_0;
    double older_s KILN_0;  ///< only files that were last used longer ago than so many seconds
    uint64_t keep_B KILN_0; ///< remove no more than it takes to come down to so many bytes
} kiln_cache_clear_opts;
#define KILN_CACHE_CLEAR(...) KILN_OPTS_(kiln_cache_clear_opts, __VA_ARGS__)

/// Removes files of the cache, those used longest ago first, and calls `fn` (may be NULL) for each that is gone; its
/// state is not looked at. Opts may be NULL: all files. Processes that run meanwhile lose nothing but time. Errors: as
/// for kiln_cache_visit; KILN_E_ARGUMENT for an age that is negative or no number; KILN_E_IO where a file cannot be
/// removed, after all others were.
KILN_API kiln_status kiln_cache_clear(const kiln_cache_clear_opts *opts, kiln_cache_fn fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
