// Structs of callers that begin with their size. A caller may be built against an older header or a newer one: fields
// that it does not have are zero, fields that the library does not have are left alone. A size that no struct can have
// means that the caller did not set it, and then none of its fields may be trusted.
#include "base/options.h"
#include <string.h>

#define SIZE_MAX_B 4096 // of any struct to come

static bool is_size(size_t size_B)
{
    return size_B >= 2 * sizeof size_B && size_B <= SIZE_MAX_B && size_B % _Alignof(size_t) == 0;
}

kiln_status options_read_as(const char *function, const char *macro, void *dst, size_t size_B, const void *src)
{
    memset(dst, 0, size_B);
    if (KILN_LIKELY(!src)) return KILN_OK;
    size_t have = *(const size_t *)src;
    if (KILN_UNLIKELY(!is_size(have)))
        return error_set(KILN_E_ARGUMENT, "%s: the options have size %zu; write %s(.field = value), which sets it",
                         function, have, macro);
    memcpy(dst, src, have < size_B ? have : size_B);
    return KILN_OK;
}

kiln_status options_spread(const char *function, const char *field, int64_t *v, int n)
{
    if (n < 2 || !v[0] || (v[1] && v[n - 1])) return KILN_OK;
    if (v[1] || v[n - 1])
        return error_set(KILN_E_ARGUMENT, "%s: %s is {%lld, %lld, %lld}: give all three, or the first alone for all",
                         function, field, (long long)v[0], (long long)v[1], (long long)v[2]);
    for (int i = 1; i < n; i++) v[i] = v[0];
    return KILN_OK;
}

kiln_status sized_check_as(const char *function, const char *argument, const char *type, const void *s)
{
    if (!s) return error_set(KILN_E_ARGUMENT, "%s: %s is NULL", function, argument);
    size_t have = *(const size_t *)s;
    if (is_size(have)) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: %s->size is %zu; set it to sizeof(%s)", function, argument, have, type);
}

void sized_fill(void *out, const void *src, size_t size_B)
{
    size_t have = *(const size_t *)out, n = have < size_B ? have : size_B;
    memcpy((char *)out + sizeof have, (const char *)src + sizeof have, n - sizeof have);
}
