// Fourier transforms. The gradient of a linear map F of complex numbers, dL/dx + i dL/dy for z = x + i y, is the
// adjoint of F: of a transform the one with the other sign.
#include "grad/rules/rules.h"

RULE(fft_pairs)
{
    din[0] = kiln_fft_pairs(dout[0], kiln_rule_int("axis"), !kiln_rule_int("inverse"));
    return kiln_error();
}

static const kiln_rule_spec rules[] = {
    {.op = "fft_pairs", .fn = fft_pairs},
};
RULES(fft, rules);
