// The text form of graphs: what parses is printed, and parsed and printed again as the same; drawn; and given to the
// passes.
#include "fuzz_file.h"

#include "ir/graph.h"
#include "pass/pass.h"

static char *print(const kiln_graph *g)
{
    char *text = NULL;
    size_t size_B;
    FILE *f = open_memstream(&text, &size_B);
    NEED(f && !kiln_graph_print(g, f) && !fclose(f));
    return text;
}

static void draw(const kiln_graph *g)
{
    char *text = NULL;
    size_t size_B;
    FILE *f = open_memstream(&text, &size_B);
    NEED(f && !kiln_graph_dot(g, f) && !fclose(f));
    free(text);
}

static void print_and_parse(const kiln_graph *g)
{
    char *text = print(g);
    kiln_graph *again = kiln_graph_parse(text);
    NEED(again != NULL);
    NEED(ir_graph_equal(g, again) && ir_graph_hash(g) == ir_graph_hash(again));
    char *same = print(again);
    NEED(!strcmp(text, same));
    kiln_graph_free(&again);
    free(same);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    char *text = malloc(size_B + 1);
    NEED(text != NULL);
    memcpy(text, data, size_B);
    text[size_B] = 0;
    fuzz_begin();
    kiln_graph *g = kiln_graph_parse(text);
    if (g) {
        print_and_parse(g);
        draw(g);
        struct pass_options o = {.verify = true};
        NEED(!pass_run_all(&g, &o, NULL));
        print_and_parse(g);
        kiln_graph_free(&g);
    } else {
        FUZZ_REFUSED(FUZZ_BAD_FILE, KILN_E_ARGUMENT, KILN_E_SHAPE, KILN_E_DTYPE, KILN_E_AXIS);
    }
    fuzz_end();
    free(text);
    return 0;
}
