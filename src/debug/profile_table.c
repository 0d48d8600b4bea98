// Rows by their keys, and how they are printed.
//
// The share of the ceiling is the least time that the device's memory and arithmetic allow for what a row has moved and
// computed, the longer of the two for each launch, by the time that it took.
#include "debug/profile_table.h"
#include "base/c_locale.h"
#include "base/hash.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 256, NAME_WIDTH = 44 };

void table_init(struct profile_table *t, kiln_profile_by by)
{
    *t = (struct profile_table){.by = by};
    arena_init(&t->arena);
}

void table_finish(struct profile_table *t)
{
    vec_free(&t->rows);
    free(t->slots);
    arena_finish(&t->arena);
}

struct table_device *table_device(struct profile_table *t, const char *name)
{
    for (int i = 0; i < t->n_devices; i++)
        if (!strncmp(t->devices[i].name, name, sizeof t->devices[i].name - 1)) return &t->devices[i];
    return NULL;
}

struct table_device *table_add_device(struct profile_table *t, const char *name, const char *kind)
{
    struct table_device *d = table_device(t, name);
    if (d || t->n_devices == TABLE_DEVICES) return d;
    d = &t->devices[t->n_devices++];
    *d = (struct table_device){.peak_B = 0};
    snprintf(d->name, sizeof d->name, "%s", name);
    snprintf(d->kind, sizeof d->kind, "%s", kind);
    return d;
}

static kiln_status grow(struct profile_table *t)
{
    if (2 * (t->rows.n + 1) <= t->n_slots) return KILN_OK;
    size_t n = t->n_slots ? 2 * t->n_slots : FIRST_SLOTS;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots) return error_set(KILN_E_MEMORY, "profile_print: out of memory");
    for (size_t i = 0; i < t->rows.n; i++) {
        size_t at = t->rows.v[i].hash & (n - 1);
        while (slots[at]) at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(t->slots);
    t->slots = slots;
    t->n_slots = n;
    return KILN_OK;
}

static kiln_status find(struct profile_table *t, const char *key, struct table_row **out)
{
    uint64_t hash = hash_str(key);
    TRY(grow(t));
    size_t at = hash & (t->n_slots - 1);
    for (; t->slots[at]; at = (at + 1) & (t->n_slots - 1)) {
        *out = &t->rows.v[t->slots[at] - 1];
        if ((*out)->hash == hash && !strcmp((*out)->key, key)) return KILN_OK;
    }
    struct table_row row = {.hash = hash, .key = arena_strdup(&t->arena, key)};
    if (!row.key) return error_pending;
    TRY(vec_push(&t->rows, row));
    t->slots[at] = (uint32_t)t->rows.n;
    *out = &t->rows.v[t->rows.n - 1];
    return KILN_OK;
}

static void add_other(struct profile_table *t, const struct profile_row *r)
{
    int i = 0;
    while (i < t->n_others && strcmp(t->others[i].category, r->category)) i++;
    if (i == (int)COUNT_OF(t->others)) return;
    if (i == t->n_others) {
        char *name = arena_strdup(&t->arena, r->category);
        if (!name) {
            kiln_error_clear(); // they are not what the table is for
            return;
        }
        t->others[t->n_others++] = (struct table_other){.category = name};
    }
    t->others[i].n += r->n;
    t->others[i].total_us += r->total_us;
}

static const char *key_of(const struct profile_table *t, const struct profile_row *r)
{
    switch (t->by) {
    case KILN_PROFILE_BY_OP: return *r->op ? r->op : r->name;
    case KILN_PROFILE_BY_LINE: return *r->line ? r->line : "(no line)";
    case KILN_PROFILE_BY_CELL: return *r->cell ? r->cell : "(no cell)";
    default: return r->name;
    }
}

static void add_bound(struct profile_table *t, const struct profile_row *r, struct table_row *row)
{
    const struct table_device *d = table_device(t, r->device);
    if (!d || !(d->copy_B_per_s > 0) || !(d->flop_per_s > 0)) return;
    double moving = r->bytes / d->copy_B_per_s, computing = r->flops / d->flop_per_s;
    row->least_us += r->n * 1e6 * fmax(moving, computing);
    row->bound_us += r->total_us;
}

kiln_status table_add(struct profile_table *t, const struct profile_row *r)
{
    struct table_row *row;
    if (r->n == 0) return KILN_OK;
    if (strcmp(r->category, "launch") && strcmp(r->category, "copy")) {
        add_other(t, r);
        return KILN_OK;
    }
    TRY(find(t, key_of(t, r), &row));
    row->n += r->n;
    row->total_us += r->total_us;
    row->bytes += r->n * r->bytes;
    if (r->flops >= 0) {
        row->flops += r->n * r->flops;
        row->flops_known = true;
    }
    add_bound(t, r, row);
    return KILN_OK;
}

// --- text

static int by_time(const void *a, const void *b)
{
    const struct table_row *x = a, *y = b;
    if (x->total_us != y->total_us) return x->total_us < y->total_us ? 1 : -1;
    return strcmp(x->key, y->key);
}

static void add_to(struct table_row *sum, const struct table_row *r)
{
    sum->n += r->n;
    sum->total_us += r->total_us;
    sum->bytes += r->bytes;
    sum->flops += r->flops;
    sum->flops_known |= r->flops_known;
    sum->least_us += r->least_us;
    sum->bound_us += r->bound_us;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

struct figures {
    double total_ms, share, mean_us, gigabytes, gigaflops, ceiling; // NaN: not known
};

static struct figures figures_of(const struct table_row *r, double total_us)
{
    return (struct figures){
        .total_ms = r->total_us / 1e3,
        .share = ratio(100 * r->total_us, total_us),
        .mean_us = ratio(r->total_us, r->n),
        .gigabytes = r->bytes > 0 ? ratio(r->bytes, r->total_us * 1e3) : NAN,
        .gigaflops = r->flops_known ? ratio(r->flops, r->total_us * 1e3) : NAN,
        .ceiling = ratio(100 * r->least_us, r->bound_us),
    };
}

static void add_number(struct str *out, int width, int digits, double v)
{
    char text[64];
    if (isnan(v))
        snprintf(text, sizeof text, "-");
    else
        c_snprintf(text, sizeof text, "%.*f", digits, v);
    str_addf(out, " %*s", width, text);
}

// A name as `width` characters of UTF-8, without what moves the cursor of a terminal.
static void add_name(struct str *out, const char *name, int width)
{
    int n = 0, all = 0;
    for (const char *c = name; *c; c++) all += (*c & 0xc0) != 0x80;
    for (const char *c = name; *c; c++) {
        bool begins = (*c & 0xc0) != 0x80;
        if (begins && n == width - (all > width)) break;
        n += begins;
        char one = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
        str_addn(out, &one, 1);
    }
    if (all > width) str_add(out, "\u2026");
    for (int i = all > width ? width : n; i < width; i++) str_add(out, " ");
}

static void add_row(struct str *out, const char *name, const struct table_row *r, double total_us)
{
    struct figures f = figures_of(r, total_us);
    add_name(out, name, NAME_WIDTH);
    str_addf(out, " %9.0f", r->n);
    add_number(out, 11, 3, f.total_ms);
    add_number(out, 6, 1, f.share);
    add_number(out, 11, 2, f.mean_us);
    add_number(out, 9, 2, f.gigabytes);
    add_number(out, 9, 2, f.gigaflops);
    add_number(out, 8, 1, f.ceiling);
    str_add(out, "\n");
}

static const char *const by_names[] = {"kernel", "op", "line", "cell"};

static void add_head(const struct profile_table *t, struct str *out)
{
    add_name(out, by_names[t->by], NAME_WIDTH);
    str_addf(out, " %9s %11s %6s %11s %9s %9s %8s\n", "calls", "total ms", "%", "mean us", "GB/s", "GFLOP/s",
             "ceiling");
}

static void add_devices(const struct profile_table *t, struct str *out)
{
    for (int i = 0; i < t->n_devices; i++) {
        const struct table_device *d = &t->devices[i];
        str_add(out, "\n");
        add_name(out, d->name, (int)strlen(d->name));
        str_addf(out, ": at most %.0f bytes in use", d->peak_B);
        if (d->copy_B_per_s > 0)
            str_addf(out, "; ceilings: %.2f GB/s, %.1f GFLOP/s", d->copy_B_per_s / 1e9, d->flop_per_s / 1e9);
    }
    str_add(out, "\n");
    for (int i = 0; i < t->n_others; i++) {
        const struct table_other *o = &t->others[i];
        str_add(out, i ? ", " : "On the host: ");
        add_name(out, o->category, (int)strnlen(o->category, 40));
        str_addf(out, " %.3f ms in %.0f", o->total_us / 1e3, o->n);
    }
    if (t->n_others) str_add(out, "\n");
    if (t->lost > 0) str_addf(out, "%.0f events found no room in the file\n", t->lost);
}

static void add_csv_name(struct str *out, const char *name)
{
    str_add(out, "\"");
    for (const char *c = name; *c; c++) str_addn(out, *c == '"' ? "\"\"" : c, *c == '"' ? 2 : 1);
    str_add(out, "\"");
}

static void add_csv_number(struct str *out, double v)
{
    char text[C_NUMBER_B];
    str_add(out, ",");
    if (!isnan(v)) str_add(out, c_shortest(text, v, 0));
}

static void add_csv_row(struct str *out, const char *name, const struct table_row *r, double total_us)
{
    struct figures f = figures_of(r, total_us);
    add_csv_name(out, name);
    const double v[] = {r->n, f.total_ms, f.share, f.mean_us, f.gigabytes, f.gigaflops, f.ceiling};
    for (size_t i = 0; i < COUNT_OF(v); i++) add_csv_number(out, v[i]);
    str_add(out, "\n");
}

void table_print(struct profile_table *t, const kiln_profile_print_opts *o, struct str *out)
{
    struct table_row all = {.n = 0}, rest = {.n = 0};
    size_t shown = o->top && o->top < t->rows.n ? o->top : t->rows.n;
    char others[64];
    if (t->rows.n) qsort(t->rows.v, t->rows.n, sizeof *t->rows.v, by_time);
    for (size_t i = 0; i < t->rows.n; i++) add_to(i < shown ? &all : &rest, &t->rows.v[i]);
    add_to(&all, &rest);
    if (o->csv)
        str_addf(out, "%s,calls,total_ms,share_percent,mean_us,GB_per_s,GFLOP_per_s,ceiling_percent\n",
                 by_names[t->by]);
    else
        add_head(t, out);
    for (size_t i = 0; i < shown; i++)
        (o->csv ? add_csv_row : add_row)(out, t->rows.v[i].key, &t->rows.v[i], all.total_us);
    snprintf(others, sizeof others, "(%zu others)", t->rows.n - shown);
    if (shown < t->rows.n) (o->csv ? add_csv_row : add_row)(out, others, &rest, all.total_us);
    if (o->csv) return;
    add_row(out, "all", &all, all.total_us);
    add_devices(t, out);
}
