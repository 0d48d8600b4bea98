// What Linux tells of the processor.
#pragma once
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// A flag of /proc/cpuinfo, such as "amx_bf16".
static inline bool processor_has(const char *flag)
{
    char line[8192], word[64];
    bool has = false;
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(word, sizeof word, " %s ", flag);
    while (f && !has && fgets(line, sizeof line, f)) has = !strncmp(line, "flags", 5) && strstr(line, word);
    if (f) fclose(f);
    return has;
}
