// kiln-run: runs a function of a file of graphs on arrays in npy files.
#include <kiln/debug.h>
#include <kiln/kiln.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: kiln-run FILE [--function NAME] [--input NAME=FILE.npy]... [--number NAME=VALUE]...\n"
    "                [--output NAME=FILE.npy]... [--save FILE] [--repeat N] [--device NAME] [--stats]\n"
    "       kiln-run FILE --compile [--function NAME] [--size NAME=N]... [--device NAME]\n"
    "       kiln-run FILE --list\n"
    "Runs a function of a file that kiln_model_save or kiln_graph_export wrote, or a model of ONNX. Outputs that no\n"
    "--output names are printed.\n"
    "  --function NAME     which function; needed where the file has several\n"
    "  --input NAME=FILE   an input, from an npy file; its dtype must be the input's\n"
    "  --number NAME=VALUE an input that is a number\n"
    "  --output NAME=FILE  write an output as npy\n"
    "  --save FILE         write the model with its weights as they are afterwards\n"
    "  --repeat N          run it N times, with the same inputs\n"
    "  --device NAME       the device; default: $KILN_DEVICE, else a real GPU, else the CPU\n"
    "  --compile           compile into the cache of kernels, run nothing, and print what a run costs\n"
    "  --size NAME=N       --compile: the size of an open dimension\n"
    "  --stats             print what was captured and compiled on standard error\n"
    "  --list              print functions, inputs, outputs and weights\n"
    "  --version           print the version and exit\n"
    "  --help              print this text and exit\n";

enum { PAIRS_MAX = 256, RANK = KILN_MAX_RANK };

// NAME=VALUE.
struct pair {
    const char *name, *value;
    bool used;
};
struct pairs {
    struct pair v[PAIRS_MAX];
    size_t n;
};

struct options {
    const char *file, *function, *device, *save;
    struct pairs inputs, numbers, outputs, sizes;
    long repeat;
    bool compile, list, stats;
};

static int fail(const char *format, const char *what)
{
    fprintf(stderr, "kiln-run: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "\n");
    return 1;
}

static int fail_kiln(void)
{
    return fail("%s", kiln_error_message());
}

static struct pair *find(struct pairs *p, const char *name, size_t n)
{
    for (size_t i = 0; i < p->n; i++)
        if (strlen(p->v[i].name) == n && !memcmp(p->v[i].name, name, n)) return &p->v[i];
    return NULL;
}

// What is wrong with the command line.
static int wrong(const char *what, const char *value)
{
    fprintf(stderr, "kiln-run: %s%s\n%s", what, value, usage);
    return 2;
}

// 0, or the exit status.
static int add_pair(struct pairs *p, char *text)
{
    char *sign = strchr(text, '=');
    if (!sign || sign == text) return wrong("this is not NAME=VALUE: ", text);
    if (p->n == PAIRS_MAX) return wrong("too many of one option, at ", text);
    if (find(p, text, (size_t)(sign - text))) return wrong("given twice: ", text);
    *sign = '\0';
    p->v[p->n++] = (struct pair){text, sign + 1, false};
    return 0;
}

// --- listing

static int list_function(const kiln_model *m, const char *name)
{
    printf("function %s\n", name);
    kiln_model_value v = {.size = sizeof v};
    for (size_t i = 0; i < kiln_model_input_count(m, name); i++) {
        if (kiln_model_input(m, name, i, &v)) return fail_kiln();
        printf("  input %s: %s%s\n", v.name, v.is_number ? "number " : "", v.text);
    }
    for (size_t i = 0; i < kiln_model_output_count(m, name); i++) {
        if (kiln_model_output(m, name, i, &v)) return fail_kiln();
        printf("  output %s: %s\n", v.name, v.text);
    }
    return 0;
}

static void print_type(kiln_tensor *t)
{
    printf("%s[", kiln_dtype_name(kiln_tensor_dtype(t)));
    for (size_t i = 0; i < kiln_rank(t); i++) printf("%s%lld", i ? "," : "", (long long)kiln_dims(t)[i]);
    printf("]");
}

static int list_weights(const kiln_model *m)
{
    size_t n = kiln_model_weights(m, NULL, NULL, 0);
    const char **names = calloc(n + 1, sizeof *names);
    kiln_tensor **tensors = calloc(n + 1, sizeof *tensors);
    int64_t elements = 0;
    if (!names || !tensors) return fail("%s", "out of memory");
    kiln_model_weights(m, names, tensors, n);
    for (size_t i = 0; i < n; i++) {
        printf("weight %s: ", names[i]);
        print_type(tensors[i]);
        printf("%s\n", kiln_requires_grad(tensors[i]) ? " parameter" : "");
        elements += kiln_numel(tensors[i]);
    }
    if (n) printf("%zu weights, %lld elements\n", n, (long long)elements);
    free(names);
    free(tensors);
    return 0;
}

static int list(const kiln_model *m)
{
    for (size_t i = 0; i < kiln_model_function_count(m); i++)
        if (list_function(m, kiln_model_function_name(m, i))) return 1;
    return list_weights(m);
}

// --- names

// What a function takes or gives: arrays, numbers, or both.
struct ports {
    const char *what;
    kiln_status (*get)(const kiln_model *m, const char *function, size_t i, kiln_model_value *out);
    size_t n;
    bool arrays, numbers;
};

static bool has(const struct options *o, const kiln_model *m, const struct ports *of, size_t i, kiln_model_value *v)
{
    *v = (kiln_model_value){.size = sizeof *v};
    return !of->get(m, o->function, i, v) && (v->is_number ? of->numbers : of->arrays);
}

static int refuse_name(const struct options *o, const kiln_model *m, const struct ports *of, const char *name)
{
    kiln_model_value v;
    size_t n = 0;
    fprintf(stderr, "kiln-run: the function has no %s %s; there are: ", of->what, name);
    for (size_t i = 0; i < of->n; i++)
        if (has(o, m, of, i, &v)) fprintf(stderr, "%s%s", n++ ? ", " : "", v.name);
    fprintf(stderr, "%s\n", n ? "" : "none");
    const struct ports other = {of->what, of->get, of->n, !of->arrays, !of->numbers};
    for (size_t i = 0; i < of->n; i++)
        if (has(o, m, &other, i, &v) && !strcmp(v.name, name))
            fprintf(stderr,
                    v.is_number ? "kiln-run: %s is a number: --number %s=VALUE\n"
                                : "kiln-run: %s is no number: --input %s=FILE\n",
                    name, name);
    return 1;
}

static int check_names(const struct options *o, const kiln_model *m, const struct pairs *given, const struct ports *of)
{
    for (size_t k = 0; k < given->n; k++) {
        kiln_model_value v;
        bool found = false;
        for (size_t i = 0; i < of->n && !found; i++) found = has(o, m, of, i, &v) && !strcmp(v.name, given->v[k].name);
        if (!found) return refuse_name(o, m, of, given->v[k].name);
    }
    return 0;
}

// Before anything is read or run: a name that is wrong says more than one that is missing.
static int check_all_names(const struct options *o, const kiln_model *m, size_t n_in, size_t n_out)
{
    const struct ports arrays = {"input", kiln_model_input, n_in, true, false};
    const struct ports numbers = {"number", kiln_model_input, n_in, false, true};
    const struct ports outputs = {"output", kiln_model_output, n_out, true, true};
    int status = check_names(o, m, &o->inputs, &arrays);
    if (!status) status = check_names(o, m, &o->numbers, &numbers);
    return status ? status : check_names(o, m, &o->outputs, &outputs);
}

// --- inputs

static kiln_tensor *read_number(const struct pair *p, const kiln_model_value *v)
{
    char *end;
    double number = strtod(p->value, &end);
    if (*end || end == p->value) {
        fail("--number %s: the value is no number", p->name);
        return NULL;
    }
    if (v->dtype == KILN_I64) return kiln_mutable_int((int64_t)number);
    return v->dtype == KILN_BOOL ? kiln_mutable_bool(number != 0) : kiln_mutable(number);
}

static kiln_tensor *read_input(struct options *o, const kiln_model_value *v)
{
    struct pair *p = find(v->is_number ? &o->numbers : &o->inputs, v->name, strlen(v->name));
    if (!p) {
        fail(v->is_number ? "--number %s=... is missing" : "--input %s=... is missing", v->name);
        return NULL;
    }
    kiln_tensor *t = v->is_number ? read_number(p, v) : kiln_npy_load(NULL, p->value);
    if (!t && kiln_error()) fail_kiln();
    return t;
}

// --- running

static int write_outputs(struct options *o, const kiln_model *m, kiln_tensor *const *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        kiln_model_value v = {.size = sizeof v};
        if (kiln_model_output(m, o->function, i, &v)) return fail_kiln();
        struct pair *p = find(&o->outputs, v.name, strlen(v.name));
        if (!p) {
            printf("%s = ", v.name);
            kiln_print(out[i], stdout);
            continue;
        }
        if (kiln_npy_save(p->value, out[i])) return fail_kiln();
    }
    return 0;
}

static void print_stats(const kiln_function *f)
{
    kiln_jit_stats s = {.size = sizeof s};
    kiln_function_stats(f, &s);
    fprintf(stderr, "kiln-run: %llu calls, %llu programs, %llu kernels compiled, %llu launches\n",
            (unsigned long long)s.calls, (unsigned long long)s.programs, (unsigned long long)s.kernels_compiled,
            (unsigned long long)s.launches);
}

static int run_function(struct options *o, kiln_model *m, kiln_function *f, kiln_tensor **in, size_t n_in,
                        kiln_tensor **out, size_t n_out)
{
    if (check_all_names(o, m, n_in, n_out)) return 1;
    for (size_t i = 0; i < n_in; i++) {
        kiln_model_value v = {.size = sizeof v};
        if (kiln_model_input(m, o->function, i, &v)) return fail_kiln();
        if (!(in[i] = read_input(o, &v))) return 1;
    }
    for (long i = 0; i < o->repeat; i++) {
        for (size_t k = 0; k < n_out && i; k++) kiln_free(&out[k]);
        if (kiln_call(f, in, n_in, out, n_out)) return fail_kiln();
    }
    if (write_outputs(o, m, out, n_out)) return 1;
    if (o->save && kiln_model_save(m, o->save)) return fail_kiln();
    if (o->stats) print_stats(f);
    return kiln_error() ? fail_kiln() : 0;
}

// --- compiling

// 0: it is none.
static int64_t read_size(const struct pair *p)
{
    char *end;
    long long n = strtoll(p->value, &end, 10);
    if (!*end && n > 0) return n;
    fprintf(stderr, "kiln-run: --size %s=%s: a size is a number of 1 or more\n", p->name, p->value);
    return 0;
}

static int check_sizes(const struct pairs *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (!p->v[i].used)
            return fail("the function has no open dimension %s; --list shows those that there are", p->v[i].name);
    return 0;
}

static int fill_types(struct options *o, const kiln_model *m, kiln_type *types, int64_t *dims, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        kiln_model_value v = {.size = sizeof v};
        if (kiln_model_input(m, o->function, i, &v)) return fail_kiln();
        const char *at = strchr(v.text, '[') + 1;
        for (size_t d = 0; d < v.rank; d++) {
            size_t len = strcspn(at, ",]");
            struct pair *p = v.dims[d] < 0 ? find(&o->sizes, at, len) : NULL;
            if (v.dims[d] < 0 && !p) {
                fprintf(stderr, "kiln-run: --size %.*s=... is missing\n", (int)len, at);
                return 1;
            }
            if (p) p->used = true;
            dims[i * RANK + d] = p ? read_size(p) : v.dims[d];
            if (p && !dims[i * RANK + d]) return 1;
            at += len + 1;
        }
        types[i] = (kiln_type){v.dtype, v.rank, dims + i * RANK};
    }
    return check_sizes(&o->sizes);
}

static int compile_function(struct options *o, const kiln_model *m, kiln_function *f, size_t n_in, size_t n_out)
{
    kiln_type *types = calloc(n_in + 1, sizeof *types);
    int64_t *dims = calloc(n_in * RANK + 1, sizeof *dims);
    if (!types || !dims) return fail("%s", "out of memory");
    const kiln_types list = {n_in, types};
    kiln_cost c = {.size = sizeof c};
    int status = fill_types(o, m, types, dims, n_in);
    if (!status && kiln_function_compile(f, &list, n_out, &c)) status = fail_kiln();
    if (!status)
        printf("%s: %llu ops, %llu launches, %llu kernels, %.6g flops, %.6g bytes moved, %llu bytes for intermediate "
               "values (%llu "
               "without a plan)\n",
               o->function, (unsigned long long)c.ops, (unsigned long long)c.launches, (unsigned long long)c.kernels,
               c.flops, c.moved_B, (unsigned long long)c.planned_B, (unsigned long long)c.naive_B);
    if (!status && o->stats) print_stats(f);
    free(types);
    free(dims);
    return status;
}

static int use_function(struct options *o, kiln_model *m)
{
    kiln_function *f = kiln_model_function(m, o->function);
    if (!f) return fail_kiln();
    size_t n_in = kiln_model_input_count(m, o->function), n_out = kiln_model_output_count(m, o->function);
    kiln_tensor **in = calloc(n_in + 1, sizeof *in), **out = calloc(n_out + 1, sizeof *out);
    int status = !in || !out  ? fail("%s", "out of memory")
                 : o->compile ? compile_function(o, m, f, n_in, n_out)
                              : run_function(o, m, f, in, n_in, out, n_out);
    free(in);
    free(out);
    kiln_function_free(&f);
    return status;
}

static int use_model(struct options *o, kiln_model *m)
{
    if (o->list) return list(m);
    if (!o->function && kiln_model_function_count(m) > 1)
        return fail("%s has several functions: name one with --function (see --list)", o->file);
    if (!o->function) o->function = kiln_model_function_name(m, 0);
    kiln_no_grad_begin(); // a training step has its gradients inside
    int status = use_function(o, m);
    kiln_no_grad_end();
    return status;
}

static int use_file(struct options *o)
{
    kiln_device *dev = kiln_device_open(o->device);
    if (!dev) return fail_kiln();
    kiln_set_device(dev);
    kiln_scope *scope = kiln_scope_begin();
    kiln_model *m = kiln_graph_import(dev, o->file);
    int status = m ? use_model(o, m) : fail_kiln();
    kiln_error_clear();
    kiln_model_free(&m);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    if (!status && fflush(stdout)) status = fail("%s", "standard output could not be written");
    return status;
}

static void print_version(void *user, const kiln_fact *f)
{
    (void)user;
    if (!strcmp(f->name, "kiln version")) printf("kiln-run %s\n", f->text);
}

enum { FUNCTION = 256, INPUT, NUMBER, OUTPUT, SAVE, REPEAT, DEVICE, COMPILE, SIZE, STATS, LIST, VERSION };

// 0, or the exit status.
static int take(struct options *o, int option, char *value)
{
    char *end;
    switch (option) {
    case FUNCTION: o->function = value; return 0;
    case INPUT: return add_pair(&o->inputs, value);
    case NUMBER: return add_pair(&o->numbers, value);
    case OUTPUT: return add_pair(&o->outputs, value);
    case SIZE: return add_pair(&o->sizes, value);
    case SAVE: o->save = value; return 0;
    case DEVICE: o->device = value; return 0;
    case COMPILE: o->compile = true; return 0;
    case STATS: o->stats = true; return 0;
    case LIST: o->list = true; return 0;
    case REPEAT:
        o->repeat = strtol(value, &end, 10);
        return !*end && o->repeat > 0 ? 0 : wrong("--repeat takes a number of 1 or more, not ", value);
    default: fputs(usage, stderr); return 2;
    }
}

// What of the options does not go together; NULL: all does.
static const char *clash(const struct options *o)
{
    bool runs = o->inputs.n || o->numbers.n || o->outputs.n || o->save;
    if (o->list && o->compile) return "--list and --compile exclude each other";
    if (o->list && runs) return "--list runs nothing: no --input, --number, --output or --save";
    if (o->compile && runs) return "--compile runs nothing: no --input, --number, --output or --save";
    return o->sizes.n && !o->compile ? "--size is for --compile alone: a run takes the sizes of its inputs" : NULL;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"function", required_argument, NULL, FUNCTION},
                                          {"input", required_argument, NULL, INPUT},
                                          {"number", required_argument, NULL, NUMBER},
                                          {"output", required_argument, NULL, OUTPUT},
                                          {"save", required_argument, NULL, SAVE},
                                          {"repeat", required_argument, NULL, REPEAT},
                                          {"device", required_argument, NULL, DEVICE},
                                          {"compile", no_argument, NULL, COMPILE},
                                          {"size", required_argument, NULL, SIZE},
                                          {"stats", no_argument, NULL, STATS},
                                          {"list", no_argument, NULL, LIST},
                                          {"version", no_argument, NULL, VERSION},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    static struct options o = {.repeat = 1};
    for (int c; (c = getopt_long(argc, argv, "h", names, NULL)) != -1;) {
        if (c == 'h') return fputs(usage, stdout) < 0;
        if (c == VERSION) {
            kiln_library_facts(print_version, NULL);
            return 0;
        }
        int status = take(&o, c, optarg);
        if (status) return status;
    }
    if (optind == argc) return wrong("no file is given", "");
    if (optind + 1 < argc) return wrong("unexpected argument ", argv[optind + 1]);
    if (clash(&o)) return wrong(clash(&o), "");
    o.file = argv[optind];
    return use_file(&o);
}
