// IDX.
#include "files.h"

void idx_reads(void **state)
{
    const unsigned char images[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const float floats[] = {1.5f, -2, 0.25f};
    kiln_tensor *t = kiln_idx_load(dev, golden("images.idx"));
    assert_tensor(t, KILN_U8, KILN_SHAPE(2, 2, 3), images);
    kiln_free(&t);
    t = kiln_idx_load(dev, golden("images.idx.gz"));
    assert_tensor(t, KILN_U8, KILN_SHAPE(2, 2, 3), images);
    kiln_free(&t);
    t = kiln_idx_load(dev, golden("floats.idx"));
    assert_tensor(t, KILN_F32, KILN_SHAPE(3), floats);
    kiln_free(&t);
}

void idx_header_lies(void **state)
{
    static const struct {
        unsigned char bytes[20];
        size_t n;
        const char *message;
        kiln_status code;
    } cases[] = {
        {{0, 0, 8, 1, 0, 0, 0, 2, 7, 7}, 10, "", KILN_OK},
        {{0, 0, 11, 1, 0, 0, 0, 1, 7, 7}, 10, "", KILN_OK},
        {{0, 0, 8, 0, 7}, 5, "", KILN_OK},
        {{1, 0, 8, 1, 0, 0, 0, 2, 7, 7}, 10, "is not IDX: it begins with 01 00 08 01", KILN_E_FORMAT},
        {{0, 0, 10, 1, 0, 0, 0, 2, 7, 7}, 10, "00 00 0a 01", KILN_E_FORMAT},
        {{0, 0, 8, 1, 0, 0, 0, 3, 7, 7}, 10, "u8[3] has 3 bytes", KILN_E_FORMAT},
        {{0, 0, 8, 1, 0, 0, 0, 1, 7, 7}, 10, "goes on", KILN_E_FORMAT},
        {{0, 0, 8, 1, 255, 255, 255, 255, 7, 7}, 10, "u8[4294967295] has 4294967295 bytes", KILN_E_FORMAT},
        {{0, 0, 14, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, 18, "overflows", KILN_E_FORMAT},
        {{0, 0, 8, 255}, 20, "cut off", KILN_E_FORMAT},
        {{0, 0, 8}, 3, "cut off", KILN_E_FORMAT},
        {{0}, 0, "cut off", KILN_E_FORMAT},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        store_bytes(temp("lie.idx"), cases[i].bytes, cases[i].n);
        kiln_tensor *t = kiln_idx_load(dev, temp("lie.idx"));
        if (cases[i].code == KILN_OK)
            assert_no_error();
        else
            assert_error(cases[i].code, cases[i].message);
        kiln_free(&t);
    }
    unsigned char many[96] = {0, 0, 8, 17};
    store_bytes(temp("lie.idx"), many, sizeof many);
    assert_null(kiln_idx_load(dev, temp("lie.idx")));
    assert_error(KILN_E_UNSUPPORTED, "16 dimensions");
}
