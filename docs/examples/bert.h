// BERT and its like (Devlin et al. 2018) from a folder as others publish them: config.json, and the weights in
// model.safetensors or pytorch_model.bin. The weights are the state of a function, under the names of the file.
#pragma once
#include <kiln/kiln.h>

#include <math.h>
#include <stdarg.h>
#include <string.h>

struct bert {
    kiln_bundle *weights; // f32, of the scope in which they were opened
    int layers;
    int64_t heads;
    double eps;
};

// The value behind a key of the JSON object in a text; NULL where there is none. Keys of config.json are no values.
static inline const char *bert_value(const char *json, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *at = strstr(json, quoted);
    if (at) at += strlen(quoted) + strspn(at + strlen(quoted), " \t\r\n");
    return at && *at == ':' ? at + 1 + strspn(at + 1, " \t\r\n") : NULL;
}

static inline bool bert_read_config(struct bert *b, const char *folder)
{
    char path[4096], text[1 << 14];
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return false;
    }
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    const char *heads = bert_value(text, "num_attention_heads"), *eps = bert_value(text, "layer_norm_eps"),
               *gelu = bert_value(text, "hidden_act");
    b->heads = heads ? atoll(heads) : 0;
    b->eps = eps ? atof(eps) : 1e-12;
    if (b->heads > 0 && (!gelu || !strncmp(gelu, "\"gelu\"", 6))) return true;
    fprintf(stderr, "%s: no BERT with num_attention_heads and the activation gelu\n", path);
    return false;
}

static inline kiln_archive *bert_weights(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *there = fopen(path, "rb");
    if (there) fclose(there);
    if (!there) snprintf(path, sizeof path, "%s/pytorch_model.bin", folder);
    return kiln_archive_load(path);
}

// A weight by the printf of its path; NULL and an error that names it.
__attribute__((format(printf, 2, 3))) static inline kiln_tensor *bert_get(kiln_bundle *weights, const char *format, ...)
{
    char path[128];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    return kiln_bundle_tensor(weights, path);
}

static inline bool bert_open(struct bert *b, kiln_device *dev, const char *folder)
{
    kiln_archive *file = bert_read_config(b, folder) ? bert_weights(folder) : NULL;
    if (!file) return false;
    const char *prefix = kiln_archive_has(file, "bert.embeddings.word_embeddings.weight") ? "bert." : NULL;
    b->weights = kiln_archive_bundle(file, dev, KILN_ARCHIVE_BUNDLE(.prefix = prefix, .dtype = KILN_F32));
    kiln_archive_free(&file);
    char path[64];
    do snprintf(path, sizeof path, "encoder.layer.%d.output.dense.weight", b->layers);
    while (b->weights && kiln_bundle_has(b->weights, path) && ++b->layers);
    return b->weights != NULL;
}

static inline kiln_tensor *bert_dense(kiln_bundle *weights, const char *at, const char *part, kiln_tensor *x)
{
    kiln_tensor *w = bert_get(weights, "%s%s.weight", at, part), *b = bert_get(weights, "%s%s.bias", at, part);
    return kiln_add(kiln_matmul(x, kiln_transpose(w, 0, 1)), b);
}

static inline kiln_tensor *bert_norm(const struct bert *b, kiln_bundle *weights, const char *at, const char *part,
                                     kiln_tensor *x)
{
    kiln_tensor *w = bert_get(weights, "%s%sLayerNorm.weight", at, part),
                *bias = bert_get(weights, "%s%sLayerNorm.bias", at, part);
    return kiln_layer_norm(x, 1, KILN_LAYER_NORM(.weight = w, .bias = bias, .eps = b->eps));
}

// [N, L, H] -> [N, heads, L, H / heads].
static inline kiln_tensor *bert_heads(const struct bert *b, kiln_tensor *x)
{
    x = kiln_reshape(x, KILN_SHAPE(kiln_dim(x, 0), kiln_dim(x, 1), b->heads, -1));
    return kiln_transpose(x, 1, 2);
}

// `seen`: bool [N, 1, 1, L].
static inline kiln_tensor *bert_layer(const struct bert *b, kiln_bundle *weights, int layer, kiln_tensor *x,
                                      kiln_tensor *seen)
{
    char at[32];
    snprintf(at, sizeof at, "encoder.layer.%d.", layer);
    kiln_tensor *q = bert_heads(b, bert_dense(weights, at, "attention.self.query", x)),
                *k = bert_heads(b, bert_dense(weights, at, "attention.self.key", x)),
                *v = bert_heads(b, bert_dense(weights, at, "attention.self.value", x));
    kiln_tensor *y = kiln_transpose(kiln_scaled_dot_product_attention(q, k, v, seen, NULL), 1, 2);
    y = bert_dense(weights, at, "attention.output.dense", kiln_flatten(y, 2, -1));
    x = bert_norm(b, weights, at, "attention.output.", kiln_add(x, y));
    y = kiln_gelu(bert_dense(weights, at, "intermediate.dense", x));
    return bert_norm(b, weights, at, "output.", kiln_add(x, bert_dense(weights, at, "output.dense", y)));
}

// ids, mask and types, integers [N, L] -> a vector for each piece, f32 [N, L, H]. `weights` are those of b, or their
// like: inputs of the function that is captured.
static inline kiln_tensor *bert_vectors(const struct bert *b, kiln_bundle *weights, kiln_tensor *ids, kiln_tensor *mask,
                                        kiln_tensor *types)
{
    kiln_tensor *places =
        kiln_narrow(bert_get(weights, "embeddings.position_embeddings.weight"), 0, 0, kiln_dim(ids, 1));
    kiln_tensor *x = kiln_embedding(bert_get(weights, "embeddings.word_embeddings.weight"), ids);
    x = kiln_add(x, kiln_embedding(bert_get(weights, "embeddings.token_type_embeddings.weight"), types));
    x = bert_norm(b, weights, "embeddings.", "", kiln_add(x, places));
    kiln_tensor *seen = kiln_reshape(kiln_cast(mask, KILN_BOOL), KILN_SHAPE(kiln_dim(ids, 0), 1, 1, -1));
    for (int i = 0; i < b->layers; i++) x = bert_layer(b, weights, i, x, seen);
    return x;
}
