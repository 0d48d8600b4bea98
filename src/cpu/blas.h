// The matrix product of OpenBLAS, opened at run time: the core type that it picks by itself on AMD machines with
// AVX-512 and on machines newer than itself costs half of its speed and more, and the type is read when it loads.
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum cpu_blas_trans { CPU_BLAS_PLAIN = 111, CPU_BLAS_TRANSPOSED = 112 }; // the values of cblas.h
enum { CPU_BLAS_ROW_MAJOR = 101 };

typedef void cpu_sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
                          int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void cpu_dgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a,
                          int lda, const double *b, int ldb, double beta, double *c, int ldc);
typedef void cpu_sgemv_fn(int order, int trans, int m, int n, float alpha, const float *a, int lda, const float *x,
                          int incx, float beta, float *y, int incy);
typedef void cpu_dgemv_fn(int order, int trans, int m, int n, double alpha, const double *a, int lda, const double *x,
                          int incx, double beta, double *y, int incy);

// Of LAPACK, for one class of floats: matrices in column order, sizes of work in numbers, and behind all arguments the
// length of each that is a character. See https://www.netlib.org/lapack/explore-html.
struct cpu_lapack {
    void (*potrf)(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t);
    void (*getrf)(const int *m, const int *n, void *a, const int *lda, int *pivots, int *info);
    void (*getrs)(const char *trans, const int *n, const int *nrhs, const void *a, const int *lda, const int *pivots,
                  void *b, const int *ldb, int *info, size_t);
    void (*trtrs)(const char *uplo, const char *trans, const char *diag, const int *n, const int *nrhs, const void *a,
                  const int *lda, void *b, const int *ldb, int *info, size_t, size_t, size_t);
    void (*syevd)(const char *jobz, const char *uplo, const int *n, void *a, const int *lda, void *w, void *work,
                  const int *lwork, int *iwork, const int *liwork, int *info, size_t, size_t);
    void (*geev)(const char *jobvl, const char *jobvr, const int *n, void *a, const int *lda, void *wr, void *wi,
                 void *vl, const int *ldvl, void *vr, const int *ldvr, void *work, const int *lwork, int *info, size_t,
                 size_t);
    void (*gesdd)(const char *jobz, const int *m, const int *n, void *a, const int *lda, void *s, void *u,
                  const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork, int *iwork, int *info,
                  size_t);
    void (*geqrf)(const int *m, const int *n, void *a, const int *lda, void *tau, void *work, const int *lwork,
                  int *info);
    void (*orgqr)(const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau, void *work,
                  const int *lwork, int *info);
};

struct cpu_blas {
    bool found;     // else the products are the library's own loops
    bool one_pool;  // it takes its threads from the pool of OpenMP; else it runs on the calling thread alone
    char name[128]; // "OpenBLAS 0.3.21 SkylakeX openmp", or what is used in its place
    cpu_sgemm_fn *sgemm;
    cpu_dgemm_fn *dgemm;
    cpu_sgemv_fn *sgemv;
    cpu_dgemv_fn *dgemv;
    bool has_lapack;
    struct cpu_lapack lapack[2]; // f32, f64
};

// Opened at the first call: $KILN_BLAS (a path; "none" for no library), else the OpenMP flavour by its full path, else
// any.
const struct cpu_blas *cpu_blas(void);
