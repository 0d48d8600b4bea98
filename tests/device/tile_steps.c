// Products and sums of rows on a Vulkan device, eager and fused, against sums in f64, in whichever tiles the
// environment and the cache folder ask for. Prints a hash of the products' bits and one of the sums', whose order
// depends on the tile. usage: tile_steps
#include <inttypes.h>
#include <kiln/kiln.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int n_wrong;

static uint64_t hash_of(uint64_t hash, const void *data, size_t size_B)
{
    for (size_t i = 0; i < size_B; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static float value(int64_t i)
{
    return (float)((i * 7919 + 13) % 4001 - 2000) / 1000;
}

static kiln_tensor *values(kiln_device *dev, int64_t rows, int64_t columns)
{
    float *p = malloc((size_t)(rows * columns) * sizeof *p);
    for (int64_t i = 0; i < rows * columns; i++) p[i] = value(i);
    kiln_tensor *t = kiln_from_data(dev, KILN_F32, KILN_SHAPE(rows, columns), p);
    free(p);
    return t;
}

// Sums in any order are off by at most a rounding of the sum of magnitudes a term.
static void compare(const char *what, int64_t terms, int64_t at, double got, double want, double magnitudes)
{
    if (fabs(got - want) <= (double)(terms + 2) * 0x1p-24 * magnitudes) return;
    if (n_wrong++ < 20) printf("%s of %" PRId64 " terms, %" PRId64 ": %.9g, not %.9g\n", what, terms, at, got, want);
}

static uint64_t check_product(const char *what, kiln_tensor *y, int64_t m, int64_t n, int64_t k, double more)
{
    size_t size_B = (size_t)(m * n) * sizeof(float);
    float *got = calloc(1, size_B);
    kiln_read(y, got, size_B);
    for (int64_t e = 0; e < m * n; e++) {
        double sum = more, magnitudes = fabs(more);
        for (int64_t q = 0; q < k; q++) {
            double term = (double)value(e / n * k + q) * (double)value(q * n + e % n);
            sum += term, magnitudes += fabs(term);
        }
        compare(what, k, e, (double)got[e], sum, magnitudes);
    }
    uint64_t hash = hash_of(1, got, size_B);
    free(got);
    return hash;
}

static kiln_status product_and_one(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_add(kiln_matmul(in[0], in[1]), kiln_scalar(1));
    return KILN_OK;
}

static uint64_t products(kiln_device *dev)
{
    const int64_t m = 127, n = 65, k = 33;
    kiln_tensor *in[] = {values(dev, m, k), values(dev, k, n)}, *y;
    kiln_function *f = kiln_jit(product_and_one, NULL, NULL);
    uint64_t hash = check_product("a product", kiln_matmul(in[0], in[1]), m, n, k, 0);
    if (!kiln_call(f, in, 2, &y, 1)) hash ^= check_product("a fused product", y, m, n, k, 1);
    kiln_function_free(&f);
    return hash;
}

static uint64_t sums(kiln_device *dev, int64_t rows, int64_t length)
{
    float got[8] = {0};
    kiln_read(kiln_sum(values(dev, rows, length), KILN_REDUCE(.axes = KILN_AXES(1))), got, (size_t)rows * sizeof *got);
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0, magnitudes = 0;
        for (int64_t j = i * length; j < (i + 1) * length; j++) {
            sum += (double)value(j), magnitudes += fabs((double)value(j));
        }
        compare("a sum", length, i, (double)got[i], sum, magnitudes);
    }
    return hash_of(1, got, sizeof got);
}

int main(void)
{
    kiln_device *dev = kiln_device_open("vulkan");
    if (!dev) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return 77;
    }
    kiln_scope *scope = kiln_scope_begin();
    uint64_t of_products = products(dev), of_sums = sums(dev, 3, 4099);
    kiln_scope_end(&scope);
    if (kiln_error()) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return 1;
    }
    printf("%016" PRIx64 " %016" PRIx64 "\n", of_products, of_sums);
    kiln_device_close(&dev);
    return n_wrong ? 1 : 0;
}
