// The table of rewrite rules, parsed: patterns over names of the op table.
#pragma once
#include "ir/op.h"

enum rule_dtypes {
    BOOLEAN = 1,
    SIGNED = 2,
    UNSIGNED = 16,
    INTEGER = SIGNED | UNSIGNED,
    HALF = 4, // f16, bf16: they compute in f32 and round after each op
    WIDE = 8, // f32, f64
    FLOAT = HALF | WIDE,
    NUMERIC = INTEGER | FLOAT,
    ALL = BOOLEAN | NUMERIC,
};
enum rule_exactness { EXACT, INEXACT };

struct rule {
    const char *pattern, *replacement;
    uint8_t dtypes;
    uint8_t exactness;
    const char *when; // of the scalar language over c and d; NULL: always
};
extern const struct rule rule_table[];
extern const int rule_count;

enum term_kind {
    TERM_OP,
    TERM_ANY,       // x y z
    TERM_VALUE,     // u v
    TERM_CONDITION, // p q
    TERM_NUMBER,    // c d
    TERM_LITERAL,
    TERM_COMPUTED, // {...}
};
struct rule_term {
    uint8_t kind, n_args;
    char name;  // of a variable
    bool truth; // a literal written true or false
    const struct op *op;
    const struct rule_term *arg[3];
    double literal;
    const char *text; // TERM_COMPUTED
};
struct rule_terms {
    const struct rule_term *pattern, *replacement;
};
// Parsed once, kept for the life of the process; NULL with an error when the table has a mistake.
const struct rule_terms *rule_terms(void);
unsigned rule_dtype_bit(unsigned dtype); // of enum rule_dtypes
