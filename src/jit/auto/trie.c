// The trie of recordings: what was seen before, op by op.
//
// A child is found by the op, its attributes as asked for, and its operands: values by number, inputs by number,
// numbers by bits. Inputs that a step is the first to read are compared by type and strides. Since values are numbered
// along the path, two walks on one path have the same numbers, and their types need not be inferred again.
#include "jit/auto/part.h"
#include "base/where.h"
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 1 << 16, PLANS_MAX = 1024 };
#define PROGRAMS_MAX_B (UINT64_C(256) << 20)

bool ref_equal(const struct ref *a, const struct ref *b)
{
    if (a->kind != b->kind || a->index != b->index) return false;
    return a->kind != REF_NUMBER ||
           (a->dtype == b->dtype && a->integer == b->integer && !memcmp(&a->number, &b->number, sizeof a->number));
}

static bool attr_equal(const struct attr *a, const struct attr *b)
{
    if (a->kind != b->kind || a->set != b->set) return false;
    if (!a->set && a->kind != ATTR_FLOAT) return true;
    if (a->kind != ATTR_INTS) return a->i == b->i; // floats by their bits
    return a->count == b->count && (a->count > MAX_RANK || !memcmp(a->v, b->v, a->count * sizeof *a->v));
}

static bool attrs_equal(const struct auto_step *s, const struct auto_step_key *k)
{
    for (int i = 0; i < k->op->n_attrs; i++)
        if (!attr_equal(&s->asked[i], &k->asked[i])) return false;
    return true;
}

static bool same_strides(const struct type *t, const struct layout *a, const struct layout *b)
{
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] > 1 && a->strides[i] != b->strides[i]) return false;
    return true;
}

static bool inputs_equal(const struct auto_step *s, const struct segment *seg)
{
    if ((size_t)(s->n_inputs + s->n_new) != seg->inputs.n) return false;
    for (int i = 0; i < s->n_new; i++) {
        const struct lazy_reader *r = seg->inputs.v[s->n_inputs + i];
        if (!type_equal(&s->inputs[i].type, &r->type) || s->inputs[i].type.weak != r->type.weak ||
            !same_strides(&r->type, &s->inputs[i].layout, &r->layout))
            return false;
    }
    return true;
}

static bool is_number(const struct ref *r)
{
    return r->kind == REF_NUMBER || r->kind == REF_RUN_TIME;
}

static bool operands_equal(const struct auto_step *s, const struct auto_step_key *k)
{
    for (int i = 0; i < k->n_in; i++) {
        if (s->in[i].kind == REF_RUN_TIME && k->in[i].kind == REF_NUMBER && s->in[i].dtype == k->in[i].dtype) continue;
        if (!ref_equal(&s->in[i], &k->in[i])) return false;
    }
    return true;
}

static bool same_base(const struct auto_step *s, const struct auto_step_key *k)
{
    return !k->base || (k->base->offset == s->base.offset && same_strides(&s->in_types[0], k->base, &s->base));
}

// Whether an op's result is a view follows from the operand's layout.
static bool same_mode(const struct auto_step *s, const struct auto_step_key *k)
{
    return (s->mode == STEP_INNER) == (k->mode == STEP_INNER);
}

struct auto_step *auto_step_find(const struct segment *seg, const struct auto_step_key *k)
{
    for (struct auto_step *s = seg->at->children; s; s = s->next)
        if (s->op == k->op && s->n_in == k->n_in && same_mode(s, k) && operands_equal(s, k) && attrs_equal(s, k) &&
            same_base(s, k) && inputs_equal(s, seg))
            return s;
    return NULL;
}

static bool attrs_alike(const struct auto_step *s, const struct auto_step_key *k)
{
    for (int i = 0; i < k->op->n_attrs; i++)
        if (!k->op->attrs[i].is_size && !attr_equal(&s->asked[i], &k->asked[i])) return false;
    return true;
}

// Whether what a step is the first to read has other sizes or strides than here, and the same dtypes.
static bool inputs_differ_in_sizes(const struct auto_step *s, const struct segment *seg)
{
    if ((size_t)(s->n_inputs + s->n_new) != seg->inputs.n || inputs_equal(s, seg)) return false;
    for (int i = 0; i < s->n_new; i++) {
        const struct type *a = &s->inputs[i].type, *b = &seg->inputs.v[s->n_inputs + i]->type;
        if (a->dtype != b->dtype || a->rank != b->rank || a->weak != b->weak) return false;
    }
    return true;
}

// Whether the path that is left here goes on as this step does, but for sizes. A path that was left before has no more
// to say.
static bool is_other_size(const struct auto_walk *w, const struct segment *seg, const struct auto_step_key *k)
{
    if (seg->at == w->added) return true;
    for (struct auto_step *s = seg->at->children; s; s = s->next)
        if (s->op == k->op && s->n_in == k->n_in && same_mode(s, k) && operands_equal(s, k) && attrs_alike(s, k) &&
            inputs_differ_in_sizes(s, seg))
            return true;
    return false;
}

// A step like this one but for numbers.
static struct auto_step *find_like(struct auto_step *at, const struct segment *seg, const struct auto_step_key *k)
{
    for (struct auto_step *s = at ? at->children : NULL; s; s = s->next) {
        bool like =
            s->op == k->op && s->n_in == k->n_in && same_mode(s, k) && attrs_equal(s, k) && inputs_equal(s, seg);
        for (int i = 0; i < k->n_in && like; i++)
            like = is_number(&k->in[i]) ? is_number(&s->in[i]) && s->in[i].dtype == k->in[i].dtype
                                        : ref_equal(&s->in[i], &k->in[i]);
        if (like) return s;
    }
    return NULL;
}

static struct auto_step *step_new(const struct auto_step_key *k, int n_out, int n_new)
{
    size_t n_attrs = k->op->n_attrs, n_in = (size_t)k->n_in;
    size_t size_B = sizeof(struct auto_step) + 2 * n_attrs * sizeof(struct attr) +
                    n_in * (sizeof(struct ref) + sizeof(struct type)) + (size_t)n_out * sizeof(struct type) +
                    (size_t)n_new * sizeof(struct input_type);
    struct auto_step *s = calloc(1, size_B);
    if (!s) {
        error_set(KILN_E_MEMORY, "jit: out of memory for a recording");
        return NULL;
    }
    s->asked = (struct attr *)(s + 1);
    s->attrs = s->asked + n_attrs;
    s->in = (struct ref *)(s->attrs + n_attrs);
    s->in_types = (struct type *)(s->in + n_in);
    s->out = s->in_types + n_in;
    s->inputs = (struct input_type *)(s->out + n_out);
    s->n_in = (uint8_t)k->n_in;
    s->n_out = (uint8_t)n_out;
    s->n_new = n_new;
    s->op = k->op;
    s->mode = k->mode;
    return s;
}

static void fill(struct auto_step *s, const struct auto_step_key *k, const struct op_call *call,
                 const struct segment *seg)
{
    for (int i = 0; i < s->n_new; i++) {
        const struct lazy_reader *r = seg->inputs.v[s->n_inputs + i];
        s->inputs[i] = (struct input_type){r->type, r->layout};
    }
    for (int i = 0; i < k->n_in; i++) {
        s->in[i] = k->in[i];
        if (call->in[i]) s->in_types[i] = *call->in[i];
    }
    for (int i = 0; i < s->n_out; i++) {
        s->out[i] = call->out[i];
        s->out[i].weak = false;
    }
    if (k->base) s->base = *k->base;
}

struct auto_step *auto_step_add(struct auto_walk *w, const struct auto_step_key *k, const struct op_call *call,
                                const struct layout *view)
{
    struct segment *seg = w->seg;
    struct auto_step *at = seg->at, *like = find_like(at, seg, k);
    if (!like) like = find_like(w->shadow, seg, k);
    struct auto_step *s = step_new(k, call->n_out, (int)(seg->inputs.n - auto_step_inputs(at)));
    if (!s) return NULL;
    w->strayed |= !is_other_size(w, seg, k);
    s->parent = at;
    s->depth = at->depth + 1;
    s->n_values = at->n_values + at->n_out;
    s->n_inputs = (int32_t)auto_step_inputs(at);
    s->n_numbers = (int32_t)seg->numbers.n;
    if (k->op->n_attrs) {
        memcpy(s->asked, k->asked, k->op->n_attrs * sizeof *s->asked);
        memcpy(s->attrs, call->attrs, k->op->n_attrs * sizeof *s->attrs);
    }
    fill(s, k, call, seg);
    if (view) s->view = *view;
    int32_t n = s->n_numbers;
    for (int i = 0; i < k->n_in; i++)
        if (s->in[i].kind == REF_NUMBER &&
            (k->run_time || (like && (like->in[i].kind == REF_RUN_TIME || !ref_equal(&like->in[i], &s->in[i])))))
            s->in[i] = (struct ref){.kind = REF_RUN_TIME, .dtype = s->in[i].dtype, .index = n++};
    w->shadow = like;
    s->caller = where_now();
    s->next = at->children; // a run-time number before the constant that it replaces
    at->children = s;
    w->trie->n_steps++;
    if ((size_t)s->depth > w->trie->longest) w->trie->longest = (size_t)s->depth;
    w->missed = true;
    w->added = s;
    return s;
}

kiln_status auto_step_take(struct auto_walk *w, struct auto_step *to, const struct ref *in)
{
    struct segment *seg = w->seg;
    for (int i = 0; i < to->n_in; i++) {
        if (to->in[i].kind != REF_RUN_TIME) continue;
        struct auto_number n = {in[i].dtype, in[i].number, in[i].integer};
        TRY(vec_push(&seg->numbers, n));
    }
    if (!seg->first) {
        seg->first = to;
        to->pins++;
        to->used = ++w->trie->clock;
    }
    seg->at = to;
    seg->kept = auto_step_inputs(to) > seg->kept ? auto_step_inputs(to) : seg->kept;
    seg->n_values = to->n_values + to->n_out;
    return KILN_OK;
}

// Whole

struct trie *trie_new(kiln_function *f)
{
    struct trie *t = calloc(1, sizeof *t);
    if (!t) {
        error_set(KILN_E_MEMORY, "jit: out of memory for a recording");
        return NULL;
    }
    t->refs = 1;
    t->f = f;
    return t;
}

struct auto_step *trie_root(struct trie *t, kiln_device *dev)
{
    struct auto_root *r = t->roots;
    while (r && r->dev != dev) r = r->next;
    if (r) return &r->step;
    r = calloc(1, sizeof *r);
    if (!r) {
        error_set(KILN_E_MEMORY, "jit: out of memory for a recording");
        return NULL;
    }
    r->dev = device_ref(dev);
    r->next = t->roots;
    t->roots = r;
    return &r->step;
}

int auto_plan_find(const struct auto_plan *p, const struct ref *r)
{
    if (r->kind == REF_STEP) return r->index < p->n_values ? p->place[r->index] : -1;
    for (size_t i = 0; i < p->n_wanted; i++)
        if (ref_equal(&p->wanted[i], r)) return (int)i;
    return -1;
}

void auto_plan_free(struct trie *t, struct auto_plan *p)
{
    t->n_plans--;
    auto_body_unref(t, p->body);
    free(p->wanted);
    free(p->place);
    free(p->inputs);
    free(p);
}

void auto_gradient_free(struct auto_gradient *g)
{
    entry_unref(&g->entry);
    free(g->key);
    free(g->present);
    free(g->origins);
    free(g);
}

void auto_gradients_free(struct auto_step *s)
{
    while (s->gradients) {
        struct auto_gradient *g = s->gradients;
        s->gradients = g->next;
        auto_gradient_free(g);
    }
}

static void free_end(struct trie *t, struct break_point *end)
{
    if (!end) return;
    while (end->plans) {
        struct auto_plan *p = end->plans;
        end->plans = p->next;
        auto_plan_free(t, p);
    }
    vec_free(&end->learnt);
    free(end);
}

// Without recursion: a path may be long.
static void free_steps(struct trie *t, struct auto_step *first)
{
    struct auto_step *s = first;
    while (s) {
        if (s->children) {
            struct auto_step *child = s->children;
            s->children = child->next;
            child->next = s; // the way back
            s = child;
            continue;
        }
        struct auto_step *back = s == first ? NULL : s->next;
        free_end(t, s->end);
        auto_gradients_free(s);
        free(s);
        t->n_steps--;
        s = back;
    }
}

void trie_unref(struct trie *t)
{
    if (!t || --t->refs) return;
    while (t->roots) {
        struct auto_root *r = t->roots;
        t->roots = r->next;
        while (r->step.children) {
            struct auto_step *s = r->step.children;
            r->step.children = s->next;
            free_steps(t, s);
        }
        free_end(t, r->step.end);
        device_unref(r->dev);
        free(r);
    }
    free(t);
}

static struct auto_step **find_oldest(struct trie *t)
{
    struct auto_step **oldest = NULL;
    for (struct auto_root *r = t->roots; r; r = r->next)
        for (struct auto_step **p = &r->step.children; *p; p = &(*p)->next)
            if (!(*p)->pins && (!oldest || (*p)->used < (*oldest)->used)) oldest = p;
    return oldest;
}

// What was used least lately goes, unless a segment is on it.
void trie_trim(struct trie *t)
{
    uint64_t entries = t->f && t->f->o.cache_entries ? t->f->o.cache_entries : PLANS_MAX;
    uint64_t size_B = t->f && t->f->o.cache_B ? t->f->o.cache_B : PROGRAMS_MAX_B;
    while (t->n_steps > STEPS_MAX + t->longest || t->n_plans > entries || (t->size_B > size_B && t->n_plans > 1)) {
        struct auto_step **p = find_oldest(t);
        if (!p) return;
        struct auto_step *s = *p;
        *p = s->next;
        free_steps(t, s);
        if (!t->f) continue;
        pthread_mutex_lock(&t->f->lock);
        t->f->stats.evictions++;
        function_note(t->f, "a recording was evicted, %zu programs are kept", t->n_plans);
        pthread_mutex_unlock(&t->f->lock);
    }
}
