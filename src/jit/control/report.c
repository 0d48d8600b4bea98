// kiln_debug_print and kiln_assert.
#include "base/caller.h"
#include "base/str.h"
#include "jit/control/host.h"
#include "tensor/flow.h"
#include <kiln/host.h>
#include <kiln/ops.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static size_t count_places(const char *format)
{
    size_t n = 0;
    for (const char *at = format; (at = strstr(at, "{}")); at += 2) n++;
    return n;
}

// The text, with the values in place of {}.
static kiln_status put_values(struct str *s, const char *format, kiln_tensor *const *values)
{
    for (const char *place; (place = strstr(format, "{}")); format = place + 2) {
        char *text = kiln_to_string(*values++);
        if (!text) return error_pending;
        str_addf(s, "%.*s%s", (int)(place - format), format, text);
        free(text);
    }
    str_add(s, format);
    return str_check(s);
}

static kiln_status print(const struct host_call *h, kiln_device *dev, kiln_tensor *const *in, size_t n_in,
                         kiln_tensor **out)
{
    struct str s;
    (void)dev, (void)n_in, (void)out;
    str_init(&s);
    kiln_status status = put_values(&s, h->text, in);
    if (!status && (fputs(s.text ? s.text : "", h->user) < 0 || putc('\n', h->user) == EOF))
        status = error_set(KILN_E_IO, "debug_print: the text could not be written");
    str_free(&s);
    return status;
}

static kiln_status fail(const struct host_call *h, kiln_tensor *const *values)
{
    char place[CALLER_TEXT_MAX], trip[FLOW_TEXT_MAX];
    struct str s;
    str_init(&s);
    kiln_status status = put_values(&s, h->text, values);
    host_call_where(h, place, sizeof place);
    if (!status)
        status = error_set(KILN_E_ASSERT, "assert at %s%s: %s", place, flow_text(trip, sizeof trip),
                           s.text ? s.text : "it does not hold");
    str_free(&s);
    return status;
}

static kiln_status check(const struct host_call *h, kiln_device *dev, kiln_tensor *const *in, size_t n_in,
                         kiln_tensor **out)
{
    (void)dev, (void)n_in, (void)out;
    kiln_tensor *all = kiln_all(in[0], NULL);
    bool holds = all && kiln_item(all) != 0;
    if (error_pending) return error_pending;
    return holds ? KILN_OK : fail(h, in + 1);
}

static kiln_status report(const struct host_call *h, kiln_tensor *cond, size_t n, va_list values)
{
    size_t first = cond != NULL;
    kiln_tensor **in = calloc(first + n + 1, sizeof *in);
    if (!in) return error_set(KILN_E_MEMORY, "%s: out of memory", h->kind->name);
    kiln_status status = KILN_OK;
    if (cond) in[0] = cond;
    for (size_t i = 0; i < n && !status; i++) {
        char name[32];
        snprintf(name, sizeof name, "value %zu", i);
        in[first + i] = va_arg(values, kiln_tensor *);
        status = tensor_check(h->kind->name, name, in[first + i]);
    }
    if (!status) status = host_call_take(h, in, first + n, NULL);
    free(in);
    return status;
}

static const struct host_kind print_kind = {.name = "debug_print", .run = print};
static const struct host_kind assert_kind = {.name = "assert", .run = check};

bool host_report_like(const char *kind, struct host_call *out)
{
    bool prints = !strcmp(kind, print_kind.name);
    *out = (struct host_call){
        .kind = prints ? &print_kind : &assert_kind, .user = prints ? stdout : NULL, .text = "", .effect = true};
    return prints || !strcmp(kind, assert_kind.name);
}

bool host_report_fits(const struct host_call *h, size_t n_in)
{
    return n_in == count_places(h->text) + (h->kind == &assert_kind);
}

bool host_call_is_report(const struct host_call *h)
{
    return h->kind == &print_kind || h->kind == &assert_kind;
}

kiln_status kiln_debug_print(const char *format, ...)
{
    va_list values;
    if (error_pending) return error_pending;
    if (!format) return error_set(KILN_E_ARGUMENT, "debug_print: format is NULL");
    const struct host_call h = {
        .kind = &print_kind, .user = stdout, .text = format, .effect = true, .caller = caller_find()};
    va_start(values, format);
    kiln_status status = report(&h, NULL, count_places(format), values);
    va_end(values);
    return status;
}

kiln_status kiln_assert(kiln_tensor *cond, const char *format, ...)
{
    char text[TYPE_TEXT_MAX];
    va_list values;
    if (error_pending) return error_pending;
    if (!format) return error_set(KILN_E_ARGUMENT, "assert: format is NULL");
    TRY(tensor_check("assert", "cond", cond));
    if (cond->type.dtype != KILN_BOOL)
        return error_set(KILN_E_DTYPE, "assert: cond is %s, not bool; compare it with something",
                         type_text(&cond->type, text, sizeof text));
    const struct host_call h = {.kind = &assert_kind, .text = format, .effect = true, .caller = caller_find()};
    va_start(values, format);
    kiln_status status = report(&h, cond, count_places(format), values);
    va_end(values);
    return status;
}
