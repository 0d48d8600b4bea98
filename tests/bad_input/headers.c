// Reads the public headers as text: the functions that they declare, with their parameters.
#include "headers.h"
#include "bad_input.h"
#include <ctype.h>
#include <glob.h>

bool header_names_has(const struct header_names *list, const char *name)
{
    for (int i = 0; i < list->n; i++)
        if (!strcmp(list->v[i], name)) return true;
    return false;
}

void header_names_add(struct header_names *list, const char *name, size_t len)
{
    char text[64];
    assert_true(list->n < 512 && len < sizeof text);
    snprintf(text, sizeof text, "%.*s", (int)len, name);
    if (!header_names_has(list, text)) memcpy(list->v[list->n++], text, sizeof text);
}

static char *text_of(const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s cannot be read", path);
    char *text = calloc(1, 1 << 20), *to = text;
    assert_non_null(text);
    for (char line[4096]; fgets(line, sizeof line, f);) { // without comments and directives
        char *end = strstr(line, "//");
        if (end) *end = 0;
        if (line[0] == '#') continue;
        to = stpcpy(to, line);
        *to++ = ' ';
        assert_true(to - text < (1 << 20) - 4096);
    }
    fclose(f);
    for (char *c = text; *c; c++)
        if (isspace((unsigned char)*c)) *c = ' ';
    return text;
}

void header_each(void (*fn)(const char *text))
{
    char pattern[4096];
    snprintf(pattern, sizeof pattern, "%s/../include/kiln/*.h", getenv("KILN_TEST_SOURCE_DIR"));
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(glob(OPS_H, GLOB_APPEND, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *text = text_of(found.gl_pathv[i]);
        fn(text);
        free(text);
    }
    globfree(&found);
}

void header_each_function(const char *text, void (*fn)(const char *name, const char *params))
{
    for (const char *at = text; (at = strstr(at, "KILN_API "));) {
        const char *open = strchr(at, '('), *end = strchr(at, ';'), *name = open;
        while (name[-1] == '_' || isalnum((unsigned char)name[-1])) name--;
        char function[64], params[1024];
        snprintf(function, sizeof function, "%.*s", (int)(open - name), name);
        snprintf(params, sizeof params, "%.*s", (int)(end - open), open);
        fn(function, params);
        at = end;
    }
}
