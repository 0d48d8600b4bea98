// Affine maps between iteration spaces: what fusion does with strides.
//
// A form is offset + sum k[i] * g[i] over the indices g of a space. A unit that is part of a fused kernel computes, for
// each point of the kernel's space, one point of its own: a form for each of its dimensions.
#pragma once
#include "fuse/kernel.h"

struct form {
    int64_t offset;
    int64_t k[FUSED_MAX_DIMS];
};

struct space {
    int n_dims, n_reduce;
    int64_t sizes[FUSED_MAX_DIMS];
};

struct point_map {
    int n;
    struct form to[FUSED_DIMS];
};

// The dimension `dim` of the space that must be cut, so that its inner part has `inner` indices; 0: none.
struct cut {
    int dim;
    int64_t inner;
};

// Finds the point whose element is `e`: where strides[j] (of sizes[j] indices) and `offset` say how a unit walks a
// buffer, the map p with offset + sum strides[j] * p[j] = e, inside the sizes for every index of the space. False when
// there is none, or when cut->inner says that there is one after that cut.
bool affine_solve(const struct space *s, const struct form *e, int n, const int64_t *sizes, const int64_t *strides,
                  int64_t offset, struct point_map *out, struct cut *cut);

// The form of an operand with these strides, for a unit mapped by m.
void affine_compose(const struct space *s, const struct point_map *m, const int64_t *strides, int64_t offset,
                    struct form *out);

void space_cut(struct space *s, const struct cut *c);
void form_cut(struct form *f, int n_dims, const struct cut *c); // n_dims before the cut
bool form_equal(const struct form *a, const struct form *b, int n_dims);
bool map_equal(const struct point_map *a, const struct point_map *b, int n_dims);
// Whether each point of the unit's space (of these sizes) is met, once for each index of the dimensions that the map
// does not depend on.
bool map_covers(const struct space *s, const struct point_map *m, const int64_t *sizes);
bool map_depends(const struct point_map *m, int dim);
