// Writes into tensors, splitting, and copies between devices: the functions of tensor.h that move values.
#include "conformance/suite.h"
#include <kiln/ops.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

static kiln_scope *scope;
static struct random rng;

static int begin(void **state)
{
    record_begin(*state ? *state : "transfer");
    rng.state = 77;
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

static int end(void **state)
{
    kiln_scope_end(&scope);
    return 0;
}

static kiln_tensor *filled(struct host *h, int dtype, int rank, const int64_t *dims, enum host_layout layout)
{
    *h = host_new(dtype, rank, dims);
    host_fill(h, &rng, -99, 99);
    if (layout == LAYOUT_EXPANDED) host_repeat_first(h);
    return host_tensor(suite.dev, h, layout);
}

static const char *case_text_of(const char *what, int dtype, int layout)
{
    static char text[80];
    snprintf(text, sizeof text, "%s %s %s", what, kiln_dtype_name((kiln_dtype)dtype), host_layout_names[layout]);
    return text;
}

static void expect(kiln_tensor *t, const struct host *want, const char *what)
{
    record.cases++;
    if (!no_error(what) || !same_type(t, want->dtype, want->rank, want->dims, what)) return;
    struct host got = host_read(t);
    for (int64_t i = 0; no_error(what) && i < got.n && !suite.is_null; i++) {
        record.values++;
        if (got.v[i] != want->v[i])
            record_mistake("%s: element %lld is %Lg, expected %Lg", what, (long long)i, got.v[i], want->v[i]);
    }
    host_free(&got);
}

static int kind(int dtype)
{
    return dtype == KILN_BOOL ? 0 : is_float(dtype) ? 2 : 1;
}

static void assign_converts_within_the_kind(void **state)
{
    const int64_t dims[] = {4, 5, 3};
    for (int to = 0; to < DTYPES; to++)
        for (int from = 0; from < DTYPES; from++)
            for (int l = 0; l < LAYOUT_EXPANDED; l++) {
                if (suite.sparse && (to + from + l) % 3) continue;
                struct host x, y;
                char text[80];
                snprintf(text, sizeof text, "assign %s to %s %s", kiln_dtype_name((kiln_dtype)from),
                         kiln_dtype_name((kiln_dtype)to), host_layout_names[l]);
                kiln_tensor *dst = filled(&x, to, 3, dims, (enum host_layout)l),
                            *src = filled(&y, from, 3, dims, l % 2 ? LAYOUT_TRANSPOSED : LAYOUT_CONTIGUOUS);
                if (kind(from) > kind(to)) {
                    record.cases++;
                    if (kiln_assign(dst, src) != KILN_E_DTYPE)
                        record_mistake("%s gives %s", text, kiln_status_name(kiln_error()));
                    kiln_error_clear();
                    expect(dst, &x, text);
                } else if (kind(from) == kind(to)) {
                    kiln_assign(dst, src);
                    for (int64_t i = 0; i < x.n; i++) x.v[i] = converted(from, to, y.v[i]);
                    expect(dst, &x, text);
                }
                host_free(&x);
                host_free(&y);
            }
    record_end();
}

static void assign_broadcasts_and_is_seen_by_views(void **state)
{
    for (int dtype = 0; dtype < DTYPES; dtype++) {
        struct host x, row;
        kiln_tensor *dst = filled(&x, dtype, 2, (const int64_t[]){6, 7}, LAYOUT_CONTIGUOUS),
                    *columns = kiln_transpose(dst, 0, 1);
        kiln_tensor *part = kiln_narrow(columns, 0, 2, 3),
                    *src = filled(&row, dtype, 1, (const int64_t[]){6}, LAYOUT_NEGATIVE);
        uint64_t version = kiln_tensor_version(dst);
        kiln_assign(part, src);
        for (int64_t i = 0; i < 6; i++)
            for (int64_t j = 2; j < 5; j++) x.v[i * 7 + j] = row.v[i];
        expect(dst, &x, "assign to a view");
        if (kiln_tensor_version(columns) <= version) record_mistake("a write does not raise the version");
        host_free(&x);
        host_free(&row);
    }
    kiln_tensor *m = kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(2, 3));
    kiln_assign(m, kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(3, 2)));
    record.cases++;
    if (kiln_error() != KILN_E_SHAPE)
        record_mistake("assign of another shape gives %s", kiln_status_name(kiln_error()));
    kiln_error_clear();
    record_end();
}

// Halves of one storage exchanged through a view that overlaps its source.
static void assign_reads_before_it_writes(void **state)
{
    for (int dtype = 0; dtype < DTYPES; dtype++) {
        struct host x;
        kiln_tensor *t = filled(&x, dtype, 1, (const int64_t[]){3001}, LAYOUT_CONTIGUOUS);
        kiln_assign(kiln_narrow(t, 0, 1, 3000), kiln_narrow(t, 0, 0, 3000));
        for (int64_t i = 3000; i > 0; i--) x.v[i] = x.v[i - 1];
        expect(t, &x, "assign to what overlaps");
        kiln_assign(t, kiln_flip(t, KILN_AXES0));
        for (int64_t i = 0; i < 1500; i++) {
            long double v = x.v[i];
            x.v[i] = x.v[3000 - i];
            x.v[3000 - i] = v;
        }
        expect(t, &x, "assign of itself reversed");
        host_free(&x);
    }
    record_end();
}

static void write_fills_any_layout(void **state)
{
    for (int dtype = 0; dtype < DTYPES; dtype++)
        for (int l = 0; l < LAYOUT_EXPANDED; l++) {
            struct host x, y = host_new(dtype, 2, (const int64_t[]){5, 9});
            unsigned char bytes[45 * 8];
            kiln_tensor *t = filled(&x, dtype, 2, y.dims, (enum host_layout)l);
            host_fill(&y, &rng, -99, 99);
            for (int i = 0; i < 45; i++) encode(dtype, y.v[i], bytes + (size_t)i * element_size_B(dtype));
            kiln_write(t, bytes, 45 * element_size_B(dtype));
            expect(t, &y, case_text_of("write", dtype, l));
            kiln_write(t, bytes, 3);
            record.cases++;
            if (kiln_error() / 100 != 2) record_mistake("write of 3 bytes gives %s", kiln_status_name(kiln_error()));
            kiln_error_clear();
            host_free(&x);
            host_free(&y);
        }
    record_end();
}

static void set_slice_writes_a_part(void **state)
{
    for (int dtype = 0; dtype < DTYPES; dtype++)
        for (int l = 0; l < LAYOUT_EXPANDED; l++) {
            struct host x, y;
            kiln_tensor *t = filled(&x, dtype, 2, (const int64_t[]){8, 9}, (enum host_layout)l);
            kiln_tensor *s = filled(&y, dtype, 2, (const int64_t[]){3, 1}, LAYOUT_CONTIGUOUS);
            const int64_t start[] = {6, 2}, stop[] = {0, 9}, step[] = {-2, 3};
            kiln_set_slice(t, KILN_SLICE(.start = {2, start}, .stop = {2, stop}, .step = {2, step}), s);
            for (int64_t i = 0; i < 3; i++)
                for (int64_t j = 2; j < 9; j += 3) x.v[(6 - 2 * i) * 9 + j] = y.v[i];
            expect(t, &x, case_text_of("set_slice", dtype, l));
            host_free(&x);
            host_free(&y);
        }
    record_end();
}

static void split_gives_views(void **state)
{
    const int64_t sizes[] = {1, 0, 4, 1};
    for (int dtype = 0; dtype < DTYPES; dtype++)
        for (int l = 0; l < LAYOUT_COUNT; l++) {
            struct host x;
            kiln_tensor *t = filled(&x, dtype, 2, (const int64_t[]){4, 6}, (enum host_layout)l), *out[4];
            for (int turn = 0; turn < 2; turn++) {
                size_t n = turn ? 4 : 3;
                if (turn)
                    kiln_split_sizes(t, -1, n, sizes, out);
                else
                    kiln_split(t, 1, out, n);
                int64_t from = 0;
                for (size_t k = 0; k < n && no_error("split"); k++) {
                    const int64_t width = turn ? sizes[k] : 2;
                    struct host part = host_new(dtype, 2, (const int64_t[]){4, width});
                    for (int64_t i = 0; i < part.n; i++) part.v[i] = x.v[i / width * 6 + from + i % width];
                    expect(out[k], &part, case_text_of("split", dtype, l));
                    if (!kiln_is_view_of(out[k], t)) record_mistake("a part is a copy");
                    host_free(&part);
                    from += width;
                }
            }
            host_free(&x);
        }
    kiln_tensor *out[4], *m = kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(2, 6));
    kiln_split(m, 1, out, 4);
    expect_error(KILN_E_SHAPE, "", "parts that do not divide");
    kiln_split_sizes(m, 1, 4, (const int64_t[]){1, 1, 1, 1}, out);
    expect_error(KILN_E_SHAPE, "", "sizes that do not add up");
    kiln_split(m, 2, out, 2);
    expect_error(KILN_E_AXIS, "", "an axis out of range");
    record_end();
}

static void copies_between_devices_keep_the_values(void **state)
{
    kiln_device *cpu = kiln_device_open("cpu"), *null = kiln_device_open("null");
    for (int dtype = 0; dtype < DTYPES && no_error("open"); dtype++)
        for (int l = 0; l < LAYOUT_COUNT; l++) {
            struct host x;
            kiln_tensor *t = filled(&x, dtype, 3, (const int64_t[]){4, 5, 3}, (enum host_layout)l),
                        *there = kiln_to_device(t, cpu);
            expect(there, &x, case_text_of("to the CPU", dtype, l));
            expect(kiln_to_device(there, suite.dev), &x, case_text_of("and back", dtype, l));
            if (kiln_tensor_device(there) != cpu) record_mistake("to_device does not arrive");
            if (!kiln_is_view_of(kiln_to_device(t, suite.dev), t)) record_mistake("to_device copies what is there");
            host_free(&x);
        }
    // Tensors of two devices do not meet.
    kiln_tensor *a = kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(2)),
                *b = kiln_zeros(suite.is_null ? cpu : null, KILN_F32, KILN_SHAPE(2));
    if (kiln_add(a, b)) record_mistake("add takes tensors of two devices");
    expect_error(KILN_E_DEVICE_MISMATCH, "add", "two devices");
    kiln_scope_end(&scope);
    kiln_device_close(&cpu);
    kiln_device_close(&null);
    record_end();
}

#define TEST(f)                                   \
    {                                             \
#f, f, begin, end, (void *)(uintptr_t) #f \
    }
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(assign_converts_within_the_kind),
        TEST(assign_broadcasts_and_is_seen_by_views),
        TEST(assign_reads_before_it_writes),
        TEST(write_fills_any_layout),
        TEST(set_slice_writes_a_part),
        TEST(split_gives_views),
        TEST(copies_between_devices_keep_the_values),
    };
    return suite_main(argc, argv, "transfer", tests, sizeof tests / sizeof tests[0]);
}
