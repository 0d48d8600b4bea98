// What every row of the table of ops refuses: NULL, a freed handle, tensors of two devices, a pending error.
#include "bad_input.h"
#include "stored/stored.h"
#include "tensor/apply.h"
#include "tensor/tensor.h"

#define IN_MAX 16

// Calls the op with these inputs and attributes that are all zero.
static kiln_status call_into(const struct op *op, int n_in, kiln_tensor *const *in, kiln_tensor **out)
{
    struct attr attrs[32];
    for (int i = 0; i < op->n_attrs; i++)
        attrs[i] = op->attrs[i].kind == ATTR_INTS ? attr_of_ints(0, NULL)
                                                  : (struct attr){.kind = op->attrs[i].kind, .set = true};
    return op_apply(op, NULL, n_in, in, attrs, out);
}

static kiln_status call(const struct op *op, int n_in, kiln_tensor *const *in)
{
    kiln_tensor *out[OP_MAX_OUT];
    kiln_status status = call_into(op, n_in, in, out);
    for (int i = 0; i < op->n_out; i++) assert_null(out[i]);
    return status;
}

static void expect(const struct op *op, kiln_status got, kiln_status code, const char *part)
{
    const char *text = kiln_error_message();
    size_t n = strlen(op->name);
    if (got != code || kiln_error() != code)
        fail_msg("%s: %s expected, got %s \"%s\"", op->name, kiln_status_name(code), kiln_status_name(kiln_error()),
                 text);
    if (strncmp(text, op->name, n) || text[n] != ':' || !strstr(text, part) || !strstr(text, "(table.c:"))
        fail_msg("%s: the message is \"%s\", it lacks the op, \"%s\" or the place", op->name, text, part);
    kiln_error_clear();
}

static int n_inputs(const struct op *op)
{
    return op->flags & OP_VARIADIC ? 2 : op->min_in;
}

struct name {
    char s[64];
};

static struct name name_of(const struct op *op, int i)
{
    struct name name;
    if (op->flags & OP_VARIADIC)
        snprintf(name.s, sizeof name.s, "%s[%d]", op->in_names[0], i);
    else
        snprintf(name.s, sizeof name.s, "%s", op->in_names[i]);
    return name;
}

void every_op_rejects_null(void **state)
{
    int cases = 0;
    char part[128];
    for (int k = 0; k < op_count; k++) {
        const struct op *op = op_table[k];
        for (int i = 0; i < n_inputs(op); i++, cases++) {
            kiln_tensor *in[IN_MAX] = {NULL};
            for (int j = 0; j < n_inputs(op); j++) in[j] = j == i ? NULL : F32(2, 2);
            snprintf(part, sizeof part, "%s is NULL", name_of(op, i).s);
            expect(op, call(op, n_inputs(op), in), KILN_E_ARGUMENT, part);
        }
        if (op->min_in > 0) expect(op, call(op, 0, NULL), KILN_E_ARGUMENT, "0 are given");
    }
    assert_true(cases > 300);
}

void every_op_rejects_a_freed_handle(void **state)
{
    // Of a scope of its own, so that no other handle takes its place.
    struct kiln_tensor freed = {.magic = TENSOR_FREED};
    char part[128];
    for (int k = 0; k < op_count; k++) {
        const struct op *op = op_table[k];
        for (int i = 0; i < n_inputs(op); i++) {
            kiln_tensor *in[IN_MAX] = {NULL};
            for (int j = 0; j < n_inputs(op); j++) in[j] = j == i ? &freed : F32(2, 2);
            snprintf(part, sizeof part, "%s is a handle that was freed", name_of(op, i).s);
            expect(op, call(op, n_inputs(op), in), KILN_E_HANDLE, part);
        }
    }
}

void every_op_rejects_two_devices(void **state)
{
    int cases = 0;
    kiln_tensor *here = F32(2, 2), *there = THERE(2, 2);
    for (int k = 0; k < op_count; k++) {
        const struct op *op = op_table[k];
        if (n_inputs(op) < 2) continue;
        kiln_tensor *in[IN_MAX];
        for (int j = 0; j < n_inputs(op); j++) in[j] = j ? there : here;
        expect(op, call(op, n_inputs(op), in), KILN_E_DEVICE_MISMATCH, "kiln_to_device");
        cases++;
    }
    assert_true(cases > 60);
    BAD(kiln_add(here, there), KILN_E_DEVICE_MISMATCH, "add: ", "a is on", "b is on", "kiln_to_device");
    BAD(kiln_add_(here, there), KILN_E_DEVICE_MISMATCH, "add: ", "a is on", "b is on");
    BAD(kiln_assign(here, there), KILN_E_DEVICE_MISMATCH, "assign: ", "dst is on", "src is on");
    BAD(kiln_clip(here, kiln_scalar(0), there), KILN_E_DEVICE_MISMATCH, "clip: ", "x is on", "high is on");
}

void every_op_waits_for_a_pending_error(void **state)
{
    kiln_tensor *good = F32(2, 2);
    kiln_device_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    kiln_device_get_stats(dev, &before);
    assert_null(kiln_matmul(good, NULL));
    char text[512];
    snprintf(text, sizeof text, "%s", kiln_error_message());
    for (int k = 0; k < op_count; k++) {
        const struct op *op = op_table[k];
        kiln_tensor *in[IN_MAX];
        for (int j = 0; j < n_inputs(op); j++) in[j] = good;
        assert_int_equal(call(op, n_inputs(op), in), KILN_E_ARGUMENT);
        assert_string_equal(kiln_error_message(), text);
    }
    kiln_device_get_stats(dev, &after);
    assert_int_equal(after.launches, before.launches);
    assert_int_equal(after.tensors, before.tensors);
    kiln_error_clear();
}

// An op takes storage dtypes by its rule, and gives such, or it says that it does not.
static void call_with_stored(const struct op *op, int at, kiln_dtype dtype, int *refused)
{
    kiln_tensor *in[IN_MAX], *out[OP_MAX_OUT];
    for (int j = 0; j < n_inputs(op); j++)
        in[j] = at < 0 || j == at ? kiln_zeros(dev, dtype, 2, (int64_t[]){2, 2}) : F32(2, 2);
    kiln_status status = call_into(op, n_inputs(op), in, out);
    bool converts = !strcmp(op->name, "cast") || !strcmp(op->name, "bitcast");
    if (!status && (!stored_rule_of(op) || (!converts && kiln_tensor_dtype(out[0]) != dtype)))
        fail_msg("%s takes %s as input %d", op->name, kiln_dtype_name(dtype), at);
    if (!status) return;
    char part[128];
    snprintf(part, sizeof part, "takes no %s, ", kiln_dtype_name(dtype));
    if (strncmp(kiln_error_message(), op->name, strlen(op->name)))
        fail_msg("%s: the message is \"%s\"", op->name, kiln_error_message());
    if (!stored_rule_of(op)) expect(op, status, KILN_E_DTYPE, part);
    kiln_error_clear();
    ++*refused;
}

void every_op_moves_storage_dtypes_or_refuses(void **state)
{
    static const kiln_dtype stored[] = {KILN_F8_E4M3, KILN_F8_E5M2, KILN_I4, KILN_U4};
    int refused = 0;
    for (int k = 0; k < op_count; k++)
        for (size_t d = 0; d < sizeof stored / sizeof *stored; d++)
            for (int at = -1; at < n_inputs(op_table[k]) && n_inputs(op_table[k]); at++)
                call_with_stored(op_table[k], at, stored[d], &refused);
    assert_true(refused > 1000);
}
