/// @file bundle.hpp
/// Bundles for C++: kiln/bundle.h.
///
///     kiln::bundle b;
///     b.set("x", x);
///     b.set("steps", 3);
///     kiln::tensor y = b["x"] * b.get<int64_t>("steps");
#ifndef KILN_BUNDLE_HPP
#define KILN_BUNDLE_HPP

#include <kiln/tensor.hpp>

namespace kiln {

class bundle;

namespace detail {

// The value of an entry; it borrows what it is made of.
inline kiln_value value_of(const tensor &t)
{
    auto v = sized<kiln_value>();
    v.kind = t.defined() ? KILN_KIND_TENSOR : KILN_KIND_NONE;
    v.tensor = t.get();
    return v;
}
template <class T, if_number<T> = 0> kiln_value value_of(T number)
{
    auto v = sized<kiln_value>();
    v.kind = std::is_same<T, bool>::value       ? KILN_KIND_BOOL
             : std::is_floating_point<T>::value ? KILN_KIND_DOUBLE
                                                : KILN_KIND_INT;
    if (std::is_floating_point<T>::value)
        v.number = static_cast<double>(number);
    else
        v.integer = static_cast<int64_t>(number);
    return v;
}
inline kiln_value value_of(const char *text)
{
    auto v = sized<kiln_value>();
    v.kind = KILN_KIND_STRING;
    v.string = text;
    return v;
}
inline kiln_value value_of(const std::string &text)
{
    return value_of(text.c_str());
}
inline kiln_value value_of(const bundle &b);

} // namespace detail

/// A bundle. Copies are handles on the same one, as of tensors; copy() makes another.
class bundle {
  public:
    KILN_CXX bundle() : bundle(adopt(detail::made(kiln_bundle_create()))) {}
    KILN_CXX explicit bundle(const tensors &v) : bundle(adopt(detail::made(kiln_bundle_of(v.data(), v.size())))) {}
    /// Takes over a handle of C, out of all scopes; nullptr makes an empty handle.
    KILN_CXX static bundle adopt(kiln_bundle *b)
    {
        bundle r(nullptr);
        if (b) r.b_ = std::shared_ptr<kiln_bundle>(kiln_bundle_own(b), [](kiln_bundle *h) { kiln_bundle_free(&h); });
        return r;
    }
    /// A handle of its own on the bundle of a handle of C.
    KILN_CXX static bundle share(kiln_bundle *b) { return adopt(detail::made(kiln_bundle_alias(b))); }
    kiln_bundle *get() const { return b_.get(); } ///< borrowed

    KILN_CXX bundle copy() const { return adopt(detail::made(kiln_bundle_copy(get()))); }
    /// A copy whose numbers programs take at run time.
    KILN_CXX bundle as_mutable() const { return adopt(detail::made(kiln_mutable_bundle(get()))); }
    KILN_CXX bool is_same(const bundle &o) const { return detail::checked(kiln_bundle_is(get(), o.get())); }
    KILN_CXX size_t count() const { return detail::checked(kiln_bundle_count(get())); }
    KILN_CXX bool has(const std::string &name) const { return kiln_bundle_has(get(), name.c_str()); }
    KILN_CXX int64_t index(const std::string &name) const
    {
        return detail::checked(kiln_bundle_index(get(), name.c_str()));
    }
    /// "" where the entry has none.
    KILN_CXX std::string name(int64_t index) const
    {
        const char *name = detail::checked(kiln_bundle_name(get(), index));
        return name ? name : "";
    }
    KILN_CXX kiln_kind kind(const std::string &name) const
    {
        return detail::checked(kiln_bundle_kind(get(), name.c_str()));
    }
    KILN_CXX kiln_kind kind(int64_t index) const { return detail::checked(kiln_bundle_kind_at(get(), index)); }

    /// Entries: tensors, an empty one stands for nothing; numbers, texts, bundles.
    template <class T> KILN_CXX void set(const std::string &name, const T &v)
    {
        const kiln_value value = detail::value_of(v);
        detail::check(kiln_bundle_set(get(), name.c_str(), &value));
    }
    template <class T> KILN_CXX void set(int64_t index, const T &v)
    {
        const kiln_value value = detail::value_of(v);
        detail::check(kiln_bundle_set_at(get(), index, &value));
    }
    template <class T> KILN_CXX void append(const T &v)
    {
        const kiln_value value = detail::value_of(v);
        detail::check(kiln_bundle_append(get(), nullptr, &value));
    }
    template <class T> KILN_CXX void append(const std::string &name, const T &v)
    {
        const kiln_value value = detail::value_of(v);
        detail::check(kiln_bundle_append(get(), name.c_str(), &value));
    }
    template <class T> KILN_CXX void insert(int64_t index, const T &v, const char *name = nullptr)
    {
        const kiln_value value = detail::value_of(v);
        detail::check(kiln_bundle_insert(get(), index, name, &value));
    }
    /// A pointer of the caller's, with what is called, once, when nothing holds it any more: KILN_POINTER.
    KILN_CXX void set_pointer(const std::string &name, void *pointer, void (*release)(void *) = nullptr)
    {
        auto value = detail::sized<kiln_value>();
        value.kind = KILN_KIND_POINTER;
        value.pointer = pointer;
        value.release = release;
        detail::check(kiln_bundle_set(get(), name.c_str(), &value));
    }
    KILN_CXX void remove(const std::string &name) { detail::check(kiln_bundle_remove(get(), name.c_str())); }
    KILN_CXX void remove(int64_t index) { detail::check(kiln_bundle_remove_at(get(), index)); }
    KILN_CXX void reverse() { detail::check(kiln_bundle_reverse(get())); }
    KILN_CXX void extend(const bundle &from) { detail::check(kiln_bundle_extend(get(), from.get())); }
    /// The entries from `start`, before `stop`; `end` is open.
    KILN_CXX bundle slice(int64_t start, int64_t stop = KILN_END) const
    {
        return adopt(detail::made(kiln_bundle_slice(get(), &start, stop == KILN_END ? nullptr : &stop)));
    }

    /// Values: a tensor, a number, bool, std::string, a bundle, void * for a pointer.
    template <class T = tensor> KILN_CXX T get(const std::string &name) const
    {
        const char *at = name.c_str();
        if constexpr (std::is_same<T, tensor>::value)
            return detail::taken(kiln_bundle_tensor(get(), at));
        else if constexpr (std::is_same<T, bundle>::value)
            return adopt(detail::made(kiln_bundle_bundle(get(), at)));
        else if constexpr (std::is_same<T, std::string>::value)
            return detail::made(kiln_bundle_string(get(), at));
        else if constexpr (std::is_same<T, void *>::value)
            return detail::checked(kiln_bundle_pointer(get(), at));
        else if constexpr (std::is_same<T, bool>::value)
            return detail::checked(kiln_bundle_bool(get(), at));
        else if constexpr (std::is_floating_point<T>::value)
            return static_cast<T>(detail::checked(kiln_bundle_double(get(), at)));
        else
            return static_cast<T>(detail::checked(kiln_bundle_int(get(), at)));
    }
    template <class T = tensor> KILN_CXX T get(int64_t at) const
    {
        if constexpr (std::is_same<T, tensor>::value)
            return detail::taken(kiln_bundle_tensor_at(get(), at));
        else if constexpr (std::is_same<T, bundle>::value)
            return adopt(detail::made(kiln_bundle_bundle_at(get(), at)));
        else if constexpr (std::is_same<T, std::string>::value)
            return detail::made(kiln_bundle_string_at(get(), at));
        else if constexpr (std::is_same<T, void *>::value)
            return detail::checked(kiln_bundle_pointer_at(get(), at));
        else if constexpr (std::is_same<T, bool>::value)
            return detail::checked(kiln_bundle_bool_at(get(), at));
        else if constexpr (std::is_floating_point<T>::value)
            return static_cast<T>(detail::checked(kiln_bundle_double_at(get(), at)));
        else
            return static_cast<T>(detail::checked(kiln_bundle_int_at(get(), at)));
    }
    /// Gives an entry and removes it.
    template <class T = tensor> KILN_CXX T pop(const std::string &name)
    {
        T v = get<T>(name);
        remove(name);
        return v;
    }
    template <class T = tensor> KILN_CXX T pop(int64_t index = -1)
    {
        T v = get<T>(index);
        remove(index);
        return v;
    }
    KILN_CXX tensor operator[](const char *name) const { return detail::taken(kiln_bundle_tensor(get(), name)); }
    KILN_CXX tensor operator[](int64_t index) const { return detail::taken(kiln_bundle_tensor_at(get(), index)); }
    /// As safetensors: kiln_bundle_save.
    KILN_CXX void save(const std::string &path) const { detail::check(kiln_bundle_save(get(), path.c_str())); }
    KILN_CXX void print(FILE *file = stdout) const
    {
        kiln_bundle_print(get(), file);
        if (kiln_error() != KILN_OK) detail::raise();
    }

  private:
    explicit bundle(std::nullptr_t) {}
    std::shared_ptr<kiln_bundle> b_;
};

namespace detail {
inline kiln_value value_of(const bundle &b)
{
    auto v = sized<kiln_value>();
    v.kind = KILN_KIND_BUNDLE;
    v.bundle = b.get();
    return v;
}
} // namespace detail

} // namespace kiln
#endif
