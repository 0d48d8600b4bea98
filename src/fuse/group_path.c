// Paths between groups: two groups do not become one where a third needs one and feeds the other.
#include "fuse/groups.h"

static void push_next(struct fuser *f, int32_t whole, int32_t avoid, int32_t last, int *n)
{
    int n_roots;
    const int32_t *roots = roots_of(f, &whole, &n_roots);
    for (int k = 0; k < n_roots; k++) {
        for (int32_t i = f->r.first_after[roots[k]]; i < f->r.first_after[roots[k] + 1]; i++) {
            int32_t next = whole_of(f, f->r.after[i]);
            if (next == whole || next == avoid || next > last || f->mark[next] == f->search) continue;
            f->mark[next] = f->search;
            f->stack[(*n)++] = next;
        }
    }
}

// Units come after what they depend on. So only groups that begin up to here can lead to group `to`: up to its last
// root, or that of a group that begins before and through which a path leads back.
static int32_t last_leading_to(const struct fuser *f, int32_t to)
{
    int32_t last = f->groups[to].roots[f->groups[to].n - 1];
    for (int32_t i = 0; i <= last; i++)
        if (f->group_of[i] == i && f->groups[i].roots[f->groups[i].n - 1] > last)
            last = f->groups[i].roots[f->groups[i].n - 1];
    return last;
}

bool group_path_between(struct fuser *f, int32_t from, int32_t to)
{
    int32_t last = last_leading_to(f, to);
    int n = 0;
    f->search++;
    push_next(f, from, to, last, &n);
    while (n > 0) {
        int32_t whole = f->stack[--n];
        if (whole == to) return true;
        push_next(f, whole, -1, last, &n);
    }
    return false;
}
