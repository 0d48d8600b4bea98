// What the parts of the C generator share: a kernel on its way to text.
#pragma once
#include "codegen/catalogue/c_plan.h"

enum c_form { C_FORM_POINTWISE, C_FORM_ROW, C_FORM_COL };

struct c_writer {
    struct str *out;
    const struct kernel *k;
    struct c_plan plan;
    enum c_form form;
    bool second;          // of two positions that a loop takes at once
    bool usual;           // no element is a rare case
    uint8_t *want, *skip; // n_nodes each
    uint8_t *marks;       // 2 * n_nodes
};

// The C type of a value of each class in memory.
extern const char *const c_element_type[CLASS_COUNT];

void c_open_function(struct c_writer *w, const char *type, const char *parameters);

// Whether the pass reads an input; pointers to those that it reads. In the column form they move with j.
bool c_reads_input(const struct c_writer *w, int input);
void c_declare_inputs(struct c_writer *w, const char *indent);

// Emits the row values of the pass that are the same in all rows (uniform) or that are not.
void c_emit_row(struct c_writer *w, bool uniform, const char *indent);

// Emits the element values of the pass; row values and kept values are in scope.
void c_emit_elements(struct c_writer *w, const char *indent);

// The same of two positions, each statement of both beside each other: t<node> of i, then u<node> of i + half.
void c_emit_two(struct c_writer *w, const char *indent);

void c_emit_ref(struct c_writer *w, int node);

// The whole function of a pointwise kernel.
void c_pointwise(struct c_writer *w);
