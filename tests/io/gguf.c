// GGUF: a file of ggml's own package with what that unpacks, and files written here, most of which lie.
#include "files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Values of the file and those of the reference agree but for the rounding of a few products and a sum in f32.
static void compare_values(const char *name, kiln_tensor *got, kiln_tensor *want)
{
    assert_shape(got, KILN_F32, kiln_rank(want), kiln_dims(want));
    size_t n = (size_t)kiln_numel(want);
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    assert_true(a && b && !kiln_read(got, a, n * sizeof *a) && !kiln_read(want, b, n * sizeof *b));
    float most = 0;
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(b[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= most * 0x1p-22f)) fail_msg("%s[%zu] is %.9g, not %.9g", name, i, a[i], b[i]);
    free(a);
    free(b);
}

void gguf_of_ggml(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_archive *a = kiln_gguf_load(golden("packed.gguf")), *values = kiln_npz_load(golden("packed.npz"));
    assert_no_error();
    assert_int_equal(kiln_archive_count(values), 12);
    assert_int_equal(kiln_archive_count(a), 12 + 8);
    for (size_t i = 0; i < 12; i++) {
        const char *name = kiln_archive_name(values, i), *format = NULL;
        compare_values(name, kiln_archive_get(a, dev, name), kiln_archive_tensor(values, dev, i));
        kiln_tensor *packed = kiln_archive_packed(a, dev, name, &format);
        assert_no_error();
        assert_int_equal(kiln_tensor_dtype(packed), KILN_U8);
        assert_true(kiln_rank(packed) == 2 && kiln_dims(packed)[0] == 2);
        assert_true(!strncasecmp(format, name, strlen(name)));
    }
    static const struct {
        const char *name;
        kiln_dtype dtype;
    } plain[] = {{"f2", KILN_F16}, {"f4", KILN_F32}, {"f8", KILN_F64}, {"i1", KILN_I8},
                 {"i2", KILN_I16}, {"i4", KILN_I32}, {"i8", KILN_I64}, {"bf16", KILN_BF16}};
    for (size_t i = 0; i < COUNT_OF(plain); i++) {
        kiln_tensor *t = kiln_archive_get(a, dev, plain[i].name);
        assert_shape(t, plain[i].dtype, KILN_SHAPE(2, 3));
        assert_tensor(kiln_cast(t, KILN_F32), KILN_F32, KILN_SHAPE(2, 3), (float[]){1, 2, 3, 4, 5, 6});
    }
    assert_null(kiln_archive_packed(a, dev, "f4", NULL));
    assert_error(KILN_E_ARGUMENT, "is f32, which is not packed");
    assert_null(kiln_archive_packed(values, dev, "q4_0", NULL));
    assert_error(KILN_E_ARGUMENT, "has no packed arrays");
    kiln_archive_free(&a);
    kiln_archive_free(&values);
    kiln_scope_end(&scope);
}

void gguf_metadata_is_text(void **state)
{
    static const char *const want[][2] = {{"general.architecture", "test"}, {"answer", "42"},
                                          {"below", "-9000000000"},         {"tenth", "0.1"},
                                          {"pi", "3.141592653589793"},      {"yes", "true"},
                                          {"name", "wert \"\xc3\xa4\""},    {"words", "[\"a\", \"\\\"\", \"\\u000a\"]"},
                                          {"numbers", "[-1, 2, 3]"}};
    kiln_archive *a = kiln_gguf_load(golden("packed.gguf"));
    assert_no_error();
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        size_t n = kiln_archive_metadata_count(a), found = 0;
        for (size_t k = 0; k < n; k++) {
            const char *key, *value;
            assert_int_equal(kiln_archive_metadata(a, k, &key, &value), KILN_OK);
            if (strcmp(key, want[i][0])) continue;
            assert_string_equal(value, want[i][1]);
            found++;
        }
        assert_int_equal(found, 1);
    }
    kiln_archive_free(&a);
}

// --- files written here

struct bytes {
    unsigned char v[4096];
    size_t n;
};

static void put(struct bytes *b, uint64_t value, int size_B)
{
    for (int i = 0; i < size_B; i++) b->v[b->n++] = (unsigned char)(i < 8 ? value >> 8 * i : 0);
}

static void put_text(struct bytes *b, const char *text)
{
    put(b, strlen(text), 8);
    memcpy(b->v + b->n, text, strlen(text));
    b->n += strlen(text);
}

struct tensor {
    const char *name;
    uint32_t rank;
    uint64_t dims[2];
    uint32_t type;
    uint64_t offset;
};

static void put_tensor(struct bytes *b, const struct tensor *t)
{
    put_text(b, t->name);
    put(b, t->rank, 4);
    for (uint32_t i = 0; i < t->rank; i++) put(b, i < 2 ? t->dims[i] : 1, 8);
    put(b, t->type, 4);
    put(b, t->offset, 8);
}

static void begin(struct bytes *b, uint32_t version, uint64_t tensors, uint64_t pairs)
{
    b->n = 0;
    put(b, 0x46554747, 4);
    put(b, version, 4);
    put(b, tensors, 8);
    put(b, pairs, 8);
}

static void pad(struct bytes *b, size_t alignment, size_t data_B)
{
    while (b->n % alignment) put(b, 0, 1);
    for (size_t i = 0; i < data_B; i++) put(b, i % 16, 1);
}

static const char *store(const struct bytes *b)
{
    const char *path = temp("written.gguf");
    store_bytes(path, b->v, b->n);
    return path;
}

static void refused(const struct bytes *b, kiln_status code, const char *text)
{
    assert_null(kiln_gguf_load(store(b)));
    assert_error(code, text);
}

// 68 bytes of data: two blocks of q8_0, or else.
static struct bytes with_tensors(size_t n, const struct tensor *tensors)
{
    struct bytes b;
    begin(&b, 3, n, 0);
    for (size_t i = 0; i < n; i++) put_tensor(&b, &tensors[i]);
    pad(&b, 32, 68);
    return b;
}

const char *make_gguf(void)
{
    struct bytes b;
    begin(&b, 2, 2, 2);
    put_text(&b, "general.alignment");
    put(&b, 4, 4);
    put(&b, 1, 4);
    put_text(&b, "list");
    put(&b, 9, 4);
    put(&b, 8, 4);
    put(&b, 2, 8);
    put_text(&b, "one");
    put_text(&b, "");
    put_tensor(&b, &(struct tensor){"w", 2, {32, 2}, 8, 0});
    put_tensor(&b, &(struct tensor){"b", 1, {3}, 24, 68});
    pad(&b, 1, 68 + 3);
    return store(&b);
}

void gguf_alignment_counts(void **state)
{
    kiln_archive *a = kiln_gguf_load(make_gguf());
    assert_no_error();
    kiln_tensor *t = kiln_archive_get(a, dev, "b");
    assert_tensor(t, KILN_I8, KILN_SHAPE(3), (unsigned char[]){68 % 16, 69 % 16, 70 % 16});
    kiln_free(&t);
    kiln_archive_free(&a);
}

void gguf_tensors_lie(void **state)
{
    static const struct {
        struct tensor t[2];
        size_t n;
        const char *message;
        kiln_status code;
    } cases[] = {
        {{{"a", 1, {64}, 8, 0}}, 1, "", KILN_OK},
        {{{"a", 2, {32, 2}, 8, 0}}, 1, "", KILN_OK},
        {{{"a", 1, {8}, 0, 0}}, 1, "the tensors end at", KILN_E_FORMAT},
        {{{"a", 1, {33}, 8, 0}}, 1, "rows of 33 elements, and q8_0 packs 32 together", KILN_E_FORMAT},
        {{{"a", 2, {16, 4}, 8, 0}}, 1, "rows of 16 elements", KILN_E_FORMAT},
        {{{"a", 0, {0}, 8, 0}}, 1, "rows of 1 elements", KILN_E_FORMAT},
        {{{"a", 1, {96}, 8, 0}},
         1,
         "\"a\" has 102 bytes at 0; the data before it ends at 0, all data at 68",
         KILN_E_FORMAT},
        {{{"a", 1, {8}, 0, 16}}, 1, "begins at 16, no multiple of the alignment 32", KILN_E_FORMAT},
        {{{"a", 1, {8}, 0, 96}}, 1, "8", KILN_E_FORMAT},
        {{{"a", 1, {1}, 0, UINT64_MAX - 31}}, 1, "all data at 68", KILN_E_FORMAT},
        {{{"a", 1, {16}, 0, 0}, {"b", 1, {1}, 0, 32}}, 2, "the data before it ends at 64", KILN_E_FORMAT},
        {{{"a", 1, {8}, 0, 0}, {"a", 1, {9}, 0, 32}}, 2, "\"a\" is given twice", KILN_E_FORMAT},
        {{{"a", 2, {UINT64_C(1) << 62, 32}, 8, 0}}, 1, "overflows", KILN_E_FORMAT},
        {{{"a", 2, {UINT64_C(1) << 61, 3}, 28, 0}}, 1, "overflows", KILN_E_FORMAT},
        {{{"a", 1, {UINT64_MAX}, 24, 0}}, 1, "is too large", KILN_E_FORMAT},
        {{{"a", 17, {1, 1}, 24, 0}}, 1, "17 dimensions", KILN_E_UNSUPPORTED},
        {{{"a", UINT32_MAX, {1, 1}, 24, 0}}, 1, "4294967295 dimensions", KILN_E_UNSUPPORTED},
        {{{"\xff", 1, {1}, 24, 0}}, 1, "not UTF-8", KILN_E_FORMAT},
        {{{"a", 1, {256}, 19, 0}}, 1, "", KILN_OK}, // iq1_s, opened but not read
        {{{"a", 1, {256}, 999, 0}}, 1, "", KILN_OK},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (cases[i].t[0].rank == UINT32_MAX) { // too many to be written
            struct bytes b;
            begin(&b, 3, 1, 0);
            put_text(&b, "a");
            put(&b, UINT32_MAX, 4);
            pad(&b, 32, 100);
            refused(&b, cases[i].code, cases[i].message);
            continue;
        }
        struct bytes b = with_tensors(cases[i].n, cases[i].t);
        if (cases[i].code) {
            refused(&b, cases[i].code, cases[i].message);
            continue;
        }
        kiln_archive *a = kiln_gguf_load(store(&b));
        assert_no_error();
        kiln_tensor *t = kiln_archive_get(a, dev, "a");
        if (cases[i].t[0].type > 8) assert_error(KILN_E_UNSUPPORTED, "which Kiln cannot read");
        assert_no_error();
        kiln_free(&t);
        kiln_archive_free(&a);
    }
}

static struct bytes with_pair(uint32_t kind)
{
    struct bytes b;
    begin(&b, 3, 0, 1);
    put_text(&b, "k");
    put(&b, kind, 4);
    return b;
}

void gguf_headers_lie(void **state)
{
    struct bytes b;
    begin(&b, 1, 0, 0);
    refused(&b, KILN_E_UNSUPPORTED, "GGUF of version 1");
    begin(&b, 0x03000000, 0, 0);
    refused(&b, KILN_E_UNSUPPORTED, "big-endian");
    b.v[0] = 'g';
    refused(&b, KILN_E_FORMAT, "is not GGUF");
    begin(&b, 3, UINT64_MAX, 0);
    refused(&b, KILN_E_FORMAT, "18446744073709551615 tensors");
    begin(&b, 3, 0, UINT64_C(1) << 40);
    refused(&b, KILN_E_FORMAT, "1099511627776 pairs");
    b = with_pair(13);
    refused(&b, KILN_E_FORMAT, "metadata of type 13");
    b = with_pair(8);
    put(&b, UINT64_MAX, 8);
    refused(&b, KILN_E_FORMAT, "a text of 18446744073709551615 bytes");
    b = with_pair(8);
    put(&b, 1, 8);
    put(&b, 0, 1);
    refused(&b, KILN_E_FORMAT, "a zero byte in it");
    b = with_pair(9);
    put(&b, 0, 4);
    put(&b, UINT64_MAX / 2, 8);
    refused(&b, KILN_E_FORMAT, "an array of 9223372036854775807 values");
    b = with_pair(9);
    for (int i = 0; i < 20; i++) put(&b, 9, 4), put(&b, 1, 8);
    pad(&b, 32, 32);
    refused(&b, KILN_E_FORMAT, "arrays in arrays, more than 8 deep");
    for (int k = 0; k < 3; k++) {
        static const char *const texts[] = {"0", "24", "-1"};
        begin(&b, 3, 0, 1);
        put_text(&b, "general.alignment");
        put(&b, k == 2 ? 5 : 4, 4);
        put(&b, (uint64_t)strtoll(texts[k], NULL, 10), 4);
        refused(&b, KILN_E_FORMAT, "must be a power of two");
    }
}
