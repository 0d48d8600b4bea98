// A loop is a branch back to a label: all lines from the label to the branch.
#include "gpu_isa.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LABELS 8192
#define MAX_LOOPS  512

struct line {
    const char *name, *rest;
    size_t name_length;
};

struct loop {
    size_t begin, end; // lines, end included
};

struct listing {
    struct line *lines;
    size_t n_lines, n_loops;
    size_t label_at[MAX_LABELS]; // 1 + the line; 0: not seen
    struct loop loops[MAX_LOOPS];
};

static bool starts(const struct line *l, const char *with)
{
    size_t n = strlen(with);
    return l->name_length >= n && !strncmp(l->name, with, n);
}

static bool has(const struct line *l, const char *part)
{
    size_t n = strlen(part);
    for (size_t i = 0; i + n <= l->name_length; i++)
        if (!strncmp(l->name + i, part, n)) return true;
    return false;
}

// --- counting

// Bytes that a memory instruction moves: global_load_dwordx4, global_load_b128, global_store_short ...
static size_t moved_B(const struct line *l)
{
    static const struct {
        const char *part;
        size_t size_B;
    } widths[] = {{"dwordx4", 16}, {"dwordx3", 12}, {"dwordx2", 8}, {"dword", 4}, {"b128", 16}, {"b96", 12},
                  {"b64", 8},      {"b32", 4},      {"short", 2},   {"16", 2},    {"byte", 1},  {"8", 1}};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        if (has(l, widths[i].part)) return widths[i].size_B;
    return 4;
}

static bool is_global(const struct line *l, const char *act)
{
    return (starts(l, "global_") || starts(l, "flat_") || starts(l, "buffer_")) && has(l, act);
}

// A dual instruction of RDNA 3 has its second half behind "::". One of matrices counts once.
static size_t multiply_adds(const struct line *l)
{
    if (!starts(l, "v_")) return 0;
    const char *end = l->rest + strcspn(l->rest, "\n"), *second = strstr(l->rest, "::");
    bool both = second && second < end && (strstr(second, "fma") || strstr(second, "mac"));
    bool is =
        has(l, "fma") || has(l, "_mac_") || has(l, "_mad_f") || has(l, "mad_mix") || has(l, "_dot") || has(l, "_wmma_");
    return (is ? 1 : 0) + (is && starts(l, "v_pk_") ? 1 : 0) + (both && second < end ? 1 : 0);
}

static bool is_float(const struct line *l)
{
    return starts(l, "v_") && (has(l, "_f32") || has(l, "_f64") || has(l, "_f16")) && !starts(l, "v_cmp");
}

static void count(const struct line *l, struct isa_counts *c)
{
    if (starts(l, "s_delay_alu")) return; // a hint of RDNA 3, which is issued with the instruction behind it
    size_t adds = multiply_adds(l);
    c->instructions++;
    c->multiply_adds += adds;
    c->arithmetic += adds || is_float(l);
    c->shared += starts(l, "ds_");
    c->moves += starts(l, "v_mov_") || starts(l, "v_dual_mov");
    if (is_global(l, "_load_")) {
        size_t size_B = moved_B(l);
        c->loads++;
        c->load_B += size_B;
        if (size_B > c->widest_load_B) c->widest_load_B = size_B;
    } else if (is_global(l, "_store_")) {
        size_t size_B = moved_B(l);
        c->stores++;
        c->store_B += size_B;
        if (size_B > c->widest_store_B) c->widest_store_B = size_B;
    }
}

// --- lines and loops

// "BB12:" or "\tv_add_f32_e32 v0, v1, v2 ; 06000501".
static void read_line(struct listing *l, const char *text)
{
    unsigned label;
    char colon;
    while (*text == ' ' || *text == '\t') text++;
    if (sscanf(text, "BB%u%c", &label, &colon) == 2 && colon == ':') {
        if (label < MAX_LABELS) l->label_at[label] = l->n_lines + 1;
        return;
    }
    size_t length = 0;
    while (islower((unsigned char)text[length]) || isdigit((unsigned char)text[length]) || text[length] == '_')
        length++;
    if (length < 3 || (text[length] != ' ' && text[length] != '\t' && text[length] != '\n' && text[length])) return;
    struct line *line = &l->lines[l->n_lines++];
    *line = (struct line){text, text + length, length};
    const char *to = starts(line, "s_branch") || starts(line, "s_cbranch") ? strstr(line->rest, "BB") : NULL;
    if (!to || sscanf(to, "BB%u", &label) != 1 || label >= MAX_LABELS || !l->label_at[label]) return;
    if (l->n_loops < MAX_LOOPS) l->loops[l->n_loops++] = (struct loop){l->label_at[label] - 1, l->n_lines - 1};
}

static bool inside(const struct loop *a, const struct loop *b)
{
    return a != b && a->begin >= b->begin && a->end <= b->end && (a->begin != b->begin || a->end != b->end);
}

static bool is_hotter(size_t depth, const struct isa_counts *c, const struct isa_summary *than)
{
    if (c->multiply_adds != than->loop.multiply_adds) return c->multiply_adds > than->loop.multiply_adds;
    if (depth != than->depth) return depth > than->depth;
    if (c->load_B != than->loop.load_B) return c->load_B > than->loop.load_B;
    return c->instructions > than->loop.instructions;
}

static void count_straight(const struct listing *l, struct isa_counts *c)
{
    for (size_t k = 0; k < l->n_lines; k++) {
        bool loops = false;
        for (size_t i = 0; i < l->n_loops && !loops; i++) loops = k >= l->loops[i].begin && k <= l->loops[i].end;
        if (!loops) count(&l->lines[k], c);
    }
}

static void add_counts(struct isa_counts *sum, const struct isa_counts *c)
{
    sum->instructions += c->instructions;
    sum->loads += c->loads;
    sum->load_B += c->load_B;
    sum->stores += c->stores;
    sum->store_B += c->store_B;
}

static size_t widest(const struct isa_counts *c)
{
    return c->widest_load_B > c->widest_store_B ? c->widest_load_B : c->widest_store_B;
}

// What stands in the loop and in none inside it.
static void count_own(const struct listing *l, const struct loop *of, struct isa_counts *c)
{
    for (size_t k = of->begin; k <= of->end; k++) {
        bool own = true;
        for (size_t i = 0; i < l->n_loops && own; i++)
            own = !inside(&l->loops[i], of) || k < l->loops[i].begin || k > l->loops[i].end;
        if (own) count(&l->lines[k], c);
    }
}

static void weigh_loops(const struct listing *l, struct isa_summary *out)
{
    out->n_loops = l->n_loops;
    for (size_t i = 0; i < l->n_loops; i++) {
        size_t depth = 1;
        for (size_t k = 0; k < l->n_loops; k++) depth += inside(&l->loops[i], &l->loops[k]);
        struct isa_counts c = {0};
        count_own(l, &l->loops[i], &c);
        if (c.loads + c.stores && widest(&c) == widest(&out->whole)) add_counts(&out->walks, &c);
        if (!is_hotter(depth, &c, out)) continue;
        out->loop = c;
        out->depth = depth;
    }
}

void isa_read(const char *assembly, struct isa_summary *out)
{
    *out = (struct isa_summary){0};
    size_t n = 1;
    for (const char *p = assembly; *p; p++) n += *p == '\n';
    struct listing *l = calloc(1, sizeof *l);
    if (l) l->lines = calloc(n, sizeof *l->lines);
    if (l && l->lines) {
        for (const char *p = assembly; *p;) {
            read_line(l, p);
            p += strcspn(p, "\n");
            p += *p == '\n';
        }
        for (size_t i = 0; i < l->n_lines; i++) count(&l->lines[i], &out->whole);
        weigh_loops(l, out);
        count_straight(l, &out->straight);
    }
    if (l) free(l->lines);
    free(l);
}
