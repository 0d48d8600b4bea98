// What is in a bundle.
#include "base/options.h"
#include "base/text.h"
#include "bundle/find.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *bundle_show_name(const char *name, char shown[BUNDLE_TEXT_MAX])
{
    size_t n = strnlen(name, BUNDLE_TEXT_MAX - 4);
    memcpy(shown, name, n);
    strcpy(shown + n, name[n] ? "..." : "");
    text_escape(shown, BUNDLE_TEXT_MAX);
    return shown;
}

kiln_status bundle_find(const char *function, const kiln_bundle *b, const char *name, size_t *at)
{
    struct bundle_content *c;
    char shown[BUNDLE_TEXT_MAX], there[BUNDLE_TEXT_MAX];
    TRY(bundle_read(function, b, &c));
    if (!name) return error_set(KILN_E_ARGUMENT, "%s: name is NULL", function);
    int64_t i = bundle_content_find(c, name);
    *at = (size_t)i;
    if (i >= 0) return KILN_OK;
    const char *some = NULL;
    for (size_t k = 0; k < c->entries.n && c->n_named && !some; k++)
        if (c->entries.v[k].name) some = c->entries.v[k].name->text;
    if (!some)
        return error_set(KILN_E_ARGUMENT, "%s: there is no entry \"%s\"; none of the %zu has a name", function,
                         bundle_show_name(name, shown), c->entries.n);
    return error_set(KILN_E_ARGUMENT, "%s: there is no entry \"%s\"; \"%s\" is one", function,
                     bundle_show_name(name, shown), bundle_show_name(some, there));
}

kiln_status bundle_find_at(const char *function, const kiln_bundle *b, int64_t index, size_t *at)
{
    struct bundle_content *c;
    TRY(bundle_read(function, b, &c));
    int64_t n = (int64_t)c->entries.n, i = index < 0 ? index + n : index;
    *at = (size_t)i;
    if (index >= -n && index < n) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: index %lld is out of range for %lld entr%s", function, (long long)index,
                     (long long)n, n == 1 ? "y" : "ies");
}

static kiln_tensor *tensor_of(const struct bundle_value *v)
{
    if (v->slot) return kiln_alias(v->tensor);
    return v->kind == KILN_KIND_INT      ? kiln_scalar_int(v->integer)
           : v->kind == KILN_KIND_DOUBLE ? kiln_scalar(v->number)
                                         : kiln_scalar_bool(v->integer != 0);
}

kiln_status bundle_show_value(const char *function, const struct bundle_value *v, kiln_value *out)
{
    *out = (kiln_value){.size = sizeof *out, .kind = (kiln_kind)v->kind};
    switch (v->kind) {
    case KILN_KIND_INT:
    case KILN_KIND_BOOL:
        if (!v->slot) out->integer = v->integer;
        break;
    case KILN_KIND_DOUBLE:
        if (!v->slot) out->number = v->number;
        break;
    case KILN_KIND_STRING: out->string = v->string; break;
    case KILN_KIND_POINTER: out->pointer = v->pointer; break;
    case KILN_KIND_BUNDLE:
        if (!(out->bundle = bundle_handle_on(bundle_content_ref(v->bundle)))) return error_pending;
        break;
    default: break;
    }
    if (v->slot && !(out->tensor = tensor_of(v))) return error_pending;
    out->is_mutable = v->slot && v->kind != KILN_KIND_TENSOR;
    return KILN_OK;
}

size_t kiln_bundle_count(const kiln_bundle *b)
{
    struct bundle_content *c;
    return bundle_read("bundle_count", b, &c) ? 0 : c->entries.n;
}

bool kiln_bundle_has(const kiln_bundle *b, const char *name)
{
    struct bundle_content *c;
    if (bundle_read("bundle_has", b, &c)) return false;
    if (!name) error_set(KILN_E_ARGUMENT, "bundle_has: name is NULL");
    return name && bundle_content_find(c, name) >= 0;
}

int64_t kiln_bundle_index(const kiln_bundle *b, const char *name)
{
    size_t at;
    return bundle_find("bundle_index", b, name, &at) ? -1 : (int64_t)at;
}

const char *kiln_bundle_name(const kiln_bundle *b, int64_t index)
{
    size_t at;
    if (bundle_find_at("bundle_name", b, index, &at)) return NULL;
    const struct bundle_name *n = b->box->content->entries.v[at].name;
    return n ? n->text : NULL;
}

static kiln_status get(const char *function, const kiln_bundle *b, size_t at, kiln_value *out)
{
    kiln_value value;
    TRY(sized_check_as(function, "out", "kiln_value", out));
    TRY(bundle_show_value(function, b->box->content->entries.v[at].value, &value));
    sized_fill(out, &value, sizeof value);
    return KILN_OK;
}

kiln_status kiln_bundle_get(const kiln_bundle *b, const char *name, kiln_value *out)
{
    size_t at;
    TRY(bundle_find("bundle_get", b, name, &at));
    return get("bundle_get", b, at, out);
}

kiln_status kiln_bundle_get_at(const kiln_bundle *b, int64_t index, kiln_value *out)
{
    size_t at;
    TRY(bundle_find_at("bundle_get_at", b, index, &at));
    return get("bundle_get_at", b, at, out);
}

// Where the entry is: by name, or by index where there is no name.
struct entry_place {
    const char *function, *name;
    int64_t index;
};
#define BY_NAME(f)       \
    (struct entry_place) \
    {                    \
        f, name, 0       \
    }
#define BY_INDEX(f)      \
    (struct entry_place) \
    {                    \
        f, NULL, index   \
    }

// The value of an entry of one of these kinds, a bit each; NULL and an error otherwise.
static const struct bundle_value *find(const kiln_bundle *b, struct entry_place p, bool by_name, unsigned kinds,
                                       const char *wanted)
{
    size_t at;
    char which[BUNDLE_TEXT_MAX + 32], shown[BUNDLE_TEXT_MAX];
    if (by_name ? bundle_find(p.function, b, p.name, &at) : bundle_find_at(p.function, b, p.index, &at)) return NULL;
    const struct bundle_entry *e = &b->box->content->entries.v[at];
    if (kinds >> e->value->kind & 1) return e->value;
    if (e->name)
        snprintf(which, sizeof which, "\"%s\"", bundle_show_name(e->name->text, shown));
    else
        snprintf(which, sizeof which, "%zu", at);
    error_set(KILN_E_ARGUMENT, "%s: entry %s is %s, not %s", p.function, which, bundle_kind_name(e->value->kind),
              wanted);
    return NULL;
}

#define ANY     0xffu
#define NUMBERS (1u << KILN_KIND_INT | 1u << KILN_KIND_DOUBLE | 1u << KILN_KIND_BOOL)
#define INTS    (1u << KILN_KIND_INT | 1u << KILN_KIND_BOOL)

static kiln_kind kind_of(const kiln_bundle *b, struct entry_place p, bool by_name)
{
    const struct bundle_value *v = find(b, p, by_name, ANY, "");
    return v ? (kiln_kind)v->kind : KILN_KIND_NONE;
}

kiln_kind kiln_bundle_kind(const kiln_bundle *b, const char *name)
{
    return kind_of(b, BY_NAME("bundle_kind"), true);
}

kiln_kind kiln_bundle_kind_at(const kiln_bundle *b, int64_t index)
{
    return kind_of(b, BY_INDEX("bundle_kind_at"), false);
}

static kiln_tensor *tensor_at(const kiln_bundle *b, struct entry_place p, bool by_name)
{
    const struct bundle_value *v = find(b, p, by_name, NUMBERS | 1u << KILN_KIND_TENSOR, "a tensor or a number");
    return v ? tensor_of(v) : NULL;
}

kiln_tensor *kiln_bundle_tensor(const kiln_bundle *b, const char *name)
{
    return tensor_at(b, BY_NAME("bundle_tensor"), true);
}

kiln_tensor *kiln_bundle_tensor_at(const kiln_bundle *b, int64_t index)
{
    return tensor_at(b, BY_INDEX("bundle_tensor_at"), false);
}

static int64_t int_at(const kiln_bundle *b, struct entry_place p, bool by_name)
{
    const struct bundle_value *v = find(b, p, by_name, INTS, "an int");
    return !v ? 0 : v->slot ? kiln_item_int(v->tensor) : v->integer;
}

int64_t kiln_bundle_int(const kiln_bundle *b, const char *name)
{
    return int_at(b, BY_NAME("bundle_int"), true);
}

int64_t kiln_bundle_int_at(const kiln_bundle *b, int64_t index)
{
    return int_at(b, BY_INDEX("bundle_int_at"), false);
}

static double double_at(const kiln_bundle *b, struct entry_place p, bool by_name)
{
    const struct bundle_value *v = find(b, p, by_name, NUMBERS, "a number");
    if (!v) return NAN;
    return v->slot ? kiln_item(v->tensor) : v->kind == KILN_KIND_DOUBLE ? v->number : (double)v->integer;
}

double kiln_bundle_double(const kiln_bundle *b, const char *name)
{
    return double_at(b, BY_NAME("bundle_double"), true);
}

double kiln_bundle_double_at(const kiln_bundle *b, int64_t index)
{
    return double_at(b, BY_INDEX("bundle_double_at"), false);
}

static bool bool_at(const kiln_bundle *b, struct entry_place p, bool by_name)
{
    const struct bundle_value *v = find(b, p, by_name, 1u << KILN_KIND_BOOL, "a bool");
    return v && (v->slot ? kiln_item_int(v->tensor) : v->integer) != 0;
}

bool kiln_bundle_bool(const kiln_bundle *b, const char *name)
{
    return bool_at(b, BY_NAME("bundle_bool"), true);
}

bool kiln_bundle_bool_at(const kiln_bundle *b, int64_t index)
{
    return bool_at(b, BY_INDEX("bundle_bool_at"), false);
}

static const char *string_at(const kiln_bundle *b, struct entry_place p, bool by_name)
{
    const struct bundle_value *v = find(b, p, by_name, 1u << KILN_KIND_STRING, "a string");
    return v ? v->string : NULL;
}

const char *kiln_bundle_string(const kiln_bundle *b, const char *name)
{
    return string_at(b, BY_NAME("bundle_string"), true);
}

const char *kiln_bundle_string_at(const kiln_bundle *b, int64_t index)
{
    return string_at(b, BY_INDEX("bundle_string_at"), false);
}

static kiln_bundle *bundle_at(const kiln_bundle *b, struct entry_place p, bool by_name)
{
    const struct bundle_value *v = find(b, p, by_name, 1u << KILN_KIND_BUNDLE, "a bundle");
    return v ? bundle_handle_on(bundle_content_ref(v->bundle)) : NULL;
}

kiln_bundle *kiln_bundle_bundle(const kiln_bundle *b, const char *name)
{
    return bundle_at(b, BY_NAME("bundle_bundle"), true);
}

kiln_bundle *kiln_bundle_bundle_at(const kiln_bundle *b, int64_t index)
{
    return bundle_at(b, BY_INDEX("bundle_bundle_at"), false);
}

static void *pointer_at(const kiln_bundle *b, struct entry_place p, bool by_name)
{
    const struct bundle_value *v = find(b, p, by_name, 1u << KILN_KIND_POINTER, "a pointer");
    return v ? v->pointer : NULL;
}

void *kiln_bundle_pointer(const kiln_bundle *b, const char *name)
{
    return pointer_at(b, BY_NAME("bundle_pointer"), true);
}

void *kiln_bundle_pointer_at(const kiln_bundle *b, int64_t index)
{
    return pointer_at(b, BY_INDEX("bundle_pointer_at"), false);
}
