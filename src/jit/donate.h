// Inputs that a call gives away: which, whether that may be, and what becomes of their handles.
#pragma once
#include "jit/function.h"

// Copies .donate of f's options, and leaves the options without the list.
kiln_status donate_read_option(struct kiln_function *f);
void donate_finish(struct kiln_function *f);
bool donate_gives(const struct kiln_function *f, size_t input);

// A call that runs on this thread, for those inside of it.
struct donate_frame {
    const struct kiln_function *f;
    kiln_tensor *const *in;
    size_t n_in;
    const struct sink *sink; // of the thread, when it began
    const struct donate_frame *outer;
};
void donate_enter(struct donate_frame *frame, const struct kiln_function *f, kiln_tensor *const *in, size_t n_in);
void donate_leave(const struct donate_frame *frame);

// Before the call: whether f may be given what it is to be given.
kiln_status donate_check(const struct kiln_function *f, kiln_tensor *const *in, size_t n_in);
// After it: these handles are dead. `spent_alone`: only those whose values are lost. `at`: the user's line.
void donate_take(const struct kiln_function *f, kiln_tensor *const *in, uintptr_t at, bool spent_alone);
