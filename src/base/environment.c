// KILN_* variables against their table: a name that is misspelt would be silently ignored, a value taken for another.
#include "base/environment.h"
#include "base/base.h"
#include "base/nearest.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum form { WORDS, NUMBER, OWN, FREE };

static const struct variable {
    const char *name;
    enum form form;
    const char *words;
} variables[] = {
#define VARIABLE(name, form, words) {#name, form, words},
#include "base/environment.def"
#undef VARIABLE
};

static const char all_names[] =
#define VARIABLE(name, form, words) " " #name
#include "base/environment.def"
#undef VARIABLE
    ;

extern char **environ;

static bool is_word(const char *words, const char *value)
{
    size_t n = strlen(value);
    for (const char *at = words; (at = strstr(at, value)); at++)
        if ((at == words || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ')) return true;
    return false;
}

static bool is_number(const char *value)
{
    char *end;
    return strtod(value, &end) > 0 && end != value && *end == 0;
}

static void check_value(const struct variable *v, const char *value)
{
    if (v->form == WORDS && !is_word(v->words, value))
        log_warn("%s: there is no \"%s\"; known are %s", v->name, value, v->words);
    else if (v->form == NUMBER && !is_number(value))
        log_warn("%s: \"%s\" is no number above 0; it is as if it were not set", v->name, value);
}

// Names that begin with KILN_TEST_ are those of tests.
static void check_entry(const char *entry)
{
    size_t n = strcspn(entry, "=");
    if (strncmp(entry, "KILN_", 5) != 0 || !strncmp(entry, "KILN_TEST_", 10) || !entry[n]) return;
    for (size_t i = 0; i < COUNT_OF(variables); i++) {
        if (strlen(variables[i].name) != n || strncmp(entry, variables[i].name, n) != 0) continue;
        if (entry[n + 1]) check_value(&variables[i], entry + n + 1);
        return;
    }
    struct nearest near;
    nearest_begin(&near, entry, n);
    for (size_t i = 0; i < COUNT_OF(variables); i++) nearest_try(&near, variables[i].name, strlen(variables[i].name));
    log_warn("the environment has %.*s, which means nothing; known are%s%s", (int)(n < 100 ? n : 100), entry, all_names,
             nearest_hint(&near).s);
}

static void check_all(void)
{
    for (char **entry = environ; entry && *entry; entry++) check_entry(*entry);
}

void environment_check(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, check_all);
}
