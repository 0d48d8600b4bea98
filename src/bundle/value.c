// The values of entries: made of what the caller gives, shared by contents, gone with the last.
#include "base/options.h"
#include "bundle/bundle.h"
#include <stdlib.h>
#include <string.h>

const char *bundle_kind_name(uint8_t kind)
{
    static const char *const names[] = {"none",   "a tensor", "an int",   "a double",
                                        "a bool", "a string", "a bundle", "a pointer"};
    return kind < COUNT_OF(names) ? names[kind] : "no kind";
}

static struct bundle_value *value_new(uint8_t kind)
{
    struct bundle_value *v = calloc(1, sizeof *v);
    if (!v) return NULL;
    atomic_init(&v->refs, 1);
    v->kind = kind;
    return v;
}

struct bundle_value *bundle_value_slot(uint8_t kind, kiln_tensor *t)
{
    struct bundle_value *v = value_new(kind);
    if (!v) return NULL;
    v->slot = true;
    v->tensor = t;
    return v;
}

struct bundle_value *bundle_value_of(struct bundle_content *c)
{
    struct bundle_value *v = value_new(KILN_KIND_BUNDLE);
    if (v) v->bundle = c;
    return v;
}

struct bundle_value *bundle_value_ref(struct bundle_value *v)
{
    atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
    return v;
}

void bundle_value_unref(struct bundle_value *v)
{
    if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1) return;
    if (v->tensor) tensor_destroy(v->tensor);
    if (v->kind == KILN_KIND_STRING) free(v->string);
    if (v->kind == KILN_KIND_BUNDLE) bundle_content_unref(v->bundle);
    void *pointer = v->kind == KILN_KIND_POINTER ? v->pointer : NULL;
    void (*release)(void *pointer) = v->kind == KILN_KIND_POINTER ? v->release : NULL;
    free(v);
    if (release) release(pointer); // it may free other bundles
}

void bundle_value_reject(struct bundle_value *v)
{
    bool mine = v->kind == KILN_KIND_POINTER && atomic_load_explicit(&v->refs, memory_order_acquire) == 1;
    if (mine) v->release = NULL;
    bundle_value_unref(v);
}

// As deep as bundles are nested, which is bounded.
void bundle_content_unref(struct bundle_content *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
    for (size_t i = 0; i < c->entries.n; i++) {
        bundle_name_unref(c->entries.v[i].name);
        bundle_value_unref(c->entries.v[i].value);
    }
    vec_free(&c->entries);
    free(c->places);
    free(c);
}

static uint8_t kind_of_number(const kiln_tensor *t)
{
    return t->type.dtype == KILN_F64 ? KILN_KIND_DOUBLE : t->type.dtype == KILN_I64 ? KILN_KIND_INT : KILN_KIND_BOOL;
}

// A number that programs take at run time, or through which gradients flow, stays a tensor.
static kiln_status make_tensor(const char *function, kiln_tensor *t, struct bundle_value **out)
{
    TRY(tensor_check_any(function, "the tensor", t));
    bool number = !t->storage && !t->builder;
    if (number && !t->run_time && !t->node && !t->family) {
        struct bundle_value *v = *out = value_new(kind_of_number(t));
        if (!v) return error_set(KILN_E_MEMORY, "%s: out of memory", function);
        if (v->kind == KILN_KIND_DOUBLE)
            v->number = t->number;
        else
            v->integer = t->integer;
        return KILN_OK;
    }
    kiln_tensor *mine = kiln_alias(t);
    if (!mine) return error_pending;
    kiln_own(mine);
    *out = bundle_value_slot(number ? kind_of_number(t) : KILN_KIND_TENSOR, mine);
    if (*out) return KILN_OK;
    tensor_destroy(mine);
    return error_set(KILN_E_MEMORY, "%s: out of memory", function);
}

static kiln_status make_mutable(const char *function, const kiln_value *from, struct bundle_value **out)
{
    kiln_tensor *t = from->kind == KILN_KIND_INT      ? kiln_scalar_int(from->integer)
                     : from->kind == KILN_KIND_DOUBLE ? kiln_scalar(from->number)
                                                      : kiln_scalar_bool(from->integer != 0);
    if (!t) return error_pending;
    t->run_time = true;
    kiln_status status = make_tensor(function, t, out);
    tensor_destroy(t);
    return status;
}

static kiln_status check(const char *function, const kiln_value *from)
{
    if ((unsigned)from->kind > KILN_KIND_POINTER)
        return error_set(KILN_E_ARGUMENT, "%s: %d is not one of kiln_kind", function, (int)from->kind);
    bool number = from->kind >= KILN_KIND_INT && from->kind <= KILN_KIND_BOOL;
    if (from->is_mutable && !number)
        return error_set(KILN_E_ARGUMENT, "%s: %s is mutable, which numbers are", function,
                         bundle_kind_name((uint8_t)from->kind));
    if (from->kind == KILN_KIND_STRING && !from->string)
        return error_set(KILN_E_ARGUMENT, "%s: the string is NULL", function);
    return KILN_OK;
}

static kiln_status make_plain(const char *function, const kiln_value *from, struct bundle_value *v)
{
    switch (v->kind) {
    case KILN_KIND_INT: v->integer = from->integer; break;
    case KILN_KIND_BOOL: v->integer = from->integer != 0; break;
    case KILN_KIND_DOUBLE: v->number = from->number; break;
    case KILN_KIND_STRING:
        v->string = strdup(from->string);
        if (!v->string) return error_set(KILN_E_MEMORY, "%s: out of memory", function);
        break;
    case KILN_KIND_POINTER:
        v->pointer = from->pointer;
        v->release = from->release;
        break;
    default: break;
    }
    return KILN_OK;
}

kiln_status bundle_value_make(const char *function, const kiln_value *given, struct bundle_value **out)
{
    kiln_value from;
    *out = NULL;
    TRY(sized_check_as(function, "value", "kiln_value", given));
    TRY(options_read_as(function, "kiln_value", &from, sizeof from, given));
    TRY(check(function, &from));
    if (from.kind == KILN_KIND_TENSOR) return make_tensor(function, from.tensor, out);
    if (from.is_mutable) return make_mutable(function, &from, out);
    struct bundle_content *c = NULL;
    if (from.kind == KILN_KIND_BUNDLE) {
        TRY(bundle_check(function, "the value", from.bundle));
        TRY(bundle_read(function, from.bundle, &c));
    }
    struct bundle_value *v = value_new((uint8_t)from.kind);
    if (!v) return error_set(KILN_E_MEMORY, "%s: out of memory", function);
    if (c) v->bundle = bundle_content_ref(c);
    kiln_status status = make_plain(function, &from, v);
    if (status)
        bundle_value_unref(v);
    else
        *out = v;
    return status;
}
