// Running one rule, and what a rule may ask about the op it is run for.
#include "base/leave.h"
#include "base/thread.h"
#include "grad/registry.h"
#include "grad/rule.h"
#include "grad/run.h"
#include <stdlib.h>
#include <string.h>

#define FEW 16

struct rule_call {
    const struct tape_node *node;
    const uint8_t *wanted;
    struct rule_call *outer; // a rule may itself take gradients
    kiln_tensor *const *values, *const *dout;
    kiln_tensor **din;
    kiln_status status;
};
static THREAD_LOCAL struct rule_call *current;

static kiln_status missing(const struct tape_node *n)
{
    return error_set(KILN_E_GRADIENT, "backward: the bprop of %s is not defined; register one with kiln_register_bprop",
                     n->op->name);
}

static bool has_changed(const struct tape_value *v)
{
    return v->state == VALUE_STORAGE && v->storage->version != v->version;
}

static kiln_status load(struct tape_node *n, struct run *r, kiln_tensor **values)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        values[i] = NULL;
        if (n->values[i].lazy && !r->create_graph) continue;
        if (n->rule->takes_changed && has_changed(&n->values[i])) continue;
        if (!r->builder)
            TRY(tape_unsave(n, i, &values[i]));
        else if (n->values[i].state > VALUE_TYPE) {
            values[i] = graph_placeholder(r->builder, n, i);
            if (!values[i]) return error_pending;
        }
    }
    return KILN_OK;
}

static void run_rule(void *at)
{
    struct rule_call *c = at;
    const struct tape_node *n = c->node;
    c->status = n->rule->fn(n->rule->user, c->values, c->values + n->n_in, c->dout, c->din);
}

static void leave_rule(void *at)
{
    current = ((struct rule_call *)at)->outer;
}

static kiln_status call_rule(struct tape_node *n, const uint8_t *wanted, kiln_tensor *const *values,
                             kiln_tensor *const *dout, kiln_tensor **din)
{
    if (!n->rule->fn) return elementwise_rule(n, wanted, values, values + n->n_in, dout[0], din);
    struct rule_call call = {n, wanted, current, values, dout, din, KILN_OK};
    struct leave left;
    // Rules of the library use the indices that the op had, which were checked with it, or make their own.
    bool fit = thread_state.indices_fit;
    thread_state.indices_fit |= grad_is_built_in(n->op, n->rule);
    current = &call;
    leave_push(&left, leave_rule, &call);
    leave_call(run_rule, &call);
    leave_pop(&left);
    current = call.outer;
    thread_state.indices_fit = fit;
    kiln_status status = call.status;
    if (error_pending) return error_pending;
    return status ? error_set(status, "backward: the rule of %s failed with %s", n->op->name, kiln_status_name(status))
                  : KILN_OK;
}

kiln_status rule_run(struct tape_node *n, struct run *r, const uint8_t *wanted, kiln_tensor *const *dout,
                     kiln_tensor **din)
{
    if (!n->rule) return missing(n);
    size_t count = (size_t)n->n_in + n->n_out;
    kiln_tensor *few[FEW], **values = count > FEW ? malloc(sizeof *values * count) : few;
    if (!values) return error_set(KILN_E_MEMORY, "backward: out of memory");
    kiln_status status = load(n, r, values);
    if (!status) status = call_rule(n, wanted, values, dout, din);
    if (values != few) free(values);
    return status;
}

// Accessors

static const struct tape_node *asked(const char *function)
{
    if (current) return current->node;
    error_set(KILN_E_STATE, "%s: may be called inside a rule only", function);
    return NULL;
}

const struct tape_node *rule_node(void)
{
    return current ? current->node : NULL;
}

size_t kiln_rule_n_in(void)
{
    const struct tape_node *n = asked("rule_n_in");
    return n ? n->n_in : 0;
}

size_t kiln_rule_n_out(void)
{
    const struct tape_node *n = asked("rule_n_out");
    return n ? n->n_out : 0;
}

bool kiln_rule_wants(size_t input)
{
    const struct tape_node *n = asked("rule_wants");
    return n && input < n->n_in && current->wanted[input];
}

static const struct attr *attr_named(const char *function, const char *name)
{
    const struct tape_node *n = asked(function);
    if (!n) return NULL;
    int i = name ? op_attr_index(n->op, name) : -1;
    if (i >= 0) return &n->attrs[i];
    error_set(KILN_E_ARGUMENT, "%s: %s has no attribute \"%s\"", function, n->op->name, name ? name : "(null)");
    return NULL;
}

int64_t kiln_rule_int(const char *attr)
{
    const struct attr *a = attr_named("rule_int", attr);
    return !a ? 0 : a->kind == ATTR_FLOAT ? (int64_t)a->f : a->i;
}

double kiln_rule_float(const char *attr)
{
    const struct attr *a = attr_named("rule_float", attr);
    return !a ? 0 : a->kind == ATTR_FLOAT ? a->f : (double)a->i;
}

size_t kiln_rule_ints(const char *attr, const int64_t **v)
{
    const struct attr *a = attr_named("rule_ints", attr);
    if (v) *v = a && a->kind == ATTR_INTS ? a->v : NULL;
    return a && a->kind == ATTR_INTS ? a->count : 0;
}

static const struct tape_value *value_at(const char *function, size_t i, bool output)
{
    const struct tape_node *n = asked(function);
    if (!n) return NULL;
    if (i < (output ? n->n_out : n->n_in)) return &n->values[output ? n->n_in + i : i];
    error_set(KILN_E_ARGUMENT, "%s: %s has no %s %zu", function, n->op->name, output ? "output" : "input", i);
    return NULL;
}

static size_t shape_of(const char *function, size_t i, bool output, const int64_t **dims)
{
    const struct tape_value *v = value_at(function, i, output);
    if (dims) *dims = v ? current->node->dims + v->dims_at : NULL;
    return v ? v->rank : 0;
}

static kiln_dtype dtype_of(const char *function, size_t i, bool output)
{
    const struct tape_value *v = value_at(function, i, output);
    return v ? (kiln_dtype)v->dtype : KILN_F32;
}

size_t kiln_rule_in_shape(size_t input, const int64_t **dims)
{
    return shape_of("rule_in_shape", input, false, dims);
}

kiln_dtype kiln_rule_in_dtype(size_t input)
{
    return dtype_of("rule_in_dtype", input, false);
}

size_t kiln_rule_out_shape(size_t output, const int64_t **dims)
{
    return shape_of("rule_out_shape", output, true, dims);
}

kiln_dtype kiln_rule_out_dtype(size_t output)
{
    return dtype_of("rule_out_dtype", output, true);
}

int64_t kiln_rule_in_strides(size_t input, const int64_t **strides)
{
    const struct tape_value *v = value_at("rule_in_strides", input, false);
    if (strides) *strides = v ? current->node->dims + v->dims_at + v->rank : NULL;
    return !v || v->state == VALUE_WEAK || v->state == VALUE_ABSTRACT ? 0 : v->offset;
}
