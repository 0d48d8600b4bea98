// What is told of a training: plain lines in a file, and on a terminal one line that is drawn again, which a small
// screen follows: it never breaks a line, and what it shows in the end is what was told.
#include "fixture.h"

#include <fcntl.h>
#include <pty.h>
#include <regex.h>
#include <sys/ioctl.h>

static void expect_match(const char *text, const char *pattern)
{
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&regex, text, 0, NULL, 0)) fail_msg("\"%s\" does not match \"%s\"", text, pattern);
    regfree(&regex);
}

static void train(kiln_training *t, int64_t steps)
{
    while (kiln_training_epoch(t)) {
        for (int64_t i = 0; i < steps && kiln_training_goes_on(t); i++) {
            kiln_training_log(t, "train/loss", (double)(i + 1));
            kiln_training_step(t);
        }
        kiln_training_log(t, "valid/loss", 0.25);
    }
    assert_int_equal(kiln_error(), KILN_OK);
}

static void lines_in_a_file(void **state)
{
    FILE *f = fopen(in_folder("out"), "w");
    kiln_training *t = kiln_training_create(NULL, KILN_TRAINING(.title = "first", .epochs = 2, .steps = 40,
                                                                .log_every = 2, .print_every = 10, .output = f));
    train(t, 20);
    kiln_training_free(&t);
    fclose(f);
    char *text = text_of(in_folder("out"));
    assert_null(strchr(text, '\r'));
    assert_null(strchr(text, '\033'));
    expect_match(text, "^first: step 10/40, epoch 1/2, train/loss 9.5, [0-9.e+-]+ m?s/step, [0-9:]+ left\n"
                       "first: step 20/40, epoch 1/2, train/loss 19.5, [0-9.e+-]+ m?s/step, [0-9:]+ left\n"
                       "first: epoch 1/2, train/loss 10.5, valid/loss 0.25, [0-9.]+ s\n"
                       "first: step 30/40, epoch 2/2, train/loss 9.5, valid/loss 0.25, [^\n]* left\n"
                       "first: step 40/40, epoch 2/2, train/loss 19.5, valid/loss 0.25, [0-9.e+-]+ m?s/step\n"
                       "first: epoch 2/2, train/loss 10.5, valid/loss 0.25, [0-9.]+ s\n$");
    free(text);
}

// Where nobody says how often, a line has news, and none stands before that of its epoch.
static void lines_with_news(void **state)
{
    FILE *f = fopen(in_folder("out"), "w");
    kiln_training *t = kiln_training_create(NULL, KILN_TRAINING(.epochs = 2, .steps = 40, .log_every = 5, .output = f));
    train(t, 20);
    kiln_training_free(&t);
    fclose(f);
    char *text = text_of(in_folder("out"));
    expect_match(text,
                 "^step 6/40, epoch 1/2, train/loss 3,[^\n]*\nstep 10/40,[^\n]*\nstep 16/40, [^\n]*\n"
                 "epoch 1/2, [^\n]*\nstep 26/40, [^\n]*\nstep 30/40, [^\n]*\nstep 36/40, [^\n]*\nepoch 2/2, [^\n]*\n$");
    free(text);
}

static void nothing_is_told(void **state)
{
    FILE *f = fopen(in_folder("out"), "w");
    kiln_training *t = kiln_training_create(
        NULL, KILN_TRAINING(.epochs = 2, .steps = 40, .print_every = 1, .progress = "none", .output = f));
    train(t, 20);
    kiln_training_free(&t);
    fclose(f);
    char *text = text_of(in_folder("out"));
    assert_string_equal(text, "");
    free(text);
}

// --- a terminal

struct screen {
    char lines[64][256];
    int line, column, columns, longest, colours, clears;
    bool broken;
};

static void put(struct screen *s, char c)
{
    if (s->column < s->columns)
        s->lines[s->line][s->column++] = c;
    else
        s->broken = true; // a terminal goes on in the next line
    if (s->column > s->longest) s->longest = s->column;
}

// A control sequence behind its "\033["; returns where it ends.
static const char *control(struct screen *s, const char *at)
{
    const char *end = at + strspn(at, "0123456789;");
    if (*end == 'K') {
        memset(s->lines[s->line] + s->column, 0, sizeof s->lines[0] - (size_t)s->column);
        s->clears++;
    } else if (*end == 'm') {
        s->colours++;
    } else {
        fail_msg("an unknown sequence: %.10s", at);
    }
    return end;
}

// A line that is drawn again has to fit; one that stays may be broken.
static void show(struct screen *s, const char *text)
{
    for (const char *at = text; *at; at++) {
        if (*at == '\r' && at[1] != '\n') {
            assert_false(s->broken);
            s->column = 0;
        } else if (*at == '\n') {
            s->line++;
            s->column = 0;
            s->broken = false;
        } else if (*at == '\033') {
            at = control(s, at + 2);
        } else if (*at != '\r' && ((unsigned char)*at & 0xc0) != 0x80) { // not the rest of a character
            put(s, *at);
        }
        assert_true(s->line < 64);
    }
}

// Trains before a terminal of so many columns.
static void on_terminal(struct screen *s, int columns, const kiln_training_opts *opts)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    int ours, theirs;
    char text[1 << 16];
    size_t n = 0;
    memset(s, 0, sizeof *s);
    s->columns = columns;
    assert_int_equal(openpty(&ours, &theirs, NULL, NULL, &size), 0);
    FILE *f = fdopen(theirs, "w");
    kiln_training_opts o = *opts;
    o.output = f;
    kiln_training *t = kiln_training_create(NULL, &o);
    fcntl(ours, F_SETFL, O_NONBLOCK);
    while (o.epochs ? kiln_training_epoch(t) : kiln_training_steps(t) < o.steps) {
        for (int i = 0; i < 20; i++) {
            kiln_training_log(t, "train/loss", i + 1);
            kiln_training_step(t);
            if (i % 8 == 0) usleep(110000); // a line is drawn ten times a second at most
            ssize_t got = read(ours, text + n, sizeof text - 1 - n);
            if (got > 0) n += (size_t)got;
        }
    }
    kiln_training_free(&t);
    fflush(f);
    for (ssize_t got; (got = read(ours, text + n, sizeof text - 1 - n)) > 0;) n += (size_t)got;
    text[n] = '\0';
    show(s, text);
    fclose(f);
    close(ours);
}

static void one_line_that_is_drawn_again(void **state)
{
    struct screen s;
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
    on_terminal(&s, 100, KILN_TRAINING(.epochs = 2, .steps = 40, .log_every = 1));
    assert_int_equal(s.line, 2); // a line an epoch, and nothing else
    expect_match(s.lines[0], "^epoch 1/2, train/loss 10.5, [0-9.]+ s$");
    expect_match(s.lines[1], "^epoch 2/2, train/loss 10.5, [0-9.]+ s$");
    assert_true(s.colours > 0 && s.clears >= 6);
    assert_true(s.longest < 100 && s.longest > 60);
}

static void narrow_terminals(void **state)
{
    struct screen s;
    for (int columns = 20; columns <= 60; columns += 20) {
        on_terminal(&s, columns,
                    KILN_TRAINING(.title = "\xce\xb1\xce\xb2\xce\xb3", .steps = 20, .epochs = 1, .log_every = 1));
        assert_true(s.longest <= columns);
    }
}

static void without_epochs_the_line_stays(void **state)
{
    struct screen s;
    on_terminal(&s, 100, KILN_TRAINING(.steps = 20, .log_every = 1));
    assert_int_equal(s.line, 1);
    expect_match(s.lines[0], "^step 20/20, train/loss 20, [0-9.e+-]+ m?s/step$");
}

static void no_colours(void **state)
{
    struct screen s;
    setenv("NO_COLOR", "1", 1);
    on_terminal(&s, 100, KILN_TRAINING(.steps = 20, .log_every = 1));
    assert_int_equal(s.colours, 0);
    unsetenv("NO_COLOR");
    // A terminal that can do nothing gets lines.
    setenv("TERM", "dumb", 1);
    on_terminal(&s, 100, KILN_TRAINING(.steps = 20, .log_every = 1, .print_every = 10));
    assert_int_equal(s.line, 2);
    assert_true(s.colours == 0 && s.clears == 0);
    setenv("TERM", "xterm", 1);
}

// A warning does not stand behind a line that is drawn again.
static void warnings_have_their_line(void **state)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    int ours, theirs;
    char text[4096];
    assert_int_equal(openpty(&ours, &theirs, NULL, NULL, &size), 0);
    FILE *f = fdopen(theirs, "w");
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.steps = 20, .log_every = 1, .output = f));
    char *removed = strdup(in_folder("log.csv"));
    kiln_training_log(t, "a", 1);
    kiln_training_step(t);
    mkdir(removed, 0700); // no file can take its place
    kiln_training_step(t);
    assert_int_equal(warnings, 1);
    kiln_training_free(&t);
    free(removed);
    fclose(f);
    size_t n = 0;
    for (ssize_t got; n < sizeof text - 1; n += (size_t)got) // a terminal hands out what it has so far
        if ((got = read(ours, text + n, sizeof text - 1 - n)) <= 0) break;
    text[n] = '\0';
    assert_non_null(strstr(text, "\r\033[K"));
    close(ours);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(lines_in_a_file),  TEST(lines_with_news),
        TEST(nothing_is_told),  TEST(one_line_that_is_drawn_again),
        TEST(narrow_terminals), TEST(without_epochs_the_line_stays),
        TEST(no_colours),       TEST(warnings_have_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
