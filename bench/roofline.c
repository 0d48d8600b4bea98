// The roofline plot of the page (Williams et al. 2009): operations a second over operations a byte, both in decades,
// with the ceilings that were measured beside the rows: the best rate of memory, and of products that are added.
#include "bench.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 760, HEIGHT = 420, LEFT = 70, BOTTOM = 50, TOP = 14, RIGHT = 14 };

struct plot {
    double rate, peak;     // GB/s, GFLOP/s; NaN: not measured
    double x0, x1, y0, y1; // decades
};

static bool is_point(const struct row *r)
{
    return !r->error[0] && r->flops > 0 && r->bytes > 0 && r->time_ns > 0;
}

static double at_x(const struct plot *p, double x)
{
    return LEFT + (log10(x) - p->x0) / (p->x1 - p->x0) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct plot *p, double y)
{
    return HEIGHT - BOTTOM - (log10(y) - p->y0) / (p->y1 - p->y0) * (HEIGHT - BOTTOM - TOP);
}

// False without a point.
static bool measure_plot(const struct report *report, struct plot *p)
{
    *p = (struct plot){NAN, NAN, INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (int i = 0; i < report->n_rows; i++) {
        const struct row *r = &report->rows[i];
        if (!r->error[0] && r->ceiling_ns > 0 && r->ceiling != CEILING_LAUNCH) {
            bool products = r->ceiling >= CEILING_FMA && r->ceiling < CEILING_LAUNCH;
            double *best = products ? &p->peak : &p->rate;
            *best = fmax(*best, (products ? r->flops : r->bytes) / r->ceiling_ns);
        }
        if (!is_point(r)) continue;
        p->x0 = fmin(p->x0, floor(log10(r->flops / r->bytes)));
        p->x1 = fmax(p->x1, ceil(log10(r->flops / r->bytes)));
        p->y0 = fmin(p->y0, floor(log10(r->flops / r->time_ns)));
        p->y1 = fmax(p->y1, ceil(log10(r->flops / r->time_ns)));
    }
    if (!isfinite(p->x0)) return false;
    if (p->peak > 0) p->y1 = fmax(p->y1, ceil(log10(p->peak)));
    if (p->x1 <= p->x0) p->x1 = p->x0 + 1;
    if (p->y1 <= p->y0) p->y1 = p->y0 + 1;
    return true;
}

static void write_axes(const struct plot *p, FILE *f)
{
    for (double d = p->x0; d <= p->x1; d++) {
        double x = at_x(p, pow(10, d));
        fprintf(f, "<path class=grid d=\"M%.1f %dV%d\"/><text x=%.1f y=%d text-anchor=middle>%g</text>\n", x, TOP,
                HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 18, pow(10, d));
    }
    for (double d = p->y0; d <= p->y1; d++) {
        double y = at_y(p, pow(10, d));
        fprintf(f, "<path class=grid d=\"M%d %.1fH%d\"/><text x=%d y=%.1f text-anchor=end>%g</text>\n", LEFT, y,
                WIDTH - RIGHT, LEFT - 8, y + 4, pow(10, d));
    }
    fprintf(f, "<text x=%d y=%d text-anchor=middle>operations a byte</text>\n", (LEFT + WIDTH) / 2, HEIGHT - 10);
    fprintf(f, "<text transform=\"translate(16 %d) rotate(-90)\" text-anchor=middle>GFLOP/s</text>\n", HEIGHT / 2);
}

static void write_roof(const struct plot *p, FILE *f)
{
    if (p->rate > 0) {
        double top = pow(10, p->y1), most = fmin(pow(10, p->x1), (p->peak > 0 ? p->peak : top) / p->rate);
        double least = fmax(pow(10, p->x0), pow(10, p->y0) / p->rate);
        if (most > least)
            fprintf(f, "<path class=roof d=\"M%.1f %.1fL%.1f %.1f\"><title>%.3g GB/s</title></path>\n", at_x(p, least),
                    at_y(p, least * p->rate), at_x(p, most), at_y(p, most * p->rate), p->rate);
    }
    if (p->peak > 0) {
        double from = p->rate > 0 ? fmax(p->peak / p->rate, pow(10, p->x0)) : pow(10, p->x0);
        if (from < pow(10, p->x1))
            fprintf(f, "<path class=roof d=\"M%.1f %.1fH%d\"><title>%.4g GFLOP/s</title></path>\n", at_x(p, from),
                    at_y(p, p->peak), WIDTH - RIGHT, p->peak);
    }
}

void write_roofline(const struct report *r, FILE *f)
{
    struct plot p;
    if (!measure_plot(r, &p)) return;
    fputs("<h2>Roofline</h2>\n<p><i class=\"key eager\"></i> eager <i class=\"key jit\"></i> captured "
          "<i class=\"key line\"></i> ceilings</p>\n",
          f);
    fprintf(f, "<svg viewBox=\"0 0 %d %d\" width=%d role=img aria-label=\"roofline plot\">\n", WIDTH, HEIGHT, WIDTH);
    write_axes(&p, f);
    write_roof(&p, f);
    for (int i = 0; i < r->n_rows; i++) {
        const struct row *row = &r->rows[i];
        if (!is_point(row)) continue;
        fprintf(f, "<circle class=%s cx=%.1f cy=%.1f r=4><title>%s %s: %.4g GFLOP/s</title></circle>\n",
                strcmp(row->mode, "eager") ? "jit" : "eager", at_x(&p, row->flops / row->bytes),
                at_y(&p, row->flops / row->time_ns), row->name, row->mode, row->flops / row->time_ns);
    }
    fputs("</svg>\n", f);
}
