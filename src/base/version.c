// The library's version, as it was compiled.
#include <kiln/version.h>

_Static_assert(KILN_VERSION_MINOR < 1000 && KILN_VERSION_PATCH < 1000, "KILN_VERSION_NUMBER has three digits for each");

uint32_t kiln_version(void)
{
    return KILN_VERSION;
}

const char *kiln_version_string(void)
{
    return KILN_VERSION_STRING;
}
