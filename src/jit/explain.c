// What happened to a function, in lines: counts, what was captured and why, and each program with its launches; or a
// summary of that.
#include "jit/explain.h"
#include "base/handles.h"
#include "base/options.h"
#include "base/quantity.h"
#include "jit/auto/auto.h"
#include "jit/measured.h"
#include "program/kernels.h"
#include <stdlib.h>
#include <string.h>

enum { LINES_SHOWN = 12, PROGRAMS_SHOWN = 4 }; // of a summary

// What is told of programs.
struct teller {
    const struct kiln_function *f;
    bool summary;
    int n_told;
};

static void add_nodes(size_t n_nodes, struct str *s)
{
    str_addf(s, "%zu op%s, node by node\n", n_nodes, n_nodes == 1 ? "" : "s");
}

// The rest of the line that names a program, and its launches below; of a summary's later programs the line alone.
static void add_program(struct teller *t, const struct program *p, size_t n_nodes, struct str *s)
{
    if (!p) {
        add_nodes(n_nodes, s);
        return;
    }
    struct str text;
    bool line_alone = t->summary && t->n_told++ >= PROGRAMS_SHOWN, below = false;
    str_init(&text);
    (t->summary ? program_summary : program_explain)(p, &text);
    for (const char *line = str_text(&text); *line && !(line_alone && below); below = true) {
        size_t n = strcspn(line, "\n");
        str_addf(s, "%s%.*s\n", below ? "    " : "", (int)n, line);
        line += n + (line[n] == '\n');
    }
    if (text.failed) str_fail(s);
    str_free(&text);
}

static void add_measured(const struct kiln_function *f, const char *indent, const char *what, struct str *s)
{
    str_addf(s, "%s%s took ", indent, what);
    str_add_time(s, f->measured.median_ns);
    str_addf(s, ", median of %llu\n", (unsigned long long)f->measured.runs);
}

static void explain_entry(struct teller *t, const struct entry *e, struct str *s)
{
    const struct gradient *g = &e->captured.gradient;
    str_addf(s, "  program %llu: ", (unsigned long long)e->number);
    add_program(t, e->program, e->captured.graph->nodes.n, s);
    if (t->f->measured.runs && t->f->measured.number == e->number) add_measured(t->f, "    ", "a run", s);
    if (!g->all.graph) return;
    const struct program *p = atomic_load(&g->all.program);
    str_addf(s, "  backward of program %llu: %zu gradient%s, from %zu kept value%s; ", (unsigned long long)e->number,
             g->n_targets, g->n_targets == 1 ? "" : "s", g->n_saved, g->n_saved == 1 ? "" : "s");
    if (p || debug_flag("replay"))
        add_program(t, p, g->all.graph->nodes.n, s);
    else
        str_add(s, "not compiled yet\n");
}

static void explain_bodies(struct teller *t, const struct trie *trie, struct str *s)
{
    for (const struct auto_body *b = trie->bodies; b; b = b->next) {
        str_addf(s, "  program %llu: ", (unsigned long long)b->number);
        add_program(t, b->program, b->graph->nodes.n, s);
    }
}

static void gather_stats(const kiln_function *f, kiln_jit_stats *out)
{
    *out = f->stats;
    out->launches = atomic_load(&f->launches);
    out->graph_ops = atomic_load(&f->graph_ops);
    out->single_ops = atomic_load(&f->single_ops);
    out->programs = f->n_entries + (f->trie ? f->trie->n_bodies : 0);
    out->program_B = f->size_B + (f->trie ? f->trie->size_B : 0);
    out->kernels_compiled = kernel_count_get(f->kernels);
}

static void add_counts(struct kiln_function *f, struct str *s)
{
    static const char *const kinds[] = {"STRICT", "AUTO", "TRACE"};
    kiln_jit_stats stats;
    const kiln_jit_stats *t = &stats;
    gather_stats(f, &stats);
    str_addf(s, "%s, capture %s\n", f->name, kinds[f->o.capture]);
    str_addf(
        s,
        "  calls %llu, captures %llu, programs %llu, guard misses %llu, breaks %llu, evictions %llu, fallbacks %llu\n",
        (unsigned long long)t->calls, (unsigned long long)t->captures, (unsigned long long)t->programs,
        (unsigned long long)t->guard_misses, (unsigned long long)t->breaks, (unsigned long long)t->evictions,
        (unsigned long long)t->fallbacks);
    if (f->o.capture == KILN_CAPTURE_AUTO)
        str_addf(s, "  %llu ops in graphs, %llu by themselves\n", (unsigned long long)t->graph_ops,
                 (unsigned long long)t->single_ops);
    if (f->measured.runs && !f->measured.number) add_measured(f, "  ", "a call", s);
    for (const struct break_count *b = f->breaks; b < f->breaks + BREAK_REASONS && b->n; b++)
        str_addf(s, "  breaks for %s: %llu\n", b->why, (unsigned long long)b->n);
}

// Of a summary the first lines, and how many there are more.
static void add_log(const struct kiln_function *f, bool summary, struct str *s)
{
    const char *at = str_text(&f->log);
    for (int n = 0; *at && (n < LINES_SHOWN || !summary); n++) {
        size_t line = strcspn(at, "\n");
        str_addn(s, at, line + (at[line] == '\n'));
        at += line + (at[line] == '\n');
    }
    int more = 0;
    for (; *at; more++) at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n');
    if (more) str_addf(s, "  and %d line%s more of captures and breaks\n", more, more == 1 ? "" : "s");
}

void function_explain(struct kiln_function *f, bool summary, struct str *s)
{
    struct teller t = {.f = f, .summary = summary};
    auto_lock();
    pthread_mutex_lock(&f->lock);
    add_counts(f, s);
    add_log(f, summary, s);
    for (const struct entry *e = f->first; e; e = e->next) explain_entry(&t, e, s);
    pthread_mutex_unlock(&f->lock);
    if (f->trie) explain_bodies(&t, f->trie, s);
    auto_unlock();
}

void function_note_time(kiln_function *f, double median_ns, uint64_t runs)
{
    pthread_mutex_lock(&f->lock);
    f->measured.median_ns = median_ns;
    f->measured.runs = runs;
    f->measured.number = f->first ? f->first->number : 0;
    pthread_mutex_unlock(&f->lock);
}

void kiln_function_stats(const kiln_function *f, kiln_jit_stats *out)
{
    if (handle_check("function_stats", "f", HANDLE_FUNCTION, f)) return;
    if (sized_check("function_stats", kiln_jit_stats, out)) return;
    pthread_mutex_t *lock = (pthread_mutex_t *)&f->lock;
    auto_lock();
    pthread_mutex_lock(lock);
    kiln_jit_stats s;
    gather_stats(f, &s);
    pthread_mutex_unlock(lock);
    auto_unlock();
    sized_fill(out, &s, sizeof s);
}
