// What the device can decide about by itself, found when a program is made.
//
// It decides about launches. What is more than that, an op that falls back to the CPU or a region inside for which the
// host waits, leaves the decision to the host, for this node and those around it.
#include "program/gated.h"
#include <inttypes.h>
#include <stdio.h>

enum {
    CHUNK_LAUNCHES = 256, // of about so many a chunk is made
    CHUNK_LEAST = 2,      // trips
    CHUNK_MOST = 64,
    SWITCH_LAUNCHES = 256, // with more in its regions one wait costs less
};

bool region_is_decided(const struct program_region *r)
{
    return r->child[1] || ((r->n_branches || r->counted) && r->in[r->n_in - 1].buffer >= 0);
}

static int64_t launches_of_trips(const struct program_region *r, int64_t trips)
{
    int64_t n = r->child[0]->n_gateable + (r->child[1] ? r->child[1]->n_gateable : 0);
    return n && trips > (INT64_C(1) << 30) / n ? INT64_C(1) << 30 : n * trips;
}

static int64_t launches_of(const struct program_region *r)
{
    int64_t n = 0;
    for (int i = 0; i < r->n_branches; i++) n += r->branches[i]->n_gateable;
    if (r->n_branches) return n;
    if (r->trips >= 0) return launches_of_trips(r, r->trips);
    return launches_of_trips(r, r->bound && r->bound < r->chunk ? r->bound : r->chunk);
}

static const char *why_not_plain(const struct program *p, const struct action *a)
{
    const struct launch *l = a->plain;
    if (a->random) return "its random numbers";
    if (user_kernel(l->kernel) || !p->dev->ops->supports(p->dev, l)) return l->op;
    return NULL;
}

void program_find_gateable(struct program *p)
{
    p->host_decides = p->dev->ops->gates && !p->reference ? NULL : "";
    for (int i = 0; i < p->n_actions && !p->host_decides; i++) {
        const struct action *a = &p->actions[i];
        if (a->plain) p->host_decides = why_not_plain(p, a);
        if (a->host) p->host_decides = "a call of the host";
        if (a->region) p->host_decides = a->region->host_decides;
        p->n_gateable += a->region ? launches_of(a->region) : 1;
    }
}

// --- a node

static kiln_status raise_index(const struct device_fault *f, int64_t value)
{
    return error_set(KILN_E_ARGUMENT, "switch: index is %" PRId64 ", there are %" PRId64 " branches, in %s", value,
                     f->limit, f->name);
}

static kiln_status raise_bound(const char *op, const struct device_fault *f)
{
    return error_set(KILN_E_STATE,
                     "%s: the loop goes on after %" PRId64 " trips, its .bound, in %s; what it gave and wrote is of no "
                     "use",
                     op, f->limit, f->name);
}

static kiln_status raise_while(const struct device_fault *f, int64_t value)
{
    (void)value;
    return raise_bound("while", f);
}

static kiln_status raise_count(const struct device_fault *f, int64_t value)
{
    if (value >= 0) return raise_bound("for", f);
    return error_set(KILN_E_ARGUMENT, "for: count is %" PRId64 ", in %s", value, f->name);
}

// What may turn out wrong while it runs.
static kiln_status add_fault(kiln_device *dev, const char *name, struct program_region *r)
{
    struct device_fault f = {.limit = r->n_branches ? r->n_branches : r->bound};
    if (r->n_branches && r->index_dtype != KILN_BOOL) f.raise = raise_index;
    if (!r->n_branches && r->child[1] && r->bound) f.raise = raise_while;
    if (!r->n_branches && !r->child[1]) f.raise = raise_count;
    if (!f.raise) return KILN_OK;
    snprintf(f.name, sizeof f.name, "%s", name);
    kiln_status status = dev->ops->gates->fault_add(dev, &f, &r->fault);
    if (status != KILN_E_UNSUPPORTED) return status;
    kiln_error_clear();
    r->host_decides = "more conditions and loops than the device tells apart";
    return KILN_OK;
}

// A kernel that makes trips is told the first one's number in any case.
static bool is_first(const struct fused_kernel *k, const struct jit_scalar *s)
{
    return k->trips.on && s->index == k->trips.first;
}

static bool asks_for(const struct action *a, int input)
{
    for (int i = 0; a->compiled && i < a->n_entries; i++)
        for (int k = 0; k < a->compiled[i].n_scalars; k++)
            if (a->compiled[i].scalars[k].input == input && !is_first(a->fused[i], &a->compiled[i].scalars[k]))
                return true;
    for (int i = 0; a->plain && i < a->plain->n_operands; i++) {
        const struct launch_operand *o = &a->plain->operands[i];
        if (o->flags & OPERAND_IMMEDIATE && o->slot && (int)(o->slot & ~SLOT_SCALAR) == input) return true;
    }
    for (int i = 0; a->region && i < a->region->n_in; i++)
        if (a->region->in[i].buffer < 0 && a->region->in[i].input == input) return true;
    return false;
}

// Trips are recorded from the last row that there may be; which number the first of them has, the device knows alone.
static const char *why_not_reverse(const struct program_region *r)
{
    int number = r->n_carried;
    for (int k = r->n_carried; k < r->n_taken; k++) number += r->in[k].buffer >= 0 || r->in[k].input >= 0;
    if (!r->bound) return "its rows are taken from the last on, and have no bound";
    for (int i = 0; i < r->child[0]->n_actions; i++)
        if (asks_for(&r->child[0]->actions[i], number)) return "its body asks for the number of the trip";
    return NULL;
}

static void find_chunk(struct program_region *r)
{
    int64_t trip = launches_of_trips(r, 1);
    r->chunk = trip ? CHUNK_LAUNCHES / trip / 2 * 2 : CHUNK_MOST;
    if (r->chunk < CHUNK_LEAST) r->chunk = CHUNK_LEAST;
    if (r->chunk > CHUNK_MOST) r->chunk = CHUNK_MOST;
}

kiln_status region_find_gateable(kiln_device *dev, const char *name, struct program_region *r)
{
    r->host_decides = NULL;
    for (int i = 0; i < r->n_branches && !r->host_decides; i++) r->host_decides = r->branches[i]->host_decides;
    for (int i = 0; i < 2 && !r->host_decides; i++)
        if (r->child[i]) r->host_decides = r->child[i]->host_decides;
    bool decided = region_is_decided(r);
    if (!r->host_decides && decided && r->n_stay) r->host_decides = "what is changed in place";
    if (!r->host_decides && decided && r->reverse) r->host_decides = why_not_reverse(r);
    if (!r->host_decides && debug_flag("host-flow")) r->host_decides = "KILN_DEBUG=host-flow";
    if (r->host_decides || !decided) return KILN_OK;
    if (!r->n_branches) find_chunk(r);
    // One wait for the count, then one launch for many trips; but not inside of what the device decides.
    r->reads_count = r->counted && r->child[0]->trips_at_once > 1 && !(r->bound && r->bound <= r->chunk);
    r->gated = !r->n_branches || launches_of(r) <= SWITCH_LAUNCHES;
    return add_fault(dev, name, r);
}

void region_drop_gate(kiln_device *dev, struct program_region *r)
{
    if (r->fault && dev->ops->gates) dev->ops->gates->fault_drop(dev, r->fault);
    r->fault = 0;
}
