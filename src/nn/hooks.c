// Hooks of cells.
//
// Every hook is a node in the list of its cell, and, for those that run in backward, in a table of the process. A tape
// may outlive the cell, or the hook may be removed before backward: the gradient hook that the tape holds therefore
// carries no pointer but the hook's number and the index of the tensor, and asks the table whether the hook is still
// there. Invariant: a node is in the table exactly as long as it is registered; nodes are freed only while their cell
// is not running.
#include "base/process.h"
#include "nn/cell.h"

#include <kiln/ops.h>
#include <pthread.h>
#include <stdlib.h>

struct cell_hook {
    uint64_t id; // 0: removed
    enum hook_kind kind;
    union {
        kiln_cell_pre_hook_fn pre;
        kiln_cell_hook_fn forward;
        kiln_cell_grad_hook_fn grad;
    };
    void *user;
    kiln_cell *cell;
    struct cell_hook *next;       // of the cell
    struct cell_hook *table_next; // of the process
};

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_hooks, table_mutex)
static struct cell_hook *table;
static uint64_t last_id;

#define INDEX_BITS 16

static void table_remove(struct cell_hook *hook)
{
    pthread_mutex_lock(&table_mutex);
    struct cell_hook **at = &table;
    while (*at && *at != hook) at = &(*at)->table_next;
    if (*at) *at = hook->table_next;
    pthread_mutex_unlock(&table_mutex);
}

static void sweep(kiln_cell *cell)
{
    if (cell->calls) return;
    for (struct cell_hook **at = &cell->hooks; *at;) {
        struct cell_hook *hook = *at;
        if (hook->id) {
            at = &hook->next;
            continue;
        }
        *at = hook->next;
        free(hook);
    }
}

static uint64_t add(kiln_cell *cell, struct cell_hook init, bool given, const char *call)
{
    if (cell_check(call, cell)) return 0;
    if (!given) {
        error_set(KILN_E_ARGUMENT, "%s: fn is NULL", call);
        return 0;
    }
    struct cell_hook *hook = malloc(sizeof *hook);
    if (!hook) {
        error_set(KILN_E_MEMORY, "%s: host memory is exhausted", call);
        return 0;
    }
    *hook = init;
    hook->cell = cell;
    sweep(cell);
    struct cell_hook **at = &cell->hooks;
    while (*at) at = &(*at)->next;
    *at = hook;
    pthread_mutex_lock(&table_mutex);
    hook->id = ++last_id;
    hook->table_next = table;
    table = hook;
    pthread_mutex_unlock(&table_mutex);
    return hook->id;
}

uint64_t kiln_cell_register_forward_pre_hook(kiln_cell *cell, kiln_cell_pre_hook_fn fn, void *user)
{
    struct cell_hook hook = {.kind = HOOK_FORWARD_PRE, .pre = fn, .user = user};
    return add(cell, hook, fn, "cell_register_forward_pre_hook");
}

uint64_t kiln_cell_register_forward_hook(kiln_cell *cell, kiln_cell_hook_fn fn, void *user)
{
    struct cell_hook hook = {.kind = HOOK_FORWARD, .forward = fn, .user = user};
    return add(cell, hook, fn, "cell_register_forward_hook");
}

uint64_t kiln_cell_register_backward_pre_hook(kiln_cell *cell, kiln_cell_grad_hook_fn fn, void *user)
{
    struct cell_hook hook = {.kind = HOOK_BACKWARD_PRE, .grad = fn, .user = user};
    return add(cell, hook, fn, "cell_register_backward_pre_hook");
}

uint64_t kiln_cell_register_backward_hook(kiln_cell *cell, kiln_cell_grad_hook_fn fn, void *user)
{
    struct cell_hook hook = {.kind = HOOK_BACKWARD, .grad = fn, .user = user};
    return add(cell, hook, fn, "cell_register_backward_hook");
}

kiln_status kiln_cell_remove_hook(kiln_cell *cell, uint64_t id)
{
    TRY(cell_check("cell_remove_hook", cell));
    for (struct cell_hook *hook = cell->hooks; hook; hook = hook->next) {
        if (!id || hook->id != id) continue;
        table_remove(hook);
        hook->id = 0;
        sweep(cell);
        return KILN_OK;
    }
    return error_set(KILN_E_ARGUMENT, "cell_remove_hook: %s has no hook %llu", cell->kind, (unsigned long long)id);
}

void hooks_free(kiln_cell *cell)
{
    while (cell->hooks) {
        struct cell_hook *hook = cell->hooks;
        cell->hooks = hook->next;
        table_remove(hook);
        free(hook);
    }
}

uint64_t hooks_hash(const kiln_cell *cell)
{
    uint64_t sum = 0;
    for (const struct cell_hook *h = cell->hooks; h; h = h->next) sum = sum * 31 + h->id;
    return sum;
}

bool cell_has_hooks(const kiln_cell *cell, enum hook_kind kind)
{
    for (const struct cell_hook *hook = cell->hooks; hook; hook = hook->next)
        if (hook->id && hook->kind == kind) return true;
    return false;
}

static kiln_status failed(const kiln_cell *cell, const char *what, kiln_status status)
{
    if (kiln_error()) return kiln_error();
    return status ? error_set(status, "%s cell: a %s failed with %s", cell->kind, what, kiln_status_name(status))
                  : KILN_OK;
}

kiln_status hooks_run_pre(kiln_cell *cell, kiln_tensor **in, size_t n_in)
{
    for (struct cell_hook *hook = cell->hooks; hook; hook = hook->next)
        if (hook->id && hook->kind == HOOK_FORWARD_PRE)
            TRY(failed(cell, "forward pre-hook", hook->pre(hook->user, cell, in, n_in)));
    return KILN_OK;
}

kiln_status hooks_run_forward(kiln_cell *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    for (struct cell_hook *hook = cell->hooks; hook; hook = hook->next)
        if (hook->id && hook->kind == HOOK_FORWARD)
            TRY(failed(cell, "forward hook", hook->forward(hook->user, cell, in, n_in, out, n_out)));
    return KILN_OK;
}

// What the tape calls. `user` is a number: hook id and index.
static kiln_tensor *on_gradient(void *user, kiln_tensor *grad)
{
    uintptr_t token = (uintptr_t)user;
    struct cell_hook found = {.id = 0};
    pthread_mutex_lock(&table_mutex);
    for (struct cell_hook *hook = table; hook && !found.id; hook = hook->table_next)
        if (hook->id == token >> INDEX_BITS) found = *hook;
    pthread_mutex_unlock(&table_mutex);
    return found.id ? found.grad(found.user, found.cell, token & ((1u << INDEX_BITS) - 1), grad) : NULL;
}

kiln_status hooks_attach(kiln_cell *cell, enum hook_kind kind, kiln_tensor **t, size_t n)
{
    if (!cell_has_hooks(cell, kind) || !kiln_grad_enabled()) return KILN_OK;
    for (size_t i = 0; i < n && i < (size_t)1 << INDEX_BITS; i++) {
        if (!t[i] || !kiln_requires_grad(t[i])) continue;
        // The tensor itself may be used elsewhere, or be a parameter: its whole gradient is not that of this use.
        t[i] = kiln_positive(t[i]);
        if (!t[i]) return kiln_error();
        for (struct cell_hook *hook = cell->hooks; hook; hook = hook->next) {
            if (!hook->id || hook->kind != kind) continue;
            if (!kiln_register_hook(t[i], on_gradient, (void *)(uintptr_t)(hook->id << INDEX_BITS | i)))
                return kiln_error();
        }
    }
    return KILN_OK;
}
