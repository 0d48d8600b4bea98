// Where somebody speaks in a recording, by a network whose weights are read from a file: Silero's detector of voice
// activity, for sounds of 16 kHz.
//
//     speech --model silero_vad_16k.safetensors talk.wav
//     speech --model silero_vad_16k.safetensors --probabilities talk.wav
//
// The file is the state of the network, in one call: kiln_archive_bundle. The network takes pieces of 512 samples, each
// behind the last 64 of the one before. A convolution gives the spectrum of four frames of a piece, real parts in the
// first half of its channels and imaginary ones in the other; four more make features of it, an LSTM goes through the
// pieces, and what it gives of each becomes a probability. Pieces depend on each other in the LSTM alone, so that all
// go through the convolutions at once. The sizes of all layers are those of the file.
//
// PyPI's package silero-vad has the file; tests/tools/test_speech.py compares with what its authors' model says.
#include "options.h"

#include <kiln/kiln.h>

#include <math.h>
#include <string.h>

enum { RATE = 16000, PIECE = 512, BEFORE = 64, BEHIND = 64, MAX_CONVOLUTIONS = 8 };

struct options {
    const char *device, *model;
    double threshold;
    int64_t batch;
    double speech_ms, silence_ms, margin_ms;
    bool probabilities;
};

static const char usage[] =
    "usage: speech --model FILE [options] SOUND.wav\n"
    "  --probabilities   print that of each piece of 32 ms, not where there is speech\n"
    "  --threshold P     of speech; it ends below P - 0.15 (0.5)\n"
    "  --speech MS       shorter speech is none (250)\n"
    "  --silence MS      shorter silence ends none (100)\n"
    "  --margin MS       before and behind speech (30)\n"
    "  --batch N         pieces in one call (1024)\n"
    "  --device D        cpu, gpu, vulkan, vulkan:N; default: $KILN_DEVICE, else the best there is\n";

static bool parse_options(int argc, char **argv, struct options *o)
{
    bool read = READ_OPTIONS(argc, argv, {"device", .text = &o->device}, {"model", .text = &o->model},
                             {"threshold", .real = &o->threshold}, {"speech", .real = &o->speech_ms},
                             {"silence", .real = &o->silence_ms}, {"margin", .real = &o->margin_ms},
                             {"batch", .whole = &o->batch, .least = 1}, {"probabilities", .flag = &o->probabilities});
    bool good = read && option_fits(o->model, "--model FILE is missing") &&
                option_fits(optind < argc, "SOUND.wav is missing") &&
                option_fits(optind + 1 >= argc, "there is more than one sound");
    if (!good) fputs(usage, stderr);
    return good;
}

// --- the network

static kiln_tensor *of(kiln_bundle *weights, const char *name, int number, const char *part)
{
    char path[64];
    snprintf(path, sizeof path, number ? "%s%d.%s" : "%s%.0d.%s", name, number, part);
    return kiln_bundle_tensor(weights, path);
}

// x [N, C, T] -> [N, O, T / stride], and what is below 0 becomes 0.
static kiln_tensor *convolution(kiln_bundle *weights, int number, int64_t stride, kiln_tensor *x)
{
    kiln_tensor *bias = of(weights, "conv", number, "bias");
    x = kiln_conv1d(x, of(weights, "conv", number, "weight"),
                    KILN_CONV1D(.bias = bias, .stride = stride, .padding = 1));
    return kiln_relu(x);
}

// pieces [N, 576] -> features [N, H].
static kiln_tensor *features(kiln_bundle *weights, kiln_tensor *pieces)
{
    kiln_tensor *x = kiln_pad(pieces, KILN_PAD(.after = KILN_ARGS(0, BEHIND), .mode = KILN_PAD_REFLECT));
    kiln_tensor *waves = of(weights, "stft_conv", 0, "weight");
    x = kiln_conv1d(kiln_unsqueeze(x, 1), waves, KILN_CONV1D(.stride = kiln_dim(waves, 2) / 2));
    int64_t half = kiln_dim(waves, 0) / 2;
    kiln_tensor *real = kiln_narrow(x, 1, 0, half), *imaginary = kiln_narrow(x, 1, half, half);
    x = kiln_sqrt(kiln_add(kiln_square(real), kiln_square(imaginary)));
    static const int64_t strides[] = {1, 2, 2, 1};
    for (int i = 0; i < 4; i++) x = convolution(weights, i + 1, strides[i], x);
    return kiln_select(x, 2, 0);
}

// in: the weights, "pieces" [N, 576], the state of the LSTM "h" and "c" [1, 1, H]. out: "p" [N], "h", "c".
static kiln_status detect(void *user, kiln_bundle *in, kiln_bundle **out)
{
    kiln_bundle *weights = kiln_bundle_bundle(in, "weights");
    kiln_tensor *x = kiln_unsqueeze(features(weights, kiln_bundle_tensor(in, "pieces")), 1);
    kiln_tensor *lstm[] = {of(weights, "lstm_cell", 0, "weight_ih"), of(weights, "lstm_cell", 0, "weight_hh"),
                           of(weights, "lstm_cell", 0, "bias_ih"), of(weights, "lstm_cell", 0, "bias_hh")};
    kiln_tensor *y = NULL, *h = NULL, *c = NULL;
    kiln_lstm(x, kiln_bundle_tensor(in, "h"), kiln_bundle_tensor(in, "c"), NULL, lstm, 4, NULL, &y, &h, &c);
    kiln_tensor *w = kiln_flatten(of(weights, "final_conv", 0, "weight"), 0, -1);
    y = kiln_matmul(kiln_relu(kiln_select(y, 1, 0)), w);
    *out = kiln_bundle_create();
    kiln_bundle_append(*out, "p", KILN_TENSOR(kiln_sigmoid(kiln_add(y, of(weights, "final_conv", 0, "bias")))));
    kiln_bundle_append(*out, "h", KILN_TENSOR(h));
    return kiln_bundle_append(*out, "c", KILN_TENSOR(c));
}

// --- the sound

struct sound {
    float *samples; // one channel, BEFORE zeros in front, whole pieces
    size_t frames, pieces;
};

static bool read_sound(struct sound *s, const char *path)
{
    double rate = 0;
    kiln_tensor *t = kiln_load_wav(NULL, path, &rate, NULL);
    if (!t) return false;
    if (rate != RATE) {
        fprintf(stderr, "speech: %s has %g samples a second; the network takes %d\n", path, rate, RATE);
        return false;
    }
    t = kiln_mean(t, KILN_REDUCE(.axes = KILN_AXES(0)));
    s->frames = (size_t)kiln_numel(t);
    s->pieces = (s->frames + PIECE - 1) / PIECE;
    s->samples = calloc(BEFORE + s->pieces * PIECE + 1, sizeof *s->samples);
    return s->samples && !kiln_read(t, s->samples + BEFORE, s->frames * sizeof *s->samples);
}

// Pieces [first, first + n), each behind the end of the one before it.
static kiln_tensor *pieces_of(const struct sound *s, kiln_device *dev, size_t first, size_t n)
{
    enum { WHOLE = BEFORE + PIECE };
    float *rows = malloc(n * WHOLE * sizeof *rows);
    if (!rows) return NULL;
    for (size_t i = 0; i < n; i++) memcpy(rows + i * WHOLE, s->samples + (first + i) * PIECE, WHOLE * sizeof *rows);
    kiln_tensor *t = kiln_from_data(dev, KILN_F32, KILN_SHAPE((int64_t)n, WHOLE), rows);
    free(rows);
    return t;
}

static bool probabilities(kiln_device *dev, const struct options *o, const struct sound *s, float *p)
{
    kiln_archive *file = kiln_archive_load(o->model);
    kiln_bundle *in = kiln_bundle_create(), *out = NULL;
    kiln_bundle *weights = kiln_archive_bundle(file, dev, KILN_ARCHIVE_BUNDLE(.dtype = KILN_F32));
    kiln_archive_free(&file);
    kiln_bundle_append(in, "weights", KILN_BUNDLE(weights));
    int64_t width = kiln_dim(kiln_bundle_tensor(weights, "lstm_cell.weight_hh"), 1);
    kiln_tensor *zeros = kiln_zeros(dev, KILN_F32, KILN_SHAPE(1, 1, width));
    kiln_bundle_append(in, "h", KILN_TENSOR(zeros));
    kiln_bundle_append(in, "c", KILN_TENSOR(zeros));
    kiln_function *f = kiln_bundle_jit(detect, NULL, KILN_JIT(.name = "detect"));
    size_t batch = (size_t)o->batch;
    for (size_t at = 0, n; at < s->pieces && !kiln_error(); at += n) {
        n = s->pieces - at < batch ? s->pieces - at : batch;
        kiln_bundle_set(in, "pieces", KILN_TENSOR(pieces_of(s, dev, at, n)));
        if (kiln_bundle_call(f, in, &out)) break;
        kiln_read(kiln_bundle_tensor(out, "p"), p + at, n * sizeof *p);
        kiln_bundle_set(in, "h", KILN_TENSOR(kiln_bundle_tensor(out, "h")));
        kiln_bundle_set(in, "c", KILN_TENSOR(kiln_bundle_tensor(out, "c")));
    }
    kiln_function_free(&f);
    return !kiln_error();
}

// --- where there is speech

struct stretch {
    double from, to; // in samples
};

static double samples_of(double ms)
{
    return ms * RATE / 1000;
}

// Speech begins where the probability reaches the threshold, and ends where it stays below a lower one for some time.
static size_t find_speech(const struct options *o, const struct sound *s, const float *p, struct stretch *found)
{
    size_t n = 0;
    double from = -1, quiet = -1, low = fmax(o->threshold - 0.15, 0.01);
    for (size_t i = 0; i <= s->pieces; i++) {
        double at = (double)(i * PIECE), end = i == s->pieces ? (double)s->frames : -1;
        if (end < 0 && p[i] >= o->threshold) {
            quiet = -1;
            if (from < 0) from = at;
        } else if (end < 0 && from >= 0 && p[i] < low) {
            if (quiet < 0) quiet = at;
            if (at - quiet >= samples_of(o->silence_ms)) end = quiet;
        }
        if (end < 0 || from < 0) continue;
        if (end - from > samples_of(o->speech_ms)) found[n++] = (struct stretch){from, end};
        from = quiet = -1;
    }
    return n;
}

// Margins of neighbours do not overlap.
static void widen(const struct options *o, const struct sound *s, struct stretch *found, size_t n)
{
    double margin = samples_of(o->margin_ms);
    for (size_t i = 0; i < n; i++) {
        double room = i + 1 < n ? found[i + 1].from - found[i].to : (double)s->frames - found[i].to;
        double behind = i + 1 < n ? fmin(margin, room / 2) : fmin(margin, room);
        if (i == 0) found[i].from = fmax(found[i].from - margin, 0);
        if (i + 1 < n) found[i + 1].from -= behind;
        found[i].to += behind;
    }
}

static void print_speech(const struct options *o, const struct sound *s, const float *p)
{
    struct stretch *found = malloc((s->pieces + 1) * sizeof *found);
    if (!found) return;
    size_t n = find_speech(o, s, p, found);
    widen(o, s, found, n);
    for (size_t i = 0; i < n; i++) printf("%.2f - %.2f s\n", found[i].from / RATE, found[i].to / RATE);
    if (!n) printf("no speech\n");
    free(found);
}

int main(int argc, char **argv)
{
    struct options o = {.threshold = 0.5, .batch = 1024, .speech_ms = 250, .silence_ms = 100, .margin_ms = 30};
    struct sound s = {0};
    if (!parse_options(argc, argv, &o)) return 2;
    kiln_device *dev = kiln_device_open(o.device);
    kiln_scope *scope = kiln_scope_begin();
    bool missing = !dev && kiln_error() == KILN_E_MISSING;
    float *p = NULL;
    bool good = dev && !kiln_set_device(dev) && read_sound(&s, argv[optind]);
    if (good) p = malloc((s.pieces + 1) * sizeof *p);
    good = p && probabilities(dev, &o, &s, p);
    for (size_t i = 0; good && o.probabilities && i < s.pieces; i++) printf("%.6f\n", (double)p[i]);
    if (good && !o.probabilities) print_speech(&o, &s, p);
    if (kiln_error()) fprintf(stderr, "speech: %s\n", kiln_error_message());
    kiln_error_clear();
    free(p);
    free(s.samples);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return missing ? 77 : !good;
}
