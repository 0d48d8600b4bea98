// Attention, of whole sequences and of new places behind a cache.
//
// On the CPU and on GPUs it is flash_attention, where that can do it. Else it is said as the two products with a
// softmax between that fusion looks for (fuse/attention.c). Where queries share the heads of keys, these get an axis
// more, over which the keys are broadcast; of single queries that axis takes the place of the queries', so that the
// products are of matrices.
#include "compose/composite.h"

#include <math.h>
#include <string.h>

struct heads {
    size_t rank;    // of the scores
    int64_t shared; // queries' heads that one head of the keys serves
    int64_t length, keys;
};

static bool fail(const char *what, kiln_tensor *q, kiln_tensor *k, kiln_tensor *v)
{
    error_set(KILN_E_SHAPE, "%s; q is %s, k is %s, v is %s", what, type_of(q).s, type_of(k).s, type_of(v).s);
    return false;
}

static bool read_heads(kiln_tensor *q, kiln_tensor *k, kiln_tensor *v, struct heads *h)
{
    size_t rank = kiln_rank(q), of_k = kiln_rank(k), of_v = kiln_rank(v);
    *h = (struct heads){.rank = rank, .shared = 1};
    if (rank < 2 || of_k < 2 || of_v < 2) return fail("q, k and v must be at least matrices", q, k, v);
    const int64_t *dq = kiln_dims(q), *dk = kiln_dims(k), *dv = kiln_dims(v);
    h->length = dq[rank - 2];
    h->keys = dk[of_k - 2];
    if (dq[rank - 1] != dk[of_k - 1]) return fail("the last axes of q and k must agree", q, k, v);
    if (dk[of_k - 2] != dv[of_v - 2]) return fail("k and v must have as many places", q, k, v);
    if (rank < 3 || of_k < 3 || dk[of_k - 3] <= 1 || dq[rank - 3] == dk[of_k - 3]) return true;
    if (of_v != of_k || of_k != rank || dv[of_v - 3] != dk[of_k - 3] || dq[rank - 3] % dk[of_k - 3] ||
        rank == KILN_MAX_RANK)
        return fail("heads of k and v must be as many and divide those of q", q, k, v);
    h->shared = dq[rank - 3] / dk[of_k - 3];
    return true;
}

// [..., heads, A, B] with heads as two axes; a single head stays one.
static kiln_tensor *by_shared(kiln_tensor *t, const struct heads *h)
{
    int64_t dims[KILN_MAX_RANK];
    size_t rank = kiln_rank(t), n = 0;
    if (rank < 3) return t;
    for (size_t i = 0; i < rank; i++) {
        int64_t d = kiln_dims(t)[i];
        if (i + 3 == rank) {
            dims[n++] = d == 1 ? 1 : d / h->shared;
            d = d == 1 ? 1 : h->shared;
        }
        dims[n++] = d;
    }
    return kiln_reshape(t, n, dims);
}

static bool mask_fits(kiln_tensor *mask, kiln_tensor *q, const struct heads *h)
{
    size_t rank = kiln_rank(mask);
    bool fits = rank <= h->rank;
    for (size_t i = 0; fits && i < rank; i++) {
        size_t from_end = rank - i;
        int64_t d = kiln_dims(mask)[i];
        int64_t want = from_end == 1 ? h->keys : kiln_dims(q)[h->rank - from_end];
        fits = d == 1 || d == want;
    }
    if (!fits)
        error_set(KILN_E_SHAPE, "mask must broadcast to the scores [...,%lld,%lld], it is %s, q is %s",
                  (long long)h->length, (long long)h->keys, type_of(mask).s, type_of(q).s);
    return fits;
}

// Whether query i, which stands at place first + i, sees key j: j <= first + i.
static kiln_tensor *sees(kiln_tensor *q, const struct heads *h, kiln_tensor *first)
{
    kiln_device *dev = kiln_tensor_device(q);
    kiln_tensor *key = kiln_arange(dev, KILN_I32, 0, (double)h->keys, 1);
    kiln_tensor *query = kiln_unsqueeze(kiln_arange(dev, KILN_I32, 0, (double)h->length, 1), 1);
    return kiln_less_equal(key, kiln_add(query, first));
}

static kiln_tensor *masked(kiln_tensor *scores, kiln_tensor *mask, const struct heads *h)
{
    if (!mask) return scores;
    if (h->shared > 1) mask = by_shared(mask, h);
    if (kiln_tensor_dtype(mask) != KILN_BOOL) return kiln_add(scores, mask);
    return kiln_where(mask, scores, kiln_scalar(-INFINITY));
}

static kiln_tensor *capped(kiln_tensor *scores, double cap)
{
    if (cap == 0) return scores;
    return kiln_mul(kiln_tanh(kiln_mul(scores, kiln_scalar(1 / cap))), kiln_scalar(cap));
}

static bool is_float(kiln_tensor *t)
{
    kiln_dtype dtype = kiln_tensor_dtype(t);
    return dtype == KILN_F16 || dtype == KILN_BF16 || dtype == KILN_F32 || dtype == KILN_F64;
}

static bool is_f64(kiln_tensor *t)
{
    return kiln_tensor_dtype(t) == KILN_F64;
}

static bool is_empty(kiln_tensor *t)
{
    return kiln_dim(t, -1) == 0 || kiln_dim(t, -2) == 0;
}

// Several queries. One alone is two products of a vector, whose scores are few.
static bool goes_by_blocks(kiln_tensor *q, kiln_tensor *k, kiln_tensor *v, kiln_tensor *mask, const struct heads *h,
                           const kiln_attention_opts *o)
{
    kiln_device_info info = {.size = sizeof info};
    if (h->length == 1 || o->dropout > 0 || o->softcap > 0) return false;
    if (!is_float(q) || !is_float(k) || !is_float(v) || is_empty(q) || is_empty(k) || is_empty(v)) return false;
    if (mask && kiln_tensor_dtype(mask) != KILN_BOOL && !is_float(mask)) return false;
    if (kiln_device_get_info(kiln_tensor_device(q), &info)) return false;
    if (!strcmp(info.kind, "cpu")) return true;
    // GPUs compute exponentials in f32 alone; a processor that plays one makes scores as fast as it makes them again.
    return !info.software && !is_f64(q) && !is_f64(k) && !is_f64(v) && !(mask && is_f64(mask));
}

static kiln_tensor *by_blocks(kiln_tensor *q, kiln_tensor *k, kiln_tensor *v, kiln_tensor *mask, double scale,
                              const struct heads *h, const kiln_attention_opts *o)
{
    kiln_tensor *y = NULL, *stats = NULL;
    int64_t dims[KILN_MAX_RANK];
    kiln_flash_attention_opts opts = {.size = sizeof opts, .scale = scale, .causal = o->causal, .mask = mask};
    memcpy(dims, kiln_dims(q), h->rank * sizeof *dims);
    dims[h->rank - 1] = kiln_dims(v)[kiln_rank(v) - 1];
    if (h->shared == 1) {
        kiln_flash_attention(q, k, v, &opts, &y, &stats);
        return y;
    }
    if (mask) opts.mask = by_shared(mask, h);
    kiln_flash_attention(by_shared(q, h), kiln_unsqueeze(k, -3), kiln_unsqueeze(v, -3), &opts, &y, &stats);
    return kiln_reshape(y, h->rank, dims);
}

// softmax(q k^T) v of scaled q; `seen` and `mask` may be NULL.
static kiln_tensor *attend(kiln_tensor *q, kiln_tensor *k, kiln_tensor *v, kiln_tensor *mask, kiln_tensor *seen,
                           const struct heads *h, const kiln_attention_opts *o)
{
    kiln_tensor *scores = capped(kiln_matmul(q, kiln_transpose(k, -2, -1)), o->softcap);
    kiln_tensor *weights = kiln_softmax(masked(masked(scores, mask, h), seen, h), -1);
    if (o->dropout > 0) weights = kiln_dropout(weights, o->dropout);
    return kiln_matmul(weights, v);
}

// The result with its heads as one axis again.
static kiln_tensor *attend_shared(kiln_tensor *q, kiln_tensor *k, kiln_tensor *v, kiln_tensor *mask, kiln_tensor *seen,
                                  const struct heads *h, const kiln_attention_opts *o)
{
    int64_t dims[KILN_MAX_RANK];
    memcpy(dims, kiln_dims(q), h->rank * sizeof *dims);
    dims[h->rank - 1] = kiln_dims(v)[kiln_rank(v) - 1];
    kiln_tensor *y;
    if (h->length == 1 && !mask && (!seen || kiln_rank(seen) == 2)) {
        // Each query of a group is a row.
        q = kiln_squeeze(by_shared(q, h), KILN_AXES(-2));
        struct heads rows = *h;
        rows.shared = 1;
        y = attend(q, k, v, NULL, seen, &rows, o);
    } else {
        y = attend(by_shared(q, h), kiln_unsqueeze(k, -3), kiln_unsqueeze(v, -3), mask, seen, h, o);
    }
    return kiln_reshape(y, h->rank, dims);
}

static bool options_fit(const kiln_attention_opts *o)
{
    if (o->dropout >= 0 && o->dropout < 1 && o->softcap >= 0) return true;
    error_set(KILN_E_ARGUMENT, ".dropout must be in [0, 1) and .softcap not negative, got %g and %g", o->dropout,
              o->softcap);
    return false;
}

static double scale_of(kiln_tensor *q, const kiln_attention_opts *o)
{
    int64_t width = kiln_dim(q, -1);
    return o->scale != 0 ? o->scale : 1 / sqrt(width > 0 ? (double)width : 1);
}

static kiln_tensor *attention(kiln_tensor *q, kiln_tensor *k, kiln_tensor *v, kiln_tensor *mask, kiln_tensor *seen,
                              const struct heads *h, const kiln_attention_opts *o)
{
    q = kiln_mul(q, kiln_scalar(scale_of(q, o)));
    return h->shared > 1 ? attend_shared(q, k, v, mask, seen, h, o) : attend(q, k, v, mask, seen, h, o);
}

kiln_tensor *compose_scaled_dot_product_attention(kiln_tensor *q, kiln_tensor *k, kiln_tensor *v, kiln_tensor *mask,
                                                  const kiln_attention_opts *o)
{
    struct heads h;
    kiln_tensor *seen = NULL;
    if (!options_fit(o) || !read_heads(q, k, v, &h) || (mask && !mask_fits(mask, q, &h))) return NULL;
    if (o->causal && h.length > h.keys) {
        fail("causal queries must not be more than keys", q, k, v);
        return NULL;
    }
    if (goes_by_blocks(q, k, v, mask, &h, o)) return by_blocks(q, k, v, mask, scale_of(q, o), &h, o);
    // A single query at the end sees all.
    if (o->causal && h.length > 1) seen = sees(q, &h, kiln_scalar_int(h.keys - h.length));
    return attention(q, k, v, mask, seen, &h, o);
}

static bool caches_fit(kiln_tensor *const *t, kiln_tensor *position)
{
    size_t rank = kiln_rank(t[0]);
    bool fits = rank >= 3;
    for (int i = 1; fits && i < 5; i++) fits = kiln_rank(t[i]) == rank;
    for (int i = 0; fits && i < 2; i++) {
        const int64_t *new = kiln_dims(t[1 + i]), *cache = kiln_dims(t[3 + i]);
        for (size_t d = 0; fits && d < rank; d++) fits = d + 2 == rank ? new[d] <= cache[d] : new[d] == cache[d];
    }
    fits = fits && kiln_dims(t[0])[rank - 2] == kiln_dims(t[1])[rank - 2];
    if (!fits) {
        error_set(KILN_E_SHAPE,
                  "q, k and v must have as many places and fit in the caches; q is %s, k is %s, v is %s, k_cache is "
                  "%s, v_cache is %s",
                  type_of(t[0]).s, type_of(t[1]).s, type_of(t[2]).s, type_of(t[3]).s, type_of(t[4]).s);
        return false;
    }
    if (kiln_rank(position) == 0 || (kiln_rank(position) == 1 && kiln_dims(position)[0] == kiln_dims(t[0])[0]))
        return true;
    error_set(KILN_E_SHAPE, "position must be one number, or one for each of the first axis of q, it is %s, q is %s",
              type_of(position).s, type_of(t[0]).s);
    return false;
}

kiln_status compose_attention_cached(kiln_tensor *q, kiln_tensor *k, kiln_tensor *v, kiln_tensor *k_cache,
                                     kiln_tensor *v_cache, kiln_tensor *position, const kiln_attention_opts *o,
                                     kiln_tensor **y, kiln_tensor **k_next, kiln_tensor **v_next)
{
    struct heads h;
    kiln_tensor *all[] = {q, k, v, k_cache, v_cache};
    if (!options_fit(o) || !caches_fit(all, position)) return error_pending;
    if (!read_heads(q, k_cache, v_cache, &h)) return error_pending;
    int64_t ones[KILN_MAX_RANK];
    for (size_t i = 0; i < h.rank; i++) ones[i] = 1;
    if (kiln_rank(position)) {
        ones[0] = kiln_dims(position)[0];
        position = kiln_reshape(position, h.rank, ones);
    }
    *k_next = kiln_update_at(k_cache, -2, position, k);
    *v_next = kiln_update_at(v_cache, -2, position, v);
    *y = attention(q, *k_next, *v_next, NULL, sees(q, &h, position), &h, o);
    return error_pending;
}
