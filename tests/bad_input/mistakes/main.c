// Makes every mistake of the tables on one device, and compares what is said with the row. After each the library
// works, and nothing is left. usage: test_mistakes DEVICE [NAME], or test_mistakes --list
#include "mistakes.h"

#include <dirent.h>
#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

kiln_device *dev, *other;
int here_line, there_line;
bool not_here;
char folder[64];

static const char *device_name, *program;
static char driver_name[256];
static unsigned device_bit;
static char said[16384]; // the error, and the log
static const char *area_file;

static const struct {
    const char *file;
    const struct mistake *rows;
} tables[] = {
#define TABLE(area) {#area ".c", mistakes_in_##area},
    TABLES(TABLE)
#undef TABLE
};

static void add(const char *text)
{
    size_t len = strlen(said);
    if (len && len + 1 < sizeof said) said[len++] = '\n';
    strncpy(said + len, text, sizeof said - 1 - len);
}

static void listen(void *user, const char *message)
{
    (void)user;
    add(message);
}

const char *file(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

const char *file_with(const char *name, const void *bytes, size_t size_B)
{
    const char *path = file(name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, size_B, f) != size_B || fclose(f)) abort();
    return path;
}

static void empty_folder(void)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') unlink(file(e->d_name));
    if (d) closedir(d);
}

static uint64_t tensors_alive(kiln_device *d)
{
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(d, &stats);
    return stats.tensors;
}

// --- what a row expects

static void list_gpus(char *out, size_t size_B)
{
    kiln_device_info infos[8] = {{.size = sizeof *infos}};
    size_t n = kiln_device_list(infos, 8), len = 0;
    for (size_t i = 0; i < n && i < 8 && len < size_B; i++)
        len += (size_t)snprintf(out + len, size_B - len, "%svulkan:%zu (%s%s)", i ? ", " : "", i, infos[i].name,
                                infos[i].software ? ", software" : "");
}

static const char *replacement(const char *key, size_t n)
{
    static char text[512];
    if (n == 4 && !memcmp(key, "here", 4))
        snprintf(text, sizeof text, "%s:%d", area_file, here_line);
    else if (n == 5 && !memcmp(key, "there", 5))
        snprintf(text, sizeof text, "%s:%d", area_file, there_line);
    else if (n == 6 && !memcmp(key, "device", 6))
        snprintf(text, sizeof text, "%s", driver_name);
    else if (n == 6 && !memcmp(key, "folder", 6))
        snprintf(text, sizeof text, "%s", folder);
    else if (n == 4 && !memcmp(key, "kind", 4))
        snprintf(text, sizeof text, "%s", device_name);
    else if (n == 4 && !memcmp(key, "gpus", 4))
        list_gpus(text, sizeof text);
    else
        return NULL;
    return text;
}

static void expand(const char *message, char *out, size_t size_B)
{
    size_t len = 0;
    while (*message && len + 1 < size_B) {
        size_t n = *message == '{' ? strcspn(message + 1, "}") : 0;
        const char *text = n ? replacement(message + 1, n) : NULL;
        if (text) {
            len += (size_t)snprintf(out + len, size_B - len, "%s", text);
            message += n + 2;
        } else {
            out[len++] = *message++;
        }
    }
    out[len < size_B ? len : size_B - 1] = 0;
}

static int compare(const struct mistake *m, int status)
{
    char want[sizeof said];
    expand(m->message, want, sizeof want);
    if (status == (int)m->status && !strcmp(said, want)) return 0;
    fprintf(stderr, "%s %s: %d expected, and\n  %s\ngot %d, and\n  %s\n", area_file, m->name, (int)m->status, want,
            status, said);
    return 1;
}

// --- one row

// Nothing may be left, and the device still works.
static int check_after(const struct mistake *m, uint64_t before)
{
    kiln_scope *scope = kiln_scope_begin();
    double sum = kiln_item(kiln_sum(kiln_ones(dev, KILN_F32, KILN_SHAPE(8)), NULL));
    kiln_scope_end(&scope);
    uint64_t left = tensors_alive(dev) + tensors_alive(other) - before;
    if (!kiln_error() && !left && (sum == 8 || device_bit == ON_NULL)) return 0;
    fprintf(stderr, "%s %s: after it %" PRIu64 " storages are left, a sum is %g, \"%s\"\n", area_file, m->name, left,
            sum, kiln_error_message());
    kiln_error_clear();
    return 1;
}

static int make_here(const struct mistake *m)
{
    uint64_t before = tensors_alive(dev) + tensors_alive(other);
    memset(said, 0, sizeof said);
    kiln_set_log(listen, NULL);
    kiln_scope *scope = kiln_scope_begin();
    m->make();
    kiln_status status = kiln_error();
    char heard[sizeof said];
    memcpy(heard, said, sizeof said);
    memset(said, 0, sizeof said);
    if (status) add(kiln_error_message());
    if (heard[0]) add(heard);
    kiln_error_clear();
    kiln_scope_end(&scope);
    kiln_set_log(NULL, NULL);
    kiln_device_set_memory_limit(dev, 0);
    int bad = not_here ? 0 : compare(m, status);
    empty_folder();
    return bad + check_after(m, before);
}

static void note_marks(void)
{
    FILE *f = fopen(file(".marks"), "w");
    if (f) fprintf(f, "%d %d\n", here_line, there_line);
    if (f) fclose(f);
}

static void read_marks(void)
{
    FILE *f = fopen(file(".marks"), "r");
    if (f && fscanf(f, "%d %d", &here_line, &there_line) != 2) here_line = -1;
    if (f) fclose(f);
    unlink(file(".marks"));
}

static int make_in_process(const struct mistake *m)
{
    char command[2048];
    // What a mistake leaves behind is its own.
    snprintf(command, sizeof command, "ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\" %s '%s' %s %s '%s' 2>&1",
             m->environment, program, device_name, m->name, folder);
    FILE *f = popen(command, "r");
    if (!f) return 1;
    said[fread(said, 1, sizeof said - 1, f)] = 0;
    int ended = pclose(f);
    size_t len = strlen(said);
    if (len && said[len - 1] == '\n') said[len - 1] = 0;
    read_marks();
    empty_folder();
    return compare(m, WIFEXITED(ended) ? WEXITSTATUS(ended) : -1);
}

// --- all of them

static int run_all(const char *name)
{
    int failed = 0, n = 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct mistake *m = tables[t].rows; m->name; m++) {
            if (!(m->devices & device_bit) || (name && strcmp(name, m->name) != 0)) continue;
            here_line = there_line = 0;
            not_here = false;
            area_file = tables[t].file;
            failed += (m->environment ? make_in_process(m) : make_here(m)) != 0;
            n++;
        }
    printf("%d mistakes, %d are told otherwise\n", n, failed);
    return failed != 0 || n == 0;
}

static int run_in_process(const char *name)
{
    atexit(note_marks);
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct mistake *m = tables[t].rows; m->name; m++)
            if (!strcmp(m->name, name)) m->make();
    kiln_device_close(&dev);
    return 0;
}

static int list(void)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct mistake *m = tables[t].rows; m->name; m++)
            printf("%s\t%s\t%d\t%s\t%s\n", tables[t].file, m->name, m->says,
                   m->environment ? "process"
                   : m->status    ? kiln_status_name(m->status)
                                  : "log",
                   m->message);
    return 0;
}

static bool open_devices(void)
{
    kiln_device_info info = {.size = sizeof info};
    dev = kiln_device_open(device_name);
    if (!dev) return false;
    device_bit = !strcmp(device_name, "cpu") ? ON_CPU : !strcmp(device_name, "null") ? ON_NULL : ON_VULKAN;
    kiln_device_get_info(dev, &info);
    snprintf(driver_name, sizeof driver_name, "%s", info.name);
    other = kiln_device_open("null");
    return other != NULL;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--list")) return list();
    if (argc < 2) return fprintf(stderr, "usage: %s DEVICE [NAME], or %s --list\n", argv[0], argv[0]), 2;
    program = argv[0];
    device_name = argv[1];
    if (argc > 3) {
        snprintf(folder, sizeof folder, "%s", argv[3]);
        dev = kiln_device_open(device_name);
        return run_in_process(argv[2]);
    }
    if (!open_devices()) {
        printf("skipped: %s\n", kiln_error_message());
        return kiln_error() == KILN_E_MISSING ? 77 : 1;
    }
    snprintf(folder, sizeof folder, "/tmp/kiln-mistakes-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    int failed = run_all(argc > 2 ? argv[2] : NULL);
    rmdir(folder);
    kiln_device_close(&other);
    kiln_device_close(&dev);
    return failed;
}
