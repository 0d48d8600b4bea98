// kiln-cache: what processes keep on disk for others: lists, checks and removes it, and measures what else belongs
// there.
#include <kiln/debug.h>
#include <kiln/device.h>

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: kiln-cache list [--long]\n"
    "       kiln-cache verify\n"
    "       kiln-cache clear [--older DAYS] [--keep-size N]\n"
    "       kiln-cache tune [DEVICE]\n"
    "       kiln-cache path\n"
    "The folder in which the library keeps what it compiled: $KILN_CACHE_DIR, else kiln in $XDG_CACHE_HOME, else\n"
    ".cache/kiln in the home folder.\n"
    "  list           how many files of each kind there are, and their sizes\n"
    "  list --long    and each file, the one used longest ago first: kind, size, last use, state, path, name\n"
    "  verify         reads and checks each file, and names those that are damaged; the exit status is 1 then\n"
    "  clear          removes all files\n"
    "  --older DAYS   only those that were last used longer ago\n"
    "  --keep-size N  only until N bytes are left, those used longest ago first; K, M, G and T may follow the number\n"
    "  tune [DEVICE]  measures tiles of kernels on a Vulkan device, \"vulkan\" without a name, and keeps them for "
    "later\n"
    "                 processes: see kiln_device_tune\n"
    "  path           prints the folder's path\n"
    "  --version      print the version and exit\n"
    "  --help         print this text and exit\n";

enum { MAX_KINDS = 8 };
struct totals {
    bool show;
    bool only_bad;
    size_t n[MAX_KINDS], n_all, n_state[KILN_CACHE_UNFINISHED + 1];
    uint64_t size_B[MAX_KINDS], all_B;
    char kinds[MAX_KINDS][16];
    int n_kinds;
};

static const char *const states[] = {
    [KILN_CACHE_GOOD] = "good",
    [KILN_CACHE_OTHER_BUILD] = "other build",
    [KILN_CACHE_DAMAGED] = "damaged",
    [KILN_CACHE_UNFINISHED] = "unfinished",
};

static void print_size(uint64_t size_B, int width)
{
    static const char units[] = "BKMGT";
    int unit = 0;
    double size = (double)size_B;
    for (; size >= 1024 && unit < 4; unit++) size /= 1024;
    if (unit)
        printf("%*.1f%c", width, size, units[unit]);
    else
        printf("%*llu%c", width, (unsigned long long)size_B, units[unit]);
}

static void print_age(double age_s)
{
    static const struct {
        double s;
        const char *name;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
    size_t i = 0;
    while (i < 3 && age_s < units[i].s) i++;
    double n = floor(age_s / units[i].s);
    printf("%4.0f %s%-2s", n, units[i].name, n == 1 ? "" : "s");
}

static void print_file(const kiln_cache_file *f)
{
    printf("%-9s ", f->kind);
    print_size(f->size_B, 7);
    print_age(f->age_s);
    printf("  %-11s  %s  %s\n", states[f->state], f->path, f->name);
}

static int kind_of(struct totals *t, const char *kind)
{
    int i = 0;
    while (i < t->n_kinds && strcmp(t->kinds[i], kind)) i++;
    if (i < t->n_kinds) return i;
    if (t->n_kinds == MAX_KINDS) return MAX_KINDS - 1;
    snprintf(t->kinds[i], sizeof t->kinds[i], "%s", kind);
    return t->n_kinds++;
}

static void count(void *user, const kiln_cache_file *f)
{
    struct totals *t = user;
    int k = kind_of(t, f->kind);
    t->n[k]++;
    t->size_B[k] += f->size_B;
    t->n_all++;
    t->all_B += f->size_B;
    t->n_state[f->state]++;
    if (t->show && (!t->only_bad || f->state == KILN_CACHE_DAMAGED)) print_file(f);
}

static void print_total(const char *what, size_t n, uint64_t size_B)
{
    printf("%-9s ", what);
    print_size(size_B, 7);
    printf(" in %zu file%s\n", n, n == 1 ? "" : "s");
}

static int fail(void)
{
    fprintf(stderr, "kiln-cache: %s\n", kiln_error_message());
    return 1;
}

static int list(bool detailed)
{
    struct totals t = {.show = detailed};
    if (kiln_cache_visit(count, &t)) return fail();
    for (int i = 0; i < t.n_kinds; i++) print_total(t.kinds[i], t.n[i], t.size_B[i]);
    print_total("total", t.n_all, t.all_B);
    return fflush(stdout) ? 1 : 0;
}

static int verify(void)
{
    struct totals t = {.show = true, .only_bad = true};
    if (kiln_cache_visit(count, &t)) return fail();
    for (int s = KILN_CACHE_GOOD; s <= KILN_CACHE_UNFINISHED; s++)
        if (t.n_state[s]) printf("%zu %s\n", t.n_state[s], states[s]);
    if (!t.n_all) printf("no files\n");
    return fflush(stdout) || t.n_state[KILN_CACHE_DAMAGED] ? 1 : 0;
}

struct request {
    double older_s;
    uint64_t keep_B;
    bool detailed, clears;
};

static int clear(const struct request *q)
{
    struct totals t = {0};
    kiln_status status = kiln_cache_clear(KILN_CACHE_CLEAR(.older_s = q->older_s, .keep_B = q->keep_B), count, &t);
    print_total("removed", t.n_all, t.all_B);
    if (status) return fail();
    return fflush(stdout) ? 1 : 0;
}

static int print_path(void)
{
    char *path = kiln_cache_folder();
    if (!path) return fail();
    puts(path);
    free(path);
    return fflush(stdout) ? 1 : 0;
}

static void find_tiles(void *user, const kiln_cache_file *f)
{
    bool *found = user;
    if (strcmp(f->kind, "tiles") || f->state != KILN_CACHE_GOOD) return;
    *found = true;
    print_file(f);
}

static int tune(const char *name)
{
    kiln_device *dev = kiln_device_open(name);
    kiln_device_info info = {.size = sizeof info};
    if (!dev || kiln_device_get_info(dev, &info)) return fail();
    bool kept = false, tuned = !kiln_device_tune(dev);
    if (tuned) printf("%s is measured\n", info.name);
    if (!tuned || kiln_cache_visit(find_tiles, &kept))
        fail();
    else if (!kept)
        fprintf(stderr, "kiln-cache: nothing is kept: the folder cannot be written\n");
    kiln_error_clear();
    kiln_device_close(&dev);
    return !tuned || !kept || fflush(stdout) ? 1 : 0;
}

// --- the command line

static void print_version(void *user, const kiln_fact *f)
{
    (void)user;
    if (!strcmp(f->name, "kiln version")) printf("kiln-cache %s\n", f->text);
}

static int reject(const char *what, const char *value)
{
    fprintf(stderr, "kiln-cache: %s \"%s\"\n%s", what, value, usage);
    return 2;
}

static int reject_all(const char *what)
{
    fprintf(stderr, "kiln-cache: %s\n%s", what, usage);
    return 2;
}

static bool parse_days(const char *text, double *older_s)
{
    char *end;
    double days = strtod(text, &end);
    *older_s = days * 86400;
    return end != text && !*end && days >= 0 && isfinite(*older_s);
}

static bool parse_size(const char *text, uint64_t *size_B)
{
    static const char units[] = "KMGT";
    char *end;
    double n = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) n *= (double)(UINT64_C(1) << 10 * (unit - units + 1));
    *size_B = n >= 0 && n < 0x1p63 ? (uint64_t)n : 0;
    return end != text && n >= 0 && n < 0x1p63 && (!*end || (unit && !end[1]));
}

// 0 to go on, else the exit status plus one.
static int take_option(int c, struct request *q)
{
    switch (c) {
    case 'l': q->detailed = true; break;
    case 'o':
        q->clears = true;
        if (!parse_days(optarg, &q->older_s)) return 1 + reject("not a number of days:", optarg);
        break;
    case 'k':
        q->clears = true;
        if (!parse_size(optarg, &q->keep_B)) return 1 + reject("not a size, such as 512M:", optarg);
        break;
    case 'h': fputs(usage, stdout); return 1;
    case 'v': kiln_library_facts(print_version, NULL); return 1;
    default: fputs(usage, stderr); return 3;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"long", 0, NULL, 'l'},      {"older", 1, NULL, 'o'},
                                          {"keep-size", 1, NULL, 'k'}, {"help", 0, NULL, 'h'},
                                          {"version", 0, NULL, 'v'},   {NULL, 0, NULL, 0}};
    struct request q = {0};
    for (int c; (c = getopt_long(argc, argv, "h", names, NULL)) != -1;) {
        int status = take_option(c, &q);
        if (status) return status - 1;
    }
    if (optind == argc) return reject_all("no command is given");
    const char *command = argv[optind];
    bool tunes = !strcmp(command, "tune");
    if (optind + 1 + tunes < argc) return reject("unexpected argument", argv[optind + 1 + tunes]);
    if (q.clears && strcmp(command, "clear")) return reject("--older and --keep-size are not for", command);
    if (q.detailed && strcmp(command, "list")) return reject("--long is not for", command);
    if (!strcmp(command, "list")) return list(q.detailed);
    if (!strcmp(command, "verify")) return verify();
    if (!strcmp(command, "clear")) return clear(&q);
    if (!strcmp(command, "path")) return print_path();
    if (tunes) return tune(optind + 1 < argc ? argv[optind + 1] : "vulkan");
    return reject("there is no command", command);
}
