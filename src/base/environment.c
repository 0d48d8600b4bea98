// KILN_* variables against their table: a name that is misspelt would be silently ignored, a value taken for another.
#include "base/environment.h"
#include "base/base.h"
#include "base/nearest.h"

#include <pthread.h>
#include <stdio.h>
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

// What is wrong with the value; false: nothing.
static bool is_wrong(const struct variable *v, const char *value, char *why, size_t cap)
{
    if (v->form == WORDS && !is_word(v->words, value))
        snprintf(why, cap, "there is no \"%s\"; known are %s", value, v->words);
    else if (v->form == NUMBER && !is_number(value))
        snprintf(why, cap, "\"%s\" is no number above 0; it is as if it were not set", value);
    else
        return false;
    return true;
}

// The variable whose name is the first n characters; NULL where it is none of the library's.
static const struct variable *find(const char *name, size_t n)
{
    for (size_t i = 0; i < COUNT_OF(variables); i++)
        if (strlen(variables[i].name) == n && !strncmp(name, variables[i].name, n)) return &variables[i];
    return NULL;
}

// Names that begin with KILN_TEST_ are those of tests.
static bool is_ours(const char *entry)
{
    return !strncmp(entry, "KILN_", 5) && strncmp(entry, "KILN_TEST_", 10) != 0;
}

static void refuse_name(const char *entry, size_t n)
{
    struct nearest near;
    nearest_begin(&near, entry, n);
    for (size_t i = 0; i < COUNT_OF(variables); i++) nearest_try(&near, variables[i].name, strlen(variables[i].name));
    log_warn("the environment has %.*s, which means nothing; known are%s%s", (int)(n < 100 ? n : 100), entry, all_names,
             nearest_hint(&near).s);
}

static void check_entry(const char *entry)
{
    char why[256];
    size_t n = strcspn(entry, "=");
    if (!is_ours(entry) || !entry[n]) return;
    const struct variable *v = find(entry, n);
    if (!v)
        refuse_name(entry, n);
    else if (entry[n + 1] && is_wrong(v, entry + n + 1, why, sizeof why))
        log_warn("%s: %s", v->name, why);
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

static bool is_of_others(const char *name)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OPENBLAS_CORETYPE", "VK_DRIVER_FILES",
                                        "VK_ICD_FILENAMES"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static void tell_entry(const char *entry, environment_fn *fn, void *user)
{
    char name[100], why[256];
    size_t n = strcspn(entry, "=");
    if (!entry[n] || !entry[n + 1] || n >= sizeof name) return;
    snprintf(name, sizeof name, "%.*s", (int)n, entry);
    const struct variable *v = find(name, n);
    if (v)
        fn(user, name, entry + n + 1, is_wrong(v, entry + n + 1, why, sizeof why) ? why : NULL);
    else if (is_ours(name))
        fn(user, name, entry + n + 1, "there is no such variable");
    else if (is_of_others(name))
        fn(user, name, entry + n + 1, NULL);
}

void environment_each(environment_fn *fn, void *user)
{
    for (char **entry = environ; entry && *entry; entry++) tell_entry(*entry, fn, user);
}
