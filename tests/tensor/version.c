// The version of the headers and of the library, which are one here.
#include <kiln/kiln.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#if KILN_VERSION < KILN_VERSION_NUMBER(0, 1, 0) || KILN_VERSION_NUMBER(1, 2, 3) != 1002003
#error "the preprocessor compares versions"
#endif

static void test_library_has_the_version_of_its_headers(void **state)
{
    char text[64];
    assert_int_equal(kiln_version(), KILN_VERSION);
    snprintf(text, sizeof text, "%d.%d.%d", KILN_VERSION_MAJOR, KILN_VERSION_MINOR, KILN_VERSION_PATCH);
    assert_string_equal(kiln_version_string(), text);
    assert_string_equal(kiln_version_string(), KILN_VERSION_STRING);
}

// Whoever reports an error wants to say of which version, and the error must still be there.
static void test_version_is_told_while_an_error_is_pending(void **state)
{
    assert_null(kiln_device_open("no such device"));
    kiln_status status = kiln_error();
    assert_int_not_equal(status, KILN_OK);
    assert_int_equal(kiln_version(), KILN_VERSION);
    assert_string_equal(kiln_version_string(), KILN_VERSION_STRING);
    assert_int_equal(kiln_error(), status);
    kiln_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library_has_the_version_of_its_headers),
        cmocka_unit_test(test_version_is_told_while_an_error_is_pending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
