// Signatures: what inputs were declared to be, and whether those of a call are that. An open dimension is any size, or
// one that keeps the rule of its symbol; places of a symbol that is .unique agree.
#include "jit/signature.h"
#include "jit/symbol.h"
#include "tensor/tensor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kiln_status take_tensors(struct signature *s, const kiln_tensors *list)
{
    for (size_t i = 0; i < list->count; i++) {
        char entry[48];
        snprintf(entry, sizeof entry, ".input_signature entry %zu", i);
        TRY(tensor_check("jit", entry, list->v[i]));
        s->v[s->n++] = list->v[i]->type;
    }
    return KILN_OK;
}

static kiln_status take_type(struct signature *s, size_t i, const kiln_type *t)
{
    struct type *to = &s->v[s->n++];
    if ((unsigned)t->dtype >= DTYPE_COUNT)
        return error_set(KILN_E_DTYPE, "jit: .input_types entry %zu: dtype %d is none of kiln_dtype", i, (int)t->dtype);
    if (t->rank > MAX_RANK)
        return error_set(KILN_E_SHAPE, "jit: .input_types entry %zu has %zu dimensions, %d at most", i, t->rank,
                         MAX_RANK);
    if (t->rank && !t->dims)
        return error_set(KILN_E_ARGUMENT, "jit: .input_types entry %zu: dims is NULL, of %zu", i, t->rank);
    *to = (struct type){.dtype = (uint8_t)t->dtype, .rank = (uint8_t)t->rank};
    for (size_t d = 0; d < t->rank; d++) {
        to->dims[d] = t->dims[d];
        if (t->dims[d] < -1 && !symbol_of(t->dims[d]))
            return error_set(
                KILN_E_ARGUMENT,
                "jit: .input_types entry %zu: dimension %zu is %lld, which is no size, not -1 and no symbol", i, d,
                (long long)t->dims[d]);
    }
    return KILN_OK;
}

kiln_status signature_take(struct signature *s, kiln_jit_opts *o)
{
    const kiln_tensors tensors = o->input_signature;
    const kiln_types types = o->input_types;
    if (tensors.count && !tensors.v)
        return error_set(KILN_E_ARGUMENT, "jit: .input_signature is NULL, of %zu entries", tensors.count);
    if (types.count && !types.v)
        return error_set(KILN_E_ARGUMENT, "jit: .input_types is NULL, of %zu entries", types.count);
    if (tensors.count && types.count)
        return error_set(KILN_E_ARGUMENT, "jit: .input_signature and .input_types exclude each other");
    o->input_signature.v = NULL;
    o->input_types.v = NULL;
    s->v = calloc(tensors.count + types.count + 1, sizeof *s->v);
    if (!s->v) return error_set(KILN_E_MEMORY, "jit: out of memory");
    TRY(take_tensors(s, &tensors));
    for (size_t i = 0; i < types.count; i++) TRY(take_type(s, i, &types.v[i]));
    return KILN_OK;
}

void signature_finish(struct signature *s)
{
    free(s->v);
    s->v = NULL;
}

// --- checking

static void add_dims(const struct type *t, char *out, size_t size_B)
{
    size_t n = (size_t)snprintf(out, size_B, "%s[", dtype_name(t->dtype));
    for (int d = 0; d < t->rank && n < size_B; d++) {
        const struct symbol *s = symbol_of(t->dims[d]);
        if (s)
            n += (size_t)snprintf(out + n, size_B - n, "%s%s", d ? "," : "", s->name);
        else
            n += (size_t)snprintf(out + n, size_B - n, "%s%lld", d ? "," : "", (long long)t->dims[d]);
    }
    if (n < size_B) snprintf(out + n, size_B - n, "]");
}

static bool is_open(const struct type *t)
{
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d] < 0) return true;
    return false;
}

static kiln_status refuse(const char *name, size_t i, const struct type *want, const struct type *t)
{
    char a[TYPE_TEXT_MAX], b[1024];
    if (is_open(want))
        add_dims(want, b, sizeof b);
    else
        type_text(want, b, sizeof b);
    return error_set(KILN_E_SHAPE, "call: input %zu of %s is %s, its signature says %s", i, name,
                     type_text(t, a, sizeof a), b);
}

// The first place of a symbol in the signature.
static bool find_first(const struct signature *s, int64_t symbol, size_t *input, int *dim)
{
    for (*input = 0; *input < s->n; ++*input)
        for (*dim = 0; *dim < s->v[*input].rank; ++*dim)
            if (s->v[*input].dims[*dim] == symbol) return true;
    return false;
}

static kiln_status check_symbol(const struct signature *s, const char *name, size_t i, int d, kiln_tensor *const *in)
{
    int64_t code = s->v[i].dims[d], size = in[i]->type.dims[d];
    const struct symbol *symbol = symbol_of(code);
    char rule[160], type[TYPE_TEXT_MAX];
    size_t input;
    int dim;
    if (!symbol_allows(symbol, size)) {
        symbol_text(symbol, rule, sizeof rule);
        return error_set(KILN_E_SHAPE, "call: input %zu of %s is %s: dimension %d is %lld, symbol %s says %s", i, name,
                         type_text(&in[i]->type, type, sizeof type), d, (long long)size, symbol->name, rule);
    }
    if (!symbol->unique || !find_first(s, code, &input, &dim) || in[input]->type.dims[dim] == size) return KILN_OK;
    return error_set(KILN_E_SHAPE,
                     "call: input %zu of %s is %s: dimension %d is %lld, but symbol %s is %lld, by dimension %d of "
                     "input %zu",
                     i, name, type_text(&in[i]->type, type, sizeof type), d, (long long)size, symbol->name,
                     (long long)in[input]->type.dims[dim], dim, input);
}

static bool is_like(const struct type *want, const struct type *t)
{
    if (want->dtype != t->dtype || want->rank != t->rank) return false;
    for (int d = 0; d < t->rank; d++)
        if (want->dims[d] >= 0 && want->dims[d] != t->dims[d]) return false;
    return true;
}

kiln_status signature_check(const struct signature *s, const char *name, kiln_tensor *const *in, size_t n_in)
{
    if (s->n && s->n != n_in)
        return error_set(KILN_E_ARGUMENT, "call: the signature of %s has %zu inputs, %zu are given", name, s->n, n_in);
    for (size_t i = 0; i < s->n; i++)
        if (!is_like(&s->v[i], &in[i]->type)) return refuse(name, i, &s->v[i], &in[i]->type);
    for (size_t i = 0; i < s->n; i++)
        for (int d = 0; d < s->v[i].rank; d++)
            if (s->v[i].dims[d] < -1) TRY(check_symbol(s, name, i, d, in));
    return KILN_OK;
}
