// kiln-bench: times the cases of peers/torch_rows.py with this library.
#include "bench.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <kiln/version.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: kiln-bench [options]\n"
    "       kiln-bench --compare PEER.json OWN.json\n"
    "Times a fixed set of computations; the same set, timed with PyTorch, is bench/peers/torch_rows.py.\n"
    "  --device D     cpu, gpu, vulkan, vulkan:N; default: $KILN_DEVICE, else the best there is\n"
    "  --size S       small (for CPUs), large (for GPUs) or tiny (to try the rows; times mean little); default: small\n"
    "  --modes LIST   eager, jit (captured as one graph), auto (captured by running), with commas between; default: "
    "eager,jit\n"
    "  --filter GLOB  only rows whose name matches, as in file names\n"
    "  --group NAME   only rows of this family: vector, matrix, norm, index, random, move, product, linear, image,\n"
    "                 attention, call, loop, net; all: of each, without the rows about the process\n"
    "  --budget S     seconds of timed runs a row (1)\n"
    "  --memory       also train_10000: figures of the heap after 100 and 10,000 small steps of training\n"
    "  --growth       instead of times: memory that a new process takes over ten calls at most, beside what it had\n"
    "  --list         print the names of the rows and exit\n"
    "  --json FILE    write the figures as JSON; - is standard output\n"
    "  --html FILE    write them as a page, with a plot of what limits them\n"
    "  --beside FILE  on the page: ratios to the JSON document of a peer, or how times changed since one of this\n"
    "                 program; may be given again\n"
    "  --compare A B  print the ratio of two JSON files row by row, A's time over B's, each in its best mode, and the\n"
    "                 geometric mean\n"
    "  --version      print the version and exit\n"
    "  --help         print this text and exit\n"
    "Times are medians after a warm-up, inputs random. A row that fails says so, and the exit status is 1; so it is "
    "where\n"
    "a row gives other values captured than eager. A row that takes longer captured than eager is marked: by more than "
    "3 %\n"
    "with jit, by more than 10 % with auto.\n";

static bool chosen(const struct plan *p, const char *name)
{
    return !p->filter || !fnmatch(p->filter, name, 0);
}

static bool chosen_case(const struct plan *p, const struct bench_case *c)
{
    return chosen(p, c->name) && (!p->group || !strcmp(p->group, c->group) || !strcmp(p->group, "all"));
}

static int list_rows(const struct plan *p)
{
    for (int i = 0; i < bench_case_count; i++) {
        if (chosen_case(p, &bench_cases[i])) printf("%s\n", bench_cases[i].name);
    }
    if (p->group) return 0;
    for (int i = 0; i < process_row_count; i++) {
        bool again = i && !strcmp(process_rows[i].name, process_rows[i - 1].name);
        if (!again && chosen(p, process_rows[i].name)) printf("%s\n", process_rows[i].name);
    }
    return 0;
}

static FILE *progress = NULL;

// Shows a row as soon as it is known. False when it failed.
static bool show(const struct row *r)
{
    write_row(r, progress);
    fflush(progress);
    return !r->error[0];
}

static bool run_case(const struct plan *p, kiln_device *dev, const struct bench_case *c, struct report *report)
{
    bool ok = true;
    struct row eager = {.time_ns = NAN};
    for (enum mode m = 0; m < MODE_COUNT; m++) {
        if (!p->modes[m]) continue;
        struct row *r = report_add(report, c->name, mode_name(m));
        if (!r) return false;
        if (p->growth)
            measure_growth(p, c, m, r);
        else
            measure_case(p, dev, c, m, r);
        if (m == MODE_EAGER && !r->error[0]) eager = *r;
        if (m != MODE_EAGER) mark_slower(p, dev, c, m, &eager, r);
        ok &= show(r);
    }
    return ok;
}

static bool run_process_row(const struct plan *p, kiln_device *dev, const struct process_row *of, struct report *report)
{
    struct row *r = report_add(report, of->name, of->mode);
    if (!r) return false;
    of->measure(p, dev, of->kind, r);
    return show(r);
}

// The rows about the process.
static bool run_processes(const struct plan *p, kiln_device *dev, bool on_cpu, struct report *report)
{
    bool ok = true;
    for (int i = 0; i < process_row_count; i++) {
        const struct process_row *of = &process_rows[i];
        bool wanted = (on_cpu || !of->cpu_alone) && (of->on_request ? p->memory : p->modes[of->needs]);
        if (wanted && chosen(p, of->name)) ok &= run_process_row(p, dev, of, report);
    }
    return ok;
}

static bool run_rows(const struct plan *p, kiln_device *dev, bool on_cpu, struct report *report)
{
    bool ok = true;
    for (int i = 0; i < bench_case_count; i++)
        if (chosen_case(p, &bench_cases[i])) ok &= run_case(p, dev, &bench_cases[i], report);
    return (p->group || p->growth || run_processes(p, dev, on_cpu, report)) && ok;
}

static bool fail_to_write(const char *path)
{
    fprintf(stderr, "kiln-bench: %s cannot be written: %s\n", path, strerror(errno));
    return false;
}

// Asked before minutes are spent on what would be lost. Leaves what is there.
static bool may_write(const char *path)
{
    if (!path || !strcmp(path, "-")) return true;
    FILE *f = fopen(path, "a");
    return f ? !fclose(f) : fail_to_write(path);
}

static bool write_file(const char *path, const struct report *r, void (*write)(const struct report *, FILE *))
{
    if (!path) return true;
    FILE *f = strcmp(path, "-") ? fopen(path, "w") : stdout;
    if (f) write(r, f);
    bool ok = f && !fflush(f) && !ferror(f);
    if (f && f != stdout) ok &= !fclose(f);
    return ok || fail_to_write(path);
}

static int run(const struct plan *p, struct report *report, const char *json, const char *html)
{
    progress = json && !strcmp(json, "-") ? stderr : stdout;
    kiln_device_info info = {.size = sizeof info};
    report->size = p->size;
    if (!beside_load(report)) return 1;
    if (!may_write(json) || !may_write(html)) return 1;
    kiln_device *dev = kiln_device_open(p->device);
    if (!dev || kiln_device_get_info(dev, &info)) {
        fprintf(stderr, "kiln-bench: %s\n", kiln_error_message());
        return 1;
    }
    report->threads = info.threads;
    snprintf(report->device, sizeof report->device, "%s: %s", info.kind, info.name);
    snprintf(report->driver, sizeof report->driver, "%s", info.driver);
    fprintf(progress, "%s, %s, size %s\n", report->device, report->driver, report->size);
    kiln_seed(dev, 0);
    bool ok = run_rows(p, dev, !strcmp(info.kind, "cpu"), report);
    if (!report->n_rows) {
        fprintf(stderr, "kiln-bench: no row matches \"%s\"\n", p->filter ? p->filter : "*");
        ok = false;
    } else {
        ok &= write_file(json, report, write_json);
        ok &= write_file(html, report, write_html);
    }
    kiln_device_close(&dev);
    return ok ? 0 : 1;
}

static int reject(const char *what, const char *value)
{
    fprintf(stderr, "kiln-bench: %s \"%s\"\n%s", what, value, usage);
    return 2;
}

struct request {
    struct plan plan;
    struct report report;
    const char *json, *html, *peer;
    bool list;
};

static int add_beside(struct report *r, const char *path)
{
    if (r->n_beside == MOST_BESIDE) return 1 + reject("too many documents beside:", path);
    r->beside[r->n_beside++].path = path;
    return 0;
}

// "eager,jit": false for a name that is no mode, and for none.
static bool take_modes(const char *list, bool *modes)
{
    memset(modes, 0, MODE_COUNT * sizeof *modes);
    for (;; list++) {
        size_t length = strcspn(list, ",");
        enum mode m = 0;
        while (m < MODE_COUNT && (strlen(mode_name(m)) != length || memcmp(mode_name(m), list, length))) m++;
        if (m == MODE_COUNT) return false;
        modes[m] = true;
        list += length;
        if (!*list) return true;
    }
}

// 0 to go on, else the exit status plus one.
static int take_option(int c, struct request *q)
{
    switch (c) {
    case 'd': q->plan.device = optarg; break;
    case 's':
        q->plan.size = optarg;
        if (!bench_sizes(optarg)) return 1 + reject("no such size:", optarg);
        break;
    case 'm':
        if (!take_modes(optarg, q->plan.modes)) return 1 + reject("not a list of modes:", optarg);
        break;
    case 'f': q->plan.filter = optarg; break;
    case 'g':
        q->plan.group = optarg;
        if (!is_group(optarg)) return 1 + reject("no such group:", optarg);
        break;
    case 'b':
        q->plan.budget_s = strtod(optarg, NULL);
        if (!(q->plan.budget_s > 0)) return 1 + reject("not a number of seconds:", optarg);
        break;
    case 'M': q->plan.memory = true; break;
    case 'W': q->plan.growth = true; break;
    case 'R': return 1 + growth_child(&q->plan, optarg);
    case 'l': q->list = true; break;
    case 'j': q->json = optarg; break;
    case 'H': q->html = optarg; break;
    case 'B': return add_beside(&q->report, optarg);
    case 'c': q->peer = optarg; break;
    case 'C': return 1 + cold_child();
    case 'F': return 1 + first_call_child(q->plan.device, optarg);
    case 'G': return 1 + warm_gpt_child(&q->plan);
    case 'v': printf("kiln-bench %s\n", KILN_VERSION_STRING); return 1;
    case 'h': fputs(usage, stdout); return 1;
    default: fputs(usage, stderr); return 3;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"device", 1, NULL, 'd'},      {"size", 1, NULL, 's'},      {"modes", 1, NULL, 'm'},
        {"filter", 1, NULL, 'f'},      {"group", 1, NULL, 'g'},     {"budget", 1, NULL, 'b'},
        {"memory", 0, NULL, 'M'},      {"growth", 0, NULL, 'W'},    {"growth-child", 1, NULL, 'R'},
        {"list", 0, NULL, 'l'},        {"json", 1, NULL, 'j'},      {"html", 1, NULL, 'H'},
        {"compare", 1, NULL, 'c'},     {"beside", 1, NULL, 'B'},    {"cold-child", 0, NULL, 'C'},
        {"first-child", 1, NULL, 'F'}, {"gpt-child", 0, NULL, 'G'}, {"version", 0, NULL, 'v'},
        {"help", 0, NULL, 'h'},        {NULL, 0, NULL, 0}};
    struct request q = {.plan = {.size = "small", .budget_s = 1, .modes = {true, true}}};
    for (int c; (c = getopt_long(argc, argv, "h", names, NULL)) != -1;) {
        int status = take_option(c, &q);
        if (status) return status - 1;
    }
    if (q.peer) {
        if (argc - optind != 1) return reject("--compare takes two files; after", q.peer);
        return compare(q.peer, argv[optind], stdout);
    }
    if (optind < argc) return reject("unexpected argument", argv[optind]);
    if (q.list) return list_rows(&q.plan);
    int status = run(&q.plan, &q.report, q.json, q.html);
    beside_free(&q.report);
    report_free(&q.report);
    return status;
}
