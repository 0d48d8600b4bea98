// Rows as a page, which needs no other file.
#include "bench.h"

#include <math.h>

void write_escaped(const char *s, FILE *f)
{
    for (; *s; s++) {
        if (*s == '<')
            fputs("&lt;", f);
        else if (*s == '>')
            fputs("&gt;", f);
        else if (*s == '&')
            fputs("&amp;", f);
        else
            fputc(*s, f);
    }
}

void write_cell(double v, double scale, const char *unit, FILE *f)
{
    if (isfinite(v))
        fprintf(f, "<td>%.4g%s</td>", v * scale, unit);
    else
        fputs("<td></td>", f);
}

static void write_html_row(const struct row *r, FILE *f)
{
    fputs("<tr><th>", f);
    write_escaped(r->name, f);
    fprintf(f, "</th><td>%s</td>", r->mode);
    if (r->error[0]) {
        fputs("<td colspan=8 class=error>", f);
        write_escaped(r->error, f);
        fputs("</td></tr>\n", f);
        return;
    }
    write_cell(r->time_ns, 1e-6, "", f);
    write_cell(r->min_ns, 1e-6, "", f);
    write_cell(r->p90_ns, 1e-6, "", f);
    fprintf(f, "<td>%d</td>", r->runs);
    write_cell(r->launches, 1, "", f);
    write_cell(r->bytes > 0 ? r->bytes / r->time_ns : NAN, 1, "", f);
    write_cell(r->flops > 0 ? r->flops / r->time_ns : NAN, 1, "", f);
    if (isfinite(row_share(r))) {
        double width = row_share(r) < 1 ? row_share(r) : 1;
        fprintf(f, "<td class=bar><i style=\"width:%.0f%%\"></i>%.0f%% of %s</td></tr>\n", 100 * width,
                100 * row_share(r), ceiling_name(r->ceiling));
    } else {
        fputs("<td></td></tr>\n", f);
    }
}

void write_html(const struct report *r, FILE *f)
{
    fputs("<!doctype html><meta charset=utf-8><title>kiln-bench</title>\n"
          "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}td,th{padding:.2em .7em;"
          "text-align:right;border-bottom:1px solid var(--grid)}th{text-align:left}.error{color:#a00;text-align:left}"
          ".bar{position:relative;min-width:9em}.bar i{position:absolute;left:0;top:.15em;bottom:.15em;"
          "background:var(--bar);z-index:-1}"
          ":root{color-scheme:light dark;--bar:#cde;--eager:#c60;--jit:#06c;--ink:#222;--grid:#ddd}"
          "@media(prefers-color-scheme:dark){:root{--bar:#345;--eager:#fa5;--jit:#6bf;--ink:#ddd;--grid:#444}"
          "body{background:#181a1b;color:#ddd}}svg{max-width:100%}svg text{font:12px sans-serif;fill:var(--ink)}"
          ".grid{stroke:var(--grid)}.roof{stroke:var(--ink);stroke-width:2;fill:none}circle.eager{fill:var(--eager)}"
          "circle.jit{fill:var(--jit)}.behind{color:var(--eager);font-weight:bold}.key{display:inline-block;width:.7em;"
          "height:.7em;border-radius:50%;margin-left:1em}"
          ".key.eager{background:var(--eager)}.key.jit{background:var(--jit)}"
          ".key.line{height:2px;width:1.4em;border-radius:0;background:var(--ink);vertical-align:middle}</"
          "style>\n<h1>kiln-bench</h1>\n<p>",
          f);
    write_escaped(r->device, f);
    fputs(", ", f);
    write_escaped(r->driver, f);
    fprintf(f, ", size %s, %u threads</p>\n", r->size, r->threads);
    write_roofline(r, f);
    write_beside(r, f);
    fputs("<h2>Rows</h2>\n", f);
    fputs(
        "<table>\n<tr><th>row</th><th>mode</th><th>median, ms</th><th>min</th>"
        "<th>90 %</th><th>runs</th><th>launches</th><th>GB/s</th><th>GFLOP/s</th><th>share of the ceiling</th></tr>\n",
        f);
    for (int i = 0; i < r->n_rows; i++) write_html_row(&r->rows[i], f);
    fputs("</table>\n", f);
}
