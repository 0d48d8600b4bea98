// What is left of a region's backward graph without the gradients that did not arrive.
#include "jit/capture/region_thin.h"
#include "jit/capture/arrived.h"
#include <stdlib.h>
#include <string.h>

static kiln_status take_out(const struct kiln_graph *graph, const bool *arrived, size_t n, bool *absent,
                            struct thinned *out)
{
    if (memchr(arrived, false, n)) TRY(graph_of_arrived(graph, arrived, n, absent, &out->made));
    if (out->made) out->graph = out->made;
    int32_t place = 0;
    for (size_t i = 0; i < graph->outputs.n; i++) out->places[i] = absent[i] ? -1 : place++;
    return KILN_OK;
}

kiln_status region_thin(const struct kiln_graph *graph, const bool *arrived, size_t n, struct thinned *out)
{
    *out = (struct thinned){.graph = graph, .places = calloc(graph->outputs.n + 1, sizeof *out->places)};
    bool *absent = calloc(graph->outputs.n + 1, sizeof *absent);
    kiln_status status = out->places && absent ? take_out(graph, arrived, n, absent, out)
                                               : error_set(KILN_E_MEMORY, "backward: out of memory");
    free(absent);
    return status;
}

void thinned_finish(struct thinned *t)
{
    ir_graph_destroy(&t->made);
    free(t->places);
    *t = (struct thinned){0};
}
