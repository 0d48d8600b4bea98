// Captured functions: wrong options, wrong calls, and functions that fail, in each capture. What failed leaves nothing
// behind, and the function works afterwards.
#include "bad_input.h"

static const struct way {
    const char *name;
    kiln_jit_opts opts;
    bool is_auto;
} ways[] = {
#define WAY(...)                                   \
    {                                              \
        .size = sizeof(kiln_jit_opts), __VA_ARGS__ \
    }
    {"strict", WAY(.capture = KILN_CAPTURE_STRICT)},
    {"strict, compiled in the background", WAY(.capture = KILN_CAPTURE_STRICT, .background = true)},
    {"auto", WAY(.capture = KILN_CAPTURE_AUTO), true},
    {"auto, of a pure function", WAY(.capture = KILN_CAPTURE_AUTO, .pure_host = true), true},
    {"auto, bits that stay the same", WAY(.capture = KILN_CAPTURE_AUTO, .deterministic = true), true},
    {"strict, as it is, verified", WAY(.level = KILN_LEVEL_AS_IS, .eager_rounding = true, .verify = 1)},
    {"trace", WAY(.capture = KILN_CAPTURE_TRACE)},
    {"trace, verified", WAY(.capture = KILN_CAPTURE_TRACE, .verify = 2)},
#undef WAY
};
#define EACH_WAY(w) (const struct way *w = ways; w < ways + sizeof ways / sizeof *ways; w++)

// The same check for errors whose line lies in the captured function.
#define BAD_AT(at, call, code, ...) \
    check_bad(#call, (uintptr_t)(call), code, __FILE__, at, (const char *const[]){__VA_ARGS__, NULL})

static const int add_line = __LINE__ + 2;
static kiln_status add(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_relu(kiln_add(in[0], in[1]));
    return kiln_error();
}

static char *place_of(int line) // of a function, as messages name it
{
    static char text[64];
    snprintf(text, sizeof text, "the function at jit.c:%d", line);
    return text;
}

// The function gives 3 for 1 and 2.
static void still_works(kiln_function *f, const char *what)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[] = {F32(2), kiln_full(dev, KILN_F32, KILN_SHAPE(2), 2)}, *out = NULL;
    for (int i = 0; i < 3; i++) {
        if (kiln_call(f, in, 2, &out, 1)) fail_msg("%s, after it: %s", what, kiln_error_message());
        assert_true(kiln_item(kiln_min(out, NULL)) == 3 && kiln_item(kiln_max(out, NULL)) == 3);
    }
    assert_int_equal(kiln_error(), KILN_OK);
    kiln_scope_end(&scope);
}

// Many are freed after it, so that its memory is not the next to be used.
static kiln_tensor *freed_handle(void)
{
    kiln_tensor *all[64], *first;
    for (int i = 0; i < 64; i++) all[i] = kiln_own(kiln_scalar(1));
    first = all[0];
    for (int i = 0; i < 64; i++) kiln_free(&all[i]);
    return first;
}

static void wrong_options(void)
{
    kiln_tensor *x = F32(2), *list[] = {x, NULL}, *freed = freed_handle();
    BAD(kiln_jit(NULL, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO)), KILN_E_ARGUMENT, "jit: fn is NULL");
    BAD(kiln_jit(add, NULL, KILN_JIT(.capture = (kiln_capture)3)), KILN_E_ARGUMENT, "jit: ", ".capture 3",
        "kiln_capture");
    BAD(kiln_jit(add, NULL, KILN_JIT(.capture = (kiln_capture)-1)), KILN_E_ARGUMENT, "jit: ", ".capture -1");
    BAD(kiln_jit(add, NULL, KILN_JIT(.syntax = (kiln_syntax)-1)), KILN_E_ARGUMENT, "jit: ", ".syntax -1");
    BAD(kiln_jit(add, NULL, KILN_JIT(.input_signature = {2, NULL})), KILN_E_ARGUMENT, "jit: ", ".input_signature",
        "NULL", "2");
    BAD(kiln_jit(add, NULL, KILN_JIT(.input_signature = {2, list})), KILN_E_ARGUMENT, "jit: ", ".input_signature",
        "1 is NULL");
    BAD(kiln_jit(add, NULL, KILN_JIT(.input_signature = KILN_TENSORS(x, freed))), KILN_E_HANDLE,
        "jit: ", ".input_signature", "1 is a handle that was freed");
    BAD(kiln_jit(add, NULL, KILN_JIT(.input_types = {2, NULL})), KILN_E_ARGUMENT, "jit: ", ".input_types is NULL", "2");
    BAD(kiln_jit(add, NULL,
                 KILN_JIT(.input_types = KILN_TYPES(KILN_TYPE(KILN_F32, 2)), .input_signature = KILN_TENSORS(x))),
        KILN_E_ARGUMENT, "jit: ", ".input_signature", ".input_types", "exclude");
    BAD(kiln_jit(add, NULL, KILN_JIT(.input_types = KILN_TYPES(KILN_TYPE((kiln_dtype)99, 2)))), KILN_E_DTYPE,
        "jit: ", ".input_types entry 0", "dtype 99");
    BAD(kiln_jit(add, NULL, KILN_JIT(.input_types = KILN_TYPES(((kiln_type){KILN_F32, 17, NULL})))), KILN_E_SHAPE,
        "jit: ", ".input_types entry 0", "17 dimensions");
    BAD(kiln_jit(add, NULL, KILN_JIT(.input_types = KILN_TYPES(((kiln_type){KILN_F32, 2, NULL})))), KILN_E_ARGUMENT,
        "jit: ", ".input_types entry 0", "dims is NULL");
    BAD(kiln_jit(add, NULL,
                 KILN_JIT(.input_types = KILN_TYPES(KILN_TYPE(KILN_F32, 2), KILN_TYPE(KILN_F32, 3, -70000)))),
        KILN_E_ARGUMENT, "jit: ", ".input_types entry 1", "dimension 1 is -70000", "no symbol");
    // All other fields may be left out.
    kiln_function *f = kiln_jit(add, NULL, &(kiln_jit_opts){.size = sizeof(kiln_jit_opts)});
    still_works(f, "no options");
    kiln_function_free(&f);
}

static void wrong_symbols(void)
{
    static const char too_long[] = "0123456789012345678901234567890123456789012345678901234567890123";
    BAD(kiln_symbol(NULL, NULL), KILN_E_ARGUMENT, "symbol: name is NULL");
    BAD(kiln_symbol("", NULL), KILN_E_ARGUMENT, "symbol: name is empty");
    BAD(kiln_symbol(too_long, NULL), KILN_E_ARGUMENT, "symbol: ", "64 characters", "63");
    BAD(kiln_symbol("n", KILN_SYMBOL(.min = -1)), KILN_E_ARGUMENT, "symbol: ", "n is negative", ".min -1");
    BAD(kiln_symbol("n", KILN_SYMBOL(.max = INT64_MIN)), KILN_E_ARGUMENT, "symbol: ", "negative");
    BAD(kiln_symbol("n", KILN_SYMBOL(.divisor = -2)), KILN_E_ARGUMENT, "symbol: ", "negative", ".divisor -2");
    BAD(kiln_symbol("n", KILN_SYMBOL(.remainder = -2)), KILN_E_ARGUMENT, "symbol: ", "negative", ".remainder -2");
    BAD(kiln_symbol("n", KILN_SYMBOL(.min = 9, .max = 8)), KILN_E_ARGUMENT, "symbol: ", "no size", "rule of n: 9 to 8");
    BAD(kiln_symbol("n", KILN_SYMBOL(.min = 10, .max = 15, .divisor = 8)), KILN_E_ARGUMENT, "symbol: ", "no size",
        "10 to 15, 8 N + 0");
    BAD(kiln_symbol("n", KILN_SYMBOL(.divisor = INT64_MAX, .remainder = INT64_MAX)), KILN_E_ARGUMENT,
        "symbol: ", "no size");
    kiln_symbol_opts none = {0};
    BAD(kiln_symbol("n", &none), KILN_E_ARGUMENT, "symbol: ", "KILN_SYMBOL");
}

static void wrong_queries(void)
{
    kiln_function *f = kiln_jit(add, NULL, NULL);
    kiln_jit_stats stats = {.size = sizeof stats}, none = {0};
    BAD_VOID(kiln_function_stats(NULL, &stats), KILN_E_ARGUMENT, "function_stats: ", "f is NULL");
    BAD_VOID(kiln_function_stats(f, NULL), KILN_E_ARGUMENT, "function_stats: ", "out");
    BAD_VOID(kiln_function_stats(f, &none), KILN_E_ARGUMENT, "function_stats: ", "size");
    BAD_VOID(kiln_explain(NULL, stdout), KILN_E_ARGUMENT, "explain: ", "f is NULL");
    BAD_VOID(kiln_explain(f, NULL), KILN_E_ARGUMENT, "explain: ", "file is NULL");
    kiln_function_free(&f);
    kiln_function_free(&f);
    kiln_function_free(NULL);
}

static void wrong_inputs(const struct way *w)
{
    kiln_function *f = kiln_jit(add, NULL, &w->opts);
    kiln_tensor *x = F32(2), *out = x, *null[] = {x, NULL};
    const char *name = place_of(add_line);
    BAD(kiln_call(f, NULL, 2, &out, 1), KILN_E_ARGUMENT, "call: ", "in is NULL", "2", name);
    assert_null(out);
    BAD(kiln_call(f, null, 2, NULL, 1), KILN_E_ARGUMENT, "call: ", "out is NULL", "1", name);
    BAD(kiln_call(f, null, 2, &out, 1), KILN_E_ARGUMENT, "call: ", "input 1 of ", "is NULL", name);
    kiln_tensor *shapes[] = {x, F32(3)}, *apart[] = {x, THERE(2)}, *same[] = {x, x}, *dead[] = {freed_handle(), x};
    BAD(kiln_call(f, dead, 2, &out, 1), KILN_E_HANDLE, "call: ", "input 0 of ", "freed", name);
    BAD_AT(add_line + 1, kiln_call(f, shapes, 2, &out, 1), KILN_E_SHAPE, "add: ", "f32[2]", "f32[3]");
    assert_null(out);
    BAD(kiln_call(f, same, 2, same, 1), KILN_E_ARGUMENT, "call: ", "overlap", name);
    assert_ptr_equal(same[0], x);
    // AUTO notices where the op is.
    BAD_AT(w->is_auto ? add_line + 1 : __LINE__, kiln_call(f, apart, 2, &out, 1), KILN_E_DEVICE_MISMATCH,
           w->is_auto ? "add: " : "call: ", w->is_auto ? "" : "input 1 of ", w->is_auto ? "" : name, "null");
    assert_null(out);
    still_works(f, w->name);
    // The number of outputs is that of the first call that worked.
    kiln_tensor *three[3] = {x, x, x};
    BAD(kiln_call(f, (kiln_tensor *[]){x, x}, 2, three, 3), KILN_E_ARGUMENT, "call: ", name, "1 outputs",
        "3 are asked for");
    for (int i = 0; i < 3; i++) assert_null(three[i]);
    BAD(kiln_call(f, (kiln_tensor *[]){x, x}, 2, NULL, 0), KILN_E_ARGUMENT, "call: ", name, "0 are asked for");
    still_works(f, w->name);
    kiln_function_free(&f);
}

static void held_to_its_signature(const struct way *w)
{
    kiln_tensor *x = F32(2), *i[] = {x, I64(2)}, *s[] = {F32(2, 1), x}, *out = NULL;
    kiln_jit_opts opts = w->opts;
    opts.input_signature = (kiln_tensors){2, (kiln_tensor *[]){x, x}};
    kiln_function *f = kiln_jit(add, NULL, &opts);
    const char *name = place_of(add_line);
    BAD(kiln_call(f, i, 1, &out, 1), KILN_E_ARGUMENT, "call: ", name, "2 inputs", "1 are given");
    BAD(kiln_call(f, NULL, 0, &out, 1), KILN_E_ARGUMENT, "call: ", name, "2 inputs", "0 are given");
    BAD(kiln_call(f, i, 2, &out, 1), KILN_E_SHAPE, "call: input 1 of ", name, "i64[2]", "f32[2]");
    BAD(kiln_call(f, s, 2, &out, 1), KILN_E_SHAPE, "call: input 0 of ", name, "f32[2,1]", "f32[2]");
    still_works(f, w->name);
    kiln_function_free(&f);
}

void wrong_calls_of_functions(void **state)
{
    wrong_options();
    wrong_queries();
    wrong_symbols();
    for
        EACH_WAY(w)
        {
            wrong_inputs(w);
            held_to_its_signature(w);
        }
}

// --- functions that fail ---

enum fault {
    NO_FAULT,
    REFUSES,       // returns a code, without an error
    WRONG_OP,      // an op fails
    LEAVES_NULL,   // an output is not filled
    GIVES_FREED,   // an output is a freed handle
    USES_FREED,    // reaches a freed handle
    OTHER_DEVICE,  // makes a tensor on another device, and uses it with an input
    OTHER_STATE,   // the same with state
    SCOPE_IS_OPEN, // fails with a scope of its own open
    CALLS_ITSELF,
    N_FAULTS,
};

struct faulty {
    enum fault fault;
    kiln_tensor *freed, *state;
    kiln_function *self;
    int line; // where it failed
    int depth;
};

#define AT(call) (p->line = __LINE__, call)

// Half of the work is done, then comes the fault.
static const int faulty_line = __LINE__ + 2;
static kiln_status faulty(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct faulty *p = user;
    kiln_tensor *sum = kiln_add(in[0], in[1]);
    out[0] = kiln_relu(sum);
    p->line = 0;
    switch (p->fault) {
    case REFUSES: return KILN_E_IO;
    case WRONG_OP: AT(kiln_matmul(sum, kiln_ones_like(kiln_reshape(sum, KILN_SHAPE(1, 2))))); break;
    case LEAVES_NULL: out[0] = NULL; break;
    case GIVES_FREED: out[0] = p->freed; break;
    case USES_FREED: out[0] = AT(kiln_add(sum, p->freed)); break;
    case OTHER_DEVICE: out[0] = AT(kiln_add(sum, THERE(2))); break;
    case OTHER_STATE: out[0] = AT(kiln_add(sum, p->state)); break;
    case SCOPE_IS_OPEN:
        kiln_scope_begin();
        AT(kiln_reshape(kiln_neg(sum), KILN_SHAPE(7)));
        break;
    case CALLS_ITSELF:
        if (p->depth++ < 3) AT(kiln_call(p->self, in, n_in, out, n_out));
        p->depth--;
        break;
    default: break;
    }
    return kiln_error();
}

static const struct expected {
    const char *what;
    kiln_status code;
    const char *op, *values; // in the message
    bool names_function;
} expected[N_FAULTS] = {
    [REFUSES] = {"a code returned", KILN_E_IO, "call: ", "failed with KILN_E_IO", true},
    [WRONG_OP] = {"an op that fails", KILN_E_SHAPE, "matmul: ", "f32[1,2]"},
    [LEAVES_NULL] = {"an output left NULL", KILN_E_ARGUMENT, "call: ", "left output 0 of 1 NULL: set each out[i]",
                     true},
    [GIVES_FREED] = {"a freed output", KILN_E_HANDLE, "call: output 0 of ", "freed", true},
    [USES_FREED] = {"a freed tensor", KILN_E_HANDLE, "add: ", "b is a handle that was freed"},
    [OTHER_DEVICE] = {"a tensor of another device", KILN_E_DEVICE_MISMATCH, "", "null"},
    [OTHER_STATE] = {"state of another device", KILN_E_DEVICE_MISMATCH, "add: ", "null"},
    [SCOPE_IS_OPEN] = {"a scope left open", KILN_E_SHAPE, "reshape: ", "7"},
    [CALLS_ITSELF] = {"recursion", KILN_E_STATE, "call: ", "calls itself while it is captured", true},
};

// The fault, twice; then the function works. Then a fault in a call of another kind, and the first kind works on.
static void fail_in(const struct way *w, enum fault fault)
{
    const struct expected *e = &expected[fault];
    char what[80];
    struct faulty p = {.fault = fault, .state = THERE(2)};
    kiln_tensor *in[] = {F32(2), F32(2)}, *other_kind[] = {F32(1, 2), F32(2)}, *out = in[0];
    kiln_state(p.state);
    kiln_function *f = p.self = kiln_jit(faulty, &p, &w->opts);
    snprintf(what, sizeof what, "%s, %s", e->what, w->name);
    bool is_fine = fault == CALLS_ITSELF && w->is_auto;
    for (int round = 0; round < 4 && !is_fine; round++) {
        p.fault = fault;
        p.depth = 0;
        p.freed = freed_handle();
        kiln_status status = kiln_call(f, round < 2 ? in : other_kind, 2, &out, 1);
        check_bad(what, status, e->code, __FILE__, p.line ? p.line : __LINE__ - 1,
                  (const char *const[]){e->op, e->values, e->names_function ? place_of(faulty_line) : "", NULL});
        assert_null(out);
        p.fault = NO_FAULT;
        if (round % 2) still_works(f, what);
    }
    if (is_fine) still_works(f, what);
    kiln_function_free(&f);
}

void functions_that_fail(void **state)
{
    for
        EACH_WAY(w)
    for (enum fault fault = REFUSES; fault < N_FAULTS; fault++) fail_in(w, fault);
}

// --- writes before a fault: undone where the function is only recorded, as in eager mode where it runs ---

struct writer {
    kiln_tensor *total;
    bool fails;
    int line;
};

static kiln_status write_twice(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct writer *p = user;
    kiln_add_(in[0], kiln_scalar(1));
    kiln_add_(p->total, in[0]);
    p->line = __LINE__ + 1;
    if (p->fails) kiln_matmul(in[0], kiln_reshape(in[0], KILN_SHAPE(1, 2)));
    out[0] = kiln_neg(p->total);
    return kiln_error();
}

static void expect_all(kiln_tensor *t, double want, const char *what)
{
    float v[2] = {NAN, NAN};
    assert_int_equal(kiln_read(t, v, sizeof v), KILN_OK);
    if (v[0] != want || v[1] != want) fail_msg("%s: [%g %g], not %g", what, v[0], v[1], want);
}

static void write_in(const struct way *w)
{
    kiln_tensor *x = F32(2), *out = NULL;
    struct writer p = {.total = kiln_zeros(dev, KILN_F32, KILN_SHAPE(2)), .fails = true};
    kiln_state(p.total);
    kiln_function *f = kiln_jit(write_twice, &p, &w->opts);
    double value = 1, total = 0;
    for (int i = 0; i < 6; i++) {
        p.fails = i < 3;
        kiln_status status = kiln_call(f, &x, 1, &out, 1);
        if (p.fails)
            check_bad(w->name, status, KILN_E_SHAPE, __FILE__, p.line, (const char *const[]){"matmul: ", NULL});
        if (!p.fails || w->is_auto) total += ++value;
        assert_int_equal(kiln_error(), KILN_OK);
        expect_all(x, value, w->name);
        expect_all(p.total, total, w->name);
        if (!p.fails) expect_all(out, -total, w->name);
    }
    kiln_function_free(&f);
}

void functions_that_write_and_fail(void **state)
{
    for
        EACH_WAY(w) write_in(w);
}

// --- values that a capture does not have ---

static int read_line;

static const int read_function_line = __LINE__ + 2;
static kiln_status read_and_print(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    float v[2];
    kiln_tensor *y = kiln_add(in[0], in[0]);
    read_line = __LINE__ + 2;
    switch (*(int *)user) {
    case 0: return kiln_read(y, v, sizeof v) ? kiln_error() : KILN_OK;
    case 1: return kiln_item(kiln_sum(y, NULL)) > 0 ? KILN_OK : kiln_error();
    case 2: return kiln_item_int(kiln_argmax(y, NULL)) > 0 ? KILN_OK : kiln_error();
    case 3: return kiln_to_string(y) ? KILN_OK : kiln_error();
    case 4: return kiln_nonzero(y) ? KILN_OK : kiln_error();
    case 5: return kiln_unique(y, NULL, NULL, NULL) ? kiln_error() : KILN_OK;
    default: return kiln_tensor_device(y) == dev ? KILN_OK : KILN_E_INTERNAL;
    }
}

// The line of the read ends the message; the function is named in it.
void reads_of_what_is_not_known(void **state)
{
    static const char *const reads[] = {"read: ", "item: ", "item_int: ", "to_string: ", "nonzero: ", "unique: "};
    kiln_tensor *x = F32(2);
    int which = 0;
    kiln_function *f = kiln_jit(read_and_print, &which, NULL);
    for (; which < (int)(sizeof reads / sizeof *reads); which++)
        for (int again = 0; again < 2; again++) {
            kiln_status status = kiln_call(f, &x, 1, NULL, 0);
            check_bad(reads[which], status, KILN_E_STATE, __FILE__, read_line + which,
                      (const char *const[]){reads[which], place_of(read_function_line), "KILN_CAPTURE_AUTO", NULL});
        }
    assert_int_equal(kiln_call(f, &x, 1, NULL, 0), KILN_OK); // no read
    kiln_function_free(&f);
}
