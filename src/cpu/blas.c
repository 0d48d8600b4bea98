// Finds a BLAS, and says how its threads are used: those of a build with OpenMP are the threads of our loops; any other
// build runs with one thread, and products are split into pieces here. The core type is set in the environment only
// while dlopen runs.
#include "cpu/blas.h"
#include "base/base.h"
#include "base/process.h"
#include "cpu/parallel.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#if defined(__x86_64__)
#define FOLDER "/usr/lib/x86_64-linux-gnu/"
#elif defined(__aarch64__)
#define FOLDER "/usr/lib/aarch64-linux-gnu/"
#else
#define FOLDER "/usr/lib/"
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

static struct cpu_blas blas;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

// The core type that OpenBLAS had better take than what it names, NULL where it is right or `core` is NULL, which
// stands for a library that has not been asked. It takes AMD with AVX-512 for a Haswell, and a processor that is newer
// than itself for one of 2004.
static const char *better_core(const char *core)
{
#if defined(__x86_64__)
    static const char *const old[] = {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Atom", "Generic"};
    bool is_old = false;
    if (!core) return __builtin_cpu_is("amd") && has_avx512() ? "SkylakeX" : NULL;
    for (size_t i = 0; i < COUNT_OF(old); i++) is_old = is_old || !strcasecmp(core, old[i]);
    if (has_avx512() && (is_old || !strcasecmp(core, "Haswell") || !strcasecmp(core, "Zen"))) return "SkylakeX";
    if (is_old && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#else
    (void)core;
#endif
    return NULL;
}

// OpenBLAS takes a buffer a thread, another for each call that is in progress, and never gives up asking for one.
static bool has_room(void)
{
    enum { BUFFER_MIB = 128, LIBRARY_MIB = 64 };
    uint64_t need_MiB = (2 * (uint64_t)cpu_threads_wanted() + 2) * BUFFER_MIB + LIBRARY_MIB;
    if (process_can_map(need_MiB << 20)) return true;
    log_warn("OpenBLAS is not used, for it needs %llu MiB of address space: products take the built-in loops",
             (unsigned long long)need_MiB);
    return false;
}

static void *open_library(void)
{
    // Symbols must bind inside the library although the program may link another copy; sanitizers forbid the flag.
    int flags = RTLD_NOW | RTLD_LOCAL;
    if (!SANITIZED) flags |= RTLD_DEEPBIND;
    const char *named = secure_getenv("KILN_BLAS");
    if ((named && !strcmp(named, "none")) || !has_room()) return NULL;
    if (named && *named) {
        void *lib = dlopen(named, flags);
        if (!lib) log_warn("KILN_BLAS: %s; looking for another", dlerror());
        if (lib) return lib;
    }
    static const char *const names[] = {FOLDER "openblas-openmp/libopenblas.so.0", "libopenblas.so.0",
                                        "libopenblas.so"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        void *lib = dlopen(names[i], flags);
        if (lib) return lib;
    }
    return NULL;
}

// Fills a function pointer; dlsym gives an object pointer, which POSIX lets one copy into it.
static bool find(void *lib, const char *name, void *pointer)
{
    void *symbol = dlsym(lib, name);
    memcpy(pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

// The library, with its core type chosen here, whatever the environment says, if `core` is one.
static void *open_as(const char *core)
{
    static const char variable[] = "OPENBLAS_CORETYPE";
    if (core) setenv(variable, core, 1);
    void *lib = open_library();
    if (core) unsetenv(variable);
    return lib;
}

static const char *core_of(void *lib)
{
    char *(*core)(void);
    return find(lib, "openblas_get_corename", &core) ? core() : "";
}

static void *open_best(void)
{
    if (getenv("OPENBLAS_CORETYPE")) return open_as(NULL);
    void *lib = open_as(better_core(NULL));
    const char *better = lib ? better_core(core_of(lib)) : NULL;
    if (!better) return lib;
    dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE); // what OpenMP's runtime left stays with it
    dlclose(lib);
    return open_as(better);
}

static bool find_lapack(void *lib, char precision, struct cpu_lapack *l)
{
    const struct {
        const char *name;
        void *pointer;
    } wanted[] = {{"potrf", &l->potrf}, {"getrf", &l->getrf}, {"getrs", &l->getrs},
                  {"trtrs", &l->trtrs}, {"syevd", &l->syevd}, {"gesdd", &l->gesdd},
                  {"geqrf", &l->geqrf}, {"orgqr", &l->orgqr}, {"geev", &l->geev}};
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        char name[16];
        snprintf(name, sizeof name, "%c%s_", precision, wanted[i].name);
        if (!find(lib, name, wanted[i].pointer)) return false;
    }
    return true;
}

static void open_blas(void)
{
    snprintf(blas.name, sizeof blas.name, "built-in loops (no OpenBLAS)");
    void *lib = open_best();
    if (!lib) return;
    blas.found = find(lib, "cblas_sgemm", &blas.sgemm) && find(lib, "cblas_dgemm", &blas.dgemm) &&
                 find(lib, "cblas_sgemv", &blas.sgemv) && find(lib, "cblas_dgemv", &blas.dgemv);
    if (!blas.found) {
        log_warn("the BLAS library lacks cblas_sgemm, cblas_dgemm, cblas_sgemv or cblas_dgemv; not used");
        dlclose(lib);
        return;
    }
    blas.has_lapack = find_lapack(lib, 's', &blas.lapack[0]) && find_lapack(lib, 'd', &blas.lapack[1]);
    char *(*config)(void);
    int (*parallel)(void);
    void (*set_threads)(int);
    int kind = find(lib, "openblas_get_parallel", &parallel) ? parallel() : 0;
    blas.one_pool = kind == 2;
    if (blas.one_pool) cpu_pool_used();
    if (kind == 1 && find(lib, "openblas_set_num_threads", &set_threads)) set_threads(1);
    int version_len = 0;
    const char *text = find(lib, "openblas_get_config", &config) ? config() : "BLAS";
    // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the name and the version.
    for (int spaces = 0; text[version_len] && (spaces += text[version_len] == ' ') < 2; version_len++) {}
    snprintf(blas.name, sizeof blas.name, "%.*s %s %s", version_len > 60 ? 60 : version_len, text, core_of(lib),
             kind == 2 ? "openmp" : "one thread");
}

const struct cpu_blas *cpu_blas(void)
{
    cpu_pool_settle();
    pthread_once(&once, open_blas);
    return &blas;
}
