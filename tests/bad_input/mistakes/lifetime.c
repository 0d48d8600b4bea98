// Handles: freed, kept too long, never made.
#include "mistakes.h"

static void use_after_the_end_of_its_scope(void)
{
    kiln_scope *scope = THERE(kiln_scope_begin());
    kiln_tensor *x = kiln_relu(F32(2, 3));
    kiln_scope_end(&scope);
    AT(kiln_add(x, x));
}

static void use_after_free(void)
{
    kiln_tensor *x = kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 3)), *same = x;
    kiln_free(&x);
    AT(kiln_exp(same));
}

static void freed_twice(void)
{
    kiln_tensor *x = kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 3)), *same = x;
    kiln_free(&x);
    AT(kiln_free(&same));
}

static void read_after_the_end_of_its_scope(void)
{
    float v[6];
    kiln_scope *scope = THERE(kiln_scope_begin());
    kiln_tensor *x = kiln_neg(F32(2, 3));
    kiln_scope_end(&scope);
    AT(kiln_read(x, v, sizeof v));
}

static void null_argument(void)
{
    AT(kiln_add(F32(2), NULL));
}

static void number_in_the_place_of_a_tensor(void)
{
    AT(kiln_matmul(F32(2, 2), (kiln_tensor *)3));
}

static void scope_ended_twice(void)
{
    kiln_scope *scope = kiln_scope_begin(), *same = scope;
    kiln_scope_end(&scope);
    AT(kiln_scope_end(&same));
}

static void scopes_ended_outermost_first(void)
{
    kiln_scope *outer = kiln_scope_begin(), *inner = kiln_scope_begin();
    kiln_scope_end(&outer);
    AT(kiln_scope_end(&inner));
}

static void cell_after_free(void)
{
    kiln_cell *net = kiln_nn_dense(dev, 2, 2, NULL), *same = net;
    kiln_cell_free(&net);
    AT(kiln_cell_call(same, F32(2, 2)));
}

static void layer_after_its_network_was_freed(void)
{
    kiln_cell *layer = kiln_nn_dense(dev, 2, 2, NULL), *net = kiln_nn_sequential(KILN_CELLS(layer));
    kiln_cell_free(&net);
    AT(kiln_cell_call(layer, F32(2, 2)));
}

static void parameter_after_its_network_was_freed(void)
{
    kiln_cell *net = kiln_nn_dense(dev, 2, 2, NULL);
    kiln_tensor *w = kiln_cell_parameter(net, "weight");
    kiln_cell_free(&net);
    AT(kiln_sum(w, NULL));
}

static void free_of_a_parameter_that_a_cell_owns(void)
{
    kiln_cell *net = kiln_nn_dense(dev, 2, 2, NULL);
    kiln_tensor *w = kiln_cell_parameter(net, "weight");
    kiln_free(&w);
    AT(kiln_cell_free(&net));
}

static void optimiser_after_free(void)
{
    kiln_tensor *p = kiln_parameter(F32(2), "p");
    kiln_optim *opt = kiln_optim_sgd(&p, 1, NULL), *same = opt;
    kiln_optim_free(&opt);
    AT(kiln_optim_step(same));
}

static kiln_status same(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

static void function_after_free(void)
{
    kiln_tensor *x = F32(2), *y;
    kiln_function *f = kiln_jit(same, NULL, NULL), *freed = f;
    kiln_function_free(&f);
    AT(kiln_call(freed, &x, 1, &y, 1));
}

static void archive_after_free(void)
{
    kiln_tensor *x = F32(2);
    const char *name = "x";
    kiln_safetensors_save(file("x.safetensors"), &name, &x, 1);
    kiln_archive *a = kiln_safetensors_load(file("x.safetensors")), *freed = a;
    kiln_archive_free(&a);
    AT(kiln_archive_get(freed, dev, "x"));
}

static void one_cell_in_two_places(void)
{
    kiln_cell *layer = kiln_nn_relu(), *net = kiln_nn_sequential(KILN_CELLS(layer));
    AT(kiln_nn_sequential(KILN_CELLS(layer)));
    kiln_cell_free(&net);
}

static void schedule_of_two_optimisers(void)
{
    kiln_tensor *p = kiln_parameter(F32(2), "p");
    kiln_optim *a = kiln_optim_sgd(&p, 1, NULL), *b = kiln_optim_sgd(&p, 1, NULL);
    kiln_schedule *s = kiln_schedule_constant(1);
    kiln_optim_set_schedule(a, s);
    AT(kiln_optim_set_schedule(b, s));
    kiln_optim_free(&a);
    kiln_optim_free(&b);
}

static void an_error_that_is_pending(void)
{
    AT(kiln_matmul(F32(2, 3), F32(2, 3)));
    kiln_relu(F32(2));
    kiln_add(F32(2), F32(3));
}

// clang-format takes rows without commas for calls.
// clang-format off
const struct mistake mistakes_in_lifetime[] = {
    ROW(use_after_the_end_of_its_scope, KILN_E_HANDLE, WHAT_TO_DO,
        "add: a is a handle that was freed: f32[2,3], with the scope begun at {there}; kiln_keep hands a tensor to "
        "the scope around, kiln_own to the caller ({here})")
    ROW(use_after_free, KILN_E_HANDLE, WHAT,
        "exp: x is a handle that was freed: f32[2,3] ({here})")
    ROW(freed_twice, KILN_E_HANDLE, WHAT,
        "free: the handle was freed already: f32[2,3] ({here})")
    ROW(read_after_the_end_of_its_scope, KILN_E_HANDLE, WHAT_TO_DO,
        "read: t is a handle that was freed: f32[2,3], with the scope begun at {there}; kiln_keep hands a tensor to "
        "the scope around, kiln_own to the caller ({here})")
    ROW(null_argument, KILN_E_ARGUMENT, WHAT,
        "add: b is NULL ({here})")
    ROW(number_in_the_place_of_a_tensor, KILN_E_ARGUMENT, WHAT_TO_DO,
        "matmul: b is the number 3, not a tensor; kiln_scalar makes one of a number ({here})")
    ROW(scope_ended_twice, KILN_E_STATE, WHAT,
        "scope_end: the scope is not open on this thread (ended already, or begun on another) ({here})")
    ROW(scopes_ended_outermost_first, KILN_E_STATE, WHAT,
        "scope_end: the scope is not open on this thread (ended already, or begun on another) ({here})")
    ROW(cell_after_free, KILN_E_HANDLE, WHAT,
        "cell_call: the cell was freed, or is no cell ({here})")
    ROW(layer_after_its_network_was_freed, KILN_E_HANDLE, WHAT,
        "cell_call: the cell was freed, or is no cell ({here})")
    ROW(parameter_after_its_network_was_freed, KILN_E_HANDLE, WHAT,
        "sum: x is a handle that was freed: f32[2,2] ({here})")
    ROW(free_of_a_parameter_that_a_cell_owns, KILN_E_HANDLE, WHAT,
        "cell_free: \"weight\", which the dense owns: free: the handle was freed already: f32[2,2] ({here})")
    ROW(optimiser_after_free, KILN_E_HANDLE, WHAT,
        "optim_step: the optimiser was freed, or is no optimiser ({here})")
    ROW(function_after_free, KILN_E_HANDLE, WHAT,
        "call: the function was freed, or is no function ({here})")
    ROW(archive_after_free, KILN_E_HANDLE, WHAT,
        "archive_get: the archive was freed, or is no archive ({here})")
    ROW(one_cell_in_two_places, KILN_E_ARGUMENT, WHAT_TO_DO,
        "cell_add_child: \"0\" has a parent already: the relu is \"0\" of a sequential; a cell has one place, make "
        "another one, which may share its parameters (kiln_cell_add_parameter) ({here})")
    ROW(schedule_of_two_optimisers, KILN_E_ARGUMENT, WHAT_TO_DO,
        "optim_set_schedule: the schedule already belongs to an optimiser or a warm-up; make another one ({here})")
    ROW(an_error_that_is_pending, KILN_E_SHAPE, WHAT_TO_DO,
        "matmul: inner dimensions differ: a is f32[2,3], b is f32[2,3]; they fit with kiln_transpose(b, -2, -1) "
        "({here})")
    LAST_ROW
};
// clang-format on
