/// @file data.hpp
/// Scopes, archives, loaders and bundles for C++: what frees itself.
#ifndef KILN_DATA_HPP
#define KILN_DATA_HPP

#include <kiln/tensor.hpp>

namespace kiln {

/// A scope of C, for code between that makes handles of C; tensors of C++ are in none.
class scope {
  public:
    KILN_CXX scope() : s_(detail::made(kiln_scope_begin())) {}
    ~scope() { kiln_scope_end(&s_); }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

  private:
    kiln_scope *s_;
};

/// Batches of samples: kiln/data.h. `while (loader.next()) train(loader[0], loader[1]);` is one epoch.
class loader : public handle<kiln_loader, kiln_loader_free> {
  public:
    KILN_CXX loader(const tensors &fields, const kiln_loader_opts &opts = {}, device_ref dev = {}) : n_(fields.size())
    {
        auto o = detail::with_size(opts);
        handle::operator=(handle(detail::made(kiln_loader_create(dev.get(), fields.data(), n_, &o))));
    }
    /// The next batch; false at the end of an epoch, behind which the next begins.
    KILN_CXX bool next()
    {
        bool more = false;
        detail::results out(n_);
        detail::check(kiln_loader_next(get(), out.data(), n_, &more));
        batch_ = out.all();
        return more;
    }
    const tensor &operator[](size_t field) const { return batch_.at(field); }

  private:
    size_t n_;
    std::vector<tensor> batch_;
};

/// A bundle: kiln/bundle.h; copies are other handles on the same one.
class bundle : public handle<kiln_bundle, kiln_bundle_free> {
  public:
    KILN_CXX bundle() : handle(kiln_bundle_own(detail::made(kiln_bundle_create()))) {}
    KILN_CXX void set(const char *name, const tensor &t)
    {
        auto v = detail::sized<kiln_value>();
        v.kind = KILN_KIND_TENSOR;
        v.tensor = t.get();
        detail::check(kiln_bundle_set(get(), name, &v));
    }
    KILN_CXX size_t count() const { return kiln_bundle_count(get()); }
    KILN_CXX tensor operator[](const char *name) const { return detail::taken(kiln_bundle_tensor(get(), name)); }
};

} // namespace kiln
#endif
