// Printing of tensors: their values are read, and written as text. In a capture that is an effect of the host's, with
// the options of the call, and those of the process when it happens.
#include "base/caller.h"
#include "base/options.h"
#include "ir/host.h"
#include "tensor/decode.h"
#include "tensor/print.h"
#include "tensor/tensor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What is printed of bytes: the numbers that they are. *type becomes theirs, *data as long as they need.
static kiln_status decode(const char *function, const kiln_tensor *t, struct type *type, void **data)
{
    int64_t n = type_numel(type);
    bool packed = shown_is_packed(t->shown);
    void *bytes = *data, *numbers = n > INT64_MAX / 4 ? NULL : malloc((size_t)n * (packed ? 2 : sizeof(float)));
    if (!numbers) return error_set(KILN_E_MEMORY, "%s: no memory for %" PRId64 " numbers", function, n);
    if (packed)
        decode_pairs(t->shown, bytes, n, numbers);
    else
        decode_floats(t->shown, bytes, n, numbers);
    type->dtype = !packed ? KILN_F32 : t->shown == SHOWN_I4 ? KILN_I8 : KILN_U8;
    memcpy(type->dims, tensor_shown_dims(t), type->rank * sizeof *type->dims);
    free(bytes);
    *data = numbers;
    return KILN_OK;
}

static kiln_status format_tensor(const char *function, struct str *out, const kiln_tensor *t,
                                 const kiln_print_opts *opts)
{
    kiln_print_opts o;
    if (error_pending) return error_pending;
    TRY(tensor_check_any(function, "t", t));
    TRY(print_options_read(function, opts, &o));
    struct type type;
    type_copy(&type, &t->type);
    uint64_t size_B;
    TRY(type_size_B(&type, &size_B));
    void *data = NULL;
    if (size_B) {
        data = malloc(size_B);
        if (!data) return error_set(KILN_E_MEMORY, "%s: no memory for %" PRIu64 " bytes", function, size_B);
        kiln_status status = tensor_read(t, data);
        if (status) {
            error_name_op(function);
            free(data);
            return status;
        }
    }
    kiln_status status = size_B && shown_is_stored(t->shown) ? decode(function, t, &type, &data) : KILN_OK;
    if (!status) status = tensor_format(out, &type, t->shown == SHOWN_COMPLEX, data, &o);
    free(data);
    return status;
}

static kiln_status print(const char *function, const kiln_tensor *t, FILE *f, const kiln_print_opts *opts)
{
    struct str text;
    str_init(&text);
    if (format_tensor(function, &text, t, opts) == KILN_OK) {
        str_add(&text, "\n");
        if (str_check(&text) == KILN_OK && fwrite(text.text, 1, text.len, f) != text.len)
            error_set(KILN_E_IO, "%s: the file could not be written: %s", function, strerror(errno));
    }
    str_free(&text);
    return error_pending;
}

// Options are a part of the call as text, by which calls are compared.
#define OPTIONS_TEXT "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %d %d"

static kiln_status print_at_run(const struct host_call *h, kiln_device *dev, kiln_tensor *const *in, size_t n_in,
                                kiln_tensor **out)
{
    (void)dev, (void)n_in, (void)out;
    kiln_print_opts o = {.size = sizeof o};
    int notation = 0, sign = 0;
    sscanf(h->text, OPTIONS_TEXT, &o.precision, &o.threshold, &o.edge, &o.width, &notation, &sign);
    o.notation = (kiln_print_notation)notation;
    o.sign = (kiln_print_sign)sign;
    kiln_tensor *shown = tensor_shown_as(in[0], (enum shown_as)h->flags);
    return shown ? print("print", shown, h->user, &o) : error_pending;
}

static kiln_status print_later(struct sink *sink, const kiln_tensor *t, FILE *f, const kiln_print_opts *opts)
{
    static const struct host_kind kind = {.name = "print", .run = print_at_run};
    kiln_print_opts o;
    char text[128];
    TRY(options_read("print", KILN_PRINT, &o, opts));
    snprintf(text, sizeof text, OPTIONS_TEXT, o.precision, o.threshold, o.edge, o.width, (int)o.notation, (int)o.sign);
    const struct host_call h = {.kind = &kind,
                                .user = f,
                                .flags = t->shown,
                                .text = text,
                                .effect = true,
                                .folds = true,
                                .caller = caller_find()};
    kiln_tensor *in = (kiln_tensor *)(uintptr_t)t;
    return sink->capture->host(sink, &h, &in, 1, NULL);
}

static kiln_status print_as(const char *function, const kiln_tensor *t, FILE *f, const kiln_print_opts *opts)
{
    kiln_print_opts checked;
    struct sink *sink = thread_state.sink;
    if (error_pending) return error_pending;
    if (!f) return error_set(KILN_E_ARGUMENT, "%s: the file is NULL", function);
    TRY(print_options_read(function, opts, &checked));
    bool alive = t && t->magic == TENSOR_ALIVE;
    if (!alive || !sink || !sink->capture || !sink->capture->host) return print(function, t, f, opts);
    return print_later(sink, t, f, opts);
}

kiln_status kiln_print_with(const kiln_tensor *t, FILE *f, const kiln_print_opts *opts)
{
    return print_as("print_with", t, f, opts);
}

void kiln_print(const kiln_tensor *t, FILE *f)
{
    (void)print_as("print", t, f, NULL);
}

static char *to_string(const char *function, const kiln_tensor *t, const kiln_print_opts *opts)
{
    struct str text;
    str_init(&text);
    if (!format_tensor(function, &text, t, opts)) return text.text;
    str_free(&text);
    return NULL;
}

char *kiln_to_string_with(const kiln_tensor *t, const kiln_print_opts *opts)
{
    return to_string("to_string_with", t, opts);
}

char *kiln_to_string(const kiln_tensor *t)
{
    return to_string("to_string", t, NULL);
}
