// What examples share that take options: "--name VALUE", each with the place that the value goes to.
#pragma once
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct option_place {
    const char *name;
    const char **text; // one of the three
    int64_t *whole;
    double *real;
};
enum { OPTIONS_MAX = 16 };

static inline bool read_option(const struct option_place *o, const char *value)
{
    char none[] = "", *end = none;
    if (o->text) *o->text = value;
    if (o->whole) *o->whole = strtoll(value, &end, 10);
    if (o->real) *o->real = strtod(value, &end);
    return *value && !*end;
}

// Reads the command line; false where it is wrong, or asks for help.
static inline bool read_options(int argc, char **argv, const struct option_place *o, int n)
{
    struct option names[OPTIONS_MAX + 1] = {{0}};
    for (int i = 0; i < n && i < OPTIONS_MAX; i++) names[i] = (struct option){o[i].name, required_argument, NULL, i};
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;)
        if (c >= n || !read_option(&o[c], optarg)) return false;
    return optind == argc;
}
#define READ_OPTIONS(argc, argv, ...)                                    \
    read_options(argc, argv, (const struct option_place[]){__VA_ARGS__}, \
                 (int)(sizeof((struct option_place[]){__VA_ARGS__}) / sizeof(struct option_place)))
