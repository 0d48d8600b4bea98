// What the tests of compiled kernels share: a kernel is compiled, runs in several ways, and is compared.
#pragma once
#include "../fuse/fused_fixture.h"
#include "codegen/llvm/llvm.h"
#include "cpu/compiled.h"
#include <kiln/kiln.h>
#include <omp.h>
#include <stdio.h>

static uint64_t random_seed; // of the kernel being tested, for messages

struct compiled {
    struct codegen_code code;
    struct llvm_function fn;
};

static inline void compile(const struct fused_kernel *k, struct compiled *out)
{
    struct codegen_plan plan;
    assert_int_equal(llvm_plan(k, NULL, &plan), KILN_OK);
    kiln_error_clear();
    if (llvm_compile(k, &plan, &out->code)) fail_msg("%s", kiln_error_message());
    if (llvm_load(&out->code, &out->fn)) fail_msg("%s", kiln_error_message());
}

static inline void discard(struct compiled *c)
{
    llvm_unload(&c->fn);
    free(c->code.code);
}

static inline uint32_t run_to(const struct fused_case *c, const struct compiled *code, bool past_caches)
{
    struct codegen_launch l;
    uint64_t addresses[FUSED_MAX_IN + FUSED_MAX_OUT];
    uint32_t failed = 0;
    for (int i = 0; i < c->k.n_in + c->k.n_out; i++) addresses[i] = (uint64_t)(uintptr_t)c->got[i];
    assert_int_equal(llvm_pack(&code->code.plan, &c->k, addresses, NULL, &l), KILN_OK);
    if (past_caches) l.words[llvm_word_at(&c->k, LLVM_STREAMS)] = 1;
    void *workspace = malloc(l.workspace_B + 1);
    if (l.workspace_at >= 0) l.words[l.workspace_at] = (uint64_t)(uintptr_t)workspace;
    if (l.failed_at >= 0) l.words[l.failed_at] = (uint64_t)(uintptr_t)&failed;
    assert_int_equal(cpu_run_compiled(code->fn.run, l.run_end ? code->fn.end : NULL, l.words, l.units, l.unit_cost),
                     KILN_OK);
    free(workspace);
    return failed;
}

static inline uint32_t run(const struct fused_case *c, const struct compiled *code)
{
    return run_to(c, code, false);
}

// Runs both and compares; then with more threads, past the caches with three, whose results must be the same bits.
static inline void check_finished(struct fused_case *c, double ulps)
{
    struct compiled code;
    uint32_t failed = 0;
    compile(&c->k, &code);
    assert_int_equal(fused_eval(&c->k, c->want, &failed), KILN_OK);
    omp_set_num_threads(1);
    uint32_t got = run(c, &code);
    if (!case_same(c, ulps)) fail_msg("%s, seed %llu", code.code.symbol, (unsigned long long)random_seed);
    assert_int_equal(got != 0, failed != 0);
    for (int threads = 2; threads <= 3; threads++) {
        int n = c->k.n_in + c->k.n_out;
        void *first[FUSED_MAX_IN + FUSED_MAX_OUT];
        for (int i = c->k.n_in; i < n; i++) {
            first[i] = malloc(c->size_B[i]);
            memcpy(first[i], c->got[i], c->size_B[i]);
            memset(c->got[i], 0x5a, c->size_B[i]);
        }
        omp_set_num_threads(threads);
        run_to(c, &code, threads == 3);
        for (int i = c->k.n_in; i < n; i++) {
            assert_memory_equal(first[i], c->got[i], c->size_B[i]);
            free(first[i]);
        }
    }
    discard(&code);
    case_end(c);
}

static inline void check_case(struct fused_case *c, double ulps)
{
    case_finish(c);
    check_finished(c, ulps);
}

#define SIZES(...)    \
    (const int64_t[]) \
    {                 \
        __VA_ARGS__   \
    }
#define STRIDES(...)  \
    (const int64_t[]) \
    {                 \
        __VA_ARGS__   \
    }
