// Steps by complex numbers: real tensors go in, seen as pairs, and come out.
#include "fuzz.h"

static bool is_wide(kiln_tensor *t)
{
    kiln_dtype d = kiln_tensor_dtype(t);
    return d == KILN_F32 || d == KILN_F64;
}

// The last axis as pairs; NULL where it has an odd number of elements, or none.
static kiln_tensor *as_complex(kiln_tensor *t)
{
    size_t rank = kiln_rank(t);
    int64_t dims[KILN_MAX_RANK];
    if (!is_wide(t) || rank == 0 || rank + 2 > KILN_MAX_RANK || kiln_dim(t, -1) % 2 || !kiln_numel(t)) return NULL;
    memcpy(dims, kiln_dims(t), rank * sizeof *dims);
    dims[rank - 1] /= 2;
    dims[rank] = 2;
    return kiln_view_as_complex(kiln_reshape(t, rank + 1, dims));
}

static kiln_tensor *product(struct operands *o, kiln_tensor *z)
{
    kiln_tensor *other = same_shape(o->a, o->b) ? as_complex(o->b) : NULL;
    say(o, "complex %s times %s", o->na, other ? o->nb : "its conjugate");
    return kiln_view_as_real(kiln_mul(z, other ? other : kiln_conj(z)));
}

// Along two axes, one after the other; what comes of the first is needed later, or its place is free. Of a long result
// the beginning goes on.
static kiln_tensor *two_transforms(struct operands *o, kiln_tensor *z)
{
    static const int64_t lengths[] = {0, 7, 256, 8192}; // 256: by itself; 8192: in two steps
    int64_t first = choose(o, 2), n = lengths[choose(o, kiln_numel(z) > 256 ? 2 : 4)];
    bool later = choose(o, 2);
    const kiln_fft_opts *opts = KILN_FFT(.n = n, .norm = KILN_FFT_ORTHO);
    say(o, "fft of complex %s along %d, there of length %d, %d and the first again%s", o->na, (int)first, (int)n,
        (int)(1 - first), later ? ", plus that of two" : "");
    kiln_tensor *one = kiln_fft(kiln_fft(z, first, opts), 1 - first, NULL), *both = kiln_fft(one, first, NULL);
    kiln_tensor *all = later ? kiln_add(both, one) : both;
    return kiln_view_as_real(n > 7 && all ? kiln_narrow(all, first, 0, 7) : all);
}

static kiln_tensor *transform(struct operands *o, kiln_tensor *z)
{
    if (kiln_rank(z) > 1 && choose(o, 2)) return two_transforms(o, z);
    int64_t axis = choose_axis(o, z);
    bool back = choose(o, 2);
    say(o, "%s of complex %s along %d", back ? "ifft" : "fft", o->na, (int)axis);
    return kiln_view_as_real(back ? kiln_ifft(z, axis, NULL) : kiln_fft(z, axis, NULL));
}

// Of a real line: all of its transform, half of it, and back from a half.
kiln_tensor *step_spectrum(struct operands *o)
{
    if (!is_wide(o->a) || !kiln_rank(o->a) || kiln_rank(o->a) + 1 > KILN_MAX_RANK || !kiln_numel(o->a)) return NULL;
    int64_t axis = choose_axis(o, o->a), norm = choose(o, 3), n = choose(o, 3) ? 0 : 1 + choose(o, 8);
    const kiln_fft_opts *opts = KILN_FFT(.n = n, .norm = norm);
    uint32_t which = choose(o, 3);
    static const char *const names[] = {"fft", "rfft", "irfft of the rfft"};
    say(o, "%s of %s along %d, of length %d, norm %d", names[which], o->na, (int)axis, (int)n, (int)norm);
    if (which == 0) return kiln_view_as_real(kiln_fft(o->a, axis, opts));
    kiln_tensor *half = kiln_rfft(o->a, axis, opts);
    if (which == 1) return kiln_view_as_real(half);
    kiln_tensor *tamed = kiln_mul(half, kiln_scalar(0.5));
    return kiln_irfft(tamed, axis, KILN_FFT(.n = 1 + choose(o, 8)));
}

kiln_tensor *step_complex(struct operands *o)
{
    kiln_tensor *z = as_complex(o->a);
    if (!z) return NULL;
    switch (choose(o, 5)) {
    case 0: return product(o, z);
    case 1: return transform(o, z);
    case 2: return say(o, "parts of complex %s added", o->na), kiln_add(kiln_real(z), kiln_imag(z));
    case 3: return say(o, "complex %s in reverse", o->na), kiln_view_as_real(kiln_flip(z, KILN_AXES0));
    default:
        say(o, "squared magnitude of complex %s", o->na);
        return kiln_add(kiln_square(kiln_real(z)), kiln_square(kiln_imag(z)));
    }
}
