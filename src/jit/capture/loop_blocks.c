// A loop that keeps what every k-th trip was given: a loop of blocks, each a loop of k trips.
//
// The outer one keeps what its trips are given alone, so that its gradient runs a block again, which keeps all that its
// own trips need, before it goes back through it. The trips that are left over are a loop behind it.
#include "base/leave.h"
#include "grad/state.h"
#include "jit/capture/region_loop.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

struct blocks {
    const struct control_loop *l;
    int64_t n, length, rest; // n blocks of `length` trips, then `rest` trips
};

// Some trips of the loop, one after the other.
struct some_trips {
    const struct control_loop *l;
    kiln_tensor *first; // the number of the first one; NULL: the body does not ask
};

static kiln_status call_numbered(const struct some_trips *t, kiln_tensor *const *in, size_t n_in, kiln_tensor **args,
                                 kiln_tensor **out, size_t n_out)
{
    memcpy(args, in, n_in * sizeof *in);
    args[0] = kiln_add(t->first, in[0]);
    return args[0] ? state_call(t->l->body, t->l->user, args, n_in, out, n_out) : error_pending;
}

static kiln_status trip(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct some_trips *t = user;
    if (!t->first) return state_call(t->l->body, t->l->user, in, n_in, out, n_out);
    kiln_tensor **args = calloc(n_in + 1, sizeof *args);
    if (!args) return error_set(KILN_E_MEMORY, "%s: out of memory", t->l->op);
    struct leave left;
    leave_push(&left, free, args);
    kiln_status status = call_numbered(t, in, n_in, args, out, n_out);
    leave_pop(&left);
    free(args);
    return status;
}

// The loop as a whole takes one random number, as eager mode does; nothing in it draws.
static kiln_status run_trips(const struct control_loop *l, kiln_tensor *first, int64_t count, kiln_tensor *const *in,
                             bool takes_number, kiln_tensor **out)
{
    struct some_trips user = {l, first};
    struct control_loop some = *l;
    some.body = trip;
    some.user = &user;
    some.in = in;
    some.count = count;
    some.count_of = NULL;
    some.bound = some.save_every = 0;
    if (!takes_number) some.draws = (struct control_draws){.given = true, .place = -1};
    return loop_take(&some, out);
}

static kiln_status block(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct blocks *b = user;
    kiln_tensor *first = NULL;
    (void)n_in, (void)n_out;
    if (b->l->numbered && !(first = kiln_mul(in[0], kiln_scalar_int(b->length)))) return error_pending;
    return run_trips(b->l, first, b->length, in + b->l->numbered, true, out);
}

// Rows from `at` as n tensors of `length` rows.
static kiln_tensor *rows_of_blocks(kiln_tensor *t, int64_t at, int64_t n, int64_t length)
{
    int64_t dims[KILN_MAX_RANK];
    size_t rank = kiln_rank(t);
    dims[0] = n;
    dims[1] = length;
    memcpy(dims + 2, kiln_dims(t) + 1, (rank - 1) * sizeof *dims);
    kiln_tensor *rows = kiln_narrow(t, 0, at, n * length);
    return rows ? kiln_reshape(rows, rank + 1, dims) : NULL;
}

static kiln_tensor *rows_of_trips(kiln_tensor *t)
{
    int64_t dims[KILN_MAX_RANK];
    size_t rank = kiln_rank(t);
    memcpy(dims + 1, kiln_dims(t) + 2, (rank - 2) * sizeof *dims);
    dims[0] = kiln_dims(t)[0] * kiln_dims(t)[1];
    return kiln_reshape(t, rank - 1, dims);
}

static kiln_status run_blocks(const struct blocks *b, kiln_tensor **in, kiln_tensor **out)
{
    const struct control_loop *l = b->l;
    struct control_loop outer = *l;
    for (size_t i = 0; i < l->n_scanned; i++) {
        kiln_tensor **rows = &in[l->n_carried + i];
        *rows = rows_of_blocks(l->in[l->n_carried + i], l->reverse ? b->rest : 0, b->n, b->length);
        if (!*rows) return error_pending;
    }
    outer.body = block;
    outer.user = (void *)(uintptr_t)b;
    outer.in = in;
    outer.count = b->n;
    outer.count_of = NULL;
    outer.bound = outer.unroll = 0;
    outer.save_every = 1;
    TRY(loop_take(&outer, out));
    for (size_t i = l->n_carried; i < l->n_carried + l->n_stacked; i++)
        if (!(out[i] = rows_of_trips(out[i]))) return error_pending;
    return KILN_OK;
}

// The trips behind the blocks. What is carried is in `out`.
static kiln_status run_rest(const struct blocks *b, kiln_tensor **in, kiln_tensor **made, kiln_tensor **out)
{
    const struct control_loop *l = b->l;
    int64_t at = b->n * b->length;
    kiln_tensor *first = l->numbered ? kiln_scalar_int(at) : NULL;
    if (l->n_carried) memcpy(in, out, l->n_carried * sizeof *in);
    for (size_t i = l->n_carried; i < l->n_carried + l->n_scanned; i++)
        if (!(in[i] = kiln_narrow(l->in[i], 0, l->reverse ? 0 : at, b->rest))) return error_pending;
    TRY(run_trips(l, first, b->rest, in, false, made));
    if (l->n_carried) memcpy(out, made, l->n_carried * sizeof *out);
    for (size_t i = l->n_carried; i < l->n_carried + l->n_stacked; i++) {
        kiln_tensor *both[] = {l->reverse ? made[i] : out[i], l->reverse ? out[i] : made[i]};
        if (!(out[i] = kiln_concat(both, 2, 0))) return error_pending;
    }
    return KILN_OK;
}

static kiln_status run(const struct blocks *b, kiln_tensor **room, kiln_tensor **out)
{
    const struct control_loop *l = b->l;
    if (l->n_carried) memcpy(room, l->in, l->n_carried * sizeof *room);
    TRY(run_blocks(b, room, out));
    return b->rest ? run_rest(b, room, room + l->n_carried + l->n_scanned, out) : KILN_OK;
}

kiln_status loop_take_blocks(const struct control_loop *l, int64_t trips, kiln_tensor **out)
{
    const struct blocks b = {l, trips / l->save_every, l->save_every, trips % l->save_every};
    size_t n_out = l->n_carried + l->n_stacked;
    kiln_tensor **room = calloc(n_out + l->n_carried + l->n_scanned + 1, sizeof *room);
    struct kiln_scope scope;
    if (!room) return error_set(KILN_E_MEMORY, "%s: out of memory", l->op);
    scope_enter(&scope);
    struct state_leave left;
    state_push(&left, free, room);
    kiln_status status = run(&b, room, out);
    state_pop(&left);
    free(room);
    scope_leave(&scope, out, status ? 0 : n_out);
    for (size_t i = 0; i < n_out && status; i++) out[i] = NULL;
    return status;
}
