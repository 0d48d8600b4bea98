/// @file tree.hpp
/// Values that hold tensors: what functions of C++ take and give. Included by kiln/function.hpp.
///
/// A tree is a tensor, a number, a text, a bundle; a std::vector, std::array, std::tuple, std::pair, std::optional or
/// std::map (by texts) of trees; or a struct that names its members, has a default constructor and can be copied:
///
///     struct layer {
///         kiln::tensor w, b;
///         KILN_FIELDS(w, b)
///     };
#ifndef KILN_TREE_HPP
#define KILN_TREE_HPP

#include <kiln/bundle.hpp>

#include <array>
#include <map>
#include <optional>

/// The members of a struct that make a tree of it.
#define KILN_FIELDS(...)                  \
    auto kiln_fields()                    \
    {                                     \
        return std::tie(__VA_ARGS__);     \
    }                                     \
    auto kiln_fields() const              \
    {                                     \
        return std::tie(__VA_ARGS__);     \
    }                                     \
    static const char *kiln_field_names() \
    {                                     \
        return #__VA_ARGS__;              \
    }

namespace kiln {
namespace detail {

using tensor_list = std::vector<tensor>;

template <class T> constexpr bool is_tensor = std::is_same<std::remove_cv_t<T>, tensor>::value;
template <class T> constexpr bool is_text = std::is_same<std::remove_cv_t<T>, std::string>::value;
template <class T> constexpr bool is_bundle = std::is_same<std::remove_cv_t<T>, bundle>::value;
template <class T> constexpr bool is_content = std::is_arithmetic<T>::value || is_text<T> || is_bundle<T>;

template <class T, class = void> struct fields_of : std::false_type {
};
template <class T> struct fields_of<T, std::void_t<decltype(std::declval<T &>().kiln_fields())>> : std::true_type {
};
template <class T> constexpr bool has_fields = fields_of<T>::value;
template <class T, class = void> struct tuple_of : std::false_type {
};
template <class T> struct tuple_of<T, std::void_t<decltype(std::tuple_size<T>::value)>> : std::true_type {
};
template <class T> constexpr bool is_tuple = tuple_of<std::remove_cv_t<T>>::value;
template <class T> struct list_of : std::false_type {
};
template <class T> struct list_of<std::vector<T>> : std::true_type {
};
template <class T> constexpr bool is_list = list_of<std::remove_cv_t<T>>::value;
template <class T> struct map_of : std::false_type {
};
template <class T, class... More> struct map_of<std::map<std::string, T, More...>> : std::true_type {
};
template <class T> constexpr bool is_map = map_of<std::remove_cv_t<T>>::value;
template <class T> struct optional_of : std::false_type {
};
template <class T> struct optional_of<std::optional<T>> : std::true_type {
};
template <class T> constexpr bool is_optional = optional_of<std::remove_cv_t<T>>::value;
template <class> constexpr bool never = false;

// Calls f with each tensor of a tree that is not empty, in order.
template <class T, class F> void each_tensor(T &t, F &f)
{
    if constexpr (is_tensor<T>) {
        if (t.defined()) f(t);
    } else if constexpr (has_fields<T>) {
        std::apply([&](auto &...member) { (each_tensor(member, f), ...); }, t.kiln_fields());
    } else if constexpr (is_tuple<T>) {
        std::apply([&](auto &...member) { (each_tensor(member, f), ...); }, t);
    } else if constexpr (is_list<T>) {
        for (auto &member : t) each_tensor(member, f);
    } else if constexpr (is_map<T>) {
        for (auto &member : t) each_tensor(member.second, f);
    } else if constexpr (is_optional<T>) {
        if (t) each_tensor(*t, f);
    } else {
        static_assert(is_content<T>, "a tree, see kiln/tree.hpp");
    }
}

template <class T> void add_tensors(tensor_list &all, const T &t)
{
    auto add = [&](const tensor &x) { all.push_back(x); };
    each_tensor(t, add);
}
template <class... T> tensor_list tensors_of(const T &...t)
{
    tensor_list all;
    (add_tensors(all, t), ...);
    return all;
}
template <class T> size_t count_tensors(const T &t)
{
    size_t n = 0;
    auto count = [&](const tensor &) { n++; };
    each_tensor(t, count);
    return n;
}

// How many tensors a type has; -1 where its values differ.
template <class T> constexpr int fixed_count();
template <class T, size_t... I> constexpr int fixed_sum(std::index_sequence<I...>)
{
    const int each[] = {0, fixed_count<std::decay_t<std::tuple_element_t<I, T>>>()...};
    int sum = 0;
    for (int n : each) sum = n < 0 || sum < 0 ? -1 : sum + n;
    return sum;
}
template <class T> constexpr int fixed_count()
{
    if constexpr (std::is_void<T>::value || is_content<T>) {
        return 0;
    } else if constexpr (is_tensor<T>) {
        return 1;
    } else if constexpr (has_fields<T>) {
        using members = decltype(std::declval<T &>().kiln_fields());
        return fixed_sum<members>(std::make_index_sequence<std::tuple_size<members>::value>());
    } else if constexpr (is_tuple<T>) {
        return fixed_sum<T>(std::make_index_sequence<std::tuple_size<T>::value>());
    } else {
        return -1;
    }
}

// Puts tensors into the places of a tree, empty ones too.
template <class T> void place(T &t, const tensor_list &from, size_t &at)
{
    if constexpr (is_tensor<T>)
        t = from.at(at++);
    else if constexpr (has_fields<T>)
        std::apply([&](auto &...member) { (place(member, from, at), ...); }, t.kiln_fields());
    else if constexpr (is_tuple<T>)
        std::apply([&](auto &...member) { (place(member, from, at), ...); }, t);
    else
        static_assert(is_content<T>, "a tree with a fixed number of tensors");
}
// Replaces the tensors of a tree that are not empty.
template <class T> void replace_tensors(T &t, const tensor_list &from, size_t &at)
{
    auto put = [&](tensor &x) { x = from.at(at++); };
    each_tensor(t, put);
}

// --- trees as entries of bundles

inline std::vector<std::string> split_names(const char *text)
{
    std::vector<std::string> names(1);
    for (; *text; text++)
        if (*text == ',')
            names.emplace_back();
        else if (*text != ' ')
            names.back() += *text;
    return names;
}

template <class T> void fill(bundle &b, const T &t);

template <class T> void append(bundle &b, const std::string &name, const T &t)
{
    if constexpr (is_optional<T>) {
        if (t)
            append(b, name, *t);
        else
            append(b, name, tensor());
    } else if constexpr (is_tensor<T> || is_content<T>) {
        const kiln_value v = value_of(t);
        check(kiln_bundle_append(b.get(), name.empty() ? nullptr : name.c_str(), &v));
    } else {
        bundle inner;
        fill(inner, t);
        append(b, name, inner);
    }
}

template <class T, size_t... I>
void fill_fields(bundle &b, const T &members, std::index_sequence<I...>, const std::vector<std::string> &names)
{
    (append(b, names.at(I), std::get<I>(members)), ...);
}
template <class T> void fill(bundle &b, const T &t)
{
    if constexpr (has_fields<T>) {
        const auto members = t.kiln_fields();
        fill_fields(b, members, std::make_index_sequence<std::tuple_size<decltype(members)>::value>(),
                    split_names(T::kiln_field_names()));
    } else if constexpr (is_tuple<T>) {
        std::apply([&](const auto &...member) { (append(b, "", member), ...); }, t);
    } else if constexpr (is_list<T>) {
        for (const auto &member : t) append(b, "", member);
    } else {
        static_assert(is_map<T>, "a tree, see kiln/tree.hpp");
        for (const auto &member : t) append(b, member.first, member.second);
    }
}

template <class T> T read(const bundle &b);

// The entry of an index as a T.
template <class T> T entry(const bundle &b, int64_t i)
{
    if constexpr (is_optional<T>) {
        if (b.kind(i) == KILN_KIND_NONE) return T();
        return entry<typename T::value_type>(b, i);
    } else if constexpr (is_tensor<T>) {
        return b.kind(i) == KILN_KIND_NONE ? tensor() : b.get<tensor>(i);
    } else if constexpr (is_content<T>) {
        return b.get<T>(i);
    } else {
        return read<T>(b.get<bundle>(i));
    }
}

template <class T> void read_entries(const bundle &b, T &t, int64_t &i)
{
    t = entry<T>(b, i++);
}
template <class T> T read(const bundle &b)
{
    T t{};
    int64_t i = 0;
    if constexpr (has_fields<T>) {
        std::apply([&](auto &...member) { (read_entries(b, member, i), ...); }, t.kiln_fields());
    } else if constexpr (is_tuple<T>) {
        std::apply([&](auto &...member) { (read_entries(b, member, i), ...); }, t);
    } else if constexpr (is_list<T>) {
        const auto n = static_cast<int64_t>(b.count());
        while (i < n) t.push_back(entry<typename T::value_type>(b, i++));
    } else {
        static_assert(is_map<T>, "a tree, see kiln/tree.hpp");
        const auto n = static_cast<int64_t>(b.count());
        for (; i < n; i++) t.emplace(b.name(i), entry<typename T::mapped_type>(b, i));
    }
    return t;
}

} // namespace detail
} // namespace kiln
#endif
