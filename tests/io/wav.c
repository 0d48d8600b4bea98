// WAV: files given by their bytes, round trips, headers that lie.
#include "files.h"

#include <kiln/media.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// RIFF with a form and samples.
static size_t make_wav(unsigned char *out, unsigned tag, unsigned channels, unsigned bits, const void *data, size_t n_B)
{
    unsigned block = channels * bits / 8, rate = 8000;
    unsigned char head[44] = "RIFF....WAVEfmt ....", *p = out;
    const uint32_t words[][3] = {
        {4, (uint32_t)(36 + n_B), 4}, {16, 16, 4},    {20, tag, 2},  {22, channels, 2},     {24, rate, 4},
        {28, rate * block, 4},        {32, block, 2}, {34, bits, 2}, {40, (uint32_t)n_B, 4}};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        for (uint32_t k = 0; k < words[i][2]; k++) head[words[i][0] + k] = (unsigned char)(words[i][1] >> 8 * k);
    memcpy(head + 36, "data", 4);
    memcpy(p, head, sizeof head);
    if (n_B) memcpy(p + sizeof head, data, n_B);
    return sizeof head + n_B;
}

static void expect_wav(unsigned tag, unsigned channels, unsigned bits, const void *data, size_t n_B, const double *want)
{
    unsigned char file[200];
    size_t n = make_wav(file, tag, channels, bits, data, n_B), items = n_B / (bits / 8);
    store_bytes(temp("a.wav"), file, n);
    double rate = 0, got[64];
    kiln_tensor *t = kiln_load_wav(dev, temp("a.wav"), &rate, KILN_LOAD_WAV(.dtype = KILN_F64));
    assert_shape(t, KILN_F64, KILN_SHAPE(channels, (int64_t)items / channels));
    assert_true(rate == 8000);
    assert_int_equal(kiln_read(t, got, items * sizeof *got), KILN_OK);
    for (size_t i = 0; i < items; i++) assert_true(got[i] == want[i]);
    kiln_free(&t);
    float narrow[64];
    t = kiln_load_wav(dev, temp("a.wav"), NULL, NULL);
    assert_int_equal(kiln_read(t, narrow, items * sizeof *narrow), KILN_OK);
    for (size_t i = 0; i < items; i++) assert_true(narrow[i] == (float)want[i]);
    kiln_free(&t);
}

void wav_of_known_bytes(void **state)
{
    expect_wav(1, 1, 8, (unsigned char[]){0, 64, 128, 255}, 4, (double[]){-1, -0.5, 0, 127 / 128.0});
    // Frames of two channels: left and right stand side by side, and become rows.
    expect_wav(1, 2, 16, (unsigned char[]){0, 0x80, 0xff, 0x7f, 1, 0, 0, 0xc0}, 8,
               (double[]){-1, 1 / 32768.0, 32767 / 32768.0, -0.5});
    expect_wav(1, 1, 24, (unsigned char[]){0, 0, 0x80, 0xff, 0xff, 0x7f, 1, 0, 0}, 9,
               (double[]){-1, 8388607 / 8388608.0, 1 / 8388608.0});
    expect_wav(1, 1, 32, (unsigned char[]){0, 0, 0, 0x80, 0, 0, 0, 0x40}, 8, (double[]){-1, 0.5});
    expect_wav(3, 1, 32, (unsigned char[]){0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc1}, 8, (double[]){1.5, -8});
    expect_wav(3, 1, 64, (unsigned char[]){0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, 8, (double[]){1.5});
    expect_wav(1, 3, 8, NULL, 0, NULL);
}

void wav_round_trips(void **state)
{
    double v[3 * 5];
    for (int i = 0; i < 15; i++) v[i] = sin(i * 1.7) * (i == 4 ? 3 : 1);
    v[7] = NAN;
    static const int widths[][2] = {{8, 0}, {16, 0}, {24, 0}, {32, 0}, {32, 1}, {64, 1}, {0, 0}, {0, 1}};
    for (size_t k = 0; k < COUNT_OF(widths); k++) {
        for (int64_t channels = 1; channels <= 3; channels += 2) {
            bool floats = widths[k][1];
            int bits = widths[k][0] ? widths[k][0] : floats ? 32 : 16;
            kiln_tensor *t = kiln_from_data(dev, KILN_F64, KILN_SHAPE(channels, 15 / channels), v);
            double rate, got[15], half = ldexp(1, bits - 1);
            assert_int_equal(
                kiln_save_wav(temp("b.wav"), t, 44100, KILN_SAVE_WAV(.bits = widths[k][0], .as_floats = floats)),
                KILN_OK);
            kiln_tensor *again = kiln_load_wav(dev, temp("b.wav"), &rate, KILN_LOAD_WAV(.dtype = KILN_F64));
            assert_shape(again, KILN_F64, KILN_SHAPE(channels, 15 / channels));
            assert_true(rate == 44100);
            assert_int_equal(kiln_read(again, got, sizeof got), KILN_OK);
            for (int i = 0; i < 15; i++) {
                double want = floats        ? bits == 32 ? (double)(float)v[i] : v[i]
                                     : isnan(v[i]) ? 0
                                            : rint(v[i] * half) / half;
                if (!floats && want > (half - 1) / half) want = (half - 1) / half;
                if (!floats && want < -1) want = -1;
                if (got[i] != want && !(isnan(got[i]) && isnan(want)))
                    fail_msg("%d bits, %d: %g, not %g", bits, i, got[i], want);
            }
            kiln_free(&t);
            kiln_free(&again);
        }
    }
    kiln_tensor *line = kiln_zeros(dev, KILN_F32, KILN_SHAPE(4));
    assert_int_equal(kiln_save_wav(temp("b.wav"), line, 22050, NULL), KILN_OK);
    size_t n;
    unsigned char *bytes = load_bytes(temp("b.wav"), &n), want[64];
    const unsigned char zeros[8] = {0};
    assert_int_equal(n, make_wav(want, 1, 1, 16, zeros, 8));
    assert_memory_equal(bytes, want, 24);
    free(bytes);
    kiln_free(&line);
}

void wav_headers_that_lie(void **state)
{
    static const struct {
        size_t at, n;
        unsigned char bytes[4];
        kiln_status code;
        const char *message;
    } cases[] = {
        {0, 4, "RIFX", KILN_E_FORMAT, "is not WAV"},
        {8, 4, "WAVE", KILN_OK, ""},
        {12, 4, "fmt_", KILN_E_FORMAT, "samples come before their form"},
        {16, 4, {15}, KILN_E_FORMAT, "a form of 15 bytes"},
        {16, 4, {255, 255, 255, 255}, KILN_E_FORMAT, "cut off"},
        {20, 2, {7}, KILN_E_UNSUPPORTED, "samples of kind 7 with 16 bits"},
        {20, 2, {0xfe, 0xff}, KILN_E_UNSUPPORTED, "an extensible form of an unknown kind"},
        {22, 2, {0}, KILN_E_FORMAT, "0 channels of 16 bits"},
        {32, 2, {3}, KILN_E_FORMAT, "in frames of 3 bytes"},
        {34, 2, {12}, KILN_E_UNSUPPORTED, "12 bits"},
        {36, 4, "dat_", KILN_E_FORMAT, "cut off"},
        {40, 4, {9}, KILN_E_FORMAT, "has 8 of 9 bytes"},
        {40, 4, {6}, KILN_E_FORMAT, "6 bytes of samples are no whole number"},
        {40, 4, {255, 255, 255, 255}, KILN_OK, ""},
        {40, 4, {0}, KILN_OK, ""},
        {40, 4, {4}, KILN_OK, ""},
    };
    const unsigned char samples_of[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        unsigned char file[100];
        size_t n = make_wav(file, 1, 2, 16, samples_of, 8);
        memcpy(file + cases[i].at, cases[i].bytes, cases[i].n);
        store_bytes(temp("lie.wav"), file, n);
        kiln_tensor *t = kiln_load_wav(dev, temp("lie.wav"), NULL, NULL);
        if (cases[i].code)
            assert_error(cases[i].code, cases[i].message);
        else
            assert_shape(t, KILN_F32, KILN_SHAPE(2, cases[i].bytes[0] == 4 ? 1 : 2));
        kiln_free(&t);
    }
    kiln_tensor *t = kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 3)), *i = kiln_zeros(dev, KILN_I32, KILN_SHAPE(2)),
                *none = kiln_zeros(dev, KILN_F32, KILN_SHAPE(0, 3));
    kiln_save_wav(temp("c.wav"), i, 8000, NULL);
    assert_error(KILN_E_DTYPE, "the sound is i32");
    kiln_save_wav(temp("c.wav"), none, 8000, NULL);
    assert_error(KILN_E_SHAPE, "0 channels");
    kiln_save_wav(temp("c.wav"), t, 0, NULL);
    assert_error(KILN_E_ARGUMENT, "0 frames in a second");
    kiln_save_wav(temp("c.wav"), t, NAN, NULL);
    assert_error(KILN_E_ARGUMENT, "nan frames");
    kiln_save_wav(temp("c.wav"), t, 8000, KILN_SAVE_WAV(.bits = 20));
    assert_error(KILN_E_ARGUMENT, "integers of 20 bits");
    kiln_save_wav(temp("c.wav"), t, 8000, KILN_SAVE_WAV(.bits = 16, .as_floats = true));
    assert_error(KILN_E_ARGUMENT, "floats of 16 bits");
    assert_null(kiln_load_wav(dev, temp("c.wav"), NULL, KILN_LOAD_WAV(.dtype = KILN_I32)));
    assert_error(KILN_E_DTYPE, ".dtype is i32");
    free_all((kiln_tensor *[]){t, i, none}, 3);
}
