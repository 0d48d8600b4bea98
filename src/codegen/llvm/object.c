// A linker for one relocatable object of x86-64.
//
// Input: bytes that may be damaged. Sections that are loaded (code and constants) are copied one after the other into
// pages of their own, by their alignment; then the places that the relocations name get distances between them. All
// pages become executable and cease to be writable: constants lie between code and would cost pages of their own.
// Invariant: each offset and number of the file is compared with the sizes of file and image before it is used. What
// is not known to be right, a symbol outside, another kind of relocation, ends it: nothing is left then.
#include "codegen/llvm/object.h"
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__)
#include <elf.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_SECTIONS = 64, MAX_ALIGN_B = 4096, MAX_IMAGE_B = 1 << 28 };

struct linking {
    const unsigned char *file;
    size_t file_B;
    Elf64_Shdr sections[MAX_SECTIONS];
    size_t at[MAX_SECTIONS]; // in the image; only of loaded sections
    int n;
    Elf64_Shdr symbols;
    unsigned char *image;
    size_t image_B;
};

static bool lies_in(const struct linking *l, uint64_t at, uint64_t size_B)
{
    return at <= l->file_B && size_B <= l->file_B - at;
}

static bool is_loaded(const Elf64_Shdr *s)
{
    return s->sh_flags & SHF_ALLOC;
}

// The sections, and their places in the image.
static bool read_sections(struct linking *l)
{
    Elf64_Ehdr h;
    if (l->file_B < sizeof h) return false;
    memcpy(&h, l->file, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB ||
        h.e_type != ET_REL || h.e_machine != EM_X86_64 || h.e_shentsize != sizeof *l->sections ||
        h.e_shnum > MAX_SECTIONS || !lies_in(l, h.e_shoff, h.e_shnum * sizeof *l->sections))
        return false;
    l->n = h.e_shnum;
    memcpy(l->sections, l->file + h.e_shoff, (size_t)l->n * sizeof *l->sections);
    for (int i = 0; i < l->n; i++) {
        const Elf64_Shdr *s = &l->sections[i];
        uint64_t align_B = s->sh_addralign ? s->sh_addralign : 1;
        if (s->sh_type != SHT_NOBITS && !lies_in(l, s->sh_offset, s->sh_size)) return false;
        if (s->sh_type == SHT_SYMTAB) l->symbols = *s;
        if (!is_loaded(s)) continue;
        if (s->sh_type != SHT_PROGBITS || s->sh_flags & (SHF_WRITE | SHF_TLS) || align_B > MAX_ALIGN_B ||
            align_B & (align_B - 1))
            return false;
        l->at[i] = (l->image_B + align_B - 1) & ~(align_B - 1);
        l->image_B = l->at[i] + s->sh_size;
        if (l->image_B > MAX_IMAGE_B) return false;
    }
    return l->image_B && l->symbols.sh_type == SHT_SYMTAB && l->symbols.sh_entsize == sizeof(Elf64_Sym) &&
           l->symbols.sh_link < (uint32_t)l->n;
}

static bool make_image(struct linking *l)
{
    void *pages = mmap(NULL, l->image_B, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return false;
    l->image = pages;
    for (int i = 0; i < l->n; i++)
        if (is_loaded(&l->sections[i]))
            memcpy(l->image + l->at[i], l->file + l->sections[i].sh_offset, l->sections[i].sh_size);
    return true;
}

// Where a symbol of this object lies in the image.
static bool find_symbol(const struct linking *l, uint64_t number, Elf64_Sym *symbol, uint64_t *at)
{
    if (number >= l->symbols.sh_size / sizeof *symbol) return false;
    memcpy(symbol, l->file + l->symbols.sh_offset + number * sizeof *symbol, sizeof *symbol);
    if (symbol->st_shndx >= l->n || !is_loaded(&l->sections[symbol->st_shndx]) ||
        symbol->st_value > l->sections[symbol->st_shndx].sh_size)
        return false;
    *at = l->at[symbol->st_shndx] + symbol->st_value;
    return true;
}

// Distances within an image fit into 32 bits.
static bool relocate(const struct linking *l, int section, const Elf64_Rela *r)
{
    uint32_t type = ELF64_R_TYPE(r->r_info);
    Elf64_Sym symbol;
    uint64_t to;
    if ((type != R_X86_64_PC32 && type != R_X86_64_PLT32) || l->sections[section].sh_size < 4 ||
        r->r_offset > l->sections[section].sh_size - 4 || !find_symbol(l, ELF64_R_SYM(r->r_info), &symbol, &to) ||
        r->r_addend > MAX_IMAGE_B || r->r_addend < -MAX_IMAGE_B)
        return false;
    uint64_t from = l->at[section] + r->r_offset;
    int64_t target = (int64_t)to + r->r_addend;
    if (target < -4 || target > (int64_t)l->image_B) return false; // less the length of the place itself
    int32_t distance = (int32_t)(target - (int64_t)from);
    memcpy(l->image + from, &distance, sizeof distance);
    return true;
}

static bool relocate_all(const struct linking *l)
{
    for (int i = 0; i < l->n; i++) {
        const Elf64_Shdr *s = &l->sections[i];
        if (s->sh_type == SHT_REL) return false;
        if (s->sh_type != SHT_RELA) continue;
        if (s->sh_info >= (uint32_t)l->n || s->sh_entsize != sizeof(Elf64_Rela)) return false;
        if (!is_loaded(&l->sections[s->sh_info])) continue; // of what is not loaded
        for (uint64_t k = 0; k < s->sh_size / sizeof(Elf64_Rela); k++) {
            Elf64_Rela r;
            memcpy(&r, l->file + s->sh_offset + k * sizeof r, sizeof r);
            if (!relocate(l, (int)s->sh_info, &r)) return false;
        }
    }
    return true;
}

static bool is_named(const struct linking *l, const Elf64_Sym *symbol, const char *name)
{
    const Elf64_Shdr *names = &l->sections[l->symbols.sh_link];
    size_t name_B = strlen(name) + 1;
    return names->sh_type == SHT_STRTAB && symbol->st_name < names->sh_size &&
           name_B <= names->sh_size - symbol->st_name &&
           !memcmp(l->file + names->sh_offset + symbol->st_name, name, name_B);
}

// The address of a function of the object; NULL: there is none of that name.
static void *find_function(const struct linking *l, const char *name)
{
    Elf64_Sym symbol;
    uint64_t at;
    for (uint64_t i = 1; i < l->symbols.sh_size / sizeof symbol; i++)
        if (find_symbol(l, i, &symbol, &at) && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
            symbol.st_value < l->sections[symbol.st_shndx].sh_size &&
            l->sections[symbol.st_shndx].sh_flags & SHF_EXECINSTR && is_named(l, &symbol, name))
            return l->image + at;
    return NULL;
}

static bool find_functions(const struct linking *l, const struct codegen_code *code, struct llvm_function *out)
{
    char end_name[sizeof code->symbol + 8];
    snprintf(end_name, sizeof end_name, "%s_end", code->symbol);
    void *run = find_function(l, code->symbol), *end = code->plan.has_end ? find_function(l, end_name) : NULL;
    if (!run || (code->plan.has_end && !end)) return false;
    memcpy(&out->run, &run, sizeof run);
    memcpy(&out->end, &end, sizeof end);
    return true;
}

bool object_load(const struct codegen_code *code, struct llvm_function *out)
{
    struct linking l = {.file = code->code, .file_B = code->size_B};
    *out = (struct llvm_function){0};
    if (!read_sections(&l) || !make_image(&l)) return false;
    if (relocate_all(&l) && find_functions(&l, code, out) && !mprotect(l.image, l.image_B, PROT_READ | PROT_EXEC)) {
        out->loaded = l.image;
        out->mapped_B = l.image_B;
        return true;
    }
    munmap(l.image, l.image_B);
    *out = (struct llvm_function){0};
    return false;
}

void object_unload(struct llvm_function *f)
{
    munmap(f->loaded, f->mapped_B);
}
#else
bool object_load(const struct codegen_code *code, struct llvm_function *out)
{
    (void)code;
    *out = (struct llvm_function){0};
    return false;
}

void object_unload(struct llvm_function *f)
{
    (void)f;
}
#endif
