// Fields of CSV. They are ended and freed of their quotes where they stand: what is written is never longer than what
// was read.
#include "io/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct csv_reader {
    const struct csv_form *form;
    char *at, *end; // *end may be written
    int64_t line;   // from 1
    size_t column;  // from 1
};

static kiln_status bad(const struct csv_reader *r, int64_t line, const char *what)
{
    return error_set(KILN_E_FORMAT, "%s: line %" PRId64 ", column %zu: %s", r->form->where, line, r->column, what);
}

static bool is_missing(const struct csv_form *form, const char *text)
{
    bool found = !*text;
    for (size_t i = 0; i < form->missing.count && !found; i++) found = !strcmp(text, form->missing.v[i]);
    return found;
}

// What follows a field: a delimiter, the end of a line, or of the text. Ends the field at `last`.
static kiln_status finish_field(struct csv_reader *r, char *last, bool *more)
{
    bool at_end = r->at == r->end, delimits = !at_end && *r->at == r->form->delimiter;
    if (!at_end && *r->at == '\r' && r->at + 1 < r->end && r->at[1] == '\n') r->at++;
    if (!at_end && !delimits && *r->at != '\n') return bad(r, r->line, "something follows the quotes of a field");
    *more = delimits;
    if (!at_end && !delimits) r->line++;
    if (!at_end) r->at++;
    *last = '\0';
    return KILN_OK;
}

static kiln_status read_quoted(struct csv_reader *r, struct table_cell *cell, bool *more)
{
    int64_t line = r->line;
    char *to = r->at++;
    cell->text = to;
    for (;; r->at++) {
        if (r->at == r->end) return bad(r, line, "the quotes of the field do not end");
        if (*r->at == '\0') return bad(r, r->line, "a byte of 0");
        if (*r->at == '"' && (r->at + 1 == r->end || r->at[1] != '"')) break;
        if (*r->at == '"') r->at++;
        if (*r->at == '\n') r->line++;
        *to++ = *r->at;
    }
    r->at++;
    return finish_field(r, to, more);
}

static kiln_status read_plain(struct csv_reader *r, struct table_cell *cell, bool *more)
{
    cell->text = r->at;
    while (r->at < r->end && *r->at != r->form->delimiter && *r->at != '\n') {
        if (*r->at == '"') return bad(r, r->line, "quotes in a field that does not begin with them");
        if (*r->at == '\0') return bad(r, r->line, "a byte of 0");
        r->at++;
    }
    char *last = r->at;
    if (last > cell->text && last[-1] == '\r' && r->at < r->end && *r->at == '\n') last--;
    TRY(finish_field(r, last, more));
    cell->missing = is_missing(r->form, cell->text);
    return KILN_OK;
}

static kiln_status add_cell(struct csv_reader *r, struct kiln_table *t, const struct table_cell *cell)
{
    if (t->n_cells == t->cap_cells) {
        size_t cap = t->cap_cells ? 2 * t->cap_cells : 64;
        struct table_cell *grown = realloc(t->cells, cap * sizeof *grown);
        if (!grown) return error_set(KILN_E_MEMORY, "%s: no memory for %zu fields", r->form->where, cap);
        t->cells = grown;
        t->cap_cells = cap;
    }
    t->cells[t->n_cells++] = *cell;
    return KILN_OK;
}

static kiln_status read_record(struct csv_reader *r, struct kiln_table *t)
{
    int64_t line = r->line;
    size_t n = 0;
    for (bool more = true; more; n++) {
        struct table_cell cell = {0};
        r->column = n + 1;
        TRY(r->at < r->end && *r->at == '"' ? read_quoted(r, &cell, &more) : read_plain(r, &cell, &more));
        TRY(add_cell(r, t, &cell));
    }
    if (t->rows == 0) t->columns = n;
    if (n == t->columns) return KILN_OK;
    return error_set(KILN_E_FORMAT, "%s: line %" PRId64 ": %zu fields, the first has %zu", r->form->where, line, n,
                     t->columns);
}

static bool skip_empty_line(struct csv_reader *r)
{
    size_t n = r->end - r->at > 1 && r->at[0] == '\r' && r->at[1] == '\n' ? 2 : *r->at == '\n' ? 1 : 0;
    r->at += n;
    r->line += n > 0;
    return n > 0;
}

kiln_status csv_parse(const struct csv_form *form, struct kiln_table *t, int64_t **lines)
{
    struct csv_reader r = {.form = form, .at = t->bytes, .end = t->bytes + t->size_B, .line = 1};
    int64_t cap = 0;
    *lines = NULL;
    if (t->size_B >= 3 && !memcmp(t->bytes, "\xef\xbb\xbf", 3)) r.at += 3;
    while (r.at < r.end) {
        if (skip_empty_line(&r)) continue;
        if (t->rows == cap) {
            cap = cap ? 2 * cap : 64;
            int64_t *grown = realloc(*lines, (size_t)cap * sizeof *grown);
            if (!grown) return error_set(KILN_E_MEMORY, "%s: no memory for %" PRId64 " lines", form->where, cap);
            *lines = grown;
        }
        (*lines)[t->rows] = r.line;
        TRY(read_record(&r, t));
        t->rows++;
    }
    return t->rows ? KILN_OK : error_set(KILN_E_FORMAT, "%s: nothing stands in the file", form->where);
}
