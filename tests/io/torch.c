// Files of PyTorch: one that it wrote, with what is in it, and pickles written here, most of which lie.
#include "files.h"

#include <stdlib.h>
#include <string.h>

static void same_values(const char *name, kiln_tensor *got, kiln_tensor *want)
{
    assert_no_error();
    if (kiln_tensor_dtype(got) == KILN_BF16) got = kiln_cast(got, KILN_F32);
    size_t size_B = (size_t)kiln_numel(want) * kiln_dtype_size(kiln_tensor_dtype(want));
    void *data = malloc(size_B + 1);
    assert_non_null(data);
    assert_int_equal(kiln_read(want, data, size_B), KILN_OK);
    assert_tensor(got, kiln_tensor_dtype(want), kiln_rank(want), kiln_dims(want), data);
    free(data);
}

void torch_of_torch(void **state)
{
    static const char *const want[][2] = {{"step", "7"},
                                          {"name", "wert \"\xc3\xa4\""},
                                          {"other.3", "1099511627776"},
                                          {"other.4", "-3"},
                                          {"other.5", "0.1"},
                                          {"optim.param_groups.0.lr", "0.01"},
                                          {"optim.param_groups.0.amsgrad", "false"}};
    kiln_scope *scope = kiln_scope_begin();
    kiln_archive *a = kiln_torch_load(golden("torch.pth")), *values = kiln_npz_load(golden("torch.npz"));
    assert_no_error();
    assert_int_equal(kiln_archive_count(a), kiln_archive_count(values));
    for (size_t i = 0; i < kiln_archive_count(values); i++) {
        const char *name = kiln_archive_name(values, i);
        same_values(name, kiln_archive_get(a, dev, name), kiln_archive_tensor(values, dev, i));
    }
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        bool found = false;
        for (size_t k = 0; k < kiln_archive_metadata_count(a) && !found; k++) {
            const char *key, *value;
            assert_int_equal(kiln_archive_metadata(a, k, &key, &value), KILN_OK);
            found = !strcmp(key, want[i][0]);
            if (found) assert_string_equal(value, want[i][1]);
        }
        assert_true(found);
    }
    kiln_archive_free(&a);
    kiln_archive_free(&values);
    a = kiln_torch_load(golden("torch4.pth"));
    assert_no_error();
    assert_tensor(kiln_archive_get(a, dev, "w"), KILN_F32, KILN_SHAPE(2, 2), (float[]){0, 1, 4, 5});
    kiln_archive_free(&a);
    kiln_scope_end(&scope);
}

// --- files written here: "x/data.pkl" and the 16 bytes of "x/data/0", stored

struct zip {
    unsigned char v[8192], directory[1024];
    size_t n, directory_n, members;
};

static unsigned char *put(unsigned char *at, uint64_t value, int size_B)
{
    for (int i = 0; i < size_B; i++) *at++ = (unsigned char)(i < 8 ? value >> 8 * i : 0);
    return at;
}

static void add_member(struct zip *z, const char *name, const void *data, size_t size_B)
{
    unsigned char common[26], *at = put(common, 20, 2);
    at = put(at, 0, 8);
    at = put(at, 0, 4); // no checksum, as PyTorch may be told
    at = put(at, size_B, 4);
    at = put(at, size_B, 4);
    put(at, strlen(name), 4);
    unsigned char *entry = z->directory + z->directory_n;
    entry = put(put(entry, 0x02014b50, 4), 20, 2);
    memcpy(entry, common, sizeof common);
    entry = put(put(entry + sizeof common, 0, 10), z->n, 4);
    memcpy(entry, name, strlen(name));
    z->directory_n = (size_t)(entry - z->directory) + strlen(name);
    put(z->v + z->n, 0x04034b50, 4);
    memcpy(z->v + z->n + 4, common, sizeof common);
    z->n += 4 + sizeof common;
    memcpy(z->v + z->n, name, strlen(name));
    z->n += strlen(name);
    memcpy(z->v + z->n, data, size_B);
    z->n += size_B;
    z->members++;
}

static const char *finish(struct zip *z)
{
    unsigned char *at = z->v + z->n;
    memcpy(at, z->directory, z->directory_n);
    at = put(put(at + z->directory_n, 0x06054b50, 4), 0, 4);
    at = put(put(at, z->members, 2), z->members, 2);
    at = put(put(at, z->directory_n, 4), z->n, 4);
    at = put(at, 0, 2);
    const char *path = temp("written.pth");
    store_bytes(path, z->v, (size_t)(at - z->v));
    return path;
}

static const char *with_pickle(const char *pickle, size_t n)
{
    struct zip z = {.n = 0};
    add_member(&z, "x/data.pkl", pickle, n);
    add_member(&z, "x/data/0", "\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40", 16);
    return finish(&z);
}

// {"a": tensor}: its storage's type, where it begins, sizes and strides, which are instructions.
#define TENSOR(type, key, offset, sizes, strides)                                \
    "\x80\x02}X\1\0\0\0a"                                                        \
    "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storage" type "X\1\0\0\0" key \
    "X\3\0\0\0cpuK\4tQ" offset sizes strides "\x89}tRs."
#define FLOATS       "ctorch\nFloatStorage\n"
#define PICKLE(text) (text), sizeof(text) - 1

const char *make_torch(void)
{
    return with_pickle(PICKLE(TENSOR(FLOATS, "0", "K\1", "K\2K\1\x86", "K\2K\1\x86")));
}

void torch_pickles_lie(void **state)
{
    static const struct {
        const char *pickle;
        size_t n;
        const char *message;
        kiln_status code;
    } cases[] = {
        {PICKLE(TENSOR(FLOATS, "0", "K\0", "K\4\x85", "K\1\x85")), "", KILN_OK},
        {PICKLE(TENSOR(FLOATS, "0", "K\1", "K\4\x85", "K\1\x85")), "beyond the end", KILN_E_FORMAT},
        {PICKLE(TENSOR(FLOATS, "0", "K\0", "K\5\x85", "K\1\x85")), "beyond the end", KILN_E_FORMAT},
        {PICKLE(TENSOR(FLOATS, "0", "K\0", "K\2\x85", "K\4\x85")), "beyond the end", KILN_E_FORMAT},
        {PICKLE(TENSOR(FLOATS, "0", "K\0", "K\2\x85", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85")),
         "beyond the end", KILN_E_FORMAT},
        {PICKLE(TENSOR(FLOATS, "0", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "K\1\x85", "K\1\x85")),
         "beyond the end", KILN_E_FORMAT},
        {PICKLE(TENSOR(FLOATS, "0", "K\0", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85", "K\0\x85")), "overflows",
         KILN_E_FORMAT},
        {PICKLE(TENSOR(FLOATS, "0", "K\0", "\x8a\x07\xff\xff\xff\xff\xff\xff\x0f\x85", "K\0\x85")), "in a file of",
         KILN_E_UNSUPPORTED},
        {PICKLE(TENSOR(FLOATS, "0", "K\0", "J\xff\xff\xff\xff\x85", "K\1\x85")), "no number from 0 on", KILN_E_FORMAT},
        {PICKLE(TENSOR(FLOATS, "0", "K\0", "K\1\x85", "J\xff\xff\xff\xff\x85")), "no number from 0 on", KILN_E_FORMAT},
        {PICKLE(TENSOR(FLOATS, "0", "K\0", "K\1\x85", ")")), "do not go with its strides", KILN_E_FORMAT},
        {PICKLE(TENSOR(FLOATS, "0", "N", "K\1\x85", "K\1\x85")), "has no offset", KILN_E_FORMAT},
        {PICKLE(TENSOR(FLOATS, "1", "K\0", "K\1\x85", "K\1\x85")), "\"x/data/1\", which is missing", KILN_E_FORMAT},
        {PICKLE(TENSOR("ctorch\nQInt8Storage\n", "0", "K\0", "K\1\x85", "K\1\x85")), "asks for torch.QInt8Storage",
         KILN_E_UNSUPPORTED},
        {PICKLE(TENSOR("ctorch.storage\nUntypedStorage\n", "0", "K\0", "K\1\x85", "K\1\x85")), "has no dtype",
         KILN_E_FORMAT},
        {PICKLE("\x80\2cos\nsystem\nX\2\0\0\0ls\x85R."), "asks for os.system, which only Python", KILN_E_UNSUPPORTED},
        {PICKLE("\x80\4\x8c\2os\x8c\6system\x93\x8c\2ls\x85R."), "asks for os.system", KILN_E_UNSUPPORTED},
        {PICKLE("\x80\2\x8c\1a\x85R."), "takes more", KILN_E_FORMAT},
        {PICKLE("\x80\2\x8c\1a\x8c\1b\x85R."), "calls what is no function", KILN_E_FORMAT},
        {PICKLE("\x80\2ccollections\nOrderedDict\n)\x81."), "the instruction 0x81", KILN_E_UNSUPPORTED},
        {PICKLE("\x80\2]q\0h\0a."), "is more than 64 deep", KILN_E_FORMAT},
        {PICKLE("\x80\2]h\0."), "not in its memo", KILN_E_FORMAT},
        {PICKLE("\x80\2]q\1."), "leaves out numbers", KILN_E_FORMAT},
        {PICKLE("\x80\2e."), "no mark", KILN_E_FORMAT},
        {PICKLE("\x80\2(."), "ends with a stack", KILN_E_FORMAT},
        {PICKLE("\x80\2N(0."), "takes more", KILN_E_FORMAT},
        {PICKLE("\x80\2}Ns."), "takes more", KILN_E_FORMAT},
        {PICKLE("\x80\2}(Nu."), "a key without a value", KILN_E_FORMAT},
        {PICKLE("\x80\2NNb."), "attributes of what is no dict", KILN_E_FORMAT},
        {PICKLE("\x80\2X\xff\xff\xff\xff."), "is cut off", KILN_E_FORMAT},
        {PICKLE("\x80\2\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), "is cut off", KILN_E_FORMAT},
        {PICKLE("\x80\2ctorch\nFloat"), "is cut off", KILN_E_FORMAT},
        {PICKLE(""), "is cut off", KILN_E_FORMAT},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kiln_archive *a = kiln_torch_load(with_pickle(cases[i].pickle, cases[i].n));
        if (cases[i].code)
            assert_error(cases[i].code, cases[i].message);
        else
            assert_no_error();
        kiln_archive_free(&a);
    }
}

// A value that holds the one before it twice, 60 times: a tree of 2^60 leaves.
void torch_pickles_do_not_explode(void **state)
{
    char pickle[1000] = "]q", *at = pickle + 2;
    *at++ = 0;
    for (int i = 0; i < 60; i++) {
        *at++ = 'h', *at++ = (char)i, *at++ = 'h', *at++ = (char)i, *at++ = '\x86';
        *at++ = 'q', *at++ = (char)(i + 1);
    }
    *at++ = '1';
    char whole[1100];
    int n = 0;
    whole[n++] = '(';
    memcpy(whole + n, pickle, (size_t)(at - pickle));
    n += (int)(at - pickle);
    whole[n++] = 'h', whole[n++] = 60, whole[n++] = '.';
    assert_null(kiln_torch_load(with_pickle(whole, (size_t)n)));
    assert_error(KILN_E_FORMAT, "is reached too often");
}

void torch_files_of_other_kinds(void **state)
{
    store_bytes(temp("old.pth"), "\x80\2\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 16);
    assert_null(kiln_torch_load(temp("old.pth")));
    assert_error(KILN_E_UNSUPPORTED, "_use_new_zipfile_serialization=True");
    assert_null(kiln_torch_load(golden("numpy.safetensors")));
    assert_error(KILN_E_FORMAT, "it is no zip file");
    assert_null(kiln_torch_load(golden("stored.npz")));
    assert_error(KILN_E_FORMAT, "a zip file without data.pkl");
    assert_null(kiln_npz_load(golden("torch4.pth")));
    assert_error(KILN_E_FORMAT, "kiln_torch_load reads weights of PyTorch");
    struct zip z = {.n = 0};
    add_member(&z, "x/data.pkl", "N.", 2);
    add_member(&z, "x/byteorder", "big", 3);
    assert_null(kiln_torch_load(finish(&z)));
    assert_error(KILN_E_UNSUPPORTED, "its byte order is \"big\"");
}
