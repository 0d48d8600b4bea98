// Protocol buffers. Nothing that the file says is believed: a length is compared with what is left of the message
// around it, so that no message reaches beyond another.
#include "onnx/wire.h"
#include <stdio.h>
#include <string.h>

kiln_status wire_bad(const struct wire *w, const unsigned char *at, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(KILN_E_FORMAT, "%s: at byte %zu: %s", w->where, (size_t)(at - w->file), text);
}

static kiln_status take_varint(struct wire *w, uint64_t *v)
{
    const unsigned char *begin = w->at;
    *v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (w->at == w->end) return wire_bad(w, begin, "a number is cut off");
        unsigned char byte = *w->at++;
        if (shift == 63 && byte > 1) return wire_bad(w, begin, "a number has more than 64 bits");
        *v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return KILN_OK;
    }
    return wire_bad(w, begin, "a number has more than 10 bytes");
}

static kiln_status take_fixed(struct wire *w, size_t size_B, uint64_t *v)
{
    if ((size_t)(w->end - w->at) < size_B) return wire_bad(w, w->at, "a number of %zu bytes is cut off", size_B);
    *v = 0;
    for (size_t i = 0; i < size_B; i++) *v |= (uint64_t)w->at[i] << 8 * i;
    w->at += size_B;
    return KILN_OK;
}

static kiln_status take_bytes(struct wire *w, struct wire_field *f)
{
    uint64_t size_B;
    TRY(take_varint(w, &size_B));
    size_t left = (size_t)(w->end - w->at);
    if (size_B > left)
        return wire_bad(w, f->begin, "field %u has %llu bytes, its message ends after %zu", (unsigned)f->number,
                        (unsigned long long)size_B, left);
    f->data = w->at;
    f->size_B = (size_t)size_B;
    w->at += size_B;
    return KILN_OK;
}

kiln_status wire_next(struct wire *w, struct wire_field *f, bool *more)
{
    uint64_t key;
    *more = w->at < w->end;
    if (!*more) return KILN_OK;
    *f = (struct wire_field){.begin = w->at};
    TRY(take_varint(w, &key));
    f->type = key & 7;
    if (key >> 3 == 0 || key >> 3 > 0x1fffffff)
        return wire_bad(w, f->begin, "there is no field %llu", (unsigned long long)(key >> 3));
    f->number = (uint32_t)(key >> 3);
    switch (f->type) {
    case WIRE_VARINT: return take_varint(w, &f->value);
    case WIRE_8: return take_fixed(w, 8, &f->value);
    case WIRE_4: return take_fixed(w, 4, &f->value);
    case WIRE_BYTES: return take_bytes(w, f);
    default:
        return wire_bad(w, f->begin, "field %u is of type %d, which is none of this format", (unsigned)f->number,
                        f->type);
    }
}

struct wire wire_message(const struct wire *w, const struct wire_field *f)
{
    return (struct wire){.at = f->data, .end = f->data + f->size_B, .file = w->file, .where = w->where};
}

kiln_status wire_expect(const struct wire *w, const struct wire_field *f, enum wire_type type)
{
    if (f->type == type) return KILN_OK;
    return wire_bad(w, f->begin, "field %u is of type %d, not %d", (unsigned)f->number, f->type, type);
}

kiln_status wire_numbers(const struct wire *w, const struct wire_field *f, enum wire_type item, wire_number_fn fn,
                         void *user)
{
    if (f->type != WIRE_BYTES) {
        TRY(wire_expect(w, f, item));
        return fn(user, f->value);
    }
    struct wire packed = wire_message(w, f);
    while (packed.at < packed.end) {
        uint64_t v;
        TRY(item == WIRE_VARINT ? take_varint(&packed, &v) : take_fixed(&packed, item == WIRE_8 ? 8 : 4, &v));
        TRY(fn(user, v));
    }
    return KILN_OK;
}
