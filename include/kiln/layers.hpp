/// @file layers.hpp
/// Layers and losses for C++: each kiln_nn_x of C is nn::x, each kiln_loss_x is loss::x, with the same arguments, the
/// device last.
#ifndef KILN_LAYERS_HPP
#define KILN_LAYERS_HPP

#include <kiln/nn.hpp>

namespace kiln {

namespace detail {

// The options of a pool.
template <class Opts, size_t N> Opts windows(const extent<N> &size, const extent<N> &stride, const extent<N> &padding)
{
    auto o = sized<Opts>();
    if constexpr (N == 1) {
        size.copy_to(&o.kernel);
        stride.copy_to(&o.stride);
        padding.copy_to(&o.padding);
    } else {
        size.copy_to(o.kernel);
        stride.copy_to(o.stride);
        padding.copy_to(o.padding);
    }
    return o;
}

// A function as one that gets the cell first.
template <class F> struct without_self {
    F f;
    template <class... A> auto operator()(cell_ref, const A &...a) -> decltype(f(a...)) { return f(a...); }
};

} // namespace detail

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
KILN_LAYER_OF(bilinear, kiln_nn_dense_opts,
              (int64_t in1, int64_t in2, int64_t out, const kiln_nn_dense_opts &o = {}, device_ref dev = {}),
              (dev.get(), in1, in2, out, &o_))
KILN_LAYER(embedding, (int64_t count, int64_t width, const char *init = nullptr, device_ref dev = {}),
           (dev.get(), count, width, init))
KILN_LAYER(embedding_bag,
           (int64_t count, int64_t width, const char *mode = nullptr, const char *init = nullptr, device_ref dev = {}),
           (dev.get(), count, width, mode, init))

// --- convolution and pooling; a number stands for all axes
KILN_LAYER_OF(conv1d, kiln_nn_conv1d_opts,
              (int64_t in, int64_t out, int64_t kernel, const kiln_nn_conv1d_opts &o = {}, device_ref dev = {}),
              (dev.get(), in, out, kernel, &o_))
KILN_LAYER_OF(conv2d, kiln_nn_conv2d_opts,
              (int64_t in, int64_t out, int64_t kernel, const kiln_nn_conv2d_opts &o = {}, device_ref dev = {}),
              (dev.get(), in, out, kernel, &o_))
KILN_LAYER_OF(conv3d, kiln_nn_conv3d_opts,
              (int64_t in, int64_t out, int64_t kernel, const kiln_nn_conv3d_opts &o = {}, device_ref dev = {}),
              (dev.get(), in, out, kernel, &o_))
#define KILN_LAYER_TRANSPOSED(name)                                                                                \
    KILN_LAYER_OF(                                                                                                 \
        name, kiln_nn_conv_transpose_opts,                                                                         \
        (int64_t in, int64_t out, int64_t kernel, const kiln_nn_conv_transpose_opts &o = {}, device_ref dev = {}), \
        (dev.get(), in, out, kernel, &o_))
KILN_LAYER_TRANSPOSED(conv_transpose1d)
KILN_LAYER_TRANSPOSED(conv_transpose2d)
KILN_LAYER_TRANSPOSED(conv_transpose3d)
#undef KILN_LAYER_TRANSPOSED

// Windows of `size`, next to each other where there is no stride; a struct of the options, by its name, says more.
#define KILN_LAYER_POOL(name, opts, N)                                              \
    template <class O, detail::if_same<O, opts> = 0> KILN_CXX cell name(const O &o) \
    {                                                                               \
        auto o_ = detail::with_size(o);                                             \
        return cell::adopt(kiln_nn_##name(&o_));                                    \
    }                                                                               \
    KILN_CXX cell name(extent<N> size, extent<N> stride = 0, extent<N> padding = 0) \
    {                                                                               \
        return name(detail::windows<opts>(size, stride, padding));                  \
    }
KILN_LAYER_POOL(max_pool2d, kiln_pool2d_opts, 2)
KILN_LAYER_POOL(avg_pool2d, kiln_pool2d_opts, 2)
KILN_LAYER_POOL(max_pool3d, kiln_pool3d_opts, 3)
KILN_LAYER_POOL(avg_pool3d, kiln_pool3d_opts, 3)
KILN_LAYER_POOL(max_pool1d, kiln_pool1d_opts, 1)
KILN_LAYER_POOL(avg_pool1d, kiln_pool1d_opts, 1)
#undef KILN_LAYER_POOL
KILN_LAYER(adaptive_avg_pool, (const ints &sizes), (sizes.size(), sizes.data()))
KILN_LAYER(adaptive_max_pool, (const ints &sizes), (sizes.size(), sizes.data()))
KILN_LAYER_OF(upsample, kiln_interpolate_opts, (const kiln_interpolate_opts &o), (&o_))

// --- norms
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
KILN_LAYER_OF(instance_norm, kiln_nn_norm_opts,
              (int64_t channels, const kiln_nn_norm_opts &o = {}, device_ref dev = {}), (dev.get(), channels, &o_))

// --- without parameters
KILN_LAYER(dropout, (double p), (p))
KILN_LAYER(unary, (const char *op), (op))
KILN_LAYER(relu, (), ())
KILN_LAYER(gelu, (), ())
KILN_LAYER(silu, (), ())
KILN_LAYER(sigmoid, (), ())
KILN_LAYER(tanh, (), ())
KILN_LAYER(leaky_relu, (double slope), (slope))
KILN_LAYER(softmax, (int64_t axis), (axis))
KILN_LAYER(glu, (const char *kind = nullptr, int64_t axis = -1), (kind, axis))
KILN_LAYER(flatten, (), ())
KILN_LAYER(unflatten, (int64_t axis, const ints &sizes), (axis, sizes.size(), sizes.data()))
KILN_LAYER(identity, (), ())
KILN_LAYER(residual, (cell body), (body.release()))

// --- recurrent layers and attention
#define KILN_LAYER_RECURRENT(name)                                                                         \
    KILN_LAYER_OF(name, kiln_nn_recurrent_opts,                                                            \
                  (int64_t in, int64_t hidden, const kiln_nn_recurrent_opts &o = {}, device_ref dev = {}), \
                  (dev.get(), in, hidden, &o_))
KILN_LAYER_RECURRENT(rnn)
KILN_LAYER_RECURRENT(gru)
KILN_LAYER_RECURRENT(lstm)
KILN_LAYER_RECURRENT(rnn_cell)
KILN_LAYER_RECURRENT(gru_cell)
KILN_LAYER_RECURRENT(lstm_cell)
#undef KILN_LAYER_RECURRENT
KILN_LAYER_OF(multi_head_attention, kiln_nn_attention_opts,
              (int64_t width, int64_t heads, const kiln_nn_attention_opts &o = {}, device_ref dev = {}),
              (dev.get(), width, heads, &o_))
KILN_LAYER(positional_encoding, (int64_t length, int64_t width, double dropout = 0, device_ref dev = {}),
           (dev.get(), length, width, dropout))
#define KILN_LAYER_STACKED(name)                                                                               \
    KILN_LAYER_OF(name, kiln_nn_transformer_opts,                                                              \
                  (int64_t width, int64_t heads, const kiln_nn_transformer_opts &o = {}, device_ref dev = {}), \
                  (dev.get(), width, heads, &o_))
KILN_LAYER_STACKED(transformer_encoder_layer)
KILN_LAYER_STACKED(transformer_decoder_layer)
#undef KILN_LAYER_STACKED
#define KILN_LAYER_STACKED(name)                                                                                     \
    KILN_LAYER_OF(                                                                                                   \
        name, kiln_nn_transformer_opts,                                                                              \
        (int64_t width, int64_t heads, int64_t layers, const kiln_nn_transformer_opts &o = {}, device_ref dev = {}), \
        (dev.get(), width, heads, layers, &o_))
KILN_LAYER_STACKED(transformer_encoder)
KILN_LAYER_STACKED(transformer_decoder)
#undef KILN_LAYER_STACKED
#undef KILN_LAYER
#undef KILN_LAYER_OF

/// Cells one after the other, which are moved into it.
template <class... C> KILN_CXX cell sequential(C &&...cells)
{
    kiln_cell *list[] = {cells.release()..., nullptr};
    return cell::adopt(kiln_nn_sequential(sizeof...(C), list));
}

/// A function of tensors as a cell, which owns it. Where it needs parameters of the cell's own, see cell::make.
template <class F> KILN_CXX cell lambda(F f)
{
    return cell::make("lambda", detail::without_self<F>{std::move(f)});
}

} // namespace nn

/// Losses of x against a target that broadcasts to it; see kiln/nn.h.
namespace loss {
#define KILN_LOSS(name)                                                                                         \
    KILN_CXX tensor name(const tensor &x, const tensor &target, kiln_reduction reduction = KILN_REDUCTION_MEAN) \
    {                                                                                                           \
        return detail::taken(kiln_loss_##name(x.get(), target.get(), reduction));                               \
    }
#define KILN_LOSS_OF(name, number)                                                        \
    KILN_CXX tensor name(const tensor &x, const tensor &target, double number = 1,        \
                         kiln_reduction reduction = KILN_REDUCTION_MEAN)                  \
    {                                                                                     \
        return detail::taken(kiln_loss_##name(x.get(), target.get(), number, reduction)); \
    }
KILN_LOSS(mse)
KILN_LOSS(l1)
KILN_LOSS_OF(smooth_l1, beta)
KILN_LOSS_OF(huber, delta)
KILN_LOSS(bce)
KILN_LOSS(bce_with_logits)
KILN_LOSS(nll)
KILN_LOSS(kl_div)
#undef KILN_LOSS
#undef KILN_LOSS_OF
} // namespace loss

} // namespace kiln
#endif
