// Formats by their first bytes.
#include "io/kind.h"

#include <string.h>

static const struct {
    const char *first;
    size_t n, at;
    const char *hint;
} kinds[] = {
    {"PK\3\4", 4, 0, "; it is a zip file, as kiln_npz_load and kiln_torch_load read"},
    {"\x93NUMPY", 6, 0, "; it is npy, which kiln_npy_load reads"},
    {"GGUF", 4, 0, "; it is GGUF, which kiln_gguf_load reads"},
    {"{\"", 2, 8, "; it looks like safetensors, which kiln_safetensors_load reads"},
    {"version https://git-lfs", 23, 0,
     "; it is a pointer of Git LFS, in the place of the file: git lfs pull fetches it"},
    {"<!DOC", 5, 0, "; it is a page of the web, perhaps in the place of a download"},
    {"<html", 5, 0, "; it is a page of the web, perhaps in the place of a download"},
    {"\x89HDF", 4, 0, "; it is HDF5, which must be converted, to safetensors or npz"},
    {"\x80\2", 2, 0, "; it is a pickle of Python, which must be saved again by torch.save, or as safetensors"},
    {"\x89PNG", 4, 0, "; it is PNG, which kiln_load_image reads"},
    {"\xff\xd8\xff", 3, 0, "; it is JPEG, which kiln_load_image reads"},
    {"\x1f\x8b", 2, 0, "; it is compressed with gzip"},
};

const char *io_looks_like(const unsigned char *first, uint64_t n)
{
    if (!n) return "; the file is empty";
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (n >= kinds[i].at + kinds[i].n && !memcmp(first + kinds[i].at, kinds[i].first, kinds[i].n))
            return kinds[i].hint;
    return "";
}

const char *io_file_looks_like(const struct io_reader *r)
{
    unsigned char first[32];
    uint64_t n = r->size_B < sizeof first ? r->size_B : sizeof first;
    return io_read(r, 0, first, n) ? "" : io_looks_like(first, n);
}
