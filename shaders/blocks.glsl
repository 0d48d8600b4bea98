// Elements of rows that are packed in blocks; VARIANT_0: the format. Layouts: see src/base/blocks.h.
const uint Q4_0 = 2, Q8_0 = 8, Q4_K = 12, Q6_K = 14;

uint byte_at(const uint64_t at) { return uint(Memory8(at).v); }
float half_at(const uint64_t at) { return unpackHalf2x16(byte_at(at) | byte_at(at + 1ul) << 8).x; }
int as_signed(const uint byte) { return int(byte << 24) >> 24; }

// Scale and least value of a group of 32 in q4_K.
vec2 scale_and_least(const uint64_t s, const uint group)
{
    if (group < 4u) return vec2(byte_at(s + group) & 63u, byte_at(s + group + 4u) & 63u);
    uint low = byte_at(s + group + 4u);
    return vec2((low & 15u) | byte_at(s + group - 4u) >> 6 << 4, low >> 4 | byte_at(s + group) >> 6 << 4);
}

float element_q4_k(const uint64_t p, const uint i)
{
    uint group = i / 32u;
    precise vec2 scale = vec2(half_at(p), half_at(p + 2ul)) * scale_and_least(p + 4ul, group);
    uint q = byte_at(p + 16ul + group / 2u * 32u + i % 32u) >> group % 2u * 4u & 15u;
    precise float v = scale.x * float(q);
    return v - scale.y;
}

float element_q6_k(const uint64_t p, const uint i)
{
    uint half_block = i / 128u, quarter = i % 128u / 32u;
    uint q = byte_at(p + half_block * 64u + i % 64u) >> quarter / 2u * 4u & 15u;
    q |= (byte_at(p + 128ul + half_block * 32u + i % 32u) >> quarter * 2u & 3u) << 4;
    precise float scale = half_at(p + 208ul) * float(as_signed(byte_at(p + 192ul + i / 16u)));
    return scale * float(int(q) - 32);
}

// Element i of the row that begins at an address.
float element_of(const uint64_t row, const uint i)
{
    uint place = i % 32u;
    if (VARIANT_0 == Q8_0) {
        uint64_t p = row + uint64_t(i / 32u) * 34ul;
        return half_at(p) * float(as_signed(byte_at(p + 2ul + place)));
    }
    if (VARIANT_0 == Q4_0) {
        uint64_t p = row + uint64_t(i / 32u) * 18ul;
        return half_at(p) * float(int(byte_at(p + 2ul + place % 16u) >> place / 16u * 4u & 15u) - 8);
    }
    if (VARIANT_0 == Q4_K) return element_q4_k(row + uint64_t(i / 256u) * 144ul, i % 256u);
    return element_q6_k(row + uint64_t(i / 256u) * 210ul, i % 256u);
}
