// Modules are much alike, in families. A module is packed as four planes of bytes (identifiers differ from module to
// module in their low bytes only), each deflated with the same plane of a reference as dictionary: a module packed
// before. One that no reference makes much smaller is one for those that follow. To unpack a module its reference must
// be unpacked, so chains of them are short.
//
// Input: modules, one after another. Output: for each, its bytes and its reference.
// Invariant: a reference has a lower number of references below it than MAX_DEPTH.
#include "codegen/gen/spirv_pack.h"
#include <zlib.h>

enum { CANDIDATES = 40, MAX_DEPTH = 8, ENOUGH = 4, TRIAL_LEVEL = 6, BEST_LEVEL = 9 };

static uint8_t *planes_of(struct arena *a, const uint32_t *words, size_t n)
{
    uint8_t *planes = arena_alloc(a, n * 4);
    for (size_t i = 0; planes && i < n; i++) {
        for (size_t p = 0; p < 4; p++) planes[p * n + i] = (uint8_t)(words[i] >> (8 * p));
    }
    return planes;
}

// The size of one plane, deflated to `out`; 0: no memory.
static size_t deflate_plane(const uint8_t *plane, size_t n, const uint8_t *like, size_t n_like, int level, uint8_t *out,
                            size_t cap)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)plane, .avail_in = (uInt)n, .next_out = out, .avail_out = (uInt)cap};
    if (deflateInit2(&z, level, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) != Z_OK) return 0;
    bool ok = (!like || deflateSetDictionary(&z, like, (uInt)n_like) == Z_OK) && deflate(&z, Z_FINISH) == Z_STREAM_END;
    deflateEnd(&z);
    return ok ? cap - z.avail_out : 0;
}

// All planes with this reference, NULL: with none.
static size_t pack(const uint8_t *planes, size_t n, const struct packer_reference *r, uint8_t *out, size_t cap)
{
    size_t at = 0;
    for (size_t p = 0; p < 4; p++) {
        size_t packed_B = deflate_plane(planes + p * n, n, r ? r->planes + p * r->n_words : NULL, r ? r->n_words : 0,
                                        BEST_LEVEL, out + at, cap - at);
        if (!packed_B) return 0;
        at += packed_B;
    }
    return at;
}

static size_t distance(const struct packer_reference *r, size_t n)
{
    return r->n_words > n ? r->n_words - n : n - r->n_words;
}

// The references nearest in size, of equally near ones the latest.
static int nearest(const struct spirv_packer *p, size_t n, const struct packer_reference *found[CANDIDATES])
{
    int count = 0;
    for (int i = p->n - 1; i >= 0; i--) {
        const struct packer_reference *r = &p->v[i];
        if (r->depth >= MAX_DEPTH) continue;
        int at = count < CANDIDATES ? count++ : CANDIDATES;
        for (; at > 0 && distance(r, n) < distance(found[at - 1], n); at--)
            if (at < CANDIDATES) found[at] = found[at - 1];
        if (at < CANDIDATES) found[at] = r;
    }
    return count;
}

// The reference with which the lowest plane, the one of most content, is smallest.
static const struct packer_reference *choose(const struct spirv_packer *p, const uint8_t *planes, size_t n,
                                             uint8_t *scratch, size_t cap)
{
    const struct packer_reference *found[CANDIDATES], *best = NULL;
    size_t best_B = SIZE_MAX;
    int count = nearest(p, n, found);
    for (int i = 0; i < count; i++) {
        size_t size_B = deflate_plane(planes, n, found[i]->planes, found[i]->n_words, TRIAL_LEVEL, scratch, cap);
        if (!size_B || size_B >= best_B) continue;
        best_B = size_B;
        best = found[i];
    }
    return best;
}

kiln_status packer_add(struct spirv_packer *p, int number, const uint32_t *words, size_t n_words,
                       struct packed_module *out)
{
    size_t cap = n_words * 4 + 4096;
    uint8_t *planes = planes_of(p->arena, words, n_words), *alone = arena_alloc(p->arena, cap),
            *with = arena_alloc(p->arena, cap);
    if (!planes || !alone || !with) return error_pending;
    size_t alone_B = pack(planes, n_words, NULL, alone, cap), with_B = SIZE_MAX;
    const struct packer_reference *r = choose(p, planes, n_words, with, cap);
    if (r) with_B = pack(planes, n_words, r, with, cap);
    if (!alone_B || !with_B) return error_set(KILN_E_MEMORY, "a module cannot be packed");
    bool refers = with_B < alone_B;
    if (with_B > alone_B / ENOUGH && p->n < PACK_MODULES_MAX)
        p->v[p->n++] = (struct packer_reference){number, refers ? r->depth + 1 : 0, n_words, planes};
    *out = (struct packed_module){refers ? with : alone, refers ? with_B : alone_B, refers ? r->number : -1};
    return KILN_OK;
}
