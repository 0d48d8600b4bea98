// Programs of files. What is saved replaces a file: it is the old or the new one afterwards, whole, and nothing lies
// beside it.
#include "faults.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const formats[] = {"npy", "npz", "safetensors", "checkpoint"};
enum { FORMATS = sizeof formats / sizeof *formats, FILE_MAX = 1 << 16 };

static char *path_of(int format, const char *which)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s.%s", work_folder, which, formats[format]);
    return path;
}

static const char *const names[] = {"a", "b"};

static kiln_status save(kiln_tensor *const *t, int format, const char *path)
{
    if (format == 0) return kiln_npy_save(path, t[0]);
    if (format == 1) return kiln_npz_save(path, names, t, 2, KILN_NPZ(.compress = true));
    if (format == 2) return kiln_safetensors_save(path, names, t, 2);
    kiln_checkpoint *c = kiln_checkpoint_create();
    kiln_checkpoint_put(c, names, t, 2);
    kiln_checkpoint_put_int(c, "step", 7);
    kiln_checkpoint_put_string(c, "title", "of a checkpoint");
    kiln_checkpoint_save(c, path);
    kiln_checkpoint_free(&c);
    return kiln_error();
}

static bool saved[FORMATS];

static void save_all(const char *device, const char *which, float value)
{
    kiln_device *dev = kiln_device_open(device);
    kiln_tensor *t[] = {kiln_full(dev, KILN_F32, KILN_SHAPE(3, 4), value), kiln_arange(dev, KILN_F32, 0, 6, 1)};
    for (int i = 0; i < FORMATS; i++) saved[i] = !kiln_error() && !save(t, i, path_of(i, which));
    for (int i = 0; i < 2; i++) kiln_free(&t[i]);
    kiln_device_close(&dev);
}

static void prepare_save(const char *device)
{
    save_all(device, "old", 1);
    save_all(device, "new", 2);
}

static size_t read_file(const char *path, char *out)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(out, 1, FILE_MAX, f) : 0;
    if (f) fclose(f);
    return n;
}

// Takes away what the last run left.
static void reset_save(void)
{
    static char bytes[FILE_MAX];
    DIR *d = opendir(work_folder);
    for (struct dirent *e; (e = readdir(d));)
        if (!strncmp(e->d_name, "target", 6)) unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    for (int i = 0; i < FORMATS; i++) {
        size_t n = read_file(path_of(i, "old"), bytes);
        FILE *f = fopen(path_of(i, "target"), "wb");
        if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) abort();
    }
}

static bool holds(int format, const char *which)
{
    static char a[FILE_MAX], b[FILE_MAX];
    size_t n = read_file(path_of(format, "target"), a);
    return n == read_file(path_of(format, which), b) && n && !memcmp(a, b, n);
}

static const char *check_save(bool succeeded)
{
    int n = 0;
    for (int i = 0; i < FORMATS; i++) {
        if (saved[i] && !holds(i, "new")) return "what was said to be saved is not there";
        if (!holds(i, "new") && !holds(i, "old")) return "a file was damaged";
    }
    DIR *d = opendir(work_folder);
    for (struct dirent *e; (e = readdir(d));) n += !strncmp(e->d_name, "target", 6);
    closedir(d);
    return n == FORMATS ? NULL : "a temporary file is left";
}

static void run_save(const char *device, struct outcome *o)
{
    for (int i = 0; i < FORMATS; i++) saved[i] = false;
    save_all(device, "target", 2);
}

static void load_archive(kiln_device *dev, kiln_archive *a, struct outcome *o)
{
    for (int i = 0; i < 2; i++) {
        kiln_tensor *t = a ? kiln_archive_get(a, dev, names[i]) : NULL;
        outcome_add(o, t);
        kiln_free(&t);
    }
    kiln_archive_free(&a);
}

static void load_checkpoint(kiln_device *dev, struct outcome *o)
{
    kiln_checkpoint *c = kiln_checkpoint_load(path_of(3, "new"));
    kiln_tensor *a = kiln_zeros(dev, KILN_F32, KILN_SHAPE(3, 4)), *b = c ? kiln_checkpoint_get(c, dev, "b") : NULL;
    int64_t step = 0;
    if (c && !kiln_checkpoint_get_int(c, "step", &step)) o->out[o->n++] = (float)step;
    if (c && !kiln_checkpoint_restore(c, names, &a, 1)) outcome_add(o, a);
    outcome_add(o, b);
    kiln_free(&a);
    kiln_free(&b);
    kiln_checkpoint_free(&c);
}

static void run_load(const char *device, struct outcome *o)
{
    kiln_device *dev = kiln_device_open(device);
    kiln_tensor *t = kiln_npy_load(dev, path_of(0, "new"));
    outcome_add(o, t);
    kiln_free(&t);
    load_archive(dev, kiln_npz_load(path_of(1, "new")), o);
    load_archive(dev, kiln_safetensors_load(path_of(2, "new")), o);
    load_checkpoint(dev, o);
    kiln_device_close(&dev);
}

// Steps up to `last`, each of which adds 1: whether it goes on from a checkpoint or begins, the sum is their number.
static void train(kiln_device *dev, int64_t last, struct outcome *o)
{
    char path[128];
    snprintf(path, sizeof path, "%s/training", work_folder);
    kiln_tensor *sum = kiln_zeros(dev, KILN_F32, KILN_SHAPE0), *one = kiln_ones(dev, KILN_F32, KILN_SHAPE0);
    kiln_training *t = kiln_training_create(
        path, KILN_TRAINING(.steps = last, .checkpoint_every = 2, .log_every = 1, .resume = true, .progress = "none"));
    kiln_training_keep_tensor(t, "sum", sum);
    while (kiln_training_goes_on(t)) {
        kiln_add_(sum, one);
        kiln_training_log_tensor(t, "sum", sum);
        kiln_training_step(t);
    }
    double values[8] = {0};
    size_t n = t ? kiln_training_history(t, "sum", NULL, values, 8) : 0;
    for (size_t i = 0; i < n && i < 8; i++) o->out[o->n++] = (float)values[i];
    outcome_add(o, sum);
    kiln_training_free(&t);
    kiln_free(&sum);
    kiln_free(&one);
}

static void run_training(const char *device, struct outcome *o)
{
    kiln_device *dev = kiln_device_open(device);
    train(dev, 3, o);
    train(dev, 5, o);
    kiln_device_close(&dev);
}

static const char *each_training_file(bool remove)
{
    char path[128];
    const char *left = NULL;
    snprintf(path, sizeof path, "%s/training", work_folder);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strstr(e->d_name, ".tmp")) left = "a temporary file is left";
        if (remove) unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d) closedir(d);
    return left;
}

static void reset_training(void)
{
    each_training_file(true);
}

static const char *check_training(bool succeeded)
{
    return each_training_file(false);
}

const struct program io_programs[] = {
    {"save", run_save, prepare_save, reset_save, check_save},
    {"load", run_load, prepare_save},
    {"training", run_training, NULL, reset_training, check_training},
    {NULL},
};
