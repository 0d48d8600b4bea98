// Einsum: factors are taken together two by two, each pair as one product of matrices. Labels that only one of the two
// has, and nobody wants later, are summed up before; those of both are the batch where they are wanted, else the sum.
#include "onnx/onnx_fns.h"
#include <ctype.h>
#include <string.h>

enum { LABELS_MAX = 64 };

struct factor {
    kiln_tensor *t;
    char labels[KILN_MAX_RANK + 1];
};

static bool has(const char *labels, char l)
{
    return l && strchr(labels, l) != NULL;
}

// Digits are the dimensions of an ellipsis, counted from the end, so that those of several meet.
static kiln_status read_labels(struct onnx_call *c, const char *text, size_t len, size_t rank, char *out)
{
    size_t n = 0, letters = 0;
    for (size_t i = 0; i < len; i++) letters += isalpha((unsigned char)text[i]) != 0;
    if (letters > rank) return onnx_bad(c, KILN_E_SHAPE, "%zu labels for rank %zu", letters, rank);
    for (size_t i = 0; i < len; i++) {
        if (isspace((unsigned char)text[i])) continue;
        if (isalpha((unsigned char)text[i]) && n < rank) {
            out[n++] = text[i];
        } else if (!strncmp(text + i, "...", 3) && rank - letters <= 9 && n + rank - letters <= rank) {
            for (size_t k = rank - letters; k > 0; k--) out[n++] = (char)('0' + k);
            i += 2;
        } else {
            return onnx_bad(c, KILN_E_FORMAT, "its equation is not understood");
        }
    }
    out[n] = 0;
    return n == rank ? KILN_OK : onnx_bad(c, KILN_E_SHAPE, "%zu labels for rank %zu", n, rank);
}

// A label that comes twice is a diagonal.
static kiln_status take_diagonals(struct factor *f)
{
    for (size_t i = 0; f->labels[i]; i++) {
        const char *twin = strchr(f->labels + i + 1, f->labels[i]);
        if (!twin) continue;
        size_t k = (size_t)(twin - f->labels), n = strlen(f->labels);
        char l = f->labels[i];
        f->t = kiln_diagonal(f->t, 0, (int64_t)i, (int64_t)k);
        NEED(f->t);
        memmove(f->labels + k, f->labels + k + 1, n - k);
        memmove(f->labels + i, f->labels + i + 1, n - 1 - i);
        f->labels[n - 2] = l;
        f->labels[n - 1] = 0;
        i = (size_t)-1;
    }
    return KILN_OK;
}

static kiln_status sum_away(struct factor *f, const char *wanted, const char *others)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n = 0, kept = 0;
    for (size_t i = 0; f->labels[i]; i++) {
        if (has(wanted, f->labels[i]) || has(others, f->labels[i]))
            f->labels[kept++] = f->labels[i];
        else
            axes[n++] = (int64_t)i;
    }
    f->labels[kept] = 0;
    if (n) {
        kiln_dtype dtype = kiln_tensor_dtype(f->t);
        f->t = kiln_sum(f->t, KILN_REDUCE(.axes = {n, axes}));
        if (f->t && kiln_tensor_dtype(f->t) != dtype) f->t = kiln_cast(f->t, dtype);
    }
    NEED(f->t);
    return KILN_OK;
}

static kiln_tensor *in_order(const struct factor *f, const char *order)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n = strlen(order);
    for (size_t i = 0; i < n; i++) axes[i] = strchr(f->labels, order[i]) - f->labels;
    return kiln_permute(f->t, (kiln_ints){n, axes});
}

static int64_t size_of(const struct factor *f, const char *labels)
{
    int64_t n = 1;
    for (; *labels; labels++) n *= kiln_dims(f->t)[strchr(f->labels, *labels) - f->labels];
    return n;
}

// Labels by who has them, and whether they are wanted.
static void sort_labels(const struct factor *a, const struct factor *b, const char *wanted,
                        char (*out)[KILN_MAX_RANK + 1])
{
    size_t n[4] = {0};
    for (const char *l = a->labels; *l; l++) {
        int group = !has(b->labels, *l) ? 2 : has(wanted, *l) ? 0 : 1;
        out[group][n[group]++] = *l;
    }
    for (const char *l = b->labels; *l; l++)
        if (!has(a->labels, *l)) out[3][n[3]++] = *l;
    for (int i = 0; i < 4; i++) out[i][n[i]] = 0;
}

static kiln_status check_sizes(struct onnx_call *c, const struct factor *a, const struct factor *b)
{
    for (const char *l = a->labels; *l; l++) {
        char one[] = {*l, 0};
        if (has(b->labels, *l) && size_of(a, one) != size_of(b, one))
            return onnx_bad(c, KILN_E_SHAPE, "%c is %lld and %lld", *l, (long long)size_of(a, one),
                            (long long)size_of(b, one));
    }
    return KILN_OK;
}

static kiln_status multiply(struct onnx_call *c, struct factor *a, struct factor *b, const char *wanted)
{
    char groups[4][KILN_MAX_RANK + 1], order[2 * KILN_MAX_RANK + 1]; // batch, sum, a's, b's
    int64_t dims[2 * KILN_MAX_RANK];
    TRY(sum_away(a, wanted, b->labels));
    TRY(sum_away(b, wanted, a->labels));
    TRY(check_sizes(c, a, b));
    sort_labels(a, b, wanted, groups);
    int64_t batch = size_of(a, groups[0]), inner = size_of(a, groups[1]), rows = size_of(a, groups[2]),
            columns = size_of(b, groups[3]);
    strcat(strcat(strcpy(order, groups[0]), groups[2]), groups[1]);
    kiln_tensor *left = kiln_reshape(in_order(a, order), KILN_SHAPE(batch, rows, inner));
    strcat(strcat(strcpy(order, groups[0]), groups[1]), groups[3]);
    kiln_tensor *right = kiln_reshape(in_order(b, order), KILN_SHAPE(batch, inner, columns));
    strcat(strcat(strcpy(order, groups[0]), groups[2]), groups[3]);
    if (strlen(order) > KILN_MAX_RANK) return onnx_bad(c, KILN_E_UNSUPPORTED, "a product of rank %zu", strlen(order));
    for (size_t i = 0; order[i]; i++) {
        char one[] = {order[i], 0};
        dims[i] = size_of(has(a->labels, order[i]) ? a : b, one);
    }
    a->t = kiln_reshape(kiln_matmul(left, right), strlen(order), dims);
    NEED(a->t);
    strcpy(a->labels, order);
    return KILN_OK;
}

// Without an arrow: the ellipsis, then the labels that come once, in the order of the alphabet.
static void implied(const char *equation, size_t dots, char *out)
{
    size_t n = 0;
    for (size_t k = dots; k > 0; k--) out[n++] = (char)('0' + k);
    for (int l = 'A'; l <= 'z'; l++) {
        size_t count = 0;
        for (const char *at = equation; *at; at++) count += *at == l && isalpha(l);
        if (count == 1 && n < KILN_MAX_RANK) out[n++] = (char)l;
    }
    out[n] = 0;
}

static kiln_status read_factor(struct onnx_call *c, int i, const char *text, size_t len, struct factor *f, size_t *dots)
{
    f->t = onnx_in(c, i);
    NEED(f->t);
    TRY(read_labels(c, text, len, kiln_rank(f->t), f->labels));
    size_t digits = 0;
    for (const char *l = f->labels; *l; l++) digits += isdigit((unsigned char)*l) != 0;
    if (digits > *dots) *dots = digits;
    return take_diagonals(f);
}

static kiln_status read_result(struct onnx_call *c, const char *equation, const char *arrow, size_t dots, char *out)
{
    size_t letters = 0;
    if (!arrow) {
        implied(equation, dots, out);
        return KILN_OK;
    }
    for (const char *at = arrow + 2; *at; at++) letters += isalpha((unsigned char)*at) != 0;
    size_t rank = letters + (strstr(arrow, "...") ? dots : 0);
    if (rank > KILN_MAX_RANK) return onnx_bad(c, KILN_E_UNSUPPORTED, "a result of rank %zu", rank);
    return read_labels(c, arrow + 2, strlen(arrow + 2), rank, out);
}

kiln_status onnx_op_einsum(struct onnx_call *c)
{
    struct factor f[8];
    const char *equation;
    char out[KILN_MAX_RANK + 1], wanted[9 * KILN_MAX_RANK + 1];
    size_t dots = 0;
    TRY(onnx_string(c, "equation", "", &equation));
    TRY(onnx_check_counts(c, 1, COUNT_OF(f), 1));
    const char *arrow = strstr(equation, "->"), *at = equation, *end = arrow ? arrow : equation + strlen(equation);
    for (int i = 0; i < c->n_in; i++) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        if (!comma != (i == c->n_in - 1))
            return onnx_bad(c, KILN_E_FORMAT, "its equation is not of %d factors", c->n_in);
        TRY(read_factor(c, i, at, (size_t)((comma ? comma : end) - at), &f[i], &dots));
        at = comma ? comma + 1 : end;
    }
    TRY(read_result(c, equation, arrow, dots, out));
    for (int i = 1; i < c->n_in; i++) {
        strcpy(wanted, out);
        for (int k = i + 1; k < c->n_in; k++) strcat(wanted, f[k].labels);
        TRY(multiply(c, &f[0], &f[i], wanted));
    }
    TRY(sum_away(&f[0], out, ""));
    for (const char *l = out; *l; l++)
        if (!has(f[0].labels, *l) || strchr(l + 1, *l))
            return onnx_bad(c, KILN_E_FORMAT, "%c of its result is in no factor, or there twice", *l);
    return onnx_give(c, 0, in_order(&f[0], out));
}
