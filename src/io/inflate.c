// Packing and unpacking of whole buffers by zlib, in pieces that its counters can hold.
#include "io/inflate.h"
#include "io/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <zlib.h>

enum { PIECE_B = 1 << 30 }; // zlib counts in 32 bits

static uInt piece(uint64_t left_B)
{
    return left_B < PIECE_B ? (uInt)left_B : PIECE_B;
}

bool inflate_can_be(uint64_t packed_B, uint64_t size_B)
{
    return size_B / 1032 <= packed_B;
}

uint32_t io_crc(uint32_t crc, const void *data, uint64_t size_B)
{
    const unsigned char *at = data;
    for (uint64_t left_B = size_B; left_B; at += piece(left_B), left_B -= piece(left_B))
        crc = (uint32_t)crc32(crc, at, piece(left_B));
    return crc;
}

// Runs the stream over the whole input and output; returns zlib's last answer.
static int run(z_stream *z, int (*step)(z_stream *, int), const void *in, uint64_t in_B, uint64_t *in_left_B, void *out,
               uint64_t out_B, uint64_t *out_left_B)
{
    uint64_t in_later_B = in_B, out_later_B = out_B;
    z->next_in = (Bytef *)in;
    z->next_out = out;
    int answer = Z_OK;
    while (answer == Z_OK) {
        if (z->avail_in == 0) in_later_B -= z->avail_in = piece(in_later_B);
        if (z->avail_out == 0) out_later_B -= z->avail_out = piece(out_later_B);
        answer = step(z, in_later_B ? Z_NO_FLUSH : Z_FINISH);
        // With more input or room to come, neither is an end.
        if (answer == Z_BUF_ERROR && ((!z->avail_in && in_later_B) || (!z->avail_out && out_later_B))) answer = Z_OK;
    }
    *in_left_B = in_later_B + z->avail_in;
    *out_left_B = out_later_B + z->avail_out;
    return answer;
}

kiln_status inflate_raw(const char *where, const void *packed, uint64_t packed_B, void *out, uint64_t size_B)
{
    z_stream z = {0};
    unsigned char none;
    uint64_t in_left_B, out_left_B;
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return error_set(KILN_E_MEMORY, "%s: no memory for zlib", where);
    int answer = run(&z, inflate, packed, packed_B, &in_left_B, size_B ? out : &none, size_B, &out_left_B);
    inflateEnd(&z);
    if (answer == Z_MEM_ERROR) return error_set(KILN_E_MEMORY, "%s: no memory for zlib", where);
    if (answer == Z_STREAM_END && !in_left_B && !out_left_B) return KILN_OK;
    const char *what = answer == Z_STREAM_END ? "has another size than the header says" : "is broken or cut off";
    return error_set(KILN_E_FORMAT, "%s: the compressed data %s (%" PRIu64 " bytes)", where, what, size_B);
}

kiln_status deflate_raw(const char *where, const void *data, uint64_t size_B, void **packed, uint64_t *packed_B)
{
    z_stream z = {0};
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        return error_set(KILN_E_MEMORY, "%s: no memory for zlib", where);
    }
    uint64_t bound_B = deflateBound(&z, size_B), in_left_B, out_left_B;
    kiln_status status = io_alloc(where, bound_B, packed);
    if (!status) {
        int answer = run(&z, deflate, data, size_B, &in_left_B, *packed, bound_B, &out_left_B);
        *packed_B = bound_B - out_left_B;
        if (answer != Z_STREAM_END) status = error_set(KILN_E_INTERNAL, "%s: zlib answers %d", where, answer);
        if (status) free(*packed);
    }
    deflateEnd(&z);
    if (status) *packed = NULL;
    return status;
}
