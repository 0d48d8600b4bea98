// Sums of products by letters, against a loop over all letters.
#include "compose/case.h"
#include <stdlib.h>
#include <string.h>

// The reference reads equations of letters alone, with a result: callers write "..." out.
static void expect(const char *equation, int n, const struct host *in, struct host *out)
{
    int64_t size[128] = {0}, at[128] = {0}, dims[HOST_MAX_RANK];
    const char *terms[8], *arrow = strstr(equation, "->"), *p = equation;
    char letters[64];
    int n_letters = 0, dtype = in[0].dtype, rank = 0;
    for (int i = 0; i < n; i++) {
        terms[i] = p;
        for (int d = 0; p < arrow && *p != ','; p++, d++) {
            if (!size[(int)*p]) letters[n_letters++] = *p;
            if (!size[(int)*p] || size[(int)*p] == 1) size[(int)*p] = in[i].dims[d];
        }
        p++;
        dtype = promoted(dtype, in[i].dtype);
    }
    for (const char *c = arrow + 2; *c; c++) dims[rank++] = size[(int)*c];
    out[0] = host_new(dtype, rank, dims);
    bool more = true;
    for (int i = 0; i < n; i++) more = more && in[i].n > 0;
    while (more) {
        long double product = 1;
        int64_t to = 0;
        for (int i = 0; i < n; i++) {
            int64_t index = 0;
            for (int d = 0; d < in[i].rank; d++)
                index = index * in[i].dims[d] + (in[i].dims[d] == 1 ? 0 : at[(int)terms[i][d]]);
            product *= in[i].v[index];
        }
        for (const char *c = arrow + 2; *c; c++) to = to * size[(int)*c] + at[(int)*c];
        out[0].v[to] += product;
        more = false;
        for (int i = 0; i < n_letters && !more; i++) {
            int c = letters[i];
            more = ++at[c] < size[c];
            if (!more) at[c] = 0;
        }
    }
    for (int64_t i = 0; i < out[0].n && !is_float(dtype); i++)
        out[0].v[i] = (long double)wrapped(dtype, (int64_t)out[0].v[i]);
}

#define EQUATION(id, n, equation, spelt)                             \
    static void call_##id(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                \
        out[0] = kiln_einsum(equation, in, n);                       \
    }                                                                \
    static void expect_##id(const struct host *in, struct host *out) \
    {                                                                \
        expect(spelt, n, in, out);                                   \
    }
EQUATION(product, 2, "ij,jk->ik", "ij,jk->ik")
EQUATION(implicit, 2, " kb, ak ", "kb,ak->ab")
EQUATION(batch, 2, "bij,bjk->bik", "bij,bjk->bik")
EQUATION(turned, 2, "ibj,jkb->kbi", "ibj,jkb->kbi")
EQUATION(dots, 2, "...ij,...jk->...ik", "aij,bajk->baik")
EQUATION(dots_implicit, 2, "...i,i", "abi,i->ab")
EQUATION(diagonal, 1, "ii->i", "ii->i")
EQUATION(trace, 1, "bii", "bii->b")
EQUATION(twice, 2, "iji,jk->ki", "iji,jk->ki")
EQUATION(transposed, 1, "ba", "ba->ab")
EQUATION(all, 1, "ab->", "ab->")
EQUATION(outer, 2, "i,j->ij", "i,j->ij")
EQUATION(alone, 2, "ij,kl->k", "ij,kl->k")
EQUATION(three, 3, "ij,jk,kl->il", "ij,jk,kl->il")
EQUATION(shared, 3, "ia,ib,ic->abc", "ia,ib,ic->abc")
EQUATION(broadcast, 2, "ij,ij->i", "ij,ij->i")

// Equations that are none, and what the message says of each.
static void refusals(void)
{
    static const struct {
        const char *equation, *text;
    } bad[] = {{"ij,j$->i", "'$' at 4 is no letter"},
               {"ij,jk->iq", "'q' of the result is in no operand"},
               {"ij,jk->ii", "'i' is in the result twice"},
               {"ij,kj->ik", "'j' is 3 and, in tensors[1] of f32[3,4], 4"},
               {"ij.,jk", "'.' at 2 is no"},
               {"ij", "has 1 operands, there are 2"},
               {"ij,jk,kl", "has 3 operands, there are 2"},
               {"i,jk", "has 1 letters for tensors[0] of f32[2,3]"},
               {"...j,jk->k", "of the operands is not in the result"},
               {"......ij,jk", "a second '.' at 3"}};
    kiln_tensor *in[] = {kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)),
                         kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3, 4))};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kiln_einsum(bad[i].equation, in, 2);
        if (!strstr(kiln_error_message(), bad[i].text))
            record_mistake("einsum: \"%s\" does not say \"%s\"", kiln_error_message(), bad[i].text);
        expect_error(KILN_E_ARGUMENT, "einsum", bad[i].equation);
    }
}

static void call_refused(kiln_tensor *const *in, kiln_tensor **out)
{
    refusals();
    out[0] = kiln_einsum("ij,jk->ik", in, 2);
}

static const struct op_case einsum_cases[] = {
    {"einsum", "a product", "2x3 3x4", IN_NUMBERS, call_product, expect_product, .units = 16, .order = 2},
    {"einsum", "without result", "3x2 4x3", IN_WIDE, call_implicit, expect_implicit, .units = 16, .order = 2},
    {"einsum", "batches", "2x3x4 2x4x2", IN_FLOATS, call_batch, expect_batch, .units = 16, .order = 2},
    {"einsum", "turned", "2x3x4 4x2x3", IN_WIDE, call_turned, expect_turned, .units = 16, .order = 2},
    {"einsum", "ellipses", "3x2x4 2x3x4x2", IN_WIDE, call_dots, expect_dots, .units = 16, .order = 2},
    {"einsum", "ellipsis without result", "2x3x4 4", IN_WIDE, call_dots_implicit, expect_dots_implicit, .units = 16},
    {"einsum", "a diagonal", "3x3", IN_NUMBERS, call_diagonal, expect_diagonal, .units = 1, .order = 2},
    {"einsum", "traces", "2x3x3", IN_NUMBERS, call_trace, expect_trace, .units = 8, .order = 2},
    {"einsum", "a letter twice", "3x2x3 2x4", IN_WIDE, call_twice, expect_twice, .units = 8, .order = 2},
    {"einsum", "transposed", "2x3", IN_NUMBERS, call_transposed, expect_transposed, .units = 1},
    {"einsum", "a sum", "2x3", IN_WIDE | IN_INTEGERS, call_all, expect_all, .units = 16, .order = 1},
    {"einsum", "all products", "3 4", IN_NUMBERS, call_outer, expect_outer, .units = 1, .order = 2},
    {"einsum", "summed before", "2x3 3x2", IN_WIDE, call_alone, expect_alone, .units = 64, .order = 2},
    {"einsum", "three", "2x3 3x4 4x2", IN_WIDE, call_three, expect_three, .units = 64, .order = 2},
    {"einsum", "three share", "4x2 4x3 4x2", IN_WIDE, call_shared, expect_shared, .units = 64, .order = 2},
    {"einsum", "size 1", "3x1 3x4", IN_WIDE, call_broadcast, expect_broadcast, .units = 16, .order = 2},
    {"einsum", "empty", "2x0 0x4", IN_WIDE, call_product, expect_product, .units = 1},
    {"einsum", "messages", "2x3 3x4", IN_F32, call_refused, expect_product, .units = 16, .no_capture = true}, // errors
};
FAMILY_OF(einsum);
