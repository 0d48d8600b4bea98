// Holds the newest rule of each op: the built-in ones from the start, then those that users register.
#include "base/process.h"
#include "grad/registry.h"
#include "base/options.h"
#include "grad/rules/rules.h"
#include "ops/elementwise.h"
#include "tensor/apply.h"
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// One slot an op. Readers take no lock: a record is never changed after it was published, and lives as long as the
// process, for nodes point to it.
static _Atomic(const struct grad_rule *) slots[OPS_MAX + USER_OPS_MAX];
static const struct grad_rule *built_in[OPS_MAX + USER_OPS_MAX];
static struct grad_rule built_rules[OPS_MAX];
static struct elementwise_needs needs[OPS_MAX];
static const struct grad_rule *all_rules, *rules_of_calls; // of users
static atomic_uint generation;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_registry, lock)
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool started;
static const struct grad_rule expressions; // the rule of elementwise ops: fn NULL

static struct elementwise_needs needs_of(const struct op *op)
{
    struct elementwise_needs r = {{0}, 0, 0, 0};
    for (int i = 0; op->gradients && i < op->max_in && i < 3; i++) {
        const struct op_gradient *g = &op->gradients[i];
        // No op but an operand: dy itself.
        bool pass = !g->op && g->n_in == 1 && g->from[0] == GRADIENT_DY;
        if (!g->op && !pass) continue;
        r.some |= (uint8_t)(1 << i);
        if (pass) r.pass |= (uint8_t)(1 << i);
        for (int k = 0; k < g->n_in; k++) {
            if (g->from[k] == GRADIENT_Y)
                r.y |= (uint8_t)(1 << i);
            else if (g->from[k] != GRADIENT_DY)
                r.in[i] |= (uint8_t)(1 << g->from[k]);
        }
    }
    return r;
}

static void set_rule(struct grad_rule *r, const kiln_rule_spec *spec)
{
    r->fn = spec->fn;
    r->user = spec->user;
    r->needs_in = spec->needs_in;
    r->needs_out = spec->needs_out;
    r->missing_is_null = spec->missing_is_null;
    for (int i = 0; i < 4; i++) {
        r->needs_for[i] = spec->needs_in_for[i];
        r->by_input |= spec->needs_in_for[i] != 0;
    }
}

static const struct grad_rule *new_rule(const kiln_rule_spec *spec, const struct grad_rule **list)
{
    struct grad_rule *r = calloc(1, sizeof *r);
    if (!r) {
        error_set(KILN_E_MEMORY, "register_rule: out of memory");
        return NULL;
    }
    set_rule(r, spec);
    r->next = *list;
    *list = r;
    return r;
}

static const struct rule_list *const families[] = {
#define FAMILY(name) &grad_rules_##name,
#include "grad/rules/list.def"
#undef FAMILY
};

static void start(void)
{
    for (int i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        if (!(op->flags & OP_ELEMENTWISE)) continue;
        needs[i] = needs_of(op);
        // A gradient row has no gradients of its own: its expression is differentiated when that is asked for.
        if (op->gradients || (op->flags & OP_HIDDEN)) built_in[i] = &expressions;
    }
    for (size_t f = 0; f < COUNT_OF(families); f++)
        for (size_t i = 0; i < families[f]->count; i++) {
            const struct op *op = op_find(families[f]->specs[i].op);
            assert(op && "a rule for an op that is not in the table");
            set_rule(&built_rules[op->index], &families[f]->specs[i]);
            built_in[op->index] = &built_rules[op->index];
        }
    for (int i = 0; i < op_count; i++) atomic_store(&slots[i], built_in[i]);
    atomic_store_explicit(&started, true, memory_order_release);
}

static void need_rules(void)
{
    if (KILN_UNLIKELY(!atomic_load_explicit(&started, memory_order_acquire))) pthread_once(&once, start);
}

const struct grad_rule *grad_rule_of(const struct op *op)
{
    need_rules();
    return atomic_load_explicit(&slots[op->index], memory_order_acquire);
}

const struct grad_rule *grad_rule_for(kiln_bprop_fn fn, void *user)
{
    const kiln_rule_spec spec = {.fn = fn, .user = user, .needs_in = UINT32_MAX, .needs_out = UINT32_MAX};
    pthread_mutex_lock(&lock);
    const struct grad_rule *r = rules_of_calls;
    while (r && (r->fn != fn || r->user != user)) r = r->next;
    if (!r) r = new_rule(&spec, &rules_of_calls);
    pthread_mutex_unlock(&lock);
    return r;
}

uint32_t grad_rules_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_acquire);
}

struct elementwise_needs grad_elementwise_needs(const struct op *op)
{
    need_rules();
    return op->index < op_count ? needs[op->index] : needs_of(op);
}

static kiln_status register_spec(const char *function, const kiln_rule_spec *spec)
{
    if (error_pending) return error_pending;
    if (!spec->op) return error_set(KILN_E_ARGUMENT, "%s: op is NULL", function);
    const struct op *op = op_find(spec->op);
    if (!op)
        return error_set(KILN_E_ARGUMENT, "%s: no op is named \"%s\"%s", function, spec->op, op_nearest(spec->op).s);
    need_rules();
    pthread_mutex_lock(&lock);
    const struct grad_rule *r = spec->fn ? new_rule(spec, &all_rules) : built_in[op->index];
    if (r || !spec->fn) {
        atomic_store(&slots[op->index], r);
        atomic_fetch_add(&generation, 1);
    }
    pthread_mutex_unlock(&lock);
    return error_pending;
}

kiln_status kiln_register_rule(const kiln_rule_spec *spec)
{
    kiln_rule_spec s;
    if (error_pending) return error_pending;
    if (!spec) return error_set(KILN_E_ARGUMENT, "register_rule: spec is NULL");
    TRY(options_read("register_rule", KILN_RULE, &s, spec));
    return register_spec("register_rule", &s);
}

kiln_status kiln_register_bprop(const char *op, kiln_bprop_fn fn, void *user)
{
    kiln_rule_spec s = {
        .size = sizeof s, .op = op, .fn = fn, .user = user, .needs_in = UINT32_MAX, .needs_out = UINT32_MAX};
    return register_spec("register_bprop", &s);
}

void grad_use_expressions(const struct op *op)
{
    need_rules();
    built_in[op->index] = &expressions;
    atomic_store(&slots[op->index], &expressions);
}

bool grad_is_built_in(const struct op *op, const struct grad_rule *rule)
{
    need_rules();
    return rule && built_in[op->index] == rule;
}
