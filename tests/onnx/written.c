// Every op of the tables, in each dtype that it takes, written as a model of ONNX, read back, and compared with what it
// gives eagerly. Ops that have no form there are listed here, with why; an op that is neither written nor listed fails,
// and so does one that is listed and written.
//
// usage: test_onnx_written [DEVICE [FOLDER]]. Into FOLDER goes a folder for each model with what it takes and gives,
// for check_written.py.
#include "../capability/subject.h"
#include "scalar/number.h"
#include "onnx/table.h"
#include <sys/stat.h>
#include <unistd.h>

static const char *folder;
static int written, refused, failures, exact;
static bool seen_row[OPS_MAX];  // written in some dtype
static bool seen_miss[OPS_MAX]; // refused in some dtype

// Ops without a form in ONNX; "all": in no dtype.
static const struct {
    const char *op, *dtypes;
} unwritten[] = {
#define UNWRITTEN(op, dtypes, why) {#op, dtypes},
#include "unwritten.def"
#undef UNWRITTEN
};

struct one {
    struct subject *s;
    size_t i;
};

static kiln_status run_one(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct one *o = user;
    kiln_tensor *all[OUTPUTS];
    kiln_status status = o->s->fn(o->s, in, n_in, all, o->s->n_out);
    out[0] = status ? NULL : all[o->i];
    return status;
}

static bool complain(const char *what, const struct one *o, kiln_dtype d, const char *why)
{
    print_error("%s of %s (%s): %s %s\n", what, o->s->rows[o->i]->name, kiln_dtype_name(d), why, kiln_error_message());
    kiln_error_clear();
    failures++;
    return false;
}

static bool is_listed(const struct op *op, kiln_dtype d)
{
    for (size_t i = 0; i < sizeof unwritten / sizeof *unwritten; i++) {
        char word[16], list[128];
        snprintf(word, sizeof word, " %s ", kiln_dtype_name(d));
        snprintf(list, sizeof list, " %s ", unwritten[i].dtypes);
        if (!strcmp(unwritten[i].op, op->name) && (strstr(list, " all ") || strstr(list, word))) return true;
    }
    return false;
}

// --- values

static double tolerance(kiln_dtype d, double want)
{
    switch (d) {
    case KILN_F16: return 4e-3 + 4e-3 * fabs(want);
    case KILN_BF16: return 3e-2 + 3e-2 * fabs(want);
    case KILN_F32: return 2e-6 + 2e-5 * fabs(want);
    case KILN_F64: return 1e-12 + 1e-11 * fabs(want);
    default: return 0;
    }
}

static double element(kiln_dtype d, const void *data, int64_t i)
{
    return number_as_double(dtype_class(d), number_read(d, (const char *)data + (size_t)i * kiln_dtype_size(d)));
}

static bool same_values(kiln_tensor *got, kiln_tensor *want, char *why, size_t why_B)
{
    kiln_dtype d = kiln_tensor_dtype(want);
    size_t size_B = (size_t)kiln_numel(want) * kiln_dtype_size(d);
    snprintf(why, why_B, "it has another type");
    if (kiln_tensor_dtype(got) != d || kiln_rank(got) != kiln_rank(want)) return false;
    for (size_t i = 0; i < kiln_rank(want); i++)
        if (kiln_dims(got)[i] != kiln_dims(want)[i]) return false;
    void *a = malloc(size_B + 1), *b = malloc(size_B + 1);
    bool same = a && b && !kiln_read(got, a, size_B) && !kiln_read(want, b, size_B);
    if (same && !memcmp(a, b, size_B)) exact++;
    for (int64_t i = 0; i < kiln_numel(want) && same; i++) {
        double x = element(d, a, i), y = element(d, b, i);
        same = x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= tolerance(d, y);
        if (!same) snprintf(why, why_B, "element %d is %.9g, not %.9g", (int)i, x, y);
    }
    free(a);
    free(b);
    return same;
}

// --- one op

static void keep(const char *model, const struct one *o, kiln_dtype d, kiln_tensor *const *in, kiln_tensor *want)
{
    char path[512], data[700], command[1200];
    snprintf(path, sizeof path, "%s/%04d_%s_%s", folder, written, o->s->rows[o->i]->name, kiln_dtype_name(d));
    mkdir(path, 0777);
    snprintf(command, sizeof command, "cp %s %s/model.onnx", model, path);
    if (system(command)) return;
    for (size_t i = 0; i <= o->s->n_in; i++) {
        bool last = i == o->s->n_in;
        kiln_tensor *t = last ? want : in[i];
        if (kiln_tensor_dtype(t) == KILN_BF16) t = kiln_cast(t, KILN_F32);
        snprintf(data, sizeof data, last ? "%s/output_0.npy" : "%s/input_%zu.npy", path, i);
        kiln_npy_save(data, t);
    }
}

static bool read_back(kiln_device *dev, const char *path, const struct one *o, kiln_tensor *const *in,
                      kiln_tensor **out)
{
    kiln_model *m = kiln_graph_import(dev, path);
    kiln_function *g = m ? kiln_model_function(m, "main") : NULL;
    kiln_status status = g ? kiln_call(g, in, o->s->n_in, out, 1) : kiln_error();
    kiln_function_free(&g);
    kiln_model_free(&m);
    return !status;
}

static bool check_one(kiln_device *dev, kiln_dtype d, const struct one *o)
{
    char path[64], why[200] = "";
    const struct op *op = o->s->rows[o->i];
    kiln_tensor *in[SUBJECT_INPUTS], *want = NULL, *got = NULL;
    subject_inputs(o->s, dev, d, in);
    if (run_one((void *)(uintptr_t)o, in, o->s->n_in, &want, 1)) { // the op does not take this dtype
        kiln_error_clear();
        return true;
    }
    snprintf(path, sizeof path, "%s/kiln_written_%d.onnx", access("/dev/shm", W_OK) ? "." : "/dev/shm", (int)getpid());
    kiln_function *f = kiln_jit(run_one, (void *)(uintptr_t)o, NULL);
    kiln_status status = kiln_graph_export(f, in, o->s->n_in, 1, path, NULL);
    kiln_function_free(&f);
    if (status == KILN_E_UNSUPPORTED && is_listed(op, d)) {
        kiln_error_clear();
        seen_miss[op->index] = true;
        refused++;
        return true;
    }
    if (status) return complain("export", o, d, "");
    if (is_listed(op, d)) return complain("export", o, d, "it is listed in unwritten.def, and written");
    seen_row[op->index] = true;
    if (folder) keep(path, o, d, in, want);
    written++;
    bool read = read_back(dev, path, o, in, &got);
    unlink(path);
    if (!read) return complain("import", o, d, "");
    return same_values(got, want, why, sizeof why) || complain("values", o, d, why);
}

static void check_subject(kiln_device *dev, kiln_dtype d, struct subject *s)
{
    for (size_t i = 0; i < s->n_out; i++) {
        const struct one o = {s, i};
        kiln_scope *scope = kiln_scope_begin();
        check_one(dev, d, &o);
        kiln_scope_end(&scope);
    }
}

// Rows whose column names an ONNX op without a function are written, whoever adds one.
static void check_rows(void)
{
    for (int i = 0; i < onnx_row_count; i++) {
        const struct onnx_row *r = &onnx_rows[i];
        if (r->op < 0 || r->fn || seen_row[r->op]) continue;
        print_error("%s is ONNX's %s by its column, and in no dtype written\n", op_table[r->op]->name, r->name);
        failures++;
    }
}

int main(int argc, char **argv)
{
    static const kiln_dtype dtypes[] = {KILN_F32, KILN_F64, KILN_F16, KILN_BF16, KILN_I64,
                                        KILN_I32, KILN_I16, KILN_I8,  KILN_U8,   KILN_BOOL};
    kiln_device *dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    folder = argc > 2 ? argv[2] : NULL;
    if (!dev || kiln_set_device(dev)) return 77;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) for_each_subject(dev, dtypes[i], check_subject);
    check_rows();
    print_message("%d models, %d to the bit, %d refused, %d failures\n", written, exact, refused, failures);
    kiln_device_close(&dev);
    return failures > 0;
}
