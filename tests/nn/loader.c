// Loaders with workers: the same batches with any number of them, failures, ends at any time; steps for images against
// what they say they do; data sets by a function, windows of a text.
#include <kiln/data.h>
#include <kiln/ops.h>

#include <math.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

// The thread sanitizer lets no child of a fork begin threads; a search for leaks at the end of a process does not see
// what threads at work hold.
#if defined(__SANITIZE_THREAD__)
#define THREADS_WATCHED true
#elif defined(__SANITIZE_ADDRESS__)
#define LEAKS_WATCHED true
#elif defined(__has_feature)
#define THREADS_WATCHED __has_feature(thread_sanitizer)
#define LEAKS_WATCHED   __has_feature(address_sanitizer)
#endif
#ifndef THREADS_WATCHED
#define THREADS_WATCHED false
#endif
#ifndef LEAKS_WATCHED
#define LEAKS_WATCHED false
#endif

static kiln_device *dev;

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

static int clear_error(void **state)
{
    kiln_error_clear();
    return 0;
}

static void expect_error(kiln_status code, const char *text)
{
    if (kiln_error() != code || !strstr(kiln_error_message(), text))
        fail_msg("expected %s with \"%s\", got %s: %s", kiln_status_name(code), text, kiln_status_name(kiln_error()),
                 kiln_error_message());
    kiln_error_clear();
}

static void expect_none(void)
{
    if (kiln_error()) fail_msg("%s: %s", kiln_status_name(kiln_error()), kiln_error_message());
}

static void sleep_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

// --- a set with all there is: memory, a function, a data set, conversion, steps

enum { SAMPLES = 23, H = 6, W = 5, C = 3, IMAGE = C * H * W };

static unsigned char images[SAMPLES][IMAGE];

static void fill_images(void)
{
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < IMAGE; k++) images[i][k] = (unsigned char)(1 + (i * 31 + k * 7) % 255);
}

static kiln_status square(void *user, int64_t index, void *row, size_t row_B)
{
    if (index % 5 == 0) sleep_us(300);
    const int64_t v = index * index;
    memcpy(row, &v, sizeof v);
    return row_B == sizeof v ? KILN_OK : KILN_E_SHAPE;
}

static kiln_status get_pair(void *user, int64_t index, void *const *rows, size_t n)
{
    const int16_t v[2] = {(int16_t)index, (int16_t)-index};
    const float f = (float)index / 2;
    memcpy(rows[0], v, sizeof v);
    memcpy(rows[1], &f, sizeof f);
    return n == 2 ? KILN_OK : KILN_E_SHAPE;
}

static kiln_status add_noise(void *user, const kiln_sample *s)
{
    float *f = s->fields[3];
    assert_int_equal(s->n_fields, 4);
    f[0] += (float)kiln_sample_uniform(s, 7);
    return KILN_OK;
}

static kiln_loader *full_loader(int64_t batch, int64_t workers, int64_t prefetch)
{
    kiln_loader *l = kiln_loader_create(
        dev, NULL, 0,
        KILN_LOADER(.batch = batch, .shuffle = true, .seed = 9, .workers = workers, .prefetch = prefetch));
    kiln_loader_add_host(l, KILN_U8, KILN_SHAPE(SAMPLES, C, H, W), images);
    kiln_loader_add_fn(l, KILN_I64, KILN_SHAPE(SAMPLES), square, NULL);
    kiln_loader_add_dataset(
        l, SAMPLES, 2,
        (const kiln_field_spec *[]){KILN_FIELD(.dtype = KILN_I16, .rank = 1, .dims = (int64_t[]){2}),
                                    KILN_FIELD(.dtype = KILN_F32)},
        get_pair, NULL);
    kiln_loader_convert(l, 0, KILN_F32, KILN_CONVERT(.scale = 1.0 / 255));
    kiln_loader_convert(l, 2, KILN_F64, KILN_CONVERT(.scale = 2));
    kiln_loader_random_crop(l, 0, 2, NULL);
    kiln_loader_random_flip(l, 0, NULL);
    kiln_loader_jitter(l, 0, 0.3, 0.4, KILN_IMAGE(.chance = 0.7));
    kiln_loader_cutout(l, 0, 3, KILN_IMAGE(.fill = 0.5));
    kiln_loader_normalise(l, 0, 3, (double[]){0.4, 0.5, 0.6}, (double[]){0.2, 0.25, 0.5}, NULL);
    kiln_loader_augment(l, add_noise, NULL);
    expect_none();
    return l;
}

// What a batch holds, one sample after the other, in the order of the batch.
struct made {
    float image[IMAGE];
    int64_t square;
    double pair[2];
    float half;
};

static int take(kiln_loader *l, struct made *out, int max)
{
    kiln_tensor *t[4];
    bool more;
    assert_int_equal(kiln_loader_next(l, t, 4, &more), KILN_OK);
    if (!more) return 0;
    int n = (int)kiln_dim(t[0], 0);
    assert_true(n <= max);
    float *image = malloc((size_t)n * sizeof out->image), *half = malloc((size_t)n * sizeof *half);
    int64_t *squares = malloc((size_t)n * sizeof *squares);
    double *pairs = malloc((size_t)n * sizeof out->pair);
    assert_true(image && half && squares && pairs);
    assert_int_equal(kiln_read(t[0], image, (size_t)n * sizeof out->image), KILN_OK);
    assert_int_equal(kiln_read(t[1], squares, (size_t)n * sizeof *squares), KILN_OK);
    assert_int_equal(kiln_read(t[2], pairs, (size_t)n * sizeof out->pair), KILN_OK);
    assert_int_equal(kiln_read(t[3], half, (size_t)n * sizeof *half), KILN_OK);
    for (int i = 0; i < n; i++) {
        memset(&out[i], 0, sizeof out[i]);
        memcpy(out[i].image, image + i * IMAGE, sizeof out->image);
        out[i].square = squares[i];
        memcpy(out[i].pair, pairs + 2 * i, sizeof out->pair);
        out[i].half = half[i];
    }
    free(image);
    free(half);
    free(squares);
    free(pairs);
    for (int k = 0; k < 4; k++) kiln_free(&t[k]);
    return n;
}

static int take_epochs(kiln_loader *l, int epochs, struct made *out)
{
    int n = 0;
    for (int e = 0; e < epochs; e++)
        for (int rows; (rows = take(l, out + n, 3 * SAMPLES - n)); n += rows) {}
    return n;
}

static int by_square(const void *a, const void *b)
{
    const struct made *x = a, *y = b;
    return (x->square > y->square) - (x->square < y->square);
}

static void batches_are_the_same_with_any_crew(void **state)
{
    static struct made want[3 * SAMPLES], got[3 * SAMPLES];
    kiln_loader *l = full_loader(5, 0, -1);
    assert_int_equal(take_epochs(l, 3, want), 3 * SAMPLES);
    kiln_loader_free(&l);
    for (int64_t workers = 0; workers < 8; workers++) {
        for (int64_t prefetch = 0; prefetch < 6; prefetch += 1 + workers % 3) {
            l = full_loader(5, workers, prefetch);
            assert_int_equal(take_epochs(l, 3, got), 3 * SAMPLES);
            assert_memory_equal(got, want, sizeof got);
            // From the middle of the second epoch.
            kiln_loader_state s = {.size = sizeof s, .seed = 9, .epoch = 1, .position = 10};
            assert_int_equal(kiln_loader_set_state(l, &s), KILN_OK);
            assert_int_equal(take_epochs(l, 2, got), 2 * SAMPLES - 10);
            assert_memory_equal(got, want + SAMPLES + 10, sizeof *got * (2 * SAMPLES - 10));
            kiln_loader_free(&l);
        }
    }
    // The size of a batch changes nothing of a sample, another epoch does.
    l = full_loader(4, 3, 0);
    assert_int_equal(take_epochs(l, 1, got), SAMPLES);
    assert_memory_equal(got, want, sizeof *got * SAMPLES);
    kiln_loader_free(&l);
    qsort(want, SAMPLES, sizeof *want, by_square);
    qsort(want + SAMPLES, SAMPLES, sizeof *want, by_square);
    int equal = 0;
    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(want[i].square, want[SAMPLES + i].square);
        assert_true(want[i].pair[0] == 2 * i && want[i].pair[1] == -2 * i);
        assert_true(want[i].half >= (float)i / 2 && want[i].half < (float)i / 2 + 1);
        equal += !memcmp(want[i].image, want[SAMPLES + i].image, sizeof want[i].image);
    }
    assert_true(equal < 3);
}

// --- failures and ends

struct failing {
    int64_t from;
    kiln_status with; // KILN_OK: a function of Kiln fails in it
    atomic_int calls;
};

static kiln_status fail_from(void *user, int64_t index, void *row, size_t row_B)
{
    struct failing *f = user;
    atomic_fetch_add(&f->calls, 1);
    // Those behind the first that fails are quicker to fail than it is.
    if (index == f->from) sleep_us(2000);
    if (f->from >= 0 && index >= f->from) {
        if (f->with) return f->with;
        kiln_rank(NULL);
    }
    memcpy(row, &(int32_t){(int32_t)index}, row_B);
    return KILN_OK;
}

static void the_first_sample_that_fails_is_named(void **state)
{
    for (int64_t workers = 1; workers < 9; workers += 3) {
        for (int k = 0; k < 2; k++) {
            struct failing f = {.from = 21, .with = k ? KILN_OK : KILN_E_IO};
            kiln_loader *l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 16, .workers = workers));
            kiln_loader_add_fn(l, KILN_I32, KILN_SHAPE(64), fail_from, &f);
            kiln_tensor *t;
            bool more;
            assert_int_equal(kiln_loader_next(l, &t, 1, &more), KILN_OK);
            kiln_free(&t);
            for (int turn = 0; turn < 3; turn++) {
                assert_int_equal(kiln_loader_next(l, &t, 1, &more), k ? KILN_E_ARGUMENT : KILN_E_IO);
                assert_null(t);
                if (k)
                    expect_error(KILN_E_ARGUMENT, "loader: sample 21: ");
                else
                    expect_error(KILN_E_IO, "loader: the function of field 0 failed on sample 21 with KILN_E_IO");
            }
            f.from = -1;
            for (int b = 1; b < 4; b++) {
                int32_t got[16];
                assert_int_equal(kiln_loader_next(l, &t, 1, &more), KILN_OK);
                assert_int_equal(kiln_read(t, got, sizeof got), KILN_OK);
                for (int i = 0; i < 16; i++) assert_int_equal(got[i], 16 * b + i);
                kiln_free(&t);
            }
            kiln_loader_free(&l);
        }
    }
}

static kiln_status refuse_sample(void *user, const kiln_sample *s)
{
    return s->index == 2 ? KILN_E_STATE : KILN_OK;
}

static kiln_status refuse_get(void *user, int64_t index, void *const *rows, size_t n)
{
    memset(rows[0], 0, 4);
    return index == 1 ? KILN_E_FORMAT : KILN_OK;
}

static void steps_and_sets_fail_too(void **state)
{
    kiln_tensor *t;
    bool more;
    kiln_loader *l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 4, .workers = 2));
    kiln_loader_add_host(l, KILN_U8, KILN_SHAPE(4), images);
    kiln_loader_augment(l, refuse_sample, NULL);
    kiln_loader_next(l, &t, 1, &more);
    expect_error(KILN_E_STATE, "loader: the function of step 0 failed on sample 2 with KILN_E_STATE");
    kiln_loader_free(&l);
    l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 4, .prefetch = -1));
    kiln_loader_add_dataset(l, 4, 1, (const kiln_field_spec *[]){KILN_FIELD(.dtype = KILN_I32)}, refuse_get, NULL);
    kiln_loader_next(l, &t, 1, &more);
    expect_error(KILN_E_FORMAT, "loader: the function of fields from 0 failed on sample 1 with KILN_E_FORMAT");
    kiln_loader_free(&l);
}

static atomic_llong furthest;

static kiln_status note_furthest(void *user, int64_t index, void *row, size_t row_B)
{
    long long seen = atomic_load(&furthest);
    while (seen < index && !atomic_compare_exchange_weak(&furthest, &seen, index)) {}
    memset(row, 0, row_B);
    return KILN_OK;
}

// No more batches than were asked for are made ahead.
static void memory_is_bounded(void **state)
{
    atomic_store(&furthest, -1);
    kiln_loader *l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 4, .workers = 5, .prefetch = 3));
    kiln_loader_add_fn(l, KILN_U8, KILN_SHAPE(400), note_furthest, NULL);
    for (int b = 0; b < 10; b++) {
        kiln_tensor *t;
        bool more;
        assert_int_equal(kiln_loader_next(l, &t, 1, &more), KILN_OK);
        kiln_free(&t);
        sleep_us(3000);
        assert_true(atomic_load(&furthest) <= 4 * (b + 1 + 3) - 1);
    }
    kiln_loader_free(&l);
}

static kiln_status slow(void *user, int64_t index, void *row, size_t row_B)
{
    sleep_us(500);
    memset(row, (int)index, row_B);
    return KILN_OK;
}

static kiln_loader *slow_loader(int64_t workers)
{
    kiln_loader *l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 8, .workers = workers, .shuffle = true));
    assert_int_equal(kiln_loader_add_fn(l, KILN_U8, KILN_SHAPE(100, 3), slow, NULL), KILN_OK);
    return l;
}

static void take_some(kiln_loader *l, int n)
{
    for (int i = 0; i < n; i++) {
        kiln_tensor *t;
        bool more;
        assert_int_equal(kiln_loader_next(l, &t, 1, &more), KILN_OK);
        kiln_free(&t);
    }
}

static void crews_end_at_any_time(void **state)
{
    for (int taken = 0; taken < 20; taken += 3) {
        kiln_loader *l = slow_loader(1 + taken % 4);
        take_some(l, taken);
        kiln_loader_free(&l);
        assert_null(l);
    }
}

static int status_of(pid_t child)
{
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

// A child of a fork goes on by itself, or frees; a process may end while workers are at work.
static void crews_and_processes(void **state)
{
    if (THREADS_WATCHED) skip();
    kiln_loader *l = slow_loader(4);
    take_some(l, 2);
    for (int k = 0; k < 3; k++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            alarm(30);
            if (k == 1) {
                bool more = true;
                kiln_tensor *t = NULL;
                for (int i = 0; i < 30 && !kiln_error(); i++) {
                    kiln_loader_next(l, &t, 1, &more);
                    kiln_free(&t);
                }
            }
            if (k < 2) kiln_loader_free(&l);
            // Without running what this test's own tools have registered.
            _exit(kiln_error() != KILN_OK);
        }
        assert_int_equal(status_of(child), 0);
        take_some(l, 1);
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        kiln_loader *own = slow_loader(4);
        take_some(own, 2);
        if (LEAKS_WATCHED) _exit(0);
        exit(0); // four threads are at work
    }
    assert_int_equal(status_of(child), 0);
    kiln_loader_free(&l);
}

// --- steps, each by itself

static void load_step(kiln_loader *l, void *out, size_t size_B)
{
    kiln_tensor *t;
    bool more;
    assert_int_equal(kiln_loader_next(l, &t, 1, &more), KILN_OK);
    if (!more) assert_int_equal(kiln_loader_next(l, &t, 1, &more), KILN_OK);
    assert_int_equal(kiln_read(t, out, size_B), KILN_OK);
    kiln_free(&t);
}

static kiln_loader *image_loader(bool channels_last, kiln_dtype dtype)
{
    kiln_loader *l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = SAMPLES, .seed = 4, .workers = 2));
    if (channels_last)
        kiln_loader_add_host(l, KILN_U8, KILN_SHAPE(SAMPLES, H, W, C), images);
    else
        kiln_loader_add_host(l, KILN_U8, KILN_SHAPE(SAMPLES, C, H, W), images);
    if (dtype != KILN_U8) kiln_loader_convert(l, 0, dtype, NULL);
    return l;
}

static int at(bool last, int c, int y, int x)
{
    return last ? (y * W + x) * C + c : (c * H + y) * W + x;
}

static int cropped(bool last, const unsigned char *from, int c, int y, int x, int dy, int dx)
{
    int fy = y + dy, fx = x + dx;
    return fy < 0 || fy >= H || fx < 0 || fx >= W ? 77 : from[at(last, c, fy, fx)];
}

static bool is_crop(bool last, const unsigned char *got, const unsigned char *from, int dy, int dx)
{
    for (int c = 0; c < C; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                if (got[at(last, c, y, x)] != cropped(last, from, c, y, x, dy, dx)) return false;
    return true;
}

// Each sample is the image at one of the places, and all places come about alike often.
static void crops_are_crops(void **state)
{
    static unsigned char got[SAMPLES][IMAGE];
    for (int last = 0; last < 2; last++) {
        for (int padding = 0; padding < 9; padding += 2) {
            int seen[19][19] = {{0}}, places = 2 * padding + 1, epochs = 40;
            kiln_loader *l = image_loader(last, KILN_U8);
            assert_int_equal(kiln_loader_random_crop(l, 0, padding, KILN_IMAGE(.channels_last = last, .fill = 77)), 0);
            for (int e = 0; e < epochs; e++) {
                load_step(l, got, sizeof got);
                for (int i = 0; i < SAMPLES; i++) {
                    int found = 0;
                    for (int dy = -padding; dy <= padding && !found; dy++)
                        for (int dx = -padding; dx <= padding && !found; dx++)
                            if (is_crop(last, got[i], images[i], dy, dx)) found = ++seen[dy + padding][dx + padding];
                    assert_true(found);
                }
            }
            // Where the image is moved out whole, all that is left looks alike.
            double mean = (double)epochs * SAMPLES / (places * places);
            for (int k = 0; padding < 4 && k < places * places; k++)
                assert_true(fabs(seen[k / places][k % places] - mean) < 6 * sqrt(mean));
            kiln_loader_free(&l);
        }
    }
}

static void flips_are_flips(void **state)
{
    static float got[SAMPLES][IMAGE];
    for (int last = 0; last < 2; last++) {
        int flipped = 0, epochs = 30;
        kiln_loader *l = image_loader(last, KILN_F32);
        assert_int_equal(kiln_loader_random_flip(l, 0, KILN_IMAGE(.channels_last = last, .chance = 0.25)), KILN_OK);
        for (int e = 0; e < epochs; e++) {
            load_step(l, got, sizeof got);
            for (int i = 0; i < SAMPLES; i++) {
                bool turned = got[i][at(last, 0, 0, 0)] != images[i][at(last, 0, 0, 0)];
                for (int k = 0; k < IMAGE; k++) {
                    int c = k / (H * W), y = k / W % H, x = k % W;
                    assert_true(got[i][at(last, c, y, x)] == images[i][at(last, c, y, turned ? W - 1 - x : x)]);
                }
                flipped += turned;
            }
        }
        assert_true(fabs(flipped - 0.25 * epochs * SAMPLES) < 5 * sqrt(0.25 * 0.75 * epochs * SAMPLES));
        kiln_loader_free(&l);
    }
}

static void cutouts_are_squares(void **state)
{
    static double got[SAMPLES][IMAGE];
    for (int last = 0; last < 2; last++) {
        kiln_loader *l = image_loader(last, KILN_F64);
        assert_int_equal(kiln_loader_cutout(l, 0, 3, KILN_IMAGE(.channels_last = last, .fill = -1)), KILN_OK);
        int seen[H][W] = {{0}};
        for (int e = 0; e < 40; e++) {
            load_step(l, got, sizeof got);
            for (int i = 0; i < SAMPLES; i++) {
                int top = H, left = W, bottom = -1, right = -1;
                for (int k = 0; k < H * W; k++) {
                    if (got[i][at(last, 0, k / W, k % W)] != -1) continue;
                    top = top < k / W ? top : k / W;
                    bottom = bottom > k / W ? bottom : k / W;
                    left = left < k % W ? left : k % W;
                    right = right > k % W ? right : k % W;
                }
                assert_true(bottom >= top && right >= left && bottom - top < 3 && right - left < 3);
                assert_true((bottom - top == 2 || top == 0 || bottom == H - 1));
                assert_true((right - left == 2 || left == 0 || right == W - 1));
                for (int k = 0; k < IMAGE; k++) {
                    int c = k / (H * W), y = k / W % H, x = k % W;
                    bool in = y >= top && y <= bottom && x >= left && x <= right;
                    assert_true(got[i][at(last, c, y, x)] == (in ? -1 : images[i][at(last, c, y, x)]));
                    seen[y][x] += in && c == 0;
                }
            }
        }
        for (int k = 0; k < H * W; k++) assert_true(seen[k / W][k % W] > 0);
        kiln_loader_free(&l);
    }
}

// The change is one line for all pixels, whose slope and offset follow from two numbers within their ranges.
static void jitter_is_linear(void **state)
{
    static double got[SAMPLES][IMAGE];
    kiln_loader *l = image_loader(false, KILN_F64);
    assert_int_equal(kiln_loader_jitter(l, 0, 0.25, 0.5, NULL), KILN_OK);
    double least_b = 2, most_b = 0, least_c = 2, most_c = 0;
    for (int e = 0; e < 20; e++) {
        load_step(l, got, sizeof got);
        for (int i = 0; i < SAMPLES; i++) {
            double mean = 0, mean_got = 0;
            for (int k = 0; k < IMAGE; k++) mean += images[i][k] / (double)IMAGE;
            for (int k = 0; k < IMAGE; k++) mean_got += got[i][k] / IMAGE;
            double b = mean_got / mean, c = (got[i][1] - got[i][0]) / (images[i][1] - images[i][0]) / b;
            for (int k = 0; k < IMAGE; k++)
                assert_true(fabs(got[i][k] - (b * mean + c * b * (images[i][k] - mean))) < 1e-9);
            least_b = fmin(least_b, b), most_b = fmax(most_b, b);
            least_c = fmin(least_c, c), most_c = fmax(most_c, c);
        }
    }
    assert_true(least_b >= 0.75 && least_b < 0.77 && most_b <= 1.25 && most_b > 1.23);
    assert_true(least_c >= 0.5 && least_c < 0.53 && most_c <= 1.5 && most_c > 1.47);
    kiln_loader_free(&l);
    // Bytes saturate.
    static unsigned char bytes[SAMPLES][IMAGE];
    l = image_loader(false, KILN_U8);
    assert_int_equal(kiln_loader_jitter(l, 0, 1, 1, NULL), KILN_OK);
    bool low = false, high = false;
    for (int e = 0; e < 10; e++) {
        load_step(l, bytes, sizeof bytes);
        for (int i = 0; i < SAMPLES * IMAGE; i++) {
            low |= ((unsigned char *)bytes)[i] == 0;
            high |= ((unsigned char *)bytes)[i] == 255;
        }
    }
    assert_true(low && high);
    kiln_loader_free(&l);
}

static void channels_are_normalised(void **state)
{
    const double mean[] = {10, 20, 30}, deviation[] = {2, 4, 8};
    static float got[SAMPLES][IMAGE];
    for (int last = 0; last < 2; last++) {
        kiln_loader *l = image_loader(last, KILN_F32);
        assert_int_equal(kiln_loader_normalise(l, 0, 3, mean, deviation, KILN_IMAGE(.channels_last = last)), KILN_OK);
        load_step(l, got, sizeof got);
        for (int i = 0; i < SAMPLES; i++)
            for (int k = 0; k < IMAGE; k++) {
                int c = k / (H * W), p = at(last, c, k / W % H, k % W);
                assert_true(got[i][p] == (float)((images[i][p] - mean[c]) / deviation[c]));
            }
        kiln_loader_free(&l);
    }
}

static kiln_status keep_seed(void *user, const kiln_sample *s)
{
    assert_int_equal(s->size, sizeof *s);
    ((double *)s->fields[0])[0] = kiln_sample_uniform(s, 0);
    ((double *)s->fields[0])[1] = kiln_sample_uniform(s, 1);
    return KILN_OK;
}

// Even, and without anything in common between neighbours: samples, numbers, epochs, seeds.
static void numbers_of_samples_are_even(void **state)
{
    enum { N = 4000 };
    static double zeros[N][2], got[4][N][2];
    for (int k = 0; k < 4; k++) {
        kiln_loader *l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = N, .seed = (uint64_t)(k < 2 ? 5 : k)));
        kiln_loader_add_host(l, KILN_F64, KILN_SHAPE(N, 2), zeros);
        kiln_loader_augment(l, keep_seed, NULL);
        if (k == 1) load_step(l, got[k], sizeof got[k]);
        load_step(l, got[k], sizeof got[k]);
        kiln_loader_free(&l);
    }
    for (int a = 0; a < 4; a++) {
        double mean = 0, along = 0, next = 0, across = 0;
        for (int i = 0; i < N; i++) {
            assert_true(got[a][i][0] >= 0 && got[a][i][0] < 1);
            mean += got[a][i][0] / N;
            along += (got[a][i][0] - 0.5) * (got[a][i][1] - 0.5) * 12 / N;
            next += (got[a][i][0] - 0.5) * (got[a][(i + 1) % N][0] - 0.5) * 12 / N;
            across += (got[a][i][0] - 0.5) * (got[(a + 1) % 4][i][0] - 0.5) * 12 / N;
        }
        assert_true(fabs(mean - 0.5) < 5 / sqrt(12.0 * N));
        assert_true(fabs(along) < 5 / sqrt(N) && fabs(next) < 5 / sqrt(N) && fabs(across) < 5 / sqrt(N));
    }
    assert_true(kiln_sample_uniform(NULL, 3) == 0);
    expect_error(KILN_E_ARGUMENT, "sample_uniform: sample is NULL");
}

// --- windows

static void windows_move_by_one(void **state)
{
    static const struct {
        kiln_dtype dtype;
        int64_t n, length, stride, count;
    } rows[] = {{KILN_U8, 11, 4, 0, 2}, {KILN_I32, 13, 4, 0, 3}, {KILN_I64, 12, 4, 1, 8},
                {KILN_I16, 5, 4, 3, 1}, {KILN_I8, 20, 3, 5, 4},  {KILN_I64, 2, 1, 0, 1}};
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *ids = kiln_arange(dev, rows[r].dtype, 100, 100 + (double)rows[r].n, 1), *batch[2];
        kiln_loader *l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 100));
        assert_int_equal(kiln_loader_add_windows(l, ids, rows[r].length, rows[r].stride), KILN_OK);
        assert_int_equal(kiln_loader_samples(l), rows[r].count);
        bool more;
        assert_int_equal(kiln_loader_next(l, batch, 2, &more), KILN_OK);
        int64_t stride = rows[r].stride ? rows[r].stride : rows[r].length, got[2][64];
        for (int k = 0; k < 2; k++) {
            assert_int_equal(kiln_numel(batch[k]), rows[r].count * rows[r].length);
            assert_int_equal(kiln_read(batch[k], got[k], (size_t)kiln_numel(batch[k]) * 8), KILN_OK);
            for (int64_t i = 0; i < kiln_numel(batch[k]); i++)
                assert_int_equal(got[k][i], 100 + i / rows[r].length * stride + i % rows[r].length + k);
        }
        kiln_loader_free(&l);
        kiln_scope_end(&scope);
    }
}

// --- misuse

static void misuse_is_named(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    assert_null(kiln_loader_create(dev, NULL, 0, KILN_LOADER(.workers = -1)));
    expect_error(KILN_E_ARGUMENT, "loader_create: -1 workers");
    assert_null(kiln_loader_create(dev, NULL, 0, KILN_LOADER(.workers = 257)));
    expect_error(KILN_E_ARGUMENT, "257 workers, from 0 to 256");
    assert_null(kiln_loader_create(dev, NULL, 0, KILN_LOADER(.workers = 1, .prefetch = -1)));
    expect_error(KILN_E_ARGUMENT, ".prefetch is -1");
    kiln_loader *l = image_loader(false, KILN_U8);
    kiln_tensor *ids = kiln_arange(dev, KILN_I32, 0, 9, 1), *floats = kiln_ones(dev, KILN_F32, KILN_SHAPE(9)),
                *square_ids = kiln_reshape(ids, KILN_SHAPE(3, 3)), *t[2];
    const double mean[3] = {0}, ones[3] = {1, 1, 1}, bad[3] = {1, 0, 1};
    bool more;
    kiln_loader_random_crop(l, 1, 2, NULL);
    expect_error(KILN_E_ARGUMENT, "loader_random_crop: there is no field 1");
    kiln_loader_random_crop(l, 0, -1, NULL);
    expect_error(KILN_E_ARGUMENT, "loader_random_crop: a size of -1");
    kiln_loader_cutout(l, 0, 0, NULL);
    expect_error(KILN_E_ARGUMENT, "loader_cutout: a size of 0");
    kiln_loader_random_flip(l, 0, KILN_IMAGE(.chance = 1.5));
    expect_error(KILN_E_ARGUMENT, "loader_random_flip: .chance is 1.5");
    kiln_loader_jitter(l, 0, 2, 0, NULL);
    expect_error(KILN_E_ARGUMENT, "loader_jitter: ranges of 2 and 0");
    kiln_loader_normalise(l, 0, 3, mean, ones, NULL);
    expect_error(KILN_E_DTYPE, "loader_normalise: field 0 is u8 in batches");
    kiln_loader_convert(l, 0, KILN_F32, NULL);
    kiln_loader_normalise(l, 0, 2, mean, ones, NULL);
    expect_error(KILN_E_SHAPE, "2 channels, field 0 has 3");
    kiln_loader_normalise(l, 0, 3, mean, bad, NULL);
    expect_error(KILN_E_ARGUMENT, "a deviation of 0");
    kiln_loader_normalise(l, 0, 3, NULL, ones, NULL);
    expect_error(KILN_E_ARGUMENT, "mean is NULL");
    assert_int_equal(kiln_loader_normalise(l, 0, 3, mean, ones, NULL), KILN_OK);
    kiln_loader_convert(l, 0, KILN_F64, NULL);
    expect_error(KILN_E_STATE, "loader_convert: field 0 has steps already");
    kiln_loader_augment(l, NULL, NULL);
    expect_error(KILN_E_ARGUMENT, "loader_augment: the function is NULL");
    kiln_loader_add_windows(l, ids, 3, 0);
    expect_error(KILN_E_SHAPE, "field 1 has 2 samples");
    kiln_loader_add_windows(l, ids, 9, 0);
    expect_error(KILN_E_SHAPE, "9 ids hold no window of 9 and one more");
    kiln_loader_add_windows(l, ids, 0, 0);
    expect_error(KILN_E_ARGUMENT, "windows of 0 ids");
    kiln_loader_add_windows(l, floats, 3, 0);
    expect_error(KILN_E_DTYPE, "ids are f32");
    kiln_loader_add_windows(l, square_ids, 3, 0);
    expect_error(KILN_E_SHAPE, "ids have rank 2");
    kiln_loader_add_dataset(l, SAMPLES, 0, (const kiln_field_spec *[]){NULL}, refuse_get, NULL);
    expect_error(KILN_E_ARGUMENT, "the list of fields is empty");
    kiln_loader_add_dataset(l, SAMPLES, 1, (const kiln_field_spec *[]){NULL}, refuse_get, NULL);
    expect_error(KILN_E_ARGUMENT, "field 0 is NULL");
    kiln_loader_add_dataset(l, SAMPLES, 1, (const kiln_field_spec *[]){KILN_FIELD(.dtype = KILN_I32)}, NULL, NULL);
    expect_error(KILN_E_ARGUMENT, "the function is NULL");
    // The first field would do, the second does not: neither is there.
    kiln_loader_add_dataset(
        l, SAMPLES, 2,
        (const kiln_field_spec *[]){KILN_FIELD(.dtype = KILN_I32), KILN_FIELD(.dtype = KILN_I32, .rank = 1)},
        refuse_get, NULL);
    expect_error(KILN_E_ARGUMENT, "the dims of field 1 are NULL");
    assert_int_equal(kiln_loader_next(l, t, 1, &more), KILN_OK);
    kiln_loader_random_flip(l, 0, NULL);
    expect_error(KILN_E_STATE, "loader_random_flip: the loader has given batches");
    kiln_loader_free(&l);
    kiln_scope_end(&scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(batches_are_the_same_with_any_crew, clear_error),
        cmocka_unit_test_teardown(the_first_sample_that_fails_is_named, clear_error),
        cmocka_unit_test_teardown(steps_and_sets_fail_too, clear_error),
        cmocka_unit_test_teardown(memory_is_bounded, clear_error),
        cmocka_unit_test_teardown(crews_end_at_any_time, clear_error),
        cmocka_unit_test_teardown(crews_and_processes, clear_error),
        cmocka_unit_test_teardown(crops_are_crops, clear_error),
        cmocka_unit_test_teardown(flips_are_flips, clear_error),
        cmocka_unit_test_teardown(cutouts_are_squares, clear_error),
        cmocka_unit_test_teardown(jitter_is_linear, clear_error),
        cmocka_unit_test_teardown(channels_are_normalised, clear_error),
        cmocka_unit_test_teardown(numbers_of_samples_are_even, clear_error),
        cmocka_unit_test_teardown(windows_move_by_one, clear_error),
        cmocka_unit_test_teardown(misuse_is_named, clear_error),
    };
    fill_images();
    return cmocka_run_group_tests_name("loader", tests, open_device, close_device);
}
