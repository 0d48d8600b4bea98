// usage: fuzz [--seed N] [--count N] [--minutes M] [--device NAME] [--keep-going] [--way NAME]
//             [--without KIND] [--often KIND] [--floats f16|bf16] [--still]
//             [--stats] [--print] [--refusals] [--raw]
//
// Runs `count` programs from seed N on, or as many as there are minutes. A program that fails is cut down and printed,
// and the exit status is 1; --keep-going then goes on to the next. --way runs one way only, --raw does not cut down,
// --without leaves steps of a kind out and --still has views lie where they lay at the first call, to look past a
// defect. --often makes every second step one of a kind, in turn where there are several; --floats makes all floats of
// programs f16 or bf16, so that both sides of a product are. The way `wide`, eager mode with all floats in f64, runs
// only where it is named.
// --stats counts what ran, --print prints each program
// before it runs, --refusals prints why eager mode refused steps, which are then left out.
#include "fuzz.h"
#include <time.h>

struct options {
    uint64_t seed, count;
    double minutes;
    const char *device;
    bool keep_going, stats, refusals, raw, still, print;
    bool without[128]; // by kind of step
    uint16_t often[8];
    int n_often;
    kiln_dtype floats; // 0: as they are drawn
    uint32_t ways;
};

static bool read_way(const char *name, uint32_t *ways)
{
    for (int i = 0; i < WAYS; i++)
        if (!strcmp(name, way_names[i])) return *ways = 1u << i, true;
    return false;
}

static bool add_often(const char *name, struct options *o)
{
    for (int i = 0; i < n_step_kinds && o->n_often < (int)(sizeof o->often / sizeof o->often[0]); i++)
        if (!strcmp(name, step_kinds[i].name)) return o->often[o->n_often++] = (uint16_t)i, true;
    return false;
}

static bool read_floats(const char *name, struct options *o)
{
    o->floats = !strcmp(name, "f16") ? KILN_F16 : KILN_BF16;
    return o->floats == KILN_F16 || !strcmp(name, "bf16");
}

static bool leave_out(const char *name, struct options *o)
{
    for (int i = 0; i < n_step_kinds; i++)
        if (!strcmp(name, step_kinds[i].name)) return o->without[i] = true;
    return false;
}

static bool read_options(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        bool takes = true;
        if (!strcmp(name, "--seed"))
            o->seed = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--count"))
            o->count = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--minutes"))
            o->minutes = strtod(value, NULL), o->count = UINT64_MAX;
        else if (!strcmp(name, "--device"))
            o->device = value;
        else if (!strcmp(name, "--way")) {
            if (!read_way(value, &o->ways)) return false;
        } else if (!strcmp(name, "--without")) {
            if (!leave_out(value, o)) return false;
        } else if (!strcmp(name, "--often")) {
            if (!add_often(value, o)) return false;
        } else if (!strcmp(name, "--floats")) {
            if (!read_floats(value, o)) return false;
        } else {
            takes = false;
            if (!strcmp(name, "--keep-going"))
                o->keep_going = true;
            else if (!strcmp(name, "--stats"))
                o->stats = true;
            else if (!strcmp(name, "--refusals"))
                o->refusals = true;
            else if (!strcmp(name, "--still"))
                o->still = true;
            else if (!strcmp(name, "--print"))
                o->print = true;
            else if (!strcmp(name, "--raw"))
                o->raw = true;
            else
                return false;
        }
        i += takes;
    }
    return true;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void report(struct harness *h, struct program *p, const struct finding *f, bool raw)
{
    printf("seed %llu fails, %s, call %d: %s\n", (unsigned long long)p->seed, way_names[f->way], f->call, f->what);
    fflush(stdout);
    if (!raw) shrink_program(h, p, f->way);
    uint32_t ways = h->ways;
    h->ways = 1u << f->way;
    struct finding last = check_program(h, p);
    h->ways = ways;
    print_program(h, p, stdout);
    printf("  %s, call %d: %s\n\n", way_names[last.way], last.call, last.what);
    fflush(stdout);
}

static void print_stats(const struct harness *h)
{
    for (int i = 0; i < n_step_kinds; i++)
        printf("%-12s %9llu done %7llu refused\n", step_kinds[i].name, (unsigned long long)steps_done[i],
               (unsigned long long)steps_failed[i]);
    for (int i = 0; i < GRADIENTS; i++) printf("gradient %d: %llu\n", i, (unsigned long long)h->by_gradient[i]);
    for (int i = 0; i < WAYS; i++)
        printf("%-8s %llu, %llu refused\n", way_names[i], (unsigned long long)h->by_way[i],
               (unsigned long long)h->refused[i]);
}

static void bend(struct program *p, const struct options *o)
{
    for (int i = 0; o->n_often && i < p->n_steps; i += 2) p->step[i].kind = o->often[i / 2 % o->n_often];
    for (int i = 0; o->floats && i < (int)(sizeof p->dtype / sizeof p->dtype[0]); i++)
        if (is_floating(p->dtype[i])) p->dtype[i] = o->floats;
    for (int i = 0; i < p->n_steps; i++) p->step[i].dropped |= o->without[p->step[i].kind];
    for (int i = 0; i < p->n_sources && o->still; i++)
        for (int call = 1; call < CALLS; call++) p->source[i].at[call] = p->source[i].at[0];
}

static uint64_t run_all(struct harness *h, const struct options *o)
{
    uint64_t failed = 0;
    double end = now() + 60 * o->minutes;
    for (uint64_t seed = o->seed; seed - o->seed < o->count; seed++) {
        struct program p;
        if (o->minutes > 0 && now() > end) break;
        draw_program(&p, seed);
        bend(&p, o);
        if (o->print && settle(h, &p)) print_program(h, &p, stdout);
        fflush(stdout);
        struct finding f = check_program(h, &p);
        if (!f.found) continue;
        failed++;
        report(h, &p, &f, o->raw);
        if (!o->keep_going) break;
    }
    return failed;
}

// A program that does nothing finds nothing.
static bool all_kinds_ran(const struct harness *h)
{
    bool all = true;
    for (int i = 0; i < n_step_kinds; i++)
        if (!steps_done[i]) all = false, printf("no step of kind %s ran\n", step_kinds[i].name);
    for (int i = 0; i < GRADIENTS; i++)
        if (!h->by_gradient[i]) all = false, printf("no program with gradient %d ran\n", i);
    for (int i = 0; i < WAYS; i++)
        if (h->refused[i] > 8 + h->by_way[i] / 25)
            all = false, printf("%s refused %d programs\n", way_names[i], (int)h->refused[i]);
    return all;
}

int main(int argc, char **argv)
{
    struct options o = {.seed = 1, .count = 1000, .device = "cpu", .ways = ~0u};
    if (!read_options(argc, argv, &o)) return fprintf(stderr, "fuzz: see the top of fuzz/main.c\n"), 2;
    kiln_set_log(NULL, NULL);
    struct harness h = {.cpu = kiln_device_open("cpu"), .ways = o.ways, .tells_refusals = o.refusals};
    h.dev = strcmp(o.device, "cpu") ? kiln_device_open(o.device) : h.cpu;
    if (!h.cpu || !h.dev) return 77;
    double start = now();
    uint64_t failed = run_all(&h, &o);
    printf("%llu programs, %llu left out, %llu failed, %.1f s\n", (unsigned long long)h.programs,
           (unsigned long long)h.skipped, (unsigned long long)failed, now() - start);
    if (o.stats) print_stats(&h);
    bool fine = !failed && (o.count < 500 || o.keep_going || o.ways != ~0u || all_kinds_ran(&h));
    if (h.dev != h.cpu) kiln_device_close(&h.dev);
    kiln_device_close(&h.cpu);
    return !fine;
}
