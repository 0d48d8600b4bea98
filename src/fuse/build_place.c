// Which units are computed where: each whose buffer must be stored gets a place in the space, and what it reads of the
// set becomes an instance at the map that its reader's strides imply.
#include "fuse/build.h"
#include <string.h>

// The instance of a fold whose rows these are: a row value is found by its row alone.
static int find_row(const struct builder *b, int32_t unit, const struct point_map *m)
{
    const struct unit *u = unit_at(b, unit);
    for (int k = 0; k < b->n_instances; k++) {
        bool same = b->instances[k].unit == unit;
        for (int j = 0; same && j < u->l.rank - u->l.n_reduce; j++)
            same = form_equal(&b->instances[k].map.to[j], &m->to[j], b->space.n_dims);
        if (same) return k;
    }
    return -1;
}

static int instance_read(struct builder *b, int by, const struct launch_operand *in, int32_t maker)
{
    const struct unit *u = unit_at(b, maker);
    struct point_map m;
    int64_t sizes[MAX_RANK];
    bool row_value = makes_row_value(u);
    for (int d = 0; d < u->l.rank; d++) sizes[d] = row_value && d >= u->l.rank - u->l.n_reduce ? 1 : u->l.sizes[d];
    if (!build_solve(b, by, in, u->l.rank, sizes, &u->l.operands[u->n_in], &m)) {
        b->why = "a value is read at places that no strides give";
        return -1;
    }
    int n = row_value ? find_row(b, maker, &m) : build_add_instance(b, maker, &m);
    if (n < 0) b->why = "rows of different spaces";
    return n;
}

// All that instance i reads and the set makes becomes instances.
bool build_follow(struct builder *b, int i)
{
    const struct unit *reader = unit_of(b, &b->instances[i]);
    for (int o = 0; o < reader->n_in; o++) {
        const struct launch_operand *in = &reader->l.operands[o];
        int32_t maker = maker_of(b, in);
        if (maker >= 0 && unit_gathers(reader, o)) {
            b->why = "gathers from what it would compute";
            return false;
        }
        int n = maker < 0 ? -1 : instance_read(b, i, in, maker);
        if (maker >= 0 && n < 0) return false;
        b->instances[i].source[o] = (int16_t)n;
    }
    return true;
}

// A place for a unit through an operand that it shares with an instance.
static bool place_by(struct builder *b, int32_t unit, int o)
{
    const struct unit *u = unit_at(b, unit);
    const struct launch_operand *mine = &u->l.operands[o];
    struct point_map m;
    for (int i = 0; i < b->n_instances; i++) {
        const struct unit *other = unit_of(b, &b->instances[i]);
        for (int p = 0; p < other->l.n_operands; p++) {
            const struct launch_operand *theirs = &other->l.operands[p];
            if (!in_memory(theirs) || theirs->slot != mine->slot || other == u) continue;
            if (build_solve(b, i, theirs, u->l.rank, u->l.sizes, mine, &m) && build_add_instance(b, unit, &m) >= 0)
                return true;
        }
    }
    return false;
}

static bool place(struct builder *b, int32_t unit)
{
    const struct unit *u = unit_at(b, unit);
    for (int i = 0; i < b->n_instances; i++)
        if (b->instances[i].unit == unit) return false; // has one
    for (int o = 0; o < u->l.n_operands; o++)
        if (in_memory(&u->l.operands[o]) && place_by(b, unit, o)) return true;
    return false;
}

void build_place_all(struct builder *b)
{
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < b->set->n_units; i++) more = place(b, b->set->units[i]) || more;
    }
}

// --- what is built ---

// Instances that no stored value needs are not built: where a unit was placed only to place others.
void build_mark_needed(struct builder *b, int i, bool *needed)
{
    if (needed[i]) return;
    needed[i] = true;
    const struct unit *u = unit_of(b, &b->instances[i]);
    for (int o = 0; o < u->n_in; o++)
        if (b->instances[i].source[o] >= 0) build_mark_needed(b, b->instances[i].source[o], needed);
}

// Which instances' values come from a fold across the rows. Makers are earlier units, but may be later instances.
void build_find_totals(struct builder *b)
{
    for (int i = 0; i < b->n_instances; i++) b->instances[i].of_total = b->instances[i].total;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < b->n_instances; i++) {
            struct instance *x = &b->instances[i];
            for (int o = 0; o < unit_of(b, x)->n_in && !x->of_total; o++)
                if (x->source[o] >= 0 && b->instances[x->source[o]].of_total) x->of_total = more = true;
        }
    }
}

// The instance whose result is stored: it meets each of the unit's points, and no row of the space twice.
int build_find_stored(const struct builder *b, int32_t unit)
{
    const struct unit *u = unit_at(b, unit);
    int parallel = b->space.n_dims - b->space.n_reduce;
    int rows = makes_row_value(u) ? u->l.rank - u->l.n_reduce : u->l.rank;
    for (int k = 0; k < b->n_instances; k++) {
        const struct instance *i = &b->instances[k];
        struct point_map m = i->map;
        m.n = rows;
        bool good = i->unit == unit && map_covers(&b->space, &m, u->l.sizes);
        bool total = good && i->of_total;
        for (int d = 0; good && d < parallel && !total; d++) good = b->space.sizes[d] == 1 || map_depends(&m, d);
        int along = 0, across = 0;
        for (int d = parallel; d < b->space.n_dims; d++)
            if (b->space.sizes[d] != 1) *(map_depends(&m, d) ? &along : &across) += 1;
        if (good && (!along || !across)) return k;
    }
    return -1;
}
