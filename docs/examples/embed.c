// Sentences as vectors, by a network in a file: how alike they are, or the vectors themselves.
//
//     embed --model all-MiniLM-L6-v2 "A man is eating." "Somebody has lunch." "The bond market fell."
//     embed --model minilm.onnx --vocab vocab.txt --text sentences.txt --out vectors.npy
//
// The model is a folder with weights of BERT or its like, see bert.h, and with vocab.txt. Or it is a file of ONNX as
// exporters make it of these: inputs input_ids, attention_mask and perhaps
// token_type_ids, i64[batch, length]; an output f32[batch, length, width], a vector for each word piece, or f32[batch,
// width]. The vocabulary is a line a word piece. A sentence's vector is the mean of those of its pieces, of length 1,
// so that the product of two is the cosine of their angle. Network, mean and length are captured as one graph; one of
// another size of batch or length takes over what is known of the first.
//
// tests/onnx/real_embed.py compares all of it with onnxruntime for a model that is at hand:
//
//     python3 tests/onnx/real_embed.py build/docs/examples/embed minilm.onnx vocab.txt
#include "options.h"
#include "bert.h"
#include "wordpiece.h"

#include <kiln/kiln.h>

#include <inttypes.h>
#include <sys/stat.h>

enum { MAX_PORTS = 16, LENGTH_LIMIT = 1 << 16 };

struct options {
    const char *device, *model, *vocab, *text, *output, *out;
    int64_t batch, length;
    bool ids, is_folder, is_missing; // the model
    char folders_vocab[4096];
};

static const char usage[] =
    "usage: embed --model FOLDER [options] [SENTENCE...]\n"
    "       embed --model FILE.onnx --vocab FILE [options] [SENTENCE...]\n"
    "  --text FILE   sentences, a line each\n"
    "  --batch N     sentences in one call, the shorter ones padded (16)\n"
    "  --length N    word pieces of a sentence that are read, with [CLS] and [SEP] (256)\n"
    "  --vocab FILE  word pieces, a line each (FOLDER/vocab.txt)\n"
    "  --output NAME of the model of ONNX, with the vectors; default: sentence_embedding,\n"
    "                last_hidden_state, token_embeddings, else the first one of floats\n"
    "  --out F.npy   write the vectors there instead of how alike they are\n"
    "  --ids         print the ids of each sentence's word pieces; needs no model\n"
    "  --device D    cpu, gpu, vulkan, vulkan:N; default: $KILN_DEVICE, else the best there is\n";

// A folder has its vocabulary; a file of ONNX none, and one that is not there is told of as such.
static bool find_vocab(struct options *o)
{
    struct stat s;
    o->is_missing = o->model && stat(o->model, &s);
    o->is_folder = o->model && !o->is_missing && S_ISDIR(s.st_mode);
    if (o->is_folder && !o->vocab) {
        snprintf(o->folders_vocab, sizeof o->folders_vocab, "%s/vocab.txt", o->model);
        o->vocab = o->folders_vocab;
    }
    return o->vocab || o->is_missing;
}

static bool parse_options(int argc, char **argv, struct options *o)
{
    bool read = READ_OPTIONS(argc, argv, {"device", .text = &o->device}, {"model", .text = &o->model},
                             {"vocab", .text = &o->vocab}, {"text", .text = &o->text}, {"output", .text = &o->output},
                             {"out", .text = &o->out}, {"batch", .whole = &o->batch, .least = 1},
                             {"length", .whole = &o->length, .least = 2}, {"ids", .flag = &o->ids});
    bool good = read && option_fits(o->model || o->ids, "--model is missing") &&
                option_fits(o->length <= LENGTH_LIMIT, "--length takes 65536 at most") &&
                option_fits(find_vocab(o), "--vocab FILE is missing: a file of ONNX has no vocabulary");
    if (!good) fputs(usage, stderr);
    return good;
}

// --- the sentences

struct sentence {
    const char *text;
    int64_t *ids;
    size_t n;
};

struct sentences {
    char *bytes; // of the file
    struct sentence *all;
    size_t n;
};

static bool add_sentence(struct sentences *s, const char *text)
{
    if ((s->n & (s->n - 1)) == 0) {
        struct sentence *more = realloc(s->all, sizeof *more * (s->n ? 2 * s->n : 1));
        if (!more) return false;
        s->all = more;
    }
    s->all[s->n++] = (struct sentence){.text = text};
    return true;
}

// The lines of a file; the bytes become texts where they lie.
static bool add_lines(struct sentences *s, const char *path)
{
    size_t size_B;
    char *bytes = wordpiece_read(path, &size_B), *ended = bytes ? realloc(bytes, size_B + 1) : NULL;
    if (!ended) {
        free(bytes);
        return false;
    }
    s->bytes = ended;
    ended[size_B] = 0;
    bool good = true;
    for (size_t at = 0; good && at < size_B;) {
        size_t n = strcspn(ended + at, "\r\n");
        good = add_sentence(s, ended + at);
        at += n + 1;
        if (at < size_B && ended[at - 1] == '\r' && ended[at] == '\n') ended[at - 1] = 0, at++;
        ended[at - 1] = 0;
    }
    return good;
}

static bool make_ids(struct sentences *s, const struct wordpiece *w, size_t max)
{
    int64_t *room = malloc(sizeof *room * max);
    bool good = room != NULL;
    for (size_t i = 0; good && i < s->n; i++) {
        struct sentence *one = &s->all[i];
        one->n = wordpiece_ids(w, one->text, room, max);
        one->ids = malloc(sizeof *room * one->n);
        good = one->ids != NULL;
        if (good) memcpy(one->ids, room, sizeof *room * one->n);
    }
    free(room);
    return good;
}

static void free_sentences(struct sentences *s)
{
    for (size_t i = 0; i < s->n; i++) free(s->all[i].ids);
    free(s->all);
    free(s->bytes);
}

// --- the model

struct encoder {
    kiln_function *model; // of the file
    size_t n_in, n_out;
    int part[MAX_PORTS]; // which of enum part each input is
    kiln_dtype dtype[MAX_PORTS];
    size_t vectors;          // which output
    kiln_function *captured; // encode(), or encode_by()
    struct bert bert;        // of a folder
};

enum part { IDS, MASK, TYPES, N_PARTS };
static const char *const part_names[N_PARTS] = {"input_ids", "attention_mask", "token_type_ids"};

static bool refuse(const struct options *o, const char *what)
{
    fprintf(stderr, "embed: %s: %s\n", o->model, what);
    return false;
}

static bool find_inputs(struct encoder *e, const struct options *o, const kiln_model *m)
{
    char why[512];
    bool has[N_PARTS] = {false};
    e->n_in = kiln_model_input_count(m, "main");
    if (e->n_in > MAX_PORTS) return refuse(o, "too many inputs for a model of sentences");
    for (size_t i = 0; i < e->n_in; i++) {
        kiln_model_value v = {.size = sizeof v};
        if (kiln_model_input(m, "main", i, &v)) return false;
        int part = 0;
        while (part < N_PARTS && strcmp(v.name, part_names[part])) part++;
        bool fits = part < N_PARTS && (v.dtype == KILN_I64 || v.dtype == KILN_I32) && v.rank == 2;
        snprintf(why, sizeof why,
                 "input %zu is %s, %s; a model of sentences takes input_ids, attention_mask and "
                 "perhaps token_type_ids, i64[batch,length]",
                 i, v.name, v.text);
        if (!fits) return refuse(o, why);
        e->part[i] = part;
        e->dtype[i] = v.dtype;
        has[part] = true;
    }
    return (has[IDS] && has[MASK]) || refuse(o, "no inputs input_ids and attention_mask");
}

static bool find_output(struct encoder *e, const struct options *o, const kiln_model *m)
{
    const char *const known[] = {"sentence_embedding", "last_hidden_state", "token_embeddings"};
    enum { N_KNOWN = 3, FLOATS = N_KNOWN, NONE };
    int best = NONE;
    char why[512];
    e->n_out = kiln_model_output_count(m, "main");
    if (e->n_out > MAX_PORTS) return refuse(o, "too many outputs for a model of sentences");
    for (size_t i = 0; i < e->n_out; i++) {
        kiln_model_value v = {.size = sizeof v};
        if (kiln_model_output(m, "main", i, &v)) return false;
        int rank = 0;
        if (o->output)
            rank = strcmp(v.name, o->output) ? NONE : 0;
        else
            while (rank < N_KNOWN && strcmp(v.name, known[rank])) rank++;
        if (rank >= best || (v.dtype != KILN_F32 && v.dtype != KILN_F16)) continue;
        best = rank;
        e->vectors = i;
    }
    snprintf(why, sizeof why, "no output %s%sof floats", o->output ? o->output : "", o->output ? " " : "");
    return best < NONE || refuse(o, why);
}

static bool are_vectors(const kiln_tensor *t, const kiln_tensor *ids)
{
    size_t rank = kiln_rank(t);
    const int64_t *d = kiln_dims(t), *batch = kiln_dims(ids);
    if (rank == 2 ? d[0] == batch[0] : rank == 3 && d[0] == batch[0] && d[1] == batch[1]) return true;
    if (!kiln_error())
        fprintf(stderr, "embed: the output is no vector for each sentence or word piece; see --output\n");
    return false;
}

// The mean of the vectors of a sentence's pieces, or its own vector, as one of length 1.
static kiln_tensor *pooled(kiln_tensor *vectors, kiln_tensor *mask)
{
    if (kiln_rank(vectors) == 3) {
        mask = kiln_unsqueeze(kiln_cast(mask, KILN_F32), 2);
        const kiln_reduce_opts *pieces = KILN_REDUCE(.axes = KILN_AXES(1));
        vectors = kiln_div(kiln_sum(kiln_mul(vectors, mask), pieces), kiln_sum(mask, pieces));
    }
    kiln_tensor *norm = kiln_norm(vectors, KILN_NORM(.axes = KILN_AXES(-1), .keepdims = true));
    return kiln_div(vectors, kiln_maximum(norm, kiln_scalar(1e-12)));
}

// in: ids, mask and types of a batch, i64[batch, length]. out: vectors of length 1, f32[batch, width].
static kiln_status encode(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct encoder *e = user;
    kiln_tensor *args[MAX_PORTS], *results[MAX_PORTS];
    for (size_t i = 0; i < e->n_in; i++) args[i] = kiln_cast(in[e->part[i]], e->dtype[i]);
    if (kiln_call(e->model, args, e->n_in, results, e->n_out)) return kiln_error();
    kiln_tensor *vectors = kiln_cast(results[e->vectors], KILN_F32);
    if (!are_vectors(vectors, in[IDS])) return KILN_E_SHAPE;
    out[0] = pooled(vectors, in[MASK]);
    return kiln_error();
}

// The same by weights, an entry beside those of the batch.
static kiln_status encode_by(void *user, kiln_bundle *in, kiln_bundle **out)
{
    const struct encoder *e = user;
    kiln_tensor *part[N_PARTS];
    for (int i = 0; i < N_PARTS; i++) part[i] = kiln_bundle_tensor(in, part_names[i]);
    kiln_bundle *weights = kiln_bundle_bundle(in, "weights");
    kiln_tensor *y = pooled(bert_vectors(&e->bert, weights, part[IDS], part[MASK], part[TYPES]), part[MASK]);
    *out = kiln_bundle_of(&y, 1);
    return kiln_error();
}

static bool open_encoder(struct encoder *e, const struct options *o, kiln_device *dev)
{
    if (o->is_folder) {
        if (bert_open(&e->bert, dev, o->model)) e->captured = kiln_bundle_jit(encode_by, e, KILN_JIT(.name = "encode"));
        return e->captured != NULL;
    }
    kiln_model *m = kiln_graph_import(dev, o->model);
    bool good = m && find_inputs(e, o, m) && find_output(e, o, m);
    if (good) {
        e->model = kiln_model_function(m, "main");
        e->captured = kiln_jit(encode, e, KILN_JIT(.name = "encode"));
    }
    kiln_model_free(&m);
    return good && !kiln_error();
}

static kiln_tensor *call_encoder(const struct encoder *e, kiln_tensor *const *in)
{
    kiln_tensor *out = NULL;
    if (!e->bert.weights) return kiln_call(e->captured, in, N_PARTS, &out, 1) ? NULL : out;
    kiln_bundle *all = kiln_bundle_create(), *result = NULL;
    kiln_bundle_append(all, "weights", KILN_BUNDLE(e->bert.weights));
    for (int i = 0; i < N_PARTS; i++) kiln_bundle_append(all, part_names[i], KILN_TENSOR(in[i]));
    return kiln_bundle_call(e->captured, all, &result) ? NULL : kiln_bundle_tensor_at(result, 0);
}

// A batch as the model takes it: behind the pieces of a sentence lie [PAD]s that the mask leaves out.
static kiln_tensor *encode_batch(const struct encoder *e, const struct wordpiece *w, kiln_device *dev,
                                 const struct sentence *some, size_t n)
{
    size_t length = 0;
    for (size_t i = 0; i < n; i++) length = some[i].n > length ? some[i].n : length;
    int64_t *rows = calloc(2 * n * length, sizeof *rows), *mask = rows + n * length;
    if (!rows) return NULL;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < length; k++) {
            rows[i * length + k] = k < some[i].n ? some[i].ids[k] : w->pad;
            mask[i * length + k] = k < some[i].n;
        }
    }
    const int64_t dims[] = {(int64_t)n, (int64_t)length};
    kiln_tensor *in[N_PARTS];
    in[IDS] = kiln_from_data(dev, KILN_I64, 2, dims, rows);
    in[MASK] = kiln_from_data(dev, KILN_I64, 2, dims, mask);
    in[TYPES] = kiln_zeros(dev, KILN_I64, 2, dims);
    free(rows);
    return call_encoder(e, in);
}

static kiln_tensor *encode_all(const struct encoder *e, const struct wordpiece *w, kiln_device *dev,
                               const struct options *o, const struct sentences *s)
{
    size_t batch = (size_t)o->batch, n = 0;
    kiln_tensor **parts = calloc(s->n, sizeof *parts), *all = NULL;
    for (size_t at = 0; parts && at < s->n && !kiln_error(); at += batch, n++)
        parts[n] = encode_batch(e, w, dev, s->all + at, s->n - at < batch ? s->n - at : batch);
    if (parts && !kiln_error()) all = kiln_concat(parts, n, 0);
    free(parts);
    return all;
}

// --- what the user sees

static void print_ids(const struct sentences *s)
{
    for (size_t i = 0; i < s->n; i++) {
        for (size_t k = 0; k < s->all[i].n; k++) printf("%s%" PRId64, k ? " " : "", s->all[i].ids[k]);
        putchar('\n');
    }
}

static void print_likeness(kiln_tensor *vectors, const struct sentences *s)
{
    size_t n = s->n;
    float *cosines = malloc(sizeof *cosines * n * n);
    kiln_tensor *all = kiln_matmul(vectors, kiln_transpose(vectors, 0, 1));
    if (cosines && !kiln_read(all, cosines, sizeof *cosines * n * n)) {
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < n; k++) printf("%6.3f ", (double)cosines[i * n + k]);
            printf(" %s\n", s->all[i].text);
        }
    }
    free(cosines);
}

static int embed(const struct options *o, const struct wordpiece *w, const struct sentences *s)
{
    struct encoder e = {0};
    kiln_device *dev = kiln_device_open(o->device);
    kiln_scope *scope = kiln_scope_begin();
    bool good = dev && !kiln_set_device(dev) && open_encoder(&e, o, dev),
         missing = !dev && kiln_error() == KILN_E_MISSING;
    kiln_tensor *vectors = good ? encode_all(&e, w, dev, o, s) : NULL;
    if (vectors && o->out)
        kiln_npy_save(o->out, vectors);
    else if (vectors)
        print_likeness(vectors, s);
    good = vectors && !kiln_error();
    if (kiln_error()) fprintf(stderr, "embed: %s\n", kiln_error_message());
    kiln_error_clear();
    kiln_function_free(&e.captured);
    kiln_function_free(&e.model);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return missing ? 77 : !good;
}

int main(int argc, char **argv)
{
    struct options o = {.batch = 16, .length = 256};
    struct sentences s = {0};
    struct wordpiece w = {0};
    if (!parse_options(argc, argv, &o)) return 2;
    if (o.is_missing) {
        perror(o.model);
        return 1;
    }
    bool good = wordpiece_load(&w, o.vocab);
    for (int i = optind; good && i < argc; i++) good = add_sentence(&s, argv[i]);
    if (good && o.text) good = add_lines(&s, o.text);
    if (good && !s.n) {
        fprintf(stderr, "embed: no sentences\n");
        good = false;
    }
    good = good && make_ids(&s, &w, (size_t)o.length);
    int status = !good;
    if (good && o.ids)
        print_ids(&s);
    else if (good)
        status = embed(&o, &w, &s);
    free_sentences(&s);
    wordpiece_free(&w);
    return status;
}
