// Calling a cell: checks, hooks, a scope for what the function makes, and new handles for what it returns.
#include "nn/cell.h"
#include "base/leave.h"
#include "base/note.h"
#include "base/where.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST_FILL "set every out[i] that the call asks for"

static kiln_status check_call(const kiln_cell *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                              size_t n_out)
{
    TRY(cell_check("cell_call", cell));
    if (!cell->construct)
        return error_set(KILN_E_STATE,
                         "cell_call: %s has no .construct: it holds children that are called by themselves, as "
                         "kiln_cell_call(kiln_cell_child(cell, name), x); kiln_nn_sequential calls its own in turn",
                         cell->kind);
    if ((n_in && !in) || (n_out && !out))
        return error_set(KILN_E_ARGUMENT, "cell_call: %s is NULL", n_in && !in ? "in" : "out");
    if (cell->n_in && n_in != cell->n_in)
        return error_set(KILN_E_ARGUMENT, "cell_call: %s takes %zu inputs, got %zu", cell->kind, cell->n_in, n_in);
    if (cell->n_out && n_out != cell->n_out)
        return error_set(KILN_E_ARGUMENT, "cell_call: %s has %zu outputs, %zu were asked for", cell->kind, cell->n_out,
                         n_out);
    for (size_t i = 0; i < n_in; i++)
        if (!in[i]) return error_set(KILN_E_ARGUMENT, "cell_call: input %zu of %s is NULL", i, cell->kind);
    return KILN_OK;
}

static kiln_status construct(kiln_cell *cell, kiln_tensor **in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY(hooks_run_pre(cell, in, n_in));
    for (size_t i = 0; i < n_in; i++)
        if (!in[i]) return error_set(KILN_E_ARGUMENT, "%s cell: a forward pre-hook left input %zu NULL", cell->kind, i);
    TRY(hooks_attach(cell, HOOK_BACKWARD, in, n_in));
    kiln_status status = cell->construct(cell, cell->user, in, n_in, out, n_out);
    if (kiln_error()) return kiln_error();
    if (status) return error_set(status, "%s cell: construct failed with %s", cell->kind, kiln_status_name(status));
    for (size_t i = 0; i < n_out; i++)
        if (!out[i])
            return error_set(KILN_E_ARGUMENT, "%s cell: construct left output %zu of %zu NULL; " MUST_FILL, cell->kind,
                             i, n_out);
    TRY(hooks_run_forward(cell, in, n_in, out, n_out));
    for (size_t i = 0; i < n_out; i++)
        if (!out[i])
            return error_set(KILN_E_ARGUMENT, "%s cell: a forward hook left output %zu of %zu NULL; " MUST_FILL,
                             cell->kind, i, n_out);
    return hooks_attach(cell, HOOK_BACKWARD_PRE, out, n_out);
}

// The results as new handles that no scope owns: an input, a parameter or one tensor twice may be among them.
static kiln_status take_out(kiln_tensor *const *made, kiln_tensor **out, size_t n_out)
{
    for (size_t i = 0; i < n_out; i++) {
        out[i] = kiln_alias(made[i]);
        if (!out[i]) return kiln_error();
        kiln_own(out[i]);
    }
    return KILN_OK;
}

// Gives them to the scope that is open now, the caller's: construct may have left scopes of its own open before.
static kiln_status hand_over(kiln_tensor **out, size_t n_out)
{
    for (size_t i = 0; i < n_out; i++) {
        kiln_tensor *owned = kiln_alias(out[i]);
        if (!owned) return kiln_error();
        kiln_free(&out[i]);
        out[i] = owned;
    }
    return KILN_OK;
}

kiln_status kiln_cell_call_n(kiln_cell *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    if (out) memset(out, 0, n_out * sizeof *out);
    TRY(check_call(cell, in, n_in, out, n_out));
    if (!cell->parent) cell_watch_dtypes(cell, in, n_in);
    size_t entered = cell->row ? cell_row_enter() : 0;
    kiln_status status =
        cell_is_graph(cell) ? cell_run_graph(cell, in, n_in, out, n_out) : cell_run(cell, in, n_in, out, n_out);
    if (!status && cell->row) cell_row_leave(cell, entered, out, n_out);
    if (!status && !cell->parent) cell_watch_mode(cell, out, n_out);
    return status;
}

bool cell_wants_bias(const char *function, bool bias, bool no_bias, bool otherwise)
{
    if (bias && no_bias) error_set(KILN_E_ARGUMENT, "%s: .bias and .no_bias are both set", function);
    return bias || (otherwise && !no_bias);
}

void cell_say_sizes(kiln_cell *cell, const char *format, ...)
{
    va_list args;
    if (!cell) return;
    va_start(args, format);
    vsnprintf(cell->sizes, sizeof cell->sizes, format, args);
    va_end(args);
}

void cell_describe(const void *at, char *out, size_t size_B)
{
    char path[128];
    const kiln_cell *cell = at, *root = cell;
    while (root->parent) root = root->parent;
    if (root != cell) cell_path(root, cell->parent, cell->name, path, sizeof path);
    const char *gap = *cell->sizes ? " " : "";
    if (root != cell)
        snprintf(out, size_B, "%s.%s (%s%s%s)", root->kind, path, cell->kind, gap, cell->sizes);
    else
        snprintf(out, size_B, "%s%s%s", cell->kind, gap, cell->sizes);
}

// The innermost cell names itself.
static void name_cell(const kiln_cell *cell)
{
    char text[192];
    cell_describe(cell, text, sizeof text);
    error_note_before("%s", text);
}

struct cell_running {
    kiln_cell *cell;
    struct where_cell outer;
    kiln_scope *scope;
    kiln_tensor **room; // inputs, then outputs
    size_t n_in, n_out;
    bool allocated;
    kiln_status status;
};

// Its function and its hooks.
static void construct_user(void *at)
{
    struct cell_running *c = at;
    c->status = reparams_enter(c->cell);
    if (!c->status) c->status = construct(c->cell, c->room, c->n_in, c->room + c->n_in, c->n_out);
}

static void leave_cell(void *at)
{
    struct cell_running *c = at;
    where_enter_cell(c->outer);
    reparams_leave(c->cell);
    kiln_scope_end(&c->scope);
    c->cell->calls--;
    if (c->allocated) free(c->room);
}

kiln_status cell_run(kiln_cell *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *few[16] = {0}, **room = few;
    if (n_in + n_out > COUNT_OF(few)) room = calloc(n_in + n_out, sizeof *room);
    if (!room) return error_set(KILN_E_MEMORY, "cell_call: host memory is exhausted");
    if (n_in) memcpy(room, in, n_in * sizeof *room);

    struct cell_running c = {cell, {NULL, NULL}, kiln_scope_begin(), room, n_in, n_out, room != few, KILN_OK};
    struct leave left;
    cell->calls++;
    c.outer = where_enter_cell((struct where_cell){cell_describe, cell});
    leave_push(&left, leave_cell, &c);
    if (c.scope)
        leave_call(construct_user, &c);
    else
        c.status = kiln_error();
    leave_pop(&left);
    where_enter_cell(c.outer);
    reparams_leave(cell);
    cell->calls--;
    if (!c.status) c.status = take_out(room + n_in, out, n_out);
    kiln_scope_end(&c.scope);
    if (c.status) name_cell(cell);
    if (!c.status) c.status = hand_over(out, n_out);
    for (size_t i = 0; c.status && i < n_out; i++) kiln_free(&out[i]);
    if (room != few) free(room);
    return c.status;
}

kiln_tensor *kiln_cell_call(kiln_cell *cell, kiln_tensor *x)
{
    kiln_tensor *y = NULL;
    kiln_cell_call_n(cell, &x, 1, &y, 1);
    return y;
}

kiln_status kiln_cell_fn(void *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_cell_call_n(cell, in, n_in, out, n_out);
}
