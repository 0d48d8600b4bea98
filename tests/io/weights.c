// Archives as the state of functions and cells: what a function computes from a file, and the way back.
#include "files.h"

#include <kiln/jit.h>
#include <kiln/weights.h>
#include <string.h>

enum { N_ARRAYS = 4 };
static const char *const array_names[N_ARRAYS] = {"net.0.weight", "net.0.bias", "count", "net.scale"};

// A file with [2, 3], [2], integers and a half.
static kiln_archive *some_archive(void)
{
    const char *path = temp("state.safetensors");
    kiln_tensor *t[N_ARRAYS] = {
        kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 3), (float[]){1, 2, 3, 4, 5, 6}),
        kiln_from_data(dev, KILN_F32, KILN_SHAPE(2), (float[]){10, 20}),
        kiln_from_data(dev, KILN_I32, KILN_SHAPE(1), (int32_t[]){7}),
        kiln_cast(kiln_full(dev, KILN_F32, KILN_SHAPE(1), 0.5), KILN_F16),
    };
    assert_int_equal(kiln_safetensors_save(path, array_names, t, N_ARRAYS), KILN_OK);
    kiln_archive *a = kiln_archive_load(path);
    assert_no_error();
    return a;
}

// in: weight, bias, scale and x. out: (x weightᵀ + bias) scale, summed.
static kiln_status layer(void *user, kiln_bundle *in, kiln_bundle **out)
{
    kiln_tensor *w = kiln_bundle_tensor(in, "0.weight"), *b = kiln_bundle_tensor(in, "0.bias");
    kiln_tensor *y = kiln_add(kiln_matmul(kiln_bundle_tensor(in, "x"), kiln_transpose(w, 0, 1)), b);
    y = kiln_sum(kiln_mul(y, kiln_cast(kiln_bundle_tensor(in, "scale"), KILN_F32)), NULL);
    *out = kiln_bundle_of(&y, 1);
    return kiln_error();
}

void archive_is_state(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_archive *a = some_archive();
    kiln_bundle *b = kiln_archive_bundle(a, dev, KILN_ARCHIVE_BUNDLE(.prefix = "net."));
    kiln_archive_free(&a);
    assert_no_error();
    assert_int_equal(kiln_bundle_count(b), 3);
    assert_int_equal(kiln_tensor_dtype(kiln_bundle_tensor(b, "scale")), KILN_F16);
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(1, 3), (float[]){1, 0, 2});
    kiln_bundle_append(b, "x", KILN_TENSOR(x));
    // 0.5 ((1 + 6 + 10) + (4 + 12 + 20)), as it is and as a graph of which the state is an input.
    kiln_function *f = kiln_bundle_jit(layer, NULL, NULL);
    for (int k = 0; k < 3; k++) {
        kiln_bundle *out = NULL;
        if (k == 2) kiln_bundle_set(b, "0.bias", KILN_TENSOR(kiln_zeros(dev, KILN_F32, KILN_SHAPE(2))));
        assert_int_equal(k ? kiln_bundle_call(f, b, &out) : layer(NULL, b, &out), KILN_OK);
        assert_tensor(kiln_bundle_tensor_at(out, 0), KILN_F32, 0, NULL, &(float){k == 2 ? 11.5F : 26.5F});
    }
    kiln_jit_stats stats = {.size = sizeof stats};
    kiln_function_stats(f, &stats);
    assert_int_equal(stats.captures, 1);
    kiln_function_free(&f);
    kiln_scope_end(&scope);
}

void archive_state_is_trained(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_archive *a = some_archive();
    kiln_bundle *b =
        kiln_archive_bundle(a, dev, KILN_ARCHIVE_BUNDLE(.prefix = "net.", .trained = true, .dtype = KILN_F32));
    kiln_archive_free(&a);
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(1, 3), (float[]){1, 0, 2}), *w;
    assert_int_equal(kiln_tensor_dtype(kiln_bundle_tensor(b, "scale")), KILN_F32);
    kiln_bundle *out = NULL;
    kiln_bundle_append(b, "x", KILN_TENSOR(x));
    assert_int_equal(layer(NULL, b, &out), KILN_OK);
    assert_int_equal(kiln_backward(kiln_bundle_tensor_at(out, 0), NULL), KILN_OK);
    w = kiln_bundle_tensor(b, "0.weight");
    assert_true(kiln_requires_grad(w));
    assert_string_equal(kiln_name(w), "0.weight");
    assert_tensor(kiln_gradient(w), KILN_F32, KILN_SHAPE(2, 3), (float[]){0.5F, 0, 1, 0.5F, 0, 1});
    kiln_scope_end(&scope);
}

void state_is_archive(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_archive *a = some_archive();
    kiln_bundle *whole = kiln_archive_bundle(a, dev, NULL), *parts = kiln_bundle_create(), *again;
    assert_int_equal(kiln_bundle_save(whole, temp("again.safetensors")), KILN_OK);
    kiln_archive *saved = kiln_archive_load(temp("again.safetensors"));
    assert_int_equal(kiln_archive_count(saved), N_ARRAYS);
    for (size_t i = 0; i < N_ARRAYS; i++) {
        kiln_tensor *want = kiln_archive_get(a, dev, array_names[i]),
                    *got = kiln_archive_get(saved, dev, array_names[i]);
        unsigned char bytes[24];
        assert_int_equal(kiln_read(want, bytes, (size_t)kiln_numel(want) * kiln_dtype_size(kiln_tensor_dtype(want))),
                         KILN_OK);
        assert_tensor(got, kiln_tensor_dtype(want), kiln_rank(want), kiln_dims(want), bytes);
    }
    kiln_archive_free(&saved);
    // A tree: names are joined, entries without one are numbered, nothing is passed over.
    kiln_bundle_append(parts, "model", KILN_BUNDLE(kiln_archive_bundle(a, dev, KILN_ARCHIVE_BUNDLE(.prefix = "net."))));
    kiln_bundle_append(parts, NULL, KILN_TENSOR(kiln_archive_get(a, dev, "count")));
    kiln_bundle_append(parts, "none", KILN_NONE);
    assert_int_equal(kiln_bundle_save(parts, temp("tree.safetensors")), KILN_OK);
    saved = kiln_archive_load(temp("tree.safetensors"));
    assert_int_equal(kiln_archive_count(saved), N_ARRAYS);
    static const char *const want[] = {"model.0.weight", "model.0.bias", "model.scale", "1"};
    for (size_t i = 0; i < N_ARRAYS; i++) assert_true(kiln_archive_has(saved, want[i]));
    again = kiln_archive_bundle(saved, dev, KILN_ARCHIVE_BUNDLE(.prefix = "model.0."));
    assert_tensor(kiln_bundle_tensor(again, "bias"), KILN_F32, KILN_SHAPE(2), (float[]){10, 20});
    kiln_archive_free(&saved);
    kiln_archive_free(&a);
    kiln_scope_end(&scope);
}

static const char *renamed(void *user, const char *name)
{
    if (user) return "same";
    return strncmp(name, "net.", 4) ? NULL : name + 4;
}

void state_that_does_not_fit(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_archive *a = some_archive();
    kiln_bundle *b = kiln_archive_bundle(a, dev, KILN_ARCHIVE_BUNDLE(.rename = renamed));
    assert_true(kiln_bundle_count(b) == 3 && kiln_bundle_has(b, "0.weight") && !kiln_bundle_has(b, "count"));
    assert_null(kiln_archive_bundle(a, dev, KILN_ARCHIVE_BUNDLE(.rename = renamed, .user = &scope)));
    assert_error(KILN_E_ARGUMENT, "of the file is the second one called \"same\"");
    assert_null(kiln_archive_bundle(a, dev, KILN_ARCHIVE_BUNDLE(.prefix = "decoder.")));
    assert_error(KILN_E_ARGUMENT, "begins with \"decoder.\", the first is \"");
    assert_null(kiln_archive_bundle(a, dev, KILN_ARCHIVE_BUNDLE(.dtype = KILN_I32)));
    assert_error(KILN_E_DTYPE, ".dtype is i32");
    kiln_archive_free(&a);
    const char *path = temp("refused.safetensors");
    kiln_bundle *inner = kiln_bundle_create(), *outer = kiln_bundle_create();
    kiln_bundle_append(inner, "steps", KILN_INT(3));
    kiln_bundle_append(outer, "state", KILN_BUNDLE(inner));
    kiln_bundle_save(outer, path);
    assert_error(KILN_E_ARGUMENT, "bundle_save: \"state.steps\" is an int");
    kiln_bundle_set_at(inner, 0, KILN_TENSOR(kiln_ones(dev, KILN_F32, KILN_SHAPE(1))));
    kiln_bundle_set_at(outer, 0, KILN_BUNDLE(inner));
    kiln_bundle_append(outer, "state.steps", KILN_TENSOR(kiln_ones(dev, KILN_F32, KILN_SHAPE(1))));
    kiln_bundle_save(outer, path);
    assert_error(KILN_E_ARGUMENT, "\"state.steps\"");
    assert_null(kiln_archive_load(path));
    assert_error(KILN_E_MISSING, "refused.safetensors");
    kiln_scope_end(&scope);
}

void packed_state_stays_packed(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_archive *a = kiln_archive_load(golden("packed.gguf"));
    kiln_bundle *b = kiln_archive_bundle(a, dev, KILN_ARCHIVE_BUNDLE(.packed = true));
    assert_no_error();
    assert_int_equal(kiln_bundle_count(b), 12 + 8 + 4); // of twelve packed ones products take four
    assert_int_equal(kiln_bundle_int(b, "q4_0.format"), kiln_packing("Q4_0"));
    assert_int_equal(kiln_packing("iq4_nl"), -1);
    assert_error(KILN_E_UNSUPPORTED, "packing: no product takes \"iq4_nl\"");
    kiln_tensor *packed = kiln_bundle_tensor(b, "q4_0"), *want = kiln_archive_packed(a, dev, "q4_0", NULL);
    assert_true(kiln_tensor_dtype(packed) == KILN_U8 && kiln_dim(packed, 1) == kiln_dim(want, 1));
    assert_int_equal(kiln_tensor_dtype(kiln_bundle_tensor(b, "f2")), KILN_F16);
    b = kiln_archive_bundle(a, dev, NULL);
    assert_true(kiln_bundle_count(b) == 12 + 8 && kiln_tensor_dtype(kiln_bundle_tensor(b, "q4_0")) == KILN_F32);
    kiln_archive_free(&a);
    kiln_scope_end(&scope);
}

void formats_are_found(void **state)
{
    static const struct {
        const char *name;
        kiln_archive *(*load)(const char *path);
    } files[] = {{"torch.pth", kiln_torch_load},  {"stored.npz", kiln_npz_load},
                 {"deflated.npz", kiln_npz_load}, {"zip64.npz", kiln_npz_load},
                 {"packed.gguf", kiln_gguf_load}, {"numpy.safetensors", kiln_safetensors_load}};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        kiln_archive *got = kiln_archive_load(golden(files[i].name)), *want = files[i].load(golden(files[i].name));
        assert_no_error();
        assert_true(kiln_archive_count(got) == kiln_archive_count(want) && kiln_archive_count(got) > 0);
        for (size_t k = 0; k < kiln_archive_count(got); k++)
            assert_string_equal(kiln_archive_name(got, k), kiln_archive_name(want, k));
        kiln_archive_free(&got);
        kiln_archive_free(&want);
    }
    assert_null(kiln_archive_load(golden("little_f4.npy")));
    assert_error(KILN_E_FORMAT, "little_f4.npy");
    store_bytes(temp("short"), "PK\3\4", 4);
    assert_null(kiln_archive_load(temp("short")));
    assert_error(KILN_E_FORMAT, "short");
    store_bytes(temp("empty"), "", 0);
    assert_null(kiln_archive_load(temp("empty")));
    assert_error(KILN_E_FORMAT, "empty");
    assert_null(kiln_archive_load(temp("gone")));
    assert_error(KILN_E_MISSING, "gone");
}

void cells_are_saved(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    const char *path = temp("cell.safetensors");
    kiln_cell *cells[2];
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), *y[2];
    for (int k = 0; k < 2; k++) {
        kiln_seed(dev, (uint64_t)k);
        cells[k] = kiln_nn_sequential(
            2, (kiln_cell *[]){kiln_nn_dense(dev, 3, 4, NULL), kiln_nn_layer_norm(dev, KILN_SHAPE(4), NULL)});
    }
    assert_int_equal(kiln_cell_save(cells[0], path), KILN_OK);
    kiln_archive *a = kiln_archive_load(path);
    assert_int_equal(kiln_archive_count(a), kiln_cell_state(cells[0], NULL, NULL, 0));
    assert_int_equal(kiln_cell_load(cells[1], a, NULL), KILN_OK);
    for (int k = 0; k < 2; k++) y[k] = kiln_cell_call(cells[k], x);
    float want[8];
    assert_int_equal(kiln_read(y[0], want, sizeof want), KILN_OK);
    assert_tensor(y[1], KILN_F32, KILN_SHAPE(2, 4), want);
    assert_true(want[0] != want[1]);
    kiln_archive_free(&a);
    for (int k = 0; k < 2; k++) kiln_cell_free(&cells[k]);
    kiln_scope_end(&scope);
}
