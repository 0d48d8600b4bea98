// A result in lines.
#include "base/options.h"
#include "base/quantity.h"
#include "base/str.h"
#include "timing/timing.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void add_times(struct str *s, const kiln_bench_result *r)
{
    str_add(s, "median ");
    str_add_time(s, r->median_ns);
    str_add(s, ", min ");
    str_add_time(s, r->min_ns);
    str_add(s, ", p90 ");
    str_add_time(s, r->p90_ns);
    str_add(s, ", iqr ");
    str_add_time(s, r->iqr_ns);
    str_addf(s, ", of %" PRIu64 " calls%s\n", r->runs, r->device_clock ? ", by the device's clock" : "");
    str_add(s, "first call ");
    str_add_time(s, r->first_ns);
    if (r->compile_ns > 0) {
        str_add(s, ", of it ");
        str_add_time(s, r->compile_ns);
        str_add(s, " capture and compilation");
    }
    str_add(s, "\ncalling thread ");
    str_add_time(s, r->cpu_ns);
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
    add_rate(&s, &whole, whole.moved_B, whole.copy_B_s, whole.memory_share, str_add_bytes, "moves", "a copy");
    add_rate(&s, &whole, whole.flops, whole.fma_flops, whole.flops_share, str_add_flops, "computes", "the FMA peak");
    kiln_status status = str_check(&s);
    if (!status && fputs(str_text(&s), f) < 0) status = error_set(KILN_E_IO, "bench_print: the file cannot be written");
    str_free(&s);
    return status;
}
