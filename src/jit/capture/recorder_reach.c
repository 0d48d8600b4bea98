// Whether a gradient in a region is whole: what the region is given of the capture around may depend there on what is
// differentiated by.
#include "grad/reach.h"
#include "jit/capture/recorder.h"

static const struct source *source_at(const struct recorder *r, const struct tape_node *place)
{
    for (size_t i = 0; i < r->sources.n && place; i++)
        if (r->sources.v[i].kind == SOURCE_OUTER && r->sources.v[i].place == place) return &r->sources.v[i];
    return NULL;
}

// On the tapes of r and those around it, from `from` to `to`, which may be the same.
static kiln_status leads(const struct recorder *r, const struct tape_node *from, const struct tape_node *to, bool *out)
{
    struct tape_reach reach = {0};
    kiln_status status = reach_from(&reach, from);
    const struct source *there = source_at(r, to);
    *out = !status && reach_has(&reach, to);
    for (size_t i = 0; i < reach.nodes.n && !status && !*out && r->outer; i++) {
        const struct source *s = source_at(r, reach.nodes.v[i]);
        if (s) status = leads(r->outer, s->outside.node, there ? there->outside.node : to, out);
    }
    reach_finish(&reach);
    return status;
}

// What lies behind an input is known at each call only.
static kiln_status check_entries(struct recorder *r, const struct tape_reach *reach, struct tape_node *const *targets,
                                 size_t n)
{
    for (size_t i = 0; i < reach->nodes.n; i++) {
        const struct tape_node *at = reach->nodes.v[i];
        if (at->kind != NODE_INPUT || at->edges[0].node || !recorder_is_entry(&r->sink.base, at)) continue;
        for (size_t t = 0; t < n; t++)
            if (targets[t] != at && targets[t]->kind != NODE_OP)
                return error_set(KILN_E_UNSUPPORTED,
                                 "gradients: in %s it comes to an input, or a state, that depends on others outside of "
                                 "the capture, perhaps on wrt %zu; use kiln_grad by what the function is given, or "
                                 "capture with KILN_CAPTURE_AUTO",
                                 r->name, t);
    }
    return KILN_OK;
}

static kiln_status check_outer(struct recorder *r, const struct tape_reach *reach, struct tape_node *const *targets,
                               size_t n);

static kiln_status check_from(struct recorder *r, const struct tape_node *root, struct tape_node *const *targets,
                              size_t n)
{
    struct tape_reach reach = {0};
    kiln_status status = reach_from(&reach, root);
    if (!status) status = r->outer ? check_outer(r, &reach, targets, n) : check_entries(r, &reach, targets, n);
    reach_finish(&reach);
    return status;
}

static kiln_status check_outer(struct recorder *r, const struct tape_reach *reach, struct tape_node *const *targets,
                               size_t n)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < reach->nodes.n && !status; i++) {
        const struct source *s = source_at(r, reach->nodes.v[i]);
        for (size_t t = 0; t < n && s && !status; t++) {
            const struct source *by = source_at(r, targets[t]);
            bool goes_on = false;
            if (s->place != targets[t])
                status = leads(r->outer, s->outside.node, by ? by->outside.node : targets[t], &goes_on);
            if (goes_on)
                status = error_set(
                    KILN_E_UNSUPPORTED,
                    "gradients: in a region of %s it comes to a tensor from outside of the region that depends on wrt "
                    "%zu, and cannot go on from there; return what is differentiated, or capture with "
                    "KILN_CAPTURE_AUTO",
                    r->name, t);
            if (!status && s->outside.node && s->place != targets[t])
                status = check_from(r->outer, s->outside.node, by ? &by->outside.node : &targets[t], 1);
        }
    }
    return status;
}

kiln_status recorder_check_whole(struct sink *sink, const struct tape_node *root, struct tape_node *const *targets,
                                 size_t n)
{
    return check_from(recorder_of(sink), root, targets, n);
}
