// Explanations as files. One is a page of HTML: the summary, each program with its graph drawn, and the whole text. It
// is XML, too, so that tools can read it. Without scripts all is there but the panel that keeps what a box says.
#include "base/handles.h"
#include "base/options.h"
#include "jit/auto/auto.h"
#include "jit/explain.h"

enum { PROGRAMS_DRAWN = 8 }; // those used last

static const char head[] =
    "<!DOCTYPE html>\n"
    "<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";

static const char style[] =
    "<style>\n"
    ":root { color-scheme: light dark; --ground: #fbfbfa; --ink: #1c1d20; --dim: #63666d; --line: #c9cbd1;\n"
    "  --box: #eeeff1; --edge: #9a9da5; --l: 84%; --s: 62%; --mark: #d4380d; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  :root { --ground: #17181b; --ink: #e7e8ea; --dim: #9ea1a8; --line: #3a3c42; --box: #26282d; --edge: #70737b;\n"
    "    --l: 29%; --s: 42%; --mark: #ff8a5c; } }\n"
    "body { margin: 0 auto; padding: 1.5rem; max-width: 90rem; background: var(--ground); color: var(--ink);\n"
    "  font: 15px/1.5 system-ui, sans-serif; }\n"
    "h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }\n"
    "pre, text { font-family: ui-monospace, monospace; }\n"
    "pre { overflow-x: auto; padding: .8rem 1rem; background: var(--box); border-radius: 6px; font-size: 13px; }\n"
    "figure { margin: 0; overflow: auto; max-height: 80vh; border: 1px solid var(--line); border-radius: 6px; }\n"
    "figcaption, .panel { color: var(--dim); font-size: 13px; padding: .3rem .8rem; }\n"
    ".panel { position: sticky; bottom: 0; min-height: 8.5em; margin: 0; white-space: pre-wrap;\n"
    "  font-family: ui-monospace, monospace; color: var(--ink); background: var(--ground); }\n"
    ".b { cursor: pointer; } .b:focus { outline: none; }\n"
    ".b rect { fill: var(--box); stroke: var(--edge); }\n"
    ".b.fused rect { fill: hsl(var(--h) var(--s) var(--l)); }\n"
    ".b.none rect { fill: var(--ground); stroke-dasharray: 4 3; }\n"
    ".b.in rect, .b.out rect { fill: var(--ground); stroke-dasharray: none; }\n"
    ".b:hover rect, .b:focus rect, .b.same rect { stroke: var(--mark); stroke-width: 2; }\n"
    ".b text { fill: var(--ink); font-size: 12px; text-anchor: middle; } .b text.t { fill: var(--dim); font-size: "
    "11px; }\n"
    ".e { fill: none; stroke: var(--edge); } .arrow { fill: var(--edge); }\n"
    "summary { cursor: pointer; }\n"
    "</style>\n";

// No character here means anything to XML.
static const char script[] =
    "<script>\n"
    "document.querySelectorAll('section').forEach(function (section) {\n"
    "  var panel = section.querySelector('.panel'), boxes = section.querySelectorAll('.b');\n"
    "  function show(box) {\n"
    "    panel.textContent = box.querySelector('title').textContent;\n"
    "    boxes.forEach(function (other) {\n"
    "      var same = box.dataset.k !== '-1' ? other.dataset.k === box.dataset.k : other === box;\n"
    "      other.classList.toggle('same', same);\n"
    "    });\n"
    "  }\n"
    "  boxes.forEach(function (box) {\n"
    "    box.addEventListener('click', function () { show(box); });\n"
    "    box.addEventListener('focus', function () { show(box); });\n"
    "  });\n"
    "});\n"
    "</script>\n";

static const char arrow[] =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"0\" height=\"0\" aria-hidden=\"true\" "
    "style=\"position:absolute\">"
    "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
    "orient=\"auto\"><path class=\"arrow\" d=\"M0 0L8 4L0 8z\"/></marker></defs></svg>\n";

static void add_pre(struct kiln_function *f, bool summary, struct str *s)
{
    struct str text;
    str_init(&text);
    function_explain(f, summary, &text);
    str_add(s, "<pre>");
    str_add_html(s, str_text(&text));
    str_add(s, "</pre>\n");
    if (text.failed) str_fail(s);
    str_free(&text);
}

static void begin_section(struct str *s, const char *what, uint64_t number)
{
    str_addf(s, "<section>\n<h2>%s %llu</h2>\n", what, (unsigned long long)number);
}

static void end_section(struct str *s)
{
    str_add(s, "<p class=\"panel\">Point at a box, or click it: its types, bytes, kernel and line stand here.</p>\n"
               "</section>\n");
}

static size_t take_entries(struct kiln_function *f, struct entry **entries)
{
    size_t n = 0;
    pthread_mutex_lock(&f->lock);
    for (struct entry *e = f->first; e && n < PROGRAMS_DRAWN; e = e->next) entries[n++] = entry_ref(e);
    pthread_mutex_unlock(&f->lock);
    return n;
}

static kiln_status draw_entry(struct kiln_function *f, struct entry *e, struct str *s)
{
    begin_section(s, "Program", e->number);
    TRY(entry_picture(f, e, s));
    end_section(s);
    if (!e->captured.gradient.all.graph) return KILN_OK;
    begin_section(s, "Backward of program", e->number);
    TRY(entry_picture_backward(e, s));
    end_section(s);
    return KILN_OK;
}

// With AUTO's lock: a body stays.
static kiln_status draw_bodies(const struct trie *t, struct str *s)
{
    kiln_status status = KILN_OK;
    int n = 0;
    auto_lock();
    for (const struct auto_body *b = t->bodies; b && n < PROGRAMS_DRAWN && !status; b = b->next, n++) {
        begin_section(s, "Program", b->number);
        status = auto_body_picture(t, b, s);
        end_section(s);
    }
    auto_unlock();
    return status;
}

static kiln_status draw(struct kiln_function *f, struct str *s)
{
    struct entry *entries[PROGRAMS_DRAWN] = {NULL};
    kiln_status status = KILN_OK;
    size_t n = take_entries(f, entries);
    for (size_t i = 0; i < n; i++) {
        if (!status) status = draw_entry(f, entries[i], s);
        entry_unref(&entries[i]);
    }
    if (!status && f->trie) status = draw_bodies(f->trie, s);
    return status;
}

static void add_page(struct kiln_function *f, struct str *s)
{
    str_add(s, head);
    str_add(s, "<title>");
    str_add_html(s, f->name);
    str_add(s, "</title>\n");
    str_add(s, style);
    str_add(s, "</head>\n<body>\n<h1>");
    str_add_html(s, f->name);
    str_add(s, "</h1>\n");
    str_add(s, arrow);
    add_pre(f, true, s);
    if (draw(f, s)) return;
    str_add(s, "<details>\n<summary>Each launch, value by value</summary>\n");
    add_pre(f, false, s);
    str_add(s, "</details>\n");
    str_add(s, script);
    str_add(s, "</body>\n</html>\n");
}

// --- public functions

static kiln_status explain_as(const char *function, kiln_function *f, FILE *file, const kiln_explain_opts *opts)
{
    kiln_explain_opts o;
    struct str s;
    if (error_pending) return error_pending;
    TRY(handle_check(function, "f", HANDLE_FUNCTION, f));
    if (!file) return error_set(KILN_E_ARGUMENT, "%s: file is NULL", function);
    TRY(options_read(function, KILN_EXPLAIN, &o, opts));
    if ((int)o.level < 0 || o.level > KILN_EXPLAIN_HTML)
        return error_set(KILN_E_ARGUMENT, "%s: .level is %d, not one of kiln_explain_level", function, (int)o.level);
    str_init(&s);
    if (o.level == KILN_EXPLAIN_HTML)
        add_page(f, &s);
    else
        function_explain(f, o.level == KILN_EXPLAIN_SUMMARY, &s);
    if (!error_pending && !str_check(&s) && fputs(str_text(&s), file) < 0)
        error_set(KILN_E_IO, "%s: the file cannot be written", function);
    str_free(&s);
    return error_pending;
}

kiln_status kiln_explain_with(kiln_function *f, FILE *file, const kiln_explain_opts *opts)
{
    return explain_as("explain_with", f, file, opts);
}

void kiln_explain(kiln_function *f, FILE *file)
{
    (void)explain_as("explain", f, file, NULL);
}
