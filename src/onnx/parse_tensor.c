// Tensors of a file: dtype and shape, and where the elements are: as bytes, as a list of numbers, or in a file beside.
#include "onnx/model.h"
#include "onnx/wire.h"
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    int dtype;    // kiln_dtype; -1: Kiln has none
    uint8_t list; // the field with numbers
} data_types[] = {
    [1] = {"float", KILN_F32, 4},
    [2] = {"uint8", KILN_U8, 5},
    [3] = {"int8", KILN_I8, 5},
    [4] = {"uint16", KILN_U16, 5},
    [5] = {"int16", KILN_I16, 5},
    [6] = {"int32", KILN_I32, 5},
    [7] = {"int64", KILN_I64, 7},
    [8] = {"string", -1, 6},
    [9] = {"bool", KILN_BOOL, 5},
    [10] = {"float16", KILN_F16, 5},
    [11] = {"double", KILN_F64, 10},
    [12] = {"uint32", KILN_U32, 11},
    [13] = {"uint64", KILN_U64, 11},
    [14] = {"complex64", -1, 4},
    [15] = {"complex128", -1, 10},
    [16] = {"bfloat16", KILN_BF16, 5},
    [17] = {"float8e4m3fn", KILN_F8_E4M3, 5},
    [18] = {"float8e4m3fnuz", -1, 5},
    [19] = {"float8e5m2", KILN_F8_E5M2, 5},
    [20] = {"float8e5m2fnuz", -1, 5},
    [21] = {"uint4", KILN_U4, 5},
    [22] = {"int4", KILN_I4, 5},
    [23] = {"float4e2m1", -1, 5},
};

bool onnx_dtype(int64_t data_type, kiln_dtype *out)
{
    bool known = data_type > 0 && data_type < (int64_t)COUNT_OF(data_types) && data_types[data_type].dtype >= 0;
    *out = known ? (kiln_dtype)data_types[data_type].dtype : KILN_F32;
    return known;
}

const char *onnx_dtype_text(int64_t data_type)
{
    bool named = data_type > 0 && data_type < (int64_t)COUNT_OF(data_types);
    return named ? data_types[data_type].text : "of no known number";
}

int onnx_dtype_number(unsigned dtype)
{
    int i = 1;
    while (data_types[i].dtype != (int)dtype) i++;
    return i;
}

struct reading {
    struct onnx_model *m;
    struct onnx_constant *c;
    int64_t data_type;
    bool external;
    struct wire_field raw;
    bool has_raw;
    unsigned char *to; // numbers of a list, as they are stored
    size_t item_B;     // of an element, or of two
    int64_t n, n_max, n_items;
};

// Of two elements each; the last of an odd number is alone.
static void count_items(struct reading *r)
{
    const struct onnx_host *h = &r->c->host;
    bool packed = shown_is_packed(shown_of_dtype(h->dtype));
    r->item_B = dtype_is_stored(h->dtype) ? 1 : dtype_info[h->dtype].size_B;
    r->n_items = packed ? h->numel / 2 + h->numel % 2 : h->numel;
}

static kiln_status take_dim(void *user, uint64_t bits)
{
    struct reading *r = user;
    struct onnx_host *h = &r->c->host;
    if (h->rank == KILN_MAX_RANK)
        return error_set(KILN_E_UNSUPPORTED, "%s: tensor \"%.80s\" has a rank above %d", r->m->where, r->c->name,
                         KILN_MAX_RANK);
    if ((int64_t)bits < 0)
        return error_set(KILN_E_FORMAT, "%s: tensor \"%.80s\" has dimension %lld", r->m->where, r->c->name,
                         (long long)bits);
    h->dims[h->rank++] = (int64_t)bits;
    return KILN_OK;
}

static kiln_status count_elements(const struct reading *r, struct onnx_host *h)
{
    bool empty = false;
    h->numel = 1;
    for (int i = 0; i < h->rank; i++) empty |= !h->dims[i];
    for (int i = 0; i < h->rank && !empty; i++)
        if (__builtin_mul_overflow(h->numel, h->dims[i], &h->numel) || h->numel > INT64_MAX / 16)
            return error_set(KILN_E_FORMAT, "%s: tensor \"%.80s\" has more elements than can be counted", r->m->where,
                             r->c->name);
    if (empty) h->numel = 0;
    return KILN_OK;
}

// Numbers of a list lie in the file as varints, whatever is stored; halves as their bits.
static kiln_status take_number(void *user, uint64_t bits)
{
    struct reading *r = user;
    if (r->n++ >= r->n_max || !r->to) return KILN_OK; // counted all the same
    if (r->c->host.dtype == KILN_BOOL) bits = bits != 0;
    memcpy(r->to + (size_t)(r->n - 1) * r->item_B, &bits, r->item_B);
    return KILN_OK;
}

static kiln_status take_external(struct reading *r, struct wire w)
{
    struct wire_field f;
    struct onnx_external *e = r->c->external;
    const char *key = "", *value = "";
    if (!e) TRY(onnx_take(r->m, 1, sizeof *e, &e));
    r->c->external = e;
    if (!e->location) *e = (struct onnx_external){.location = "", .size_B = UINT64_MAX};
    for (bool more = true; more;) {
        TRY(wire_next(&w, &f, &more));
        if (!more) break;
        if (f.number != 1 && f.number != 2) continue;
        TRY(wire_expect(&w, &f, WIRE_BYTES));
        TRY(onnx_take_text(r->m, &w, f.data, f.size_B, f.number == 1 ? &key : &value));
    }
    bool offset = !strcmp(key, "offset"), length = !strcmp(key, "length");
    if (!strcmp(key, "location")) e->location = value;
    if (!offset && !length) return KILN_OK;
    char *end;
    bool digits = *value && strspn(value, "0123456789") == strlen(value) && strlen(value) < 19;
    uint64_t number = strtoull(value, &end, 10);
    if (!digits)
        return error_set(KILN_E_FORMAT, "%s: tensor \"%.80s\" has the %s \"%.40s\"", r->m->where, r->c->name, key,
                         value);
    *(offset ? &e->offset_B : &e->size_B) = number;
    return KILN_OK;
}

static kiln_status take_field(struct reading *r, const struct wire *w, const struct wire_field *f)
{
    switch (f->number) {
    case 1: return wire_numbers(w, f, WIRE_VARINT, take_dim, r);
    case 2:
        TRY(wire_expect(w, f, WIRE_VARINT));
        r->data_type = (int64_t)f->value;
        return KILN_OK;
    case 3: return error_set(KILN_E_UNSUPPORTED, "%s: tensor \"%.80s\" is in segments", r->m->where, r->c->name);
    case 9:
        TRY(wire_expect(w, f, WIRE_BYTES));
        if (r->has_raw) return wire_bad(w, f->begin, "tensor \"%.80s\" has its data twice", r->c->name);
        r->has_raw = true;
        r->raw = *f;
        return KILN_OK;
    case 13: TRY(wire_expect(w, f, WIRE_BYTES)); return take_external(r, wire_message(w, f));
    case 14:
        TRY(wire_expect(w, f, WIRE_VARINT));
        if (f->value > 1) return wire_bad(w, f->begin, "tensor \"%.80s\" lies in no known place", r->c->name);
        r->external = f->value == 1;
        return KILN_OK;
    default: return KILN_OK;
    }
}

// Goes through the numbers of the field that the data type says; any other list is an error.
static kiln_status read_list(struct reading *r, struct wire w)
{
    static const uint8_t lists[] = {4, 5, 6, 7, 10, 11};
    struct wire_field f;
    uint8_t mine = data_types[r->data_type].list;
    r->n = 0;
    for (bool more = true; more;) {
        TRY(wire_next(&w, &f, &more));
        if (!more) break;
        if (!memchr(lists, (int)(f.number < 256 ? f.number : 0), sizeof lists)) continue;
        if (f.number != mine)
            return wire_bad(&w, f.begin, "tensor \"%.80s\" of %s has numbers in field %u", r->c->name,
                            data_types[r->data_type].text, (unsigned)f.number);
        TRY(wire_numbers(&w, &f, mine == 4 ? WIRE_4 : mine == 10 ? WIRE_8 : WIRE_VARINT, take_number, r));
    }
    return KILN_OK;
}

static kiln_status wrong_size(const struct reading *r, unsigned long long has)
{
    return error_set(KILN_E_FORMAT, "%s: tensor \"%.80s\" has %lld elements of %s, its data %llu bytes", r->m->where,
                     r->c->name, (long long)r->c->host.numel, data_types[r->data_type].text, has);
}

static kiln_status find_data(struct reading *r, const struct wire *w)
{
    count_items(r);
    uint64_t size_B = (uint64_t)r->n_items * r->item_B;
    if (r->external) {
        struct onnx_external *e = r->c->external;
        if (!e || !*e->location)
            return error_set(KILN_E_FORMAT, "%s: tensor \"%.80s\" lies in another file, and which one is not said",
                             r->m->where, r->c->name);
        if (e->size_B == UINT64_MAX) e->size_B = size_B;
        return e->size_B == size_B ? KILN_OK : wrong_size(r, e->size_B);
    }
    r->c->external = NULL;
    TRY(read_list(r, *w));
    if (r->has_raw) {
        if (r->n) return error_set(KILN_E_FORMAT, "%s: tensor \"%.80s\" has its data twice", r->m->where, r->c->name);
        r->c->raw = r->raw.data;
        return r->raw.size_B == size_B ? KILN_OK : wrong_size(r, r->raw.size_B);
    }
    if (r->n != r->n_items) return wrong_size(r, (unsigned long long)r->n * r->item_B);
    // Beside the memory that is counted: at most eight times what the file has for them.
    r->to = r->c->list = malloc((size_t)size_B + 1);
    if (!r->to) return error_set(KILN_E_MEMORY, "%s: no memory for tensor \"%.80s\"", r->m->where, r->c->name);
    r->n_max = r->n_items;
    r->c->raw = r->to;
    return read_list(r, *w);
}

kiln_status onnx_parse_tensor(struct onnx_model *m, struct wire w, struct onnx_constant *c)
{
    struct reading r = {.m = m, .c = c};
    struct wire again = w, named = w;
    struct wire_field f;
    kiln_dtype dtype;
    c->name = "";
    for (bool more = true; more;) { // the name first, for messages
        TRY(wire_next(&named, &f, &more));
        if (!more || f.number != 8) continue;
        TRY(wire_expect(&named, &f, WIRE_BYTES));
        TRY(onnx_take_text(m, &named, f.data, f.size_B, &c->name));
    }
    for (bool more = true; more;) {
        TRY(wire_next(&w, &f, &more));
        if (more) TRY(take_field(&r, &w, &f));
    }
    if (!onnx_dtype(r.data_type, &dtype))
        return error_set(KILN_E_UNSUPPORTED, "%s: tensor \"%.80s\" has the type %s", m->where, c->name,
                         onnx_dtype_text(r.data_type));
    c->host.dtype = (uint8_t)dtype;
    TRY(count_elements(&r, &c->host));
    return find_data(&r, &again);
}
