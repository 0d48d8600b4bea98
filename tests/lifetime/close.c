// Closing a device: what lives on it keeps it, and debug builds say what does.
#include "lifetime.h"
#include "tensor/tensor.h"

void a_closed_device_lives_until_its_last_tensor_goes(void **state)
{
    kiln_device *mine = kiln_device_open(device_name), *twin = mine;
    assert_non_null(mine);
    assert_ptr_not_equal(mine, dev);
    kiln_tensor *a = kiln_arange(mine, KILN_F32, 0, 4, 1);
    bool tracked = live_tracked;
    live_tracked = false; // the list is another test's
    kiln_device_close(&mine);
    live_tracked = tracked;
    assert_null(mine);
    // It computes on: the tensor holds it.
    assert_ptr_equal(kiln_tensor_device(a), twin);
    kiln_tensor *b = kiln_mul(a, a);
    float v[4];
    assert_int_equal(kiln_read(b, v, sizeof v), KILN_OK);
    assert_true(v[0] == 0 && v[3] == 9);
    kiln_free(&a);
    assert_int_equal(kiln_read(b, v, sizeof v), KILN_OK);
    // It is nobody's default any more.
    assert_ptr_equal(kiln_get_device(), dev);
    kiln_free(&b);
    EXPECT_NO_ERROR();
    mine = kiln_device_open(device_name);
    assert_non_null(mine);
    kiln_device_close(&mine);
    kiln_device_close(&mine);
}

void without_a_device_creation_says_what_to_call(void **state)
{
    // This process has one open: the test closes it and opens it anew.
    kiln_device_close(&dev);
    assert_null(kiln_get_device());
    expect_error(KILN_E_STATE, "kiln_device_open", "close.c:");
    assert_null(kiln_zeros(NULL, KILN_F32, KILN_SHAPE(2)));
    expect_error(KILN_E_STATE, "kiln_device_open", "close.c:");
    assert_null(kiln_from_data(NULL, KILN_F32, KILN_SHAPE0, &(float){1}));
    expect_error(KILN_E_STATE, "kiln_device_open", "close.c:");
    dev = kiln_device_open(device_name);
    assert_non_null(dev);
    kiln_tensor *t = kiln_zeros(NULL, KILN_F32, KILN_SHAPE(2));
    assert_ptr_equal(kiln_tensor_device(t), dev);
    kiln_free(&t);
    EXPECT_NO_ERROR();
}

static int n_messages;
static char message[1024];

static void keep_message(void *user, const char *text)
{
    n_messages++;
    snprintf(message, sizeof message, "%s", text);
}

void handles_alive_at_close_are_listed(void **state)
{
    bool tracked = live_tracked;
    live_tracked = true;
    kiln_set_log(keep_message, NULL);
    n_messages = 0;
    kiln_device *mine = kiln_device_open(device_name);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_zeros(mine, KILN_F32, KILN_SHAPE(2, 3));
    int x_line = __LINE__ - 1;
    kiln_tensor *gone = kiln_exp(x);
    kiln_tensor *y = kiln_own(kiln_cast(x, KILN_I64));
    int y_line = __LINE__ - 1;
    kiln_tensor *elsewhere = kiln_zeros(dev, KILN_F32, KILN_SHAPE(7));
    kiln_free(&gone);
    kiln_device_close(&mine);
    assert_int_equal(n_messages, 1);
    char want[2][64];
    snprintf(want[0], sizeof want[0], "f32[2,3] made at close.c:%d", x_line);
    snprintf(want[1], sizeof want[1], "i64[2,3] made at close.c:%d", y_line);
    if (strncmp(message, "device_close: 2 handles on ", 27) || !strstr(message, want[0]) || !strstr(message, want[1]))
        fail_msg("\"%s\" does not hold \"%s\" and \"%s\"", message, want[0], want[1]);
    kiln_free(&y);
    kiln_scope_end(&scope);
    assert_ptr_not_equal(elsewhere, NULL);

    // Many are not listed one by one; none makes no message.
    mine = kiln_device_open(device_name);
    scope = kiln_scope_begin();
    for (int i = 0; i < 30; i++) kiln_ones(mine, KILN_F32, KILN_SHAPE(2));
    kiln_device_close(&mine);
    assert_int_equal(n_messages, 2);
    assert_non_null(strstr(message, "30 handles on "));
    assert_non_null(strstr(message, " and 22 more"));
    kiln_scope_end(&scope);
    mine = kiln_device_open(device_name);
    scope = kiln_scope_begin();
    kiln_ones(mine, KILN_F32, KILN_SHAPE(2));
    kiln_scope_end(&scope);
    kiln_device_close(&mine);
    assert_int_equal(n_messages, 2);
    kiln_set_log(NULL, NULL);
    live_tracked = tracked;
}
