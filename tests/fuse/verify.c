// The verifier of fused kernels: a kernel that is right passes, and each of its rules finds the kernel that breaks it.
#include "fused_fixture.h"
#include "fuse/fuse.h"
#include "fuse/product.h"

static struct fused_case c;
static struct unit_buffer buffers[FUSED_MAX_IN + FUSED_MAX_OUT];

// The kernel can be changed now: nodes and levels are the case's own.
static struct scalar_node *node(int i)
{
    return (struct scalar_node *)(uintptr_t)&c.k.dag.nodes[i];
}

static int find(enum scalar_kind kind, int code)
{
    for (int i = 0; i < c.k.dag.n_nodes; i++)
        if (c.k.dag.nodes[i].kind == kind && (code < 0 || c.k.dag.nodes[i].code == code)) return i;
    fail_msg("no such node");
    return -1;
}

static void finish(void)
{
    case_finish(&c);
    for (int i = 0; i < c.k.n_in + c.k.n_out; i++) {
        const struct fused_access *a = fused_access_at(&c.k, i);
        buffers[i] = (struct unit_buffer){.kind = BUFFER_VALUE, .dtype = a->dtype};
        buffers[i].numel = (int64_t)(c.size_B[i] / dtype_size_B[a->dtype]);
    }
    if (fused_verify(&c.k, buffers)) fail_msg("%s", kiln_error_message());
}

static void expect(const char *what)
{
    assert_int_equal(fused_verify(&c.k, buffers), KILN_E_INTERNAL);
    if (!strstr(kiln_error_message(), what)) fail_msg("\"%s\" is not about \"%s\"", kiln_error_message(), what);
    kiln_error_clear();
    case_end(&c);
}

// out[i] = sum over k of (x[i, k] > y[k] ? x[i, k] : y[k]), and the place of the largest x
static void begin_rows(void)
{
    case_begin(&c, 2, 1, (const int64_t[]){4, 6});
    int x = case_in(&c, KILN_F32, (const int64_t[]){6, 1}), y = case_in(&c, KILN_F32, (const int64_t[]){0, 1});
    int larger = dag_prim(&c.b, PRIM_select, dag_prim(&c.b, PRIM_gt, x, y, 0), x, y);
    case_out(&c, dag_reduce(&c.b, REDUCE_SUM, larger), KILN_F32, (const int64_t[]){1, 0});
    case_out(&c, dag_reduce(&c.b, REDUCE_ARGMAX, x), KILN_I64, (const int64_t[]){1, 0});
    finish();
}

// out[m, n] = sum over k of a[m, k] * b[k, n]
static void begin_product(void)
{
    case_begin(&c, 3, 1, (const int64_t[]){4, 5, 6});
    int a = case_in(&c, KILN_F32, (const int64_t[]){6, 0, 1}), b = case_in(&c, KILN_F32, (const int64_t[]){0, 1, 5});
    int sum = dag_reduce(&c.b, REDUCE_SUM, dag_prim(&c.b, PRIM_mul, a, b, 0));
    case_out(&c, sum, KILN_F32, (const int64_t[]){5, 1, 0});
    finish();
    assert_true(product_find(&c.k));
    assert_int_equal(c.k.product.n_m, 1);
    if (fused_verify(&c.k, buffers)) fail_msg("%s", kiln_error_message());
}

static void classes(void **state)
{
    begin_rows();
    node(find(SCALAR_PRIM, PRIM_gt))->cls = CLASS_F32;
    expect("in a class that it does not have");
    begin_rows();
    node(find(SCALAR_PRIM, PRIM_select))->arg[0] = (uint16_t)find(SCALAR_LOAD, 0);
    expect("selects by what is no bool");
    begin_rows();
    node(find(SCALAR_PRIM, PRIM_select))->arg[2] = (uint16_t)find(SCALAR_PRIM, PRIM_gt);
    expect("takes arguments of several classes");
    begin_rows();
    node(find(SCALAR_PRIM, PRIM_gt))->n_args = 1;
    expect("is no primitive");
    begin_rows();
    node(find(SCALAR_REDUCE, REDUCE_SUM))->code = REDUCE_ARGMIN;
    expect("reduces into another class");
}

static void levels(void **state)
{
    begin_rows();
    c.k.level[find(SCALAR_PRIM, PRIM_gt)] = LEVEL_ROW;
    expect("levels");
    begin_rows();
    c.k.n_stages++;
    expect("levels");
    begin_rows();
    c.k.in[0].strides[1] = 0; // x is the same along the row now
    expect("levels");
}

static void products(void **state)
{
    begin_product();
    c.k.product.n_n = 2;
    expect("a product of other dimensions");
    begin_product();
    c.k.product.a = c.k.product.b;
    expect("is no sum of the factors' products");
    begin_product();
    node(c.k.product.sum)->code = REDUCE_PROD;
    expect("is no sum of the factors' products");
    begin_product();
    uint16_t a = c.k.product.a;
    c.k.product.a = c.k.product.b;
    c.k.product.b = a;
    expect("depends on the columns");
    begin_product();
    c.k.in[1].strides[0] = 30; // a batch of one row each
    expect("depends on the rows");
}

// What the verifier looks at in attention: out[m, d] = sum over n, k of q[m, k] * key[n, k] * v[n, d]
static void begin_attention(void)
{
    case_begin(&c, 4, 2, (const int64_t[]){2, 3, 4, 5}); // m, d, n, k
    int q = case_in(&c, KILN_F32, (const int64_t[]){5, 0, 0, 1}),
        key = case_in(&c, KILN_F32, (const int64_t[]){0, 0, 5, 1}),
        v = case_in(&c, KILN_F32, (const int64_t[]){0, 1, 3, 0});
    int sum = dag_reduce(&c.b, REDUCE_SUM, dag_prim(&c.b, PRIM_mul, dag_prim(&c.b, PRIM_mul, q, key, 0), v, 0));
    case_out(&c, sum, KILN_F32, (const int64_t[]){3, 1, 0, 0});
    finish();
    c.k.attention = (struct fused_attention){.n_m = 1, .n_d = 1, .n_n = 1, .n_k = 1};
    c.k.attention.q = (uint16_t)find(SCALAR_LOAD, 0);
    c.k.attention.k = (uint16_t)find(SCALAR_LOAD, 1);
    c.k.attention.v = (uint16_t)find(SCALAR_LOAD, 2);
    if (fused_verify(&c.k, buffers)) fail_msg("%s", kiln_error_message());
}

static void attentions(void **state)
{
    struct fused_attention *t = &c.k.attention;
    begin_attention();
    t->n_batch = 1;
    expect("attention over other dimensions");
    begin_attention();
    t->q = t->k;
    expect("a query that depends on keys or values");
    begin_attention();
    t->k = t->q;
    expect("a key that depends on queries or values");
    begin_attention();
    t->v = t->k;
    expect("a value that depends on queries or keys");
}

static void memory(void **state)
{
    begin_rows();
    c.k.out[0].to.strides[0] = 0;
    expect("is stored twice in one place");
    begin_rows();
    buffers[0].numel--;
    expect("access 0 reaches around");
    begin_rows();
    buffers[2].numel--;
    expect("access 2 reaches around");
    begin_rows();
    c.k.in[1].offset = -1;
    expect("access 1 reaches around");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes),    cmocka_unit_test(levels), cmocka_unit_test(products),
        cmocka_unit_test(attentions), cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
