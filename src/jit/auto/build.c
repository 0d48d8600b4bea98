// From a path of the trie to a graph, and to what is compiled of it.
//
// Input: a segment, whose last step names a path, and the values that are wanted. The path is walked back once to mark
// what they need, then forward to make the nodes; inputs and run-time numbers become inputs of the graph at their first
// use. Graphs that are equal, as those of a loop's repetitions are, share one body.
#include "device/profile.h"
#include "jit/auto/auto.h"
#include <kiln/graph.h>
#include <stdlib.h>
#include <string.h>

struct build {
    const struct segment *s;
    const struct auto_step *at;
    const struct auto_step **path;
    int n_path;
    bool *needed;              // by value
    bool *compared;            // by value: needed to be compared with others
    int32_t *values;           // in the graph; -1: not there
    int32_t *given;            // by value: the segment's input that it lies in; -1: it has to be computed
    int32_t *inputs;           // in the graph, of the segment's inputs
    int32_t *numbers;          // and of its run-time numbers
    const struct type **types; // of the segment's inputs
    struct kiln_graph *g;
    VEC(struct ref) order; // of the graph's inputs
};

static size_t count_numbers(const struct auto_step *at)
{
    size_t n = (size_t)at->n_numbers;
    for (int i = 0; i < at->n_in; i++) n += at->in[i].kind == REF_RUN_TIME;
    return n;
}

static kiln_status start(struct build *b)
{
    size_t n_values = auto_step_values(b->at), n_inputs = auto_step_inputs(b->at), n_numbers = count_numbers(b->at);
    b->n_path = b->at->depth;
    b->path = calloc((size_t)b->n_path + 1, sizeof *b->path);
    b->needed = calloc(n_values + 1, 2);
    size_t room = 2 * n_values + n_inputs + n_numbers + 1;
    b->values = malloc(room * sizeof *b->values);
    b->types = calloc(n_inputs + 1, sizeof *b->types);
    if (!b->path || !b->needed || !b->values || !b->types) return error_set(KILN_E_MEMORY, "jit: out of memory");
    b->compared = b->needed + n_values;
    memset(b->values, 0xff, room * sizeof *b->values);
    b->given = b->values + n_values;
    b->inputs = b->given + n_values;
    b->numbers = b->inputs + n_inputs;
    const struct auto_step *s = b->at;
    for (int i = b->n_path; i-- > 0; s = s->parent) {
        b->path[i] = s;
        for (int k = 0; k < s->n_new; k++) b->types[s->n_inputs + k] = &s->inputs[k].type;
    }
    return KILN_OK;
}

static void finish(struct build *b)
{
    free((void *)b->path);
    free((void *)b->types);
    free(b->needed);
    free(b->values);
    vec_free(&b->order);
    ir_graph_destroy(&b->g);
}

static bool is_needed(const struct build *b, const struct auto_step *s)
{
    for (int i = 0; i < s->n_out; i++)
        if (b->needed[s->n_values + i]) return true;
    return false;
}

static void mark(struct build *b, const struct ref *wanted, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (wanted[i].kind == REF_STEP) b->needed[wanted[i].index] = true;
    for (int i = b->n_path; i-- > 0;) {
        const struct auto_step *s = b->path[i];
        bool compares = s->op->flags & OP_COMPARES || (s->n_out && s->out[0].dtype == KILN_BOOL);
        for (int k = 0; k < s->n_in && is_needed(b, s); k++) {
            if (s->in[k].kind != REF_STEP || b->given[s->in[k].index] >= 0) continue;
            b->needed[s->in[k].index] = true;
            b->compared[s->in[k].index] |= compares;
        }
    }
}

static int32_t add_input(struct build *b, const struct ref *r, int32_t *at)
{
    char name[24];
    struct type type;
    if (*at >= 0) return *at;
    if (r->kind == REF_INPUT)
        type = b->s ? b->s->inputs.v[r->index]->type : *b->types[r->index];
    else
        type = (struct type){.dtype = r->dtype == KILN_F64 ? KILN_F32 : r->dtype, .weak = true};
    snprintf(name, sizeof name, "%s%zu", r->kind == REF_INPUT ? "in" : "number", b->order.n);
    if (vec_push(&b->order, *r)) return -1;
    return *at = ir_add_input(b->g, &type, name);
}

static int32_t value_of(struct build *b, int32_t index)
{
    const struct ref lies = {.kind = REF_INPUT, .index = b->given[index]};
    return lies.index < 0 ? b->values[index] : add_input(b, &lies, &b->values[index]);
}

static int32_t operand(struct build *b, const struct ref *r)
{
    struct type number = {.dtype = r->dtype, .weak = true};
    switch (r->kind) {
    case REF_STEP: return value_of(b, r->index);
    case REF_INPUT: return add_input(b, r, &b->inputs[r->index]);
    case REF_RUN_TIME: return add_input(b, r, &b->numbers[r->index]);
    default: return ir_add_number(b->g, &number, r->number, r->integer);
    }
}

static kiln_status add_step(struct build *b, const struct auto_step *s)
{
    const struct type *types[256];
    int32_t in[256];
    struct op_call c = {.op = s->op, .n_in = s->n_in, .n_out = s->n_out, .in = types, .attrs = s->attrs};
    for (int i = 0; i < s->n_in; i++) {
        types[i] = s->in[i].kind == REF_NONE ? NULL : &s->in_types[i];
        in[i] = s->in[i].kind == REF_NONE ? -1 : operand(b, &s->in[i]);
        if (in[i] < 0 && types[i]) return error_pending;
    }
    for (int i = 0; i < s->n_out; i++) c.out[i] = s->out[i];
    int32_t first = ir_add_node(b->g, &c, in, s->caller);
    if (first < 0) return error_pending;
    for (int i = 0; i < s->n_out; i++) b->values[s->n_values + i] = first + i;
    return KILN_OK;
}

static kiln_status add_steps(struct build *b)
{
    for (int i = 0; i < b->n_path; i++)
        if (is_needed(b, b->path[i])) TRY(add_step(b, b->path[i]));
    return KILN_OK;
}

static kiln_status add_outputs(struct build *b, const struct ref *wanted, size_t n)
{
    char name[24];
    for (size_t i = 0; i < n; i++) {
        if (wanted[i].kind != REF_STEP) continue;
        snprintf(name, sizeof name, "out%zu", i);
        TRY(ir_add_output(b->g, b->values[wanted[i].index], name));
    }
    return KILN_OK;
}

// Bodies

static bool same_inputs(const struct auto_body *a, const struct input_type *inputs, size_t n)
{
    if (a->n_inputs != n) return false;
    for (size_t i = 0; i < n; i++) {
        const struct type *t = &inputs[i].type;
        if (!type_equal(t, &a->inputs[i].type) || t->weak != a->inputs[i].type.weak) return false;
        for (int d = 0; d < t->rank; d++)
            if (t->dims[d] > 1 && inputs[i].layout.strides[d] != a->inputs[i].layout.strides[d]) return false;
    }
    return true;
}

static kiln_status compile(const struct auto_body *y, struct program_options *options, struct program **out)
{
    const struct layout **layouts = calloc(y->n_inputs + 1, sizeof *layouts);
    bool *numbers = calloc(y->n_inputs + 1, sizeof *numbers);
    kiln_status status = layouts && numbers ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < y->n_inputs && !status; i++) {
        numbers[i] = y->inputs[i].layout.offset < 0;
        if (!numbers[i] && !layout_is_contiguous(&y->inputs[i].type, &y->inputs[i].layout))
            layouts[i] = &y->inputs[i].layout;
    }
    options->numbers = numbers;
    options->given = y->replaced;
    if (!status) status = program_create(y->graph, y->dev, layouts, options, out);
    free(layouts);
    free(numbers);
    return status;
}

kiln_status auto_body_picture(const struct trie *t, const struct auto_body *y, struct str *out)
{
    struct program_options options = {0};
    struct program *none;
    if (t->f) options = function_program_options(t->f);
    options.name = trie_name(t);
    options.forms = t->f ? t->f->forms : NULL;
    options.picture = out;
    return compile(y, &options, &none);
}

static void count(struct trie *t, struct auto_body *y)
{
    struct program_facts facts = {.n_launches = (int)y->graph->nodes.n};
    if (y->program) program_get_facts(y->program, &facts);
    y->launches = facts.n_launches;
    y->kernels = facts.n_kernels;
    if (!t->f) return;
    pthread_mutex_lock(&t->f->lock);
    t->f->stats.nodes = y->graph->nodes.n;
    pthread_mutex_unlock(&t->f->lock);
}

static void note_failure(struct kiln_function *f)
{
    if (!f) return;
    pthread_mutex_lock(&f->lock);
    function_note(f, "op by op: %s", kiln_error_message());
    pthread_mutex_unlock(&f->lock);
}

// Compiles without the lock, so that others can record and run meanwhile; those who need this body wait.
static void compile_body(struct trie *t, struct auto_body *y)
{
    struct program_options options = {0};
    if (t->f) options = function_program_options(t->f); // whoever breaks the segment holds the function
    options.name = trie_name(t);
    options.count = t->f ? t->f->kernels : NULL;
    options.forms = t->f ? t->f->forms : NULL;
    y->making = true;
    struct program *program = NULL;
    int depth = auto_unlock_all();
    kiln_status status = compile(y, &options, &program);
    auto_lock_again(depth);
    y->program = program;
    y->making = false;
    auto_lock_wake();
    struct program_facts facts = {0};
    if (program) program_get_facts(program, &facts);
    t->forms += !facts.reused;
    t->size_B += y->size_B = facts.host_B + ir_graph_size_B(y->graph);
    if (!status) return;
    note_failure(t->f);
    kiln_error_clear();
}

// Which inputs the plan replaces: results may lie over them. NULL: none, or there was no memory to say so.
static bool *find_replaced(const struct build *b, const struct auto_plan *p)
{
    bool *out = calloc(b->order.n + 1, sizeof *out), any = false;
    for (size_t i = 0; out && i < b->order.n; i++) {
        const struct ref *r = &b->order.v[i];
        const struct lazy *l = r->kind == REF_INPUT ? b->s->inputs.v[r->index]->storage->lazy : NULL;
        out[i] = l && l->seg == b->s && l->outside && l->value.kind == REF_STEP && p->place[l->value.index] >= 0;
        any |= out[i];
    }
    if (any) return out;
    free(out);
    return NULL;
}

// A new body of the graph that was built, whose inputs it takes over. What cannot be compiled runs op by op.
static kiln_status new_body(struct build *b, const struct auto_plan *p, struct input_type *inputs, uint64_t hash,
                            bool alone, struct auto_body **out)
{
    struct trie *t = b->s->trie;
    struct auto_body *y = calloc(1, sizeof *y);
    if (!y) {
        free(inputs);
        return error_set(KILN_E_MEMORY, "jit: out of memory");
    }
    *y = (struct auto_body){
        .dev = b->s->dev, .hash = hash, .graph = b->g, .inputs = inputs, .n_inputs = b->order.n, .refs = 1};
    if (!alone) y->replaced = find_replaced(b, p);
    b->g = NULL;
    if (!alone) {
        y->next = t->bodies;
        t->bodies = y;
        t->n_bodies++;
        y->number = ++t->made;
    }
    if (!alone && t->f && t->f->o.print_after_all) TRY(kiln_graph_print(y->graph, stderr));
    if (!alone && !debug_flag("replay")) compile_body(t, y);
    count(t, y);
    *out = y;
    return KILN_OK;
}

static kiln_status get_body(struct build *b, const struct auto_plan *p, bool alone, struct auto_body **out)
{
    struct trie *t = b->s->trie;
    struct input_type *inputs = calloc(b->order.n + 1, sizeof *inputs);
    if (!inputs) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < b->order.n; i++) {
        const struct ref *r = &b->order.v[i];
        if (r->kind == REF_INPUT)
            inputs[i] = (struct input_type){b->s->inputs.v[r->index]->type, b->s->inputs.v[r->index]->layout};
        else // a number lies nowhere
            inputs[i] = (struct input_type){{.dtype = r->dtype, .weak = true}, {.offset = -1}};
    }
    uint64_t hash = ir_graph_hash(b->g);
    for (struct auto_body *y = t->bodies; y && !alone; y = y->next) {
        if (y->hash != hash || y->dev != b->s->dev || !same_inputs(y, inputs, b->order.n) ||
            !ir_graph_equal(y->graph, b->g))
            continue;
        y->refs++;
        free(inputs);
        while (y->making) auto_lock_wait();
        *out = y;
        return KILN_OK;
    }
    return new_body(b, p, inputs, hash, alone, out);
}

// Plans

static bool has(const struct ref *v, size_t n, const struct ref *r)
{
    for (size_t i = 0; i < n; i++)
        if (ref_equal(&v[i], r)) return true;
    return false;
}

// Values on the way that a storage waits for: all, or those that were compared. Computed later, by other kernels, they
// would differ from what comparing them gave.
static kiln_status add_waiting(const struct build *b, bool all, struct auto_plan *p)
{
    size_t n = p->n_wanted;
    for (const struct lazy *l = b->s->lazies; l; l = l->next) n++;
    struct ref *wanted = realloc(p->wanted, n * sizeof *wanted);
    if (!wanted) return error_set(KILN_E_MEMORY, "jit: out of memory");
    p->wanted = wanted;
    for (const struct lazy *l = b->s->lazies; l; l = l->next)
        if (!l->failed && l->value.kind == REF_STEP && (all ? b->needed : b->compared)[l->value.index] &&
            !has(p->wanted, p->n_wanted, &l->value))
            p->wanted[p->n_wanted++] = l->value;
    return KILN_OK;
}

// What was given, unless it was found among values that are not: those that are computed anew may differ from it by
// their last bits, so that it would not be found again.
static void take_given(struct build *b)
{
    for (size_t i = 0; i < b->s->given.n; i++) b->given[b->s->given.v[i].value] = b->s->given.v[i].input;
    for (int i = 0; i < b->n_path; i++) {
        const struct auto_step *s = b->path[i];
        bool anew = false;
        for (int k = 0; k < s->n_in && s->op->flags & OP_COMPARES; k++)
            anew |= s->in[k].kind == REF_STEP && b->given[s->in[k].index] < 0;
        for (int k = 0; k < s->n_out && anew; k++) b->given[s->n_values + k] = -1;
    }
}

static kiln_status find_places(struct auto_plan *p, size_t n_values)
{
    p->place = malloc(sizeof *p->place * (n_values + 1));
    if (!p->place) return error_set(KILN_E_MEMORY, "jit: out of memory");
    p->n_values = (int32_t)n_values;
    memset(p->place, 0xff, sizeof *p->place * n_values);
    for (size_t i = 0; i < p->n_wanted; i++)
        if (p->wanted[i].kind == REF_STEP) p->place[p->wanted[i].index] = (int32_t)i;
    return KILN_OK;
}

static kiln_status fill(struct build *b, const struct ref *wanted, size_t n, bool more, struct auto_plan *p)
{
    p->wanted = malloc((n + 1) * sizeof *p->wanted);
    if (!p->wanted) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < n; i++)
        if (!has(p->wanted, p->n_wanted, &wanted[i])) p->wanted[p->n_wanted++] = wanted[i];
    b->at = b->s->at;
    TRY(start(b));
    b->g = ir_graph_create();
    if (!b->g) return error_pending;
    if (more) take_given(b);
    mark(b, p->wanted, p->n_wanted);
    TRY(add_waiting(b, more, p));
    TRY(find_places(p, auto_step_values(b->at)));
    TRY(add_steps(b));
    TRY(add_outputs(b, p->wanted, p->n_wanted));
    for (size_t i = 0; i < p->n_wanted; i++) p->passes |= p->wanted[i].kind != REF_STEP;
    if (b->g->outputs.n) TRY(get_body(b, p, more, &p->body));
    p->inputs = b->order.v;
    p->n_inputs = b->order.n;
    b->order.v = NULL;
    return KILN_OK;
}

kiln_status auto_plan_make(struct segment *s, const struct ref *wanted, size_t n, bool more, struct auto_plan **out)
{
    struct build b = {.s = s};
    PROFILE("capture", trie_name(s->trie));
    struct auto_plan *p = calloc(1, sizeof *p);
    if (!p) return error_set(KILN_E_MEMORY, "jit: out of memory");
    p->once = more;
    s->trie->n_plans++;
    kiln_status status = fill(&b, wanted, n, more, p);
    finish(&b);
    if (status) auto_plan_free(s->trie, p);
    if (!status) *out = p;
    return status;
}

// For gradients

kiln_status auto_forward_make(struct auto_forward *f, const struct ref *wanted, size_t n)
{
    struct build b = {.at = f->at};
    kiln_status status = start(&b);
    b.g = f->g;
    if (!status) {
        mark(&b, wanted, n);
        status = add_steps(&b);
    }
    for (size_t i = 0; i < n && !status; i++)
        if (operand(&b, &wanted[i]) < 0) status = error_pending;
    f->values = b.values;
    f->inputs = b.inputs;
    f->numbers = b.numbers;
    f->n_values = (size_t)(b.at->n_values + b.at->n_out);
    f->order = b.order.v;
    f->n_order = b.order.n;
    b.values = NULL;
    b.order.v = NULL;
    b.g = NULL;
    finish(&b);
    return status;
}

void auto_forward_finish(struct auto_forward *f)
{
    free(f->values);
    free(f->order);
}
