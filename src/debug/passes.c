// Passes over graphs in text form.
#include "pass/pass.h"
#include "base/options.h"
#include <kiln/debug.h>
#include <stdlib.h>
#include <string.h>

size_t kiln_pass_count(void)
{
    return (size_t)pass_count;
}

kiln_status kiln_pass_get_info(size_t pass, kiln_pass_info *out)
{
    if (error_pending) return error_pending;
    TRY(sized_check("pass_get_info", kiln_pass_info, out));
    if (pass >= (size_t)pass_count)
        return error_set(KILN_E_ARGUMENT, "pass_get_info: pass %zu of %d", pass, pass_count);
    kiln_pass_info info = {.name = pass_table[pass].name, .doc = pass_table[pass].doc};
    sized_fill(out, &info, sizeof info);
    return KILN_OK;
}

struct watcher {
    kiln_pass_fn each;
    void *user;
};

static void tell(void *user, const struct pass_stats *s, const struct kiln_graph *g)
{
    struct watcher *w = user;
    struct str text;
    str_init(&text);
    ir_graph_file_text(g, &text);
    kiln_pass_run run = {.pass = pass_table[s->pass].name,
                         .graph = str_text(&text),
                         .nodes_before = s->nodes_before,
                         .nodes_after = s->nodes_after,
                         .time_ns = s->time_ns,
                         .changed = s->changed};
    if (!str_check(&text)) w->each(w->user, &run);
    str_free(&text);
}

static kiln_status run(struct kiln_graph **g, const kiln_optimize_opts *opts, const struct pass_options *o)
{
    if (!opts->passes) return pass_run_all(g, o, NULL);
    for (size_t i = 0; i < opts->n_passes; i++) {
        int pass = opts->passes[i] ? pass_find(opts->passes[i]) : -1;
        if (pass < 0)
            return error_set(KILN_E_ARGUMENT, "graph_text_optimize: there is no pass \"%.60s\"",
                             opts->passes[i] ? opts->passes[i] : "(NULL)");
        TRY(pass_run(pass, g, o, NULL));
    }
    return KILN_OK;
}

static char *text_of(const struct kiln_graph *g)
{
    struct str s;
    str_init(&s);
    ir_graph_file_text(g, &s);
    char *text = str_check(&s) ? NULL : strdup(str_text(&s));
    str_free(&s);
    if (!text && !error_pending) error_set(KILN_E_MEMORY, "graph_text_optimize: out of memory");
    return text;
}

char *kiln_graph_text_optimize(const char *text, size_t size_B, const char *name, const kiln_optimize_opts *opts)
{
    kiln_optimize_opts o;
    if (error_pending) return NULL;
    if (!text || !name) {
        error_set(KILN_E_ARGUMENT, "graph_text_optimize: %s is NULL", text ? "name" : "text");
        return NULL;
    }
    if (options_read("graph_text_optimize", KILN_OPTIMIZE, &o, opts)) return NULL;
    struct watcher w = {.each = o.each, .user = o.user};
    struct pass_options options = {.verify = true, .inexact = o.inexact, .each = o.each ? tell : NULL, .user = &w};
    struct kiln_graph *g = ir_parse(text, size_B, name);
    char *result = g && !run(&g, &o, &options) ? text_of(g) : NULL;
    ir_graph_destroy(&g);
    return result;
}
