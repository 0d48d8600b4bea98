// What the examples share: comparing a result with what is expected of it. 0 means equal, so that sums of it count
// failures.
#pragma once
#include <kiln/kiln.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// $KILN_DEVICE, or the default one; where the machine has none of that kind the program ends as a skipped test.
static inline kiln_device *open_device(void)
{
    kiln_device *dev = kiln_device_open(NULL);
    if (dev) return dev;
    fprintf(stderr, "%s\n", kiln_error_message());
    exit(kiln_error() == KILN_E_MISSING ? 77 : 1);
}

// The printed text, line by line without regard to blanks, must be that one.
static inline int check_text(const char *what, kiln_tensor *t, const char *want)
{
    char *text = kiln_to_string(t);
    const char *a = text ? text : "", *b = want;
    while (*a || *b) {
        a += strspn(a, " \n");
        b += strspn(b, " \n");
        if (*a != *b) break;
        if (*a) a++, b++;
    }
    int bad = !text || *a || *b;
    if (text) printf("%s =\n%s\n", what, text);
    if (bad) fprintf(stderr, "%s: expected %s %s\n", what, want, kiln_error_message());
    free(text);
    return bad;
}

// The values, within a relative 1e-6.
static inline int check_values(const char *what, kiln_tensor *t, size_t n, const double *want)
{
    int bad = !t || kiln_numel(t) != (int64_t)n;
    double *got = calloc(n, sizeof *got);
    kiln_tensor *wide = kiln_cast(t, KILN_F64);
    bad = bad || !got || !wide || kiln_read(wide, got, n * sizeof *got);
    for (size_t i = 0; !bad && i < n; i++) bad = !(fabs(got[i] - want[i]) <= 1e-6 * fmax(fabs(want[i]), 1e-3));
    printf("%s =\n", what);
    if (t && !kiln_error()) kiln_print(t, stdout);
    if (bad) fprintf(stderr, "%s: expected %.9g ... %s\n", what, want[0], kiln_error_message());
    kiln_free(&wide);
    free(got);
    return bad;
}
#define CHECK(what, t, ...) \
    check_values(what, t, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})
