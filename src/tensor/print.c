// Text of tensors.
//
// Input: a type, row-major data and options. Output: what NumPy 2.2 prints for the same array with the same options.
// Two passes over the elements that are shown: the first finds the notation and the widths, the second writes. Shown
// are all elements up to a threshold; above that the first and last ones, the edge, along every axis longer than two
// edges, with
// "..." between.
//
// Floats: exponent notation when the largest magnitude is 1e8 or more, the smallest (zero apart) below 1e-4, or their
// ratio over 1,000, all judged in the dtype, unless the options say otherwise. Each value has the fewest digits that
// give it back, at most as many after the point as the precision; in exponent notation all values then get the digits
// of the longest. Points stand in one column. Integers are right-aligned. A line breaks before an element that would
// pass its width less the closing brackets.
//
// A rank-0 tensor prints as NumPy's scalars do: all digits, at least one after the point, exponent notation from 1e16
// and below 1e-4.
#include "tensor/print.h"
#include "scalar/number.h"

#include "tensor/decimal.h"
#include "tensor/decode.h"
#include "tensor/tensor.h"

#include <kiln/tensor.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 96 };

// How elements are written, found by the first pass.
struct style {
    bool exponential;
    int left, right; // characters before and after the point
    int precision;   // digits after the point in exponent notation
    int exponent_digits;
    int width;  // of integers and bools
    bool plus;  // positive numbers have a sign
    bool space; // or its place
};

struct printer {
    struct str *out;
    const struct type *type;
    const void *data;
    int64_t strides[MAX_RANK]; // in elements
    bool summarize;
    int precision;
    const kiln_print_opts *options;
    int part, parts; // of complex numbers, each of which has a style
    struct style styles[2], style;
    // First pass.
    double largest, smallest; // magnitudes, zero apart
    bool any_finite, any_nan, any_inf, any_negative_inf, any_negative;
    // Second pass.
    size_t line_start; // where the current line begins in out
};

typedef void (*element_fn)(struct printer *p, int64_t index);

static bool is_float(const struct printer *p)
{
    return dtype_kind_of[p->type->dtype] == KIND_FLOAT;
}

static union scalar_value element_at(const struct printer *p, int64_t index)
{
    return number_read(p->type->dtype,
                       (const char *)p->data + (index * p->parts + p->part) * dtype_size_B[p->type->dtype]);
}

static double float_at(const struct printer *p, int64_t index)
{
    return number_of_dtype(p->type->dtype, element_at(p, index));
}

static int64_t int_at(const struct printer *p, int64_t index)
{
    union scalar_value v = element_at(p, index);
    enum scalar_class cls = dtype_class(p->type->dtype);
    return cls == CLASS_I64 ? v.i64 : cls == CLASS_I32 ? v.i32 : v.b;
}

static bool is_cut(const struct printer *p, int axis)
{
    return p->summarize && p->type->dims[axis] > 2 * p->options->edge;
}

// Calls `fn` on the index of each element that is shown.
static void each_shown(struct printer *p, int axis, int64_t index, element_fn fn)
{
    if (axis == p->type->rank) {
        fn(p, index);
        return;
    }
    int64_t n = p->type->dims[axis];
    for (int64_t i = 0; i < n; i++) {
        if (is_cut(p, axis) && i == p->options->edge) i = n - p->options->edge;
        each_shown(p, axis + 1, index + i * p->strides[axis], fn);
    }
}

// --- floats

static int significant(const struct decimal *d)
{
    int n = d->count;
    while (n > 1 && d->text[n - 1] == '0') n--;
    return n;
}

// Of a value below one unit of the last place: that, or 0.
static void round_to_place(double magnitude, int fraction, struct decimal *d)
{
    char text[WORD_MAX];
    int n = snprintf(text, sizeof text, "%.*f", fraction, magnitude);
    bool up = n > 0 && text[n - 1] == '1';
    *d = (struct decimal){.count = 1, .exponent = up ? -fraction : 0, .text = {up ? '1' : '0'}};
}

// The digits of one value in positional notation: never more than `max_fraction` after the point, and all of the
// integer part, which may be more than the shortest digits hold.
static void positional_digits(double magnitude, kiln_dtype dtype, int max_fraction, struct decimal *d)
{
    decimal_shortest(magnitude, dtype, d);
    int whole = d->exponent + 1, most = whole + max_fraction;
    if (d->count > most && most > 0)
        decimal_fixed(magnitude, dtype, most, d);
    else if (most <= 0 && magnitude != 0)
        round_to_place(magnitude, max_fraction, d);
    else if (d->count < whole)
        decimal_fixed(magnitude, dtype, whole, d);
}

static int fraction_count(const struct decimal *d)
{
    int n = significant(d) - 1 - d->exponent;
    return n > 0 ? n : 0;
}

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

static void note_range(struct printer *p, int64_t index)
{
    double x = float_at(p, index), magnitude = fabs(x);
    if (isnan(x)) {
        p->any_nan = true;
    } else if (isinf(x)) {
        p->any_inf = true;
        p->any_negative_inf |= x < 0;
    } else {
        p->any_finite = true;
        p->any_negative |= signbit(x) != 0;
        if (magnitude == 0) return;
        if (p->largest == 0 || magnitude > p->largest) p->largest = magnitude;
        if (p->smallest == 0 || magnitude < p->smallest) p->smallest = magnitude;
    }
}

static char sign_of(const struct style *s, double x)
{
    return signbit(x) ? '-' : s->plus ? '+' : 0;
}

static void note_width(struct printer *p, int64_t index)
{
    double x = float_at(p, index);
    if (!isfinite(x)) return;
    struct decimal d;
    struct style *s = &p->style;
    kiln_dtype dtype = (kiln_dtype)p->type->dtype;
    if (s->exponential) {
        decimal_shortest(fabs(x), dtype, &d);
        if (d.count > p->precision + 1) decimal_fixed(fabs(x), dtype, p->precision + 1, &d);
        s->precision = max_int(s->precision, significant(&d) - 1);
        s->left = max_int(s->left, 1 + (sign_of(s, x) != 0));
        s->exponent_digits = max_int(s->exponent_digits, abs(d.exponent) >= 100 ? 3 : 2);
    } else {
        positional_digits(fabs(x), dtype, p->precision, &d);
        s->left = max_int(s->left, max_int(d.exponent, 0) + 1 + (sign_of(s, x) != 0));
        s->right = max_int(s->right, fraction_count(&d));
    }
}

static bool needs_exponents(const struct printer *p)
{
    kiln_dtype dtype = (kiln_dtype)p->type->dtype;
    if (p->options->notation == KILN_PRINT_SCIENTIFIC) return p->any_finite;
    if (p->largest == 0 || p->largest >= 1e8) return p->largest > 0;
    return p->options->notation == KILN_PRINT_AUTO &&
           (p->smallest < decimal_round_to(1e-4, dtype) || decimal_round_to(p->largest / p->smallest, dtype) > 1000);
}

static void choose_float_style(struct printer *p)
{
    struct style *s = &p->style;
    each_shown(p, 0, 0, note_range);
    s->exponential = needs_exponents(p);
    each_shown(p, 0, 0, note_width);
    // The exponent counts with its letter and sign.
    if (s->exponential) s->right = s->exponent_digits + 2 + s->precision;
    if (s->space && !p->any_negative) s->left++;
    bool sign = p->any_negative_inf || s->plus || s->space;
    if (p->any_nan) s->left = max_int(s->left, 3 - s->right - 1);
    if (p->any_nan || p->any_inf) s->left = max_int(s->left, 3 + sign - s->right - 1);
}

// Writes the text with spaces before and after it.
static void place(char *word, int before, const char *text, int after)
{
    int len = (int)strlen(text), n = before > 0 && before + len < WORD_MAX ? before : 0;
    memset(word, ' ', (size_t)n);
    memcpy(word + n, text, (size_t)len);
    for (n += len; after > 0 && n < WORD_MAX - 1; after--) word[n++] = ' ';
    word[n] = '\0';
}

// "12.5", with zeros up to the point where the digits end before it, and without zeros at the end of the fraction.
static int write_positional(char *word, char sign, const struct decimal *d)
{
    int n = 0, end = significant(d);
    if (sign) word[n++] = sign;
    if (d->exponent < 0) word[n++] = '0';
    for (int i = 0; i <= d->exponent; i++) word[n++] = i < d->count ? d->text[i] : '0';
    word[n++] = '.';
    for (int i = -1; i > d->exponent; i--) word[n++] = '0';
    for (int i = max_int(d->exponent + 1, 0); i < end; i++) word[n++] = d->text[i];
    word[n] = '\0';
    return n;
}

static int write_exponential(char *word, char sign, const struct decimal *d, bool point, int exponent_digits)
{
    int n = 0;
    if (sign) word[n++] = sign;
    word[n++] = d->text[0];
    if (point || d->count > 1) word[n++] = '.';
    for (int i = 1; i < d->count; i++) word[n++] = d->text[i];
    return n + snprintf(word + n, (size_t)(WORD_MAX - n), "e%c%0*d", d->exponent < 0 ? '-' : '+', exponent_digits,
                        abs(d->exponent));
}

static const char *special_text(double x)
{
    return isnan(x) ? "nan" : x < 0 ? "-inf" : "inf";
}

static void float_word(const struct printer *p, int64_t index, char *word)
{
    double x = float_at(p, index);
    const struct style *s = &p->style;
    kiln_dtype dtype = (kiln_dtype)p->type->dtype;
    if (!isfinite(x)) {
        char special[8];
        snprintf(special, sizeof special, "%s%s", s->plus && !(x < 0) ? "+" : "", special_text(x));
        place(word, s->left + s->right + 1 - (int)strlen(special), special, 0);
        return;
    }
    struct decimal d;
    char text[WORD_MAX];
    if (s->exponential) {
        decimal_fixed(fabs(x), dtype, s->precision + 1, &d);
        write_exponential(text, sign_of(s, x), &d, true, s->exponent_digits);
        place(word, s->left - 1 - (sign_of(s, x) != 0), text, 0);
        return;
    }
    positional_digits(fabs(x), dtype, p->precision, &d);
    int n = write_positional(text, sign_of(s, x), &d);
    int point = (int)(strchr(text, '.') - text);
    place(word, s->left - point, text, s->right - (n - point - 1));
}

// A rank-0 value.
static void scalar_word(const struct printer *p, char *word)
{
    double x = float_at(p, 0), magnitude = fabs(x);
    kiln_dtype dtype = (kiln_dtype)p->type->dtype;
    if (!isfinite(x)) {
        snprintf(word, WORD_MAX, "%s", special_text(x));
        return;
    }
    struct decimal d;
    decimal_shortest(magnitude, dtype, &d);
    if (magnitude != 0 && (magnitude >= 1e16 || magnitude < 1e-4)) {
        write_exponential(word, sign_of(&p->style, x), &d, false, 2);
        return;
    }
    int n = write_positional(word, sign_of(&p->style, x), &d);
    if (word[n - 1] != '.') return;
    if (p->parts == 2)
        word[n - 1] = 0;
    else
        memcpy(word + n, "0", 2);
}

// --- complex numbers: a real part and, with its sign, an imaginary part

static void choose_complex_style(struct printer *p)
{
    for (p->part = 0; p->part < 2; p->part++) {
        p->largest = p->smallest = 0;
        p->any_finite = p->any_nan = p->any_inf = p->any_negative_inf = p->any_negative = false;
        bool alone = p->type->rank == 0; // as Python writes it, whatever the options say
        p->style = (struct style){.plus = p->part == 1 || (!alone && p->options->sign == KILN_PRINT_SIGN_PLUS),
                                  .space = p->part == 0 && !alone && p->options->sign == KILN_PRINT_SIGN_SPACE};
        if (p->type->rank) choose_float_style(p);
        p->styles[p->part] = p->style;
    }
}

// The letter stands behind the digits, before what fills the column.
static void add_letter(char *word)
{
    size_t end = strlen(word), n = end;
    while (n > 0 && word[n - 1] == ' ') n--;
    memmove(word + n + 1, word + n, end - n + 1);
    word[n] = 'j';
}

// As Python writes a number alone: "(1+2j)", and "2j" without a real part.
static void complex_scalar_word(struct printer *p, char *word)
{
    char re[WORD_MAX], im[WORD_MAX];
    p->part = 0, p->style = p->styles[0];
    double x = float_at(p, 0);
    bool alone = x == 0 && !signbit(x);
    scalar_word(p, re);
    p->part = 1, p->style = p->styles[1];
    if (alone) p->style.plus = false;
    scalar_word(p, im);
    const char *plus = !alone && !isfinite(float_at(p, 0)) && im[0] != '-' ? "+" : "";
    snprintf(word, 2 * WORD_MAX, alone ? "%s%s%sj" : "(%s%s%sj)", alone ? "" : re, plus, im);
}

static void complex_word(struct printer *p, int64_t index, char *word)
{
    if (p->type->rank == 0) {
        complex_scalar_word(p, word);
        return;
    }
    for (p->part = 0; p->part < 2; p->part++) {
        p->style = p->styles[p->part];
        float_word(p, index, word);
        if (p->part) add_letter(word);
        word += strlen(word);
    }
}

// --- integers and bools

static int int_word(const struct printer *p, int64_t index, int width, char *word)
{
    int64_t v = int_at(p, index);
    bool is_u64 = p->type->dtype == KILN_U64;
    const char *sign = !is_u64 && v < 0 ? "" : p->style.plus ? "+" : p->style.space ? " " : "";
    char text[32];
    if (is_u64)
        snprintf(text, sizeof text, "%s%" PRIu64, sign, (uint64_t)v);
    else
        snprintf(text, sizeof text, "%s%" PRId64, sign, v);
    return snprintf(word, WORD_MAX, "%*s", width, text);
}

static void note_int_sign(struct printer *p, int64_t index)
{
    p->any_negative |= p->type->dtype != KILN_U64 && int_at(p, index) < 0;
}

static void note_int_width(struct printer *p, int64_t index)
{
    char word[WORD_MAX];
    p->style.width = max_int(p->style.width, int_word(p, index, 0, word));
}

static void element_word(struct printer *p, int64_t index, char *word)
{
    if (p->parts == 2)
        complex_word(p, index, word);
    else if (is_float(p)) {
        if (p->type->rank)
            float_word(p, index, word);
        else
            scalar_word(p, word);
    } else if (p->type->dtype == KILN_BOOL) {
        const char *text = int_at(p, index) ? "True" : "False";
        snprintf(word, WORD_MAX, "%*s", p->type->rank ? 5 : 0, text);
    } else {
        int_word(p, index, p->style.width, word);
    }
}

// --- lines

static void add_indent(struct printer *p, int n)
{
    p->line_start = p->out->len;
    str_addf(p->out, "%*s", n, "");
}

// Adds a word to the line, on a new one where it would pass `width`, unless that would not help.
static void add_word(struct printer *p, const char *word, int indent, int width)
{
    size_t length = p->out->len - p->line_start, word_len = strlen(word);
    if (length + word_len > (size_t)width && length > (size_t)indent) {
        while (p->out->len > p->line_start && p->out->text[p->out->len - 1] == ' ') p->out->text[--p->out->len] = '\0';
        str_add(p->out, "\n");
        add_indent(p, indent);
    }
    str_addn(p->out, word, word_len);
}

// One row: elements with a space between. The bracket stands where the last column of the indent would.
static void add_row(struct printer *p, int axis, int64_t index)
{
    int64_t n = p->type->dims[axis];
    int indent = axis + 1, width = max_int((int)p->options->width - axis - 1, 0);
    char word[2 * WORD_MAX];
    str_add(p->out, "[");
    for (int64_t i = 0; i < n; i++) {
        if (is_cut(p, axis) && i == p->options->edge) {
            add_word(p, "...", indent, width);
            str_add(p->out, " ");
            i = n - p->options->edge;
        }
        element_word(p, index + i * p->strides[axis], word);
        add_word(p, word, indent, width);
        if (i + 1 < n) str_add(p->out, " ");
    }
    str_add(p->out, "]");
}

static void add_axis(struct printer *p, int axis, int64_t index)
{
    if (axis + 1 == p->type->rank) {
        add_row(p, axis, index);
        return;
    }
    int64_t n = p->type->dims[axis];
    str_add(p->out, "[");
    for (int64_t i = 0; i < n && !p->out->failed; i++) {
        if (i > 0) {
            for (int d = axis + 1; d < p->type->rank; d++) str_add(p->out, "\n");
            add_indent(p, axis + 1);
        }
        if (is_cut(p, axis) && i == p->options->edge) {
            str_add(p->out, "...");
            i = n - p->options->edge - 1;
            continue;
        }
        add_axis(p, axis + 1, index + i * p->strides[axis]);
    }
    str_add(p->out, "]");
}

static void choose_style(struct printer *p)
{
    const struct type *t = p->type;
    if (p->parts == 2) {
        choose_complex_style(p);
        return;
    }
    if (t->rank == 0) return;
    p->style.plus = p->options->sign == KILN_PRINT_SIGN_PLUS;
    p->style.space = p->options->sign == KILN_PRINT_SIGN_SPACE;
    if (is_float(p)) choose_float_style(p);
    if (is_float(p) || t->dtype == KILN_BOOL) return;
    each_shown(p, 0, 0, note_int_sign);
    p->style.space &= !p->any_negative; // else the signs are in the place
    each_shown(p, 0, 0, note_int_width);
}

kiln_status tensor_format(struct str *out, const struct type *of, bool complex, const void *data,
                          const kiln_print_opts *o)
{
    struct type shown = *of, *t = &shown;
    shown.rank -= complex;
    int64_t n = type_numel(t);
    if (n == 0) {
        str_add(out, "[]");
        return str_check(out);
    }
    struct layout layout;
    layout_contiguous(t, &layout);
    struct printer p = {.out = out,
                        .type = t,
                        .data = data,
                        .summarize = n > (o->threshold < 0 ? 0 : o->threshold),
                        .precision = o->precision < 0 ? 0 : (int)o->precision,
                        .options = o,
                        .parts = 1 + complex,
                        .line_start = out->len};
    memcpy(p.strides, layout.strides, sizeof p.strides);
    choose_style(&p);
    if (t->rank == 0) {
        char word[2 * WORD_MAX];
        element_word(&p, 0, word);
        str_add(out, word);
        return str_check(out);
    }
    add_axis(&p, 0, 0);
    return str_check(out);
}
