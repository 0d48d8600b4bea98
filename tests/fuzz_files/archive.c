// What fuzzers of archives do: whatever loads is saved and loaded again, and must be the same.
#include "fuzz_file.h"

struct contents {
    size_t n;
    const char **names;
    kiln_tensor **tensors;
    bool whole; // all loaded, under names that may be saved
};

static struct contents read_all(kiln_archive *a)
{
    struct contents c = {.n = kiln_archive_count(a), .whole = true};
    c.names = calloc(c.n + 1, sizeof *c.names);
    c.tensors = calloc(c.n + 1, sizeof *c.tensors);
    NEED(c.names && c.tensors);
    for (size_t i = 0; i < c.n; i++) {
        c.names[i] = kiln_archive_name(a, i);
        NEED(c.names[i] && kiln_archive_has(a, c.names[i]));
        c.tensors[i] = kiln_archive_tensor(a, NULL, i);
        if (!c.tensors[i]) FUZZ_REFUSED(FUZZ_BAD_FILE);
        c.whole &= c.tensors[i] && *c.names[i];
    }
    for (size_t i = 0; i < kiln_archive_metadata_count(a); i++) {
        const char *key = NULL, *value = NULL;
        NEED(!kiln_archive_metadata(a, i, &key, &value) && key && value);
    }
    return c;
}

static void forget(struct contents *c)
{
    for (size_t i = 0; i < c->n; i++) kiln_free(&c->tensors[i]);
    free(c->names);
    free(c->tensors);
}

static void save_and_load(const struct contents *c, fuzz_load_fn load, fuzz_save_fn save)
{
    NEED(!save(fuzz_saved[0], c->names, c->tensors, c->n));
    kiln_archive *a = load(fuzz_saved[0]);
    NEED(a != NULL);
    struct contents again = read_all(a);
    NEED(again.whole && again.n == c->n);
    for (size_t i = 0; i < c->n; i++) {
        kiln_tensor *t = kiln_archive_get(a, NULL, c->names[i]);
        NEED(t != NULL);
        fuzz_need_same_tensors(t, c->tensors[i]);
        kiln_free(&t);
    }
    NEED(!save(fuzz_saved[1], again.names, again.tensors, again.n));
    fuzz_need_same_files(fuzz_saved[0], fuzz_saved[1]);
    forget(&again);
    kiln_archive_free(&a);
}

void fuzz_archive(const char *path, fuzz_load_fn load, fuzz_save_fn save)
{
    fuzz_foreign_archive(path, load, load, save);
}

void fuzz_foreign_archive(const char *path, fuzz_load_fn load, fuzz_load_fn load_saved, fuzz_save_fn save)
{
    kiln_archive *a = load(path);
    if (!a) {
        FUZZ_REFUSED(FUZZ_BAD_FILE);
        return;
    }
    struct contents c = read_all(a);
    if (c.whole) save_and_load(&c, load_saved, save);
    forget(&c);
    kiln_archive_free(&a);
}
