// An LSTM learns to write like a text, character by character.
//
//     language_model --text docs/guide/gradients.md --steps 400
//
// The text lies in streams side by side. A step of training reads the next characters of each stream and goes on from
// the state that the step before left (truncated backpropagation through time: Williams and Peng 1990); forward,
// loss, backward, clipping and update are one captured function. The last tenth of the text is held back: its
// perplexity, exp(mean loss), says among how many characters the network is as good as undecided. At the end it writes
// a sample, a captured step for each character.
#include "options.h"

#include <kiln/kiln.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 2 };

struct options {
    const char *device, *text;
    int64_t steps, batch, length, width, sample;
    double lr, temperature;
};

static const char usage[] =
    "usage: language_model --text FILE [options]\n"
    "  --device D       cpu, gpu, vulkan, vulkan:N; default: $KILN_DEVICE, else the best there is\n"
    "  --text FILE      what it learns from, UTF-8\n"
    "  --steps N        of training (400)\n"
    "  --batch N        streams (16)\n"
    "  --length N       characters of each stream a step (32)\n"
    "  --width N        of embedding and hidden state (96)\n"
    "  --lr R           learning rate at the beginning (0.005)\n"
    "  --sample N       characters to write at the end (200)\n"
    "  --temperature T  how freely; 0.5 is tame, 1 as the network thinks (0.7)\n";

static bool parse_options(int argc, char **argv, struct options *o)
{
    bool read = READ_OPTIONS(argc, argv, {"device", .text = &o->device}, {"text", .text = &o->text},
                             {"steps", .whole = &o->steps, .least = 1}, {"batch", .whole = &o->batch, .least = 1},
                             {"length", .whole = &o->length, .least = 1}, {"width", .whole = &o->width, .least = 1},
                             {"lr", .real = &o->lr, .positive = true}, {"sample", .whole = &o->sample},
                             {"temperature", .real = &o->temperature, .positive = true});
    bool good = read && no_arguments(argc, argv) && option_fits(o->text, "--text FILE is missing");
    if (!good) fputs(usage, stderr);
    return good;
}

// --- the network

struct model {
    const struct options *o;
    kiln_cell *all, *embedding, *lstm, *head;
    kiln_tensor *params[64];
    size_t n_params;
    kiln_optim *opt;
};

static void make_model(struct model *m, kiln_device *dev, int64_t n_characters)
{
    int64_t width = m->o->width;
    m->all = kiln_nn_sequential(KILN_CELLS(
        kiln_nn_embedding(dev, n_characters, width, NULL),
        kiln_nn_lstm(dev, width, width, KILN_NN_RECURRENT(.layers = LAYERS, .batch_first = true, .dropout = 0.1)),
        kiln_nn_dense(dev, width, n_characters, NULL)));
    m->embedding = kiln_cell_child(m->all, "0");
    m->lstm = kiln_cell_child(m->all, "1");
    m->head = kiln_cell_child(m->all, "2");
    m->n_params = kiln_cell_parameters(m->all, m->params, 64);
    m->opt = kiln_optim_adamw(m->params, m->n_params, KILN_ADAM(.lr = m->o->lr, .weight_decay = 0.01));
    kiln_optim_set_schedule(m->opt,
                            kiln_schedule_warmup(10, kiln_schedule_cosine(m->o->lr, m->o->lr / 20, m->o->steps)));
}

// characters [streams, length] and a state of two tensors; gives the logits [streams, length, characters] and the
// next state, which carries no gradient.
static kiln_tensor *forward(const struct model *m, kiln_tensor *characters, kiln_tensor *const *state,
                            kiln_tensor **next)
{
    kiln_tensor *in[] = {kiln_cell_call(m->embedding, characters), state[0], state[1]}, *out[3];
    if (kiln_cell_call_n(m->lstm, in, 3, out, 3)) return NULL;
    next[0] = kiln_stop_gradient(out[1]);
    next[1] = kiln_stop_gradient(out[2]);
    return kiln_cell_call(m->head, out[0]);
}

// The mean loss of guessing each next character. in: characters [streams, length + 1], state.
static kiln_tensor *loss_of(const struct model *m, kiln_tensor *const *in, kiln_tensor **next)
{
    int64_t length = kiln_dims(in[0])[1] - 1;
    kiln_tensor *logits = forward(m, kiln_narrow(in[0], 1, 0, length), in + 1, next);
    kiln_tensor *targets = kiln_reshape(kiln_narrow(in[0], 1, 1, length), KILN_SHAPE(-1));
    return kiln_cross_entropy(kiln_flatten(logits, 0, 1), targets, NULL);
}

static kiln_status train(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct model *m = user;
    out[0] = loss_of(m, in, out + 1);
    kiln_optim_zero_grad(m->opt);
    kiln_backward(out[0], NULL);
    kiln_clip_grad_norm(m->params, m->n_params, 1);
    return kiln_optim_step(m->opt);
}

static kiln_status evaluate(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = loss_of(user, in, out + 1);
    return kiln_error();
}

// in: a character [1, 1], state. Gives the next one, drawn by its probability.
static kiln_status write_next(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct model *m = user;
    kiln_tensor *logits = forward(m, in[0], in + 1, out + 1);
    out[0] = kiln_categorical(kiln_div(logits, m->o->temperature), 0, NULL);
    return kiln_error();
}

// --- reading and writing

static void no_state(kiln_device *dev, const struct options *o, int64_t streams, kiln_tensor **state)
{
    for (int i = 0; i < 2; i++) state[i] = kiln_zeros(dev, KILN_F32, KILN_SHAPE(LAYERS, streams, o->width));
}

// The state that a call gave takes the place of the one before.
static void take_state(kiln_tensor *const *given, kiln_tensor **state)
{
    for (int i = 0; i < 2; i++) {
        kiln_free(&state[i]);
        state[i] = kiln_keep(given[i]);
    }
}

// Reads `steps` pieces of streams [streams, n], from the first character on, and again, with the last state kept from
// piece to piece. The mean loss of the last `every` of them; the others are told on the way where they are `shown`.
static double read_pieces(kiln_function *f, const struct model *m, kiln_tensor *streams, int64_t steps, int64_t every,
                          bool shown)
{
    int64_t length = m->o->length, pieces = (kiln_dims(streams)[1] - 1) / length;
    double mean = NAN;
    kiln_tensor *state[2];
    kiln_training *t =
        kiln_training_create(NULL, KILN_TRAINING(.steps = steps, .log_every = every, .print_every = every,
                                                 .output = stdout, .progress = shown ? NULL : "none"));
    for (int64_t i = 0; pieces > 0 && kiln_training_goes_on(t); i++) {
        if (i % pieces == 0) no_state(kiln_tensor_device(streams), m->o, kiln_dims(streams)[0], state);
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *in[] = {kiln_narrow(streams, 1, i % pieces * length, length + 1), state[0], state[1]}, *out[3];
        if (!kiln_call(f, in, 3, out, 3)) {
            kiln_training_log_tensor(t, "loss", out[0]); // of a character
            kiln_training_step(t);
            take_state(out + 1, state);
        }
        kiln_scope_end(&scope);
    }
    kiln_training_history(t, "loss", NULL, &mean, 1);
    kiln_training_free(&t);
    return mean;
}

static void write_sample(struct model *m, kiln_device *dev, const kiln_vocabulary *v, kiln_tensor *first)
{
    kiln_function *f = kiln_jit(write_next, m, NULL);
    kiln_tensor *now = kiln_reshape(first, KILN_SHAPE(1, 1)), *state[2];
    no_state(dev, m->o, 1, state);
    for (int64_t i = 0; i < m->o->sample && !kiln_error(); i++) {
        char *text = kiln_decode(v, now, NULL);
        if (text) fputs(text, stdout);
        free(text);
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *in[] = {now, state[0], state[1]}, *out[3];
        if (!kiln_call(f, in, 3, out, 3)) {
            kiln_free(&now);
            now = kiln_keep(out[0]);
            take_state(out + 1, state);
        }
        kiln_scope_end(&scope);
    }
    puts("");
    kiln_function_free(&f);
}

// The text in `streams` rows, as much as fills them.
static kiln_tensor *in_streams(kiln_tensor *ids, int64_t from, int64_t n, int64_t streams)
{
    return kiln_reshape(kiln_narrow(ids, 0, from, n / streams * streams), KILN_SHAPE(streams, -1));
}

static bool learn(struct model *m, kiln_device *dev, const kiln_vocabulary *v, kiln_tensor *ids)
{
    int64_t n = kiln_dims(ids)[0], held_back = n / 10;
    if (!option_fits(held_back > m->o->length && (n - held_back) / m->o->batch > m->o->length,
                     "the text is too short for --batch and --length"))
        return false;
    kiln_tensor *text = in_streams(ids, 0, n - held_back, m->o->batch),
                *rest = in_streams(ids, n - held_back, held_back, 1);
    make_model(m, dev, kiln_vocabulary_count(v));
    printf("%" PRId64 " characters, %" PRId64 " different ones\n", n, kiln_vocabulary_count(v));
    kiln_function *step = kiln_jit(train, m, NULL), *test = kiln_jit(evaluate, m, NULL);
    int64_t pieces = kiln_error() ? 0 : (kiln_dims(rest)[1] - 1) / m->o->length;
    kiln_cell_set_training(m->all, false);
    double before = read_pieces(test, m, rest, pieces, pieces, false);
    kiln_cell_set_training(m->all, true);
    read_pieces(step, m, text, m->o->steps, m->o->steps > 10 ? m->o->steps / 10 : 1, true);
    kiln_cell_set_training(m->all, false);
    double after = read_pieces(test, m, rest, pieces, pieces, false);
    printf("perplexity of the rest: %.2f before, %.2f after\n", exp(before), exp(after));
    if (!kiln_error()) write_sample(m, dev, v, kiln_narrow(ids, 0, 0, 1));
    kiln_function_free(&step);
    kiln_function_free(&test);
    kiln_optim_free(&m->opt);
    kiln_cell_free(&m->all);
    return !kiln_error() && after < before;
}

int main(int argc, char **argv)
{
    struct options o = {
        .steps = 400, .batch = 16, .length = 32, .width = 96, .sample = 200, .lr = 0.005, .temperature = 0.7};
    if (!parse_options(argc, argv, &o)) return 2;
    kiln_device *dev = kiln_device_open(o.device);
    kiln_scope *scope = kiln_scope_begin();
    kiln_seed(dev, 1);
    kiln_vocabulary *v = kiln_vocabulary_of_file(o.text);
    kiln_tensor *ids = kiln_encode_file(v, dev, o.text, NULL);
    struct model m = {.o = &o};
    bool learnt = ids && learn(&m, dev, v, ids);
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    int code = learnt ? 0 : kiln_error() == KILN_E_MISSING ? 77 : 1;
    kiln_vocabulary_free(&v);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return code;
}
