// Texts as numbers: bytes, characters of all lengths, what is no UTF-8.
#include "files.h"

#include <kiln/text.h>
#include <stdlib.h>
#include <string.h>

static kiln_tensor *numbers_of(const kiln_vocabulary *v, const char *text, const kiln_encode_opts *opts)
{
    return kiln_encode(v, dev, text, strlen(text), opts);
}

void characters_are_sorted(void **state)
{
    // 1, 2, 3 and 4 bytes: b a e-acute euro sign, a grinning face, a again.
    static const char text[] = "ba\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"
                               "a";
    kiln_vocabulary *v = kiln_vocabulary_characters(text, sizeof text - 1);
    assert_no_error();
    assert_int_equal(kiln_vocabulary_count(v), 5);
    assert_string_equal(kiln_vocabulary_text(v), "ab\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    kiln_tensor *ids = numbers_of(v, text, NULL);
    assert_tensor(ids, KILN_I64, KILN_SHAPE(6), (int64_t[]){1, 0, 2, 3, 4, 0});
    size_t n = 0;
    char *again = kiln_decode(v, ids, &n);
    assert_int_equal(n, sizeof text - 1);
    assert_string_equal(again, text);
    free(again);
    kiln_free(&ids);
    // The text of a vocabulary makes it again.
    const char *all = kiln_vocabulary_text(v);
    kiln_vocabulary *same = kiln_vocabulary_characters(all, strlen(all));
    assert_string_equal(kiln_vocabulary_text(same), all);
    kiln_vocabulary_free(&same);
    store_bytes(temp("a.txt"), text, sizeof text - 1);
    same = kiln_vocabulary_of_file(temp("a.txt"));
    assert_string_equal(kiln_vocabulary_text(same), all);
    ids = kiln_encode_file(same, dev, temp("a.txt"), NULL);
    assert_tensor(ids, KILN_I64, KILN_SHAPE(6), (int64_t[]){1, 0, 2, 3, 4, 0});
    kiln_free(&ids);
    kiln_vocabulary_free(&same);
    assert_null(numbers_of(v, "ab\xc3\xa4z", NULL));
    assert_error(KILN_E_ARGUMENT, "(U+00E4) at byte 2 is not in the vocabulary");
    ids = numbers_of(v, "ab\xc3\xa4zb", KILN_ENCODE(.drop_unknown = true));
    assert_tensor(ids, KILN_I64, KILN_SHAPE(3), (int64_t[]){0, 1, 1});
    kiln_free(&ids);
    ids = kiln_from_data(dev, KILN_I32, KILN_SHAPE(2, 1), (int32_t[]){0, 5});
    assert_null(kiln_decode(v, ids, NULL));
    assert_error(KILN_E_ARGUMENT, "element 1 is 5, of 5 characters");
    kiln_free(&ids);
    ids = kiln_zeros(dev, KILN_F32, KILN_SHAPE(2));
    assert_null(kiln_decode(v, ids, NULL));
    assert_error(KILN_E_DTYPE, "ids are f32");
    kiln_free(&ids);
    kiln_vocabulary_free(&v);
    assert_null(v);
}

void bytes_are_texts(void **state)
{
    unsigned char all[256];
    int64_t want[256];
    for (int i = 0; i < 256; i++) want[i] = all[i] = (unsigned char)i;
    kiln_vocabulary *v = kiln_vocabulary_bytes();
    assert_int_equal(kiln_vocabulary_count(v), 256);
    assert_string_equal(kiln_vocabulary_text(v), "");
    kiln_tensor *ids = kiln_encode(v, dev, (const char *)all, 256, NULL);
    assert_tensor(ids, KILN_I64, KILN_SHAPE(256), want);
    size_t n;
    char *again = kiln_decode(v, ids, &n);
    assert_int_equal(n, 256);
    assert_memory_equal(again, all, 256);
    free(again);
    kiln_free(&ids);
    ids = kiln_encode(v, dev, NULL, 0, NULL);
    assert_shape(ids, KILN_I64, KILN_SHAPE(0));
    again = kiln_decode(v, ids, &n);
    assert_true(n == 0 && again[0] == '\0');
    free(again);
    kiln_free(&ids);
    kiln_vocabulary_free(&v);
}

void every_character_goes_there_and_back(void **state)
{
    char *text = malloc(0x110000 * 4), *p = text;
    assert_non_null(text);
    int64_t n = 0;
    for (uint32_t c = 1; c < 0x110000; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        if (c < 0x80)
            *p++ = (char)c;
        else if (c < 0x800)
            *p++ = (char)(0xc0 | c >> 6), *p++ = (char)(0x80 | (c & 63));
        else if (c < 0x10000)
            *p++ = (char)(0xe0 | c >> 12), *p++ = (char)(0x80 | (c >> 6 & 63)), *p++ = (char)(0x80 | (c & 63));
        else
            *p++ = (char)(0xf0 | c >> 18), *p++ = (char)(0x80 | (c >> 12 & 63)), *p++ = (char)(0x80 | (c >> 6 & 63)),
            *p++ = (char)(0x80 | (c & 63));
        n++;
    }
    kiln_vocabulary *v = kiln_vocabulary_characters(text, (size_t)(p - text));
    assert_no_error();
    assert_int_equal(kiln_vocabulary_count(v), n);
    assert_int_equal(strlen(kiln_vocabulary_text(v)), p - text);
    assert_memory_equal(kiln_vocabulary_text(v), text, (size_t)(p - text));
    kiln_tensor *ids = kiln_encode(v, dev, text, (size_t)(p - text), NULL);
    size_t length;
    char *again = kiln_decode(v, ids, &length);
    assert_int_equal(length, p - text);
    assert_memory_equal(again, text, length);
    free(again);
    kiln_free(&ids);
    kiln_vocabulary_free(&v);
    free(text);
}

void what_is_no_utf8(void **state)
{
    static const struct {
        const char *text;
        size_t n;
        const char *message;
    } cases[] = {
        {"a\x80", 2, "byte 1, 80, begins no character"},
        {"\xc3", 1, "byte 0, c3"},
        {"ab\xe2\x82", 4, "byte 2, e2"},
        {"\xc0\xaf", 2, "byte 0, c0"},             // longer than need be
        {"\xe0\x80\x80", 3, "byte 0, e0"},         // the same
        {"\xf0\x80\x80\x80", 4, "byte 0, f0"},     // the same
        {"\xed\xa0\x80", 3, "byte 0, ed"},         // a surrogate
        {"\xf4\x90\x80\x80", 4, "byte 0, f4"},     // above U+10FFFF
        {"\xf8\x88\x80\x80\x80", 5, "byte 0, f8"}, // five bytes
        {"\xff", 1, "byte 0, ff"},
        {"a\0b", 3, "byte 1, 00, is a character 0"},
    };
    kiln_vocabulary *v = kiln_vocabulary_characters("abc", 3);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_null(kiln_vocabulary_characters(cases[i].text, cases[i].n));
        assert_error(KILN_E_FORMAT, cases[i].message);
        store_bytes(temp("b.txt"), cases[i].text, cases[i].n);
        assert_null(kiln_vocabulary_of_file(temp("b.txt")));
        assert_error(KILN_E_FORMAT, "b.txt: byte");
        kiln_tensor *t = kiln_encode(v, dev, cases[i].text, cases[i].n, KILN_ENCODE(.drop_unknown = true));
        if (i + 1 < COUNT_OF(cases)) {
            assert_null(t);
            assert_error(KILN_E_FORMAT, cases[i].message);
        } else {
            assert_tensor(t, KILN_I64, KILN_SHAPE(2), (int64_t[]){0, 1});
            kiln_free(&t);
        }
    }
    kiln_vocabulary_free(&v);
    v = kiln_vocabulary_characters(NULL, 0);
    assert_int_equal(kiln_vocabulary_count(v), 0);
    kiln_vocabulary_free(&v);
    assert_null(kiln_vocabulary_of_file(temp("none.txt")));
    assert_error(KILN_E_MISSING, "none.txt");
}
