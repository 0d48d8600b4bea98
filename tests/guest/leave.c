// usage: leave HOW MS [DEVICE]: ends the process after MS milliseconds, in the midst of things: "background", a
// function compiles in the background; "threads", threads compile, multiply and take gradients.
#include "guest.h"

// Products part it into many kernels.
static kiln_status many_kernels(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    static kiln_tensor *(*const ops[])(kiln_tensor *) = {kiln_tanh, kiln_sin, kiln_erf,  kiln_sigmoid, kiln_softplus,
                                                         kiln_cos,  kiln_exp, kiln_atan, kiln_expm1,   kiln_asinh};
    (void)user, (void)n_in, (void)n_out;
    kiln_tensor *x = in[0];
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) x = kiln_matmul(kiln_softmax(ops[i](x), i % 2), in[0]);
    out[0] = x;
    return kiln_error();
}

static void *compile_on(void *number)
{
    for (int i = *(const int *)number;; i++) work_anew(1 + i % 15);
    return NULL;
}

static void *multiply_on(void *unused)
{
    kiln_tensor *a = kiln_full(dev, KILN_F32, KILN_SHAPE(1024, 1024), 2);
    for (;;) {
        kiln_scope *scope = kiln_scope_begin();
        NEED(kiln_matmul(a, a) != NULL);
        kiln_scope_end(&scope);
    }
    return unused;
}

static void *train_on(void *unused)
{
    kiln_tensor *w = kiln_parameter(kiln_full(dev, KILN_F32, KILN_SHAPE(64), 2), "w");
    for (;;) {
        kiln_scope *scope = kiln_scope_begin();
        NEED(!kiln_backward(kiln_sum(kiln_softplus(kiln_mul(w, w)), NULL), NULL));
        kiln_scope_end(&scope);
    }
    return unused;
}

int main(int argc, char **argv)
{
    static const int numbers[] = {0, 7};
    pthread_t thread;
    NEED(argc >= 3);
    dev = kiln_device_open(argc > 3 ? argv[3] : "cpu");
    NEED(dev != NULL);
    if (!strcmp(argv[1], "background")) {
        kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(32, 32), 1. / 32), *y = NULL;
        kiln_function *f = kiln_jit(many_kernels, NULL, KILN_JIT(.background = true));
        NEED(!kiln_call(f, &x, 1, &y, 1) && y);
    } else {
        for (int i = 0; i < 2; i++) NEED(!pthread_create(&thread, NULL, compile_on, (void *)&numbers[i]));
        NEED(!pthread_create(&thread, NULL, multiply_on, NULL));
        NEED(!pthread_create(&thread, NULL, train_on, NULL));
    }
    sleep_ms(atoi(argv[2]));
    return 0;
}
