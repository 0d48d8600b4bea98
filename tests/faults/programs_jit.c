// Programs that capture: each kind of capture with a gradient, called more than once.
#include "faults.h"

#include <kiln/bundle.h>
#include <kiln/control.h>
#include <kiln/host.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static kiln_tensor *chain(kiln_tensor *x, kiln_tensor *w)
{
    return kiln_mul(kiln_softmax(kiln_matmul(x, w), 1), kiln_add(x, kiln_scalar(1)));
}

static kiln_status strict_loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_square(chain(in[0], user)), NULL);
    return kiln_error();
}

// Asks for a value in its midst; what follows depends on it.
static kiln_status reading_loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = chain(in[0], user);
    bool large = kiln_item(kiln_sum(in[0], NULL)) > -1000;
    if (kiln_error()) return kiln_error();
    out[0] = kiln_sum(large ? kiln_square(y) : kiln_exp(y), NULL);
    return kiln_error();
}

struct world {
    kiln_device *dev;
    kiln_scope *scope;
    kiln_tensor *x, *w;
};

static void world_open(struct world *k, const char *device)
{
    float v[16];
    for (int i = 0; i < 16; i++) v[i] = (float)(i % 5) / 8;
    k->dev = kiln_device_open(device);
    k->scope = kiln_scope_begin();
    k->x = kiln_from_data(k->dev, KILN_F32, KILN_SHAPE(4, 4), v);
    k->w = kiln_parameter(kiln_from_data(k->dev, KILN_F32, KILN_SHAPE(4, 4), v), "w");
}

static void world_close(struct world *k)
{
    kiln_scope_end(&k->scope);
    kiln_device_close(&k->dev);
}

static void call_thrice(const char *device, struct outcome *o, kiln_fn fn, const kiln_jit_opts *opts)
{
    struct world k;
    world_open(&k, device);
    kiln_function *f = kiln_jit(fn, k.w, opts);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *y = NULL;
        kiln_call(f, &k.x, 1, &y, 1);
        outcome_add(o, y);
        kiln_backward(y, NULL);
        outcome_add(o, k.w ? kiln_gradient(k.w) : NULL);
    }
    kiln_function_free(&f);
    world_close(&k);
}

static void run_strict(const char *device, struct outcome *o)
{
    call_thrice(device, o, strict_loss, NULL);
}

static void run_trace(const char *device, struct outcome *o)
{
    call_thrice(device, o, reading_loss, KILN_JIT(.capture = KILN_CAPTURE_TRACE));
}

static void run_auto(const char *device, struct outcome *o)
{
    call_thrice(device, o, reading_loss, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
}

static void run_background(const char *device, struct outcome *o)
{
    call_thrice(device, o, strict_loss, KILN_JIT(.background = true));
}

static void run_region(const char *device, struct outcome *o)
{
    struct world k;
    world_open(&k, device);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *y = NULL;
        KILN_CAPTURE(k.dev)
        {
            if (!reading_loss(k.w, &k.x, 1, &y, 1)) y = kiln_own(y);
        }
        outcome_add(o, y);
        kiln_free(&y);
    }
    world_close(&k);
}

static kiln_status bundle_loss(void *user, kiln_bundle *in, kiln_bundle **out)
{
    kiln_bundle *inside = kiln_bundle_bundle(in, "inside");
    kiln_tensor *y = kiln_mul(chain(kiln_bundle_tensor(inside, "x"), user), kiln_bundle_tensor(inside, "scale"));
    *out = kiln_bundle_create();
    kiln_bundle_set(*out, "loss", KILN_TENSOR(kiln_sum(kiln_square(y), NULL)));
    kiln_bundle_set(*out, "name", KILN_STRING(kiln_bundle_string(inside, "name")));
    kiln_bundle_append(in, NULL, KILN_TENSOR(y));
    return kiln_error();
}

static kiln_bundle *bundle_input(struct world *k, int n)
{
    kiln_bundle *in = kiln_bundle_create(), *inside = kiln_bundle_create();
    char name[16];
    kiln_bundle_append(inside, "x", KILN_TENSOR(k->x));
    kiln_bundle_append(inside, "name", KILN_STRING("loss"));
    kiln_bundle_append(inside, "scale", KILN_TENSOR(kiln_mutable_int(n)));
    for (int i = 0; i < 20; i++) { // more than are found one by one
        snprintf(name, sizeof name, "n%d", i);
        kiln_bundle_insert(inside, 0, name, KILN_INT(i));
    }
    kiln_bundle_set(in, "inside", KILN_BUNDLE(inside));
    return in;
}

static void run_bundle(const char *device, struct outcome *o)
{
    struct world k;
    world_open(&k, device);
    kiln_function *f = kiln_bundle_jit(bundle_loss, k.w, KILN_JIT(.in_place = true));
    for (int i = 1; i <= 3; i++) {
        kiln_bundle *out = NULL, *grads = NULL, *in = bundle_input(&k, i);
        kiln_bundle_call(f, in, &out);
        outcome_add(o, kiln_bundle_tensor(out, "loss"));
        outcome_add(o, kiln_bundle_tensor_at(in, 1));
        kiln_backward(kiln_bundle_tensor(out, "loss"), NULL);
        outcome_add(o, k.w ? kiln_gradient(k.w) : NULL);
        kiln_bundle_grad(bundle_loss, k.w, bundle_input(&k, i), NULL, NULL, &grads);
        outcome_add(o, kiln_bundle_tensor(kiln_bundle_bundle(grads, "inside"), "x"));
    }
    kiln_function_free(&f);
    world_close(&k);
}

// --- a loop of unknown length, one with a bound, and a condition in it, differentiated

static kiln_status is_small(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_less(kiln_sum(in[0], NULL), kiln_scalar(80));
    return kiln_error();
}

static kiln_status grows(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(kiln_mul(in[0], kiln_scalar(1.25)), user ? kiln_softmax(user, 1) : kiln_scalar(0.25));
    return kiln_error();
}

static kiln_status grows_on(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *large = kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(30));
    return kiln_cond(large, grows, grows, user, in, n_in, out, n_out);
}

static kiln_status flow_loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y, *z;
    if (kiln_while(is_small, grows_on, user, in, 1, KILN_LOOP(.bound = 20), &y, 1)) return kiln_error();
    if (kiln_while(is_small, grows, NULL, in, 1, NULL, &z, 1)) return kiln_error();
    out[0] = kiln_add(kiln_sum(kiln_square(y), NULL), kiln_sum(z, NULL));
    return kiln_error();
}

static void run_flow(const char *device, struct outcome *o)
{
    call_thrice(device, o, flow_loss, NULL);
}

// --- calls of the host: of tensors, of bundles with a spec and without one, in a loop

static kiln_status doubles(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(in[0], kiln_scalar(2));
    return kiln_error();
}

static kiln_status doubled_slope(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                                 kiln_tensor **din)
{
    din[0] = kiln_mul(dout[0], kiln_scalar(2));
    return kiln_error();
}

static kiln_status doubles_bundle(void *user, kiln_bundle *in, kiln_bundle **out)
{
    kiln_tensor *y = kiln_mul(kiln_bundle_tensor(in, "x"), kiln_scalar(2));
    *out = kiln_bundle_create();
    kiln_bundle_set(*out, "name", KILN_STRING(kiln_bundle_string(in, "name")));
    return kiln_bundle_set(*out, "list", KILN_BUNDLE(kiln_bundle_of(&y, 1)));
}

static kiln_tensor *doubled_by_bundle(kiln_tensor *x, bool declared)
{
    kiln_bundle *in = kiln_bundle_create(), *spec = declared ? kiln_bundle_create() : NULL, *made = NULL;
    kiln_bundle_set(in, "x", KILN_TENSOR(x));
    kiln_bundle_set(in, "name", KILN_STRING("doubled"));
    if (declared) {
        kiln_bundle_set(spec, "name", KILN_STRING("doubled"));
        kiln_bundle_set(spec, "list", KILN_BUNDLE(kiln_bundle_of(&x, 1)));
    }
    if (kiln_bundle_host_call(doubles_bundle, NULL, in, spec, &made, KILN_HOST_READS, doubled_slope)) return NULL;
    return kiln_bundle_tensor_at(kiln_bundle_bundle(made, "list"), 0);
}

static kiln_status doubles_in_trip(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const kiln_host_spec spec = {KILN_F32, 2, (const int64_t[]){4, 4}};
    kiln_tensor *y = NULL;
    kiln_host_call(doubles, NULL, in + 1, 1, &spec, &y, 1, KILN_HOST_READS, doubled_slope);
    out[0] = doubled_by_bundle(y, true);
    return kiln_error();
}

static kiln_status host_loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = NULL, *x = kiln_mul(in[0], user);
    if (kiln_for(kiln_scalar_int(2), doubles_in_trip, NULL, &x, 1, NULL, &y, 1)) return kiln_error();
    y = kiln_cast(doubled_by_bundle(y, false), KILN_F32);
    kiln_assert(kiln_all(kiln_isfinite(y), NULL), "{} is not finite", y);
    out[0] = kiln_sum(kiln_square(y), NULL);
    return kiln_error();
}

static void run_host(const char *device, struct outcome *o)
{
    call_thrice(device, o, host_loss, NULL);
    call_thrice(device, o, host_loss, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
}

static void call_model(struct world *k, kiln_function *f, struct outcome *o)
{
    for (int i = 0; i < 2 && f; i++) {
        kiln_tensor *y = NULL;
        kiln_call(f, &k->x, 1, &y, 1);
        outcome_add(o, y);
        kiln_backward(y, NULL);
    }
    kiln_function_free(&f);
}

// Two functions with open dimensions, through a file.
static void run_model(const char *device, struct outcome *o)
{
    static char path[64];
    struct world k;
    world_open(&k, device);
    snprintf(path, sizeof path, "faults_%d.kiln", (int)getpid());
    int64_t rows = kiln_symbol("rows", KILN_SYMBOL(.min = 4, .max = 6, .unique = true));
    const kiln_jit_opts *open = KILN_JIT(.input_types = KILN_TYPES(KILN_TYPE(KILN_F32, rows, 4)));
    kiln_function *f = kiln_jit(strict_loss, k.w, open);
    kiln_model *m = kiln_model_create();
    kiln_model_name_weights(m, 1, (const char *const[]){"w"}, &k.w);
    kiln_model_add(m, "open", f, &k.x, 1, 1, NULL);
    kiln_model_save(m, path);
    kiln_model_free(&m);
    kiln_function_free(&f);
    m = kiln_graph_import(k.dev, path);
    call_model(&k, m ? kiln_model_function(m, "open") : NULL, o);
    kiln_tensor *w = NULL;
    if (m && kiln_model_parameters(m, &w, 1) == 1) outcome_add(o, kiln_gradient(w));
    kiln_model_free(&m);
    unlink(path);
    world_close(&k);
}

static kiln_status next_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = in[0];
    for (int i = 0; i < 3; i++) x = kiln_softmax(kiln_add(chain(x, in[1]), x), 0);
    out[0] = x;
    return kiln_error();
}

// What a call that fails has left is a tensor, or given away.
static void run_donate(const char *device, struct outcome *o)
{
    struct world k;
    world_open(&k, device);
    kiln_function *f = kiln_jit(next_state, NULL, KILN_JIT(.donate = KILN_ARGS(0)));
    for (int i = 0; i < 3; i++) {
        kiln_tensor *y = NULL, *in[] = {k.x, k.w};
        kiln_no_grad_begin();
        kiln_call(f, in, 2, &y, 1);
        kiln_no_grad_end();
        outcome_add(o, y);
        kiln_free(&k.x);
        k.x = y;
    }
    kiln_function_free(&f);
    world_close(&k);
}

static kiln_status moves_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor **state = user;
    kiln_add_(state[0], in[0]);
    kiln_mul_(state[1], kiln_scalar(0.5));
    kiln_add_(state[1], kiln_softmax(state[0], 0));
    out[0] = kiln_sum(state[1], NULL);
    return kiln_error();
}

// From the second call on results lie over what was there.
static void run_auto_state(const char *device, struct outcome *o)
{
    struct world k;
    world_open(&k, device);
    kiln_tensor *state[] = {kiln_mul(k.x, kiln_scalar(2)), kiln_add(k.x, k.x)};
    kiln_function *f = kiln_jit(moves_state, state, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    for (int i = 0; i < 4; i++) {
        kiln_tensor *y = NULL;
        kiln_call(f, &k.x, 1, &y, 1);
        outcome_add(o, y);
    }
    outcome_add(o, state[0]);
    outcome_add(o, state[1]);
    kiln_function_free(&f);
    world_close(&k);
}

const struct program jit_programs[] = {
    {"strict", run_strict}, {"trace", run_trace}, {"auto", run_auto},     {"auto_state", run_auto_state},
    {"region", run_region}, {"flow", run_flow},   {"host", run_host},     {"background", run_background},
    {"bundle", run_bundle}, {"model", run_model}, {"donate", run_donate}, {NULL},
};
