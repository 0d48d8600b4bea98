/// @file model.hpp
/// Models in files for C++: kiln/model.h. A path that ends in ".onnx" is a model of ONNX.
///
///     auto f = kiln::jit([&](const kiln::tensor &x) { return net(x); });
///     kiln::model m;
///     m.name_weights(net.state());
///     m.add("forward", f, images);
///     m.save("lenet.kiln");
///
///     kiln::model again("lenet.kiln");
///     kiln::tensor logits = again.function("forward")(images);
#ifndef KILN_MODEL_HPP
#define KILN_MODEL_HPP

#include <kiln/files.hpp>

#include <kiln/function.hpp>

namespace kiln {

/// A function of a model.
class model_function : public handle<kiln_function, kiln_function_free> {
  public:
    KILN_CXX model_function(kiln_function *f, size_t outputs) : handle(detail::made(f)), outputs_(outputs) {}
    size_t outputs() const { return outputs_; }
    /// All that it gives.
    KILN_CXX std::vector<tensor> call_all(const tensors &in) const
    {
        detail::results out(outputs_);
        detail::check(kiln_call(get(), in.data(), in.size(), out.data(), outputs_));
        return out.all();
    }
    /// Of one with N outputs: `auto [y, h] = f.call<2>(x, h)`.
    template <size_t N, class... A> KILN_CXX auto call(const A &...a) const
    {
        const tensors in = detail::listed(a...);
        detail::results out(N);
        detail::check(kiln_call(get(), in.data(), in.size(), out.data(), N));
        return out.template as_tuple<N>();
    }
    template <class... A> KILN_CXX tensor operator()(const A &...a) const { return std::get<0>(call<1>(a...)); }

  private:
    size_t outputs_;
};

/// Names of inputs and outputs, as many as there are, or none.
struct model_names {
    std::vector<std::string> inputs, outputs;
};

/// What a function of a model takes or gives.
struct model_value {
    std::string name;
    kiln_dtype dtype;
    std::vector<int64_t> shape; ///< -1: open
    bool is_number;
    std::string text; ///< "f32[length,3]"
};

namespace detail {

// Options of C with the names of C++, from which they borrow.
class borrowed_names {
  public:
    borrowed_names(const model_names &names, size_t n_in, size_t n_out)
    {
        if ((!names.inputs.empty() && names.inputs.size() != n_in) ||
            (!names.outputs.empty() && names.outputs.size() != n_out))
            throw error(KILN_E_ARGUMENT, "model: there are " + std::to_string(n_in) + " inputs and " +
                                             std::to_string(n_out) + " outputs, with other numbers of names");
        for (const std::string &name : names.inputs) inputs_.push_back(name.c_str());
        for (const std::string &name : names.outputs) outputs_.push_back(name.c_str());
        o_.size = sizeof o_;
        o_.inputs = inputs_.empty() ? nullptr : inputs_.data();
        o_.outputs = outputs_.empty() ? nullptr : outputs_.data();
    }
    const kiln_model_add_opts *c() const { return &o_; }

  private:
    std::vector<const char *> inputs_, outputs_;
    kiln_model_add_opts o_ = {};
};

inline model_value value_of(const kiln_model_value &v)
{
    return {v.name, v.dtype, std::vector<int64_t>(v.dims, v.dims + v.rank), v.is_number, v.text};
}

} // namespace detail

/// Functions, and the weights that they share.
class model : public handle<kiln_model, kiln_model_free> {
  public:
    KILN_CXX model() : handle(detail::made(kiln_model_create())) {}
    /// Reads one; its weights lie on `dev`.
    KILN_CXX explicit model(const std::string &path, device_ref dev = {})
        : handle(detail::made(kiln_graph_import(dev.get(), path.c_str())))
    {
    }
    KILN_CXX void name_weights(const named_tensors &v)
    {
        const detail::name_list l(v);
        detail::check(kiln_model_name_weights(get(), v.size(), l.names.data(), l.tensors.data()));
    }
    /// Captures a function that jit made for inputs such as these.
    template <class F, class... A> KILN_CXX void add(const char *name, jitted<F> &f, const A &...a)
    {
        add(name, model_names(), f, a...);
    }
    template <class F, class... A>
    KILN_CXX void add(const char *name, const model_names &names, jitted<F> &f, const A &...a)
    {
        constexpr size_t n_out = detail::count_of<detail::result_of<F, A...>>();
        const tensors in = detail::listed(a...);
        const detail::borrowed_names o(names, in.size(), n_out);
        detail::check(kiln_model_add(get(), name, f.get(), in.data(), in.size(), n_out, o.c()));
    }
    KILN_CXX void save(const std::string &path) const { detail::check(kiln_model_save(get(), path.c_str())); }
    /// Of a model of ONNX: makes parameters of its weights.
    KILN_CXX void train() { detail::check(kiln_model_train(get())); }

    KILN_CXX std::vector<std::string> functions() const
    {
        std::vector<std::string> names;
        const size_t n = detail::checked(kiln_model_function_count(get()));
        for (size_t i = 0; i < n; i++) names.emplace_back(detail::made(kiln_model_function_name(get(), i)));
        return names;
    }
    KILN_CXX model_function function(const char *name = "main") const
    {
        return model_function(kiln_model_function(get(), name), kiln_model_output_count(get(), name));
    }
    KILN_CXX std::vector<model_value> inputs(const char *function = "main") const
    {
        std::vector<model_value> v;
        const size_t n = detail::checked(kiln_model_input_count(get(), function));
        for (size_t i = 0; i < n; i++) {
            auto each = detail::sized<kiln_model_value>();
            detail::check(kiln_model_input(get(), function, i, &each));
            v.push_back(detail::value_of(each));
        }
        return v;
    }
    KILN_CXX std::vector<model_value> outputs(const char *function = "main") const
    {
        std::vector<model_value> v;
        const size_t n = detail::checked(kiln_model_output_count(get(), function));
        for (size_t i = 0; i < n; i++) {
            auto each = detail::sized<kiln_model_value>();
            detail::check(kiln_model_output(get(), function, i, &each));
            v.push_back(detail::value_of(each));
        }
        return v;
    }
    KILN_CXX named_tensors weights() const { return detail::named<kiln_model_weights>(get()); }
    KILN_CXX std::vector<tensor> parameters() const
    {
        std::vector<kiln_tensor *> v(detail::checked(kiln_model_parameters(get(), nullptr, 0)));
        kiln_model_parameters(get(), v.data(), v.size());
        return detail::shared(v.data(), v.size());
    }
};

/// One function, "main", in a file of its own.
template <class F, class... A> KILN_CXX void graph_export(const std::string &path, jitted<F> &f, const A &...a)
{
    constexpr size_t n_out = detail::count_of<detail::result_of<F, A...>>();
    const tensors in = detail::listed(a...);
    detail::check(kiln_graph_export(f.get(), in.data(), in.size(), n_out, path.c_str(), nullptr));
}

} // namespace kiln
#endif
