// Curves of what was logged, ready to be drawn: panels one below the other, each with series over a common axis.
#pragma once
#include "base/str.h"
#include "train/ticks.h"
#include <stdint.h>

struct curve_series {
    const char *name;
    size_t n;
    double *x, *y; // a y that is no finite number is a gap
    size_t colour; // which of the list
};

struct curve_panel {
    const char *title; // what the names of its series end with
    size_t n;
    struct curve_series *series;
    struct ticks ys;
    double top; // where it begins in the picture, and its plot within it
    double plot_top, plot_bottom;
};

struct curves {
    const char *title, *x_name; // NULL: none
    bool log_x, log_y;
    double width, panel_height;
    size_t n;
    struct curve_panel *panels;
    struct ticks xs;
    double left, right, bottom; // of the plots; of the picture
};

enum { CURVE_COLOURS = 8 };
extern const char *const curve_colours[CURVE_COLOURS];

// Chooses ticks and places.
void curves_lay_out(struct curves *c);
double curves_x(const struct curves *c, double x);
double curves_y(const struct curves *c, const struct curve_panel *p, double y);
bool curves_shows(const struct curves *c, double x, double y);

// With colours of its own, or those of the page around it.
void svg_write(struct str *s, const struct curves *c, bool in_page);
void svg_text(struct str *s, const char *text); // as a text of XML and HTML
void svg_number(struct str *s, double v);       // a tenth of a pixel is enough
