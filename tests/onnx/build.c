// Protocol buffers by hand, and the messages of ONNX by their fields.
#include "build.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void put_byte(struct message *m, int byte)
{
    if (m->n == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 64;
        m->bytes = realloc(m->bytes, m->cap);
        if (!m->bytes) abort();
    }
    m->bytes[m->n++] = (unsigned char)byte;
}

void put_varint(struct message *m, uint64_t v)
{
    for (; v > 127; v >>= 7) put_byte(m, (int)(v & 127) | 128);
    put_byte(m, (int)v);
}

void put_number(struct message *m, int field, uint64_t v)
{
    put_varint(m, (uint64_t)field << 3);
    put_varint(m, v);
}

void put_bytes(struct message *m, int field, const void *data, size_t size_B)
{
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, size_B);
    for (size_t i = 0; i < size_B; i++) put_byte(m, ((const unsigned char *)data)[i]);
}

void put_text(struct message *m, int field, const char *text)
{
    put_bytes(m, field, text, strlen(text));
}

void put_message(struct message *m, int field, struct message *part)
{
    put_bytes(m, field, part->bytes, part->n);
    free_message(part);
}

void free_message(struct message *m)
{
    free(m->bytes);
    *m = (struct message){0};
}

static void put_words(struct message *m, int field, const char *words)
{
    char *copy = strdup(words), *rest;
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        put_text(m, field, *w == '-' ? "" : w);
    free(copy);
}

struct message named_node(const char *name, const char *domain, const char *op, const char *in, const char *out)
{
    struct message m = {0};
    put_words(&m, 1, in);
    put_words(&m, 2, out);
    put_text(&m, 3, name);
    put_text(&m, 4, op);
    put_text(&m, 7, domain);
    return m;
}

struct message node(const char *op, const char *in, const char *out)
{
    return named_node("", "", op, in, out);
}

struct message port(const char *name, int data_type, const char *dims)
{
    struct message m = {0}, type = {0}, of_tensor = {0}, shape = {0};
    char *copy = strdup(dims), *rest;
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        struct message dim = {0};
        char *end;
        long long v = strtoll(w, &end, 10);
        *end ? put_text(&dim, 2, w) : put_number(&dim, 1, (uint64_t)v);
        put_message(&shape, 1, &dim);
    }
    free(copy);
    put_number(&of_tensor, 1, (uint64_t)data_type);
    put_message(&of_tensor, 2, &shape);
    put_message(&type, 1, &of_tensor);
    put_text(&m, 1, name);
    put_message(&m, 2, &type);
    return m;
}

struct message tensor(const char *name, int data_type, const char *dims, const void *raw, size_t size_B)
{
    struct message m = {0};
    char *copy = strdup(dims), *rest;
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        put_number(&m, 1, (uint64_t)strtoll(w, NULL, 10));
    free(copy);
    put_number(&m, 2, (uint64_t)data_type);
    put_text(&m, 8, name);
    if (raw) put_bytes(&m, 9, raw, size_B);
    return m;
}

struct message int_attr(const char *name, int64_t v)
{
    struct message m = {0};
    put_text(&m, 1, name);
    put_number(&m, 3, (uint64_t)v);
    put_number(&m, 20, 2);
    return m;
}

struct message float_attr(const char *name, float v)
{
    struct message m = {0};
    unsigned char bytes[4];
    put_text(&m, 1, name);
    put_byte(&m, 2 << 3 | 5); // four bytes
    memcpy(bytes, &v, 4);
    for (int i = 0; i < 4; i++) put_byte(&m, bytes[i]);
    put_number(&m, 20, 1);
    return m;
}

struct message text_attr(const char *name, const char *v)
{
    struct message m = {0};
    put_text(&m, 1, name);
    put_text(&m, 4, v);
    put_number(&m, 20, 3);
    return m;
}

struct message graph_attr(const char *name, struct message *graph)
{
    struct message m = {0};
    put_text(&m, 1, name);
    put_message(&m, 6, graph);
    put_number(&m, 20, 5);
    return m;
}

struct message model(int opset, struct message *graph)
{
    struct message m = {0}, version = {0};
    put_number(&version, 2, (uint64_t)opset);
    put_number(&m, 1, 8);
    put_message(&m, 7, graph);
    put_message(&m, 8, &version);
    return m;
}

void add_node(struct message *graph, struct message n)
{
    put_message(graph, 1, &n);
}

void add_input(struct message *graph, struct message p)
{
    put_message(graph, 11, &p);
}

void add_output(struct message *graph, const char *name)
{
    struct message p = {0};
    put_text(&p, 1, name);
    put_message(graph, 12, &p);
}

void add_constant(struct message *graph, struct message t)
{
    put_message(graph, 5, &t);
}
