// Control flow carried out at once, as the statements of C would be.
#include "jit/control/control.h"
#include "grad/state.h"
#include "tensor/draw.h"
#include "tensor/flow.h"
#include <inttypes.h>
#include <kiln/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kiln_status (*control_rows)(const struct control_loop *l, struct type *rows, kiln_device **dev);

char *branches_name(const struct control_branches *b, size_t k, char *text, size_t size_B)
{
    if (!strcmp(b->op, "cond"))
        snprintf(text, size_B, "%s", k ? "else_fn" : "then_fn");
    else
        snprintf(text, size_B, "branches[%zu]", k);
    return text;
}

static bool is_shared(kiln_tensor *const *out, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (out[k]->storage == out[i]->storage) return true;
    return false;
}

// What control flow gives lies in memory that was not there before, as in a graph: whoever writes it writes nothing
// else. The first n_apart lie apart from each other, in row-major order.
static kiln_status part_results(uint64_t since, kiln_tensor **out, size_t n, size_t n_apart)
{
    for (size_t i = 0; i < n; i++) {
        kiln_tensor *t = out[i];
        if (!t->storage) continue;
        bool apart = i >= n_apart || (!is_shared(out, i) && layout_is_contiguous(&t->type, &t->layout));
        if (apart && storage_is_since(t->storage, since)) continue;
        if (!(out[i] = kiln_contiguous(t))) {
            out[i] = t;
            return error_pending;
        }
        tensor_destroy(t);
    }
    return KILN_OK;
}

static kiln_device *device_among(kiln_device *dev, kiln_tensor *const *in, size_t n)
{
    for (size_t i = 0; i < n && !dev; i++) dev = in[i]->storage ? in[i]->storage->dev : NULL;
    return dev;
}

static void enter_draws(struct draw_frame *f, const struct control_draws *d, kiln_tensor *first, kiln_tensor *const *in,
                        size_t n)
{
    kiln_device *dev = device_among(first ? device_among(NULL, &first, 1) : NULL, in, n);
    struct rng given = {0, 0};
    if (d->given && d->base) given = (struct rng){d->base->seed, d->base->offset + (uint64_t)d->place};
    draw_enter(f, dev, d->given && d->base ? &given : NULL);
}

kiln_status branches_run(const struct control_branches *b, size_t taken, kiln_tensor **out)
{
    char part[48];
    branches_name(b, taken, part, sizeof part);
    const struct region r = {b->op, part, b->fn[taken], b->users ? b->users[taken] : b->user};
    uint64_t since = storage_now();
    struct state_leave left;
    struct draw_frame draws;
    state_push(&left, NULL, NULL);
    enter_draws(&draws, &b->draws, b->index, b->in, b->n_in);
    kiln_status status = r.fn ? region_run(&r, b->in, b->n_in, out, b->n_out) : KILN_OK; // none: without results
    draw_leave(&draws);
    if (!status && (status = part_results(since, out, b->n_out, b->n_out)))
        for (size_t i = 0; i < b->n_out; i++) {
            tensor_destroy(out[i]);
            out[i] = NULL;
        }
    state_pop(&left);
    return status;
}

// Rows as one tensor. A stack of very many is one of stacks.
static kiln_tensor *stack(kiln_tensor *const *rows, size_t n)
{
    enum { MOST = 128 };
    if (n <= MOST) return kiln_stack(rows, n, 0);
    size_t part = MOST;
    while (ceil_div(n, part) > MOST) part *= MOST;
    kiln_tensor *parts[MOST], *all = NULL;
    size_t n_parts = 0, made;
    for (size_t at = 0; at < n; at += part, n_parts++) {
        parts[n_parts] = stack(rows + at, n - at < part ? n - at : part);
        if (!parts[n_parts]) break;
    }
    made = n_parts;
    if (made == ceil_div(n, part)) all = kiln_concat(parts, made, 0);
    for (size_t i = 0; i < made; i++) tensor_destroy(parts[i]);
    return all;
}

struct trips {
    const struct control_loop *l;
    struct region cond, body;
    size_t n_args, n_made;
    kiln_tensor **args; // of the body: the number, what is carried, what is scanned
    kiln_tensor **made; // by it
    kiln_tensor **rows; // n_stacked * n_rows, those of one output together
    int64_t n_rows;     // the bound, or else the count
    int64_t made_rows;  // of trips
    uint64_t *versions; // of the memory of what is carried, before a trip
    uint64_t since;     // when the loop began
    struct draw_frame draws;
    struct flow_trip now;
};

static kiln_tensor **carried_of(const struct trips *t)
{
    return t->args + t->l->numbered;
}

static kiln_status goes_on(struct trips *t, int64_t trip, bool *out)
{
    const struct control_loop *l = t->l;
    kiln_tensor *holds;
    *out = l->count < 0 || trip < l->count;
    if (!l->cond) return KILN_OK;
    draw_trip(&t->draws, trip, true);
    TRY(region_run(&t->cond, carried_of(t), l->n_carried, &holds, 1));
    kiln_status status = region_check_bool(l->op, "what cond gives", holds);
    if (!status) *out = kiln_item(holds) != 0;
    tensor_destroy(holds);
    return status ? status : error_pending;
}

static kiln_status enter(struct trips *t, int64_t trip, int64_t row)
{
    const struct control_loop *l = t->l;
    if (l->numbered && !(t->args[0] = kiln_scalar_int(trip))) return error_pending;
    kiln_tensor **scanned = carried_of(t) + l->n_carried;
    for (size_t i = 0; i < l->n_scanned; i++)
        if (!(scanned[i] = kiln_select(l->in[l->n_carried + i], 0, row))) return error_pending;
    return KILN_OK;
}

// What the trip gave is what is carried; the handles of the one before go.
static kiln_status leave_trip(struct trips *t, int64_t trip, int64_t row)
{
    const struct control_loop *l = t->l;
    kiln_tensor **carried = carried_of(t);
    if (l->numbered) tensor_destroy(t->args[0]);
    for (size_t i = 0; i < l->n_scanned; i++) tensor_destroy(carried[l->n_carried + i]);
    for (size_t i = 0; i < l->n_carried; i++) {
        TRY(carried_check(l->op, i, trip, &carried[i]->type, &t->made[i]->type));
        tensor_destroy(carried[i]);
        carried[i] = t->made[i];
    }
    t->made_rows++;
    for (size_t k = 0; k < l->n_stacked; k++) t->rows[k * (size_t)t->n_rows + (size_t)row] = t->made[l->n_carried + k];
    return KILN_OK;
}

static kiln_status check_bound(const struct control_loop *l, int64_t trip)
{
    if (!l->bound || trip < l->bound) return KILN_OK;
    return error_set(KILN_E_STATE, "%s: the loop goes on after %" PRId64 " trips, its .bound; %s", l->op, l->bound,
                     l->is_node ? "what it would have given and written is dropped"
                                : "what these have written is written, what they carried is dropped");
}

static uint64_t version_of(const kiln_tensor *t)
{
    return t->storage ? t->storage->version : 0;
}

static kiln_status run_body(struct trips *t)
{
    const struct control_loop *l = t->l;
    kiln_tensor **carried = carried_of(t);
    for (size_t i = 0; i < l->n_carried; i++) t->versions[i] = version_of(carried[i]);
    TRY(region_run(&t->body, t->args, t->n_args, t->made, t->n_made));
    for (size_t i = 0; i < l->n_carried; i++)
        if (version_of(carried[i]) != t->versions[i])
            return error_set(
                KILN_E_UNSUPPORTED,
                "%s: the body writes carried value %zu, which it is given; give the new value as an output", l->op, i);
    return part_results(t->since, t->made, t->n_made, l->n_carried);
}

static kiln_status run_trips(struct trips *t)
{
    const struct control_loop *l = t->l;
    for (int64_t trip = 0;; trip++) {
        bool more;
        TRY(goes_on(t, trip, &more));
        if (!more) return KILN_OK;
        TRY(check_bound(l, trip));
        int64_t row = l->reverse ? l->count - 1 - trip : trip;
        t->now.trip = trip;
        TRY(enter(t, trip, row));
        draw_trip(&t->draws, row, false);
        TRY(run_body(t));
        TRY(leave_trip(t, trip, row));
    }
}

static kiln_status check_row(const struct control_loop *l, size_t k, int64_t row, kiln_tensor *const *rows)
{
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
    if (type_equal(&rows[0]->type, &rows[row]->type)) return KILN_OK;
    return error_set(KILN_E_SHAPE, "%s: output %zu of the body is %s in one trip and %s in another", l->op,
                     l->n_carried + k, type_text(&rows[0]->type, a, sizeof a),
                     type_text(&rows[row]->type, b, sizeof b));
}

// Rows that no trip gave are zeros.
static kiln_tensor *all_rows(struct trips *t, size_t k)
{
    kiln_tensor **rows = t->rows + k * (size_t)t->n_rows;
    int64_t missing = t->n_rows - t->made_rows;
    if (!t->made_rows && t->l->rows) {
        const struct type *all = &t->l->rows[k];
        return kiln_zeros(NULL, (kiln_dtype)all->dtype, all->rank, all->dims);
    }
    for (int64_t row = 1; row < t->made_rows; row++)
        if (check_row(t->l, k, row, rows)) return NULL;
    kiln_tensor *given = stack(rows, (size_t)t->made_rows);
    if (!given || !missing) return given;
    struct type type = given->type;
    type.dims[0] = missing;
    kiln_tensor *zeros = kiln_zeros(NULL, (kiln_dtype)type.dtype, type.rank, type.dims);
    return zeros ? kiln_concat((kiln_tensor *[]){given, zeros}, 2, 0) : NULL;
}

static kiln_status say_unknown(const struct control_loop *l, kiln_status status)
{
    char why[512];
    snprintf(why, sizeof why, "%s", kiln_error_message());
    kiln_error_clear();
    return error_set(status, "%s: no trip tells what is stacked, nor does the body without values: %s", l->op, why);
}

// No trip tells what is stacked.
static kiln_status give_no_rows(const struct control_loop *l, kiln_tensor **out)
{
    kiln_device *dev = NULL;
    struct type *rows = calloc(l->n_stacked, sizeof *rows);
    if (!rows) return error_set(KILN_E_MEMORY, "%s: out of memory", l->op);
    struct leave left;
    leave_push(&left, free, rows);
    kiln_status status = control_rows(l, rows, &dev);
    leave_pop(&left);
    if (status) say_unknown(l, status);
    for (size_t k = 0; k < l->n_stacked && !status; k++) {
        out[k] = kiln_zeros(dev, (kiln_dtype)rows[k].dtype, rows[k].rank, rows[k].dims);
        if (!out[k]) status = error_pending;
    }
    free(rows);
    return status;
}

static kiln_status give(struct trips *t, kiln_tensor **out)
{
    const struct control_loop *l = t->l;
    for (size_t i = 0; i < l->n_carried; i++)
        if (!(out[i] = kiln_alias(carried_of(t)[i]))) return error_pending;
    if (l->n_stacked && !t->made_rows && !l->rows) return give_no_rows(l, out + l->n_carried);
    for (size_t k = 0; k < l->n_stacked; k++)
        if (!(out[l->n_carried + k] = all_rows(t, k))) return error_pending;
    return KILN_OK;
}

// What is carried is a value: what the body writes in its memory is not seen by it.
static kiln_status begin(struct trips *t)
{
    const struct control_loop *l = t->l;
    t->since = storage_now();
    for (size_t i = 0; i < l->n_carried; i++)
        if (!(carried_of(t)[i] = l->in[i]->storage ? kiln_contiguous(l->in[i]) : kiln_alias(l->in[i])))
            return error_pending;
    return KILN_OK;
}

static kiln_status run_loop(const struct control_loop *l, struct trips *t, kiln_tensor **out)
{
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_status status = begin(t);
    enter_draws(&t->draws, &l->draws, l->count_of, l->in, l->n_carried + l->n_scanned);
    flow_enter(&t->now);
    if (!status) status = run_trips(t);
    flow_leave(&t->now);
    draw_leave(&t->draws);
    if (!status) status = give(t, out);
    scope_leave(&scope, out, status ? 0 : l->n_carried + l->n_stacked);
    for (size_t i = 0; i < l->n_carried + l->n_stacked && status; i++) out[i] = NULL;
    return status;
}

kiln_status loop_run(const struct control_loop *l, kiln_tensor **out)
{
    struct trips t = {.l = l,
                      .cond = {l->op, "cond", l->cond, l->user},
                      .body = {l->op, "the body", l->body, l->user},
                      .n_args = l->numbered + l->n_carried + l->n_scanned,
                      .n_made = l->n_carried + l->n_stacked};
    t.n_rows = l->bound ? l->bound : l->count;
    size_t n_rows = 0, n = t.n_args + t.n_made + 1;
    bool fits = !l->n_stacked || !__builtin_mul_overflow(l->n_stacked, (size_t)t.n_rows, &n_rows);
    fits = fits && !__builtin_add_overflow(n, n_rows, &n) && n <= UINT32_MAX; // handles of more fill any memory
    kiln_tensor **room = fits ? calloc(n, sizeof *room + sizeof *t.versions) : NULL;
    if (!room) return error_set(KILN_E_MEMORY, "%s: out of memory", l->op);
    t.args = room;
    t.made = t.args + t.n_args;
    t.rows = t.made + t.n_made;
    t.versions = (uint64_t *)(void *)(t.rows + n_rows);
    struct state_leave left;
    state_push(&left, free, room);
    kiln_status status = run_loop(l, &t, out);
    state_pop(&left);
    free(room);
    return status;
}
