// Files: not there, of another kind, of another network.
#include "mistakes.h"

static const char *saved(void)
{
    kiln_cell *net = kiln_nn_dense(dev, 3, 4, NULL);
    const char *names[2];
    kiln_tensor *t[2];
    size_t n = kiln_cell_state(net, names, t, 2);
    kiln_safetensors_save(file("net.safetensors"), names, t, n);
    kiln_cell_free(&net);
    return file("net.safetensors");
}

static void load_into(kiln_cell *net, const kiln_cell_load_opts *opts)
{
    kiln_archive *a = kiln_safetensors_load(saved());
    AT(kiln_cell_load(net, a, opts));
    kiln_archive_free(&a);
    kiln_cell_free(&net);
}

static void file_that_is_not_there(void)
{
    AT(kiln_npy_load(dev, "/nonexistent/x.npy"));
}

static void folder_that_is_not_there(void)
{
    AT(kiln_npy_save("/nonexistent/x.npy", F32(2)));
}

static void folder_in_the_place_of_a_file(void)
{
    AT(kiln_npy_load(dev, folder));
}

static void text_as_npy(void)
{
    AT(kiln_npy_load(dev, file_with("x.npy", "1 2 3\n", 6)));
}

static void npy_as_safetensors(void)
{
    kiln_npy_save(file("x.npy"), F32(2));
    AT(kiln_safetensors_load(file("x.npy")));
}

static void npy_as_npz(void)
{
    kiln_npy_save(file("x.npy"), F32(2));
    AT(kiln_npz_load(file("x.npy")));
}

static void safetensors_as_npz(void)
{
    AT(kiln_npz_load(saved()));
}

static void safetensors_as_gguf(void)
{
    AT(kiln_gguf_load(saved()));
}

static void safetensors_as_torch(void)
{
    AT(kiln_torch_load(saved()));
}

static void safetensors_as_a_checkpoint(void)
{
    AT(kiln_checkpoint_load(saved()));
}

static void npz_as_safetensors(void)
{
    const char *name = "x";
    kiln_tensor *x = F32(2);
    kiln_npz_save(file("x.npz"), &name, &x, 1, NULL);
    AT(kiln_safetensors_load(file("x.npz")));
}

static void gguf_as_safetensors(void)
{
    AT(kiln_safetensors_load(file_with("m.gguf", "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24)));
}

static void empty_file(void)
{
    AT(kiln_safetensors_load(file_with("x.safetensors", "", 0)));
}

// One member "archive/data.pkl" without bytes.
static const char zip_of_torch[] =
    "PK\3\4\24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\20\0\0\0archive/data.pkl"
    "PK\1\2\24\0\24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    "archive/data.pkl"
    "PK\5\6\0\0\0\0\1\0\1\0\76\0\0\0\56\0\0\0\0\0";

static void torch_as_npz(void)
{
    AT(kiln_npz_load(file_with("model.pth", zip_of_torch, sizeof zip_of_torch - 1)));
}

static void torch_as_safetensors(void)
{
    AT(kiln_safetensors_load(file_with("model.pth", zip_of_torch, sizeof zip_of_torch - 1)));
}

static void name_that_is_not_in_the_file(void)
{
    kiln_archive *a = kiln_safetensors_load(saved());
    AT(kiln_archive_get(a, dev, "wieght"));
    kiln_archive_free(&a);
}

static void number_that_is_not_in_the_file(void)
{
    kiln_archive *a = kiln_safetensors_load(saved());
    AT(kiln_archive_tensor(a, dev, 2));
    kiln_archive_free(&a);
}

static void weights_of_another_network(void)
{
    load_into(kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, 3, 4, NULL))), NULL);
}

static void weights_of_another_size(void)
{
    load_into(kiln_nn_dense(dev, 3, 5, NULL), NULL);
}

static void weights_behind_a_prefix_that_is_not_there(void)
{
    load_into(kiln_nn_dense(dev, 3, 4, NULL), KILN_CELL_LOAD(.prefix = "model."));
}

static void checkpoint_of_another_shape(void)
{
    const char *name = "w";
    kiln_tensor *w = F32(2, 3), *v = F32(3, 2);
    kiln_checkpoint *c = kiln_checkpoint_create();
    kiln_checkpoint_put(c, &name, &w, 1);
    AT(kiln_checkpoint_restore(c, &name, &v, 1));
    kiln_checkpoint_free(&c);
}

static void checkpoint_without_the_name(void)
{
    const char *name = "w", *wanted = "weight";
    kiln_tensor *w = F32(2, 3);
    kiln_checkpoint *c = kiln_checkpoint_create();
    kiln_checkpoint_put(c, &name, &w, 1);
    AT(kiln_checkpoint_restore(c, &wanted, &w, 1));
    kiln_checkpoint_free(&c);
}

static void number_of_another_kind(void)
{
    int64_t step;
    kiln_checkpoint *c = kiln_checkpoint_create();
    kiln_checkpoint_put_double(c, "step", 1);
    AT(kiln_checkpoint_get_int(c, "step", &step));
    kiln_checkpoint_free(&c);
}

static void a_name_twice(void)
{
    const char *names[] = {"x", "x"};
    kiln_tensor *t[] = {F32(2), F32(3)};
    AT(kiln_npz_save(file("x.npz"), names, t, 2, NULL));
}

static void bf16_as_npy(void)
{
    AT(kiln_npy_save(file("x.npy"), kiln_zeros(dev, KILN_BF16, KILN_SHAPE(2))));
}

static void image_of_floats(void)
{
    AT(kiln_save_image(file("x.png"), F32(3, 8, 8), NULL));
}

static void text_as_an_image(void)
{
    AT(kiln_load_image(dev, file_with("x.png", "no image", 8), 3));
}

static void idx_that_is_cut_off(void)
{
    AT(kiln_idx_load(dev, file_with("images", "\0\0\10\1\0\0\0\4ab", 10)));
}

static void path_that_is_null(void)
{
    AT(kiln_safetensors_load(NULL));
}

// clang-format takes rows without commas for calls.
// clang-format off
const struct mistake mistakes_in_files[] = {
    ROW(file_that_is_not_there, KILN_E_MISSING, WHAT,
        "npy_load: /nonexistent/x.npy: cannot be opened: No such file or directory ({here})")
    ROW(folder_that_is_not_there, KILN_E_MISSING, WHAT,
        "npy_save: /nonexistent/x.npy: cannot be written: No such file or directory ({here})")
    ROW(folder_in_the_place_of_a_file, KILN_E_IO, WHAT,
        "npy_load: {folder}: is not a regular file ({here})")
    ROW(text_as_npy, KILN_E_FORMAT, WHAT,
        "npy_load: {folder}/x.npy: is not npy: it does not begin with \\x93NUMPY ({here})")
    ROW(npy_as_safetensors, KILN_E_FORMAT, WHAT_TO_DO,
        "safetensors_load: {folder}/x.npy: is not safetensors: a header of 379676406402707 bytes in a file of 136; "
        "it is npy, which kiln_npy_load reads ({here})")
    ROW(npy_as_npz, KILN_E_FORMAT, WHAT_TO_DO,
        "npz_load: {folder}/x.npy: is no zip file, or cut off: no zip end record; it is npy, which kiln_npy_load "
        "reads ({here})")
    ROW(safetensors_as_npz, KILN_E_FORMAT, WHAT_TO_DO,
        "npz_load: {folder}/net.safetensors: is no zip file, or cut off: no zip end record; it looks like "
        "safetensors, which kiln_safetensors_load reads ({here})")
    ROW(safetensors_as_gguf, KILN_E_FORMAT, WHAT_TO_DO,
        "gguf_load: {folder}/net.safetensors: is not GGUF: it does not begin with these letters; it looks like "
        "safetensors, which kiln_safetensors_load reads ({here})")
    ROW(safetensors_as_torch, KILN_E_FORMAT, WHAT_TO_DO,
        "torch_load: {folder}/net.safetensors: is no file of PyTorch: it is no zip file; it looks like safetensors, "
        "which kiln_safetensors_load reads ({here})")
    ROW(safetensors_as_a_checkpoint, KILN_E_FORMAT, WHAT_TO_DO,
        "checkpoint_load: {folder}/net.safetensors: is a safetensors file, and is not a checkpoint; "
        "kiln_safetensors_load reads it ({here})")
    ROW(npz_as_safetensors, KILN_E_FORMAT, WHAT_TO_DO,
        "safetensors_load: {folder}/x.npz: is not safetensors: a header of 576460838270094160 bytes in a file of "
        "244; it is a zip file, as kiln_npz_load and kiln_torch_load read ({here})")
    ROW(gguf_as_safetensors, KILN_E_FORMAT, WHAT_TO_DO,
        "safetensors_load: {folder}/m.gguf: is not safetensors: a header of 14064895815 bytes in a file of 24; it is "
        "GGUF, which kiln_gguf_load reads ({here})")
    ROW(empty_file, KILN_E_FORMAT, WHAT,
        "safetensors_load: {folder}/x.safetensors: the file is cut off: it is empty ({here})")
    ROW(torch_as_npz, KILN_E_FORMAT, WHAT_TO_DO,
        "npz_load: {folder}/model.pth: is a zip file without arrays: none of its 1 members is an npy file, the first "
        "is \"archive/data.pkl\"; kiln_torch_load reads weights of PyTorch ({here})")
    ROW(torch_as_safetensors, KILN_E_FORMAT, WHAT_TO_DO,
        "safetensors_load: {folder}/model.pth: is not safetensors: a header of 85966670672 bytes in a file of 130; "
        "it is a zip file, as kiln_npz_load and kiln_torch_load read ({here})")
    ROW(name_that_is_not_in_the_file, KILN_E_ARGUMENT, WHAT_TO_DO,
        "archive_get: there is no array \"wieght\" in {folder}/net.safetensors (2 arrays, the first is \"weight\"); "
        "is \"weight\" meant? ({here})")
    ROW(number_that_is_not_in_the_file, KILN_E_ARGUMENT, WHAT,
        "archive_tensor: array 2 of 2 in safetensors_load: {folder}/net.safetensors ({here})")
    ROW(weights_of_another_network, KILN_E_ARGUMENT, WHAT,
        "cell_load: the file has no \"0.weight\"; the file has no \"0.bias\"; the file has \"weight\", the cell has no "
        "such tensor; the file has \"bias\", the cell has no such tensor ({here})")
    ROW(weights_of_another_size, KILN_E_SHAPE, WHAT,
        "cell_load: \"weight\" is [4,3], in the cell [5,3]; \"bias\" is [4], in the cell [5] ({here})")
    ROW(weights_behind_a_prefix_that_is_not_there, KILN_E_ARGUMENT, WHAT,
        "cell_load: the file has no \"model.weight\"; the file has no \"model.bias\" ({here})")
    ROW(checkpoint_of_another_shape, KILN_E_SHAPE, WHAT,
        "checkpoint_restore: \"w\" is f32[2,3] in the checkpoint, the tensor to fill is f32[3,2] ({here})")
    ROW(checkpoint_without_the_name, KILN_E_ARGUMENT, WHAT,
        "checkpoint_restore: the checkpoint has no tensor \"weight\" ({here})")
    ROW(number_of_another_kind, KILN_E_ARGUMENT, WHAT,
        "checkpoint_get_int: the checkpoint has no int \"step\"; that entry is of another kind ({here})")
    ROW(a_name_twice, KILN_E_ARGUMENT, WHAT,
        "npz_save: the name \"x\" is given twice ({here})")
    ROW(bf16_as_npy, KILN_E_UNSUPPORTED, WHAT_TO_DO,
        "npy_save: {folder}/x.npy: npy has no bf16; cast to f32, or use safetensors ({here})")
    ROW(image_of_floats, KILN_E_DTYPE, WHAT_TO_DO,
        "save_image: {folder}/x.png: the image is f32, not u8; kiln_cast(kiln_mul(x, 255), KILN_U8) makes one of "
        "floats in [0, 1] ({here})")
    ROW(text_as_an_image, KILN_E_UNSUPPORTED, WHAT,
        "load_image: {folder}/x.png: is neither PNG nor JPEG ({here})")
    ROW(idx_that_is_cut_off, KILN_E_FORMAT, WHAT,
        "idx_load: {folder}/images: u8[4] has 4 bytes, more than a file of 10 can hold ({here})")
    ROW(path_that_is_null, KILN_E_ARGUMENT, WHAT,
        "safetensors_load: the path is NULL ({here})")
    LAST_ROW
};
// clang-format on
