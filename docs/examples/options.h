// What examples share that take options: "--name VALUE", each with the place that the value goes to and what it may be.
// What is wrong is said before the usage is shown.
#pragma once
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct option_place {
    const char *name;
    const char **text; // one of the four
    int64_t *whole;
    double *real;
    bool *flag;    // without a value
    int64_t least; // of a whole number
    bool positive; // a real number
};
enum { OPTIONS_MAX = 16 };

// Says what is asked for unless it is so, and gives that back.
static inline bool option_fits(bool fits, const char *asked)
{
    if (!fits) fprintf(stderr, "%s\n", asked);
    return fits;
}

static inline bool read_option(const struct option_place *o, const char *value)
{
    char none[] = "", *end = none;
    if (o->flag) return *o->flag = true;
    if (o->text) *o->text = value;
    if (o->whole) *o->whole = strtoll(value, &end, 10);
    if (o->real) *o->real = strtod(value, &end);
    bool read = *value && !*end;
    if (!read)
        fprintf(stderr, "--%s \"%s\": %s\n", o->name, value, o->text ? "it is empty" : "it is no number");
    else if (o->whole && *o->whole < o->least)
        fprintf(stderr, "--%s %s: it has to be %" PRId64 " or more\n", o->name, value, o->least);
    else if (o->positive && !(*o->real > 0))
        fprintf(stderr, "--%s %s: it has to be more than 0\n", o->name, value);
    else
        return true;
    return false;
}

// Reads the options of a command line; false where one is wrong, or asks for help. Arguments come at optind.
static inline bool read_options(int argc, char **argv, const struct option_place *o, int n)
{
    struct option names[OPTIONS_MAX + 2] = {{0}};
    for (int i = 0; i < n && i < OPTIONS_MAX; i++)
        names[i] = (struct option){o[i].name, o[i].flag ? no_argument : required_argument, NULL, i};
    names[n] = (struct option){"help", no_argument, NULL, n};
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;)
        if (c >= n || !read_option(&o[c], optarg)) return false;
    return true;
}
#define READ_OPTIONS(argc, argv, ...)                                    \
    read_options(argc, argv, (const struct option_place[]){__VA_ARGS__}, \
                 (int)(sizeof((struct option_place[]){__VA_ARGS__}) / sizeof(struct option_place)))

static inline bool no_arguments(int argc, char **argv)
{
    if (optind < argc) fprintf(stderr, "unexpected argument \"%s\"\n", argv[optind]);
    return optind == argc;
}
