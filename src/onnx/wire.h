// Protocol buffers as they lie in a file: fields with a number, each a varint, 4 or 8 bytes, or bytes with a length.
#pragma once
#include "base/base.h"

struct wire {
    const unsigned char *at, *end;
    const unsigned char *file; // where the file begins, for messages
    const char *where;         // begins them
};

enum wire_type { WIRE_VARINT = 0, WIRE_8 = 1, WIRE_BYTES = 2, WIRE_4 = 5 };

struct wire_field {
    uint32_t number;
    uint8_t type;              // enum wire_type
    uint64_t value;            // of a VARINT, or the bits of a WIRE_8 or WIRE_4
    const unsigned char *data; // of WIRE_BYTES
    size_t size_B;
    const unsigned char *begin;
};

// The next field of the message, or *more false at its end. KILN_E_FORMAT for what is no field, or leaves the message.
kiln_status wire_next(struct wire *w, struct wire_field *f, bool *more);
// The field as a message of its own.
struct wire wire_message(const struct wire *w, const struct wire_field *f);
// KILN_E_FORMAT unless the field is of that type.
kiln_status wire_expect(const struct wire *w, const struct wire_field *f, enum wire_type type);
kiln_status wire_bad(const struct wire *w, const unsigned char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A repeated number: packed in bytes, or a field for each. `fn` takes each value, `user` beside.
typedef kiln_status (*wire_number_fn)(void *user, uint64_t bits);
kiln_status wire_numbers(const struct wire *w, const struct wire_field *f, enum wire_type item, wire_number_fn fn,
                         void *user);
