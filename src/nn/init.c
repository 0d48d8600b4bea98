// Initialisers by name: a row each, what is drawn, how wide, and what may stand in parentheses.
#include "nn/init.h"
#include "nn/cell.h"
#include "base/c_locale.h"
#include "base/dtype.h"

#include <kiln/ops.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum distribution { UNIFORM, NORMAL, TRUNCATED_NORMAL, BY_HOST };

enum argument { ARG_NONE, ARG_SPREAD, ARG_GAIN, ARG_GROUPS };

static const struct initialiser {
    const char *name;
    enum distribution draws;
    enum argument takes;
    double spread;         // half-width or standard deviation, where no fan is used
    double variance, gain; // gain^2 variance / fan
    bool fan_in, fan_out;  // which are added up
    init_fill_fn fill;     // BY_HOST
} initialisers[] = {
    {"normal", NORMAL, ARG_SPREAD, .spread = 0.01},
    {"truncated_normal", TRUNCATED_NORMAL, ARG_SPREAD, .spread = 0.01},
    {"uniform", UNIFORM, ARG_SPREAD, .spread = 0.07},
    {"xavier_uniform", UNIFORM, ARG_GAIN, .variance = 2, .gain = 1, .fan_in = true, .fan_out = true},
    {"xavier_normal", NORMAL, ARG_GAIN, .variance = 2, .gain = 1, .fan_in = true, .fan_out = true},
    {"he_uniform", UNIFORM, ARG_GAIN, .variance = 1, .gain = M_SQRT2, .fan_in = true},
    {"he_normal", NORMAL, ARG_GAIN, .variance = 1, .gain = M_SQRT2, .fan_in = true},
    {"kaiming_uniform", UNIFORM, ARG_GAIN, .variance = 1, .gain = M_SQRT2, .fan_in = true},
    {"kaiming_normal", NORMAL, ARG_GAIN, .variance = 1, .gain = M_SQRT2, .fan_in = true},
    {"lecun_uniform", UNIFORM, ARG_NONE, .variance = 1, .gain = 1, .fan_in = true},
    {"lecun_normal", NORMAL, ARG_NONE, .variance = 1, .gain = 1, .fan_in = true},
    {"orthogonal", BY_HOST, ARG_GAIN, .gain = 1, .fill = init_orthogonal},
    {"dirac", BY_HOST, ARG_GROUPS, .gain = 1, .fill = init_dirac},
    {"eye", BY_HOST, ARG_NONE, .gain = 1, .fill = init_eye},
};

static const char known[] =
    "\"zeros\", \"ones\", a number, \"constant(0.5)\", \"normal\", \"truncated_normal\", \"uniform\" (these three also "
    "as \"normal(0.02)\"), \"xavier_uniform\", \"xavier_normal\", \"he_uniform\", \"he_normal\", \"kaiming_uniform\", "
    "\"kaiming_normal\", \"orthogonal\" (these also as \"he_normal(tanh)\"), \"lecun_uniform\", \"lecun_normal\", "
    "\"dirac\", \"eye\"";

// --- what stands in parentheses

enum { WORDS_MAX = 3, WORD_B = 32 };

struct init_text {
    char name[WORD_B];
    char words[WORDS_MAX][WORD_B];
    size_t n_words;
};

// One word without spaces around it, up to one of `ends`; false for one that is empty or too long.
static bool take_word(const char **at, const char *ends, char word[WORD_B])
{
    *at += strspn(*at, " ");
    size_t whole = strcspn(*at, ends), len = whole;
    while (len && (*at)[len - 1] == ' ') len--;
    if (len == 0 || len >= WORD_B) return false;
    memcpy(word, *at, len);
    word[len] = '\0';
    *at += whole;
    return true;
}

// "name" or "name(word, word)". False when it is neither.
static bool parse(const char *text, struct init_text *out)
{
    *out = (struct init_text){0};
    if (!take_word(&text, "(),", out->name)) return false;
    if (!*text) return true;
    do {
        text++;
        if (out->n_words == WORDS_MAX || !take_word(&text, "(),", out->words[out->n_words++])) return false;
    } while (*text == ',');
    return *text == ')' && !text[1];
}

static bool number(const char *word, double *out)
{
    char *end;
    *out = c_strtod(word, &end);
    return end != word && !*end && isfinite(*out);
}

// He et al. 2015 derive that of (leaky) relu; tanh, sigmoid and selu as PyTorch's nn.init.calculate_gain has them.
static bool gain_of(const char *name, bool sloped, double slope, double *gain)
{
    static const struct {
        const char *name;
        double gain;
    } rows[] = {{"linear", 1}, {"sigmoid", 1}, {"tanh", 5.0 / 3}, {"relu", M_SQRT2}, {"selu", 0.75}};
    if (!strcmp(name, "leaky_relu")) {
        double a = sloped ? slope : 0.01;
        *gain = sqrt(2 / (1 + a * a));
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(rows) && !sloped; i++) {
        if (strcmp(rows[i].name, name)) continue;
        *gain = rows[i].gain;
        return true;
    }
    return false;
}

// A gain as a number or by a nonlinearity, a slope behind "leaky_relu", and "fan_out" at the end.
static bool read_gain(const struct init_text *t, struct initialiser *row)
{
    size_t n = t->n_words;
    if (n && !strcmp(t->words[n - 1], "fan_out")) {
        if (!row->fan_in || row->fan_out) return false;
        row->fan_in = false;
        row->fan_out = true;
        n--;
    }
    double slope = 0;
    if (n == 0) return true;
    if (n == 1 && number(t->words[0], &row->gain)) return row->gain > 0;
    return n <= 2 && (n == 1 || number(t->words[1], &slope)) && gain_of(t->words[0], n == 2, slope, &row->gain);
}

static bool read_argument(const struct init_text *t, struct initialiser *row)
{
    double v;
    switch (row->takes) {
    case ARG_GAIN: return read_gain(t, row);
    case ARG_SPREAD:
        if (t->n_words == 0) return true;
        return t->n_words == 1 && number(t->words[0], &row->spread) && row->spread > 0;
    case ARG_GROUPS:
        if (t->n_words == 0) return true;
        if (t->n_words != 1 || !number(t->words[0], &v) || v < 1 || v > 1e9 || v != floor(v)) return false;
        row->gain = v;
        return true;
    default: return t->n_words == 0;
    }
}

static double fan(const struct initialiser *row, size_t rank, const int64_t *dims)
{
    double field = 1;
    for (size_t i = 2; i < rank; i++) field *= (double)dims[i];
    double out = rank > 0 ? (double)dims[0] : 1, in = rank > 1 ? (double)dims[1] : out;
    return field * ((row->fan_in ? in : 0) + (row->fan_out ? out : 0));
}

const char *init_by_fan_in(char text[INIT_TEXT_B], int64_t fan_in)
{
    c_snprintf(text, INIT_TEXT_B, "uniform(%.17g)", 1 / sqrt((double)fan_in));
    return text;
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

static kiln_tensor *by_row(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims,
                           const struct initialiser *row)
{
    if (row->draws == BY_HOST) return init_by_host(dev, dtype, rank, dims, row->name, row->fill, row->gain);
    double spread = row->spread;
    if (row->variance > 0) {
        // Half-width and standard deviation of a uniform distribution differ by the square root of 3.
        spread = row->gain * sqrt(row->variance / fmax(fan(row, rank, dims), 1));
        if (row->draws == UNIFORM) spread *= sqrt(3);
    }
    return draw(dev, dtype, rank, dims, row->draws, spread);
}

static kiln_tensor *by_name(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, const char *init)
{
    struct init_text text;
    double value;
    if (parse(init, &text)) {
        if (!strcmp(text.name, "constant") && text.n_words == 1 && number(text.words[0], &value))
            return kiln_full(dev, dtype, rank, dims, value);
        for (size_t i = 0; i < COUNT_OF(initialisers); i++) {
            struct initialiser row = initialisers[i];
            if (!strcmp(row.name, text.name) && read_argument(&text, &row)) return by_row(dev, dtype, rank, dims, &row);
        }
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
    double number = c_strtod(init, &end);
    if (end != init && !*end) return kiln_full(dev, dtype, rank, dims, number);
    return by_name(dev, dtype, rank, dims, init);
}
