// Kernels as a GPU's compiler makes them: which constants are typical, what is compiled, what is printed.
#include "shader_target.h"
#include "gpu_isa.h"

#include <kiln/debug.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- printing

static void print_counts(const char *of, const struct isa_counts *c)
{
    printf("%s instructions %zu\n%s multiply-adds %zu\n%s arithmetic %zu\n", of, c->instructions, of, c->multiply_adds,
           of, c->arithmetic);
    printf("%s loads %zu\n%s load bytes %zu\n%s widest load %zu\n", of, c->loads, of, c->load_B, of, c->widest_load_B);
    printf("%s stores %zu\n%s store bytes %zu\n%s widest store %zu\n", of, c->stores, of, c->store_B, of,
           c->widest_store_B);
    printf("%s shared accesses %zu\n%s moves %zu\n", of, c->shared, of, c->moves);
}

static void print_code(const struct target_request *r, const char *name, const struct gpu_code *code)
{
    struct isa_summary s = {0};
    if (r->stats) {
        printf("// ---- %s: statistics\n", name);
        for (size_t i = 0; i < code->n_statistics; i++) {
            const struct gpu_statistic *one = &code->statistics[i];
            if (!strstr(one->name, "ash")) printf("%s %.10g\n", one->name, one->value); // of the pipeline, of the text
        }
    }
    if (r->stats && code->assembly) {
        isa_read(code->assembly, &s);
        print_counts("whole", &s.whole);
        print_counts("straight", &s.straight);
        if (s.walks.instructions) print_counts("walks", &s.walks);
        printf("loops %zu\nloop depth %zu\n", s.n_loops, s.depth);
        if (s.n_loops) print_counts("loop", &s.loop);
    }
    if (r->isa) printf("// ---- %s: assembly\n%s", name, code->assembly ? code->assembly : "; the driver shows none\n");
}

static bool show(const struct target_request *r, const char *name, const uint32_t *words, size_t n_words,
                 const struct gpu_constant *constants, size_t n_constants)
{
    struct gpu_code code;
    if (!gpu_target_compile(r->target, name, words, n_words, constants, n_constants, &code)) return false;
    print_code(r, name, &code);
    free(code.assembly);
    return true;
}

// As a device gives a module of ours to its driver.
static bool show_ours(const struct target_request *r, const char *name, const uint32_t *words, size_t n_words,
                      const struct gpu_constant *constants, size_t n_constants)
{
    size_t n_ready = 0;
    uint32_t *ready = kiln_spirv_with_modes(words, n_words, &n_ready);
    bool ok = ready && show(r, name, ready, n_ready, constants, n_constants);
    free(ready);
    return ok;
}

bool target_show_words(const struct target_request *r, const char *name, const uint32_t *words, size_t n_words)
{
    bool ok = show_ours(r, name, words, n_words, r->constants, r->n_constants);
    if (kiln_error()) fprintf(stderr, "kiln-shader-dump: %s: %s\n", name, kiln_error_message());
    kiln_error_clear();
    return ok;
}

// --- kernels of the catalogue

// Constants by number, as shaders/args.glsl, pointwise.glsl and row.glsl have them.
enum {
    LOCAL = 0,
    RANK = 1,
    N_REDUCE = 2,
    INDIRECT = 3,
    POINTWISE_VEC = 4,
    POINTWISE_TAIL = 5,
    ROW_ADJACENT = 4,
    ROW_LANES = 5,
    ROW_ROWS = 6,
    ROW_PHASE = 7,
    NARROW = 18,
    EACH = 19,
    HALVES = 20,
    FIRST_OPERAND = 8,
    FIRST_VARIANT = 32
};

static const struct {
    const char *name;
    uint32_t dtype;
} classes[] = {{"f32", 8}, {"f64", 9}, {"i32", 4}, {"i64", 5}, {"bool", 0}};

static bool class_dtype(const char *name, size_t length, uint32_t *dtype)
{
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (strlen(classes[i].name) != length || strncmp(classes[i].name, name, length)) continue;
        *dtype = classes[i].dtype;
        return true;
    }
    return false;
}

struct constants {
    size_t n;
    struct gpu_constant v[TARGET_CONSTANTS];
};

static void set(struct constants *c, uint32_t id, uint32_t value)
{
    for (size_t i = 0; i < c->n; i++) {
        if (c->v[i].id != id) continue;
        c->v[i].value = value;
        return;
    }
    if (c->n < TARGET_CONSTANTS) c->v[c->n++] = (struct gpu_constant){id, value};
}

// The shader says in which class it loads or stores an operand: load4_f32(0, ...), store_bool(2, ...).
static void set_operands(struct constants *c, const kiln_kernel_info *k, const char *text)
{
    uint32_t dtype = 8;
    class_dtype(k->dtype, strlen(k->dtype), &dtype);
    for (uint32_t i = 0; i < k->inputs + k->outputs; i++) set(c, FIRST_OPERAND + i, dtype);
    for (const char *p = text; (p = strpbrk(p, "ls")); p++) {
        bool load = !strncmp(p, "load", 4), store = !strncmp(p, "store", 5);
        if (!load && !store) continue;
        const char *q = p + (load ? 4 : 5);
        q += *q == '4';
        size_t length = *q == '_' ? strcspn(q + 1, "(\n") : 0;
        unsigned operand;
        if (length && class_dtype(q + 1, length, &dtype) && sscanf(q + 1 + length, "(%u", &operand) == 1 &&
            operand < k->inputs + k->outputs)
            set(c, FIRST_OPERAND + operand, dtype);
    }
}

// Row-major matrices: in four bits of VARIANT_0 each, how they lie, as shaders/matmul.comp says.
static void set_product(struct constants *c, const char *dtype)
{
    bool wide = !strcmp(dtype, "f64") || !strcmp(dtype, "i64");
    uint32_t tile = wide ? 64 : 128;
    set(c, FIRST_VARIANT + 1, dtype[0] == 'i' ? 1 : 8);
    set(c, LOCAL, tile == 128 ? 256 : 128);
    set(c, FIRST_VARIANT, 0xfef);
    set(c, FIRST_VARIANT + 2, tile);
    set(c, FIRST_VARIANT + 3, 1);
}

// Of f16 or bf16, for matrices of 16 x 16 and subgroups of 64.
static void set_matrices(struct constants *c, bool bf16)
{
    for (uint32_t i = 0; i < 3; i++) set(c, FIRST_OPERAND + i, bf16 ? 7 : 6);
    set_product(c, "f32");
    set(c, FIRST_VARIANT + 1, 16);
    set(c, FIRST_VARIANT + 3, 1 | 64 << 1);
}

// Heads of 64 without a mask, row-major; of gradients, those by keys and values. Sizes and bits as in
// shaders/attention_sides.glsl.
static void set_attention(struct constants *c, bool gradients)
{
    set(c, LOCAL, 256);
    set(c, RANK, 4);
    set(c, FIRST_OPERAND + 3, 256); // no mask
    set(c, FIRST_VARIANT, 64);
    set(c, FIRST_VARIANT + 1, gradients ? 23 : 16);
    set(c, FIRST_VARIANT + 2, 256);
    set(c, FIRST_VARIANT + 3, 1023);
}

// Of f16, for matrices of 16 x 16 and subgroups of 64. Statistics and delta are f32.
static void set_attention_matrices(struct constants *c, bool gradients)
{
    set_attention(c, gradients);
    for (uint32_t i = 0; i < (gradients ? 9u : 5u); i++)
        if (i != 3 && (!gradients || (i != 4 && i != 5))) set(c, FIRST_OPERAND + i, 6);
    set(c, FIRST_VARIANT + 1, (gradients ? 23 : 16) | 16 << 8 | 64 << 16);
}

// Large dense tensors on a GPU of many lanes.
static void set_form(struct constants *c, const kiln_kernel_info *k, bool packed)
{
    bool row = !strcmp(k->kind, "row"), pointwise = !strcmp(k->kind, "pointwise");
    set(c, LOCAL, 256);
    set(c, RANK, pointwise ? 1 : row ? 2 : 3);
    set(c, N_REDUCE, row);
    set(c, INDIRECT, 0);
    set(c, HALVES, 1);
    set(c, NARROW, pointwise || row);
    if (pointwise || row)
        set(c, EACH, (row && k->inputs) || (pointwise && strcmp(k->dtype, "f64") && strcmp(k->dtype, "i64")) ? 4 : 1);
    if (pointwise) {
        set(c, POINTWISE_VEC, packed ? 16 : 4);
        if (packed) set(c, EACH, 1);
        set(c, POINTWISE_TAIL, 0);
    } else if (row) {
        set(c, ROW_ADJACENT, 1);
        set(c, ROW_LANES, 256);
        set(c, ROW_ROWS, 1);
        set(c, ROW_PHASE, 0);
    } else {
        for (uint32_t i = 0; i < 4; i++) set(c, FIRST_VARIANT + i, 0);
        if (!strcmp(k->row, "matmul")) set_product(c, k->dtype);
        if (!strcmp(k->row, "matmul_matrices")) set_matrices(c, false);
        if (!strcmp(k->row, "matmul_matrices_bf16")) set_matrices(c, true);
    }
}

bool target_show_kernel(const struct target_request *r, size_t kernel, const char *name)
{
    kiln_kernel_info k = {.size = sizeof k};
    struct constants c = {0};
    char *text = kiln_kernel_get_info(kernel, &k) ? NULL : kiln_kernel_glsl(kernel, false);
    if (text) {
        set_form(&c, &k, strstr(text, "#define PACKED") != NULL);
        set_operands(&c, &k, text);
        for (uint32_t i = 0; i < 2 && !strncmp(k.row, "conv2d", 6); i++) set(&c, FIRST_VARIANT + i, 1); // strides
        if (!strncmp(k.row, "conv2d", 6)) set(&c, NARROW, 1);
        if (!strncmp(k.row, "conv2d", 6)) set(&c, FIRST_VARIANT + 2, strcmp(k.dtype, "f64") ? 16 : 8);
        for (uint32_t i = 2; i < 4 && !strcmp(k.row, "conv2d_weight_grad"); i++)
            set(&c, FIRST_VARIANT + i, i == 2 && !strcmp(k.dtype, "f64") ? 4 : 8); // outputs, taps
        if (!strcmp(k.row, "attention_tiles")) set_attention(&c, false);
        if (!strcmp(k.row, "attention_grad_tiles")) set_attention(&c, true);
        if (!strcmp(k.row, "attention_matrices")) set_attention_matrices(&c, false);
        if (!strcmp(k.row, "attention_grad_matrices")) set_attention_matrices(&c, true);
    }
    free(text);
    for (size_t i = 0; i < r->n_constants; i++) set(&c, r->constants[i].id, r->constants[i].value);
    uint32_t ids[TARGET_CONSTANTS], values[TARGET_CONSTANTS];
    for (size_t i = 0; i < c.n; i++) {
        ids[i] = c.v[i].id;
        values[i] = c.v[i].value;
    }
    size_t n_words = 0;
    uint32_t *words = kiln_error() ? NULL : kiln_kernel_specialise(kernel, ids, values, c.n, &n_words);
    bool ok = words && show_ours(r, name, words, n_words, c.v, c.n);
    free(words);
    if (kiln_error()) fprintf(stderr, "kiln-shader-dump: %s: %s\n", name, kiln_error_message());
    kiln_error_clear();
    return ok;
}

// --- modules in files

static bool fail(const char *path, const char *why)
{
    fprintf(stderr, "kiln-shader-dump: %s: %s\n", path, why);
    return false;
}

static uint32_t *read_module(const char *path, size_t *n_words)
{
    FILE *f = fopen(path, "rb");
    long size_B = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    uint32_t *words = size_B >= 20 && size_B % 4 == 0 ? malloc((size_t)size_B) : NULL;
    *n_words = size_B > 0 ? (size_t)size_B / 4 : 0;
    bool ok = words && !fseek(f, 0, SEEK_SET) && fread(words, 4, *n_words, f) == *n_words && words[0] == 0x07230203;
    if (f) fclose(f);
    if (ok) return words;
    free(words);
    fail(path, size_B < 0 ? strerror(errno) : "it is no SPIR-V module");
    return NULL;
}

bool target_show_module(const struct target_request *r, const char *name, const char *path)
{
    size_t n_words;
    uint32_t *words = read_module(path, &n_words);
    bool ok = words && show(r, name, words, n_words, r->constants, r->n_constants);
    free(words);
    return ok;
}

bool target_constant(const char *text, struct gpu_constant *out)
{
    char *end;
    errno = 0;
    unsigned long id = strtoul(text, &end, 10), value = 0;
    bool ok = end != text && *end == '=' && text[0] != '-' && end[1] && end[1] != '-';
    if (ok) {
        const char *behind = end + 1;
        value = strtoul(behind, &end, 0);
        ok = end != behind && !*end && !errno && id <= UINT32_MAX && value <= UINT32_MAX;
    }
    *out = (struct gpu_constant){(uint32_t)id, (uint32_t)value};
    return ok;
}

// --- lists

static bool find_kernel(const char *symbol, size_t *kernel)
{
    size_t n = kiln_kernel_count();
    for (*kernel = 0; *kernel < n; ++*kernel) {
        kiln_kernel_info k = {.size = sizeof k};
        if (!kiln_kernel_get_info(*kernel, &k) && !strcmp(k.symbol, symbol)) return true;
    }
    return false;
}

static bool show_line(const struct target_request *r, char *line)
{
    struct gpu_constant constants[TARGET_CONSTANTS];
    struct target_request one = *r;
    char *rest = NULL, *name = strtok_r(line, " \t\n", &rest), *what = name ? strtok_r(NULL, " \t\n", &rest) : NULL;
    size_t kernel;
    one.constants = constants;
    one.n_constants = 0;
    if (!name) return true;
    if (!what) return fail(name, "a line is a name, a kernel or a module's path, and constants");
    for (char *text; (text = strtok_r(NULL, " \t\n", &rest)); one.n_constants++)
        if (one.n_constants == TARGET_CONSTANTS || !target_constant(text, &constants[one.n_constants]))
            return fail(name, "a constant is ID=VALUE");
    if (find_kernel(what, &kernel)) return target_show_kernel(&one, kernel, name);
    return target_show_module(&one, name, what);
}

bool target_show_each(const struct target_request *r, const char *path)
{
    FILE *f = strcmp(path, "-") ? fopen(path, "r") : stdin;
    if (!f) return fail(path, strerror(errno));
    char *line = NULL;
    size_t room = 0;
    bool ok = true;
    while (getline(&line, &room, f) >= 0) ok &= show_line(r, line);
    free(line);
    if (f != stdin) fclose(f);
    return ok;
}
