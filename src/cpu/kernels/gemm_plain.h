// Vectors of UNIT for the register kernel where no instructions are named: 16 bytes, as the compiler likes.
#pragma once
#include <string.h>

typedef UNIT plain_vector __attribute__((vector_size(16)));
#define VECTOR plain_vector
#define LANES  ((int)(sizeof(plain_vector) / sizeof(UNIT)))
#define ZERO()     \
    (plain_vector) \
    {              \
        0          \
    }
#define ALL(at)  ((plain_vector){0} + *(const UNIT *)(const void *)(at))
#define LOAD(at) load_first(LANES, at)
#define HOLD(v)
#define MULADD(x, y, s)       ((s) + (x) * (y))
#define MASK                  int64_t
#define FIRST(n)              ((n) < LANES ? (n) : LANES)
#define LOAD_FIRST(m, at)     load_first(m, at)
#define SUM_FIRST(m, at, s)   (load_first(m, at) + (s))
#define SUM_ALL(at, s)        (load_first(LANES, at) + (s))
#define STORE_ALL(at, s)      memcpy(at, &(s), sizeof(plain_vector))
#define STORE_FIRST(m, at, s) memcpy(at, &(s), (size_t)(m) * sizeof *(at))

static inline plain_vector load_first(int64_t n, const void *at)
{
    plain_vector v = {0};
    if (n >= LANES)
        memcpy(&v, at, sizeof v);
    else
        memcpy(&v, at, (size_t)n * sizeof(UNIT));
    return v;
}
