// spirv_modules.bin, its index, and the templates as text: every kernel becomes a validated SPIR-V module here, none at
// run time.
#include "codegen/gen/gen.h"
#include "codegen/gen/spirv_pack.h"
#include "spirv/spirv.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_MODULES = PACK_MODULES_MAX, CAPABILITY_FLOAT64 = 10 };

static char *read_text(struct arena *a, const char *dir, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *text = size >= 0 ? arena_alloc(a, (size_t)size + 1) : NULL;
    if (text && fread(text, 1, (size_t)size, f) != (size_t)size) text = NULL;
    fclose(f);
    return text;
}

struct shaders {
    struct arena *arena;
    const char *dir;
    struct {
        char name[64];
        const char *text;
    } cache[128];
    int n;
};

static const char *include(void *user, const char *name)
{
    struct shaders *s = user;
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->cache[i].name, name)) return s->cache[i].text;
    const char *text = read_text(s->arena, s->dir, name);
    if (text && s->n < 128) {
        snprintf(s->cache[s->n].name, sizeof s->cache[0].name, "%s", name);
        s->cache[s->n++].text = text;
    }
    return text;
}

// The shader of a kernel; *text stays NULL for a hand-written one that has no file.
static kiln_status shader_of(struct catalogue *g, struct shaders *sh, const struct catalogue_kernel *k,
                             const char **text, char *defines, size_t cap)
{
    defines[0] = 0;
    *text = NULL;
    if (k->info.kind == KERNEL_CUSTOM) {
        char file[96];
        const char *cls = scalar_class_name((enum scalar_class)k->info.cls);
        snprintf(file, sizeof file, "%s.comp", k->info.name);
        snprintf(defines, cap, "#define KILN_CLASS_%c%s 1\n", cls[0] - 32, cls + 1);
        if (k->info.cls == CLASS_BOOL) snprintf(defines, cap, "#define KILN_CLASS_BOOL 1\n");
        *text = include(sh, file);
        return KILN_OK;
    }
    struct str s;
    str_init(&s);
    TRY(glsl_kernel(&s, &k->kernel));
    *text = arena_strdup(&g->arena, str_text(&s));
    str_free(&s);
    return *text ? KILN_OK : kiln_error();
}

static kiln_status compile(struct catalogue *g, struct shaders *sh, const struct catalogue_kernel *k, struct spirv *out)
{
    const char *text;
    char defines[64];
    *out = (struct spirv){0};
    TRY(shader_of(g, sh, k, &text, defines, sizeof defines));
    if (!text) return KILN_OK;
    struct spirv_source source = {.name = k->symbol, .text = text, .defines = defines, .include = include, .user = sh};
    TRY(spirv_compile(&source, out));
    TRY(spirv_strip(out));
    return spirv_validate(k->symbol, out->words, out->n_words);
}

// The blob holds the packed modules.
static kiln_status write_modules(struct catalogue *g, struct shaders *sh, FILE *bin, struct str *index, int *count)
{
    size_t at = 0;
    struct spirv_packer *packer = arena_alloc(sh->arena, sizeof *packer);
    if (!packer) return error_pending;
    *packer = (struct spirv_packer){.arena = sh->arena};
    for (int i = 0; i < g->n_families * CLASS_COUNT; i++) {
        const struct catalogue_kernel *k = &g->kernels[i];
        struct spirv spv;
        if (!k->present || k->info.cpu_only) continue;
        TRY(compile(g, sh, k, &spv));
        if (!spv.n_words) continue;
        struct packed_module packed;
        TRY(packer_add(packer, i, spv.words, spv.n_words, &packed));
        if (fwrite(packed.bytes, 1, packed.size_B, bin) != packed.size_B)
            return error_set(KILN_E_IO, "cannot write the modules");
        str_addf(index, "    [%d] = {spirv_blob + %zu, %zu, %zu, %d, %d}, // %s\n", i, at, packed.size_B, spv.n_words,
                 packed.reference, spirv_declares(spv.words, spv.n_words, CAPABILITY_FLOAT64), k->symbol);
        at += packed.size_B;
        spirv_free(&spv);
        ++*count;
    }
    str_addf(index, "    [%d] = {0},\n};\n", g->n_families * CLASS_COUNT);
    if (*count > MAX_MODULES) return error_set(KILN_E_INTERNAL, "%d modules, %d at most", *count, MAX_MODULES);
    return KILN_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Shaders as byte arrays: what kernels made at run time include, and what the tools show.
static kiln_status write_texts(struct shaders *sh, struct str *s)
{
    char *names[128];
    int n = 0;
    DIR *d = opendir(sh->dir);
    if (!d) return error_set(KILN_E_IO, "cannot read %s", sh->dir);
    for (struct dirent *e; (e = readdir(d)) && n < 128;) {
        size_t len = strlen(e->d_name);
        if (len <= 5) continue;
        const char *end = e->d_name + len - 5;
        if (!strcmp(end, ".glsl") || !strcmp(end, ".comp")) names[n++] = arena_strdup(sh->arena, e->d_name);
    }
    closedir(d);
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int i = 0; i < n; i++) {
        const char *text = include(sh, names[i]);
        str_addf(s, "static const char text_%d[] = {", i);
        for (const char *p = text; p && *p; p++) str_addf(s, "%d,", *p);
        str_add(s, "0};\n");
    }
    str_add(s, "const struct shader_text shader_texts[] = {\n");
    for (int i = 0; i < n; i++) str_addf(s, "    {\"%s\", text_%d},\n", names[i], i);
    str_addf(s, "    {0},\n};\nconst int shader_text_count = %d;\n", n);
    return KILN_OK;
}

static kiln_status write_assembly(const char *dir, const char *bin)
{
    char full[PATH_MAX];
    if (!realpath(bin, full)) return error_set(KILN_E_IO, "cannot find %s", bin);
    struct str s;
    str_init(&s);
    str_addf(&s,
             "    .section .rodata\n    .balign 16\n    .global spirv_blob\n    .hidden spirv_blob\nspirv_blob:\n    "
             ".incbin \"%s\"\n"
             "    .section .note.GNU-stack,\"\",%%progbits\n",
             full);
    return gen_write(dir, "spirv_modules.S", &s);
}

kiln_status gen_spirv(struct catalogue *g, const char *dir, const char *shaders)
{
    struct shaders sh = {.arena = &g->arena, .dir = shaders};
    char bin[PATH_MAX];
    snprintf(bin, sizeof bin, "%s/spirv_modules.bin", dir);
    FILE *f = fopen(bin, "wb");
    if (!f) return error_set(KILN_E_IO, "cannot write %s", bin);
    struct str index;
    int count = 0;
    str_init(&index);
    str_add(&index, "// Written by kiln-gen.\n#include \"vulkan/modules.h\"\nextern const uint8_t spirv_blob[] "
                    "__attribute__((visibility(\"hidden\")));\n"
                    "const struct spirv_module spirv_modules[] = {\n");
    kiln_status status = write_modules(g, &sh, f, &index, &count);
    if (fclose(f) && !status) status = error_set(KILN_E_IO, "cannot write %s", bin);
    if (status) return status;
    TRY(write_texts(&sh, &index));
    TRY(write_assembly(dir, bin));
    fprintf(stderr, "kiln-gen: %d SPIR-V modules\n", count);
    return gen_write(dir, "spirv_index.c", &index);
}
