// KILN_CAPTURE: a block of user code that records as an AUTO function does. What was seen of a block is kept by its
// place in the source, until the device that it ran on is closed.
#include "base/caller.h"
#include "base/handles.h"
#include "base/leave_frame.h"
#include "jit/auto/auto.h"
#include <stddef.h>
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

static void end_region(kiln_capture_region *r)
{
    handle_close(r);
    if (r->records)
        auto_scope_leave(&r->scope, NULL, 0, false);
    else
        scope_leave(&r->scope.scope, NULL, 0);
    if (r->f) function_unref(r->f);
    handle_free(HANDLE_REGION, r);
}

static void end_with_scope(struct kiln_scope *s)
{
    end_region((kiln_capture_region *)((char *)s - offsetof(kiln_capture_region, scope.scope)));
}

static kiln_capture_region *begin_region(kiln_device *dev, const char *file, int line, uintptr_t begun_at)
{
    kiln_capture_region *r = handle_new(HANDLE_REGION, sizeof *r);
    if (!r) {
        error_set(KILN_E_MEMORY, "capture: out of memory");
        return NULL;
    }
    if (dev && !error_pending) device_check("capture", dev);
    // In a capture the block is a part of that, in graph mode it is void as AUTO is, and with an error pending nothing
    // is recorded.
    bool plain = error_pending || thread_state.sink || !jit_enabled() || kiln_get_mode() == KILN_MODE_GRAPH;
    kiln_function *f = plain ? NULL : function_of(file ? file : "", line);
    r->f = f;
    if (f) function_enter_region(f);
    if (f && !auto_scope_enter(&r->scope, f, dev))
        r->records = true;
    else
        scope_enter(&r->scope.scope);
    scope_give(&r->scope.scope, begun_at, end_with_scope);
    return r;
}

kiln_capture_region *kiln_capture_begin(kiln_device *dev, const char *file, int line)
{
    return begin_region(dev, file, line, (uintptr_t)__builtin_return_address(0) - 1);
}

static struct leave_frame *frame_of(kiln_capture_place *p)
{
    _Static_assert(sizeof(struct leave_frame) <= sizeof p->reserved, "a region's place in its function");
    return (struct leave_frame *)(void *)p->reserved;
}

// Whether it may be ended here. A block that ends takes with it what was left open inside.
static kiln_status check_open(const char *call, const kiln_capture_region *r, bool is_block)
{
    char place[CALLER_TEXT_MAX];
    const struct kiln_scope *inside;
    TRY(handle_check(call, "region", HANDLE_REGION, r));
    if (!scope_is_open(&r->scope.scope, &inside))
        return error_set(KILN_E_STATE, "%s: the region is not open on this thread, which did not begin it", call);
    if (!inside || (is_block && inside->end)) return KILN_OK;
    if (!inside->end)
        return error_set(KILN_E_STATE,
                         "%s: the region was begun outside of the function that runs now, which ends first", call);
    caller_describe(inside->begun_at, place, sizeof place);
    return error_set(KILN_E_STATE, "%s: a region begun inside it at %s is open, which ends first", call, place);
}

// longjmp goes past it.
static void leave_region(void *at)
{
    kiln_capture_place *p = at;
    end_region(p->region);
    p->region = NULL;
}

bool kiln_capture_enter(kiln_capture_place *p, kiln_device *dev, const char *file, int line)
{
    if (!p) {
        error_set(KILN_E_ARGUMENT, "capture_enter: p is NULL");
        return false;
    }
    p->entered = true;
    p->region = begin_region(dev, file, line, (uintptr_t)__builtin_return_address(0) - 1);
    if (p->region) leave_frame_begin(frame_of(p), leave_region, p);
    return true;
}

void kiln_capture_leave(kiln_capture_place *p)
{
    if (!p || !p->region || check_open("capture_leave", p->region, true)) return;
    leave_frame_end(frame_of(p));
    end_region(p->region);
    p->region = NULL;
}

bool kiln_capture_next(kiln_capture_region *r)
{
    if (!r || handle_check("capture_next", "r", HANDLE_REGION, r)) return false;
    bool first = !r->entered;
    r->entered = true;
    return first;
}

void kiln_capture_end(kiln_capture_region **region)
{
    if (!handle_may_free("capture_end", HANDLE_REGION, region) || check_open("capture_end", *region, false)) return;
    end_region(*region);
    *region = NULL;
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
    device_upper.forget = forget;
}
