// CSV: fields, types, mistakes with their places, round trips; in a locale with a decimal comma too.
#include "files.h"

#include <kiln/text.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static kiln_table *table_of(const char *text, const kiln_csv_opts *opts)
{
    store_bytes(temp("t.csv"), text, strlen(text));
    return kiln_csv_load(temp("t.csv"), opts);
}

static void expect_cells(kiln_table *t, size_t rows, size_t columns, const char *const *want)
{
    assert_no_error();
    assert_int_equal(kiln_table_rows(t), rows);
    assert_int_equal(kiln_table_columns(t), columns);
    for (size_t i = 0; i < rows * columns; i++)
        assert_string_equal(kiln_table_text(t, (int64_t)(i / columns), i % columns), want[i]);
}

void csv_fields(void **state)
{
    static const char text[] = "\xef\xbb\xbf"
                               "name,note,n\r\n"
                               "a,\"x, \"\"y\"\"\",1\r\n\r\n"
                               "b,\"two\r\nlines\",2\n\n"
                               "\"\", plain ,3";
    kiln_table *t = table_of(text, NULL);
    expect_cells(t, 3, 3, (const char *[]){"a", "x, \"y\"", "1", "b", "two\r\nlines", "2", "", " plain ", "3"});
    assert_string_equal(kiln_table_name(t, 0), "name");
    assert_int_equal(kiln_table_find(t, "n"), 2);
    assert_int_equal(kiln_table_type(t, 2), KILN_COLUMN_INT);
    assert_int_equal(kiln_table_type(t, 1), KILN_COLUMN_TEXT);
    kiln_tensor *missing = kiln_table_missing(t, dev, 0); // quotes are a text, if an empty one
    assert_tensor(missing, KILN_BOOL, KILN_SHAPE(3), (unsigned char[]){0, 0, 0});
    kiln_free(&missing);
    kiln_table_free(&t);
    assert_null(t);
    t = table_of("1;2\n3;\n", KILN_CSV(.delimiter = ';', .no_header = true));
    expect_cells(t, 2, 2, (const char *[]){"1", "2", "3", ""});
    assert_string_equal(kiln_table_name(t, 1), "1");
    kiln_table_free(&t);
    t = table_of("a,b\n", NULL);
    expect_cells(t, 0, 2, NULL);
    kiln_tensor *none = kiln_table_matrix(t, dev, KILN_F32, KILN_TEXTS("b", "a"));
    assert_shape(none, KILN_F32, KILN_SHAPE(0, 2));
    kiln_free(&none);
    kiln_table_free(&t);
}

void csv_types(void **state)
{
    kiln_table *t = table_of("b,i,f,t,m,im,bm,big\n"
                             "true, 1 ,1.5,x,?,1,true,9223372036854775807\n"
                             "FALSE,-2,inf,y,2.5,,true,9223372036854775808\n"
                             "True,+3,nan,x,NA,3,,0\n",
                             KILN_CSV(.missing = KILN_NAMES("?", "NA")));
    static const kiln_column types[] = {KILN_COLUMN_BOOL,  KILN_COLUMN_INT,   KILN_COLUMN_FLOAT, KILN_COLUMN_TEXT,
                                        KILN_COLUMN_FLOAT, KILN_COLUMN_FLOAT, KILN_COLUMN_TEXT,  KILN_COLUMN_FLOAT};
    assert_no_error();
    for (size_t c = 0; c < COUNT_OF(types); c++) assert_int_equal(kiln_table_type(t, c), types[c]);
    kiln_tensor *got = kiln_table_column(t, dev, 0);
    assert_tensor(got, KILN_BOOL, KILN_SHAPE(3), (unsigned char[]){1, 0, 1});
    kiln_free(&got);
    got = kiln_table_column(t, dev, 1);
    assert_tensor(got, KILN_I64, KILN_SHAPE(3), (int64_t[]){1, -2, 3});
    kiln_free(&got);
    double v[6];
    got = kiln_table_matrix(t, dev, KILN_F64, KILN_TEXTS("m", "f"));
    assert_shape(got, KILN_F64, KILN_SHAPE(3, 2));
    kiln_read(got, v, sizeof v);
    assert_true(isnan(v[0]) && v[1] == 1.5 && v[2] == 2.5 && isinf(v[3]) && isnan(v[4]) && isnan(v[5]));
    kiln_free(&got);
    got = kiln_table_missing(t, dev, 4);
    assert_tensor(got, KILN_BOOL, KILN_SHAPE(3), (unsigned char[]){1, 0, 1});
    kiln_free(&got);
    got = kiln_table_codes(t, dev, kiln_table_find(t, "t"));
    assert_tensor(got, KILN_I64, KILN_SHAPE(3), (int64_t[]){0, 1, 0});
    kiln_free(&got);
    got = kiln_table_codes(t, dev, 5);
    assert_tensor(got, KILN_I64, KILN_SHAPE(3), (int64_t[]){0, -1, 1});
    kiln_free(&got);
    got = kiln_table_matrix(t, dev, KILN_F32, KILN_TEXTS("b", "i", "big"));
    assert_tensor(got, KILN_F32, KILN_SHAPE(3, 3),
                  (float[]){1, 1, 9223372036854775807.0f, 0, -2, 9223372036854775808.0f, 1, 3, 0});
    kiln_free(&got);
    kiln_table_free(&t);
    // As they are given: 1 and 0 as bools, numbers as texts.
    static const kiln_column given[] = {KILN_COLUMN_BOOL, KILN_COLUMN_TEXT, KILN_COLUMN_FLOAT, KILN_COLUMN_AUTO};
    t = table_of("1,2,3,4,5\n0,3,4,5,6\n", KILN_CSV(.no_header = true, .types = given, .n_types = 4));
    static const kiln_column then[] = {KILN_COLUMN_BOOL, KILN_COLUMN_TEXT, KILN_COLUMN_FLOAT, KILN_COLUMN_INT,
                                       KILN_COLUMN_INT};
    for (size_t c = 0; c < COUNT_OF(then); c++) assert_int_equal(kiln_table_type(t, c), then[c]);
    got = kiln_table_column(t, dev, 0);
    assert_tensor(got, KILN_BOOL, KILN_SHAPE(2), (unsigned char[]){1, 0});
    kiln_free(&got);
    kiln_table_free(&t);
}

void csv_mistakes_have_places(void **state)
{
    static const kiln_column given[] = {KILN_COLUMN_INT, KILN_COLUMN_FLOAT};
    static const struct {
        const char *text;
        bool typed;
        const char *message;
    } cases[] = {
        {"", false, "nothing stands in the file"},
        {"\n\r\n\n", false, "nothing stands in the file"},
        {"a,b\n1,2\n\n3\n", false, "line 4: 1 fields, the first has 2"},
        {"a,b\n1,2,3\n", false, "line 2: 3 fields"},
        {"a,b\n\"x\ny\",\"z\n", false, "line 3, column 2: the quotes of the field do not end"},
        {"a,b\n1,x\"y\n", false, "line 2, column 2: quotes in a field that does not begin"},
        {"a,b\n\"x\"y,1\n", false, "line 2, column 1: something follows the quotes"},
        {"a,b\n1,2\n1.5,2\n", true, "line 3, column 1 (\"a\"): \"1.5\" is not an integer"},
        {"a,b\n\"\n1\",2\n", true, "line 2, column 1"},
        {"a,b\n1,0x10\n", true, "line 2, column 2 (\"b\"): \"0x10\" is not a number"},
        {"a,b\n,2\n", true, "line 2, column 1 (\"a\"): \"\" is not an integer"},
        {"a,b\n99999999999999999999,2\n", true, "is not an integer"},
        {"a,b\n1,nan(3)\n", true, "is not a number"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_null(table_of(cases[i].text, cases[i].typed ? KILN_CSV(.types = given, .n_types = 2) : NULL));
        assert_error(KILN_E_FORMAT, cases[i].message);
    }
    store_bytes(temp("t.csv"), "a,b\n1,\0\n", 8);
    assert_null(kiln_csv_load(temp("t.csv"), NULL));
    assert_error(KILN_E_FORMAT, "line 2, column 2: a byte of 0");
    assert_null(table_of("1\n", KILN_CSV(.types = given, .n_types = 2)));
    assert_error(KILN_E_ARGUMENT, "types of 2 columns, there are 1");
    assert_null(table_of("1\n", KILN_CSV(.delimiter = '"')));
    assert_error(KILN_E_ARGUMENT, "the delimiter");
    assert_null(table_of("1\n", KILN_CSV(.n_types = 1)));
    assert_error(KILN_E_ARGUMENT, ".types is NULL");
    assert_null(table_of("1\n", KILN_CSV(.types = (kiln_column[]){9}, .n_types = 1)));
    assert_error(KILN_E_ARGUMENT, "there is no type 9");
    assert_null(kiln_csv_load(temp("none.csv"), NULL));
    assert_error(KILN_E_MISSING, "none.csv");
    kiln_table *t = table_of("a,b\n1,x\n", NULL);
    assert_int_equal(kiln_table_find(t, "c"), SIZE_MAX);
    assert_error(KILN_E_ARGUMENT, "table_find: there is no column \"c\"");
    assert_null(kiln_table_column(t, dev, 1));
    assert_error(KILN_E_DTYPE, "column 1, \"b\", is of texts");
    assert_null(kiln_table_column(t, dev, 2));
    assert_error(KILN_E_ARGUMENT, "column 2 of 2");
    assert_null(kiln_table_text(t, 1, 0));
    assert_error(KILN_E_ARGUMENT, "row 1 of 1");
    assert_null(kiln_table_matrix(t, dev, KILN_I32, KILN_TEXTS("a")));
    assert_error(KILN_E_DTYPE, "to i32");
    assert_null(kiln_table_matrix(t, dev, KILN_F32, KILN_TEXTS("b")));
    assert_error(KILN_E_DTYPE, "is of texts");
    kiln_table_free(&t);
}

static void round_trip(void)
{
    const double d[] = {0.1, -1e300, INFINITY, 5e-324, 1.0 / 3};
    const float f[] = {0.1f, 16777216, -1e-40f, 3, NAN};
    const int64_t i[] = {INT64_MIN, INT64_MAX, 0, -1, 7};
    const unsigned char b[] = {1, 0, 1, 1, 0};
    kiln_tensor *columns[] = {
        kiln_from_data(dev, KILN_F64, KILN_SHAPE(5), d), kiln_from_data(dev, KILN_F32, KILN_SHAPE(5), f),
        kiln_from_data(dev, KILN_I64, KILN_SHAPE(5), i), kiln_from_data(dev, KILN_BOOL, KILN_SHAPE(5), b)};
    const char *names[] = {"d", "a \"name\", quoted", "i", "b\n"};
    for (int k = 0; k < 2; k++) {
        const kiln_csv_opts *opts = k ? KILN_CSV(.delimiter = '\t') : NULL;
        assert_int_equal(kiln_csv_save(temp("r.csv"), names, columns, 4, opts), KILN_OK);
        kiln_table *t = kiln_csv_load(temp("r.csv"), opts);
        assert_no_error();
        for (size_t c = 0; c < 4; c++) assert_string_equal(kiln_table_name(t, c), names[c]);
        kiln_tensor *got[4];
        for (size_t c = 0; c < 4; c++) got[c] = kiln_table_column(t, dev, c);
        assert_tensor(got[0], KILN_F64, KILN_SHAPE(5), d);
        assert_tensor(got[2], KILN_I64, KILN_SHAPE(5), i);
        assert_tensor(got[3], KILN_BOOL, KILN_SHAPE(5), b);
        double wide[5];
        kiln_read(got[1], wide, sizeof wide);
        for (int n = 0; n < 4; n++) assert_true((float)wide[n] == f[n]);
        assert_true(isnan(wide[4]));
        assert_string_equal(kiln_table_text(t, 0, 0), "0.1");
        assert_string_equal(kiln_table_text(t, 0, 1), "0.1");
        free_all(got, 4);
        kiln_table_free(&t);
    }
    free_all(columns, 4);
}

void csv_round_trips(void **state)
{
    round_trip();
    // Where the C library has such a locale.
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "ru_RU.UTF-8"};
    for (size_t i = 0; i < COUNT_OF(locales); i++) {
        if (!setlocale(LC_NUMERIC, locales[i])) continue;
        round_trip();
        break;
    }
    setlocale(LC_NUMERIC, "C");
    kiln_tensor *a = kiln_zeros(dev, KILN_F16, KILN_SHAPE(2)), *b = kiln_zeros(dev, KILN_U8, KILN_SHAPE(3)),
                *square = kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 2));
    assert_int_equal(kiln_csv_save(temp("r.csv"), (const char *[]){"a"}, &a, 1, KILN_CSV(.no_header = true)), KILN_OK);
    size_t n;
    unsigned char *bytes = load_bytes(temp("r.csv"), &n);
    assert_int_equal(n, 4);
    assert_memory_equal(bytes, "0\n0\n", 4);
    free(bytes);
    kiln_csv_save(temp("r.csv"), (const char *[]){"a", "b"}, (kiln_tensor *[]){a, b}, 2, NULL);
    assert_error(KILN_E_SHAPE, "column 1 has rank 1 and 3 elements, the first 2");
    kiln_csv_save(temp("r.csv"), (const char *[]){"a"}, &square, 1, NULL);
    assert_error(KILN_E_SHAPE, "column 0 has rank 2");
    kiln_csv_save(temp("r.csv"), (const char *[]){"a", "a"}, (kiln_tensor *[]){a, a}, 2, NULL);
    assert_error(KILN_E_ARGUMENT, "given twice");
    free_all((kiln_tensor *[]){a, b, square}, 3);
}
