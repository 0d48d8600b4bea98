// kiln_cond, kiln_switch, kiln_while, kiln_for, kiln_scan: checks, and what runs.
#include "jit/control/control.h"
#include "base/options.h"
#include "grad/state.h"
#include <inttypes.h>

static bool lists_overlap(kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    uintptr_t a = (uintptr_t)in, b = (uintptr_t)out;
    return a < b + n_out * sizeof *out && b < a + n_in * sizeof *in;
}

static kiln_status check_lists(const char *op, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    char name[32];
    if (error_pending) return error_pending;
    if (n_in && !in) return error_set(KILN_E_ARGUMENT, "%s: in is NULL, n_in is %zu", op, n_in);
    if (n_out && !out) return error_set(KILN_E_ARGUMENT, "%s: out is NULL, n_out is %zu", op, n_out);
    if (lists_overlap(in, n_in, out, n_out)) return error_set(KILN_E_ARGUMENT, "%s: in and out overlap", op);
    for (size_t i = 0; i < n_in; i++) {
        snprintf(name, sizeof name, "in[%zu]", i);
        TRY(tensor_check(op, name, in[i]));
    }
    for (size_t i = 0; i < n_out; i++) out[i] = NULL;
    return KILN_OK;
}

static kiln_status check_integer(const char *op, const char *what, kiln_tensor *t)
{
    char text[TYPE_TEXT_MAX];
    if (dtype_info[t->type.dtype].kind != KIND_INT)
        return error_set(KILN_E_DTYPE, "%s: %s is %s, not an integer", op, what,
                         type_text(&t->type, text, sizeof text));
    if (t->type.rank)
        return error_set(KILN_E_SHAPE, "%s: %s is %s, not one integer of rank 0", op, what,
                         type_text(&t->type, text, sizeof text));
    return KILN_OK;
}

static kiln_status read_index(const struct control_branches *b, size_t *taken)
{
    if (b->index->type.dtype == KILN_BOOL) {
        *taken = kiln_item(b->index) == 0;
        return error_pending;
    }
    int64_t at = kiln_item_int(b->index);
    if (error_pending) return error_pending;
    if (at < 0 || (uint64_t)at >= b->n)
        return error_set(KILN_E_ARGUMENT, "%s: index is %" PRId64 ", there are %zu branches", b->op, at, b->n);
    *taken = (size_t)at;
    return KILN_OK;
}

static kiln_status take_branch(const struct control_branches *b, kiln_tensor **out)
{
    static const struct rng none = {0, 0};
    struct sink *s = thread_state.sink;
    struct control_branches here = *b;
    bool taken = false;
    size_t branch;
    if (s && s->flow) {
        TRY(s->flow->branches(s, b, out, &taken));
        here.draws = (struct control_draws){.given = true, .base = &none}; // the graph has taken its number
    }
    if (taken) return KILN_OK;
    TRY(read_index(b, &branch));
    return branches_run(&here, branch, out);
}

kiln_status branches_take(const struct control_branches *b, kiln_tensor **out)
{
    struct state_leave left;
    state_push(&left, NULL, NULL);
    kiln_status status = take_branch(b, out);
    state_pop(&left);
    return status;
}

kiln_status loop_read_count(const struct control_loop *l, int64_t *count)
{
    *count = kiln_item_int(l->count_of);
    if (error_pending) return error_pending;
    return *count < 0 ? error_set(KILN_E_ARGUMENT, "%s: count is %" PRId64, l->op, *count) : KILN_OK;
}

static kiln_status take_loop(const struct control_loop *l, kiln_tensor **out)
{
    struct sink *s = thread_state.sink;
    struct control_loop counted = *l;
    bool taken = false;
    if (s && s->flow) TRY(s->flow->loop(s, l, out, &taken));
    if (taken) return KILN_OK;
    if (l->count_of) TRY(loop_read_count(l, &counted.count));
    return loop_run(&counted, out);
}

kiln_status loop_take(const struct control_loop *l, kiln_tensor **out)
{
    struct state_leave left;
    state_push(&left, NULL, NULL);
    kiln_status status = take_loop(l, out);
    state_pop(&left);
    return status;
}

kiln_status kiln_cond(kiln_tensor *pred, kiln_fn then_fn, kiln_fn else_fn, void *user, kiln_tensor *const *in,
                      size_t n_in, kiln_tensor **out, size_t n_out)
{
    const kiln_fn fn[] = {then_fn, else_fn};
    TRY(check_lists("cond", in, n_in, out, n_out));
    TRY(tensor_check("cond", "pred", pred));
    if (!then_fn) return error_set(KILN_E_ARGUMENT, "cond: then_fn is NULL");
    if (!else_fn && n_out) return error_set(KILN_E_ARGUMENT, "cond: else_fn is NULL, n_out is %zu", n_out);
    TRY(region_check_bool("cond", "pred", pred));
    const struct control_branches b = {
        .op = "cond", .index = pred, .fn = fn, .n = 2, .user = user, .in = in, .n_in = n_in, .n_out = n_out};
    return branches_take(&b, out);
}

kiln_status kiln_switch(kiln_tensor *index, const kiln_fn *branches, size_t n_branches, void *user,
                        kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY(check_lists("switch", in, n_in, out, n_out));
    TRY(tensor_check("switch", "index", index));
    if (!branches || !n_branches) return error_set(KILN_E_ARGUMENT, "switch: there are no branches");
    for (size_t i = 0; i < n_branches; i++)
        if (!branches[i]) return error_set(KILN_E_ARGUMENT, "switch: branches[%zu] is NULL", i);
    TRY(check_integer("switch", "index", index));
    const struct control_branches b = {.op = "switch",
                                       .index = index,
                                       .fn = branches,
                                       .n = n_branches,
                                       .user = user,
                                       .in = in,
                                       .n_in = n_in,
                                       .n_out = n_out};
    return branches_take(&b, out);
}

static kiln_status check_not_negative(const char *op, const char *option, int64_t value)
{
    return value < 0 ? error_set(KILN_E_ARGUMENT, "%s: .%s is %" PRId64, op, option, value) : KILN_OK;
}

static kiln_status check_loop(const struct control_loop *l, const kiln_loop_opts *opts, kiln_loop_opts *o, size_t n_out)
{
    TRY(options_read(l->op, KILN_LOOP, o, opts));
    if (!l->body) return error_set(KILN_E_ARGUMENT, "%s: body is NULL", l->op);
    if (o->bound < 0) return error_set(KILN_E_ARGUMENT, "%s: .bound is %" PRId64, l->op, o->bound);
    TRY(check_not_negative(l->op, "save_every", o->save_every));
    TRY(check_not_negative(l->op, "unroll", o->unroll));
    if (n_out == l->n_carried) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: n_out is %zu, n_in is %zu; what is carried is what comes out", l->op, n_out,
                     l->n_carried);
}

kiln_status kiln_while(kiln_fn cond, kiln_fn body, void *user, kiln_tensor *const *in, size_t n_in,
                       const kiln_loop_opts *opts, kiln_tensor **out, size_t n_out)
{
    kiln_loop_opts o;
    struct control_loop l = {
        .op = "while", .cond = cond, .body = body, .user = user, .in = in, .n_carried = n_in, .count = -1};
    TRY(check_lists("while", in, n_in, out, n_out));
    if (!cond) return error_set(KILN_E_ARGUMENT, "while: cond is NULL");
    TRY(check_loop(&l, opts, &o, n_out));
    l.bound = o.bound;
    l.save_every = o.save_every;
    l.unroll = o.unroll;
    return loop_take(&l, out);
}

kiln_status kiln_for(kiln_tensor *count, kiln_fn body, void *user, kiln_tensor *const *in, size_t n_in,
                     const kiln_loop_opts *opts, kiln_tensor **out, size_t n_out)
{
    kiln_loop_opts o;
    struct control_loop l = {.op = "for", .body = body, .user = user, .in = in, .n_carried = n_in, .numbered = true};
    TRY(check_lists("for", in, n_in, out, n_out));
    TRY(tensor_check("for", "count", count));
    TRY(check_loop(&l, opts, &o, n_out));
    TRY(check_integer("for", "count", count));
    l.bound = o.bound;
    l.save_every = o.save_every;
    l.unroll = o.unroll;
    l.count_of = count;
    return loop_take(&l, out);
}

static kiln_status find_length(const kiln_scan_opts *o, struct control_loop *l)
{
    char text[TYPE_TEXT_MAX];
    l->count = l->n_scanned ? -1 : o->length;
    for (size_t i = l->n_carried; i < l->n_carried + l->n_scanned; i++) {
        const struct type *t = &l->in[i]->type;
        if (!t->rank)
            return error_set(KILN_E_SHAPE, "scan: in[%zu] is %s, which has no first axis to scan", i,
                             type_text(t, text, sizeof text));
        if (l->count >= 0 && l->count != t->dims[0])
            return error_set(KILN_E_SHAPE,
                             "scan: in[%zu] is %s, in[%zu] has %" PRId64 " in the first dimension: they differ", i,
                             type_text(t, text, sizeof text), l->n_carried, l->count);
        l->count = t->dims[0];
    }
    if (l->count < 0) return error_set(KILN_E_ARGUMENT, "scan: .length is %" PRId64, l->count);
    if (o->length && o->length != l->count)
        return error_set(KILN_E_ARGUMENT, "scan: .length is %" PRId64 ", the first dimension is %" PRId64, o->length,
                         l->count);
    return KILN_OK;
}

kiln_status kiln_scan(kiln_fn body, void *user, kiln_tensor *const *in, size_t n_in, const kiln_scan_opts *opts,
                      kiln_tensor **out, size_t n_out)
{
    kiln_scan_opts o;
    TRY(check_lists("scan", in, n_in, out, n_out));
    TRY(options_read("scan", KILN_SCAN, &o, opts));
    if (!body) return error_set(KILN_E_ARGUMENT, "scan: body is NULL");
    TRY(check_not_negative("scan", "save_every", o.save_every));
    TRY(check_not_negative("scan", "unroll", o.unroll));
    if (o.carried > n_in) return error_set(KILN_E_ARGUMENT, "scan: .carried is %zu, n_in is %zu", o.carried, n_in);
    if (o.carried > n_out) return error_set(KILN_E_ARGUMENT, "scan: .carried is %zu, n_out is %zu", o.carried, n_out);
    struct control_loop l = {.op = "scan",
                             .body = body,
                             .user = user,
                             .in = in,
                             .n_carried = o.carried,
                             .n_scanned = n_in - o.carried,
                             .n_stacked = n_out - o.carried,
                             .unroll = o.unroll,
                             .reverse = o.reverse,
                             .save_every = o.save_every};
    TRY(find_length(&o, &l));
    return loop_take(&l, out);
}
