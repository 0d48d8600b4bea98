// The mode of a thread, and what says how a captured function is to see a tensor.
#include "base/thread.h"
#include "jit/function.h"
#include "jit/capture/recorder.h"
#include <stdlib.h>
#include <string.h>

// -1: of a thread, it has not chosen; of the process, the environment has not been asked yet.
static THREAD_LOCAL int mode = -1;
static atomic_int process_mode = -1;
static atomic_int enabled = -1;

static kiln_status check_mode(const char *function, kiln_mode wanted)
{
    if (wanted == KILN_MODE_EAGER || wanted == KILN_MODE_GRAPH) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: %d is not one of kiln_mode", function, (int)wanted);
}

kiln_status kiln_set_mode(kiln_mode wanted)
{
    if (error_pending) return error_pending;
    TRY(check_mode("set_mode", wanted));
    mode = (int)wanted;
    return KILN_OK;
}

kiln_status kiln_set_default_mode(kiln_mode wanted)
{
    if (error_pending) return error_pending;
    TRY(check_mode("set_default_mode", wanted));
    atomic_store(&process_mode, (int)wanted);
    return KILN_OK;
}

static int mode_of_environment(void)
{
    const char *text = getenv("KILN_MODE");
    bool graph = text && !strcmp(text, "graph");
    if (text && *text && !graph && strcmp(text, "eager") != 0)
        log_warn("KILN_MODE: there is no \"%s\"; known are eager, graph", text);
    return graph ? KILN_MODE_GRAPH : KILN_MODE_EAGER;
}

static int mode_of_process(void)
{
    int known = atomic_load_explicit(&process_mode, memory_order_relaxed);
    if (KILN_LIKELY(known >= 0)) return known;
    int unknown = -1;
    atomic_compare_exchange_strong(&process_mode, &unknown, mode_of_environment());
    return atomic_load(&process_mode);
}

kiln_mode kiln_get_mode(void)
{
    return (kiln_mode)(mode >= 0 ? mode : mode_of_process());
}

void kiln_jit_enable(bool on)
{
    atomic_store(&enabled, on);
}

static bool is_enabled(void)
{
    int on = atomic_load_explicit(&enabled, memory_order_relaxed);
    if (on >= 0) return on;
    const char *text = getenv("KILN_JIT");
    int unknown = -1;
    on = !text || strcmp(text, "0") != 0;
    atomic_compare_exchange_strong(&enabled, &unknown, on);
    return atomic_load(&enabled);
}

bool jit_enabled(void)
{
    return is_enabled() && !thread_state.no_capture;
}

static kiln_tensor *at_run_time(kiln_tensor *t)
{
    if (t) t->run_time = true;
    return t;
}

kiln_tensor *kiln_mutable(double v)
{
    return at_run_time(kiln_scalar(v));
}

kiln_tensor *kiln_mutable_int(int64_t v)
{
    return at_run_time(kiln_scalar_int(v));
}

kiln_tensor *kiln_mutable_bool(bool v)
{
    return at_run_time(kiln_scalar_bool(v));
}

kiln_tensor *kiln_host_number(double (*fn)(void *user), void *user)
{
    if (error_pending) return NULL;
    if (!fn) {
        error_set(KILN_E_ARGUMENT, "host_number: fn is NULL");
        return NULL;
    }
    struct recorder *r = recorder_current();
    return r ? recorder_host_number(r, fn, user) : kiln_scalar(fn(user));
}

bool kiln_is_capturing(void)
{
    return recorder_current() != NULL;
}

kiln_tensor *kiln_constant(kiln_tensor *t)
{
    if (error_pending || tensor_check_any("constant", "t", t)) return NULL;
    if (t->builder) {
        error_set(KILN_E_STATE, "constant: an abstract value is not known yet");
        return NULL;
    }
    kiln_tensor *r = tensor_second(t);
    if (r) r->constant = true;
    return r;
}

kiln_status kiln_state(kiln_tensor *t)
{
    if (error_pending) return error_pending;
    TRY(tensor_check("state", "t", t));
    if (!t->storage) return error_set(KILN_E_STATE, "state: t is %s", t->builder ? "an abstract value" : "a number");
    return leaf_make_state(t);
}
