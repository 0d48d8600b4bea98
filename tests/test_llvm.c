// Kernels compiled for the CPU while the program runs, against the reference of fused kernels.
#include "fused_fixture.h"
#include "codegen/llvm.h"
#include "cpu/compiled.h"
#include <kiln/kiln.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static const char *last_symbol;

struct compiled {
    struct codegen_code code;
    struct llvm_function fn;
};

static void compile(const struct fused_kernel *k, struct compiled *out)
{
    struct codegen_plan plan;
    assert_int_equal(llvm_plan(k, &plan), KILN_OK);
    if (llvm_compile(k, &plan, &out->code)) fail_msg("%s", kiln_error_message());
    if (llvm_load(&out->code, &out->fn)) fail_msg("%s", kiln_error_message());
    last_symbol = out->code.symbol;
}

static void discard(struct compiled *c)
{
    llvm_unload(&c->fn);
    free(c->code.code);
}

static uint32_t run(const struct fused_case *c, const struct compiled *code)
{
    struct codegen_launch l;
    uint64_t addresses[FUSED_MAX_IN + FUSED_MAX_OUT];
    uint32_t failed = 0;
    for (int i = 0; i < c->k.n_in + c->k.n_out; i++) addresses[i] = (uint64_t)(uintptr_t)c->got[i];
    assert_int_equal(llvm_pack(&code->code.plan, &c->k, addresses, NULL, &l), KILN_OK);
    void *workspace = malloc(l.workspace_B + 1);
    if (l.workspace_at >= 0) l.words[l.workspace_at] = (uint64_t)(uintptr_t)workspace;
    if (l.failed_at >= 0) l.words[l.failed_at] = (uint64_t)(uintptr_t)&failed;
    assert_int_equal(
        cpu_run_compiled(code->fn.run, l.run_end ? code->fn.end : NULL, l.words, l.units, l.unit_cost), KILN_OK);
    free(workspace);
    return failed;
}

// Runs both and compares; then with three threads, whose results must be the same bits.
static void check_case(struct fused_case *c, double ulps)
{
    struct compiled code;
    uint32_t failed = 0;
    case_finish(c);
    compile(&c->k, &code);
    assert_int_equal(fused_eval(&c->k, c->want, &failed), KILN_OK);
    omp_set_num_threads(1);
    uint32_t got = run(c, &code);
    assert_true(case_same(c, ulps));
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
        run(c, &code);
        for (int i = c->k.n_in; i < n; i++) {
            assert_memory_equal(first[i], c->got[i], c->size_B[i]);
            free(first[i]);
        }
    }
    discard(&code);
    case_end(c);
}

#define SIZES(...)   (const int64_t[]){__VA_ARGS__}
#define STRIDES(...) (const int64_t[]){__VA_ARGS__}

static void points_in_a_row(void **state)
{
    (void)state;
    static const int64_t lengths[] = {2, 15, 16, 64, 100, 4096, 100003};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        struct fused_case c;
        case_begin(&c, 1, 0, SIZES(lengths[i]));
        int x = case_in(&c, KILN_F32, STRIDES(1)), y = case_in(&c, KILN_F32, STRIDES(1));
        case_out(&c, case_expr(&c, "exp(x * y) + tanh(x)", CLASS_F32, x, y, -1), KILN_F32, STRIDES(1));
        check_case(&c, 0);
    }
}

#define T(f) cmocka_unit_test(f)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(points_in_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
