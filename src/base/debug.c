// KILN_DEBUG=name,name: switches for looking inside, read once at the first question.
#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char names[256];

static void read_environment(void)
{
    const char *text = getenv("KILN_DEBUG");
    if (text) strncpy(names, text, sizeof names - 1);
}

bool debug_flag(const char *name)
{
    pthread_once(&once, read_environment);
    size_t len = strlen(name);
    for (const char *at = names; *at;) {
        size_t n = strcspn(at, ",");
        if (n == len && !memcmp(at, name, n)) return true;
        at += n + (at[n] == ',');
    }
    return false;
}
