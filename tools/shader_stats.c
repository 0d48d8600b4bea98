// Statistics of a kernel, counted in its text: one instruction a line.
#include "shader_stats.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct opcode_count {
    char name[40];
    size_t n;
};

struct counts {
    size_t n_instructions, n_opcodes;
    struct opcode_count opcodes[256];
    char capabilities[512];
};

static void count_opcode(struct counts *c, const char *name, size_t length)
{
    c->n_instructions++;
    for (size_t i = 0; i < c->n_opcodes; i++) {
        struct opcode_count *o = &c->opcodes[i];
        if (strlen(o->name) == length && !strncmp(o->name, name, length)) {
            o->n++;
            return;
        }
    }
    if (c->n_opcodes == sizeof c->opcodes / sizeof c->opcodes[0]) return;
    struct opcode_count *o = &c->opcodes[c->n_opcodes++];
    snprintf(o->name, sizeof o->name, "%.*s", (int)length, name);
    o->n = 1;
}

// "    %12 = OpIAdd %uint %10 %11": the word that begins with Op, behind an optional result.
static void count_line(struct counts *c, const char *line, size_t length)
{
    const char *end = line + length, *p = line;
    while (p < end && isspace((unsigned char)*p)) p++;
    if (p < end && *p == '%') {
        p = memchr(p, '=', (size_t)(end - p));
        if (!p) return;
        for (p++; p < end && *p == ' ';) p++;
    }
    if (end - p < 3 || strncmp(p, "Op", 2)) return;
    size_t n = 0;
    while (p + n < end && isalnum((unsigned char)p[n])) n++;
    count_opcode(c, p, n);
    if (n == 12 && !strncmp(p, "OpCapability", n)) {
        size_t at = strlen(c->capabilities);
        snprintf(c->capabilities + at, sizeof c->capabilities - at, "%.*s", (int)(end - p - (ptrdiff_t)n), p + n);
    }
}

static int by_count(const void *a, const void *b)
{
    const struct opcode_count *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->name, y->name);
}

static void print_counts(struct counts *c)
{
    qsort(c->opcodes, c->n_opcodes, sizeof c->opcodes[0], by_count);
    for (size_t i = 0; i < c->n_opcodes; i++) printf("%8zu %s\n", c->opcodes[i].n, c->opcodes[i].name);
}

static void count_lines(struct counts *c, const char *text,
                        void (*line)(struct counts *c, const char *line, size_t length))
{
    for (const char *p = text; *p;) {
        size_t length = strcspn(p, "\n");
        line(c, p, length);
        p += length + (p[length] == '\n');
    }
}

void stats_spirv(const char *text, size_t n_words)
{
    struct counts *c = calloc(1, sizeof *c);
    if (!c) return;
    count_lines(c, text, count_line);
    if (n_words) printf("words %zu, bytes %zu, ", n_words, n_words * 4);
    printf("instructions %zu, distinct %zu\ncapabilities%s\n", c->n_instructions, c->n_opcodes, c->capabilities);
    print_counts(c);
    free(c);
}

// "  %3 = tail call float @f(...)", "  br label %1": indented, the word behind an optional result and `tail`.
static void count_llvm_line(struct counts *c, const char *line, size_t length)
{
    const char *end = line + length, *p = line;
    if (length < 3 || strncmp(line, "  ", 2)) return;
    while (p < end && *p == ' ') p++;
    const char *equals = *p == '%' ? memchr(p, '=', (size_t)(end - p)) : NULL;
    if (equals) p = equals + 2;
    if (end - p > 5 && !strncmp(p, "tail ", 5)) p += 5;
    size_t n = 0;
    while (p + n < end && isalpha((unsigned char)p[n])) n++;
    if (n) count_opcode(c, p, n);
}

void stats_llvm(const char *text)
{
    struct counts *c = calloc(1, sizeof *c);
    if (!c) return;
    count_lines(c, text, count_llvm_line);
    printf("instructions %zu, distinct %zu\n", c->n_instructions, c->n_opcodes);
    print_counts(c);
    free(c);
}
