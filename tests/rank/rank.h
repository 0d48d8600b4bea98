// Ops on tensors of many dimensions: what each gives is computed on the host, in f64, index by index. Sizes are such
// that dimensions do not merge: a launch has as many as the tensor.
#pragma once
#include <kiln/kiln.h>

struct array {
    int rank;
    int64_t dims[KILN_MAX_RANK], n;
    double *v; // row-major, of a pool that lasts until array_drop_all
};

struct array array_new(int rank, const int64_t *dims); // zeros
void array_drop_all(void);
// The first index; the next one, false behind the last.
void index_first(const struct array *a, int64_t *index);
bool index_next(const struct array *a, int64_t *index);
// The element at an index of `rank` dimensions with which the array is broadcast.
double *array_at(const struct array *a, int rank, const int64_t *index);
static inline double at(const struct array *a, int rank, const int64_t *index)
{
    return *array_at(a, rank, index);
}
void array_drop_axes(struct array *a, uint32_t mask); // those of the mask, which have size 1

#define EACH(a, index) for (bool more_ = (index_first((a), (index)), true); more_; more_ = index_next((a), (index)))

enum pattern {
    NO_INPUT,
    FULL,   // 2, but 3 in the middle
    EVEN,   // so, but 1 at odd places
    ODD,    // 1 at even places
    FIRST,  // FULL without its last dimension
    LEFT,   // of a product: EVEN but for the last two dimensions, 2 and 3
    RIGHT,  // ODD, but 3 and 2
    INDEX,  // FULL, integers 0 and 1
    TUPLES, // FIRST, and for each of its elements a place in FULL
};
struct array pattern_array(enum pattern p, int rank, uint32_t seed);
bool pattern_is_index(enum pattern p);

#define RUN(name)       kiln_tensor *run_##name(kiln_tensor *const *in, int rank)
#define WANT(name)      struct array want_##name(const struct array *in, int rank)
#define CASE(name, ...) RUN(name);
#include "cases.def"
#undef CASE
#define CASE(name, ...) WANT(name);
#include "cases.def"
#undef CASE
