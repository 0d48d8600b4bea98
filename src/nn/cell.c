// The tree of cells: making, adding, finding, freeing.
//
// A cell owns its tensors and children; a child knows its parent, so that paths can be built and a child freed alone
// leaves the tree whole. Handles of tensors are taken out of all scopes when they are added.
#include "nn/cell.h"
#include "base/note.h"
#include "base/handles.h"
#include "base/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *cell_grow(void *array, size_t n, size_t element_B)
{
    if (n & (n - 1)) return array; // not a power of two: there is room; 0 is handled below
    if (n == 0 && array) return array;
    void *grown = realloc(array, (n ? 2 * n : 1) * element_B);
    if (!grown) error_set(KILN_E_MEMORY, "cell: host memory is exhausted");
    return grown;
}

char *cell_strdup(const char *text)
{
    char *copy = strdup(text);
    if (!copy) error_set(KILN_E_MEMORY, "cell: host memory is exhausted");
    return copy;
}

kiln_cell *kiln_cell_create(const kiln_cell_opts *opts)
{
    kiln_cell_opts o;
    if (options_read("cell_create", KILN_CELL, &o, opts)) return NULL;
    kiln_cell *cell = NULL;
    if (!kiln_error()) {
        cell = handle_new(HANDLE_CELL, sizeof *cell);
        if (!cell) error_set(KILN_E_MEMORY, "cell_create: host memory is exhausted");
    }
    if (!cell) {
        if (o.user_free) o.user_free(o.user);
        return NULL;
    }
    *cell = (kiln_cell){
        .construct = o.construct, .user = o.user, .user_free = o.user_free, .n_in = o.n_in, .n_out = o.n_out};
    cell->kind = cell_strdup(o.kind ? o.kind : "cell");
    cell->name = cell_strdup("");
    return cell_or_null(cell);
}

kiln_cell *cell_make(const char *kind, kiln_construct_fn construct, size_t user_B)
{
    if (kiln_error()) return NULL;
    void *user = user_B ? calloc(1, user_B) : NULL;
    if (user_B && !user) {
        error_set(KILN_E_MEMORY, "%s cell: host memory is exhausted", kind);
        return NULL;
    }
    return kiln_cell_create(
        KILN_CELL(.kind = kind, .construct = construct, .user = user, .user_free = free, .n_in = 1, .n_out = 1));
}

kiln_cell *cell_or_null(kiln_cell *cell)
{
    if (kiln_error()) kiln_cell_free(&cell);
    return cell;
}

kiln_status cell_check(const char *function, const kiln_cell *cell)
{
    return kiln_error() ? kiln_error() : handle_check(function, "cell", HANDLE_CELL, cell);
}

static void leave_parent(kiln_cell *cell)
{
    kiln_cell *parent = cell->parent;
    if (!parent) return;
    size_t i = 0;
    while (parent->children[i] != cell) i++;
    memmove(&parent->children[i], &parent->children[i + 1], (parent->n_children - i - 1) * sizeof *parent->children);
    parent->n_children--;
    cell->parent = NULL;
}

void kiln_cell_free(kiln_cell **cell)
{
    if (!handle_may_free("cell_free", HANDLE_CELL, cell)) return;
    kiln_cell *c = *cell;
    *cell = NULL;
    leave_parent(c);
    for (size_t i = c->n_children; i-- > 0;) {
        kiln_cell *child = c->children[i];
        child->parent = NULL;
        kiln_cell_free(&child);
    }
    for (size_t i = 0; i < c->n_tensors; i++) {
        kiln_free(&c->tensors[i].tensor);
        if (c->tensors[i].tensor)
            error_note_before("cell_free: \"%s\", which the %s owns", c->tensors[i].name, c->kind);
        free(c->tensors[i].name);
    }
    for (size_t i = 0; i < c->n_state_names; i++) free(c->state_names[i]);
    hooks_free(c);
    reparams_free(c);
    kiln_function_free(&c->function);
    kiln_function_free(&c->unmarked);
    if (c->user_free) c->user_free(c->user);
    free(c->state_names);
    free(c->children);
    free(c->tensors);
    free(c->kind);
    free(c->name);
    handle_free(HANDLE_CELL, c);
}

// A name that is free in the cell, among tensors and children.
static kiln_status check_name(const char *call, const kiln_cell *cell, const char *name)
{
    TRY(cell_check(call, cell));
    if (!name || !*name || strchr(name, '.'))
        return error_set(KILN_E_ARGUMENT, "%s: a name must be a text without dots, got \"%s\"", call,
                         name ? name : "(null)");
    bool taken = false;
    for (size_t i = 0; i < cell->n_tensors; i++) taken |= !strcmp(cell->tensors[i].name, name);
    for (size_t i = 0; i < cell->n_children; i++) taken |= !strcmp(cell->children[i]->name, name);
    if (taken) return error_set(KILN_E_ARGUMENT, "%s: cell %s has a \"%s\" already", call, cell->kind, name);
    return kiln_error();
}

// Takes over `t` (owned by no scope), also on failure.
static kiln_tensor *add_tensor(kiln_cell *cell, const char *name, kiln_tensor *t, bool is_parameter)
{
    if (!t) return NULL;
    char *copy = cell_strdup(name);
    struct cell_tensor *grown = copy ? cell_grow(cell->tensors, cell->n_tensors, sizeof *grown) : NULL;
    if (!grown) {
        free(copy);
        kiln_free(&t);
        return NULL;
    }
    cell->tensors = grown;
    grown[cell->n_tensors++] = (struct cell_tensor){copy, t, is_parameter, false};
    return t;
}

static kiln_tensor *own(kiln_tensor *t)
{
    return t ? kiln_own(t) : NULL;
}

kiln_tensor *kiln_cell_add_parameter(kiln_cell *cell, const char *name, kiln_tensor *init)
{
    if (kiln_error() || check_name("cell_add_parameter", cell, name)) return NULL;
    if (!init) {
        error_set(KILN_E_ARGUMENT, "cell_add_parameter: the value of \"%s\" is NULL", name);
        return NULL;
    }
    bool shared = kiln_requires_grad(init) && kiln_is_leaf(init);
    return add_tensor(cell, name, own(shared ? kiln_alias(init) : kiln_parameter(init, name)), true);
}

kiln_tensor *kiln_cell_make_parameter(kiln_cell *cell, const char *name, kiln_device *dev, kiln_dtype dtype,
                                      size_t rank, const int64_t *dims, const char *init)
{
    if (kiln_error() || check_name("cell_make_parameter", cell, name)) return NULL;
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *value = kiln_initializer(dev, dtype, rank, dims, init);
    kiln_tensor *p = value ? kiln_cell_add_parameter(cell, name, value) : NULL;
    kiln_scope_end(&scope);
    return p;
}

kiln_tensor *kiln_cell_add_buffer(kiln_cell *cell, const char *name, kiln_tensor *t)
{
    if (kiln_error() || check_name("cell_add_buffer", cell, name)) return NULL;
    if (!t) {
        error_set(KILN_E_ARGUMENT, "cell_add_buffer: the value of \"%s\" is NULL", name);
        return NULL;
    }
    kiln_tensor *buffer = own(kiln_alias(t));
    if (buffer && kiln_is_leaf(buffer) && kiln_state(buffer)) kiln_free(&buffer);
    return add_tensor(cell, name, buffer, false);
}

static kiln_status adopt(kiln_cell *cell, const char *name, kiln_cell *child)
{
    char *copy = cell_strdup(name);
    kiln_cell **grown = copy ? cell_grow(cell->children, cell->n_children, sizeof *grown) : NULL;
    if (!grown) {
        free(copy);
        return kiln_error();
    }
    cell->children = grown;
    grown[cell->n_children++] = child;
    free(child->name);
    child->name = copy;
    child->parent = cell;
    cell_set_mode(child, cell->training, cell->mode_chosen);
    return KILN_OK;
}

// Cells call, free and walk each other by recursion.
enum { LEVELS_MAX = 1000 };

static int levels_of(const kiln_cell *cell)
{
    int below = 0;
    for (size_t i = 0; i < cell->n_children; i++) {
        int levels = levels_of(cell->children[i]);
        if (levels > below) below = levels;
    }
    return below + 1;
}

static kiln_status check_levels(const kiln_cell *cell, const kiln_cell *child)
{
    int levels = levels_of(child);
    for (const kiln_cell *c = cell; c; c = c->parent) levels++;
    if (levels <= LEVELS_MAX) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "cell_add_child: cells would be nested %d deep, %d are allowed", levels,
                     LEVELS_MAX);
}

kiln_cell *kiln_cell_add_child(kiln_cell *cell, const char *name, kiln_cell *child)
{
    if (child && handle_check("cell_add_child", "child", HANDLE_CELL, child)) return NULL;
    if (child && child->parent) {
        error_set(KILN_E_ARGUMENT,
                  "cell_add_child: \"%s\" has a parent already: the %s is \"%s\" of a %s; a cell has one "
                  "place, make another one, which may share its parameters (kiln_cell_add_parameter)",
                  name ? name : "(null)", child->kind, child->name, child->parent->kind);
        return NULL;
    }
    if (cell && handle_check("cell_add_child", "cell", HANDLE_CELL, cell)) {
        kiln_cell_free(&child);
        return NULL;
    }
    const kiln_cell *root = cell;
    while (root && root->parent) root = root->parent;
    if (child && root == child) {
        error_set(KILN_E_ARGUMENT, "cell_add_child: a cell cannot be a descendant of itself");
        return NULL;
    }
    if (!kiln_error() && !child)
        error_set(KILN_E_ARGUMENT, "cell_add_child: the child \"%s\" is NULL", name ? name : "(null)");
    if (kiln_error() || check_name("cell_add_child", cell, name) || check_levels(cell, child) ||
        adopt(cell, name, child))
        kiln_cell_free(&child);
    return child;
}

kiln_tensor *cell_tensor_at(const kiln_cell *cell, size_t i)
{
    return i < cell->n_tensors && !cell->tensors[i].is_aside ? cell->tensors[i].tensor : NULL;
}

// Follows the first `len` bytes of a path down the children; NULL when one is missing.
static kiln_cell *descend(kiln_cell *cell, const char *path, size_t len)
{
    while (cell && len) {
        size_t part = strcspn(path, "."), step = part < len ? part : len;
        kiln_cell *next = NULL;
        for (size_t i = 0; i < cell->n_children && !next; i++) {
            const char *name = cell->children[i]->name;
            if (strlen(name) == step && !memcmp(name, path, step)) next = cell->children[i];
        }
        cell = next;
        path += step < len ? step + 1 : step;
        len -= step < len ? step + 1 : step;
    }
    return cell;
}

struct listing {
    kiln_cell *root;
    char text[600];
    size_t len;
};

static bool list_tensor(void *user, kiln_cell *owner, struct cell_tensor *t)
{
    struct listing *l = user;
    char path[256];
    cell_path(l->root, owner, t->name, path, sizeof path);
    size_t room = sizeof l->text - l->len;
    int n = snprintf(l->text + l->len, room, "%s%s", l->len ? ", " : "", path);
    if (n < 0 || (size_t)n + 6 > room) {
        snprintf(l->text + l->len, room, ", ...");
        return false;
    }
    l->len += (size_t)n;
    return true;
}

kiln_tensor *kiln_cell_parameter(kiln_cell *cell, const char *path)
{
    if (cell_check("cell_parameter", cell)) return NULL;
    if (!path) {
        error_set(KILN_E_ARGUMENT, "cell_parameter: path is NULL");
        return NULL;
    }
    const char *dot = strrchr(path, '.'), *name = dot ? dot + 1 : path;
    kiln_cell *owner = descend(cell, path, dot ? (size_t)(dot - path) : 0);
    for (size_t i = 0; owner && i < owner->n_tensors; i++)
        if (!strcmp(owner->tensors[i].name, name)) return owner->tensors[i].tensor;
    for (size_t i = 0; owner && i < owner->n_tensors; i++) {
        const char *alias = cell_alias(owner, owner->tensors[i].name);
        if (alias && !strcmp(alias, name)) return owner->tensors[i].tensor;
    }
    struct listing l = {.root = cell};
    cell_visit(cell, list_tensor, &l);
    error_set(KILN_E_ARGUMENT, "cell_parameter: %s has no \"%s\"; it has %s", cell->kind, path,
              l.len ? l.text : "none");
    return NULL;
}

kiln_cell *kiln_cell_child(kiln_cell *cell, const char *path)
{
    if (cell_check("cell_child", cell)) return NULL;
    if (!path) {
        error_set(KILN_E_ARGUMENT, "cell_child: path is NULL");
        return NULL;
    }
    kiln_cell *child = *path ? descend(cell, path, strlen(path)) : NULL;
    if (child) return child;
    char names[400] = "";
    size_t len = 0;
    for (size_t i = 0; i < cell->n_children && len < sizeof names; i++) {
        int n = snprintf(names + len, sizeof names - len, "%s%s", i ? ", " : "", cell->children[i]->name);
        len += n > 0 ? (size_t)n : 0;
    }
    error_set(KILN_E_ARGUMENT, "cell_child: %s has no \"%s\"; its children are %s", cell->kind, path,
              len ? names : "none");
    return NULL;
}

// Questions that NULL answers without an error.
static bool is_there(const char *function, const kiln_cell *cell)
{
    return cell && !handle_check(function, "cell", HANDLE_CELL, cell);
}

const char *kiln_cell_kind(const kiln_cell *cell)
{
    return is_there("cell_kind", cell) ? cell->kind : "";
}

const char *kiln_cell_name(const kiln_cell *cell)
{
    return is_there("cell_name", cell) ? cell->name : "";
}

void *kiln_cell_user(const kiln_cell *cell)
{
    return is_there("cell_user", cell) ? cell->user : NULL;
}
