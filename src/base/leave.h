// Code of the user's that the library calls and that does not return to it.
//
// A C++ exception that passes through, or a longjmp past the library, leaves its functions in the middle: their scopes,
// sinks and locks would stay. So a function with such state, from which the user's code is called, directly or not,
// keeps a record of how it is undone. leave_call calls the code; when that is left for good, it undoes what was
// recorded since the user's code that called the library, the last one first. Between records and calls of the user's
// code there may be any number of functions that keep nothing.
//
// Exceptions are seen by unwinding. Of longjmp the GNU C library tells: it runs the handlers of the frames that it
// leaves. With other C libraries a longjmp past the library is not supported.
#pragma once

struct leave {
    struct leave *outer;
    void (*undo)(void *user);
    void *user;
};

void leave_push(struct leave *l, void (*undo)(void *user), void *user);
void leave_pop(struct leave *l);
void leave_call(void (*call)(void *user), void *user);
