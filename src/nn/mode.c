// Training and inference. A cell is made for inference, and what is trained so learns from statistics that nobody
// moved: a backward through batch norm or dropout in a mode that nobody chose is told to the log, once a kind. A
// forward alone is not, nor what runs inside a capture, whose backward is made whether it will be asked for or not. And
// dtypes: one input of f64 makes all of a network of f32 run in f64.
#include "nn/cell.h"
#include "base/dtype.h"

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

static kiln_dtype dtype_of_parameters(const kiln_cell *cell)
{
    if (cell->n_tensors && cell->tensors[0].tensor) return kiln_tensor_dtype(cell->tensors[0].tensor);
    kiln_dtype found = KILN_BOOL;
    for (size_t i = 0; i < cell->n_children && found == KILN_BOOL; i++) found = dtype_of_parameters(cell->children[i]);
    return found;
}

void cell_watch_dtypes(const kiln_cell *cell, kiln_tensor *const *in, size_t n_in)
{
    char text[192];
    for (size_t i = 0; i < n_in && !kiln_error(); i++) {
        if (kiln_tensor_dtype(in[i]) != KILN_F64 || kiln_rank(in[i]) == 0) continue;
        kiln_dtype own = dtype_of_parameters(cell);
        if (!dtype_is_float(own) || own == KILN_F64) return;
        cell_describe(cell, text, sizeof text);
        log_warn_here(
            "%s: input %zu is f64 and the parameters are %s: all is computed in f64; kiln_cast(x, KILN_%s) keeps "
            "it as it is",
            text, i, kiln_dtype_name(own),
            own == KILN_F16    ? "F16"
            : own == KILN_BF16 ? "BF16"
                               : "F32");
        return;
    }
}
