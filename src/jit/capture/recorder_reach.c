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

kiln_status recorder_check_whole(struct sink *sink, const struct tape_node *root, struct tape_node *const *targets,
                                 size_t n)
{
    const struct recorder *r = recorder_of(sink);
    struct tape_reach reach = {0};
    if (!r->outer) return KILN_OK;
    kiln_status status = reach_from(&reach, root);
    for (size_t i = 0; i < reach.nodes.n && !status; i++) {
        const struct source *s = source_at(r, reach.nodes.v[i]);
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
        }
    }
    reach_finish(&reach);
    return status;
}
