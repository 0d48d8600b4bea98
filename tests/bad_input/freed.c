// What was freed, or closed: every public function that takes a handle says so, by the headers. (Tensors: table.c.)
#include "bad_input.h"
#include "headers.h"

#include <unistd.h>

static struct header_names visited;

#define FREED(what, call)                                   \
    header_names_add(&visited, #call, strcspn(#call, "(")); \
    BAD(call, KILN_E_HANDLE, what " was freed");
#define FREED_VOID(what, call)                              \
    header_names_add(&visited, #call, strcspn(#call, "(")); \
    BAD_VOID(call, KILN_E_HANDLE, what " was freed");
#define CLOSED(call)                                        \
    header_names_add(&visited, #call, strcspn(#call, "(")); \
    BAD(call, KILN_E_HANDLE, "device was closed");
#define CLOSED_VOID(call)                                   \
    header_names_add(&visited, #call, strcspn(#call, "(")); \
    BAD_VOID(call, KILN_E_HANDLE, "device was closed");

static kiln_status same(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    return kiln_error();
}

static kiln_status same_cell(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    out[0] = in[0];
    return kiln_error();
}

static kiln_status pre_hook(void *user, kiln_cell *cell, kiln_tensor **in, size_t n_in)
{
    return KILN_OK;
}

static kiln_status hook(void *user, kiln_cell *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                        size_t n_out)
{
    return KILN_OK;
}

static kiln_tensor *grad_hook(void *user, kiln_cell *cell, size_t index, kiln_tensor *grad)
{
    return NULL;
}

static void freed_cells(void)
{
    kiln_tensor *x = F32(2), *out[1];
    kiln_cell *parent = kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, 2, 2, NULL))), *cell = parent,
              *child = kiln_cell_child(parent, "0"), *other_parent = kiln_nn_sequential(0, NULL);
    kiln_cell_jit(child, NULL);
    assert_non_null(kiln_cell_call(child, x));
    kiln_function *f = kiln_cell_function(child);
    kiln_cell_free(&parent);
    FREED("cell", kiln_cell_add_parameter(cell, "w", x))
    FREED("cell", kiln_cell_make_parameter(cell, "w", dev, KILN_F32, KILN_SHAPE(1), "ones"))
    FREED("cell", kiln_cell_add_buffer(cell, "w", x))
    FREED("cell", kiln_cell_add_child(cell, "c", kiln_nn_relu()))
    BAD(kiln_cell_add_child(other_parent, "c", cell), KILN_E_HANDLE, "cell_add_child: ", "the cell was freed");
    FREED("cell", kiln_cell_parameter(cell, "0.weight"))
    FREED("cell", kiln_cell_child(cell, "0"))
    FREED("cell", kiln_cell_parameters(cell, out, 1))
    FREED("cell", kiln_cell_state(cell, NULL, out, 1))
    FREED("cell", kiln_cell_load(cell, NULL, NULL))
    FREED("cell", kiln_cell_save(cell, "/dev/null"))
    FREED("cell", kiln_cell_restore(cell, NULL))
    FREED("cell", kiln_cell_parameter_count(cell))
    FREED("cell", kiln_cell_set_training(cell, true))
    FREED("cell", kiln_cell_is_training(cell))
    FREED("cell", kiln_cell_set_requires_grad(cell, true))
    FREED("cell", kiln_cell_to_device(cell, dev))
    FREED("cell", kiln_cell_call(cell, x))
    FREED("cell", kiln_cell_call_n(cell, &x, 1, out, 1))
    BAD(kiln_cell_call(child, x), KILN_E_HANDLE, "cell_call: the cell was freed");
    BAD(kiln_cell_fn(cell, &x, 1, out, 1), KILN_E_HANDLE, "cell_call: the cell was freed");
    FREED("cell", kiln_cell_jit(cell, NULL))
    FREED("cell", kiln_cell_function(cell))
    BAD(kiln_call(f, &x, 1, out, 1), KILN_E_HANDLE, "call: the function was freed");
    FREED_VOID("cell", kiln_cell_kind(cell))
    FREED_VOID("cell", kiln_cell_name(cell))
    FREED("cell", kiln_cell_user(cell))
    FREED_VOID("cell", kiln_cell_print(cell, stdout))
    FREED("cell", kiln_cell_summary(cell, x, stdout))
    FREED("cell", kiln_cell_summary_n(cell, &x, 1, 1, stdout))
    FREED("cell", kiln_cell_register_forward_pre_hook(cell, pre_hook, NULL))
    FREED("cell", kiln_cell_register_forward_hook(cell, hook, NULL))
    FREED("cell", kiln_cell_register_backward_pre_hook(cell, grad_hook, NULL))
    FREED("cell", kiln_cell_register_backward_hook(cell, grad_hook, NULL))
    FREED("cell", kiln_cell_remove_hook(cell, 1))
    FREED("cell", kiln_sequential_append(cell, kiln_nn_relu()))
    FREED("cell", kiln_cell_weight_norm(cell, "w", 0))
    FREED("cell", kiln_cell_spectral_norm(cell, "w", 0, 1))
    FREED("cell", kiln_nn_residual(cell))
    BAD_VOID(kiln_cell_free(&cell), KILN_E_HANDLE, "cell_free: the cell was freed");
    assert_null(cell);
    kiln_cell_free(&other_parent);
}

static kiln_tensor *no_loss(void *user)
{
    return NULL;
}

static void freed_optimisers(void)
{
    kiln_tensor *p = kiln_parameter(F32(2), "p"), *q = kiln_parameter(F32(2), "q"), *out[2];
    double value;
    kiln_optim *opt = kiln_optim_adam(&p, 1, NULL), *stale = opt, *good = kiln_optim_sgd(&p, 1, NULL);
    kiln_schedule *schedule = kiln_schedule_constant(1), *s = schedule;
    kiln_optim_free(&opt);
    kiln_schedule_free(&schedule);
    FREED("optimiser", kiln_optim_step(stale))
    FREED("optimiser", kiln_optim_zero_grad(stale))
    FREED_VOID("optimiser", kiln_optim_lr(stale))
    FREED("optimiser", kiln_optim_set_lr(stale, 1))
    FREED("optimiser", kiln_optim_set_schedule(stale, kiln_schedule_constant(1)))
    FREED("optimiser", kiln_optim_steps(stale))
    FREED("optimiser", kiln_optim_set_steps(stale, 1))
    FREED("optimiser", kiln_optim_state(stale, NULL, out, 2))
    FREED("optimiser", kiln_optim_add_group(stale, &q, 1, NULL))
    FREED("optimiser", kiln_optim_schedule(stale, 0))
    FREED("optimiser", kiln_optim_groups(stale))
    FREED_VOID("optimiser", kiln_optim_group_lr(stale, 0))
    FREED("optimiser", kiln_optim_set_group_lr(stale, 0, 1))
    FREED("optimiser", kiln_optim_step_closure(stale, no_loss, NULL, NULL))
    FREED("optimiser", kiln_optim_report(stale, 1))
    BAD_VOID(kiln_optim_free(&stale), KILN_E_HANDLE, "optim_free: the optimiser was freed");
    FREED("schedule", kiln_optim_set_schedule(good, s))
    FREED("schedule", kiln_schedule_warmup(3, s))
    FREED_VOID("schedule", kiln_schedule_lr(s, 0))
    FREED("schedule", kiln_schedule_report(s, 1))
    FREED("schedule", kiln_schedule_state(s, &value, 1))
    FREED("schedule", kiln_schedule_set_state(s, &value, 1))
    BAD_VOID(kiln_schedule_free(&s), KILN_E_HANDLE, "schedule_free: the schedule was freed");
    kiln_optim_free(&good);
    kiln_average *average = kiln_average_swa(&p, 1), *a = average;
    kiln_average_free(&average);
    FREED("average", kiln_average_update(a))
    FREED("average", kiln_average_swap(a))
    FREED("average", kiln_average_is_in(a))
    FREED("average", kiln_average_updates(a))
    FREED("average", kiln_average_set_updates(a, 1))
    FREED("average", kiln_average_state(a, NULL, out, 2))
    BAD_VOID(kiln_average_free(&a), KILN_E_HANDLE, "average_free: the average was freed");
}

static void freed_functions(void)
{
    kiln_tensor *x = F32(2), *out[1];
    kiln_jit_stats stats = {.size = sizeof stats};
    kiln_function *f = kiln_jit(same, NULL, NULL), *stale = f;
    assert_int_equal(kiln_call(f, &x, 1, out, 1), KILN_OK);
    kiln_function_free(&f);
    FREED("function", kiln_call(stale, &x, 1, out, 1))
    FREED_VOID("function", kiln_function_stats(stale, &stats))
    FREED_VOID("function", kiln_explain(stale, stdout))
    FREED("function", kiln_explain_with(stale, stdout, NULL))
    FREED("function", kiln_function_compile(stale, &(kiln_types){0, NULL}, 1, NULL))
    kiln_cost cost = {.size = sizeof cost};
    FREED("function", kiln_function_cost(stale, &cost))
    kiln_bench_result timed = {.size = sizeof timed};
    FREED("function", kiln_bench_captured(stale, &x, 1, 1, NULL, &timed))
    kiln_model *m = kiln_model_create(), *old = m;
    kiln_model_value value = {.size = sizeof value};
    FREED("function", kiln_model_add(m, "f", stale, &x, 1, 1, NULL))
    FREED("function", kiln_graph_export(stale, &x, 1, 1, "never_written", NULL))
    kiln_model_free(&m);
    FREED("model", kiln_model_add(old, "f", f, &x, 1, 1, NULL))
    FREED("model", kiln_model_name_weights(old, 0, NULL, NULL))
    FREED("model", kiln_model_save(old, "never_written"))
    FREED("model", kiln_model_train(old))
    FREED("model", kiln_model_function(old, "f"))
    FREED("model", kiln_model_function_count(old))
    FREED("model", kiln_model_function_name(old, 0))
    FREED("model", kiln_model_input(old, "f", 0, &value))
    FREED("model", kiln_model_output(old, "f", 0, &value))
    FREED("model", kiln_model_input_count(old, "f"))
    FREED("model", kiln_model_output_count(old, "f"))
    FREED("model", kiln_model_weights(old, NULL, NULL, 0))
    FREED("model", kiln_model_parameters(old, NULL, 0))
    BAD_VOID(kiln_model_free(&old), KILN_E_HANDLE, "model_free: the model was freed");
    BAD_VOID(kiln_function_free(&stale), KILN_E_HANDLE, "function_free: the function was freed");
    kiln_graph *g = kiln_graph_parse("%0: f32[2] = input \"x\"\nreturn %0 \"y\"\n"), *h = g;
    kiln_graph_free(&g);
    FREED("graph", kiln_graph_print(h, stdout))
    FREED("graph", kiln_graph_dot(h, stdout))
    FREED("graph", kiln_graph_node_count(h))
    FREED("graph", kiln_graph_node_op(h, 0))
    FREED("graph", kiln_graph_input_count(h))
    FREED("graph", kiln_graph_output_count(h))
    BAD_VOID(kiln_graph_free(&h), KILN_E_HANDLE, "graph_free: the graph was freed");
}

static kiln_status same_bundle(void *user, kiln_bundle *in, kiln_bundle **out)
{
    *out = in;
    return kiln_error();
}

static void read_freed_bundle(kiln_bundle *b)
{
    kiln_value v = {.size = sizeof v};
    FREED("bundle", kiln_bundle_save(b, "/dev/null"))
    FREED("bundle", kiln_bundle_count(b))
    FREED("bundle", kiln_bundle_has(b, "x"))
    BAD_VOID(kiln_bundle_index(b, "x"), KILN_E_HANDLE, "bundle_index: the bundle was freed");
    header_names_add(&visited, "kiln_bundle_index", 17);
    FREED("bundle", kiln_bundle_name(b, 0))
    FREED("bundle", kiln_bundle_slice(b, NULL, NULL))
    FREED("bundle", kiln_bundle_kind(b, "x"))
    FREED("bundle", kiln_bundle_kind_at(b, 0))
    FREED("bundle", kiln_bundle_get(b, "x", &v))
    FREED("bundle", kiln_bundle_get_at(b, 0, &v))
    FREED("bundle", kiln_bundle_tensor(b, "x"))
    FREED("bundle", kiln_bundle_tensor_at(b, 0))
    FREED("bundle", kiln_bundle_int(b, "x"))
    FREED("bundle", kiln_bundle_int_at(b, 0))
    FREED_VOID("bundle", kiln_bundle_double(b, "x"))
    FREED_VOID("bundle", kiln_bundle_double_at(b, 0))
    FREED("bundle", kiln_bundle_bool(b, "x"))
    FREED("bundle", kiln_bundle_bool_at(b, 0))
    FREED("bundle", kiln_bundle_string(b, "x"))
    FREED("bundle", kiln_bundle_string_at(b, 0))
    FREED("bundle", kiln_bundle_bundle(b, "x"))
    FREED("bundle", kiln_bundle_bundle_at(b, 0))
    FREED("bundle", kiln_bundle_pointer(b, "x"))
    FREED("bundle", kiln_bundle_pointer_at(b, 0))
    FREED_VOID("bundle", kiln_bundle_print(b, stdout))
}

static void freed_bundles(void)
{
    kiln_value v = {.size = sizeof v};
    kiln_bundle *bundle = kiln_bundle_create(), *b = bundle, *out, *good = kiln_bundle_create();
    kiln_function *f = kiln_bundle_jit(same_bundle, NULL, NULL), *freed = f;
    kiln_bundle_free(&bundle);
    read_freed_bundle(b);
    FREED("bundle", kiln_bundle_copy(b))
    FREED("bundle", kiln_mutable_bundle(b))
    FREED("bundle", kiln_bundle_alias(b))
    FREED("bundle", kiln_bundle_is(b, good))
    FREED("bundle", kiln_bundle_is(good, b))
    FREED("bundle", kiln_bundle_keep(b))
    FREED("bundle", kiln_bundle_own(b))
    FREED("bundle", kiln_bundle_append(b, NULL, KILN_NONE))
    FREED("bundle", kiln_bundle_append(good, NULL, KILN_BUNDLE(b)))
    FREED("bundle", kiln_bundle_insert(b, 0, NULL, KILN_NONE))
    FREED("bundle", kiln_bundle_set(b, "x", KILN_NONE))
    FREED("bundle", kiln_bundle_set_at(b, 0, KILN_NONE))
    FREED("bundle", kiln_bundle_remove(b, "x"))
    FREED("bundle", kiln_bundle_remove_at(b, 0))
    FREED("bundle", kiln_bundle_pop(b, "x", &v))
    FREED("bundle", kiln_bundle_pop_at(b, 0, &v))
    FREED("bundle", kiln_bundle_reverse(b))
    FREED("bundle", kiln_bundle_extend(b, good))
    FREED("bundle", kiln_bundle_extend(good, b))
    FREED("bundle", kiln_bundle_grad(same_bundle, NULL, b, NULL, NULL, &out))
    FREED("bundle",
          kiln_bundle_grad(same_bundle, NULL, good, KILN_BUNDLE_GRAD(.sens = b, .wrt = KILN_ARGS(0)), NULL, &out))
    FREED("bundle", kiln_bundle_call(f, b, &out))
    FREED("bundle", kiln_bundle_host_call(same_bundle, NULL, b, good, &out, 0, NULL))
    FREED("bundle", kiln_bundle_host_call(same_bundle, NULL, good, b, &out, 0, NULL))
    kiln_function_free(&f);
    FREED("function", kiln_bundle_call(freed, good, &out))
    BAD_VOID(kiln_bundle_free(&b), KILN_E_HANDLE, "bundle_free: the bundle was freed");
    assert_null(b);
}

static void freed_loaders(void)
{
    kiln_tensor *x = F32(2, 4), *out[1];
    kiln_loader_state state = {.size = sizeof state};
    bool more;
    kiln_loader *loader = kiln_loader_create(dev, &x, 1, NULL), *stale = loader;
    kiln_loader_free(&loader);
    FREED("loader", kiln_loader_add_host(stale, KILN_F32, KILN_SHAPE(2), &x))
    FREED("loader", kiln_loader_add_fn(stale, KILN_F32, KILN_SHAPE(2), NULL, NULL))
    FREED("loader", kiln_loader_convert(stale, 0, KILN_F32, NULL))
    FREED("loader", kiln_loader_add_dataset(stale, 2, 0, NULL, NULL, NULL))
    FREED("loader", kiln_loader_add_windows(stale, x, 1, 1))
    FREED("loader", kiln_loader_augment(stale, NULL, NULL))
    FREED("loader", kiln_loader_random_crop(stale, 0, 1, NULL))
    FREED("loader", kiln_loader_random_flip(stale, 0, NULL))
    FREED("loader", kiln_loader_cutout(stale, 0, 1, NULL))
    FREED("loader", kiln_loader_jitter(stale, 0, 1, 1, NULL))
    FREED("loader", kiln_loader_normalise(stale, 0, 0, NULL, NULL, NULL))
    FREED("loader", kiln_loader_next(stale, out, 1, &more))
    FREED("loader", kiln_loader_samples(stale))
    FREED("loader", kiln_loader_batches(stale))
    FREED("loader", kiln_loader_get_state(stale, &state))
    FREED("loader", kiln_loader_set_state(stale, &state))
    BAD_VOID(kiln_loader_free(&stale), KILN_E_HANDLE, "loader_free: the loader was freed");
}

static void freed_generators(void)
{
    kiln_generator *g = kiln_generator_new(1), *stale = g, *used = kiln_generator_new(2), *old = used;
    uint64_t seed, offset;
    kiln_generator_free(&g);
    FREED("generator", kiln_generator_fork(stale))
    FREED("generator", kiln_generator_state(stale, &seed, &offset))
    FREED("generator", kiln_generator_set_state(stale, 1, 1))
    FREED("generator", kiln_use_generator(stale))
    BAD_VOID(kiln_generator_free(&stale), KILN_E_HANDLE, "generator_free: the generator was freed");
    assert_null(kiln_use_generator(used));
    kiln_generator_free(&used); // it is in use on, but cannot be put back
    assert_non_null(kiln_uniform(dev, KILN_F32, KILN_SHAPE(2), 0, 1));
    assert_ptr_equal(kiln_use_generator(NULL), old);
    BAD(kiln_use_generator(old), KILN_E_HANDLE, "use_generator: the generator was freed");
}

static void freed_tables(void)
{
    size_t n;
    char path[] = "/tmp/kiln-freed-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "a\n1\n", 4) == 4 && !close(fd));
    kiln_table *table = kiln_csv_load(path, NULL), *t = table;
    assert_int_equal(unlink(path), 0);
    kiln_table_free(&table);
    FREED("table", kiln_table_rows(t))
    FREED("table", kiln_table_columns(t))
    FREED("table", kiln_table_name(t, 0))
    FREED("table", kiln_table_type(t, 0))
    header_names_add(&visited, "kiln_table_find", 15);
    BAD_VOID((void)kiln_table_find(t, "a"), KILN_E_HANDLE, "table_find: the table was freed");
    FREED("table", kiln_table_text(t, 0, 0))
    FREED("table", kiln_table_column(t, dev, 0))
    FREED("table", kiln_table_missing(t, dev, 0))
    FREED("table", kiln_table_codes(t, dev, 0))
    FREED("table", kiln_table_matrix(t, dev, KILN_F32, NULL, 0))
    BAD_VOID(kiln_table_free(&t), KILN_E_HANDLE, "table_free: the table was freed");
    kiln_vocabulary *vocabulary = kiln_vocabulary_bytes(), *v = vocabulary;
    kiln_vocabulary_free(&vocabulary);
    FREED("vocabulary", kiln_vocabulary_count(v))
    FREED("vocabulary", kiln_vocabulary_text(v))
    FREED("vocabulary", kiln_encode(v, dev, "x", 1, NULL))
    FREED("vocabulary", kiln_encode_file(v, dev, path, NULL))
    FREED("vocabulary", kiln_decode(v, F32(1), &n))
    BAD_VOID(kiln_vocabulary_free(&v), KILN_E_HANDLE, "vocabulary_free: the vocabulary was freed");
}

static void freed_trainings(void)
{
    kiln_training *t = kiln_training_create(NULL, NULL), *stale = t;
    int64_t step;
    double value;
    kiln_training_free(&t);
    FREED("training", kiln_training_epoch(stale))
    FREED("training", kiln_training_goes_on(stale))
    FREED("training", kiln_training_step(stale))
    FREED("training", kiln_training_stop(stale))
    FREED("training", kiln_training_log(stale, "x", 1))
    FREED("training", kiln_training_log_mean(stale, "x", 1, 1))
    FREED("training", kiln_training_log_tensor(stale, "x", F32(1)))
    FREED("training", kiln_training_steps(stale))
    FREED("training", kiln_training_epochs(stale))
    FREED("training", kiln_training_history(stale, "x", &step, &value, 1))
    FREED("training", kiln_training_keep_cell(stale, "x", NULL))
    FREED("training", kiln_training_keep_optim(stale, "x", NULL))
    FREED("training", kiln_training_keep_average(stale, "x", NULL))
    FREED("training", kiln_training_keep_loader(stale, "x", NULL))
    FREED("training", kiln_training_keep_generator(stale, "x", NULL))
    FREED("training", kiln_training_keep_tensor(stale, "x", NULL))
    FREED("training", kiln_training_keep_int(stale, "x", &step))
    FREED("training", kiln_training_keep_double(stale, "x", &value))
    FREED("training", kiln_training_save(stale))
    FREED("training", kiln_training_restore_best(stale))
    FREED("training", kiln_training_best(stale, &value, &step))
    FREED("training", kiln_training_save_curves(stale, "never.svg", NULL))
    BAD_VOID(kiln_training_free(&stale), KILN_E_HANDLE, "training_free: the training was freed");
    kiln_metric *metric = kiln_metric_create(KILN_METRIC(.classes = 2)), *m = metric;
    kiln_metric_free(&metric);
    FREED("metric", kiln_metric_update(m, F32(2, 2), F32(2)))
    FREED("metric", kiln_metric_reset(m))
    FREED("metric", kiln_metric_matrix(m))
    header_names_add(&visited, "kiln_metric_value", 17);
    BAD_VOID((void)kiln_metric_value(m, "accuracy"), KILN_E_HANDLE, "metric_value: the metric was freed");
    BAD_VOID(kiln_metric_free(&m), KILN_E_HANDLE, "metric_free: the metric was freed");
}

static void ended_regions(void)
{
    kiln_capture_region *r = kiln_capture_begin(dev, __FILE__, __LINE__), *stale = r;
    assert_true(kiln_capture_next(r));
    kiln_capture_end(&r);
    header_names_add(&visited, "kiln_capture_next", 17);
    BAD(kiln_capture_next(stale), KILN_E_HANDLE, "capture_next: the region was ended");
    BAD_VOID(kiln_capture_end(&stale), KILN_E_HANDLE, "capture_end: the region was ended");
    assert_null(stale);
    kiln_capture_end(&stale);
    kiln_capture_end(NULL);
    assert_false(kiln_capture_next(NULL));
    BAD(kiln_capture_enter(NULL, dev, __FILE__, __LINE__), KILN_E_ARGUMENT, "capture_enter: p is NULL");
    kiln_capture_leave(NULL);
    BAD(kiln_no_capture_enter(NULL), KILN_E_ARGUMENT, "no_capture_enter: p is NULL");
    kiln_no_capture_leave(NULL);
}

static void freed_files(void)
{
    kiln_tensor *x = F32(2);
    const char *name = "x", *text;
    int64_t number;
    double real;
    char path[] = "/tmp/kiln-freed-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(kiln_npz_save(path, &name, &x, 1, NULL), KILN_OK);
    kiln_archive *archive = kiln_npz_load(path), *a = archive;
    assert_int_equal(unlink(path), 0);
    kiln_archive_free(&archive);
    FREED("archive", kiln_archive_count(a))
    FREED("archive", kiln_archive_name(a, 0))
    FREED("archive", kiln_archive_has(a, "x"))
    FREED("archive", kiln_archive_tensor(a, dev, 0))
    FREED("archive", kiln_archive_get(a, dev, "x"))
    FREED("archive", kiln_archive_packed(a, dev, "x", &text))
    FREED("archive", kiln_archive_bundle(a, dev, NULL))
    FREED("archive", kiln_archive_metadata_count(a))
    FREED("archive", kiln_archive_metadata(a, 0, &text, &text))
    kiln_cell *cell = kiln_nn_relu();
    FREED("archive", kiln_cell_load(cell, a, NULL))
    kiln_cell_free(&cell);
    BAD_VOID(kiln_archive_free(&a), KILN_E_HANDLE, "archive_free: the archive was freed");
    kiln_checkpoint *checkpoint = kiln_checkpoint_create(), *c = checkpoint;
    kiln_checkpoint_free(&checkpoint);
    FREED("checkpoint", kiln_checkpoint_save(c, "/dev/null"))
    FREED("checkpoint", kiln_checkpoint_put(c, &name, &x, 1))
    FREED("checkpoint", kiln_checkpoint_put_int(c, "x", 1))
    FREED("checkpoint", kiln_checkpoint_put_double(c, "x", 1))
    FREED("checkpoint", kiln_checkpoint_put_string(c, "x", "y"))
    FREED("checkpoint", kiln_checkpoint_has(c, "x"))
    FREED("checkpoint", kiln_checkpoint_restore(c, &name, &x, 1))
    FREED("checkpoint", kiln_checkpoint_get(c, dev, "x"))
    FREED("checkpoint", kiln_checkpoint_get_int(c, "x", &number))
    FREED("checkpoint", kiln_checkpoint_get_double(c, "x", &real))
    FREED("checkpoint", kiln_checkpoint_get_string(c, "x"))
    BAD_VOID(kiln_checkpoint_free(&c), KILN_E_HANDLE, "checkpoint_free: the checkpoint was freed");
}

static kiln_device *closed_device(void)
{
    kiln_device *d = kiln_device_open("null"), *stale = d;
    kiln_device_close(&d);
    return stale;
}

static void ops_on_a_closed_device(kiln_device *d)
{
    float v[2] = {0};
    uint64_t seed;
    CLOSED(kiln_from_data(d, KILN_F32, KILN_SHAPE(2), v))
    CLOSED(kiln_from_bytes(d, KILN_F32, KILN_SHAPE(2), v, 8))
    CLOSED(kiln_to_device(F32(2), d))
    CLOSED(kiln_seed(d, 1))
    CLOSED(kiln_rng_state(d, &seed, &seed))
    CLOSED(kiln_set_rng_state(d, 1, 1))
    CLOSED(kiln_full(d, KILN_F32, KILN_SHAPE(2), 1))
    CLOSED(kiln_exponential(d, KILN_F32, KILN_SHAPE(2), 1))
    CLOSED(kiln_logspace(d, KILN_F32, 0, 1, 3, 10))
    CLOSED(kiln_full_int(d, KILN_I64, KILN_SHAPE(2), 1))
    CLOSED(kiln_zeros(d, KILN_F32, KILN_SHAPE(2)))
    CLOSED(kiln_ones(d, KILN_F32, KILN_SHAPE(2)))
    CLOSED(kiln_arange(d, KILN_F32, 0, 1, 1))
    CLOSED(kiln_linspace(d, KILN_F32, 0, 1, 2))
    CLOSED(kiln_eye(d, KILN_F32, 2, 2))
    CLOSED(kiln_uniform(d, KILN_F32, KILN_SHAPE(2), 0, 1))
    CLOSED(kiln_normal(d, KILN_F32, KILN_SHAPE(2), 0, 1))
    CLOSED(kiln_randint(d, KILN_I64, KILN_SHAPE(2), 0, 1))
    CLOSED(kiln_bernoulli(d, KILN_F32, KILN_SHAPE(2), 0.5))
    CLOSED(kiln_randperm(d, 3))
}

static void cells_on_a_closed_device(kiln_device *d)
{
    kiln_cell *cell = kiln_nn_dense(dev, 2, 2, NULL);
    CLOSED(kiln_cell_make_parameter(cell, "w", d, KILN_F32, KILN_SHAPE(2), "ones"))
    CLOSED(kiln_cell_to_device(cell, d))
    CLOSED(kiln_initializer(d, KILN_F32, KILN_SHAPE(2), "ones"))
    CLOSED(kiln_nn_conv2d(d, 1, 1, 1, NULL))
    CLOSED(kiln_nn_conv1d(d, 1, 1, 1, NULL))
    CLOSED(kiln_nn_conv3d(d, 1, 1, 1, NULL))
    CLOSED(kiln_nn_conv_transpose1d(d, 1, 1, 1, NULL))
    CLOSED(kiln_nn_conv_transpose2d(d, 1, 1, 1, NULL))
    CLOSED(kiln_nn_conv_transpose3d(d, 1, 1, 1, NULL))
    CLOSED(kiln_nn_dense(d, 1, 1, NULL))
    CLOSED(kiln_nn_batch_norm2d(d, 1, NULL))
    CLOSED(kiln_nn_layer_norm(d, KILN_SHAPE(2), NULL))
    CLOSED(kiln_nn_rms_norm(d, 2, NULL))
    CLOSED(kiln_nn_embedding(d, 2, 2, NULL))
    CLOSED(kiln_nn_embedding_bag(d, 2, 2, NULL, NULL))
    CLOSED(kiln_nn_group_norm(d, 1, 2, NULL))
    CLOSED(kiln_nn_instance_norm(d, 2, NULL))
    CLOSED(kiln_nn_bilinear(d, 2, 2, 2, NULL))
    CLOSED(kiln_nn_rnn(d, 2, 2, NULL))
    CLOSED(kiln_nn_gru(d, 2, 2, NULL))
    CLOSED(kiln_nn_lstm(d, 2, 2, NULL))
    CLOSED(kiln_nn_rnn_cell(d, 2, 2, NULL))
    CLOSED(kiln_nn_gru_cell(d, 2, 2, NULL))
    CLOSED(kiln_nn_lstm_cell(d, 2, 2, NULL))
    CLOSED(kiln_nn_multi_head_attention(d, 2, 1, NULL))
    CLOSED(kiln_nn_positional_encoding(d, 2, 2, 0))
    CLOSED(kiln_nn_transformer_encoder_layer(d, 2, 1, NULL))
    CLOSED(kiln_nn_transformer_decoder_layer(d, 2, 1, NULL))
    CLOSED(kiln_nn_transformer_encoder(d, 2, 1, 1, NULL))
    CLOSED(kiln_nn_transformer_decoder(d, 2, 1, 1, NULL))
    kiln_cell_free(&cell);
}

static void tables_to_a_closed_device(kiln_device *d)
{
    char path[] = "/tmp/kiln-closed-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "a\n1\n", 4) == 4 && !close(fd));
    kiln_table *t = kiln_csv_load(path, NULL);
    const char *name = "a";
    CLOSED(kiln_table_column(t, d, 0))
    CLOSED(kiln_table_missing(t, d, 0))
    CLOSED(kiln_table_codes(t, d, 0))
    CLOSED(kiln_table_matrix(t, d, KILN_F32, &name, 1))
    kiln_table_free(&t);
    kiln_vocabulary *v = kiln_vocabulary_bytes();
    CLOSED(kiln_encode(v, d, "x", 1, NULL))
    CLOSED(kiln_encode_file(v, d, path, NULL))
    kiln_vocabulary_free(&v);
    assert_int_equal(kiln_save_wav(path, F32(2), 1, NULL), KILN_OK);
    CLOSED(kiln_load_wav(d, path, NULL, NULL))
    assert_int_equal(unlink(path), 0);
    char image[sizeof path + 4];
    snprintf(image, sizeof image, "%s.png", path);
    header_names_add(&visited, "kiln_load_image", 15);
    if (kiln_save_image(image, kiln_zeros(dev, KILN_U8, KILN_SHAPE(2, 2)), NULL)) {
        BAD_VOID((void)0, KILN_E_UNSUPPORTED, "save_image: "); // a build without PNG
        return;
    }
    CLOSED(kiln_load_image(d, image, 0))
    assert_int_equal(unlink(image), 0);
}

static void files_to_a_closed_device(kiln_device *d)
{
    kiln_tensor *x = F32(2);
    const char *name = "x";
    const unsigned char idx[] = {0, 0, 8, 1, 0, 0, 0, 1, 7};
    char path[] = "/tmp/kiln-closed-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, idx, sizeof idx), sizeof idx);
    close(fd);
    CLOSED(kiln_idx_load(d, path))
    assert_int_equal(kiln_npy_save(path, x), KILN_OK);
    CLOSED(kiln_npy_load(d, path))
    CLOSED(kiln_graph_import(d, path))
    assert_int_equal(kiln_npz_save(path, &name, &x, 1, NULL), KILN_OK);
    kiln_archive *a = kiln_npz_load(path);
    CLOSED(kiln_archive_tensor(a, d, 0))
    CLOSED(kiln_archive_get(a, d, "x"))
    char packed[4096];
    const char *root = getenv("KILN_TEST_SOURCE_DIR");
    snprintf(packed, sizeof packed, "%s/golden/io/packed.gguf", root ? root : "tests");
    kiln_archive *gguf = kiln_gguf_load(packed);
    CLOSED(kiln_archive_packed(gguf, d, "q4_0", NULL))
    kiln_archive_free(&gguf);
    CLOSED(kiln_from_dlpack(d, NULL))
    CLOSED(kiln_from_dlpack_versioned(d, NULL))
    kiln_archive_free(&a);
    assert_int_equal(unlink(path), 0);
    kiln_checkpoint *c = kiln_checkpoint_create();
    kiln_checkpoint_put(c, &name, &x, 1);
    CLOSED(kiln_checkpoint_get(c, d, "x"))
    kiln_checkpoint_free(&c);
    CLOSED(kiln_loader_create(d, NULL, 0, NULL))
    tables_to_a_closed_device(d);
}

static void ignore_kernel(void *user, const kiln_graph_kernel *kernel) {}

static void closed_devices(void)
{
    kiln_device *d = closed_device();
    kiln_device_info info = {.size = sizeof info};
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_capture_region *r;
    ops_on_a_closed_device(d);
    cells_on_a_closed_device(d);
    files_to_a_closed_device(d);
    header_names_add(&visited, "kiln_capture_begin", 18);
    BAD_VOID(r = kiln_capture_begin(d, __FILE__, __LINE__), KILN_E_HANDLE, "capture: the device was closed");
    kiln_capture_end(&r);
    kiln_capture_place place = {0};
    header_names_add(&visited, "kiln_capture_enter", 18);
    BAD_VOID(kiln_capture_enter(&place, d, __FILE__, __LINE__), KILN_E_HANDLE, "capture: the device was closed");
    kiln_capture_leave(&place);
    CLOSED(kiln_graph_text_kernels("", 0, "x", d, ignore_kernel, NULL))
    CLOSED(kiln_set_device(d))
    CLOSED(kiln_set_default_device(d))
    CLOSED(kiln_device_get_info(d, &info))
    CLOSED_VOID(kiln_device_get_stats(d, &stats))
    CLOSED_VOID(kiln_device_reset_stats(d))
    CLOSED(kiln_device_set_memory_limit(d, 0))
    CLOSED(kiln_device_trim(d))
    CLOSED(kiln_device_tune(d))
    CLOSED(kiln_device_set_strict(d, true))
    CLOSED(kiln_device_synchronize(d))
    CLOSED(kiln_device_mark(d, 0))
    CLOSED_VOID(kiln_device_ceiling(d, KILN_CEILING_FMA, 0))
    CLOSED_VOID(kiln_device_elapsed(d, 0, 1))
    BAD_VOID(kiln_device_close(&d), KILN_E_HANDLE, "device_close: the device was closed");
    assert_null(d);
}

static int left_out;

static void expect_visit(const char *name, const char *params)
{
    static const char *const handles[] = {"device", "cell",      "optim",      "schedule",       "function", "graph",
                                          "loader", "archive",   "checkpoint", "capture_region", "bundle",   "average",
                                          "model",  "generator", "table",      "vocabulary",     "training", "metric"};
    char word[40];
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
        snprintf(word, sizeof word, "kiln_%s *", handles[i]);
        const char *at = strstr(params, word);
        // Not a list, not an output.
        if (!at || at[strlen(word)] == '*' || !strncmp(at + strlen(word), "const ", 6)) continue;
        if (header_names_has(&visited, name)) continue;
        fprintf(stderr, "%s takes a %s and is not tried here\n", name, handles[i]);
        left_out++;
    }
}

static void expect_visits(const char *text)
{
    header_each_function(text, expect_visit);
}

void every_freed_handle_is_found(void **state)
{
    visited.n = left_out = 0;
    freed_cells();
    freed_optimisers();
    freed_functions();
    freed_bundles();
    freed_loaders();
    freed_generators();
    freed_tables();
    freed_trainings();
    ended_regions();
    freed_files();
    closed_devices();
    header_each(expect_visits);
    assert_int_equal(left_out, 0);
}

// What lives on a device keeps it, and what was freed last is not given out at once: the many that follow are others.
void freed_handles_stay_freed(void **state)
{
    kiln_device *d = kiln_device_open("null"), *same_device = d;
    kiln_tensor *t = kiln_own(kiln_ones(d, KILN_F32, KILN_SHAPE(2)));
    kiln_device_close(&d);
    assert_ptr_equal(kiln_tensor_device(t), same_device);
    BAD_VOID(kiln_device_close(&same_device), KILN_E_HANDLE, "device_close: the device was closed already");
    kiln_device *still = kiln_tensor_device(t);
    assert_int_equal(kiln_device_synchronize(still), KILN_OK);
    kiln_free(&t);
    BAD(kiln_device_synchronize(still), KILN_E_HANDLE, "the device was closed");

    kiln_cell *stale = kiln_cell_create(KILN_CELL(.construct = same_cell)), *cell = stale;
    kiln_cell_free(&cell);
    for (int i = 0; i < 40; i++) {
        cell = kiln_cell_create(KILN_CELL(.construct = same_cell));
        BAD(kiln_cell_call(stale, F32(2)), KILN_E_HANDLE, "cell_call: the cell was freed");
        kiln_cell_free(&cell);
    }
}
