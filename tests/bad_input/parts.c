// Wrong calls of networks, losses, optimisers, loaders and files.
#include "bad_input.h"

#include <unistd.h>

static kiln_status pass(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                        size_t n_out)
{
    if (n_in) out[0] = in[0];
    return user ? KILN_E_STATE : KILN_OK;
}

void wrong_cells(void **state)
{
    kiln_tensor *a = F32(2), *out[2];
    kiln_cell *cell = kiln_cell_create(KILN_CELL(.kind = "mine", .construct = pass, .n_in = 1, .n_out = 1));
    kiln_cell *child = kiln_nn_relu(),
              *fails = kiln_cell_create(KILN_CELL(.kind = "fails", .construct = pass, .user = &dev));
    kiln_cell_add_parameter(cell, "w", a);
    kiln_cell_add_child(cell, "act", child);
    kiln_cell *level = kiln_cell_create(NULL);
    BAD(kiln_cell_call(level, a), KILN_E_STATE, "cell_call: cell ", ".construct");
    kiln_cell_free(&level);
    BAD(kiln_cell_add_parameter(cell, "w", a), KILN_E_ARGUMENT, "cell_add_parameter: ", "mine", "\"w\" already");
    BAD(kiln_cell_add_parameter(cell, "a.b", a), KILN_E_ARGUMENT, "cell_add_parameter: ", "\"a.b\"");
    BAD(kiln_cell_add_parameter(cell, "", a), KILN_E_ARGUMENT, "cell_add_parameter: ", "\"\"");
    BAD(kiln_cell_add_parameter(cell, "v", NULL), KILN_E_ARGUMENT, "cell_add_parameter: ", "\"v\" is NULL");
    BAD(kiln_cell_add_parameter(NULL, "v", a), KILN_E_ARGUMENT, "cell_add_parameter: ", "cell is NULL");
    BAD(kiln_cell_add_buffer(cell, "m", NULL), KILN_E_ARGUMENT, "cell_add_buffer: ", "\"m\" is NULL");
    BAD(kiln_cell_add_child(cell, "x", child), KILN_E_ARGUMENT, "cell_add_child: ", "has a parent already");
    BAD(kiln_cell_add_child(cell, "x", NULL), KILN_E_ARGUMENT, "cell_add_child: ", "\"x\" is NULL");
    BAD(kiln_cell_add_child(child, "x", cell), KILN_E_ARGUMENT, "cell_add_child: ", "descendant of itself");
    BAD(kiln_cell_parameter(cell, "act.w"), KILN_E_ARGUMENT, "cell_parameter: ", "\"act.w\"", "w");
    BAD(kiln_cell_parameter(cell, NULL), KILN_E_ARGUMENT, "cell_parameter: ", "path is NULL");
    BAD(kiln_cell_child(cell, "nose"), KILN_E_ARGUMENT, "cell_child: ", "\"nose\"", "act");
    BAD(kiln_cell_call(NULL, a), KILN_E_ARGUMENT, "cell_call: ", "cell is NULL");
    BAD(kiln_cell_call(cell, NULL), KILN_E_ARGUMENT, "cell_call: ", "input 0 of mine is NULL");
    BAD(kiln_cell_call_n(cell, (kiln_tensor *[]){a, a}, 2, out, 1), KILN_E_ARGUMENT,
        "cell_call: ", "mine takes 1 inputs, got 2");
    BAD(kiln_cell_call_n(cell, &a, 1, out, 2), KILN_E_ARGUMENT, "cell_call: ", "mine has 1 outputs", "2");
    BAD(kiln_cell_call(fails, a), KILN_E_STATE, "fails cell: ", "construct failed", "KILN_E_STATE");
    BAD(kiln_cell_call_n(fails, NULL, 0, out, 1), KILN_E_STATE, "fails cell: ");
    BAD(kiln_cell_set_training(NULL, true), KILN_E_ARGUMENT, "cell_set_training: ", "cell is NULL");
    BAD(kiln_cell_to_device(cell, NULL), KILN_E_ARGUMENT, "cell_to_device: ", "dev is NULL");
    BAD(kiln_cell_remove_hook(cell, 12), KILN_E_ARGUMENT, "cell_remove_hook: ", "mine", "12");
    BAD(kiln_cell_register_forward_hook(cell, NULL, NULL), KILN_E_ARGUMENT, "fn is NULL");
    BAD_VOID(kiln_cell_print(NULL, stdout), KILN_E_ARGUMENT, "cell_print: ", "cell is NULL");
    BAD(kiln_cell_summary(NULL, a, stdout), KILN_E_ARGUMENT, "cell_summary: ", "cell is NULL");
    BAD(kiln_cell_summary(cell, a, NULL), KILN_E_ARGUMENT, "cell_summary: ", "f is NULL");
    BAD(kiln_cell_summary_n(cell, &a, 1, 2, stdout), KILN_E_ARGUMENT, "cell_call: ", "mine has 1 outputs", "2");
    BAD(kiln_cell_parameters(NULL, NULL, 0), KILN_E_ARGUMENT, "cell_parameters: ", "cell is NULL");
    kiln_cell_free(&cell);
    kiln_cell_free(&fails);
    kiln_cell_free(&cell);
    kiln_cell_free(NULL);
}

void wrong_layers(void **state)
{
    kiln_cell *relu = kiln_nn_relu(), *conv = kiln_nn_conv2d(dev, 3, 4, 3, NULL),
              *dense = kiln_nn_dense(dev, 6, 2, NULL);
    BAD(kiln_nn_conv2d(dev, 0, 2, 3, NULL), KILN_E_ARGUMENT, "nn_conv2d: ", "got 0 and 2");
    BAD(kiln_nn_conv2d(dev, 3, 4, 3, KILN_NN_CONV2D(.groups = 2)), KILN_E_ARGUMENT, "nn_conv2d: ", "2");
    BAD(kiln_nn_conv2d(dev, 3, 4, 3, KILN_NN_CONV2D(.pad_mode = "mirror")), KILN_E_ARGUMENT,
        "nn_conv2d: ", "\"mirror\"");
    BAD(kiln_nn_conv2d(dev, 3, 4, 3, KILN_NN_CONV2D(.pad_mode = "same", .padding = {1, 1})), KILN_E_ARGUMENT,
        "nn_conv2d: ", "\"same\"");
    BAD(kiln_nn_dense(dev, -2, 2, NULL), KILN_E_ARGUMENT, "nn_dense: ", "-2 and 2");
    BAD(kiln_nn_dense(dev, 2, 2, KILN_NN_DENSE(.weight_init = "magic")), KILN_E_ARGUMENT, "\"magic\"", "he_uniform");
    BAD(kiln_nn_dense(dev, 2, 2, KILN_NN_DENSE(.dtype = KILN_I32)), KILN_E_DTYPE, "i32");
    BAD(kiln_nn_batch_norm2d(dev, -1, NULL), KILN_E_ARGUMENT, "nn_batch_norm2d: ", "-1");
    BAD(kiln_nn_layer_norm(dev, KILN_SHAPE(0), NULL), KILN_E_ARGUMENT, "nn_layer_norm: ");
    BAD(kiln_nn_dropout(1), KILN_E_ARGUMENT, "nn_dropout: ", "got 1");
    BAD(kiln_nn_dropout(NAN), KILN_E_ARGUMENT, "nn_dropout: ", "nan");
    BAD(kiln_nn_embedding(dev, 0, 4, NULL), KILN_E_ARGUMENT, "nn_embedding: ", "0 and 4");
    BAD(kiln_nn_unary(NULL), KILN_E_ARGUMENT, "nn_unary: ", "op is NULL");
    BAD(kiln_nn_sequential(1, (kiln_cell *[]){NULL}), KILN_E_ARGUMENT, "NULL");
    BAD(kiln_sequential_append(relu, kiln_nn_relu()), KILN_E_ARGUMENT, "sequential_append: ");
    BAD(kiln_initializer(dev, KILN_F32, KILN_SHAPE(2), "normal(x)"), KILN_E_ARGUMENT, "initializer: ", "\"normal(x)\"");
    BAD(kiln_initializer(dev, KILN_F32, KILN_SHAPE(2), NULL), KILN_E_ARGUMENT, "initializer: ", "init is NULL");
    BAD(kiln_initializer(dev, KILN_I64, KILN_SHAPE(2), "ones"), KILN_E_DTYPE, "initializer: ", "i64");
    // A call with a wrong tensor is named by the op that finds it, with the line of the call.
    BAD(kiln_cell_call(conv, F32(1, 2, 8, 8)), KILN_E_SHAPE, "conv2d: ", "2 input channels");
    BAD(kiln_cell_call(dense, F32(4, 5)), KILN_E_SHAPE, "f32[4,5]");
    BAD(kiln_cell_call(conv, THERE(1, 3, 8, 8)), KILN_E_DEVICE_MISMATCH, "conv2d: ", "kiln_to_device");
    kiln_cell_free(&relu);
    kiln_cell_free(&conv);
    kiln_cell_free(&dense);
}

void wrong_losses(void **state)
{
    kiln_tensor *x = F32(2, 3);
    BAD(kiln_loss_mse(x, NULL, KILN_REDUCTION_MEAN), KILN_E_ARGUMENT, "loss_mse: ", "the target is NULL");
    BAD(kiln_loss_mse(NULL, x, KILN_REDUCTION_MEAN), KILN_E_ARGUMENT, "loss_mse: ", "x is NULL");
    BAD(kiln_loss_l1(x, F32(2), KILN_REDUCTION_MEAN), KILN_E_SHAPE, "loss_l1: ", "it is f32[2], x is f32[2,3]");
    BAD(kiln_loss_mse(x, F32(1, 2, 3), KILN_REDUCTION_MEAN), KILN_E_SHAPE,
        "loss_mse: ", "it is f32[1,2,3], x is f32[2,3]");
    BAD(kiln_loss_mse(x, x, (kiln_reduction)9), KILN_E_ARGUMENT, "loss_mse: ", "9");
    BAD(kiln_loss_huber(x, x, -1, KILN_REDUCTION_SUM), KILN_E_ARGUMENT, "loss_huber: ", "delta", "-1");
    BAD(kiln_loss_smooth_l1(x, x, 0, KILN_REDUCTION_SUM), KILN_E_ARGUMENT, "loss_smooth_l1: ", "beta", "0");
    BAD(kiln_loss_nll(x, NULL, KILN_REDUCTION_MEAN), KILN_E_ARGUMENT, "loss_nll: ");
    BAD(kiln_loss_nll(x, I64(5), KILN_REDUCTION_MEAN), KILN_E_SHAPE, "");
}

void wrong_optimisers(void **state)
{
    kiln_tensor *p = kiln_parameter(F32(2), "p"), *x = I64(2), *ps[] = {p}, *xs[] = {x}, *ys[] = {kiln_relu(p)},
                *none[] = {NULL};
    kiln_optim *opt = kiln_optim_sgd(ps, 1, NULL);
    BAD(kiln_optim_sgd(NULL, 1, NULL), KILN_E_ARGUMENT, "sgd");
    BAD(kiln_optim_sgd(ps, 0, NULL), KILN_E_ARGUMENT, "sgd");
    BAD(kiln_optim_adam(none, 1, NULL), KILN_E_ARGUMENT, "adam");
    BAD(kiln_optim_adam(xs, 1, NULL), KILN_E_ARGUMENT, "adam");
    BAD(kiln_optim_adam(ys, 1, NULL), KILN_E_ARGUMENT, "adam");
    BAD(kiln_optim_sgd(ps, 1, KILN_SGD(.lr = -1)), KILN_E_ARGUMENT, "sgd", "-1");
    BAD(kiln_optim_sgd(ps, 1, KILN_SGD(.momentum = 2)), KILN_E_ARGUMENT, "sgd", "2");
    BAD(kiln_optim_adam(ps, 1, KILN_ADAM(.beta1 = 1)), KILN_E_ARGUMENT, "adam", "1");
    BAD(kiln_optim_step(NULL), KILN_E_ARGUMENT, "optim_step: ", "opt is NULL");
    BAD(kiln_optim_zero_grad(NULL), KILN_E_ARGUMENT, "optim_zero_grad: ", "opt is NULL");
    BAD(kiln_optim_set_lr(opt, NAN), KILN_E_ARGUMENT, "optim_set_lr: ", "nan");
    BAD(kiln_optim_set_steps(opt, -1), KILN_E_ARGUMENT, "optim_set_steps: ");
    BAD_VOID(assert_true(isnan(kiln_optim_lr(NULL))), KILN_E_ARGUMENT, "optim_lr: ", "opt is NULL");
    BAD(kiln_schedule_step(0.1, 0, 0.5), KILN_E_ARGUMENT, "schedule_step: ");
    BAD(kiln_schedule_cosine(0.1, 0, -5), KILN_E_ARGUMENT, "schedule_cosine: ");
    BAD(kiln_schedule_warmup(-1, kiln_schedule_constant(1)), KILN_E_ARGUMENT, "schedule_warmup: ");
    BAD_VOID(assert_true(isnan(kiln_schedule_lr(NULL, 0))), KILN_E_ARGUMENT, "schedule_lr: ", "NULL");
    BAD(kiln_clip_grad_norm(ps, 1, 0), KILN_E_ARGUMENT, "clip_grad_norm", "got 0");
    BAD(kiln_clip_grad_value(none, 1, 1), KILN_E_ARGUMENT, "clip_grad_value", "0 is NULL");
    kiln_optim_free(&opt);
    kiln_optim_free(&opt);
}

void wrong_loaders(void **state)
{
    bool more;
    kiln_tensor *a = F32(4, 2), *b = F32(5), *sets[] = {a, b}, *zero[] = {kiln_full(dev, KILN_F32, KILN_SHAPE0, 1)},
                *out[2];
    kiln_loader *l = kiln_loader_create(dev, sets, 1, NULL), *empty = kiln_loader_create(dev, NULL, 0, NULL);
    BAD(kiln_loader_create(dev, sets, 2, NULL), KILN_E_SHAPE, "loader_create: ", "5 samples", "4");
    BAD(kiln_loader_create(dev, zero, 1, NULL), KILN_E_SHAPE, "rank 0");
    BAD(kiln_loader_create(dev, NULL, 2, NULL), KILN_E_ARGUMENT, "loader_create: ", "NULL");
    BAD(kiln_loader_create(dev, sets, 1, KILN_LOADER(.batch = -3)), KILN_E_ARGUMENT, "loader_create: ", "-3");
    BAD(kiln_loader_create(dev, sets, 1, KILN_LOADER(.prefetch = -9)), KILN_E_ARGUMENT, "loader_create: ", "-9");
    BAD(kiln_loader_convert(l, 3, KILN_F32, NULL), KILN_E_ARGUMENT, "loader_convert: ", "no field 3");
    BAD(kiln_loader_convert(l, 0, KILN_U8, NULL), KILN_E_DTYPE, "loader_convert: ", "f32", "u8");
    BAD(kiln_loader_add_host(l, KILN_F32, KILN_SHAPE(4, 2), NULL), KILN_E_ARGUMENT, "loader_add_host: ", "NULL");
    BAD(kiln_loader_add_host(l, KILN_F32, KILN_SHAPE(9), &more), KILN_E_SHAPE, "9 samples", "4");
    BAD(kiln_loader_add_fn(l, KILN_F32, KILN_SHAPE(4), NULL, NULL), KILN_E_ARGUMENT, "loader_add_fn: ", "NULL");
    BAD(kiln_loader_next(empty, out, 0, &more), KILN_E_STATE, "loader_next: ", "no fields");
    BAD(kiln_loader_next(l, out, 2, &more), KILN_E_ARGUMENT, "loader_next: ", "2 outputs for 1");
    BAD(kiln_loader_next(l, NULL, 1, &more), KILN_E_ARGUMENT, "loader_next: ", "out is NULL");
    BAD(kiln_loader_next(NULL, out, 1, &more), KILN_E_ARGUMENT, "loader_next: ", "NULL");
    assert_int_equal(kiln_loader_next(l, out, 1, &more), KILN_OK);
    BAD(kiln_loader_convert(l, 0, KILN_F32, NULL), KILN_E_STATE, "loader_convert: ", "has given batches");
    BAD(kiln_loader_set_state(l, &(kiln_loader_state){.size = sizeof(kiln_loader_state), .position = 99}),
        KILN_E_ARGUMENT, "99", "4");
    kiln_loader_free(&l);
    kiln_loader_free(&empty);
    kiln_loader_free(&empty);
}

static void write_file(const char *path, const void *data, size_t size_B)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size_B, f), size_B);
    assert_int_equal(fclose(f), 0);
}

// Each format's own lies are tested with the format; here: every reader names the call, the file and the line.
void wrong_files(void **state)
{
    char path[] = "/tmp/kiln-bad-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_file(path, "no such format at all", 21);
    kiln_tensor *a = F32(2, 3), *bf16 = kiln_cast(a, KILN_BF16);
    const char *names[] = {"a", "a"};
    kiln_tensor *both[] = {a, a};
    kiln_checkpoint *c = kiln_checkpoint_create();
    BAD(kiln_npy_load(dev, path), KILN_E_FORMAT, "npy_load: ", path);
    BAD(kiln_npz_load(path), KILN_E_FORMAT, "npz_load: ", path);
    BAD(kiln_safetensors_load(path), KILN_E_FORMAT, "safetensors_load: ", path);
    BAD(kiln_idx_load(dev, path), KILN_E_FORMAT, "idx_load: ", path, "6e 6f 20 73");
    BAD(kiln_checkpoint_load(path), KILN_E_FORMAT, "checkpoint_load: ", path);
    write_file(path, "", 0);
    BAD(kiln_npy_load(dev, path), KILN_E_FORMAT, "npy_load: ", path);
    BAD(kiln_idx_load(dev, path), KILN_E_FORMAT, "idx_load: ", path);
    BAD(kiln_safetensors_load(path), KILN_E_FORMAT, path);
    assert_int_equal(unlink(path), 0);
    BAD(kiln_npy_load(dev, path), KILN_E_MISSING, "npy_load: ", path, "No such file");
    BAD(kiln_npz_load(path), KILN_E_MISSING, "npz_load: ", path);
    BAD(kiln_safetensors_load(path), KILN_E_MISSING, "safetensors_load: ", path);
    BAD(kiln_idx_load(dev, path), KILN_E_MISSING, "idx_load: ", path);
    BAD(kiln_checkpoint_load(path), KILN_E_MISSING, "checkpoint_load: ", path);
    BAD(kiln_npy_load(dev, "/tmp"), KILN_E_IO, "npy_load: /tmp");
    BAD(kiln_npy_load(dev, NULL), KILN_E_ARGUMENT, "npy_load: ", "path is NULL");
    BAD(kiln_npy_save("/nonexistent/x.npy", a), KILN_E_MISSING, "npy_save: /nonexistent/x.npy");
    BAD(kiln_npy_save("/dev/full", a), KILN_E_IO, "npy_save: /dev/full", "No space left");
    BAD(kiln_checkpoint_save(c, "/dev/full"), KILN_E_IO, "checkpoint_save: /dev/full", "No space left");
    BAD(kiln_npy_save(path, NULL), KILN_E_ARGUMENT, "NULL");
    BAD(kiln_npy_save(path, bf16), KILN_E_UNSUPPORTED, "npy_save: ", "bf16");
    BAD(kiln_npz_save(path, names, both, 2, NULL), KILN_E_ARGUMENT, "npz_save: ", "\"a\"");
    BAD(kiln_safetensors_save(path, names, both, 2), KILN_E_ARGUMENT, "safetensors_save: ", "\"a\"");
    BAD(kiln_checkpoint_put_int(c, "", 1), KILN_E_ARGUMENT, "checkpoint_put_int: ", "name is empty");
    BAD(kiln_checkpoint_put_int(c, "kiln.x", 1), KILN_E_ARGUMENT, "checkpoint_put_int: ", "\"kiln.x\"");
    BAD(kiln_checkpoint_get(c, dev, "w"), KILN_E_ARGUMENT, "checkpoint_get: ", "\"w\"");
    BAD(kiln_checkpoint_restore(c, names, both, 1), KILN_E_ARGUMENT, "checkpoint_restore: ", "\"a\"");
    BAD(kiln_checkpoint_put_int(NULL, "n", 1), KILN_E_ARGUMENT, "checkpoint_put_int: ", "NULL");
    kiln_checkpoint_put(c, names, both, 1);
    BAD(kiln_checkpoint_restore(c, names, &bf16, 1), KILN_E_DTYPE, "checkpoint_restore: ", "\"a\"");
    BAD(kiln_checkpoint_restore(c, names, (kiln_tensor *[]){F32(7)}, 1), KILN_E_SHAPE, "checkpoint_restore: ", "\"a\"");
    assert_int_equal(access(path, F_OK), -1);
    kiln_checkpoint_free(&c);
}
