// Optimisers, schedules, loops.
#include "mistakes.h"
#include <math.h>

static kiln_tensor *parameter(void)
{
    return kiln_parameter(F32(3), "w");
}

static void step_without_gradients(void)
{
    kiln_tensor *w = parameter();
    kiln_optim *opt = kiln_optim_sgd(&w, 1, NULL);
    AT(kiln_optim_step(opt));
    kiln_optim_free(&opt);
}

static void optimiser_of_no_parameter(void)
{
    kiln_tensor *x = F32(3);
    AT(kiln_optim_adam(&x, 1, NULL));
}

static void optimiser_of_nothing(void)
{
    kiln_tensor *x = NULL;
    AT(kiln_optim_adam(&x, 0, NULL));
}

static void optimiser_of_a_result(void)
{
    kiln_tensor *y = kiln_square(parameter());
    AT(kiln_optim_adam(&y, 1, NULL));
}

static void parameter_twice(void)
{
    kiln_tensor *w = parameter(), *both[] = {w, w};
    AT(kiln_optim_adam(both, 2, NULL));
}

static void parameters_of_two_devices(void)
{
    kiln_tensor *both[] = {parameter(), kiln_parameter(kiln_ones(other, KILN_F32, KILN_SHAPE(3)), "b")};
    AT(kiln_optim_adam(both, 2, NULL));
}

static void negative_rate(void)
{
    kiln_tensor *w = parameter();
    AT(kiln_optim_sgd(&w, 1, KILN_SGD(.lr = -.1)));
}

static void momentum_above_1(void)
{
    kiln_tensor *w = parameter();
    AT(kiln_optim_sgd(&w, 1, KILN_SGD(.momentum = 1.5)));
}

static void nesterov_without_momentum(void)
{
    kiln_tensor *w = parameter();
    AT(kiln_optim_sgd(&w, 1, KILN_SGD(.nesterov = true)));
}

static void rate_that_is_no_number(void)
{
    kiln_tensor *w = parameter();
    kiln_optim *opt = kiln_optim_adam(&w, 1, NULL);
    AT(kiln_optim_set_lr(opt, NAN));
    kiln_optim_free(&opt);
}

static void schedule_of_a_negative_length(void)
{
    AT(kiln_schedule_cosine(.1, 0, 0));
}

static void milestones_that_do_not_ascend(void)
{
    const int64_t at[] = {30, 10};
    AT(kiln_schedule_multi_step(.1, 2, at, .1));
}

static void rate_of_a_step_before_the_first(void)
{
    kiln_schedule *s = kiln_schedule_constant(.1);
    AT(kiln_schedule_lr(s, -1));
    kiln_schedule_free(&s);
}

static void state_of_another_schedule(void)
{
    const double state[] = {1, 2, 3, 4};
    kiln_schedule *s = kiln_schedule_constant(.1);
    AT(kiln_schedule_set_state(s, state, 4));
    kiln_schedule_free(&s);
}

static void muon_of_a_vector(void)
{
    kiln_tensor *w = parameter();
    AT(kiln_optim_muon(&w, 1, NULL));
}

static void clip_to_nothing(void)
{
    kiln_tensor *w = parameter();
    AT(kiln_clip_grad_norm(&w, 1, 0));
}

static void average_taken_while_it_is_in(void)
{
    kiln_tensor *w = parameter();
    kiln_average *a = kiln_average_ema(&w, 1, NULL);
    kiln_average_update(a);
    kiln_average_swap(a);
    AT(kiln_average_update(a));
    kiln_average_free(&a);
}

static kiln_tensor *gives_nothing(void *user)
{
    (void)user;
    return NULL;
}

static void closure_that_gives_nothing(void)
{
    kiln_tensor *w = parameter();
    kiln_optim *opt = kiln_optim_lbfgs(&w, 1, NULL);
    AT(kiln_optim_step_closure(opt, gives_nothing, NULL, NULL));
    kiln_optim_free(&opt);
}

static void second_group_of_the_same_parameters(void)
{
    kiln_tensor *w = parameter();
    kiln_optim *opt = kiln_optim_sgd(&w, 1, NULL);
    AT(kiln_optim_add_group(opt, &w, 1, NULL));
    kiln_optim_free(&opt);
}

static void group_with_a_number_that_there_is_not(void)
{
    kiln_tensor *w = parameter(), *v = parameter();
    kiln_optim *opt = kiln_optim_sgd(&w, 1, NULL);
    AT(kiln_optim_add_group(opt, &v, 1, KILN_OPTIM_GROUP(.beta2 = .9)));
    kiln_optim_free(&opt);
}

static void training_mode_forgotten(void)
{
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, 3, 4, NULL), kiln_nn_dropout(.5)));
    kiln_tensor *y = kiln_cell_call(net, F32(2, 3));
    AT(kiln_backward(kiln_sum(y, NULL), NULL));
    kiln_cell_free(&net);
}

// clang-format takes rows without commas for calls.
// clang-format off
const struct mistake mistakes_in_training[] = {
    ROW(step_without_gradients, KILN_OK, WHAT_TO_DO,
        "optim_step: none of the 1 parameters has a gradient, none has moved; is kiln_backward called before the "
        "step? ({here})")
    ROW(optimiser_of_no_parameter, KILN_E_ARGUMENT, WHAT_TO_DO,
        "optim_adam: parameter 0 is no parameter: no gradient would ever move it; make one of it with kiln_parameter "
        "({here})")
    ROW(optimiser_of_nothing, KILN_E_ARGUMENT, WHAT,
        "optim_adam: there are no parameters ({here})")
    ROW(optimiser_of_a_result, KILN_E_ARGUMENT, WHAT,
        "optim_adam: parameter 0 \"\" must be a leaf of a float dtype, it is a result of f32 ({here})")
    ROW(parameter_twice, KILN_E_ARGUMENT, WHAT,
        "optim_adam: parameter 1 \"w\" is parameter 0, too: it would be moved twice in a step ({here})")
    ROW(parameters_of_two_devices, KILN_E_DEVICE_MISMATCH, WHAT_TO_DO,
        "optim_adam: parameter 1 \"b\" is on null, parameter 0 is on {kind}; make an optimiser for each ({here})")
    ROW(negative_rate, KILN_E_ARGUMENT, WHAT,
        "optim_sgd: .lr must be a number not below 0, got -0.1 ({here})")
    ROW(momentum_above_1, KILN_E_ARGUMENT, WHAT_TO_DO,
        "optim_sgd: .momentum must be in [0, 1), got 1.5 ({here})")
    ROW(nesterov_without_momentum, KILN_E_ARGUMENT, WHAT_TO_DO,
        "optim_sgd: .nesterov needs a momentum and no dampening, got 0 and 0 ({here})")
    ROW(rate_that_is_no_number, KILN_E_ARGUMENT, WHAT_TO_DO,
        "optim_set_lr: the rate must not be below 0, got nan ({here})")
    ROW(schedule_of_a_negative_length, KILN_E_ARGUMENT, WHAT_TO_DO,
        "schedule_cosine: the number of steps must be positive, got 0 ({here})")
    ROW(milestones_that_do_not_ascend, KILN_E_ARGUMENT, WHAT_TO_DO,
        "schedule_multi_step: the milestones must ascend, got 30 before 10 ({here})")
    ROW(rate_of_a_step_before_the_first, KILN_E_ARGUMENT, WHAT_TO_DO,
        "schedule_lr: the step must not be below 0, got -1 ({here})")
    ROW(state_of_another_schedule, KILN_E_ARGUMENT, WHAT,
        "schedule_set_state: the state has 0 numbers, 4 are given ({here})")
    ROW(muon_of_a_vector, KILN_E_SHAPE, WHAT_TO_DO,
        "optim_muon: parameter 0 \"w\" has rank 1, and only matrices and tensors of higher rank have a direction to "
        "make orthogonal; give it to another optimiser ({here})")
    ROW(clip_to_nothing, KILN_E_ARGUMENT, WHAT_TO_DO,
        "clip_grad_norm: the limit must be positive, got 0 ({here})")
    ROW(average_taken_while_it_is_in, KILN_E_STATE, WHAT_TO_DO,
        "average_update: the averages are in the parameters; swap them out first ({here})")
    ROW(closure_that_gives_nothing, KILN_E_ARGUMENT, WHAT,
        "optim_step_closure: the closure gave no loss ({here})")
    ROW(second_group_of_the_same_parameters, KILN_E_ARGUMENT, WHAT,
        "optim_add_group: parameter 1 \"w\" is parameter 0, too: it would be moved twice in a step ({here})")
    ROW(group_with_a_number_that_there_is_not, KILN_E_ARGUMENT, WHAT,
        "optim_sgd: group 1: .beta2 is 0.9, and the optimiser has no such number ({here})")
    ROW(training_mode_forgotten, KILN_OK, WHAT_TO_DO,
        "backward: through a cell dropout in inference mode, in which cells are made; call kiln_cell_set_training "
        "with true to train, with false where inference is meant ({here})")
    LAST_ROW
};
// clang-format on
