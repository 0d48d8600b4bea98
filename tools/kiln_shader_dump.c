// kiln-shader-dump: the kernels of eager mode as GLSL, as SPIR-V, and in numbers.
#include <kiln/debug.h>

#include <ctype.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: kiln-shader-dump [--list] [--op NAME] [--dtype T] [--glsl] [--expand] [--spirv] [--stats]\n"
    "Shows the precompiled kernels that eager mode runs.\n"
    "  --list     one line a kernel: row, class, kind, operands, size of its SPIR-V module\n"
    "  --op NAME  only kernels of this row; * and ? match as in file names; NAME* finds the row's gradients too\n"
    "  --dtype T  only kernels that compute T: f32, f64, i32, i64, bool; f16 and bf16 compute as f32, i8, i16 and\n"
    "             u8 as i32\n"
    "  --glsl     the compute shader, as the build compiled it\n"
    "  --expand   the same with the files that it includes put in\n"
    "  --spirv    the SPIR-V module, disassembled\n"
    "  --stats    counts of words and instructions, capabilities\n"
    "  --version  print the version and exit\n"
    "  --help     print this text and exit\n"
    "Without --list, --glsl, --expand, --spirv and --stats: --list, or with --op all but --expand.\n";

struct options {
    const char *op, *dtype;
    bool list, glsl, expand, spirv, stats;
};

// The class in which a dtype computes; NULL for a name that is none.
static const char *class_of(const char *dtype)
{
    static const char *const names[][2] = {{"f32", "f32"}, {"f16", "f32"},  {"bf16", "f32"}, {"f64", "f64"},
                                           {"i32", "i32"}, {"i16", "i32"},  {"i8", "i32"},   {"u8", "i32"},
                                           {"i64", "i64"}, {"bool", "bool"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!strcmp(names[i][0], dtype)) return names[i][1];
    }
    return NULL;
}

// --- statistics, counted in the disassembly: one instruction a line

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

static bool print_stats(size_t kernel)
{
    char *text = kiln_kernel_disassemble(kernel);
    struct counts *c = calloc(1, sizeof *c);
    if (!text || !c) {
        free(text);
        free(c);
        return false;
    }
    size_t n_words = 0;
    kiln_kernel_spirv(kernel, &n_words);
    for (const char *p = text; *p;) {
        size_t length = strcspn(p, "\n");
        count_line(c, p, length);
        p += length + (p[length] == '\n');
    }
    qsort(c->opcodes, c->n_opcodes, sizeof c->opcodes[0], by_count);
    printf("words %zu, bytes %zu, instructions %zu, distinct %zu\ncapabilities%s\n", n_words, n_words * 4,
           c->n_instructions, c->n_opcodes, c->capabilities);
    for (size_t i = 0; i < c->n_opcodes; i++) printf("%8zu %s\n", c->opcodes[i].n, c->opcodes[i].name);
    free(text);
    free(c);
    return true;
}

// --- output

static void heading(const kiln_kernel_info *k, const char *what)
{
    printf("// ---- %s: %s\n", k->symbol, what);
}

static bool print_text(const kiln_kernel_info *k, const char *what, char *text)
{
    if (!text) return false;
    heading(k, what);
    printf("%s%s", text, text[0] && text[strlen(text) - 1] == '\n' ? "" : "\n");
    free(text);
    return true;
}

// Says on stderr what could not be shown; a kernel without a shader is no failure of a run over many.
static bool complain(const kiln_kernel_info *k)
{
    bool none = kiln_error() == KILN_E_UNSUPPORTED;
    fprintf(stderr, "kiln-shader-dump: %s: %s\n", k->symbol, kiln_error() ? kiln_error_message() : "out of memory");
    kiln_error_clear();
    return none;
}

static void print_line(const kiln_kernel_info *k)
{
    printf("%-40s %-24s %-5s %-10s %2u in %u out %2u scalars", k->symbol, k->row, k->dtype, k->kind,
           (unsigned)k->inputs, (unsigned)k->outputs, (unsigned)k->scalars);
    if (k->module_B)
        printf(" %7llu bytes\n", (unsigned long long)k->module_B);
    else
        printf("    %s\n", k->cpu_only ? "CPU only" : "no module");
}

static bool show(size_t i, const kiln_kernel_info *k, const struct options *o)
{
    bool ok = true;
    if (o->list) print_line(k);
    if (o->glsl && !print_text(k, "GLSL", kiln_kernel_glsl(i, false))) ok &= complain(k);
    if (o->expand && !print_text(k, "GLSL, includes put in", kiln_kernel_glsl(i, true))) ok &= complain(k);
    if (o->spirv && !print_text(k, "SPIR-V", kiln_kernel_disassemble(i))) ok &= complain(k);
    if (o->stats) {
        if (k->module_B) heading(k, "statistics");
        if (!print_stats(i)) ok &= complain(k);
    }
    return ok;
}

static int show_all(const struct options *o)
{
    size_t n = kiln_kernel_count(), shown = 0;
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        kiln_kernel_info k = {.size = sizeof k};
        if (kiln_kernel_get_info(i, &k)) break;
        if (o->op && fnmatch(o->op, k.row, 0) && strcmp(o->op, k.symbol)) continue;
        if (o->dtype && strcmp(o->dtype, k.dtype)) continue;
        shown++;
        ok &= show(i, &k, o);
    }
    if (kiln_error()) {
        fprintf(stderr, "kiln-shader-dump: %s\n", kiln_error_message());
        return 1;
    }
    if (!shown) {
        fprintf(stderr, "kiln-shader-dump: no kernel matches%s%s%s%s\n", o->op ? " op " : "", o->op ? o->op : "",
                o->dtype ? " dtype " : "", o->dtype ? o->dtype : "");
        return 1;
    }
    if (fflush(stdout)) return 1;
    return ok ? 0 : 1;
}

static void print_version(void *user, const kiln_fact *f)
{
    if (!strcmp(f->name, "kiln version")) printf("kiln-shader-dump %s\n", f->text);
}

static int reject(const char *what, const char *value)
{
    fprintf(stderr, "kiln-shader-dump: %s \"%s\"\n%s", what, value, usage);
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"list", 0, NULL, 'l'},  {"op", 1, NULL, 'o'},     {"dtype", 1, NULL, 'd'},
                                          {"glsl", 0, NULL, 'g'},  {"expand", 0, NULL, 'x'}, {"spirv", 0, NULL, 's'},
                                          {"stats", 0, NULL, 'n'}, {"help", 0, NULL, 'h'},   {"version", 0, NULL, 'v'},
                                          {NULL, 0, NULL, 0}};
    struct options o = {0};
    for (int c; (c = getopt_long(argc, argv, "h", names, NULL)) != -1;) {
        switch (c) {
        case 'l': o.list = true; break;
        case 'o': o.op = optarg; break;
        case 'd':
            o.dtype = class_of(optarg);
            if (!o.dtype) return reject("no such dtype:", optarg);
            break;
        case 'g': o.glsl = true; break;
        case 'x': o.expand = true; break;
        case 's': o.spirv = true; break;
        case 'n': o.stats = true; break;
        case 'h': fputs(usage, stdout); return 0;
        case 'v': kiln_library_facts(print_version, NULL); return 0;
        default: fputs(usage, stderr); return 2;
        }
    }
    if (optind < argc) return reject("unexpected argument", argv[optind]);
    if (!o.list && !o.glsl && !o.expand && !o.spirv && !o.stats) {
        o.list = true;
        o.glsl = o.spirv = o.stats = o.op != NULL;
    }
    return show_all(&o);
}
