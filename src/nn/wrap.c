// Cells around functions and other cells, and gated units.
#include "nn/cell.h"
#include "base/handles.h"

#include <inttypes.h>
#include <kiln/composites.h>
#include <kiln/ops.h>
#include <string.h>

static kiln_status run_identity(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                size_t n_out)
{
    out[0] = in[0];
    return KILN_OK;
}

kiln_cell *kiln_nn_identity(void)
{
    return cell_make("identity", run_identity, 0);
}

static kiln_status run_residual(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                size_t n_out)
{
    kiln_tensor *y = kiln_cell_call(kiln_cell_child(cell, "body"), in[0]);
    out[0] = kiln_add(in[0], y);
    return kiln_error();
}

kiln_cell *kiln_nn_residual(kiln_cell *body)
{
    kiln_cell *cell = cell_make("residual", run_residual, 0);
    kiln_cell_add_child(cell, "body", body); // frees it where there is no cell
    return cell_or_null(cell);
}

struct lambda {
    kiln_fn fn;
    void *user;
};

static kiln_status run_lambda(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                              size_t n_out)
{
    const struct lambda *l = user;
    return l->fn(l->user, in, n_in, out, n_out);
}

kiln_cell *kiln_nn_lambda(kiln_fn fn, void *user)
{
    if (!kiln_error() && !fn) error_set(KILN_E_ARGUMENT, "nn_lambda: fn is NULL");
    kiln_cell *cell = cell_make("lambda", run_lambda, sizeof(struct lambda));
    if (!cell) return NULL;
    *(struct lambda *)cell->user = (struct lambda){fn, user};
    cell->n_in = cell->n_out = 0;
    return cell;
}

struct unflatten {
    int64_t axis;
    size_t rank;
    int64_t dims[KILN_MAX_RANK];
};

static kiln_status run_unflatten(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                 size_t n_out)
{
    const struct unflatten *u = user;
    size_t rank = kiln_rank(in[0]), n = 0;
    int64_t axis = u->axis < 0 ? u->axis + (int64_t)rank : u->axis, dims[2 * KILN_MAX_RANK];
    if (axis < 0 || axis >= (int64_t)rank || rank - 1 + u->rank > KILN_MAX_RANK)
        return error_set(KILN_E_AXIS, "unflatten cell: axis %" PRId64 " of rank %zu cannot become %zu axes", u->axis,
                         rank, u->rank);
    for (size_t i = 0; i < rank; i++) {
        if ((int64_t)i != axis) dims[n++] = kiln_dims(in[0])[i];
        for (size_t k = 0; (int64_t)i == axis && k < u->rank; k++) dims[n++] = u->dims[k];
    }
    out[0] = kiln_reshape(in[0], n, dims);
    return kiln_error();
}

kiln_cell *kiln_nn_unflatten(int64_t axis, size_t rank, const int64_t *dims)
{
    if (!kiln_error() && (rank < 1 || rank > KILN_MAX_RANK))
        error_set(KILN_E_ARGUMENT, "nn_unflatten: there must be 1 to %d sizes, got %zu", KILN_MAX_RANK, rank);
    if (!kiln_error() && !dims) error_set(KILN_E_ARGUMENT, "nn_unflatten: dims is NULL, rank %zu", rank);
    kiln_cell *cell = cell_make("unflatten", run_unflatten, sizeof(struct unflatten));
    if (!cell) return NULL;
    struct unflatten *u = cell->user;
    u->axis = axis;
    u->rank = rank;
    memcpy(u->dims, dims, rank * sizeof *dims);
    return cell;
}

// --- gated units, by name

static const struct gated {
    const char *name;
    kiln_tensor *(*fn)(kiln_tensor *x, int64_t axis);
} gated_units[] = {{"glu", kiln_glu},
                   {"swiglu", kiln_swiglu},
                   {"geglu", kiln_geglu},
                   {"reglu", kiln_reglu},
                   {"bilinear_glu", kiln_bilinear_glu}};

struct glu {
    const struct gated *unit;
    int64_t axis;
};

static kiln_status run_glu(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                           size_t n_out)
{
    const struct glu *g = user;
    out[0] = g->unit->fn(in[0], g->axis);
    return kiln_error();
}

kiln_cell *kiln_nn_glu(const char *kind, int64_t axis)
{
    const struct gated *unit = kind ? NULL : gated_units;
    for (size_t i = 0; kind && i < COUNT_OF(gated_units); i++)
        if (!strcmp(kind, gated_units[i].name)) unit = &gated_units[i];
    if (!kiln_error() && !unit)
        error_set(KILN_E_ARGUMENT,
                  "nn_glu: unknown \"%s\"; there are \"glu\", \"swiglu\", \"geglu\", \"reglu\", \"bilinear_glu\"",
                  kind);
    if (kiln_error()) return NULL;
    kiln_cell *cell = cell_make(unit->name, run_glu, sizeof(struct glu));
    if (cell) *(struct glu *)cell->user = (struct glu){unit, axis};
    return cell;
}
