// Cells as captured functions.
#include "nn/cell.h"
#include "base/caller.h"
#include "base/hash.h"
#include "base/options.h"

#include <stdlib.h>
#include <string.h>

// What a graph of the cell depends on beside its inputs and tensors: modes, structure, hooks, of it and what is below.
static uint64_t hash_of(const kiln_cell *cell)
{
    uint64_t h = hash_u64(cell->training, cell->n_tensors);
    h = hash_u64(h, cell->n_children);
    h = hash_u64(h, hooks_hash(cell));
    for (size_t i = 0; i < cell->n_children; i++) {
        h = hash_u64(h, (uint64_t)(uintptr_t)cell->children[i]);
        h = hash_u64(h, hash_of(cell->children[i]));
    }
    return h;
}

static uint64_t hash_cell(void *cell)
{
    return hash_of(cell);
}

static kiln_status run(void *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return cell_run(cell, in, n_in, out, n_out);
}

// By its path in the tree; the root, by the line that makes a graph of it.
static void name_cell(const kiln_cell *cell, char *out, size_t size_B)
{
    char path[CALLER_TEXT_MAX];
    const kiln_cell *root = cell->parent;
    while (root && root->parent) root = root->parent;
    if (root)
        cell_path(root, cell->parent, cell->name, path, sizeof path);
    else
        caller_describe(caller_find(), path, sizeof path);
    snprintf(out, size_B, root ? "cell \"%s\" (%s)" : "the cell at %s (%s)", path, cell->kind);
}

static kiln_status make_function(kiln_cell *cell, const kiln_jit_opts *opts, kiln_function **out)
{
    kiln_jit_opts o;
    TRY(options_read("cell_jit", KILN_JIT, &o, opts));
    o.size = sizeof o;
    if (o.hash_args) return error_set(KILN_E_ARGUMENT, "cell_jit: .hash_args is the cell's own");
    o.hash_args = hash_cell;
    char name[2 * CALLER_TEXT_MAX];
    if (!o.name) name_cell(cell, name, sizeof name);
    if (!o.name) o.name = name;
    kiln_function *f = kiln_jit(run, cell, &o);
    if (!f) return kiln_error();
    kiln_function_free(out);
    *out = f;
    return KILN_OK;
}

kiln_status kiln_cell_jit(kiln_cell *cell, const kiln_jit_opts *opts)
{
    TRY(cell_check("cell_jit", cell));
    TRY(make_function(cell, opts, &cell->function));
    cell->jitted = true;
    cell->automatic = opts && opts->capture == KILN_CAPTURE_AUTO;
    return KILN_OK;
}

// In graph mode a mark of AUTO is void: the cell is a graph as it is without one.
static bool is_unmarked(const kiln_cell *cell)
{
    return cell->automatic && kiln_get_mode() == KILN_MODE_GRAPH;
}

kiln_function *kiln_cell_function(const kiln_cell *cell)
{
    if (cell_check("cell_function", cell)) return NULL;
    return is_unmarked(cell) ? cell->unmarked : cell->function;
}

// Inside a capture a cell is a part of that graph.
bool cell_is_graph(const kiln_cell *cell)
{
    return (cell->jitted || kiln_get_mode() == KILN_MODE_GRAPH) && !kiln_is_capturing();
}

kiln_status cell_run_graph(kiln_cell *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_function **f = is_unmarked(cell) ? &cell->unmarked : &cell->function;
    if (!*f) TRY(make_function(cell, NULL, f));
    return kiln_call(*f, in, n_in, out, n_out);
}
