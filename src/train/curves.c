// From the table of what was logged to curves: which names share a panel, and which points are drawn. Of a long series
// each strip of the picture, half a pixel wide, keeps its first, its least, its greatest and its last point, and gaps.
#include "train/curves.h"
#include "train/html.h"
#include "train/training.h"
#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 740, HEIGHT = 240, SIZE_LEAST = 100, SIZE_MOST = 10000 };

struct choice {
    kiln_curves_opts opts;
    const double *x; // a row each
    double *own_x;
};

// --- which

static const char *key_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash && slash[1] ? slash + 1 : name;
}

static bool is_chosen(const kiln_curves_opts *o, const struct train_column *c)
{
    if (!o->names.count) return true;
    for (size_t i = 0; i < o->names.count; i++)
        if (!strcmp(o->names.v[i], c->name)) return true;
    return false;
}

static kiln_status check_names(const kiln_training *t, const kiln_curves_opts *o)
{
    if (o->names.count && !o->names.v) return error_set(KILN_E_ARGUMENT, "training_save_curves: .names is NULL");
    for (size_t i = 0; i < o->names.count; i++) {
        const char *name = o->names.v[i];
        if (!name) return error_set(KILN_E_ARGUMENT, "training_save_curves: name %zu is NULL", i);
        if (!history_find(&t->history, name))
            return error_set(KILN_E_ARGUMENT, "training_save_curves: nothing is logged by the name \"%s\"", name);
    }
    return KILN_OK;
}

static kiln_status check_size(const char *name, int64_t *v, int64_t fallback)
{
    if (!*v) *v = fallback;
    if (*v >= SIZE_LEAST && *v <= SIZE_MOST) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "training_save_curves: .%s is %lld, from %d to %d are allowed", name,
                     (long long)*v, SIZE_LEAST, SIZE_MOST);
}

static kiln_status choose_x(const kiln_training *t, struct choice *choice)
{
    const struct train_history *h = &t->history;
    const char *by = choice->opts.x ? choice->opts.x : "step";
    choice->x = h->seconds;
    if (!strcmp(by, "seconds")) return KILN_OK;
    bool epochs = !strcmp(by, "epoch");
    if (!epochs && strcmp(by, "step"))
        return error_set(KILN_E_ARGUMENT,
                         "training_save_curves: .x is \"%s\", it must be \"step\", \"epoch\" or \"seconds\"", by);
    choice->own_x = calloc(h->n_rows + 1, sizeof *choice->own_x);
    if (!choice->own_x) return error_set(KILN_E_MEMORY, "training_save_curves: no memory");
    for (size_t i = 0; i < h->n_rows; i++) choice->own_x[i] = (double)(epochs ? h->epochs[i] : h->steps[i]);
    choice->x = choice->own_x;
    return KILN_OK;
}

// --- points

// Keeps of points [from, to) of a strip those that are seen; all of them where they are few.
static size_t thin(double *x, double *y, size_t from, size_t to, size_t n)
{
    size_t least = from, most = from;
    bool gap = false;
    for (size_t i = from; i < to; i++) {
        gap = gap || !isfinite(y[i]);
        if (y[i] < y[least]) least = i;
        if (y[i] > y[most]) most = i;
    }
    for (size_t i = from; i < to; i++) {
        bool end = i == from || i + 1 == to, hole = gap && !isfinite(y[i]) && (end || isfinite(y[i - 1]));
        if (to - from > 4 && !end && i != least && i != most && !hole) continue;
        x[n] = x[i];
        y[n++] = y[i];
    }
    return n;
}

static double along(double x, bool log_x)
{
    return log_x ? log(x) : x;
}

static size_t thin_all(double *x, double *y, size_t n, const struct curves *c)
{
    if (n < 4 * (size_t)c->width) return n;
    double strip = (along(x[n - 1], c->log_x) - along(x[0], c->log_x)) / (2 * c->width);
    size_t kept = 0;
    for (size_t from = 0, to; from < n; from = to) {
        double begin = along(x[from], c->log_x);
        for (to = from + 1; to < n && along(x[to], c->log_x) - begin < strip;) to++;
        kept = thin(x, y, from, to, kept);
    }
    return kept;
}

static bool fill_series(struct curve_series *s, const struct train_history *h, const struct train_column *from,
                        const double *x, const struct curves *c)
{
    s->name = from->name;
    s->x = malloc((h->n_rows + 1) * sizeof *s->x);
    s->y = malloc((h->n_rows + 1) * sizeof *s->y);
    if (!s->x || !s->y) return false;
    for (size_t i = 0; i < h->n_rows; i++) {
        if (!from->has[i] || (c->log_x && !(x[i] > 0))) continue;
        s->x[s->n] = x[i];
        s->y[s->n++] = from->values[i];
    }
    s->n = thin_all(s->x, s->y, s->n, c);
    return true;
}

static struct curve_panel *panel_of(struct curves *c, const char *title, size_t columns)
{
    for (size_t i = 0; i < c->n; i++)
        if (!strcmp(c->panels[i].title, title)) return &c->panels[i];
    struct curve_panel *p = &c->panels[c->n];
    *p = (struct curve_panel){.title = title, .series = calloc(columns, sizeof *p->series)};
    if (!p->series) return NULL;
    c->n++;
    return p;
}

static void finish(struct curves *c)
{
    for (size_t i = 0; i < c->n; i++) {
        for (size_t k = 0; k < c->panels[i].n; k++) {
            free(c->panels[i].series[k].x);
            free(c->panels[i].series[k].y);
        }
        free(c->panels[i].series);
    }
    free(c->panels);
}

static kiln_status collect(struct curves *c, const kiln_training *t, const struct choice *choice)
{
    const struct train_history *h = &t->history;
    const char *together = choice->opts.together ? "" : NULL;
    c->panels = calloc(h->n_columns + 1, sizeof *c->panels);
    bool good = c->panels != NULL;
    for (size_t i = 0; i < h->n_columns && good; i++) {
        const struct train_column *from = &h->columns[i];
        if (!is_chosen(&choice->opts, from)) continue;
        struct curve_panel *p = panel_of(c, together ? together : key_of(from->name), h->n_columns);
        good = p != NULL;
        if (!good) break;
        p->series[p->n].colour = p->n % CURVE_COLOURS;
        good = fill_series(&p->series[p->n++], h, from, choice->x, c);
    }
    return good ? KILN_OK : error_set(KILN_E_MEMORY, "training_save_curves: no memory");
}

// --- files

static kiln_status make_text(struct str *s, const kiln_training *t, const struct choice *choice, bool page)
{
    const kiln_curves_opts *o = &choice->opts;
    struct curves c = {.title = o->title ? o->title : t->title,
                       .x_name = o->x ? o->x : "step",
                       .log_x = o->log_x,
                       .log_y = o->log_y,
                       .width = (double)o->width,
                       .panel_height = (double)o->height};
    kiln_status status = collect(&c, t, choice);
    if (!status) {
        curves_lay_out(&c);
        if (page)
            html_write(s, &c, t);
        else
            svg_write(s, &c, false);
        status = str_check(s);
    }
    finish(&c);
    return status;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static kiln_status choose(const kiln_training *t, const kiln_curves_opts *opts, struct choice *choice)
{
    TRY(options_read("training_save_curves", KILN_CURVES, &choice->opts, opts));
    TRY(check_names(t, &choice->opts));
    TRY(check_size("width", &choice->opts.width, WIDTH));
    TRY(check_size("height", &choice->opts.height, HEIGHT));
    return choose_x(t, choice);
}

// The text of the file; the errors of writing it are the caller's.
static kiln_status save(const kiln_training *t, const char *path, const kiln_curves_opts *opts, int *failed)
{
    struct choice choice = {0};
    struct str s;
    *failed = 0;
    str_init(&s);
    kiln_status status = choose(t, opts, &choice);
    if (!status) status = make_text(&s, t, &choice, ends_with(path, ".html"));
    if (!status) *failed = file_replace(path, s.text, s.len);
    str_free(&s);
    free(choice.own_x);
    return status;
}

kiln_status kiln_training_save_curves(const kiln_training *t, const char *path, const kiln_curves_opts *opts)
{
    int failed;
    TRY(training_check("training_save_curves", t));
    if (!path) return error_set(KILN_E_ARGUMENT, "training_save_curves: the path is NULL");
    if (!ends_with(path, ".svg") && !ends_with(path, ".html"))
        return error_set(KILN_E_ARGUMENT, "training_save_curves: %s must end with .svg or .html", path);
    TRY(save(t, path, opts, &failed));
    if (failed) return error_set(KILN_E_IO, "training_save_curves: %s cannot be written: %s", path, strerror(failed));
    return KILN_OK;
}

kiln_status curves_write(kiln_training *t)
{
    static const char *const names[] = {"curves.svg", "curves.html"};
    if (!t->path || t->opts.no_curves || t->curves_rows == t->history.n_rows) return KILN_OK;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char *path = file_path(t->path, names[i]);
        int failed;
        if (!path) return error_set(KILN_E_MEMORY, "training: no memory");
        kiln_status status = save(t, path, NULL, &failed);
        free(path);
        if (!status && failed) status = training_complain(t, names[i], "cannot be written", failed);
        if (status) return status;
    }
    t->curves_rows = t->history.n_rows;
    t->curves_ns = clock_now_ns();
    return KILN_OK;
}
