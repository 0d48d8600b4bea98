// A chain of products in the order of the fewest multiplications: of each part of the chain, from the shortest on, the
// best place to cut it (T. H. Cormen and others, Introduction to Algorithms, 15.2).
#include "compose/composite.h"

enum { CHAIN_MOST = 64 };

struct chain {
    kiln_tensor *matrices[CHAIN_MOST];
    double sizes[CHAIN_MOST + 1]; // matrix i is sizes[i] x sizes[i + 1]
    double cost[CHAIN_MOST][CHAIN_MOST];
    int cut[CHAIN_MOST][CHAIN_MOST];
};

static void find_cuts(struct chain *c, int n)
{
    for (int i = 0; i < n; i++) c->cost[i][i] = 0;
    for (int length = 2; length <= n; length++)
        for (int i = 0; i + length <= n; i++) {
            int j = i + length - 1;
            for (int k = i; k < j; k++) {
                double cost = c->cost[i][k] + c->cost[k + 1][j] + c->sizes[i] * c->sizes[k + 1] * c->sizes[j + 1];
                if (k > i && cost >= c->cost[i][j]) continue;
                c->cost[i][j] = cost;
                c->cut[i][j] = k;
            }
        }
}

static kiln_tensor *multiply(const struct chain *c, int i, int j)
{
    if (i == j) return c->matrices[i];
    kiln_tensor *left = multiply(c, i, c->cut[i][j]);
    return kiln_matmul(left, multiply(c, c->cut[i][j] + 1, j));
}

static bool is_refused(kiln_tensor *const *tensors, size_t n)
{
    if (n < 1 || n > CHAIN_MOST) {
        error_set(KILN_E_ARGUMENT, "takes 1 to %d matrices, not %zu", CHAIN_MOST, n);
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        size_t rank = kiln_rank(tensors[i]);
        if (rank == 2 || (rank == 1 && n > 1 && (i == 0 || i + 1 == n))) continue;
        error_set(KILN_E_SHAPE, "tensors[%zu] must be a matrix%s, it is %s", i,
                  n > 1 && (i == 0 || i + 1 == n) ? " or a vector" : "", type_of(tensors[i]).s);
        return true;
    }
    for (size_t i = 0; i + 1 < n; i++) {
        if (kiln_dim(tensors[i], -1) == kiln_dims(tensors[i + 1])[0]) continue;
        error_set(KILN_E_SHAPE, "inner dimensions differ: tensors[%zu] is %s, tensors[%zu] is %s", i,
                  type_of(tensors[i]).s, i + 1, type_of(tensors[i + 1]).s);
        return true;
    }
    return false;
}

kiln_tensor *compose_multi_dot(kiln_tensor *const *tensors, size_t n)
{
    struct chain c;
    if (is_refused(tensors, n)) return NULL;
    if (n == 1) return kiln_alias(tensors[0]);
    for (size_t i = 0; i < n; i++) {
        bool row = i == 0 && kiln_rank(tensors[i]) == 1;
        c.matrices[i] = tensors[i];
        c.sizes[i] = row ? 1 : (double)kiln_dims(tensors[i])[0];
    }
    c.sizes[n] = kiln_rank(tensors[n - 1]) == 1 ? 1 : (double)kiln_dim(tensors[n - 1], -1);
    find_cuts(&c, (int)n);
    return multiply(&c, 0, (int)n - 1);
}
