/// @file media.hpp
/// Images, sounds, tables and texts in files for C++: kiln/media.h, kiln/text.h.
#ifndef KILN_MEDIA_HPP
#define KILN_MEDIA_HPP

#include <kiln/files.hpp>

namespace kiln {

/// u8 [height, width, channels]; channels 0: as the file has them.
KILN_CXX tensor load_image(const std::string &path, int64_t channels = 0, device_ref dev = {})
{
    return detail::taken(kiln_load_image(dev.get(), path.c_str(), channels));
}
/// Height, width, channels, without reading the pixels.
KILN_CXX std::vector<int64_t> image_size(const std::string &path)
{
    std::vector<int64_t> dims(3);
    detail::check(kiln_image_size(path.c_str(), dims.data()));
    return dims;
}
/// Reads an image of this size into memory: for functions of loaders.
KILN_CXX void read_image(const std::string &path, int64_t height, int64_t width, int64_t channels, void *out,
                         size_t out_B)
{
    detail::check(kiln_read_image(path.c_str(), height, width, channels, out, out_B));
}
KILN_CXX void save_image(const std::string &path, const tensor &t, const kiln_save_image_opts &opts = {})
{
    auto o = detail::with_size(opts);
    detail::check(kiln_save_image(path.c_str(), t.get(), &o));
}

/// [channels, frames], and the frames in a second.
KILN_CXX std::tuple<tensor, double> load_wav(const std::string &path, const kiln_load_wav_opts &opts = {},
                                             device_ref dev = {})
{
    double rate = 0;
    auto o = detail::with_size(opts);
    tensor t = detail::taken(kiln_load_wav(dev.get(), path.c_str(), &rate, &o));
    return {t, rate};
}
KILN_CXX void save_wav(const std::string &path, const tensor &t, double rate, const kiln_save_wav_opts &opts = {})
{
    auto o = detail::with_size(opts);
    detail::check(kiln_save_wav(path.c_str(), t.get(), rate, &o));
}

/// A table of a CSV file. Columns are named or numbered.
class table : public handle<kiln_table, kiln_table_free> {
  public:
    KILN_CXX explicit table(const std::string &path, const kiln_csv_opts &opts = {})
    {
        auto o = detail::with_size(opts);
        handle::operator=(handle(detail::made(kiln_csv_load(path.c_str(), &o))));
    }
    KILN_CXX int64_t rows() const { return detail::checked(kiln_table_rows(get())); }
    KILN_CXX size_t columns() const { return detail::checked(kiln_table_columns(get())); }
    KILN_CXX std::string name(size_t column) const { return detail::made(kiln_table_name(get(), column)); }
    KILN_CXX kiln_column type(size_t column) const { return detail::checked(kiln_table_type(get(), column)); }
    KILN_CXX size_t find(const std::string &name) const
    {
        return detail::checked(kiln_table_find(get(), name.c_str()));
    }
    KILN_CXX std::string text(int64_t row, size_t column) const
    {
        return detail::made(kiln_table_text(get(), row, column));
    }
    KILN_CXX tensor column(size_t i, device_ref dev = {}) const
    {
        return detail::taken(kiln_table_column(get(), dev.get(), i));
    }
    KILN_CXX tensor missing(size_t i, device_ref dev = {}) const
    {
        return detail::taken(kiln_table_missing(get(), dev.get(), i));
    }
    /// The different texts of a column by number.
    KILN_CXX tensor codes(size_t i, device_ref dev = {}) const
    {
        return detail::taken(kiln_table_codes(get(), dev.get(), i));
    }
    KILN_CXX tensor column(const std::string &name, device_ref dev = {}) const { return column(find(name), dev); }
    KILN_CXX tensor missing(const std::string &name, device_ref dev = {}) const { return missing(find(name), dev); }
    KILN_CXX tensor codes(const std::string &name, device_ref dev = {}) const { return codes(find(name), dev); }
    /// Columns side by side.
    KILN_CXX tensor matrix(const std::vector<std::string> &names, kiln_dtype dtype = KILN_F32,
                           device_ref dev = {}) const
    {
        std::vector<const char *> list;
        for (const std::string &name : names) list.push_back(name.c_str());
        return detail::taken(kiln_table_matrix(get(), dev.get(), dtype, list.data(), list.size()));
    }
};

KILN_CXX void csv_save(const std::string &path, const named_tensors &v, const kiln_csv_opts &opts = {})
{
    const detail::name_list l(v);
    auto o = detail::with_size(opts);
    detail::check(kiln_csv_save(path.c_str(), l.names.data(), l.tensors.data(), v.size(), &o));
}

/// What stands for what in texts.
class vocabulary : public handle<kiln_vocabulary, kiln_vocabulary_free> {
  public:
    using handle::handle;
    KILN_CXX static vocabulary bytes() { return vocabulary(detail::made(kiln_vocabulary_bytes())); }
    KILN_CXX static vocabulary characters(const std::string &text)
    {
        return vocabulary(detail::made(kiln_vocabulary_characters(text.data(), text.size())));
    }
    KILN_CXX static vocabulary of_file(const std::string &path)
    {
        return vocabulary(detail::made(kiln_vocabulary_of_file(path.c_str())));
    }
    KILN_CXX int64_t count() const { return detail::checked(kiln_vocabulary_count(get())); }
    KILN_CXX std::string text() const { return detail::made(kiln_vocabulary_text(get())); }
    /// i64 [characters]
    KILN_CXX tensor encode(const std::string &text, const kiln_encode_opts &opts = {}, device_ref dev = {}) const
    {
        auto o = detail::with_size(opts);
        return detail::taken(kiln_encode(get(), dev.get(), text.data(), text.size(), &o));
    }
    KILN_CXX tensor encode_file(const std::string &path, const kiln_encode_opts &opts = {}, device_ref dev = {}) const
    {
        auto o = detail::with_size(opts);
        return detail::taken(kiln_encode_file(get(), dev.get(), path.c_str(), &o));
    }
    KILN_CXX std::string decode(const tensor &ids) const
    {
        size_t size_B = 0;
        char *text = detail::made(kiln_decode(get(), ids.get(), &size_B));
        const std::unique_ptr<char, void (*)(void *)> held(text, std::free);
        return std::string(text, size_B);
    }
};

} // namespace kiln
#endif
