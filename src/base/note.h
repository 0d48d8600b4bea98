// Where an error arose, for those who are on its way.
#pragma once
#include "base/base.h"

// Adds ", in WHERE" to the text of the pending error, before the place of the caller. Only the first is kept: the
// innermost.
void error_note_where(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Puts "WHERE: " before the text of the pending error; only the first of both notes is kept.
void error_note_before(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Whether nobody has asked for the text of the pending error.
bool error_is_unheard(void);
