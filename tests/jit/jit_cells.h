// Every kind of capture, one after the other.
#pragma once
#include "jit_fixture.h"

enum cell { STRICT, TRACE, GRAPH, AUTO, CELLS };
static const char *const cell_names[] = {"STRICT", "TRACE", "graph mode", "AUTO"};

static inline kiln_function *capture_in(enum cell cell, kiln_fn fn, void *user)
{
    static const kiln_capture kinds[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE, KILN_CAPTURE_STRICT,
                                         KILN_CAPTURE_AUTO};
    ok(kiln_set_mode(cell == GRAPH ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
    return kiln_jit(fn, user, KILN_JIT(.capture = kinds[cell]));
}

// Either may be NULL.
static inline void same_or_say(enum cell cell, int t, const char *what, kiln_tensor *got, kiln_tensor *want)
{
    if (!got == !want && (!got || equal(got, want))) return;
    print_error("%s, call %d: %s differs\n", cell_names[cell], t, what);
    if (got) kiln_print(got, stderr);
    if (want) kiln_print(want, stderr);
    fail();
}
