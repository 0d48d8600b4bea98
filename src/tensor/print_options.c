// Options of printing: checked, and those of the process.
#include "base/options.h"
#include "base/process.h"
#include "tensor/print.h"
#include "tensor/tensor.h"
#include <inttypes.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_print, lock)
static const kiln_print_opts at_first = {.precision = 8, .threshold = 1000, .edge = 3, .width = 75};
static kiln_print_opts of_process = {.precision = 8, .threshold = 1000, .edge = 3, .width = 75};

static kiln_status check(const char *function, const char *name, int64_t v, int64_t least, int64_t most)
{
    if (v >= least && v <= most) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: .%s is %" PRId64 ", not from %" PRId64 " to %" PRId64, function, name, v,
                     least, most);
}

static kiln_status check_all(const char *function, const kiln_print_opts *o)
{
    TRY(check(function, "precision", o->precision, -1, 32));
    TRY(check(function, "threshold", o->threshold, -1, INT64_MAX));
    TRY(check(function, "edge", o->edge, 0, INT32_MAX));
    TRY(check(function, "width", o->width, 0, INT32_MAX));
    TRY(check(function, "notation", o->notation, 0, KILN_PRINT_SCIENTIFIC));
    return check(function, "sign", o->sign, 0, KILN_PRINT_SIGN_SPACE);
}

static void fill(kiln_print_opts *o, const kiln_print_opts *with)
{
    o->size = sizeof *o;
    if (!o->precision) o->precision = with->precision;
    if (!o->threshold) o->threshold = with->threshold;
    if (!o->edge) o->edge = with->edge;
    if (!o->width) o->width = with->width;
    if (!o->notation) o->notation = with->notation;
    if (!o->sign) o->sign = with->sign;
}

kiln_status print_options_read(const char *function, const kiln_print_opts *opts, kiln_print_opts *out)
{
    TRY(options_read(function, KILN_PRINT, out, opts));
    TRY(check_all(function, out));
    pthread_mutex_lock(&lock);
    fill(out, &of_process);
    pthread_mutex_unlock(&lock);
    return KILN_OK;
}

kiln_status kiln_set_print_options(const kiln_print_opts *opts)
{
    kiln_print_opts o;
    if (error_pending) return error_pending;
    TRY(options_read("set_print_options", KILN_PRINT, &o, opts));
    TRY(check_all("set_print_options", &o));
    fill(&o, &at_first);
    pthread_mutex_lock(&lock);
    of_process = o;
    pthread_mutex_unlock(&lock);
    return KILN_OK;
}

kiln_status kiln_get_print_options(kiln_print_opts *out)
{
    kiln_print_opts o;
    if (error_pending) return error_pending;
    if (!out) return error_set(KILN_E_ARGUMENT, "get_print_options: out is NULL");
    TRY(options_read("get_print_options", KILN_PRINT, &o, out));
    TRY(print_options_read("get_print_options", NULL, &o));
    sized_fill(out, &o, sizeof o);
    return KILN_OK;
}
