// What a whole tree of cells has in common: its tensors by name, mode, freezing, device, text.
#include "nn/cell.h"
#include "base/handles.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct state_walk {
    cell_visit_fn fn;
    void *user;
    kiln_tensor **seen; // parameters that were visited
    size_t n_seen;
};

// Handles on one parameter lie on one storage; buffers are never shared on purpose.
static bool is_repeated(struct state_walk *w, const struct cell_tensor *t)
{
    for (size_t i = 0; t->is_parameter && i < w->n_seen; i++)
        if (kiln_is_view_of(t->tensor, w->seen[i])) return true;
    return false;
}

static bool walk_cell(struct state_walk *w, kiln_cell *cell)
{
    for (size_t i = 0; i < cell->n_tensors; i++) {
        struct cell_tensor *t = &cell->tensors[i];
        if (is_repeated(w, t)) continue;
        kiln_tensor **grown = t->is_parameter ? cell_grow(w->seen, w->n_seen, sizeof(kiln_tensor *)) : w->seen;
        if (t->is_parameter && !grown) return false;
        w->seen = grown;
        if (t->is_parameter) w->seen[w->n_seen++] = t->tensor;
        if (!w->fn(w->user, cell, t)) return false;
    }
    for (size_t i = 0; i < cell->n_children; i++)
        if (!walk_cell(w, cell->children[i])) return false;
    return true;
}

bool cell_visit(kiln_cell *cell, cell_visit_fn fn, void *user)
{
    struct state_walk w = {fn, user, NULL, 0};
    bool whole = walk_cell(&w, cell);
    free(w.seen);
    return whole;
}

size_t cell_path(const kiln_cell *root, const kiln_cell *owner, const char *name, char *out, size_t size_B)
{
    size_t len = 0;
    if (owner != root) {
        len = cell_path(root, owner->parent, owner->name, out, size_B);
        if (len + 1 < size_B) memcpy(out + len, ".", 2);
        len++;
    }
    int n = snprintf(len < size_B ? out + len : NULL, len < size_B ? size_B - len : 0, "%s", name);
    return len + (n > 0 ? (size_t)n : 0);
}

struct handles {
    kiln_tensor **out;
    size_t n, max;
    int64_t elements;
};

static bool take_parameter(void *user, kiln_cell *owner, struct cell_tensor *t)
{
    struct handles *h = user;
    if (!t->is_parameter) return true;
    if (h->n < h->max) h->out[h->n] = t->tensor;
    h->n++;
    h->elements += kiln_numel(t->tensor);
    return true;
}

size_t kiln_cell_parameters(kiln_cell *cell, kiln_tensor **out, size_t max)
{
    struct handles h = {out, 0, max, 0};
    if (cell_check("cell_parameters", cell)) return 0;
    if (max && !out) {
        error_set(KILN_E_ARGUMENT, "cell_parameters: out is NULL");
        return 0;
    }
    return cell_visit(cell, take_parameter, &h) ? h.n : 0;
}

int64_t kiln_cell_parameter_count(kiln_cell *cell)
{
    struct handles h = {0};
    if (cell_check("cell_parameter_count", cell)) return 0;
    return cell_visit(cell, take_parameter, &h) ? h.elements : 0;
}

struct state {
    kiln_cell *root;
    const char **names;
    kiln_tensor **tensors;
    size_t n, max;
};

static bool take_state(void *user, kiln_cell *owner, struct cell_tensor *t)
{
    struct state *s = user;
    if (s->n < s->max && s->tensors) s->tensors[s->n] = t->tensor;
    if (s->n < s->max && s->names) {
        size_t size_B = cell_path(s->root, owner, t->name, NULL, 0) + 1;
        char **grown = cell_grow(s->root->state_names, s->root->n_state_names, sizeof(char *));
        char *path = grown ? malloc(size_B) : NULL;
        if (grown) s->root->state_names = grown;
        if (!path) {
            error_set(KILN_E_MEMORY, "cell_state: host memory is exhausted");
            return false;
        }
        cell_path(s->root, owner, t->name, path, size_B);
        s->names[s->n] = grown[s->root->n_state_names++] = path;
    }
    s->n++;
    return true;
}

size_t kiln_cell_state(kiln_cell *cell, const char **names, kiln_tensor **tensors, size_t max)
{
    if (cell_check("cell_state", cell)) return 0;
    for (size_t i = 0; i < cell->n_state_names; i++) free(cell->state_names[i]);
    free(cell->state_names);
    cell->state_names = NULL;
    cell->n_state_names = 0;
    struct state s = {cell, names, tensors, 0, max};
    return cell_visit(cell, take_state, &s) ? s.n : 0;
}

kiln_status kiln_cell_set_training(kiln_cell *cell, bool training)
{
    TRY(cell_check("cell_set_training", cell));
    cell_set_mode(cell, training, true);
    return KILN_OK;
}

bool kiln_cell_is_training(const kiln_cell *cell)
{
    return cell && !handle_check("cell_is_training", "cell", HANDLE_CELL, cell) && cell->training;
}

static bool freeze(void *user, kiln_cell *owner, struct cell_tensor *t)
{
    return !t->is_parameter || kiln_set_requires_grad(t->tensor, *(bool *)user) == KILN_OK;
}

kiln_status kiln_cell_set_requires_grad(kiln_cell *cell, bool on)
{
    TRY(cell_check("cell_set_requires_grad", cell));
    cell_visit(cell, freeze, &on);
    return kiln_error();
}

// One handle's value on another device, as a tensor of the same role.
static kiln_tensor *moved(const struct cell_tensor *t, kiln_device *dev)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *copy = kiln_to_device(t->tensor, dev);
    if (copy && t->is_parameter) {
        bool trained = kiln_requires_grad(t->tensor);
        copy = kiln_parameter(copy, kiln_name(t->tensor));
        if (copy) kiln_set_requires_grad(copy, trained);
    } else if (copy)
        kiln_state(copy);
    if (kiln_error()) copy = NULL;
    if (copy) kiln_own(copy);
    kiln_scope_end(&scope);
    return copy;
}

// Moves the tensors of the tree. A parameter that several cells share is moved once: `from` and `to` list what was
// moved.
struct move {
    kiln_device *dev;
    kiln_tensor **from, **to;
    size_t n;
};

static kiln_status move_tensor(struct move *m, struct cell_tensor *t)
{
    kiln_tensor *to = NULL;
    for (size_t i = 0; t->is_parameter && i < m->n && !to; i++)
        if (kiln_is_view_of(t->tensor, m->from[i])) to = kiln_alias(m->to[i]);
    if (to) {
        kiln_own(to);
        kiln_free(&t->tensor);
        t->tensor = to;
        return KILN_OK;
    }
    kiln_tensor **from = cell_grow(m->from, m->n, sizeof *from);
    if (from) m->from = from;
    kiln_tensor **grown = from ? cell_grow(m->to, m->n, sizeof *grown) : NULL;
    if (grown) m->to = grown;
    to = grown ? moved(t, m->dev) : NULL;
    if (!to) return kiln_error();
    m->from[m->n] = t->tensor;
    m->to[m->n++] = t->tensor = to;
    return KILN_OK;
}

static kiln_status move_cell(struct move *m, kiln_cell *cell)
{
    for (size_t i = 0; i < cell->n_tensors; i++) TRY(move_tensor(m, &cell->tensors[i]));
    for (size_t i = 0; i < cell->n_children; i++) TRY(move_cell(m, cell->children[i]));
    return KILN_OK;
}

kiln_status kiln_cell_to_device(kiln_cell *cell, kiln_device *dev)
{
    TRY(cell_check("cell_to_device", cell));
    TRY(handle_check("cell_to_device", "dev", HANDLE_DEVICE, dev));
    struct move m = {.dev = dev};
    kiln_no_grad_begin();
    kiln_status status = move_cell(&m, cell);
    kiln_no_grad_end();
    for (size_t i = 0; i < m.n; i++) kiln_free(&m.from[i]);
    free(m.from);
    free(m.to);
    return status;
}

static void print_cell(const kiln_cell *cell, int depth, FILE *f)
{
    fprintf(f, "%*s%s%s%s\n", 2 * depth, "", cell->name, *cell->name ? ": " : "", cell->kind);
    for (size_t i = 0; i < cell->n_tensors; i++) {
        const struct cell_tensor *t = &cell->tensors[i];
        const int64_t *dims = kiln_dims(t->tensor);
        fprintf(f, "%*s%s %s[", 2 * depth + 2, "", t->name, kiln_dtype_name(kiln_tensor_dtype(t->tensor)));
        for (size_t d = 0; d < kiln_rank(t->tensor); d++) fprintf(f, "%s%" PRId64, d ? "," : "", dims[d]);
        fprintf(f, "]%s\n", t->is_parameter ? kiln_requires_grad(t->tensor) ? "" : " (frozen)" : " (buffer)");
    }
    for (size_t i = 0; i < cell->n_children; i++) print_cell(cell->children[i], depth + 1, f);
}

void kiln_cell_print(kiln_cell *cell, FILE *f)
{
    if (cell_check("cell_print", cell)) return;
    if (!f) {
        error_set(KILN_E_ARGUMENT, "cell_print: f is NULL");
        return;
    }
    print_cell(cell, 0, f);
    fprintf(f, "%" PRId64 " parameters\n", kiln_cell_parameter_count(cell));
}
