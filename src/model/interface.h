// What a captured function is beside its graphs: what a call gives, where the graph's inputs come from, what becomes of
// its outputs. As a struct, and as text, which a file holds.
//
// The text is a line an item, in the words of the text form of graphs; docs/guide/deployment.md has all of them. It may
// come from anywhere: reading checks what it can by itself, instance.c the rest against the graphs.
#pragma once
#include "base/str.h"
#include "ir/graph.h"
#include "jit/capture/capture.h"

// An input of the call.
struct face_input {
    const char *name;
    struct type type;
    int16_t symbols[MAX_RANK]; // 0, or 1 + index into the rules
    bool fixed;                // a number that the graph has built in
    double number;
    int64_t integer;
};

// A dimension that is open: the size for which the text was written, and its rule; see kiln_symbol.
struct face_rule {
    const char *name;
    int64_t seen, min, max, divisor, remainder; // max: INT64_MAX where there is none
};

enum face_from { FROM_INPUT, FROM_WEIGHT, FROM_GRADIENT, FROM_INPUT_GRADIENT };

// An input of the graph, in their order.
struct face_source {
    uint8_t from;
    int32_t index; // of the call's input, or the weight
    bool written, again, grad, gradient_read, changed, no_gradient;
};

struct face_result {
    const char *name;
    struct result r;  // without layout where it has none
    bool placed;      // it has one
    uint32_t open;    // dimensions that go with open ones, a bit each
    const char *dims; // as they are told: "n,2*m+1,3"; NULL: none is open
};

struct face_target {
    struct target target;
    int32_t output; // of the backward graph; -1: none
};

// A result, or an input or state that was written, on the tape.
struct face_place {
    struct type type;
    int32_t value, dout;
    const char *used_up; // an op, or NULL
};

struct interface {
    struct kiln_graph *text; // the arena of the strings, and the symbols
    const char *name;        // of the function
    VEC(struct face_rule) rules;
    VEC(struct face_input) in;
    VEC(struct face_source) sources;
    VEC(struct face_result) results;
    VEC(struct left_gradient) left;
    VEC(struct happened) happened;
    VEC(struct gradient_step) steps;
    VEC(struct face_target) targets;
    VEC(struct saved) saved;
    VEC(struct rewritten) rewritten;
    VEC(struct face_place) places;
    uint64_t counters;
    bool unlike;  // gradients of gradients would be wrong
    bool without; // it was captured where gradients are off
};
void interface_finish(struct interface *f);

// The weights of a model by name.
struct face_names {
    const char *(*name)(const void *user, int32_t weight);
    int32_t (*find)(const void *user, const char *name); // -1: there is none
    const void *user;
};

void interface_text(const struct interface *f, const struct face_names *weights, struct str *s);
// `sizes`: of symbols, NULL: those that were seen. `where` is for messages.
kiln_status interface_parse(const char *text, size_t size_B, const char *where, const struct face_names *weights,
                            const struct ir_sizes *sizes, struct interface *out);
