// Models written by hand, field by field, right and wrong.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct message {
    unsigned char *bytes;
    size_t n, cap;
};

void put_byte(struct message *m, int byte);
void put_varint(struct message *m, uint64_t v);
void put_number(struct message *m, int field, uint64_t v);
void put_bytes(struct message *m, int field, const void *data, size_t size_B);
void put_text(struct message *m, int field, const char *text);
void put_message(struct message *m, int field, struct message *part); // frees part
void free_message(struct message *m);

// The parts of a model. Lists are words with a blank between; "-" is left out.
struct message node(const char *op, const char *in, const char *out);
struct message named_node(const char *name, const char *domain, const char *op, const char *in, const char *out);
struct message port(const char *name, int data_type, const char *dims);
struct message tensor(const char *name, int data_type, const char *dims, const void *raw, size_t size_B);
struct message int_attr(const char *name, int64_t v);
struct message float_attr(const char *name, float v);
struct message text_attr(const char *name, const char *v);
struct message graph_attr(const char *name, struct message *graph);
struct message model(int opset, struct message *graph);
void add_node(struct message *graph, struct message node);
void add_input(struct message *graph, struct message port);
void add_output(struct message *graph, const char *name);
void add_constant(struct message *graph, struct message tensor);
