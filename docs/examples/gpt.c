// A small transformer that learns to write like a folder of text files, byte by byte.
//
//     gpt --text docs --steps 2000
//     gpt --text docs --steps 0 --checkpoint gpt.ckpt --generate 48
//
// A step of training (forward, loss, backward, update) is one function. It runs captured, as one graph; then, from the
// same beginning and on the same text, op by op, for the comparison of time and losses. At the end the network writes a
// sample, of letters drawn by their probability, and goes on from the text's first letters by the likeliest ones: a
// loop over a cache of keys and values, in one graph.
#include "options.h"

#include <kiln/control.h>
#include <kiln/kiln.h>

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LAYERS = 32 };

struct options {
    const char *device, *text, *checkpoint;
    int64_t steps, eager_steps, batch, length, width, heads, layers, sample, generate, seed;
    double lr, temperature;
};

static const char usage[] =
    "usage: gpt [options]\n"
    "  --device D       cpu, gpu, vulkan, vulkan:N; default: $KILN_DEVICE, else the best there is\n"
    "  --text DIR       folder whose .md files it learns from (docs)\n"
    "  --checkpoint F   go on from this network when it is there, and save it when it is trained\n"
    "  --steps N        of training (600)\n"
    "  --eager-steps N  of these, how many run op by op as well (20)\n"
    "  --batch N        pieces of text a step (16)\n"
    "  --length N       bytes of a piece (64)\n"
    "  --width N        of the network (96)\n"
    "  --heads N        of attention (4)\n"
    "  --layers N       (3)\n"
    "  --sample N       bytes to write at the end (300)\n"
    "  --generate N     likeliest bytes to write; with those that they go on from at most --length (0)\n"
    "  --seed N         (1)\n";

static bool parse_options(int argc, char **argv, struct options *o)
{
    bool read = READ_OPTIONS(argc, argv, {"device", .text = &o->device}, {"text", .text = &o->text},
                             {"steps", .whole = &o->steps}, {"eager-steps", .whole = &o->eager_steps},
                             {"batch", .whole = &o->batch, .least = 1}, {"length", .whole = &o->length, .least = 1},
                             {"width", .whole = &o->width, .least = 1}, {"heads", .whole = &o->heads, .least = 1},
                             {"layers", .whole = &o->layers, .least = 1}, {"sample", .whole = &o->sample},
                             {"seed", .whole = &o->seed}, {"checkpoint", .text = &o->checkpoint},
                             {"generate", .whole = &o->generate});
    bool good = read && no_arguments(argc, argv) &&
                option_fits(o->layers <= MAX_LAYERS, "--layers: there are too many") &&
                option_fits(o->batch <= 1024, "--batch takes 1024 at most") &&
                option_fits(o->length <= 4096, "--length takes 4096 at most") &&
                option_fits(o->generate < o->length, "--generate has to be less than --length") &&
                option_fits(o->width % o->heads == 0, "--width has to be a multiple of --heads");
    if (!good) fputs(usage, stderr);
    return good;
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
    if (n < 0) perror(folder);
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

static kiln_cell *make_block(kiln_device *dev, const struct options *o, kiln_tensor *mask, const struct block **out)
{
    int64_t width = o->width;
    struct block *b = calloc(1, sizeof *b);
    *out = b;
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
    const struct block *block[MAX_LAYERS];
};

static kiln_status model_forward(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                 size_t n_out)
{
    const struct model *m = user;
    kiln_tensor *x = kiln_add(kiln_cell_call(m->token, in[0]), m->position);
    out[0] = kiln_cell_call(m->head, kiln_cell_call(m->norm, kiln_cell_call(m->blocks, x)));
    return kiln_error();
}

static kiln_cell *make_model(kiln_device *dev, const struct options *o, int64_t n_letters, const struct model **out)
{
    struct model *m = calloc(1, sizeof *m);
    *out = m;
    if (!m) return NULL;
    kiln_cell *cell = kiln_cell_create(
        KILN_CELL(.kind = "gpt", .construct = model_forward, .user = m, .user_free = free, .n_in = 1, .n_out = 1));
    if (!cell) return NULL;
    kiln_tensor *mask = kiln_cell_add_buffer(cell, "mask", make_mask(dev, o->length));
    m->position = kiln_cell_make_parameter(cell, "position", dev, KILN_F32, KILN_SHAPE(o->length, o->width), "zeros");
    m->token = kiln_cell_add_child(cell, "token", kiln_nn_embedding(dev, n_letters, o->width, NULL));
    m->blocks = kiln_cell_add_child(cell, "blocks", kiln_nn_sequential(0, NULL));
    for (int64_t i = 0; i < o->layers; i++) kiln_sequential_append(m->blocks, make_block(dev, o, mask, &m->block[i]));
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
    const struct model *model; // net's
    kiln_optim *opt;
    bool resumed;
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

// --- checkpoints: the network

static void save(const struct run *r)
{
    const char *names[MAX_PARAMETERS];
    kiln_tensor *tensors[MAX_PARAMETERS];
    kiln_checkpoint *c = kiln_checkpoint_create();
    kiln_checkpoint_put(c, names, tensors, kiln_cell_state(r->net, names, tensors, MAX_PARAMETERS));
    kiln_checkpoint_put_int(c, "heads", r->o->heads);
    kiln_checkpoint_save(c, r->o->checkpoint);
    kiln_checkpoint_free(&c);
}

static bool restore(struct run *r)
{
    const char *names[MAX_PARAMETERS];
    kiln_tensor *tensors[MAX_PARAMETERS];
    int64_t heads = 0;
    if (access(r->o->checkpoint, F_OK)) return true;
    kiln_checkpoint *c = kiln_checkpoint_load(r->o->checkpoint);
    if (!kiln_checkpoint_get_int(c, "heads", &heads) && heads != r->o->heads)
        fprintf(stderr, "gpt: %s: a network of %" PRId64 " heads\n", r->o->checkpoint, heads);
    kiln_checkpoint_restore(c, names, tensors, kiln_cell_state(r->net, names, tensors, MAX_PARAMETERS));
    kiln_checkpoint_free(&c);
    r->resumed = true;
    return heads == r->o->heads;
}

static bool make_run(struct run *r)
{
    kiln_tensor *params[MAX_PARAMETERS];
    kiln_seed(r->dev, (uint64_t)r->o->seed);
    r->random = (uint64_t)r->o->seed;
    r->net = make_model(r->dev, r->o, r->text->n_letters, &r->model);
    bool fits = !r->o->checkpoint || kiln_error() || restore(r);
    kiln_cell_set_training(r->net, true);
    size_t n = kiln_cell_parameters(r->net, params, MAX_PARAMETERS);
    r->opt = kiln_optim_adamw(params, n, KILN_ADAM(.lr = r->o->lr));
    return fits && !kiln_error();
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

// --- the likeliest letters: one at a time, by what the layers keep of those before it

// x: [1, width], the letter at place `at`. keys, values: [heads, length, width / heads], which get a row each; rows
// behind `at` are not seen.
static kiln_tensor *attention_at(const struct block *b, kiln_tensor *x, kiln_tensor *at, kiln_tensor *const *cache,
                                 kiln_tensor **changed)
{
    kiln_tensor *part[3] = {NULL};
    if (kiln_split(kiln_cell_call(b->qkv, x), -1, part, 3)) return NULL;
    int64_t width = kiln_dims(x)[1], each = width / b->heads;
    for (int i = 0; i < 3; i++) part[i] = kiln_reshape(part[i], KILN_SHAPE(b->heads, 1, each));
    for (int i = 0; i < 2; i++) changed[i] = kiln_update_at(cache[i], 1, at, part[1 + i]);
    kiln_tensor *query = kiln_mul(part[0], kiln_scalar(1 / sqrt((double)each)));
    kiln_tensor *scores = kiln_matmul(query, kiln_transpose(changed[0], -2, -1));
    kiln_tensor *row = kiln_slice_at(b->mask, 0, at, 1);
    kiln_tensor *seen = kiln_matmul(kiln_softmax(kiln_add(scores, row), -1), changed[1]);
    return kiln_cell_call(b->out, kiln_reshape(seen, KILN_SHAPE(1, width)));
}

// in: a letter, keys and values of each layer, then a place and the letter that the text has behind it, or -1. Gives
// the next letter and the changed keys and values, and that letter once more, for the list of all.
static kiln_status next_letter(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct run *r = user;
    kiln_tensor *at = in[n_in - 2], *given = in[n_in - 1];
    kiln_tensor *place = kiln_slice_at(r->model->position, 0, at, 1);
    kiln_tensor *x = kiln_add(kiln_cell_call(r->model->token, in[0]), place);
    for (int64_t i = 0; i < r->o->layers; i++) {
        const struct block *b = r->model->block[i];
        x = kiln_add(x, attention_at(b, kiln_cell_call(b->norm1, x), at, &in[1 + 2 * i], &out[1 + 2 * i]));
        kiln_tensor *wide = kiln_gelu_tanh(kiln_cell_call(b->up, kiln_cell_call(b->norm2, x)));
        x = kiln_add(x, kiln_cell_call(b->down, wide));
    }
    kiln_tensor *logits = kiln_cell_call(r->model->head, kiln_cell_call(r->model->norm, x));
    kiln_tensor *likeliest = kiln_argmax(logits, KILN_REDUCE(.axes = KILN_AXES(-1)));
    out[0] = kiln_where(kiln_less(given, kiln_scalar_int(0)), likeliest, given);
    out[n_out - 1] = out[0];
    return kiln_error();
}

// in: the first letter, [1], and for each place the letter behind it or -1. out: the letters behind all places.
static kiln_status generate(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct run *r = user;
    const struct options *o = r->o;
    kiln_tensor *carried[3 + 2 * MAX_LAYERS], *all[2 + 2 * MAX_LAYERS];
    size_t n = 1 + 2 * (size_t)o->layers;
    kiln_tensor *none = kiln_zeros(r->dev, KILN_F32, KILN_SHAPE(o->heads, o->length, o->width / o->heads));
    carried[0] = in[0];
    for (size_t i = 1; i < n; i++) carried[i] = none;
    carried[n] = kiln_arange(r->dev, KILN_I64, 0, (double)kiln_dim(in[1], 0), 1);
    carried[n + 1] = in[1];
    if (kiln_scan(next_letter, user, carried, n + 2, KILN_SCAN(.carried = n), all, n + 1)) return kiln_error();
    out[0] = all[n];
    return kiln_error();
}

// The same letters by the whole network for each of them; `letters` holds the first ones.
static void generate_by_all(struct run *r, int64_t *letters, int64_t known, int64_t n)
{
    int64_t length = r->o->length, different = r->text->n_letters;
    float *logits = malloc(sizeof *logits * (size_t)(length * different));
    kiln_cell_jit(r->net, NULL);
    for (int64_t i = known; i < n && logits && !kiln_error(); i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_from_data(r->dev, KILN_I64, KILN_SHAPE(1, length), letters);
        const float *last = logits + (i - 1) * different;
        if (!kiln_read(kiln_cell_call(r->net, x), logits, sizeof *logits * (size_t)(length * different)))
            for (int64_t k = 1; k < different; k++)
                if (last[k] > last[letters[i]]) letters[i] = k;
        kiln_scope_end(&scope);
    }
    free(logits);
}

// The letters behind the first ones by the graph: the first call makes it, the second one is timed.
static bool generate_by_graph(struct run *r, int64_t *letters, int64_t known, int64_t n, double *time_s)
{
    int64_t given[4096];
    for (int64_t i = 0; i + 1 < n; i++) given[i] = i + 1 < known ? letters[i + 1] : -1;
    kiln_scope *scope = kiln_scope_begin();
    kiln_function *f = kiln_jit(generate, r, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
    kiln_tensor *in[] = {kiln_from_data(r->dev, KILN_I64, KILN_SHAPE(1), letters),
                         kiln_from_data(r->dev, KILN_I64, KILN_SHAPE(n - 1), given)};
    kiln_jit_stats first = {.size = sizeof first}, second = {.size = sizeof second};
    for (int call = 0; call < 2 && !kiln_error(); call++) {
        kiln_tensor *out = NULL;
        double began_s = now_s();
        kiln_call(f, in, 2, &out, 1);
        kiln_read(out, letters + 1, sizeof *letters * (size_t)(n - 1));
        *time_s = now_s() - began_s;
        kiln_function_stats(f, call ? &second : &first);
    }
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    return second.captures == 1 && second.fallbacks == 0 && second.kernels_compiled == first.kernels_compiled;
}

// True when both ways give the same letters, and the graph was made once.
static bool write_likeliest(struct run *r)
{
    int64_t n = r->o->length, known = n - r->o->generate < 16 ? n - r->o->generate : 16, by_graph[4096] = {0},
            by_all[4096];
    double time_s = 0;
    n = known + r->o->generate;
    kiln_no_grad_begin();
    kiln_cell_set_training(r->net, false);
    for (int64_t i = 0; i < known; i++) by_graph[i] = r->text->bytes[i];
    memcpy(by_all, by_graph, sizeof by_all);
    bool once = generate_by_graph(r, by_graph, known, n, &time_s);
    if (!kiln_error()) generate_by_all(r, by_all, known, n);
    kiln_no_grad_end();
    if (kiln_error()) return true; // main tells
    bool same = !memcmp(by_graph, by_all, sizeof *by_all * (size_t)n);
    printf("generated: ");
    for (int64_t i = 0; i < n; i++) putchar(r->text->letters[by_graph[i]]);
    printf("\n%" PRId64 " letters in %.2f ms; %s by the whole network; %s\n", n - 1, 1e3 * time_s,
           same ? "the same as" : "others than", once ? "one capture" : "more than one capture, or kernels made again");
    return same && once;
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
    bool trains = r->o->steps > 0;
    if (!make_run(r)) {
        free_run(r);
        return 1;
    }
    if (trains) train(r, r->o->steps, true);
    if (!kiln_error() && trains && !r->resumed) failures += !(r->last_loss < r->first[0]);
    if (!kiln_error() && trains && r->o->eager_steps > 0) failures += !compare_with_eager(r);
    if (!kiln_error() && trains && r->o->checkpoint) save(r);
    if (!kiln_error() && r->o->sample > 0) write_sample(r);
    if (!kiln_error() && r->o->generate > 0) failures += !write_likeliest(r);
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
    if (!parse_options(argc, argv, &o)) return 2;
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
