// A result in lines.
#include "base/options.h"
#include "base/str.h"
#include "timing/timing.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// "12.3 us": three digits and a prefix.
static void add_scaled(struct str *s, double v, const char *const *units, int n, double step)
{
    int i = 0;
    while (i + 1 < n && fabs(v) >= 999.5) {
        v /= step;
        i++;
    }
    str_addf(s, "%.*f %s", fabs(v) >= 99.95 ? 0 : fabs(v) >= 9.995 ? 1 : 2, v, units[i]);
}

static void add_time(struct str *s, double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    add_scaled(s, ns, units, 4, 1000);
}

static void add_bytes(struct str *s, double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    add_scaled(s, bytes, units, 5, 1000);
}

static void add_flops(struct str *s, double flops)
{
    static const char *const units[] = {"flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"};
    add_scaled(s, flops, units, 6, 1000);
}

static void add_times(struct str *s, const kiln_bench_result *r)
{
    str_add(s, "median ");
    add_time(s, r->median_ns);
    str_add(s, ", min ");
    add_time(s, r->min_ns);
    str_add(s, ", p90 ");
    add_time(s, r->p90_ns);
    str_add(s, ", iqr ");
    add_time(s, r->iqr_ns);
    str_addf(s, ", of %" PRIu64 " calls%s\n", r->runs, r->device_clock ? ", by the device's clock" : "");
    str_add(s, "first call ");
    add_time(s, r->first_ns);
    if (r->compile_ns > 0) {
        str_add(s, ", of it ");
        add_time(s, r->compile_ns);
        str_add(s, " capture and compilation");
    }
    str_add(s, "\ncalling thread ");
    add_time(s, r->cpu_ns);
    str_addf(s, "; %g launches, %g submits, %g waits a call\n", r->launches, r->submits, r->waits);
}

// What is moved, or computed, the rate, and the share of the ceiling.
static void add_rate(struct str *s, const kiln_bench_result *r, double amount, double ceiling, double share,
                     void (*add)(struct str *, double), const char *what, const char *of)
{
    if (!(amount > 0) || !(r->median_ns > 0)) return;
    str_addf(s, "%s ", what);
    add(s, amount);
    str_add(s, ": ");
    add(s, 1e9 * amount / r->median_ns);
    str_add(s, "/s");
    if (ceiling > 0) {
        str_addf(s, ", %.3g%% of %s, ", 100 * share, of);
        add(s, ceiling);
        str_add(s, "/s");
    }
    str_add(s, "\n");
}

kiln_status kiln_bench_print(const kiln_bench_result *r, FILE *f)
{
    struct str s;
    if (kiln_error()) return kiln_error();
    TRY(sized_check_as("bench_print", "r", "kiln_bench_result", r));
    if (!f) return error_set(KILN_E_ARGUMENT, "bench_print: f is NULL");
    kiln_bench_result whole = {.size = sizeof whole};
    memcpy(&whole, r, r->size < sizeof whole ? r->size : sizeof whole);
    str_init(&s);
    add_times(&s, &whole);
    add_rate(&s, &whole, whole.moved_B, whole.copy_B_s, whole.memory_share, add_bytes, "moves", "a copy");
    add_rate(&s, &whole, whole.flops, whole.fma_flops, whole.flops_share, add_flops, "computes", "the FMA peak");
    kiln_status status = str_check(&s);
    if (!status && fputs(str_text(&s), f) < 0) status = error_set(KILN_E_IO, "bench_print: the file cannot be written");
    str_free(&s);
    return status;
}
