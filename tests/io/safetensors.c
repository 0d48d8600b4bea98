// safetensors.
#include "files.h"

#include <string.h>

void safetensors_of_others(void **state)
{
    const float w[] = {1, 2, 3, 4, 5, 6};
    const unsigned char flag[] = {1, 0};
    kiln_archive *a = kiln_safetensors_load(golden("numpy.safetensors"));
    assert_no_error();
    assert_int_equal(kiln_archive_count(a), 5);
    kiln_tensor *t = kiln_archive_get(a, dev, "w");
    assert_tensor(t, KILN_F32, KILN_SHAPE(2, 3), w);
    kiln_free(&t);
    t = kiln_archive_get(a, dev, "flag");
    assert_tensor(t, KILN_BOOL, KILN_SHAPE(2), flag);
    kiln_free(&t);
    t = kiln_archive_get(a, dev, "none");
    assert_shape(t, KILN_F32, KILN_SHAPE(0, 2));
    kiln_free(&t);
    t = kiln_archive_get(a, dev, "scalar");
    assert_shape(t, KILN_F16, KILN_SHAPE0);
    kiln_free(&t);
    assert_int_equal(kiln_archive_metadata_count(a), 2);
    int seen = 0;
    for (size_t i = 0; i < 2; i++) {
        const char *key, *value;
        assert_int_equal(kiln_archive_metadata(a, i, &key, &value), KILN_OK);
        seen += strcmp(key, "key") == 0 && strcmp(value, "wert \"\xc3\xa4\"") == 0;
    }
    assert_int_equal(seen, 1);
    assert_int_equal(kiln_archive_metadata(a, 2, NULL, NULL), KILN_E_ARGUMENT);
    kiln_archive_free(&a);
}

void safetensors_round_trips(void **state)
{
    const char *names[COUNT_OF(samples) + 1];
    kiln_tensor *tensors[COUNT_OF(samples) + 1];
    size_t n = make_all(true, names, tensors);
    names[n] = "quote \" and \\ and \x01 and \xf0\x9f\x94\xa5";
    tensors[n] = kiln_from_data(dev, KILN_F32, KILN_SHAPE(0), NULL);
    assert_int_equal(kiln_safetensors_save(temp("all.st"), names, tensors, n + 1), KILN_OK);
    kiln_archive *a = kiln_safetensors_load(temp("all.st"));
    assert_all(a, n + 1);
    assert_true(kiln_archive_has(a, names[n]));
    kiln_archive_free(&a);
    names[n] = "__metadata__";
    assert_int_equal(kiln_safetensors_save(temp("all.st"), names, tensors, n + 1), KILN_E_ARGUMENT);
    assert_error(KILN_E_ARGUMENT, "__metadata__");
    names[n] = "\xff";
    assert_int_equal(kiln_safetensors_save(temp("all.st"), names, tensors, n + 1), KILN_E_ARGUMENT);
    assert_error(KILN_E_ARGUMENT, "UTF-8");
    free_all(tensors, n + 1);
    assert_int_equal(kiln_safetensors_save(temp("none.st"), NULL, NULL, 0), KILN_OK);
    a = kiln_safetensors_load(temp("none.st"));
    assert_all(a, 0);
    kiln_archive_free(&a);
}

static const char *safetensors_with(const char *header, size_t header_B, size_t data_B)
{
    unsigned char bytes[1000] = {header_B & 255, (unsigned char)(header_B >> 8)};
    memcpy(bytes + 8, header, strlen(header));
    const char *path = temp("lie.st");
    store_bytes(path, bytes, 8 + strlen(header) + data_B);
    return path;
}

#define F32_4 "{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}"

void safetensors_header_lies(void **state)
{
    static const struct {
        const char *header, *message;
        kiln_status code;
    } cases[] = {
        {"{\"a\":" F32_4 "}", "", KILN_OK},
        {" {\t\"a\" : " F32_4 "\n}   ", "", KILN_OK},
        {"{\"a\":{\"data_offsets\":[0,16],\"shape\":[2,2],\"dtype\":\"F32\"}}", "", KILN_OK},
        {"{\"a\":{\"dtype\":\"F8_E8M0\",\"shape\":[16],\"data_offsets\":[0,16]}}", "", KILN_OK},
        {"{\"\\u00e4\\ud83d\\udd25\\n\":" F32_4 "}", "", KILN_OK},
        {"{}", "the tensors have 0 bytes, the file holds 16", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,12]}}", "has 16 bytes, its offsets say 12",
         KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", "the file holds 16", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]}}", "all data at 16", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", "the data before it ends at 0",
         KILN_E_FORMAT},
        {"{\"a\":" F32_4 ",\"b\":" F32_4 "}", "the data before it ends at 16", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"a\":{\"dtype\":\"F32\",\"shape\":[2],"
         "\"data_offsets\":[8,16]}}",
         "\"a\" is given twice", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}", "before it begins", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,18446744073709551616]}}", "too large",
         KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,-16]}}", "an integer", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4.0],\"data_offsets\":[0,16]}}", "not an integer", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[04],\"data_offsets\":[0,16]}}", "begins with 0", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,9],\"data_offsets\":[0,16]}}", "overflows",
         KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551615],\"data_offsets\":[0,16]}}", "too large",
         KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[4],\"data_offsets\":[0,16]}}", "\"F31\"", KILN_E_UNSUPPORTED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,16]}}", "16 dim",
         KILN_E_UNSUPPORTED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}", "has no data_offsets", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", "twice", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16],\"x\":1}}", "unknown", KILN_E_FORMAT},
        {"{\"__metadata__\":{\"k\":1},\"a\":" F32_4 "}", "'\"' is missing", KILN_E_FORMAT},
        {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"},\"a\":" F32_4 "}", "\"k\" is given twice", KILN_E_FORMAT},
        {"{\"__metadata__\":{},\"__metadata__\":{},\"a\":" F32_4 "}", "comes twice", KILN_E_FORMAT},
        {"{\"a\":" F32_4 ",}", "'\"' is missing", KILN_E_FORMAT},
        {"{\"a\":" F32_4 "} x", "the text goes on", KILN_E_FORMAT},
        {"[]", "'{' is missing", KILN_E_FORMAT},
        {"{\"\\ud83d\":" F32_4 "}", "surrogate", KILN_E_FORMAT},
        {"{\"\\u0000\":" F32_4 "}", "zero character", KILN_E_FORMAT},
        {"{\"\\x\":" F32_4 "}", "escape", KILN_E_FORMAT},
        {"{\"\xc0\x80\":" F32_4 "}", "UTF-8", KILN_E_FORMAT},
        {"{\"\xed\xa0\x80\":" F32_4 "}", "UTF-8", KILN_E_FORMAT},
        {"{\"a\n\":" F32_4 "}", "control character", KILN_E_FORMAT},
        {"{\"a", "does not end", KILN_E_FORMAT},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t n = strlen(cases[i].header);
        kiln_archive *a = kiln_safetensors_load(safetensors_with(cases[i].header, n, 16));
        if (cases[i].code == KILN_OK)
            assert_no_error();
        else
            assert_error(cases[i].code, cases[i].message);
        assert_int_equal(a != NULL, cases[i].code == KILN_OK);
        kiln_archive_free(&a);
    }
    assert_null(kiln_safetensors_load(safetensors_with("{}", 3, 0)));
    assert_error(KILN_E_FORMAT, "a header of 3 bytes in a file of 10");
    // A dtype that Kiln lacks does not bar the way to the other tensors.
    kiln_archive *a = kiln_safetensors_load(safetensors_with(cases[3].header, strlen(cases[3].header), 16));
    assert_null(kiln_archive_get(a, dev, "a"));
    assert_error(KILN_E_UNSUPPORTED, "F8_E8M0");
    kiln_archive_free(&a);
}
