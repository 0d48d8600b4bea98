// The options structs as an array, apart from the other tables: what is made of the rows before the ops are compiled
// needs their fields.
#include "ops/row.h"

const struct options_row options_rows[] = {
#define OPTIONS(name, fields, doc) {#name, fields, doc},
#include "ops/options.def"
};
const int options_row_count = (int)COUNT_OF(options_rows);

const struct options_row composite_options_rows[] = {
#define COMPOSITE_OPTIONS(name, fields, doc) {#name, fields, doc},
#include "ops/composite_options.def"
};
const int composite_options_row_count = (int)COUNT_OF(composite_options_rows);
