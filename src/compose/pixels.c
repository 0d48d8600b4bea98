// Elements moved between channels and places of images.
#include "compose/given.h"

static const char *const modes[] = {"DCR", "CRD", NULL};

static bool divides(int64_t by, const kiln_tensor *x, size_t axis, int64_t factor)
{
    if (!error_pending && kiln_dims(x)[axis] % factor)
        error_set(KILN_E_SHAPE, "%lld does not divide axis %zu of %s by %lld", (long long)by, axis, type_of(x).s,
                  (long long)factor);
    return !error_pending;
}

// [N, C r r, H, W] -> [N, C, H r, W r]; where the blocks come first, channel k of the input is (row, column, channel),
// else (channel, row, column).
static kiln_tensor *to_space(kiln_tensor *x, int64_t r, bool blocks_first)
{
    if (!given_range("block", r, 1, 1 << 15) || !divides(r, x, 1, r * r)) return NULL;
    int64_t n = kiln_dims(x)[0], c = kiln_dims(x)[1] / (r * r), h = kiln_dims(x)[2], w = kiln_dims(x)[3];
    kiln_tensor *t = blocks_first
                         ? kiln_permute(kiln_reshape(x, KILN_SHAPE(n, r, r, c, h, w)), KILN_AXES(0, 3, 4, 1, 5, 2))
                         : kiln_permute(kiln_reshape(x, KILN_SHAPE(n, c, r, r, h, w)), KILN_AXES(0, 1, 4, 2, 5, 3));
    return kiln_reshape(t, KILN_SHAPE(n, c, h * r, w * r));
}

static kiln_tensor *to_depth(kiln_tensor *x, int64_t r, bool blocks_first)
{
    if (!given_range("block", r, 1, 1 << 15) || !divides(r, x, 2, r) || !divides(r, x, 3, r)) return NULL;
    int64_t n = kiln_dims(x)[0], c = kiln_dims(x)[1], h = kiln_dims(x)[2] / r, w = kiln_dims(x)[3] / r;
    kiln_tensor *t = kiln_reshape(x, KILN_SHAPE(n, c, h, r, w, r));
    t = blocks_first ? kiln_permute(t, KILN_AXES(0, 3, 5, 1, 2, 4)) : kiln_permute(t, KILN_AXES(0, 1, 3, 5, 2, 4));
    return kiln_reshape(t, KILN_SHAPE(n, c * r * r, h, w));
}

kiln_tensor *compose_depth_to_space(kiln_tensor *x, int64_t block, const char *mode)
{
    int m = given_rank("x", x, 4, "[N,C,H,W]") ? given_word("mode", mode, modes) : -1;
    return m < 0 ? NULL : to_space(x, block, m == 0);
}

kiln_tensor *compose_space_to_depth(kiln_tensor *x, int64_t block)
{
    return given_rank("x", x, 4, "[N,C,H,W]") ? to_depth(x, block, true) : NULL;
}

// PyTorch's two take any number of leading axes.
static kiln_tensor *shuffled(kiln_tensor *x, int64_t r, bool up)
{
    size_t rank = kiln_rank(x);
    if (rank < 3) {
        error_set(KILN_E_SHAPE, "x must be [...,C,H,W], it is %s", type_of(x).s);
        return NULL;
    }
    int64_t lead = 1, dims[3];
    for (size_t i = 0; i + 3 < rank; i++) lead *= kiln_dims(x)[i];
    const int64_t *d = kiln_dims(x) + rank - 3;
    kiln_tensor *four = rank == 4 ? x : kiln_reshape(x, KILN_SHAPE(lead, d[0], d[1], d[2]));
    kiln_tensor *y = up ? to_space(four, r, false) : to_depth(four, r, false);
    if (error_pending) return NULL;
    for (int i = 0; i < 3; i++) dims[i] = kiln_dims(y)[1 + i];
    return rank == 4 ? y : with_dims_of(x, rank - 3, y, 3, dims);
}

kiln_tensor *compose_pixel_shuffle(kiln_tensor *x, int64_t block)
{
    return shuffled(x, block, true);
}

kiln_tensor *compose_pixel_unshuffle(kiln_tensor *x, int64_t block)
{
    return shuffled(x, block, false);
}

kiln_tensor *compose_channel_shuffle(kiln_tensor *x, int64_t groups)
{
    if (kiln_rank(x) < 2) error_set(KILN_E_SHAPE, "x must be [N,C,...], it is %s", type_of(x).s);
    if (!given_range("groups", groups, 1, INT32_MAX) || !divides(groups, x, 1, groups)) return NULL;
    int64_t n = kiln_dims(x)[0], c = kiln_dims(x)[1], rest = 1;
    for (size_t i = 2; i < kiln_rank(x); i++) rest *= kiln_dims(x)[i];
    kiln_tensor *t = kiln_transpose(kiln_reshape(x, KILN_SHAPE(n, groups, c / groups, rest)), 1, 2);
    return kiln_reshape(t, kiln_rank(x), kiln_dims(x));
}
