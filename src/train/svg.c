// Curves as a picture.
#include "train/curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHARACTER = 7, LINE = 18, SWATCH = 22, DOTS_MOST = 40 };

// Of Okabe and Ito (2008), told apart by eyes that see some colours alike; the grey is read on white and on black.
const char *const curve_colours[CURVE_COLOURS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                  "#e69f00", "#56b4e9", "#7f7f7f", "#b2182b"};

void svg_text(struct str *s, const char *text)
{
    for (; *text; text++) {
        const char *as = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : NULL;
        if (*text == '"') as = "&quot;";
        if (as)
            str_add(s, as);
        else
            str_addn(s, text, 1);
    }
}

void svg_number(struct str *s, double v)
{
    long tenths = lround(v * 10), whole = labs(tenths) / 10, rest = labs(tenths) % 10;
    str_addf(s, rest ? "%s%ld.%ld" : "%s%ld", tenths < 0 ? "-" : "", whole, rest);
}

static void add_point(struct str *s, const char *before, double x, double y)
{
    str_add(s, before);
    svg_number(s, x);
    str_add(s, " ");
    svg_number(s, y);
}

static void add_text(struct str *s, double x, double y, const char *kind, const char *text)
{
    str_add(s, "<text x=\"");
    svg_number(s, x);
    str_add(s, "\" y=\"");
    svg_number(s, y);
    str_addf(s, "\" class=\"%s\">", kind);
    svg_text(s, text);
    str_add(s, "</text>\n");
}

// --- places

static double width_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return (double)(n * CHARACTER);
}

static bool has_legend(const struct curve_panel *p)
{
    return p->n > 1 || strcmp(p->series[0].name, p->title) != 0;
}

// Names of series stand behind the title, and in further lines where they have no room. Draws them unless s is NULL;
// returns the height.
static double legend(struct str *s, const struct curves *c, const struct curve_panel *p)
{
    double x = c->left + width_of(p->title) + 24, y = p->top + LINE;
    for (size_t i = 0; has_legend(p) && i < p->n; i++) {
        double wide = SWATCH + 6 + width_of(p->series[i].name) + 16;
        if (x + wide > c->right && x > c->left) {
            x = c->left;
            y += LINE;
        }
        if (s) {
            str_addf(s, "<path class=\"line c%zu\" d=\"", p->series[i].colour);
            add_point(s, "M", x, y - 4);
            str_addf(s, "h%d\"/>", SWATCH);
            add_text(s, x + SWATCH + 6, y, "name", p->series[i].name);
        }
        x += wide;
    }
    return y - p->top + 8;
}

bool curves_shows(const struct curves *c, double x, double y)
{
    return isfinite(x) && isfinite(y) && (!c->log_x || x > 0) && (!c->log_y || y > 0);
}

static void range_of(const struct curves *c, const struct curve_panel *p, double x[2], double y[2])
{
    for (size_t i = 0; i < p->n; i++) {
        const struct curve_series *s = &p->series[i];
        for (size_t k = 0; k < s->n; k++) {
            if (!curves_shows(c, s->x[k], s->y[k])) continue;
            x[0] = fmin(x[0], s->x[k]);
            x[1] = fmax(x[1], s->x[k]);
            y[0] = fmin(y[0], s->y[k]);
            y[1] = fmax(y[1], s->y[k]);
        }
    }
}

void curves_lay_out(struct curves *c)
{
    double x[2] = {INFINITY, -INFINITY}, top = c->title ? 34 : 8;
    c->left = 64;
    c->right = c->width - 20;
    for (size_t i = 0; i < c->n; i++) {
        struct curve_panel *p = &c->panels[i];
        double y[2] = {INFINITY, -INFINITY};
        range_of(c, p, x, y);
        if (!(y[0] <= y[1])) y[0] = c->log_y ? 1 : 0, y[1] = c->log_y ? 10 : 1;
        p->ys = ticks_make(y[0], y[1], (int)(c->panel_height / 40), c->log_y, true);
        p->top = top;
        p->plot_top = top + legend(NULL, c, p);
        p->plot_bottom = p->plot_top + c->panel_height;
        top = p->plot_bottom + 32;
    }
    if (!(x[0] <= x[1])) x[0] = c->log_x ? 1 : 0, x[1] = c->log_x ? 10 : 1;
    if (!c->log_x && x[0] > 0 && x[0] < 0.1 * x[1]) x[0] = 0;
    c->xs = ticks_make(x[0], x[1], (int)((c->right - c->left) / 80), c->log_x, false);
    c->bottom = top + (c->x_name ? 14 : 0);
}

static double part(const struct ticks *t, double v)
{
    if (t->log) return log(v / t->low) / log(t->high / t->low);
    return (v - t->low) / (t->high - t->low);
}

double curves_x(const struct curves *c, double x)
{
    return c->left + (c->right - c->left) * part(&c->xs, x);
}

double curves_y(const struct curves *c, const struct curve_panel *p, double y)
{
    return p->plot_bottom - (p->plot_bottom - p->plot_top) * part(&p->ys, y);
}

// --- drawing

static void draw_axes(struct str *s, const struct curves *c, const struct curve_panel *p)
{
    char label[TICK_B];
    str_add(s, "<path class=\"grid\" d=\"");
    for (int i = 0; i < p->ys.n; i++) {
        add_point(s, "M", c->left, curves_y(c, p, p->ys.at[i]));
        str_add(s, "H");
        svg_number(s, c->right);
    }
    for (int i = 0; i < c->xs.n; i++) {
        add_point(s, "M", curves_x(c, c->xs.at[i]), p->plot_top);
        str_add(s, "V");
        svg_number(s, p->plot_bottom);
    }
    str_add(s, "\"/>\n<path class=\"axis\" d=\"");
    add_point(s, "M", c->left, p->plot_top);
    str_add(s, "V");
    svg_number(s, p->plot_bottom);
    str_add(s, "H");
    svg_number(s, c->right);
    str_add(s, "\"/>\n");
    for (int i = 0; i < p->ys.n; i++)
        add_text(s, c->left - 8, curves_y(c, p, p->ys.at[i]) + 4, "y", tick_label(label, &p->ys, p->ys.at[i]));
    for (int i = 0; i < c->xs.n; i++)
        add_text(s, curves_x(c, c->xs.at[i]), p->plot_bottom + 17, "x", tick_label(label, &c->xs, c->xs.at[i]));
}

// Where a point stands alone, or points are few, they are dots.
static void draw_series(struct str *s, const struct curves *c, const struct curve_panel *p,
                        const struct curve_series *v)
{
    struct str dots;
    bool drawing = false, few = v->n <= DOTS_MOST;
    str_init(&dots);
    str_addf(s, "<path class=\"line c%zu\" d=\"", v->colour);
    for (size_t i = 0; i < v->n; i++) {
        bool shown = curves_shows(c, v->x[i], v->y[i]);
        bool more = i + 1 < v->n && curves_shows(c, v->x[i + 1], v->y[i + 1]);
        if (shown) {
            double x = curves_x(c, v->x[i]), y = curves_y(c, p, v->y[i]);
            if (drawing || more) add_point(s, drawing ? "L" : "M", x, y);
            if (few || (!drawing && !more)) {
                add_point(&dots, "M", x, y);
                str_add(&dots, "h0");
            }
        }
        drawing = shown;
    }
    str_add(s, "\"/>\n");
    if (dots.len) str_addf(s, "<path class=\"dots c%zu\" d=\"%s\"/>\n", v->colour, str_text(&dots));
    if (dots.failed) str_fail(s);
    str_free(&dots);
}

static void add_style(struct str *s, bool in_page)
{
    const char *ink = in_page ? "var(--ink)" : "#222", *faint = in_page ? "var(--faint)" : "#e4e4e4";
    str_addf(s,
             "<style>text{font:12px sans-serif;fill:%s}.title{font-weight:bold;font-size:15px}.key{font-weight:bold}",
             ink);
    str_addf(s, ".x{text-anchor:middle}.y{text-anchor:end}.grid{stroke:%s;fill:none}.axis{stroke:%s;fill:none}", faint,
             ink);
    str_add(s, ".line,.dots{fill:none;stroke-width:1.6;stroke-linejoin:round}"
               ".dots{stroke-width:5.5;stroke-linecap:round}");
    for (size_t i = 0; i < CURVE_COLOURS; i++) str_addf(s, ".c%zu{stroke:%s}", i, curve_colours[i]);
    str_add(s, "</style>\n");
}

void svg_write(struct str *s, const struct curves *c, bool in_page)
{
    long width = lround(c->width), height = lround(c->bottom);
    str_addf(s,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%ld\" height=\"%ld\" viewBox=\"0 0 %ld %ld\" "
             "role=\"img\">\n<title>",
             width, height, width, height);
    svg_text(s, c->title ? c->title : "Curves of a training");
    str_add(s, "</title>\n");
    add_style(s, in_page);
    if (!in_page) str_addf(s, "<rect width=\"%ld\" height=\"%ld\" fill=\"#fff\"/>\n", width, height);
    if (c->title) add_text(s, c->left, 24, "title", c->title);
    for (size_t i = 0; i < c->n; i++) {
        const struct curve_panel *p = &c->panels[i];
        str_add(s, "<g class=\"panel\">\n");
        add_text(s, c->left, p->top + LINE, "key", p->title);
        legend(s, c, p);
        draw_axes(s, c, p);
        for (size_t k = 0; k < p->n; k++) draw_series(s, c, p, &p->series[k]);
        str_add(s, "</g>\n");
    }
    if (c->x_name) add_text(s, (c->left + c->right) / 2, c->bottom - 8, "x", c->x_name);
    str_add(s, "</svg>\n");
}
