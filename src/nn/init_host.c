// Initialisers that the host computes in f64: orthogonal, dirac, eye.
#include "nn/init.h"
#include "nn/cell.h"

#include <inttypes.h>
#include <kiln/ops.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Elements of the dimensions from `first` on, -1 where a size is negative or the bytes in f64 overflow.
static int64_t count(size_t rank, const int64_t *dims, size_t first)
{
    int64_t n = 1, bytes;
    bool empty = false, bad = false;
    for (size_t i = first; i < rank; i++) {
        bad |= dims[i] < 0;
        empty |= dims[i] == 0;
        if (dims[i] > 0) bad |= __builtin_mul_overflow(n, dims[i], &n);
    }
    bad |= __builtin_mul_overflow(n, (int64_t)sizeof(double), &bytes);
    return bad ? -1 : empty ? 0 : n;
}

kiln_tensor *init_by_host(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, const char *name,
                          init_fill_fn fill, double number)
{
    int64_t n = count(rank, dims, 0);
    if (n < 0) {
        error_set(KILN_E_SHAPE, "initializer: \"%s\" of a shape that has a negative size or is too large", name);
        return NULL;
    }
    double *v = calloc((size_t)n + 1, sizeof *v);
    if (!v) error_set(KILN_E_MEMORY, "initializer: no memory for %" PRId64 " numbers", n);
    kiln_tensor *t = NULL;
    if (v && !fill(dev, v, rank, dims, number)) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_dtype wide = dtype == KILN_F64 ? KILN_F64 : KILN_F32;
        float *narrow = (float *)v;
        // Element i of the narrow ones ends before element i of the wide ones begins, or where it begins.
        for (int64_t i = 0; wide == KILN_F32 && i < n; i++) {
            float x = (float)v[i];
            memcpy(&narrow[i], &x, sizeof x);
        }
        t = scope_return(&scope, kiln_cast(kiln_from_data(dev, wide, rank, dims, v), dtype));
    }
    free(v);
    return t;
}

// --- orthogonal
//
// Rows of a normal matrix made orthonormal one after the other (Gram and Schmidt, each twice, which keeps them so to
// the last digits: Giraud et al. 2005). The lengths that are divided away are positive: the result is the factor Q of a
// QR with a positive diagonal, evenly distributed among the orthogonal matrices (Mezzadri 2007).

static double dot(const double *a, const double *b, int64_t n)
{
    double sum[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int64_t k = 0; k < 4; k++) sum[k] += a[i + k] * b[i + k];
    for (; i < n; i++) sum[0] += a[i] * b[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

static void project_off(double *row, const double *others, int64_t n_others, int64_t n)
{
    for (int64_t k = 0; k < n_others; k++) {
        const double *other = others + k * n;
        double along = dot(row, other, n);
        for (int64_t i = 0; i < n; i++) row[i] -= along * other[i];
    }
}

// False where the rows do not span enough, as those of a device that computes nothing.
static bool make_orthonormal(double *rows, int64_t n_rows, int64_t n)
{
    for (int64_t k = 0; k < n_rows; k++) {
        double *row = rows + k * n;
        for (int turn = 0; turn < 2; turn++) {
            project_off(row, rows, k, n);
            double length = sqrt(dot(row, row, n));
            if (!(length > 1e-12)) return false;
            for (int64_t i = 0; i < n; i++) row[i] /= length;
        }
    }
    return true;
}

static kiln_status draw_normal(kiln_device *dev, double *out, int64_t n_rows, int64_t n)
{
    float *drawn = malloc((size_t)(n_rows * n) * sizeof *drawn);
    if (!drawn) return error_set(KILN_E_MEMORY, "initializer: no memory for %" PRId64 " numbers", n_rows * n);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *t = kiln_normal(dev, KILN_F32, KILN_SHAPE(n_rows, n), 0, 1);
    kiln_status status = t ? kiln_read(t, drawn, (size_t)(n_rows * n) * sizeof *drawn) : error_pending;
    kiln_scope_end(&scope);
    for (int64_t i = 0; i < n_rows * n && !status; i++) out[i] = drawn[i];
    free(drawn);
    return status;
}

kiln_status init_orthogonal(kiln_device *dev, double *out, size_t rank, const int64_t *dims, double gain)
{
    if (rank < 2) return error_set(KILN_E_SHAPE, "initializer: \"orthogonal\" needs two axes, the rank is %zu", rank);
    int64_t rows = dims[0], columns = count(rank, dims, 1);
    int64_t few = rows < columns ? rows : columns, many = rows < columns ? columns : rows;
    if (few == 0) return KILN_OK;
    double *q = malloc((size_t)(few * many) * sizeof *q);
    if (!q) return error_set(KILN_E_MEMORY, "initializer: no memory for %" PRId64 " numbers", few * many);
    kiln_status status = draw_normal(dev, q, few, many);
    if (!status && !make_orthonormal(q, few, many))
        status = error_set(KILN_E_STATE, "initializer: \"orthogonal\" drew rows that depend on each other");
    for (int64_t i = 0; i < few && !status; i++)
        for (int64_t k = 0; k < many; k++) out[rows < columns ? i * many + k : k * few + i] = gain * q[i * many + k];
    free(q);
    return status;
}

// --- what hands its input on

kiln_status init_dirac(kiln_device *dev, double *out, size_t rank, const int64_t *dims, double groups)
{
    if (rank < 3) return error_set(KILN_E_SHAPE, "initializer: \"dirac\" needs three axes, the rank is %zu", rank);
    int64_t n_groups = (int64_t)groups, field = count(rank, dims, 2);
    if (dims[0] % n_groups)
        return error_set(KILN_E_SHAPE, "initializer: \"dirac(%" PRId64 ")\" of %" PRId64 " output channels", n_groups,
                         dims[0]);
    int64_t centre = 0, of_group = dims[0] / n_groups;
    for (size_t i = 2; i < rank; i++) centre = centre * dims[i] + dims[i] / 2;
    if (field == 0) return KILN_OK;
    for (int64_t o = 0; o < dims[0]; o++) {
        int64_t in = o % of_group;
        if (in < dims[1]) out[(o * dims[1] + in) * field + centre] = 1;
    }
    return KILN_OK;
}

kiln_status init_eye(kiln_device *dev, double *out, size_t rank, const int64_t *dims, double number)
{
    if (rank != 2) return error_set(KILN_E_SHAPE, "initializer: \"eye\" needs two axes, the rank is %zu", rank);
    for (int64_t i = 0; i < dims[0] && i < dims[1]; i++) out[i * dims[1] + i] = 1;
    return KILN_OK;
}
