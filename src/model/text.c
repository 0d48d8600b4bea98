// Texts of graphs as tokens.
#include "model/text.h"
#include "model/adding.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kiln_status text_tokens(const struct str *text, token_list *out)
{
    struct parser p = {.at = str_text(text), .end = str_text(text) + text->len, .name = "graph", .line = 1};
    p.line_start = p.at;
    do {
        TRY(parse_next(&p));
        if (p.token.kind != TOKEN_END) TRY(vec_push(out, p.token));
    } while (p.token.kind != TOKEN_END);
    return KILN_OK;
}

bool text_is(const struct token *t, const char *word)
{
    return t->kind != TOKEN_STRING && t->size_B == strlen(word) && !memcmp(t->at, word, t->size_B);
}

kiln_status text_replace(const struct str *text, const token_list *tokens, char *const *with, struct str *out)
{
    const char *at = str_text(text), *end = at + text->len;
    for (size_t i = 0; i < tokens->n; i++) {
        if (!with[i]) continue;
        str_addn(out, at, (size_t)(tokens->v[i].at - at));
        str_add(out, with[i]);
        at = tokens->v[i].at + tokens->v[i].size_B;
    }
    str_addn(out, at, (size_t)(end - at));
    return str_check(out);
}

// Of `{call = 3}` behind a call of the host the number.
static bool is_host_number(const token_list *tokens, size_t i, bool of_host)
{
    return of_host && i >= 2 && text_is(&tokens->v[i - 1], "=") && text_is(&tokens->v[i - 2], "call") &&
           tokens->v[i].kind == TOKEN_NUMBER;
}

static kiln_status name_hosts(struct str *text, const token_list *tokens)
{
    char(*names)[24] = calloc(tokens->n + 1, sizeof *names);
    char **with = calloc(tokens->n + 1, sizeof *with);
    kiln_status status = names && with ? KILN_OK : error_set(KILN_E_MEMORY, "model: out of memory");
    bool of_host = false;
    for (size_t i = 0; i < tokens->n && !status; i++) {
        const struct token *t = &tokens->v[i];
        if (text_is(t, "host_call") || text_is(t, "host_value")) of_host = true;
        if (!is_host_number(tokens, i, of_host)) continue;
        snprintf(names[i], sizeof names[i], "(host%.*s)", (int)t->size_B, t->at);
        with[i] = names[i];
        of_host = false;
    }
    struct str s;
    str_init(&s);
    if (!status) status = text_replace(text, tokens, with, &s);
    struct str old = status ? s : *text;
    if (!status) *text = s;
    str_free(&old);
    free(names);
    free((void *)with);
    return status;
}

kiln_status text_name_hosts(const struct model *m, struct str *text)
{
    token_list tokens = {0};
    if (!m->hosts.n) return KILN_OK;
    kiln_status status = text_tokens(text, &tokens);
    if (!status) status = name_hosts(text, &tokens);
    vec_free(&tokens);
    return status;
}
