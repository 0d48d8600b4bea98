// Numbers for people: three digits, a prefix and a unit, "12.3 us".
#pragma once
#include "base/str.h"

void str_add_time(struct str *s, double ns);     // "12.3 us"
void str_add_bytes(struct str *s, double bytes); // "1.50 MB", of 10^6; whole below 1,000
void str_add_flops(struct str *s, double flops); // "393 kflop"
