/// @file arrays.hpp
/// Functions of tensors beside the ops for C++: kiln/tensor.h, kiln/index.h; graphs as text: kiln/graph.h; modes,
/// timings, profiles.
#ifndef KILN_ARRAYS_HPP
#define KILN_ARRAYS_HPP

#include <kiln/function.hpp>

namespace kiln {

/// The places of elements that are not zero: i64 [count, rank].
KILN_CXX tensor nonzero(const tensor &x)
{
    return detail::taken(kiln_nonzero(x.get()));
}
/// The elements where a mask is true, in one dimension.
KILN_CXX tensor masked_select(const tensor &x, const tensor &mask)
{
    return detail::taken(kiln_masked_select(x.get(), mask.get()));
}
/// The different values, where each element has its own among them, and how often each occurs.
KILN_CXX std::tuple<tensor, tensor, tensor> unique(const tensor &x)
{
    detail::results out(3);
    detail::check(kiln_unique(x.get(), out.at(0), out.at(1), out.at(2)));
    return out.as_tuple<3>();
}
/// The same with room for `size` at most; what is last given is how many there are in all. See kiln/tensor.h.
KILN_CXX std::tuple<tensor, tensor> nonzero_sized(const tensor &x, int64_t size, int64_t fill = 0)
{
    detail::results out(2);
    detail::check(kiln_nonzero_sized(x.get(), size, fill, out.at(0), out.at(1)));
    return out.as_tuple<2>();
}
KILN_CXX std::tuple<tensor, tensor> masked_select_sized(const tensor &x, const tensor &mask, int64_t size,
                                                        double fill = 0)
{
    detail::results out(2);
    detail::check(kiln_masked_select_sized(x.get(), mask.get(), size, fill, out.at(0), out.at(1)));
    return out.as_tuple<2>();
}
KILN_CXX std::tuple<tensor, tensor, tensor, tensor> unique_sized(const tensor &x, int64_t size, double fill = 0)
{
    detail::results out(4);
    detail::check(kiln_unique_sized(x.get(), size, fill, out.at(0), out.at(1), out.at(2), out.at(3)));
    return out.as_tuple<4>();
}
/// A grid over lines.
KILN_CXX std::vector<tensor> meshgrid(const tensors &lines)
{
    detail::results out(lines.size());
    detail::check(kiln_meshgrid(lines.data(), lines.size(), out.data()));
    return out.all();
}
/// Parts of the given sizes.
KILN_CXX std::vector<tensor> split_sizes(const tensor &t, const ints &sizes, int64_t axis = 0)
{
    detail::results out(sizes.size());
    detail::check(kiln_split_sizes(t.get(), axis, sizes.size(), sizes.data(), out.data()));
    return out.all();
}
/// A copy of x in which x[items...] = src, or, with `accumulate`, += src.
template <class... I> KILN_CXX tensor index_put(const tensor &x, const tensor &src, bool accumulate, const I &...items)
{
    const kiln_index_item c[] = {index(items).c...};
    return detail::taken(kiln_index_put(x.get(), sizeof...(I), c, src.get(), accumulate));
}
/// Pairs of floats as complex numbers and the other way round, in the same memory.
KILN_CXX tensor view_as_real(const tensor &z)
{
    return detail::taken(kiln_view_as_real(z.get()));
}
KILN_CXX tensor view_as_complex(const tensor &pairs)
{
    return detail::taken(kiln_view_as_complex(pairs.get()));
}
/// Replaces the elements by those of the host, row-major.
template <class T> KILN_CXX void write(const tensor &t, const std::vector<T> &data)
{
    if (t.dtype() != detail::dtype_of<T>())
        throw error(KILN_E_DTYPE, std::string("write: the tensor is ") + kiln_dtype_name(t.dtype()) + ", the data " +
                                      kiln_dtype_name(detail::dtype_of<T>()));
    detail::check(kiln_write(t.get(), data.data(), data.size() * sizeof(T)));
}
KILN_CXX std::vector<int64_t> strides(const tensor &t)
{
    const int64_t *v = detail::checked(kiln_strides(t.get()));
    return std::vector<int64_t>(v, v + t.rank());
}
KILN_CXX bool is_contiguous(const tensor &t)
{
    return detail::checked(kiln_is_contiguous(t.get()));
}
/// Whether both lie on one storage.
KILN_CXX bool is_view_of(const tensor &t, const tensor &base)
{
    return detail::checked(kiln_is_view_of(t.get(), base.get()));
}
KILN_CXX bool is_leaf(const tensor &t)
{
    return detail::checked(kiln_is_leaf(t.get()));
}
/// Of the storage: raised by each write.
KILN_CXX uint64_t version(const tensor &t)
{
    return detail::checked(kiln_tensor_version(t.get()));
}
/// Replaces the gradient of a parameter; an empty tensor drops it.
KILN_CXX void set_gradient(const tensor &parameter, const tensor &grad)
{
    detail::check(kiln_set_gradient(parameter.get(), grad.get()));
}

/// "f32"
KILN_CXX std::string name_of(kiln_dtype dtype)
{
    return detail::made(kiln_dtype_name(dtype));
}

/// What the options of printing are that a call leaves at 0, from now on; none: as at first.
KILN_CXX void set_print_options(const kiln_print_opts &opts = {})
{
    auto o = detail::with_size(opts);
    detail::check(kiln_set_print_options(&o));
}
KILN_CXX kiln_print_opts print_options()
{
    auto o = detail::sized<kiln_print_opts>();
    detail::check(kiln_get_print_options(&o));
    return o;
}

/// How this thread runs functions; see kiln/jit.h.
KILN_CXX void set_mode(kiln_mode mode)
{
    detail::check(kiln_set_mode(mode));
}
KILN_CXX void set_default_mode(kiln_mode mode)
{
    detail::check(kiln_set_default_mode(mode));
}
/// An open dimension for .input_types.
KILN_CXX int64_t symbol(const char *name, const kiln_symbol_opts &opts = {})
{
    auto o = detail::with_size(opts);
    return detail::checked(kiln_symbol(name, &o));
}

/// A dtype and a shape, whose dimensions may be open: -1, or a symbol.
struct type {
    kiln_dtype dtype;
    ints shape;
};
/// What a function takes, for .input_types: `jit(f, {.input_types = types{{f32, {batch, 3}}, {i64, {batch}}}})`.
class types {
  public:
    types(std::initializer_list<type> v) : v_(v)
    {
        for (const type &each : v_) c_.push_back({each.dtype, each.shape.size(), each.shape.data()});
    }
    types(const types &) = delete;
    types &operator=(const types &) = delete;
    /// Borrowed: it has to live until the call that takes the options is over.
    operator kiln_types() const { return {c_.size(), c_.data()}; }

  private:
    std::vector<type> v_;
    std::vector<kiln_type> c_;
};

/// A graph as an object.
class graph : public handle<kiln_graph, kiln_graph_free> {
  public:
    using handle::handle;
    /// Of its text form.
    KILN_CXX explicit graph(const std::string &text) : handle(detail::made(kiln_graph_parse(text.c_str()))) {}
    KILN_CXX void print(FILE *file = stdout) const { detail::check(kiln_graph_print(get(), file)); }
    KILN_CXX void dot(FILE *file) const { detail::check(kiln_graph_dot(get(), file)); }
    KILN_CXX size_t nodes() const { return detail::checked(kiln_graph_node_count(get())); }
    KILN_CXX size_t inputs() const { return detail::checked(kiln_graph_input_count(get())); }
    KILN_CXX size_t outputs() const { return detail::checked(kiln_graph_output_count(get())); }
    KILN_CXX std::string op(size_t node) const { return detail::made(kiln_graph_node_op(get(), node)); }
};
/// The reverse graph that the tape of a tensor holds.
KILN_CXX graph backward_graph(const tensor &out)
{
    return graph(detail::made(kiln_backward_graph(out.get())));
}

/// Times calls of a function, eagerly or with .jit: kiln_bench_function.
template <class F, class... A> KILN_CXX kiln_bench_result bench(F f, const kiln_bench_opts &opts, const A &...a)
{
    auto o = detail::with_size(opts);
    auto r = detail::sized<kiln_bench_result>();
    detail::on_trees<F, A...> own(f, a...);
    const tensors in = detail::listed(a...);
    detail::check(kiln_bench_function(own.run, &own, in.data(), in.size(),
                                      detail::count_of<detail::result_of<F, A...>>(), &o, &r));
    return r;
}
/// The same of a captured one.
template <class F, class... A>
KILN_CXX kiln_bench_result bench(jitted<F> &f, const kiln_bench_opts &opts, const A &...a)
{
    auto o = detail::with_size(opts);
    auto r = detail::sized<kiln_bench_result>();
    const tensors in = detail::listed(a...);
    detail::check(
        kiln_bench_captured(f.get(), in.data(), in.size(), detail::count_of<detail::result_of<F, A...>>(), &o, &r));
    return r;
}
KILN_CXX void bench_print(const kiln_bench_result &r, FILE *file = stdout)
{
    detail::check(kiln_bench_print(&r, file));
}

/// The library's: "0.2.1".
inline std::string version_string()
{
    return kiln_version_string();
}

/// The table of the profile that is being taken, or of the last one.
KILN_CXX void profile_print(FILE *file = stdout, const kiln_profile_print_opts &opts = {})
{
    auto o = detail::with_size(opts);
    detail::check(kiln_profile_print(file, &o));
}
/// The same of a profile in a file.
KILN_CXX void profile_print(const std::string &path, FILE *file = stdout, const kiln_profile_print_opts &opts = {})
{
    auto o = detail::with_size(opts);
    detail::check(kiln_profile_print_file(path.c_str(), file, &o));
}

/// A profile in a file, of all that happens as long as this lives.
class profile {
  public:
    KILN_CXX explicit profile(const std::string &path) { detail::check(kiln_profile_begin(path.c_str())); }
    ~profile() { kiln_profile_end(); }
    profile(const profile &) = delete;
    profile &operator=(const profile &) = delete;
};

} // namespace kiln
#endif
