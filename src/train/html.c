// The page of a training. Its colours follow those of the reader's system.
#include "train/html.h"
#include "base/c_locale.h"

#include <math.h>
#include <string.h>

static const char head[] = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                           "<meta name=\"viewport\" content=\"width=device-width\">\n";
static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark;--ink:#222;--faint:#e4e4e4;--paper:#fff}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#ddd;--faint:#3a3a3a;--paper:#181818}}\n"
    "body{font:14px sans-serif;color:var(--ink);background:var(--paper);max-width:960px;margin:24px auto;padding:0 "
    "16px}\n"
    "h1{font-size:20px}svg{width:100%;height:auto}\n"
    "table{border-collapse:collapse;margin:16px 0}th,td{padding:3px 16px 3px 0;border-bottom:1px solid var(--faint)}\n"
    "th{text-align:left}td+td{text-align:right;font-variant-numeric:tabular-nums}\n"
    "#tip{position:fixed;display:none;pointer-events:none;background:var(--paper);border:1px solid var(--ink);"
    "padding:4px 8px;font-size:12px;white-space:pre}\n"
    ".at{stroke:var(--ink);stroke-dasharray:3 3;display:none}\n"
    "</style>\n";
// Under the pointer: of each series the point that is nearest along the axis.
static const char script[] =
    "<div id=\"tip\"></div>\n<script>\n"
    "const data=JSON.parse(document.getElementById('data').textContent),tip=document.getElementById('tip');\n"
    "const svg=document.querySelector('svg'),panels=svg.querySelectorAll('.panel');\n"
    "const short=v=>Number.isInteger(v)?String(v):Number(v.toPrecision(5)).toString();\n"
    "const lines=[...panels].map((g,i)=>{\n"
    "  const line=document.createElementNS('http://www.w3.org/2000/svg','path');\n"
    "  line.setAttribute('class','at');g.append(line);return line});\n"
    "function near(points,x){\n"
    "  let low=0,high=points.length-1;\n"
    "  while(low<high){const m=low+high>>1;if(points[m][0]<x)low=m+1;else high=m}\n"
    "  if(low>0&&x-points[low-1][0]<points[low][0]-x)low--;\n"
    "  return points[low]}\n"
    "function hide(){tip.style.display='none';lines.forEach(l=>l.style.display='none')}\n"
    "svg.addEventListener('pointerleave',hide);\n"
    "svg.addEventListener('pointermove',e=>{\n"
    "  const at=new DOMPoint(e.clientX,e.clientY).matrixTransform(svg.getScreenCTM().inverse());\n"
    "  const i=data.panels.findIndex(p=>at.y>=p.top&&at.y<=p.bottom&&at.x>=data.left-4&&at.x<=data.right+4);\n"
    "  hide();\n"
    "  if(i<0)return;\n"
    "  const p=data.panels[i],found=p.series.filter(s=>s.points.length).map(s=>[s,near(s.points,at.x)]);\n"
    "  if(!found.length)return;\n"
    "  const first=found.reduce((a,b)=>Math.abs(b[1][0]-at.x)<Math.abs(a[1][0]-at.x)?b:a)[1];\n"
    "  lines[i].setAttribute('d',`M${first[0]} ${p.top}V${p.bottom}`);lines[i].style.display='inline';\n"
    "  tip.textContent=data.x+' '+short(first[1])+found.map(([s,q])=>'\\n'+s.name+': '+short(q[2])+\n"
    "    (q[1]===first[1]?'':' ('+short(q[1])+')')).join('');\n"
    "  tip.style.display='block';\n"
    "  const right=e.clientX+16+tip.offsetWidth>innerWidth;\n"
    "  tip.style.left=(right?e.clientX-16-tip.offsetWidth:e.clientX+16)+'px';tip.style.top=e.clientY+12+'px'});\n"
    "</script>\n</html>\n";

static void add_value(struct str *s, double v, const char *format)
{
    char text[64];
    c_snprintf(text, sizeof text, format, v);
    str_add(s, text);
}

// --- the table

static void add_cell(struct str *s, double v, int64_t step)
{
    str_add(s, "<td>");
    add_value(s, v, "%.5g");
    if (step >= 0) str_addf(s, " (%lld)", (long long)step);
}

static void add_row(struct str *s, const struct train_history *h, const struct train_column *c)
{
    double least = INFINITY, most = -INFINITY, last = NAN;
    int64_t least_at = -1, most_at = -1;
    for (size_t i = 0; i < h->n_rows; i++) {
        if (!c->has[i]) continue;
        last = c->values[i];
        if (last < least) least = last, least_at = h->steps[i];
        if (last > most) most = last, most_at = h->steps[i];
    }
    str_add(s, "<tr><td>");
    svg_text(s, c->name);
    add_cell(s, last, -1);
    add_cell(s, least_at < 0 ? NAN : least, least_at);
    add_cell(s, most_at < 0 ? NAN : most, most_at);
    str_add(s, "\n");
}

static void add_table(struct str *s, const kiln_training *t)
{
    str_add(s, "<table>\n<tr><th>name<th>last<th>least (step)<th>most (step)\n");
    for (size_t i = 0; i < t->history.n_columns; i++) add_row(s, &t->history, &t->history.columns[i]);
    str_add(s, "</table>\n");
}

// --- what the script reads

// Within a script element no tag may end it.
static void add_name(struct str *s, const char *text)
{
    str_add(s, "\"");
    for (; *text; text++) {
        if (*text == '<')
            str_add(s, "\\u003c");
        else
            str_addn(s, *text == '"' ? "\\\"" : *text == '\\' ? "\\\\" : text, *text == '"' || *text == '\\' ? 2 : 1);
    }
    str_add(s, "\"");
}

static void add_series(struct str *s, const struct curves *c, const struct curve_panel *p, const struct curve_series *v)
{
    const char *between = "";
    str_add(s, "{\"name\":");
    add_name(s, v->name);
    str_add(s, ",\"points\":[");
    for (size_t i = 0; i < v->n; i++) {
        if (!curves_shows(c, v->x[i], v->y[i])) continue;
        str_addf(s, "%s[", between);
        svg_number(s, curves_x(c, v->x[i]));
        add_value(s, v->x[i], ",%.9g");
        add_value(s, v->y[i], ",%.6g]");
        between = ",";
    }
    str_add(s, "]}");
}

static void add_data(struct str *s, const struct curves *c)
{
    str_add(s, "<script type=\"application/json\" id=\"data\">{\"x\":");
    add_name(s, c->x_name ? c->x_name : "");
    str_addf(s, ",\"left\":%ld,\"right\":%ld,\"panels\":[", lround(c->left), lround(c->right));
    for (size_t i = 0; i < c->n; i++) {
        const struct curve_panel *p = &c->panels[i];
        str_addf(s, "%s{\"top\":%ld,\"bottom\":%ld,\"series\":[", i ? "," : "", lround(p->plot_top),
                 lround(p->plot_bottom));
        for (size_t k = 0; k < p->n; k++) {
            if (k) str_add(s, ",");
            add_series(s, c, p, &p->series[k]);
        }
        str_add(s, "]}");
    }
    str_add(s, "]}</script>\n");
}

void html_write(struct str *s, const struct curves *c, const kiln_training *t)
{
    const char *title = c->title ? c->title : "Training";
    struct curves untitled = *c; // the page has the title
    untitled.title = NULL;
    curves_lay_out(&untitled);
    str_add(s, head);
    str_add(s, "<title>");
    svg_text(s, title);
    str_add(s, "</title>\n");
    str_add(s, style);
    str_add(s, "<h1>");
    svg_text(s, title);
    str_addf(s, "</h1>\n<p>%lld steps, %lld epochs, ", (long long)t->counters.steps, (long long)t->counters.epochs);
    add_value(s, training_seconds(t), "%.1f s</p>\n");
    add_table(s, t);
    svg_write(s, &untitled, true);
    add_data(s, &untitled);
    str_add(s, script);
}
