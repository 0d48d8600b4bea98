// Networks: sizes between layers, names, numbers of inputs.
#include "mistakes.h"

static void sizes_between_layers(void)
{
    kiln_cell *net = kiln_nn_sequential(
        KILN_CELLS(kiln_nn_dense(dev, 784, 100, NULL), kiln_nn_relu(), kiln_nn_dense(dev, 128, 10, NULL)));
    AT(kiln_cell_call(net, F32(32, 784)));
    kiln_cell_free(&net);
}

static void flatten_forgotten(void)
{
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, 784, 10, NULL)));
    AT(kiln_cell_call(net, F32(32, 1, 28, 28)));
    kiln_cell_free(&net);
}

static void channels_last_in_a_network(void)
{
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_conv2d(dev, 3, 8, 3, NULL), kiln_nn_relu()));
    AT(kiln_cell_call(net, F32(1, 28, 28, 3)));
    kiln_cell_free(&net);
}

static void gray_images_for_a_network_of_colours(void)
{
    kiln_cell *net = kiln_nn_conv2d(dev, 3, 8, 3, NULL);
    AT(kiln_cell_call(net, F32(1, 1, 28, 28)));
    kiln_cell_free(&net);
}

static void batch_norm_of_other_channels(void)
{
    kiln_cell *net =
        kiln_nn_sequential(KILN_CELLS(kiln_nn_conv2d(dev, 3, 8, 3, NULL), kiln_nn_batch_norm2d(dev, 16, NULL)));
    AT(kiln_cell_call(net, F32(1, 3, 8, 8)));
    kiln_cell_free(&net);
}

static void layer_norm_of_another_width(void)
{
    kiln_cell *net = kiln_nn_layer_norm(dev, KILN_SHAPE(16), NULL);
    AT(kiln_cell_call(net, F32(2, 8)));
    kiln_cell_free(&net);
}

static void heads_that_do_not_divide(void)
{
    AT(kiln_nn_multi_head_attention(dev, 10, 3, NULL));
}

static void attention_of_another_width(void)
{
    kiln_cell *net = kiln_nn_multi_head_attention(dev, 16, 4, NULL);
    AT(kiln_cell_call(net, F32(2, 5, 8)));
    kiln_cell_free(&net);
}

static void sequence_without_time(void)
{
    kiln_cell *net = kiln_nn_lstm(dev, 4, 8, NULL);
    AT(kiln_cell_call(net, F32(4)));
    kiln_cell_free(&net);
}

static void sequence_of_another_width(void)
{
    kiln_cell *net = kiln_nn_gru(dev, 4, 8, NULL);
    AT(kiln_cell_call(net, F32(5, 2, 3)));
    kiln_cell_free(&net);
}

static void ids_as_floats_for_an_embedding(void)
{
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_embedding(dev, 100, 8, NULL), kiln_nn_flatten()));
    AT(kiln_cell_call(net, F32(2, 5)));
    kiln_cell_free(&net);
}

static void sizes_of_zero(void)
{
    AT(kiln_nn_dense(dev, 0, 10, NULL));
}

static void sizes_that_are_negative(void)
{
    AT(kiln_nn_conv2d(dev, 3, -8, 3, NULL));
}

static void groups_that_do_not_divide(void)
{
    AT(kiln_nn_conv2d(dev, 3, 8, 3, KILN_NN_CONV2D(.groups = 2)));
}

static void padding_and_same(void)
{
    AT(kiln_nn_conv2d(dev, 3, 8, 3, KILN_NN_CONV2D(.padding = {1, 1}, .pad_mode = "same")));
}

static void pad_mode_that_is_none(void)
{
    AT(kiln_nn_conv2d(dev, 3, 8, 3, KILN_NN_CONV2D(.pad_mode = "reflect")));
}

static void initialiser_that_is_none(void)
{
    AT(kiln_nn_dense(dev, 3, 4, KILN_NN_DENSE(.weight_init = "xavier")));
}

static void activation_that_is_none(void)
{
    AT(kiln_nn_unary("ReLU6x"));
}

static void dropout_of_everything(void)
{
    AT(kiln_nn_dropout(1));
}

static void parameter_of_another_name(void)
{
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, 2, 2, NULL)));
    AT(kiln_cell_parameter(net, "0.weigth"));
    kiln_cell_free(&net);
}

static void child_of_another_name(void)
{
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_relu()));
    AT(kiln_cell_child(net, "1"));
    kiln_cell_free(&net);
}

static void name_with_a_dot(void)
{
    kiln_cell *net = kiln_nn_dense(dev, 2, 2, NULL);
    AT(kiln_cell_add_parameter(net, "a.b", F32(2)));
    kiln_cell_free(&net);
}

static void name_that_is_taken(void)
{
    kiln_cell *net = kiln_nn_dense(dev, 2, 2, NULL);
    AT(kiln_cell_add_parameter(net, "weight", F32(2)));
    kiln_cell_free(&net);
}

static void fewer_inputs_than_the_cell_takes(void)
{
    kiln_tensor *x = F32(2, 3), *y;
    kiln_cell *net = kiln_nn_bilinear(dev, 3, 3, 4, NULL);
    AT(kiln_cell_call_n(net, &x, 1, &y, 1));
    kiln_cell_free(&net);
}

static void input_that_is_null(void)
{
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_relu()));
    AT(kiln_cell_call(net, NULL));
    kiln_cell_free(&net);
}

static kiln_status forgets(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                           size_t n_out)
{
    (void)cell, (void)user, (void)in, (void)n_in, (void)out, (void)n_out;
    return KILN_OK;
}

static void construct_that_gives_nothing(void)
{
    kiln_cell *net = kiln_cell_create(KILN_CELL(.kind = "block", .construct = forgets));
    AT(kiln_cell_call(net, F32(2)));
    kiln_cell_free(&net);
}

static void cell_without_construct(void)
{
    kiln_cell *encoder = kiln_cell_create(KILN_CELL(.kind = "encoder"));
    kiln_cell_add_child(encoder, "0", kiln_nn_relu());
    AT(kiln_cell_call(encoder, F32(2, 4)));
    kiln_cell_free(&encoder);
}

static void layer_that_could_not_be_made(void)
{
    AT(kiln_nn_sequential(KILN_CELLS(kiln_nn_relu(), kiln_nn_dense(dev, -1, 2, NULL))));
}

static void residual_of_another_width(void)
{
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_residual(kiln_nn_dense(dev, 4, 8, NULL))));
    AT(kiln_cell_call(net, F32(2, 4)));
    kiln_cell_free(&net);
}

static void longer_than_the_positions(void)
{
    kiln_cell *net = kiln_nn_positional_encoding(dev, 16, 8, 0);
    AT(kiln_cell_call(net, F32(2, 20, 8)));
    kiln_cell_free(&net);
}

static void wrong_sizes_in_a_captured_cell(void)
{
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, 3, 4, NULL), kiln_nn_dense(dev, 5, 2, NULL)));
    kiln_cell_jit(net, NULL);
    AT(kiln_cell_call(net, F32(2, 3)));
    kiln_cell_free(&net);
}

static void hook_that_is_not_there(void)
{
    kiln_cell *net = kiln_nn_relu();
    AT(kiln_cell_remove_hook(net, 7));
    kiln_cell_free(&net);
}

// clang-format takes rows without commas for calls.
// clang-format off
const struct mistake mistakes_in_cells[] = {
    ROW(sizes_between_layers, KILN_E_SHAPE, WHAT,
        "sequential.2 (dense 128 → 10): matmul: inner dimensions differ: a is f32[32,100], b is f32[128,10] ({here})")
    ROW(flatten_forgotten, KILN_E_SHAPE, WHAT_TO_DO,
        "sequential.0 (dense 784 → 10): x has rank 4, and 784 elements behind its first axis; kiln_nn_flatten before "
        "this cell makes rows of them ({here})")
    ROW(channels_last_in_a_network, KILN_E_SHAPE, WHAT_TO_DO,
        "sequential.0 (conv2d 3 → 8, 3×3): conv2d: x is f32[1,28,28,3] and w is f32[8,3,3,3]: 28 input channels "
        "(axis 1, NCHW), 8 outputs and groups 1 do not fit a weight with 3 channels; x looks like NHWC: "
        "kiln_permute(x, KILN_AXES(0, 3, 1, 2)) makes it NCHW ({here})")
    ROW(gray_images_for_a_network_of_colours, KILN_E_SHAPE, WHAT,
        "conv2d 3 → 8, 3×3: conv2d: x is f32[1,1,28,28] and w is f32[8,3,3,3]: 1 input channels (axis 1, NCHW), 8 "
        "outputs and groups 1 do not fit a weight with 3 channels ({here})")
    ROW(batch_norm_of_other_channels, KILN_E_SHAPE, WHAT_TO_DO,
        "sequential.1 (batch_norm2d 16): batch_norm: mean is f32[16], it must have one value for each channel of x, "
        "f32[1,8,6,6] ({here})")
    ROW(layer_norm_of_another_width, KILN_E_SHAPE, WHAT_TO_DO,
        "layer_norm 16: layer_norm cell: x must end in 1 axes, the last of size 16; its rank is 2, its last axis 8 "
        "({here})")
    ROW(heads_that_do_not_divide, KILN_E_ARGUMENT, WHAT_TO_DO,
        "nn_multi_head_attention: heads must divide width, .kv_heads heads, .dropout be in [0, 1), got width 10, "
        "heads 3, .kv_heads 3, .dropout 0 ({here})")
    ROW(attention_of_another_width, KILN_E_SHAPE, WHAT_TO_DO,
        "multi_head_attention 16, 4 heads: multi_head_attention cell: input 0 must be [...,L,16], its rank is 3, its "
        "last axis 8 ({here})")
    ROW(sequence_without_time, KILN_E_SHAPE, WHAT_TO_DO,
        "lstm 4 → 8: lstm: x must be [T,N,I] or [T,I], it is f32[4] ({here})")
    ROW(sequence_of_another_width, KILN_E_SHAPE, WHAT_TO_DO,
        "gru 4 → 8: gru: layer 0: w_ih must be [3 H,3], it is f32[24,4], x is f32[5,2,3] ({here})")
    ROW(ids_as_floats_for_an_embedding, KILN_E_DTYPE, WHAT_TO_DO,
        "sequential.0 (embedding 100 × 8): embedding: ids must be integers, it is f32[2,5] ({here})")
    ROW(sizes_of_zero, KILN_E_ARGUMENT, WHAT_TO_DO,
        "nn_dense: in and out must be positive, got 0 and 10 ({here})")
    ROW(sizes_that_are_negative, KILN_E_ARGUMENT, WHAT_TO_DO,
        "nn_conv2d: in and out must be positive, got 3 and -8 ({here})")
    ROW(groups_that_do_not_divide, KILN_E_ARGUMENT, WHAT_TO_DO,
        "nn_conv2d: groups must divide in and out, got 2 for 3 and 8 ({here})")
    ROW(padding_and_same, KILN_E_ARGUMENT, WHAT_TO_DO,
        "nn_conv2d: .padding goes with .pad_mode \"pad\" only, got \"same\" ({here})")
    ROW(pad_mode_that_is_none, KILN_E_ARGUMENT, WHAT_TO_DO,
        "nn_conv2d: unknown .pad_mode \"reflect\"; there are \"pad\", \"same\" and \"valid\" ({here})")
    ROW(initialiser_that_is_none, KILN_E_ARGUMENT, WHAT_TO_DO,
        "initializer: unknown \"xavier\"; there are \"zeros\", \"ones\", a number, \"constant(0.5)\", \"normal\", "
        "\"truncated_normal\", \"uniform\" (these three also as \"normal(0.02)\"), \"xavier_uniform\", "
        "\"xavier_normal\", \"he_uniform\", \"he_normal\", \"kaiming_uniform\", \"kaiming_normal\", \"orthogonal\" "
        "(these also as \"he_normal(tanh)\"), \"lecun_uniform\", \"lecun_normal\", \"dirac\", \"eye\" ({here})")
    ROW(activation_that_is_none, KILN_E_ARGUMENT, WHAT_TO_DO,
        "nn_unary: apply: no op is named \"ReLU6x\"; is \"relu6\" meant? ({here})")
    ROW(dropout_of_everything, KILN_E_ARGUMENT, WHAT_TO_DO,
        "nn_dropout: p must be in [0, 1), got 1 ({here})")
    ROW(parameter_of_another_name, KILN_E_ARGUMENT, WHAT_TO_DO,
        "cell_parameter: sequential has no \"0.weigth\"; it has 0.weight, 0.bias ({here})")
    ROW(child_of_another_name, KILN_E_ARGUMENT, WHAT_TO_DO,
        "cell_child: sequential has no \"1\"; its children are 0 ({here})")
    ROW(name_with_a_dot, KILN_E_ARGUMENT, WHAT,
        "cell_add_parameter: a name must be a text without dots, got \"a.b\" ({here})")
    ROW(name_that_is_taken, KILN_E_ARGUMENT, WHAT,
        "cell_add_parameter: cell dense has a \"weight\" already ({here})")
    ROW(fewer_inputs_than_the_cell_takes, KILN_E_ARGUMENT, WHAT,
        "cell_call: bilinear takes 2 inputs, got 1 ({here})")
    ROW(input_that_is_null, KILN_E_ARGUMENT, WHAT,
        "cell_call: input 0 of sequential is NULL ({here})")
    ROW(construct_that_gives_nothing, KILN_E_ARGUMENT, WHAT,
        "block: block cell: construct left output 0 of 1 NULL; set every out[i] that the call asks for ({here})")
    ROW(cell_without_construct, KILN_E_STATE, WHAT_TO_DO,
        "cell_call: encoder has no .construct: it holds children that are called by themselves, as "
        "kiln_cell_call(kiln_cell_child(cell, name), x); kiln_nn_sequential calls its own in turn ({here})")
    ROW(layer_that_could_not_be_made, KILN_E_ARGUMENT, WHAT_TO_DO,
        "nn_dense: in and out must be positive, got -1 and 2 ({here})")
    ROW(residual_of_another_width, KILN_E_SHAPE, WHAT,
        "sequential.0 (residual): add: shapes do not broadcast: a is f32[2,4], b is f32[2,8] ({here})")
    ROW(longer_than_the_positions, KILN_E_SHAPE, WHAT_TO_DO,
        "positional_encoding: positional_encoding cell: x must be [...,L,8] with L up to 16, its rank is 3, its last "
        "axes 20 and 8 ({here})")
    ROW(wrong_sizes_in_a_captured_cell, KILN_E_SHAPE, WHAT,
        "sequential.1 (dense 5 → 2): matmul: inner dimensions differ: a is f32[2,4], b is f32[5,2] ({here})")
    ROW(hook_that_is_not_there, KILN_E_ARGUMENT, WHAT,
        "cell_remove_hook: relu has no hook 7 ({here})")
    LAST_ROW
};
// clang-format on
