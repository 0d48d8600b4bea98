// Complex numbers and their parts.
#include "compose/composite.h"
#include "compose/complex.h"

bool is_complex(const kiln_tensor *t)
{
    kiln_dtype d = kiln_tensor_dtype(t);
    return d == KILN_C64 || d == KILN_C128;
}

// Both with the shape to which they are broadcast.
static bool broadcast(kiln_tensor *a, kiln_tensor *b, kiln_tensor **wide)
{
    size_t ra = kiln_rank(a), rb = kiln_rank(b), rank = ra > rb ? ra : rb;
    int64_t dims[KILN_MAX_RANK];
    for (size_t i = 0; i < rank; i++) {
        int64_t p = i < rank - ra ? 1 : kiln_dims(a)[i - (rank - ra)];
        int64_t q = i < rank - rb ? 1 : kiln_dims(b)[i - (rank - rb)];
        if (p != q && p != 1 && q != 1) {
            error_set(KILN_E_SHAPE, "shapes do not broadcast: %s and %s", type_of(a).s, type_of(b).s);
            return false;
        }
        dims[i] = p == 1 ? q : p;
    }
    wide[0] = kiln_expand(a, rank, dims);
    wide[1] = kiln_expand(b, rank, dims);
    return !error_pending;
}

static bool are_real(kiln_tensor *a, kiln_tensor *b)
{
    if (is_complex(a) || is_complex(b))
        error_set(KILN_E_DTYPE, "both must be real, they are %s and %s", type_of(a).s, type_of(b).s);
    return !error_pending;
}

// A part that is not f64 becomes f32.
static kiln_tensor *paired(kiln_tensor *re, kiln_tensor *im)
{
    kiln_tensor *wide[2];
    kiln_dtype d = kiln_tensor_dtype(re) == KILN_F64 || kiln_tensor_dtype(im) == KILN_F64 ? KILN_F64 : KILN_F32;
    if (!broadcast(kiln_cast(re, d), kiln_cast(im, d), wide)) return NULL;
    return kiln_view_as_complex(kiln_stack(wide, 2, -1));
}

kiln_tensor *compose_complex(kiln_tensor *re, kiln_tensor *im)
{
    return are_real(re, im) ? paired(re, im) : NULL;
}

kiln_tensor *compose_polar(kiln_tensor *magnitude, kiln_tensor *angle)
{
    if (!are_real(magnitude, angle)) return NULL;
    return paired(kiln_mul(magnitude, kiln_cos(angle)), kiln_mul(magnitude, kiln_sin(angle)));
}

kiln_tensor *compose_real(kiln_tensor *z)
{
    return is_complex(z) ? kiln_select(kiln_view_as_real(z), -1, 0) : kiln_alias(z);
}

kiln_tensor *compose_imag(kiln_tensor *z)
{
    return is_complex(z) ? kiln_select(kiln_view_as_real(z), -1, 1) : kiln_zeros_like(z);
}

kiln_tensor *compose_conj(kiln_tensor *z)
{
    return is_complex(z) ? paired(compose_real(z), kiln_neg(compose_imag(z))) : kiln_alias(z);
}

kiln_tensor *compose_angle(kiln_tensor *z)
{
    return kiln_atan2(compose_imag(z), compose_real(z));
}
