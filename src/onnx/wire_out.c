// Writing protocol buffers.
#include "onnx/wire_out.h"
#include <string.h>

static void put_tag(struct str *s, uint32_t field, enum wire_type type)
{
    str_add_word(s, (uint64_t)field << 3 | type);
}

void wire_put_number(struct str *s, uint32_t field, uint64_t v)
{
    put_tag(s, field, WIRE_VARINT);
    str_add_word(s, v);
}

void wire_put_float(struct str *s, uint32_t field, float v)
{
    put_tag(s, field, WIRE_4);
    str_addn(s, (const char *)&v, sizeof v);
}

void wire_put_head(struct str *s, uint32_t field, uint64_t size_B)
{
    put_tag(s, field, WIRE_BYTES);
    str_add_word(s, size_B);
}

void wire_put_bytes(struct str *s, uint32_t field, const void *data, size_t size_B)
{
    wire_put_head(s, field, size_B);
    if (size_B) str_addn(s, data, size_B);
}

void wire_put_text(struct str *s, uint32_t field, const char *text)
{
    wire_put_bytes(s, field, text, strlen(text));
}

void wire_put_message(struct str *s, uint32_t field, struct str *part)
{
    wire_put_bytes(s, field, str_text(part), part->len);
    if (part->failed) str_fail(s);
    str_free(part);
}
