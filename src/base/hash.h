// 64-bit hashes for tables in memory and for names of cache files. Not for anything an opponent may choose.
//
// One step multiplies two 64-bit words to 128 bits and folds the halves (the mixer of wyhash): every input bit reaches
// every output bit. hash_bytes takes the input 8 bytes at a time, the last word zero-padded, and mixes in the length,
// so that inputs that differ in trailing zeros differ in hash. The value depends on the byte order of the machine.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef unsigned __int128 hash_u128;

static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
    hash_u128 product = (hash_u128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// Continues the hash h with one word.
static inline uint64_t hash_u64(uint64_t h, uint64_t word)
{
    return hash_mix(h ^ 0xa0761d6478bd642fu, word ^ 0xe7037ed1a0b428dbu);
}

// Continues the hash h (0 to begin) with size_B bytes.
static inline uint64_t hash_bytes(uint64_t h, const void *data, size_t size_B)
{
    const unsigned char *at = data;
    uint64_t word;
    size_t left_B = size_B;
    for (; left_B >= sizeof word; left_B -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        h = hash_u64(h, word);
    }
    if (left_B) {
        word = 0;
        memcpy(&word, at, left_B);
        h = hash_u64(h, word);
    }
    return hash_u64(h, size_B);
}

static inline uint64_t hash_str(const char *text)
{
    return hash_bytes(0, text, strlen(text));
}
