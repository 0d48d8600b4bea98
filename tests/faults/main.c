// usage: test_faults KIND [--device D] [--programs P,P] [--every K] [--from N] [--to N] [--batch B] [--keep-cache]
//                         [--lasting] [--trace]
//
// Each program runs once to count its operations of this kind, then once for every K-th N with the Nth of them failing.
// A run ends with an error that says something, or with the right values. Then it runs again without a failure, and
// works. After both nothing is left that two runs without failures do not leave. A process is kept for B such pairs: in
// the first of them everything happens for the first time. Compiled kernels are kept on disk for the next process where
// it says --keep-cache. With --lasting what fails goes on failing to the end of the run.
#include "../clock.h"
#include "faults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_S = 30 };

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *options, void *(*fn)(void *), void *user);

static const char *const kind_names[] = {"none", "allocation", "file", "thread", "library", "vulkan", "host", "lost"};

static struct {
    enum fault_kind kind;
    const char *device, *programs;
    bool keeps_cache;
    long every, from, to, batch;
} o = {.device = "cpu", .every = 1, .from = 1, .to = LONG_MAX, .batch = 1};

// What the processes tell each other.
static struct shared {
    long count;         // operations of a run without a failure
    volatile long at;   // N of the present run
    volatile bool over; // a run did not come to its Nth operation
    volatile bool failed;
    long n_right, n_errors;
    struct outcome expected;
    struct block_sites base;
    int base_files;
    long base_objects;
} * shared;

char work_folder[64];
static char cache_folder[96];

// Where memory stays out, a device cannot be waited for, and what it uses is not given back: the library says so.
static volatile bool abandoned;
static char invalid[512]; // what the validation layer says, with KILN_DEBUG=validate

static void listen(void *user, const char *message)
{
    (void)user;
    if (strstr(message, "closed while its queue still works")) abandoned = true;
    if (!strncmp(message, "validation: ", 12)) snprintf(invalid, sizeof invalid, "%s", message);
}

static int open_files(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static void complain(const struct program *p, const char *what, const char *detail)
{
    shared->failed = true;
    fprintf(stderr, "%s, %s on %s, N = %ld: %s%s%s\n", p->name, kind_names[o.kind], o.device, shared->at, what,
            *detail ? ": " : "", detail);
}

static bool is_right(const struct outcome *got)
{
    const struct outcome *want = &shared->expected;
    if (got->n != want->n) return false;
    for (int i = 0; i < got->n; i++)
        if (!(fabsf(got->out[i] - want->out[i]) <= 1e-5f * fmaxf(1, fabsf(want->out[i])))) return false;
    return true;
}

static bool is_fitting(kiln_status status)
{
    bool memory = status == KILN_E_MEMORY || status == KILN_E_DEVICE_MEMORY;
    switch (o.kind) {
    case FAULT_FILE: return memory || status == KILN_E_IO || status == KILN_E_MISSING;
    case FAULT_LIBRARY: return memory || status == KILN_E_MISSING;
    case FAULT_LOST: return status == KILN_E_DEVICE_LOST && strstr(kiln_error_message(), "device is lost");
    case FAULT_VULKAN:
    case FAULT_HOST: return memory || status == KILN_E_DEVICE_LOST || status == KILN_E_MISSING;
    default: return memory;
    }
}

static int remove_one(const char *path, const struct stat *st, int what, struct FTW *f)
{
    (void)st, (void)what, (void)f;
    return remove(path);
}

static void remove_all(const char *folder)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

struct one_run {
    const struct program *p;
    long nth;   // 0: no failure
    bool first; // of a process: later ones make fewer operations
};

// Runs the program and judges what it says.
static void *run(void *user)
{
    const struct program *p = ((struct one_run *)user)->p;
    long nth = ((struct one_run *)user)->nth;
    static struct outcome got;
    got = (struct outcome){0};
    if (p->reset) p->reset();
    fault_begin(nth ? o.kind : FAULT_NONE, nth);
    p->run(o.device, &got);
    long n = fault_end();
    kiln_status status = kiln_error();
    if (nth && n < nth && ((struct one_run *)user)->first) shared->over = true;
    if (!status && !is_right(&got)) {
        complain(p, nth ? "wrong values and no error" : "wrong values without a failure, after one", "");
    } else if (status && !nth) {
        complain(p, "an error without a failure, after one", kiln_error_message());
    } else if (status && (!*kiln_error_message() || !is_fitting(status))) {
        char text[1200];
        snprintf(text, sizeof text, "%s \"%s\"", kiln_status_name(status), kiln_error_message());
        complain(p, "the error does not say what happened", text);
    }
    shared->n_errors += nth && status;
    shared->n_right += nth && !status;
    kiln_error_clear();
    const char *wrong = p->check ? p->check(!status) : NULL;
    if (wrong) complain(p, wrong, "");
    return NULL;
}

// On a thread of its own, at whose end the library gives back what it keeps for a thread.
static void on_a_thread(void *(*fn)(void *), void *user)
{
    pthread_t thread;
    if (__real_pthread_create(&thread, NULL, fn, user)) abort();
    pthread_join(thread, NULL);
}

static void run_once(const struct program *p, long nth, bool first)
{
    on_a_thread(run, &(struct one_run){p, nth, first});
}

static void check_leaks(const struct program *p)
{
    static struct block_sites now;
    char text[64];
    blocks_count(&now);
    if (now.total > shared->base.total && !(abandoned && fault_lasts)) {
        snprintf(text, sizeof text, "%d blocks, %d of them expected", now.total, shared->base.total);
        complain(p, "memory is not given back", text);
        blocks_print_excess(&now, &shared->base);
    }
    snprintf(text, sizeof text, "%ld objects", vulkan_live());
    if (vulkan_live() > shared->base_objects && !(abandoned && fault_lasts))
        complain(p, "Vulkan objects are not destroyed", text);
    snprintf(text, sizeof text, "%d, %d of them expected", open_files(), shared->base_files);
    if (*invalid) complain(p, invalid, "");
    if (open_files() > shared->base_files) complain(p, "files are open", text);
}

static void need(const struct program *p)
{
    if (!kiln_error()) return;
    fprintf(stderr, "%s: %s\n", p->name, kiln_error_message());
    _exit(kiln_error() == KILN_E_MISSING ? 77 : 1);
}

static void *prepare(void *user)
{
    const struct program *p = user;
    if (p->prepare) p->prepare(o.device);
    need(p);
    return NULL;
}

static void *count(void *user)
{
    const struct program *p = user;
    if (p->reset) p->reset();
    fault_begin(o.kind, LONG_MAX);
    p->run(o.device, &shared->expected);
    shared->count = fault_end();
    need(p);
    // What the first error of a process leaves: the debug information that names lines.
    if (!kiln_add(NULL, NULL)) kiln_error_clear();
    return NULL;
}

// What the program does without failures; two runs are what runs with one are compared to.
static void measure(const struct program *p)
{
    on_a_thread(prepare, (void *)p);
    remove_all(cache_folder);
    on_a_thread(count, (void *)p);
    run_once(p, 0, false);
    blocks_count(&shared->base);
    shared->base_files = open_files();
    shared->base_objects = vulkan_live();
    run_once(p, 0, false);
    check_leaks(p);
}

static void crash(int number)
{
    void *frames[40];
    int n = backtrace(frames, 40);
    fprintf(stderr, "signal %d at N = %ld\n", number, shared->at);
    for (int i = 2; i < n; i++) print_place("  in", (uintptr_t)frames[i]);
    _exit(2);
}

static void child(const struct program *p, bool measures, long from)
{
    kiln_set_log(listen, NULL);
    if (fault_trace) signal(SIGSEGV, crash);
    if (fault_trace) signal(SIGABRT, crash);
    if (measures) {
        alarm(LIMIT_S);
        measure(p);
    }
    long end = measures ? 0 : o.batch > (o.to - from) / o.every ? o.to : from + o.every * (o.batch - 1);
    for (long n = from; n <= end && !shared->over && !shared->failed; n += o.every) {
        alarm(LIMIT_S);
        shared->at = n;
        if (n == from && !o.keeps_cache) remove_all(cache_folder);
        run_once(p, n, n == from);
        run_once(p, 0, false);
        check_leaks(p);
    }
    fflush(NULL);
    _exit(shared->failed);
}

// The exit status; a signal is a failure.
static int run_child(const struct program *p, bool measures, long from)
{
    fflush(NULL);
    shared->failed = false;
    pid_t pid = fork();
    if (pid == 0) child(p, measures, from);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    complain(p, WTERMSIG(status) == SIGALRM ? "it hangs" : "it is ended by a signal", strsignal(WTERMSIG(status)));
    return 1;
}

// The number of failures, -1: the device is not there.
static int test(const struct program *p)
{
    *shared = (struct shared){0};
    double begin = clock_s();
    int n_failures = 0, status = run_child(p, true, 0);
    if (status == 77) return -1;
    if (status) return 1;
    for (long n = o.from; !shared->over && n <= o.to;) {
        n_failures += run_child(p, false, n) != 0;
        n = (shared->at > n ? shared->at : n) + o.every;
        if (n > shared->count + 1000) break;
    }
    printf("%-12s %6ld operations, %5ld errors, %4ld runs right, %d failures, %.1f s\n", p->name, shared->count,
           shared->n_errors, shared->n_right, n_failures, clock_s() - begin);
    return n_failures;
}

static bool is_listed(const char *name)
{
    size_t n = strlen(name);
    for (const char *at = o.programs; (at = strstr(at, name)); at += n)
        if ((at == o.programs || at[-1] == ',') && (!at[n] || at[n] == ',')) return true;
    return false;
}

static int test_all(const struct program *programs)
{
    int n = 0;
    for (const struct program *p = programs; p->name && n >= 0; p++) {
        if (o.programs && !is_listed(p->name)) continue;
        int failures = test(p);
        n = failures < 0 ? -1 : n + failures;
    }
    return n;
}

static bool parse(int argc, char **argv)
{
    for (int k = 1; argc > 1 && k < FAULT_KINDS; k++)
        if (!strcmp(argv[1], kind_names[k])) o.kind = (enum fault_kind)k;
    for (int i = 2; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        const struct {
            const char *name;
            long *number;
            const char **text;
            bool *flag;
        } options[] = {{"--every", &o.every},
                       {"--from", &o.from},
                       {"--to", &o.to},
                       {"--batch", &o.batch},
                       {"--device", .text = &o.device},
                       {"--programs", .text = &o.programs},
                       {"--keep-cache", .flag = &o.keeps_cache},
                       {"--lasting", .flag = &fault_lasts},
                       {"--trace", .flag = &fault_trace}};
        bool known = false;
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            if (strcmp(argv[i], options[k].name)) continue;
            known = true;
            if (options[k].number) *options[k].number = atol(value);
            if (options[k].text) *options[k].text = value;
            if (options[k].flag) *options[k].flag = true;
            i += !options[k].flag;
        }
        if (!known) return false;
    }
    return o.kind != FAULT_NONE && o.every > 0 && o.from > 0 && o.batch > 0;
}

int main(int argc, char **argv)
{
    if (!parse(argc, argv)) {
        fprintf(stderr,
                "usage: test_faults allocation|file|thread|library|vulkan|host|lost [--device D] [--programs P,P]\n"
                "       [--every K] [--from N] [--to N] [--batch B] [--keep-cache] [--lasting] [--trace]\n");
        return 2;
    }
    const char *tmp = getenv("TMPDIR");
    snprintf(work_folder, sizeof work_folder, "%s/kiln-faults-XXXXXX", tmp && strlen(tmp) < 32 ? tmp : "/tmp");
    if (!mkdtemp(work_folder)) return 1;
    snprintf(cache_folder, sizeof cache_folder, "%s/cache", work_folder);
    setenv("KILN_CACHE_DIR", cache_folder, 1);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    // Loaded by the parent, large libraries cost the children nothing; they are opened by each.
    const char *large[] = {getenv("KILN_LLVM"), "libdw.so.1"};
    for (int i = 0; i < 2; i++)
        if (large[i]) dlopen(large[i], RTLD_NOW | RTLD_LOCAL);
    const struct program *const all[] = {base_programs, jit_programs, io_programs};
    int n = 0;
    for (int i = 0; i < 3 && n >= 0; i++) {
        int failures = test_all(all[i]);
        n = failures < 0 ? -1 : n + failures;
    }
    remove_all(work_folder);
    return n < 0 ? 77 : n > 0;
}
