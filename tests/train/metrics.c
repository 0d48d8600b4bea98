// Metrics over batches against the ops on all samples at once.
#include "fixture.h"

#include <math.h>

enum { N = 203, CLASSES = 5 };

static kiln_tensor *scores, *labels, *best;

static int make_samples(void **state)
{
    float s[N * CLASSES];
    int64_t l[N];
    if (open_device(state)) return -1;
    for (int i = 0; i < N; i++) {
        l[i] = (i * i + i / 7) % CLASSES == 3 ? 1 : (i * i) % 4; // class 4 has no sample
        for (int k = 0; k < CLASSES; k++) s[i * CLASSES + k] = (float)(sin(i * 3.1 + k * 1.3) + (k == l[i]));
    }
    scores = kiln_from_data(dev, KILN_F32, KILN_SHAPE(N, CLASSES), s);
    labels = kiln_from_data(dev, KILN_I64, KILN_SHAPE(N), l);
    best = kiln_argmax(scores, KILN_REDUCE(.axes = KILN_AXES(-1)));
    return kiln_error();
}

static int free_samples(void **state)
{
    kiln_free(&scores);
    kiln_free(&labels);
    kiln_free(&best);
    return close_device(state);
}

// In batches of several sizes, the samples all once.
static void update(kiln_metric *m, kiln_tensor *what, kiln_tensor *of)
{
    for (int64_t at = 0, n = 1; at < N; at += n, n = n * 2 < N - at ? n * 2 : N - at) {
        if (n > N - at) n = N - at;
        kiln_scope *scope = kiln_scope_begin();
        kiln_metric_update(m, kiln_narrow(what, 0, at, n), kiln_narrow(of, 0, at, n));
        kiln_scope_end(&scope);
    }
    no_error();
}

static void expect_near(double a, kiln_tensor *b)
{
    double v = kiln_item(b);
    no_error();
    if (!(fabs(a - v) <= 2e-6)) fail_msg("%.9g is not %.9g", a, v);
}

static void as_the_ops(void **state)
{
    static const char *const averages[] = {"macro", "micro", "weighted"};
    kiln_scope *scope = kiln_scope_begin();
    for (size_t i = 0; i < COUNT_OF(averages); i++) {
        kiln_metric *m = kiln_metric_create(KILN_METRIC(.classes = CLASSES, .average = averages[i]));
        const kiln_precision_opts *o = KILN_PRECISION(.average = averages[i]);
        update(m, i == 1 ? best : scores, labels); // predictions do as well
        expect_near(kiln_metric_value(m, "accuracy"), kiln_accuracy(scores, labels, 1));
        expect_near(kiln_metric_value(m, "precision"), kiln_precision(best, labels, CLASSES, o));
        expect_near(kiln_metric_value(m, "recall"), kiln_recall(best, labels, CLASSES, o));
        expect_near(kiln_metric_value(m, "f1"),
                    kiln_f_score(best, labels, CLASSES, KILN_F_SCORE(.average = averages[i])));
        if (!i) expect_near(kiln_metric_value(m, "iou"), kiln_mean(kiln_iou(best, labels, CLASSES), NULL));
        kiln_tensor *counts = kiln_metric_matrix(m);
        assert_true(
            kiln_item_int(kiln_all(kiln_equal(counts, kiln_confusion_matrix(best, labels, CLASSES, NULL)), NULL)));
        kiln_metric_free(&m);
        assert_null(m);
    }
    kiln_scope_end(&scope);
}

static void top_k_and_area(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_metric *m = kiln_metric_create(KILN_METRIC(.top_k = 3));
    assert_true(isnan(kiln_metric_value(m, "top_k")));
    update(m, scores, labels);
    expect_near(kiln_metric_value(m, "top_k"), kiln_accuracy(scores, labels, 3));
    kiln_metric_free(&m);
    kiln_tensor *is_one = kiln_cast(kiln_equal(labels, kiln_scalar_int(1)), KILN_I64);
    kiln_tensor *line = kiln_select(scores, 1, 1), *two = kiln_narrow(scores, 1, 0, 2);
    for (int columns = 1; columns <= 2; columns++) {
        m = kiln_metric_create(KILN_METRIC(.auroc = true));
        assert_true(isnan(kiln_metric_value(m, "auroc")));
        update(m, columns == 1 ? line : two, is_one);
        expect_near(kiln_metric_value(m, "auroc"), kiln_auroc(line, is_one));
        kiln_metric_free(&m);
    }
    // All of it at once; the binary average is that of class 1.
    m = kiln_metric_create(KILN_METRIC(.classes = 2, .top_k = 1, .auroc = true, .average = "binary"));
    update(m, two, is_one);
    kiln_tensor *guess = kiln_argmax(two, KILN_REDUCE(.axes = KILN_AXES(-1)));
    kiln_tensor *each = kiln_precision(guess, is_one, 2, KILN_PRECISION(.average = "none"));
    expect_near(kiln_metric_value(m, "precision"), kiln_select(each, 0, 1));
    expect_near(kiln_metric_value(m, "top_k"), kiln_accuracy(two, is_one, 1));
    kiln_metric_free(&m);
    kiln_scope_end(&scope);
}

static void copies_and_resets(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_metric *m = kiln_metric_create(KILN_METRIC(.auroc = true, .classes = 2));
    kiln_tensor *s = kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 2), ((const float[]){1, 0, 0, 1}));
    kiln_tensor *l = kiln_from_data(dev, KILN_I64, KILN_SHAPE(2), ((const int64_t[]){0, 1}));
    kiln_metric_update(m, s, l);
    kiln_assign(s, kiln_scalar(0)); // what was given may change
    assert_true(kiln_metric_value(m, "auroc") == 1 && kiln_metric_value(m, "accuracy") == 1);
    kiln_metric_reset(m);
    assert_true(isnan(kiln_metric_value(m, "auroc")) && isnan(kiln_metric_value(m, "accuracy")));
    assert_null(kiln_metric_matrix(m));
    expect_error(KILN_E_STATE, "no batch has been counted");
    // A batch that is refused adds nothing.
    kiln_metric_update(m, s, kiln_from_data(dev, KILN_I64, KILN_SHAPE(3), ((const int64_t[]){0, 1, 1})));
    assert_int_not_equal(kiln_error(), KILN_OK);
    kiln_error_clear();
    assert_true(isnan(kiln_metric_value(m, "accuracy")));
    kiln_metric_free(&m);
    kiln_scope_end(&scope);
}

static void wrong_calls(void **state)
{
    assert_null(kiln_metric_create(NULL));
    expect_error(KILN_E_ARGUMENT, "none of .classes, .top_k and .auroc");
    assert_null(kiln_metric_create(KILN_METRIC(.classes = 1)));
    expect_error(KILN_E_ARGUMENT, ".classes is 1");
    assert_null(kiln_metric_create(KILN_METRIC(.top_k = -1)));
    expect_error(KILN_E_ARGUMENT, ".top_k is -1");
    assert_null(kiln_metric_create(KILN_METRIC(.classes = 3, .average = "binary")));
    expect_error(KILN_E_ARGUMENT, "\"binary\", of 3 classes");
    assert_null(kiln_metric_create(KILN_METRIC(.classes = 3, .average = "mean")));
    expect_error(KILN_E_ARGUMENT, ".average is \"mean\"");
    kiln_metric *m = kiln_metric_create(KILN_METRIC(.classes = 3));
    assert_true(isnan(kiln_metric_value(m, "top_k")));
    expect_error(KILN_E_ARGUMENT, "the metric has no \"top_k\"");
    kiln_metric_value(m, NULL);
    expect_error(KILN_E_ARGUMENT, "the name is NULL");
    kiln_metric_update(m, NULL, labels);
    expect_error(KILN_E_ARGUMENT, "the scores are NULL");
    kiln_metric_update(m, scores, labels);
    expect_error(KILN_E_SHAPE, "metric_update: scores of 5 classes, the metric is of 3");
    kiln_metric_free(&m);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(as_the_ops),
        TEST(top_k_and_area),
        TEST(copies_and_resets),
        TEST(wrong_calls),
    };
    return cmocka_run_group_tests(tests, make_samples, free_samples);
}
