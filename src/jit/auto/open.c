// Where segments begin and must end: a walk opens one for a device, and whoever needs the memory of a pending storage
// ends the one that is to fill it.
#include "jit/auto/auto.h"
#include <stdlib.h>

enum { LOST_MAX = 8 };

kiln_status segment_open(struct auto_walk *w, kiln_device *dev)
{
    if (w->seg && !w->seg->ended && w->seg->dev == dev) return KILN_OK;
    if (w->seg && !w->seg->ended) TRY(segment_break(w->seg, NULL, "an op on another device"));
    if (w->seg) segment_unref(w->seg);
    w->seg = NULL;
    w->shadow = NULL;
    trie_trim(w->trie);
    struct segment *s = calloc(1, sizeof *s);
    struct auto_step *root = s ? trie_root(w->trie, dev) : NULL;
    if (!root) {
        free(s);
        return s ? error_pending : error_set(KILN_E_MEMORY, "jit: out of memory for a segment");
    }
    s->refs = 1;
    s->trie = w->trie;
    w->trie->refs++;
    s->at = root;
    s->dev = device_ref(dev);
    w->seg = s;
    w->opened++;
    return KILN_OK;
}

// Forces what waits for another segment; *again: the lock was free meanwhile.
kiln_status auto_force_foreign(const struct auto_walk *w, int n_in, kiln_tensor *const *in, bool *again)
{
    *again = false;
    for (int i = 0; i < n_in; i++) {
        struct storage *s = in[i] ? in[i]->storage : NULL;
        if (KILN_LIKELY(!s || !s->lazy || s->lazy->seg == w->seg)) continue;
        *again = true;
        TRY(storage_force(s, "a value from before the break is used"));
    }
    return KILN_OK;
}

kiln_status auto_ready(struct auto_walk *w, kiln_device *dev, int n_in, kiln_tensor *const *in)
{
    bool again;
    do {
        TRY(segment_open(w, dev));
        TRY(auto_force_foreign(w, n_in, in, &again));
    } while (again);
    return KILN_OK;
}

// What was recorded so far goes its way, and the op by itself. So does all that follows, when that happens too often.
kiln_status auto_lose_op(struct auto_walk *w)
{
    struct segment *s = w->seg;
    if (w->trie->f && w->trie->f->o.fullgraph)
        return error_set(KILN_E_STATE,
                         "the graph of %s is none of those that were recorded up to its recompile limit; more are not, "
                         "which .fullgraph does not allow",
                         w->trie->f->name);
    w->lost++;
    return s && !s->ended && s->at->op ? segment_break(s, NULL, "the recompile limit") : KILN_OK;
}

bool auto_gave_up(const struct auto_walk *w)
{
    return w->lost > LOST_MAX;
}

static kiln_status force(struct storage *s, const char *why)
{
    auto_lock();
    while (s->lazy && s->lazy->seg->busy && !pthread_equal(s->lazy->seg->runner, pthread_self())) auto_lock_wait();
    kiln_status status = s->lazy ? segment_break(s->lazy->seg, s->lazy, why) : KILN_OK;
    auto_unlock();
    return status;
}

static int count(const struct storage *s)
{
    auto_lock();
    int n = s->lazy && s->lazy->outside;
    for (const struct lazy_reader *r = s->readers; r; r = r->next) n++;
    auto_unlock();
    return n;
}

__attribute__((constructor)) static void install(void)
{
    tensor_lazy = (struct lazy_hooks){force, segment_keep, segment_release, count};
}
