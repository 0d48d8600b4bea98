// Saving to pipes and over files of others, what killed processes leave, and names that are not fit to be shown.
#include "guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kiln/io.h>
#include <kiln/nn.h>
#include <kiln/optim.h>
#include <sys/stat.h>

static kiln_tensor *x;
static char folder[] = "/tmp/kiln-files-XXXXXX";

static const char *in_folder(const char *name)
{
    static char paths[4][300];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof paths[next], "%s/%s", folder, name);
    return paths[next];
}

static size_t contents(int fd, char *out, size_t size_B)
{
    size_t n = 0;
    for (ssize_t got; n < size_B && (got = read(fd, out + n, size_B - n)) > 0;) n += (size_t)got;
    close(fd);
    return n;
}

// The bytes that a file gets come out of the pipe, under each name that it has.
static void pipes_are_written(void)
{
    char expected[1000], got[1000], name[64];
    NEED(!kiln_npy_save(in_folder("x.npy"), x));
    size_t n = contents(open(in_folder("x.npy"), O_RDONLY), expected, sizeof expected);
    for (int i = 0; i < 3; i++) {
        int ends[2];
        NEED(!pipe(ends));
        snprintf(name, sizeof name, i == 1 ? "/dev/fd/%d" : i ? "/proc/self/fd/%d" : "/dev/stdout", ends[1]);
        pid_t child = fork();
        if (child == 0) {
            NEED(i || dup2(ends[1], 1) == 1);
            NEED(!kiln_npy_save(name, x));
            _exit(0);
        }
        close(ends[1]);
        NEED(contents(ends[0], got, sizeof got) == n && !memcmp(got, expected, n));
        expect_end(child, 20, 0);
    }
}

static void owner_and_mode_stay(void)
{
    const char *path = in_folder("owned.npy");
    struct stat before, after;
    bool gives = getuid() == 0;
    NEED(!kiln_npy_save(path, x) && !chmod(path, 0751));
    NEED(!gives || !chown(path, 1234, 2345));
    NEED(!chmod(path, 06751) && !stat(path, &before) && !kiln_npy_save(path, x) && !stat(path, &after));
    NEED(after.st_ino != before.st_ino && after.st_uid == before.st_uid && after.st_gid == before.st_gid);
    NEED((after.st_mode & 07777) == 0751);
}

static bool exists(const char *name)
{
    return !access(in_folder(name), F_OK);
}

static void touch(const char *name)
{
    int fd = open(in_folder(name), O_CREAT | O_WRONLY, 0600);
    NEED(fd >= 0 && !close(fd));
}

static int count(const char *start)
{
    DIR *d = opendir(folder);
    int n = 0;
    NEED(d != NULL);
    for (struct dirent *e; (e = readdir(d));) n += !strncmp(e->d_name, start, strlen(start));
    closedir(d);
    return n;
}

static void leftovers_go(void)
{
    char dead[64], other[64], alive[64], link[64];
    pid_t gone = fork();
    if (gone == 0) _exit(0);
    expect_end(gone, 20, 0);
    snprintf(dead, sizeof dead, "w.npy.%ld-3.tmp", (long)gone);
    snprintf(link, sizeof link, "w.npy.%ld-4.tmp", (long)gone);
    snprintf(other, sizeof other, "w.npy.%ld-3.tmp.npy", (long)gone);
    snprintf(alive, sizeof alive, "w.npy.%ld-3.tmp", (long)getppid());
    touch(dead), touch(other), touch(alive), touch("w.npy.x-3.tmp");
    NEED(!symlink("w.npy.x-3.tmp", in_folder(link)));
    NEED(!kiln_npy_save(in_folder("v.npy"), x) && exists(dead)); // another file's
    NEED(!kiln_npy_save(in_folder("w.npy"), x));
    NEED(!exists(dead) && exists(other) && exists(alive) && exists(link) && exists("w.npy.x-3.tmp"));
}

// Where each process is the first of its container, they all have one number, and what one leaves is in the way of the
// next.
static void leftovers_of_the_same_number_go(void)
{
    char name[64];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "s.npy.%ld-%d.tmp", (long)getpid(), i);
        touch(name);
    }
    int before = count("s.npy.");
    for (int i = 0; i < 10; i++) NEED(!kiln_npy_save(in_folder("s.npy"), x));
    NEED(before == 300 && count("s.npy.") == before - 10);
}

// As long as the file system lets a name be, which leaves no room for more in it.
static void long_names_are_saved(void)
{
    char name[256], left[256];
    memset(name, 'n', 255);
    name[255] = 0;
    NEED(!kiln_npy_save(in_folder(name), x) && exists(name));
    pid_t gone = fork();
    if (gone == 0) _exit(0);
    expect_end(gone, 20, 0);
    snprintf(left, sizeof left, "%.207s.%ld-3.tmp", name, (long)gone);
    touch(left);
    NEED(!kiln_npy_save(in_folder(name), x) && !exists(left) && count("n") == 1);
}

// What a process leaves that is killed while it saves.
static void killed_saves_leave_nothing_behind(void)
{
    char command[400];
    kiln_tensor *large = kiln_zeros(dev, KILN_F32, KILN_SHAPE(1 << 20));
    pid_t child = fork();
    if (child == 0)
        for (;;) kiln_npy_save(in_folder("k.npy"), large);
    for (int i = 0; i < 20; i++) {
        sleep_ms(7);
        kill(child, SIGKILL);
        NEED(waitpid(child, NULL, 0) == child);
        child = fork();
        if (child == 0)
            for (;;) kiln_npy_save(in_folder("k.npy"), large);
    }
    kill(child, SIGKILL);
    NEED(waitpid(child, NULL, 0) == child);
    NEED(!kiln_npy_save(in_folder("k.npy"), large));
    snprintf(command, sizeof command, "test \"$(ls %s | grep -c '^k')\" = 1", folder);
    NEED(!system(command));
    kiln_free(&large);
}

static void names_are_escaped(void)
{
    static const struct {
        const char *name, *shown;
    } cases[] = {
        {"a\nb", "a\\x0ab"},
        {"\x1b[2Jb", "\\x1b[2Jb"},
        {"tab\tbell\a", "tab\\x09bell\\x07"},
        {"\xff\xfe", "\\xff\\xfe"},
        {"\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9"}, // valid: as it is
        {"\xe2\x80\xae"
         "dne",
         "\\xe2\\x80\\xae"
         "dne"}, // turns the direction of writing
        {"\xc2\x9b"
         "2J",
         "\\xc2\\x9b"
         "2J"},                     // a control character of two bytes
        {"\xc0\xaf", "\\xc0\\xaf"}, // longer than need be
        {"cut \xe2\x82", "cut \\xe2\\x82"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[300];
        snprintf(path, sizeof path, "/none/%s", cases[i].name);
        NEED(!kiln_npy_load(dev, path) && kiln_error() == KILN_E_MISSING);
        snprintf(path, sizeof path, "npy_load: /none/%s: ", cases[i].shown);
        NEED(!strncmp(kiln_error_message(), path, strlen(path)));
        kiln_error_clear();
    }
    // A text that fills the buffer stays within it, its place at the end.
    char *path = malloc(3001);
    memset(path, '\n', 3000);
    path[3000] = 0;
    NEED(!kiln_npy_load(dev, path) && strstr(kiln_error_message(), "\\x0a\\x0a") &&
         !strchr(kiln_error_message(), '\n') && strlen(kiln_error_message()) < 1024);
    NEED(strstr(kiln_error_message(), "files.c:"));
    kiln_error_clear();
    free(path);
}

enum { DEEP = 100000, LONG = 1000000 };

static void deep_nesting_is_an_error(void)
{
    kiln_cell *cell = kiln_nn_sequential(0, NULL);
    for (int i = 0; cell && i < DEEP; i++) cell = kiln_nn_sequential(1, &cell);
    NEED(!cell && kiln_error() == KILN_E_ARGUMENT && strstr(kiln_error_message(), "1000"));
    kiln_error_clear();
    cell = kiln_nn_sequential(0, NULL);
    for (int i = 1; i < 1000; i++) cell = kiln_nn_sequential(1, &cell);
    NEED(cell && kiln_cell_call(cell, x) != NULL);
    kiln_cell *top = kiln_nn_sequential(0, NULL);
    NEED(kiln_sequential_append(top, cell) && kiln_error() == KILN_E_ARGUMENT); // counted from below as from above
    kiln_error_clear();
    kiln_cell_free(&top);
}

static void long_schedules_work(void)
{
    kiln_schedule *s = kiln_schedule_constant(0.5);
    for (int i = 0; i < LONG; i++) s = kiln_schedule_warmup(1, s);
    // Each waits a step at half of what follows at its beginning.
    NEED(s && kiln_schedule_lr(s, LONG) == 0.5 && kiln_schedule_lr(s, LONG - 1) == 0.25);
    NEED(kiln_schedule_lr(s, LONG - 3) == 0.0625 && kiln_schedule_lr(s, 0) == 0);
    kiln_schedule_free(&s);
}

int main(void)
{
    NEED(mkdtemp(folder));
    dev = kiln_device_open("cpu");
    x = kiln_arange(dev, KILN_F32, 0, 10, 1);
    NEED(x != NULL);
    pipes_are_written();
    owner_and_mode_stay();
    leftovers_go();
    leftovers_of_the_same_number_go();
    long_names_are_saved();
    killed_saves_leave_nothing_behind();
    names_are_escaped();
    deep_nesting_is_an_error();
    long_schedules_work();
    char command[400];
    snprintf(command, sizeof command, "rm -r %s", folder);
    NEED(!system(command));
    kiln_free(&x);
    kiln_device_close(&dev);
    return 0;
}
