// The options of a captured function: what they may be, and what they mean.
#include "jit/function.h"
#include <stdlib.h>

enum { UNROLLING_MAX = 1000000, NODES_MAX = 1000000, RECOMPILES = 32 };

kiln_status function_check_options(const kiln_jit_opts *o)
{
    if ((unsigned)o->capture > KILN_CAPTURE_TRACE)
        return error_set(KILN_E_ARGUMENT, "jit: .capture %d is not one of kiln_capture", (int)o->capture);
    if ((unsigned)o->syntax > KILN_SYNTAX_STRICT)
        return error_set(KILN_E_ARGUMENT, "jit: .syntax %d is not one of kiln_syntax", (int)o->syntax);
    if ((unsigned)o->level > KILN_LEVEL_AS_IS)
        return error_set(KILN_E_ARGUMENT, "jit: .level %d is not one of kiln_level", (int)o->level);
    if (o->loop_unrolling > UNROLLING_MAX)
        return error_set(KILN_E_ARGUMENT, "jit: .loop_unrolling %llu is more than %d",
                         (unsigned long long)o->loop_unrolling, UNROLLING_MAX);
    if (o->fullgraph && o->loop_unrolling)
        return error_set(KILN_E_ARGUMENT,
                         "jit: .fullgraph and .loop_unrolling %llu exclude each other: a graph that "
                         "ends after so many copies is not one",
                         (unsigned long long)o->loop_unrolling);
    if (o->deterministic && o->background)
        return error_set(KILN_E_ARGUMENT, "jit: .deterministic and .background exclude each other: single ops, which "
                                          "run until kernels are compiled, round otherwise");
    return KILN_OK;
}

uint64_t function_recompile_limit(const kiln_function *f)
{
    if (f->o.recompile_limit) return f->o.recompile_limit;
    const char *text = getenv("KILN_JIT_RECOMPILES");
    uint64_t n = text ? strtoull(text, NULL, 10) : 0;
    return n ? n : RECOMPILES;
}

uint64_t function_max_nodes(const kiln_function *f)
{
    return f->o.max_nodes ? f->o.max_nodes : NODES_MAX;
}

struct program_options function_program_options(const kiln_function *f)
{
    bool walks = f->o.capture == KILN_CAPTURE_AUTO && f->o.deterministic;
    return (struct program_options){.no_fusion = f->o.level != KILN_LEVEL_FUSION || walks,
                                    .no_passes = f->o.level == KILN_LEVEL_AS_IS,
                                    .round_casts = f->o.eager_rounding,
                                    .background = f->o.background && f->o.level == KILN_LEVEL_FUSION};
}
