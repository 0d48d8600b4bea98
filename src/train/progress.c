// What is told of a training while it runs. On a terminal one line, which is drawn again ten times a second at most and
// is never longer than the terminal is wide; elsewhere a line now and then. An epoch leaves a line in both.
#include "train/training.h"
#include "base/c_locale.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { REDRAW_NS = 100000000, WIDTH_LEAST = 20 };

// --- the terminal

static bool is_terminal(FILE *out)
{
    const char *term = getenv("TERM");
    return isatty(fileno(out)) && !(term && !strcmp(term, "dumb"));
}

static bool in_colour(void)
{
    const char *no = getenv("NO_COLOR"); // no-color.org: any text that is not empty
    return !(no && no[0]);
}

static int width_of(FILE *out)
{
    struct winsize size;
    const char *text = getenv("COLUMNS");
    int width = !ioctl(fileno(out), TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : text ? atoi(text) : 0;
    return width >= WIDTH_LEAST ? width : 80;
}

// Cuts a text of UTF-8 to a number of columns, taking all but the alphabets of the West for two wide. Returns its
// width.
static int cut(char *text, int columns)
{
    int used = 0;
    for (char *at = text; *at;) {
        unsigned char c = (unsigned char)*at;
        int bytes = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4, wide = bytes > 2 ? 2 : 1;
        if (used + wide > columns) {
            *at = '\0';
            break;
        }
        used += wide;
        for (; bytes > 0 && *at; bytes--) at++;
    }
    return used;
}

void progress_clear(kiln_training *t)
{
    if (!t->progress.drawn) return;
    fputs("\r\033[K", t->progress.out);
    fflush(t->progress.out);
    t->progress.drawn = false;
}

// --- texts

static void add_time(struct str *s, double seconds)
{
    int64_t all = seconds < 1e9 ? (int64_t)(seconds + 0.5) : 999999999;
    if (all >= 3600)
        str_addf(s, "%lld:%02lld:%02lld", (long long)(all / 3600), (long long)(all / 60 % 60), (long long)(all % 60));
    else
        str_addf(s, "%lld:%02lld", (long long)(all / 60), (long long)(all % 60));
}

static void add_taken(struct str *s, double seconds)
{
    char text[32];
    c_snprintf(text, sizeof text, "%.1f s", seconds);
    str_add(s, ", ");
    if (seconds < 100)
        str_add(s, text);
    else
        add_time(s, seconds);
}

static void add_value(struct str *s, const char *name, double v)
{
    char text[64];
    c_snprintf(text, sizeof text, "%.4g", v);
    str_addf(s, "%s %s", name, text);
}

// The newest of each column, or the means of the epoch.
static void add_values(struct str *s, const kiln_training *t, bool of_epoch, const char *between)
{
    for (size_t i = 0; i < t->history.n_columns; i++) {
        const struct train_column *c = &t->history.columns[i];
        double v = of_epoch && c->epoch_weight > 0 ? c->epoch_sum / c->epoch_weight : 0;
        if (of_epoch ? !(c->epoch_weight > 0) : !values_last(&t->history, c, &v)) continue;
        str_add(s, between);
        add_value(s, c->name, v);
    }
}

// Nanoseconds a step; 0: not known yet.
static double step_ns(const kiln_training *t)
{
    const struct train_progress *p = &t->progress;
    int64_t n = t->counters.steps - p->timed_from;
    return p->timed_ns && n > 0 ? (double)(clock_now_ns() - p->timed_ns) / (double)n : 0;
}

static void add_rate(struct str *s, const kiln_training *t, const char *between)
{
    double ns = step_ns(t);
    int64_t total = training_total(t);
    char text[64];
    if (!(ns > 0)) return;
    c_snprintf(text, sizeof text, ns < 1e9 ? "%.3g ms/step" : "%.3g s/step", ns < 1e9 ? 1e-6 * ns : 1e-9 * ns);
    str_addf(s, "%s%s", between, text);
    if (total <= t->counters.steps) return;
    str_add(s, between);
    add_time(s, 1e-9 * ns * (double)(total - t->counters.steps));
    str_add(s, " left");
}

static void add_count(struct str *s, int64_t n, int64_t of)
{
    str_addf(s, of ? "%lld/%lld" : "%lld", (long long)n, (long long)of);
}

static void add_title(struct str *s, const kiln_training *t)
{
    if (t->title) str_addf(s, "%s: ", t->title);
}

// --- lines

static void print(kiln_training *t, struct str *s)
{
    progress_clear(t);
    if (!s->failed) fprintf(t->progress.out, "%s\n", str_text(s));
    fflush(t->progress.out);
    str_free(s);
}

static void print_step(kiln_training *t)
{
    struct str s;
    str_init(&s);
    add_title(&s, t);
    str_add(&s, "step ");
    add_count(&s, t->counters.steps, training_total(t));
    if (t->counters.in_epoch) {
        str_add(&s, ", epoch ");
        add_count(&s, t->counters.epochs + 1, t->opts.epochs);
    }
    add_values(&s, t, false, ", ");
    add_rate(&s, t, ", ");
    print(t, &s);
}

void progress_epoch(kiln_training *t)
{
    t->progress.printed_rows = t->history.n_rows;
    if (!t->progress.bar && !t->progress.lines) return;
    struct str s;
    str_init(&s);
    add_title(&s, t);
    str_add(&s, "epoch ");
    add_count(&s, t->counters.epochs, t->opts.epochs);
    add_values(&s, t, true, ", ");
    add_taken(&s, 1e-9 * (double)(clock_now_ns() - t->epoch_ns));
    print(t, &s);
}

// --- the bar

// Of what the bar is: the epoch where its length is known, else the training.
static void extent(const kiln_training *t, int64_t *done, int64_t *of)
{
    int64_t total = training_total(t);
    bool by_epoch = t->counters.in_epoch && t->opts.epochs > 0 && total % t->opts.epochs == 0 && total > 0;
    *done = by_epoch ? t->counters.epoch_steps : t->counters.steps;
    *of = by_epoch ? total / t->opts.epochs : total;
}

static void write_bar(FILE *out, int full, int width)
{
    bool colour = in_colour() && full > 0;
    fputs(colour ? "[\033[32m" : "[", out);
    for (int i = 0; i < full; i++) fputc('#', out);
    if (colour) fputs("\033[0m", out);
    for (int i = full; i < width; i++) fputc('.', out);
    fputs("] ", out);
}

// The bar is left out where it, or what stands behind it, would have no room.
static void write_line(kiln_training *t, const struct str *head, const struct str *tail)
{
    enum { LINE_B = 1024, BAR_LEAST = 10, BAR_MOST = 30 };
    char before[LINE_B], after[LINE_B];
    FILE *out = t->progress.out;
    int64_t done, of;
    int width = width_of(out) - 1, bar = width / 4 < BAR_MOST ? width / 4 : BAR_MOST; // the last column breaks lines
    extent(t, &done, &of);
    snprintf(before, sizeof before, "%s", str_text(head));
    snprintf(after, sizeof after, "%s", str_text(tail));
    width -= cut(before, width);
    if (of < 1 || bar < BAR_LEAST || width < 2 * bar) bar = 0;
    cut(after, bar ? width - bar - 3 : width);
    fprintf(out, "\r%s", before);
    if (bar) write_bar(out, (int)(bar * (done < of ? done : of) / of), bar);
    fprintf(out, "%s\033[K", after);
    fflush(out);
}

static void draw(kiln_training *t)
{
    int64_t done, of;
    struct str head, tail;
    extent(t, &done, &of);
    str_init(&head);
    str_init(&tail);
    add_title(&head, t);
    if (t->counters.in_epoch) {
        str_add(&head, "epoch ");
        add_count(&head, t->counters.epochs + 1, t->opts.epochs);
        str_add(&head, " ");
    }
    add_count(&tail, done, of);
    add_rate(&tail, t, "  "); // in front of what a narrow terminal cuts off
    add_values(&tail, t, false, "  ");
    write_line(t, &head, &tail);
    t->progress.drawn = true;
    t->progress.drawn_ns = clock_now_ns();
    str_free(&head);
    str_free(&tail);
}

// --- what the loop calls

void progress_init(kiln_training *t)
{
    struct train_progress *p = &t->progress;
    const char *how = t->opts.progress;
    p->out = t->opts.output ? t->opts.output : stderr;
    p->bar = how ? !strcmp(how, "bar") : is_terminal(p->out);
    p->lines = how ? !strcmp(how, "lines") : !p->bar;
}

// Nobody who has not asked for each of them wants one that says nothing new, or what the epoch's own says next.
static bool is_worth_a_line(kiln_training *t)
{
    int64_t done, of;
    extent(t, &done, &of);
    if (t->opts.print_every) return true;
    bool fresh = t->history.n_rows > t->progress.printed_rows;
    t->progress.printed_rows = t->history.n_rows;
    return fresh && !(t->counters.in_epoch && done == of);
}

void progress_step(kiln_training *t)
{
    struct train_progress *p = &t->progress;
    if (!p->timed_ns) {
        p->timed_ns = clock_now_ns();
        p->timed_from = t->counters.steps;
    }
    if (p->bar && (!p->drawn || clock_now_ns() - p->drawn_ns >= REDRAW_NS || t->counters.steps == training_total(t)))
        draw(t);
    if (p->lines && t->counters.steps % p->every == 0 && is_worth_a_line(t)) print_step(t);
}

// A training without epochs ends with a line.
void progress_end(kiln_training *t)
{
    if (t->progress.drawn && t->progress.bar) print_step(t);
}

void progress_stopped(kiln_training *t)
{
    if (!t->progress.bar && !t->progress.lines) return;
    const struct train_counters *n = &t->counters;
    char text[64];
    struct str s;
    str_init(&s);
    add_title(&s, t);
    c_snprintf(text, sizeof text, "%.6g", n->best);
    str_addf(&s, "stopped: %lld rows of %s, and none better", (long long)n->bad, t->monitor);
    if (n->has_best) str_addf(&s, " than %s (step %lld)", text, (long long)n->best_step);
    print(t, &s);
}
