// From a call to the line of the user's code that made it.
//
// Input: the stack of the calling thread. Output: one line of the caller's source. caller_find stops at the first frame
// that is neither in libkiln nor in the C run-time libraries, through which callbacks and thread starts pass. Frames of
// libkiln have frame pointers: from one to the next is a load, and where the first frame outside is the user's, that is
// all. Else the stack is walked by unwind tables, some microseconds. caller_describe asks libdw, opened at run time,
// for the line of that address; a program without debug information, or a machine without libdw, gets "program+0x1085",
// which addr2line understands. Where the library is linked into the program itself (white-box tests), the address range
// tells nothing; there the library's frames are known by their source files, which lie in src/<layer>/.
//
// Invariants: the list of modules read by libdw only grows; an answer, once remembered, stays true because a resolved
// address belongs to code that was on a stack. Unloading a module and loading another at its place can at worst give
// the line of the old one.
#include "base/caller.h"
#include "base/base.h"
#include "base/where.h"
#include "base/dwarf.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

struct module_range {
    uintptr_t begin, end;
    bool is_program, found;
};

static struct module_range self;
static pthread_once_t self_once = PTHREAD_ONCE_INIT;

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// The module that holds this function. The main program comes first and has an empty name.
static int find_self(struct dl_phdr_info *info, size_t size_B, void *user)
{
    (void)size_B;
    struct module_range *range = user;
    uintptr_t here = (uintptr_t)&find_self, begin = UINTPTR_MAX, end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD) continue;
        uintptr_t from = info->dlpi_addr + segment->p_vaddr;
        if (from < begin) begin = from;
        if (from + segment->p_memsz > end) end = from + segment->p_memsz;
    }
    if (here < begin || here >= end) return 0;
    *range = (struct module_range){begin, end, !info->dlpi_name || !*info->dlpi_name, true};
    return 1;
}

static void init_self(void)
{
    dl_iterate_phdr(find_self, &self);
}

// Libraries between the user's code and ours: the C run time that calls back, thread pools, sanitizers.
static bool is_runtime_library(uintptr_t address)
{
    static const char *const prefixes[] = {"libc.so", "libc-",    "ld-linux",   "libpthread",
                                           "libgomp", "libgcc_s", "libasan",    "libubsan",
                                           "libtsan", "libomp",   "linux-vdso", "libclang_rt"};
    Dl_info info;
    if (!dladdr((void *)address, &info) || !info.dli_fname) return true;
    const char *name = base_name(info.dli_fname);
    for (size_t i = 0; i < COUNT_OF(prefixes); i++) {
        if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) return true;
    }
    return false;
}

static bool is_library_source(const char *path)
{
    static const char *const layers[] = {
        "base",   "ir",      "scalar", "ops",   "pass", "codegen", "device",  "vulkan", "cpu",   "null",
        "tensor", "bundle",  "grad",   "jit",   "nn",   "optim",   "data",    "io",     "debug", "spirv",
        "fuse",   "program", "llvm",   "model", "onnx", "compose", "complex", "stored", "train", "timing",
    };
    for (const char *at = strstr(path, "src/"); at; at = strstr(at + 1, "src/")) {
        if (at != path && at[-1] != '/') continue;
        size_t len = strcspn(at + 4, "/");
        for (size_t i = 0; at[4 + len] && i < COUNT_OF(layers); i++) {
            if (len == strlen(layers[i]) && !memcmp(at + 4, layers[i], len)) return true;
        }
    }
    return false;
}

static bool is_own_frame(uintptr_t address)
{
    if (!self.found || address < self.begin || address >= self.end) return false;
    if (!self.is_program) return true;
    struct dwarf_place place;
    return dwarf_resolve(address, &place) && is_library_source(place.path);
}

bool caller_is_library(uintptr_t address)
{
    pthread_once(&self_once, init_self);
    return is_own_frame(address);
}

static _Unwind_Reason_Code visit_frame(struct _Unwind_Context *context, void *user)
{
    int before_instruction = 0;
    uintptr_t address = (uintptr_t)_Unwind_GetIPInfo(context, &before_instruction);
    if (address == 0) return _URC_END_OF_STACK;
    // A return address is the instruction after the call, which may be on the next line.
    if (!before_instruction) address--;
    if (is_own_frame(address) || is_runtime_library(address)) return _URC_NO_REASON;
    *(uintptr_t *)user = address;
    return _URC_END_OF_STACK;
}

// Code that was found to be no run-time library's, by a hash of its address.
static _Atomic uintptr_t of_users[256];

static bool is_of_users(uintptr_t address)
{
    _Atomic uintptr_t *known = &of_users[address % COUNT_OF(of_users)];
    if (atomic_load_explicit(known, memory_order_relaxed) == address) return true;
    if (is_runtime_library(address)) return false;
    atomic_store_explicit(known, address, memory_order_relaxed);
    return true;
}

#if defined(__x86_64__)
enum { MOST_FRAMES = 1000, LARGEST_FRAME_B = 1 << 24 };

// 0: the tables have to tell.
static uintptr_t find_by_frames(const uintptr_t *frame)
{
    if (!self.found || self.is_program) return 0;
    for (int i = 0; i < MOST_FRAMES; i++) {
        uintptr_t address = frame[1] - 1, next = frame[0], here = (uintptr_t)frame;
        if (address < self.begin || address >= self.end) return is_of_users(address) ? address : 0;
        if (next <= here || next - here > LARGEST_FRAME_B || next % sizeof next) return 0;
        frame = (const uintptr_t *)next;
    }
    return 0;
}
#else
static uintptr_t find_by_frames(const uintptr_t *frame)
{
    return 0;
}
#endif

uintptr_t caller_find(void)
{
    pthread_once(&self_once, init_self);
    uintptr_t address = find_by_frames(__builtin_frame_address(0));
    if (address) return address;
    _Unwind_Backtrace(visit_frame, &address);
    return address;
}

static void describe_by_offset(uintptr_t address, char *out, size_t size_B)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1((void *)address, &info, (void **)&map, RTLD_DL_LINKMAP) || !info.dli_fname || !map) {
        snprintf(out, size_B, "0x%zx", (size_t)address);
        return;
    }
    snprintf(out, size_B, "%s+0x%zx", base_name(info.dli_fname), (size_t)(address - map->l_addr));
}

size_t caller_describe(uintptr_t address, char *out, size_t size_B)
{
    if (size_B == 0) return 0;
    out[0] = '\0';
    address = where_address(address);
    if (address == 0) return 0;
    struct dwarf_place place;
    if (dwarf_resolve(address, &place)) {
        snprintf(out, size_B, "%s:%d", base_name(place.path), place.line);
    } else {
        describe_by_offset(address, out, size_B);
    }
    return strlen(out);
}
