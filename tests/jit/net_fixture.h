// A small net whose gradients AUTO is tried with.
#pragma once
#include "jit_fixture.h"

struct net {
    kiln_tensor *w[3]; // [3, 3], [3], [3, 1]
    double read;
    bool silent;
};

static inline struct net make_net(struct fixture *f)
{
    struct net n = {.read = 0};
    n.w[0] = kiln_parameter(mat(f, 3, 3, .1, -.2, .3, .4, .5, -.6, .7, -.8, .9), "a");
    n.w[1] = kiln_parameter(vec(f, 3, .1, .2, .3), "b");
    n.w[2] = kiln_parameter(mat(f, 3, 1, .7, -.8, .9), "c");
    return n;
}

static inline kiln_tensor *batch(struct fixture *f, int i)
{
    return mat(f, 2, 3, 1. + i, 2., 3., -1., .5 * i, .25);
}

// --- functions. `user` is a net; in[0] is [2, 3].

static inline kiln_tensor *hidden(struct net *n, kiln_tensor *x)
{
    return kiln_tanh(kiln_add(kiln_matmul(x, n->w[0]), n->w[1]));
}

static inline kiln_status no_break(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    out[0] = kiln_mean(kiln_square(kiln_matmul(hidden(n, in[0]), n->w[2])), NULL);
    return kiln_error();
}

static inline kiln_status one_break(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    kiln_tensor *h = hidden(n, in[0]);
    n->read = kiln_item(kiln_sum(h, NULL));
    kiln_tensor *y = kiln_exp(kiln_mul(h, kiln_sigmoid(h))); // of the first segment, twice
    out[0] = kiln_sum(kiln_matmul(y, n->w[2]), NULL);
    return kiln_error();
}

static inline kiln_status two_breaks(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    kiln_tensor *h = hidden(n, in[0]);
    n->read = kiln_item(kiln_sum(h, NULL));
    kiln_tensor *g = hidden(n, kiln_exp(h));
    n->read += kiln_item(kiln_max(g, NULL));
    out[0] = kiln_mean(kiln_square(kiln_add(kiln_matmul(g, n->w[2]), kiln_sum(h, NULL))), NULL);
    return kiln_error();
}

static inline void same_gradients(struct net *a, struct net *b, kiln_tensor *x, kiln_tensor *y)
{
    for (int k = 0; k < 3; k++) {
        assert_true(!kiln_gradient(a->w[k]) == !kiln_gradient(b->w[k]));
        if (kiln_gradient(a->w[k])) same(kiln_gradient(a->w[k]), kiln_gradient(b->w[k]));
        ok(kiln_set_gradient(a->w[k], NULL));
        ok(kiln_set_gradient(b->w[k], NULL));
    }
    same(kiln_gradient(x), kiln_gradient(y));
}
