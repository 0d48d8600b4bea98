// What the tests of models share: a function is exported and imported, and both must give the same bits.
#pragma once
#include "../jit/jit_fixture.h"
#include <stdio.h>
#include <unistd.h>

static inline const char *model_file(void)
{
    static char path[64];
    snprintf(path, sizeof path, "model_%d.kiln", (int)getpid());
    return path;
}

static inline void same_bits(kiln_tensor *a, kiln_tensor *b)
{
    assert_non_null(a);
    assert_non_null(b);
    size_t n = (size_t)kiln_numel(a) * kiln_dtype_size(kiln_tensor_dtype(a));
    assert_int_equal(kiln_tensor_dtype(a), kiln_tensor_dtype(b));
    assert_int_equal(kiln_rank(a), kiln_rank(b));
    for (size_t i = 0; i < kiln_rank(a); i++) assert_int_equal(kiln_dims(a)[i], kiln_dims(b)[i]);
    char *x = malloc(n + 1), *y = malloc(n + 1);
    ok(kiln_read(a, x, n));
    ok(kiln_read(b, y, n));
    if (memcmp(x, y, n)) {
        kiln_print(a, stderr);
        kiln_print(b, stderr);
    }
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

// Through a file. The function is the caller's to free; its model goes at once.
static inline kiln_function *through_file(struct fixture *f, kiln_function *j, kiln_tensor *const *in, size_t n_in,
                                          size_t n_out)
{
    ok(kiln_graph_export(j, in, n_in, n_out, model_file(), NULL));
    kiln_model *m = kiln_graph_import(f->dev, model_file());
    if (!m) print_error("%s\n", kiln_error_message());
    assert_non_null(m);
    kiln_function *g = kiln_model_function(m, "main");
    if (!g) print_error("%s\n", kiln_error_message());
    assert_non_null(g);
    kiln_model_free(&m);
    unlink(model_file());
    return g;
}
