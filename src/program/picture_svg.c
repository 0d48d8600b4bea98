// A drawing as SVG, within HTML. Colours are the page's: a box has its kernel's hue as --h.
#include "program/picture.h"
#include <string.h>

enum { BOX_HEIGHT = 38, LAYER_HEIGHT = 74, TOP = 12 };

void str_add_html(struct str *s, const char *text)
{
    for (; *text; text++) {
        if (*text == '&')
            str_add(s, "&amp;");
        else if (*text == '<')
            str_add(s, "&lt;");
        else if (*text == '>')
            str_add(s, "&gt;");
        else if (*text == '"')
            str_add(s, "&quot;");
        else if ((unsigned char)*text >= ' ' || *text == '\n')
            str_addn(s, text, 1);
    }
}

static double top_of(const struct picture_box *b)
{
    return TOP + b->layer * LAYER_HEIGHT;
}

static double bottom_of(const struct picture_box *b)
{
    return top_of(b) + BOX_HEIGHT;
}

// A bend is a straight piece between two curves.
static void add_edge(const struct picture *p, const struct picture_edge *e, struct str *out)
{
    const struct picture_box *a = &p->boxes.v[e->from], *b = &p->boxes.v[e->to];
    double y0 = bottom_of(a), y1 = top_of(b), middle = (y0 + y1) / 2;
    str_addf(out, "<path class=\"e\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", a->x, y0, a->x, middle, b->x,
             middle, b->x, y1);
    if (b->kind == PICTURE_BEND) str_addf(out, "V%.1f", bottom_of(b));
    str_addf(out, "\"%s/>\n", b->kind == PICTURE_BEND ? "" : " marker-end=\"url(#arrow)\"");
}

static void add_box(const struct picture_box *b, struct str *out)
{
    static const char *const classes[] = {
        [PICTURE_OP] = "op", [PICTURE_INPUT] = "in", [PICTURE_OUTPUT] = "out", [PICTURE_LAUNCH] = "op"};
    double y = top_of(b);
    str_addf(out, "<g class=\"b %s%s\" data-k=\"%d\" tabindex=\"0\"", classes[b->kind],
             b->step < 0 ? " none"
             : b->fused  ? " fused"
                         : "",
             (int)b->step);
    // The golden angle keeps neighbours apart.
    if (b->fused) str_addf(out, " style=\"--h:%d\"", (int)((long)b->step * 13751 / 100 % 360));
    str_add(out, "><title>");
    str_add_html(out, b->title);
    str_addf(out, "</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"%d\"/>", b->x - b->width / 2,
             y, b->width, BOX_HEIGHT, b->kind == PICTURE_INPUT || b->kind == PICTURE_OUTPUT ? BOX_HEIGHT / 2 : 5);
    str_addf(out, "<text x=\"%.1f\" y=\"%.1f\">", b->x, y + 16);
    str_add_html(out, b->label);
    str_addf(out, "</text><text class=\"t\" x=\"%.1f\" y=\"%.1f\">", b->x, y + 31);
    str_add_html(out, b->type);
    str_add(out, "</text></g>\n");
}

void picture_svg(const struct picture *p, struct str *out)
{
    double height = 2 * TOP + p->n_layers * LAYER_HEIGHT;
    str_addf(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
             "%.0f\">\n",
             p->width, height, p->width, height);
    for (size_t i = 0; i < p->edges.n; i++) add_edge(p, &p->edges.v[i], out);
    for (size_t i = 0; i < p->boxes.n; i++)
        if (p->boxes.v[i].kind != PICTURE_BEND) add_box(&p->boxes.v[i], out);
    str_add(out, "</svg>\n");
}
