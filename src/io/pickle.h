// A reader of Python's pickles, protocols 2 to 5, that makes no objects: it gives back what the pickle says as a tree.
#pragma once
#include "base/base.h"

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_FLOAT,
    PICKLE_TEXT,
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT,       // items: keys and values in turn
    PICKLE_GLOBAL,     // text: module and name, a line feed between them
    PICKLE_CALL,       // items: a global and a tuple
    PICKLE_PERSISTENT, // items: what it is known by
};

struct pickle_value {
    uint8_t kind;
    bool broken; // an integer above 64 bits
    bool owned;  // text is freed
    union {
        int64_t integer;
        double number;
        struct { // not ended by a 0: most lie in the pickle
            const char *text;
            size_t n_text;
        };
        struct {
            uint32_t *items; // numbers of values
            size_t n, cap;
        };
    };
};

struct pickle {
    struct pickle_value *values; // values[0] is None
    size_t n, cap;
    uint32_t root;
};

// Refuses with an error a global that the caller does not know.
typedef kiln_status (*pickle_global_fn)(const char *where, const char *text, size_t n);

// `bytes` must outlive the result, which pickle_free frees, after an error too.
kiln_status pickle_read(const char *where, const unsigned char *bytes, size_t size_B, pickle_global_fn global,
                        struct pickle *out);
void pickle_free(struct pickle *p);

bool pickle_is(const struct pickle_value *v, const char *text); // a text or a global of these letters
// Item i of v, None where there is none.
const struct pickle_value *pickle_item(const struct pickle *p, const struct pickle_value *v, size_t i);
