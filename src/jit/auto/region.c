// KILN_CAPTURE: a block of user code that records as an AUTO function does. What was seen of a block is kept by its
// place in the source, until the device that it ran on is closed.
#include "base/leave_frame.h"
#include "jit/auto/auto.h"
#include <stdlib.h>
#include <string.h>

struct site {
    struct site *next;
    kiln_function *f;
    int line;
    char file[];
};

static struct site *sites;

struct kiln_capture_region {
    struct auto_scope scope;
    kiln_function *f; // of the place; a reference, for its device may be closed inside
    bool entered, records;
};

// With a reference.
static kiln_function *function_of(const char *file, int line)
{
    auto_lock();
    struct site *s = sites;
    while (s && (s->line != line || strcmp(s->file, file) != 0)) s = s->next;
    if (!s) {
        size_t n = strlen(file) + 1;
        s = calloc(1, sizeof *s + n);
        if (s) s->f = function_for_region(file, line);
        if (s && s->f) {
            s->line = line;
            memcpy(s->file, file, n);
            s->next = sites;
            sites = s;
        } else {
            free(s);
            s = NULL;
            error_set(KILN_E_MEMORY, "capture: out of memory");
        }
    }
    if (s) function_ref(s->f);
    auto_unlock();
    return s ? s->f : NULL;
}

kiln_capture_region *kiln_capture_begin(kiln_device *dev, const char *file, int line)
{
    kiln_capture_region *r = calloc(1, sizeof *r);
    if (!r) {
        error_set(KILN_E_MEMORY, "capture: out of memory");
        return NULL;
    }
    if (dev && !error_pending) device_check("capture", dev);
    // In a capture the block is a part of that, and with an error pending nothing is recorded.
    kiln_function *f =
        error_pending || thread_state.sink || !jit_enabled() ? NULL : function_of(file ? file : "", line);
    r->f = f;
    if (f) function_enter_region(f);
    if (f && !auto_scope_enter(&r->scope, f, dev))
        r->records = true;
    else
        scope_enter(&r->scope.scope);
    return r;
}

static struct leave_frame *frame_of(kiln_capture_place *p)
{
    _Static_assert(sizeof(struct leave_frame) <= sizeof p->reserved, "a region's place in its function");
    return (struct leave_frame *)(void *)p->reserved;
}

// longjmp goes past it.
static void leave_region(void *at)
{
    kiln_capture_place *p = at;
    kiln_capture_end(&p->region);
}

bool kiln_capture_enter(kiln_capture_place *p, kiln_device *dev, const char *file, int line)
{
    p->entered = true;
    p->region = kiln_capture_begin(dev, file, line);
    if (p->region) leave_frame_begin(frame_of(p), leave_region, p);
    return true;
}

void kiln_capture_leave(kiln_capture_place *p)
{
    if (!p || !p->region) return;
    leave_frame_end(frame_of(p));
    kiln_capture_end(&p->region);
}

bool kiln_capture_next(kiln_capture_region *r)
{
    bool first = r && !r->entered;
    if (r) r->entered = true;
    return first;
}

void kiln_capture_end(kiln_capture_region **region)
{
    kiln_capture_region *r = region ? *region : NULL;
    if (!r) return;
    *region = NULL;
    if (r->records)
        auto_scope_leave(&r->scope, NULL, 0, false);
    else
        scope_leave(&r->scope.scope, NULL, 0);
    if (r->f) function_unref(r->f);
    free(r);
}

// Programs hold their device: what is kept for a device goes when its user closes it.
static void forget(kiln_device *dev)
{
    auto_lock();
    for (struct site **p = &sites, *s; (s = *p);) {
        struct auto_root *r = s->f->trie ? s->f->trie->roots : NULL;
        while (r && r->dev != dev) r = r->next;
        if (!r) {
            p = &s->next;
            continue;
        }
        *p = s->next;
        kiln_function_free(&s->f);
        free(s);
    }
    auto_unlock();
}

__attribute__((constructor)) static void install(void)
{
    device_forget = forget;
}
