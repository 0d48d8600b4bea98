// The table of kiln_cell_summary.
//
// Rows are made of the tree, in its order, before anything runs; each cell points to its own, and a call of a cell
// fills it. The call is recorded, not run: the nodes between its beginning and its end are the cell's, those of cells
// that it calls among them. Invariant: no cell has a row when the summary has ended, in whatever way.
#include "nn/cell.h"
#include "base/handles.h"
#include "base/leave.h"
#include "base/str.h"
#include "jit/capture/sketch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 6, WORD = 512 };

struct cell_row {
    kiln_cell *cell;
    int depth, calls;
    double flops;
    char output[256];
};

struct summary {
    kiln_cell *cell;
    struct cell_row *rows;
    size_t n;
};

size_t cell_row_enter(void)
{
    return sketch_nodes();
}

// "f32[2,10]"; what does not fit is cut.
static size_t say_type(const kiln_tensor *t, char *out, size_t size_B)
{
    const int64_t *dims = kiln_dims(t);
    size_t n = (size_t)snprintf(out, size_B, "%s[", kiln_dtype_name(kiln_tensor_dtype(t)));
    for (size_t d = 0; d < kiln_rank(t) && n < size_B; d++)
        n += (size_t)snprintf(out + n, size_B - n, "%s%" PRId64, d ? "," : "", dims[d]);
    if (n < size_B) n += (size_t)snprintf(out + n, size_B - n, "]");
    return n;
}

void cell_row_leave(kiln_cell *cell, size_t entered, kiln_tensor *const *out, size_t n_out)
{
    struct cell_row *row = cell->row;
    size_t n = 0;
    row->calls++;
    row->flops += sketch_flops(entered);
    *row->output = '\0';
    for (size_t i = 0; i < n_out && n < sizeof row->output; i++) {
        if (i) n += (size_t)snprintf(row->output + n, sizeof row->output - n, ", ");
        if (n < sizeof row->output) n += say_type(out[i], row->output + n, sizeof row->output - n);
    }
    if (row->calls > 1 && n < sizeof row->output)
        snprintf(row->output + n, sizeof row->output - n, " (%d calls)", row->calls);
}

static size_t count_cells(const kiln_cell *cell)
{
    size_t n = 1;
    for (size_t i = 0; i < cell->n_children; i++) n += count_cells(cell->children[i]);
    return n;
}

static void add_rows(struct summary *s, kiln_cell *cell, int depth)
{
    s->rows[s->n] = (struct cell_row){.cell = cell, .depth = depth};
    cell->row = &s->rows[s->n++];
    for (size_t i = 0; i < cell->n_children; i++) add_rows(s, cell->children[i], depth + 1);
}

static void drop_rows(kiln_cell *cell)
{
    cell->row = NULL;
    for (size_t i = 0; i < cell->n_children; i++) drop_rows(cell->children[i]);
}

// --- parameters

struct held {
    int64_t trained, frozen, parameters_B, buffers, buffers_B;
};

static int64_t bytes_of(const kiln_tensor *t)
{
    kiln_dtype dtype = kiln_tensor_dtype(t);
    int64_t n = kiln_numel(t);
    return dtype == KILN_I4 || dtype == KILN_U4 ? (n + 1) / 2 : n * (int64_t)kiln_dtype_size(dtype);
}

static bool take_tensor(void *user, kiln_cell *owner, struct cell_tensor *t)
{
    struct held *h = user;
    (void)owner;
    if (!t->is_parameter) {
        h->buffers += kiln_numel(t->tensor);
        h->buffers_B += bytes_of(t->tensor);
        return true;
    }
    *(kiln_requires_grad(t->tensor) ? &h->trained : &h->frozen) += kiln_numel(t->tensor);
    h->parameters_B += bytes_of(t->tensor);
    return true;
}

static const char *say_trained(const struct held *h)
{
    return !h->trained && !h->frozen ? "" : !h->frozen ? "yes" : h->trained ? "in part" : "no";
}

// --- the table

// Digits in groups of three: "1,234,567".
static void say_count(double count, char *out)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%.0f", count);
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
}

// Characters of UTF-8.
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static const char *const heads[COLUMNS] = {"cell", "output", "parameters", "bytes", "trained", "multiply-adds"};
static const bool is_right[COLUMNS] = {false, false, true, true, false, true};

// The words of a row; false when memory is out.
static bool say_row(const struct cell_row *row, char words[COLUMNS][WORD])
{
    const kiln_cell *cell = row->cell;
    struct held held = {0};
    if (!cell_visit(row->cell, take_tensor, &held)) return false;
    snprintf(words[0], WORD, "%*s%s%s%s%s%s", 2 * row->depth, "", row->depth ? cell->name : "", row->depth ? ": " : "",
             cell->kind, *cell->sizes ? " " : "", cell->sizes);
    snprintf(words[1], WORD, "%s", row->calls ? row->output : "not called");
    for (int i = 2; i < COLUMNS; i++) *words[i] = '\0';
    if (held.trained + held.frozen) {
        say_count((double)(held.trained + held.frozen), words[2]);
        say_count((double)held.parameters_B, words[3]);
    }
    snprintf(words[4], WORD, "%s", say_trained(&held));
    if (row->flops > 0) say_count(row->flops / 2, words[5]);
    return true;
}

static void add_line(struct str *s, char words[COLUMNS][WORD], const int *widths)
{
    size_t begin = s->len;
    for (int i = 0; i < COLUMNS; i++) {
        int pad = widths[i] - width_of(words[i]);
        if (is_right[i]) str_addf(s, "%*s", pad, "");
        str_add(s, words[i]);
        if (!is_right[i]) str_addf(s, "%*s", pad, "");
        if (i + 1 < COLUMNS) str_add(s, "  ");
    }
    while (!s->failed && s->len > begin && s->text[s->len - 1] == ' ') s->text[--s->len] = '\0';
    str_add(s, "\n");
}

static void add_totals(const struct summary *s, struct str *text)
{
    struct held h = {0};
    char count[48], bytes[48], part[48];
    cell_visit(s->cell, take_tensor, &h);
    say_count((double)(h.trained + h.frozen), count);
    say_count((double)h.parameters_B, bytes);
    str_addf(text, "%s parameter%s of %s bytes", count, h.trained + h.frozen == 1 ? "" : "s", bytes);
    say_count((double)h.trained, part);
    if (h.frozen) str_addf(text, ", %s of them trained", part);
    say_count((double)h.buffers, count);
    say_count((double)h.buffers_B, bytes);
    if (h.buffers) str_addf(text, "; buffers: %s element%s of %s bytes", count, h.buffers == 1 ? "" : "s", bytes);
    say_count(s->rows[0].flops / 2, count);
    str_addf(text, "; %s multiply-adds\n", count);
}

static void add_table(const struct summary *s, struct str *text)
{
    char words[COLUMNS][WORD];
    int widths[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) widths[i] = width_of(heads[i]);
    for (size_t r = 0; r < s->n && say_row(&s->rows[r], words); r++)
        for (int i = 0; i < COLUMNS; i++)
            if (width_of(words[i]) > widths[i]) widths[i] = width_of(words[i]);
    for (int i = 0; i < COLUMNS; i++) snprintf(words[i], WORD, "%s", heads[i]);
    add_line(text, words, widths);
    for (size_t r = 0; r < s->n && say_row(&s->rows[r], words); r++) add_line(text, words, widths);
    add_totals(s, text);
}

static void finish(void *at)
{
    struct summary *s = at;
    drop_rows(s->cell);
    free(s->rows);
}

static kiln_status check(const kiln_cell *cell, kiln_tensor *const *in, size_t n_in, const FILE *f)
{
    TRY(cell_check("cell_summary", cell));
    if (!f) return error_set(KILN_E_ARGUMENT, "cell_summary: f is NULL");
    if (n_in && !in) return error_set(KILN_E_ARGUMENT, "cell_summary: in is NULL");
    return KILN_OK;
}

static kiln_status write(const struct summary *s, FILE *f)
{
    struct str text;
    str_init(&text);
    add_table(s, &text);
    kiln_status status = str_check(&text);
    if (!status) status = kiln_error();
    if (!status && fputs(str_text(&text), f) < 0)
        status = error_set(KILN_E_IO, "cell_summary: the file cannot be written");
    str_free(&text);
    return status;
}

kiln_status kiln_cell_summary_n(kiln_cell *cell, kiln_tensor *const *in, size_t n_in, size_t n_out, FILE *f)
{
    TRY(check(cell, in, n_in, f));
    if (cell->row) return error_set(KILN_E_STATE, "cell_summary: %s is in the midst of one", cell->kind);
    struct summary s = {.cell = cell, .rows = calloc(count_cells(cell), sizeof *s.rows)};
    if (!s.rows) return error_set(KILN_E_MEMORY, "cell_summary: host memory is exhausted");
    struct leave left;
    add_rows(&s, cell, 0);
    leave_push(&left, finish, &s);
    kiln_status status = sketch_run("cell_summary", kiln_cell_fn, cell, in, n_in, n_out);
    leave_pop(&left);
    if (!status) status = write(&s, f);
    finish(&s);
    return status;
}

kiln_status kiln_cell_summary(kiln_cell *cell, kiln_tensor *x, FILE *f)
{
    return kiln_cell_summary_n(cell, &x, 1, 1, f);
}
