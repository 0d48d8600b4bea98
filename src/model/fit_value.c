// Numbers of a text as expressions of sizes.
//
// The forms, simplest first: a * s + c of one size; a polynomial of degree two in one size; a quotient rounded down,
// (p * s + r) / q, as strides make; a sum of products of different sizes, with integers for factors. Floats: c / e for
// a few c, where e is any of these; c * e and c / e for any c, where e is a product of sizes. A form is taken where it
// gives every number that was seen to the bit.
#include "model/fit_value.h"
#include "ir/graph_text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUOTIENT_MAX = 64, TERMS_MAX = 1 << 4, TERM_SIZES_MAX = 4 };

static int64_t size_at(const struct fit_seen *s, size_t row, size_t of)
{
    return s->sizes[row * s->n_sizes + of];
}

// Rows that differ from row 0 in size `of` alone.
static bool is_alone(const struct fit_seen *s, size_t row, size_t of)
{
    for (size_t i = 0; i < s->n_sizes; i++)
        if (i != of && size_at(s, row, i) != size_at(s, 0, i)) return false;
    return true;
}

static bool depends(const struct fit_seen *s, const int64_t *v, size_t of)
{
    for (size_t i = 1; i < s->n; i++)
        if (v[i] != v[0] && is_alone(s, i, of)) return true;
    return false;
}

// The only size that it depends on; n_sizes: none, or several.
static size_t only_size(const struct fit_seen *s, const int64_t *v)
{
    size_t found = s->n_sizes;
    for (size_t of = 0; of < s->n_sizes; of++) {
        if (!depends(s, v, of)) continue;
        if (found < s->n_sizes) return s->n_sizes;
        found = of;
    }
    return found;
}

// --- one size

static bool fits_affine(const struct fit_seen *s, const int64_t *v, size_t of, int64_t *a, int64_t *c)
{
    __extension__ typedef __int128 wide;
    for (size_t i = 1; i < s->n; i++) {
        int64_t ds = size_at(s, i, of) - size_at(s, 0, of);
        if (!ds) continue;
        if ((v[i] - v[0]) % ds) return false;
        *a = (v[i] - v[0]) / ds;
        break;
    }
    wide rest = v[0] - (wide)*a * size_at(s, 0, of);
    if (rest > INT64_MAX || rest < INT64_MIN) return false;
    *c = (int64_t)rest;
    for (size_t i = 0; i < s->n; i++)
        if ((wide)*a * size_at(s, i, of) + *c != v[i]) return false;
    return true;
}

static bool write_affine(const char *name, int64_t a, int64_t c, char *out, size_t size_B)
{
    char term[96];
    if (a == 1)
        snprintf(term, sizeof term, "%s", name);
    else
        snprintf(term, sizeof term, "%lld * %s", (long long)a, name);
    if (c)
        snprintf(out, size_B, "(%s + %lld)", term, (long long)c);
    else
        snprintf(out, size_B, "(%s)", term);
    return true;
}

// a s^2 + b s + c through three rows.
static bool fits_square(const struct fit_seen *s, const int64_t *v, size_t of, double *a, double *b, double *c)
{
    size_t rows[3] = {0}, n = 1;
    for (size_t i = 1; i < s->n && n < 3; i++) {
        bool other = true;
        for (size_t k = 0; k < n; k++) other &= size_at(s, i, of) != size_at(s, rows[k], of);
        if (other) rows[n++] = i;
    }
    if (n < 3) return false;
    double x[3], y[3];
    for (size_t i = 0; i < 3; i++) x[i] = (double)size_at(s, rows[i], of), y[i] = (double)v[rows[i]];
    double d1 = (y[1] - y[0]) / (x[1] - x[0]), d2 = (y[2] - y[0]) / (x[2] - x[0]);
    *a = (d2 - d1) / (x[2] - x[1]);
    *b = d1 - *a * (x[0] + x[1]);
    *c = y[0] - *a * x[0] * x[0] - *b * x[0];
    if (*a != rint(*a) || *b != rint(*b) || *c != rint(*c) || fabs(*a) > 1e9 || fabs(*b) > 1e12 || fabs(*c) > 1e15)
        return false;
    for (size_t i = 0; i < s->n; i++) {
        double t = (double)size_at(s, i, of);
        if (*a * t * t + *b * t + *c != (double)v[i]) return false;
    }
    return *a != 0;
}

// The offsets r for which (p * s + r) / q gives all that was seen.
static bool offsets(const struct fit_seen *s, const int64_t *v, struct fit_quotient *f)
{
    f->low = INT64_MIN / 4;
    f->high = INT64_MAX / 4;
    for (size_t i = 0; i < s->n; i++) {
        int64_t at = size_at(s, i, f->of), from;
        if (llabs(at) > INT32_MAX || llabs(v[i]) > INT32_MAX) return false;
        from = f->q * v[i] - f->p * at;
        if (from > f->low) f->low = from;
        if (from + f->q - 1 < f->high) f->high = from + f->q - 1;
    }
    return f->low <= f->high;
}

static bool fits_quotient(const struct fit_seen *s, const int64_t *v, size_t of, struct fit_quotient *f)
{
    size_t far = 0;
    for (size_t i = 1; i < s->n; i++)
        if (llabs(size_at(s, i, of) - size_at(s, 0, of)) > llabs(size_at(s, far, of) - size_at(s, 0, of))) far = i;
    if (!far) return false;
    double slope = (double)(v[far] - v[0]) / (double)(size_at(s, far, of) - size_at(s, 0, of));
    for (int64_t q = 2; q <= QUOTIENT_MAX; q++) {
        *f = (struct fit_quotient){.of = of, .q = q, .p = (int64_t)rint(slope * (double)q)};
        if (f->p && offsets(s, v, f)) return true;
    }
    return false;
}

bool fit_is_quotient(const struct fit_seen *s, const int64_t *v, struct fit_quotient *out)
{
    int64_t a = 0, c;
    double d, e, g;
    size_t of = only_size(s, v);
    if (of == s->n_sizes || fits_affine(s, v, of, &a, &c) || fits_square(s, v, of, &d, &e, &g)) return false;
    return fits_quotient(s, v, of, out);
}

static bool write_quotient(const char *name, const struct fit_quotient *f, char *out, size_t size_B)
{
    char inner[128];
    write_affine(name, f->p, f->low, inner, sizeof inner);
    snprintf(out, size_B, "(%s / %lld)", inner, (long long)f->q);
    return true;
}

static bool fit_one(const struct fit_seen *s, const int64_t *v, size_t of, char *out, size_t size_B)
{
    int64_t a = 0, c = 0;
    double x, y, z;
    struct fit_quotient f;
    const char *name = s->names[of];
    if (fits_affine(s, v, of, &a, &c)) return write_affine(name, a, c, out, size_B);
    if (fits_square(s, v, of, &x, &y, &z)) {
        snprintf(out, size_B, "(%lld * %s * %s + %lld * %s + %lld)", (long long)x, name, name, (long long)y, name,
                 (long long)z);
        return true;
    }
    return fits_quotient(s, v, of, &f) && write_quotient(name, &f, out, size_B);
}

// --- several sizes: a sum over subsets of them

struct terms {
    size_t sizes[TERM_SIZES_MAX], n_sizes, n; // n: 2 ^ n_sizes, subset i by its bits
};

static double term_at(const struct fit_seen *s, const struct terms *t, size_t subset, size_t row)
{
    double v = 1;
    for (size_t i = 0; i < t->n_sizes; i++)
        if (subset >> i & 1) v *= (double)size_at(s, row, t->sizes[i]);
    return v;
}

// Least squares by normal equations would round: rows are added until the subsets are told apart, exactly in f64 as
// long as numbers stay below 2^53. Elimination with row exchange; *rank: how far it came.
static bool solve(const struct fit_seen *s, const struct terms *t, const int64_t *v, double *x)
{
    double m[TERMS_MAX][TERMS_MAX + 1];
    size_t rank = 0;
    size_t pivots[TERMS_MAX];
    for (size_t row = 0; row < s->n && rank < t->n; row++) {
        double r[TERMS_MAX + 1];
        for (size_t k = 0; k < t->n; k++) r[k] = term_at(s, t, k, row);
        r[t->n] = (double)v[row];
        for (size_t k = 0; k < rank; k++) {
            double by = r[pivots[k]] / m[k][pivots[k]];
            for (size_t j = 0; j <= t->n; j++) r[j] -= by * m[k][j];
            r[pivots[k]] = 0;
        }
        size_t best = 0;
        for (size_t k = 1; k < t->n; k++)
            if (fabs(r[k]) > fabs(r[best])) best = k;
        if (fabs(r[best]) < 1e-6) continue;
        memcpy(m[rank], r, sizeof r);
        pivots[rank++] = best;
    }
    if (rank < t->n) return false;
    for (size_t k = rank; k-- > 0;) {
        double sum = m[k][t->n];
        for (size_t j = k + 1; j < rank; j++) sum -= m[k][pivots[j]] * x[pivots[j]];
        x[pivots[k]] = sum / m[k][pivots[k]];
    }
    return true;
}

static bool gives_all(const struct fit_seen *s, const struct terms *t, const int64_t *v, const double *x)
{
    for (size_t row = 0; row < s->n; row++) {
        double sum = 0;
        for (size_t k = 0; k < t->n; k++) sum += x[k] * term_at(s, t, k, row);
        if (sum != (double)v[row] || fabs(sum) >= 0x1p53) return false;
    }
    return true;
}

static void write_terms(const struct fit_seen *s, const struct terms *t, const double *x, char *out, size_t size_B)
{
    size_t n = (size_t)snprintf(out, size_B, "(");
    bool any = false;
    for (size_t k = t->n; k-- > 0 && n < size_B;) {
        if (x[k] == 0) continue;
        bool first = k && x[k] == 1; // a factor of 1 is left out
        n += (size_t)snprintf(out + n, size_B - n, "%s", any ? " + " : "");
        if (!first) n += (size_t)snprintf(out + n, size_B - n, "%lld", (long long)x[k]);
        for (size_t i = 0; i < t->n_sizes && n < size_B; i++) {
            if (!(k >> i & 1)) continue;
            n += (size_t)snprintf(out + n, size_B - n, "%s%s", first ? "" : " * ", s->names[t->sizes[i]]);
            first = false;
        }
        any = true;
    }
    if (n < size_B) snprintf(out + n, size_B - n, ")");
}

static bool fit_several(const struct fit_seen *s, const int64_t *v, char *out, size_t size_B)
{
    struct terms t = {.n = 1};
    double x[TERMS_MAX];
    for (size_t of = 0; of < s->n_sizes; of++) {
        if (!depends(s, v, of)) continue;
        if (t.n_sizes == TERM_SIZES_MAX) return false;
        t.sizes[t.n_sizes++] = of;
        t.n *= 2;
    }
    if (!t.n_sizes || !solve(s, &t, v, x)) return false;
    for (size_t k = 0; k < t.n; k++) x[k] = rint(x[k]);
    if (!gives_all(s, &t, v, x)) return false;
    write_terms(s, &t, x, out, size_B);
    return true;
}

bool fit_int(const struct fit_seen *s, const int64_t *v, char *out, size_t size_B)
{
    size_t of = only_size(s, v);
    return of < s->n_sizes ? fit_one(s, v, of, out, size_B) : fit_several(s, v, out, size_B);
}

// --- floats

static double product_of(const struct fit_seen *s, size_t row, uint32_t sizes)
{
    int64_t v = 1;
    for (size_t i = 0; i < s->n_sizes; i++)
        if (sizes >> i & 1) v *= size_at(s, row, i);
    return (double)v;
}

static bool scales(const struct fit_seen *s, const double *v, uint32_t sizes, bool divides, double c)
{
    for (size_t i = 0; i < s->n; i++) {
        double e = product_of(s, i, sizes), is = divides ? c / e : c * e;
        if (memcmp(&is, &v[i], sizeof is)) return false;
    }
    return true;
}

static bool write_scaled(double c, bool divides, const char *sizes, char *out, size_t size_B)
{
    const struct ir_value v = {.kind = IR_NUMBER, .type = {.dtype = KILN_F64, .weak = true}, .number = c};
    struct str s;
    str_init(&s);
    ir_number_text(&v, &s);
    snprintf(out, size_B, "(%s %c (%s))", str_text(&s), divides ? '/' : '*', sizes);
    bool ok = !s.failed;
    str_free(&s);
    return ok;
}

static bool try_float(const struct fit_seen *s, const double *v, uint32_t sizes, bool divides, char *out, size_t size_B)
{
    char names[512] = "";
    double e = product_of(s, 0, sizes), c = divides ? v[0] * e : v[0] / e;
    const double tries[] = {c, rint(c), nextafter(c, INFINITY), nextafter(c, -INFINITY)};
    for (size_t k = 0; k < COUNT_OF(tries); k++) {
        if (!scales(s, v, sizes, divides, tries[k])) continue;
        size_t n = 0;
        for (size_t i = 0; i < s->n_sizes && n < sizeof names; i++)
            if (sizes >> i & 1) n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? " * " : "", s->names[i]);
        return write_scaled(tries[k], divides, names, out, size_B);
    }
    return false;
}

// c / e, where e is any integer that fit_int finds.
static bool fit_reciprocal(const struct fit_seen *s, const double *v, double c, char *out, size_t size_B)
{
    int64_t e[FIT_ROWS_MAX];
    char expression[512];
    for (size_t i = 0; i < s->n; i++) {
        double x = rint(c / v[i]), is = c / x;
        if (!(fabs(x) < 0x1p53) || memcmp(&is, &v[i], sizeof is)) return false;
        e[i] = (int64_t)x;
    }
    return fit_int(s, e, expression, sizeof expression) && write_scaled(c, true, expression, out, size_B);
}

bool fit_float(const struct fit_seen *s, const double *v, char *out, size_t size_B)
{
    static const double factors[] = {1, -1, 2, -2, 0.5, -0.5};
    if (s->n_sizes > FIT_SIZES_MAX || s->n > FIT_ROWS_MAX) return false;
    for (size_t k = 0; k < COUNT_OF(factors); k++)
        if (fit_reciprocal(s, v, factors[k], out, size_B)) return true;
    for (uint32_t sizes = 1; sizes < 1u << s->n_sizes; sizes++)
        for (int divides = 1; divides >= 0; divides--)
            if (try_float(s, v, sizes, divides, out, size_B)) return true;
    return false;
}
