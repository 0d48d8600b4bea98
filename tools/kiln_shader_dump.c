// kiln-shader-dump: kernels as GLSL, SPIR-V and LLVM IR, and in numbers: those of eager mode, of a graph, of a program
// that ran with KILN_DUMP.
#include "shader_graph.h"
#include "shader_stats.h"

#include <kiln/debug.h>

#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: kiln-shader-dump [--list] [--op NAME] [--dtype T] [--glsl] [--expand] [--spirv] [--stats]\n"
    "       kiln-shader-dump --graph FILE [--device D] [--op NAME] [--list] [--glsl] [--spirv] [--llvm] [--stats]\n"
    "       kiln-shader-dump --dump DIR [--op NAME] [--list] [--glsl] [--spirv] [--llvm] [--stats]\n"
    "       kiln-shader-dump --target GPU [--op NAME | --module FILE | --each FILE | --graph FILE | --dump DIR]\n"
    "                        [--spec ID=VALUE] [--stats] [--isa]\n"
    "Shows the precompiled kernels that eager mode runs; with --graph those that the graph in a text becomes; with\n"
    "--dump those that a program left which ran with KILN_DUMP=DIR.\n"
    "  --list     one line a kernel: row, class, kind, operands, size of its SPIR-V module\n"
    "  --op NAME  only kernels of this row; * and ? match as in file names; NAME* finds the row's gradients too\n"
    "  --dtype T  only kernels that compute T: f32, f64, i32, i64, bool; f16 and bf16 compute as f32, i8, i16 and\n"
    "             u8 as i32\n"
    "  --glsl     the compute shader, as the build compiled it\n"
    "  --expand   the same with the files that it includes put in\n"
    "  --spirv    the SPIR-V module, disassembled\n"
    "  --llvm     the LLVM IR, of a graph's kernel on the CPU\n"
    "  --stats    counts of words and instructions, capabilities\n"
    "  --graph F  the kernels of a graph: which nodes are in each and why it was not fused further; - is standard "
    "input\n"
    "  --device D that it is compiled for: cpu (the default), vulkan, vulkan:N, gpu, null\n"
    "  --dump DIR the same of each graph in a folder\n"
    "  --target G what the compiler of a GPU, as Mesa's RADV names it (navi21), makes of the kernels; it need not be\n"
    "             there: registers, spills, occupancy, and counts over the whole kernel and its hottest loop\n"
    "  --isa      with --target: its assembly\n"
    "  --spec I=V with --target: a specialisation constant, in place of the typical one; as often as needed\n"
    "  --module F with --target: a SPIR-V module in place of the precompiled kernels\n"
    "  --each F   with --target: each line of a file: a name, a kernel or a module's file, and constants\n"
    "  --version  print the version and exit\n"
    "  --help     print this text and exit\n"
    "Without --list, --glsl, --expand, --spirv, --llvm and --stats: --list, or with --op all but --expand.\n";

struct options {
    const char *op, *dtype, *graph, *device, *dump;
    bool list, glsl, expand, spirv, llvm, stats, isa;
    const char *family, *module, *each;
    struct gpu_constant constants[TARGET_CONSTANTS];
    size_t n_constants;
    const struct target_request *target;
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

static bool print_stats(size_t kernel)
{
    char *text = kiln_kernel_disassemble(kernel);
    if (!text) return false;
    size_t n_words = 0;
    kiln_kernel_spirv(kernel, &n_words);
    stats_spirv(text, n_words);
    free(text);
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
    if (o->target) return !k->module_B || target_show_kernel(o->target, i, k->symbol);
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

static int show_graphs(const struct options *o)
{
    const struct shader_request r = {.op = o->op,
                                     .device = o->device   ? o->device
                                               : o->target ? "null"
                                                           : "cpu",
                                     .list = o->list,
                                     .glsl = o->glsl,
                                     .spirv = o->spirv,
                                     .llvm = o->llvm,
                                     .stats = o->stats,
                                     .target = o->target};
    return o->graph ? shader_graph(o->graph, &r) : shader_dump(o->dump, &r);
}

static int show_shaders(const struct options *o)
{
    if (o->module) return !target_show_module(o->target, o->module, o->module);
    if (o->each) return !target_show_each(o->target, o->each);
    return o->graph || o->dump ? show_graphs(o) : show_all(o);
}

static int show_target(struct options *o)
{
    struct gpu_target *target = gpu_target_open(o->family);
    if (!target) return 1;
    const struct target_request r = {.target = target,
                                     .stats = o->stats || !o->isa,
                                     .isa = o->isa,
                                     .constants = o->constants,
                                     .n_constants = o->n_constants};
    o->target = &r;
    printf("// %s, %s\n", o->family, gpu_target_driver(target));
    int status = show_shaders(o);
    o->target = NULL;
    gpu_target_close(&target);
    return fflush(stdout) ? 1 : status;
}

static int take_constant(struct options *o)
{
    if (o->n_constants == TARGET_CONSTANTS || !target_constant(optarg, &o->constants[o->n_constants]))
        return 1 + reject("--spec takes ID=VALUE, not", optarg);
    o->n_constants++;
    return 0;
}

// What only a target has, and what a target has not.
static int check_target(const struct options *o)
{
    const char *more = o->module        ? "--module"
                       : o->each        ? "--each"
                       : o->isa         ? "--isa"
                       : o->n_constants ? "--spec"
                                        : NULL;
    const char *other = o->list ? "--list" : o->glsl ? "--glsl" : o->spirv ? "--spirv" : o->llvm ? "--llvm" : NULL;
    if (!o->family) return more ? reject("only with --target:", more) : 0;
    int sources = (o->op || o->dtype) + !!o->module + !!o->each + (o->graph || o->dump);
    if (other) return reject("not with --target:", other);
    return sources > 1 && (o->module || o->each) ? reject("--module and --each stand alone:", more) : 0;
}

// 0 to go on, else the exit status plus one.
static int take_option(int c, struct options *o)
{
    switch (c) {
    case 'l': o->list = true; break;
    case 'o': o->op = optarg; break;
    case 'd':
        o->dtype = class_of(optarg);
        if (!o->dtype) return 1 + reject("no such dtype:", optarg);
        break;
    case 'g': o->glsl = true; break;
    case 'x': o->expand = true; break;
    case 's': o->spirv = true; break;
    case 'L': o->llvm = true; break;
    case 'n': o->stats = true; break;
    case 'G': o->graph = optarg; break;
    case 'D': o->device = optarg; break;
    case 'u': o->dump = optarg; break;
    case 't': o->family = optarg; break;
    case 'a': o->isa = true; break;
    case 'm': o->module = optarg; break;
    case 'e': o->each = optarg; break;
    case 'c': return take_constant(o);
    case 'h': fputs(usage, stdout); return 1;
    case 'v': kiln_library_facts(print_version, NULL); return 1;
    default: fputs(usage, stderr); return 3;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"list", 0, NULL, 'l'},    {"op", 1, NULL, 'o'},     {"dtype", 1, NULL, 'd'}, {"glsl", 0, NULL, 'g'},
        {"expand", 0, NULL, 'x'},  {"spirv", 0, NULL, 's'},  {"llvm", 0, NULL, 'L'},  {"stats", 0, NULL, 'n'},
        {"graph", 1, NULL, 'G'},   {"device", 1, NULL, 'D'}, {"dump", 1, NULL, 'u'},  {"help", 0, NULL, 'h'},
        {"version", 0, NULL, 'v'}, {"target", 1, NULL, 't'}, {"isa", 0, NULL, 'a'},   {"module", 1, NULL, 'm'},
        {"each", 1, NULL, 'e'},    {"spec", 1, NULL, 'c'},   {NULL, 0, NULL, 0}};
    struct options o = {0};
    for (int c; (c = getopt_long(argc, argv, "h", names, NULL)) != -1;) {
        int status = take_option(c, &o);
        if (status) return status - 1;
    }
    if (optind < argc) return reject("unexpected argument", argv[optind]);
    bool graphs = o.graph || o.dump;
    if (o.graph && o.dump) return reject("--graph and --dump exclude each other:", o.dump);
    if (graphs && (o.dtype || o.expand)) return reject("not for graphs:", o.dtype ? "--dtype" : "--expand");
    if (!graphs && (o.llvm || o.device)) return reject("only with --graph or --dump:", o.llvm ? "--llvm" : "--device");
    int wrong = check_target(&o);
    if (wrong) return wrong;
    if (o.family) return show_target(&o);
    if (!o.list && !o.glsl && !o.expand && !o.spirv && !o.llvm && !o.stats) {
        o.list = true;
        o.glsl = o.spirv = o.stats = o.op != NULL;
        o.llvm = graphs && o.op;
    }
    return graphs ? show_graphs(&o) : show_all(&o);
}
