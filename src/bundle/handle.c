// Handles of bundles, their owners, and who may read and change what they are on.
#include "bundle/bundle.h"
#include <stdlib.h>

static THREAD_LOCAL struct bundle_watch *watch;

uint64_t bundle_now(void)
{
    static atomic_uint_least64_t now;
    return atomic_fetch_add_explicit(&now, 1, memory_order_relaxed);
}

static struct bundle_box *box_new(struct bundle_content *c)
{
    struct bundle_box *box = calloc(1, sizeof *box);
    if (!box) {
        error_set(KILN_E_MEMORY, "out of memory for a bundle");
        return NULL;
    }
    atomic_init(&box->refs, 1);
    box->content = c;
    box->made = bundle_now();
    box->capture = thread_state.capture;
    return box;
}

struct bundle_box *bundle_box_ref(struct bundle_box *box)
{
    atomic_fetch_add_explicit(&box->refs, 1, memory_order_relaxed);
    return box;
}

void bundle_box_unref(struct bundle_box *box)
{
    if (!box || atomic_fetch_sub_explicit(&box->refs, 1, memory_order_acq_rel) != 1) return;
    bundle_content_unref(box->content);
    free(box);
}

void bundle_box_fill(struct bundle_box *box, struct bundle_content *c)
{
    struct bundle_content *before = box->content;
    box->content = c;
    box->version++;
    bundle_content_unref(before);
}

static void link_into(kiln_bundle *b, struct kiln_scope *s)
{
    b->scope = s;
    b->prev = NULL;
    b->next = s ? s->bundles : NULL;
    if (b->next) b->next->prev = b;
    if (s) s->bundles = b;
}

static void unlink_bundle(kiln_bundle *b)
{
    if (!b->scope) return;
    if (b->prev)
        b->prev->next = b->next;
    else
        b->scope->bundles = b->next;
    if (b->next) b->next->prev = b->prev;
    b->scope = NULL;
    b->prev = b->next = NULL;
}

kiln_bundle *bundle_handle(struct bundle_box *box)
{
    kiln_bundle *b = handle_new(HANDLE_BUNDLE, sizeof *b);
    if (!b) {
        bundle_box_unref(box);
        error_set(KILN_E_MEMORY, "out of memory for a bundle");
        return NULL;
    }
    b->box = box;
    link_into(b, thread_state.scope);
    return b;
}

kiln_bundle *bundle_handle_on(struct bundle_content *c)
{
    struct bundle_box *box = c ? box_new(c) : NULL;
    if (!box) bundle_content_unref(c);
    return box ? bundle_handle(box) : NULL;
}

static void destroy(kiln_bundle *b)
{
    struct bundle_box *box = b->box;
    struct bundle_value *popped = b->popped;
    unlink_bundle(b);
    handle_free(HANDLE_BUNDLE, b);
    bundle_value_unref(popped);
    bundle_box_unref(box);
}

static void drain(struct kiln_scope *s)
{
    while (s->bundles) destroy(s->bundles);
}

__attribute__((constructor)) static void install(void)
{
    tensor_drain_bundles = drain;
}

kiln_status bundle_check(const char *function, const char *argument, const kiln_bundle *b)
{
    return handle_check(function, argument, HANDLE_BUNDLE, b);
}

void bundle_watch_begin(struct bundle_watch *w)
{
    *w = (struct bundle_watch){.since = bundle_now(), .outer = watch};
    watch = w;
}

void bundle_watch_end(struct bundle_watch *w)
{
    watch = w->outer;
}

void bundle_seen_free(struct bundle_seen *seen, size_t n)
{
    for (size_t i = 0; i < n; i++) bundle_box_unref(seen[i].box);
    free(seen);
}

// What is read of a bundle from outside becomes a part of the graph, which is right as long as nobody changes it.
static kiln_status note_read(struct bundle_box *box)
{
    for (struct bundle_watch *w = watch; w; w = w->outer) {
        bool known = box->made >= w->since;
        for (size_t i = 0; i < w->seen.n && !known; i++) known = w->seen.v[i].box == box;
        if (known) continue;
        TRY(vec_push(&w->seen, ((struct bundle_seen){bundle_box_ref(box), box->version})));
    }
    return KILN_OK;
}

kiln_status bundle_read(const char *function, const kiln_bundle *b, struct bundle_content **content)
{
    if (error_pending) return error_pending;
    TRY(bundle_check(function, "b", b));
    if (KILN_UNLIKELY(watch && thread_state.capture)) TRY(note_read(b->box));
    *content = b->box->content;
    return KILN_OK;
}

kiln_status bundle_may_change(const char *function, const struct bundle_box *box)
{
    if (KILN_LIKELY(!thread_state.capture || box->capture == thread_state.capture)) return KILN_OK;
    return error_set(KILN_E_STATE,
                     "%s: the bundle is from outside of the function that is being captured, and would change once, "
                     "not at each call; give it as its input, change it outside, or capture with KILN_CAPTURE_AUTO",
                     function);
}

kiln_status bundle_write(const char *function, kiln_bundle *b, struct bundle_content **content)
{
    if (error_pending) return error_pending;
    TRY(bundle_check(function, "b", b));
    struct bundle_box *box = b->box;
    TRY(bundle_may_change(function, box));
    if (atomic_load_explicit(&box->content->refs, memory_order_acquire) > 1) {
        struct bundle_content *mine = bundle_content_copy(box->content);
        if (!mine) return error_pending;
        bundle_content_unref(box->content);
        box->content = mine;
    }
    box->version++;
    *content = box->content;
    return KILN_OK;
}

kiln_bundle *kiln_bundle_create(void)
{
    return error_pending ? NULL : bundle_handle_on(bundle_content_new());
}

kiln_bundle *kiln_bundle_of(kiln_tensor *const *tensors, size_t n)
{
    if (!error_pending && n && !tensors) error_set(KILN_E_ARGUMENT, "bundle_of: tensors is NULL, of %zu tensors", n);
    struct bundle_content *c = error_pending ? NULL : bundle_content_new();
    for (size_t i = 0; i < n && c; i++) {
        struct bundle_value *v;
        kiln_status status = bundle_value_make("bundle_of", KILN_TENSOR(tensors[i]), &v);
        if (!status) status = bundle_content_insert("bundle_of", c, i, NULL, v);
        if (!status) continue;
        bundle_content_unref(c);
        return NULL;
    }
    return bundle_handle_on(c);
}

kiln_bundle *kiln_bundle_copy(const kiln_bundle *b)
{
    struct bundle_content *c;
    return bundle_read("bundle_copy", b, &c) ? NULL : bundle_handle_on(bundle_content_ref(c));
}

kiln_bundle *kiln_mutable_bundle(const kiln_bundle *b)
{
    struct bundle_content *c;
    return bundle_read("mutable_bundle", b, &c) ? NULL : bundle_handle_on(bundle_loosen(c));
}

kiln_bundle *kiln_bundle_alias(kiln_bundle *b)
{
    if (error_pending || bundle_check("bundle_alias", "b", b)) return NULL;
    return bundle_handle(bundle_box_ref(b->box));
}

bool kiln_bundle_is(const kiln_bundle *a, const kiln_bundle *b)
{
    if (error_pending || bundle_check("bundle_is", "a", a) || bundle_check("bundle_is", "b", b)) return false;
    return a->box == b->box;
}

void kiln_bundle_free(kiln_bundle **b)
{
    if (!handle_may_free("bundle_free", HANDLE_BUNDLE, b)) return;
    kiln_bundle *mine = *b;
    *b = NULL;
    destroy(mine);
}

kiln_bundle *kiln_bundle_keep(kiln_bundle *b)
{
    if (error_pending || bundle_check("bundle_keep", "b", b)) return NULL;
    struct kiln_scope *s = b->scope;
    if (!s) return b;
    unlink_bundle(b);
    link_into(b, s->outer);
    return b;
}

kiln_bundle *kiln_bundle_own(kiln_bundle *b)
{
    if (error_pending || bundle_check("bundle_own", "b", b)) return NULL;
    unlink_bundle(b);
    return b;
}
