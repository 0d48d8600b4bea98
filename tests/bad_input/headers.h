// The public headers as they stand: what is declared in them, so that a test can tell what it leaves out.
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct header_names {
    int n;
    char v[512][64];
};
bool header_names_has(const struct header_names *list, const char *name);
void header_names_add(struct header_names *list, const char *name, size_t len); // once

// Each header's text, without comments and directives, on one line.
void header_each(void (*fn)(const char *text));
// The name and the parameters of each public function that a text declares.
void header_each_function(const char *text, void (*fn)(const char *name, const char *params));
