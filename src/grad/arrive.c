// Code of the user's in a backward graph some of whose gradients may not arrive later.
//
// In eager mode a rule does not run where no gradient arrives, and gets zeros for those that are missing where one
// does; a hook runs for a gradient that is there. What becomes of that in a graph is known without looking at them for
// rules of the library, which are linear. A user's may give a constant. So each gradient that it takes stands for "this
// one, or zeros if another of them is there", and each that it gives for "this, if one of them is there".
#include "grad/arrive.h"
#include "grad/run.h"
#include "ops/families.h"
#include "tensor/apply.h"
#include "grad/registry.h"

kiln_tensor *arrive_if(kiln_tensor *t, size_t n, kiln_tensor *const *others)
{
    kiln_tensor *in[1 + OP_MAX_OUT] = {t};
    int n_in = 1;
    for (size_t i = 0; i < n; i++)
        if (others[i] && others[i] != t && others[i]->builder) in[n_in++] = others[i];
    return n_in == 1 ? t : op_apply1(&op_instances[OP_if_arrived], NULL, n_in, in, NULL);
}

bool arrive_is_asked(const struct run *r, const struct tape_node *n)
{
    bool users = n->op->index >= op_count || !grad_is_built_in(n->op, n->rule);
    return r->may_be_absent && n->rule && !n->rule->takes_missing && users && n->n_out <= OP_MAX_OUT;
}

kiln_status arrive_at_rule(const struct tape_node *n, kiln_tensor *const *grads, kiln_tensor **out)
{
    for (int i = 0; i < n->n_out; i++) {
        out[i] = grads[i] ? arrive_if(grads[i], n->n_out, grads) : NULL;
        if (grads[i] && !out[i]) return error_pending;
    }
    return KILN_OK;
}

kiln_status arrive_from_rule(const struct tape_node *n, kiln_tensor *const *grads, kiln_tensor **din)
{
    for (int i = 0; i < n->n_in; i++)
        if (din[i] && !(din[i] = arrive_if(din[i], n->n_out, grads))) return error_pending;
    return KILN_OK;
}
