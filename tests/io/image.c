// Images: files that were written byte by byte (golden/io/images.py), round trips, broken files, what does not fit.
#include "files.h"

#include <kiln/media.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { W = 5, H = 7 };

static int value(int y, int x, int c, int depth)
{
    int v = (y * 7 + x * 3 + c * 5) * (depth == 16 ? 1021 : depth == 8 ? 37 : 1) % (1 << depth);
    return depth == 16 ? v >> 8 : v * 255 / ((1 << depth) - 1);
}

// Whether images of a kind can be read: the build may lack it, and the machine its library.
static bool can_read(bool built, const char *file)
{
    int64_t dims[3];
    if (!built || !kiln_image_size(golden(file), dims)) return built;
    assert_error(KILN_E_UNSUPPORTED, "is missing; Debian has it in lib");
    return false;
}

static void need(bool png, bool jpeg)
{
    if (png && !can_read(KILN_WITH_PNG, "rgb8.png")) skip();
    if (jpeg && !can_read(KILN_WITH_JPEG, "grey.jpg")) skip();
}

static void palette_entry(int y, int x, int depth, int rgb[3])
{
    int most = depth < 4 ? 1 << depth : 16, i = (y * 7 + x * 3) % most;
    rgb[0] = i * 16 + 1;
    rgb[1] = 255 - i;
    rgb[2] = i * 3;
}

static void expect_png(const char *name, int channels, int depth, bool palette)
{
    unsigned char want[H][W][4] = {{{0}}}, flat[H * W * 4];
    char file[40];
    snprintf(file, sizeof file, "%s.png", name);
    for (int y = 0; y < H; y++) {
        for (int x = 0; x < W; x++) {
            int rgb[3];
            palette_entry(y, x, depth, rgb);
            for (int c = 0; c < channels; c++)
                want[y][x][c] = (unsigned char)(palette ? rgb[c] : value(y, x, c, depth));
        }
    }
    for (int i = 0; i < H * W * channels; i++) flat[i] = want[i / channels / W][i / channels % W][i % channels];
    kiln_tensor *t = kiln_load_image(dev, golden(file), 0);
    assert_tensor(t, KILN_U8, KILN_SHAPE(H, W, channels), flat);
    kiln_free(&t);
    int64_t dims[3];
    assert_int_equal(kiln_image_size(golden(file), dims), KILN_OK);
    assert_true(dims[0] == H && dims[1] == W && dims[2] == channels);
}

void png_of_all_kinds(void **state)
{
    need(true, false);
    for (int depth = 1; depth <= 16; depth *= 2) {
        char name[32];
        snprintf(name, sizeof name, "grey%d", depth);
        expect_png(name, 1, depth, false);
        snprintf(name, sizeof name, "palette%d", depth);
        if (depth < 16) expect_png(name, 3, depth, true);
        if (depth < 8) continue;
        snprintf(name, sizeof name, "rgb%d", depth);
        expect_png(name, 3, depth, false);
        snprintf(name, sizeof name, "grey_alpha%d", depth);
        expect_png(name, 2, depth, false);
        snprintf(name, sizeof name, "rgba%d", depth);
        expect_png(name, 4, depth, false);
    }
    expect_png("interlaced", 3, 8, false);
    unsigned char got[H * W * 4];
    assert_int_equal(kiln_read_image(golden("palette_alpha.png"), H, W, 4, got, sizeof got), KILN_OK);
    static const int alpha[] = {0, 100, 200, 255};
    for (int i = 0; i < H * W; i++) {
        int rgb[3], at = (i / W * 7 + i % W * 3) % 16;
        palette_entry(i / W, i % W, 4, rgb);
        for (int c = 0; c < 3; c++) assert_int_equal(got[4 * i + c], rgb[c]);
        assert_int_equal(got[4 * i + 3], alpha[at < 3 ? at : 3]);
    }
}

// --- JPEG: flat blocks of 8 x 8

static int block_value(int y, int x, int c)
{
    return (16 + (y / 8 * 3 + x / 8) * 29 + c * 61) % 256;
}

static double clamp(double v)
{
    return v < 0 ? 0 : v > 255 ? 255 : v;
}

// JFIF's conversion (ITU-R BT.601, full range); libjpeg rounds each product.
static void colour_of(int y, int x, double rgb[3])
{
    double l = block_value(y, x, 0), cb = block_value(y, x, 1) - 128, cr = block_value(y, x, 2) - 128;
    rgb[0] = clamp(l + 1.402 * cr);
    rgb[1] = clamp(l - 0.344136286 * cb - 0.714136286 * cr);
    rgb[2] = clamp(l + 1.772 * cb);
}

void jpeg_of_flat_blocks(void **state)
{
    need(false, true);
    unsigned char grey[12 * 20], colour[12 * 20 * 3];
    assert_int_equal(kiln_read_image(golden("grey.jpg"), 12, 20, 1, grey, sizeof grey), KILN_OK);
    assert_int_equal(kiln_read_image(golden("colour.jpg"), 12, 20, 3, colour, sizeof colour), KILN_OK);
    for (int i = 0; i < 12 * 20; i++) {
        double rgb[3];
        colour_of(i / 20, i % 20, rgb);
        assert_int_equal(grey[i], block_value(i / 20, i % 20, 0));
        for (int c = 0; c < 3; c++)
            if (colour[3 * i + c] - rgb[c] > 1 || rgb[c] - colour[3 * i + c] > 1)
                fail_msg("pixel %d, %d: %d, expected %g", i, c, colour[3 * i + c], rgb[c]);
    }
    int64_t dims[3];
    assert_int_equal(kiln_image_size(golden("colour.jpg"), dims), KILN_OK);
    assert_true(dims[0] == 12 && dims[1] == 20 && dims[2] == 3);
    kiln_tensor *t = kiln_load_image(dev, golden("colour.jpg"), 0);
    assert_tensor(t, KILN_U8, KILN_SHAPE(12, 20, 3), colour);
    kiln_free(&t);
}

// --- channels

void image_channels_convert(void **state)
{
    need(true, false);
    const unsigned char in[] = {10, 200, 30, 128, 0, 0, 0, 7, 255, 255, 255, 255};
    unsigned char grey[3], want[3];
    for (int i = 0; i < 3; i++)
        want[i] = (unsigned char)((19595 * in[4 * i] + 38470 * in[4 * i + 1] + 7471 * in[4 * i + 2] + 32768) / 65536);
    kiln_tensor *t = kiln_from_data(dev, KILN_U8, KILN_SHAPE(1, 3, 4), in);
    assert_int_equal(kiln_save_image(temp("a.png"), t, NULL), KILN_OK);
    kiln_free(&t);
    for (int channels = 1; channels <= 4; channels++) {
        unsigned char got[12];
        assert_int_equal(kiln_read_image(temp("a.png"), 1, 3, channels, got, 3 * (size_t)channels), KILN_OK);
        for (int i = 0; i < 3; i++) {
            for (int c = 0; c < channels; c++) {
                bool alpha = c == 3 || (c == 1 && channels == 2);
                assert_int_equal(got[i * channels + c], alpha ? in[4 * i + 3] : channels > 2 ? in[4 * i + c] : want[i]);
            }
            if (channels == 1) grey[i] = got[i];
        }
    }
    t = kiln_from_data(dev, KILN_U8, KILN_SHAPE(1, 3), grey);
    assert_int_equal(kiln_save_image(temp("b.png"), t, KILN_SAVE_IMAGE(.compression = 9)), KILN_OK);
    kiln_free(&t);
    unsigned char got[12];
    assert_int_equal(kiln_read_image(temp("b.png"), 1, 3, 4, got, sizeof got), KILN_OK);
    for (int i = 0; i < 12; i++) assert_int_equal(got[i], i % 4 == 3 ? 255 : grey[i / 4]);
}

// --- round trips

static kiln_tensor *pattern(int64_t h, int64_t w, int64_t channels, unsigned char *out)
{
    for (int64_t i = 0; i < h * w * channels; i++)
        out[i] =
            (unsigned char)(128 + 60 * ((i / channels % w) * 2 / w) - 50 * (i / channels / w * 2 / h) + i % channels);
    return kiln_from_data(dev, KILN_U8, KILN_SHAPE(h, w, channels), out);
}

void images_round_trip(void **state)
{
    need(true, true);
    static unsigned char v[70 * 90 * 4], got[70 * 90 * 4];
    for (int channels = 1; channels <= 4; channels++) {
        kiln_tensor *t = pattern(70, 90, channels, v);
        for (int level = 0; level <= 9; level += 3) {
            assert_int_equal(kiln_save_image(temp("a.PNG"), t, KILN_SAVE_IMAGE(.compression = level)), KILN_OK);
            kiln_tensor *again = kiln_load_image(dev, temp("a.PNG"), 0);
            assert_tensor(again, KILN_U8, KILN_SHAPE(70, 90, channels), v);
            kiln_free(&again);
        }
        if (channels % 2) {
            size_t size_B, small_B;
            assert_int_equal(kiln_save_image(temp("a.jpeg"), t, KILN_SAVE_IMAGE(.quality = 100)), KILN_OK);
            assert_int_equal(kiln_read_image(temp("a.jpeg"), 70, 90, channels, got, (size_t)(70 * 90 * channels)),
                             KILN_OK);
            free(load_bytes(temp("a.jpeg"), &size_B));
            double sum = 0;
            for (int i = 0; i < 70 * 90 * channels; i++) sum += abs(got[i] - v[i]);
            assert_true(sum / (70 * 90 * channels) < 3);
            assert_int_equal(kiln_save_image(temp("a.jpg"), t, KILN_SAVE_IMAGE(.quality = 10)), KILN_OK);
            free(load_bytes(temp("a.jpg"), &small_B));
            assert_true(small_B < size_B);
        }
        kiln_free(&t);
    }
}

// --- what does not fit

void images_that_do_not_fit(void **state)
{
    need(true, true);
    unsigned char v[5 * 7 * 3] = {0};
    int64_t dims[3] = {9, 9, 9};
    assert_int_equal(kiln_read_image(golden("rgb8.png"), 7, 6, 3, v, sizeof v), KILN_E_SHAPE);
    assert_error(KILN_E_SHAPE, "is 7 x 5, not 7 x 6");
    assert_int_equal(kiln_read_image(golden("rgb8.png"), 7, 5, 1, v, sizeof v), KILN_E_SHAPE);
    assert_error(KILN_E_SHAPE, "memory of 105 bytes for 35");
    assert_int_equal(kiln_read_image(golden("rgb8.png"), 7, 5, 0, v, sizeof v), KILN_E_ARGUMENT);
    assert_error(KILN_E_ARGUMENT, "0 channels, from 1 to 4");
    assert_null(kiln_load_image(dev, golden("rgb8.png"), 5));
    assert_error(KILN_E_ARGUMENT, "load_image: 5 channels");
    assert_null(kiln_load_image(dev, temp("none.png"), 0));
    assert_error(KILN_E_MISSING, "none.png");
    assert_null(kiln_load_image(dev, golden("images.idx"), 0));
    assert_error(KILN_E_UNSUPPORTED, "is neither PNG nor JPEG");
    kiln_image_size(golden("images.idx"), dims);
    assert_error(KILN_E_UNSUPPORTED, "image_size: ");
    assert_int_equal(dims[0], 9);
    kiln_tensor *t = kiln_from_data(dev, KILN_U8, KILN_SHAPE(7, 5, 3), v);
    kiln_tensor *wide = kiln_zeros(dev, KILN_U8, KILN_SHAPE(1, 1, 5)),
                *two = kiln_zeros(dev, KILN_U8, KILN_SHAPE(1, 1, 2)), *f = kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 2)),
                *empty = kiln_zeros(dev, KILN_U8, KILN_SHAPE(0, 2)),
                *line = kiln_zeros(dev, KILN_U8, KILN_SHAPE(1, 65501));
    kiln_save_image(temp("a.bmp"), t, NULL);
    assert_error(KILN_E_ARGUMENT, "ends neither in .png nor in .jpg");
    kiln_save_image(temp("a.png"), wide, NULL);
    assert_error(KILN_E_SHAPE, "1 to 4 channels");
    kiln_save_image(temp("a.jpg"), two, NULL);
    assert_error(KILN_E_SHAPE, "1 or 3 channels");
    kiln_save_image(temp("a.jpg"), line, NULL);
    assert_error(KILN_E_SHAPE, "sizes from 1 to 65500");
    kiln_save_image(temp("a.png"), empty, NULL);
    assert_error(KILN_E_SHAPE, "sizes from 1");
    kiln_save_image(temp("a.png"), f, NULL);
    assert_error(KILN_E_DTYPE, "the image is f32");
    kiln_save_image(temp("a.png"), t, KILN_SAVE_IMAGE(.compression = 10));
    assert_error(KILN_E_ARGUMENT, "a compression of 10");
    kiln_save_image(temp("a.jpg"), t, KILN_SAVE_IMAGE(.quality = 101));
    assert_error(KILN_E_ARGUMENT, "a quality of 101");
    kiln_save_image("/nonexistent/a.png", t, NULL);
    assert_error(KILN_E_MISSING, "/nonexistent/a.png");
    free_all((kiln_tensor *[]){t, wide, two, f, empty, line}, 6);
}

void what_is_lacking_is_named(void **state)
{
    static const struct {
        bool built;
        const char *file, *written, *lack;
    } kinds[] = {
        {KILN_WITH_PNG, "rgb8.png", "a.png", "this build is without PNG; it needs libpng-dev and -Dpng=enabled"},
        {KILN_WITH_JPEG, "grey.jpg", "a.jpg", "this build is without JPEG"}};
    kiln_tensor *t = kiln_zeros(dev, KILN_U8, KILN_SHAPE(2, 2));
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        if (can_read(kinds[i].built, kinds[i].file)) continue;
        const char *lack = kinds[i].built ? "is missing; Debian has it in lib" : kinds[i].lack;
        assert_null(kiln_load_image(dev, golden(kinds[i].file), 0));
        assert_error(KILN_E_UNSUPPORTED, lack);
        kiln_save_image(temp(kinds[i].written), t, NULL);
        assert_error(KILN_E_UNSUPPORTED, lack);
    }
    kiln_free(&t);
}

static uint32_t crc_of(const unsigned char *p, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

// Headers that claim what the file cannot hold, with checksums that fit.
void image_sizes_that_lie(void **state)
{
    need(true, true);
    static const uint32_t sizes[][2] = {{0x7fffffff, 0x7fffffff}, {60000, 60000}, {1000000, 1000000}, {0, 5}, {5, 0}};
    size_t size_B;
    unsigned char *png = load_bytes(golden("rgb8.png"), &size_B);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        for (int k = 0; k < 8; k++) png[16 + k] = (unsigned char)(sizes[i][k / 4] >> (24 - 8 * (k % 4)));
        uint32_t crc = crc_of(png + 12, 17);
        for (int k = 0; k < 4; k++) png[29 + k] = (unsigned char)(crc >> (24 - 8 * k));
        store_bytes(temp("lie.png"), png, size_B);
        assert_null(kiln_load_image(dev, temp("lie.png"), 0));
        assert_error(KILN_E_FORMAT, "lie.png");
    }
    free(png);
    unsigned char *jpeg = load_bytes(golden("grey.jpg"), &size_B);
    size_t at = 0;
    while (jpeg[at] != 0xff || jpeg[at + 1] != 0xc0) at++;
    memset(jpeg + at + 5, 0xfe, 4);
    store_bytes(temp("lie.jpg"), jpeg, size_B);
    assert_null(kiln_load_image(dev, temp("lie.jpg"), 0));
    assert_error(KILN_E_FORMAT, "65278 x 65278 pixels are more than a file of");
    free(jpeg);
}

void image_checksums_are_kept(void **state)
{
    need(true, false);
    size_t size_B;
    unsigned char *png = load_bytes(golden("rgb8.png"), &size_B);
    png[29] ^= 1;
    store_bytes(temp("crc.png"), png, size_B);
    assert_null(kiln_load_image(dev, temp("crc.png"), 0));
    assert_error(KILN_E_FORMAT, "crc.png: the PNG data is broken: IHDR: CRC error");
    free(png);
}

// Bytes that follow each other as a scan of a progressive file, many times over.
void scans_are_bounded(void **state)
{
    need(false, true);
    static const unsigned char head[] = {0xff, 0xd8, 0xff, 0xdb, 0, 67, 0};
    static const unsigned char frame[] = {0xff, 0xc2, 0, 11, 8, 0, 64, 0, 64, 1, 1, 0x11, 0};
    static const unsigned char table[] = {0xff, 0xc4, 0, 20, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const unsigned char scan[] = {0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0x01, 0, 0, 0, 0, 0, 0, 0, 0};
    unsigned char *file = calloc(1, 1 << 17), *p = file;
    assert_non_null(file);
    memcpy(p, head, sizeof head), p += sizeof head;
    memset(p, 1, 64), p += 64;
    memcpy(p, frame, sizeof frame), p += sizeof frame;
    memcpy(p, table, sizeof table), p += sizeof table;
    for (int i = 0; i < 300; i++) {
        memcpy(p, scan, sizeof scan);
        if (i) p[8] = 0, p[9] = 0x10; // refines again and again
        p += sizeof scan;
    }
    *p++ = 0xff, *p++ = 0xd9;
    store_bytes(temp("scans.jpg"), file, (size_t)(p - file));
    kiln_tensor *t = kiln_load_image(dev, temp("scans.jpg"), 0);
    assert_null(t);
    assert_error(KILN_E_FORMAT, "the JPEG data is broken");
    free(file);
}
