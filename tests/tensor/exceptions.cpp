// C++ exceptions that pass through the library: what was called finds all as it was, and writes that were made by then
// have been made. The same as test_jit_leave.c has for longjmp.
#include <kiln/kiln.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace {

int failures;
#define CHECK(what)                                                                   \
    do {                                                                              \
        if (!(what)) {                                                                \
            std::printf("line %d: %s (%s)\n", __LINE__, #what, kiln_error_message()); \
            failures++;                                                               \
        }                                                                             \
    } while (0)

struct leaving {
    kiln_tensor *log, *p;
    kiln_function *inner;
    kiln_cell *cell;
    bool throws;
};

void work(leaving *l, kiln_tensor *x)
{
    kiln_add_(l->log, kiln_scalar(1));
    kiln_exp(x);
    if (l->throws) throw std::runtime_error("left");
}

kiln_status throws(void *user, kiln_tensor *const *in, size_t, kiln_tensor **out, size_t)
{
    kiln_tensor *y = kiln_tanh(in[0]);
    work(static_cast<leaving *>(user), y);
    out[0] = kiln_mul(y, in[0]);
    return kiln_error();
}

kiln_status calls_inner(void *user, kiln_tensor *const *in, size_t, kiln_tensor **out, size_t)
{
    kiln_tensor *twice = kiln_add(in[0], in[0]);
    return kiln_call(static_cast<leaving *>(user)->inner, &twice, 1, out, 1);
}

// It catches what its inner one throws, and goes on.
kiln_status catches(void *user, kiln_tensor *const *in, size_t, kiln_tensor **out, size_t)
{
    leaving *l = static_cast<leaving *>(user);
    kiln_tensor *twice = kiln_add(in[0], in[0]), *made = nullptr;
    try {
        if (kiln_call(l->inner, &twice, 1, &made, 1)) return kiln_error();
    } catch (const std::runtime_error &) {
        kiln_add_(l->log, kiln_scalar(100));
        made = kiln_neg(twice);
    }
    out[0] = kiln_mul(made, kiln_scalar(2));
    return kiln_error();
}

kiln_status differentiates(void *user, kiln_tensor *const *in, size_t, kiln_tensor **out, size_t)
{
    return kiln_value_and_grad(throws, user, in, 1, nullptr, out, 2);
}

kiln_tensor *hook_throws(void *user, kiln_tensor *grad)
{
    work(static_cast<leaving *>(user), grad);
    return kiln_mul(grad, kiln_scalar(2));
}

kiln_status runs_back(void *user, kiln_tensor *const *in, size_t, kiln_tensor **out, size_t)
{
    leaving *l = static_cast<leaving *>(user);
    kiln_tensor *y = kiln_square(kiln_mul(l->p, in[0]));
    if (!kiln_register_hook(y, hook_throws, user)) return kiln_error();
    if (kiln_backward(kiln_sum(y, nullptr), nullptr)) return kiln_error();
    out[0] = kiln_mul(kiln_gradient(l->p), kiln_scalar(1));
    return kiln_error();
}

kiln_status construct_throws(kiln_cell *, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    return throws(user, in, n_in, out, n_out);
}

kiln_status calls_cell(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_cell_call_n(static_cast<leaving *>(user)->cell, in, n_in, out, n_out);
}

kiln_status in_region(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_device *dev = kiln_tensor_device(in[0]);
    KILN_CAPTURE(dev)
    {
        if (throws(user, in, n_in, out, n_out)) return kiln_error();
        out[0] = kiln_keep(out[0]);
    }
    return kiln_error();
}

kiln_device_stats stats_of(kiln_device *dev)
{
    kiln_device_stats s{};
    s.size = sizeof s;
    kiln_device_get_stats(dev, &s);
    return s;
}

// way: eagerly, and each kind of capture.
void leave_and_return(kiln_device *dev, kiln_fn fn, size_t n_out, int way)
{
    static const kiln_capture captures[] = {KILN_CAPTURE_AUTO, KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO,
                                            KILN_CAPTURE_TRACE};
    kiln_scope *all = kiln_scope_begin();
    const int64_t two = 2;
    leaving l{kiln_zeros(dev, KILN_F32, 0, nullptr), kiln_parameter(kiln_ones(dev, KILN_F32, 1, &two), "p"), nullptr,
              nullptr, false};
    kiln_jit_opts o{};
    o.size = sizeof o;
    o.capture = captures[way];
    kiln_cell_opts c{};
    c.size = sizeof c;
    c.kind = "leaving";
    c.construct = construct_throws;
    c.user = &l;
    CHECK(!kiln_state(l.log));
    l.inner = kiln_jit(throws, &l, &o);
    l.cell = kiln_cell_create(&c);
    kiln_function *j = kiln_jit(fn, &l, &o);
    kiln_tensor *x = kiln_full(dev, KILN_F32, 1, &two, 0.5);
    double runs = 0;
    for (int i = 0; i < 6; i++) {
        l.throws = i % 2 == 0;
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *out[2] = {nullptr, nullptr};
        bool returned = false;
        double before = kiln_item(l.log);
        try {
            CHECK(!(way ? kiln_call(j, &x, 1, out, n_out) : fn(&l, &x, 1, out, n_out)));
            returned = true;
        } catch (const std::runtime_error &) {
        }
        CHECK(kiln_error() == KILN_OK);
        CHECK(kiln_grad_enabled());
        kiln_scope_end(&scope);
        uint64_t launches = stats_of(dev).launches;
        CHECK(kiln_neg(x));
        CHECK(stats_of(dev).launches == launches + 1);
        double added = kiln_item(l.log) - before;
        bool done = returned || way == 0 || captures[way] == KILN_CAPTURE_AUTO;
        CHECK(fn == catches || added == (done ? 1 : 0));
        CHECK(fn != catches || way == 1 || way == 3 || added == (l.throws ? 101 : 1));
        CHECK(l.throws || returned);
        runs++;
    }
    kiln_function_free(&j);
    kiln_function_free(&l.inner);
    kiln_cell_free(&l.cell);
    kiln_scope_end(&all);
}

} // namespace

int main()
{
    kiln_device *dev = kiln_device_open("cpu");
    const struct {
        const char *name;
        kiln_fn fn;
        size_t n_out;
    } cases[] = {{"plain", throws, 1},        {"inner", calls_inner, 1}, {"catches", catches, 1},
                 {"grad", differentiates, 2}, {"hook", runs_back, 1},    {"cell", calls_cell, 1},
                 {"region", in_region, 1}};
    uint64_t before = stats_of(dev).tensors;
    for (const auto &c : cases) {
        for (int way = 0; way < 4; way++) {
            int so_far = failures;
            leave_and_return(dev, c.fn, c.n_out, way);
            if (stats_of(dev).tensors != before) std::printf("storages are left\n"), failures++;
            if (failures > so_far) std::printf("in %s, way %d\n", c.name, way);
            before = stats_of(dev).tensors;
        }
    }
    kiln_device_close(&dev);
    return failures != 0;
}
