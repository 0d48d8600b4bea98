// The bytes that a call's launches and copies on the device move, as a profile of it tells: of eager calls, too, and
// each byte of an operand once.
#include "bench.h"
#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Copies from and to the host are no work of the device.
static bool moves(const struct json *event)
{
    if (!strcmp(json_text(event, "cat"), "launch")) return true;
    return !strcmp(json_text(event, "cat"), "copy") && !strcmp(json_text(event, "name"), "copy");
}

static double sum_of(const struct json *profile)
{
    double moved_B = 0;
    for (const struct json *e = json_get(profile, "traceEvents")->first; e; e = e->next) {
        const struct json *args = json_get(e, "args");
        if (moves(e)) moved_B += json_number(args, "read_B") + json_number(args, "written_B");
    }
    return json_number(json_get(profile, "otherData"), "lost") == 0 ? moved_B : NAN;
}

// False: one is being taken of the whole run.
static bool profile_call(struct state *s, const char *path)
{
    kiln_tensor *results[STATE_OUTPUTS] = {NULL};
    if (kiln_profile_begin(path)) {
        kiln_error_clear();
        return false;
    }
    kiln_scope *scope = kiln_scope_begin();
    state_call(s, results);
    kiln_scope_end(&scope);
    return !kiln_profile_end();
}

double moved_by_call(struct state *s)
{
    const char *folder = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/kiln-bench-XXXXXX", folder && *folder ? folder : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) return NAN;
    close(fd);
    struct json *profile = profile_call(s, path) ? document_load(path, "traceEvents") : NULL;
    unlink(path);
    double moved_B = profile ? sum_of(profile) : NAN;
    json_free(profile);
    return moved_B;
}
