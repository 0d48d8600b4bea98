/// @file nn.hpp
/// Networks and optimisers for C++: kiln/nn.h, kiln/optim.h. Options are the structs of C, `{.bias = true}` in C++20;
/// their size is set here.
#ifndef KILN_NN_HPP
#define KILN_NN_HPP

#include <kiln/function.hpp>

namespace kiln {

/// A cell. It is moved into the one that takes it, and frees what it holds.
class cell : public handle<kiln_cell, kiln_cell_free> {
  public:
    using handle::handle;
    /// Takes over a handle of C, or throws the error why there is none.
    KILN_CXX static cell adopt(kiln_cell *c) { return cell(detail::made(c)); }
    KILN_CXX tensor operator()(const tensor &x) const { return detail::taken(kiln_cell_call(get(), x.get())); }
    /// With N outputs: `auto [y, h, c] = lstm.call<3>(x, h, c)`.
    template <size_t N, class... A> KILN_CXX auto call(const A &...a) const
    {
        tensors in = detail::listed(a...);
        detail::results out(N);
        detail::check(kiln_cell_call_n(get(), in.data(), in.size(), out.data(), N));
        return out.template as_tuple<N>();
    }
    /// With several inputs and one output.
    template <class... A, std::enable_if_t<(sizeof...(A) > 1), int> = 0> KILN_CXX tensor operator()(const A &...a) const
    {
        return std::get<0>(call<1>(a...));
    }
    KILN_CXX std::vector<tensor> parameters() const
    {
        std::vector<kiln_tensor *> v(kiln_cell_parameters(get(), nullptr, 0));
        kiln_cell_parameters(get(), v.data(), v.size());
        if (kiln_error() != KILN_OK) detail::raise();
        return detail::shared(v.data(), v.size());
    }
    KILN_CXX tensor parameter(const char *path) const
    {
        return tensor::share(detail::made(kiln_cell_parameter(get(), path)));
    }
    KILN_CXX cell &train(bool on = true)
    {
        detail::check(kiln_cell_set_training(get(), on));
        return *this;
    }
    KILN_CXX cell &eval() { return train(false); }
    KILN_CXX cell &jit(const kiln_jit_opts &opts = {})
    {
        auto o = detail::with_size(opts);
        detail::check(kiln_cell_jit(get(), &o));
        return *this;
    }
};

namespace detail {
inline void add_parameters(std::vector<tensor> &all, const cell &c)
{
    for (tensor &p : c.parameters()) all.push_back(std::move(p));
}
inline void add_parameters(std::vector<tensor> &all, const tensor &p)
{
    all.push_back(p);
}
} // namespace detail

/// The parameters of cells, and single ones.
template <class... C> KILN_CXX std::vector<tensor> parameters(const C &...cells)
{
    std::vector<tensor> all;
    (detail::add_parameters(all, cells), ...);
    return all;
}

namespace nn {

#define KILN_LAYER(name, parameters, arguments)       \
    KILN_CXX cell name parameters                     \
    {                                                 \
        return cell::adopt(kiln_nn_##name arguments); \
    }
// Layers with options, which are set last.
#define KILN_LAYER_OF(name, opts, parameters, arguments) \
    KILN_CXX cell name parameters                        \
    {                                                    \
        auto o_ = detail::with_size<opts>(o);            \
        return cell::adopt(kiln_nn_##name arguments);    \
    }
KILN_LAYER_OF(dense, kiln_nn_dense_opts,
              (int64_t in, int64_t out, const kiln_nn_dense_opts &o = {}, device_ref dev = {}),
              (dev.get(), in, out, &o_))
KILN_LAYER_OF(conv2d, kiln_nn_conv2d_opts,
              (int64_t in, int64_t out, int64_t kernel, const kiln_nn_conv2d_opts &o = {}, device_ref dev = {}),
              (dev.get(), in, out, kernel, &o_))
KILN_LAYER_OF(batch_norm2d, kiln_nn_batch_norm_opts,
              (int64_t channels, const kiln_nn_batch_norm_opts &o = {}, device_ref dev = {}),
              (dev.get(), channels, &o_))
KILN_LAYER_OF(layer_norm, kiln_nn_norm_opts, (const ints &shape, const kiln_nn_norm_opts &o = {}, device_ref dev = {}),
              (dev.get(), shape.size(), shape.data(), &o_))
KILN_LAYER_OF(rms_norm, kiln_nn_norm_opts, (int64_t size, const kiln_nn_norm_opts &o = {}, device_ref dev = {}),
              (dev.get(), size, &o_))
KILN_LAYER_OF(group_norm, kiln_nn_norm_opts,
              (int64_t groups, int64_t channels, const kiln_nn_norm_opts &o = {}, device_ref dev = {}),
              (dev.get(), groups, channels, &o_))
KILN_LAYER(embedding, (int64_t count, int64_t width, const char *init = nullptr, device_ref dev = {}),
           (dev.get(), count, width, init))
KILN_LAYER(dropout, (double p), (p))
KILN_LAYER(unary, (const char *op), (op))
KILN_LAYER(relu, (), ())
KILN_LAYER(gelu, (), ())
KILN_LAYER(silu, (), ())
KILN_LAYER(sigmoid, (), ())
KILN_LAYER(tanh, (), ())
KILN_LAYER(leaky_relu, (double slope), (slope))
KILN_LAYER(softmax, (int64_t axis), (axis))
KILN_LAYER(flatten, (), ())
KILN_LAYER(identity, (), ())
KILN_LAYER(residual, (cell body), (body.release()))
KILN_LAYER_OF(rnn, kiln_nn_recurrent_opts,
              (int64_t in, int64_t hidden, const kiln_nn_recurrent_opts &o = {}, device_ref dev = {}),
              (dev.get(), in, hidden, &o_))
KILN_LAYER_OF(gru, kiln_nn_recurrent_opts,
              (int64_t in, int64_t hidden, const kiln_nn_recurrent_opts &o = {}, device_ref dev = {}),
              (dev.get(), in, hidden, &o_))
KILN_LAYER_OF(lstm, kiln_nn_recurrent_opts,
              (int64_t in, int64_t hidden, const kiln_nn_recurrent_opts &o = {}, device_ref dev = {}),
              (dev.get(), in, hidden, &o_))
KILN_LAYER_OF(multi_head_attention, kiln_nn_attention_opts,
              (int64_t width, int64_t heads, const kiln_nn_attention_opts &o = {}, device_ref dev = {}),
              (dev.get(), width, heads, &o_))
KILN_LAYER_OF(transformer_encoder, kiln_nn_transformer_opts,
              (int64_t width, int64_t heads, int64_t layers, const kiln_nn_transformer_opts &o = {},
               device_ref dev = {}),
              (dev.get(), width, heads, layers, &o_))
KILN_LAYER_OF(transformer_encoder_layer, kiln_nn_transformer_opts,
              (int64_t width, int64_t heads, const kiln_nn_transformer_opts &o = {}, device_ref dev = {}),
              (dev.get(), width, heads, &o_))
#undef KILN_LAYER
#undef KILN_LAYER_OF

/// Windows of `size`, next to each other; the struct of C says more.
KILN_CXX cell max_pool2d(extent<2> size)
{
    auto o = detail::sized<kiln_pool2d_opts>();
    size.copy_to(o.kernel);
    return cell::adopt(kiln_nn_max_pool2d(&o));
}
KILN_CXX cell avg_pool2d(extent<2> size)
{
    auto o = detail::sized<kiln_pool2d_opts>();
    size.copy_to(o.kernel);
    return cell::adopt(kiln_nn_avg_pool2d(&o));
}

/// Cells one after the other, which are moved into it.
template <class... C> KILN_CXX cell sequential(C &&...cells)
{
    kiln_cell *list[] = {cells.release()..., nullptr};
    return cell::adopt(kiln_nn_sequential(sizeof...(C), list));
}

} // namespace nn

/// A schedule of learning rates.
class schedule : public handle<kiln_schedule, kiln_schedule_free> {
  public:
    using handle::handle;
    KILN_CXX static schedule adopt(kiln_schedule *s) { return schedule(detail::made(s)); }
    KILN_CXX double lr(int64_t step) const { return detail::checked(kiln_schedule_lr(get(), step)); }
};

/// An optimiser. It shares its parameters.
class optimiser : public handle<kiln_optim, kiln_optim_free> {
  public:
    using handle::handle;
    KILN_CXX static optimiser adopt(kiln_optim *o) { return optimiser(detail::made(o)); }
    KILN_CXX void step() { detail::check(kiln_optim_step(get())); }
    KILN_CXX void zero_grad() { detail::check(kiln_optim_zero_grad(get())); }
    KILN_CXX void set_schedule(schedule s) { detail::check(kiln_optim_set_schedule(get(), s.release())); }
};

namespace optim {
#define KILN_OPTIMISER(name, opts)                                                     \
    KILN_CXX optimiser name(const tensors &params, const opts &o = {})                 \
    {                                                                                  \
        auto o_ = detail::with_size<opts>(o);                                          \
        return optimiser::adopt(kiln_optim_##name(params.data(), params.size(), &o_)); \
    }
KILN_OPTIMISER(sgd, kiln_sgd_opts)
KILN_OPTIMISER(adam, kiln_adam_opts)
KILN_OPTIMISER(adamw, kiln_adam_opts)
KILN_OPTIMISER(rmsprop, kiln_rmsprop_opts)
KILN_OPTIMISER(adagrad, kiln_adagrad_opts)
KILN_OPTIMISER(lion, kiln_lion_opts)
KILN_OPTIMISER(muon, kiln_muon_opts)
#undef KILN_OPTIMISER

KILN_CXX tensor clip_grad_norm(const tensors &params, double max_norm)
{
    return detail::taken(kiln_clip_grad_norm(params.data(), params.size(), max_norm));
}
KILN_CXX schedule cosine(double lr, double min_lr, int64_t total)
{
    return schedule::adopt(kiln_schedule_cosine(lr, min_lr, total));
}
KILN_CXX schedule warmup(int64_t steps, schedule after)
{
    return schedule::adopt(kiln_schedule_warmup(steps, after.release()));
}
} // namespace optim

} // namespace kiln
#endif
