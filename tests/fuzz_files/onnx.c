// Fuzzer of ONNX models: what loads runs, with inputs of the sizes that it asks for, unless a loop could take forever.
#include "fuzz_file.h"
#include "onnx/model.h"

enum { PORTS_MAX = 16, ELEMENTS_MAX = 1 << 12, MEMORY_MAX_B = 1 << 26 };

static bool has_loop(const struct onnx_graph *g)
{
    bool has = false;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        has |= !strcmp(g->nodes[i].op, "Loop");
        for (int32_t k = 0; k < g->nodes[i].n_attrs; k++)
            if (g->nodes[i].attrs[k].graph) has |= has_loop(g->nodes[i].attrs[k].graph);
    }
    return has;
}

static bool loops(const struct onnx_model *m)
{
    bool has = has_loop(&m->graph);
    for (int32_t i = 0; i < m->n_functions; i++) has |= has_loop(&m->functions[i].body);
    return has;
}

static kiln_tensor *input(const struct onnx_port *p)
{
    int64_t dims[KILN_MAX_RANK], n = 1;
    size_t rank = p->shaped ? p->rank : 1;
    for (size_t i = 0; i < rank; i++) {
        dims[i] = p->shaped && p->dims[i] >= 0 ? p->dims[i] : 3;
        if (dims[i] > ELEMENTS_MAX) return NULL;
        n *= dims[i];
        if (n > ELEMENTS_MAX) return NULL;
    }
    return kiln_full(NULL, p->typed ? p->dtype : KILN_F32, rank, dims, 1);
}

static void run(struct onnx_model *m)
{
    kiln_tensor *in[PORTS_MAX], *out[PORTS_MAX];
    size_t n_in = onnx_input_count(m), n_out = onnx_output_count(m);
    if (n_in > PORTS_MAX || n_out > PORTS_MAX || loops(m)) return;
    for (size_t i = 0; i < n_in; i++)
        if (!(in[i] = input(onnx_input(m, i)))) return;
    kiln_status status = onnx_run(m, in, n_in, out, n_out);
    NEED(status == kiln_error() && status != KILN_E_INTERNAL);
    if (status) NEED(*kiln_error_message());
    kiln_error_clear();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    NEED(!kiln_device_set_memory_limit(fuzz_device, MEMORY_MAX_B));
    fuzz_begin();
    struct onnx_model *m = onnx_load("graph_import", NULL, fuzz_input(data, size_B));
    if (m)
        run(m);
    else
        FUZZ_REFUSED(FUZZ_BAD_FILE, KILN_E_MISSING, KILN_E_IO, KILN_E_DEVICE_MEMORY);
    onnx_free(&m);
    fuzz_end();
    return 0;
}
