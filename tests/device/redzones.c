// KILN_DEBUG=redzones: what writes around a block is told of when the block is given back, and nothing else is.
#include "device/device.h"
#include "program/impl.h"
#include "tensor/tensor.h"
#include <kiln/graph.h>
#include <kiln/kiln.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static kiln_device *dev;
static int warnings;
static char last[512];

static void hear(void *user, const char *message)
{
    warnings++;
    snprintf(last, sizeof last, "%s", message);
}

static int setup(void **state)
{
    kiln_set_log(hear, NULL);
    warnings = 0;
    return 0;
}

static const uint64_t sizes[] = {1, 4, 255, 256, 257, 4000, 16 << 10, (16 << 10) + 12, 1 << 20, (1 << 20) + 4, 5 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void blocks_may_be_filled(void **state)
{
    for (int i = 0; i < 3 * SIZES; i++) {
        struct block b;
        assert_int_equal(device_alloc(dev, sizes[i % SIZES], &b), KILN_OK);
        assert_int_equal(b.address % 256, 0);
        assert_ptr_equal(b.host, (void *)(uintptr_t)b.address);
        memset(b.host, i, b.size_B);
        device_release(dev, &b);
    }
    assert_int_equal(warnings, 0);
}

static void writes_around_them_are_told_of(void **state)
{
    for (int i = 0; i < SIZES; i++) {
        const struct {
            int64_t at, size_B;
            const char *told;
        } writes[] = {{-1, 1, "1 bytes before"},
                      {-256, 4, "256 bytes before it"},
                      {(int64_t)sizes[i], 4, "4 bytes behind"},
                      {(int64_t)sizes[i] + 200, 8, "the first 200 bytes behind it"}};
        for (int k = 0; k < 4; k++) {
            struct block b;
            setup(NULL);
            assert_int_equal(device_alloc(dev, sizes[i], &b), KILN_OK);
            memset((char *)b.host + writes[k].at, 1, (size_t)writes[k].size_B);
            assert_int_equal(warnings, 0);
            device_release(dev, &b);
            assert_int_equal(warnings, 1);
            assert_non_null(strstr(last, writes[k].told));
        }
    }
}

// A tensor's memory is such a block; ops write nothing around it.
static void tensors_lie_between_them(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    for (int64_t n = 1; n < 70; n++) {
        kiln_tensor *x = kiln_arange(dev, KILN_F32, 0, (double)n, 1), *last_one = NULL;
        kiln_tensor *all[] = {kiln_cast(x, KILN_I8), kiln_cast(x, KILN_BF16), kiln_softmax(x, 0),
                              kiln_flip(x, KILN_AXES(0))};
        for (int i = 0; i < 4; i++) last_one = kiln_contiguous(all[i]);
        assert_non_null(last_one);
    }
    kiln_scope_end(&scope);
    assert_int_equal(warnings, 0);
    scope = kiln_scope_begin();
    kiln_tensor *t = kiln_zeros(dev, KILN_F32, KILN_SHAPE(3));
    float *at = t->storage->block.host;
    at[3] = 1;
    kiln_scope_end(&scope);
    assert_int_equal(warnings, 1);
}

// The first launch that writes a temporary does so a little further on.
static void write_behind(struct program *p)
{
    for (int i = 0; i < p->n_actions; i++) {
        struct launch *l = p->actions[i].plain;
        for (int o = 0; l && o < l->n_operands; o++) {
            if (l->operands[o].flags & OPERAND_IMMEDIATE || p->places[l->operands[o].slot].kind != PLACE_ARENA)
                continue;
            l->operands[o].address += 8;
            return;
        }
    }
    fail();
}

// What a program keeps in between lies in one block, with zones of its own.
static void temporaries_lie_between_them(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_graph *g = kiln_graph_parse("kiln 1\n%0: f32[3,3] = input \"x\"\n"
                                     "%1: f32[3,3] = matmul(%0, %0)\n%2: f32[3,3] = matmul(%1, %0)\n"
                                     "%3: f32[3,3] = matmul(%2, %1)\nreturn %3 \"y\"\n");
    struct program *p;
    assert_int_equal(program_create(g, dev, NULL, NULL, &p), KILN_OK);
    kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(3, 3), 1), *y;
    assert_int_equal(program_run(p, &x, NULL, &y), KILN_OK);
    assert_true(kiln_item(kiln_select(kiln_select(y, 0, 0), 0, 0)) == 81); // x^5
    assert_int_equal(warnings, 0);
    write_behind(p);
    assert_int_equal(program_run(p, &x, NULL, &y), KILN_OK);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last, "8 bytes behind a block of 36 on temporaries of a program"));
    program_destroy(&p);
    kiln_graph_free(&g);
    kiln_scope_end(&scope);
}

static int open_device(void **state)
{
    dev = kiln_device_open("cpu");
    return dev ? 0 : -1;
}

static int close_device(void **state)
{
    kiln_device_close(&dev);
    return 0;
}

int main(void)
{
    // The library reads it as it is loaded.
    if (!getenv("KILN_DEBUG") || strcmp(getenv("KILN_DEBUG"), "redzones")) {
        setenv("KILN_DEBUG", "redzones", 1);
        execl("/proc/self/exe", "test_redzones", (char *)NULL);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(blocks_may_be_filled, setup),
        cmocka_unit_test_setup(writes_around_them_are_told_of, setup),
        cmocka_unit_test_setup(tensors_lie_between_them, setup),
        cmocka_unit_test_setup(temporaries_lie_between_them, setup),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
