// Random graphs of conditions and loops, nested: what passes make of them computes the same bits, node by node.
#include "graph_sample.h"
#include "jit/capture/replay.h"
#include "pass/pass.h"
#include <kiln/ops.h>

enum { GRAPHS = 400, N_INPUTS = 3, N_OUTPUTS = 3, MOST = 64, DEEPEST = 3 };

struct writer {
    uint64_t state;
    int next; // number of a value
};

// Values that are seen where text is written, f32[3] each.
struct seen {
    int v[MOST], n;
};

static uint32_t below(struct writer *w, uint32_t n)
{
    return (uint32_t)(sample_random(&w->state) % n);
}

static int one_of(struct writer *w, const struct seen *s)
{
    return s->v[below(w, (uint32_t)s->n)];
}

static void see(struct seen *s, int value)
{
    if (s->n < MOST) s->v[s->n++] = value;
}

static void write_some(struct writer *w, struct seen *s, int depth, struct str *out);

static void write_op(struct writer *w, struct seen *s, struct str *out)
{
    static const char *const binary[] = {"add", "mul", "sub", "maximum"}, *const unary[] = {"neg", "sin", "tanh"};
    int a = one_of(w, s), b = one_of(w, s), y = w->next++;
    switch (below(w, 4)) {
    case 0: str_addf(out, "%%%d: f32[3] = %s(%%%d)\n", y, unary[below(w, 3)], a); break;
    case 1: str_addf(out, "%%%d: f32[3] = softmax(%%%d) {axis = -1}\n", y, a); break;
    default: str_addf(out, "%%%d: f32[3] = %s(%%%d, %%%d)\n", y, binary[below(w, 4)], a, b);
    }
    see(s, y);
}

static int write_bool(struct writer *w, struct seen *s, struct str *out)
{
    int y = w->next++;
    if (!below(w, 3)) {
        str_addf(out, "%%%d: bool[] = full() {dtype = bool, shape = [], value = %d.0}\n", y, (int)below(w, 2));
        return y;
    }
    str_addf(out, "%%%d: f32[] = sum(%%%d) {axes = [], keepdims = false}\n", y, one_of(w, s));
    str_addf(out, "%%%d: bool[] = signbit(%%%d)\n", w->next++, y);
    return w->next - 1;
}

static void write_switch(struct writer *w, struct seen *s, int depth, struct str *out)
{
    int index = write_bool(w, s, out), a = one_of(w, s), b = one_of(w, s);
    struct str regions;
    str_init(&regions);
    for (int k = 0; k < 2; k++) {
        struct seen inner = {{w->next, w->next + 1}, 2};
        w->next += 2;
        str_addf(&regions, " region(%%%d: f32[3], %%%d: f32[3]) {\n", inner.v[0], inner.v[1]);
        if (below(w, 4)) write_some(w, &inner, depth + 1, &regions);
        str_addf(&regions, "yield %%%d, %%%d\n}", inner.v[inner.n - 1], one_of(w, &inner));
    }
    str_addf(out, "%%%d: f32[3], %%%d: f32[3] = switch(%%%d, %%%d, %%%d) {draws = -1}%s\n", w->next, w->next + 1, a, b,
             index, str_text(&regions));
    str_free(&regions);
    see(s, w->next++);
    see(s, w->next++);
}

// Two values are carried, rows are scanned and given, a value is read by all trips.
static void write_loop(struct writer *w, struct seen *s, int depth, struct str *out)
{
    int trips = 1 + (int)below(w, 7), rows = w->next++, p = w->next;
    bool none = !below(w, 8), same = !below(w, 3), reverse = below(w, 2);
    str_addf(out, "%%%d: f32[%d,3] = stack(", rows, trips);
    for (int i = 0; i < trips; i++) str_addf(out, "%s%%%d", i ? ", " : "", one_of(w, s));
    str_add(out, ") {axis = 0}\n");
    if (none) {
        str_addf(out, "%%%d: f32[0,3] = slice(%%%d) {start = [0, 0], stop = [0, 3], step = [1, 1]}\n", p, rows);
        rows = p++;
        trips = 0;
    }
    for (int n = (int)below(w, 3); n; n--) { // rows that are made, of rows, of one row for all, or of a number
        str_addf(out, "%%%d: f32[%d,3] = ", p, trips);
        switch (below(w, 3)) {
        case 0: str_addf(out, "tanh(%%%d)\n", rows); break;
        case 1: str_addf(out, "mul(%%%d, 0.5)\n", rows); break;
        default: str_addf(out, "add(%%%d, %%%d)\n", one_of(w, s), rows);
        }
        rows = p++;
    }
    struct str body;
    struct seen inner = {{p, p + 1, p + 2, p + 3}, 4};
    w->next = p + 5;
    str_init(&body);
    str_addf(&body, " region(%%%d: f32[3], %%%d: f32[3], %%%d: f32[3], %%%d: f32[3], %%%d: weak i64[]) {\n", p, p + 1,
             p + 2, p + 3, p + 4);
    if (below(w, 2)) {
        str_addf(&body, "%%%d: f32[3] = add(%%%d, %%%d)\n", w->next, p, p + 4);
        see(&inner, w->next++);
    }
    write_some(w, &inner, depth + 1, &body);
    str_addf(&body, "yield %%%d, %%%d, %%%d\n}", inner.v[inner.n - 1], same ? p + 1 : one_of(w, &inner),
             one_of(w, &inner));
    int y = w->next;
    str_addf(out, "%%%d: f32[3], %%%d: f32[3], %%%d: f32[%d,3] = loop(%%%d, %%%d, %%%d, %%%d) ", y, y + 1, y + 2, trips,
             one_of(w, s), one_of(w, s), rows, one_of(w, s));
    str_addf(out,
             "{carried = 2, scanned = 1, trips = %d, counted = false, bound = 0, reverse = %s, draws = -1, "
             "unroll = %d}%s\n",
             trips, reverse ? "true" : "false", (int)below(w, 5), str_text(&body));
    str_free(&body);
    w->next += 3;
    see(s, y);
    see(s, y + 1);
    if (!trips) return;
    str_addf(out, "%%%d: f32[3] = select(%%%d) {axis = 0, index = %d}\n", w->next, y + 2,
             (int)below(w, (uint32_t)trips));
    see(s, w->next++);
}

static void write_some(struct writer *w, struct seen *s, int depth, struct str *out)
{
    for (uint32_t n = 1 + below(w, 4); n; n--) {
        uint32_t kind = depth < DEEPEST ? below(w, 6) : 5;
        if (kind == 0)
            write_switch(w, s, depth, out);
        else if (kind == 1)
            write_loop(w, s, depth, out);
        else
            write_op(w, s, out);
    }
}

static struct kiln_graph *random_graph(uint64_t seed, struct str *text)
{
    struct writer w = {.state = seed, .next = N_INPUTS};
    struct seen s = {{0, 1, 2}, N_INPUTS};
    for (int i = 0; i < N_INPUTS; i++) str_addf(text, "%%%d: f32[3] = input \"%c\"\n", i, 'a' + i);
    write_loop(&w, &s, 0, text);
    write_some(&w, &s, 0, text);
    write_switch(&w, &s, 0, text);
    for (int i = 0; i < N_OUTPUTS; i++) str_addf(text, "return %%%d \"y%d\"\n", s.v[s.n - 1 - i], i);
    struct kiln_graph *g = ir_parse(str_text(text), strlen(str_text(text)), "random");
    if (!g) fail_msg("%s in\n%s", kiln_error_message(), str_text(text));
    return g;
}

static void compare(const struct kiln_graph *g, kiln_device *dev, kiln_tensor *const *in, kiln_tensor *const *want,
                    const char *after, const char *text)
{
    const struct rng rng = {0};
    kiln_tensor *got[N_OUTPUTS];
    float x[3], y[3];
    sample_fine(graph_replay(g, dev, in, &rng, got));
    for (int i = 0; i < N_OUTPUTS; i++) {
        sample_fine(kiln_read(got[i], x, sizeof x));
        sample_fine(kiln_read(want[i], y, sizeof y));
        if (memcmp(x, y, sizeof x)) fail_msg("after %s output %d differs of\n%s", after, i, text);
    }
}

static void passes_keep_the_bits(void **state)
{
    kiln_device *dev = kiln_device_open("cpu");
    size_t fired[64] = {0};
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        kiln_scope *scope = kiln_scope_begin();
        struct pass_options o = {.verify = true};
        struct pass_report report = {0};
        const struct rng rng = {0};
        struct str text;
        str_init(&text);
        kiln_tensor *in[N_INPUTS], *want[N_OUTPUTS];
        for (int i = 0; i < N_INPUTS; i++)
            in[i] = kiln_sin(kiln_mul(kiln_arange(dev, KILN_F32, 0, 3, 1), kiln_scalar((double)(seed % 8) + i + 0.25)));
        struct kiln_graph *g = random_graph(seed * 7919, &text);
        sample_fine(graph_replay(g, dev, in, &rng, want));
        for (int i = 0; i < pass_count; i++) {
            sample_fine(pass_run(i, &g, &o, &report));
            compare(g, dev, in, want, pass_table[i].name, str_text(&text));
        }
        sample_fine(pass_run_all(&g, &o, &report));
        compare(g, dev, in, want, "all", str_text(&text));
        for (size_t i = 0; i < report.runs.n; i++) fired[report.runs.v[i].pass] += report.runs.v[i].changed;
        pass_report_free(&report);
        ir_graph_destroy(&g);
        str_free(&text);
        kiln_scope_end(&scope);
    }
    kiln_device_close(&dev);
    for (int i = 0; i < pass_count; i++)
        if (pass_table[i].regions) {
            print_message("%s changed %zu times\n", pass_table[i].name, fired[i]);
            assert_true(fired[i] > 50);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_keep_the_bits)};
    return cmocka_run_group_tests(tests, sample_setup, NULL);
}
