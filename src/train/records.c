// Rows as texts: CSV in the form of RFC 4180, and a line of JSON for each. A row is appended when the next one begins;
// a column that comes late, and a file that is not what was left, make the file be written anew as a whole.
#include "train/training.h"
#include "base/c_locale.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct record_format {
    const char *file;
    void (*head)(struct str *s, const struct train_history *h); // NULL: none
    void (*row)(struct str *s, const struct train_history *h, size_t row);
};

static void add_number(struct str *s, double v)
{
    char text[C_NUMBER_B];
    str_add(s, c_shortest(text, v, false));
}

// --- CSV

static void csv_field(struct str *s, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        str_add(s, text);
        return;
    }
    str_add(s, "\"");
    for (; *text; text++) str_addn(s, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    str_add(s, "\"");
}

static void csv_head(struct str *s, const struct train_history *h)
{
    str_add(s, "step,epoch,seconds");
    for (size_t i = 0; i < h->n_columns; i++) {
        str_add(s, ",");
        csv_field(s, h->columns[i].name);
    }
    str_add(s, "\n");
}

static void csv_row(struct str *s, const struct train_history *h, size_t row)
{
    str_addf(s, "%lld,%lld,", (long long)h->steps[row], (long long)h->epochs[row]);
    add_number(s, h->seconds[row]);
    for (size_t i = 0; i < h->n_columns; i++) {
        str_add(s, ",");
        if (h->columns[i].has[row]) add_number(s, h->columns[i].values[row]);
    }
    str_add(s, "\n");
}

// --- JSON. It has no NaN and no infinities: they are texts, as in protobuf's JSON.

static void json_text(struct str *s, const char *text)
{
    str_add(s, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') str_add(s, "\\");
        str_addn(s, text, 1);
    }
    str_add(s, "\"");
}

static void json_number(struct str *s, double v)
{
    if (isfinite(v))
        add_number(s, v);
    else
        str_add(s, isnan(v) ? "\"NaN\"" : v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
}

static void json_row(struct str *s, const struct train_history *h, size_t row)
{
    str_addf(s, "{\"step\":%lld,\"epoch\":%lld,\"seconds\":", (long long)h->steps[row], (long long)h->epochs[row]);
    json_number(s, h->seconds[row]);
    for (size_t i = 0; i < h->n_columns; i++) {
        if (!h->columns[i].has[row]) continue;
        str_add(s, ",");
        json_text(s, h->columns[i].name);
        str_add(s, ":");
        json_number(s, h->columns[i].values[row]);
    }
    str_add(s, "}\n");
}

static const struct record_format formats[RECORDS] = {
    [RECORD_CSV] = {"log.csv", csv_head, csv_row},
    [RECORD_JSONL] = {"log.jsonl", NULL, json_row},
};

// --- files

const char *record_name(size_t i)
{
    return formats[i].file;
}

void records_init(kiln_training *t)
{
    const bool left_out[RECORDS] = {[RECORD_CSV] = t->opts.no_csv, [RECORD_JSONL] = t->opts.no_jsonl};
    for (size_t i = 0; i < RECORDS; i++) t->records[i].format = t->path && !left_out[i] ? &formats[i] : NULL;
}

static int write_record(struct train_record *r, const struct train_history *h, const char *path)
{
    bool whole = r->broken || r->rows == 0 || (r->format->head && r->columns != h->n_columns);
    size_t from = whole ? 0 : r->rows;
    struct str s;
    str_init(&s);
    if (whole && r->format->head) r->format->head(&s, h);
    for (size_t i = from; i < h->n_rows; i++) r->format->row(&s, h, i);
    int failed = s.failed ? ENOMEM
                 : whole  ? file_replace(path, s.text, s.len)
                          : file_append(path, r->size_B, s.text, s.len);
    r->broken = failed != 0;
    if (!failed) {
        r->size_B = whole ? s.len : r->size_B + s.len;
        r->rows = h->n_rows;
        r->columns = h->n_columns;
    }
    str_free(&s);
    return failed;
}

kiln_status records_write(kiln_training *t)
{
    for (size_t i = 0; i < RECORDS; i++) {
        struct train_record *r = &t->records[i];
        if (!r->format || (r->rows == t->history.n_rows && !r->broken)) continue;
        char *path = file_path(t->path, r->format->file);
        int failed = path ? write_record(r, &t->history, path) : ENOMEM;
        if (failed == ESTALE) failed = write_record(r, &t->history, path); // changed by others: anew
        free(path);
        if (failed) TRY(training_complain(t, r->format->file, "cannot be written", failed));
    }
    return KILN_OK;
}
