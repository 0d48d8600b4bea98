// Contents and lists of tensors: a function of bundles is one of tensors, with a form around it.
#include "bundle/find.h"
#include <string.h>

kiln_status bundle_flatten(const struct bundle_content *c, bundle_tensors *out)
{
    for (size_t i = 0; i < c->entries.n && c->n_slots; i++) {
        const struct bundle_value *v = c->entries.v[i].value;
        if (v->slot) TRY(vec_push(out, v->tensor));
        if (v->kind == KILN_KIND_BUNDLE) TRY(bundle_flatten(v->bundle, out));
    }
    return KILN_OK;
}

// A copy in which each value that is no bundle is what `fn` makes of it: a new reference, or NULL and an error.
struct mapping {
    struct bundle_value *(*fn)(struct mapping *m, struct bundle_value *v);
    bool (*skips)(const struct bundle_content *c); // it stays what it is
    kiln_tensor **tensors;
    bool take;
};

static struct bundle_content *map(struct mapping *m, struct bundle_content *c);

static struct bundle_value *map_value(struct mapping *m, struct bundle_value *v)
{
    if (v->kind != KILN_KIND_BUNDLE) return m->fn(m, v);
    if (m->skips(v->bundle)) return bundle_value_ref(v);
    struct bundle_content *inside = map(m, v->bundle);
    struct bundle_value *made = inside ? bundle_value_of(inside) : NULL;
    if (inside && !made) {
        bundle_content_unref(inside);
        error_set(KILN_E_MEMORY, "out of memory for a bundle");
    }
    return made;
}

static struct bundle_content *map(struct mapping *m, struct bundle_content *from)
{
    if (m->skips(from)) return bundle_content_ref(from);
    struct bundle_content *c = bundle_content_copy(from);
    if (c) c->n_slots = 0;
    for (size_t i = 0; c && i < c->entries.n; i++) {
        struct bundle_value *before = c->entries.v[i].value, *v = map_value(m, before);
        if (!v) {
            bundle_content_unref(c);
            return NULL;
        }
        c->entries.v[i].value = v;
        c->n_slots += v->slot + (v->kind == KILN_KIND_BUNDLE ? v->bundle->n_slots : 0);
        bundle_value_unref(before);
    }
    return c;
}

static bool has_no_slots(const struct bundle_content *c)
{
    return c->n_slots == 0;
}

static bool has_nothing(const struct bundle_content *c)
{
    return c->n_entries == 0;
}

static struct bundle_value *new_slot(uint8_t kind, kiln_tensor *t)
{
    struct bundle_value *v = bundle_value_slot(kind, t);
    if (!v) error_set(KILN_E_MEMORY, "out of memory for a bundle");
    return v;
}

static struct bundle_value *without_tensor(struct mapping *m, struct bundle_value *v)
{
    (void)m;
    return v->slot ? new_slot(v->kind, NULL) : bundle_value_ref(v);
}

struct bundle_content *bundle_strip(struct bundle_content *c)
{
    struct mapping m = {.fn = without_tensor, .skips = has_no_slots};
    return map(&m, c);
}

static struct bundle_value *with_tensor(struct mapping *m, struct bundle_value *v)
{
    if (!v->slot) return bundle_value_ref(v);
    kiln_tensor *t = m->take ? *m->tensors : kiln_alias(*m->tensors);
    if (!t) return NULL;
    if (!m->take) kiln_own(t);
    struct bundle_value *made = new_slot(v->kind, t);
    if (!made && !m->take) tensor_destroy(t);
    if (!made) return NULL;
    if (m->take) *m->tensors = NULL;
    m->tensors++;
    return made;
}

struct bundle_content *bundle_fill(struct bundle_content *mould, kiln_tensor **tensors, bool take)
{
    struct mapping m = {.fn = with_tensor, .skips = has_no_slots, .tensors = tensors, .take = take};
    return map(&m, mould);
}

static struct bundle_value *loosened(struct mapping *m, struct bundle_value *v)
{
    struct bundle_value *made;
    kiln_value value = {.size = sizeof value, .kind = (kiln_kind)v->kind, .is_mutable = true};
    (void)m;
    if (v->slot || v->kind < KILN_KIND_INT || v->kind > KILN_KIND_BOOL) return bundle_value_ref(v);
    if (v->kind == KILN_KIND_DOUBLE)
        value.number = v->number;
    else
        value.integer = v->integer;
    return bundle_value_make("mutable_bundle", &value, &made) ? NULL : made;
}

struct bundle_content *bundle_loosen(struct bundle_content *c)
{
    struct mapping m = {.fn = loosened, .skips = has_nothing};
    return map(&m, c);
}

// Where an entry is, from the outermost bundle on.
struct path {
    const struct path *outer;
    const struct bundle_entry *entry;
    size_t index;
};

static void add_path(const struct path *p, struct str *out)
{
    char shown[BUNDLE_TEXT_MAX];
    if (!p) return;
    add_path(p->outer, out);
    if (p->entry->name)
        str_addf(out, "[\"%s\"]", bundle_show_name(p->entry->name->text, shown));
    else
        str_addf(out, "[%zu]", p->index);
}

static void add_value(const struct bundle_value *v, struct str *out)
{
    char shown[BUNDLE_TEXT_MAX];
    if (v->slot && v->kind != KILN_KIND_TENSOR) {
        str_addf(out, "a mutable%s", strchr(bundle_kind_name(v->kind), ' '));
        return;
    }
    switch (v->kind) {
    case KILN_KIND_INT: str_addf(out, "%lld", (long long)v->integer); break;
    case KILN_KIND_DOUBLE: str_addf(out, "%.17g", v->number); break;
    case KILN_KIND_BOOL: str_add(out, v->integer ? "true" : "false"); break;
    case KILN_KIND_STRING: str_addf(out, "\"%s\"", bundle_show_name(v->string, shown)); break;
    case KILN_KIND_POINTER: str_addf(out, "%p", v->pointer); break;
    default: str_add(out, bundle_kind_name(v->kind)); break;
    }
}

static bool same_plain(const struct bundle_value *a, const struct bundle_value *b)
{
    if (a == b) return true;
    if (a->kind != b->kind || a->slot != b->slot) return false;
    if (a->slot) return true;
    switch (a->kind) {
    case KILN_KIND_INT:
    case KILN_KIND_BOOL: return a->integer == b->integer;
    // Not by ==, which tells NaN from itself and takes -0 for 0.
    case KILN_KIND_DOUBLE: return !memcmp(&a->number, &b->number, sizeof a->number);
    case KILN_KIND_STRING: return !strcmp(a->string, b->string);
    case KILN_KIND_POINTER: return a->pointer == b->pointer;
    default: return true;
    }
}

static bool same_name(const struct bundle_name *a, const struct bundle_name *b)
{
    return a == b || (a && b && a->hash == b->hash && !strcmp(a->text, b->text));
}

static bool is_like(const struct bundle_content *mould, const struct bundle_content *c, const struct path *outer,
                    struct bundle_difference *d)
{
    if (mould == c) return true;
    if (mould->entries.n != c->entries.n) {
        if (!d) return false;
        add_path(outer, &d->path);
        d->what = BUNDLE_COUNTS;
        str_addf(&d->was, "%zu entr%s", mould->entries.n, mould->entries.n == 1 ? "y" : "ies");
        str_addf(&d->is, "%zu", c->entries.n);
        return false;
    }
    for (size_t i = 0; i < c->entries.n; i++) {
        const struct bundle_entry *a = &mould->entries.v[i], *b = &c->entries.v[i];
        const struct path here = {outer, a, i};
        bool named_alike = same_name(a->name, b->name);
        if (named_alike && a->value->kind == KILN_KIND_BUNDLE && b->value->kind == KILN_KIND_BUNDLE) {
            if (!is_like(a->value->bundle, b->value->bundle, &here, d)) return false;
            continue;
        }
        if (named_alike && same_plain(a->value, b->value)) continue;
        if (!d) return false;
        add_path(&here, &d->path);
        d->what = named_alike ? BUNDLE_VALUES : BUNDLE_NAMES;
        if (!named_alike) return false;
        add_value(a->value, &d->was);
        add_value(b->value, &d->is);
        return false;
    }
    return true;
}

bool bundle_differs(const struct bundle_content *mould, const struct bundle_content *c, struct bundle_difference *d)
{
    *d = (struct bundle_difference){0};
    str_init(&d->path);
    str_init(&d->was);
    str_init(&d->is);
    return !is_like(mould, c, NULL, d);
}

void bundle_difference_finish(struct bundle_difference *d)
{
    str_free(&d->path);
    str_free(&d->was);
    str_free(&d->is);
}

bool bundle_is_like(const struct bundle_content *mould, const struct bundle_content *c, struct str *why)
{
    struct bundle_difference d;
    if (!why) return is_like(mould, c, NULL, NULL);
    bool differs = bundle_differs(mould, c, &d);
    if (differs) str_add(why, str_text(&d.path));
    if (differs && d.what == BUNDLE_NAMES)
        str_add(why, " has another name");
    else if (differs && d.what == BUNDLE_COUNTS)
        str_addf(why, " had %s, has %s", str_text(&d.was), str_text(&d.is));
    else if (differs)
        str_addf(why, " was %s, is %s", str_text(&d.was), str_text(&d.is));
    bundle_difference_finish(&d);
    return !differs;
}

static const struct bundle_value *name_slot(const struct bundle_content *c, size_t slot, const struct path *outer,
                                            struct str *out)
{
    for (size_t i = 0; i < c->entries.n; i++) {
        const struct bundle_value *v = c->entries.v[i].value;
        const struct path here = {outer, &c->entries.v[i], i};
        size_t n = v->kind == KILN_KIND_BUNDLE ? v->bundle->n_slots : v->slot;
        if (slot >= n) {
            slot -= n;
            continue;
        }
        if (v->kind == KILN_KIND_BUNDLE) return name_slot(v->bundle, slot, &here, out);
        add_path(&here, out);
        return v;
    }
    return NULL;
}

const struct bundle_value *bundle_name_slot(const struct bundle_content *c, size_t slot, struct str *out)
{
    return name_slot(c, slot, NULL, out);
}
