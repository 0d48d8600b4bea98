// The library as a program finds it that opens it while it runs: nothing is linked.
#pragma once
#include <kiln/kiln.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#define FUNCTIONS(X) \
    X(device_open) X(device_close) X(ones) X(full) X(add) X(mul) X(matmul) X(item) X(free) X(error_message) X(jit) \
    X(call) X(function_free) X(scope_begin) X(scope_end) X(sum) X(exp)
// clang-format on

#define POINTER(name) __typeof__(kiln_##name) *name;
static struct {
    FUNCTIONS(POINTER)
} k;

static inline void need(int good, const char *what)
{
    if (good) return;
    fprintf(stderr, "failed: %s: %s\n", what, k.error_message ? k.error_message() : "");
    exit(1);
}

static inline void *open_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    need(library != NULL, "dlopen");
    void *symbol;
#define FIND(name)                          \
    symbol = dlsym(library, "kiln_" #name); \
    need(symbol != NULL, "no kiln_" #name); \
    memcpy(&k.name, &symbol, sizeof symbol);
    FUNCTIONS(FIND)
    return library;
}

static inline kiln_status cubes(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = k.sum(k.mul(k.mul(in[0], in[0]), in[0]), NULL);
    return KILN_OK;
}

// Ops, a product large enough for threads, and a captured function, each against what it must be.
static inline void work(kiln_device *dev)
{
    kiln_scope *scope = k.scope_begin();
    kiln_tensor *x = k.full(dev, KILN_F32, KILN_SHAPE(300, 300), 2), *y = k.matmul(x, x);
    need(k.item(k.sum(y, NULL)) == 4.0 * 300 * 300 * 300, "a product");
    kiln_function *f = k.jit(cubes, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        kiln_tensor *out = NULL;
        need(k.call(f, &x, 1, &out, 1) == KILN_OK, "a call");
        need(k.item(out) == 8.0 * 300 * 300, "a captured function");
    }
    k.function_free(&f);
    k.scope_end(&scope);
}
