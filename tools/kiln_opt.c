// kiln-opt: passes over a graph in text form.
#include <kiln/debug.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: kiln-opt [--pass NAME]... [--all] [--inexact] [--print-after-all] [--time] FILE|-\n"
    "       kiln-opt --list\n"
    "Runs passes over a graph in text form and prints the result.\n"
    "  --pass NAME        run this pass; more than once: in this order\n"
    "  --all              run all passes, until they find nothing to do (without --pass: the default)\n"
    "  --inexact          allow rewrites that change rounding or the signs of zeros\n"
    "  --print-after-all  print the graph after each pass that changes it\n"
    "  --time             print what each pass did and how long it took on standard error\n"
    "  --list             list the passes\n"
    "  --version          print the version and exit\n"
    "  --help             print this text and exit\n";

enum { PASSES_MAX = 64 };

struct options {
    const char *passes[PASSES_MAX];
    size_t n_passes;
    bool all, inexact, print, time, list;
};

static void report(void *user, const kiln_pass_run *run)
{
    const struct options *o = user;
    if (o->print && run->changed) printf("// ---- after %s\n%s", run->pass, run->graph);
    if (o->time)
        fprintf(stderr, "%-10s %6zu -> %6zu nodes %10.3f us%s\n", run->pass, run->nodes_before, run->nodes_after,
                (double)run->time_ns / 1000, run->changed ? "" : "  no change");
}

static int fail(const char *what)
{
    fprintf(stderr, "kiln-opt: %s\n", what);
    return 1;
}

static char *read_all(FILE *f, size_t *size_B)
{
    size_t cap = 1 << 16, n = 0;
    char *text = malloc(cap);
    while (text) {
        n += fread(text + n, 1, cap - n, f);
        if (n < cap) break;
        char *more = realloc(text, cap *= 2);
        if (!more) free(text);
        text = more;
    }
    if (text && ferror(f)) {
        free(text);
        text = NULL;
    }
    *size_B = n;
    return text;
}

static int list_passes(void)
{
    for (size_t i = 0; i < kiln_pass_count(); i++) {
        kiln_pass_info info = {.size = sizeof info};
        if (kiln_pass_get_info(i, &info)) return fail(kiln_error_message());
        printf("%-10s %s\n", info.name, info.doc);
    }
    return fflush(stdout) ? 1 : 0;
}

static int optimize(const char *path, const struct options *o)
{
    bool piped = !strcmp(path, "-");
    FILE *f = piped ? stdin : fopen(path, "rb");
    size_t size_B = 0;
    char *text = f ? read_all(f, &size_B) : NULL;
    int cause = errno;
    if (f && !piped) fclose(f);
    if (!text) {
        fprintf(stderr, "kiln-opt: %s: cannot be read: %s\n", path, strerror(cause));
        return 1;
    }
    kiln_optimize_opts opts = {.size = sizeof opts,
                               .passes = o->n_passes ? o->passes : NULL,
                               .n_passes = o->n_passes,
                               .inexact = o->inexact,
                               .each = report,
                               .user = (void *)o};
    char *result = kiln_graph_text_optimize(text, size_B, piped ? "standard input" : path, &opts);
    free(text);
    if (!result) return fail(kiln_error_message());
    if (o->print) printf("// ---- result\n");
    fputs(result, stdout);
    free(result);
    return fflush(stdout) ? 1 : 0;
}

static void print_version(void *user, const kiln_fact *f)
{
    if (!strcmp(f->name, "kiln version")) printf("kiln-opt %s\n", f->text);
}

static int reject(const char *what, const char *value)
{
    fprintf(stderr, "kiln-opt: %s%s\n%s", what, value, usage);
    return 2;
}

static bool is_pass(const char *name)
{
    for (size_t i = 0; i < kiln_pass_count(); i++) {
        kiln_pass_info info = {.size = sizeof info};
        if (!kiln_pass_get_info(i, &info) && !strcmp(info.name, name)) return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"pass", 1, NULL, 'p'}, {"all", 0, NULL, 'a'},  {"inexact", 0, NULL, 'i'}, {"print-after-all", 0, NULL, 'P'},
        {"time", 0, NULL, 't'}, {"list", 0, NULL, 'l'}, {"help", 0, NULL, 'h'},    {"version", 0, NULL, 'v'},
        {NULL, 0, NULL, 0}};
    struct options o = {0};
    for (int c; (c = getopt_long(argc, argv, "h", names, NULL)) != -1;) {
        switch (c) {
        case 'p':
            if (!is_pass(optarg)) return reject("no such pass: ", optarg);
            if (o.n_passes == PASSES_MAX) return reject("too many passes at ", optarg);
            o.passes[o.n_passes++] = optarg;
            break;
        case 'a': o.all = true; break;
        case 'i': o.inexact = true; break;
        case 'P': o.print = true; break;
        case 't': o.time = true; break;
        case 'l': o.list = true; break;
        case 'h': fputs(usage, stdout); return 0;
        case 'v': kiln_library_facts(print_version, NULL); return 0;
        default: fputs(usage, stderr); return 2;
        }
    }
    if (o.all && o.n_passes) return reject("--all and --pass exclude each other", "");
    if (o.list) return optind < argc ? reject("unexpected argument ", argv[optind]) : list_passes();
    if (optind == argc) return reject("no file is given", "");
    if (optind + 1 < argc) return reject("unexpected argument ", argv[optind + 1]);
    return optimize(argv[optind], &o);
}
