// Helpers of many rules: shapes of inputs, the reduced axes, and results with those axes put back.
#include "grad/rules/rules.h"

const int64_t *rule_in_dims(size_t input)
{
    const int64_t *dims = NULL;
    kiln_rule_in_shape(input, &dims);
    return dims;
}

uint32_t rule_axes_mask(void)
{
    const int64_t *axes;
    size_t n = kiln_rule_ints("axes", &axes), rank = kiln_rule_in_shape(0, NULL);
    uint32_t mask = 0;
    for (size_t i = 0; i < n; i++) mask |= 1u << (axes[i] < 0 ? axes[i] + (int64_t)rank : axes[i]);
    return n ? mask : (1u << rank) - 1;
}

int64_t rule_row_length(void)
{
    const int64_t *dims;
    size_t rank = kiln_rule_in_shape(0, &dims);
    uint32_t mask = rule_axes_mask();
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++)
        if (mask >> i & 1) n *= dims[i];
    return n;
}

kiln_tensor *rule_keep_dims(kiln_tensor *t)
{
    const int64_t *dims;
    int64_t kept[KILN_MAX_RANK];
    size_t rank = kiln_rule_in_shape(0, &dims);
    uint32_t mask = rule_axes_mask();
    if (kiln_rule_int("keepdims")) return t;
    for (size_t i = 0; i < rank; i++) kept[i] = mask >> i & 1 ? 1 : dims[i];
    return kiln_reshape(t, rank, kept);
}
