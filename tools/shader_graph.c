// Kernels of graphs. A text is compiled here; a folder of KILN_DUMP holds one folder for each program, with plan.txt,
// and for each kernel kNN-NAME.txt, .glsl, .spvasm, .ll. Both become the same output.
#include "shader_graph.h"
#include "shader_stats.h"

#include <kiln/debug.h>

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shown {
    const struct shader_request *r;
    size_t n_kernels, n_shown;
    bool failed;
};

static void print_text(const char *name, const char *what, const char *text)
{
    if (*text) printf("// ---- %s: %s\n%s%s", name, what, text, text[strlen(text) - 1] == '\n' ? "" : "\n");
}

static void show_kernel(struct shown *s, const kiln_graph_kernel *k)
{
    const struct shader_request *r = s->r;
    s->n_kernels++;
    if (r->op && fnmatch(r->op, k->name, 0)) return;
    s->n_shown++;
    if (r->list) {
        printf("// ---- %s: %s\n%s%s", k->name, k->fused ? "fused" : "by itself", k->nodes, k->kernel);
        if (*k->why) printf("not fused further: %s\n", k->why);
    }
    if (r->glsl) print_text(k->name, "GLSL", k->glsl);
    if (r->spirv) print_text(k->name, "SPIR-V", k->spirv);
    if (r->llvm) print_text(k->name, "LLVM IR", k->llvm);
    if (r->target) {
        s->failed |= k->words && !target_show_words(r->target, k->name, k->words, k->n_words);
        return;
    }
    if (r->stats && (*k->spirv || *k->llvm)) printf("// ---- %s: statistics\n", k->name);
    if (r->stats && *k->spirv) stats_spirv(k->spirv, 0);
    if (r->stats && *k->llvm) stats_llvm(k->llvm);
}

static void show_compiled(void *user, const kiln_graph_kernel *k)
{
    show_kernel(user, k);
}

static int fail(const char *path, const char *why)
{
    fprintf(stderr, "kiln-shader-dump: %s%s%s\n", path, *path ? ": " : "", why);
    return 1;
}

static int fail_to_read(const char *path)
{
    char what[256];
    snprintf(what, sizeof what, "cannot be read: %s", strerror(errno));
    return fail(path, what);
}

// What is asked for must be there.
static int conclude(const struct shown *s, const char *path)
{
    if (fflush(stdout)) return 1;
    if (s->n_kernels == 0) return fail(path, "there are no kernels");
    if (!s->n_shown) return fail(path, "no kernel matches");
    return s->failed;
}

static char *read_all(FILE *f, size_t *size_B)
{
    size_t cap = 1 << 16, n = 0;
    char *text = malloc(cap);
    while (text) {
        n += fread(text + n, 1, cap - n - 1, f);
        if (n + 1 < cap) break;
        char *more = realloc(text, cap *= 2);
        if (!more) free(text);
        text = more;
    }
    if (text) text[n] = 0;
    *size_B = n;
    return text;
}

// With the cause in errno where it is NULL.
static char *read_path(const char *path)
{
    bool piped = !strcmp(path, "-");
    FILE *f = piped ? stdin : fopen(path, "rb");
    size_t size_B;
    char *text = f ? read_all(f, &size_B) : NULL;
    if (text && ferror(f)) {
        free(text);
        text = NULL;
    }
    int cause = errno;
    if (f && !piped) fclose(f);
    errno = cause;
    return text;
}

int shader_graph(const char *path, const struct shader_request *r)
{
    struct shown s = {.r = r};
    char *text = read_path(path);
    if (!text) return fail_to_read(path);
    kiln_device *dev = kiln_device_open(r->device);
    kiln_graph_text_kernels(text, strlen(text), !strcmp(path, "-") ? "standard input" : path, dev, show_compiled, &s);
    free(text);
    kiln_device_close(&dev);
    return kiln_error() ? fail("", kiln_error_message()) : conclude(&s, path);
}

// --- a folder

static int is_program(const struct dirent *e)
{
    return !fnmatch("[0-9][0-9][0-9][0-9]*-*", e->d_name, 0);
}

static int is_kernel(const struct dirent *e)
{
    return !fnmatch("k[0-9][0-9]*-*.txt", e->d_name, 0);
}

// A file beside kNN-NAME.txt; empty where there is none.
static char *read_beside(const char *stem, const char *ending, size_t *size_B)
{
    char path[4096];
    *size_B = 0;
    snprintf(path, sizeof path, "%s.%s", stem, ending);
    FILE *f = fopen(path, "rb");
    char *text = f ? read_all(f, size_B) : calloc(1, 1);
    if (f) fclose(f);
    return text;
}

// The text of a kernel: a line that says whether it is fused, then its nodes and the rest.
static bool show_file(struct shown *s, const char *folder, const char *file)
{
    char stem[3072], name[256];
    int length = (int)(strlen(file) - strlen(".txt"));
    int written = snprintf(stem, sizeof stem, "%s/%.*s", folder, length, file);
    if (written < 0 || (size_t)written >= sizeof stem) return false;
    const char *begin = strchr(file, '-') + 1;
    snprintf(name, sizeof name, "%.*s", (int)(file + length - begin), begin);
    size_t size_B;
    char *text = read_beside(stem, "txt", &size_B), *glsl = read_beside(stem, "glsl", &size_B),
         *spirv = read_beside(stem, "spvasm", &size_B), *llvm = read_beside(stem, "ll", &size_B),
         *module = read_beside(stem, "spv", &size_B);
    bool ok = text && glsl && spirv && llvm && module;
    if (ok) {
        const char *rest = strchr(text, '\n');
        const kiln_graph_kernel k = {.size = sizeof k,
                                     .name = name,
                                     .fused = !strncmp(text, "fused", 5),
                                     .nodes = rest ? rest + 1 : "",
                                     .why = "",
                                     .kernel = "",
                                     .glsl = glsl,
                                     .spirv = spirv,
                                     .llvm = llvm,
                                     .words = size_B ? (const uint32_t *)(const void *)module : NULL,
                                     .n_words = size_B / 4};
        show_kernel(s, &k);
    }
    free(module);
    free(text);
    free(glsl);
    free(spirv);
    free(llvm);
    return ok;
}

static bool show_program(struct shown *s, const char *root, const char *name)
{
    char folder[2048];
    struct dirent **files = NULL;
    int written = snprintf(folder, sizeof folder, "%s/%s", root, name);
    if (written < 0 || (size_t)written >= sizeof folder) return false;
    int n = scandir(folder, &files, is_kernel, alphasort);
    bool ok = n >= 0;
    if (ok) printf("// ==== %s\n", name);
    for (int i = 0; i < n; i++) {
        ok &= show_file(s, folder, files[i]->d_name);
        free(files[i]);
    }
    free(files);
    return ok;
}

int shader_dump(const char *folder, const struct shader_request *r)
{
    struct shown s = {.r = r};
    struct dirent **programs = NULL;
    int n = scandir(folder, &programs, is_program, alphasort);
    bool ok = n >= 0;
    for (int i = 0; i < n; i++) {
        ok &= show_program(&s, folder, programs[i]->d_name);
        free(programs[i]);
    }
    free(programs);
    if (n < 0) return fail_to_read(folder);
    return ok ? conclude(&s, folder) : fail(folder, "a file in it cannot be read");
}
