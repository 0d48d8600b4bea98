// Structs that begin with their size, and lists with their count: every public function that takes one, by the headers.
// A struct that was made without its macro has size 0 and would be ignored in silence, one with a nonsensical size
// would be read or written past its end; a list that is NULL with a count that is not 0 would be read.
#include "bad_input.h"
#include "headers.h"
#include <ctype.h>
#include <regex.h>
#include <unistd.h>

static struct header_names structs, visited;

// The call's function, for the list of what was tried.
static void visit(const char *call)
{
    header_names_add(&visited, call, strcspn(call, "("));
}

// --- what the headers declare

static void find_structs(const char *text)
{
    static const char begin[] = "typedef struct ";
    for (const char *at = text; (at = strstr(at, begin));) {
        at += sizeof begin - 1;
        size_t len = strcspn(at, " ;");
        const char *body = at + len + strspn(at + len, " ");
        if (*body != '{') continue;
        body += 1 + strspn(body + 1, " ");
        if (!strncmp(body, "size_t size ", 12)) header_names_add(&structs, at, len);
    }
}

static int left_out;

static void expect_visit(const char *name, const char *what)
{
    if (header_names_has(&visited, name)) return;
    fprintf(stderr, "%s takes %s and is not tried here\n", name, what);
    left_out++;
}

static void expect_sized(const char *name, const char *params)
{
    char word[80];
    for (int i = 0; i < structs.n; i++) {
        snprintf(word, sizeof word, "%s *", structs.v[i]);
        if (strstr(params, word)) expect_visit(name, structs.v[i]);
    }
}

static void expect_list(const char *name, const char *params)
{
    regex_t counted;
    assert_int_equal(regcomp(&counted, "size_t ([a-z]*_?count|n|n_[a-z]+|rank|max)[,)]", REG_EXTENDED | REG_NOSUB), 0);
    if (!regexec(&counted, params, 0, NULL, 0)) expect_visit(name, "a list");
    regfree(&counted);
}

static void expect_sized_of(const char *text)
{
    header_each_function(text, expect_sized);
}

static void expect_list_of(const char *text)
{
    header_each_function(text, expect_list);
}

// --- sizes that no struct has

static const size_t sizes[] = {0, 1, 7, 8, 9, 15, 20, 4104, (size_t)1 << 30, SIZE_MAX};

// "sum: " and what to write instead: KILN_REDUCE(...) for kiln_reduce_opts, sizeof for what has no macro.
static void expected_texts(const char *call, const char *type, size_t size, char text[3][80])
{
    const char *name = call, *end = strrchr(type, '_');
    if (!strncmp(call, "kiln_set_slice", 14)) name = "kiln_slice";
    if (!strncmp(call, "kiln_backward_with", 18)) name = "kiln_backward";
    snprintf(text[0], 80, "%.*s: ", (int)strcspn(name + 5, "("), name + 5);
    snprintf(text[1], 80, "size %s%zu", !strcmp(end, "_opts") || !strcmp(end, "_spec") ? "" : "is ", size);
    if (!strcmp(end, "_opts") || !strcmp(end, "_spec")) {
        snprintf(text[2], 80, "%.*s(", (int)(end - type), type);
        for (char *c = text[2]; *c; c++) *c = (char)toupper((unsigned char)*c);
    } else
        snprintf(text[2], 80, "sizeof(%s)", type);
}

#define SIZED(type, call)                                       \
    visit(#call);                                               \
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) { \
        char text[3][80];                                       \
        expected_texts(#call, #type, sizes[k], text);           \
        type o = {.size = sizes[k]};                            \
        BAD(call, KILN_E_ARGUMENT, text[0], text[1], text[2]);  \
    }
#define SIZED_VOID(type, call)                                      \
    visit(#call);                                                   \
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {     \
        char text[3][80];                                           \
        expected_texts(#call, #type, sizes[k], text);               \
        type o = {.size = sizes[k]};                                \
        BAD_VOID(call, KILN_E_ARGUMENT, text[0], text[1], text[2]); \
    }

static kiln_status same(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    return kiln_error();
}

static kiln_status same_bundle(void *user, kiln_bundle *in, kiln_bundle **out)
{
    *out = in;
    return kiln_error();
}

static void bundles_with_sizes(void)
{
    kiln_tensor *x = F32(2);
    kiln_bundle *b = kiln_bundle_of(&x, 1), *out;
    SIZED(kiln_value, kiln_bundle_append(b, NULL, &o))
    SIZED(kiln_value, kiln_bundle_insert(b, 0, NULL, &o))
    SIZED(kiln_value, kiln_bundle_set(b, "x", &o))
    SIZED(kiln_value, kiln_bundle_set_at(b, 0, &o))
    SIZED(kiln_value, kiln_bundle_get_at(b, 0, &o))
    SIZED(kiln_value, kiln_bundle_pop_at(b, 0, &o))
    assert_int_equal(kiln_bundle_append(b, "x", KILN_NONE), KILN_OK);
    SIZED(kiln_value, kiln_bundle_get(b, "x", &o))
    SIZED(kiln_value, kiln_bundle_pop(b, "x", &o))
    SIZED(kiln_bundle_grad_opts, kiln_bundle_grad(same_bundle, NULL, b, &o, NULL, &out))
    assert_int_equal(kiln_bundle_count(b), 2);
}

static void ops_with_options(void)
{
    kiln_tensor *x = F32(2, 4), *v = F32(4), *image = F32(1, 2, 4, 4), *w = F32(3, 2, 1, 1), *dy = F32(1, 3, 4, 4),
                *out[3];
    SIZED(kiln_reduce_opts, kiln_sum(x, &o))
    SIZED(kiln_reduce_opts, kiln_prod(x, &o))
    SIZED(kiln_reduce_opts, kiln_mean(x, &o))
    SIZED(kiln_reduce_opts, kiln_max(x, &o))
    SIZED(kiln_reduce_opts, kiln_min(x, &o))
    SIZED(kiln_reduce_opts, kiln_any(x, &o))
    SIZED(kiln_reduce_opts, kiln_all(x, &o))
    SIZED(kiln_reduce_opts, kiln_argmax(x, &o))
    SIZED(kiln_reduce_opts, kiln_argmin(x, &o))
    SIZED(kiln_reduce_opts, kiln_logsumexp(x, &o))
    SIZED(kiln_var_opts, kiln_var(x, &o))
    SIZED(kiln_var_opts, kiln_std(x, &o))
    SIZED(kiln_norm_opts, kiln_norm(x, &o))
    SIZED(kiln_slice_opts, kiln_slice(x, &o))
    SIZED(kiln_slice_opts, kiln_set_slice(x, &o, x))
    SIZED(kiln_layer_norm_opts, kiln_layer_norm(x, 1, &o))
    SIZED(kiln_rms_norm_opts, kiln_rms_norm(x, 1, &o))
    SIZED(kiln_group_norm_opts, kiln_group_norm(x, 2, &o))
    SIZED(kiln_batch_norm_opts, kiln_batch_norm(x, v, v, &o))
    SIZED(kiln_batch_norm_opts, kiln_batch_norm_train(x, &o, &out[0], &out[1], &out[2]))
    assert_true(!out[0] && !out[1] && !out[2]);
    SIZED(kiln_cross_entropy_opts, kiln_cross_entropy(x, x, &o))
    SIZED(kiln_flash_attention_opts, kiln_flash_attention(x, x, x, &o, &out[0], &out[1]))
    SIZED(kiln_flash_attention_opts, kiln_flash_attention_backward(x, x, x, x, x, x, &o, &out[0], &out[1], &out[2]))
    assert_true(!out[0] && !out[1] && !out[2]);
    SIZED(kiln_conv2d_opts, kiln_conv2d(image, w, &o))
    SIZED(kiln_conv2d_grad_opts, kiln_conv2d_input_grad(dy, w, 4, 4, &o))
    SIZED(kiln_conv2d_grad_opts, kiln_conv2d_weight_grad(image, dy, 1, 1, &o))
    SIZED(kiln_pool2d_opts, kiln_max_pool2d(image, &o))
    SIZED(kiln_pool2d_opts, kiln_max_pool2d_backward(image, image, &o))
    SIZED(kiln_pool2d_opts, kiln_avg_pool2d(image, &o))
    SIZED(kiln_pool2d_opts, kiln_avg_pool2d_backward(image, 4, 4, &o))
    SIZED(kiln_pad_opts, kiln_pad(x, &o))
    SIZED(kiln_op_spec, kiln_register_op(&o))
}

static void gradients_with_options(void)
{
    kiln_tensor *x = kiln_ones(dev, KILN_F64, KILN_SHAPE(2)), *p = kiln_parameter(F32(2), "p"), *out[1];
    SIZED(kiln_grad_opts, kiln_grad(same, NULL, &x, 1, &o, out, 1))
    SIZED(kiln_grad_opts, kiln_value_and_grad(same, NULL, &x, 1, &o, out, 1))
    SIZED(kiln_backward_opts, kiln_backward_with(kiln_square(p), &o))
    assert_null(kiln_gradient(p));
    SIZED(kiln_gradients_opts, kiln_gradients(kiln_square(p), &p, 1, &o, out))
    SIZED(kiln_rule_spec, kiln_register_rule(&o))
    SIZED(kiln_gradcheck_opts, kiln_gradcheck(same, NULL, &x, 1, &o))
    SIZED(kiln_jit_opts, kiln_jit(same, NULL, &o))
    kiln_function *j = kiln_jit(same, NULL, NULL);
    SIZED(kiln_cost, kiln_function_compile(j, &(kiln_types){0, NULL}, 1, &o))
    SIZED(kiln_cost, kiln_function_cost(j, &o))
    kiln_model *m = kiln_model_create();
    SIZED(kiln_model_add_opts, kiln_model_add(m, "f", j, &x, 1, 1, &o))
    SIZED(kiln_model_add_opts, kiln_graph_export(j, &x, 1, 1, "never_written", &o))
    assert_int_equal(kiln_model_add(m, "f", j, &x, 1, 1, NULL), KILN_OK);
    SIZED(kiln_model_value, kiln_model_input(m, "f", 0, &o))
    SIZED(kiln_model_value, kiln_model_output(m, "f", 0, &o))
    kiln_model_free(&m);
    kiln_function_free(&j);
    SIZED(kiln_symbol_opts, kiln_symbol("n", &o))
    SIZED(kiln_jit_opts, kiln_bundle_jit(same_bundle, NULL, &o))
    SIZED(kiln_loop_opts, kiln_while(same, same, NULL, &x, 1, &o, out, 1))
    SIZED(kiln_loop_opts, kiln_for(kiln_scalar_int(1), same, NULL, &x, 1, &o, out, 1))
    SIZED(kiln_scan_opts, kiln_scan(same, NULL, &x, 1, &o, out, 1))
}

static void networks_with_options(void)
{
    kiln_cell *relu = kiln_nn_relu();
    SIZED(kiln_cell_opts, kiln_cell_create(&o))
    SIZED(kiln_jit_opts, kiln_cell_jit(relu, &o))
    SIZED(kiln_cell_load_opts, kiln_cell_load(relu, NULL, &o))
    SIZED(kiln_archive_bundle_opts, kiln_archive_bundle(NULL, dev, &o))
    SIZED(kiln_nn_conv2d_opts, kiln_nn_conv2d(dev, 1, 1, 1, &o))
    SIZED(kiln_nn_conv1d_opts, kiln_nn_conv1d(dev, 1, 1, 1, &o))
    SIZED(kiln_nn_conv3d_opts, kiln_nn_conv3d(dev, 1, 1, 1, &o))
    SIZED(kiln_nn_conv_transpose_opts, kiln_nn_conv_transpose1d(dev, 1, 1, 1, &o))
    SIZED(kiln_nn_conv_transpose_opts, kiln_nn_conv_transpose2d(dev, 1, 1, 1, &o))
    SIZED(kiln_nn_conv_transpose_opts, kiln_nn_conv_transpose3d(dev, 1, 1, 1, &o))
    SIZED(kiln_nn_dense_opts, kiln_nn_dense(dev, 1, 1, &o))
    SIZED(kiln_nn_batch_norm_opts, kiln_nn_batch_norm2d(dev, 1, &o))
    SIZED(kiln_nn_norm_opts, kiln_nn_layer_norm(dev, KILN_SHAPE(1), &o))
    SIZED(kiln_nn_norm_opts, kiln_nn_rms_norm(dev, 1, &o))
    SIZED(kiln_nn_norm_opts, kiln_nn_group_norm(dev, 1, 1, &o))
    SIZED(kiln_nn_norm_opts, kiln_nn_instance_norm(dev, 1, &o))
    SIZED(kiln_nn_dense_opts, kiln_nn_bilinear(dev, 1, 1, 1, &o))
    SIZED(kiln_nn_recurrent_opts, kiln_nn_rnn(dev, 1, 1, &o))
    SIZED(kiln_nn_recurrent_opts, kiln_nn_gru(dev, 1, 1, &o))
    SIZED(kiln_nn_recurrent_opts, kiln_nn_lstm(dev, 1, 1, &o))
    SIZED(kiln_nn_recurrent_opts, kiln_nn_rnn_cell(dev, 1, 1, &o))
    SIZED(kiln_nn_recurrent_opts, kiln_nn_gru_cell(dev, 1, 1, &o))
    SIZED(kiln_nn_recurrent_opts, kiln_nn_lstm_cell(dev, 1, 1, &o))
    SIZED(kiln_nn_attention_opts, kiln_nn_multi_head_attention(dev, 1, 1, &o))
    SIZED(kiln_nn_transformer_opts, kiln_nn_transformer_encoder_layer(dev, 1, 1, &o))
    SIZED(kiln_nn_transformer_opts, kiln_nn_transformer_decoder_layer(dev, 1, 1, &o))
    SIZED(kiln_nn_transformer_opts, kiln_nn_transformer_encoder(dev, 1, 1, 1, &o))
    SIZED(kiln_nn_transformer_opts, kiln_nn_transformer_decoder(dev, 1, 1, 1, &o))
    SIZED(kiln_pool2d_opts, kiln_nn_max_pool2d(&o))
    SIZED(kiln_pool2d_opts, kiln_nn_avg_pool2d(&o))
    SIZED(kiln_pool1d_opts, kiln_nn_max_pool1d(&o))
    SIZED(kiln_pool1d_opts, kiln_nn_avg_pool1d(&o))
    SIZED(kiln_pool3d_opts, kiln_nn_max_pool3d(&o))
    SIZED(kiln_pool3d_opts, kiln_nn_avg_pool3d(&o))
    SIZED(kiln_interpolate_opts, kiln_nn_upsample(&o))
    kiln_cell_free(&relu);
}

static void optimisers_with_options(void)
{
    kiln_tensor *p = kiln_parameter(F32(2), "p"), *q = kiln_parameter(F32(2), "q");
    kiln_optim *opt = kiln_optim_sgd(&p, 1, NULL);
    SIZED(kiln_sgd_opts, kiln_optim_sgd(&p, 1, &o))
    SIZED(kiln_adam_opts, kiln_optim_adam(&p, 1, &o))
    SIZED(kiln_adam_opts, kiln_optim_adamw(&p, 1, &o))
    SIZED(kiln_rmsprop_opts, kiln_optim_rmsprop(&p, 1, &o))
    SIZED(kiln_adagrad_opts, kiln_optim_adagrad(&p, 1, &o))
    SIZED(kiln_adadelta_opts, kiln_optim_adadelta(&p, 1, &o))
    SIZED(kiln_adam_opts, kiln_optim_adamax(&p, 1, &o))
    SIZED(kiln_nadam_opts, kiln_optim_nadam(&p, 1, &o))
    SIZED(kiln_adam_opts, kiln_optim_radam(&p, 1, &o))
    SIZED(kiln_lion_opts, kiln_optim_lion(&p, 1, &o))
    SIZED(kiln_adam_opts, kiln_optim_lamb(&p, 1, &o))
    SIZED(kiln_adafactor_opts, kiln_optim_adafactor(&p, 1, &o))
    SIZED(kiln_muon_opts, kiln_optim_muon(&p, 1, &o))
    SIZED(kiln_lbfgs_opts, kiln_optim_lbfgs(&p, 1, &o))
    SIZED(kiln_optim_group_opts, kiln_optim_add_group(opt, &q, 1, &o))
    assert_int_equal(kiln_optim_groups(opt), 1);
    SIZED(kiln_metric_opts, kiln_metric_create(&o))
    SIZED(kiln_training_opts, kiln_training_create(NULL, &o))
    kiln_training *training = kiln_training_create(NULL, NULL);
    SIZED(kiln_curves_opts, kiln_training_save_curves(training, "never.svg", &o))
    kiln_training_free(&training);
    SIZED(kiln_ema_opts, kiln_average_ema(&p, 1, &o))
    SIZED(kiln_one_cycle_opts, kiln_schedule_one_cycle(1, 10, &o))
    SIZED(kiln_plateau_opts, kiln_schedule_plateau(1, &o))
    kiln_optim_free(&opt);
}

static kiln_status get_nothing(void *user, int64_t index, void *const *rows, size_t n)
{
    return KILN_OK;
}

static void data_with_options(void)
{
    kiln_tensor *x = F32(2, 4);
    const char *name = "x";
    double real = 1;
    kiln_vocabulary *vocabulary = kiln_vocabulary_bytes();
    kiln_loader *loader = kiln_loader_create(dev, &x, 1, NULL);
    SIZED(kiln_npz_opts, kiln_npz_save("/nonexistent/x.npz", &name, &x, 1, &o))
    SIZED(kiln_loader_opts, kiln_loader_create(dev, &x, 1, &o))
    SIZED(kiln_convert_opts, kiln_loader_convert(loader, 0, KILN_F64, &o))
    SIZED(kiln_field_spec,
          kiln_loader_add_dataset(loader, 2, 1, (const kiln_field_spec *const[]){&o}, get_nothing, NULL))
    SIZED(kiln_image_opts, kiln_loader_random_crop(loader, 0, 1, &o))
    SIZED(kiln_image_opts, kiln_loader_random_flip(loader, 0, &o))
    SIZED(kiln_image_opts, kiln_loader_cutout(loader, 0, 1, &o))
    SIZED(kiln_image_opts, kiln_loader_jitter(loader, 0, 1, 1, &o))
    SIZED(kiln_image_opts, kiln_loader_normalise(loader, 0, 1, &real, &real, &o))
    SIZED_VOID(kiln_sample, kiln_sample_uniform(&o, 0))
    SIZED(kiln_save_image_opts, kiln_save_image("/nonexistent/x.png", x, &o))
    SIZED(kiln_load_wav_opts, kiln_load_wav(dev, "/nonexistent/x.wav", &real, &o))
    SIZED(kiln_save_wav_opts, kiln_save_wav("/nonexistent/x.wav", x, 1, &o))
    SIZED(kiln_csv_opts, kiln_csv_load("/nonexistent/x.csv", &o))
    SIZED(kiln_csv_opts, kiln_csv_save("/nonexistent/x.csv", &name, &x, 1, &o))
    SIZED(kiln_encode_opts, kiln_encode(vocabulary, dev, "x", 1, &o))
    SIZED(kiln_encode_opts, kiln_encode_file(vocabulary, dev, "/nonexistent/x", &o))
    kiln_vocabulary_free(&vocabulary);
    SIZED(kiln_loader_state, kiln_loader_get_state(loader, &o))
    SIZED(kiln_loader_state, kiln_loader_set_state(loader, &o))
    kiln_loader_free(&loader);
}

static void queries_with_sizes(void)
{
    kiln_function *f = kiln_jit(same, NULL, NULL);
    kiln_tensor *x = F32(2);
    SIZED_VOID(kiln_jit_stats, kiln_function_stats(f, &o))
    kiln_bench_result timed = {.size = sizeof timed};
    SIZED(kiln_bench_opts, kiln_bench_function(same, NULL, &x, 1, 1, &o, &timed))
    SIZED(kiln_bench_opts, kiln_bench_captured(f, &x, 1, 1, &o, &timed))
    SIZED(kiln_bench_result, kiln_bench_print(&o, stdout))
    SIZED(kiln_explain_opts, kiln_explain_with(f, stdout, &o))
    SIZED(kiln_print_opts, kiln_print_with(x, stdout, &o))
    SIZED(kiln_print_opts, kiln_to_string_with(x, &o))
    SIZED(kiln_print_opts, kiln_set_print_options(&o))
    SIZED(kiln_print_opts, kiln_get_print_options(&o))
    SIZED(kiln_kernel_info, kiln_kernel_get_info(0, &o))
    SIZED(kiln_pass_info, kiln_pass_get_info(0, &o))
    SIZED(kiln_optimize_opts, kiln_graph_text_optimize("", 0, "x", &o))
    SIZED(kiln_cache_clear_opts, kiln_cache_clear(&o, NULL, NULL))
    SIZED(kiln_device_info, kiln_device_get_info(dev, &o))
    SIZED_VOID(kiln_device_stats, kiln_device_get_stats(dev, &o))
    SIZED(kiln_device_info, kiln_device_list(&o, 1))
    SIZED(kiln_profile_print_opts, kiln_profile_print(stdout, &o))
    SIZED(kiln_profile_print_opts, kiln_profile_print_file("absent", stdout, &o))
    kiln_function_free(&f);
}

void every_size_is_checked(void **state)
{
    structs.n = visited.n = left_out = 0;
    ops_with_options();
    gradients_with_options();
    networks_with_options();
    optimisers_with_options();
    data_with_options();
    queries_with_sizes();
    bundles_with_sizes();
    header_each(find_structs);
    assert_true(structs.n >= 39);
    header_each(expect_sized_of);
    assert_int_equal(left_out, 0);
}

// What was built against an older header has a shorter struct, against a newer one a longer.
void other_versions_of_options(void **state)
{
    struct {
        kiln_reduce_opts o;
        uint64_t later[2];
    } newer = {{.size = sizeof newer, .keepdims = true}};
    kiln_reduce_opts older = {.size = offsetof(kiln_reduce_opts, keepdims), .keepdims = true};
    kiln_tensor *x = F32(2, 3);
    assert_int_equal(kiln_rank(kiln_sum(x, &older)), 0);
    assert_int_equal(kiln_rank(kiln_sum(x, &newer.o)), 2);
    kiln_device_info info = {.size = offsetof(kiln_device_info, name), .name = "mine"};
    assert_int_equal(kiln_device_get_info(dev, &info), KILN_OK);
    assert_non_null(info.kind);
    assert_string_equal(info.name, "mine");
}

// --- lists that are NULL

#define LISTED(call, ...) \
    visit(#call);         \
    BAD(call, KILN_E_ARGUMENT, __VA_ARGS__);

static void ops_with_lists(void)
{
    kiln_tensor *x = F32(2, 4);
    LISTED(kiln_full(dev, KILN_F32, 3, NULL, 1), "full: ", "shape is NULL")
    LISTED(kiln_full_int(dev, KILN_I64, 3, NULL, 1), "full_int: ", "shape is NULL")
    LISTED(kiln_index(x, 1, NULL), "index: ", "items is NULL")
    LISTED(kiln_index_assign(x, 1, NULL, x), "index_assign: ", "items is NULL")
    LISTED(kiln_index_assign_add(x, 1, NULL, x), "index_assign_add: ", "items is NULL")
    LISTED(kiln_index_put(x, 1, NULL, x, false), "index_put: ", "items is NULL")
    LISTED(kiln_zeros(dev, KILN_F32, 3, NULL), "zeros: ", "shape is NULL")
    LISTED(kiln_ones(dev, KILN_F32, 3, NULL), "ones: ", "shape is NULL")
    LISTED(kiln_uniform(dev, KILN_F32, 3, NULL, 0, 1), "uniform: ", "shape is NULL")
    LISTED(kiln_normal(dev, KILN_F32, 3, NULL, 0, 1), "normal: ", "shape is NULL")
    LISTED(kiln_randint(dev, KILN_I64, 3, NULL, 0, 1), "randint: ", "shape is NULL")
    LISTED(kiln_bernoulli(dev, KILN_F32, 3, NULL, 0.5), "bernoulli: ", "shape is NULL")
    LISTED(kiln_reshape(x, 3, NULL), "reshape: ", "shape is NULL")
    LISTED(kiln_permute(x, (kiln_ints){2, NULL}), "permute: ", "axes is NULL")
    LISTED(kiln_expand(x, 3, NULL), "expand: ", "shape is NULL")
    LISTED(kiln_broadcast_to(x, 3, NULL), "expand: ", "shape is NULL")
    LISTED(kiln_squeeze(x, (kiln_ints){1, NULL}), "squeeze: ", "axes is NULL")
    LISTED(kiln_flip(x, (kiln_ints){1, NULL}), "flip: ", "axes is NULL")
    LISTED(kiln_as_strided(x, 1, NULL, 1, NULL, 0), "as_strided: ", "shape is NULL")
    LISTED(kiln_embed(x, 1, NULL, 1, NULL, 0), "embed: ", "shape is NULL")
    LISTED(kiln_as_strided_scatter(x, x, 1, NULL, 0), "as_strided_scatter: ", "strides is NULL")
    LISTED(kiln_as_strided_add(x, x, 1, NULL, 0), "as_strided_add: ", "strides is NULL")
    LISTED(kiln_tile(x, 2, NULL), "tile: ", "repeats is NULL")
    LISTED(kiln_roll(x, (kiln_ints){1, NULL}, (kiln_ints){1, NULL}), "roll: ", "shifts is NULL")
    LISTED(kiln_scatter_nd(I64(2, 1), x, 2, NULL), "scatter_nd: ", "shape is NULL")
    LISTED(kiln_concat(NULL, 2, 0), "concat: ", "NULL")
    LISTED(kiln_concatenate(NULL, 2, 0), "concat: ", "NULL")
    LISTED(kiln_stack(NULL, 2, 0), "stack: ", "NULL")
    LISTED(kiln_apply("add", NULL, 2), "add: ", "NULL")
    LISTED(kiln_from_data(dev, KILN_F32, 1, NULL, &x), "from_data: ", "dims is NULL")
    LISTED(kiln_from_bytes(dev, KILN_F32, 1, NULL, &x, 4), "from_bytes: ", "dims is NULL")
    LISTED(kiln_split(x, 0, NULL, 2), "split_sizes: ", "out is NULL")
    LISTED(kiln_split_sizes(x, 0, 2, NULL, &x), "split_sizes: ", "sizes is NULL")
    LISTED(kiln_unstack(x, 0, NULL, 2), "unstack: ", "out is NULL")
    LISTED(kiln_meshgrid(NULL, 2, &x), "meshgrid: ", "NULL")
    // As fields of options.
    BAD(kiln_sum(x, KILN_REDUCE(.axes = {1, NULL})), KILN_E_ARGUMENT, "sum: ", "axes is NULL");
    BAD(kiln_slice(x, KILN_SLICE(.stop = {1, NULL})), KILN_E_ARGUMENT, "slice: ", "stop is NULL");
    BAD(kiln_pad(x, KILN_PAD(.after = {1, NULL})), KILN_E_ARGUMENT, "pad: ", "after is NULL");
}

static void gradients_with_lists(void)
{
    kiln_tensor *x = kiln_ones(dev, KILN_F64, KILN_SHAPE(2)), *p = kiln_parameter(F32(2), "p"), *out[3];
    kiln_function *f = kiln_jit(same, NULL, NULL);
    LISTED(kiln_grad(same, NULL, NULL, 1, NULL, out, 1), "grad: ", "in is NULL")
    LISTED(kiln_value_and_grad(same, NULL, NULL, 1, NULL, out, 2), "value_and_grad: ", "in is NULL")
    LISTED(kiln_gradcheck(same, NULL, NULL, 1, NULL), "gradcheck: ", "in is NULL")
    LISTED(kiln_gradients(kiln_square(p), NULL, 1, NULL, out), "gradients: ", "wrt is NULL")
    LISTED(kiln_bundle_of(NULL, 2), "bundle_of: ", "tensors is NULL")
    BAD(kiln_gradients(kiln_square(p), &p, 1, NULL, NULL), KILN_E_ARGUMENT, "gradients: ", "grads is NULL");
    LISTED(kiln_call(f, NULL, 1, out, 1), "call: ", "in is NULL")
    kiln_tensor *yes = BOOL(1);
    LISTED(kiln_function_compile(f, &(kiln_types){1, NULL}, 1, NULL), "function_compile: ", "types is NULL")
    kiln_model *m = kiln_model_create();
    LISTED(kiln_model_add(m, "f", f, NULL, 1, 1, NULL), "model_add: ", "in is NULL")
    LISTED(kiln_graph_export(f, NULL, 1, 1, "never_written", NULL), "graph_export: ", "in is NULL")
    LISTED(kiln_model_name_weights(m, 1, NULL, NULL), "model_name_weights: ", "names is NULL")
    visit("kiln_model_weights"); // either array may be NULL
    assert_int_equal(kiln_model_weights(m, NULL, NULL, 2), 0);
    LISTED(kiln_model_parameters(m, NULL, 1), "model_parameters: ", "out is NULL")
    kiln_model_free(&m);
    LISTED(kiln_cond(yes, same, same, NULL, NULL, 1, out, 1), "cond: ", "in is NULL")
    LISTED(kiln_switch(kiln_scalar_int(0), NULL, 1, NULL, NULL, 0, out, 1), "switch: ", "branches")
    LISTED(kiln_while(same, same, NULL, NULL, 1, NULL, out, 1), "while: ", "in is NULL")
    LISTED(kiln_for(kiln_scalar_int(1), same, NULL, NULL, 1, NULL, out, 1), "for: ", "in is NULL")
    LISTED(kiln_scan(same, NULL, NULL, 1, NULL, out, 1), "scan: ", "in is NULL")
    LISTED(kiln_host_call(same, NULL, NULL, 1, NULL, out, 1, 0, NULL), "host_call: ", "in is NULL")
    BAD(kiln_call(f, &x, 1, NULL, 1), KILN_E_ARGUMENT, "call: ", "out is NULL");
    BAD(kiln_grad(same, NULL, &x, 1, KILN_GRAD(.wrt = {1, NULL}), out, 1), KILN_E_ARGUMENT,
        "grad: ", "list .wrt is NULL");
    BAD(kiln_grad(same, NULL, &x, 1, KILN_GRAD(.params = {1, NULL}), out, 1), KILN_E_ARGUMENT,
        "grad: ", "list .params is NULL");
    BAD(kiln_grad(same, NULL, &x, 1, KILN_GRAD(.sens = {1, NULL}), out, 1), KILN_E_ARGUMENT,
        "grad: ", "list .sens is NULL");
    BAD(kiln_grad(same, NULL, &x, 1, KILN_GRAD(.params = KILN_PARAMS(p, NULL)), out, 2), KILN_E_ARGUMENT,
        "grad: ", ".params is NULL");
    BAD(kiln_gradcheck(same, NULL, &x, 1, KILN_GRADCHECK(.wrt = {1, NULL})), KILN_E_ARGUMENT,
        "gradcheck: ", "list .wrt is NULL");
    BAD(kiln_jit(same, NULL, KILN_JIT(.input_signature = {1, NULL})), KILN_E_ARGUMENT, "jit: ", ".input_signature");
    kiln_function_free(&f);
}

static void networks_with_lists(void)
{
    kiln_tensor *x = F32(2), *out[1];
    kiln_cell *relu = kiln_nn_relu(), *dense = kiln_nn_dense(dev, 2, 2, NULL);
    LISTED(kiln_cell_parameters(dense, NULL, 2), "cell_parameters: ", "out is NULL")
    visit("kiln_cell_state"); // either array may be NULL
    assert_int_equal(kiln_cell_state(dense, NULL, NULL, 2), 2);
    LISTED(kiln_cell_call_n(relu, NULL, 1, out, 1), "cell_call: ", "in is NULL")
    kiln_bench_result timed = {.size = sizeof timed};
    kiln_function *f = kiln_jit(same, NULL, NULL);
    LISTED(kiln_bench_function(same, NULL, NULL, 1, 1, NULL, &timed), "bench_function: ", "in is NULL")
    LISTED(kiln_bench_captured(f, NULL, 1, 1, NULL, &timed), "bench_captured: ", "in is NULL")
    kiln_function_free(&f);
    LISTED(kiln_cell_summary_n(relu, NULL, 1, 1, stdout), "cell_summary: ", "in is NULL")
    LISTED(kiln_cell_fn(relu, &x, 1, NULL, 1), "cell_call: ", "out is NULL")
    LISTED(kiln_cell_make_parameter(relu, "w", dev, KILN_F32, 2, NULL, "ones"), "dims is NULL")
    LISTED(kiln_initializer(dev, KILN_F32, 2, NULL, "ones"), "initializer: ", "dims is NULL")
    LISTED(kiln_nn_sequential(2, NULL), "nn_sequential: ", "cells is NULL")
    LISTED(kiln_nn_layer_norm(dev, 2, NULL, NULL), "layer_norm: ", "dims is NULL")
    LISTED(kiln_nn_unflatten(0, 2, NULL), "nn_unflatten: ", "dims is NULL")
    LISTED(kiln_nn_adaptive_avg_pool(2, NULL), "nn_adaptive_avg_pool: ", "dims is NULL")
    LISTED(kiln_nn_adaptive_max_pool(2, NULL), "nn_adaptive_max_pool: ", "dims is NULL")
    kiln_cell_free(&dense);
    kiln_cell_free(&relu);
}

static void optimisers_with_lists(void)
{
    kiln_tensor *p = kiln_parameter(F32(2), "p");
    kiln_optim *opt = kiln_optim_adam(&p, 1, NULL);
    kiln_schedule *plateau = kiln_schedule_plateau(1, NULL);
    kiln_average *average = kiln_average_swa(&p, 1);
    visit("kiln_optim_state"); // either array may be NULL
    assert_int_equal(kiln_optim_state(opt, NULL, NULL, 2), 2);
    visit("kiln_average_state");
    assert_int_equal(kiln_average_state(average, NULL, NULL, 2), 1);
    LISTED(kiln_optim_sgd(NULL, 2, NULL), "optim_sgd: ", "no parameters")
    LISTED(kiln_optim_adam(NULL, 2, NULL), "optim_adam: ", "no parameters")
    LISTED(kiln_optim_adamw(NULL, 2, NULL), "optim_adamw: ", "no parameters")
    LISTED(kiln_optim_rmsprop(NULL, 2, NULL), "optim_rmsprop: ", "no parameters")
    LISTED(kiln_optim_adagrad(NULL, 2, NULL), "optim_adagrad: ", "no parameters")
    LISTED(kiln_optim_adadelta(NULL, 2, NULL), "optim_adadelta: ", "no parameters")
    LISTED(kiln_optim_adamax(NULL, 2, NULL), "optim_adamax: ", "no parameters")
    LISTED(kiln_optim_nadam(NULL, 2, NULL), "optim_nadam: ", "no parameters")
    LISTED(kiln_optim_radam(NULL, 2, NULL), "optim_radam: ", "no parameters")
    LISTED(kiln_optim_lion(NULL, 2, NULL), "optim_lion: ", "no parameters")
    LISTED(kiln_optim_lamb(NULL, 2, NULL), "optim_lamb: ", "no parameters")
    LISTED(kiln_optim_adafactor(NULL, 2, NULL), "optim_adafactor: ", "no parameters")
    LISTED(kiln_optim_muon(NULL, 2, NULL), "optim_muon: ", "no parameters")
    LISTED(kiln_optim_lbfgs(NULL, 2, NULL), "optim_lbfgs: ", "no parameters")
    LISTED(kiln_optim_add_group(opt, NULL, 2, NULL), "optim_add_group: ", "no parameters")
    LISTED(kiln_average_ema(NULL, 2, NULL), "average_ema: ", "no parameters")
    LISTED(kiln_average_swa(NULL, 2), "average_swa: ", "no parameters")
    LISTED(kiln_schedule_multi_step(1, 2, NULL, 0.5), "schedule_multi_step: ", "milestones is NULL")
    kiln_training *training = kiln_training_create(NULL, KILN_TRAINING(.progress = "none", .log_every = 1));
    kiln_training_log(training, "x", 1);
    kiln_training_step(training);
    visit("kiln_training_history"); // either array may be NULL
    assert_int_equal(kiln_training_history(training, "x", NULL, NULL, 9), 1);
    kiln_training_free(&training);
    visit("kiln_schedule_state"); // the array may be NULL
    size_t n = kiln_schedule_state(plateau, NULL, 9);
    assert_true(n > 0);
    LISTED(kiln_schedule_set_state(plateau, NULL, n), "schedule_set_state: ", "values is NULL")
    LISTED(kiln_clip_grad_norm(NULL, 2, 1), "clip_grad_norm: ", "NULL")
    LISTED(kiln_clip_grad_value(NULL, 2, 1), "clip_grad_value: ", "NULL")
    kiln_average_free(&average);
    kiln_schedule_free(&plateau);
    kiln_optim_free(&opt);
}

static void data_with_lists(void)
{
    kiln_tensor *x = F32(2, 4);
    const char *name = "x", *none[] = {NULL}, *path = "/nonexistent/x";
    bool more;
    double real = 1;
    kiln_loader *loader = kiln_loader_create(dev, &x, 1, NULL);
    kiln_checkpoint *c = kiln_checkpoint_create();
    LISTED(kiln_npz_save(path, NULL, &x, 1, NULL), "npz_save: ", "names", "NULL")
    BAD(kiln_npz_save(path, &name, NULL, 1, NULL), KILN_E_ARGUMENT, "npz_save: ", "tensors", "NULL");
    BAD(kiln_npz_save(path, none, &x, 1, NULL), KILN_E_ARGUMENT, "npz_save: ", "name 0");
    LISTED(kiln_safetensors_save(path, NULL, &x, 1), "safetensors_save: ", "names", "NULL")
    LISTED(kiln_checkpoint_put(c, NULL, &x, 1), "checkpoint_put: ", "names", "NULL")
    LISTED(kiln_checkpoint_restore(c, NULL, &x, 1), "checkpoint_restore: ", "names", "NULL")
    LISTED(kiln_loader_create(dev, NULL, 1, NULL), "loader_create: ", "NULL")
    LISTED(kiln_loader_add_host(loader, KILN_F32, 1, NULL, &x), "loader_add_host: ", "dims is NULL")
    LISTED(kiln_loader_add_fn(loader, KILN_F32, 1, NULL, NULL, NULL), "loader_add_fn: ", "NULL")
    LISTED(kiln_loader_next(loader, NULL, 1, &more), "loader_next: ", "out is NULL")
    LISTED(kiln_loader_add_dataset(loader, 2, 1, NULL, get_nothing, NULL), "loader_add_dataset: ", "NULL")
    LISTED(kiln_loader_normalise(loader, 0, 1, NULL, &real, NULL), "loader_normalise: ", "mean is NULL")
    LISTED(kiln_csv_save(path, NULL, &x, 1, NULL), "csv_save: ", "names", "NULL")
    char file[] = "/tmp/kiln-sized-XXXXXX";
    int fd = mkstemp(file);
    assert_true(fd >= 0 && write(fd, "a\n1\n", 4) == 4 && !close(fd));
    kiln_table *table = kiln_csv_load(file, NULL);
    assert_true(table && !unlink(file));
    LISTED(kiln_table_matrix(table, dev, KILN_F32, NULL, 1), "table_matrix: ", "names is NULL")
    kiln_table_free(&table);
    LISTED(kiln_device_list(NULL, 3), "device_list: ", "out is NULL")
    size_t n_words;
    LISTED(kiln_kernel_specialise(0, NULL, NULL, 1, &n_words), "kernel_specialise: ", "ids is NULL")
    LISTED(kiln_spirv_with_modes(NULL, 8, &n_words), "spirv_with_modes: ", "words is NULL")
    kiln_checkpoint_free(&c);
    kiln_loader_free(&loader);
}

void every_list_is_checked(void **state)
{
    visited.n = left_out = 0;
    ops_with_lists();
    gradients_with_lists();
    networks_with_lists();
    optimisers_with_lists();
    data_with_lists();
    header_each(expect_list_of);
    assert_int_equal(left_out, 0);
}
