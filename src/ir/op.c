#include "ir/op.h"
#include <string.h>

// Names are looked up by registration and tools only, never on the way of an op.
const struct op *op_find(const char *name)
{
    for (int i = 0; i < op_count; i++)
        if (!strcmp(op_table[i]->name, name)) return op_table[i];
    for (int i = 0; i < op_count; i++)
        if (op_table[i]->alias && !strcmp(op_table[i]->alias, name)) return op_table[i];
    return NULL;
}

int op_attr_index(const struct op *op, const char *name)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (!strcmp(op->attrs[i].name, name)) return i;
    return -1;
}
