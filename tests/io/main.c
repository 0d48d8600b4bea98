// Files: what others wrote (golden/io), round trips, broken files of every kind, and writing that fails.
#include "files.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(test) cmocka_unit_test_teardown(test, clear_error),
#include "cases.def"
#undef CASE
    };
    return cmocka_run_group_tests_name("io", tests, open_all, close_all);
}
