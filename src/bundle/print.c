// Bundles as text.
#include "base/text.h"
#include "bundle/bundle.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static kiln_status add_content(struct str *s, const struct bundle_content *c);

static kiln_status add_text(struct str *s, const char *text)
{
    size_t room_B = 4 * strlen(text) + 1; // each byte may become \xNN
    char *shown = malloc(room_B);
    if (!shown) return error_set(KILN_E_MEMORY, "bundle_print: out of memory");
    strcpy(shown, text);
    text_escape(shown, room_B);
    str_add(s, shown);
    free(shown);
    return KILN_OK;
}

static kiln_status add_tensor(struct str *s, const kiln_tensor *t)
{
    char *text = kiln_to_string(t);
    if (!text) return error_pending;
    str_add(s, text);
    free(text);
    return KILN_OK;
}

static void add_double(struct str *s, double v)
{
    char text[32];
    for (int digits = 1; digits <= 17; digits++) { // the fewest that give it back
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (v != v || strtod(text, NULL) == v) break;
    }
    str_add(s, text);
    if (!strpbrk(text, ".en")) str_add(s, ".0");
}

static kiln_status add_value(struct str *s, const struct bundle_value *v)
{
    if (v->slot) return add_tensor(s, v->tensor);
    switch (v->kind) {
    case KILN_KIND_INT: str_addf(s, "%lld", (long long)v->integer); break;
    case KILN_KIND_DOUBLE: add_double(s, v->number); break;
    case KILN_KIND_BOOL: str_add(s, v->integer ? "true" : "false"); break;
    case KILN_KIND_BUNDLE: return add_content(s, v->bundle);
    case KILN_KIND_POINTER: str_add(s, "pointer"); break;
    case KILN_KIND_STRING:
        str_add(s, "\"");
        TRY(add_text(s, v->string));
        str_add(s, "\"");
        break;
    default: str_add(s, "none"); break;
    }
    return KILN_OK;
}

static kiln_status add_content(struct str *s, const struct bundle_content *c)
{
    str_add(s, c->n_named ? "{" : "[");
    for (size_t i = 0; i < c->entries.n; i++) {
        const struct bundle_entry *e = &c->entries.v[i];
        if (i) str_add(s, ", ");
        if (e->name) {
            TRY(add_text(s, e->name->text));
            str_add(s, ": ");
        }
        TRY(add_value(s, e->value));
    }
    str_add(s, c->n_named ? "}" : "]");
    return KILN_OK;
}

void kiln_bundle_print(const kiln_bundle *b, FILE *f)
{
    struct bundle_content *c;
    struct str text;
    if (bundle_read("bundle_print", b, &c)) return;
    if (!f) {
        error_set(KILN_E_ARGUMENT, "bundle_print: the file is NULL");
        return;
    }
    str_init(&text);
    kiln_status status = add_content(&text, c);
    str_add(&text, "\n");
    if (!status && !str_check(&text) && fwrite(text.text, 1, text.len, f) != text.len)
        error_set(KILN_E_IO, "bundle_print: the file could not be written: %s", strerror(errno));
    str_free(&text);
}
