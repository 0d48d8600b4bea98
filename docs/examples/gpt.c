// A small transformer that learns to write like a folder of text files, byte by byte.
//
//     gpt --text docs --steps 2000
//
// A step of training (forward, loss, backward, update) is one function. It runs captured, as one graph; then, from the
// same beginning and on the same text, op by op, for the comparison of time and losses. At the end the network writes a
// sample.
#include <kiln/kiln.h>

#include <dirent.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
    const char *device, *text;
    int64_t steps, eager_steps, batch, length, width, heads, layers, sample, seed;
    double lr, temperature;
};

static const char usage[] =
    "usage: gpt [options]\n"
    "  --device D       cpu, gpu, vulkan, vulkan:N; default: $KILN_DEVICE, else the best there is\n"
    "  --text DIR       folder whose .md files it learns from (docs)\n"
    "  --steps N        of training (600)\n"
    "  --eager-steps N  of these, how many run op by op as well (20)\n"
    "  --batch N        pieces of text a step (16)\n"
    "  --length N       bytes of a piece (64)\n"
    "  --width N        of the network (96)\n"
    "  --heads N        of attention (4)\n"
    "  --layers N       (3)\n"
    "  --sample N       bytes to write at the end (300)\n"
    "  --seed N         (1)\n";

static bool parse_options(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        {"device", 1, NULL, 'd'}, {"text", 1, NULL, 't'},   {"steps", 1, NULL, 's'}, {"eager-steps", 1, NULL, 'e'},
        {"batch", 1, NULL, 'b'},  {"length", 1, NULL, 'n'}, {"width", 1, NULL, 'w'}, {"heads", 1, NULL, 'h'},
        {"layers", 1, NULL, 'l'}, {"sample", 1, NULL, 'S'}, {"seed", 1, NULL, 'r'},  {"help", 0, NULL, '?'},
        {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (c) {
        case 'd': o->device = optarg; break;
        case 't': o->text = optarg; break;
        case 's': o->steps = atoll(optarg); break;
        case 'e': o->eager_steps = atoll(optarg); break;
        case 'b': o->batch = atoll(optarg); break;
        case 'n': o->length = atoll(optarg); break;
        case 'w': o->width = atoll(optarg); break;
        case 'h': o->heads = atoll(optarg); break;
        case 'l': o->layers = atoll(optarg); break;
        case 'S': o->sample = atoll(optarg); break;
        case 'r': o->seed = atoll(optarg); break;
        default: fputs(usage, stderr); return false;
        }
    }
    bool positive = o->steps > 0 && o->batch > 0 && o->length > 0 && o->heads > 0 && o->layers > 0;
    return optind == argc && positive && o->width > 0 && o->width % o->heads == 0;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// --- the text: bytes as numbers of a small alphabet

struct text {
    uint8_t *bytes; // numbers of the alphabet
    int64_t n;
    int64_t n_letters;
    uint8_t letters[256];
};

static bool add_file(struct text *t, const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    for (size_t got = 1; got;) {
        uint8_t *more = realloc(t->bytes, (size_t)t->n + 65536);
        if (!more) break;
        t->bytes = more;
        got = fread(t->bytes + t->n, 1, 65536, f);
        t->n += (int64_t)got;
    }
    fclose(f);
    return true;
}

static int is_text(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 3 && !strcmp(e->d_name + n - 3, ".md");
}

// The bytes that occur, in order, get the numbers from 0.
static void number_letters(struct text *t)
{
    uint8_t number[256] = {0};
    bool seen[256] = {false};
    for (int64_t i = 0; i < t->n; i++) seen[t->bytes[i]] = true;
    for (int b = 0; b < 256; b++) {
        if (!seen[b]) continue;
        number[b] = (uint8_t)t->n_letters;
        t->letters[t->n_letters++] = (uint8_t)b;
    }
    for (int64_t i = 0; i < t->n; i++) t->bytes[i] = number[t->bytes[i]];
}

static bool load_text(struct text *t, const char *folder)
{
    struct dirent **files = NULL;
    int n = scandir(folder, &files, is_text, alphasort);
    for (int i = 0; i < n; i++) {
        add_file(t, folder, files[i]->d_name);
        free(files[i]);
    }
    free(files);
    number_letters(t);
    return t->n > 0;
}

// --- the network: blocks of attention and of two dense layers, each behind a layer norm and added to what came in

struct block {
    kiln_cell *norm1, *norm2, *qkv, *out, *up, *down;
    kiln_tensor *mask; // of the model: 0 where a query sees a key, else minus infinity
    int64_t heads;
};

// [batch, length, width] -> [batch, heads, length, width / heads]
static kiln_tensor *split_heads(kiln_tensor *t, int64_t heads)
{
    if (!t) return NULL;
    const int64_t *d = kiln_dims(t);
    return kiln_transpose(kiln_reshape(t, KILN_SHAPE(d[0], d[1], heads, d[2] / heads)), 1, 2);
}

static kiln_tensor *attention(const struct block *b, kiln_tensor *x)
{
    kiln_tensor *part[3] = {NULL};
    if (kiln_split(kiln_cell_call(b->qkv, x), -1, part, 3)) return NULL;
    for (int i = 0; i < 3; i++) part[i] = split_heads(part[i], b->heads);
    const int64_t *d = kiln_dims(x);
    double scale = 1 / sqrt((double)d[2] / (double)b->heads);
    kiln_tensor *scores = kiln_matmul(kiln_mul(part[0], kiln_scalar(scale)), kiln_transpose(part[1], -2, -1));
    kiln_tensor *seen = kiln_matmul(kiln_softmax(kiln_add(scores, b->mask), -1), part[2]);
    return kiln_cell_call(b->out, kiln_reshape(kiln_transpose(seen, 1, 2), KILN_SHAPE(d[0], d[1], d[2])));
}

static kiln_status block_forward(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                 size_t n_out)
{
    const struct block *b = user;
    kiln_tensor *x = kiln_add(in[0], attention(b, kiln_cell_call(b->norm1, in[0])));
    kiln_tensor *wide = kiln_gelu_tanh(kiln_cell_call(b->up, kiln_cell_call(b->norm2, x)));
    out[0] = kiln_add(x, kiln_cell_call(b->down, wide));
    return kiln_error();
}

static kiln_cell *make_block(kiln_device *dev, const struct options *o, kiln_tensor *mask)
{
    int64_t width = o->width;
    struct block *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    *b = (struct block){.mask = mask, .heads = o->heads};
    kiln_cell *cell = kiln_cell_create(
        KILN_CELL(.kind = "block", .construct = block_forward, .user = b, .user_free = free, .n_in = 1, .n_out = 1));
    if (!cell) return NULL;
    b->norm1 = kiln_cell_add_child(cell, "norm1", kiln_nn_layer_norm(dev, KILN_SHAPE(width), NULL));
    b->norm2 = kiln_cell_add_child(cell, "norm2", kiln_nn_layer_norm(dev, KILN_SHAPE(width), NULL));
    b->qkv = kiln_cell_add_child(cell, "qkv", kiln_nn_dense(dev, width, 3 * width, NULL));
    b->out = kiln_cell_add_child(cell, "out", kiln_nn_dense(dev, width, width, NULL));
    b->up = kiln_cell_add_child(cell, "up", kiln_nn_dense(dev, width, 4 * width, NULL));
    b->down = kiln_cell_add_child(cell, "down", kiln_nn_dense(dev, 4 * width, width, NULL));
    return cell;
}

static kiln_tensor *make_mask(kiln_device *dev, int64_t length)
{
    float *values = calloc((size_t)(length * length), sizeof *values);
    if (!values) return NULL;
    for (int64_t query = 0; query < length; query++)
        for (int64_t key = query + 1; key < length; key++) values[query * length + key] = -INFINITY;
    kiln_tensor *mask = kiln_from_data(dev, KILN_F32, KILN_SHAPE(length, length), values);
    free(values);
    return mask;
}

struct model {
    kiln_cell *token, *blocks, *norm, *head;
    kiln_tensor *position;
};

static kiln_status model_forward(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                 size_t n_out)
{
    const struct model *m = user;
    kiln_tensor *x = kiln_add(kiln_cell_call(m->token, in[0]), m->position);
    out[0] = kiln_cell_call(m->head, kiln_cell_call(m->norm, kiln_cell_call(m->blocks, x)));
    return kiln_error();
}

static kiln_cell *make_model(kiln_device *dev, const struct options *o, int64_t n_letters)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    kiln_cell *cell = kiln_cell_create(
        KILN_CELL(.kind = "gpt", .construct = model_forward, .user = m, .user_free = free, .n_in = 1, .n_out = 1));
    if (!cell) return NULL;
    kiln_tensor *mask = kiln_cell_add_buffer(cell, "mask", make_mask(dev, o->length));
    m->position = kiln_cell_make_parameter(cell, "position", dev, KILN_F32, KILN_SHAPE(o->length, o->width), "zeros");
    m->token = kiln_cell_add_child(cell, "token", kiln_nn_embedding(dev, n_letters, o->width, NULL));
    m->blocks = kiln_cell_add_child(cell, "blocks", kiln_nn_sequential(0, NULL));
    for (int64_t i = 0; i < o->layers; i++) kiln_sequential_append(m->blocks, make_block(dev, o, mask));
    m->norm = kiln_cell_add_child(cell, "norm", kiln_nn_layer_norm(dev, KILN_SHAPE(o->width), NULL));
    m->head = kiln_cell_add_child(cell, "head", kiln_nn_dense(dev, o->width, n_letters, NULL));
    return cell;
}

// --- training

#define MAX_PARAMETERS 1024
#define COMPARED       8

struct run {
    const struct options *o;
    const struct text *text;
    kiln_device *dev;
    kiln_cell *net;
    kiln_optim *opt;
    uint64_t random; // of the host: where pieces begin, which letter is written
    double first[COMPARED], last_loss, step_s;
};

static uint64_t next_random(struct run *r)
{
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    return r->random >> 33;
}

// in: letters and those that follow them, [batch, length]; out: the loss. All that it does becomes one graph.
static kiln_status train_step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct run *r = user;
    int64_t rows = r->o->batch * r->o->length;
    kiln_tensor *logits = kiln_reshape(kiln_cell_call(r->net, in[0]), KILN_SHAPE(rows, r->text->n_letters));
    out[0] = kiln_cross_entropy(logits, kiln_reshape(in[1], KILN_SHAPE(rows)), NULL);
    kiln_backward(out[0], NULL);
    return kiln_optim_step(r->opt);
}

static kiln_tensor *letters_at(const struct run *r, const int64_t *starts, int64_t shift)
{
    int64_t n = r->o->batch * r->o->length, *values = malloc(sizeof *values * (size_t)n);
    if (!values) return NULL;
    for (int64_t i = 0; i < n; i++) values[i] = r->text->bytes[starts[i / r->o->length] + i % r->o->length + shift];
    kiln_tensor *t = kiln_from_data(r->dev, KILN_I64, KILN_SHAPE(r->o->batch, r->o->length), values);
    free(values);
    return t;
}

static double one_step(struct run *r, kiln_function *f, bool wanted)
{
    kiln_scope *scope = kiln_scope_begin();
    int64_t starts[1024];
    for (int64_t i = 0; i < r->o->batch; i++)
        starts[i] = (int64_t)(next_random(r) % (uint64_t)(r->text->n - r->o->length));
    kiln_tensor *in[] = {letters_at(r, starts, 0), letters_at(r, starts, 1)}, *loss = NULL;
    kiln_call(f, in, 2, &loss, 1);
    double value = wanted && !kiln_error() ? kiln_item(loss) : NAN;
    kiln_scope_end(&scope);
    return value;
}

// The first two steps hold what is made once: they are not timed.
static void train(struct run *r, int64_t steps, bool report)
{
    kiln_function *f = kiln_jit(train_step, r, NULL);
    double began_s = now_s();
    int64_t untimed = steps > 4 ? 2 : 0, every = steps / 10 > 1 ? steps / 10 : 1;
    for (int64_t i = 0; i < steps && !kiln_error(); i++) {
        if (i == untimed) {
            kiln_device_synchronize(r->dev);
            began_s = now_s();
        }
        bool told = report && (i % every == 0 || i == steps - 1);
        double loss = one_step(r, f, told || i < COMPARED);
        if (i < COMPARED) r->first[i] = loss;
        if (told) printf("step %5" PRId64 ": loss %.4f\n", i, loss);
        if (told) r->last_loss = loss;
    }
    kiln_device_synchronize(r->dev);
    r->step_s = (now_s() - began_s) / (double)(steps - untimed);
    if (report && !kiln_error()) {
        kiln_jit_stats stats = {.size = sizeof stats};
        kiln_function_stats(f, &stats);
        if (stats.captures)
            printf("a step is %" PRIu64 " ops in %" PRIu64 " launches\n", stats.nodes, stats.launches / stats.calls);
    }
    kiln_function_free(&f);
}

static void make_run(struct run *r)
{
    kiln_tensor *params[MAX_PARAMETERS];
    kiln_seed(r->dev, (uint64_t)r->o->seed);
    r->random = (uint64_t)r->o->seed;
    r->net = make_model(r->dev, r->o, r->text->n_letters);
    kiln_cell_set_training(r->net, true);
    size_t n = kiln_cell_parameters(r->net, params, MAX_PARAMETERS);
    r->opt = kiln_optim_adamw(params, n, KILN_ADAM(.lr = r->o->lr));
}

static void free_run(struct run *r)
{
    kiln_optim_free(&r->opt);
    kiln_cell_free(&r->net);
}

// --- writing

// A letter by its probability, sharpened by the temperature.
static int64_t draw(struct run *r, const float *logits)
{
    int64_t n = r->text->n_letters;
    double top = logits[0], sum = 0;
    for (int64_t i = 1; i < n; i++) top = fmax(top, (double)logits[i]);
    for (int64_t i = 0; i < n; i++) sum += exp(((double)logits[i] - top) / r->o->temperature);
    double left = (double)next_random(r) / (double)(1u << 31) * sum;
    for (int64_t i = 0; i < n - 1; i++) {
        left -= exp(((double)logits[i] - top) / r->o->temperature);
        if (left < 0) return i;
    }
    return n - 1;
}

// Goes on from a line of the text. The window holds the last letters, right behind each other from its beginning; what
// lies behind them is not seen by them.
static void write_sample(struct run *r)
{
    int64_t length = r->o->length, filled = 1, n = r->text->n_letters;
    int64_t *window = calloc((size_t)length, sizeof *window);
    float *logits = malloc(sizeof *logits * (size_t)(length * n));
    kiln_no_grad_begin();
    kiln_cell_set_training(r->net, false);
    kiln_cell_jit(r->net, NULL);
    window[0] = r->text->bytes[0];
    for (int64_t i = 0; i < r->o->sample && window && logits && !kiln_error(); i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_from_data(r->dev, KILN_I64, KILN_SHAPE(1, length), window);
        if (!kiln_read(kiln_cell_call(r->net, x), logits, sizeof *logits * (size_t)(length * n))) {
            int64_t letter = draw(r, logits + (filled - 1) * n);
            putchar(r->text->letters[letter]);
            if (filled == length) memmove(window, window + 1, sizeof *window * (size_t)--filled);
            window[filled++] = letter;
        }
        kiln_scope_end(&scope);
    }
    putchar('\n');
    kiln_no_grad_end();
    free(window);
    free(logits);
}

// --- both ways

// Trains op by op from the same beginning; true when the losses are those of the captured run.
static bool compare_with_eager(const struct run *captured)
{
    struct run r = {.o = captured->o, .text = captured->text, .dev = captured->dev};
    int64_t steps = r.o->eager_steps < r.o->steps ? r.o->eager_steps : r.o->steps;
    double apart = 0;
    kiln_jit_enable(false);
    make_run(&r);
    train(&r, steps, false);
    free_run(&r);
    kiln_jit_enable(true);
    for (int64_t i = 0; i < steps && i < COMPARED; i++) apart = fmax(apart, fabs(r.first[i] - captured->first[i]));
    printf("a step: %.2f ms captured, %.2f ms eager; their losses differ by %.2g at most\n", 1e3 * captured->step_s,
           1e3 * r.step_s, apart);
    return apart <= 1e-3;
}

static int learn(struct run *r)
{
    int failures = 0;
    make_run(r);
    if (!kiln_error()) train(r, r->o->steps, true);
    if (!kiln_error()) failures += !(r->last_loss < r->first[0]);
    if (!kiln_error() && r->o->eager_steps > 0) failures += !compare_with_eager(r);
    if (!kiln_error() && r->o->sample > 0) write_sample(r);
    free_run(r);
    return failures;
}

int main(int argc, char **argv)
{
    struct options o = {.text = "docs",
                        .steps = 600,
                        .eager_steps = 20,
                        .batch = 16,
                        .length = 64,
                        .width = 96,
                        .heads = 4,
                        .layers = 3,
                        .sample = 300,
                        .seed = 1,
                        .lr = 3e-3,
                        .temperature = 0.8};
    if (!parse_options(argc, argv, &o) || o.batch > 1024) return 2;
    struct text text = {0};
    if (!load_text(&text, o.text) || text.n <= o.length + 1) {
        fprintf(stderr, "gpt: %s: no .md files with enough text\n", o.text);
        free(text.bytes);
        return 1;
    }
    kiln_device *dev = kiln_device_open(o.device);
    kiln_scope *scope = kiln_scope_begin();
    struct run r = {.o = &o, .text = &text, .dev = dev};
    printf("%" PRId64 " bytes of text, %" PRId64 " different ones\n", text.n, text.n_letters);
    int failures = dev ? learn(&r) : 0;
    bool missing = kiln_error() == KILN_E_MISSING && !dev;
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    failures += kiln_error() != KILN_OK;
    kiln_error_clear();
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    free(text.bytes);
    return missing ? 77 : failures != 0;
}
