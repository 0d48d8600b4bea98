// kiln-gen: what the build derives from the tables. Each part is a run of its own.
#pragma once
#include "codegen/catalogue/catalogue.h"

void gen_options_struct(struct str *s, const struct options_row *r);
void gen_structured_signature(struct str *s, const struct structured_row *r, const char *name);
// "type name, type name": the parameters of an elementwise op's function from place `first` on.
void gen_elementwise_names(struct str *s, const struct elementwise_row *r, const char *type, int first);
// What stands before the declaration of a name that was; `name` is what it is now.
void gen_deprecated(struct str *s, const char *name);
void gen_number_decls(struct str *s, const struct elementwise_row *r);
void gen_number_macros(struct str *s);
void gen_number_functions(struct str *s, const struct elementwise_row *r, int index);
void gen_api(struct str *s);                                                      // ops_api.c
kiln_status gen_header(struct catalogue *g, const char *path);                    // kiln/ops.h
kiln_status gen_tables(struct catalogue *g, const char *dir);                     // ops_table.c, ops_api.c
kiln_status gen_composites_header(const char *path);                              // kiln/composites.h
kiln_status gen_cxx_header(const char *path);                                     // kiln/ops.hpp
kiln_status gen_composites(const char *dir);                                      // composites.h, composites_api.c
kiln_status gen_cpu(struct catalogue *g, const char *dir);                        // cpu_*.c
kiln_status gen_spirv(struct catalogue *g, const char *dir, const char *shaders); // spirv_modules.*, *.comp
kiln_status gen_onnx(struct catalogue *g, const char *dir);                       // onnx_fns.h, onnx_table.c
kiln_status gen_write(const char *dir, const char *file, struct str *s);          // frees s

// The parameters of a row's public function, from its `args`.
enum param_kind {
    PARAM_TENSOR,
    PARAM_LIST,
    PARAM_DEVICE,
    PARAM_INT,
    PARAM_FLOAT,
    PARAM_BOOL,
    PARAM_INTS,
    PARAM_ARRAY, // int64_t[2] or [3]
    PARAM_DTYPE,
    PARAM_TEXT,
    PARAM_OPTIONS
};
struct param {
    enum param_kind kind;
    char name[32];
    char fallback[32]; // default of an option field, "" when zero
    bool is_size;      // "size", "sizes", "limit": a number that goes with the sizes of tensors
    bool is_list;      // "axes", "shifts": integers as one argument, a kiln_ints
    bool is_option;    // a field of options, which may be left out
    bool may_be_null;  // a tensor: `mask?`
    uint8_t count;     // of an array
    bool spreads;      // "all2", "all3": an array in which the first without the others stands for all
};
// Statements that spread the first of such fields of the options `o` of a function.
void gen_spread(struct str *s, const char *function, const char *options);
void gen_options_macro(struct str *s, const char *options);   // KILN_REDUCE
int gen_params(const char *args, struct param *out, int cap); // also for options fields ("axes:ints keepdims:bool")
// "kiln_tensor *function(...)", or with a status and places for the results where outs names some.
void gen_signature(struct str *s, const char *function, const struct param *p, int n, const char *outs);
const struct options_row *gen_options(const char *name);
bool gen_is_attr(enum param_kind k);
// The count and the values of integers that are no field of options: "n_count, n", or "n.count, n.v" of a list.
void gen_ints(struct str *s, const struct param *p);
// Parameters with options expanded in place: tensors to inputs, the rest to attributes.
struct flat {
    int n_in, n_required, n_attrs;
    char in[16][32];
    struct param attrs[16];
    bool list;
};
void gen_flatten(const char *args, struct flat *f); // f is zeroed
// seed and offset of a random op: op_apply fills them, its public function does not take them.
bool gen_is_reserved(const struct structured_row *r, const struct param *p);
