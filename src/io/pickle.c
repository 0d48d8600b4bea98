// Pickles: programs for a machine with a stack, a list of marks in it, and numbered notes ("memo"). What an instruction
// would call is noted as a call, with its arguments, and never made. Instructions that state dicts do not need are
// refused. Each instruction makes at most one value and puts at most one on the stack, so that memory is bounded by the
// pickle's length; values that contain themselves can come out, and who walks the tree must bound that.
#include "io/pickle.h"
#include "io/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct list {
    uint32_t *v;
    size_t n, cap;
};

struct machine {
    const char *where;
    const unsigned char *bytes;
    size_t size_B, at;
    pickle_global_fn global;
    struct pickle *out;
    struct list stack, marks, memo;
    bool stopped;
};

static kiln_status bad(const struct machine *m, const char *what)
{
    return error_set(KILN_E_FORMAT, "%s: the pickle %s, before byte %zu of %zu", m->where, what, m->at, m->size_B);
}

static kiln_status push_to(const struct machine *m, struct list *l, uint32_t v)
{
    if (l->n == l->cap) {
        size_t more = l->cap ? l->cap * 2 : 64;
        uint32_t *grown = more <= SIZE_MAX / sizeof *grown ? realloc(l->v, more * sizeof *grown) : NULL;
        if (!grown) return error_set(KILN_E_MEMORY, "%s: no memory for a pickle", m->where);
        l->v = grown;
        l->cap = more;
    }
    l->v[l->n++] = v;
    return KILN_OK;
}

static kiln_status take(struct machine *m, size_t n, const unsigned char **out)
{
    if (n > m->size_B - m->at) return bad(m, "is cut off");
    *out = m->bytes + m->at;
    m->at += n;
    return KILN_OK;
}

static kiln_status take_number(struct machine *m, size_t size_B, uint64_t *out)
{
    const unsigned char *bytes;
    TRY(take(m, size_B, &bytes));
    *out = 0;
    for (size_t i = 0; i < size_B; i++) *out |= (uint64_t)bytes[i] << 8 * i;
    return KILN_OK;
}

// --- values and the stack

static kiln_status make(struct machine *m, uint8_t kind, struct pickle_value **v)
{
    struct pickle *p = m->out;
    if (p->n == p->cap) {
        size_t more = p->cap ? p->cap * 2 : 64;
        struct pickle_value *grown = more < UINT32_MAX ? realloc(p->values, more * sizeof *grown) : NULL;
        if (!grown) return error_set(KILN_E_MEMORY, "%s: no memory for a pickle", m->where);
        p->values = grown;
        p->cap = more;
    }
    p->values[p->n] = (struct pickle_value){.kind = kind};
    *v = &p->values[p->n++];
    return KILN_OK;
}

static kiln_status push(struct machine *m, uint8_t kind, struct pickle_value **v)
{
    TRY(make(m, kind, v));
    return push_to(m, &m->stack, (uint32_t)(m->out->n - 1));
}

static size_t bottom(const struct machine *m)
{
    return m->marks.n ? m->marks.v[m->marks.n - 1] : 0;
}

static kiln_status pop(struct machine *m, uint32_t *v)
{
    if (m->stack.n <= bottom(m)) return bad(m, "takes more from its stack than there is");
    *v = m->stack.v[--m->stack.n];
    return KILN_OK;
}

static kiln_status top(const struct machine *m, uint32_t *v)
{
    if (m->stack.n <= bottom(m)) return bad(m, "takes more from its stack than there is");
    *v = m->stack.v[m->stack.n - 1];
    return KILN_OK;
}

static kiln_status add_item(struct machine *m, uint32_t to, uint32_t item)
{
    struct pickle_value *v = &m->out->values[to];
    struct list l = {v->items, v->n, v->cap};
    kiln_status status = push_to(m, &l, item);
    v->items = l.v;
    v->n = l.n;
    v->cap = l.cap;
    return status;
}

// What lies above `from` on the stack becomes items of `to`.
static kiln_status move_items(struct machine *m, size_t from, uint32_t to)
{
    for (size_t i = from; i < m->stack.n; i++) TRY(add_item(m, to, m->stack.v[i]));
    m->stack.n = from;
    return KILN_OK;
}

// The innermost mark goes.
static kiln_status pop_mark(struct machine *m, size_t *at)
{
    if (!m->marks.n) return bad(m, "has no mark where it needs one");
    *at = m->marks.v[--m->marks.n];
    return KILN_OK;
}

// A container of what lies above `from`.
static kiln_status collect(struct machine *m, uint8_t kind, size_t from)
{
    struct pickle_value *v;
    TRY(make(m, kind, &v));
    uint32_t number = (uint32_t)(m->out->n - 1);
    TRY(move_items(m, from, number));
    return push_to(m, &m->stack, number);
}

static kiln_status collect_marked(struct machine *m, uint8_t kind)
{
    size_t from = 0;
    TRY(pop_mark(m, &from));
    if (kind == PICKLE_DICT && (m->stack.n - from) % 2) return bad(m, "has a key without a value");
    return collect(m, kind, from);
}

static kiln_status collect_top(struct machine *m, uint8_t kind, size_t n)
{
    if (m->stack.n - bottom(m) < n) return bad(m, "takes more from its stack than there is");
    return collect(m, kind, m->stack.n - n);
}

// Items above `from` go into the container below them.
static kiln_status extend(struct machine *m, uint8_t kind, size_t from)
{
    size_t lowest = bottom(m);
    if (from <= lowest || from > m->stack.n) return bad(m, "takes more from its stack than there is");
    uint32_t to = m->stack.v[from - 1];
    if (m->out->values[to].kind != kind) return bad(m, "adds items to what is no list or dict");
    if (kind == PICKLE_DICT && (m->stack.n - from) % 2) return bad(m, "has a key without a value");
    return move_items(m, from, to);
}

static kiln_status extend_marked(struct machine *m, uint8_t kind)
{
    size_t from = 0;
    TRY(pop_mark(m, &from));
    return extend(m, kind, from);
}

// --- memo

static kiln_status note(struct machine *m, uint64_t k)
{
    uint32_t v = 0;
    TRY(top(m, &v));
    if (k > m->memo.n) return bad(m, "leaves out numbers of its memo");
    if (k == m->memo.n) return push_to(m, &m->memo, v);
    m->memo.v[k] = v;
    return KILN_OK;
}

static kiln_status recall(struct machine *m, uint64_t k)
{
    if (k >= m->memo.n) return bad(m, "asks for what is not in its memo");
    return push_to(m, &m->stack, m->memo.v[k]);
}

// --- single values

static kiln_status push_int(struct machine *m, size_t size_B, bool is_signed)
{
    uint64_t bits = 0;
    struct pickle_value *v;
    TRY(take_number(m, size_B, &bits));
    TRY(push(m, PICKLE_INT, &v));
    v->integer = is_signed ? (int64_t)(int32_t)(uint32_t)bits : (int64_t)bits;
    return KILN_OK;
}

// Two's complement of any length.
static kiln_status push_long(struct machine *m, size_t length_B)
{
    uint64_t n = 0;
    const unsigned char *bytes;
    struct pickle_value *v;
    TRY(take_number(m, length_B, &n));
    TRY(take(m, (size_t)n, &bytes));
    TRY(push(m, PICKLE_INT, &v));
    uint64_t bits = n && bytes[n - 1] & 128 ? UINT64_MAX : 0;
    v->broken = n > 8;
    for (size_t i = 0; i < n && i < 8; i++) bits = (bits & ~(UINT64_C(255) << 8 * i)) | (uint64_t)bytes[i] << 8 * i;
    v->integer = (int64_t)bits;
    return KILN_OK;
}

static kiln_status push_float(struct machine *m)
{
    const unsigned char *bytes;
    struct pickle_value *v;
    uint64_t bits = 0;
    TRY(take(m, 8, &bytes));
    for (int i = 0; i < 8; i++) bits = bits << 8 | bytes[i];
    TRY(push(m, PICKLE_FLOAT, &v));
    memcpy(&v->number, &bits, sizeof v->number);
    return KILN_OK;
}

static kiln_status push_text(struct machine *m, size_t length_B)
{
    uint64_t n = 0;
    const unsigned char *bytes;
    struct pickle_value *v;
    TRY(take_number(m, length_B, &n));
    if (n > SIZE_MAX) return bad(m, "is cut off");
    TRY(take(m, (size_t)n, &bytes));
    TRY(push(m, PICKLE_TEXT, &v));
    v->text = (const char *)bytes;
    v->n_text = (size_t)n;
    return KILN_OK;
}

static kiln_status push_bool(struct machine *m, bool truth)
{
    struct pickle_value *v;
    TRY(push(m, PICKLE_BOOL, &v));
    v->integer = truth;
    return KILN_OK;
}

// Two lines, which lie in the pickle with a line feed between them: "module\nname\n".
static kiln_status push_global(struct machine *m)
{
    const unsigned char *from = m->bytes + m->at, *first = memchr(from, '\n', m->size_B - m->at);
    const unsigned char *second = first ? memchr(first + 1, '\n', m->size_B - (size_t)(first + 1 - m->bytes)) : NULL;
    if (!second) return bad(m, "is cut off");
    m->at = (size_t)(second + 1 - m->bytes);
    struct pickle_value *v;
    TRY(push(m, PICKLE_GLOBAL, &v));
    v->text = (const char *)from;
    v->n_text = (size_t)(second - from);
    return m->global(m->where, v->text, v->n_text);
}

// The same of two texts on the stack.
static kiln_status push_named_global(struct machine *m)
{
    uint32_t name = 0, module = 0;
    struct pickle_value *v;
    TRY(pop(m, &name));
    TRY(pop(m, &module));
    if (m->out->values[name].kind != PICKLE_TEXT || m->out->values[module].kind != PICKLE_TEXT)
        return bad(m, "names a global by what is no text");
    TRY(push(m, PICKLE_GLOBAL, &v));
    const struct pickle_value *first = &m->out->values[module], *second = &m->out->values[name];
    char *text;
    TRY(io_alloc(m->where, first->n_text + second->n_text + 1, &text));
    memcpy(text, first->text, first->n_text);
    text[first->n_text] = '\n';
    memcpy(text + first->n_text + 1, second->text, second->n_text);
    v->text = text;
    v->n_text = first->n_text + second->n_text + 1;
    v->owned = true;
    return m->global(m->where, v->text, v->n_text);
}

static kiln_status call(struct machine *m)
{
    uint32_t arguments = 0, function = 0;
    TRY(pop(m, &arguments));
    TRY(pop(m, &function));
    const struct pickle_value *f = &m->out->values[function], *a = &m->out->values[arguments];
    if (f->kind != PICKLE_GLOBAL || a->kind != PICKLE_TUPLE) return bad(m, "calls what is no function");
    struct pickle_value *v;
    if (pickle_is(f, "collections\nOrderedDict") && !a->n) return push(m, PICKLE_DICT, &v);
    TRY(push_to(m, &m->stack, function));
    TRY(push_to(m, &m->stack, arguments));
    return collect(m, PICKLE_CALL, m->stack.n - 2);
}

// The attributes of a dict, as the versions of modules, say nothing of tensors.
static kiln_status build(struct machine *m)
{
    uint32_t state = 0, of = 0;
    TRY(pop(m, &state));
    TRY(top(m, &of));
    return m->out->values[of].kind == PICKLE_DICT ? KILN_OK : bad(m, "sets attributes of what is no dict");
}

// --- instructions

static kiln_status drop(struct machine *m)
{
    uint32_t v;
    return pop(m, &v);
}

static kiln_status drop_marked(struct machine *m)
{
    size_t from = 0;
    TRY(pop_mark(m, &from));
    m->stack.n = from;
    return KILN_OK;
}

static kiln_status skip(struct machine *m, size_t n)
{
    const unsigned char *bytes;
    return take(m, n, &bytes);
}

static kiln_status stop(struct machine *m)
{
    m->stopped = true;
    if (m->marks.n || m->stack.n != 1) return bad(m, "ends with a stack of more than its result");
    m->out->root = m->stack.v[0];
    return KILN_OK;
}

static kiln_status with_number(struct machine *m, size_t size_B, kiln_status (*act)(struct machine *, uint64_t))
{
    uint64_t k = 0;
    TRY(take_number(m, size_B, &k));
    return act(m, k);
}

static kiln_status step_container(struct machine *m, unsigned char op)
{
    switch (op) {
    case '(': return push_to(m, &m->marks, (uint32_t)m->stack.n);
    case ')': return collect_top(m, PICKLE_TUPLE, 0);
    case 0x85: return collect_top(m, PICKLE_TUPLE, 1);
    case 0x86: return collect_top(m, PICKLE_TUPLE, 2);
    case 0x87: return collect_top(m, PICKLE_TUPLE, 3);
    case 't': return collect_marked(m, PICKLE_TUPLE);
    case ']': return collect_top(m, PICKLE_LIST, 0);
    case 'l': return collect_marked(m, PICKLE_LIST);
    case 'a': return extend(m, PICKLE_LIST, m->stack.n ? m->stack.n - 1 : 0);
    case 'e': return extend_marked(m, PICKLE_LIST);
    case '}': return collect_top(m, PICKLE_DICT, 0);
    case 'd': return collect_marked(m, PICKLE_DICT);
    case 's': return extend(m, PICKLE_DICT, m->stack.n > 1 ? m->stack.n - 2 : 0);
    case 'u': return extend_marked(m, PICKLE_DICT);
    case 'Q': return collect_top(m, PICKLE_PERSISTENT, 1);
    case 'R': return call(m);
    case 'b': return build(m);
    case '0': return drop(m);
    case '1': return drop_marked(m);
    default: break;
    }
    return error_set(KILN_E_UNSUPPORTED,
                     "%s: the pickle has the instruction 0x%02x at byte %zu, which no state dict of tensors needs",
                     m->where, op, m->at - 1);
}

static kiln_status step(struct machine *m, unsigned char op)
{
    switch (op) {
    case 'N': return push_to(m, &m->stack, 0);
    case 0x88: return push_bool(m, true);
    case 0x89: return push_bool(m, false);
    case 'K': return push_int(m, 1, false);
    case 'M': return push_int(m, 2, false);
    case 'J': return push_int(m, 4, true);
    case 0x8a: return push_long(m, 1);
    case 0x8b: return push_long(m, 4);
    case 'G': return push_float(m);
    case 0x8c: return push_text(m, 1);
    case 'X': return push_text(m, 4);
    case 0x8d: return push_text(m, 8);
    case 'c': return push_global(m);
    case 0x93: return push_named_global(m);
    case 'q': return with_number(m, 1, note);
    case 'r': return with_number(m, 4, note);
    case 0x94: return note(m, m->memo.n);
    case 'h': return with_number(m, 1, recall);
    case 'j': return with_number(m, 4, recall);
    case 0x80: return skip(m, 1); // the protocol's number
    case 0x95: return skip(m, 8); // the length of a frame
    case '.': return stop(m);
    default: return step_container(m, op);
    }
}

kiln_status pickle_read(const char *where, const unsigned char *bytes, size_t size_B, pickle_global_fn global,
                        struct pickle *out)
{
    *out = (struct pickle){0};
    struct machine m = {.where = where, .bytes = bytes, .size_B = size_B, .global = global, .out = out};
    struct pickle_value *none;
    kiln_status status = size_B < UINT32_MAX ? make(&m, PICKLE_NONE, &none) : bad(&m, "is too long");
    while (!status && !m.stopped) {
        const unsigned char *op;
        status = take(&m, 1, &op);
        if (!status) status = step(&m, *op);
    }
    free(m.stack.v);
    free(m.marks.v);
    free(m.memo.v);
    return status;
}

static bool has_items(const struct pickle_value *v)
{
    return v->kind == PICKLE_TUPLE || v->kind == PICKLE_LIST || v->kind == PICKLE_DICT || v->kind == PICKLE_CALL ||
           v->kind == PICKLE_PERSISTENT;
}

void pickle_free(struct pickle *p)
{
    for (size_t i = 0; i < p->n; i++) {
        struct pickle_value *v = &p->values[i];
        if (has_items(v)) free(v->items);
        if (v->owned) free((char *)(uintptr_t)v->text);
    }
    free(p->values);
    *p = (struct pickle){0};
}

bool pickle_is(const struct pickle_value *v, const char *text)
{
    return (v->kind == PICKLE_TEXT || v->kind == PICKLE_GLOBAL) && v->n_text == strlen(text) &&
           !memcmp(v->text, text, v->n_text);
}

const struct pickle_value *pickle_item(const struct pickle *p, const struct pickle_value *v, size_t i)
{
    return &p->values[has_items(v) && i < v->n ? v->items[i] : 0];
}
