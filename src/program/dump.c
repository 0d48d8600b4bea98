// The folder of a program: 00-captured.kiln, one NN-PASS.kiln for each run of a pass that changed the graph,
// graph.kiln (the last of them), and for each step of the schedule, in order, kNN-NAME.txt with its nodes and why it
// was not fused further, kNN-NAME.glsl with .spvasm and .spv, or .ll; plan.txt, which program_explain writes.
#include "program/dump.h"
#include "base/caller.h"
#include "codegen/show.h"
#include "device/device.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct dump {
    char folder[3072];
    int n_graphs;
};

static bool make_folder(const char *path)
{
    return !mkdir(path, 0777);
}

// "the function at train.c:42" gives "train.c_42", `cell "encoder.0" (dense)` gives "encoder.0".
static void short_name(const char *name, char *out, size_t size)
{
    const char *quoted = strchr(name, '"'), *at = strstr(name, " at ");
    char part[CALLER_TEXT_MAX];
    if (quoted || at) {
        name = quoted ? quoted + 1 : at + 4;
        snprintf(part, sizeof part, "%.*s", (int)strcspn(name, quoted ? "\"" : " "), name);
        name = part;
    }
    const char *word = strrchr(name, ' ');
    const char *slash = strrchr(name, '/');
    name = slash && slash > word ? slash + 1 : word ? word + 1 : name;
    snprintf(out, size, "%.*s", (int)size - 1, *name ? name : "graph");
    for (char *p = out; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *p)) *p = '_';
}

static bool open_folder(struct dump *d, const char *root, const char *name)
{
    char word[64];
    short_name(name, word, sizeof word);
    if (!make_folder(root) && errno != EEXIST) return false;
    for (unsigned i = 1; i < 100000; i++) {
        int n = snprintf(d->folder, sizeof d->folder, "%s/%04u-%s", root, i, word);
        if (n < 0 || (size_t)n >= sizeof d->folder) return false;
        if (make_folder(d->folder)) return true;
        if (errno != EEXIST) return false;
    }
    return false;
}

struct dump *dump_open(const char *name)
{
    const char *root = secure_getenv("KILN_DUMP");
    if (!root || !*root) return NULL;
    struct dump *d = calloc(1, sizeof *d);
    if (d && open_folder(d, root, name)) return d;
    log_warn("KILN_DUMP: %s takes no folder for %s", root, name);
    free(d);
    return NULL;
}

void dump_close(struct dump **d)
{
    free(*d);
    *d = NULL;
}

static void write_file(const struct dump *d, const char *file, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", d->folder, file);
    FILE *f = fopen(path, "w");
    bool ok = f && fputs(text, f) >= 0;
    if (f) ok &= !fclose(f);
    if (!ok) log_warn("KILN_DUMP: %s cannot be written", path);
}

void dump_text(struct dump *d, const char *file, const struct str *text)
{
    if (d && text->len) write_file(d, file, str_text(text));
}

// Memory that is out here is no error of the program's.
static void forget_error(bool before)
{
    if (!before) kiln_error_clear();
}

void dump_graph(struct dump *d, const char *stage, const struct kiln_graph *g)
{
    if (!d) return;
    bool pending = error_pending;
    struct str s;
    str_init(&s);
    char file[96];
    snprintf(file, sizeof file, "%s.kiln", stage);
    ir_graph_file_text(g, &s);
    if (!str_check(&s)) dump_text(d, file, &s);
    str_free(&s);
    forget_error(pending);
}

void dump_pass(void *user, const struct pass_stats *s, const struct kiln_graph *g)
{
    struct dump *d = user;
    char stage[80];
    if (!s->changed) return;
    snprintf(stage, sizeof stage, "%02d-%s", ++d->n_graphs, pass_table[s->pass].name);
    dump_graph(d, stage, g);
}

static void write_module(const struct dump *d, const char *file, const struct spirv *module)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", d->folder, file);
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(module->words, 4, module->n_words, f) == module->n_words;
    if (f) ok &= !fclose(f);
    if (!ok) log_warn("KILN_DUMP: %s cannot be written", path);
}

static void write_step(struct dump *d, int number, const struct units *u, const struct fuse_step *step,
                       const struct show_step *s)
{
    const struct {
        const char *ending;
        const struct str *text;
    } files[] = {{"glsl", &s->glsl}, {"spvasm", &s->spirv}, {"ll", &s->llvm}};
    const char *name = show_step_name(u, step), *why = show_step_why(u, step);
    char file[160];
    struct str text;
    str_init(&text);
    str_addf(&text, "%s\n%s", step->kernel ? "fused" : "by itself", str_text(&s->nodes));
    if (step->kernel) str_addf(&text, "\n%s", str_text(&s->kernel));
    if (why) str_addf(&text, "\nnot fused further: %s\n", why);
    snprintf(file, sizeof file, "k%02d-%.80s.txt", number, name);
    if (!str_check(&text)) dump_text(d, file, &text);
    str_free(&text);
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        snprintf(file, sizeof file, "k%02d-%.80s.%s", number, name, files[i].ending);
        dump_text(d, file, files[i].text);
    }
    snprintf(file, sizeof file, "k%02d-%.80s.spv", number, name);
    if (s->module.words) write_module(d, file, &s->module);
}

void dump_steps(struct dump *d, const struct units *u, const struct fuse_schedule *schedule, kiln_device *dev)
{
    if (!d) return;
    bool pending = error_pending;
    const struct show_target target = {.caps = &dev->caps, .include = device_shown_text(dev)};
    for (size_t i = 0; i < schedule->steps.n; i++) {
        struct show_step s;
        show_step_init(&s);
        if (!show_step(u, &schedule->steps.v[i], &target, &s)) write_step(d, (int)i, u, &schedule->steps.v[i], &s);
        show_step_free(&s);
    }
    forget_error(pending);
}
