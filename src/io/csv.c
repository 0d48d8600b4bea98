// CSV: files to tables, with the types of their columns, and tensors to files.
#include "base/c_locale.h"
#include "base/handles.h"
#include "base/options.h"
#include "io/array.h"
#include "io/table.h"

#include <kiln/ops.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// --- what a field says

static bool only_spaces(const char *text)
{
    return !text[strspn(text, " \t")];
}

bool table_bool(const char *text, bool digits, bool *out)
{
    static const char *const words[] = {"false", "true", "0", "1"};
    text += strspn(text, " \t");
    for (size_t i = 0; i < (digits ? 4 : 2); i++) {
        size_t n = strlen(words[i]);
        if (strncasecmp(text, words[i], n) || !only_spaces(text + n)) continue;
        *out = i % 2;
        return true;
    }
    return false;
}

bool table_int(const char *text, int64_t *out)
{
    char *end;
    text += strspn(text, " \t");
    if (!strchr("+-0123456789", *text)) return false;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && !errno && only_spaces(end);
}

// Without what strtod takes beside decimal numbers, inf and nan.
bool table_float(const char *text, double *out)
{
    char *end;
    text += strspn(text, " \t");
    if (!*text || strpbrk(text, "xX(")) return false;
    *out = c_strtod(text, &end);
    return end != text && only_spaces(end);
}

// --- types

static bool fits(kiln_column type, bool digits, const struct table_cell *cell)
{
    bool b;
    int64_t i;
    double d;
    switch (type) {
    case KILN_COLUMN_BOOL: return !cell->missing && table_bool(cell->text, digits, &b);
    case KILN_COLUMN_INT: return !cell->missing && table_int(cell->text, &i);
    case KILN_COLUMN_FLOAT: return cell->missing || table_float(cell->text, &d);
    default: return true;
    }
}

static kiln_column find_type(const struct kiln_table *t, size_t column)
{
    kiln_column type = t->rows ? KILN_COLUMN_BOOL : KILN_COLUMN_FLOAT;
    for (int64_t row = 0; row < t->rows; row++)
        while (!fits(type, false, &t->cells[(size_t)row * t->columns + column])) {
            // What was fine before as one of the others may not be as this one.
            type++;
            row = 0;
        }
    return type;
}

static kiln_status check_type(const struct csv_form *form, const struct kiln_table *t, size_t column,
                              const int64_t *lines)
{
    static const char *const words[] = {"", "true or false", "an integer", "a number"};
    for (int64_t row = 0; row < t->rows; row++) {
        const struct table_cell *cell = &t->cells[(size_t)row * t->columns + column];
        if (fits(t->types[column], true, cell)) continue;
        return error_set(KILN_E_FORMAT, "%s: line %" PRId64 ", column %zu (\"%s\"): \"%s\" is not %s", form->where,
                         lines[row], column + 1, t->names[column], cell->text, words[t->types[column]]);
    }
    return KILN_OK;
}

static kiln_status set_types(const struct csv_form *form, struct kiln_table *t, const kiln_csv_opts *o,
                             const int64_t *lines)
{
    t->types = calloc(t->columns, sizeof *t->types);
    if (!t->types) return error_set(KILN_E_MEMORY, "%s: no memory for %zu columns", form->where, t->columns);
    if (o->n_types > t->columns)
        return error_set(KILN_E_ARGUMENT, "%s: types of %zu columns, there are %zu", form->where, o->n_types,
                         t->columns);
    for (size_t c = 0; c < t->columns; c++) {
        t->types[c] = c < o->n_types && o->types[c] != KILN_COLUMN_AUTO ? o->types[c] : find_type(t, c);
        if (c < o->n_types) TRY(check_type(form, t, c, lines));
    }
    return KILN_OK;
}

// --- loading

static kiln_status set_names(const struct csv_form *form, struct kiln_table *t, bool header)
{
    t->names = calloc(t->columns, sizeof *t->names);
    for (size_t c = 0; t->names && c < t->columns; c++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", c);
        t->names[c] = io_strdup(form->where, header ? t->cells[c].text : number);
        if (!t->names[c]) return error_pending;
    }
    if (!t->names) return error_set(KILN_E_MEMORY, "%s: no memory for %zu columns", form->where, t->columns);
    if (!header) return KILN_OK;
    t->n_cells -= t->columns;
    t->rows--;
    memmove(t->cells, t->cells + t->columns, t->n_cells * sizeof *t->cells);
    return KILN_OK;
}

static kiln_status load(const struct io_reader *f, struct kiln_table *t, const kiln_csv_opts *o)
{
    struct csv_form form = {f->where, o->delimiter ? o->delimiter : ',', o->missing};
    int64_t *lines = NULL;
    if (f->size_B > PTRDIFF_MAX - 1) return error_set(KILN_E_MEMORY, "%s: is too large", f->where);
    TRY(io_alloc(f->where, f->size_B + 1, &t->bytes));
    t->size_B = (size_t)f->size_B;
    TRY(io_read(f, 0, t->bytes, f->size_B));
    kiln_status status = csv_parse(&form, t, &lines);
    if (!status) status = set_names(&form, t, !o->no_header);
    if (!status) status = set_types(&form, t, o, lines + !o->no_header);
    free(lines);
    return status;
}

static kiln_status check_options(const char *function, const kiln_csv_opts *o)
{
    if (o->delimiter == '"' || o->delimiter == '\n' || o->delimiter == '\r')
        return error_set(KILN_E_ARGUMENT, "%s: the delimiter is a quote or the end of a line", function);
    if (o->n_types && !o->types)
        return error_set(KILN_E_ARGUMENT, "%s: .types is NULL, .n_types %zu", function, o->n_types);
    for (size_t i = 0; i < o->n_types; i++)
        if (o->types[i] < KILN_COLUMN_AUTO || o->types[i] > KILN_COLUMN_TEXT)
            return error_set(KILN_E_ARGUMENT, "%s: there is no type %d of a column", function, (int)o->types[i]);
    for (size_t i = 0; i < o->missing.count; i++)
        if (!o->missing.v || !o->missing.v[i])
            return error_set(KILN_E_ARGUMENT, "%s: text %zu of .missing is NULL", function, i);
    return KILN_OK;
}

kiln_table *kiln_csv_load(const char *path, const kiln_csv_opts *opts)
{
    kiln_csv_opts o;
    struct io_reader f;
    if (options_read("csv_load", KILN_CSV, &o, opts) || error_pending || check_options("csv_load", &o)) return NULL;
    if (io_open(&f, "csv_load", path)) return NULL;
    kiln_table *t = handle_new(HANDLE_TABLE, sizeof *t);
    kiln_status status = t ? load(&f, t, &o) : error_set(KILN_E_MEMORY, "%s: no memory", f.where);
    io_close(&f);
    if (status) kiln_table_free(&t);
    return t;
}

void kiln_table_free(kiln_table **table)
{
    if (!handle_may_free("table_free", HANDLE_TABLE, table)) return;
    kiln_table *t = *table;
    for (size_t c = 0; t->names && c < t->columns; c++) free(t->names[c]);
    free(t->names);
    free(t->types);
    free(t->cells);
    free(t->bytes);
    handle_free(HANDLE_TABLE, t);
    *table = NULL;
}

// --- saving

struct csv_column {
    struct io_array array;
    void *data;
};

// In quotes where it could be taken for something else.
static kiln_status write_text(struct io_writer *w, char delimiter, const char *text)
{
    const char special[] = {delimiter, '"', '\n', '\r', '\0'};
    if (*text && !strpbrk(text, special)) return io_write(w, text, strlen(text));
    TRY(io_write(w, "\"", 1));
    for (; *text; text++) TRY(io_write(w, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1));
    return io_write(w, "\"", 1);
}

static kiln_status write_number(struct io_writer *w, const struct csv_column *c, int64_t row)
{
    char text[C_NUMBER_B];
    const void *v = c->data;
    switch (c->array.dtype) {
    case KILN_F64: c_shortest(text, ((const double *)v)[row], false); break;
    case KILN_F32: c_shortest(text, (double)((const float *)v)[row], true); break;
    case KILN_BOOL: strcpy(text, ((const unsigned char *)v)[row] ? "true" : "false"); break;
    default: snprintf(text, sizeof text, "%" PRId64, ((const int64_t *)v)[row]); break;
    }
    return io_write(w, text, strlen(text));
}

static kiln_status write_rows(struct io_writer *w, const char *const *names, const struct csv_column *columns, size_t n,
                              const kiln_csv_opts *o)
{
    char delimiter = o->delimiter ? o->delimiter : ',';
    for (size_t c = 0; c < n && !o->no_header; c++) {
        if (c) TRY(io_write(w, &delimiter, 1));
        TRY(write_text(w, delimiter, names[c]));
    }
    if (!o->no_header) TRY(io_write(w, "\n", 1));
    for (int64_t row = 0; n && row < columns[0].array.dims[0]; row++) {
        for (size_t c = 0; c < n; c++) {
            if (c) TRY(io_write(w, &delimiter, 1));
            TRY(write_number(w, &columns[c], row));
        }
        TRY(io_write(w, "\n", 1));
    }
    return io_commit(w);
}

// Which of the four dtypes that are written has all values of another; -1: none.
static int written_as(kiln_dtype dtype)
{
    switch (dtype) {
    case KILN_BOOL: return KILN_BOOL;
    case KILN_U8:
    case KILN_I8:
    case KILN_I16:
    case KILN_I32:
    case KILN_I64: return KILN_I64;
    case KILN_F16:
    case KILN_BF16:
    case KILN_F32: return KILN_F32;
    case KILN_F64: return KILN_F64;
    default: return -1;
    }
}

static kiln_status read_column(kiln_tensor *t, size_t i, const struct csv_column *first, struct csv_column *out)
{
    kiln_dtype dtype = kiln_tensor_dtype(t);
    int as = written_as(dtype);
    if (error_pending) return error_pending;
    if (as < 0) return error_set(KILN_E_DTYPE, "csv_save: column %zu is %s", i, kiln_dtype_name(dtype));
    if (kiln_rank(t) != 1 || (i && kiln_dims(t)[0] != first->array.dims[0]))
        return error_set(KILN_E_SHAPE, "csv_save: column %zu has rank %zu and %" PRId64 " elements, the first %" PRId64,
                         i, kiln_rank(t), kiln_numel(t), i ? first->array.dims[0] : kiln_numel(t));
    uint64_t size_B;
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *cast = as == (int)dtype ? t : kiln_cast(t, (kiln_dtype)as);
    if (cast) io_array_read("csv_save", cast, &out->array, &out->data, &size_B);
    kiln_scope_end(&scope);
    return error_pending;
}

kiln_status kiln_csv_save(const char *path, const char *const *names, kiln_tensor *const *tensors, size_t n,
                          const kiln_csv_opts *opts)
{
    kiln_csv_opts o;
    TRY(options_read("csv_save", KILN_CSV, &o, opts));
    if (error_pending) return error_pending;
    TRY(check_options("csv_save", &o));
    TRY(io_check_names("csv_save", names, tensors, n));
    struct csv_column *columns = calloc(n + 1, sizeof *columns);
    if (!columns) return error_set(KILN_E_MEMORY, "csv_save: no memory for %zu columns", n);
    struct io_writer w;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n && !status; i++) status = read_column(tensors[i], i, columns, &columns[i]);
    if (!status) status = io_create(&w, "csv_save", path);
    if (!status) {
        status = write_rows(&w, names, columns, n, &o);
        io_abandon(&w);
    }
    for (size_t i = 0; i < n; i++) free(columns[i].data);
    free(columns);
    return status;
}
