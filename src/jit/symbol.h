// Symbols: rules for dimensions that are declared to be open.
#pragma once
#include <kiln/jit.h>

struct symbol {
    char name[64];
    int64_t min, max, divisor, remainder; // max: INT64_MAX where there is none
    bool unique;
};
const struct symbol *symbol_of(int64_t dim); // NULL: it is none
bool symbol_allows(const struct symbol *s, int64_t size);
void symbol_text(const struct symbol *s, char *out, size_t size_B); // its rule
