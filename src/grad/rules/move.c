// Copies, casts and writes: the gradient is moved along, the caller of the rule casts it back. Functions in steps:
// zeros.
#include "base/base.h"
#include "grad/rules/rules.h"

static kiln_status same(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                        kiln_tensor **din)
{
    din[0] = dout[0];
    return KILN_OK;
}

// Bits of another kind depend on those of x in no way that has a derivative.
static kiln_status bitcast(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                           kiln_tensor **din)
{
    kiln_dtype from = kiln_rule_in_dtype(0), to = kiln_tensor_dtype(dout[0]);
    if (from != to)
        return error_set(KILN_E_UNSUPPORTED, "bitcast: from %s to %s has no gradient; detach x", kiln_dtype_name(from),
                         kiln_dtype_name(to));
    din[0] = dout[0];
    return KILN_OK;
}

static kiln_status to_device(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                             kiln_tensor **din)
{
    kiln_device *home = kiln_tensor_device(in[0]);
    din[0] = home ? kiln_to_device(dout[0], home) : dout[0]; // in a graph, nothing has a place yet
    return kiln_error();
}

// What was written over has no gradient.
static kiln_status assign(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                          kiln_tensor **din)
{
    din[1] = dout[0];
    return KILN_OK;
}

static kiln_status at_place(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                            kiln_tensor **din)
{
    if (kiln_rule_wants(1)) din[1] = dout[0];
    return KILN_OK;
}

static kiln_status if_arrived(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                              kiln_tensor **din)
{
    din[0] = dout[0];
    return KILN_OK;
}

// One element in memory. Where a step lies, the derivative has no value; it counts as 0 like the rest.
static kiln_status zeros(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                         kiln_tensor **din)
{
    kiln_tensor *zero = kiln_zeros(kiln_tensor_device(dout[0]), kiln_tensor_dtype(dout[0]), KILN_SHAPE0);
    for (size_t i = 0; i < kiln_rule_n_in(); i++)
        if (kiln_rule_wants(i)) din[i] = kiln_expand(zero, IN_SHAPE(i));
    return kiln_error();
}

static const kiln_rule_spec rules[] = {
    {.op = "cast", .fn = same},
    {.op = "contiguous", .fn = same},
    {.op = "bitcast", .fn = bitcast},
    {.op = "to_device", .fn = to_device, .needs_in = 1 << 0},
    {.op = "assign", .fn = assign},
    {.op = "at_place", .fn = at_place},
    {.op = "if_arrived", .fn = if_arrived},
    {.op = "floor", .fn = zeros},
    {.op = "ceil", .fn = zeros},
    {.op = "trunc", .fn = zeros},
    {.op = "round", .fn = zeros},
    {.op = "sign", .fn = zeros},
    {.op = "floor_divide", .fn = zeros},
};
RULES(move, rules);
