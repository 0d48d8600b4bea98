// The cases of peers/torch_rows.py: same names, shapes and arithmetic. Each is a set-up, which makes random inputs and
// states flops and bytes as the peer's script does, and one call.
#include "bench.h"

#include <stddef.h>
#include <string.h>

const struct sizes *bench_sizes(const char *name)
{
    static const struct sizes tiny = {.n = 1 << 12,
                                      .r = 128,
                                      .c = 128,
                                      .g = 64,
                                      .b = 2,
                                      .s = 32,
                                      .h = 2,
                                      .d = 16,
                                      .qb = 1,
                                      .bl = 4,
                                      .bm = 32,
                                      .vocab = 64,
                                      .dm = 32,
                                      .heads = 2,
                                      .layers = 2,
                                      .seq = 16,
                                      .batch = 2,
                                      .lstm_length = 8,
                                      .lstm_batch = 4,
                                      .lstm_units = 16};
    static const struct sizes small = {.n = 1 << 22,
                                       .r = 4096,
                                       .c = 1024,
                                       .g = 1024,
                                       .b = 32,
                                       .s = 512,
                                       .h = 8,
                                       .d = 64,
                                       .qb = 1,
                                       .bl = 64,
                                       .bm = 128,
                                       .vocab = 512,
                                       .dm = 128,
                                       .heads = 4,
                                       .layers = 2,
                                       .seq = 128,
                                       .batch = 4,
                                       .lstm_length = 64,
                                       .lstm_batch = 64,
                                       .lstm_units = 256};
    static const struct sizes big = {.n = 1 << 27,
                                     .r = 65536,
                                     .c = 2048,
                                     .g = 8192,
                                     .b = 256,
                                     .s = 4096,
                                     .h = 16,
                                     .d = 128,
                                     .qb = 4,
                                     .bl = 1024,
                                     .bm = 8192,
                                     .vocab = 50304,
                                     .dm = 768,
                                     .heads = 12,
                                     .layers = 12,
                                     .seq = 1024,
                                     .batch = 4,
                                     .lstm_length = 256,
                                     .lstm_batch = 256,
                                     .lstm_units = 1024};
    return !strcmp(name, "tiny") ? &tiny : !strcmp(name, "small") ? &small : !strcmp(name, "large") ? &big : NULL;
}

void own_input(struct state *s, int i, kiln_tensor *t)
{
    s->in[i] = t ? kiln_own(t) : NULL;
}

void random_input(struct state *s, int i, size_t rank, const int64_t *dims)
{
    own_input(s, i, kiln_normal(s->dev, KILN_F32, rank, dims, 0, 1));
}

void random_input_of(struct state *s, int i, kiln_dtype dtype, size_t rank, const int64_t *dims)
{
    kiln_tensor *t = kiln_normal(s->dev, KILN_F32, rank, dims, 0, 1);
    own_input(s, i, dtype == KILN_F32 ? t : kiln_cast(t, dtype));
}

size_t count_inputs(const struct state *s)
{
    size_t n = 0;
    while (n < STATE_INPUTS && s->in[n]) n++;
    return n;
}

kiln_dtype case_dtype(const struct state *s)
{
    return s->c->dtype ? s->c->dtype : KILN_F32;
}

const int64_t *case_sizes(const struct state *s)
{
    return s->c->tiny[0] && s->z == bench_sizes("tiny") ? s->c->tiny : s->c->sizes;
}

#define CASE(group, name, setup, run, ...) {#group, #name, setup, run, __VA_ARGS__},
const struct bench_case bench_cases[] = {
#include "cases.def"
};
#undef CASE
const int bench_case_count = sizeof bench_cases / sizeof bench_cases[0];

bool is_group(const char *name)
{
    int i = 0;
    if (!strcmp(name, "all")) return true;
    while (i < bench_case_count && strcmp(bench_cases[i].group, name) != 0) i++;
    return i < bench_case_count;
}

const struct bench_case *case_of(const char *name)
{
    for (int i = 0; i < bench_case_count; i++)
        if (!strcmp(bench_cases[i].name, name)) return &bench_cases[i];
    return NULL;
}
