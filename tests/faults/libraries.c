// Libraries that cannot be opened, and names that they lack.
#include "wrap.h"

#include <string.h>

static _Thread_local bool refused; // what dlerror is to tell

WRAP(void *, dlopen, const char *name, int flags)
{
    if (fault_is_due(FAULT_LIBRARY)) {
        refused = true;
        return NULL;
    }
    return __real_dlopen(name, flags);
}

WRAP(void *, dlsym, void *library, const char *name)
{
    if (fault_is_due(FAULT_LIBRARY)) {
        refused = true;
        return NULL;
    }
    void *found = __real_dlsym(library, name);
    if (!found || strcmp(name, "vkGetInstanceProcAddr")) return found;
    return (void *)(uintptr_t)vulkan_hook((any_fn)(uintptr_t)found);
}

WRAP(char *, dlerror, void)
{
    static char text[] = "refused by the test";
    char *real = __real_dlerror();
    if (!refused) return real;
    refused = false;
    return text;
}
