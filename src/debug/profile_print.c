// Tables of profiles: of the one that is being taken, or was last, and of files.
#include "base/options.h"
#include "base/process.h"
#include "debug/profile_table.h"
#include "device/device.h"
#include <kiln/timing.h>
#include <math.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_ceilings, lock)
enum { TRIES = 3 };   // the best counts, for others may use the machine
#define COPY_B 0x1p27 // that are read and written

// Not a part of a profile, and the most memory that was in use stays what it was.
static void measure(kiln_device *dev)
{
    bool quiet = profile_quiet(true);
    uint64_t peak_B = STAT_GET(dev, heap_peak_B);
    double copy = 0, products = 0;
    for (int i = 0; i < TRIES && !kiln_error(); i++) {
        copy = fmax(copy, kiln_device_ceiling(dev, KILN_CEILING_COPY, COPY_B));
        products = fmax(products, kiln_device_ceiling(dev, KILN_CEILING_FMA, 0));
    }
    if (!kiln_error()) dev->copy_B_per_s = copy, dev->flop_per_s = products;
    kiln_error_clear(); // a capture is going on, or memory is out: a table can be without
    STAT_SET(dev, heap_peak_B, peak_B);
    profile_quiet(quiet);
}

// Of the device of that kind and name on this machine, opened if need be. Without one they are not known.
static void find_ceilings(struct table_device *d)
{
    kiln_device *dev = d->kind[0] ? device_named(d->kind, d->name) : NULL;
    if (!dev) return;
    pthread_mutex_lock(&lock);
    if (dev->copy_B_per_s == 0 && dev->ops->role != ROLE_NONE) measure(dev);
    d->copy_B_per_s = dev->copy_B_per_s;
    d->flop_per_s = dev->flop_per_s;
    pthread_mutex_unlock(&lock);
    device_unref(dev);
}

static kiln_status write_out(struct str *s, FILE *file, const char *caller)
{
    TRY(str_check(s));
    bool written = fwrite(str_text(s), 1, s->len, file) == s->len && !fflush(file);
    return written ? KILN_OK : error_set(KILN_E_IO, "%s: the table cannot be written", caller);
}

static kiln_status read_options(const char *caller, const kiln_profile_print_opts *opts, kiln_profile_print_opts *o)
{
    TRY(options_read(caller, KILN_PROFILE_PRINT, o, opts));
    if ((unsigned)o->by <= KILN_PROFILE_BY_CELL) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: by is %d; see kiln_profile_by", caller, (int)o->by);
}

static kiln_status print(const char *caller, struct profile_table *t, FILE *file, const kiln_profile_print_opts *o)
{
    struct str s;
    str_init(&s);
    table_print(t, o, &s);
    kiln_status status = write_out(&s, file, caller);
    str_free(&s);
    return status;
}

struct visit {
    struct profile_table *t;
    kiln_status status;
};

static void add_device(void *user, const char *name, const char *kind, uint64_t peak_B)
{
    struct visit *v = user;
    struct table_device *d = table_add_device(v->t, name, kind);
    if (d) d->peak_B = (double)peak_B;
}

static void add_row(void *user, const struct profile_row *row)
{
    struct visit *v = user;
    if (!v->status) v->status = table_add(v->t, row);
}

kiln_status kiln_profile_print(FILE *file, const kiln_profile_print_opts *opts)
{
    kiln_profile_print_opts o;
    struct profile_table t;
    uint64_t lost;
    if (error_pending) return error_pending;
    if (!file) return error_set(KILN_E_ARGUMENT, "profile_print: file is NULL");
    TRY(read_options("profile_print", opts, &o));
    if (!profile_is_known())
        return error_set(KILN_E_STATE, "profile_print: no profile has been taken: call kiln_profile_begin first");
    if (profile_on()) TRY(profile_settle_devices());
    table_init(&t, o.by);
    struct visit v = {&t, KILN_OK};
    profile_visit_devices(add_device, &v);
    for (int i = 0; i < t.n_devices && !o.no_ceilings; i++) find_ceilings(&t.devices[i]);
    profile_visit(add_row, &v, &lost);
    t.lost = (double)lost;
    kiln_status status = v.status ? v.status : print("profile_print", &t, file, &o);
    table_finish(&t);
    return status;
}

kiln_status kiln_profile_print_file(const char *path, FILE *file, const kiln_profile_print_opts *opts)
{
    kiln_profile_print_opts o;
    struct profile_table t;
    if (error_pending) return error_pending;
    if (!path) return error_set(KILN_E_ARGUMENT, "profile_print_file: path is NULL");
    if (!file) return error_set(KILN_E_ARGUMENT, "profile_print_file: file is NULL");
    TRY(read_options("profile_print_file", opts, &o));
    table_init(&t, o.by);
    kiln_status status = profile_read(path, &t, o.no_ceilings ? NULL : find_ceilings);
    if (!status) status = print("profile_print_file", &t, file, &o);
    table_finish(&t);
    return status;
}
