// Numbers in texts that are read by programs: with a decimal point, whatever the locale of the program says.
#pragma once
#include <stddef.h>

// As strtod.
double c_strtod(const char *text, char **end);
// As snprintf.
int c_snprintf(char *text, size_t size_B, const char *format, ...) __attribute__((format(printf, 3, 4)));
// A number in as few digits as give it back; `single`: back as a float. "nan", "inf", "-inf".
enum { C_NUMBER_B = 32 };
const char *c_shortest(char text[C_NUMBER_B], double v, int single);
