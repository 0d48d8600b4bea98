// Texts of graphs as tokens, some of which are written in another way.
#pragma once
#include "base/str.h"
#include "ir/parse.h"

typedef VEC(struct token) token_list;

// The tokens of a text, which they point into.
kiln_status text_tokens(const struct str *text, token_list *out);
bool text_is(const struct token *t, const char *word);
// Writes the text behind `out`, in which token i becomes with[i]; NULL: it stays.
kiln_status text_replace(const struct str *text, const token_list *tokens, char *const *with, struct str *out);
