// The table of compiled kernels, and their launches.
//
// A kernel is known by its device, by the plan that code generation chose for it, and by the canonical bytes of its
// family, which are compared in full. An entry lives as long as a program uses it. While one thread compiles an entry,
// others that want it wait.
#include "program/kernels.h"
#include "base/hash.h"
#include "base/process.h"
#include "device/profile.h"
#include "ir/grid.h"
#include "codegen/catalogue/kernel.h"
#include "codegen/llvm/llvm.h"
#include "spirv/spirv.h"
#include "program/disk.h"
#include "program/run.h"
#include <stdlib.h>
#include <string.h>

enum kernel_state { KERNEL_COMPILING, KERNEL_READY, KERNEL_FAILED };

struct jit_kernel {
    struct jit_kernel *next;
    kiln_device *dev; // not held: programs hold it
    uint64_t hash;
    char *key;
    size_t key_B;
    int refs;
    uint8_t state;
    bool compiled;
    struct error_record error;
    struct codegen_plan plan;
    struct llvm_function function; // CPU
    void *loaded;                  // the device's own
    char *name;
};

enum { BUCKETS = 1024 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t done;
    struct jit_kernel *buckets[BUCKETS]; // by hash
} table = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {NULL}};

GUARD_LOCK(guard_table, table.lock)

// What a kernel is compiled from.
struct kernel_source {
    const struct fused_kernel *k;
    kiln_device *dev;
    struct codegen_plan plan;
    struct str text; // GLSL, made when it is compiled
    struct str key;
    bool anew, found; // the disk is not asked; it had the code
};

// What code generation does for a device.
struct kernel_target {
    codegen_plan_fn *plan;
    codegen_pack_fn *pack;
    bool wide_words; // of the argument block: 64 bits
    kiln_status (*compile)(struct kernel_source *s, struct jit_kernel *kernel);
};
static const struct kernel_target *target_of(const kiln_device *dev);

static kiln_status describe(struct kernel_source *s)
{
    memset(&s->plan, 0, sizeof s->plan);
    TRY(target_of(s->dev)->plan(s->k, &s->dev->caps, &s->plan));
    str_addn(&s->key, (const char *)&s->plan, sizeof s->plan);
    fused_family(s->k, &s->key);
    return str_check(&s->key);
}

// --- compiling ---

static kiln_status object_key(const struct kernel_source *s, struct str *key)
{
    str_init(key);
    disk_begin_key(key, DISK_OBJECT);
    TRY(llvm_host_key(key));
    str_addn(key, str_text(&s->key), s->key.len);
    return str_check(key);
}

// Known by who made it, which is certain once it was made.
static void keep_object(const struct kernel_source *s, const struct codegen_code *code)
{
    struct str key;
    if (!object_key(s, &key))
        disk_store(DISK_OBJECT, &key, code->symbol, code->code, code->size_B);
    else
        kiln_error_clear();
    str_free(&key);
}

static kiln_status object_of(struct kernel_source *s, struct jit_kernel *kernel, struct codegen_code *code)
{
    struct str key;
    *code = (struct codegen_code){.plan = s->plan};
    kiln_status status = object_key(s, &key);
    if (!status && !s->anew) code->code = disk_load(DISK_OBJECT, &key, code->symbol, &code->size_B);
    str_free(&key);
    s->found = code->code != NULL;
    if (status || s->found) return status;
    kernel->compiled = true;
    TRY(llvm_compile(s->k, &s->plan, code));
    keep_object(s, code);
    return KILN_OK;
}

static kiln_status compile_llvm(struct kernel_source *s, struct jit_kernel *kernel)
{
    struct codegen_code code;
    TRY(object_of(s, kernel, &code));
    kiln_status status = llvm_load(&code, &kernel->function);
    free(code.code);
    TRY(status);
    const struct compiled_code loaded = {
        .name = kernel->name, .run = kernel->function.run, .end = kernel->function.end};
    return s->dev->ops->load_compiled(s->dev, &loaded, &kernel->loaded);
}

static kiln_status write_text(struct kernel_source *s)
{
    return s->text.len ? KILN_OK : glsl_text(s->k, &s->plan, &s->text);
}

#if KILN_WITH_GLSLANG
static kiln_status module_of(struct kernel_source *s, struct jit_kernel *kernel, struct spirv *out)
{
    const struct spirv_source source = {
        .name = kernel->name, .text = str_text(&s->text), .include = s->dev->ops->shader_text};
    struct str key;
    char name[DISK_NAME_B];
    size_t size_B = 0;
    str_init(&key);
    disk_begin_key(&key, DISK_MODULE);
    spirv_add_build(&key);
    kiln_status status = spirv_expand(&source, &key); // the whole text, so that a changed template is another key
    if (!status) status = str_check(&key);
    if (!status && !s->anew) out->words = disk_load(DISK_MODULE, &key, name, &size_B);
    out->n_words = size_B / 4;
    s->found = out->words != NULL;
    if (!status && !s->found) {
        kernel->compiled = true;
        status = spirv_compile(&source, out);
        if (!status) disk_store(DISK_MODULE, &key, kernel->name, out->words, out->n_words * 4);
    }
    str_free(&key);
    return status;
}

static kiln_status compile_glsl(struct kernel_source *s, struct jit_kernel *kernel)
{
    struct spirv module = {NULL, 0};
    TRY(write_text(s));
    kiln_status status = module_of(s, kernel, &module);
    if (!status && debug_flag("validate")) status = spirv_validate(kernel->name, module.words, module.n_words);
    const struct compiled_code code = {
        .name = kernel->name, .code = module.words, .code_B = module.n_words * 4, .indirect = s->plan.indirect};
    if (!status) status = s->dev->ops->load_compiled(s->dev, &code, &kernel->loaded);
    spirv_free(&module);
    return status;
}
#else
static kiln_status compile_glsl(struct kernel_source *s, struct jit_kernel *kernel)
{
    return error_set(KILN_E_MISSING, "%s: this build has no glslang", s->dev->name);
}
#endif

// For a device that does not look at code: no more than the text is made.
static kiln_status load_text(struct kernel_source *s, struct jit_kernel *kernel)
{
    TRY(write_text(s));
    const struct compiled_code code = {
        .name = kernel->name, .code = str_text(&s->text), .code_B = s->text.len, .indirect = s->plan.indirect};
    kernel->compiled = true;
    return s->dev->ops->load_compiled(s->dev, &code, &kernel->loaded);
}

static kiln_status compile_shader(struct kernel_source *s, struct jit_kernel *kernel)
{
    return s->dev->ops->shader_text ? compile_glsl(s, kernel) : load_text(s, kernel);
}

static const struct kernel_target *target_of(const kiln_device *dev)
{
    static const struct kernel_target targets[] = {
        [CODE_GLSL] = {glsl_plan, glsl_pack, false, compile_shader},
        [CODE_LLVM] = {llvm_plan, llvm_pack, true, compile_llvm},
    };
    return &targets[dev->caps.code];
}

static kiln_status compile(struct kernel_source *s, struct jit_kernel *kernel)
{
    PROFILE("kernel", kernel->name);
    if (!s->dev->ops->load_compiled) return error_set(KILN_E_UNSUPPORTED, "%s takes no compiled kernels", s->dev->name);
    const struct kernel_target *target = target_of(s->dev);
    kiln_status status = target->compile(s, kernel);
    if (status && s->found) { // whole, and yet it cannot be loaded
        kiln_error_clear();
        s->anew = true;
        status = target->compile(s, kernel);
    }
    TRY(status);
    if (!kernel->compiled) profile_span_.category = "load"; // its code was on disk
    if (kernel->compiled) STAT_ADD(s->dev, kernels_compiled, 1);
    return KILN_OK;
}

// --- counts ---

struct kernel_count {
    atomic_int refs;
    atomic_ullong n;
};

struct kernel_count *kernel_count_new(void)
{
    struct kernel_count *c = malloc(sizeof *c);
    if (!c) {
        error_set(KILN_E_MEMORY, "jit: out of memory");
        return NULL;
    }
    atomic_init(&c->refs, 1);
    atomic_init(&c->n, 0);
    return c;
}

struct kernel_count *kernel_count_ref(struct kernel_count *c)
{
    if (c) atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void kernel_count_unref(struct kernel_count **ref)
{
    struct kernel_count *c = *ref;
    *ref = NULL;
    if (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1) free(c);
}

uint64_t kernel_count_get(const struct kernel_count *c)
{
    return c ? atomic_load_explicit(&c->n, memory_order_relaxed) : 0;
}

// --- the table ---

// In a child whoever was compiling is gone, and the entry with it. Its memory stays: the thread's program points to it.
static void forget_unfinished(void)
{
    pthread_cond_init(&table.done, NULL);
    for (int i = 0; i < BUCKETS; i++)
        for (struct jit_kernel **at = &table.buckets[i]; *at;)
            if ((*at)->state == KERNEL_COMPILING)
                *at = (*at)->next;
            else
                at = &(*at)->next;
}

__attribute__((constructor)) static void install(void)
{
    process_at_fork(NULL, forget_unfinished);
}

static struct jit_kernel **bucket_of(uint64_t hash)
{
    return &table.buckets[hash % BUCKETS];
}

static struct jit_kernel *find(const struct kernel_source *s, uint64_t hash)
{
    for (struct jit_kernel *k = *bucket_of(hash); k; k = k->next)
        if (k->hash == hash && k->dev == s->dev && k->key_B == s->key.len &&
            !memcmp(k->key, str_text(&s->key), k->key_B))
            return k;
    return NULL;
}

static struct jit_kernel *insert(const struct kernel_source *s, uint64_t hash)
{
    struct jit_kernel *k = calloc(1, sizeof *k);
    if (k) {
        k->key = malloc(s->key.len + 1);
        k->name = strdup(s->k->name);
    }
    if (!k || !k->key || !k->name) {
        error_set(KILN_E_MEMORY, "out of memory for a kernel");
        if (k) {
            free(k->key);
            free(k->name);
        }
        free(k);
        return NULL;
    }
    memcpy(k->key, str_text(&s->key), s->key.len);
    k->key_B = s->key.len;
    k->hash = hash;
    k->dev = s->dev;
    k->plan = s->plan;
    k->next = *bucket_of(hash);
    *bucket_of(hash) = k;
    return k;
}

static void destroy(struct jit_kernel *k)
{
    if (k->loaded) k->dev->ops->unload_compiled(k->dev, k->loaded);
    llvm_unload(&k->function);
    free(k->key);
    free(k->name);
    free(k);
}

void jit_kernel_unref(struct jit_kernel **kernel)
{
    struct jit_kernel *k = *kernel;
    *kernel = NULL;
    if (!k) return;
    pthread_mutex_lock(&table.lock);
    bool last = --k->refs == 0;
    struct jit_kernel **at = bucket_of(k->hash);
    while (last && *at != k) at = &(*at)->next;
    if (last) *at = k->next;
    pthread_mutex_unlock(&table.lock);
    if (last) destroy(k);
}

// The entry, with one reference more; *mine: the caller has to compile it.
static struct jit_kernel *take(const struct kernel_source *s, bool *mine)
{
    uint64_t hash = hash_bytes(0, str_text(&s->key), s->key.len);
    pthread_mutex_lock(&table.lock);
    struct jit_kernel *k = find(s, hash);
    *mine = !k;
    if (!k) k = insert(s, hash);
    if (k) k->refs++;
    while (k && !*mine && k->state == KERNEL_COMPILING) pthread_cond_wait(&table.done, &table.lock);
    pthread_mutex_unlock(&table.lock);
    return k;
}

static void publish(struct jit_kernel *k, kiln_status status)
{
    if (status) error_capture(&k->error);
    pthread_mutex_lock(&table.lock);
    k->state = status ? KERNEL_FAILED : KERNEL_READY;
    pthread_cond_broadcast(&table.done);
    pthread_mutex_unlock(&table.lock);
}

static kiln_status get(struct kernel_source *s, struct kernel_count *count, struct jit_kernel **out)
{
    bool mine;
    TRY(describe(s));
    struct jit_kernel *k = take(s, &mine);
    if (!k) return error_pending;
    if (mine) publish(k, compile(s, k));
    if (k->state == KERNEL_FAILED) {
        struct error_record error = k->error;
        jit_kernel_unref(&k);
        return error_raise(&error);
    }
    if (mine && k->compiled && count) atomic_fetch_add_explicit(&count->n, 1, memory_order_relaxed);
    *out = k;
    return KILN_OK;
}

kiln_status jit_kernel_get(kiln_device *dev, const struct fused_kernel *k, struct kernel_count *count,
                           struct jit_kernel **out)
{
    struct kernel_source s = {.k = k, .dev = dev};
    *out = NULL;
    str_init(&s.text);
    str_init(&s.key);
    kiln_status status = get(&s, count, out);
    str_free(&s.text);
    str_free(&s.key);
    return status;
}

struct jit_kernel *jit_kernel_find(kiln_device *dev, const struct fused_kernel *k)
{
    struct kernel_source s = {.k = k, .dev = dev};
    struct jit_kernel *found = NULL;
    str_init(&s.key);
    if (!describe(&s)) {
        uint64_t hash = hash_bytes(0, str_text(&s.key), s.key.len);
        pthread_mutex_lock(&table.lock);
        found = find(&s, hash);
        if (found && found->state != KERNEL_READY) found = NULL;
        if (found) found->refs++;
        pthread_mutex_unlock(&table.lock);
    } else
        kiln_error_clear(); // whoever gets it tells
    str_free(&s.key);
    return found;
}

void jit_warm(void)
{
#if KILN_WITH_GLSLANG
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (!device_is_open(ROLE_GPU) || atomic_flag_test_and_set(&done) || disk_has(DISK_MODULE)) return;
    PROFILE("warm", "glslang");
    spirv_warm();
#endif
}

// --- launches ---

static kiln_status find_scalars(struct arena *a, struct jit_launch *l, const struct fused_kernel *k)
{
    for (int i = 0; i < k->n_scalars; i++) l->n_scalars += k->scalar_input[i] != 0;
    l->scalars = arena_alloc(a, sizeof *l->scalars * (size_t)(l->n_scalars + 1));
    if (!l->scalars) return error_pending;
    for (int i = 0, n = 0; i < k->n_scalars; i++)
        if (k->scalar_input[i])
            l->scalars[n++] = (struct jit_scalar){(uint8_t)i, k->scalar_cls[i], (uint16_t)(k->scalar_input[i] - 1)};
    return KILN_OK;
}

static void set_scalar(const struct jit_launch *l, uint64_t *wide, uint32_t *narrow, int i, uint64_t bits)
{
    int at = l->c.scalar_at[l->scalars[i].index];
    uint8_t cls = l->scalars[i].cls;
    if (!narrow) {
        wide[at] = bits;
        return;
    }
    narrow[at] = (uint32_t)bits;
    if (cls == CLASS_F64 || cls == CLASS_I64) narrow[at + 1] = (uint32_t)(bits >> 32);
}

kiln_status jit_launch_init(struct arena *a, struct jit_launch *l, struct jit_kernel *kernel,
                            const struct fused_kernel *k, kiln_device *dev)
{
    static const uint64_t nowhere[FUSED_MAX_IN + FUSED_MAX_OUT];
    const struct kernel_target *target = target_of(dev);
    *l = (struct jit_launch){.kernel = kernel, .name = kernel->name, .n_access = k->n_in + k->n_out};
    TRY(target->pack(&kernel->plan, k, nowhere, &dev->caps, &l->c));
    size_t n = (size_t)l->c.n_words;
    TRY(find_scalars(a, l, k));
    l->words = arena_alloc(a, n * (target->wide_words ? sizeof *l->words : sizeof *l->narrow));
    if (!l->words) return error_pending;
    if (target->wide_words) {
        memcpy(l->words, l->c.words, n * sizeof *l->words);
        return KILN_OK;
    }
    l->narrow = (uint32_t *)(void *)l->words;
    for (size_t i = 0; i < n; i++) l->narrow[i] = (uint32_t)l->c.words[i];
    return KILN_OK;
}

static void set_address(uint64_t *wide, uint32_t *narrow, int at, uint64_t address)
{
    if (!narrow) {
        wide[at] = address;
        return;
    }
    narrow[at] = (uint32_t)address;
    narrow[at + 1] = (uint32_t)(address >> 32);
}

static bool lies_over_operand(const struct jit_launch *l, const uint64_t *addresses)
{
    for (int out = l->c.n_in; out < l->n_access; out++)
        for (int in = 0; in < l->c.n_in; in++)
            if (addresses[in] == addresses[out]) return true;
    return false;
}

// The block with what the run brings, at `to`: 64-bit words for the host, else 32-bit ones.
static void fill_block(const struct jit_launch *l, const struct jit_arguments *a, void *to)
{
    uint64_t *wide = l->narrow ? NULL : to;
    uint32_t *narrow = l->narrow ? to : NULL;
    memcpy(to, l->words, (size_t)l->c.n_words * (narrow ? sizeof *narrow : sizeof *wide));
    for (int i = 0; i < l->n_access; i++) set_address(wide, narrow, narrow ? 2 * i : i, a->addresses[i]);
    for (int i = 0; i < l->n_scalars; i++) set_scalar(l, wide, narrow, i, a->scalars[i]);
    if (l->c.workspace_at >= 0) set_address(wide, narrow, l->c.workspace_at, a->workspace);
    if (l->c.failed_at >= 0) set_address(wide, narrow, l->c.failed_at, (uint64_t)(uintptr_t)a->failed);
    if (wide && l->c.streams_at >= 0) wide[l->c.streams_at] = !lies_over_operand(l, a->addresses);
}

static struct compiled_launch launch_of(const struct jit_launch *l, const struct jit_arguments *a, const void *words)
{
    return (struct compiled_launch){.compiled = l->kernel->loaded,
                                    .op = l->name,
                                    .words = words,
                                    .n_words = (uint32_t)l->c.n_words,
                                    .groups = {l->c.groups[0], l->c.groups[1], l->c.groups[2]},
                                    .units = l->c.units,
                                    .unit_cost = l->c.unit_cost,
                                    .run_end = l->c.run_end,
                                    .work = l->c.work,
                                    .n_ranges = (uint32_t)l->n_access,
                                    .ranges = a->ranges,
                                    .workspace = a->workspace,
                                    .workspace_B = l->c.workspace_B,
                                    .gate = a->gate,
                                    .record = a->record,
                                    .facts = l->facts};
}

kiln_status jit_launch_run(const struct jit_launch *l, kiln_device *dev, const struct jit_arguments *a)
{
    uint64_t words[CODEGEN_MAX_WORDS];
    fill_block(l, a, words);
    const struct compiled_launch launch = launch_of(l, a, words);
    return device_launch_compiled(dev, &launch);
}

kiln_status jit_launch_slice(const struct jit_launch *l, const struct fused_kernel *k, kiln_device *dev, int64_t size,
                             struct codegen_launch *out)
{
    static const uint64_t nowhere[FUSED_MAX_IN + FUSED_MAX_OUT];
    struct fused_kernel *slice = malloc(sizeof *slice);
    if (!slice) return error_set(KILN_E_MEMORY, "%s: out of memory", k->name);
    *slice = *k;
    slice->sizes[0] = size;
    kiln_status status = llvm_pack(&l->kernel->plan, slice, nowhere, &dev->caps, out);
    free(slice);
    return status;
}

bool jit_is_wide(const struct jit_launch *l)
{
    return !l->narrow;
}

void jit_launch_lay(const struct jit_launch *l, const struct jit_arguments *a, uint64_t *words,
                    struct compiled_launch *out)
{
    fill_block(l, a, words);
    *out = launch_of(l, a, words);
}

bool jit_takes_number(const struct jit_launch *l, int input)
{
    for (int i = 0; i < l->n_scalars; i++)
        if (l->scalars[i].input == input) return true;
    return false;
}

void jit_set_number(const struct jit_launch *l, uint64_t *words, int input, int64_t number)
{
    const struct program_argument a = {.number = (double)number, .integer = number};
    for (int i = 0; i < l->n_scalars; i++)
        if (l->scalars[i].input == input) set_scalar(l, words, NULL, i, program_number_bits(&a, l->scalars[i].cls));
}

const struct codegen_plan *jit_launch_plan(const struct jit_launch *l)
{
    return &l->kernel->plan;
}

void jit_launch_fixed(const struct jit_launch *l, bool *fixed)
{
    for (int i = 0; i < l->c.n_words; i++) fixed[i] = i >= l->n_access && i != l->c.workspace_at && i != l->c.failed_at;
    for (int i = 0; i < l->n_scalars; i++) fixed[l->c.scalar_at[l->scalars[i].index]] = false;
}

// The host takes one after the other; that is one launch in the counts.
static kiln_status run_on_host(const struct jit_launch *l, int n, kiln_device *dev, const struct jit_arguments *a)
{
    TRY(jit_launch_run(&l[0], dev, &a[0]));
    for (int i = 1; i < n; i++) {
        uint64_t words[CODEGEN_MAX_WORDS];
        fill_block(&l[i], &a[i], words);
        const struct compiled_launch launch = launch_of(&l[i], &a[i], words);
        TRY(dev->ops->launch_compiled(dev, &launch));
    }
    return KILN_OK;
}

// See shaders/fused.glsl. Returns the number of workgroups.
static uint64_t fill_table(const struct jit_launch *l, int n, const struct jit_arguments *a, uint32_t *words)
{
    uint64_t groups = 0;
    uint32_t block_words = (uint32_t)l->c.n_words;
    words[0] = (uint32_t)n;
    words[1] = block_words;
    for (int i = 0; i < n; i++) {
        words[2 + i] = (uint32_t)groups;
        groups += (uint64_t)l[i].c.groups[0] * l[i].c.groups[1];
        fill_block(&l[i], &a[i], words + 2 + n + (size_t)i * block_words);
    }
    return groups;
}

// All ranges, or all of memory where they are too many to tell apart.
static uint32_t table_ranges(const struct jit_launch *l, int n, const struct jit_arguments *a,
                             struct compiled_range *out)
{
    uint32_t count = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < l->n_access; k++) {
            if (count == COMPILED_MAX_RANGES - 1) {
                out[0] = (struct compiled_range){0, 0, INT64_MAX, true};
                return 1;
            }
            out[count++] = a[i].ranges[k];
        }
    }
    return count;
}

kiln_status jit_table_run(const struct jit_launch *l, int n, kiln_device *dev, const struct jit_arguments *a)
{
    if (!l->narrow) return run_on_host(l, n, dev, a);
    size_t n_words = 2 + (size_t)n + (size_t)n * (size_t)l->c.n_words;
    uint32_t few[2048], *words = n_words <= COUNT_OF(few) ? few : malloc(sizeof *words * n_words);
    struct compiled_range ranges[COMPILED_MAX_RANGES];
    if (!words) return error_set(KILN_E_MEMORY, "%s: out of memory for %d launches", l->name, n);
    uint64_t groups = fill_table(l, n, a, words), work = 0;
    for (int i = 0; i < n; i++) work += l[i].c.work;
    struct compiled_launch launch = {.compiled = l->kernel->loaded,
                                     .op = l->name,
                                     .words = words,
                                     .n_words = (uint32_t)n_words,
                                     .work = work,
                                     .n_ranges = table_ranges(l, n, a, ranges),
                                     .ranges = ranges,
                                     .gate = a->gate,
                                     .record = a->record,
                                     .facts = l->facts};
    grid_fold(groups, launch.groups);
    kiln_status status = device_launch_compiled(dev, &launch);
    if (words != few) free(words);
    return status;
}
