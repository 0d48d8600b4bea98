// Rows that go by index: gathers, scatters, sorts, searches.
#include "bench.h"

kiln_status setup_labels(struct state *s)
{
    setup_matrix_read(s);
    own_input(s, 1, kiln_randint(s->dev, KILN_I64, KILN_SHAPE(s->z->r), 0, s->z->c));
    return kiln_error();
}

kiln_status setup_gather(struct state *s)
{
    setup_labels(s);
    s->bytes *= 2;
    return kiln_error();
}

kiln_status run_cross_entropy(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_cross_entropy(in[0], in[1], NULL);
    return kiln_error();
}

kiln_status run_gather_rows(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_index_select(in[0], 0, kiln_remainder(in[1], kiln_scalar_int(4096)));
    return kiln_error();
}

// Places of a vector among sorted numbers.
kiln_status setup_search(struct state *s)
{
    kiln_tensor *sorted, *order;
    random_input(s, 1, KILN_SHAPE(s->z->n));
    kiln_sort(kiln_normal(s->dev, KILN_F32, KILN_SHAPE(s->z->n / 16), 0, 1), 0, false, &sorted, &order);
    if (kiln_error()) return kiln_error();
    own_input(s, 0, sorted);
    return kiln_error();
}

kiln_status run_search(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_searchsorted(in[0], in[1], false);
    return kiln_error();
}

kiln_status run_histogram(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *edges;
    kiln_histogram(in[0], 100, KILN_HISTOGRAM(.lo = -3, .hi = 3), out, &edges);
    return kiln_error();
}

// A class of each row, by its logits.
kiln_status run_categorical(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_categorical(in[0], KILN_SHAPE0);
    return kiln_error();
}

// --- sorting

kiln_status setup_sort(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->r / 4, s->z->c));
    return kiln_error();
}

kiln_status run_sort(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    return kiln_sort(in[0], -1, false, &out[0], &out[1]);
}

kiln_status run_topk(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    return kiln_topk(in[0], 10, -1, true, &out[0], &out[1]);
}

// --- element by element

// A place in the row for a quarter of the columns.
kiln_status setup_gather_cols(struct state *s)
{
    int64_t columns = s->z->c / 4;
    random_input(s, 0, KILN_SHAPE(s->z->r, s->z->c));
    own_input(s, 1, kiln_randint(s->dev, KILN_I64, KILN_SHAPE(s->z->r, columns), 0, s->z->c));
    s->bytes = 16.0 * (double)(s->z->r * columns);
    return kiln_error();
}

kiln_status run_gather_cols(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_gather(in[0], 1, in[1]);
    return kiln_error();
}

// To rows of a table of 64, by an index for each element; in: table, index, source.
kiln_status setup_scatter_add(struct state *s)
{
    int64_t rows = s->z->r / 4, columns = s->z->c;
    random_input(s, 0, KILN_SHAPE(64, columns));
    own_input(s, 1, kiln_randint(s->dev, KILN_I64, KILN_SHAPE(rows, columns), 0, 64));
    random_input(s, 2, KILN_SHAPE(rows, columns));
    s->bytes = 12.0 * (double)(rows * columns);
    return kiln_error();
}

kiln_status run_scatter_add(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_scatter_add(in[0], 0, in[1], in[2]);
    return kiln_error();
}

kiln_status setup_take(struct state *s)
{
    int64_t count = s->z->n / 4;
    random_input(s, 0, KILN_SHAPE(s->z->n));
    own_input(s, 1, kiln_randint(s->dev, KILN_I64, KILN_SHAPE(count), 0, s->z->n));
    s->bytes = 16.0 * (double)count;
    return kiln_error();
}

kiln_status run_take(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_take(in[0], 0, in[1]);
    return kiln_error();
}

// --- rows of a table, and the gradient of the table

kiln_status setup_embedding_grad(struct state *s)
{
    int64_t ids = 2 * s->z->r, width = s->z->c / 4;
    random_input(s, 0, KILN_SHAPE(s->z->r, width));
    own_input(s, 1, kiln_randint(s->dev, KILN_I64, KILN_SHAPE(ids), 0, s->z->r));
    own_sensitivity(s);
    s->bytes = 4.0 * (double)(3 * ids * width + 2 * s->z->r * width);
    return kiln_error();
}

kiln_status run_embedding(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_embedding(in[0], in[1]);
    return kiln_error();
}
