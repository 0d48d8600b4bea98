// The line of the caller where a compiler would make a jump of the call: functions that end in one, compiled with
// optimisation. Every public function is a macro that prevents it, which tests/rules/check_frames.py sees to; here each
// type that one returns has a call that fails.
#include <kiln/kiln.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// Not part of their callers, and with nothing behind their calls.
#define FAILS(name, type, call)                      \
    static __attribute__((noinline)) type name(void) \
    {                                                \
        return call;                                 \
    }                                                \
    enum { LINE_##name = __LINE__ };

// clang-format off
FAILS(unary, kiln_tensor *, kiln_relu(NULL))
FAILS(binary, kiln_tensor *, kiln_add(NULL, NULL))
FAILS(with_number, kiln_tensor *, kiln_mul(NULL, 3))
FAILS(by_number, kiln_tensor *, kiln_sub(2.5, (kiln_tensor *)NULL))
FAILS(ternary, kiln_tensor *, kiln_where(NULL, 1, 0))
FAILS(in_place, kiln_status, kiln_add_((kiln_tensor *)NULL, 3))
FAILS(reduce, kiln_tensor *, kiln_sum(NULL, NULL))
FAILS(product, kiln_tensor *, kiln_matmul(NULL, NULL))
FAILS(movement, kiln_tensor *, kiln_reshape(NULL, KILN_SHAPE(2, 3)))
FAILS(composite, kiln_tensor *, kiln_nan_to_num(NULL, 0, 0, 0))
FAILS(einsum, kiln_tensor *, kiln_einsum("ij,jk->ik", NULL, 2))
FAILS(creation, kiln_tensor *, kiln_zeros(NULL, KILN_F32, KILN_SHAPE(2)))
FAILS(created, kiln_tensor *, kiln_from_data(NULL, KILN_F32, KILN_SHAPE(2), NULL))
FAILS(gradient, kiln_tensor *, kiln_gradient(NULL))
FAILS(called_cell, kiln_tensor *, kiln_cell_call(NULL, NULL))
FAILS(read_file, kiln_tensor *, kiln_npy_load(NULL, "nowhere.npy"))
FAILS(several, kiln_status, kiln_topk(NULL, 1, 0, NULL, NULL, NULL))
FAILS(backward, kiln_status, kiln_backward(NULL, NULL))
FAILS(saved, kiln_status, kiln_npy_save("nowhere.npy", NULL))
FAILS(called, kiln_status, kiln_call(NULL, NULL, 0, NULL, 0))
FAILS(read, kiln_status, kiln_read(NULL, NULL, 0))
FAILS(stepped, kiln_status, kiln_optim_step(NULL))
FAILS(synchronised, kiln_status, kiln_device_synchronize(NULL))
FAILS(bundle, kiln_bundle *, kiln_bundle_copy(NULL))
FAILS(bundle_int, int64_t, kiln_bundle_int(NULL, "n"))
FAILS(bundle_double, double, kiln_bundle_double(NULL, "n"))
FAILS(bundle_bool, bool, kiln_bundle_bool(NULL, "n"))
FAILS(bundle_count, size_t, kiln_bundle_count(NULL))
FAILS(bundle_string, const char *, kiln_bundle_string(NULL, "n"))
FAILS(bundle_pointer, void *, kiln_bundle_pointer(NULL, "n"))
FAILS(bundle_kind, kiln_kind, kiln_bundle_kind(NULL, "n"))
FAILS(cell, kiln_cell *, kiln_nn_dense(NULL, 2, 3, NULL))
FAILS(child, kiln_cell *, kiln_cell_child(NULL, "a"))
FAILS(optimiser, kiln_optim *, kiln_optim_sgd(NULL, 1, NULL))
FAILS(schedule, kiln_schedule *, kiln_schedule_step(0.1, 0, 0.5))
FAILS(average, kiln_average *, kiln_average_ema(NULL, 1, NULL))
FAILS(function, kiln_function *, kiln_jit(NULL, NULL, NULL))
FAILS(device, kiln_device *, kiln_device_open("abacus"))
FAILS(generator, kiln_generator *, kiln_generator_fork(NULL))
FAILS(graph, kiln_graph *, kiln_graph_parse("graph"))
FAILS(model, kiln_model *, kiln_graph_import(NULL, "nowhere"))
FAILS(archive, kiln_archive *, kiln_npz_load("nowhere.npz"))
FAILS(checkpoint, kiln_checkpoint *, kiln_checkpoint_load("nowhere"))
FAILS(table, kiln_table *, kiln_csv_load("nowhere.csv", NULL))
FAILS(column, kiln_column, kiln_table_type(NULL, 0))
FAILS(vocabulary, kiln_vocabulary *, kiln_vocabulary_of_file("nowhere"))
FAILS(loader, kiln_loader *, kiln_loader_create(NULL, NULL, 0, NULL))
FAILS(hook, uint64_t, kiln_register_hook(NULL, NULL, NULL))
FAILS(rate, double, kiln_optim_lr(NULL))
FAILS(symbol, int64_t, kiln_symbol(NULL, NULL))

static const struct {
    const char *name;
    void (*call)(void);
    int line;
} calls[] = {
#define CALL(name) {#name, (void (*)(void))name, LINE_##name},
    CALL(unary) CALL(binary) CALL(with_number) CALL(by_number) CALL(ternary) CALL(in_place)
    CALL(reduce) CALL(product) CALL(movement) CALL(composite) CALL(einsum) CALL(creation)
    CALL(created) CALL(gradient) CALL(called_cell) CALL(read_file) CALL(several) CALL(backward)
    CALL(saved) CALL(called) CALL(read) CALL(stepped) CALL(synchronised) CALL(bundle)
    CALL(bundle_int) CALL(bundle_double) CALL(bundle_bool) CALL(bundle_count) CALL(bundle_string) CALL(bundle_pointer)
    CALL(bundle_kind) CALL(cell) CALL(child) CALL(optimiser) CALL(schedule) CALL(average)
    CALL(function) CALL(device) CALL(generator) CALL(graph) CALL(model) CALL(archive)
    CALL(checkpoint) CALL(table) CALL(column) CALL(vocabulary) CALL(loader) CALL(hook)
    CALL(rate) CALL(symbol)
};
// clang-format on

static void errors_name_the_line_of_the_call(void **state)
{
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char place[64];
        kiln_error_clear();
        calls[i].call();
        snprintf(place, sizeof place, "(frames.c:%d)", calls[i].line);
        if (kiln_error() && strstr(kiln_error_message(), place)) continue;
        fprintf(stderr, "%s, line %d: \"%s\"\n", calls[i].name, calls[i].line, kiln_error_message());
        wrong++;
    }
    kiln_error_clear();
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_name_the_line_of_the_call)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
