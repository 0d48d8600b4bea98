// A loader's field: checks of its type, and a sample's way into a batch with conversion and scaling.
#include "data/field.h"
#include "base/dtype.h"
#include "base/options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

kiln_status field_init(struct field *f, kiln_dtype dtype, size_t rank, const int64_t *dims)
{
    *f = (struct field){.dtype = dtype, .out_dtype = dtype, .rank = rank, .row_items = 1};
    if ((unsigned)dtype >= DTYPE_COUNT) return error_set(KILN_E_DTYPE, "loader: there is no dtype %d", (int)dtype);
    if (rank == 0 || rank > KILN_MAX_RANK || !dims) {
        return error_set(KILN_E_SHAPE, "loader: a field of rank %zu; the first dimension counts the samples", rank);
    }
    // The size of a batch in f64 must not overflow either.
    int64_t size = 8;
    bool overflow = false;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0) return error_set(KILN_E_SHAPE, "loader: a dimension of %" PRId64, dims[i]);
        f->dims[i] = dims[i];
        if (dims[i] > 0) overflow |= __builtin_mul_overflow(size, dims[i], &size);
    }
    if (overflow) return error_set(KILN_E_SHAPE, "loader: the size of a field overflows");
    for (size_t i = 1; i < rank; i++) f->row_items *= dims[i];
    return KILN_OK;
}

void field_finish(struct field *f)
{
    free(f->owned);
    *f = (struct field){0};
}

size_t field_out_row_B(const struct field *f)
{
    return (size_t)f->row_items * kiln_dtype_size(f->out_dtype);
}

size_t field_in_row_B(const struct field *f)
{
    return (size_t)f->row_items * kiln_dtype_size(f->dtype);
}

kiln_status field_convert(struct field *f, kiln_dtype dtype, const kiln_convert_opts *opts)
{
    bool to_known = dtype == KILN_I32 || dtype == KILN_I64 || dtype == KILN_F32 || dtype == KILN_F64;
    if (!to_known || dtype_is_half_float(f->dtype)) {
        return error_set(KILN_E_DTYPE, "loader_convert: from %s to %s; results are i32, i64, f32 or f64",
                         kiln_dtype_name(f->dtype), kiln_dtype_name(dtype));
    }
    kiln_convert_opts o;
    TRY(options_read("loader_convert", KILN_CONVERT, &o, opts));
    f->scale = o.scale != 0 ? o.scale : 1;
    f->mean = o.mean;
    f->std_dev = o.std_dev != 0 ? o.std_dev : 1;
    f->scales = f->scale != 1 || f->mean != 0 || f->std_dev != 1;
    f->out_dtype = dtype;
    f->converts = f->scales || dtype != f->dtype;
    return KILN_OK;
}

static double load_float(kiln_dtype dtype, const unsigned char *row, int64_t i)
{
    switch (dtype) {
    case KILN_F32: return ((const float *)row)[i];
    case KILN_F64: return ((const double *)row)[i];
    case KILN_BOOL: return row[i] != 0;
    case KILN_U8: return row[i];
    case KILN_I8: return ((const int8_t *)row)[i];
    case KILN_I16: return ((const int16_t *)row)[i];
    case KILN_I32: return ((const int32_t *)row)[i];
    case KILN_U16: return ((const uint16_t *)row)[i];
    case KILN_U32: return ((const uint32_t *)row)[i];
    case KILN_U64: return (double)((const uint64_t *)row)[i];
    default: return (double)((const int64_t *)row)[i];
    }
}

static int64_t saturate(double x, int64_t low, int64_t high)
{
    if (x != x) return 0;
    if (x <= (double)low) return low;
    // The bound itself may not be a double: what reaches the next one saturates.
    if (x >= (double)high) return high;
    return (int64_t)x;
}

static void store_float(kiln_dtype dtype, unsigned char *row, int64_t i, double x)
{
    switch (dtype) {
    case KILN_F32: ((float *)row)[i] = (float)x; break;
    case KILN_F64: ((double *)row)[i] = x; break;
    case KILN_I32: ((int32_t *)row)[i] = (int32_t)saturate(x, INT32_MIN, INT32_MAX); break;
    default: ((int64_t *)row)[i] = saturate(x, INT64_MIN, INT64_MAX); break;
    }
}

static double apply(const struct field *f, double x)
{
    return (x * f->scale - f->mean) / f->std_dev;
}

// i64 and u64 do not pass through f64 unless it is scaled.
static void convert_ints(const struct field *f, const unsigned char *in, unsigned char *out)
{
    for (int64_t i = 0; i < f->row_items; i++) {
        int64_t x = ((const int64_t *)in)[i];
        if (f->dtype == KILN_U64 && x < 0) x = INT64_MAX;
        if (f->out_dtype == KILN_I64)
            ((int64_t *)out)[i] = x;
        else
            ((int32_t *)out)[i] = x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : (int32_t)x;
    }
}

static void convert_row(const struct field *f, const unsigned char *in, unsigned char *out)
{
    bool to_int = f->out_dtype == KILN_I32 || f->out_dtype == KILN_I64;
    if ((f->dtype == KILN_I64 || f->dtype == KILN_U64) && to_int && !f->scales) {
        convert_ints(f, in, out);
    } else if (f->dtype == KILN_U8 && f->out_dtype == KILN_F32 && f->row_items > 256) {
        float table[256];
        for (int i = 0; i < 256; i++) table[i] = (float)apply(f, i);
        for (int64_t i = 0; i < f->row_items; i++) ((float *)out)[i] = table[in[i]];
    } else {
        for (int64_t i = 0; i < f->row_items; i++)
            store_float(f->out_dtype, out, i, apply(f, load_float(f->dtype, in, i)));
    }
}

void field_row(const struct field *f, const unsigned char *in, unsigned char *out)
{
    size_t row_B = field_in_row_B(f);
    if (f->converts)
        convert_row(f, in, out);
    else if (in != out && row_B)
        memcpy(out, in, row_B);
}
