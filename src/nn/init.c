// Initialisers by name.
#include "nn/cell.h"
#include "base/dtype.h"

#include <kiln/ops.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum distribution { UNIFORM, NORMAL, TRUNCATED_NORMAL };

// A row: the name, what is drawn, and its spread: a number, or a gain^2 over a fan.
static const struct initialiser {
    const char *name;
    enum distribution draws;
    double spread;        // half-width or standard deviation, where no fan is used
    double variance;      // times 1 / fan
    bool fan_in, fan_out; // which are added up
} initialisers[] = {
    {"normal", NORMAL, .spread = 0.01},
    {"truncated_normal", TRUNCATED_NORMAL, .spread = 0.01},
    {"uniform", UNIFORM, .spread = 0.07},
    {"xavier_uniform", UNIFORM, .variance = 2, .fan_in = true, .fan_out = true},
    {"xavier_normal", NORMAL, .variance = 2, .fan_in = true, .fan_out = true},
    {"he_uniform", UNIFORM, .variance = 2, .fan_in = true},
    {"he_normal", NORMAL, .variance = 2, .fan_in = true},
};

static const char known[] =
    "\"zeros\", \"ones\", a number, \"normal\", \"truncated_normal\", \"uniform\" (these three also as "
    "\"normal(0.02)\"), \"xavier_uniform\", \"xavier_normal\", \"he_uniform\", \"he_normal\"";

static double fan(const struct initialiser *row, size_t rank, const int64_t *dims)
{
    double field = 1;
    for (size_t i = 2; i < rank; i++) field *= (double)dims[i];
    double out = rank > 0 ? (double)dims[0] : 1, in = rank > 1 ? (double)dims[1] : out;
    return field * ((row->fan_in ? in : 0) + (row->fan_out ? out : 0));
}

static kiln_tensor *draw(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, enum distribution draws,
                         double spread)
{
    if (draws == UNIFORM) return kiln_uniform(dev, dtype, rank, dims, -spread, spread);
    if (draws == NORMAL) return kiln_normal(dev, dtype, rank, dims, 0, spread);
    // The inverse of the distribution function at uniform places between its values at -2 and 2. In f32 at least: the
    // ends of a narrower uniform could round to a place beyond.
    kiln_dtype wide = dtype == KILN_F64 ? KILN_F64 : KILN_F32;
    const double end = erf(2 / sqrt(2));
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *u = kiln_uniform(dev, wide, rank, dims, -end, end);
    kiln_tensor *t = kiln_mul(kiln_erfinv(u), kiln_scalar(spread * sqrt(2)));
    return scope_return(&scope, kiln_cast(t, dtype));
}

// "name" or "name(number)". False when it is neither.
static bool parse(const char *text, size_t *name_len, bool *given, double *number)
{
    *name_len = strcspn(text, "(");
    *given = text[*name_len] != '\0';
    if (!*given) return true;
    char *end;
    *number = strtod(text + *name_len + 1, &end);
    return end != text + *name_len + 1 && !strcmp(end, ")") && *number > 0 && isfinite(*number);
}

static kiln_tensor *by_name(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, const char *init)
{
    size_t len;
    bool given;
    double number = 0;
    bool sound = parse(init, &len, &given, &number);
    for (size_t i = 0; sound && i < COUNT_OF(initialisers); i++) {
        const struct initialiser *row = &initialisers[i];
        if (strlen(row->name) != len || memcmp(row->name, init, len) || (given && row->variance > 0)) continue;
        double spread = given ? number : row->spread;
        if (row->variance > 0) {
            // Half-width and standard deviation of a uniform distribution differ by the square root of 3.
            spread = sqrt(row->variance / fmax(fan(row, rank, dims), 1)) * (row->draws == UNIFORM ? sqrt(3) : 1);
        }
        return draw(dev, dtype, rank, dims, row->draws, spread);
    }
    error_set(KILN_E_ARGUMENT, "initializer: unknown \"%s\"; there are %s", init, known);
    return NULL;
}

kiln_tensor *kiln_initializer(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, const char *init)
{
    if (kiln_error()) return NULL;
    if (!init || (rank && !dims)) {
        error_set(KILN_E_ARGUMENT, "initializer: %s is NULL", init ? "dims" : "init");
        return NULL;
    }
    if (!dtype_is_float(dtype)) {
        error_set(KILN_E_DTYPE, "initializer: the dtype must be a float, got %s", kiln_dtype_name(dtype));
        return NULL;
    }
    if (!strcmp(init, "zeros")) return kiln_zeros(dev, dtype, rank, dims);
    if (!strcmp(init, "ones")) return kiln_ones(dev, dtype, rank, dims);
    char *end;
    double number = strtod(init, &end);
    if (end != init && !*end) return kiln_full(dev, dtype, rank, dims, number);
    return by_name(dev, dtype, rank, dims, init);
}
