// Broken files of every kind.
#include "files.h"

#include <kiln/media.h>
#include <kiln/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_archive(kiln_archive *a)
{
    for (size_t i = 0, n = a ? kiln_archive_count(a) : 0; i < n && !kiln_error(); i++) {
        kiln_tensor *t = kiln_archive_tensor(a, dev, i);
        kiln_free(&t);
    }
    kiln_archive_free(&a);
}

static void try_npy(const char *path)
{
    kiln_tensor *t = kiln_npy_load(dev, path);
    kiln_free(&t);
}

static void try_npz(const char *path)
{
    open_archive(kiln_npz_load(path));
}

static void try_safetensors(const char *path)
{
    open_archive(kiln_safetensors_load(path));
}

static void try_gguf(const char *path)
{
    open_archive(kiln_gguf_load(path));
}

static void try_torch(const char *path)
{
    open_archive(kiln_torch_load(path));
}

static void try_idx(const char *path)
{
    kiln_tensor *t = kiln_idx_load(dev, path);
    kiln_free(&t);
}

static void try_checkpoint(const char *path)
{
    kiln_checkpoint *c = kiln_checkpoint_load(path);
    kiln_checkpoint_free(&c);
}

static void try_image(const char *path)
{
    kiln_tensor *t = kiln_load_image(dev, path, 0);
    kiln_free(&t);
}

static void try_wav(const char *path)
{
    kiln_tensor *t = kiln_load_wav(dev, path, NULL, NULL);
    kiln_free(&t);
}

static bool is_about_the_file(kiln_status s)
{
    return s == KILN_E_FORMAT || s == KILN_E_UNSUPPORTED;
}

static void cut_off(const char *path, unsigned char *bytes, size_t size_B, size_t n, void (*open)(const char *))
{
    const char *broken = temp("broken");
    store_bytes(broken, bytes, n);
    open(broken);
    if (!is_about_the_file(kiln_error())) fail_msg("%s, %zu of %zu: %s", path, n, size_B, kiln_error_message());
    kiln_error_clear();
}

static void change_byte(const char *path, unsigned char *bytes, size_t size_B, size_t i, void (*open)(const char *),
                        bool sealed)
{
    unsigned char was = bytes[i];
    const unsigned char others[] = {was ^ 1, was ^ 0x80, 0, 255, was + 1};
    const char *broken = temp("broken");
    for (size_t k = 0; k < COUNT_OF(others); k++) {
        bytes[i] = others[k];
        store_bytes(broken, bytes, size_B);
        open(broken);
        kiln_status status = kiln_error();
        bool fine = is_about_the_file(status) || (status == KILN_OK && (!sealed || others[k] == was));
        if (!fine) fail_msg("%s, byte %zu is %d: %s", path, i, others[k], kiln_error_message());
        kiln_error_clear();
    }
    bytes[i] = was;
}

// Cut off at every byte, and with every byte changed: an error about the file, or where a byte of data was changed
// none. `sealed`: a checksum must find every change. `ends`: a byte more is an error too; readers of images and sounds
// pass over what comes behind.
static void break_bytes(const char *path, void (*open)(const char *), bool sealed, bool ends)
{
    size_t size_B;
    unsigned char *bytes = load_bytes(path, &size_B);
    open(path);
    assert_no_error();
    for (size_t n = 0; n < size_B; n++) cut_off(path, bytes, size_B, n, open);
    bytes[size_B] = 0;
    if (ends) cut_off(path, bytes, size_B, size_B + 1, open);
    for (size_t i = 0; i < size_B; i++) change_byte(path, bytes, size_B, i, open, sealed);
    free(bytes);
}

static void break_file(const char *path, void (*open)(const char *), bool sealed)
{
    break_bytes(path, open, sealed, true);
}

static void break_media(const char *path, void (*open)(const char *), bool sealed)
{
    break_bytes(path, open, sealed, false);
}

void broken_files_are_found(void **state)
{
    break_file(golden("little_f4.npy"), try_npy, false);
    break_file(golden("fortran.npy"), try_npy, false);
    break_file(golden("stored.npz"), try_npz, false);
    break_file(golden("deflated.npz"), try_npz, false);
    break_file(golden("zip64.npz"), try_npz, false);
    break_file(golden("numpy.safetensors"), try_safetensors, false);
    break_file(make_gguf(), try_gguf, false);
    break_file(make_torch(), try_torch, false);
    break_file(golden("images.idx"), try_idx, false);
    break_file(golden("images.idx.gz"), try_idx, false);
}

void broken_checkpoints_are_found(void **state)
{
    kiln_checkpoint *c = kiln_checkpoint_create();
    kiln_tensor *t = sample_tensor(&samples[8]);
    assert_int_equal(kiln_checkpoint_put(c, (const char *[]){"w"}, &t, 1), KILN_OK);
    assert_int_equal(kiln_checkpoint_put_int(c, "step", 12), KILN_OK);
    assert_int_equal(kiln_checkpoint_save(c, temp("small.ckpt")), KILN_OK);
    kiln_checkpoint_free(&c);
    kiln_free(&t);
    break_file(temp("small.ckpt"), try_checkpoint, true);
}

void broken_images_and_sounds_are_found(void **state)
{
    break_media(golden("rgb8.png"), try_image, true);
    break_media(golden("palette_alpha.png"), try_image, true);
    break_media(golden("interlaced.png"), try_image, true);
    break_media(golden("grey.jpg"), try_image, false);
    break_media(golden("colour.jpg"), try_image, false);
    kiln_tensor *t = kiln_ones(dev, KILN_F32, KILN_SHAPE(3, 2));
    assert_int_equal(kiln_save_wav(temp("small.wav"), t, 8000, KILN_SAVE_WAV(.bits = 24)), KILN_OK);
    kiln_free(&t);
    break_media(temp("small.wav"), try_wav, false);
}
