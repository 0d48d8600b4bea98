// What happened to a function, in lines.
#include "jit/auto.h"
#include <stdlib.h>

void function_note(struct kiln_function *f, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    str_addf(&f->log, "  %s\n", text);
    if (debug_flag("guards")) log_warn("%s: %s", f->name, text);
}

size_t captured_unread(const struct captured *c)
{
    const struct kiln_graph *g = c->graph;
    size_t n = 0;
    uint8_t *read = calloc(g->values.n + 1, 1);
    for (size_t i = 0; read && i < g->operands.n; i++)
        if (g->operands.v[i] >= 0) read[g->operands.v[i]] = 1;
    for (size_t i = 0; read && i < g->outputs.n; i++) read[g->outputs.v[i].value] = 1;
    for (size_t i = 0; read && i < c->n_results; i++)
        if (c->results[i].kind == RESULT_SOURCE) read[c->sources[c->results[i].index].value] = 1;
    for (size_t i = 0; read && i < c->gradient.n_saved; i++)
        if (c->gradient.saved[i].source >= 0) read[c->sources[c->gradient.saved[i].source].value] = 1;
    for (size_t i = 0; read && i < c->n_sources; i++) n += !read[c->sources[i].value];
    free(read);
    return n;
}

static void explain_entry(const struct entry *e, struct str *s)
{
    struct program_facts facts;
    entry_facts(e, &facts);
    str_addf(s, "  program %llu: %d nodes, %d launches, %llu bytes planned (%llu if each value had its own)\n",
             (unsigned long long)e->number, facts.n_nodes, facts.n_launches, (unsigned long long)facts.arena_B,
             (unsigned long long)facts.naive_B);
    if (e->program) program_explain(e->program, s);
    struct gradient *g = (struct gradient *)&e->captured.gradient;
    if (!g->graph) return;
    pthread_mutex_lock(&g->lock);
    str_addf(s, "  backward of program %llu: %zu values kept, %zu gradients%s\n", (unsigned long long)e->number,
             g->n_saved, g->n_targets, g->program ? "" : "; not compiled yet");
    if (g->program) program_explain(g->program, s);
    pthread_mutex_unlock(&g->lock);
}

static void explain(struct kiln_function *f, struct str *s)
{
    static const char *const kinds[] = {"STRICT", "AUTO", "TRACE"};
    kiln_jit_stats stats = {.size = sizeof stats};
    const kiln_jit_stats *t = &stats;
    kiln_function_stats(f, &stats);
    pthread_mutex_lock(&f->lock);
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
    if (f->trie) auto_explain(f->trie, s);
}

void kiln_explain(kiln_function *f, FILE *file)
{
    if (error_pending) return;
    if (!f || !file) {
        error_set(KILN_E_ARGUMENT, "explain: %s is NULL", f ? "file" : "f");
        return;
    }
    struct str s;
    str_init(&s);
    explain(f, &s);
    if (!str_check(&s) && fputs(str_text(&s), file) < 0) error_set(KILN_E_IO, "explain: the file cannot be written");
    str_free(&s);
}
