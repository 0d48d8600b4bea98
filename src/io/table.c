// What tables are asked for: columns as tensors.
#include "io/table.h"
#include "base/handles.h"
#include "base/hash.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static kiln_status check(const char *function, const kiln_table *t)
{
    if (error_pending) return error_pending;
    return handle_check(function, "the table", HANDLE_TABLE, t);
}

static kiln_status check_column(const char *function, const kiln_table *t, size_t column)
{
    TRY(check(function, t));
    if (column < t->columns) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: column %zu of %zu", function, column, t->columns);
}

static const struct table_cell *cell_at(const kiln_table *t, int64_t row, size_t column)
{
    return &t->cells[(size_t)row * t->columns + column];
}

int64_t kiln_table_rows(const kiln_table *table)
{
    return check("table_rows", table) ? 0 : table->rows;
}

size_t kiln_table_columns(const kiln_table *table)
{
    return check("table_columns", table) ? 0 : table->columns;
}

const char *kiln_table_name(const kiln_table *table, size_t column)
{
    return check_column("table_name", table, column) ? NULL : table->names[column];
}

kiln_column kiln_table_type(const kiln_table *table, size_t column)
{
    return check_column("table_type", table, column) ? KILN_COLUMN_AUTO : table->types[column];
}

static size_t find_column(const char *function, const kiln_table *t, const char *name)
{
    for (size_t c = 0; name && c < t->columns; c++)
        if (!strcmp(t->names[c], name)) return c;
    error_set(KILN_E_ARGUMENT, "%s: there is no column \"%s\"; the first is \"%s\"", function, name ? name : "(NULL)",
              t->names[0]);
    return SIZE_MAX;
}

size_t kiln_table_find(const kiln_table *table, const char *name)
{
    return check("table_find", table) ? SIZE_MAX : find_column("table_find", table, name);
}

const char *kiln_table_text(const kiln_table *table, int64_t row, size_t column)
{
    if (check_column("table_text", table, column)) return NULL;
    if (row >= 0 && row < table->rows) return cell_at(table, row, column)->text;
    error_set(KILN_E_ARGUMENT, "table_text: row %" PRId64 " of %" PRId64, row, table->rows);
    return NULL;
}

static double number_at(const kiln_table *t, int64_t row, size_t column)
{
    const struct table_cell *cell = cell_at(t, row, column);
    bool b = false;
    int64_t i = 0;
    double d = NAN;
    if (t->types[column] == KILN_COLUMN_BOOL) return table_bool(cell->text, true, &b) && b;
    if (t->types[column] == KILN_COLUMN_INT) return table_int(cell->text, &i) ? (double)i : 0;
    return !cell->missing && table_float(cell->text, &d) ? d : NAN;
}

// Memory for as many elements of 8 bytes as there are rows, times n.
static void *rows_of(const char *function, const kiln_table *t, size_t n)
{
    size_t items;
    void *out = __builtin_mul_overflow((size_t)t->rows, n, &items) ? NULL : calloc(items + 1, 8);
    if (!out) error_set(KILN_E_MEMORY, "%s: no memory for %" PRId64 " rows", function, t->rows);
    return out;
}

static kiln_tensor *give(const kiln_table *t, kiln_device *dev, kiln_dtype dtype, void *data)
{
    kiln_tensor *out = data ? kiln_from_data(dev, dtype, KILN_SHAPE(t->rows), data) : NULL;
    free(data);
    return out;
}

kiln_tensor *kiln_table_column(const kiln_table *table, kiln_device *dev, size_t column)
{
    if (check_column("table_column", table, column)) return NULL;
    kiln_column type = table->types[column];
    if (type == KILN_COLUMN_TEXT) {
        error_set(KILN_E_DTYPE, "table_column: column %zu, \"%s\", is of texts", column, table->names[column]);
        return NULL;
    }
    void *out = rows_of("table_column", table, 1);
    for (int64_t row = 0; out && row < table->rows; row++) {
        if (type == KILN_COLUMN_INT)
            table_int(cell_at(table, row, column)->text, &((int64_t *)out)[row]);
        else if (type == KILN_COLUMN_BOOL)
            ((unsigned char *)out)[row] = number_at(table, row, column) != 0;
        else
            ((double *)out)[row] = number_at(table, row, column);
    }
    return give(table, dev, type == KILN_COLUMN_INT ? KILN_I64 : type == KILN_COLUMN_BOOL ? KILN_BOOL : KILN_F64, out);
}

kiln_tensor *kiln_table_missing(const kiln_table *table, kiln_device *dev, size_t column)
{
    if (check_column("table_missing", table, column)) return NULL;
    unsigned char *out = rows_of("table_missing", table, 1);
    for (int64_t row = 0; out && row < table->rows; row++) out[row] = cell_at(table, row, column)->missing;
    return give(table, dev, KILN_BOOL, out);
}

// Rows by their texts, open addressing: a place holds the first row of its text and one more than the code.
struct code_place {
    int64_t row, code;
};

static struct code_place *find_place(const kiln_table *t, size_t column, const char *text, struct code_place *places,
                                     size_t mask)
{
    size_t i = hash_bytes(0, text, strlen(text)) & mask;
    while (places[i].code && strcmp(cell_at(t, places[i].row, column)->text, text)) i = (i + 1) & mask;
    return &places[i];
}

kiln_tensor *kiln_table_codes(const kiln_table *table, kiln_device *dev, size_t column)
{
    if (check_column("table_codes", table, column)) return NULL;
    size_t size = 16;
    while (size < 2 * (size_t)table->rows) size *= 2;
    int64_t *out = rows_of("table_codes", table, 1), n = 0;
    struct code_place *places = calloc(size, sizeof *places);
    if (!places) error_set(KILN_E_MEMORY, "table_codes: no memory for %" PRId64 " rows", table->rows);
    for (int64_t row = 0; out && places && row < table->rows; row++) {
        const struct table_cell *cell = cell_at(table, row, column);
        out[row] = -1;
        if (cell->missing) continue;
        struct code_place *place = find_place(table, column, cell->text, places, size - 1);
        if (!place->code) *place = (struct code_place){row, ++n};
        out[row] = place->code - 1;
    }
    free(places);
    if (!error_pending) return give(table, dev, KILN_I64, out);
    free(out);
    return NULL;
}

static kiln_status fill_matrix(const kiln_table *t, const char *const *names, size_t n, bool wide, void *out)
{
    for (size_t k = 0; k < n; k++) {
        size_t c = find_column("table_matrix", t, names[k]);
        if (c == SIZE_MAX) return error_pending;
        if (t->types[c] == KILN_COLUMN_TEXT)
            return error_set(KILN_E_DTYPE, "table_matrix: column %zu, \"%s\", is of texts", c, t->names[c]);
        for (int64_t row = 0; row < t->rows; row++) {
            size_t at = (size_t)row * n + k;
            if (wide)
                ((double *)out)[at] = number_at(t, row, c);
            else
                ((float *)out)[at] = (float)number_at(t, row, c);
        }
    }
    return KILN_OK;
}

kiln_tensor *kiln_table_matrix(const kiln_table *table, kiln_device *dev, kiln_dtype dtype, const char *const *names,
                               size_t n)
{
    if (check("table_matrix", table)) return NULL;
    if (dtype != KILN_F32 && dtype != KILN_F64) {
        error_set(KILN_E_DTYPE, "table_matrix: to %s; f32 and f64 are allowed", kiln_dtype_name(dtype));
        return NULL;
    }
    if (n && !names) {
        error_set(KILN_E_ARGUMENT, "table_matrix: the list of names is NULL");
        return NULL;
    }
    void *out = rows_of("table_matrix", table, n);
    kiln_tensor *t = NULL;
    if (out && !fill_matrix(table, names, n, dtype == KILN_F64, out))
        t = kiln_from_data(dev, dtype, KILN_SHAPE(table->rows, (int64_t)n), out);
    free(out);
    return t;
}
