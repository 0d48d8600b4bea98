// The CPU: instruction set, BLAS, threads.
#include "codegen/llvm/llvm.h"
#include "cpu/blas.h"
#include "cpu/tiles.h"
#include "cpu/isa.h"
#include "cpu/parallel.h"
#include "debug/facts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if KILN_WITH_OPENBLAS
static const char blas_missing[] =
    "no library was found: Debian's package is libopenblas0-openmp; KILN_BLAS names one by its path";
#else
static const char blas_missing[] =
    "this build has no OpenBLAS: -Dopenblas=enabled, Debian's libopenblas-dev; KILN_BLAS names a library by its path";
#endif

void facts_blas(struct facts *f)
{
    const struct cpu_blas *blas = cpu_blas();
    const char *named = secure_getenv("KILN_BLAS");
    bool refused = named && !strcmp(named, "none");
    fact_bool(f, "blas", blas->found, refused ? "KILN_BLAS=none" : blas_missing);
    fact_text(f, "blas version", blas->name);
    if (!blas->found) return;
    fact_text(f, "blas path", fact_library_path((const void *)(uintptr_t)blas->sgemm));
    const char *core = getenv("OPENBLAS_CORETYPE");
    if (core && *core) fact_text(f, "blas core type by OPENBLAS_CORETYPE", core);
}

static void fact_huge_pages(struct facts *f)
{
    char line[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (file && !fgets(line, sizeof line, file)) line[0] = 0;
    if (file) fclose(file);
    fact_bool(f, "huge pages", strstr(line, "[always]") || strstr(line, "[madvise]"),
              "/sys/kernel/mm/transparent_hugepage/enabled forbids them");
}

static void facts_fast_paths(struct facts *f, const struct cpu_isa *isa)
{
    static const char *const built[] = {
#define X(name) #name,
        KILN_ISA_LIST
#undef X
    };
    const char *wanted = getenv("KILN_CPU_ISA");
    for (size_t i = 0; i < COUNT_OF(built); i++) {
        char name[48];
        snprintf(name, sizeof name, "kernels x86-64-%s", built[i]);
        if (!strcmp(built[i], "base")) snprintf(name, sizeof name, "kernels of the base instruction set");
        bool better_in_use = i + 1 < COUNT_OF(built) && isa->name[0] && strcmp(built[i], isa->name) < 0;
        fact_bool(f, name, !strcmp(built[i], isa->name),
                  better_in_use       ? "a wider set is in use"
                  : wanted && *wanted ? "KILN_CPU_ISA names another"
                                      : "the processor lacks instructions of it");
    }
    const struct cpu_blas *blas = cpu_blas();
    fact_bool(f, "matrix products by BLAS", blas->found, "no BLAS library in use; built-in loops");
    fact_bool(f, "bf16 products by AMX", !cpu_amx_missing(), cpu_amx_missing());
    fact_bool(f, "one pool of threads", blas->one_pool,
              blas->found ? "the library has threads of its own: it gets one, and products are split here"
                          : "no BLAS library");
    fact_huge_pages(f);
    struct llvm_facts module;
    llvm_get_facts(&module);
    fact_bool(f, "kernels compiled at run time", !module.why[0], module.why);
}

kiln_status facts_cpu(struct facts *f)
{
    const struct cpu_isa *isa;
    TRY(cpu_isa_choose(&isa));
    fact_text(f, "instruction set", isa->name);
    fact_text(f, "blas", cpu_blas()->name);
    fact_number(f, "threads", cpu_threads(), NULL);
    f->group = "limit";
    long pages = sysconf(_SC_PHYS_PAGES), page_B = sysconf(_SC_PAGESIZE);
    fact_number(f, "memory", pages > 0 && page_B > 0 ? (double)pages * (double)page_B : 0, "bytes");
    fact_number(f, "rank of a tensor", MAX_RANK, NULL);
    f->group = "feature";
    fact_bool(f, "f64", true, NULL);
    f->group = "fast path";
    facts_fast_paths(f, isa);
    return KILN_OK;
}
