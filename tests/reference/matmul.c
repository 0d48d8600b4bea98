// Matrix products: three loops, with the batch dimensions broadcast.
#include "reference/structured.h"

// An operand as batch x rows x columns.
struct operand {
    const struct host *h;
    struct host batch; // shape only
    int64_t rows, cols;
};

static struct operand operand_of(const struct host *h, bool left)
{
    struct operand o = {.h = h, .rows = 1, .cols = 1};
    o.batch = (struct host){.rank = h->rank > 2 ? h->rank - 2 : 0};
    for (int i = 0; i < o.batch.rank; i++) o.batch.dims[i] = h->dims[i];
    if (h->rank == 1) {
        if (left)
            o.cols = h->dims[0];
        else
            o.rows = h->dims[0];
    } else {
        o.rows = h->dims[h->rank - 2];
        o.cols = h->dims[h->rank - 1];
    }
    return o;
}

static long double at(const struct operand *o, int64_t batch, int64_t row, int64_t col)
{
    return o->h->v[(batch * o->rows + row) * o->cols + col];
}

struct host reference_matmul(const struct host *a, const struct host *b, int dtype, struct host *scale)
{
    struct operand l = operand_of(a, true), r = operand_of(b, false);
    int batch_rank = l.batch.rank > r.batch.rank ? l.batch.rank : r.batch.rank, rank;
    int64_t dims[HOST_MAX_RANK], batches = 1;
    for (int i = 0; i < batch_rank; i++) {
        int il = i - (batch_rank - l.batch.rank), ir = i - (batch_rank - r.batch.rank);
        dims[i] = il >= 0 && l.batch.dims[il] != 1 ? l.batch.dims[il] : ir >= 0 ? r.batch.dims[ir] : 1;
        batches *= dims[i];
    }
    rank = batch_rank;
    if (a->rank > 1) dims[rank++] = l.rows;
    if (b->rank > 1) dims[rank++] = r.cols;
    struct host out = host_new(dtype, rank, dims);
    if (scale) *scale = host_new(dtype, rank, dims);
    int64_t n = 0;
    for (int64_t i = 0; i < batches; i++) {
        int64_t bl = host_at(&l.batch, batch_rank, dims, i), br = host_at(&r.batch, batch_rank, dims, i);
        for (int64_t row = 0; row < l.rows; row++)
            for (int64_t col = 0; col < r.cols; col++, n++) {
                long double sum = 0, size = 0;
                int64_t isum = 0;
                for (int64_t k = 0; k < l.cols; k++) {
                    long double x = at(&l, bl, row, k), y = at(&r, br, k, col);
                    if (!is_float(dtype)) isum = wrap_add(isum, wrap_mul(integer_bits(x), integer_bits(y)));
                    sum += x * y;
                    size += fabsl(x * y);
                }
                out.v[n] = is_float(dtype) ? sum : wrapped(dtype, isum);
                if (scale) scale->v[n] = size;
            }
    }
    return out;
}
