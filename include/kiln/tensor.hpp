/// @file tensor.hpp
/// Tensors for C++17: values, operators, indices, exceptions. Included by kiln.hpp.
///
/// A kiln::tensor is a handle that its copies share; the last one frees it. Scopes do not own it. Each function throws
/// kiln::error where the one of C gives an error. All functions are parts of their caller (always inlined), so that
/// messages, captures and profiles name lines of the program; see docs/decisions/0042-cpp.md.
#ifndef KILN_TENSOR_HPP
#define KILN_TENSOR_HPP

#if __cplusplus < 201703L
#error "kiln.hpp needs C++17: -std=c++17"
#endif
#if !defined(__cpp_exceptions)
#error "kiln.hpp reports errors as exceptions, which are off here (-fno-exceptions); kiln.h has the functions of C"
#endif

#include <kiln/kiln.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define KILN_CXX __attribute__((always_inline, artificial)) inline

namespace kiln {

/// What a function of the library has to complain about. what() is the text of kiln_error_message.
class error : public std::runtime_error {
  public:
    error(kiln_status code, const std::string &text) : std::runtime_error(text), code_(code)
    {
        size_t colon = text.rfind(':'), open = text.rfind(" (");
        if (text.empty() || text.back() != ')' || open == std::string::npos || colon == std::string::npos ||
            colon < open)
            return;
        file_ = text.substr(open + 2, colon - open - 2);
        line_ = std::atoi(text.c_str() + colon + 1);
    }
    kiln_status code() const { return code_; }
    const std::string &file() const { return file_; } ///< of the call that failed, without its folder; "" if not known
    int line() const { return line_; }                ///< 0 if not known

  private:
    kiln_status code_;
    std::string file_;
    int line_ = 0;
};

class tensor;
struct index;
#define KILN_OPS_DECLARATIONS
#include <kiln/ops.hpp>
#undef KILN_OPS_DECLARATIONS

constexpr kiln_dtype boolean = KILN_BOOL, u8 = KILN_U8, i8 = KILN_I8, i16 = KILN_I16, i32 = KILN_I32, i64 = KILN_I64,
                     f16 = KILN_F16, bf16 = KILN_BF16, f32 = KILN_F32, f64 = KILN_F64, u16 = KILN_U16, u32 = KILN_U32,
                     u64 = KILN_U64, c64 = KILN_C64, c128 = KILN_C128;

namespace detail {

template <class A, class B> using if_same = std::enable_if_t<std::is_same<A, B>::value, int>;
template <class T> using if_number = std::enable_if_t<std::is_arithmetic<T>::value, int>;
template <class T> using if_integer = std::enable_if_t<std::is_integral<T>::value, int>;

// Throws the pending error, which is none any more then.
[[noreturn]] __attribute__((noinline, cold)) inline void raise()
{
    kiln_status code = kiln_error();
    std::string text = kiln_error_message();
    kiln_error_clear();
    throw error(code, text);
}

KILN_CXX void check(kiln_status status)
{
    if (status != KILN_OK) raise();
}

// What a function that cannot say so throws, to be thrown again behind the call that ran it.
class thrown {
  public:
    template <class F> void keep(F f) noexcept
    {
        try {
            if (!e_) f();
        } catch (...) {
            e_ = std::current_exception();
        }
    }
    void again()
    {
        if (!e_) return;
        kiln_error_clear();
        std::rethrow_exception(std::exchange(e_, nullptr));
    }

  private:
    std::exception_ptr e_;
};

// For functions whose results do not say whether they failed.
template <class T> KILN_CXX T checked(T value)
{
    if (kiln_error() != KILN_OK) raise();
    return value;
}

template <class T> KILN_CXX T sized()
{
    T o = T();
    o.size = sizeof o;
    return o;
}

// Options of C as the user has them: their size is set where it is not.
template <class T> KILN_CXX T with_size(T o)
{
    o.size = sizeof o;
    return o;
}

// In C, 0 stands for the default.
KILN_CXX double plain(double v)
{
    return v == 0 ? KILN_ZERO : v;
}

template <class T> constexpr kiln_dtype dtype_of()
{
    using U = std::remove_cv_t<T>;
    static_assert(std::is_arithmetic<U>::value, "a type of numbers");
    if (std::is_same<U, bool>::value) return KILN_BOOL;
    if (std::is_floating_point<U>::value) return sizeof(U) == 4 ? KILN_F32 : KILN_F64;
    const bool is_signed = std::is_signed<U>::value;
    switch (sizeof(U)) {
    case 1: return is_signed ? KILN_I8 : KILN_U8;
    case 2: return is_signed ? KILN_I16 : KILN_U16;
    case 4: return is_signed ? KILN_I32 : KILN_U32;
    default: return is_signed ? KILN_I64 : KILN_U64;
    }
}

// Numbers in braces, of any depth; to be read before the braces are gone.
struct nested {
    template <class T, if_number<T> = 0>
    nested(T v)
        : number(static_cast<double>(v)), kind(std::is_same<T, bool>::value ? 0
                                               : std::is_integral<T>::value ? 1
                                                                            : 2)
    {
        if (kind != 2) integer = static_cast<int64_t>(v);
    }
    nested(std::initializer_list<nested> v) : items(v.begin(), v.end()), is_list(true) {}
    std::vector<nested> items;
    double number = 0;
    int64_t integer = 0;
    int kind = 0;
    bool is_list = false;
};

struct flat {
    std::vector<int64_t> dims;
    std::vector<double> numbers;
    std::vector<int64_t> integers;
    int kind = -1;

    explicit flat(const std::vector<nested> &v)
    {
        add(v, 0);
        if (kind < 0) kind = 2;
    }
    void add(const std::vector<nested> &v, size_t depth)
    {
        bool first = dims.size() == depth && numbers.empty();
        if (first) dims.push_back(static_cast<int64_t>(v.size()));
        if (depth >= dims.size() || dims[depth] != static_cast<int64_t>(v.size()))
            throw std::invalid_argument("kiln::tensor: lists in braces of different lengths");
        for (const nested &n : v) {
            if (n.is_list) {
                add(n.items, depth + 1);
                continue;
            }
            if (dims.size() != depth + 1) throw std::invalid_argument("kiln::tensor: a number beside a list in braces");
            numbers.push_back(n.number);
            integers.push_back(n.integer);
            if (n.kind > kind) kind = n.kind;
        }
    }
};

} // namespace detail

/// A list of integers: `{2, 3}`, one number, or a vector.
class ints {
  public:
    ints() = default;
    ints(std::initializer_list<int64_t> v) : v_(v) {}
    template <class T, detail::if_integer<T> = 0> ints(T v) : v_(1, static_cast<int64_t>(v)) {}
    ints(std::vector<int64_t> v) : v_(std::move(v)) {}
    size_t size() const { return v_.size(); }
    const int64_t *data() const { return v_.data(); }
    kiln_ints list() const { return {v_.size(), v_.data()}; }

  private:
    std::vector<int64_t> v_;
};

/// One number for each of N axes, or the same for all.
template <size_t N> class extent {
  public:
    template <class T, detail::if_integer<T> = 0> extent(T all)
    {
        for (int64_t &v : v_) v = static_cast<int64_t>(all);
    }
    extent(std::initializer_list<int64_t> v)
    {
        if (v.size() != N) throw std::invalid_argument("kiln: a number for each of " + std::to_string(N) + " axes");
        size_t i = 0;
        for (int64_t each : v) v_[i++] = each;
    }
    void copy_to(int64_t *out) const
    {
        for (size_t i = 0; i < N; i++) out[i] = v_[i];
    }

  private:
    int64_t v_[N];
};

/// What frees a handle of C when it goes; moved, not copied. get() is the handle, borrowed; release() gives it away.
template <class T, void (*Free)(T **)> class handle {
  public:
    handle() = default;
    explicit handle(T *h) : h_(h) {}
    handle(handle &&o) noexcept : h_(o.release()) {}
    handle &operator=(handle &&o) noexcept
    {
        if (this != &o) {
            reset();
            h_ = o.release();
        }
        return *this;
    }
    ~handle() { reset(); }
    T *get() const { return h_; }
    T *release() { return std::exchange(h_, nullptr); }
    void reset()
    {
        if (h_) Free(&h_);
        h_ = nullptr;
    }
    explicit operator bool() const { return h_ != nullptr; }

  private:
    T *h_ = nullptr;
};

namespace detail {
// A handle that was made, or the error why not.
template <class T> KILN_CXX T *made(T *h)
{
    if (!h) raise();
    return h;
}
} // namespace detail

/// A device, open as long as this lives; "cpu", "vulkan" and others as of kiln_device_open.
class device : public handle<kiln_device, kiln_device_close> {
  public:
    KILN_CXX explicit device(const char *name = nullptr) : handle(detail::made(kiln_device_open(name))) {}
    KILN_CXX void synchronize() { detail::check(kiln_device_synchronize(get())); }
    KILN_CXX void seed(uint64_t seed) { detail::check(kiln_seed(get(), seed)); }
    KILN_CXX kiln_device_stats stats() const
    {
        auto s = detail::sized<kiln_device_stats>();
        kiln_device_get_stats(get(), &s);
        return detail::checked(s);
    }
    KILN_CXX void reset_stats() { kiln_device_reset_stats(get()); }
    KILN_CXX kiln_device_info info() const
    {
        auto i = detail::sized<kiln_device_info>();
        detail::check(kiln_device_get_info(get(), &i));
        return i;
    }
    KILN_CXX void set_memory_limit(uint64_t limit_B) { detail::check(kiln_device_set_memory_limit(get(), limit_B)); }
    KILN_CXX void trim() { detail::check(kiln_device_trim(get())); }
    KILN_CXX void tune() { detail::check(kiln_device_tune(get())); }
    KILN_CXX void set_strict(bool strict = true) { detail::check(kiln_device_set_strict(get(), strict)); }
    /// Marks of the device's own clock, and the seconds from one to another.
    KILN_CXX void mark(unsigned mark) { detail::check(kiln_device_mark(get(), mark)); }
    KILN_CXX double elapsed(unsigned from, unsigned to) const
    {
        return detail::checked(kiln_device_elapsed(get(), from, to));
    }
    /// Makes it the default of this thread, or of all that have not said otherwise.
    KILN_CXX void use() { detail::check(kiln_set_device(get())); }
    KILN_CXX void use_everywhere() { detail::check(kiln_set_default_device(get())); }
    /// What it does at best: kiln_device_ceiling.
    KILN_CXX double ceiling(kiln_ceiling kind, double bytes) const
    {
        return detail::checked(kiln_device_ceiling(get(), kind, bytes));
    }
    /// Of the generator: seed and offset.
    KILN_CXX std::pair<uint64_t, uint64_t> rng_state() const
    {
        uint64_t seed = 0, offset = 0;
        detail::check(kiln_rng_state(get(), &seed, &offset));
        return {seed, offset};
    }
    KILN_CXX void set_rng_state(uint64_t seed, uint64_t offset)
    {
        detail::check(kiln_set_rng_state(get(), seed, offset));
    }
};

/// A device, borrowed. None: the thread's default one.
class device_ref {
  public:
    device_ref(kiln_device *dev = nullptr) : dev_(dev) {}
    device_ref(const device &dev) : dev_(dev.get()) {}
    kiln_device *get() const { return dev_; }

  private:
    kiln_device *dev_;
};

/// A tensor, borrowed, or a number: an operand of elementwise ops.
class operand {
  public:
    KILN_CXX operand(const tensor &t);
    template <class T, detail::if_number<T> = 0> KILN_CXX operand(T v)
    {
        if (std::is_same<T, bool>::value)
            c_ = kiln_operand_bool_(v != T());
        else if (std::is_floating_point<T>::value)
            c_ = kiln_operand_float_(static_cast<double>(v));
        else if (std::is_unsigned<T>::value)
            c_ = kiln_operand_unsigned_(static_cast<uint64_t>(v));
        else
            c_ = kiln_operand_int_(static_cast<int64_t>(v));
    }
    kiln_operand c() const { return c_; }

  private:
    kiln_operand c_;
};

/// A list of tensors: `{a, b}` or a vector. It shares them.
class tensors {
  public:
    tensors() = default;
    tensors(std::initializer_list<tensor> v);
    tensors(std::vector<tensor> v);
    size_t size() const { return handles_.size(); }
    kiln_tensor *const *data() const { return handles_.data(); }
    const std::vector<tensor> &all() const { return v_; }
    kiln_tensors list() const { return {handles_.size(), handles_.data()}; }

  private:
    std::vector<tensor> v_;
    std::vector<kiln_tensor *> handles_;
};

namespace detail {

KILN_CXX tensor taken(kiln_tensor *t);

// Places for what a function gives.
class results {
  public:
    explicit results(size_t n) : v_(n) {}
    kiln_tensor **at(size_t i) { return &v_[i]; }
    kiln_tensor **data() { return v_.data(); }
    size_t size() const { return v_.size(); }
    tensor take(size_t i);
    std::vector<tensor> all();
    template <size_t N> auto as_tuple() { return tuple_of(std::make_index_sequence<N>()); }

  private:
    // What it gives is incomplete here, so `self` is of a type that depends.
    template <class Self = results, size_t... I> auto tuple_of(std::index_sequence<I...>)
    {
        Self &self = *this;
        return std::make_tuple(self.take(I)...);
    }
    std::vector<kiln_tensor *> v_;
};

} // namespace detail

/// A tensor. Copies are the same tensor; ops make new ones, but for those whose names end in _. An empty one stands for
/// none, where an op takes a tensor that may be left out.
class tensor {
  public:
    tensor() = default;
    tensor(const tensor &) = default;
    tensor(tensor &&) noexcept = default;
    ~tensor() = default;
    /// A variable takes another tensor. What an expression gives, as x[0], is no variable: x.set(value, 0) writes into
    /// x.
    tensor &operator=(const tensor &) & = default;
    tensor &operator=(tensor &&) &noexcept = default;
    /// A number: of rank 0; ops give it the dtype of the other operand within its kind.
    template <class T, detail::if_number<T> = 0> KILN_CXX tensor(T v)
    {
        kiln_tensor *t = std::is_same<T, bool>::value       ? kiln_scalar_bool(v != T())
                         : std::is_floating_point<T>::value ? kiln_scalar(static_cast<double>(v))
                                                            : kiln_scalar_int(static_cast<int64_t>(v));
        *this = adopt(detail::made(t));
    }
    /// Numbers in braces: f32 where one is a float, i64 where one is an integer, else bool.
    KILN_CXX tensor(std::initializer_list<detail::nested> v, device_ref dev = {})
    {
        detail::flat f(std::vector<detail::nested>(v.begin(), v.end()));
        const bool floats = f.kind == 2;
        *this = adopt(detail::made(kiln_from_data(dev.get(), floats ? KILN_F64 : KILN_I64, f.dims.size(), f.dims.data(),
                                                  floats ? static_cast<const void *>(f.numbers.data())
                                                         : static_cast<const void *>(f.integers.data()))));
        if (f.kind != 1) *this = adopt(detail::made(kiln_cast(get(), floats ? KILN_F32 : KILN_BOOL)));
    }
    /// Takes over a handle of C, out of all scopes.
    KILN_CXX static tensor adopt(kiln_tensor *t)
    {
        tensor r;
        if (t) r.t_ = std::shared_ptr<kiln_tensor>(kiln_own(t), [](kiln_tensor *h) { kiln_free(&h); });
        return r;
    }
    /// A handle of its own on the tensor of a handle of C, which stays its owner's.
    KILN_CXX static tensor share(kiln_tensor *t) { return adopt(detail::made(kiln_alias(t))); }

    kiln_tensor *get() const { return t_.get(); }  ///< borrowed
    bool defined() const { return t_ != nullptr; } ///< false of an empty one

    KILN_CXX std::vector<int64_t> shape() const
    {
        const int64_t *dims = kiln_dims(get());
        if (kiln_error() != KILN_OK) detail::raise();
        return std::vector<int64_t>(dims, dims + kiln_rank(get()));
    }
    KILN_CXX int64_t size(int64_t axis) const { return detail::checked(kiln_dim(get(), axis)); }
    KILN_CXX size_t rank() const { return detail::checked(kiln_rank(get())); }
    KILN_CXX int64_t numel() const { return detail::checked(kiln_numel(get())); }
    KILN_CXX kiln_dtype dtype() const { return detail::checked(kiln_tensor_dtype(get())); }
    KILN_CXX device_ref device() const { return detail::checked(kiln_tensor_device(get())); }
    KILN_CXX std::string name() const { return detail::checked(kiln_name(get())); }
    KILN_CXX bool is_same(const tensor &o) const { return detail::checked(kiln_is_same(get(), o.get())); }

    /// The value of a tensor of one element.
    template <class T = double> KILN_CXX T item() const
    {
        if (std::is_floating_point<T>::value) return static_cast<T>(detail::checked(kiln_item(get())));
        return static_cast<T>(detail::checked(kiln_item_int(get())));
    }
    /// All elements in row-major order, cast to T.
    template <class T = float> KILN_CXX std::vector<T> to_vector() const
    {
        static_assert(!std::is_same<T, bool>::value, "std::vector<bool> has no elements: take uint8_t");
        tensor same =
            dtype() == detail::dtype_of<T>() ? *this : adopt(detail::made(kiln_cast(get(), detail::dtype_of<T>())));
        std::vector<T> v(static_cast<size_t>(numel()));
        detail::check(kiln_read(same.get(), v.data(), v.size() * sizeof(T)));
        return v;
    }
    KILN_CXX std::string to_string() const
    {
        char *text = detail::made(kiln_to_string(get()));
        const std::unique_ptr<char, void (*)(void *)> held(text, std::free);
        return text;
    }
    KILN_CXX std::string to_string(const kiln_print_opts &opts) const
    {
        auto o = detail::with_size(opts);
        char *text = detail::made(kiln_to_string_with(get(), &o));
        const std::unique_ptr<char, void (*)(void *)> held(text, std::free);
        return text;
    }
    KILN_CXX void print(FILE *file = stdout, const kiln_print_opts &opts = {}) const
    {
        auto o = detail::with_size(opts);
        detail::check(kiln_print_with(get(), file, &o));
    }
    KILN_CXX tensor to(device_ref dev) const { return adopt(detail::made(kiln_to_device(get(), dev.get()))); }
    KILN_CXX tensor to(kiln_dtype d) const { return adopt(detail::made(kiln_cast(get(), d))); }
    KILN_CXX tensor reshape(std::initializer_list<int64_t> shape) const { return reshape(ints(shape)); }

    /// x(slice(1, 3), whole, 0), x(ids), x(mask), x(ellipsis, 0), x(new_axis): as kiln_index.
    template <class... I> KILN_CXX tensor operator()(const I &...items) const;
    template <class I> KILN_CXX tensor operator[](const I &item) const { return (*this)(item); }
    /// x(items...) = src, in the memory of x: as kiln_index_assign.
    template <class... I> KILN_CXX void set(const tensor &src, const I &...items) const;
    template <class... I> KILN_CXX void set_add(const tensor &src, const I &...items) const;
    KILN_CXX void assign(const tensor &src) const { detail::check(kiln_assign(get(), src.get())); }
    /// `n` equal parts along an axis.
    KILN_CXX std::vector<tensor> split(size_t n, int64_t axis = 0) const;
    KILN_CXX std::vector<tensor> unstack(int64_t axis = 0) const;

    KILN_CXX const tensor &requires_grad(bool on = true) const
    {
        detail::check(kiln_set_requires_grad(get(), on));
        return *this;
    }
    KILN_CXX bool is_trained() const { return detail::checked(kiln_requires_grad(get())); }
    KILN_CXX void backward(const tensor &sens = {}) const { detail::check(kiln_backward(get(), sens.get())); }
    KILN_CXX void backward(const kiln_backward_opts &opts) const
    {
        auto o = detail::with_size(opts);
        detail::check(kiln_backward_with(get(), &o));
    }
    /// The gradient that backward left, an empty tensor where there is none.
    KILN_CXX tensor grad() const
    {
        kiln_tensor *g = detail::checked(kiln_gradient(get()));
        return g ? share(g) : tensor();
    }
    KILN_CXX tensor detach() const { return adopt(detail::made(kiln_stop_gradient(get()))); }
    KILN_CXX const tensor &as_state() const
    {
        detail::check(kiln_state(get()));
        return *this;
    }

#define KILN_OPS_MEMBERS
#include <kiln/ops.hpp>
#undef KILN_OPS_MEMBERS

#define KILN_BINARY_OPERATOR(sign, name)                                     \
    friend KILN_CXX tensor operator sign(const operand &a, const operand &b) \
    {                                                                        \
        return adopt(detail::made(kiln_##name##_n(a.c(), b.c())));           \
    }
    KILN_BINARY_OPERATOR(+, add)
    KILN_BINARY_OPERATOR(-, sub)
    KILN_BINARY_OPERATOR(*, mul)
    KILN_BINARY_OPERATOR(/, div)
    KILN_BINARY_OPERATOR(%, remainder)
    KILN_BINARY_OPERATOR(==, equal)
    KILN_BINARY_OPERATOR(!=, not_equal)
    KILN_BINARY_OPERATOR(<, less)
    KILN_BINARY_OPERATOR(<=, less_equal)
    KILN_BINARY_OPERATOR(>, greater)
    KILN_BINARY_OPERATOR(>=, greater_equal)
    KILN_BINARY_OPERATOR(&, bitwise_and)
    KILN_BINARY_OPERATOR(|, bitwise_or)
    KILN_BINARY_OPERATOR(^, bitwise_xor)
    KILN_BINARY_OPERATOR(<<, bitwise_left_shift)
    KILN_BINARY_OPERATOR(>>, bitwise_right_shift)
#undef KILN_BINARY_OPERATOR
    KILN_CXX tensor operator-() const
    {
        return adopt(detail::made(kiln_neg(get())));
    }
    KILN_CXX tensor operator!() const
    {
        return adopt(detail::made(kiln_logical_not(get())));
    }
    KILN_CXX tensor operator~() const
    {
        return adopt(detail::made(kiln_bitwise_invert(get())));
    }
    /// x += y is x = x + y: a new tensor, so that copies and gradients stay right. add_ and its kin write in place.
    KILN_CXX tensor &operator+=(const operand &b) &
    {
        return *this = adopt(detail::made(kiln_add_n(operand(*this).c(), b.c())));
    }
    KILN_CXX tensor &operator-=(const operand &b) &
    {
        return *this = adopt(detail::made(kiln_sub_n(operand(*this).c(), b.c())));
    }
    KILN_CXX tensor &operator*=(const operand &b) &
    {
        return *this = adopt(detail::made(kiln_mul_n(operand(*this).c(), b.c())));
    }
    KILN_CXX tensor &operator/=(const operand &b) &
    {
        return *this = adopt(detail::made(kiln_div_n(operand(*this).c(), b.c())));
    }
    friend KILN_CXX std::ostream &operator<<(std::ostream &out, const tensor &t)
    {
        return out << t.to_string();
    }

  private:
    std::shared_ptr<kiln_tensor> t_;
};

inline tensors::tensors(std::initializer_list<tensor> v) : tensors(std::vector<tensor>(v)) {}
inline tensors::tensors(std::vector<tensor> v) : v_(std::move(v))
{
    for (const tensor &t : v_) handles_.push_back(t.get());
}

KILN_CXX operand::operand(const tensor &t) : c_(kiln_operand_tensor_(t.get())) {}

namespace detail {

KILN_CXX tensor taken(kiln_tensor *t)
{
    return tensor::adopt(made(t));
}

inline tensor results::take(size_t i)
{
    return tensor::adopt(std::exchange(v_[i], nullptr));
}

inline std::vector<tensor> results::all()
{
    std::vector<tensor> r;
    for (size_t i = 0; i < v_.size(); i++) r.push_back(take(i));
    return r;
}

} // namespace detail

/// One item of an index: a number, a tensor of integers or bools, or what slice and its kin make.
struct index {
    template <class T, detail::if_integer<T> = 0> index(T at) : c(KILN_AT(static_cast<int64_t>(at))) {}
    index(const kiln_index_item &item) : c(item) {}
    KILN_CXX index(const tensor &t) : c(t.dtype() == KILN_BOOL ? KILN_MASK(t.get()) : KILN_TAKE(t.get())) {}
    kiln_index_item c;
};
constexpr int64_t end = KILN_END; ///< an open bound of a slice
/// start:stop:step
KILN_CXX index slice(int64_t start, int64_t stop = end, int64_t step = 1)
{
    return kiln_index_item_of(KILN_ITEM_SLICE, start, stop, step, nullptr);
}
inline const index whole = kiln_index_item_of(KILN_ITEM_SLICE, KILN_END, KILN_END, 1, nullptr);
inline const index ellipsis = kiln_index_item_of(KILN_ITEM_ELLIPSIS, 0, 0, 0, nullptr);
inline const index new_axis = kiln_index_item_of(KILN_ITEM_NEW_AXIS, 0, 0, 0, nullptr);

template <class... I> KILN_CXX tensor tensor::operator()(const I &...items) const
{
    const kiln_index_item c[] = {index(items).c...};
    return adopt(detail::made(kiln_index(get(), sizeof...(I), c)));
}
template <class... I> KILN_CXX void tensor::set(const tensor &src, const I &...items) const
{
    const kiln_index_item c[] = {index(items).c...};
    detail::check(kiln_index_assign(get(), sizeof...(I), c, src.get()));
}
template <class... I> KILN_CXX void tensor::set_add(const tensor &src, const I &...items) const
{
    const kiln_index_item c[] = {index(items).c...};
    detail::check(kiln_index_assign_add(get(), sizeof...(I), c, src.get()));
}
KILN_CXX std::vector<tensor> tensor::split(size_t n, int64_t axis) const
{
    detail::results out(n);
    detail::check(kiln_split(get(), axis, out.data(), n));
    return out.all();
}
KILN_CXX std::vector<tensor> tensor::unstack(int64_t axis) const
{
    detail::results out(static_cast<size_t>(size(axis)));
    detail::check(kiln_unstack(get(), axis, out.data(), out.size()));
    return out.all();
}

#include <kiln/ops.hpp>

/// A tensor with a copy of the data of the host, row-major; no shape: a vector.
template <class T>
KILN_CXX tensor from_data(const std::vector<T> &data, std::vector<int64_t> shape = {}, device_ref dev = {})
{
    if (shape.empty()) shape.push_back(static_cast<int64_t>(data.size()));
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    if (n != static_cast<int64_t>(data.size()))
        throw error(KILN_E_SHAPE,
                    "from_data: " + std::to_string(data.size()) + " elements for a shape of " + std::to_string(n));
    return detail::taken(kiln_from_data(dev.get(), detail::dtype_of<T>(), shape.size(), shape.data(), data.data()));
}

/// A parameter: a leaf that requires a gradient.
KILN_CXX tensor parameter(const tensor &init, const char *name = "")
{
    return detail::taken(kiln_parameter(init.get(), name));
}

} // namespace kiln
#endif
