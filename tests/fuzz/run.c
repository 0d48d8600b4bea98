// Runs a program's calls in one way.
#include "world.h"

const char *const way_names[WAYS] = {"eager",  "noisy", "wide",   "strict", "trace",  "auto",
                                     "region", "cell",  "nested", "mixed",  "bundle", "model"};

enum { OUTS = 4 + 2 * SOURCES };

static const char *name_of(int value)
{
    static const char *const names[VALUES] = {"v0",  "v1",  "v2",  "v3",  "v4",  "v5",  "v6",  "v7",  "v8",
                                              "v9",  "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17",
                                              "v18", "v19", "v20", "v21", "v22", "v23", "v24"};
    return names[value];
}

// --- noise: about the difference that another order of additions, or a value kept unrounded, may make

static double unit_of(kiln_dtype dtype)
{
    return dtype == KILN_F16 ? 0x1p-10 : dtype == KILN_BF16 ? 0x1p-7 : dtype == KILN_F32 ? 0x1p-21 : 0x1p-50;
}

double noise_of(const struct run *r, kiln_tensor *t)
{
    return 4 * unit_of(r->way == WAY_WIDE ? KILN_F32 : kiln_tensor_dtype(t));
}

bool noise_tosses(struct run *r)
{
    return r->noisy && rng_below(&r->noise, 2);
}

// As large as the rounding to a dtype that t is stored in.
static kiln_tensor *with_noise_of(struct run *r, kiln_tensor *t, kiln_dtype stored)
{
    static const double units[] = {-2, -1, 1, 2};
    double v[LARGEST];
    if (!t || !r->noisy || !is_float(t) || kiln_numel(t) > LARGEST) return t;
    kiln_dtype dtype = kiln_tensor_dtype(t);
    double unit = fmax(unit_of(r->way == WAY_WIDE ? KILN_F32 : dtype), is_floating(stored) ? unit_of(stored) : 0);
    for (int64_t i = 0; i < kiln_numel(t) || i == 0; i++) v[i] = 1 + unit * units[rng_below(&r->noise, 4)];
    if (!kiln_rank(t)) return kiln_mul(t, kiln_scalar(v[0]));
    return kiln_mul(t, kiln_cast(kiln_from_data(r->dev, KILN_F64, kiln_rank(t), kiln_dims(t), v), dtype));
}

kiln_tensor *with_noise(struct run *r, kiln_tensor *t)
{
    return with_noise_of(r, t, KILN_F64);
}

// A logarithm of what is nearly 1 shows the rounding of 1.
kiln_tensor *with_noise_of_one(struct run *r, kiln_tensor *t)
{
    if (!t || !r->noisy || !is_float(t)) return t;
    return kiln_sub(with_noise(r, kiln_add(t, kiln_scalar(1))), kiln_scalar(1));
}

// A zero that is one for being an f16 may be a number of either sign where it is kept unrounded.
static kiln_tensor *not_underflown(struct run *r, kiln_tensor *t)
{
    if (!t || !r->noisy || kiln_tensor_dtype(t) != KILN_F16) return t;
    return kiln_add(t, kiln_scalar(rng_below(&r->noise, 2) ? 0x1p-24 : -0x1p-24));
}

// --- steps

static void print_step(struct run *r, int value, kiln_tensor *y)
{
    fprintf(r->text, "    %s = %s", name_of(value), r->said);
    if (y) {
        fprintf(r->text, "  # %s[", kiln_dtype_name(kiln_tensor_dtype(y)));
        for (size_t i = 0; i < kiln_rank(y); i++) fprintf(r->text, "%s%d", i ? "," : "", (int)kiln_dims(y)[i]);
        fprintf(r->text, "]%s", kiln_requires_grad(y) ? " with gradient" : "");
    }
    fprintf(r->text, "\n");
}

// Rules round, too.
static kiln_tensor *gradient_with_noise(void *user, kiln_tensor *grad)
{
    return with_noise(user, grad);
}

static bool flows(const struct program *p)
{
    for (int i = 0; i < p->n_steps; i++)
        if (!p->step[i].dropped && (step_kinds[p->step[i].kind].flags & STEP_FLOWS)) return true;
    return false;
}

static bool is_finite(kiln_tensor *t)
{
    kiln_no_grad_begin();
    bool finite = !is_float(t) || !kiln_numel(t) || kiln_item(kiln_all(kiln_isfinite(t), NULL)) != 0;
    kiln_no_grad_end();
    return finite;
}

// What a rule gives for two operands that are one tensor, as of x / x, may cancel, and what it is added to be lost in
// that: without noise between them it does so exactly, and in the order of eager mode.
static bool meets_itself(const struct operands *o, int flags)
{
    bool meets = (o->a == o->b || o->a == o->c) && kiln_requires_grad(o->a);
    return meets && !(flags & (STEP_SHOWS | STEP_WRITES));
}

static kiln_tensor *run_step(struct run *r, int i, kiln_tensor **values)
{
    const struct step *s = &r->p->step[i];
    const struct step_kind *kind = &step_kinds[s->kind];
    struct operands o = {values[s->a],
                         values[s->b],
                         values[s->c],
                         name_of(s->a),
                         name_of(s->b),
                         name_of(s->c),
                         {s->choice + (uint64_t)1},
                         r};
    if (kind->flags & STEP_ADDS || meets_itself(&o, kind->flags))
        o.a = with_noise(r, o.a), o.b = with_noise(r, o.b), o.c = with_noise(r, o.c);
    if (kind->flags & STEP_WRITES) o.b = with_noise_of(r, o.b, kiln_tensor_dtype(o.a));
    kiln_tensor *y = s->dropped || too_deep(&o, o.a, 5) ? NULL : kind->fn(&o);
    if (!y || kiln_error() || kiln_numel(y) > LARGEST) y = NULL;
    r->left[i] = !y;
    if (!y) return values[s->a];
    if (!(kind->flags & (STEP_SHOWS | STEP_WRITES))) {
        y = with_noise(r, y);
        if (kiln_tensor_dtype(o.a) != KILN_F16) y = not_underflown(r, y);
        if (r->noisy && y && kiln_requires_grad(y)) kiln_register_hook(y, gradient_with_noise, r);
    }
    if (kiln_tensor_dtype(y) == KILN_F16 || kiln_tensor_dtype(y) == KILN_BF16) r->trace->halves = kiln_tensor_dtype(y);
    if (r->way == WAY_EAGER && flows(r->p) && !(is_finite(o.a) && is_finite(y))) r->trace->overflows = true;
    r->trace->whole |= r->way == WAY_EAGER && kiln_requires_grad(y) && is_integer(y);
    if (r->text) print_step(r, r->p->n_sources + i, y);
    return y;
}

static kiln_status run_steps(struct run *r, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *values[VALUES];
    const struct program *p = r->p;
    world_values(r, in, values);
    for (int i = 0; i < p->n_steps; i++) {
        if (kiln_error()) return kiln_error();
        r->step = i;
        if (i == p->breaks && host_breaks(r)) return kiln_error(); // steps may pass over an error
        values[p->n_sources + i] = run_step(r, i, values);
        if (r->way == WAY_EAGER) steps_done[p->step[i].kind] += !r->left[i] && !kiln_error();
    }
    r->step = kiln_error() ? r->step : -1;
    for (int i = 0; i < p->n_results; i++) out[i] = values[p->result[i]];
    return kiln_error();
}

// --- gradients

static kiln_tensor *weight_of(struct run *r, kiln_tensor *t, int k)
{
    if (r->p->even || !kiln_rank(t)) return kiln_scalar((k + 1) * 0.25);
    kiln_tensor *line = kiln_arange(r->dev, dtype_of_run(r, KILN_F32), 0, (double)kiln_numel(t), 1);
    return kiln_add(kiln_reshape(kiln_mul(line, kiln_scalar(0.125)), kiln_rank(t), kiln_dims(t)), kiln_scalar(k + 1));
}

// A weighed sum of all floats among some tensors.
static kiln_tensor *loss_of(struct run *r, kiln_tensor *const *t, int n)
{
    kiln_tensor *sum = NULL;
    kiln_dtype dtype = dtype_of_run(r, KILN_F32);
    for (int i = 0; i < n; i++) {
        if (kiln_error() || !is_float(t[i])) continue;
        kiln_tensor *one = kiln_cast(kiln_sum(with_noise(r, kiln_mul(t[i], weight_of(r, t[i], i))), NULL), dtype);
        sum = sum ? kiln_add(sum, one) : one;
    }
    return sum || kiln_error() ? sum : kiln_cast(kiln_sum(t[0], NULL), dtype);
}

static kiln_status loss_fn(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct run *r = user;
    kiln_status status = run_steps(r, in, out + 1);
    out[0] = status ? NULL : loss_of(r, out + 1, r->p->n_results);
    return kiln_error();
}

struct by {
    int64_t inputs[SOURCES];
    kiln_tensor *params[SOURCES];
    size_t n_inputs, n_params;
};

static void differentiate_by(struct run *r, struct by *by)
{
    *by = (struct by){.n_inputs = 0};
    int64_t position = 0;
    for (int i = 0; i < r->p->n_sources; i++) {
        const struct source *s = &r->p->source[i];
        bool floats = s->kind == SOURCE_MUTABLE || (s->kind == SOURCE_INPUT && is_floating(r->p->dtype[s->base]));
        if (s->same_as >= 0) floats = is_floating(r->p->dtype[r->p->source[s->same_as].base]);
        if (is_input(s) && floats) by->inputs[by->n_inputs++] = position;
        if (s->kind == SOURCE_PARAMETER) by->params[by->n_params++] = r->source[i];
        position += is_input(s);
    }
}

static kiln_status slope_fn(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct run *r = user;
    struct by by;
    kiln_tensor *grads[OUTS];
    differentiate_by(r, &by);
    kiln_grad_opts opts = {.size = sizeof opts, .wrt = {by.n_inputs, by.inputs}, .has_aux = true};
    opts.outputs = 1 + (size_t)r->p->n_results;
    if (kiln_grad(loss_fn, r, in, n_in, &opts, grads, by.n_inputs + (size_t)r->p->n_results)) return kiln_error();
    out[0] = loss_of(r, grads, (int)by.n_inputs);
    return kiln_error();
}

static size_t count_outs(struct run *r)
{
    struct by by;
    size_t n = (size_t)r->p->n_results;
    differentiate_by(r, &by);
    return r->p->gradient == GRADIENT_OF       ? 1 + n + by.n_inputs + by.n_params
           : r->p->gradient == GRADIENT_SECOND ? by.n_inputs
           : r->p->gradient == GRADIENT_INSIDE ? n + by.n_params
                                               : n;
}

static kiln_status function(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct run *r = user;
    struct by by;
    differentiate_by(r, &by);
    kiln_grad_opts opts = {.size = sizeof opts, .wrt = {by.n_inputs, by.inputs}};
    if (r->p->gradient == GRADIENT_SECOND) return kiln_grad(slope_fn, r, in, n_in, &opts, out, n_out);
    if (r->p->gradient == GRADIENT_OF) {
        opts.params = (kiln_tensors){by.n_params, by.params};
        opts.has_aux = true;
        opts.outputs = 1 + (size_t)r->p->n_results;
        return kiln_value_and_grad(loss_fn, r, in, n_in, &opts, out, n_out);
    }
    if (run_steps(r, in, out) || r->p->gradient != GRADIENT_INSIDE) return kiln_error();
    kiln_tensor *loss = loss_of(r, out, r->p->n_results);
    bool has_slope = loss && kiln_requires_grad(loss);
    if (r->p->asks && has_slope && by.n_params)
        return kiln_gradients(loss, by.params, by.n_params, NULL, out + r->p->n_results);
    if (has_slope) kiln_backward(loss, NULL);
    for (size_t i = 0; i < by.n_params && !kiln_error(); i++) {
        kiln_tensor *d = kiln_gradient(by.params[i]);
        out[r->p->n_results + (int)i] = d ? kiln_alias(d) : kiln_zeros_like(by.params[i]);
    }
    return kiln_error();
}

// --- calls

// Of bundles: a number, one tensor, and the others in a bundle of their own. The results are given likewise.
static kiln_bundle *pack(kiln_tensor *const *t, size_t n)
{
    kiln_bundle *b = kiln_bundle_create();
    kiln_bundle_append(b, "count", KILN_INT(n));
    if (n) kiln_bundle_append(b, "first", KILN_TENSOR(t[0]));
    if (n > 1) kiln_bundle_append(b, NULL, KILN_BUNDLE(kiln_bundle_of(t + 1, n - 1)));
    return b;
}

static void unpack(kiln_bundle *b, kiln_tensor **t)
{
    size_t n = (size_t)kiln_bundle_int(b, "count");
    kiln_bundle *rest = n > 1 ? kiln_bundle_bundle_at(b, -1) : NULL;
    if (n) t[0] = kiln_bundle_tensor(b, "first");
    for (size_t i = 1; i < n; i++) t[i] = kiln_bundle_tensor_at(rest, (int64_t)i - 1);
}

static kiln_status bundle_function(void *user, kiln_bundle *in, kiln_bundle **out)
{
    struct run *r = user;
    kiln_tensor *values[SOURCES], *results[OUTS];
    unpack(in, values);
    size_t n = count_outs(r);
    if (kiln_error() || function(r, values, (size_t)kiln_bundle_int(in, "count"), results, n)) return kiln_error();
    *out = pack(results, n);
    return kiln_error();
}

static kiln_status call_bundle(struct run *r, kiln_tensor *const *in, size_t n_in, kiln_tensor **out)
{
    kiln_bundle *results;
    if (kiln_bundle_call(r->function, pack(in, n_in), &results)) return kiln_error();
    unpack(results, out);
    return kiln_error();
}

static kiln_status cell_function(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                 size_t n_out)
{
    return function(user, in, n_in, out, n_out);
}

static kiln_status outer_function(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct run *r = user;
    return kiln_call(r->inner, in, n_in, out, n_out);
}

static kiln_status call_in_region(struct run *r, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    KILN_CAPTURE(r->dev)
    {
        if (function(r, in, n_in, out, n_out)) return kiln_error();
        for (size_t i = 0; i < n_out; i++) out[i] = kiln_keep(kiln_alias(out[i]));
    }
    return kiln_error();
}

static kiln_status call_cell(struct run *r, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_set_mode(KILN_MODE_GRAPH);
    kiln_status status = kiln_cell_call_n(r->cell, in, n_in, out, n_out);
    kiln_set_mode(KILN_MODE_EAGER);
    return status;
}

// What no file can hold runs as it is.
static bool has_no_file(void)
{
    bool is = kiln_error() == KILN_E_UNSUPPORTED && strstr(kiln_error_message(), "what no file can hold");
    if (is) kiln_error_clear();
    return is;
}

static kiln_status model_inside(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_call(user, in, n_in, out, n_out);
}

// On the very weights that the function reaches, which a file would hold copies of.
static kiln_status call_model(struct run *r, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_model *m = kiln_model_create();
    kiln_status status = kiln_model_add(m, "f", r->function, in, n_in, n_out, NULL);
    bool direct = status && has_no_file();
    if (!status && kiln_model_input_count(m, "f") != n_in) direct = true; // numbers of the host
    kiln_function *f = status || direct ? NULL : kiln_model_function(m, "f");
    kiln_model_free(&m);
    const kiln_jit_opts *opts = KILN_JIT(.capture = (kiln_capture)(r->p->seed / 3 % 3));
    kiln_function *outer = f && r->p->seed % 3 == 0 ? kiln_jit(model_inside, f, opts) : NULL;
    if (f) kiln_call(outer ? outer : f, in, n_in, out, n_out);
    kiln_function_free(&outer);
    if (direct && !kiln_error()) kiln_call(r->function, in, n_in, out, n_out);
    kiln_function_free(&f);
    return kiln_error();
}

static kiln_status call_once(struct run *r, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    switch (r->way) {
    case WAY_EAGER:
    case WAY_NOISY:
    case WAY_WIDE: return function(r, in, n_in, out, n_out);
    case WAY_REGION: return call_in_region(r, in, n_in, out, n_out);
    case WAY_CELL: return call_cell(r, in, n_in, out, n_out);
    case WAY_BUNDLE: return call_bundle(r, in, n_in, out);
    case WAY_MODEL: return call_model(r, in, n_in, out, n_out);
    case WAY_MIXED: return kiln_call(r->call % 2 ? r->inner : r->function, in, n_in, out, n_out);
    default: return kiln_call(r->function, in, n_in, out, n_out);
    }
}

static bool gives(const struct run *r)
{
    return r->way == WAY_STRICT || r->way == WAY_TRACE || r->way == WAY_AUTO || r->way == WAY_NESTED ||
           r->way == WAY_MIXED;
}

// What a call that worked was given away is a handle no more; a call that failed has left it.
static void check_given(struct run *r, bool worked)
{
    for (int i = 0; i < r->p->n_sources && !kiln_error() && gives(r); i++) {
        if (!r->p->source[i].given) continue;
        kiln_rank(r->source[i]);
        bool taken = kiln_error() == KILN_E_HANDLE && strstr(kiln_error_message(), " was given away to ");
        if (taken) kiln_error_clear();
        if (taken == worked || kiln_error()) continue;
        r->trace->status = KILN_E_INTERNAL;
        snprintf(r->trace->message, sizeof r->trace->message, "v%d was%s given away", i, taken ? "" : " not");
    }
}

static void make_functions(struct run *r)
{
    static const kiln_capture captures[WAYS] = {[WAY_TRACE] = KILN_CAPTURE_TRACE, [WAY_AUTO] = KILN_CAPTURE_AUTO};
    const struct program *p = r->p;
    int64_t numbers[SOURCES];
    const kiln_ints given = gives(r) ? world_given(p, numbers) : (kiln_ints){0};
    const kiln_jit_opts *opts =
        KILN_JIT(.capture = captures[r->way], .level = p->level, .eager_rounding = p->eager_rounding,
                 .deterministic = p->deterministic, .verify = p->verified && r->way == WAY_STRICT, .donate = given,
                 .max_nodes = r->way == WAY_AUTO ? (uint64_t)p->most : 0);
    r->function = r->way == WAY_BUNDLE ? kiln_bundle_jit(bundle_function, r, opts)
                                       : kiln_jit(r->way == WAY_NESTED ? outer_function : function, r, opts);
    r->inner = kiln_jit(function, r, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .donate = given));
    if (r->way == WAY_CELL) r->cell = kiln_cell_create(KILN_CELL(.construct = cell_function, .user = r));
}

// --- what happens before and after

static kiln_status threefold(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                             kiln_tensor **din)
{
    for (size_t i = 0; i < kiln_rule_n_in(); i++)
        if (kiln_rule_wants(i)) din[i] = kiln_add(dout[0], kiln_add(dout[0], dout[0]));
    return kiln_error();
}

static const char *const ruled[] = {"mul", "tanh", "sigmoid", "neg", "square"};
enum { RULED = sizeof ruled / sizeof *ruled };

static void happens(struct run *r)
{
    enum event event = r->p->event[r->call];
    if (event == EVENT_RULE)
        for (size_t i = 0; i < RULED; i++) kiln_register_bprop(ruled[i], threefold, NULL);
    if (event == EVENT_NO_GRAD) kiln_no_grad_begin();
    for (int i = 0; i < r->p->n_sources; i++) {
        if (r->p->source[i].kind != SOURCE_PARAMETER) continue;
        kiln_set_gradient(r->source[i], NULL);
        if (event == EVENT_FREEZE || event == EVENT_THAW) kiln_set_requires_grad(r->source[i], event == EVENT_THAW);
        if (event == EVENT_FREEZE) kiln_state(r->source[i]);
        if (event != EVENT_UPDATE) continue;
        kiln_no_grad_begin();
        kiln_assign(r->source[i], kiln_sub(kiln_scalar(0.5), r->source[i]));
        kiln_no_grad_end();
    }
}

static kiln_tensor *leaf_at(struct run *r, int i)
{
    const struct source *s = &r->p->source[i];
    return s->leaf || s->kind == SOURCE_PARAMETER ? r->source[i] : NULL;
}

// A backward replaces what the call has left, also by zeros, where a branch that is not taken leads to a leaf.
static void take_left(struct run *r)
{
    char name[32];
    for (int i = 0; i < r->p->n_sources; i++) {
        kiln_tensor *leaf = leaf_at(r, i), *d = leaf ? kiln_gradient(leaf) : NULL;
        snprintf(name, sizeof name, "left in v%d", i);
        if (leaf) trace_add(r->trace, name, d ? d : kiln_zeros_like(leaf));
        if (d) kiln_set_gradient(leaf, NULL);
    }
}

static void back_through_call(struct run *r, kiln_tensor *const *out)
{
    take_left(r);
    kiln_tensor *squares = NULL, *loss = loss_of(r, out, r->p->n_results);
    if (!loss || !kiln_requires_grad(loss)) return;
    kiln_backward_with(loss, KILN_BACKWARD(.create_graph = r->p->gradient == GRADIENT_TWICE));
    for (int i = 0; i < r->p->n_sources && r->p->gradient == GRADIENT_TWICE; i++) {
        kiln_tensor *leaf = leaf_at(r, i), *d = leaf ? kiln_gradient(leaf) : NULL;
        if (!d) continue;
        kiln_tensor *one = kiln_cast(kiln_sum(kiln_square(d), NULL), dtype_of_run(r, KILN_F32));
        squares = squares ? kiln_add(squares, one) : one;
    }
    // A second derivative of zeros and none are the same.
    for (int i = 0; i < r->p->n_sources && squares; i++)
        if (leaf_at(r, i)) kiln_set_gradient(leaf_at(r, i), NULL);
    if (squares && kiln_requires_grad(squares)) kiln_backward(squares, NULL);
}

static void record_memory(struct run *r)
{
    char name[32];
    for (int i = 0; i < BASES; i++) {
        snprintf(name, sizeof name, "base %d", i);
        trace_add(r->trace, name, r->base[i]);
    }
}

// What has been printed, as a number.
static void record_prints(struct run *r)
{
    uint32_t hash = 0;
    fflush(r->out);
    for (size_t i = 0; i < r->n_printed; i++) hash = hash * 31 + (uint8_t)r->printed[i];
    trace_add_number(r->trace, "printed", hash);
}

static void record(struct run *r, kiln_tensor *const *out, size_t n_out)
{
    char name[32];
    record_prints(r);
    for (size_t i = 0; i < n_out; i++) {
        snprintf(name, sizeof name, "result %d", (int)i);
        trace_add(r->trace, name, out[i]);
    }
    for (int i = 0; i < r->p->n_sources; i++) {
        kiln_tensor *leaf = leaf_at(r, i), *d = leaf ? kiln_gradient(leaf) : NULL;
        snprintf(name, sizeof name, "gradient of v%d", i);
        if (d) trace_add(r->trace, name, d);
        if (leaf && !d) trace_add(r->trace, name, kiln_zeros_like(leaf));
        snprintf(name, sizeof name, "parameter v%d", i);
        if (leaf && !r->p->source[i].leaf) trace_add(r->trace, name, leaf);
        snprintf(name, sizeof name, "base of v%d", i);
        if (r->p->source[i].leaf) trace_add(r->trace, name, r->leaf_base[i]);
    }
    record_memory(r);
    trace_add_number(r->trace, "host reads", r->heard);
    uint64_t seed = 0, offset = 0;
    kiln_rng_state(r->dev, &seed, &offset);
    trace_add_number(r->trace, "random offset", (double)offset);
}

// Results may lie in memory that the function was given, and in each other's; in no other.
static void touch_results(struct run *r, kiln_tensor *const *out)
{
    char name[32];
    kiln_no_grad_begin();
    for (int i = 0; i < r->p->n_results && !kiln_error(); i++) {
        bool writable = !may_show_constant(r->p, r->p->result[i]) && !may_repeat(r->p, r->p->result[i]);
        if (is_float(out[i]) && writable) kiln_assign(out[i], kiln_scalar(i + 3));
        if (kiln_error()) kiln_error_clear(); // a number, or memory that shows an element twice
    }
    kiln_no_grad_end();
    for (int i = 0; i < r->p->n_results; i++) {
        snprintf(name, sizeof name, "touched result %d", i);
        trace_add(r->trace, name, out[i]);
    }
    for (int i = 0; i < FIXED; i++) {
        snprintf(name, sizeof name, "touched base %d", i);
        trace_add(r->trace, name, r->base[i]);
    }
}

// What came before an op that fails has happened, and nothing of what comes after it.
static bool is_broken(struct run *r)
{
    if (r->call != r->p->n_calls - 1 || kiln_error() != HOST_BROKEN) return false;
    kiln_error_clear();
    record_prints(r);
    record_memory(r);
    trace_add_number(r->trace, "broken", 1);
    return true;
}

static void run_call(struct run *r)
{
    kiln_tensor *in[SOURCES], *out[OUTS] = {NULL};
    const struct program *p = r->p;
    kiln_scope *scope = kiln_scope_begin();
    world_before_call(r);
    r->heard = 0;
    r->step = -1;
    r->trace->call = r->call;
    if (r->text) fprintf(r->text, "  call %d:\n", r->call);
    happens(r);
    size_t n_in = world_inputs(r, in), n_out = count_outs(r);
    if (!kiln_error()) call_once(r, in, n_in, out, n_out);
    bool broken = kiln_error() && is_broken(r);
    check_given(r, !broken);
    if (kiln_error()) r->trace->failed_step = r->step;
    if (!kiln_error() && !broken && (p->gradient == GRADIENT_OUTSIDE || p->gradient == GRADIENT_TWICE))
        back_through_call(r, out);
    if (p->event[r->call] == EVENT_NO_GRAD) kiln_no_grad_end();
    if (!kiln_error() && !broken) record(r, out, n_out);
    if (!kiln_error() && !broken && p->touches && p->gradient != GRADIENT_OF && p->gradient != GRADIENT_SECOND)
        touch_results(r, out);
    kiln_scope_end(&scope);
}

static void note_failure(struct run *r)
{
    struct trace *t = r->trace;
    t->status = kiln_error();
    snprintf(t->message, sizeof t->message, "%s", kiln_error_message());
    if (r->way == WAY_EAGER && t->failed_step >= 0) steps_failed[r->p->step[t->failed_step].kind]++;
    kiln_error_clear();
}

// With KILN_DEBUG=redzones the memory of a run is told of as it goes.
static void hear(void *user, const char *message)
{
    struct trace *t = user;
    if (strncmp(message, "redzones: ", 10) || t->status) return;
    t->status = KILN_E_INTERNAL;
    snprintf(t->message, sizeof t->message, "%s", message);
}

void run_program(const struct program *p, enum way way, kiln_device *dev, uint32_t noise, FILE *text,
                 struct trace *trace)
{
    struct run r = {
        .p = p, .way = way, .dev = dev, .text = text, .trace = trace, .noise = {noise}, .noisy = noise != 0};
    kiln_scope *scope = kiln_scope_begin();
    FILE *out = stdout;
    *trace = (struct trace){.failed_step = -1};
    r.out = stdout = open_memstream(&r.printed, &r.n_printed);
    kiln_set_log(hear, trace);
    kiln_set_device(dev);
    kiln_seed(dev, 7);
    world_open(&r);
    make_functions(&r);
    for (r.call = 0; r.call < p->n_calls && !kiln_error(); r.call++) run_call(&r);
    if (kiln_error()) note_failure(&r);
    kiln_set_mode(KILN_MODE_EAGER); // while an error is pending it cannot be set
    for (size_t i = 0; i < RULED; i++) kiln_register_bprop(ruled[i], NULL, NULL);
    kiln_function_free(&r.function);
    kiln_function_free(&r.inner);
    kiln_cell_free(&r.cell);
    for (int i = 0; i < BASES; i++) kiln_free(&r.base[i]);
    kiln_scope_end(&scope);
    kiln_set_log(NULL, NULL);
    stdout = out;
    fclose(r.out);
    free(r.printed);
}
