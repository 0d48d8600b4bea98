// A captured function is compiled before it is called: for inputs that are there in name only.
#include "base/handles.h"
#include "base/options.h"
#include "grad/state.h"
#include "jit/function.h"
#include <stdlib.h>

static kiln_status check(const kiln_function *f, const kiln_types *types)
{
    TRY(handle_check("function_compile", "f", HANDLE_FUNCTION, f));
    if (!types || (types->count && !types->v))
        return error_set(KILN_E_ARGUMENT, "function_compile: types is NULL%s", types ? ", of entries that it has" : "");
    if (f->bundle_fn)
        return error_set(KILN_E_UNSUPPORTED, "function_compile: %s takes bundles, whose form no types tell", f->name);
    if (f->o.capture != KILN_CAPTURE_STRICT)
        return error_set(KILN_E_UNSUPPORTED, "function_compile: %s is captured by %s, which needs values; call it",
                         f->name, f->o.capture == KILN_CAPTURE_AUTO ? "AUTO" : "TRACE");
    if (thread_state.sink)
        return error_set(KILN_E_STATE, "function_compile: %s is asked for inside of a capture", f->name);
    if (!jit_enabled()) return error_set(KILN_E_STATE, "function_compile: capture is off on this thread");
    return KILN_OK;
}

static kiln_status make_number(uint8_t dtype, kiln_tensor **out)
{
    *out = dtype == KILN_F64 ? kiln_mutable(0) : dtype == KILN_I64 ? kiln_mutable_int(0) : kiln_mutable_bool(false);
    return *out ? KILN_OK : error_pending;
}

static kiln_status make_input(const kiln_types *types, size_t i, kiln_device *dev, kiln_tensor **out)
{
    struct signature s = {.v = NULL};
    kiln_jit_opts o = {.input_types = {1, &types->v[i]}};
    kiln_status status = signature_take(&s, &o);
    for (int d = 0; !status && d < s.v[0].rank; d++)
        if (s.v[0].dims[d] < 0)
            status =
                error_set(KILN_E_ARGUMENT, "function_compile: dimension %d of type %zu is open: give a size", d, i);
    if (!status && !(*out = tensor_empty(dev, &s.v[0]))) status = error_pending;
    signature_finish(&s);
    return status;
}

static void tell(const struct entry *e, kiln_cost *cost)
{
    struct program_facts facts;
    entry_facts(e, &facts);
    const kiln_cost c = {.size = sizeof c,
                         .ops = e->captured.graph->nodes.n,
                         .launches = (uint64_t)facts.n_launches,
                         .planned_B = facts.arena_B,
                         .naive_B = facts.naive_B,
                         .flops = facts.flops,
                         .moved_B = facts.moved_B,
                         .kernels = (uint64_t)facts.n_kernels};
    sized_fill(cost, &c, sizeof c);
}

static kiln_status compile(kiln_function *f, const kiln_types *types, size_t n_out, kiln_tensor **in, kiln_cost *cost)
{
    kiln_device *dev = kiln_get_device();
    if (!dev) return error_pending;
    for (size_t i = 0; i < types->count; i++) {
        bool number = i < f->signature.n && f->signature.v[i].weak;
        TRY(number ? make_number(f->signature.v[i].dtype, &in[i]) : make_input(types, i, dev, &in[i]));
    }
    struct outputs o = {.v = in + types->count, .n = n_out};
    struct entry *e;
    TRY(function_check_inputs(f, in, types->count));
    TRY(function_program(f, in, types->count, &o, &e));
    if (!e)
        return error_set(KILN_E_STATE, "function_compile: %s was captured too often, and runs eagerly what is new",
                         f->name);
    if (cost) tell(e, cost);
    entry_unref(&e);
    return KILN_OK;
}

kiln_status kiln_function_compile(kiln_function *f, const kiln_types *types, size_t n_out, kiln_cost *cost)
{
    if (error_pending) return error_pending;
    TRY(check(f, types));
    if (cost) TRY(sized_check("function_compile", kiln_cost, cost));
    kiln_tensor **in = calloc(types->count + n_out + 1, sizeof *in);
    if (!in) return error_set(KILN_E_MEMORY, "function_compile: out of memory");
    struct kiln_scope scope;
    struct state_leave left;
    state_push(&left, free, in);
    scope_enter(&scope);
    kiln_status status = compile(f, types, n_out, in, cost);
    scope_leave(&scope, NULL, 0);
    state_pop(&left);
    free(in);
    return status;
}

kiln_status kiln_function_cost(kiln_function *f, kiln_cost *cost)
{
    if (error_pending) return error_pending;
    TRY(handle_check("function_cost", "f", HANDLE_FUNCTION, f));
    TRY(sized_check("function_cost", kiln_cost, cost));
    pthread_mutex_lock(&f->lock);
    struct entry *e = entry_ref(f->first);
    pthread_mutex_unlock(&f->lock);
    if (!e)
        return error_set(KILN_E_STATE, "function_cost: %s has no program: %s", f->name,
                         f->o.capture == KILN_CAPTURE_AUTO ? "it is captured by AUTO, in pieces"
                                                           : "call it, or compile it");
    tell(e, cost);
    entry_unref(&e);
    return KILN_OK;
}
