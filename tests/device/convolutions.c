// Convolutions and their gradients on the CPU against sums in f64: channels and images around the sizes of tiles,
// strides, dilation, groups, dtypes; the same bits again and on any number of threads; for the instruction set that
// KILN_CPU_ISA names.
#include "base/float16.h"
#include "device/cpu_fixture.h"

#include <math.h>
#include <omp.h>

struct shape {
    int64_t n, c, h, w, o, kh, kw, stride, padding, dilation, groups;
};

static int64_t results(const struct shape *s, int64_t size, int64_t kernel)
{
    return (size + 2 * s->padding - s->dilation * (kernel - 1) - 1) / s->stride + 1;
}

enum { FORWARD, INPUT_GRAD, WEIGHT_GRAD, WAYS };
static const char *const ways[] = {"forward", "input gradient", "weight gradient"};

struct values {
    int64_t n;
    double *v;
    kiln_tensor *tensor;
};

static const double unit_of[] = {
    [KILN_F16] = 0x1p-11, [KILN_BF16] = 0x1p-8, [KILN_F32] = 0x1p-24, [KILN_F64] = 0x1p-53};

static size_t size_of(kiln_dtype dtype)
{
    return dtype == KILN_F64 ? 8 : dtype == KILN_F32 ? 4 : 2;
}

static double get(const char *p, kiln_dtype dtype, int64_t i)
{
    switch (dtype) {
    case KILN_F64: return ((const double *)(const void *)p)[i];
    case KILN_F16: return (double)f16_to_float(((const uint16_t *)(const void *)p)[i]);
    case KILN_BF16: return (double)bf16_to_float(((const uint16_t *)(const void *)p)[i]);
    default: return (double)((const float *)(const void *)p)[i];
    }
}

static int large = -1; // which of image, weight and results has one number so large that no other may meet it in a sum

static struct values values(kiln_dtype dtype, const int64_t *dims, int which)
{
    static uint32_t seed = 7;
    struct values x = {dims[0] * dims[1] * dims[2] * dims[3], NULL, NULL};
    x.v = calloc((size_t)x.n + 1, sizeof *x.v);
    char *bytes = calloc((size_t)x.n + 1, size_of(dtype));
    for (int64_t i = 0; i < x.n; i++) {
        seed = seed * 1664525u + 1013904223u;
        float v = (float)(seed >> 8) / (1 << 23) - 1;
        if (which == large && i == x.n / 2) v *= 0x1p120F;
        switch (dtype) {
        case KILN_F64: ((double *)(void *)bytes)[i] = (double)v; break;
        case KILN_F16: ((uint16_t *)(void *)bytes)[i] = f16_from_float(v); break;
        case KILN_BF16: ((uint16_t *)(void *)bytes)[i] = bf16_from_float(v); break;
        default: ((float *)(void *)bytes)[i] = v; break;
        }
        x.v[i] = get(bytes, dtype, i);
    }
    x.tensor = kiln_from_data(dev, dtype, 4, dims, bytes);
    free(bytes);
    return x;
}

// What `reference` reads and writes: image, weight, results; what is asked for, its magnitudes, its terms.
struct sums {
    const double *x, *w, *y;
    double *out, *sum;
    int64_t *terms;
};

// One result's place and one channel: `at_x` is the channel's image, `at_w` its kernel, `y` and `x` where the kernel
// begins.
static void add_taps(const struct shape *s, int way, const struct sums *to, const int64_t at[3], int64_t y, int64_t x)
{
    for (int64_t ky = 0; ky < s->kh; ky++)
        for (int64_t kx = 0; kx < s->kw; kx++) {
            int64_t iy = y + ky * s->dilation, ix = x + kx * s->dilation;
            if (iy < 0 || iy >= s->h || ix < 0 || ix >= s->w) continue;
            int64_t at_x = at[0] + iy * s->w + ix, at_w = at[1] + ky * s->kw + kx;
            int64_t place = way == FORWARD ? at[2] : way == INPUT_GRAD ? at_x : at_w;
            double v = (way == FORWARD ? to->x[at_x] : to->y[at[2]]) * (way == WEIGHT_GRAD ? to->x[at_x] : to->w[at_w]);
            to->out[place] += v, to->sum[place] += fabs(v), to->terms[place]++;
        }
}

// Each product of a pixel, a weight and a result's place, once.
static void reference(const struct shape *s, int way, const struct sums *to)
{
    int64_t oh = results(s, s->h, s->kh), ow = results(s, s->w, s->kw), cg = s->c / s->groups, og = s->o / s->groups;
    int64_t at_y = 0;
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t o = 0; o < s->o; o++)
            for (int64_t oy = 0; oy < oh; oy++)
                for (int64_t ox = 0; ox < ow; ox++, at_y++)
                    for (int64_t c = 0; c < cg; c++) {
                        int64_t plane = n * s->c + o / og * cg + c;
                        const int64_t at[3] = {plane * s->h * s->w, (o * cg + c) * s->kh * s->kw, at_y};
                        add_taps(s, way, to, at, oy * s->stride - s->padding, ox * s->stride - s->padding);
                    }
}

static kiln_tensor *run(const struct shape *s, int way, kiln_tensor *x, kiln_tensor *w, kiln_tensor *y)
{
    kiln_conv2d_grad_opts g = {.size = sizeof g,
                               .stride = {s->stride, s->stride},
                               .padding = {s->padding, s->padding},
                               .dilation = {s->dilation, s->dilation},
                               .groups = s->groups};
    kiln_conv2d_opts f = {.size = sizeof f,
                          .stride = {s->stride, s->stride},
                          .padding = {s->padding, s->padding},
                          .dilation = {s->dilation, s->dilation},
                          .groups = s->groups};
    return way == FORWARD      ? kiln_conv2d(x, w, &f)
           : way == INPUT_GRAD ? kiln_conv2d_input_grad(y, w, s->h, s->w, &g)
                               : kiln_conv2d_weight_grad(x, y, s->kh, s->kw, &g);
}

static char *bytes_of(kiln_tensor *t, size_t size_B)
{
    char *bytes = malloc(size_B + 1);
    if (!t || kiln_read(t, bytes, size_B)) fail_msg("%s", kiln_error_message());
    return bytes;
}

static void check_bits(const struct shape *s, int way, const struct values v[3], const char *first, size_t size_B)
{
    for (int threads = 1; threads <= 5; threads += 2) {
        int before = omp_get_max_threads();
        omp_set_num_threads(threads);
        char *again = bytes_of(run(s, way, v[0].tensor, v[1].tensor, v[2].tensor), size_B);
        omp_set_num_threads(before);
        if (memcmp(first, again, size_B)) fail_msg("%s: other bits with %d threads", ways[way], threads);
        free(again);
    }
}

static void check(const struct shape *s, kiln_dtype dtype)
{
    kiln_scope *scope = kiln_scope_begin();
    int64_t oh = results(s, s->h, s->kh), ow = results(s, s->w, s->kw);
    struct values v[3] = {values(dtype, (int64_t[]){s->n, s->c, s->h, s->w}, 0),
                          values(dtype, (int64_t[]){s->o, s->c / s->groups, s->kh, s->kw}, 1),
                          values(dtype, (int64_t[]){s->n, s->o, oh, ow}, 2)};
    for (int way = 0; way < WAYS; way++) {
        int64_t n = v[way == FORWARD ? 2 : way == INPUT_GRAD ? 0 : 1].n;
        double *want = calloc((size_t)n, 8), *sum = calloc((size_t)n, 8);
        int64_t *terms = calloc((size_t)n, 8);
        reference(s, way, &(struct sums){v[0].v, v[1].v, v[2].v, want, sum, terms});
        size_t size_B = (size_t)n * size_of(dtype);
        char *first = bytes_of(run(s, way, v[0].tensor, v[1].tensor, v[2].tensor), size_B);
        double sum_unit = unit_of[dtype == KILN_F64 ? KILN_F64 : KILN_F32];
        for (int64_t i = 0; i < n; i++) {
            double got = get(first, dtype, i);
            double most = (double)(terms[i] + 2) * sum_unit * sum[i] + unit_of[dtype] * fabs(want[i]);
            if (dtype == KILN_F16) most += 0x1p-25; // half the least one
            if (!(fabs(got - want[i]) <= most))
                fail_msg("%s of [%d, %d, %d, %d] by %d of %dx%d, stride %d, padding %d, dilation %d, groups %d, dtype "
                         "%d: element %d is %g, not %g",
                         ways[way], (int)s->n, (int)s->c, (int)s->h, (int)s->w, (int)s->o, (int)s->kh, (int)s->kw,
                         (int)s->stride, (int)s->padding, (int)s->dilation, (int)s->groups, (int)dtype, (int)i, got,
                         want[i]);
        }
        check_bits(s, way, v, first, size_B);
        free(want), free(sum), free(terms), free(first);
    }
    for (int i = 0; i < 3; i++) free(v[i].v);
    kiln_scope_end(&scope);
}

// Channels, outputs and images a tile more and less, primes, one.
static void every_size(void **state)
{
    static const int64_t sizes[] = {1, 3, 7, 15, 16, 17, 31, 37};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            int64_t c = sizes[i], w = sizes[j];
            check(&(struct shape){2, c, 5, w, sizes[(i + j) % 8], 3, 3, 1, 1, 1, 1}, KILN_F32);
            check(&(struct shape){1, sizes[(i + j) % 8], w, 3, c, 1, 1, 1, 0, 1, 1}, KILN_F32);
        }
}

static void every_kernel(void **state)
{
    static const kiln_dtype dtypes[] = {KILN_F32, KILN_F64, KILN_BF16, KILN_F16};
    for (int64_t kernel = 1; kernel <= 7; kernel += 2)
        for (int64_t stride = 1; stride <= 3; stride++)
            for (int64_t dilation = 1; dilation <= 2; dilation++)
                for (int64_t groups = 1; groups <= 6; groups += groups == 1 ? 1 : 4)
                    for (size_t d = 0; d < 4; d++) {
                        int64_t edge = d == 0 ? 19 : 14;
                        check(&(struct shape){2, 6, 13, edge, 12 - 6 * (stride % 2), kernel, kernel, stride, kernel / 2,
                                              dilation, groups},
                              dtypes[d]);
                    }
}

// Products deep enough for several passes over channels and places; outputs for several parts.
static void several_passes(void **state)
{
    check(&(struct shape){2, 130, 7, 7, 61, 3, 3, 1, 1, 1, 1}, KILN_F32);
    check(&(struct shape){1, 5, 40, 41, 300, 1, 1, 1, 0, 1, 1}, KILN_F32);
    check(&(struct shape){3, 3, 43, 37, 9, 5, 5, 2, 2, 1, 1}, KILN_F32);
    check(&(struct shape){2, 70, 9, 9, 33, 3, 3, 1, 1, 1, 1}, KILN_F64);
    check(&(struct shape){1, 3, 30, 33, 5, 24, 23, 1, 0, 1, 1}, KILN_F32);
    check(&(struct shape){3, 24, 33, 31, 24, 3, 3, 1, 1, 1, 24}, KILN_F32);
}

// Large enough for copies of bands, and for fewer products of 3 x 3 taps.
static void several_bands(void **state)
{
    check(&(struct shape){1, 33, 33, 35, 34, 3, 3, 1, 1, 1, 1}, KILN_F32);
    check(&(struct shape){1, 12, 27, 41, 20, 5, 5, 1, 2, 1, 1}, KILN_F32);
    check(&(struct shape){1, 3, 44, 50, 33, 7, 7, 2, 3, 1, 1}, KILN_F32);
    check(&(struct shape){1, 16, 1, 301, 40, 1, 9, 1, 4, 1, 1}, KILN_F32);
    check(&(struct shape){1, 24, 40, 33, 17, 4, 4, 2, 1, 1, 1}, KILN_BF16);
}

// Few places of 3 x 3 taps and many channels: images together, at once and in turns, with groups; blocks of outputs.
static void several_images(void **state)
{
    check(&(struct shape){4, 72, 8, 8, 71, 3, 3, 1, 1, 1, 1}, KILN_F32);
    check(&(struct shape){8, 130, 7, 7, 131, 3, 3, 1, 1, 1, 1}, KILN_F32);
    check(&(struct shape){3, 140, 14, 13, 130, 3, 3, 1, 2, 1, 2}, KILN_F32);
    check(&(struct shape){17, 520, 8, 8, 40, 3, 3, 1, 1, 1, 1}, KILN_F32);
    check(&(struct shape){8, 80, 8, 8, 75, 3, 3, 1, 1, 1, 1}, KILN_BF16);
}

static void large_numbers(void **state)
{
    for (large = 0; large < 3; large++) {
        check(&(struct shape){4, 72, 8, 8, 71, 3, 3, 1, 1, 1, 1}, KILN_F32);
        check(&(struct shape){1, 33, 33, 35, 34, 3, 3, 1, 1, 1, 1}, KILN_F32);
    }
    large = -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_size),     cmocka_unit_test(every_kernel),
                                       cmocka_unit_test(several_passes), cmocka_unit_test(several_bands),
                                       cmocka_unit_test(several_images), cmocka_unit_test(large_numbers)};
    if (lacks_instructions()) return TEST_SKIPPED;
    return cmocka_run_group_tests(tests, open_device, close_device);
}
