// The module that holds LLVM: found, opened once, and called.
#include "base/build_id.h"
#include "base/hash.h"
#include "base/process.h"
#include "codegen/llvm/host.h"
#include "codegen/llvm/object.h"
#include "scalar/prim.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <kiln/version.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if KILN_WITH_LLVM
static struct {
    pthread_mutex_t lock;
    const struct llvm_module *module;
    char path[1024];
    char why[512];   // it cannot be used; kept, so that a missing module is looked for once
    char build[128]; // of the module, or of the file that would be opened; empty: not asked yet, or unknown
} opened = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct llvm_host services = {dtype_size_B, error_set, prim_text};

static void note_build(const struct str *id)
{
    snprintf(opened.build, sizeof opened.build, "%s", str_text(id));
}

static bool try_open(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        // What is wrong with a file that is there says more than that there is none elsewhere.
        const char *why = dlerror();
        if (!opened.why[0] || !access(path, F_OK)) snprintf(opened.why, sizeof opened.why, "%s", why);
        return false;
    }
    llvm_module_fn *entry;
    void *symbol = dlsym(library, LLVM_MODULE_ENTRY);
    memcpy(&entry, &symbol, sizeof entry);
    const struct llvm_module *m = symbol ? entry(LLVM_MODULE_VERSION, &services) : NULL;
    bool fits = m && m->version == LLVM_MODULE_VERSION && m->kernel_size_B == sizeof(struct fused_kernel) &&
                !strcmp(m->kiln_version, KILN_VERSION_STRING);
    if (fits) {
        opened.module = m;
        opened.why[0] = 0;
        snprintf(opened.path, sizeof opened.path, "%s", path);
        struct str id;
        str_init(&id);
        build_id_add(&id, m);
        note_build(&id);
        str_free(&id);
    } else {
        snprintf(opened.why, sizeof opened.why, "%s belongs to another version", path);
        dlclose(library);
    }
    return fits;
}

// Whether a file of this path will do.
typedef bool take_fn(const char *path);

// Where this library lies, the module is in kiln/MAJOR.MINOR/ beside it; in a build tree beside it or one folder up.
static bool try_near(take_fn *take)
{
    char own[32], path[1024];
    snprintf(own, sizeof own, "kiln/%d.%d/", KILN_VERSION_MAJOR, KILN_VERSION_MINOR);
    const char *const places[] = {own, "", "../"};
    Dl_info self;
    if (!dladdr(&opened, &self) || !self.dli_fname) return false;
    const char *slash = strrchr(self.dli_fname, '/');
    int folder = slash ? (int)(slash - self.dli_fname) + 1 : 0;
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        snprintf(path, sizeof path, "%.*s%slibkiln-llvm.so", folder, self.dli_fname, places[i]);
        if (take(path)) return true;
    }
    return false;
}

static bool try_all(take_fn *take)
{
    const char *named = secure_getenv("KILN_LLVM");
    bool is_named = named && *named;
    if (is_named && access(named, R_OK)) log_warn("KILN_LLVM: %s: %s", named, strerror(errno));
    return try_near(take) || (is_named && take(named));
}

static bool take_build(const char *path)
{
    struct str id;
    str_init(&id);
    bool known = build_id_of_file(&id, path);
    if (known) note_build(&id);
    str_free(&id);
    return known;
}

// The build of the module, which stays closed.
static bool add_build(struct str *out)
{
    pthread_mutex_lock(&opened.lock);
    bool known = *opened.build || (!opened.module && !opened.why[0] && try_all(take_build));
    if (known) str_add(out, opened.build);
    pthread_mutex_unlock(&opened.lock);
    return known;
}

static const struct llvm_module *module_find(void)
{
    pthread_mutex_lock(&opened.lock);
    if (!opened.module && !opened.why[0]) {
        try_all(try_open);
        section_opened();
    }
    const struct llvm_module *m = opened.module;
    pthread_mutex_unlock(&opened.lock);
    return m;
}

static const struct llvm_module *module_get(void)
{
    const struct llvm_module *m = module_find();
    if (!m) error_set(KILN_E_MISSING, "kernels are not compiled for the CPU: no libkiln-llvm.so: %s", opened.why);
    return m;
}

void llvm_get_facts(struct llvm_facts *out)
{
    const struct llvm_module *m = module_find();
    *out = (struct llvm_facts){opened.path, m ? m->llvm_version : "", m ? "" : opened.why};
}
#else
void llvm_get_facts(struct llvm_facts *out)
{
    *out = (struct llvm_facts){"", "", "this build has no LLVM: -Dllvm=enabled, Debian's llvm-dev"};
}

static const struct llvm_module *module_get(void)
{
    error_set(KILN_E_MISSING, "kernels are not compiled for the CPU: built without LLVM");
    return NULL;
}

static bool add_build(struct str *out)
{
    (void)out;
    return false;
}
#endif

enum { LLVM_MIB = 512 }; // the libraries, and what a kernel takes

// The module, inside a section that end() leaves.
static const struct llvm_module *begin(void)
{
    // LLVM ends the process when memory is out.
    if (!process_can_map((uint64_t)LLVM_MIB << 20)) {
        error_set(KILN_E_MISSING, "kernels are not compiled for the CPU: %d MiB of address space cannot be had",
                  LLVM_MIB);
        return NULL;
    }
    if (!section_enter()) {
        error_set(KILN_E_STATE, "kernels are not compiled any more: the process ends");
        return NULL;
    }
    const struct llvm_module *m = module_get();
    if (!m) section_leave();
    return m;
}

static void end(void)
{
    section_opened(); // whatever ran may have made statics of LLVM
    section_leave();
}

// Equal families and plans have equal symbols: 128 bits of hash behind a name for people.
static kiln_status symbol_make(const struct fused_kernel *k, struct codegen_code *code)
{
    struct str family;
    str_init(&family);
    fused_family(k, &family);
    uint64_t plan = hash_bytes(0, code->plan.choices, sizeof code->plan.choices) + code->plan.form;
    uint64_t low = hash_bytes(plan, str_text(&family), family.len),
             high = hash_bytes(~plan, str_text(&family), family.len);
    int n = snprintf(code->symbol, 30, "k_%s", k->name);
    if (n > 29) n = 29;
    for (int i = 0; i < n; i++)
        if (!isalnum((unsigned char)code->symbol[i])) code->symbol[i] = '_';
    snprintf(code->symbol + n, sizeof code->symbol - (size_t)n, "_%016llx%016llx", (unsigned long long)high,
             (unsigned long long)low);
    kiln_status status = str_check(&family);
    str_free(&family);
    return status;
}

kiln_status llvm_compile(const struct fused_kernel *k, const struct codegen_plan *plan, struct codegen_code *out)
{
    *out = (struct codegen_code){.plan = *plan};
    TRY(symbol_make(k, out));
    const struct llvm_module *m = begin();
    if (!m) return error_pending;
    kiln_status status = m->compile(k, out);
    end();
    return status;
}

kiln_status llvm_series_key(const struct llvm_series *s, struct str *out)
{
    str_addf(out, "%d of %d", s->n_cond, s->n);
    for (int i = 0; i < s->n; i++) {
        const struct llvm_series_item *it = &s->items[i];
        str_addf(out, "; %d %d %d", it->run_end, it->n_movers, it->n_words);
        for (int j = 0; j < it->n_numbers; j++) str_addf(out, ", %d is %d", it->numbers[j].word, it->numbers[j].cls);
        for (int j = 0; j < it->n_words; j++)
            if (it->fixed[j])
                str_addf(out, " %llx", (unsigned long long)it->words[j]);
            else
                str_add(out, " *");
        str_addn(out, (const char *)it->plan, sizeof *it->plan);
        fused_family(it->k, out);
    }
    return str_check(out);
}

kiln_status llvm_compile_series(const struct llvm_series *s, struct codegen_code *out)
{
    struct str key;
    str_init(&key);
    kiln_status status = llvm_series_key(s, &key);
    *out = (struct codegen_code){.plan = {.target = CODE_LLVM}};
    snprintf(out->symbol, sizeof out->symbol, "series_%016llx%016llx",
             (unsigned long long)hash_bytes(0, str_text(&key), key.len),
             (unsigned long long)hash_bytes(1, str_text(&key), key.len));
    str_free(&key);
    TRY(status);
    const struct llvm_module *m = begin();
    if (!m) return error_pending;
    status = m->compile_series(s, out);
    end();
    return status;
}

kiln_status llvm_load(const struct codegen_code *code, struct llvm_function *out)
{
    if (object_load(code, out)) return KILN_OK;
    const struct llvm_module *m = begin();
    if (!m) return error_pending;
    kiln_status status = m->load(code, out);
    end();
    return status;
}

void llvm_unload(struct llvm_function *f)
{
    if (!f || !f->loaded) return;
    if (f->mapped_B) {
        object_unload(f);
    } else if (section_enter()) {
        const struct llvm_module *m = module_get(); // it made what is loaded, so it is there
        if (m) m->unload(f);
        section_leave();
    }
    *f = (struct llvm_function){0};
}

kiln_status llvm_ir_text(const struct fused_kernel *k, struct str *out)
{
    struct codegen_code code = {0};
    TRY(llvm_plan(k, NULL, &code.plan));
    TRY(symbol_make(k, &code));
    const struct llvm_module *m = begin();
    if (!m) return error_pending;
    char *text = m->text(k, &code);
    end();
    if (!text)
        return error_pending ? error_pending : error_set(KILN_E_MEMORY, "out of memory for the text of a kernel");
    str_add(out, text);
    free(text);
    return KILN_OK;
}

static char *processor;

static void ask_processor(void)
{
    struct str text;
    str_init(&text);
    if (host_add_processor(&text) && !text.failed) processor = strdup(str_text(&text));
    str_free(&text);
}

// Without the module; false: nothing was added.
static bool add_host(struct str *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT; // an instruction that hypervisors take their time for
    struct str build;
    pthread_once(&once, ask_processor);
    if (!processor) return false;
    str_init(&build);
    bool known = add_build(&build);
    if (known) str_addf(out, "%s, %s", processor, str_text(&build));
    str_free(&build);
    return known;
}

kiln_status llvm_host_key(struct str *out)
{
    if (add_host(out)) return str_check(out);
    const struct llvm_module *m = begin();
    if (!m) return error_pending;
    char *key = m->host_key();
    end();
    if (!key) return error_set(KILN_E_MEMORY, "out of memory for the description of the processor");
    str_addf(out, "%s, ", key);
    build_id_add(out, m);
    free(key);
    return KILN_OK;
}
