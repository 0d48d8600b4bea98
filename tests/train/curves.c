// Curves of trainings as pictures and pages: round ticks, legends, gaps, odd names, long series, logarithms.
#include "fixture.h"

#include <math.h>

#define QUIET .progress = "none"

// Tags are closed in order, attributes are in quotes, and what is no tag holds no "<".
static void expect_well_formed(const char *text)
{
    char open[64][32];
    int depth = 0;
    for (const char *at = text; (at = strchr(at, '<')); at++) {
        size_t n = strcspn(at + 1, " />\n");
        const char *end = strchr(at, '>');
        assert_non_null(end);
        if (at[1] == '/') {
            n = strcspn(at + 2, ">");
            assert_true(depth > 0 && strlen(open[depth - 1]) == n && !strncmp(open[depth - 1], at + 2, n));
            depth--;
        } else if (end[-1] != '/') {
            assert_true(depth < 64 && n < 32);
            snprintf(open[depth++], 32, "%.*s", (int)n, at + 1);
        }
        int quotes = 0;
        for (const char *c = at; c < end; c++) quotes += *c == '"';
        assert_int_equal(quotes % 2, 0);
        at = end;
    }
    assert_int_equal(depth, 0);
}

// The labels of an axis ("x" or "y") of the first panel, as numbers. k and M count.
static int labels_of(const char *svg, const char *axis, double *out)
{
    char mark[32];
    int n = 0;
    snprintf(mark, sizeof mark, "class=\"%s\">", axis);
    for (const char *at = svg; (at = strstr(at, mark)); n++) {
        char *end;
        at += strlen(mark);
        double v = strtod(at, &end);
        if (end == at) break; // the axis' name
        out[n] = v * (*end == 'k' ? 1e3 : *end == 'M' ? 1e6 : 1);
        if (n && out[n] <= out[n - 1] && *axis == 'x') break; // the next panel
        assert_true(n < 40);
    }
    return n;
}

static void expect_round(const double *v, int n)
{
    assert_true(n >= 2);
    double step = v[1] - v[0], e = pow(10, floor(log10(step) + 1e-6)), digit = step / e;
    if (fabs(digit - 1) > 1e-6 && fabs(digit - 2) > 1e-6 && fabs(digit - 5) > 1e-6) fail_msg("a step of %g", step);
    for (int i = 0; i < n; i++) {
        assert_true(fabs(v[i] - v[0] - i * step) < 1e-6 * step);
        assert_true(fabs(v[i] / step - round(v[i] / step)) < 1e-6);
    }
}

static char *draw(kiln_training *t, const kiln_curves_opts *opts)
{
    kiln_training_save_curves(t, in_folder("c.svg"), opts);
    no_error();
    char *svg = text_of(in_folder("c.svg"));
    expect_well_formed(svg);
    return svg;
}

static void ticks_are_round(void **state)
{
    double low = 1e-7;
    for (int trial = 0; trial < 120; trial++, low *= 1.3) {
        kiln_training *t = kiln_training_create(NULL, KILN_TRAINING(.log_every = 1, QUIET));
        double high = low * (1.05 + trial % 7), labels[64], sign = trial % 3 ? 1 : -1;
        for (int i = 0; i < 50 + 37 * trial; i++) {
            if (i % 10 == 0) kiln_training_log(t, "a", sign * (i % 20 ? low : high));
            kiln_training_step(t);
        }
        char *svg = draw(t, NULL);
        int n = labels_of(svg, "x", labels);
        expect_round(labels, n);
        assert_true(n <= 12);
        n = labels_of(svg, "y", labels);
        expect_round(labels, n);
        // The axis begins and ends with a tick, around all values.
        assert_true(labels[0] <= sign * (sign > 0 ? low : high) * (1 + 1e-9 * sign) + 1e-9 * high);
        assert_true(labels[n - 1] >= sign * (sign > 0 ? high : low) * (1 - 1e-9 * sign) - 1e-9 * high);
        free(svg);
        kiln_training_free(&t);
    }
}

static void logarithmic_axes(void **state)
{
    kiln_training *t = kiln_training_create(NULL, KILN_TRAINING(.log_every = 1, QUIET));
    double labels[64];
    for (int i = 0; i < 2000; i++) {
        kiln_training_log(t, "a", i == 1000 ? -1 : pow(10, -4 + 0.0034 * i));
        kiln_training_step(t);
    }
    char *svg = draw(t, KILN_CURVES(.log_y = true, .log_x = true));
    int n = labels_of(svg, "y", labels);
    assert_true(n >= 4);
    for (int i = 0; i < n; i++) assert_true(fabs(log10(labels[i]) - round(log10(labels[i]))) < 1e-6);
    assert_non_null(strstr(svg, ">0.01<"));
    assert_non_null(strstr(svg, ">1e-4<"));
    n = labels_of(svg, "x", labels);
    assert_true(labels[0] == 1 && labels[1] > 1);
    // What has no logarithm is a gap: the line has two parts.
    const char *line = strstr(strstr(svg, "class=\"axis\""), "class=\"line c0\"");
    int parts = 0;
    for (const char *at = line; *at != '/'; at++) parts += *at == 'M';
    assert_int_equal(parts, 2);
    free(svg);
    kiln_training_free(&t);
}

static void panels_and_legends(void **state)
{
    kiln_training *t = kiln_training_create(NULL, KILN_TRAINING(.log_every = 1, .title = "T", QUIET));
    for (int i = 0; i < 20; i++) {
        kiln_training_log(t, "train/loss", i == 7 || i == 8 ? NAN : i == 13 ? INFINITY : 20 - i);
        kiln_training_log(t, "lr", 0.5);
        if (i % 4 == 3) kiln_training_log(t, "valid/loss", 21 - i); // rows that lack it are no gaps
        kiln_training_step(t);
    }
    char *svg = draw(t, NULL);
    int panels = 0;
    for (const char *at = svg; (at = strstr(at, "class=\"panel\"")); at++) panels++;
    assert_int_equal(panels, 2);
    assert_non_null(strstr(svg, "class=\"key\">loss<"));
    assert_non_null(strstr(svg, "class=\"name\">train/loss<"));
    assert_non_null(strstr(svg, "class=\"name\">valid/loss<"));
    assert_null(strstr(svg, "class=\"name\">lr<")); // the panel's title says it
    assert_non_null(strstr(svg, "class=\"title\">T<"));
    const char *train = strstr(strstr(svg, "class=\"axis\""), "class=\"line c0\""),
               *valid = strstr(train, "class=\"line c1\"");
    int parts = 0, lines = 0;
    for (const char *at = train; *at != '>'; at++) parts += *at == 'M', lines += *at == 'L';
    assert_true(parts == 3 && lines == 20 - 3 - 3);
    parts = lines = 0;
    for (const char *at = valid; *at != '>'; at++) parts += *at == 'M', lines += *at == 'L';
    assert_true(parts == 1 && lines == 4);
    free(svg);
    svg = draw(t, KILN_CURVES(.names = KILN_NAMES("lr"), .title = "only", .x = "seconds"));
    assert_null(strstr(svg, "loss"));
    assert_non_null(strstr(svg, ">seconds<"));
    assert_non_null(strstr(svg, "class=\"title\">only<"));
    free(svg);
    svg = draw(t, KILN_CURVES(.together = true, .width = 300, .x = "epoch"));
    panels = 0;
    for (const char *at = svg; (at = strstr(at, "class=\"panel\"")); at++) panels++;
    assert_int_equal(panels, 1);
    free(svg);
    kiln_training_free(&t);
}

// Very many points are as many as the picture shows, with the peaks.
static void long_series(void **state)
{
    kiln_training *t = kiln_training_create(NULL, KILN_TRAINING(.log_every = 1, QUIET));
    double labels[64];
    for (int i = 0; i < 200000; i++) {
        kiln_training_log(t, "a", i == 123456 ? 50 : i % 2);
        kiln_training_step(t);
    }
    char *svg = draw(t, NULL);
    assert_true(strlen(svg) < 150000);
    int n = labels_of(svg, "y", labels);
    assert_true(labels[n - 1] == 50);
    assert_non_null(strstr(svg, ">200k<"));
    // The peak touches the top of the plot, which is 240 high.
    const char *line = strstr(strstr(svg, "class=\"axis\""), "class=\"line c0\"");
    double least = 1000;
    for (const char *at = line; *at != '>'; at++)
        if (*at == 'L') least = fmin(least, atof(strchr(at, ' ')));
    assert_true(least < 40);
    free(svg);
    kiln_training_free(&t);
}

static void odd_names(void **state)
{
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.log_every = 1, .title = "</script><b>&\"", QUIET));
    kiln_training_log(t, "a<b & \"c\"/</script>", 1);
    kiln_training_log(t, "nothing/finite", NAN);
    kiln_training_step(t);
    kiln_training_free(&t);
    no_error();
    assert_int_equal(warnings, 0);
    char *svg = text_of(in_folder("curves.svg")), *page = text_of(in_folder("curves.html"));
    expect_well_formed(svg);
    assert_non_null(strstr(svg, "&lt;/script&gt;&lt;b&gt;&amp;&quot;"));
    int ends = 0;
    for (const char *at = page; (at = strstr(at, "</script>")); at++) ends++;
    assert_int_equal(ends, 2); // the page's own
    assert_null(strstr(page, "\"a<b"));
    assert_non_null(strstr(page, "\"name\":\"a\\u003cb & \\\"c\\\"/\\u003c/script>\",\"points\":[["));
    assert_non_null(strstr(page, "\"name\":\"nothing/finite\",\"points\":[]"));
    // No other file, and no place in the network.
    assert_null(strstr(page, "src="));
    assert_null(strstr(page, "href="));
    const char *network = strstr(page, "http");
    assert_true(network && !strncmp(network, "http://www.w3.org/2000/svg", 26)); // the namespace
    assert_non_null(strstr(page, "prefers-color-scheme:dark"));
    free(svg);
    free(page);
}

static void nothing_logged_and_wrong_calls(void **state)
{
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(QUIET));
    free(draw(t, NULL));
    kiln_training_save_curves(t, in_folder("c.png"), NULL);
    expect_error(KILN_E_ARGUMENT, "c.png must end with .svg or .html");
    kiln_training_save_curves(t, NULL, NULL);
    expect_error(KILN_E_ARGUMENT, "the path is NULL");
    kiln_training_save_curves(t, in_folder("none/c.svg"), NULL);
    expect_error(KILN_E_IO, "cannot be written: No such file or directory");
    kiln_training_save_curves(t, in_folder("c.svg"), KILN_CURVES(.names = KILN_NAMES("a")));
    expect_error(KILN_E_ARGUMENT, "nothing is logged by the name \"a\"");
    kiln_training_save_curves(t, in_folder("c.svg"), KILN_CURVES(.x = "time"));
    expect_error(KILN_E_ARGUMENT, ".x is \"time\"");
    kiln_training_save_curves(t, in_folder("c.svg"), KILN_CURVES(.width = 5));
    expect_error(KILN_E_ARGUMENT, ".width is 5, from 100 to 10000 are allowed");
    kiln_training_free(&t);
    assert_int_not_equal(access(in_folder("curves.svg"), F_OK), 0); // nothing to show
    t = kiln_training_create(folder, KILN_TRAINING(.no_curves = true, .log_every = 1, QUIET));
    kiln_training_log(t, "a", 1);
    kiln_training_step(t);
    kiln_training_free(&t);
    assert_int_not_equal(access(in_folder("curves.html"), F_OK), 0);
}

// The page that test_page.py shows to a browser.
static int write_page(const char *path)
{
    kiln_training *t = kiln_training_create(NULL, KILN_TRAINING(.log_every = 1, QUIET));
    for (int i = 0; i < 100; i++) {
        kiln_training_log(t, "train/loss", 100 - i);
        if (i % 10 == 9) kiln_training_log(t, "valid/loss", 0.5 + i);
        kiln_training_step(t);
    }
    kiln_training_save_curves(t, path, NULL);
    kiln_training_free(&t);
    return kiln_error_report(__FILE__, __LINE__);
}

int main(int argc, char **argv)
{
    if (argc == 2) return write_page(argv[1]);
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(ticks_are_round), TEST(logarithmic_axes), TEST(panels_and_legends),
        TEST(long_series),     TEST(odd_names),        TEST(nothing_logged_and_wrong_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
