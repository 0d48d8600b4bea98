// Training and inference. A cell is made for inference, and what is trained so learns from statistics that nobody
// moved: a backward through batch norm or dropout in a mode that nobody chose is told to the log, once a kind. A
// forward alone is not, nor what runs inside a capture, whose backward is made whether it will be asked for or not.
#include "nn/cell.h"

void cell_set_mode(kiln_cell *cell, bool training, bool chosen)
{
    cell->training = training;
    cell->mode_chosen = chosen;
    for (size_t i = 0; i < cell->n_children; i++) cell_set_mode(cell->children[i], training, chosen);
}

static const kiln_cell *find_unchosen(const kiln_cell *cell)
{
    if (cell->mode_chosen) return NULL;
    if (cell->by_mode) return cell;
    const kiln_cell *found = NULL;
    for (size_t i = 0; i < cell->n_children && !found; i++) found = find_unchosen(cell->children[i]);
    return found;
}

static kiln_tensor *tell(void *kind, kiln_tensor *grad)
{
    (void)grad;
    log_warn_here(
        "backward: through a cell %s in inference mode, in which cells are made; call kiln_cell_set_training with "
        "true to train, with false where inference is meant",
        (const char *)kind);
    return NULL;
}

void cell_watch_mode(kiln_cell *cell, kiln_tensor *const *out, size_t n_out)
{
    const kiln_cell *found = kiln_grad_enabled() && !kiln_is_capturing() ? find_unchosen(cell) : NULL;
    if (!found) return;
    for (size_t i = 0; i < n_out; i++)
        if (kiln_requires_grad(out[i])) kiln_register_hook(out[i], tell, (void *)(uintptr_t)found->by_mode);
}
