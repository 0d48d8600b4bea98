// Which ops of ONNX are which rows of the op table: what the build makes of the columns .onnx, see ops/row.h. An export
// reads it the other way.
#pragma once
#include "base/base.h"

enum onnx_map_kind {
    ONNX_DEFAULTS, // the row's attribute is ONNX's, or a value where that is left out
    ONNX_REQUIRED, // ... which may not be left out
    ONNX_CONSTANT, // the row's attribute is a value
    ONNX_MUST_BE,  // it is the row only where ONNX's attribute is a value
    ONNX_MAY_BE,   // ... or is left out
};

struct onnx_map {
    uint8_t kind; // enum onnx_map_kind
    int8_t attr;  // the row's, -1: none
    const char *name, *value;
    double number; // the value as one
};

struct onnx_call;
struct onnx_row {
    const char *name;
    uint8_t since;
    int16_t op;                             // in op_table; -1: it is no row
    kiln_status (*fn)(struct onnx_call *c); // NULL: the maps say all
    uint8_t n_maps;
    const struct onnx_map *maps;
};
extern const struct onnx_row onnx_rows[];
extern const int onnx_row_count;

struct onnx_attr;
struct onnx_node;
// The row that a node is; NULL: none. `find` gives its attributes, NULL for one that is left out; NULL: rows whose
// attributes do not fit count, too.
typedef const struct onnx_attr *(*onnx_find_attr)(const void *user, const char *name);
const struct onnx_row *onnx_find_row(const struct onnx_node *n, int opset, onnx_find_attr find, const void *user);
