// What happened to a function, in lines: counts, what was captured and why, and each program with its launches.
#include "jit/auto/auto.h"
#include "base/handles.h"
#include "base/options.h"
#include "program/kernels.h"
#include <stdlib.h>
#include <string.h>

// The rest of the line that names a program, and its launches below.
static void add_program(const struct program *p, size_t n_nodes, struct str *s)
{
    if (!p) {
        str_addf(s, "%zu op%s, node by node\n", n_nodes, n_nodes == 1 ? "" : "s");
        return;
    }
    struct str text;
    str_init(&text);
    program_explain(p, &text);
    bool below = false;
    for (const char *line = str_text(&text); *line; below = true) {
        size_t n = strcspn(line, "\n");
        str_addf(s, "%s%.*s\n", below ? "    " : "", (int)n, line);
        line += n + (line[n] == '\n');
    }
    if (text.failed) str_fail(s);
    str_free(&text);
}

static void explain_entry(const struct entry *e, struct str *s)
{
    const struct gradient *g = &e->captured.gradient;
    str_addf(s, "  program %llu: ", (unsigned long long)e->number);
    add_program(e->program, e->captured.graph->nodes.n, s);
    if (!g->all.graph) return;
    const struct program *p = atomic_load(&g->all.program);
    str_addf(s, "  backward of program %llu: %zu gradient%s, from %zu kept value%s; ", (unsigned long long)e->number,
             g->n_targets, g->n_targets == 1 ? "" : "s", g->n_saved, g->n_saved == 1 ? "" : "s");
    if (p || debug_flag("replay"))
        add_program(p, g->all.graph->nodes.n, s);
    else
        str_add(s, "not compiled yet\n");
}

static void explain_bodies(const struct trie *t, struct str *s)
{
    for (const struct auto_body *b = t->bodies; b; b = b->next) {
        str_addf(s, "  program %llu: ", (unsigned long long)b->number);
        add_program(b->program, b->graph->nodes.n, s);
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

static void explain(struct kiln_function *f, struct str *s)
{
    static const char *const kinds[] = {"STRICT", "AUTO", "TRACE"};
    kiln_jit_stats stats;
    const kiln_jit_stats *t = &stats;
    auto_lock();
    pthread_mutex_lock(&f->lock);
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
    for (const struct break_count *b = f->breaks; b < f->breaks + BREAK_REASONS && b->n; b++)
        str_addf(s, "  breaks for %s: %llu\n", b->why, (unsigned long long)b->n);
    str_add(s, str_text(&f->log));
    for (const struct entry *e = f->first; e; e = e->next) explain_entry(e, s);
    pthread_mutex_unlock(&f->lock);
    if (f->trie) explain_bodies(f->trie, s);
    auto_unlock();
}

void kiln_explain(kiln_function *f, FILE *file)
{
    if (error_pending || handle_check("explain", "f", HANDLE_FUNCTION, f)) return;
    if (!file) {
        error_set(KILN_E_ARGUMENT, "explain: file is NULL");
        return;
    }
    struct str s;
    str_init(&s);
    explain(f, &s);
    if (!str_check(&s) && fputs(str_text(&s), file) < 0) error_set(KILN_E_IO, "explain: the file cannot be written");
    str_free(&s);
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
