// A frame of the stack that is told when longjmp leaves it. It must lie in that frame.
#pragma once
#include <pthread.h>

#ifdef __GLIBC__
// Handlers as the GNU C library keeps them since its first version; longjmp runs those of the frames that it leaves.
void _pthread_cleanup_push(struct _pthread_cleanup_buffer *b, void (*handler)(void *user), void *user);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *b, int execute);

struct leave_frame {
    struct _pthread_cleanup_buffer handler;
};

static inline void leave_frame_begin(struct leave_frame *f, void (*handler)(void *user), void *user)
{
    _pthread_cleanup_push(&f->handler, handler, user);
}

static inline void leave_frame_end(struct leave_frame *f)
{
    _pthread_cleanup_pop(&f->handler, 0);
}
#else
struct leave_frame {
    char unused;
};

static inline void leave_frame_begin(struct leave_frame *f, void (*handler)(void *user), void *user)
{
    (void)f, (void)handler, (void)user;
}

static inline void leave_frame_end(struct leave_frame *f)
{
    (void)f;
}
#endif
