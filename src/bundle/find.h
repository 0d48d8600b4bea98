// Entries by name and by index, and what they show: get.c.
#pragma once
#include "bundle/bundle.h"

#define BUNDLE_TEXT_MAX 80
const char *bundle_show_name(const char *name, char shown[BUNDLE_TEXT_MAX]); // fit for a message
// Of a bundle that is checked, and noted as read.
kiln_status bundle_find(const char *function, const kiln_bundle *b, const char *name, size_t *at);
kiln_status bundle_find_at(const char *function, const kiln_bundle *b, int64_t index, size_t *at);
kiln_status bundle_show_value(const char *function, const struct bundle_value *v, kiln_value *out);
