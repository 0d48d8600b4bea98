// KILN_DEBUG=word,word: switches for looking inside, read once at the first question.
#include "base/debug.h"
#include "base/base.h"
#include "base/nearest.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {
#define DEBUG_FLAG(word, meaning) word,
#include "base/debug.def"
#undef DEBUG_FLAG
};
#define DEBUG_FLAG(word, meaning) sizeof(word ", ") +
_Static_assert(
#include "base/debug.def"
    1 <= 320, "check_word has room for all");
#undef DEBUG_FLAG

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char text[1024];

// The bytes of a row's name; behind them a "=" stands where the switch takes values.
static size_t name_length(const char *row)
{
    return strcspn(row, "=");
}

static bool is_known(const char *word, size_t n)
{
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        size_t key = name_length(words[i]);
        bool takes = words[i][key] == '=';
        if (takes ? n > key && !memcmp(word, words[i], key + 1) : n == key && !memcmp(word, words[i], n)) return true;
    }
    return false;
}

static void check_word(const char *word, size_t n)
{
    char list[320] = "";
    if (is_known(word, n)) return;
    for (size_t i = 0; i < COUNT_OF(words); i++) strcat(strcat(list, i ? ", " : ""), words[i]);
    struct nearest near;
    nearest_begin(&near, word, n);
    for (size_t i = 0; i < COUNT_OF(words); i++) nearest_try(&near, words[i], name_length(words[i]));
    log_warn("KILN_DEBUG: there is no \"%.*s\"; known are %s%s", (int)n, word, list, nearest_hint(&near).s);
}

static bool has(const char *name)
{
    size_t len = strlen(name);
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, ",");
        if (n == len && !memcmp(at, name, n)) return true;
        at += n + (at[n] == ',');
    }
    return false;
}

static void read_environment(void)
{
    const char *value = getenv("KILN_DEBUG");
    if (value) strncpy(text, value, sizeof text - 1);
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, ",");
        if (n) check_word(at, n);
        at += n + (at[n] == ',');
    }
    // Ops are watched one by one.
    if ((has("nan") || has("indices")) && strlen(text) + sizeof ",replay" <= sizeof text) strcat(text, ",replay");
}

bool debug_flag(const char *name)
{
    pthread_once(&once, read_environment);
    return has(name);
}

bool debug_value(const char *name, size_t *at, char *out, size_t size_B)
{
    pthread_once(&once, read_environment);
    size_t len = strlen(name);
    while (text[*at]) {
        const char *word = text + *at;
        size_t n = strcspn(word, ",");
        *at += n + (word[n] == ',');
        if (n <= len || memcmp(word, name, len) || word[len] != '=' || n - len > size_B) continue;
        memcpy(out, word + len + 1, n - len - 1);
        out[n - len - 1] = 0;
        return true;
    }
    return false;
}
