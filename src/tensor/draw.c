// The numbers of a stream, one after the other; a node of control flow that no tensor tells the device of takes its own
// when something is drawn first.
#include "tensor/draw.h"
#include "tensor/tensor.h"

static struct rng take_of_device(kiln_device *dev, uint64_t n)
{
    if (thread_state.generator) return generator_take(thread_state.generator, n);
    pthread_mutex_lock(&dev->lock);
    struct rng at = {dev->rng_seed, dev->rng_offset};
    dev->rng_offset += n;
    pthread_mutex_unlock(&dev->lock);
    return at;
}

static void place(struct draw_frame *f)
{
    f->at = f->condition ? rng_of_condition(&f->number, f->row) : rng_of_trip(&f->number, f->row);
}

static struct rng take(struct draw_frame *f, kiln_device *dev, uint64_t n)
{
    while (f && f->dev && f->dev != dev) f = f->outer;
    if (!f) return take_of_device(dev, n);
    if (!f->dev) {
        f->dev = dev;
        f->number = take(f->outer, dev, 1);
        place(f);
    }
    struct rng at = f->at;
    f->at.offset += n;
    return at;
}

struct rng draw_take(kiln_device *dev, uint64_t n)
{
    return take(thread_state.draws, dev, n);
}

void draw_give_back(kiln_device *dev, const struct rng *taken, uint64_t n)
{
    struct draw_frame *f = thread_state.draws;
    while (f && f->dev != dev) f = f->outer;
    if (f && f->at.seed == taken->seed && f->at.offset == taken->offset + n) f->at = *taken;
    if (f) return;
    if (thread_state.generator) {
        generator_give_back(thread_state.generator, taken, n);
        return;
    }
    pthread_mutex_lock(&dev->lock);
    if (dev->rng_seed == taken->seed && dev->rng_offset == taken->offset + n) dev->rng_offset = taken->offset;
    pthread_mutex_unlock(&dev->lock);
}

void draw_enter(struct draw_frame *f, kiln_device *dev, const struct rng *given)
{
    *f = (struct draw_frame){.outer = thread_state.draws, .dev = dev, .capture = thread_state.capture};
    if (given)
        f->number = *given;
    else if (dev)
        f->number = take(f->outer, dev, 1);
    place(f);
    thread_state.draws = f;
}

void draw_trip(struct draw_frame *f, int64_t row, bool condition)
{
    f->row = row;
    f->condition = condition;
    if (f->dev) place(f);
}

void draw_leave(const struct draw_frame *f)
{
    thread_state.draws = f->outer;
}
