// What was logged: a table of rows, whose columns come as names do.
#include "train/training.h"

#include <stdlib.h>
#include <string.h>

void history_finish(struct train_history *h)
{
    for (size_t i = 0; i < h->n_columns; i++) {
        struct train_column *c = &h->columns[i];
        for (size_t k = 0; k < c->n_waiting; k++) kiln_free(&c->waiting[k]);
        free(c->name);
        free(c->values);
        free(c->has);
    }
    free(h->columns);
    free(h->steps);
    free(h->epochs);
    free(h->seconds);
    *h = (struct train_history){0};
}

struct train_column *history_find(const struct train_history *h, const char *name)
{
    for (size_t i = 0; i < h->n_columns; i++)
        if (!strcmp(h->columns[i].name, name)) return &h->columns[i];
    return NULL;
}

static kiln_status no_memory(void)
{
    return error_set(KILN_E_MEMORY, "training: no memory for what was logged");
}

// The old array stays where there is no memory for a longer one.
static bool grow(void *array, size_t n, size_t item_B)
{
    void *old, *grown;
    memcpy(&old, array, sizeof old);
    grown = realloc(old, n * item_B);
    if (!grown) return false;
    memcpy(array, &grown, sizeof grown);
    return true;
}

struct train_column *history_column(struct train_history *h, const char *name)
{
    struct train_column *found = history_find(h, name);
    if (found) return found;
    struct train_column c = {.name = strdup(name)};
    size_t room = h->cap ? h->cap : 1;
    c.values = calloc(room, sizeof *c.values);
    c.has = calloc(room, sizeof *c.has);
    if (!c.name || !c.values || !c.has || !grow(&h->columns, h->n_columns + 1, sizeof c)) {
        free(c.name);
        free(c.values);
        free(c.has);
        no_memory();
        return NULL;
    }
    h->columns[h->n_columns] = c;
    return &h->columns[h->n_columns++];
}

static bool reserve(struct train_history *h, size_t n)
{
    bool good = grow(&h->steps, n, sizeof *h->steps) && grow(&h->epochs, n, sizeof *h->epochs) &&
                grow(&h->seconds, n, sizeof *h->seconds);
    for (size_t i = 0; i < h->n_columns && good; i++) {
        struct train_column *c = &h->columns[i];
        good = grow(&c->values, n, sizeof *c->values) && grow(&c->has, n, sizeof *c->has);
    }
    if (good) h->cap = n;
    return good;
}

kiln_status history_add_row(struct train_history *h, int64_t step, int64_t epoch, double seconds)
{
    if (h->n_rows == h->cap && !reserve(h, h->cap ? 2 * h->cap : 64)) return no_memory();
    size_t i = h->n_rows++;
    h->steps[i] = step;
    h->epochs[i] = epoch;
    h->seconds[i] = seconds;
    for (size_t k = 0; k < h->n_columns; k++) {
        h->columns[k].values[i] = 0;
        h->columns[k].has[i] = false;
    }
    return KILN_OK;
}
