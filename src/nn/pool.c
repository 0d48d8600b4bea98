// Pooling of lines and volumes, to sizes, and other sizes; that of images is in basic.c.
#include "nn/cell.h"
#include "base/options.h"

#include <kiln/composites.h>
#include <kiln/nn_images.h>
#include <stdio.h>
#include <string.h>

#define RUN(name)                                                                                                      \
    static kiln_status run_##name(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, \
                                  size_t n_out)                                                                        \
    {                                                                                                                  \
        out[0] = kiln_##name(in[0], user);                                                                             \
        return kiln_error();                                                                                           \
    }
RUN(max_pool1d)
RUN(avg_pool1d)
RUN(max_pool3d)
RUN(avg_pool3d)

static kiln_cell *with_options(const char *kind, kiln_construct_fn run, const void *o, size_t size_B)
{
    kiln_cell *cell = kiln_error() ? NULL : cell_make(kind, run, size_B);
    if (cell) memcpy(cell->user, o, size_B);
    return cell;
}

static kiln_cell *of_lines(const char *kind, kiln_construct_fn run, const struct kiln_pool1d_opts *opts)
{
    kiln_pool1d_opts o;
    char name[32];
    snprintf(name, sizeof name, "nn_%s", kind);
    if (options_read_as(name, "KILN_POOL1D", &o, sizeof o, opts)) return NULL;
    o.size = sizeof o;
    return with_options(kind, run, &o, sizeof o);
}

static kiln_cell *of_volumes(const char *kind, kiln_construct_fn run, const struct kiln_pool3d_opts *opts)
{
    kiln_pool3d_opts o;
    char name[32];
    snprintf(name, sizeof name, "nn_%s", kind);
    if (options_read_as(name, "KILN_POOL3D", &o, sizeof o, opts)) return NULL;
    o.size = sizeof o;
    return with_options(kind, run, &o, sizeof o);
}

kiln_cell *kiln_nn_max_pool1d(const struct kiln_pool1d_opts *opts)
{
    return of_lines("max_pool1d", run_max_pool1d, opts);
}

kiln_cell *kiln_nn_avg_pool1d(const struct kiln_pool1d_opts *opts)
{
    return of_lines("avg_pool1d", run_avg_pool1d, opts);
}

kiln_cell *kiln_nn_max_pool3d(const struct kiln_pool3d_opts *opts)
{
    return of_volumes("max_pool3d", run_max_pool3d, opts);
}

kiln_cell *kiln_nn_avg_pool3d(const struct kiln_pool3d_opts *opts)
{
    return of_volumes("avg_pool3d", run_avg_pool3d, opts);
}

// --- to sizes

struct sizes {
    size_t n;
    int64_t v[3];
};

static kiln_status run_adaptive_avg(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                    size_t n_out)
{
    const struct sizes *s = user;
    out[0] = s->n == 1   ? kiln_adaptive_avg_pool1d(in[0], s->v[0])
             : s->n == 2 ? kiln_adaptive_avg_pool2d(in[0], s->v[0], s->v[1])
                         : kiln_adaptive_avg_pool3d(in[0], s->v[0], s->v[1], s->v[2]);
    return kiln_error();
}

static kiln_status run_adaptive_max(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                    size_t n_out)
{
    const struct sizes *s = user;
    out[0] = s->n == 1   ? kiln_adaptive_max_pool1d(in[0], s->v[0])
             : s->n == 2 ? kiln_adaptive_max_pool2d(in[0], s->v[0], s->v[1])
                         : kiln_adaptive_max_pool3d(in[0], s->v[0], s->v[1], s->v[2]);
    return kiln_error();
}

static kiln_cell *adaptive(const char *kind, kiln_construct_fn run, size_t rank, const int64_t *dims)
{
    struct sizes s = {.n = rank};
    if (kiln_error()) return NULL;
    if (rank < 1 || rank > 3)
        error_set(KILN_E_ARGUMENT, "nn_%s: dims must be 1, 2 or 3 sizes, there are %zu", kind, rank);
    else if (!dims)
        error_set(KILN_E_ARGUMENT, "nn_%s: dims is NULL", kind);
    for (size_t i = 0; i < rank && !kiln_error(); i++) {
        s.v[i] = dims[i];
        if (dims[i] < 0) error_set(KILN_E_ARGUMENT, "nn_%s: size %zu is %lld", kind, i, (long long)dims[i]);
    }
    return with_options(kind, run, &s, sizeof s);
}

kiln_cell *kiln_nn_adaptive_avg_pool(size_t rank, const int64_t *dims)
{
    return adaptive("adaptive_avg_pool", run_adaptive_avg, rank, dims);
}

kiln_cell *kiln_nn_adaptive_max_pool(size_t rank, const int64_t *dims)
{
    return adaptive("adaptive_max_pool", run_adaptive_max, rank, dims);
}

// --- other sizes

struct upsampling {
    int64_t sizes[3];
    char mode[16];
    kiln_interpolate_opts o; // what it points to lies here
};

static kiln_status run_upsample(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                size_t n_out)
{
    out[0] = kiln_interpolate(in[0], &((const struct upsampling *)user)->o);
    return kiln_error();
}

kiln_cell *kiln_nn_upsample(const struct kiln_interpolate_opts *opts)
{
    struct upsampling u = {.mode = ""};
    if (options_read_as("nn_upsample", "KILN_INTERPOLATE", &u.o, sizeof u.o, opts) || kiln_error()) return NULL;
    if (u.o.sizes.count > 3 || (u.o.sizes.count && !u.o.sizes.v) || !u.o.sizes.count == (u.o.scale == 0))
        error_set(KILN_E_ARGUMENT,
                  "nn_upsample: either .sizes, at most 3, or .scale is needed; there are %zu%s, .scale is %g",
                  u.o.sizes.count, u.o.sizes.count && !u.o.sizes.v ? " at NULL" : "", u.o.scale);
    else if (u.o.mode && strlen(u.o.mode) >= sizeof u.mode)
        error_set(KILN_E_ARGUMENT, "nn_upsample: unknown .mode \"%.40s\"", u.o.mode);
    if (kiln_error()) return NULL;
    if (u.o.sizes.count) memcpy(u.sizes, u.o.sizes.v, u.o.sizes.count * sizeof *u.sizes);
    if (u.o.mode) strcpy(u.mode, u.o.mode);
    u.o.size = sizeof u.o;
    kiln_cell *cell = with_options("upsample", run_upsample, &u, sizeof u);
    if (!cell) return NULL;
    struct upsampling *own = cell->user;
    own->o.sizes.v = own->sizes;
    if (u.o.mode) own->o.mode = own->mode;
    return cell;
}
