// Tables in memory: the bytes of a file, and where its fields begin in them.
#pragma once
#include "io/file.h"
#include <kiln/text.h>

struct table_cell {
    const char *text; // in the table's bytes, ended by a 0
    bool missing;
};

struct kiln_table {
    char *bytes;
    size_t size_B;
    struct table_cell *cells; // row by row, without the header
    size_t n_cells, cap_cells;
    int64_t rows;
    size_t columns;
    char **names; // owned
    kiln_column *types;
};

// csv_parse.c. The fields of t->bytes; the first record too, whatever it is. Lines of records, one an element, are the
// caller's to free.
struct csv_form {
    const char *where;
    char delimiter;
    kiln_names missing;
};
kiln_status csv_parse(const struct csv_form *form, struct kiln_table *t, int64_t **lines);

// What a field says, spaces around it apart. False: something else.
bool table_bool(const char *text, bool digits, bool *out);
bool table_int(const char *text, int64_t *out);
bool table_float(const char *text, double *out);
