// Building a DAG: hash-consing and the simplifications that are exact in floating point. Internal to the scalar layer.
//
// A builder keeps its nodes in a scratch arena of its own. dag_finish copies what the root needs, in topological order
// and without gaps, into the caller's arena. Functions return the index of a node, or -1 with the error set; an
// argument of -1 passes through, so that a chain of calls is checked once, at its end.
#pragma once
#include "scalar/lib.h"
#include "scalar/prim.h"

struct dag_builder {
    struct arena scratch;
    struct scalar_node *nodes;
    int n_nodes, capacity;
    uint32_t *table;     // open addressing, index + 1 of a node; 0 is free
    uint32_t table_size; // power of two
};

void dag_begin(struct dag_builder *b);
void dag_end(struct dag_builder *b); // frees the scratch memory
kiln_status dag_finish(const struct dag_builder *b, struct arena *a, int root, struct scalar_dag *out);
// The same for several roots, which are renamed in place; out->root is the last node.
kiln_status dag_finish_all(const struct dag_builder *b, struct arena *a, int *roots, int n_roots,
                           struct scalar_dag *out);

int dag_const(struct dag_builder *b, enum scalar_class cls, union scalar_value value);
int dag_number(struct dag_builder *b, enum scalar_class cls, double value); // rounded into the class
int dag_input(struct dag_builder *b, enum scalar_class cls, uint16_t index);
int dag_reduce(struct dag_builder *b, enum scalar_reduce how, int x);
int dag_lib(struct dag_builder *b, uint16_t lib, const int *arg);                // arguments of one class
int dag_prim(struct dag_builder *b, enum scalar_prim prim, int x, int y, int z); // classes must fit; unused: 0
// `at` and `where`: -1 for none; `where` without `at` is an error.
int dag_load(struct dag_builder *b, enum scalar_class cls, uint16_t access, int at, int where);
int dag_dim(struct dag_builder *b, uint16_t dim);
int dag_size(struct dag_builder *b, uint16_t dim);
// Copies node `n` with new arguments.
int dag_copy(struct dag_builder *b, const struct scalar_node *n, const int arg[3]);
// Copies the DAG with input i replaced by node inputs[i]; the index of its root.
int dag_inline(struct dag_builder *b, const struct scalar_dag *d, const int *inputs);

static inline enum scalar_class dag_class(const struct dag_builder *b, int node)
{
    return b->nodes[node].cls;
}
