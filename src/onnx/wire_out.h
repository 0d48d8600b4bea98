// Writing protocol buffers, into texts that hold bytes; what they are is in wire.h.
#pragma once
#include "base/str.h"
#include "onnx/wire.h"

void wire_put_number(struct str *s, uint32_t field, uint64_t v);
void wire_put_float(struct str *s, uint32_t field, float v);
void wire_put_bytes(struct str *s, uint32_t field, const void *data, size_t size_B);
void wire_put_text(struct str *s, uint32_t field, const char *text);
void wire_put_message(struct str *s, uint32_t field, struct str *part); // frees the part
// What comes before size_B bytes that are written elsewhere.
void wire_put_head(struct str *s, uint32_t field, uint64_t size_B);
