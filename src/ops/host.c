// Calls of the host: graphs alone have them. What they take and give, the call itself knows.
#include "ir/host.h"
#include "ops/attrs.h"
#include "ops/family.h"

static int count_results(const struct attr *attrs)
{
    struct host_call *h = host_call_of(attrs[AT_host_call_call].i);
    int n = h ? h->n_out : -1;
    host_call_unref(h);
    return n;
}

static kiln_status host_types(struct op_regions *r)
{
    struct host_call *h = host_call_of(r->attrs[AT_host_call_call].i);
    if (!h) return error_pending;
    kiln_status status = KILN_OK;
    if (r->n_regions) status = error_set(KILN_E_ARGUMENT, "%s: it takes no regions", r->op->name);
    r->n_out = status ? 0 : h->n_out;
    for (int i = 0; i < r->n_out; i++) r->out[i] = h->out[i];
    host_call_unref(h);
    return status;
}

static bool keeps_result(const struct attr *attrs, int i)
{
    (void)attrs, (void)i;
    return true;
}

const struct op_regions_rule regions_of_host = {
    .types = host_types, .count_results = count_results, .keeps_result = keeps_result};
