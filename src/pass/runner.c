// The one wrapper around every pass.
#include "base/clock.h"
#include "base/debug.h"
#include "pass/passes.h"
#include <stdlib.h>
#include <string.h>

const struct pass pass_table[] = {
    {"inline", pass_inline, "Puts what a call computes in its place."},
    {"types", pass_types, "Infers all types again and carries marks of dimensions that vary to what depends on them."},
    {"fold", pass_fold, "Computes what is known: values that are the same number everywhere."},
    {"prune", pass_prune, "Takes the branch of a condition that is known, and makes no loop for no trip or one.", true},
    {"unroll", pass_unroll, "Makes several trips of a loop one, where that was asked for.", true},
    {"carry", pass_carry, "Lets all trips of a loop read what it carries and never changes.", true},
    {"hoist", pass_hoist, "Computes before a loop what is the same in all its trips.", true},
    {"select", pass_select, "Computes both branches of a condition where they are small, and selects.", true},
    {"sink", pass_sink, "Computes rows that a loop scans in their trips, where they are elementwise.", true},
    {"simplify", pass_simplify, "Rewrites elementwise ops by the table of rules."},
    {"casts", pass_casts, "Drops conversions that change nothing and joins those that lose nothing on the way."},
    {"views", pass_views, "Joins views of views, drops views that change nothing and copies of fresh values."},
    {"move", pass_move, "Moves views past elementwise ops where fewer elements are computed then."},
    {"cse", pass_cse, "Computes equal things once."},
    {"dce", pass_dce, "Drops what no output, write or effect needs."},
};
const int pass_count = (int)COUNT_OF(pass_table);

int pass_find(const char *name)
{
    for (int i = 0; i < pass_count; i++)
        if (!strcmp(pass_table[i].name, name)) return i;
    return -1;
}

void pass_options_from_debug(struct pass_options *o)
{
    char name[64];
    o->print_after |= debug_flag("passes");
    o->verify |= debug_flag("verify");
    for (size_t at = 0; debug_value("skip", &at, name, sizeof name);) {
        int pass = pass_find(name);
        if (pass < 0)
            log_warn("KILN_DEBUG=skip=%s: there is no such pass; kiln-opt --list names them", name);
        else
            o->skip |= UINT64_C(1) << pass;
    }
}

static kiln_status print(const struct kiln_graph *g, const struct pass_options *o, const char *when, int pass)
{
    struct str s;
    str_init(&s);
    ir_graph_text(g, &s);
    kiln_status status = str_check(&s);
    FILE *log = o->log ? o->log : stderr;
    if (!status && fprintf(log, "// ---- %s %s%s%s\n%s", when, pass_table[pass].name, o->why ? ": " : "",
                           o->why ? o->why : "", str_text(&s)) < 0)
        status = error_set(KILN_E_IO, "passes: the log cannot be written");
    str_free(&s);
    return status;
}

// The result takes the old graph's place only where it differs, so that what points into a graph stays valid where a
// pass finds nothing to do.
static kiln_status accept(struct kiln_graph **g, struct kiln_graph *to, bool unseen, bool *changed)
{
    *changed = unseen || !ir_graph_equal(*g, to);
    if (*changed && !error_pending) {
        struct kiln_graph *old = *g;
        *g = to;
        to = old;
    }
    ir_graph_destroy(&to);
    return error_pending;
}

// "pass fold: ..." before what the verifier says.
static kiln_status verify(const struct kiln_graph *g, int pass)
{
    char name[64];
    if (!ir_verify(g)) return KILN_OK;
    snprintf(name, sizeof name, "pass %s", pass_table[pass].name);
    error_name_op(name);
    return error_pending;
}

kiln_status pass_run(int pass, struct kiln_graph **g, const struct pass_options *o, struct pass_report *report)
{
    if (o->skip >> pass & 1) return KILN_OK;
    struct pass_stats s = {.pass = pass, .nodes_before = (*g)->nodes.n, .round = report ? report->rounds : 0};
    struct kiln_graph *to = NULL;
    if (o->print_before) TRY(print(*g, o, "before", pass));
    uint64_t start = clock_now_ns();
    if (!pass_table[pass].regions || (*g)->regions.n) {
        TRY(pass_table[pass].run(*g, o, &to));
        s.time_ns = clock_now_ns() - start;
        kiln_status status = o->verify ? verify(to, pass) : KILN_OK;
        if (status) ir_graph_destroy(&to);
        TRY(status);
        TRY(accept(g, to, o->unseen, &s.changed));
    }
    s.nodes_after = (*g)->nodes.n;
    if (o->print_after && s.changed) TRY(print(*g, o, "after", pass));
    if (o->each) o->each(o->user, &s, *g);
    return report ? vec_push(&report->runs, s) : KILN_OK;
}

// It has settled when each pass has found nothing to do since the last change.
kiln_status pass_run_all(struct kiln_graph **g, const struct pass_options *o, struct pass_report *report)
{
    struct pass_report local = {0}, *r = report ? report : &local;
    kiln_status status = KILN_OK;
    int unchanged = 0;
    for (r->rounds = 0; r->rounds < PASS_ROUNDS_MAX && unchanged < pass_count && !status; r->rounds++)
        for (int i = 0; i < pass_count && unchanged < pass_count && !status; i++) {
            size_t before = r->runs.n;
            status = pass_run(i, g, o, r);
            unchanged = r->runs.n > before && r->runs.v[before].changed ? 0 : unchanged + 1;
        }
    r->settled = unchanged >= pass_count;
    pass_report_free(&local);
    return status;
}

void pass_report_free(struct pass_report *r)
{
    vec_free(&r->runs);
}
