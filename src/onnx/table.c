// Finding the row of a node.
#include "onnx/table.h"
#include "onnx/model.h"
#include <string.h>

static bool has_value(const struct onnx_attr *a, const struct onnx_map *map)
{
    switch (a->type) {
    case ONNX_INT: return (double)a->i == map->number;
    case ONNX_FLOAT: return a->f == (float)map->number;
    case ONNX_STRING: return !strcmp(a->s, map->value);
    default: return false;
    }
}

static bool fits(const struct onnx_row *r, onnx_find_attr find, const void *user)
{
    for (int i = 0; i < r->n_maps; i++) {
        const struct onnx_map *map = &r->maps[i];
        if (map->kind != ONNX_MUST_BE && map->kind != ONNX_MAY_BE) continue;
        const struct onnx_attr *a = find(user, map->name);
        if (a ? !has_value(a, map) : map->kind == ONNX_MUST_BE) return false;
    }
    return true;
}

const struct onnx_row *onnx_find_row(const struct onnx_node *n, int opset, onnx_find_attr find, const void *user)
{
    if (*n->domain) return NULL;
    for (int i = 0; i < onnx_row_count; i++) {
        const struct onnx_row *r = &onnx_rows[i];
        if (!strcmp(r->name, n->op) && r->since <= opset && (!find || fits(r, find, user))) return r;
    }
    return NULL;
}
