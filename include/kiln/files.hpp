/// @file files.hpp
/// Arrays in files for C++: npy, npz, safetensors, GGUF, PyTorch's, IDX, and checkpoints: kiln/io.h.
///
///     kiln::archive a("model.safetensors");
///     kiln::tensor w = a["layer.0.weight"];
///     kiln::checkpoint c;
///     c.put(net.state());
///     c.put("step", step);
///     c.save("run.ckpt");
#ifndef KILN_FILES_HPP
#define KILN_FILES_HPP

#include <kiln/bundle.hpp>

#include <functional>

namespace kiln {

/// Tensors with names, in order.
using named_tensors = std::vector<std::pair<std::string, tensor>>;

namespace detail {

// What a function gives that fills two lists and says how many there are.
template <auto Fill, class T> KILN_CXX named_tensors named(T *of)
{
    const size_t n = checked(Fill(of, nullptr, nullptr, 0));
    std::vector<const char *> names(n);
    std::vector<kiln_tensor *> t(n);
    Fill(of, names.data(), t.data(), n);
    if (kiln_error() != KILN_OK) raise();
    named_tensors v;
    for (size_t i = 0; i < n; i++) v.emplace_back(names[i], tensor::share(t[i]));
    return v;
}

// The two lists that C takes; they borrow from `v`.
struct name_list {
    std::vector<const char *> names;
    std::vector<kiln_tensor *> tensors;
    explicit name_list(const named_tensors &v)
    {
        for (const auto &each : v) {
            names.push_back(each.first.c_str());
            tensors.push_back(each.second.get());
        }
    }
};

// A function that renames, in the form of C.
struct renaming {
    const std::function<std::string(const std::string &)> &f;
    thrown error;
    std::string name;
    static const char *run(void *user, const char *name)
    {
        auto *r = static_cast<renaming *>(user);
        r->name.clear();
        r->error.keep([&] { r->name = r->f(name); });
        return r->name.empty() ? nullptr : r->name.c_str();
    }
};

} // namespace detail

/// Arrays by name, of a file.
class archive : public handle<kiln_archive, kiln_archive_free> {
  public:
    using handle::handle;
    /// Of any format, which the file tells.
    KILN_CXX explicit archive(const std::string &path) : handle(detail::made(kiln_archive_load(path.c_str()))) {}
    KILN_CXX static archive npz(const std::string &path) { return archive(detail::made(kiln_npz_load(path.c_str()))); }
    KILN_CXX static archive safetensors(const std::string &path)
    {
        return archive(detail::made(kiln_safetensors_load(path.c_str())));
    }
    KILN_CXX static archive gguf(const std::string &path)
    {
        return archive(detail::made(kiln_gguf_load(path.c_str())));
    }
    KILN_CXX static archive torch(const std::string &path)
    {
        return archive(detail::made(kiln_torch_load(path.c_str())));
    }
    KILN_CXX size_t count() const { return detail::checked(kiln_archive_count(get())); }
    KILN_CXX std::string name(size_t i) const { return detail::made(kiln_archive_name(get(), i)); }
    KILN_CXX bool has(const std::string &name) const { return kiln_archive_has(get(), name.c_str()); }
    KILN_CXX tensor get_tensor(const std::string &name, device_ref dev = {}) const
    {
        return detail::taken(kiln_archive_get(get(), dev.get(), name.c_str()));
    }
    KILN_CXX tensor get_tensor(size_t i, device_ref dev = {}) const
    {
        return detail::taken(kiln_archive_tensor(get(), dev.get(), i));
    }
    KILN_CXX tensor operator[](const std::string &name) const
    {
        return detail::taken(kiln_archive_get(get(), nullptr, name.c_str()));
    }
    /// An array as it is packed, and the name of its format: kiln_archive_packed.
    KILN_CXX std::tuple<tensor, std::string> packed(const std::string &name, device_ref dev = {}) const
    {
        const char *format = nullptr;
        tensor t = detail::taken(kiln_archive_packed(get(), dev.get(), name.c_str(), &format));
        return {t, format};
    }
    /// All arrays, or those below a prefix, as a bundle: kiln_archive_bundle. `rename` gives a name, "" passes over.
    KILN_CXX bundle as_bundle(const kiln_archive_bundle_opts &opts = {},
                              const std::function<std::string(const std::string &)> &rename = {},
                              device_ref dev = {}) const
    {
        auto o = detail::with_size(opts);
        detail::renaming r = {rename, {}, {}};
        if (rename) o.rename = detail::renaming::run;
        if (rename) o.user = &r;
        bundle b = bundle::adopt(kiln_archive_bundle(get(), dev.get(), &o));
        r.error.again();
        detail::made(b.get());
        return b;
    }
    KILN_CXX std::vector<std::pair<std::string, std::string>> metadata() const
    {
        std::vector<std::pair<std::string, std::string>> v;
        const size_t n = detail::checked(kiln_archive_metadata_count(get()));
        for (size_t i = 0; i < n; i++) {
            const char *key = nullptr, *value = nullptr;
            detail::check(kiln_archive_metadata(get(), i, &key, &value));
            v.emplace_back(key, value);
        }
        return v;
    }
};

/// The number of a packing by the name that archive::packed gives: kiln_packing.
KILN_CXX int64_t packing(const std::string &format)
{
    return detail::checked(kiln_packing(format.c_str()));
}

KILN_CXX tensor npy_load(const std::string &path, device_ref dev = {})
{
    return detail::taken(kiln_npy_load(dev.get(), path.c_str()));
}
KILN_CXX void npy_save(const std::string &path, const tensor &t)
{
    detail::check(kiln_npy_save(path.c_str(), t.get()));
}
KILN_CXX void npz_save(const std::string &path, const named_tensors &v, bool compress = false)
{
    const detail::name_list l(v);
    auto o = detail::sized<kiln_npz_opts>();
    o.compress = compress;
    detail::check(kiln_npz_save(path.c_str(), l.names.data(), l.tensors.data(), v.size(), &o));
}
KILN_CXX void safetensors_save(const std::string &path, const named_tensors &v)
{
    const detail::name_list l(v);
    detail::check(kiln_safetensors_save(path.c_str(), l.names.data(), l.tensors.data(), v.size()));
}
KILN_CXX tensor idx_load(const std::string &path, device_ref dev = {})
{
    return detail::taken(kiln_idx_load(dev.get(), path.c_str()));
}

/// Named tensors, integers, numbers and texts in one file.
class checkpoint : public handle<kiln_checkpoint, kiln_checkpoint_free> {
  public:
    KILN_CXX checkpoint() : handle(detail::made(kiln_checkpoint_create())) {}
    KILN_CXX explicit checkpoint(const std::string &path) : handle(detail::made(kiln_checkpoint_load(path.c_str()))) {}
    KILN_CXX void save(const std::string &path) { detail::check(kiln_checkpoint_save(get(), path.c_str())); }
    KILN_CXX bool has(const std::string &name) const { return kiln_checkpoint_has(get(), name.c_str()); }

    KILN_CXX void put(const named_tensors &v)
    {
        const detail::name_list l(v);
        detail::check(kiln_checkpoint_put(get(), l.names.data(), l.tensors.data(), v.size()));
    }
    KILN_CXX void put(const std::string &name, const tensor &t) { put(named_tensors{{name, t}}); }
    template <class T, detail::if_number<T> = 0> KILN_CXX void put(const std::string &name, T v)
    {
        if (std::is_floating_point<T>::value)
            detail::check(kiln_checkpoint_put_double(get(), name.c_str(), static_cast<double>(v)));
        else
            detail::check(kiln_checkpoint_put_int(get(), name.c_str(), static_cast<int64_t>(v)));
    }
    KILN_CXX void put(const std::string &name, const std::string &v)
    {
        detail::check(kiln_checkpoint_put_string(get(), name.c_str(), v.c_str()));
    }
    KILN_CXX void put(const std::string &name, const char *v)
    {
        detail::check(kiln_checkpoint_put_string(get(), name.c_str(), v));
    }

    /// Writes what it holds under these names into the tensors.
    KILN_CXX void restore(const named_tensors &v) const
    {
        const detail::name_list l(v);
        detail::check(kiln_checkpoint_restore(get(), l.names.data(), l.tensors.data(), v.size()));
    }
    KILN_CXX tensor get_tensor(const std::string &name, device_ref dev = {}) const
    {
        return detail::taken(kiln_checkpoint_get(get(), dev.get(), name.c_str()));
    }
    KILN_CXX int64_t get_int(const std::string &name) const
    {
        int64_t v = 0;
        detail::check(kiln_checkpoint_get_int(get(), name.c_str(), &v));
        return v;
    }
    KILN_CXX double get_double(const std::string &name) const
    {
        double v = 0;
        detail::check(kiln_checkpoint_get_double(get(), name.c_str(), &v));
        return v;
    }
    KILN_CXX std::string get_string(const std::string &name) const
    {
        return detail::made(kiln_checkpoint_get_string(get(), name.c_str()));
    }
};

} // namespace kiln
#endif
