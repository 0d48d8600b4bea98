// Paths between groups: two groups do not become one where a third needs one and feeds the other.
//
// A search goes from both ends at once, one group at a time, and is over when the ends meet or one of them has no more
// to look at: where there is a path there mostly is a short one, and where there is none one of the ends mostly has
// little behind it.
#include "fuse/groups.h"

static int32_t first_root(const struct fuser *f, int32_t whole)
{
    int n;
    return roots_of(f, &whole, &n)[0];
}

static int32_t last_root(const struct fuser *f, int32_t whole)
{
    int n;
    const int32_t *roots = roots_of(f, &whole, &n);
    return roots[n - 1];
}

struct search_end {
    const int32_t *first, *list; // of roots next to a root
    int32_t *queue;
    int n, at;
    int32_t mark, other; // of groups that this end has come to, and the other one
    int32_t least, most; // beyond them nothing can lead to the other end
};

// True: the other end has been there.
static bool look_on(struct fuser *f, struct search_end *e, int32_t whole, int32_t avoid)
{
    int n_roots;
    const int32_t *roots = roots_of(f, &whole, &n_roots);
    for (int k = 0; k < n_roots; k++)
        for (int32_t i = e->first[roots[k]]; i < e->first[roots[k] + 1]; i++) {
            int32_t next = whole_of(f, e->list[i]);
            if (next == whole || next == avoid || f->mark[next] == e->mark) continue;
            if (f->mark[next] == e->other) return true;
            if (first_root(f, next) > e->most || last_root(f, next) < e->least) continue;
            f->mark[next] = e->mark;
            e->queue[e->n++] = next;
        }
    return false;
}

// Units come after what they depend on. So only groups that begin up to here can lead to group `to`: up to its last
// root, or that of a group that begins before and through which a path leads back.
static int32_t last_leading_to(const struct fuser *f, int32_t to)
{
    int32_t last = last_root(f, to);
    while (f->reach[last] > last) last = f->reach[last];
    return last;
}

// And only groups that end from here on can be led to by group `from`.
static int32_t first_led_to(const struct fuser *f, int32_t from)
{
    int32_t first = first_root(f, from);
    while (f->reach_back[first] < first) first = f->reach_back[first];
    return first;
}

void group_set_reach(struct fuser *f, int32_t whole)
{
    int32_t first = first_root(f, whole), last = last_root(f, whole);
    for (int32_t i = first; i <= last && f->reach[i] < last; i++) f->reach[i] = last;
    for (int32_t i = last; i >= first && f->reach_back[i] > first; i--) f->reach_back[i] = first;
}

void group_find_reach(struct fuser *f)
{
    int32_t n = (int32_t)f->u->v.n;
    for (int32_t i = 0; i < n; i++) f->reach[i] = f->reach_back[i] = i;
    for (int32_t i = 0; i < n; i++)
        if (f->group_of[i] == i) group_set_reach(f, i);
}

bool group_path_between(struct fuser *f, int32_t from, int32_t to)
{
    int32_t least = first_led_to(f, from), most = last_leading_to(f, to);
    f->search += 2;
    struct search_end ahead = {f->r.first_after, f->r.after, f->queue, 0, 0, f->search, f->search + 1, least, most};
    struct search_end back = {f->r.first_before, f->r.before, f->stack, 0, 0, f->search + 1, f->search, least, most};
    if (look_on(f, &ahead, from, to) || look_on(f, &back, to, from)) return true;
    while (ahead.at < ahead.n && back.at < back.n)
        if (look_on(f, &ahead, ahead.queue[ahead.at++], -1) || look_on(f, &back, back.queue[back.at++], -1))
            return true;
    return false;
}
