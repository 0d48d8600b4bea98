// Rows 36, 44 and 71: what is kept between versions, sizes that vary in graphs, compilation in process and its dump.
#include "capability.h"
#include "ir/graph_text.h"
#include "program/disk.h"
#include "pass/pass.h"

#include <dirent.h>
#include <kiln/version.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(kiln_tanh(kiln_mul(in[0], in[1])), kiln_scalar(1));
    return kiln_error();
}

// Captured anew and called, three ops in one launch. The number of kernels that were compiled for it.
static uint64_t compiled_by_call(kiln_device *dev)
{
    uint64_t before = stats_of(dev).kernels_compiled;
    kiln_tensor *in[] = {from(dev, NUMBERS(0, 0), KILN_SHAPE(2)), from(dev, NUMBERS(3, 4), KILN_SHAPE(2))}, *out;
    kiln_function *f = kiln_jit(chain, NULL, NULL);
    uint64_t launches = stats_of(dev).launches;
    must(kiln_call(f, in, 2, &out, 1));
    assert_int_equal(stats_of(dev).launches - launches, 1);
    EXPECT(out, 1e-6, 1, 1);
    kiln_function_free(&f);
    return stats_of(dev).kernels_compiled - before;
}

static char *contents(const char *path, size_t *size_B)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (!f || !text) fail_msg("%s cannot be read", path);
    *size_B = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    return text;
}

// The files under `folder` with this ending, those in its folders too, are counted; the last one's path goes to
// `found`.
static int find_files(const char *folder, const char *ending, char *found, size_t cap)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[600];
        size_t length = strlen(e->d_name), end = strlen(ending);
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%.300s/%.256s", folder, e->d_name);
        n += find_files(path, ending, found, cap);
        if (e->d_type != DT_REG || length < end || strcmp(e->d_name + length - end, ending)) continue;
        snprintf(found, cap, "%s", path);
        n++;
    }
    if (d) closedir(d);
    return n;
}

static void remove_files(const char *folder)
{
    char path[600];
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(path, sizeof path, "%.300s/%.256s", folder, e->d_name);
        if (e->d_type == DT_DIR) remove_files(path);
        unlink(path);
    }
    if (d) closedir(d);
    rmdir(folder);
}

// --- 36: a kernel on disk is of one version and build of the library, and another takes it not

// An entry of the disk cache: its key, which begins with the target, the version and the build.
struct entry {
    struct str key;
    char symbol[64];
    char *code;
    size_t code_B;
};

static struct entry read_entry(const char *path)
{
    struct entry e = {.code_B = 0};
    uint64_t key_B, code_B;
    size_t size_B;
    char *file = contents(path, &size_B);
    assert_true(size_B > 96);
    memcpy(&key_B, file + 8, sizeof key_B);
    memcpy(&code_B, file + 16, sizeof code_B);
    memcpy(e.symbol, file + 32, sizeof e.symbol);
    assert_int_equal(size_B, 96 + key_B + code_B);
    str_init(&e.key);
    str_addn(&e.key, file + 96, key_B);
    e.code_B = code_B;
    e.code = file;
    memmove(e.code, file + 96 + key_B, code_B);
    return e;
}

// Keeps the code under `key`, as whoever has that key does, and puts the file where this library looks.
static void keep_as(const struct entry *e, const char *key, const char *folder, const char *path)
{
    char other[600];
    struct str foreign;
    unlink(path);
    str_init(&foreign);
    str_addn(&foreign, key, e->key.len);
    disk_store(*key == 'o' ? DISK_OBJECT : DISK_MODULE, &foreign, e->symbol, e->code, e->code_B);
    str_free(&foreign);
    assert_int_equal(find_files(folder, "", other, sizeof other), 1);
    assert_int_equal(rename(other, path), 0);
}

static void versions(kiln_device *dev, const char *folder)
{
    char path[600];
    remove_files(folder);
    assert_int_equal(compiled_by_call(dev), 1);
    assert_int_equal(compiled_by_call(dev), 0);
    assert_int_equal(find_files(folder, "", path, sizeof path), 1);
    struct entry e = read_entry(path);
    char *key = malloc(e.key.len + 1), *version = key + strlen("object ");
    memcpy(key, str_text(&e.key), e.key.len + 1);
    const char *target = dev == cpu() ? "object " KILN_VERSION_STRING " " : "module " KILN_VERSION_STRING " ";
    if (strncmp(key, target, strlen(target))) fail_msg("the key begins with \"%.60s\"", key);

    keep_as(&e, key, folder, path);
    assert_int_equal(compiled_by_call(dev), 0); // the same, kept again
    version[0]++;
    keep_as(&e, key, folder, path);
    assert_int_equal(compiled_by_call(dev), 1); // another version's
    assert_int_equal(compiled_by_call(dev), 0); // which it has replaced
    version[0]--;
    char *build = version + strlen(KILN_VERSION_STRING " ");
    if (*build != '\n') {
        *build = *build == '0' ? '1' : '0';
        keep_as(&e, key, folder, path);
        assert_int_equal(compiled_by_call(dev), 1); // another build's
    }
    free(key);
    free(e.code);
    str_free(&e.key);
}

static const char *cache_of_36;
static void versions_of(kiln_device *dev)
{
    if (fuses(dev)) versions(dev, cache_of_36);
}

// A graph's text says which version of the form it is.
static void versions_of_text(void)
{
    kiln_graph *g = kiln_graph_parse("kiln 1\n%0: f32[2] = input \"x\"\nreturn %0 \"y\"\n");
    assert_int_equal(kiln_graph_input_count(g), 1);
    kiln_graph_free(&g);
    g = kiln_graph_parse("kiln 2\n%0: f32[2] = input \"x\"\nreturn %0 \"y\"\n");
    assert_null(g);
    EXPECT_ERROR(KILN_E_FORMAT, "version", "2");
}

void capability_36(void **state)
{
    char folder[] = "/tmp/kiln-test-XXXXXX", *before = getenv("KILN_CACHE_DIR");
    assert_non_null(mkdtemp(folder));
    char *saved = before ? strdup(before) : NULL;
    setenv("KILN_CACHE_DIR", folder, 1);
    cache_of_36 = folder;
    on_each_device(versions_of);
    if (saved) setenv("KILN_CACHE_DIR", saved, 1);
    free(saved);
    remove_files(folder);
    versions_of_text();
}

// --- 44: sizes that vary from call to call stand in graphs as symbols. A graph of a function has none yet: each shape
// is captured anew, and the library has no function to declare them.

static const char symbolic[] = "kiln 1\n"
                               "symbol n = 32\n"
                               "%0: f32[n=32,4] = input \"x\"\n"
                               "%1: f32[4,8] = input \"w\"\n"
                               "%2: f32[32,4] = relu(%0)\n"
                               "%3: f32[32,8] = matmul(%2, %1)\n"
                               "%4: f32[256] = reshape(%3) {shape = [-1]}\n"
                               "%5: f32[8] = sum(%3) {axes = [0], keepdims = false}\n"
                               "%6: f32[32,8] = softmax(%3) {axis = -1}\n"
                               "return %4 \"flat\"\nreturn %5 \"sum\"\nreturn %6 \"rows\"\n";

static char *text_of(const kiln_graph *g)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    must(kiln_graph_print(g, f));
    fclose(f);
    return text;
}

static kiln_graph *parse(const char *text)
{
    kiln_graph *g = kiln_graph_parse(text);
    if (!g) fail_msg("%s", kiln_error_message());
    return g;
}

static void expect_lines(const char *text, const char *const *lines)
{
    for (; *lines; lines++)
        if (!strstr(text, *lines)) fail_msg("\"%s\" is not in\n%s", *lines, text);
}

// What is said of the input reaches every value that depends on it, and stays through all passes.
static void inferred(void)
{
    kiln_graph *g = parse(symbolic);
    char *same = text_of(g);
    assert_string_equal(same, symbolic + strlen("kiln 1\n"));
    must(pass_run(pass_find("types"), &g, &(struct pass_options){.verify = true}, NULL));
    char *text = text_of(g);
    const char *const lines[] = {"f32[n=32,4] = relu(%0)", "f32[n=32,8] = matmul",  "f32[s1=256] = reshape",
                                 "f32[8] = sum",           "f32[n=32,8] = softmax", NULL};
    expect_lines(text, lines);
    kiln_graph *again = parse(text);
    assert_true(ir_graph_equal(again, g));
    must(pass_run_all(&g, &(struct pass_options){.verify = true}, NULL));
    char *optimised = text_of(g);
    expect_lines(optimised, (const char *const[]){"symbol n = 32", "f32[n=32,4] = relu", "f32[n=32,8] = matmul", NULL});
    kiln_graph_free(&again);
    kiln_graph_free(&g);
    free(same);
    free(text);
    free(optimised);
}

// A size that may change is not taken for a constant: the same reshape falls away where the size is fixed alone.
static void not_folded(void)
{
    static const char form[] = "symbol n = 6\n%%0: f32[%s6] = input \"x\"\n%%1: f32[6] = reshape(%%0) {shape = [6]}\n"
                               "%%2: f32[6] = neg(%%1)\nreturn %%2 \"y\"\n";
    for (int varies = 0; varies < 2; varies++) {
        char text[300];
        snprintf(text, sizeof text, form, varies ? "n=" : "");
        kiln_graph *g = parse(text);
        must(pass_run_all(&g, &(struct pass_options){.verify = true}, NULL));
        assert_int_equal(kiln_graph_node_count(g), varies ? 2 : 1);
        kiln_graph_free(&g);
    }
}

static void refused(void)
{
    assert_null(kiln_graph_parse("%0: f32[n=3] = input \"x\"\nreturn %0 \"y\"\n"));
    EXPECT_ERROR(KILN_E_FORMAT, "1:9", "a symbol that was declared");
    assert_null(kiln_graph_parse("symbol n = 32\n%0: f32[n=31] = input \"x\"\nreturn %0 \"y\"\n"));
    EXPECT_ERROR(KILN_E_FORMAT, "symbol n is 32, not 31");
    assert_null(kiln_graph_parse("symbol n = 32\nsymbol n = 32\n"));
    EXPECT_ERROR(KILN_E_FORMAT, "declared twice");
    // A mark that does not fit its size is found in a graph that was built, too.
    kiln_graph *g = parse(symbolic);
    g->symbols.v[0].size = 31;
    assert_int_equal(ir_verify(g), KILN_E_FORMAT);
    EXPECT_ERROR(KILN_E_FORMAT, "dimension 0 is 32, symbol n is 31");
    kiln_graph_free(&g);
}

// What a capture makes has no symbols: its program is for one shape, and a new shape is captured anew, following what
// was decided about the first. No kernel is compiled for it, and it does not count against the recompile limit.
static kiln_status doubled(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], in[0]);
    return kiln_error();
}

static void captured_anew(kiln_device *dev)
{
    kiln_function *f = kiln_jit(doubled, NULL, KILN_JIT(.recompile_limit = 1));
    for (int n = 2; n <= 40; n++)
        for (int again = 0; again < 2; again++) {
            kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(n)), *out = NULL;
            must(kiln_call(f, &x, 1, &out, 1));
            assert_true(kiln_item(kiln_sum(out, NULL)) == 2 * n);
        }
    kiln_jit_stats s = jit_stats_of(f);
    assert_int_equal(s.captures, 39);
    assert_int_equal(s.reused, 38);
    assert_int_equal(s.fallbacks, 0);
    assert_in_range(s.kernels_compiled, 0, 1);
    kiln_function_free(&f);
}

void capability_44(void **state)
{
    inferred();
    not_folded();
    refused();
    on_each_device(captured_anew);
    printf("symbols are in graphs, their text and the passes; captures make none: each size is a capture of its own\n");
}

// --- 71: captured ops become one kernel, whose text is compiled in this process and can be looked at

// Grows with each child of this process that ends: its page faults. None may be left.
static long faults_of_children(void)
{
    struct rusage used;
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &used), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    return used.ru_minflt;
}

static void expect_file(const char *folder, const char *ending, const char *const *lines)
{
    char path[600];
    size_t size_B;
    if (find_files(folder, ending, path, sizeof path) != 1) fail_msg("not one file *%s in %s", ending, folder);
    char *text = contents(path, &size_B);
    expect_lines(text, lines);
    free(text);
}

static void compiled_in_process(kiln_device *dev)
{
    char folder[] = "/tmp/kiln-test-XXXXXX";
    if (!fuses(dev)) return;
    assert_non_null(mkdtemp(folder));
    setenv("KILN_DUMP", folder, 1);
    int compilations = glsl_compilations();
    assert_int_equal(compiled_by_call(dev), 1);
    assert_true(dev == cpu() || glsl_compilations() > compilations);
    unsetenv("KILN_DUMP");
    if (dev == cpu()) {
        expect_file(folder, ".ll", (const char *const[]){"define", "@k_mul_tanh_add", "fmul", NULL});
    } else {
        expect_file(folder, ".glsl", (const char *const[]){"#version 460", "void main()", NULL});
        expect_file(folder, ".spvasm", (const char *const[]){"OpEntryPoint GLCompute", "OpFMul", NULL});
    }
    expect_file(folder, "_add.txt", (const char *const[]){"fused", "mul(", "tanh(", "add(", NULL});
    expect_file(folder, "00-captured.kiln", (const char *const[]){"= mul(", "= tanh(", "= add(", NULL});
    remove_files(folder);
}

void capability_71(void **state)
{
    char *before = getenv("KILN_CACHE_DIR"), *saved = before ? strdup(before) : NULL;
    setenv("KILN_CACHE_DIR", "/dev/null/none", 1); // where no file can be
    long faults = faults_of_children();
    on_each_device(compiled_in_process);
    assert_int_equal(faults_of_children(), faults);
    if (saved) setenv("KILN_CACHE_DIR", saved, 1);
    free(saved);
    // One is noticed.
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(faults_of_children() > faults);
}
