// Tables of profiles: of the one that is being taken, or was last, and of files.
#include "base/options.h"
#include "debug/profile_table.h"
#include "device/device.h"
#include <string.h>

// The device of that kind and name on this machine, opened if need be. Without one its ceilings are not known.
static void find_ceilings(struct table_device *d)
{
    kiln_device *dev = d->kind[0] ? device_named(d->kind, d->name) : NULL;
    d->ceilings.size = sizeof d->ceilings;
    if (dev && kiln_device_get_ceilings(dev, &d->ceilings)) {
        kiln_error_clear();
        d->ceilings = (kiln_device_ceilings){.size = sizeof d->ceilings};
    }
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
