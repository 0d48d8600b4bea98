// Compiled kernels as objects: loaded again, or broken; and the module that compiles them.
#include "llvm_fixture.h"
#include "base/process.h"
#include <sys/wait.h>
#include <unistd.h>

static void an_object_is_loaded_again(void **state)
{
    (void)state;
    struct fused_case c;
    struct compiled first, second;
    case_begin(&c, 2, 1, SIZES(30, 500));
    int x = case_in(&c, KILN_F32, STRIDES(500, 1));
    case_out(&c, dag_reduce(&c.b, REDUCE_MAX, x), KILN_F32, STRIDES(1, 0));
    case_finish(&c);
    compile(&c.k, &first);
    second.code = first.code;
    second.code.code = malloc(first.code.size_B);
    memcpy(second.code.code, first.code.code, first.code.size_B);
    assert_int_equal(llvm_load(&second.code, &second.fn), KILN_OK); // twice at a time
    discard(&first);
    llvm_unload(&first.fn);
    llvm_unload(NULL);
    assert_int_equal(fused_eval(&c.k, c.want, NULL), KILN_OK);
    run(&c, &second);
    assert_true(case_same(&c, 0));
    llvm_unload(&second.fn);
    memset(c.got[1], 0, c.size_B[1]);
    assert_int_equal(llvm_load(&second.code, &second.fn), KILN_OK);
    run(&c, &second);
    assert_true(case_same(&c, 0));
    discard(&second);
    case_end(&c);
}

static void a_broken_object_is_refused(void **state)
{
    (void)state;
    char bytes[256];
    memset(bytes, 7, sizeof bytes);
    struct codegen_code code = {.code = bytes, .size_B = sizeof bytes, .symbol = "k_broken"};
    struct llvm_function fn;
    assert_int_equal(llvm_load(&code, &fn), KILN_E_INTERNAL);
    assert_null(fn.run);
    kiln_error_clear();
}

static void text_and_host(void **state)
{
    (void)state;
    struct fused_case c;
    struct str text, host;
    str_init(&text);
    str_init(&host);
    case_begin(&c, 1, 0, SIZES(100));
    int x = case_in(&c, KILN_F32, STRIDES(1));
    case_out(&c, case_expr(&c, "x * 2", CLASS_F32, x, -1, -1), KILN_F32, STRIDES(1));
    case_finish(&c);
    assert_int_equal(llvm_ir_text(&c.k, &text), KILN_OK);
    assert_non_null(strstr(str_text(&text), "fmul"));
    assert_int_equal(llvm_host_key(&host), KILN_OK);
    assert_non_null(strstr(str_text(&host), "llvm"));
    str_free(&text);
    str_free(&host);
    case_end(&c);
}

// --- the module ---

// Run by a process of its own, which believes to lie in a folder without a module: exits with the status.
static int compile_alone(void)
{
    struct fused_case c;
    struct codegen_plan plan;
    struct codegen_code code = {0};
    struct llvm_function fn = {0};
    case_begin(&c, 1, 0, SIZES(100));
    int x = case_in(&c, KILN_F32, STRIDES(1));
    case_out(&c, x, KILN_F32, STRIDES(1));
    case_finish(&c);
    kiln_status status = llvm_plan(&c.k, NULL, &plan);
    if (!status) status = llvm_compile(&c.k, &plan, &code);
    if (!status) status = llvm_load(&code, &fn);
    llvm_unload(&fn);
    free(code.code);
    case_end(&c);
    return status == KILN_E_MISSING ? 2 : status ? 3 : 0;
}

static int alone_with(const char *module)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        char place[] = "/no/such/folder/test_llvm", what[] = "alone";
        char *const args[] = {place, what, NULL};
        setenv("KILN_LLVM", module, 1);
        execv("/proc/self/exe", args);
        _exit(100);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static void the_module_is_found_or_missed(void **state)
{
    (void)state;
    const char *named = getenv("KILN_LLVM");
    assert_int_equal(alone_with(""), 2);
    assert_int_equal(alone_with("/no/such/libkiln-llvm.so"), 2);
    assert_int_equal(alone_with("libm.so.6"), 2); // a library, but not this one
    if (named) assert_int_equal(alone_with(named), 0);
}

#define T(f) cmocka_unit_test(f)
int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "alone")) return compile_alone();
    const struct CMUnitTest tests[] = {
        T(an_object_is_loaded_again),
        T(a_broken_object_is_refused),
        T(text_and_host),
        T(the_module_is_found_or_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
