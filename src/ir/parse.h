// The parser's parts: tokens (parse_token.c), types and numbers (parse_atom.c), calls (parse_call.c), lines (parse.c).
#pragma once
#include "ir/graph_text.h"

enum {
    PARSE_MAX_TEXT_B = 1 << 28,
    PARSE_MAX_VALUES = 1 << 20, // nodes have at least one value each, but for those without outputs
    PARSE_MAX_NUMBER_B = 64,
};

enum token_kind {
    TOKEN_END,
    TOKEN_WORD,   // letters, digits, '_' and '.', not beginning with a digit
    TOKEN_VALUE,  // %12
    TOKEN_NUMBER, // 12, -1.5e-7, -inf, nan:0x8; `inf` and `nan` alone are words
    TOKEN_STRING,
    TOKEN_SIGN, // one character
};

struct token {
    const char *at;
    size_t size_B;
    int kind;
    int line, column;
};

// A number in the text, and the value that it is here. Sorted, for numbers only rise.
struct value_name {
    int32_t number, value;
};

// An operand that was read: a value, found when the node is made, for a constant that the node takes may be written in
// its last region; or a literal, which becomes a value then.
struct operand {
    struct token token;
    bool is_absent, is_literal;
    struct ir_value literal;
};

struct definition {
    struct token token;
    int32_t number;
    struct type type;
    int16_t symbols[MAX_RANK];
    bool has_symbols;
    uint32_t sized; // dimensions that are given by the sizes of symbols, a bit each
};

struct parser {
    const char *at, *end, *line_start;
    const char *name; // of the text
    int line;
    struct token token; // the next
    struct kiln_graph *g;
    VEC(struct value_name) names;
    VEC(struct definition) definitions; // of lines that are open, outermost first
    VEC(struct operand) operands;       // of calls that are open
    VEC(struct token) places;           // where each node's op stands
    VEC(int32_t) siblings;              // of each region: the next of the same node, or -1
    const struct ir_sizes *sizes;       // that symbols have; NULL: those that were seen
    VEC(int64_t) seen;                  // of each symbol
    bool has_entry;
};

// "name:line:column: ", then the message; KILN_E_FORMAT.
kiln_status parse_fail(struct parser *p, const struct token *t, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
kiln_status parse_expected_at(struct parser *p, const struct token *t, const char *what);
kiln_status parse_expected(struct parser *p, const char *what); // "..., found `x`"
kiln_status parse_next(struct parser *p);
bool parse_is(const struct parser *p, const char *text); // a word or a sign
bool parse_accept(struct parser *p, const char *text, kiln_status *status);
kiln_status parse_sign(struct parser *p, const char *sign);

// A string's bytes with escapes resolved, in the arena.
kiln_status parse_string(struct parser *p, const char **out); // a name
kiln_status parse_text(struct parser *p, const char **out);   // of any length
kiln_status parse_int(struct parser *p, int64_t lowest, int64_t highest, const char *what, int64_t *out);
kiln_status parse_float(struct parser *p, double *out);
// The same in parentheses, by the sizes of symbols.
kiln_status parse_sized_int(struct parser *p, int64_t lowest, int64_t highest, const char *what, int64_t *out);
kiln_status parse_sized_float(struct parser *p, double *out);
// Whether what stands in the parentheses is a float.
bool parse_is_sized_float(const struct parser *p);
kiln_status parse_bool(struct parser *p, int64_t *out);
kiln_status parse_dtype(struct parser *p, uint8_t *out);
kiln_status parse_type(struct parser *p, struct definition *d); // `weak f32[s0=2,3]`
// `%3: weak f32[s0=2,3]`
kiln_status parse_definition(struct parser *p, struct definition *d);
// The literal of a type, in v->number and v->integer.
kiln_status parse_literal(struct parser *p, struct ir_value *v);

kiln_status parse_find(struct parser *p, const struct token *t, int32_t *value);
kiln_status parse_value(struct parser *p, int32_t *value);                             // `%3`, defined before
kiln_status parse_define(struct parser *p, const struct definition *d, int32_t value); // names a value that was added
// `op(...) {...} region(...) {...}`, up to the line's end, for the outputs p->definitions.v[first .. first + n).
kiln_status parse_call(struct parser *p, size_t first, int n);
kiln_status parse_symbol(struct parser *p); // `symbol s0 = 32`
kiln_status parse_header(struct parser *p); // `kiln 1`
void parse_begin(struct parser *p, const char *text, size_t size_B, const char *name);
void parse_finish(struct parser *p);                       // but for the graph
kiln_status parse_block(struct parser *p, bool in_region); // lines up to the end, or to `yield`
