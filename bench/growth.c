// How much more memory of the system a row takes than its inputs: in a new process for each mode, the peak over ten
// calls less what was resident before the first.
#include "bench.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CALLS = 10 };

// A figure of /proc/self/status, which is in KiB.
static double status_B(const char *key)
{
    char line[128];
    double kib = NAN;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key))) kib = strtod(line + strlen(key), NULL);
    if (f) fclose(f);
    return 1024 * kib;
}

// From here on the peak is what is resident now.
static bool forget_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY);
    bool ok = fd >= 0 && write(fd, "5", 1) == 1;
    if (fd >= 0) close(fd);
    return ok;
}

int growth_child(const struct plan *p, const char *mode)
{
    struct state s;
    enum mode m = MODE_EAGER;
    const struct bench_case *c = case_of(p->filter);
    while (m < MODE_COUNT && strcmp(mode_name(m), mode)) m++;
    kiln_device *dev = kiln_device_open(p->device);
    if (!c || m == MODE_COUNT || !dev || state_begin(&s, dev, bench_sizes(p->size), c, m)) return 1;
    kiln_device_synchronize(dev);
    kiln_device_trim(dev); // what the set-up left free is no gift to the calls
    double before = forget_peak() ? status_B("VmRSS:") : NAN;
    for (int i = 0; i < CALLS && !kiln_error(); i++) {
        kiln_tensor *out[STATE_OUTPUTS] = {NULL};
        kiln_scope *scope = kiln_scope_begin();
        state_call(&s, out);
        kiln_device_synchronize(dev);
        kiln_scope_end(&scope);
    }
    double growth = status_B("VmHWM:") - before;
    bool ok = !kiln_error() && growth >= 0 && write(STDOUT_FILENO, &growth, sizeof growth) == sizeof growth;
    if (kiln_error()) fprintf(stderr, "kiln-bench: %s\n", kiln_error_message());
    state_finish(&s);
    kiln_device_close(&dev);
    return ok ? 0 : 1;
}

void measure_growth(const struct plan *p, const struct bench_case *c, enum mode m, struct row *out)
{
    const char *arguments[12] = {"kiln-bench", "--size", p->size, "--filter", c->name};
    int n = 5;
    if (p->device) {
        arguments[n++] = "--device";
        arguments[n++] = p->device;
    }
    arguments[n++] = "--growth-child";
    arguments[n++] = mode_name(m);
    out->group = c->group;
    double time_ns;
    if (!run_child(arguments, NULL, &out->growth_B, sizeof out->growth_B, &time_ns))
        snprintf(out->error, sizeof out->error, "the new process gave no result");
}
