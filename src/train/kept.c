// What is kept, by kind: its tensors by name, and its numbers. Names in a checkpoint begin with that of the thing.
#include "train/kept.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"cell", "optimiser", "average", "loader", "generator", "tensor", "int", "double"};

static kiln_status no_memory(void)
{
    return error_set(KILN_E_MEMORY, "training: no memory for what is kept");
}

// --- naming what is kept

static kiln_status check_name(const char *function, const kiln_training *t, const char *name)
{
    if (!name || !name[0]) return error_set(KILN_E_ARGUMENT, "%s: the name is %s", function, name ? "empty" : "NULL");
    char shown[4 * NAME_MAX_B + 8];
    snprintf(shown, sizeof shown, "%.*s", NAME_MAX_B, name);
    text_escape(shown, sizeof shown);
    if (strcmp(shown, name) != 0)
        return error_set(KILN_E_ARGUMENT,
                         "%s: the name is longer than %d bytes, no UTF-8, or holds control characters: "
                         "\"%s\"",
                         function, NAME_MAX_B, shown);
    if (strchr(name, '.') || !strcmp(name, "training"))
        return error_set(KILN_E_ARGUMENT, "%s: \"%s\" cannot be the name of what is kept: %s", function, name,
                         strchr(name, '.') ? "it holds a dot" : "it is taken");
    for (size_t i = 0; i < t->n_kept; i++)
        if (!strcmp(t->kept[i].name, name))
            return error_set(KILN_E_ARGUMENT, "%s: \"%s\" is kept already, a %s", function, name,
                             kinds[t->kept[i].kind]);
    return KILN_OK;
}

static kiln_status add(const char *function, kiln_training *t, const char *name, struct train_kept k)
{
    TRY(check_name(function, t, name));
    struct train_kept *grown = realloc(t->kept, (t->n_kept + 1) * sizeof *grown);
    if (grown) t->kept = grown;
    k.name = strdup(name);
    if (!grown || !k.name) {
        free(k.name);
        return no_memory();
    }
    t->kept[t->n_kept++] = k;
    return KILN_OK;
}

// Before the loop has begun; `what` must not be NULL.
static kiln_status check(const char *function, const kiln_training *t, const void *what, const char *argument)
{
    TRY(training_check(function, t));
    if (!what) return error_set(KILN_E_ARGUMENT, "%s: the %s is NULL", function, argument);
    if (t->begun)
        return error_set(KILN_E_STATE, "%s: the training has begun; what is kept is named before its loop", function);
    return KILN_OK;
}

kiln_status kiln_training_keep_cell(kiln_training *t, const char *name, kiln_cell *cell)
{
    TRY(check("training_keep_cell", t, cell, "cell"));
    kiln_cell_state(cell, NULL, NULL, 0); // whether it lives
    if (error_pending) return error_pending;
    return add("training_keep_cell", t, name, (struct train_kept){.kind = KEPT_CELL, .cell = cell});
}

kiln_status kiln_training_keep_optim(kiln_training *t, const char *name, kiln_optim *opt)
{
    TRY(check("training_keep_optim", t, opt, "optimiser"));
    kiln_optim_steps(opt);
    if (error_pending) return error_pending;
    return add("training_keep_optim", t, name, (struct train_kept){.kind = KEPT_OPTIM, .opt = opt});
}

kiln_status kiln_training_keep_average(kiln_training *t, const char *name, kiln_average *average)
{
    TRY(check("training_keep_average", t, average, "average"));
    kiln_average_updates(average);
    if (error_pending) return error_pending;
    return add("training_keep_average", t, name, (struct train_kept){.kind = KEPT_AVERAGE, .average = average});
}

kiln_status kiln_training_keep_loader(kiln_training *t, const char *name, kiln_loader *loader)
{
    TRY(check("training_keep_loader", t, loader, "loader"));
    kiln_loader_samples(loader);
    if (error_pending) return error_pending;
    return add("training_keep_loader", t, name, (struct train_kept){.kind = KEPT_LOADER, .loader = loader});
}

kiln_status kiln_training_keep_generator(kiln_training *t, const char *name, kiln_generator *g)
{
    TRY(check("training_keep_generator", t, g, "generator"));
    TRY(kiln_generator_state(g, NULL, NULL));
    return add("training_keep_generator", t, name, (struct train_kept){.kind = KEPT_GENERATOR, .generator = g});
}

kiln_status kiln_training_keep_tensor(kiln_training *t, const char *name, kiln_tensor *x)
{
    TRY(check("training_keep_tensor", t, x, "tensor"));
    kiln_tensor *own = kiln_alias(x);
    if (own) kiln_own(own);
    if (!own) return error_pending;
    if (add("training_keep_tensor", t, name, (struct train_kept){.kind = KEPT_TENSOR, .tensor = own})) kiln_free(&own);
    return error_pending;
}

kiln_status kiln_training_keep_int(kiln_training *t, const char *name, int64_t *value)
{
    TRY(check("training_keep_int", t, value, "value"));
    return add("training_keep_int", t, name, (struct train_kept){.kind = KEPT_INT, .whole = value});
}

kiln_status kiln_training_keep_double(kiln_training *t, const char *name, double *value)
{
    TRY(check("training_keep_double", t, value, "value"));
    return add("training_keep_double", t, name, (struct train_kept){.kind = KEPT_DOUBLE, .number = value});
}

void kept_finish(kiln_training *t)
{
    for (size_t i = 0; i < t->n_kept; i++) {
        if (t->kept[i].kind == KEPT_TENSOR) kiln_free(&t->kept[i].tensor);
        free(t->kept[i].name);
    }
    free(t->kept);
}

int64_t kept_batches(const kiln_training *t)
{
    for (size_t i = 0; i < t->n_kept; i++)
        if (t->kept[i].kind == KEPT_LOADER) return kiln_loader_batches(t->kept[i].loader);
    return 0;
}

kiln_status kept_text(const kiln_training *t, struct str *s)
{
    for (size_t i = 0; i < t->n_kept; i++)
        str_addf(s, "%s%s %s", i ? ", " : "", kinds[t->kept[i].kind], t->kept[i].name);
    return str_check(s);
}

// --- tensors

// The state of one thing: how many there are, and up to `max` of them.
static size_t state_of(const struct train_kept *k, const char **names, kiln_tensor **tensors, size_t max)
{
    switch (k->kind) {
    case KEPT_CELL: return kiln_cell_state(k->cell, names, tensors, max);
    case KEPT_OPTIM: return kiln_optim_state(k->opt, names, tensors, max);
    case KEPT_AVERAGE: return kiln_average_state(k->average, names, tensors, max);
    case KEPT_TENSOR:
        if (names && max) names[0] = "tensor";
        if (tensors && max) tensors[0] = k->tensor;
        return 1;
    default: return 0;
    }
}

static kiln_status list_one(const struct train_kept *k, struct kept_tensors *out)
{
    size_t n = state_of(k, NULL, NULL, 0);
    if (error_pending) return error_pending;
    if (!n) return KILN_OK;
    const char **names = calloc(n, sizeof *names);
    char **all = realloc(out->names, (out->n + n) * sizeof *all);
    if (all) out->names = all;
    kiln_tensor **tensors = realloc(out->tensors, (out->n + n) * sizeof *tensors);
    if (tensors) out->tensors = tensors;
    bool good = names && all && tensors;
    if (good) state_of(k, names, tensors + out->n, n);
    for (size_t i = 0; i < n && good; i++) {
        good = asprintf(&all[out->n], "%s.%s", k->name, names[i]) >= 0;
        out->n += good;
    }
    free(names);
    return good ? error_pending : no_memory();
}

kiln_status kept_list(const kiln_training *t, bool weights, struct kept_tensors *out)
{
    for (size_t i = 0; i < t->n_kept; i++)
        if (!weights || t->kept[i].kind != KEPT_OPTIM) TRY(list_one(&t->kept[i], out));
    return KILN_OK;
}

void kept_list_free(struct kept_tensors *list)
{
    for (size_t i = 0; i < list->n; i++) free(list->names[i]);
    free(list->names);
    free(list->tensors);
    *list = (struct kept_tensors){0};
}

// --- numbers. Each kind says what it has to one who puts, looks or gets: `numbers` goes both ways.

struct visitor {
    kiln_checkpoint *to;
    const kiln_checkpoint *from;
    const char *name; // of the thing
};

static kiln_status visit_double(const struct visitor *v, const char *what, size_t i, double *value)
{
    char name[NAME_MAX_B + 64];
    snprintf(name, sizeof name, "%s.%s%zu", v->name, what, i);
    return v->to ? kiln_checkpoint_put_double(v->to, name, *value) : kiln_checkpoint_get_double(v->from, name, value);
}

static kiln_status visit_int(const struct visitor *v, const char *what, int64_t *value)
{
    char name[NAME_MAX_B + 64];
    snprintf(name, sizeof name, "%s.%s", v->name, what);
    return v->to ? kiln_checkpoint_put_int(v->to, name, *value) : kiln_checkpoint_get_int(v->from, name, value);
}

// What a plateau remembers.
static kiln_status visit_schedule(const struct visitor *v, kiln_schedule *schedule, size_t group, bool set)
{
    double state[8] = {0};
    size_t n = schedule ? kiln_schedule_state(schedule, state, COUNT_OF(state)) : 0;
    if (n > COUNT_OF(state)) return error_set(KILN_E_INTERNAL, "training: a schedule with %zu numbers", n);
    for (size_t i = 0; i < n; i++) TRY(visit_double(v, "schedule", group * COUNT_OF(state) + i, &state[i]));
    return set && n ? kiln_schedule_set_state(schedule, state, n) : error_pending;
}

// A group follows the rate of the first where it stands to it as it stood then.
static bool follows(kiln_optim *opt, const double *rates, size_t i)
{
    double first = kiln_optim_group_lr(opt, 0), own = kiln_optim_group_lr(opt, i), a = own * rates[0],
           b = rates[i] * first;
    return fabs(a - b) <= 1e-12 * fabs(a);
}

// A rate that no schedule gives was set by hand.
static kiln_status set_rates(kiln_optim *opt, const double *rates, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (kiln_optim_schedule(opt, i) || kiln_optim_group_lr(opt, i) == rates[i] || (i && follows(opt, rates, i)))
            continue;
        TRY(i ? kiln_optim_set_group_lr(opt, i, rates[i]) : kiln_optim_set_lr(opt, rates[i]));
    }
    return error_pending;
}

static kiln_status visit_optim(const struct visitor *v, kiln_optim *opt, bool set)
{
    int64_t steps = kiln_optim_steps(opt);
    size_t n = kiln_optim_groups(opt);
    if (error_pending) return error_pending;
    double *rates = calloc(n + 1, sizeof *rates);
    if (!rates) return no_memory();
    kiln_status status = visit_int(v, "steps", &steps);
    for (size_t i = 0; i < n && !status; i++) {
        rates[i] = kiln_optim_group_lr(opt, i);
        status = visit_double(v, "lr", i, &rates[i]);
        if (!status) status = visit_schedule(v, kiln_optim_schedule(opt, i), i, set);
    }
    if (!status && set) status = kiln_optim_set_steps(opt, steps);
    if (!status && set) status = set_rates(opt, rates, n);
    free(rates);
    return status;
}

static kiln_status visit_loader(const struct visitor *v, kiln_loader *loader, bool set)
{
    kiln_loader_state s = {.size = sizeof s};
    TRY(kiln_loader_get_state(loader, &s));
    int64_t seed = (int64_t)s.seed, epoch = (int64_t)s.epoch;
    TRY(visit_int(v, "seed", &seed));
    TRY(visit_int(v, "epoch", &epoch));
    TRY(visit_int(v, "position", &s.position));
    s.seed = (uint64_t)seed;
    s.epoch = (uint64_t)epoch;
    return set ? kiln_loader_set_state(loader, &s) : KILN_OK;
}

static kiln_status visit_generator(const struct visitor *v, kiln_generator *g, bool set)
{
    uint64_t seed, offset;
    TRY(kiln_generator_state(g, &seed, &offset));
    int64_t numbers[] = {(int64_t)seed, (int64_t)offset};
    TRY(visit_int(v, "seed", &numbers[0]));
    TRY(visit_int(v, "offset", &numbers[1]));
    return set ? kiln_generator_set_state(g, (uint64_t)numbers[0], (uint64_t)numbers[1]) : KILN_OK;
}

static kiln_status visit_average(const struct visitor *v, kiln_average *average, bool set)
{
    int64_t updates = kiln_average_updates(average);
    if (kiln_average_is_in(average))
        return error_set(KILN_E_STATE, "training: the averages of \"%s\" are in the parameters; swap them out first",
                         v->name);
    TRY(visit_int(v, "updates", &updates));
    return set ? kiln_average_set_updates(average, updates) : KILN_OK;
}

static kiln_status visit(const struct visitor *v, const struct train_kept *k, bool set)
{
    int64_t whole = k->kind == KEPT_INT ? *k->whole : 0;
    double number = k->kind == KEPT_DOUBLE ? *k->number : 0;
    switch (k->kind) {
    case KEPT_OPTIM: return visit_optim(v, k->opt, set);
    case KEPT_AVERAGE: return visit_average(v, k->average, set);
    case KEPT_LOADER: return visit_loader(v, k->loader, set);
    case KEPT_GENERATOR: return visit_generator(v, k->generator, set);
    case KEPT_INT:
        TRY(visit_int(v, "value", &whole));
        if (set) *k->whole = whole;
        return KILN_OK;
    case KEPT_DOUBLE:
        TRY(visit_double(v, "value", 0, &number));
        if (set) *k->number = number;
        return KILN_OK;
    default: return KILN_OK;
    }
}

kiln_status kept_put(const kiln_training *t, kiln_checkpoint *c)
{
    for (size_t i = 0; i < t->n_kept; i++)
        TRY(visit(&(struct visitor){.to = c, .name = t->kept[i].name}, &t->kept[i], false));
    return KILN_OK;
}

kiln_status kept_get(const kiln_training *t, const kiln_checkpoint *c, bool set)
{
    for (size_t i = 0; i < t->n_kept; i++)
        TRY(visit(&(struct visitor){.from = c, .name = t->kept[i].name}, &t->kept[i], set));
    return KILN_OK;
}
