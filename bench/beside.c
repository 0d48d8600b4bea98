// The part of the page that sets a run beside documents of earlier ones: ratios to other frameworks, each in its better
// mode, and how this library's own times have changed.
#include "bench.h"
#include "json.h"

#include <math.h>
#include <string.h>

enum { SPARK_WIDTH = 140, SPARK_HEIGHT = 26, SPARK_EDGE = 4 };
#define CLOSE 0.97 // below it a peer is faster by more than noise

static bool is_own(const struct json *document)
{
    return !strcmp(json_text(document, "framework"), "kiln");
}

// The fastest mode of the row at `first`; NULL where an earlier row has that name, or none of them a time.
static const struct row *best_row(const struct report *r, int first)
{
    const struct row *best = NULL;
    for (int i = 0; i < r->n_rows; i++) {
        const struct row *row = &r->rows[i];
        if (strcmp(row->name, r->rows[first].name)) continue;
        if (i < first) return NULL;
        if (!row->error[0] && row->time_ns > 0 && (!best || row->time_ns < best->time_ns)) best = row;
    }
    return best;
}

static double time_of(const struct json *document, const char *name, const char **mode)
{
    const struct json *best = document_best(document, name);
    *mode = best ? json_text(best, "mode") : "";
    return best ? json_number(best, "time_ns") : NAN;
}

struct mean {
    double log_sum;
    int n;
};

static void write_ratio(const struct json *document, const struct row *own, struct mean *mean, FILE *f)
{
    const char *mode;
    double time_ns = time_of(document, own->name, &mode), ratio = time_ns / own->time_ns;
    if (!(ratio > 0)) {
        fputs("<td></td><td></td>", f);
        return;
    }
    fprintf(f, "<td>%.4g %s</td><td%s>%.2f</td>", time_ns / 1e6, mode, ratio < CLOSE ? " class=behind" : "", ratio);
    mean->log_sum += log(ratio);
    mean->n++;
}

static void write_ratios(const struct report *r, struct json *const *peers, int n_peers, FILE *f)
{
    struct mean means[MOST_BESIDE] = {{0}};
    fputs("<h2>Ratios</h2>\n<p>The other's time over this run's, each in its better mode: above 1 this run is "
          "faster.</p>\n<table id=ratios>\n<tr><th>row</th><th>ms</th>",
          f);
    for (int k = 0; k < n_peers; k++) {
        fputs("<th>", f);
        write_escaped(json_text(peers[k], "framework"), f);
        fputs(", ms</th><th>ratio</th>", f);
    }
    fputs("</tr>\n", f);
    for (int i = 0; i < r->n_rows; i++) {
        const struct row *own = best_row(r, i);
        if (!own) continue;
        fprintf(f, "<tr><th>%s</th><td>%.4g %s</td>", own->name, own->time_ns / 1e6, own->mode);
        for (int k = 0; k < n_peers; k++) write_ratio(peers[k], own, &means[k], f);
        fputs("</tr>\n", f);
    }
    fputs("<tr><th>geometric mean</th><td></td>", f);
    for (int k = 0; k < n_peers; k++) {
        if (means[k].n)
            fprintf(f, "<td>of %d</td><td>%.2f</td>", means[k].n, exp(means[k].log_sum / means[k].n));
        else
            fputs("<td></td><td></td>", f);
    }
    fputs("</tr>\n</table>\n", f);
}

// Times in the order of the documents, in a scale of their own; least and most are at the edges.
static void write_spark(const double *times_ns, int n, FILE *f)
{
    double least = INFINITY, most = 0;
    for (int i = 0; i < n; i++) {
        if (!(times_ns[i] > 0)) continue;
        least = fmin(least, times_ns[i]);
        most = fmax(most, times_ns[i]);
    }
    double range = most > least ? log(most / least) : 1;
    fprintf(f, "<svg viewBox=\"0 0 %d %d\" width=%d role=img aria-label=history><path class=roof d=\"", SPARK_WIDTH,
            SPARK_HEIGHT, SPARK_WIDTH);
    char step = 'M';
    for (int i = 0; i < n; i++) {
        if (!(times_ns[i] > 0)) continue;
        double x = SPARK_EDGE + (double)i / (n - 1) * (SPARK_WIDTH - 2 * SPARK_EDGE);
        double y = SPARK_EDGE + log(most / times_ns[i]) / range * (SPARK_HEIGHT - 2 * SPARK_EDGE);
        fprintf(f, "%c%.1f %.1f", step, x, y);
        step = 'L';
    }
    fputs("\"/></svg>", f);
}

static void write_history(const struct report *r, struct json *const *runs, char *const *names, int n, FILE *f)
{
    fputs("<h2>History</h2>\n<p>Medians in ms of this library's runs, each in its better mode, and the first over this "
          "one.</p>\n<table id=history>\n<tr><th>row</th>",
          f);
    for (int k = 0; k < n; k++) {
        fputs("<th>", f);
        write_escaped(names[k], f);
        fputs("</th>", f);
    }
    fputs("<th>this run</th><th>ratio</th><th></th></tr>\n", f);
    for (int i = 0; i < r->n_rows; i++) {
        const struct row *own = best_row(r, i);
        double times_ns[MOST_BESIDE + 1], first_ns = NAN;
        if (!own) continue;
        fprintf(f, "<tr><th>%s</th>", own->name);
        for (int k = 0; k < n; k++) {
            const char *mode;
            times_ns[k] = time_of(runs[k], own->name, &mode);
            if (!(first_ns > 0)) first_ns = times_ns[k];
            write_cell(times_ns[k], 1e-6, "", f);
        }
        times_ns[n] = own->time_ns;
        fprintf(f, "<td>%.4g</td>", own->time_ns / 1e6);
        write_cell(first_ns / own->time_ns, 1, "", f);
        fputs("<td>", f);
        if (first_ns > 0) write_spark(times_ns, n + 1, f);
        fputs("</td></tr>\n", f);
    }
    fputs("</table>\n", f);
}

void write_beside(const struct report *r, FILE *f)
{
    struct json *peers[MOST_BESIDE], *runs[MOST_BESIDE];
    char *names[MOST_BESIDE];
    int n_peers = 0, n_runs = 0;
    for (int i = 0; i < r->n_beside; i++) {
        const char *name = strrchr(r->beside[i].path, '/');
        if (!is_own(r->beside[i].document)) {
            peers[n_peers++] = r->beside[i].document;
            continue;
        }
        names[n_runs] = (char *)(name ? name + 1 : r->beside[i].path);
        runs[n_runs++] = r->beside[i].document;
    }
    if (n_peers) write_ratios(r, peers, n_peers, f);
    if (n_runs) write_history(r, runs, names, n_runs, f);
}

bool beside_load(struct report *r)
{
    for (int i = 0; i < r->n_beside; i++) {
        struct beside *b = &r->beside[i];
        b->document = document_load(b->path, "rows");
        if (!b->document) return false;
        if (strcmp(json_text(b->document, "size"), r->size))
            fprintf(stderr, "kiln-bench: %s is of size %s, this run of size %s: ratios mean nothing\n", b->path,
                    json_text(b->document, "size"), r->size);
    }
    return true;
}

void beside_free(struct report *r)
{
    for (int i = 0; i < r->n_beside; i++) json_free(r->beside[i].document);
    r->n_beside = 0;
}
