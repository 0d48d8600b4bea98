// What tests of trainings share: a folder, files as texts, warnings.
#pragma once
#include <kiln/kiln.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static kiln_device *dev;
static char folder[256], first_warning[1024];
static int warnings;
static kiln_scope *test_scope;

static void keep_warning(void *user, const char *message)
{
    if (!warnings++) snprintf(first_warning, sizeof first_warning, "%s", message);
}

static const char *device_name = "cpu";

static inline int open_device(void **state)
{
    dev = kiln_device_open(device_name);
    return dev ? 0 : -1;
}

static inline int close_device(void **state)
{
    kiln_device_close(&dev);
    return 0;
}

static inline int begin_test(void **state)
{
    strcpy(folder, "/tmp/kiln-train-XXXXXX");
    warnings = 0;
    kiln_set_log(keep_warning, NULL);
    test_scope = kiln_scope_begin();
    return mkdtemp(folder) ? 0 : -1;
}

static inline int end_test(void **state)
{
    char command[512];
    kiln_error_clear();
    kiln_scope_end(&test_scope);
    kiln_set_log(NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) ? -1 : 0;
}

static inline const char *in_folder(const char *name)
{
    static char paths[4][512];
    static int at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

// The text of a file, to be freed; fails where there is none.
static inline char *text_of(const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s is not there", path);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

// Without the third column of a CSV file, the seconds.
static inline char *without_seconds(const char *path)
{
    char *text = text_of(path), *to = text;
    int column = 0;
    bool quoted = false;
    for (const char *at = text; *at; at++) {
        quoted ^= *at == '"';
        bool ends = !quoted && (*at == ',' || *at == '\n');
        if (column != 2) *to++ = *at;
        if (ends) column = *at == '\n' ? 0 : column + 1;
    }
    *to = '\0';
    return text;
}

static inline void expect_error(kiln_status code, const char *text)
{
    if (kiln_error() != code || !strstr(kiln_error_message(), text))
        fail_msg("expected %s with \"%s\", got %s: %s", kiln_status_name(code), text, kiln_status_name(kiln_error()),
                 kiln_error_message());
    kiln_error_clear();
}

static inline void no_error(void)
{
    if (kiln_error()) fail_msg("%s", kiln_error_message());
}
