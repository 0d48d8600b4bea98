// Files of which there are two, A and B, told apart by all of their bytes.
//
// usage: durable save KIND FILE A|B       writes the file; exit status 1 and the error where that fails
//        durable which KIND FILE          prints A or B where all of the file is so, else fails
//        durable kill FILE COUNT SEED     saves A and B by turns in processes that are killed at any moment
//
// KIND: checkpoint, safetensors, npy, npz.
#include "../clock.h"
#include "../guest/guest.h"

#include <dirent.h>
#include <kiln/io.h>

enum { ELEMENTS = 75000 }; // 300 kB

static const struct {
    double value;
    int64_t number;
    const char *text;
} contents[2] = {{1.25, 1, "this is A"}, {-3e30, -2, "here is B"}};

static const char *const one_name[] = {"weights"};

static kiln_tensor *weights(int which)
{
    kiln_tensor *t = kiln_full(dev, KILN_F32, KILN_SHAPE(ELEMENTS), contents[which].value);
    NEED(t != NULL);
    return t;
}

static kiln_checkpoint *checkpoint(int which)
{
    kiln_checkpoint *c = kiln_checkpoint_create();
    kiln_tensor *t = weights(which);
    NEED(c && !kiln_checkpoint_put(c, one_name, &t, 1));
    NEED(!kiln_checkpoint_put_int(c, "number", contents[which].number));
    NEED(!kiln_checkpoint_put_string(c, "text", contents[which].text));
    kiln_free(&t);
    return c;
}

static kiln_status save_checkpoint(const char *path, int which)
{
    kiln_checkpoint *c = checkpoint(which);
    kiln_status status = kiln_checkpoint_save(c, path);
    kiln_checkpoint_free(&c);
    return status;
}

static kiln_status save(const char *kind, const char *path, int which)
{
    if (!strcmp(kind, "checkpoint")) return save_checkpoint(path, which);
    kiln_tensor *t = weights(which);
    kiln_status status;
    if (!strcmp(kind, "npy"))
        status = kiln_npy_save(path, t);
    else if (!strcmp(kind, "npz"))
        status = kiln_npz_save(path, one_name, &t, 1, NULL);
    else
        status = kiln_safetensors_save(path, one_name, &t, 1);
    kiln_free(&t);
    return status;
}

// Of the tensor whole, which is freed; ends the process where it is neither.
static int which_tensor(kiln_tensor *t)
{
    static float got[ELEMENTS];
    NEED(t && kiln_numel(t) == ELEMENTS && !kiln_read(t, got, sizeof got));
    int which = got[0] == (float)contents[1].value;
    for (int i = 0; i < ELEMENTS; i++) NEED(got[i] == (float)contents[which].value);
    kiln_free(&t);
    return which;
}

static int which_checkpoint(const char *path)
{
    kiln_checkpoint *c = kiln_checkpoint_load(path);
    NEED(c != NULL);
    int which = which_tensor(kiln_checkpoint_get(c, dev, "weights"));
    int64_t number;
    NEED(!kiln_checkpoint_get_int(c, "number", &number) && number == contents[which].number);
    NEED(!strcmp(kiln_checkpoint_get_string(c, "text"), contents[which].text));
    kiln_checkpoint_free(&c);
    return which;
}

static int which_is(const char *kind, const char *path)
{
    if (!strcmp(kind, "checkpoint")) return which_checkpoint(path);
    if (!strcmp(kind, "npy")) return which_tensor(kiln_npy_load(dev, path));
    kiln_archive *a = !strcmp(kind, "npz") ? kiln_npz_load(path) : kiln_safetensors_load(path);
    NEED(a && kiln_archive_count(a) == 1);
    int which = which_tensor(kiln_archive_get(a, dev, "weights"));
    kiln_archive_free(&a);
    return which;
}

// --- killed

static double random_below(uint64_t *state, double limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return limit * (double)(*state >> 11) / 9007199254740992.0;
}

static int files_beside(const char *path)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    DIR *d = opendir(folder);
    int n = -1; // the file itself
    NEED(d != NULL);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

// Says when it is under way.
static void save_for_ever(kiln_checkpoint *const *c, const char *path, int ready)
{
    for (int i = 0;; i++) {
        if (kiln_checkpoint_save(c[i % 2], path)) _exit(1);
        if (i == 0) NEED(write(ready, "", 1) == 1);
    }
}

static pid_t start_saver(kiln_checkpoint *const *c, const char *path)
{
    int ends[2];
    char byte;
    NEED(!pipe(ends));
    pid_t child = fork();
    NEED(child >= 0);
    if (child == 0) save_for_ever(c, path, ends[1]);
    close(ends[1]);
    NEED(read(ends[0], &byte, 1) == 1);
    close(ends[0]);
    return child;
}

// A process is killed within the time of some saves, so that it meets every part of one. The file is A or B after each,
// and what such a process leaves beside it goes with the next save.
static void kill_savers(const char *path, int count, uint64_t seed)
{
    kiln_checkpoint *c[] = {checkpoint(1), checkpoint(0)};
    int seen[2] = {0}, left = 0, status;
    double start_s = clock_s();
    for (int i = 0; i < 4; i++) NEED(!kiln_checkpoint_save(c[i % 2], path));
    double limit_s = clock_s() - start_s;
    NEED(which_checkpoint(path) == 0 && files_beside(path) == 0);
    for (int i = 0; i < count; i++) {
        pid_t child = start_saver(c, path);
        double wait_s = random_below(&seed, limit_s);
        NEED(!nanosleep(&(struct timespec){(time_t)wait_s, (long)((wait_s - (double)(time_t)wait_s) * 1e9)}, NULL));
        kill(child, SIGKILL);
        NEED(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        seen[which_checkpoint(path)]++;
        int beside = files_beside(path);
        NEED(beside <= 1);
        left += beside;
    }
    NEED(!kiln_checkpoint_save(c[0], path) && which_checkpoint(path) == 1 && files_beside(path) == 0);
    printf("%d killed: A %d times, B %d times; %d in the midst of a file\n", count, seen[0], seen[1], left);
    NEED(seen[0] && seen[1] && left);
    for (int i = 0; i < 2; i++) kiln_checkpoint_free(&c[i]);
}

int main(int argc, char **argv)
{
    dev = kiln_device_open("cpu");
    NEED(dev && argc >= 4);
    if (!strcmp(argv[1], "kill")) {
        kill_savers(argv[2], atoi(argv[3]), strtoull(argv[4], NULL, 10));
    } else if (!strcmp(argv[1], "which")) {
        puts(which_is(argv[2], argv[3]) ? "B" : "A");
    } else if (save(argv[2], argv[3], argv[4][0] == 'B')) {
        fprintf(stderr, "%s\n", kiln_error_message());
        kiln_error_clear();
        kiln_device_close(&dev);
        return 1;
    }
    kiln_device_close(&dev);
    return 0;
}
