// Specialisation before the driver sees the module.
//
// A module can load and store every dtype in every form; a pipeline uses one way through it. Drivers find that way only
// after they have inlined everything, and that is most of what a pipeline costs to make. So the choices are made here,
// on the words:
//
//  1. Specialisation constants become plain constants, and operations on them are computed.
//  2. Each function that main() reaches is copied once for every set of constant arguments it is called with. In such
//     a copy parameters that are constants are replaced, integer operations and comparisons on constants are computed,
//     a local variable that is stored to once, with a constant, is that constant, and a selection whose condition is
//     known keeps one side.
//  3. Blocks that are not reached any more, and phi operands from them, are left out.
//
// Nothing else is touched: what is not understood is copied. Loops stay as they are. Order within a function is kept,
// for in SPIR-V a block comes after those that dominate it; so one pass over the blocks suffices, and everything that a
// block needs to know is known when it is reached. Every copy has ids of its own; decorations of ids inside functions
// are repeated for each copy.
#include "spirv/specialise.h"
#include "base/hash.h"
#include "spirv/words.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARAMS = 12, NONE = 0 };

struct words {
    uint32_t *v;
    uint32_t n, cap;
    bool failed;
};

// What is known of an id of the original module.
struct id_info {
    uint8_t constant; // a 32-bit integer or bool with this value
    uint8_t local;    // defined inside a function
    uint8_t stores;   // function variable: direct stores, 255 when it is used in another way
    uint32_t value;
    uint32_t type;
    uint32_t function; // position of OpFunction, or of a composite constant, where the id is one
};

struct copy {
    uint32_t function, id, params[MAX_PARAMS], n_params;
}; // params: constant ids, NONE where not constant

struct edge {
    uint32_t from, to;
};

struct module {
    const uint32_t *in;
    uint32_t n_in, bound, next_id, entry, bool_type;
    struct id_info *ids;
    uint32_t *map;              // original id to its id in the copy at hand
    uint32_t *map_stamp, stamp; // map is valid where the stamp is the copy's
    uint32_t *var_value;        // known value of a variable, by original id, NONE
    struct id_info *extra;      // ids made here: constants only
    uint32_t cap_extra;
    uint32_t *by_value; // ids of constants, by type and value: open addressing, NONE where free
    uint32_t n_by_value, cap_by_value;
    struct copy *copies;
    uint32_t n_copies, cap_copies;
    struct edge *edges; // of the copy at hand, in original labels
    uint32_t n_edges, cap_edges;
    uint8_t *live; // labels of the copy at hand
    struct words head, decorations, types, functions;
    bool failed;
};

// --- growing things ---

// After a failure nothing more is added: the words end within an instruction, and must not be walked.
static void put(struct words *w, uint32_t word)
{
    if (w->failed) return;
    if (w->n == w->cap) {
        uint32_t cap = w->cap ? w->cap * 2 : 1024;
        uint32_t *v = realloc(w->v, cap * sizeof *v);
        if (!v) {
            w->failed = true;
            return;
        }
        w->v = v;
        w->cap = cap;
    }
    w->v[w->n++] = word;
}

static void put_all(struct words *w, const uint32_t *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) put(w, v[i]);
}

static uint32_t new_id(struct module *m)
{
    return m->next_id++;
}

// --- constants ---

// What is known of an id of the output that is not local to a function: an original global, or a constant made here.
static const struct id_info *info_of(const struct module *m, uint32_t id)
{
    if (id < m->bound) return &m->ids[id];
    return id - m->bound < m->cap_extra ? &m->extra[id - m->bound] : NULL;
}

static bool known(const struct module *m, uint32_t id, uint32_t *value)
{
    const struct id_info *i = info_of(m, id);
    if (!i || !i->constant) return false;
    *value = i->value;
    return true;
}

static bool remember_constant(struct module *m, uint32_t id, uint32_t type, uint32_t value)
{
    uint32_t at = id - m->bound;
    if (at >= m->cap_extra) {
        uint32_t cap = at * 2 + 64;
        struct id_info *extra = realloc(m->extra, cap * sizeof *extra);
        if (!extra) return false;
        memset(extra + m->cap_extra, 0, (cap - m->cap_extra) * sizeof *extra);
        m->extra = extra;
        m->cap_extra = cap;
    }
    m->extra[at] = (struct id_info){.constant = 1, .type = type, .value = value};
    return true;
}

// Where the constant stands in the table, or the free slot for it. The table is never full.
static uint32_t *slot_of(const struct module *m, uint32_t type, uint32_t value)
{
    uint32_t mask = m->cap_by_value - 1;
    for (uint32_t i = (uint32_t)hash_u64(type, value) & mask;; i = (i + 1) & mask) {
        uint32_t *slot = &m->by_value[i];
        if (*slot == NONE) return slot;
        const struct id_info *c = info_of(m, *slot);
        if (c->type == type && c->value == value) return slot;
    }
}

// Twice the slots, a power of two, once half of them are taken.
static bool grow_by_value(struct module *m)
{
    uint32_t cap = m->cap_by_value, *old = m->by_value;
    if (cap > 2 * m->n_by_value) return true;
    uint32_t more = cap ? 2 * cap : 256, *v = calloc(more, sizeof *v);
    if (!v) return false;
    m->by_value = v;
    m->cap_by_value = more;
    for (uint32_t i = 0; i < cap; i++) {
        const struct id_info *c = old[i] != NONE ? info_of(m, old[i]) : NULL;
        if (c) *slot_of(m, c->type, c->value) = old[i];
    }
    free(old);
    return true;
}

// A constant that is known by its id becomes known by its value. Of several ids the lowest stands for all.
static void index_constant(struct module *m, uint32_t id)
{
    const struct id_info *c = info_of(m, id);
    if (!grow_by_value(m)) {
        m->failed = true;
        return;
    }
    uint32_t *slot = slot_of(m, c->type, c->value);
    m->n_by_value += *slot == NONE;
    if (*slot == NONE || id < *slot) *slot = id;
}

// The id of a constant of this type and value; NONE, and the module has failed, when memory is out.
static uint32_t constant(struct module *m, uint32_t type, uint32_t value)
{
    uint32_t is = m->cap_by_value ? *slot_of(m, type, value) : NONE;
    if (is != NONE) return is;
    uint32_t id = new_id(m);
    if (!remember_constant(m, id, type, value)) m->failed = true;
    if (!m->failed) index_constant(m, id);
    if (m->failed) return NONE;
    if (type == m->bool_type) {
        put(&m->types, spirv_first_word(3, value ? SPV_OP_CONSTANT_TRUE : SPV_OP_CONSTANT_FALSE));
        put(&m->types, type);
        put(&m->types, id);
    } else {
        put(&m->types, spirv_first_word(4, SPV_OP_CONSTANT));
        put(&m->types, type);
        put(&m->types, id);
        put(&m->types, value);
    }
    return id;
}

// Computes an operation on known values; false when it is not one of those.
static bool compute(uint32_t op, uint32_t a, uint32_t b, uint32_t *out)
{
    switch (op) {
    case SPV_OP_IADD: *out = a + b; return true;
    case SPV_OP_ISUB: *out = a - b; return true;
    case SPV_OP_IMUL: *out = a * b; return true;
    case SPV_OP_UDIV: *out = b ? a / b : 0; return b != 0;
    case SPV_OP_UMOD: *out = b ? a % b : 0; return b != 0;
    case SPV_OP_SHIFT_RIGHT: *out = b < 32 ? a >> b : 0; return b < 32;
    case SPV_OP_SHIFT_LEFT: *out = b < 32 ? a << b : 0; return b < 32;
    case SPV_OP_LOGICAL_OR:
    case SPV_OP_OR: *out = a | b; return true;
    case SPV_OP_LOGICAL_NOT_EQUAL:
    case SPV_OP_XOR: *out = a ^ b; return true;
    case SPV_OP_LOGICAL_AND:
    case SPV_OP_AND: *out = a & b; return true;
    case SPV_OP_LOGICAL_EQUAL:
    case SPV_OP_IEQUAL: *out = a == b; return true;
    case SPV_OP_INOT_EQUAL: *out = a != b; return true;
    case SPV_OP_UGREATER: *out = a > b; return true;
    case SPV_OP_UGREATER_EQUAL: *out = a >= b; return true;
    case SPV_OP_ULESS: *out = a < b; return true;
    case SPV_OP_ULESS_EQUAL: *out = a <= b; return true;
    case SPV_OP_SGREATER: *out = (int32_t)a > (int32_t)b; return true;
    case SPV_OP_SGREATER_EQUAL: *out = (int32_t)a >= (int32_t)b; return true;
    case SPV_OP_SLESS: *out = (int32_t)a < (int32_t)b; return true;
    case SPV_OP_SLESS_EQUAL: *out = (int32_t)a <= (int32_t)b; return true;
    default: return false;
    }
}

// The id to which an operation comes down, NONE when it has to run. `type` is the result's; args are ids of the output.
static uint32_t fold(struct module *m, uint32_t op, uint32_t type, const uint32_t *args, uint32_t n)
{
    uint32_t a = 0, b = 0, value;
    bool ka = n >= 1 && known(m, args[0], &a), kb = n >= 2 && known(m, args[1], &b);
    const struct id_info *t = info_of(m, type);
    bool foldable_type = type == m->bool_type || (t && t->value == 32 && t->type == SPV_OP_TYPE_INT);
    if (op == SPV_OP_SELECT && ka && n == 3 && foldable_type) return args[a ? 1 : 2];
    if (!foldable_type) return NONE;
    if (op == SPV_OP_LOGICAL_NOT && ka) return constant(m, type, !a);
    if (op == SPV_OP_BITCAST && ka) return constant(m, type, a);
    if (op == SPV_OP_LOGICAL_OR && (ka || kb) && (ka ? a : b)) return constant(m, type, 1);
    if (op == SPV_OP_LOGICAL_AND && (ka || kb) && !(ka ? a : b)) return constant(m, type, 0);
    if ((op == SPV_OP_LOGICAL_OR || op == SPV_OP_LOGICAL_AND) && ka != kb) return args[ka ? 1 : 0]; // the other decides
    if (n == 2 && ka && kb && compute(op, a, b, &value)) return constant(m, type, value);
    return NONE;
}

// --- the part before the functions ---

static uint32_t length_at(const struct module *m, uint32_t at)
{
    uint32_t length = spirv_length(m->in[at]);
    return length && length <= m->n_in - at ? length : 0;
}

static void set_constant(struct module *m, uint32_t id, uint32_t type, uint32_t value)
{
    m->ids[id].constant = 1;
    m->ids[id].type = type;
    m->ids[id].value = value;
    index_constant(m, id);
}

// The constituent of a composite constant, or NONE.
static uint32_t part_of(const struct module *m, uint32_t composite, uint32_t index)
{
    uint32_t at = m->ids[composite].function;
    return at && index + 3 < length_at(m, at) ? m->in[at + 3 + index] : NONE;
}

// Copies one global instruction, specialised. `chosen` has, by id, the value given for a specialisation constant, plus
// one bit.
static bool global_instruction(struct module *m, const uint32_t *w, uint32_t length, const uint64_t *chosen)
{
    uint32_t op = spirv_op(w[0]);
    struct words *out = op > SPV_OP_UNDEF && op < SPV_OP_TYPE_VOID ? &m->head : &m->types;
    switch (op) {
    case SPV_OP_ENTRY_POINT: m->entry = w[2]; break;
    case SPV_OP_DECORATE:
        if (length == 4 && w[2] == SPV_DECORATION_SPEC_ID) return true;
        out = &m->decorations;
        break;
    case SPV_OP_MEMBER_DECORATE: out = &m->decorations; break;
    case SPV_OP_TYPE_BOOL: m->bool_type = w[1]; break;
    case SPV_OP_TYPE_INT:
        m->ids[w[1]].type = SPV_OP_TYPE_INT;
        m->ids[w[1]].value = w[2];
        break;
    case SPV_OP_CONSTANT_TRUE:
    case SPV_OP_CONSTANT_FALSE: set_constant(m, w[2], w[1], op == SPV_OP_CONSTANT_TRUE); break;
    case SPV_OP_CONSTANT:
        if (m->ids[w[1]].type == SPV_OP_TYPE_INT && m->ids[w[1]].value == 32) set_constant(m, w[2], w[1], w[3]);
        break;
    case SPV_OP_SPEC_TRUE:
    case SPV_OP_SPEC_FALSE: {
        uint32_t value = chosen[w[2]] >> 32 ? (uint32_t)chosen[w[2]] != 0 : op == SPV_OP_SPEC_TRUE;
        set_constant(m, w[2], w[1], value);
        put(out, spirv_first_word(3, value ? SPV_OP_CONSTANT_TRUE : SPV_OP_CONSTANT_FALSE));
        put_all(out, w + 1, 2);
        return true;
    }
    case SPV_OP_SPEC_CONSTANT: {
        if (length != 4) return false;
        uint32_t value = chosen[w[2]] >> 32 ? (uint32_t)chosen[w[2]] : w[3];
        set_constant(m, w[2], w[1], value);
        put(out, spirv_first_word(4, SPV_OP_CONSTANT));
        put_all(out, w + 1, 2);
        put(out, value);
        return true;
    }
    case SPV_OP_SPEC_COMPOSITE:
        m->ids[w[2]].function = (uint32_t)(w - m->in);
        put(out, spirv_first_word(length, SPV_OP_CONSTANT_COMPOSITE));
        put_all(out, w + 1, length - 1);
        return true;
    case SPV_OP_SPEC_OP: {
        // The id keeps its place: as a constant of its own with the computed value, or as the operation it was.
        uint32_t value;
        uint32_t folded = w[3] == SPV_OP_COMPOSITE_EXTRACT && length == 6 ? part_of(m, w[4], w[5])
                                                                          : fold(m, w[3], w[1], w + 4, length - 4);
        if (folded == NONE || !known(m, folded, &value)) break;
        set_constant(m, w[2], w[1], value);
        bool is_bool = w[1] == m->bool_type;
        enum spirv_op made = !is_bool ? SPV_OP_CONSTANT : value ? SPV_OP_CONSTANT_TRUE : SPV_OP_CONSTANT_FALSE;
        put(out, spirv_first_word(is_bool ? 3 : 4, made));
        put_all(out, w + 1, 2);
        if (!is_bool) put(out, value);
        return true;
    }
    default: break;
    }
    put_all(out, w, length);
    return true;
}

// --- functions ---

// Counts the stores to each local variable of a function; any other use than a load makes it 255.
static void count_stores(struct module *m, uint32_t at)
{
    for (uint32_t length; (length = length_at(m, at)) && spirv_op(m->in[at]) != SPV_OP_FUNCTION_END; at += length) {
        const uint32_t *w = m->in + at;
        uint32_t op = spirv_op(w[0]);
        if (op == SPV_OP_VARIABLE) m->ids[w[2]].stores = length == 4 ? 0 : 255;
        if (op == SPV_OP_VARIABLE || op == SPV_OP_LOAD) continue;
        if (op == SPV_OP_STORE) {
            if (m->ids[w[1]].stores < 254) m->ids[w[1]].stores++;
            continue;
        }
        for (uint32_t i = 1; i < length; i++) {
            if (w[i] < m->bound) m->ids[w[i]].stores = 255; // literals may hit an id too: that only hides a constant
        }
    }
}

static uint32_t mapped(struct module *m, uint32_t id)
{
    return m->map_stamp[id] == m->stamp ? m->map[id] : id;
}

static void set_map(struct module *m, uint32_t id, uint32_t to)
{
    m->map[id] = to;
    m->map_stamp[id] = m->stamp;
}

static uint32_t define(struct module *m, uint32_t id)
{
    if (m->map_stamp[id] != m->stamp) set_map(m, id, new_id(m)); // a label may have been named before
    return m->map[id];
}

static void add_edge(struct module *m, uint32_t from, uint32_t to)
{
    m->live[to] = 1;
    if (m->n_edges == m->cap_edges) {
        uint32_t cap = m->cap_edges ? m->cap_edges * 2 : 256;
        struct edge *edges = realloc(m->edges, cap * sizeof *edges);
        if (!edges) {
            m->failed = true;
            return;
        }
        m->edges = edges;
        m->cap_edges = cap;
    }
    m->edges[m->n_edges++] = (struct edge){from, to};
}

static bool has_edge(const struct module *m, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < m->n_edges; i++) {
        if (m->edges[i].from == from && m->edges[i].to == to) return true;
    }
    return false;
}

// The id of the copy of a function for these constant arguments; the copy is made later when it is a new one.
static uint32_t request_copy(struct module *m, uint32_t function_id, const uint32_t *params, uint32_t n)
{
    uint32_t function = m->ids[function_id].function;
    for (uint32_t i = 0; i < m->n_copies; i++) {
        const struct copy *c = &m->copies[i];
        if (c->function == function && c->n_params == n && !memcmp(c->params, params, n * sizeof *params)) return c->id;
    }
    if (m->n_copies == m->cap_copies) {
        uint32_t cap = m->cap_copies ? m->cap_copies * 2 : 64;
        struct copy *copies = realloc(m->copies, cap * sizeof *copies);
        if (!copies) {
            m->failed = true;
            return function_id;
        }
        m->copies = copies;
        m->cap_copies = cap;
    }
    struct copy *c = &m->copies[m->n_copies++];
    *c = (struct copy){.function = function, .id = function_id == m->entry ? function_id : new_id(m), .n_params = n};
    memcpy(c->params, params, n * sizeof *params);
    return c->id;
}

static void copy_call(struct module *m, const uint32_t *w, uint32_t length)
{
    uint32_t n = length - 4, params[MAX_PARAMS] = {NONE}, value;
    if (n > MAX_PARAMS) {
        m->failed = true;
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t arg = mapped(m, w[4 + i]);
        params[i] = known(m, arg, &value) ? constant(m, info_of(m, arg)->type, value) : NONE; // one id for equal values
    }
    uint32_t callee = request_copy(m, w[3], params, n), result = define(m, w[2]);
    put_all(&m->functions, w, 2);
    put(&m->functions, result);
    put(&m->functions, callee);
    for (uint32_t i = 0; i < n; i++) put(&m->functions, mapped(m, w[4 + i]));
}

static void copy_phi(struct module *m, const uint32_t *w, uint32_t length, uint32_t block)
{
    uint32_t n = 0, only = NONE;
    for (uint32_t i = 3; i + 1 < length; i += 2) {
        if (!has_edge(m, w[i + 1], block)) continue;
        only = w[i];
        n++;
    }
    if (n == 1) {
        set_map(m, w[2], mapped(m, only));
        return;
    }
    put(&m->functions, spirv_first_word(3 + 2 * n, SPV_OP_PHI));
    put(&m->functions, w[1]);
    put(&m->functions, define(m, w[2]));
    for (uint32_t i = 3; i + 1 < length; i += 2) {
        if (!has_edge(m, w[i + 1], block)) continue;
        put(&m->functions, mapped(m, w[i]));
        put(&m->functions, define(m, w[i + 1]));
    }
}

// A merge instruction and the branch after it. Returns true when both are done with: the condition of a selection was
// known.
static bool copy_known_selection(struct module *m, const uint32_t *merge, const uint32_t *branch, uint32_t block)
{
    uint32_t value;
    if (spirv_op(merge[0]) != SPV_OP_SELECTION_MERGE || spirv_op(branch[0]) != SPV_OP_BRANCH_CONDITIONAL) return false;
    if (!known(m, mapped(m, branch[1]), &value)) return false;
    uint32_t target = branch[value ? 2 : 3];
    put(&m->functions, spirv_first_word(2, SPV_OP_BRANCH));
    put(&m->functions, define(m, target));
    add_edge(m, block, target);
    return true;
}

static void copy_terminator(struct module *m, const uint32_t *w, uint32_t length, uint32_t block)
{
    uint32_t op = spirv_op(w[0]);
    put(&m->functions, w[0]);
    for (uint32_t i = 1; i < length; i++) {
        // A conditional branch may end with weights; a switch has a value before each label but the first.
        bool label = op == SPV_OP_BRANCH || (op == SPV_OP_BRANCH_CONDITIONAL && (i == 2 || i == 3)) ||
                     (op == SPV_OP_SWITCH && i % 2 == 0);
        bool literal = (op == SPV_OP_BRANCH_CONDITIONAL && i > 3) || (op == SPV_OP_SWITCH && i > 2);
        if (label) add_edge(m, block, w[i]);
        put(&m->functions, label ? define(m, w[i]) : literal ? w[i] : mapped(m, w[i]));
    }
}

// Merges name labels and keep them alive: control flow stays structured.
static void copy_merge(struct module *m, const uint32_t *w, uint32_t length)
{
    uint32_t labels = spirv_op(w[0]) == SPV_OP_LOOP_MERGE ? 2 : 1;
    put(&m->functions, w[0]);
    for (uint32_t i = 1; i < length; i++) {
        if (i <= labels) m->live[w[i]] = 1;
        put(&m->functions, i <= labels ? define(m, w[i]) : w[i]);
    }
}

static uint32_t single_value(struct module *m, uint32_t variable)
{
    return m->ids[variable].stores == 1 ? m->var_value[variable] : NONE;
}

// How many words of an instruction behind its result are ids; the rest are literals.
static uint32_t id_operands(uint32_t op, uint32_t length)
{
    switch (op) {
    case SPV_OP_VARIABLE: return 3;
    case SPV_OP_LOAD: return 4;
    case SPV_OP_MATRIX_LOAD: return 6;
    case SPV_OP_MATRIX_STORE: return 5;
    case 63: return 3; // copy memory
    case 79: return 5; // vector shuffle
    case 81: return 4; // composite extract
    case 82: return 5; // composite insert
    default: return length;
    }
}

static void copy_plain(struct module *m, const uint32_t *w, uint32_t length, bool has_result)
{
    uint32_t op = spirv_op(w[0]), ids = id_operands(op, length), value, folded = NONE, args[4];
    if (has_result && length >= 4 && length <= 6 && op >= SPV_OP_BITCAST && op <= SPV_OP_AND) {
        for (uint32_t i = 3; i < length; i++) args[i - 3] = mapped(m, w[i]);
        folded = fold(m, op, w[1], args, length - 3);
    }
    if (op == SPV_OP_LOAD && w[3] < m->bound) folded = single_value(m, w[3]);
    if (folded != NONE) {
        set_map(m, w[2], folded);
        return;
    }
    if (op == SPV_OP_STORE && m->ids[w[1]].stores == 1 && known(m, mapped(m, w[2]), &value))
        m->var_value[w[1]] = mapped(m, w[2]);
    put(&m->functions, w[0]);
    for (uint32_t i = 1; i < length; i++) {
        bool type = has_result && i == 1, result = has_result && i == 2;
        // Operands of a store's or load's memory access are literals; so is an extended instruction's number (12:
        // OpExtInst).
        bool literal = i >= ids || (op == SPV_OP_STORE && i > 2) || (op == 12 && i == 4);
        put(&m->functions, type || literal ? w[i] : result ? define(m, w[i]) : mapped(m, w[i]));
    }
}

static bool is_terminator(uint32_t op)
{
    return op == SPV_OP_BRANCH || op == SPV_OP_BRANCH_CONDITIONAL || op == SPV_OP_SWITCH ||
           (op >= 252 && op <= SPV_OP_UNREACHABLE);
}

static bool without_result(uint32_t op)
{
    // Stores and copies, barriers and atomic stores, returns.
    return op == SPV_OP_STORE || op == SPV_OP_MATRIX_STORE || op == 63 || op == 224 || op == 225 || op == 228 ||
           is_terminator(op);
}

static void copy_block_instruction(struct module *m, const uint32_t *w, uint32_t length, uint32_t block)
{
    uint32_t op = spirv_op(w[0]);
    if (op == SPV_OP_PHI)
        copy_phi(m, w, length, block);
    else if (op == SPV_OP_FUNCTION_CALL)
        copy_call(m, w, length);
    else if (is_terminator(op))
        copy_terminator(m, w, length, block);
    else if (op == SPV_OP_LOOP_MERGE || op == SPV_OP_SELECTION_MERGE)
        copy_merge(m, w, length);
    else
        copy_plain(m, w, length, !without_result(op));
}

static void copy_function(struct module *m, const struct copy *c)
{
    uint32_t at = c->function, length, block = NONE, param = 0;
    m->stamp++;
    m->n_edges = 0;
    for (; !m->failed && (length = length_at(m, at)); at += length) {
        const uint32_t *w = m->in + at;
        uint32_t op = spirv_op(w[0]);
        if (op == SPV_OP_FUNCTION) {
            put_all(&m->functions, w, 2);
            put(&m->functions, c->id);
            put_all(&m->functions, w + 3, length - 3);
        } else if (op == SPV_OP_FUNCTION_PARAMETER) {
            put_all(&m->functions, w, 2);
            put(&m->functions, define(m, w[2]));
            if (c->params[param] != NONE) set_map(m, w[2], c->params[param]);
            param++;
        } else if (op == SPV_OP_FUNCTION_END) {
            put_all(&m->functions, w, length);
            return;
        } else if (op == SPV_OP_LABEL) {
            bool entry = block == NONE;
            block = w[1];
            if (entry) m->live[block] = 1;
            if (!m->live[block]) continue;
            put(&m->functions, w[0]);
            put(&m->functions, define(m, block));
        } else if (m->live[block]) {
            const uint32_t *after = w + length;
            if (op == SPV_OP_SELECTION_MERGE && copy_known_selection(m, w, after, block))
                length += spirv_length(after[0]);
            else
                copy_block_instruction(m, w, length, block);
        }
    }
    m->failed = true; // no end
}

// Repeats the decorations of ids inside functions for the copy just made, where the id is still a computed one.
static void copy_decorations(struct module *m, const struct words *local)
{
    for (uint32_t at = 0; at < local->n; at += spirv_length(local->v[at])) {
        const uint32_t *w = local->v + at;
        if (m->map_stamp[w[1]] != m->stamp) continue;
        uint32_t id = m->map[w[1]], value;
        if (id < m->bound || known(m, id, &value)) continue;
        put(&m->decorations, w[0]);
        put(&m->decorations, id);
        put_all(&m->decorations, w + 2, (spirv_length(w[0])) - 2);
    }
}

// Marks the ids that functions define, and notes where functions begin.
static bool read_functions(struct module *m, uint32_t at)
{
    for (uint32_t length; at < m->n_in; at += length) {
        const uint32_t *w = m->in + at;
        uint32_t op = spirv_op(w[0]);
        length = length_at(m, at);
        if (!length) return false;
        if (op == SPV_OP_FUNCTION) {
            m->ids[w[2]].function = at;
            count_stores(m, at + length);
        } else if (op == SPV_OP_LABEL) {
            m->ids[w[1]].local = 1;
        } else if (length > 2 && !without_result(op) && op != SPV_OP_LOOP_MERGE && op != SPV_OP_SELECTION_MERGE) {
            m->ids[w[2]].local = 1;
        }
    }
    return true;
}

static bool read_globals(struct module *m, const struct spec_value *values, uint32_t n_values, uint32_t *functions)
{
    uint64_t *chosen = calloc(m->bound, sizeof *chosen);
    bool ok = chosen != NULL;
    uint32_t at = SPV_HEADER_WORDS;
    for (uint32_t length; ok && at < m->n_in && spirv_op(m->in[at]) != SPV_OP_FUNCTION; at += length) {
        const uint32_t *w = m->in + at;
        length = length_at(m, at);
        ok = length != 0;
        if (ok && spirv_op(w[0]) == SPV_OP_DECORATE && length == 4 && w[2] == SPV_DECORATION_SPEC_ID) {
            for (uint32_t i = 0; i < n_values; i++) {
                if (values[i].id == w[3]) chosen[w[1]] = UINT64_C(1) << 32 | values[i].value;
            }
        }
        ok = ok && global_instruction(m, w, length, chosen);
    }
    free(chosen);
    *functions = at;
    return ok && m->entry;
}

// Parts the decorations into those of globals, which stay, and those of ids inside functions.
static void split_decorations(struct module *m, struct words *local)
{
    struct words all = m->decorations;
    m->decorations = (struct words){0};
    for (uint32_t at = 0; !all.failed && at < all.n; at += spirv_length(all.v[at])) {
        bool is_local = spirv_op(all.v[at]) == SPV_OP_DECORATE && m->ids[all.v[at + 1]].local;
        put_all(is_local ? local : &m->decorations, all.v + at, spirv_length(all.v[at]));
    }
    m->failed = m->failed || all.failed || local->failed;
    free(all.v);
}

static bool run(struct module *m, const struct spec_value *values, uint32_t n_values)
{
    uint32_t functions, no_params[1] = {NONE};
    struct words local = {0};
    if (!read_globals(m, values, n_values, &functions) || !read_functions(m, functions)) return false;
    split_decorations(m, &local);
    request_copy(m, m->entry, no_params, 0);
    for (uint32_t i = 0; i < m->n_copies && !m->failed; i++) {
        struct copy c = m->copies[i]; // the list may move
        memset(m->live, 0, m->bound);
        memset(m->var_value, 0, m->bound * sizeof *m->var_value);
        copy_function(m, &c);
        if (!m->failed) copy_decorations(m, &local);
    }
    free(local.v);
    return !m->failed && !m->head.failed && !m->decorations.failed && !m->types.failed && !m->functions.failed;
}

static bool assemble(const struct module *m, uint32_t **out, uint32_t *n_out)
{
    const struct words *parts[] = {&m->head, &m->decorations, &m->types, &m->functions};
    uint32_t n = SPV_HEADER_WORDS;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) n += parts[i]->n;
    uint32_t *v = malloc(n * sizeof *v), at = SPV_HEADER_WORDS;
    if (!v) return false;
    memcpy(v, m->in, SPV_HEADER_WORDS * sizeof *v);
    v[3] = m->next_id;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        memcpy(v + at, parts[i]->v, parts[i]->n * sizeof *v);
        at += parts[i]->n;
    }
    *out = v;
    *n_out = n;
    return true;
}

bool vk_specialise(const uint32_t *words, uint32_t n_words, const struct spec_value *values, uint32_t n_values,
                   uint32_t **out, uint32_t *n_out)
{
    if (n_words <= SPV_HEADER_WORDS) return false;
    struct module m = {.in = words, .n_in = n_words, .bound = words[3], .next_id = words[3]};
    m.ids = calloc(m.bound, sizeof *m.ids);
    m.map = calloc(m.bound, sizeof *m.map);
    m.map_stamp = calloc(m.bound, sizeof *m.map_stamp);
    m.var_value = calloc(m.bound, sizeof *m.var_value);
    m.live = calloc(m.bound, 1);
    bool ok =
        m.ids && m.map && m.map_stamp && m.var_value && m.live && run(&m, values, n_values) && assemble(&m, out, n_out);
    free(m.ids);
    free(m.map);
    free(m.map_stamp);
    free(m.var_value);
    free(m.live);
    free(m.extra);
    free(m.by_value);
    free(m.copies);
    free(m.edges);
    free(m.head.v);
    free(m.decorations.v);
    free(m.types.v);
    free(m.functions.v);
    return ok;
}
