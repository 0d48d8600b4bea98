/// @file media.h
/// Images and sound in files: PNG, JPEG, WAV.
///
///     kiln_tensor *x = kiln_load_image(dev, "cat.jpg", 3);                        // u8[H,W,3]
///     kiln_tensor *y = kiln_mul(kiln_cast(x, KILN_F32), kiln_scalar(1.0 / 255));
///     kiln_save_image("cat.png", x, NULL);
///     double rate;
///     kiln_tensor *sound = kiln_load_wav(dev, "cat.wav", &rate, NULL);            // f32[channels,frames]
///
/// PNG and JPEG are read and written by libpng and libjpeg, which are opened at their first use: where one is not
/// there, or was left out of the build (-Dpng=disabled, -Djpeg=disabled), that is KILN_E_UNSUPPORTED, which names what
/// is missing. What an image is, is told by its first bytes when it is read, and by the end of its name when it is
/// written.
///
/// Files are not trusted: see kiln/io.h, also for what errors mean, and for what becomes of a file when writing fails.
/// Memory for pixels is taken only where the file is long enough to hold them. These functions may be called by any
/// thread, so by the functions of loaders.
#ifndef KILN_MEDIA_H
#define KILN_MEDIA_H

#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Reads an image: u8 [height, width, channels], rows from top to bottom. channels: 1 grey, 2 grey and alpha, 3 red,
/// green, blue, 4 with alpha; 0: as the file has it. Grey is made of colours as (19595 r + 38470 g + 7471 b + 32768) /
/// 65536 (ITU-R BT.601); alpha that is not asked for is dropped, and 255 where it is asked for and there is none.
/// Palettes and fewer than 8 bits are expanded, of 16 bits the upper 8 are taken; gamma, profiles and orientation are
/// not applied. A broken checksum, and data that ends before the pixels do, is KILN_E_FORMAT. Errors also:
/// KILN_E_UNSUPPORTED for another kind of file, and JPEG in CMYK.
KILN_API kiln_tensor *kiln_load_image(kiln_device *dev, const char *path, int64_t channels);
/// Height, width and channels of an image, three numbers, as its file has them, without reading the pixels.
KILN_API kiln_status kiln_image_size(const char *path, int64_t *dims);
/// Reads an image of this size into memory, `out_B` bytes: what a function of a loader needs. Errors also: KILN_E_SHAPE
/// where the image has another height or width, or out_B is not height x width x channels.
KILN_API kiln_status kiln_read_image(const char *path, int64_t height, int64_t width, int64_t channels, void *out,
                                     size_t out_B);

typedef struct kiln_save_image_opts {
    size_t size KILN_0;
    int64_t quality KILN_0;     ///< of JPEG, 1 to 100; 0: 90
    int64_t compression KILN_0; ///< of PNG, 1 (fast) to 9 (small); 0: 6
} kiln_save_image_opts;
#define KILN_SAVE_IMAGE(...) KILN_OPTS_(kiln_save_image_opts, __VA_ARGS__)
/// Writes u8 [height, width] or [height, width, channels] as ".png" (1 to 4 channels) or ".jpg", ".jpeg" (1 or 3).
/// Errors: KILN_E_ARGUMENT for another name, KILN_E_DTYPE, KILN_E_SHAPE also for a size that the format does not have.
KILN_API kiln_status kiln_save_image(const char *path, const kiln_tensor *t, const kiln_save_image_opts *opts);

typedef struct kiln_load_wav_opts {
    size_t size KILN_0;
    kiln_dtype dtype KILN_0; ///< KILN_F32 (0) or KILN_F64
} kiln_load_wav_opts;
#define KILN_LOAD_WAV(...) KILN_OPTS_(kiln_load_wav_opts, __VA_ARGS__)
/// Reads a WAV file: [channels, frames], and the frames in a second in *rate (NULL: not asked for). Integers of 8, 16,
/// 24 and 32 bits become numbers in [-1, 1): divided by 128, 2^15, 2^23, 2^31; floats of 32 and 64 bits stay as they
/// are. The data may end before the length of its header where that is 0 or 2^32 - 1, as a program leaves it that
/// writes to a pipe. KILN_E_UNSUPPORTED: packed kinds (mu-law, ADPCM) and other widths.
KILN_API kiln_tensor *kiln_load_wav(kiln_device *dev, const char *path, double *rate, const kiln_load_wav_opts *opts);

typedef struct kiln_save_wav_opts {
    size_t size KILN_0;
    int64_t bits KILN_0;   ///< 8, 16, 24, 32, of floats 32 or 64; 0: 16, of floats 32
    bool as_floats KILN_0; ///< floats instead of integers
} kiln_save_wav_opts;
#define KILN_SAVE_WAV(...) KILN_OPTS_(kiln_save_wav_opts, __VA_ARGS__)
/// Writes [channels, frames] or [frames], f32 or f64, with `rate` frames in a second, rounded to a whole number. To
/// integers it rounds and saturates, NaN gives 0. More than two channels, and integers above 16 bits, are written in
/// the extensible form. Errors: KILN_E_DTYPE, KILN_E_SHAPE for no channel, KILN_E_ARGUMENT for a rate or width that the
/// format does not have, KILN_E_UNSUPPORTED for 4 GiB or more.
KILN_API kiln_status kiln_save_wav(const char *path, const kiln_tensor *t, double rate, const kiln_save_wav_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
