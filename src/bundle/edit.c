// Changes of a bundle. A change that fails leaves it as it was.
#include "base/options.h"
#include "bundle/bundle.h"
#include "bundle/find.h"

static struct bundle_value *given(const char *function, const kiln_value *value)
{
    struct bundle_value *v = NULL;
    return error_pending || bundle_value_make(function, value, &v) ? NULL : v;
}

// Takes the value, also when it fails.
static kiln_status add(const char *function, struct bundle_content *c, size_t at, const char *text,
                       struct bundle_value *v)
{
    int64_t there = text ? bundle_content_find(c, text) : -1;
    struct bundle_name *name = there < 0 && text ? bundle_name_new(function, text) : NULL;
    char shown[BUNDLE_TEXT_MAX];
    if (there >= 0)
        error_set(KILN_E_ARGUMENT, "%s: there is an entry named \"%s\" already, at index %lld", function,
                  bundle_show_name(text, shown), (long long)there);
    if (there >= 0 || (text && !name)) {
        bundle_value_reject(v);
        return error_pending;
    }
    kiln_status status = bundle_content_insert(function, c, at, name, v);
    bundle_name_unref(name);
    return status;
}

kiln_status kiln_bundle_append(kiln_bundle *b, const char *name, const kiln_value *value)
{
    static const char function[] = "bundle_append";
    if (error_pending) return error_pending;
    TRY(bundle_check(function, "b", b));
    struct bundle_value *v = given(function, value);
    struct bundle_content *c;
    if (!v) return error_pending;
    if (!bundle_write(function, b, &c)) return add(function, c, c->entries.n, name, v);
    bundle_value_reject(v);
    return error_pending;
}

kiln_status kiln_bundle_insert(kiln_bundle *b, int64_t index, const char *name, const kiln_value *value)
{
    static const char function[] = "bundle_insert";
    if (error_pending) return error_pending;
    TRY(bundle_check(function, "b", b));
    int64_t n = (int64_t)b->box->content->entries.n;
    if (index < -n || index > n)
        return error_set(KILN_E_ARGUMENT, "%s: index %lld is out of range for %lld entries", function, (long long)index,
                         (long long)n);
    struct bundle_value *v = given(function, value);
    struct bundle_content *c;
    if (!v) return error_pending;
    if (!bundle_write(function, b, &c)) return add(function, c, (size_t)(index < 0 ? index + n : index), name, v);
    bundle_value_reject(v);
    return error_pending;
}

static kiln_status set(const char *function, kiln_bundle *b, const char *name, struct bundle_value *v)
{
    struct bundle_content *c;
    if (bundle_write(function, b, &c)) {
        bundle_value_reject(v);
        return error_pending;
    }
    int64_t at = bundle_content_find(c, name);
    return at < 0 ? add(function, c, c->entries.n, name, v) : bundle_content_replace(function, c, (size_t)at, v);
}

kiln_status kiln_bundle_set(kiln_bundle *b, const char *name, const kiln_value *value)
{
    static const char function[] = "bundle_set";
    if (error_pending) return error_pending;
    TRY(bundle_check(function, "b", b));
    if (!name) return error_set(KILN_E_ARGUMENT, "%s: name is NULL", function);
    struct bundle_value *v = given(function, value);
    return v ? set(function, b, name, v) : error_pending;
}

kiln_status kiln_bundle_set_at(kiln_bundle *b, int64_t index, const kiln_value *value)
{
    static const char function[] = "bundle_set_at";
    size_t at;
    TRY(bundle_find_at(function, b, index, &at));
    struct bundle_value *v = given(function, value);
    struct bundle_content *c;
    if (!v) return error_pending;
    if (!bundle_write(function, b, &c)) return bundle_content_replace(function, c, at, v);
    bundle_value_reject(v);
    return error_pending;
}

static kiln_status take(const char *function, kiln_bundle *b, size_t at, struct bundle_value **out)
{
    struct bundle_content *c;
    TRY(bundle_write(function, b, &c));
    *out = bundle_content_take(c, at);
    return KILN_OK;
}

static kiln_status drop(const char *function, kiln_bundle *b, size_t at)
{
    struct bundle_value *v;
    TRY(take(function, b, at, &v));
    bundle_value_unref(v);
    return KILN_OK;
}

kiln_status kiln_bundle_remove(kiln_bundle *b, const char *name)
{
    size_t at;
    TRY(bundle_find("bundle_remove", b, name, &at));
    return drop("bundle_remove", b, at);
}

kiln_status kiln_bundle_remove_at(kiln_bundle *b, int64_t index)
{
    size_t at;
    TRY(bundle_find_at("bundle_remove_at", b, index, &at));
    return drop("bundle_remove_at", b, at);
}

static kiln_status pop(const char *function, kiln_bundle *b, size_t at, kiln_value *out)
{
    struct bundle_value *v, *before = b->popped;
    kiln_value value;
    if (!out) return drop(function, b, at);
    TRY(sized_check_as(function, "out", "kiln_value", out));
    TRY(bundle_show_value(function, b->box->content->entries.v[at].value, &value));
    kiln_status status = take(function, b, at, &v);
    if (status) {
        kiln_free(&value.tensor);
        kiln_bundle_free(&value.bundle);
        return status;
    }
    b->popped = v;
    sized_fill(out, &value, sizeof value);
    bundle_value_unref(before);
    return KILN_OK;
}

kiln_status kiln_bundle_pop(kiln_bundle *b, const char *name, kiln_value *out)
{
    size_t at;
    TRY(bundle_find("bundle_pop", b, name, &at));
    return pop("bundle_pop", b, at, out);
}

kiln_status kiln_bundle_pop_at(kiln_bundle *b, int64_t index, kiln_value *out)
{
    size_t at;
    TRY(bundle_find_at("bundle_pop_at", b, index, &at));
    return pop("bundle_pop_at", b, at, out);
}

kiln_status kiln_bundle_reverse(kiln_bundle *b)
{
    struct bundle_content *c;
    TRY(bundle_write("bundle_reverse", b, &c));
    bundle_content_reverse(c);
    return KILN_OK;
}

static kiln_status extend(const char *function, struct bundle_content *c, const struct bundle_content *from)
{
    for (size_t i = 0; i < from->entries.n; i++) {
        const struct bundle_entry *e = &from->entries.v[i];
        int64_t at = e->name ? bundle_content_find(c, e->name->text) : -1;
        struct bundle_value *v = bundle_value_ref(e->value);
        TRY(at < 0 ? bundle_content_insert(function, c, c->entries.n, e->name, v)
                   : bundle_content_replace(function, c, (size_t)at, v));
    }
    return KILN_OK;
}

kiln_status kiln_bundle_extend(kiln_bundle *b, const kiln_bundle *from)
{
    static const char function[] = "bundle_extend";
    struct bundle_content *c, *more;
    if (error_pending) return error_pending;
    TRY(bundle_check(function, "b", b));
    TRY(bundle_check(function, "from", from));
    TRY(bundle_read(function, from, &more));
    bundle_content_ref(more);
    struct bundle_content *before = bundle_content_ref(b->box->content); // comes back when it fails
    kiln_status status = bundle_write(function, b, &c);
    if (!status && (status = extend(function, c, more))) bundle_box_fill(b->box, bundle_content_ref(before));
    bundle_content_unref(before);
    bundle_content_unref(more);
    return status;
}

static size_t bound(const int64_t *given_at, size_t otherwise, size_t n)
{
    if (!given_at) return otherwise;
    int64_t v = *given_at < 0 ? *given_at + (int64_t)n : *given_at;
    return v < 0 ? 0 : (uint64_t)v > n ? n : (size_t)v;
}

kiln_bundle *kiln_bundle_slice(const kiln_bundle *b, const int64_t *start, const int64_t *stop)
{
    static const char function[] = "bundle_slice";
    struct bundle_content *from, *c;
    if (bundle_read(function, b, &from) || !(c = bundle_content_new())) return NULL;
    size_t n = from->entries.n, end = bound(stop, n, n);
    for (size_t i = bound(start, 0, n); i < end; i++) {
        const struct bundle_entry *e = &from->entries.v[i];
        if (!bundle_content_insert(function, c, c->entries.n, e->name, bundle_value_ref(e->value))) continue;
        bundle_content_unref(c);
        return NULL;
    }
    return bundle_handle_on(c);
}
