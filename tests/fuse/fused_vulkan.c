// Fused kernels as GLSL on the Vulkan device, against the reference that computes them on the host point by point.
#include "fused_vulkan_fixture.h"
#include "codegen/glsl/form.h"
#include "ir/tile.h"

// --- pointwise

static void pointwise_chains(void **state)
{
    static const int64_t sizes[][2] = {{1}, {7}, {64}, {1000}, {4096}, {10001}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct build b;
        build_begin(&b, 0, 1, sizes[i]);
        int x = load(&b, KILN_F32, 1), y = load(&b, KILN_F32, 1);
        store(&b, KILN_F32, 1, expr2(&b, "(a + b) * a - b / (a * a + 1.0)", x, y));
        finish(&b);
        check(&b);
        build_end(&b);
    }
}

static void layouts_and_dimensions(void **state)
{
    const int64_t sizes[] = {3, 2, 5, 2, 4, 2, 3, 8};
    for (int n = 1; n <= 8; n++) {
        struct build b;
        int64_t mixed[8], reversed[8], step = 1;
        build_begin(&b, 0, n, sizes + 8 - n);
        for (int d = n - 1; d >= 0; d--) {
            mixed[d] = (d & 1 ? -1 : 1) * step * 2;
            step *= b.k.sizes[d];
        }
        step = 1;
        for (int d = 0; d < n; d++) {
            reversed[d] = step;
            step *= b.k.sizes[d];
        }
        int x = dag_load(&b.dag, CLASS_F32, (uint16_t)add_in(&b, KILN_F32, mixed), -1, -1);
        int y = dag_load(&b.dag, CLASS_F32, (uint16_t)add_in(&b, KILN_F32, reversed), -1, -1);
        int z = load(&b, KILN_F32, 0x55), u = load(&b, KILN_F32, 0xaa), w = load(&b, KILN_F32, 0);
        int v = expr(&b, "(a * b + c) - d", CLASS_F32, (const int[]){x, y, z, u}, 4);
        store(&b, KILN_F32, 0xff, expr2(&b, "a * b", v, w));
        store_strided(&b, KILN_F32, reversed, v);
        finish(&b);
        check(&b);
        build_end(&b);
    }
}

static void every_dtype_is_loaded_and_stored(void **state)
{
    for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (dtype == KILN_F64 && !dev->caps.f64) continue;
        for (int64_t n = 5; n <= 64; n += 59) {
            struct build b;
            build_begin(&b, 0, 2, (const int64_t[]){3, n});
            int x = load(&b, dtype, 3), y = load(&b, dtype, 2);
            store(&b, dtype, 3, dtype == KILN_BOOL ? expr2(&b, "a ^^ b", x, y) : expr2(&b, "a * b - a", x, y));
            store(&b, KILN_BOOL, 3, dtype == KILN_BOOL ? expr1(&b, "!a", x) : expr2(&b, "a < b", x, y));
            store(&b, KILN_F32, 3, expr1(&b, "f32(a)", x));
            store(&b, KILN_I64, 3, expr1(&b, "i64(a)", y));
            finish(&b);
            check(&b);
            build_end(&b);
        }
    }
}

static void indices_sizes_and_scalars(void **state)
{
    struct build b;
    build_begin(&b, 0, 2, (const int64_t[]){6, 20});
    b.k.n_scalars = 5;
    b.k.scalar_cls[0] = CLASS_F32, b.k.scalars[0] = bits_f32(2.5f);
    b.k.scalar_cls[1] = CLASS_I64, b.k.scalars[1] = (uint64_t)INT64_C(-70000000000);
    b.k.scalar_cls[2] = CLASS_I32, b.k.scalars[2] = (uint32_t)-9;
    b.k.scalar_cls[3] = CLASS_BOOL, b.k.scalars[3] = 1;
    b.k.scalar_cls[4] = dev->caps.f64 ? CLASS_F64 : CLASS_F32, b.k.scalars[4] = dev->caps.f64 ? bits_f64(0.1) : 0;
    int s[5];
    for (int i = 0; i < 5; i++) s[i] = dag_input(&b.dag, (enum scalar_class)b.k.scalar_cls[i], (uint16_t)i);
    int row = dag_dim(&b.dag, 0), column = dag_dim(&b.dag, 1), width = dag_size(&b.dag, 1);
    int x = load(&b, KILN_F32, 3);
    int place = expr(&b, "a * c + b", CLASS_I64, (const int[]){row, column, width}, 3);
    store(&b, KILN_I64, 3, expr2(&b, "a + b", place, s[1]));
    store(&b, KILN_F32, 3, expr2(&b, "a * b", x, s[0]));
    store(&b, KILN_I32, 3, expr(&b, "d ? i32(a) * b : b", CLASS_I32, (const int[]){place, s[2], s[2], s[3]}, 4));
    if (dev->caps.f64) store(&b, KILN_F64, 3, expr2(&b, "f64(a) + b", x, s[4]));
    finish(&b);
    check(&b);
    build_end(&b);
}

// out[i, j] = table[index[i], j] where the index is in range, else 0; and a shifted row, as padding makes it.
static void gathers_and_conditions(void **state)
{
    for (int64_t width = 6; width <= 32; width += 26) {
        struct build b;
        build_begin(&b, 0, 2, (const int64_t[]){9, width});
        int index = load(&b, KILN_I32, 1);
        int64_t strides[2] = {0, 1};
        int table = add_in(&b, KILN_F32, strides);
        b.elements[b.k.in[table].buffer] = 101 * width;
        int at = expr2(&b, "i64(a) * b", index, dag_size(&b.dag, 1));
        int ok = expr1(&b, "a >= 0 && a <= 100", index);
        int x = dag_load(&b.dag, CLASS_F32, (uint16_t)table, at, ok);
        int dense_in = add_in(&b, KILN_F32, (const int64_t[]){width, 1});
        int inside = expr1(&b, "a >= 2", dag_dim(&b.dag, 1));
        int minus_two = dag_number(&b.dag, CLASS_I64, -2);
        int shifted = dag_load(&b.dag, CLASS_F32, (uint16_t)dense_in, minus_two, inside);
        int plain = dag_load(&b.dag, CLASS_F32, (uint16_t)dense_in, -1, -1);
        store(&b, KILN_F32, 3, expr(&b, "a + b * c", CLASS_F32, (const int[]){x, shifted, plain}, 3));
        finish(&b);
        check(&b);
        build_end(&b);
    }
}

// --- rows

static void rows_of_every_length(void **state)
{
    static const int64_t shapes[][2] = {{5, 1},  {5, 3},   {70, 4},  {3, 8},    {9, 13},   {3, 16},
                                        {2, 33}, {17, 64}, {2, 100}, {3, 1000}, {2, 4096}, {1, 20000}};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        for (int columns = 0; columns < 2; columns++) {
            struct build b;
            build_softmax(&b, KILN_F32, shapes[i][0], shapes[i][1], columns);
            check_within(&b, 8, 0);
            build_end(&b);
        }
    }
}

static void rows_in_halves(void **state)
{
    static const unsigned dtypes[] = {KILN_F16, KILN_BF16};
    for (size_t i = 0; i < COUNT_OF(dtypes); i++) {
        struct build b;
        build_softmax(&b, dtypes[i], 6, 200, false);
        check_within(&b, 2, 0);
        build_end(&b);
    }
}

// Of two bytes an element eight are taken at a time, where the length of a row lets them: points in one dimension and
// two, with a row that is the same for all, and one number; rows that are kept in registers, and longer ones.
static void eights_of_halves(void **state)
{
    static const unsigned dtypes[] = {KILN_F16, KILN_BF16, KILN_I16, KILN_U16};
    static const int64_t sizes[][2] = {{1, 7}, {1, 64}, {1, 4099}, {5, 8}, {3, 12}, {7, 24}, {2, 2056}, {3, 9}};
    dev->caps.parallelism = 1 << 17;
    for (size_t t = 0; t < COUNT_OF(dtypes); t++)
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            struct build b;
            build_begin(&b, 0, 2, sizes[i]);
            int x = load(&b, dtypes[t], 3), y = load(&b, dtypes[t], 2), z = load(&b, dtypes[t], 0);
            store(&b, dtypes[t], 3, expr(&b, "a * b - a + c", b.dag.nodes[x].cls, (const int[]){x, y, z}, 3));
            store(&b, dtypes[t], 3, expr2(&b, "a - b", x, y));
            finish(&b);
            check(&b);
            build_end(&b);
        }
    static const int64_t rows[][2] = {{3, 512}, {5, 1000}, {4, 2048}, {3, 2056}, {2, 9000}, {3, 9004}};
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; i < COUNT_OF(rows); i++) {
            struct build b;
            build_softmax(&b, dtypes[t], rows[i][0], rows[i][1], false);
            check_within(&b, 2, 0);
            build_end(&b);
        }
}

// Every fold in every class, over rows of several dimensions, in the middle of the tensor and at its end.
static void every_fold(void **state)
{
    static const unsigned dtypes[] = {KILN_F32, KILN_F64, KILN_I32, KILN_I64, KILN_BOOL};
    static const int64_t sizes[][4] = {{3, 4, 5, 7}, {2, 3, 40, 30}, {2, 1 << 10, 3, 5}};
    for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
        if (dtypes[t] == KILN_F64 && !dev->caps.f64) continue;
        for (size_t z = 0; z < COUNT_OF(sizes); z++) {
            for (int columns = 0; columns < 2; columns++) {
                struct build b;
                build_begin(&b, 2, 4, sizes[z]);
                int64_t across[4] = {1, sizes[z][0], sizes[z][1] * sizes[z][0],
                                     sizes[z][2] * sizes[z][1] * sizes[z][0]};
                int64_t along[4];
                dense(&b, 15, along);
                int i = add_in(&b, dtypes[t], columns ? across : along);
                int x = dag_load(&b.dag, class_of(dtypes[t]), (uint16_t)i, -1, -1);
                bool logical = dtypes[t] == KILN_BOOL;
                for (int how = logical ? REDUCE_ANY : REDUCE_SUM; how <= REDUCE_ARGMIN; how++) {
                    if (!logical && (how == REDUCE_ANY || how == REDUCE_ALL)) continue;
                    if (logical && how >= REDUCE_ARGMAX) continue;
                    bool place = how >= REDUCE_ARGMAX;
                    int v = dag_reduce(&b.dag, (enum scalar_reduce)how, x);
                    store(&b, place ? KILN_I64 : dtypes[t], 3, v);
                }
                finish(&b);
                // The reference sums f32 in f64, but f64 as the device does, in another order.
                check_within(&b, dtypes[t] == KILN_F64 ? 400 : 40, dtypes[t] == KILN_F32 ? 2 : 0.01);
                build_end(&b);
            }
        }
    }
}

static void row_indices_and_row_inputs(void **state)
{
    struct build b;
    build_begin(&b, 1, 3, (const int64_t[]){4, 3, 50});
    int x = load(&b, KILN_F32, 7), bias = load(&b, KILN_F32, 4), scale = load(&b, KILN_F32, 1),
        at = load(&b, KILN_I32, 3);
    int column = dag_dim(&b.dag, 2), row = dag_dim(&b.dag, 1);
    int masked = expr(&b, "a <= b * 10 ? c : -1.0e30", CLASS_F32, (const int[]){column, row, x}, 3);
    int m = dag_reduce(&b.dag, REDUCE_MAX, masked);
    int hit = expr(&b, "i64(a) == b ? c : 0.0", CLASS_F32, (const int[]){at, column, x}, 3);
    int picked = dag_reduce(&b.dag, REDUCE_SUM, hit);
    int y = expr(&b, "(a - b) * c + d", CLASS_F32, (const int[]){x, m, scale, bias}, 4);
    store(&b, KILN_F32, 7, y);
    store(&b, KILN_F32, 3, picked);
    store(&b, KILN_F32, 3, m);
    finish(&b);
    check(&b);
    build_end(&b);
}

// --- splits and totals

// What stands at a place that one fold finds, then at one that the next one finds with it, all of one access by rows.
static void places_of_several_stages(void **state)
{
    for (int64_t length = 6; length <= 70; length += 64) {
        struct build b;
        build_begin(&b, 1, 2, (const int64_t[]){9, length});
        int x = load(&b, KILN_F32, 3);
        int table = add_in(&b, KILN_F32, (const int64_t[]){length, 0});
        b.elements[b.k.in[table].buffer] = 9 * length;
        int first = expr1(&b, "rargmax(a)", x);
        int y = dag_load(&b.dag, CLASS_F32, (uint16_t)table, first, -1);
        int second = expr2(&b, "rargmin(abs(a - b))", x, y);
        int z = dag_load(&b.dag, CLASS_F32, (uint16_t)table, second, -1);
        store(&b, KILN_F32, 1, expr2(&b, "a + 2 * b", y, z));
        finish(&b);
        check(&b);
        build_end(&b);
    }
}

static void few_long_rows_are_split(void **state)
{
    static const int64_t shapes[][2] = {{1, 300000}, {3, 65536}, {2, 100003}, {1, 9000}};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        for (int totals = 0; totals < 2; totals++) {
            for (int columns = 0; columns < 2; columns++) {
                struct build b;
                build_sums(&b, shapes[i][0], shapes[i][1], columns, totals);
                check_within(&b, 40, 0);
                build_end(&b);
            }
        }
    }
}

// What a backward pass makes: an element output and its sum over long columns, or rows, in one walk.
static void element_outputs_beside_split_sums(void **state)
{
    for (int columns = 0; columns < 2; columns++) {
        struct build b;
        build_begin(&b, 1, 2, (const int64_t[]){5, 20003});
        int64_t strides[2] = {columns ? 1 : 20003, columns ? 5 : 1};
        int x = dag_load(&b.dag, CLASS_F32, (uint16_t)add_in(&b, KILN_F32, strides), -1, -1);
        int y = dag_load(&b.dag, CLASS_F32, (uint16_t)add_in(&b, KILN_F32, strides), -1, -1);
        int d = expr2(&b, "a > 0.0 ? b : 0.0", x, y);
        store_strided(&b, KILN_F32, strides, d);
        store(&b, KILN_F32, 1, dag_reduce(&b.dag, REDUCE_SUM, d));
        finish(&b);
        check_within(&b, 40, 100); // of 20,003 terms of either sign
        build_end(&b);
    }
}

static void totals_of_rows_and_points(void **state)
{
    static const int64_t shapes[][2] = {{1, 5}, {300, 7}, {5000, 20}, {64, 64}};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        struct build b;
        build_sums(&b, shapes[i][0], shapes[i][1], false, true);
        check_within(&b, 40, 0);
        build_end(&b);
        build_begin(&b, 0, 2, shapes[i]);
        int x = load(&b, KILN_F32, 3), y = load(&b, KILN_F32, 2);
        int d = expr2(&b, "(a - b) * (a - b)", x, y);
        store(&b, KILN_F32, 3, d);
        int total = dag_reduce(&b.dag, REDUCE_SUM | REDUCE_ACROSS, d);
        store(&b, KILN_F32, 0, expr1(&b, "sqrt(a)", total));
        store(&b, KILN_F32, 0, dag_reduce(&b.dag, REDUCE_MIN | REDUCE_ACROSS, x));
        store(&b, KILN_I64, 0, dag_reduce(&b.dag, REDUCE_ARGMIN | REDUCE_ACROSS, x));
        store(&b, KILN_BOOL, 0, dag_reduce(&b.dag, REDUCE_ANY | REDUCE_ACROSS, expr1(&b, "a > 1.99", x)));
        finish(&b);
        check_within(&b, 40, 0);
        build_end(&b);
    }
}

// The same launch again and again, without synchronising between: one bit pattern, and counters left at zero.
static void repeated_launches_give_one_bit_pattern(void **state)
{
    for (int form = 0; form < 2; form++) {
        struct build b;
        struct arrays a;
        struct ready r;
        build_sums(&b, form ? 5000 : 2, form ? 30 : 200000, false, true);
        arrays_begin(&b, &a);
        struct loaded l = compile(&b.k);
        make_ready(&l, &b.k, a.blocks, &r);
        assert_true(r.packed.workspace_B > 0 && r.packed.workspace_zeroed);
        void *first[MAX_BUFFERS] = {NULL};
        for (int round = 0; round < 50; round++) {
            for (int i = b.k.n_in; i < b.n_buffers; i++) {
                void *got = malloc(size_of(&b, i));
                memset(got, 0xee, size_of(&b, i));
                if (round) assert_ok(device_upload(dev, a.blocks[i].address, got, size_of(&b, i)));
                free(got);
            }
            assert_ok(device_launch_compiled(dev, &r.launch));
            for (int i = b.k.n_in; i < b.n_buffers; i++) {
                void *got = malloc(size_of(&b, i));
                assert_ok(device_download(dev, got, a.blocks[i].address, size_of(&b, i)));
                if (round) assert_memory_equal(got, first[i], size_of(&b, i));
                if (round)
                    free(got);
                else
                    first[i] = got;
            }
        }
        uint32_t counters[1024];
        assert_ok(device_download(dev, counters, r.workspace.address, sizeof counters));
        for (size_t i = 0; i < COUNT_OF(counters); i++) assert_int_equal(counters[i], 0);
        for (int i = 0; i < MAX_BUFFERS; i++) free(first[i]);
        dev->ops->unload_compiled(dev, l.compiled);
        release(&r);
        arrays_end(&b, &a);
        build_end(&b);
    }
}

// 64-bit indices: an access whose far points are never read needs them, and no memory out there.
static void wide_indices(void **state)
{
    for (int reduce = 0; reduce < 2; reduce++) {
        struct build b;
        build_begin(&b, reduce, 3, (const int64_t[]){2, 2, 300});
        int64_t strides[3] = {1 << 30, -(1 << 30), 1};
        struct fused_access *far = &b.k.in[b.k.n_in++];
        *far = (struct fused_access){.dtype = KILN_F32, .cls = CLASS_F32};
        memcpy(far->strides, strides, sizeof strides);
        far->buffer = (uint16_t)new_buffer(&b, KILN_F32, 300);
        int near = expr2(&b, "a == b", dag_dim(&b.dag, 0), dag_dim(&b.dag, 1));
        int zero = dag_number(&b.dag, CLASS_I64, 0);
        int x = dag_load(&b.dag, CLASS_F32, 0, zero, near), y = load(&b, KILN_F32, 7), z = load(&b, KILN_I64, 6);
        int v = expr2(&b, "a * b + b", x, y);
        store(&b, KILN_F32, 7, v);
        store(&b, KILN_I64, 7, expr2(&b, "a + b", z, dag_dim(&b.dag, 2)));
        if (reduce) {
            store(&b, KILN_F32, 3, dag_reduce(&b.dag, REDUCE_MAX, v));
            store(&b, KILN_I64, 3, dag_reduce(&b.dag, REDUCE_ARGMIN, y));
            int sum = dag_reduce(&b.dag, REDUCE_SUM, z);
            store(&b, KILN_I64, 0, dag_reduce(&b.dag, REDUCE_MAX | REDUCE_ACROSS, sum));
        }
        finish(&b);
        assert_true(fused_needs_wide_index(&b.k));
        check(&b);
        build_end(&b);
    }
}

// More accesses than push constants hold: the block lies in memory.
static void many_accesses(void **state)
{
    struct build b;
    build_begin(&b, 0, 2, (const int64_t[]){5, 33});
    int sum = load(&b, KILN_I32, 3);
    for (int i = 0; i < 6; i++) sum = expr2(&b, "a * 3 + b", sum, load(&b, KILN_I32, i & 1 ? 1 : 3));
    for (int i = 0; i < 4; i++) store(&b, KILN_I32, 3, sum = expr1(&b, "a * 5 - 1", sum));
    finish(&b);
    struct loaded l = compile(&b.k);
    assert_true(l.plan.indirect);
    dev->ops->unload_compiled(dev, l.compiled);
    check(&b);
    build_end(&b);
    build_begin(&b, 0, 4, (const int64_t[]){2, 3, 4, 5});
    int64_t strides[4] = {1, 2, 6, 24};
    sum = load(&b, KILN_I32, 15);
    for (int i = 0; i < 5; i++)
        sum = expr2(&b, "a * 3 + b", sum, dag_load(&b.dag, CLASS_I32, (uint16_t)add_in(&b, KILN_I32, strides), -1, -1));
    store(&b, KILN_I32, 15, sum);
    finish(&b);
    l = compile(&b.k);
    assert_true(l.plan.indirect);
    dev->ops->unload_compiled(dev, l.compiled);
    check(&b);
    build_end(&b);
}

// Starts that are not aligned to four elements: same code, other addresses.
static void unaligned_starts(void **state)
{
    static const unsigned dtypes[] = {KILN_F32, KILN_F16, KILN_U8, KILN_I64};
    for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
        for (int64_t skip = 0; skip < 5; skip++) {
            struct build b;
            build_begin(&b, 0, 1, (const int64_t[]){1003});
            const int64_t one[] = {1};
            b.k.in[b.k.n_in++] = new_access(&b, dtypes[t], one, skip);
            int x = dag_load(&b.dag, class_of(dtypes[t]), 0, -1, -1), y = load(&b, dtypes[t], 1);
            store(&b, dtypes[t], 1, expr2(&b, "a + b", x, y));
            finish(&b);
            check(&b);
            build_end(&b);
        }
    }
}

// Kernels of points have so many fours a lane, as if that had been measured; 0: as the device's start values say.
static void force_fours(unsigned fours)
{
    unsigned number = fours ? tile_number(TILE_POINT, (struct tile){256, (uint16_t)fours}) : 0;
    for (uint32_t place = 0; place < TILE_PLACES; place++)
        if (tile_largest_of(place).kind == TILE_POINT) tile_set(dev->caps.tiles, place, number);
}

// Of points in chunks, several a lane, with what it is compiled as.
static void check_chunks(struct build *b, uint32_t each, uint32_t vector)
{
    finish(b);
    struct codegen_plan plan = {0};
    struct glsl_form form;
    assert_int_equal(glsl_plan(&b->k, &dev->caps, &plan), KILN_OK);
    glsl_form_load(&plan, &form);
    assert_int_equal(form.each, each);
    assert_int_equal(form.vector, vector);
    check(b);
    build_end(b);
}

// A workgroup that is whole asks for no point, the last one does: fewer points than it has, as many, one more, fours
// and none; operands that lie along the points, are the same for all of a row or go backwards; places computed.
static void several_chunks_a_lane(void **state)
{
    static const int64_t sizes[][2] = {{1, 4092}, {1, 4095}, {1, 4096},  {1, 4097},
                                       {3, 4096}, {7, 1200}, {129, 132}, {5, 1639}};
    dev->caps.parallelism = 1 << 17;
    force_fours(4);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        int64_t rows = sizes[i][0], columns = sizes[i][1];
        static const unsigned dtypes[] = {KILN_F32, KILN_U8, KILN_I64};
        for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
            struct build b;
            build_begin(&b, 0, 2, sizes[i]);
            int x = load(&b, dtypes[t], 3), y = load(&b, dtypes[t], 1), z = load(&b, dtypes[t], 2);
            store(&b, dtypes[t], 3, expr(&b, "a * b - a + c", class_of(dtypes[t]), (const int[]){x, y, z}, 3));
            store(&b, dtypes[t], 3, expr2(&b, "a - b", x, y));
            check_chunks(&b, 4, GLSL_VECTOR_SPLIT);
        }
        // Rows from the last to the first, and a row of another matrix that is wider.
        struct build b;
        build_begin(&b, 0, 2, sizes[i]);
        int x = dag_load(&b.dag, CLASS_F32, (uint16_t)add_in(&b, KILN_F32, (const int64_t[]){-columns, 1}), -1, -1);
        int y = dag_load(&b.dag, CLASS_F32, (uint16_t)add_in(&b, KILN_F32, (const int64_t[]){columns + 4, 1}), -1, -1);
        int place = expr2(&b, "a + b", dag_dim(&b.dag, 1), dag_dim(&b.dag, 0));
        store(&b, KILN_F32, 3, expr(&b, "a - b + f32(c)", CLASS_F32, (const int[]){x, y, place}, 3));
        check_chunks(&b, 4, GLSL_VECTOR_SPLIT);
        // Columns backwards, every second one, and a transposed operand: element by element.
        build_begin(&b, 0, 2, sizes[i]);
        x = dag_load(&b.dag, CLASS_F32, (uint16_t)add_in(&b, KILN_F32, (const int64_t[]){columns, -1}), -1, -1);
        y = dag_load(&b.dag, CLASS_F32, (uint16_t)add_in(&b, KILN_F32, (const int64_t[]){2 * columns, 2}), -1, -1);
        int u = dag_load(&b.dag, CLASS_F32, (uint16_t)add_in(&b, KILN_F32, (const int64_t[]){1, rows}), -1, -1);
        store(&b, KILN_F32, 3, expr(&b, "a - b * c", CLASS_F32, (const int[]){x, y, u}, 3));
        check_chunks(&b, 4, 0);
    }
}

// What a lane has several of is for devices that are full all the same: a few points, and processors, have one.
static void few_points_have_one_chunk_a_lane(void **state)
{
    static const struct {
        uint32_t parallelism;
        int64_t n;
        uint32_t each, vector;
    } cases[] = {
        {4096, 32 * 4096 - 4, 1, GLSL_VECTOR_SPLIT}, {4096, 32 * 4096, 4, GLSL_VECTOR_SPLIT}, {1024, 1 << 20, 1, 1}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct build b;
        dev->caps.parallelism = cases[i].parallelism;
        build_begin(&b, 0, 1, &cases[i].n);
        store(&b, KILN_F32, 1, expr1(&b, "a + 1.0", load(&b, KILN_F32, 1)));
        check_chunks(&b, cases[i].each, cases[i].vector);
    }
}

// The forms that a large device takes, and those of one whose lanes cannot exchange values, run here too.
static void the_forms_of_a_large_device(void **state)
{
    dev->caps.parallelism = 1 << 17;
    rows_of_every_length(state);
    every_fold(state);
    few_long_rows_are_split(state);
    element_outputs_beside_split_sums(state);
    totals_of_rows_and_points(state);
    repeated_launches_give_one_bit_pattern(state);
}

static void the_forms_without_shuffles(void **state)
{
    dev->caps.shuffle = false;
    rows_in_halves(state);
    totals_of_rows_and_points(state);
    dev->caps.parallelism = 1 << 17;
    every_fold(state);
    few_long_rows_are_split(state);
}

// Sums of nothing: rows without elements, and no rows at all.
static void empty_spaces(void **state)
{
    static const int64_t sizes[][2] = {{5, 0}, {0, 5}, {0, 0}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        for (int n_reduce = 0; n_reduce < 3; n_reduce++) {
            struct build b;
            build_begin(&b, n_reduce, 2, sizes[i]);
            int64_t strides[2] = {7, 1};
            int x = dag_load(&b.dag, CLASS_F32, (uint16_t)add_in(&b, KILN_F32, strides), -1, -1);
            int s = n_reduce ? dag_reduce(&b.dag, REDUCE_SUM, x) : x, one = expr1(&b, "a + 1.0", s);
            if (n_reduce == 1) store(&b, KILN_F32, 1, one);
            store(&b, KILN_F32, 0, dag_reduce(&b.dag, REDUCE_SUM | REDUCE_ACROSS, one));
            store(&b, KILN_F32, 0, dag_reduce(&b.dag, REDUCE_MIN | REDUCE_ACROSS, one));
            finish(&b);
            check(&b);
            build_end(&b);
        }
    }
}

// A workgroup is never larger than the device and its shared memory allow.
static void workgroups_fit_the_device(void **state)
{
    dev->caps.parallelism = 1 << 17;
    static const struct {
        uint32_t max_local, max_shared_B;
    } limits[] = {{1024, 32768}, {128, 32768}, {1024, 2048}, {16, 600}};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        for (int columns = 0; columns < 2; columns++) {
            struct build b;
            dev->caps.max_local = limits[i].max_local;
            dev->caps.max_shared_B = limits[i].max_shared_B;
            build_sums(&b, 3, 17000, columns, true);
            struct loaded l = compile(&b.k);
            assert_true(l.plan.local[0] >= 8 && l.plan.local[0] <= limits[i].max_local);
            dev->ops->unload_compiled(dev, l.compiled);
            check_within(&b, 40, 0);
            build_end(&b);
        }
    }
}

// --- random kernels

struct value {
    int node;
    enum scalar_class cls;
    enum fused_level level;
};

struct pool {
    struct build b;
    struct value values[64];
    int n;
};

static void pool_add(struct pool *p, int node, enum fused_level level)
{
    assert_true(node >= 0);
    p->values[p->n++] = (struct value){node, dag_class(&p->b.dag, node), level};
}

static void random_input(struct pool *p)
{
    static const uint8_t dtypes[] = {KILN_F32, KILN_F32, KILN_F16, KILN_BF16, KILN_I32, KILN_I64, KILN_BOOL, KILN_U8};
    struct build *b = &p->b;
    unsigned dtype = dtypes[below(COUNT_OF(dtypes))], n = (unsigned)b->k.n_dims;
    unsigned dims = below(2) ? (1u << n) - 1 : below(1u << n);
    int64_t strides[FUSED_MAX_DIMS], step = below(4) ? 1 : 2;
    bool reversed = below(4) == 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned d = reversed ? i : n - 1 - i;
        strides[d] = dims >> d & 1 ? (below(8) ? step : -step) : 0;
        if (dims >> d & 1) step *= b->k.sizes[d];
    }
    enum fused_level level = LEVEL_UNIFORM;
    for (int d = 0; d < b->k.n_dims; d++)
        if (strides[d])
            level = d >= b->k.n_dims - b->k.n_reduce ? LEVEL_ELEMENT : level > LEVEL_ROW ? level : LEVEL_ROW;
    int access = add_in(b, dtype, strides);
    pool_add(p, dag_load(&b->dag, class_of(dtype), (uint16_t)access, -1, -1), level);
}

static void random_operation(struct pool *p)
{
    static const char *const of_numbers[] = {"a + b", "a - b", "a * b", "a / b", "max(a, b)", "min(a, b)", "a < b"};
    static const char *const of_bools[] = {"a && b", "a || b", "a ^^ b", "!a && b"};
    static const char *const casts[] = {"f32(a)", "i32(a)", "i64(a)", "bool(a)"};
    struct build *b = &p->b;
    struct value x = p->values[below((uint32_t)p->n)], y = p->values[below((uint32_t)p->n)];
    enum fused_level level = x.level > y.level ? x.level : y.level;
    if (x.cls != y.cls || below(6) == 0) {
        int target = (int)below(4);
        static const enum scalar_class classes[] = {CLASS_F32, CLASS_I32, CLASS_I64, CLASS_BOOL};
        // Only small integers become floats: lavapipe rounds i64 twice on the way to f32, and folds i32(f32(a)) to a.
        bool whole = x.cls == CLASS_I32 || x.cls == CLASS_I64;
        const char *cast = whole && target == 0 ? "f32(i32(a) & 65535)" : casts[target];
        pool_add(p, classes[target] == x.cls ? x.node : expr1(b, cast, x.node), x.level);
    } else if (x.cls == CLASS_BOOL) {
        pool_add(p, expr2(b, of_bools[below(COUNT_OF(of_bools))], x.node, y.node), level);
    } else {
        pool_add(p, expr2(b, of_numbers[below(COUNT_OF(of_numbers))], x.node, y.node), level);
    }
}

// Folds whose value does not depend on the order: sums and products of integers only.
static void random_fold(struct pool *p, bool across)
{
    struct value x = p->values[below((uint32_t)p->n)];
    if (x.level == LEVEL_TOTAL || (across && x.level == LEVEL_ELEMENT)) return;
    bool exact = x.cls == CLASS_I32 || x.cls == CLASS_I64;
    unsigned how = x.cls == CLASS_BOOL ? REDUCE_ANY + below(2) : exact && below(2) ? below(2) : 0;
    if (x.cls != CLASS_BOOL && (!exact || below(2))) {
        static const uint8_t extremes[] = {REDUCE_MAX, REDUCE_MIN, REDUCE_ARGMAX, REDUCE_ARGMIN};
        how = extremes[below(4)];
    }
    int node = dag_reduce(&p->b.dag, (enum scalar_reduce)(how | (across ? REDUCE_ACROSS : 0)), x.node);
    if (across) { // only outputs may read it
        bool place = how == REDUCE_ARGMAX || how == REDUCE_ARGMIN;
        static const uint8_t dtype_of[CLASS_COUNT] = {KILN_F32, KILN_F64, KILN_I32, KILN_I64, KILN_BOOL};
        store(&p->b, place ? KILN_I64 : dtype_of[x.cls], 0, node);
        return;
    }
    pool_add(p, node, LEVEL_ROW);
}

static void random_output(struct pool *p, struct value v)
{
    static const uint8_t dtypes[CLASS_COUNT][4] = {[CLASS_F32] = {KILN_F32, KILN_F32, KILN_F16, KILN_BF16},
                                                   [CLASS_I32] = {KILN_I32, KILN_I16, KILN_U8, KILN_I8},
                                                   [CLASS_I64] = {KILN_I64, KILN_I64, KILN_I64, KILN_I64},
                                                   [CLASS_BOOL] = {KILN_BOOL, KILN_BOOL, KILN_BOOL, KILN_BOOL}};
    const struct fused_kernel *k = &p->b.k;
    unsigned all = (1u << k->n_dims) - 1, rows = (1u << (k->n_dims - k->n_reduce)) - 1;
    store(&p->b, dtypes[v.cls][below(4)], v.level == LEVEL_ROW ? rows : all, v.node);
}

static void random_kernels_match_the_reference(void **state)
{
    const char *more = getenv("KILN_TEST_ROUNDS"); // for a longer search
    int rounds = more ? atoi(more) : 150;
    for (int round = 0; round < rounds; round++) {
        dev->caps.parallelism = round & 1 ? 1024 : 1 << 17;
        dev->caps.shuffle = round % 5 != 0;
        force_fours(round % 3 ? 0 : 4);
        struct pool p = {.n = 0};
        int64_t sizes[FUSED_MAX_DIMS];
        seed = (uint32_t)round * 7919 + 1;
        int n_dims = 1 + (int)below(4), n_reduce = (int)below((uint32_t)(n_dims < 2 ? n_dims : 2) + 1);
        for (int d = 0; d < n_dims; d++) sizes[d] = 2 + below(below(3) ? 8 : n_dims > 2 ? 40 : 300);
        build_begin(&p.b, n_reduce, n_dims, sizes);
        int n_inputs = 1 + (int)below(4), n_steps = 2 + (int)below(12);
        for (int i = 0; i < n_inputs; i++) random_input(&p);
        if (below(4) == 0)
            pool_add(&p, dag_dim(&p.b.dag, (uint16_t)(n_dims - 1)), n_reduce ? LEVEL_ELEMENT : LEVEL_ROW);
        for (int i = 0; i < n_steps; i++) {
            if (n_reduce && below(4) == 0)
                random_fold(&p, false);
            else
                random_operation(&p);
        }
        if (below(3) == 0) random_fold(&p, true);
        random_output(&p, p.values[p.n - 1]);
        random_output(&p, p.values[below((uint32_t)p.n)]);
        finish(&p.b);
        check(&p.b);
        build_end(&p.b);
    }
}

int main(int argc, char **argv)
{
    setenv("KILN_DEBUG", "validate", 0);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        CASE(pointwise_chains),
        CASE(layouts_and_dimensions),
        CASE(every_dtype_is_loaded_and_stored),
        CASE(indices_sizes_and_scalars),
        CASE(gathers_and_conditions),
        CASE(rows_of_every_length),
        CASE(rows_in_halves),
        CASE(eights_of_halves),
        CASE(every_fold),
        CASE(row_indices_and_row_inputs),
        CASE(places_of_several_stages),
        CASE(few_long_rows_are_split),
        CASE(element_outputs_beside_split_sums),
        CASE(totals_of_rows_and_points),
        CASE(repeated_launches_give_one_bit_pattern),
        CASE(wide_indices),
        CASE(many_accesses),
        CASE(unaligned_starts),
        CASE(several_chunks_a_lane),
        CASE(few_points_have_one_chunk_a_lane),
        CASE(the_forms_of_a_large_device),
        CASE(the_forms_without_shuffles),
        CASE(empty_spaces),
        CASE(workgroups_fit_the_device),
        CASE(random_kernels_match_the_reference),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    print_compile_times();
    return failed;
}
