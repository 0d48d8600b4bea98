// Tiles on a Vulkan device: each of them over sizes about its own against sums in f64; the file of those that were
// measured, whole and broken; and measuring.
#include "vulkan_fixture.h"

#include <unistd.h>

// --- each tile

enum { SIDE = 132, DEEP = 40, PITCH = 136 }; // rows of matrices lie PITCH elements apart

static double numbers[SIDE * PITCH];

// Floats have fractions; integers none.
static double value_of(enum scalar_class cls, int64_t i)
{
    double v = (double)(int64_t)(noise((uint32_t)i) * 1000);
    return cls == CLASS_F32 || cls == CLASS_F64 ? v / 64 : v;
}

static kiln_dtype dtype_of(enum scalar_class cls)
{
    static const kiln_dtype dtypes[] = {KILN_F32, KILN_F64, KILN_I32, KILN_I64};
    return dtypes[cls];
}

static void put(enum scalar_class cls, void *p, int64_t i, double v)
{
    switch (cls) {
    case CLASS_F32: ((float *)p)[i] = (float)v; break;
    case CLASS_F64: ((double *)p)[i] = v; break;
    case CLASS_I32: ((int32_t *)p)[i] = (int32_t)v; break;
    default: ((int64_t *)p)[i] = (int64_t)v; break;
    }
}

static double get(enum scalar_class cls, const void *p, int64_t i)
{
    switch (cls) {
    case CLASS_F32: return (double)((const float *)p)[i];
    case CLASS_F64: return ((const double *)p)[i];
    case CLASS_I32: return (double)((const int32_t *)p)[i];
    default: return (double)((const int64_t *)p)[i];
    }
}

static struct block filled_block(enum scalar_class cls, int64_t n, double poison)
{
    void *p = malloc((size_t)n * 8);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) put(cls, p, i, poison != 0 ? poison : value_of(cls, i));
    struct block b = block_new((uint64_t)n * dtype_size_B[dtype_of(cls)], p);
    free(p);
    return b;
}

struct product {
    enum scalar_class cls;
    int64_t m, n, k;
    bool turned; // columns of a are dense, and rows of b lie PITCH apart, which is no other than before
    struct block a, b, out;
};

static void check_product(const struct product *p, struct tile t)
{
    const double poison = 77;
    size_t size_B = SIDE * PITCH * (size_t)dtype_size_B[dtype_of(p->cls)];
    char *got[2] = {malloc(size_B), malloc(size_B)};
    struct launch l = launch_new("matmul", p->cls, 3, (int64_t[]){p->m, p->n, p->k});
    l.n_reduce = 1;
    l.extent[0] = p->n, l.extent[1] = p->m, l.extent[2] = 1;
    l.variant[2] = t.size, l.variant[3] = t.run;
    kiln_dtype dtype = dtype_of(p->cls);
    int64_t a_m = p->turned ? 1 : PITCH, a_k = p->turned ? PITCH : 1;
    add_operand(&l, &p->a, dtype, 0, (int64_t[]){a_m, 0, a_k}, false);
    add_operand(&l, &p->b, dtype, 0, (int64_t[]){0, 1, PITCH}, false);
    add_operand(&l, &p->out, dtype, 0, (int64_t[]){PITCH, 1, 0}, true);
    for (int again = 0; again < 2; again++) {
        for (int64_t i = 0; i < SIDE * PITCH; i++) put(p->cls, got[again], i, poison);
        assert_ok(device_upload(dev, p->out.address, got[again], size_B));
        assert_ok(dev->ops->launch(dev, &l));
        assert_ok(device_download(dev, got[again], p->out.address, size_B));
    }
    assert_memory_equal(got[0], got[1], size_B);
    double unit = p->cls == CLASS_F32 ? 0x1p-24 : p->cls == CLASS_F64 ? 0x1p-53 : 0;
    for (int64_t i = 0; i < SIDE; i++)
        for (int64_t j = 0; j < PITCH; j++) {
            bool inside = i < p->m && j < p->n;
            double want = inside ? 0 : poison, magnitudes = 0;
            for (int64_t k = 0; inside && k < p->k; k++) {
                double term = numbers[i * a_m + k * a_k] * numbers[k * PITCH + j];
                want += term, magnitudes += fabs(term);
            }
            double off = fabs(get(p->cls, got[0], i * PITCH + j) - want);
            if (!(off <= (double)(p->k + 1) * unit * magnitudes))
                fail_msg("%s %dx%dx%d, tile %u:%u, [%d,%d]: off by %g", scalar_class_name(p->cls), (int)p->m, (int)p->n,
                         (int)p->k, t.size, t.run, (int)i, (int)j, off);
        }
    free(got[0]), free(got[1]);
}

// Other dtypes have the tiles and the code of f32: of them the middle square, as GPUs start with it.
static bool is_shown(enum scalar_class cls, struct tile t)
{
    return tile_fits(&dev->caps, TILE_PRODUCT, (uint8_t)cls, t) &&
           (cls == CLASS_F32 || (t.size == TILE_MIDDLE && t.run == (cls == CLASS_F64 ? 8 : 1)));
}

static void check_products(struct product *p, struct tile t)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {7, 31, 13},    {31, 33, 17}, {33, 1, 5},
                                       {65, 63, 15}, {127, 129, 39}, {129, 64, 16}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        p->m = sizes[i][0], p->n = sizes[i][1], p->k = sizes[i][2];
        check_product(p, t);
    }
    if (p->cls != CLASS_F32 || t.run == 1 || t.size != TILE_MIDDLE) return;
    p->m = p->n = 128, p->k = 32; // no edge
    check_product(p, t);
    p->turned = true;
    check_product(p, t);
    p->turned = false;
}

static struct product product_of(enum scalar_class cls)
{
    struct product p = {.cls = cls};
    for (int64_t e = 0; e < SIDE * PITCH; e++) numbers[e] = value_of(cls, e);
    p.a = filled_block(cls, SIDE * PITCH, 0), p.b = filled_block(cls, SIDE * PITCH, 0);
    p.out = filled_block(cls, SIDE * PITCH, 1);
    return p;
}

static void release_product(struct product *p)
{
    device_release(dev, &p->a), device_release(dev, &p->b), device_release(dev, &p->out);
}

static void products_in_each_tile(void **state)
{
    static const enum scalar_class classes[] = {CLASS_F32, CLASS_F64, CLASS_I32};
    for (size_t i = 0; i < COUNT_OF(classes); i++) {
        struct product p = product_of(classes[i]);
        struct tile t;
        for (unsigned n = 1; (t = tile_of(TILE_PRODUCT, n)).size; n++)
            if (is_shown(p.cls, t)) check_products(&p, t);
        release_product(&p);
    }
}

// Pipelines that one size makes in both layouts.
static uint64_t pipelines_of(struct product *p, int64_t m, int64_t n, int64_t k)
{
    uint64_t before = dev->stats.pipelines;
    p->m = m, p->n = n, p->k = k;
    for (int turned = 0; turned < 2; turned++) {
        p->turned = turned;
        check_product(p, tile_of(TILE_PRODUCT, 1));
    }
    return dev->stats.pipelines - before;
}

static void small_products_have_one_form(void **state)
{
    struct product p = product_of(CLASS_F32);
    assert_int_equal(pipelines_of(&p, 31, 32, 33), 1);
    assert_int_equal(pipelines_of(&p, 5, 3, 7), 0);
    assert_int_equal(pipelines_of(&p, 32, 32, 32), 0);
    assert_int_equal(pipelines_of(&p, 33, 33, 33), 2);
    release_product(&p);
}

static void check_row(enum tile_kind kind, const struct block *in, const struct block *out, int64_t rows,
                      int64_t length, struct tile t)
{
    struct launch l = launch_new("reduce_sum", CLASS_F32, 2, (int64_t[]){rows, length});
    float got[2][64];
    l.n_reduce = 1;
    l.variant[2] = t.size, l.variant[3] = t.run;
    int64_t across = kind == TILE_ROW ? length : 1, along = kind == TILE_ROW ? 1 : rows;
    add_operand(&l, in, KILN_F32, 0, (int64_t[]){across, along}, false);
    add_operand(&l, out, KILN_F32, 0, (int64_t[]){1, 0}, true);
    for (int again = 0; again < 2; again++) {
        memset(got[again], 0xff, sizeof got[again]);
        assert_ok(device_upload(dev, out->address, got[again], sizeof got[again]));
        assert_ok(dev->ops->launch(dev, &l));
        assert_ok(device_download(dev, got[again], out->address, sizeof got[again]));
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    for (int64_t i = 0; i < 64; i++) {
        double want = 0, magnitudes = 0;
        for (int64_t j = 0; i < rows && j < length; j++) {
            double v = value_of(CLASS_F32, i * across + j * along);
            want += v, magnitudes += fabs(v);
        }
        double off = fabs((double)got[0][i] - want);
        if (i >= rows ? !isnan(got[0][i]) : !(off <= (double)(length + 1) * 0x1p-24 * magnitudes))
            fail_msg("row %d of %d of %d elements, tile %u: off by %g", (int)i, (int)rows, (int)length, t.size, off);
    }
}

static void rows_in_each_tile(void **state)
{
    static const int64_t lengths[] = {1, 7, 31, 33, 255, 257, 1021};
    struct block in = filled_block(CLASS_F32, 37 * 1021, 0), out = block_new(64 * 4, NULL);
    struct tile t;
    for (unsigned n = 1; (t = tile_of(TILE_ROW, n)).size; n++)
        for (size_t i = 0; i < COUNT_OF(lengths); i++) check_row(TILE_ROW, &in, &out, i % 2 ? 3 : 37, lengths[i], t);
    for (unsigned n = 1; (t = tile_of(TILE_COLUMN, n)).size; n++)
        for (size_t i = 0; i < COUNT_OF(lengths); i++) check_row(TILE_COLUMN, &in, &out, i % 2 ? 3 : 37, lengths[i], t);
    device_release(dev, &in), device_release(dev, &out);
}

enum { MOST_POINTS = 5000 };

static void check_points(const struct block *in, const struct block *out, int64_t n, int64_t step, struct tile t)
{
    struct launch l = launch_new("add", CLASS_F32, 1, &n);
    static float got[2 * MOST_POINTS + 8];
    l.variant[2] = t.size, l.variant[3] = t.run;
    add_operand(&l, in, KILN_F32, 0, &step, false);
    add_operand(&l, in, KILN_F32, 4, &step, false);
    add_operand(&l, out, KILN_F32, 0, &step, true);
    memset(got, 0xff, sizeof got);
    assert_ok(device_upload(dev, out->address, got, sizeof got));
    assert_ok(dev->ops->launch(dev, &l));
    assert_ok(device_download(dev, got, out->address, sizeof got));
    for (int64_t i = 0; i < (int64_t)COUNT_OF(got); i++) {
        float want = (float)value_of(CLASS_F32, i) + (float)value_of(CLASS_F32, i + 4);
        if (i % step || i / step >= n ? !isnan(got[i]) : got[i] != want)
            fail_msg("%d points %d apart, tile %u:%u, %d: %g", (int)n, (int)step, t.size, t.run, (int)i,
                     (double)got[i]);
    }
}

static void points_in_each_tile(void **state)
{
    static const int64_t counts[] = {1, 63, 65, 1021, 2051, 4096, 4999};
    struct block in = filled_block(CLASS_F32, 2 * MOST_POINTS + 8, 0), out = block_new((2 * MOST_POINTS + 8) * 4, NULL);
    struct tile t;
    for (unsigned n = 1; (t = tile_of(TILE_POINT, n)).size; n++)
        for (size_t i = 0; i < COUNT_OF(counts); i++) check_points(&in, &out, counts[i], 1 + (int64_t)(n % 2), t);
    for (size_t i = 0; i < COUNT_OF(counts); i++) check_points(&in, &out, counts[i], 1, tile_of(TILE_POINT, 6));
    device_release(dev, &in), device_release(dev, &out);
}

// --- the file

static const char *folder_before;
static char folder[64], file[4096];

static int begin_folder(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/kiln-tiles-XXXXXX");
    folder_before = getenv("KILN_CACHE_DIR");
    if (!mkdtemp(folder) || setenv("KILN_CACHE_DIR", folder, 1) || open_device(state)) return -1;
    return (int)vk_tiles_path(&vk_of(dev)->physical, file, sizeof file);
}

static int end_folder(void **state)
{
    char command[128];
    int status = close_device(state);
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command)) status = -1;
    if (folder_before)
        setenv("KILN_CACHE_DIR", folder_before, 1);
    else
        unsetenv("KILN_CACHE_DIR");
    unsetenv("KILN_TUNE");
    return status;
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 18);
    assert_true(text && f && fread(text, 1, (1 << 18) - 1, f) > 0 && !fclose(f));
    return text;
}

static void write_file(const char *path, const char *text, size_t size_B)
{
    FILE *f = fopen(path, "w");
    assert_true(f && fwrite(text, 1, size_B, f) == size_B && !fclose(f));
}

static void reopen(void)
{
    kiln_device_close(&dev);
    dev = kiln_device_open("vulkan");
    assert_non_null(dev);
}

// Every entry that can be comes back.
static void tables_survive_the_file(void **state)
{
    struct tile_table *t = &vk_of(dev)->tiles, *before = malloc(sizeof *before);
    unsigned draw = 1, n_set = 0;
    assert_non_null(before);
    assert_ptr_equal(dev->caps.tiles, t);
    for (uint32_t place = 0; place < TILE_PLACES; place++) {
        struct tile_work w = tile_largest_of(place);
        assert_int_equal(t->number[place], 0);
        draw = draw * 1103515245 + 12345;
        unsigned n = draw >> 16 & 7;
        struct tile tile = tile_of(w.kind, n);
        if (tile_place(&w) != place || !tile.size || !tile_fits(&dev->caps, w.kind, w.cls, tile)) continue;
        tile_set(t, place, n);
        n_set++;
    }
    assert_true(n_set > TILE_PLACES / 4);
    *before = *t;
    vk_tiles_save(vk_of(dev));
    reopen();
    assert_memory_equal(dev->caps.tiles->number, before->number, sizeof before->number);
    // What another process has measured since then stays, where this one has nothing of its own.
    uint32_t taken = 0;
    while (!before->number[taken]) taken++;
    memset(dev->caps.tiles->number, 0, sizeof before->number);
    tile_set(dev->caps.tiles, taken, before->number[taken] == 1 ? 2 : 1);
    vk_tiles_save(vk_of(dev));
    reopen();
    before->number[taken] = before->number[taken] == 1 ? 2 : 1;
    assert_memory_equal(dev->caps.tiles->number, before->number, sizeof before->number);
    free(before);
}

static char warning[8192];
static int n_warnings;

static void note_warning(void *user, const char *text)
{
    snprintf(warning, sizeof warning, "%s", text);
    n_warnings++;
}

// The file in place of a good one: it is ignored, and told with its name and the cause, once however many devices are
// opened.
static void refuse(const char *text, size_t size_B, const char *cause)
{
    static int version = 100;
    char other[64];
    snprintf(other, sizeof other, "kiln tiles %d\n", version++);
    kiln_set_log(note_warning, NULL);
    write_file(file, other, strlen(other)); // so that the last message was another one
    vk_tiles_load(vk_of(dev));
    write_file(file, text, size_B);
    n_warnings = 0;
    for (int i = 0; i < 2; i++) vk_tiles_load(vk_of(dev));
    kiln_set_log(NULL, NULL);
    for (uint32_t place = 0; place < TILE_PLACES; place++) assert_int_equal(dev->caps.tiles->number[place], 0);
    if (n_warnings != 1 || !strstr(warning, file) || !strstr(warning, cause))
        fail_msg("%d warnings, \"%s\" for \"%s\"", n_warnings, warning, cause);
}

static void broken_files_are_told_and_ignored(void **state)
{
    struct tile_work w = {TILE_PRODUCT, CLASS_F32, {64, 64, 1}};
    tile_set(dev->caps.tiles, tile_place(&w), tile_number(TILE_PRODUCT, (struct tile){64, 1}));
    vk_tiles_save(vk_of(dev));
    char *good = read_file(file), *owner = strchr(good, '\n') + 1, *line = strchr(owner, '\n') + 1, bad[2048];
    assert_string_equal(line, "product f32 64 64 1 tile 64 1\nend 1\n");
    n_warnings = 0;
    kiln_set_log(note_warning, NULL);
    reopen();
    kiln_set_log(NULL, NULL);
    assert_int_equal(n_warnings, 0);
    assert_int_equal(tile_choose(&dev->caps, &w).size, 64);
    assert_int_equal(tile_start(&dev->caps, &w).size, 32);
    // Shorter at whichever place.
    for (size_t n = strlen(good) - 1; n > 0; n -= n > 24 ? 24 : 1)
        refuse(good, n, n < sizeof "kiln tiles 2" ? "no table of tiles" : "in the middle");
    // Other lines in the place of its own.
    static const struct {
        const char *line, *cause;
    } lines[] = {
        {"product f32 64 64 1 tile 48 1", "is no tile"},
        {"product f32 64 64 1 tile 32 3", "is no tile"},
        {"product f32 64 64 1 tile 65568 1", "is no tile"},
        {"product f32 64 64 1 tile 4294967328 1", "is no tile"},
        {"product f32 64 64 1 tile -32 1", "is no tile"},
        {"product f32 64 64 1 tile 32", "is no tile"},
        {"product f32 64 64 1 tile 32 1 1", "is no tile"},
        {"product  f32 64 64 1 tile 32 1", "is no tile"},
        {"product f32 63 64 1 tile 32 1", "is no tile"},
        {"product f32 0 64 1 tile 32 1", "is no tile"},
        {"product f32 18446744073709551680 64 1 tile 32 1", "is no tile"},
        {"product f16 64 64 1 tile 32 1", "is no tile"},
        {"products f32 64 64 1 tile 32 1", "is no tile"},
        {"row f32 64 128 1 tile 512 1", "is no tile"},
        {"row f32 64 128 1 tile 64 8", "is no tile"},
        {"product f64 64 64 1 tile 128 1", "has no room"}, // 34 KB of shared memory
        {"%s%s%s%n", "is no tile"},
        {"", "is no tile"},
        {"product f32 64 64 1 tile 32 1\nproduct f32 64 64 1 tile 32 1", "line 5"}, // one more than the end says
        {"product f32 64 64 1 tile 32 1\nend 1\nproduct f32 64 64 1 tile 32 1", "line 4"},
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        snprintf(bad, sizeof bad, "%.*s%s\nend 1\n", (int)(line - good), good, lines[i].line);
        refuse(bad, strlen(bad), lines[i].cause);
    }
    snprintf(bad, sizeof bad, "kiln tiles 3\n%s", owner);
    refuse(bad, strlen(bad), "version 3, this library has 2");
    snprintf(bad, sizeof bad, "kiln tiles 2x\n%s", owner);
    refuse(bad, strlen(bad), "version 2x");
    snprintf(bad, sizeof bad, "%s", good);
    bad[owner - good + 8] ^= 1; // of the device's number
    refuse(bad, strlen(bad), "another device");
    memcpy(bad, good, strlen(good));
    bad[line - good + 3] = 0;
    refuse(bad, strlen(good), "");
    char *large = malloc((1 << 18) + 1);
    memset(large, '\n', (1 << 18) + 1);
    memcpy(large, good, strlen(good));
    refuse(large, (1 << 18) + 1, "too long");
    // A link is not followed, a folder not read.
    assert_false(unlink(file));
    assert_false(symlink("/dev/zero", file));
    vk_tiles_load(vk_of(dev));
    assert_int_equal(tile_choose(&dev->caps, &w).size, 32);
    free(large), free(good);
}

// --- measuring

static unsigned n_measured(void)
{
    unsigned n = 0;
    for (uint32_t place = 0; place < TILE_PLACES; place++) n += dev->caps.tiles->number[place] != 0;
    return n;
}

// With KILN_TUNE=1 a device measures at its end what was asked of it, and nothing else.
static void what_was_asked_is_measured(void **state)
{
    struct tile_work w[] = {{TILE_PRODUCT, CLASS_F32, {20, 40, 1}},
                            {TILE_ROW, CLASS_F32, {5, 100, 1}},
                            {TILE_COLUMN, CLASS_F32, {5, 100, 1}},
                            {TILE_POINT, CLASS_I32, {3000, 4, 1}}};
    enum { ASKED = COUNT_OF(w) };
    setenv("KILN_TUNE", "0", 1);
    reopen();
    for (int i = 0; i < ASKED; i++) tile_choose(&dev->caps, &w[i]);
    reopen();
    assert_int_equal(n_measured(), 0);
    assert_int_not_equal(access(file, F_OK), 0);
    setenv("KILN_TUNE", "1", 1);
    reopen();
    for (int i = 0; i < ASKED; i++) {
        struct tile a = tile_start(&dev->caps, &w[i]), b = tile_choose(&dev->caps, &w[i]);
        assert_memory_equal(&a, &b, sizeof a);
    }
    assert_int_equal(n_measured(), 0);
    reopen();
    assert_int_equal(n_measured(), ASKED);
    for (int i = 0; i < ASKED; i++) assert_int_not_equal(dev->caps.tiles->number[tile_place(&w[i])], 0);
    // What is known is not measured again.
    char *first = read_file(file), *second;
    assert_false(unlink(file));
    for (int i = 0; i < ASKED; i++) tile_choose(&dev->caps, &w[i]);
    reopen();
    assert_int_not_equal(access(file, F_OK), 0);
    write_file(file, first, strlen(first));
    reopen();
    assert_int_equal(n_measured(), ASKED);
    second = read_file(file);
    assert_string_equal(first, second);
    free(first), free(second);
}

static const struct device_ops *ops_before;

// In one tile nothing is computed, which is the fastest of all.
static kiln_status launch_or_not(kiln_device *d, const struct launch *l)
{
    return l->variant[2] == 128 ? KILN_OK : ops_before->launch(d, l);
}

static void tiles_with_other_results_do_not_win(void **state)
{
    struct tile_work w = {TILE_PRODUCT, CLASS_F32, {64, 64, 1}};
    uint32_t place = tile_place(&w);
    struct device_ops wrong = *dev->ops;
    ops_before = dev->ops;
    wrong.launch = launch_or_not;
    dev->ops = &wrong;
    dev->caps.tiles->notes = true;
    tile_choose(&dev->caps, &w);
    n_warnings = 0;
    kiln_set_log(note_warning, NULL);
    dev->ops->leave(dev);
    kiln_set_log(NULL, NULL);
    dev->ops = ops_before;
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(warning, "product:128:1 has other results than product:32:1"));
    assert_int_not_equal(dev->caps.tiles->number[place], 0);
    assert_true(tile_choose(&dev->caps, &w).size < 128);
}

// An error of kiln_device_tune, a warning where nobody asked; what there was stays.
static void memory_that_does_not_suffice(void **state)
{
    struct tile_work w = {TILE_PRODUCT, CLASS_F32, {2000, 2000, 1}};
    assert_ok(kiln_device_set_memory_limit(dev, 4096));
    assert_int_equal(kiln_device_tune(dev), KILN_E_DEVICE_MEMORY);
    kiln_error_clear();
    dev->caps.tiles->notes = true;
    tile_choose(&dev->caps, &w);
    n_warnings = 0;
    kiln_set_log(note_warning, NULL);
    dev->ops->leave(dev);
    kiln_set_log(NULL, NULL);
    assert_int_equal(kiln_error(), KILN_OK);
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(warning, "KILN_TUNE: "));
    assert_int_equal(n_measured(), 0);
    assert_int_not_equal(access(file, F_OK), 0);
}

int main(void)
{
    setenv("KILN_DEBUG", "validate", 1);
#define CASE(name)      cmocka_unit_test_setup_teardown(name, open_device, close_device)
#define CASE_FILE(name) cmocka_unit_test_setup_teardown(name, begin_folder, end_folder)
    const struct CMUnitTest tests[] = {
        CASE(products_in_each_tile),
        CASE(small_products_have_one_form),
        CASE(rows_in_each_tile),
        CASE(points_in_each_tile),
        CASE_FILE(tables_survive_the_file),
        CASE_FILE(broken_files_are_told_and_ignored),
        CASE_FILE(what_was_asked_is_measured),
        CASE_FILE(tiles_with_other_results_do_not_win),
        CASE_FILE(memory_that_does_not_suffice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
