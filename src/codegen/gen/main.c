// usage: kiln-gen header FILE | composites-header FILE | cxx-header FILE | composites DIR | tables DIR | onnx DIR |
// cpu DIR | spirv DIR SHADERS
#include "codegen/gen/gen.h"
#include <stdio.h>
#include <string.h>

kiln_status gen_write(const char *dir, const char *file, struct str *s)
{
    char path[4096];
    snprintf(path, sizeof path, "%s%s%s", dir ? dir : "", dir ? "/" : "", file);
    FILE *f = s->failed ? NULL : fopen(path, "wb");
    bool ok = f && fwrite(str_text(s), 1, s->len, f) == s->len;
    if (f) ok = fclose(f) == 0 && ok;
    str_free(s);
    return ok ? KILN_OK : error_set(KILN_E_IO, "cannot write %s", path);
}

static kiln_status run(struct catalogue *g, int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "header")) return gen_header(g, argv[2]);
    if (argc == 3 && !strcmp(argv[1], "composites-header")) return gen_composites_header(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "cxx-header")) return gen_cxx_header(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "composites")) return gen_composites(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "tables")) return gen_tables(g, argv[2]);
    if (argc == 3 && !strcmp(argv[1], "onnx")) return gen_onnx(g, argv[2]);
    if (argc == 3 && !strcmp(argv[1], "cpu")) return gen_cpu(g, argv[2]);
#if KILN_WITH_VULKAN
    if (argc == 4 && !strcmp(argv[1], "spirv")) return gen_spirv(g, argv[2], argv[3]);
#endif
    return error_set(KILN_E_ARGUMENT,
                     "usage: kiln-gen header FILE | composites-header FILE | cxx-header FILE | composites DIR | "
                     "tables DIR | onnx DIR | cpu DIR | spirv DIR SHADERS");
}

int main(int argc, char **argv)
{
    struct catalogue g;
    kiln_status status = catalogue_init(&g);
    if (!status) status = run(&g, argc, argv);
    catalogue_finish(&g);
    if (!status) return 0;
    fprintf(stderr, "kiln-gen: %s\n", kiln_error_message());
    return 1;
}
