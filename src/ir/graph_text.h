// What the printer, the parser and the verifier share.
#pragma once
#include "ir/graph.h"

#define IR_TEXT_VERSION 1

// The 52 bits of a double that tell one NaN from another; the quiet one without payload is plain `nan`.
#define IR_NAN_PAYLOAD  0xfffffffffffffull
#define IR_NAN_QUIET    0x8000000000000ull
#define IR_NAN_EXPONENT 0x7ff0000000000000ull

void ir_number_text(const struct ir_value *v, struct str *s); // of an IR_NUMBER
void ir_string_text(const char *text, struct str *s);         // in quotes
bool ir_type_is_literal(const struct type *t);                // whether a number of this type may stand among operands
