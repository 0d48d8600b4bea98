// What fusion decided about a graph, as it lies in the cache: whatever the bytes are, the graph is fused, into kernels
// that are in order and that write each result once.
#include "fuzz_file.h"

#include "device/device.h"
#include "fuse/fuse.h"
#include "pass/pass.h"

static const char text[] = "kiln 1\n"
                           "%0: f32[6,8] = input \"x\"\n"
                           "%1: f32[8] = input \"b\"\n"
                           "%2: f32[6,8] = add(%0, %1)\n"
                           "%3: f32[6,8] = exp(%2)\n"
                           "%4: f32[6] = sum(%3) {axes = [1], keepdims = false}\n"
                           "%5: f32[6,8] = sigmoid(%0)\n"
                           "%6: f32[6,8] = mul(%5, %2)\n"
                           "%7: f32[6,8] = softmax(%6) {axis = 1}\n"
                           "%8: f32[8] = sum(%7) {axes = [0], keepdims = false}\n"
                           "%9: f32[8,6] = transpose(%6) {axis0 = 0, axis1 = 1}\n"
                           "%10: f32[8,8] = matmul(%9, %7)\n"
                           "%11: f32[8,8] = relu(%10)\n"
                           "%12: f32[8] = mul(%8, %1)\n"
                           "%13: f32[8] = tanh(%12)\n"
                           "return %4 \"a\"\n"
                           "return %11 \"b\"\n"
                           "return %13 \"c\"\n"
                           "return %7 \"d\"\n";

static struct kiln_graph *graph;
static struct units units;

static void prepare(void)
{
    const struct units_options o = {.caps = &fuzz_device->caps};
    graph = ir_parse(text, sizeof text - 1, "fuzz");
    NEED(graph != NULL);
    NEED(!units_make(&units, graph, &o));
}

static void check(const struct fuse_schedule *s)
{
    bool *done = calloc(units.v.n, 1);
    NEED(done != NULL);
    for (size_t i = 0; i < s->steps.n; i++) {
        const struct fuse_step *step = &s->steps.v[i];
        NEED(step->n_units > 0);
        NEED(!done[step->root]);
        done[step->root] = true;
        NEED(!step->why || strlen(step->why) < 4096);
    }
    free(done);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    struct fuse_schedule s;
    if (!graph) prepare();
    void *plan = malloc(size_B ? size_B : 1);
    NEED(plan != NULL);
    if (size_B) memcpy(plan, data, size_B);
    const struct fuse_options o = {.verify = true, .plan = plan, .plan_B = size_B};
    fuzz_begin();
    NEED(!fuse(&units, &fuzz_device->caps, &o, &s));
    check(&s);
    schedule_finish(&s);
    fuzz_end();
    free(plan);
    return 0;
}
