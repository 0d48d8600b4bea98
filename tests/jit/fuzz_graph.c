// Random programs over ops of every kind, in eager mode and captured: the same results, the same memory afterwards.
//
// A program is a list of steps that pick their operands among the inputs and the values before them. Every step means
// something for any operands: what it cannot do, it leaves. So a step can be dropped, which makes its value that of its
// first operand; a program that fails is cut down step by step to one where every step matters, and is then printed as
// the graph that was captured.
//
// Fused kernels keep intermediate values unrounded, and folds add in another order. So the run in eager mode on the
// CPU, which all others are compared with, carries a bound along: how far a value may lie from another run's, by the
// magnitudes that it meets. Where a step would turn a small difference into a large one (a comparison, a conversion to
// integers), it only takes operands whose bound is zero.
#include "jit_fixture.h"

enum { N_IN = 7, STEPS = 16, VALUES = N_IN + STEPS, RESULTS = 3, LARGEST = 400, CALLS = 2 };

struct step {
    uint32_t kind, a, b, c, choice;
    bool dropped;
};

struct program {
    uint32_t seed;
    struct step steps[STEPS];
    uint32_t results[RESULTS];
    bool measure;         // eager on the CPU: what follows is made, and used by the other runs
    bool left[STEPS];     // steps that mean nothing
    double error[VALUES]; // of the memory that a value lies in, by the value that it was made with
    int root[VALUES];     // that value
    double result_error[RESULTS];
};

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

// Rather one of the last values, so that results depend on many steps.
static uint32_t pick(uint32_t *r, uint32_t n)
{
    return next(r) % 3 ? n - 1 - next(r) % 4 : next(r) % n;
}

static void make_program(struct program *p, uint32_t seed)
{
    uint32_t r = seed * 2654435761u + 1;
    *p = (struct program){.seed = seed};
    for (int i = 0; i < STEPS; i++) {
        struct step *s = &p->steps[i];
        s->kind = next(&r);
        s->a = pick(&r, (uint32_t)(N_IN + i));
        s->b = pick(&r, (uint32_t)(N_IN + i));
        s->c = pick(&r, (uint32_t)(N_IN + i));
        s->choice = next(&r);
    }
    for (int i = 0; i < RESULTS; i++) p->results[i] = pick(&r, VALUES);
}

// --- what values are

static bool is_float(kiln_tensor *t)
{
    kiln_dtype d = kiln_tensor_dtype(t);
    return d == KILN_F32 || d == KILN_F16 || d == KILN_F64 || d == KILN_BF16;
}

static bool is_bool(kiln_tensor *t)
{
    return kiln_tensor_dtype(t) == KILN_BOOL;
}

static double unit_of(kiln_tensor *t)
{
    return !is_float(t) ? 0 : kiln_tensor_dtype(t) == KILN_F16 ? 0x1p-10 : 0x1p-22;
}

static bool broadcast(kiln_tensor *a, kiln_tensor *b, bool into_a)
{
    int64_t n = 1;
    size_t ra = kiln_rank(a), rb = kiln_rank(b), rank = ra > rb ? ra : rb;
    if (into_a && rb > ra) return false;
    for (size_t i = 1; i <= rank; i++) {
        int64_t x = i <= ra ? kiln_dims(a)[ra - i] : 1, y = i <= rb ? kiln_dims(b)[rb - i] : 1;
        if (x != y && y != 1 && (x != 1 || into_a)) return false;
        n *= x > y ? x : y;
    }
    return n <= LARGEST;
}

static bool same_shape(kiln_tensor *a, kiln_tensor *b)
{
    bool same = kiln_rank(a) == kiln_rank(b);
    for (size_t i = 0; same && i < kiln_rank(a); i++) same = kiln_dims(a)[i] == kiln_dims(b)[i];
    return same;
}

// --- steps. Each returns NULL, without an error, where it means nothing for its operands.

struct operands {
    kiln_tensor *a, *b, *c;
    double ea, eb, ec, ma, mb; // errors and magnitudes, while they are measured
    uint32_t choice;
    kiln_tensor *index; // values 0 and 1
    double error;       // out: of the value
    bool shows_a, writes_a;
};
typedef kiln_tensor *step_fn(struct operands *o);

static kiln_tensor *unary(struct operands *o)
{
    o->error = o->ea;
    if (is_bool(o->a)) return kiln_logical_not(o->a);
    switch (o->choice % 5) {
    case 0: return kiln_neg(o->a);
    case 1: return kiln_abs(o->a);
    case 2: return kiln_relu(o->a);
    default: break;
    }
    if (!is_float(o->a)) return kiln_square(o->a);
    kiln_tensor *y = o->choice % 5 == 3 ? kiln_tanh(o->a) : kiln_sigmoid(o->a);
    o->error += 16 * unit_of(y);
    return y;
}

static kiln_tensor *arithmetic(struct operands *o)
{
    if (!broadcast(o->a, o->b, false) || is_bool(o->a) || is_bool(o->b)) return NULL;
    kiln_tensor *y = o->choice % 4 == 0   ? kiln_add(o->a, o->b)
                     : o->choice % 4 == 1 ? kiln_sub(o->a, o->b)
                     : o->choice % 4 == 2 ? kiln_mul(o->a, o->b)
                                          : kiln_maximum(o->a, o->b);
    double m = o->choice % 4 == 2 ? o->ma * o->mb : o->ma + o->mb;
    o->error = o->choice % 4 == 2 ? o->ea * o->mb + o->eb * o->ma + o->ea * o->eb : o->ea + o->eb;
    o->error += unit_of(y) * (m + o->error);
    return y;
}

static kiln_tensor *with_number(struct operands *o)
{
    if (is_bool(o->a)) return NULL;
    kiln_tensor *y = o->choice % 2 ? kiln_mul(o->a, kiln_scalar(0.5)) : kiln_add(o->a, kiln_scalar_int(2));
    o->error = o->ea + unit_of(y) * (o->ma + 2);
    return y;
}

static kiln_tensor *chosen(struct operands *o)
{
    if (o->ea || o->eb || !broadcast(o->a, o->b, true) || !broadcast(o->a, o->c, true) || is_bool(o->a) ||
        is_bool(o->b) || is_bool(o->c))
        return NULL;
    o->error = o->ec + unit_of(o->a) * o->ma;
    kiln_tensor *is = o->choice % 2 ? kiln_greater(o->a, o->b) : kiln_equal(o->a, o->b);
    return o->choice % 3 ? kiln_where(is, o->a, o->c) : is;
}

static kiln_tensor *folded(struct operands *o)
{
    int64_t rank = (int64_t)kiln_rank(o->a), axis = rank ? o->choice / 8 % rank : 0;
    double n = (double)kiln_numel(o->a);
    const kiln_reduce_opts *along =
        rank && o->choice % 2 ? KILN_REDUCE(.axes = KILN_ARGS(axis), .keepdims = o->choice % 4 == 1) : NULL;
    kiln_tensor *y = NULL;
    switch (o->choice / 64 % 4) {
    case 0: y = kiln_sum(o->a, along); break;
    case 1: y = kiln_mean(o->a, along); break;
    case 2: y = is_bool(o->a) ? kiln_any(o->a, along) : kiln_max(o->a, along); break;
    default: return o->ea || is_bool(o->a) ? NULL : kiln_argmax(o->a, along);
    }
    o->error = y ? n * (o->ea + unit_of(y) * o->ma) : 0;
    return y;
}

static kiln_tensor *rows(struct operands *o)
{
    int64_t rank = (int64_t)kiln_rank(o->a);
    if (!rank || !is_float(o->a)) return NULL;
    double n = (double)kiln_dims(o->a)[rank - 1];
    kiln_tensor *y = o->choice % 2 ? kiln_softmax(o->a, -1) : kiln_cumsum(o->a, -1);
    o->error = o->choice % 2 ? 2 * o->ea + 64 * unit_of(y) * (1 + o->ma) : n * (o->ea + unit_of(y) * o->ma);
    return y;
}

static kiln_tensor *product(struct operands *o)
{
    if (kiln_rank(o->a) != 2 || !is_float(o->a)) return NULL;
    bool fits = kiln_rank(o->b) == 2 && is_float(o->b) && kiln_dims(o->b)[1] == kiln_dims(o->a)[1] &&
                kiln_tensor_dtype(o->b) == kiln_tensor_dtype(o->a);
    kiln_tensor *other = fits ? o->b : o->a;
    double n = (double)kiln_dims(o->a)[1], e = fits ? o->eb : o->ea, m = fits ? o->mb : o->ma;
    o->error = n * (o->ea * m + e * o->ma + e * o->ea + 2 * unit_of(o->a) * m * o->ma);
    return kiln_matmul(o->a, kiln_transpose(other, 0, 1));
}

static kiln_tensor *view(struct operands *o)
{
    int64_t rank = (int64_t)kiln_rank(o->a), axis = rank ? o->choice / 8 % rank : 0;
    int64_t size = rank ? kiln_dims(o->a)[axis] : 1;
    o->error = o->ea;
    o->shows_a = true;
    if (rank == 0) return kiln_unsqueeze(o->a, 0);
    switch (o->choice % 6) {
    case 0: return rank > 1 ? kiln_transpose(o->a, 0, -1) : kiln_flip(o->a, KILN_AXES(0));
    case 1: return size > 1 ? kiln_narrow(o->a, axis, 1, size - 1) : NULL;
    case 2: return kiln_select(o->a, axis, o->choice / 64 % size);
    case 3:
        o->shows_a = false, o->error += unit_of(o->a) * o->ma;
        return kiln_add(kiln_reshape(o->a, KILN_SHAPE(-1)), kiln_scalar_int(0));
    case 4: return rank < 4 ? kiln_unsqueeze(o->a, axis) : NULL;
    default: return kiln_flip(o->a, KILN_AXES(axis));
    }
}

static kiln_tensor *picked(struct operands *o)
{
    int64_t rank = (int64_t)kiln_rank(o->a), axis = rank ? o->choice % rank : 0;
    if (!rank || kiln_dims(o->a)[axis] < 2 || kiln_numel(o->a) * 2 > LARGEST) return NULL;
    o->error = o->ea;
    return kiln_take(o->a, axis, o->index);
}

static kiln_tensor *joined(struct operands *o)
{
    if (!kiln_rank(o->a) || kiln_numel(o->a) * 2 > LARGEST) return NULL;
    bool pair = same_shape(o->a, o->b) && kiln_tensor_dtype(o->a) == kiln_tensor_dtype(o->b);
    o->error = pair && o->eb > o->ea ? o->eb : o->ea;
    return kiln_concat((kiln_tensor *const[]){o->a, pair ? o->b : o->a}, 2, o->choice % kiln_rank(o->a));
}

static kiln_tensor *converted(struct operands *o)
{
    static const kiln_dtype to[] = {KILN_F32, KILN_F16, KILN_I32, KILN_I64, KILN_BOOL};
    kiln_dtype dtype = to[o->choice % 5];
    if (o->ea && dtype != KILN_F32 && dtype != KILN_F16) return NULL;
    if (is_float(o->a) && !(o->ma < 30000)) return NULL;
    kiln_tensor *y = kiln_cast(o->a, dtype);
    o->error = o->ea + unit_of(y) * o->ma;
    return y;
}

// Writes into a's memory, whatever shows it.
static kiln_tensor *written(struct operands *o)
{
    bool fits = broadcast(o->a, o->b, true) && kiln_tensor_dtype(o->a) == kiln_tensor_dtype(o->b);
    if (!is_float(o->a)) return NULL;
    o->writes_a = o->shows_a = true;
    o->error = o->ea + o->eb + unit_of(o->a) * (o->ma + o->mb);
    switch (o->choice % 4) {
    case 0: return kiln_mul_(o->a, kiln_scalar(0.75)) ? NULL : o->a;
    case 1: return kiln_add_(o->a, fits ? o->b : kiln_scalar(1)) ? NULL : o->a;
    case 2: return kiln_assign(o->a, fits ? o->b : kiln_scalar(2)) ? NULL : o->a;
    default: return kiln_assign(o->a, kiln_neg(o->a)) ? NULL : o->a;
    }
}

static step_fn *const step_fns[] = {unary,  unary,  arithmetic, arithmetic, arithmetic, with_number,
                                    chosen, folded, rows,       product,    view,       view,
                                    picked, joined, converted,  written};
enum { KINDS = sizeof step_fns / sizeof *step_fns };

// --- running

static double magnitude(kiln_tensor *t)
{
    double v[LARGEST], largest = 0;
    assert_true(kiln_numel(t) <= LARGEST);
    read_all(t, v);
    for (int64_t i = 0; i < kiln_numel(t); i++)
        if (!(fabs(v[i]) <= largest)) largest = fabs(v[i]);
    return largest;
}

static kiln_tensor *run_step(struct program *p, int i, kiln_tensor **values)
{
    const struct step *s = &p->steps[i];
    int at = N_IN + i, root = p->root[s->a];
    struct operands o = {values[s->a], values[s->b], values[s->c], .choice = s->choice, .index = values[4]};
    if (p->measure) {
        o.ma = magnitude(o.a), o.mb = magnitude(o.b);
        o.ea = p->error[root], o.eb = p->error[p->root[s->b]], o.ec = p->error[p->root[s->c]];
    } else if (p->left[i])
        return o.a;
    kiln_tensor *y = s->dropped ? NULL : step_fns[s->kind % KINDS](&o);
    if (kiln_error() || !p->measure) return y ? y : o.a;
    p->left[i] = !y;
    p->root[at] = !y || o.shows_a ? root : at;
    if (y && !o.shows_a) p->error[at] = o.error;
    if (y && o.writes_a && !(o.error <= p->error[root])) p->error[root] = o.error;
    return y ? y : o.a;
}

static kiln_status run(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct program *p = user;
    kiln_tensor *values[VALUES];
    memcpy(values, in, sizeof *in * n_in);
    for (int i = 0; i < N_IN && p->measure; i++) p->root[i] = i, p->error[i] = 0;
    for (int i = 0; i < STEPS; i++) {
        values[N_IN + i] = run_step(p, i, values);
        if (kiln_error()) return kiln_error();
    }
    for (size_t i = 0; i < n_out; i++) out[i] = values[p->results[i]];
    return KILN_OK;
}

static void make_inputs(kiln_device *dev, uint32_t seed, kiln_tensor **in)
{
    uint32_t r = seed;
    float x[24];
    int32_t k[24];
    int64_t index[4];
    for (int i = 0; i < 24; i++) {
        x[i] = (float)(next(&r) % 4001) / 1000 - 2;
        k[i] = (int32_t)(next(&r) % 21) - 10;
    }
    for (int i = 0; i < 4; i++) index[i] = next(&r) % 2;
    in[0] = kiln_from_data(dev, KILN_F32, KILN_SHAPE(4, 6), x);
    in[1] = kiln_from_data(dev, KILN_F32, KILN_SHAPE(6), x + 9);
    in[2] = kiln_cast(kiln_from_data(dev, KILN_F32, KILN_SHAPE(4, 6), x), KILN_F16);
    in[3] = kiln_from_data(dev, KILN_I32, KILN_SHAPE(4, 6), k);
    in[4] = kiln_from_data(dev, KILN_I64, KILN_SHAPE(4), index);
    in[5] = kiln_greater(in[0], kiln_scalar(0.25));
    in[6] = kiln_transpose(kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 4), x + 3), 0, 1);
    ok(kiln_error());
}

// --- comparing

static bool agree(kiln_tensor *got, kiln_tensor *want, double error, bool verbose)
{
    double x[LARGEST], y[LARGEST];
    bool same = same_shape(got, want) && kiln_tensor_dtype(got) == kiln_tensor_dtype(want);
    if (!same && verbose) print_error("another shape or dtype\n");
    if (!same || !isfinite(error)) return same;
    read_all(got, x);
    read_all(want, y);
    for (int64_t i = 0; i < kiln_numel(got); i++) {
        bool fine = x[i] == y[i] || (isnan(x[i]) && isnan(y[i])) || fabs(x[i] - y[i]) <= 2 * error;
        if (!fine && verbose) print_error("element %d is %.9g, not %.9g within %.3g\n", (int)i, x[i], y[i], error);
        if (!fine) return false;
    }
    return true;
}

static kiln_device *cpu;
static uint64_t n_compiled;

// Whether a captured program does what it does in eager mode on the CPU, and eager mode on the device as well.
static bool holds(kiln_device *dev, struct program *p, kiln_capture capture, bool verbose)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *a[N_IN], *b[N_IN], *x[RESULTS], *y[RESULTS];
    make_inputs(cpu, p->seed, a);
    p->measure = true;
    kiln_status status = run(p, a, N_IN, x, RESULTS);
    p->measure = false;
    for (int i = 0; i < RESULTS; i++) p->result_error[i] = p->error[p->root[p->results[i]]];
    kiln_function *f = kiln_jit(run, p, KILN_JIT(.capture = capture, .print_after_all = verbose));
    bool fine = !status;
    for (int call = dev == cpu ? 1 : 0; call <= CALLS && fine; call++) {
        make_inputs(dev, p->seed, b);
        status = call ? kiln_call(f, b, N_IN, y, RESULTS) : run(p, b, N_IN, y, RESULTS);
        fine = !status;
        for (int i = 0; i < RESULTS && fine; i++) fine = agree(y[i], x[i], p->result_error[i], verbose);
        for (int i = 0; i < N_IN && fine; i++) fine = agree(b[i], a[i], p->error[i], verbose);
        if (!fine && verbose) print_error("call %d (0: eager), capture %d\n", call, (int)capture);
    }
    if (kiln_error() && verbose) print_error("%s\n", kiln_error_message());
    kiln_error_clear();
    n_compiled += stats_of(f).kernels_compiled;
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    return fine;
}

static void cut_down(kiln_device *dev, struct program *p, kiln_capture capture)
{
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < STEPS; i++) {
            if (p->steps[i].dropped) continue;
            p->steps[i].dropped = true;
            if (holds(dev, p, capture, false))
                p->steps[i].dropped = false;
            else
                again = true;
        }
    }
}

static void count_step_kinds(const struct program *p, int *done)
{
    for (int i = 0; i < STEPS; i++) done[p->steps[i].kind % KINDS] += !p->left[i];
}

static uint32_t n_programs = 1000, first_seed = 1;

static void random_programs_agree(void **state)
{
    struct fixture *f = *state;
    static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE, KILN_CAPTURE_AUTO};
    int done[KINDS] = {0};
    for (uint32_t seed = first_seed; seed < first_seed + n_programs; seed++) {
        struct program p;
        kiln_capture capture = captures[seed % (sizeof captures / sizeof *captures)];
        make_program(&p, seed);
        if (!holds(f->dev, &p, capture, false)) {
            print_error("program %u fails on %s; cut down it is:\n", (unsigned)seed, jit_device);
            cut_down(f->dev, &p, capture);
            holds(f->dev, &p, capture, true);
            fail();
        }
        count_step_kinds(&p, done);
    }
    printf("%u programs, %llu kernels compiled\n", (unsigned)n_programs, (unsigned long long)n_compiled);
    for (int i = 0; i < KINDS && n_programs >= 50; i++) assert_true(done[i] > 0);
}

// usage: test_fuzz_graph [device [programs [first seed]]]
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {FIXTURE(random_programs_agree)};
    if (argc > 2) n_programs = (uint32_t)strtoul(argv[2], NULL, 10);
    if (argc > 3) first_seed = (uint32_t)strtoul(argv[3], NULL, 10);
    if (choose_device(argc, argv)) return 77;
    kiln_set_log(NULL, NULL);
    cpu = kiln_device_open("cpu");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&cpu);
    return failed;
}
