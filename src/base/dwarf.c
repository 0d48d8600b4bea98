// The few functions of libdw that turn an address into a line. Their types are declared here, as libdw is not needed
// to build: a program finds libdw.so.1 at run time or does without. Its interface is stable (symbol version 0.122).
#include "base/process.h"
#include "base/dwarf.h"
#include "base/base.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

typedef struct Dwfl Dwfl;
typedef struct Dwfl_Module Dwfl_Module;
typedef struct Dwfl_Line Dwfl_Line;
typedef struct Dwarf_Line Dwarf_Line;
typedef struct Dwarf_Files Dwarf_Files;

// As in elfutils/libdw.h, and the numbers of the DWARF standard that are asked for.
typedef struct {
    void *address, *unit, *abbreviation;
    long padding;
} Dwarf_Die;
typedef struct {
    unsigned code, form;
    unsigned char *value;
    void *unit;
} Dwarf_Attribute;
enum { TAG_INLINED_SUBROUTINE = 0x1d, ATTRIBUTE_CALL_FILE = 0x58, ATTRIBUTE_CALL_LINE = 0x59 };

// As in elfutils/libdwfl.h: Dwfl_Callbacks and the type of its member.
typedef int find_debuginfo_fn(void *module, void **user, const char *name, uint64_t base, const char *file,
                              const char *link, uint32_t crc, char **found);

struct dwfl_callbacks {
    void *find_elf;
    find_debuginfo_fn *find_debuginfo;
    void *section_address;
    char **debuginfo_path;
};

struct libdw {
    void *find_elf;
    Dwfl *(*begin)(const struct dwfl_callbacks *callbacks);
    int (*report)(Dwfl *dwfl, pid_t pid);
    void (*report_begin_add)(Dwfl *dwfl);
    int (*report_end)(Dwfl *dwfl, void *removed, void *arg);
    Dwfl_Module *(*module_at)(Dwfl *dwfl, uint64_t address);
    Dwfl_Line *(*line_at)(Dwfl_Module *module, uint64_t address);
    const char *(*line_info)(Dwfl_Line *line, uint64_t *address, int *number, int *column, void *mtime, void *length);
    Dwarf_Die *(*next_unit)(Dwfl_Module *module, Dwarf_Die *last, uint64_t *bias);
    int (*unit_has)(Dwarf_Die *unit, uint64_t address);
    Dwarf_Line *(*unit_line_at)(Dwarf_Die *unit, uint64_t address);
    const char *(*unit_line_path)(Dwarf_Line *line, void *mtime, void *length);
    int (*unit_line_number)(Dwarf_Line *line, int *number);
    int (*unit_files)(Dwarf_Die *unit, Dwarf_Files **files, size_t *count);
    const char *(*file_path)(Dwarf_Files *files, size_t index, void *mtime, void *length);
    int (*child)(Dwarf_Die *die, Dwarf_Die *out);
    int (*sibling)(Dwarf_Die *die, Dwarf_Die *out);
    int (*tag)(Dwarf_Die *die);
    Dwarf_Attribute *(*attribute)(Dwarf_Die *die, unsigned name, Dwarf_Attribute *out);
    int (*number)(Dwarf_Attribute *attribute, uint64_t *out);
};

enum { CACHE_SIZE = 256 }; // a power of two

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_session, lock)
static bool tried;
static struct libdw dw;
static struct dwfl_callbacks callbacks;
static Dwfl *session; // kept for the process: opening it again costs milliseconds
static struct {
    uintptr_t address;
    struct dwarf_place place;
} cache[CACHE_SIZE];

// Only debug information inside the module counts: the standard search may go to a debuginfod server, and a failing
// call must not wait for a network.
static int no_separate_file(void *module, void **user, const char *name, uint64_t base, const char *file,
                            const char *link, uint32_t crc, char **found)
{
    (void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)found;
    return -1;
}

static bool open_libdw(void)
{
    void *handle = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) return false;
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {
        {"dwfl_linux_proc_find_elf", &dw.find_elf},
        {"dwfl_begin", &dw.begin},
        {"dwfl_linux_proc_report", &dw.report},
        {"dwfl_report_begin_add", &dw.report_begin_add},
        {"dwfl_report_end", &dw.report_end},
        {"dwfl_addrmodule", &dw.module_at},
        {"dwfl_module_getsrc", &dw.line_at},
        {"dwfl_lineinfo", &dw.line_info},
        {"dwfl_module_nextcu", &dw.next_unit},
        {"dwarf_haspc", &dw.unit_has},
        {"dwarf_getsrc_die", &dw.unit_line_at},
        {"dwarf_linesrc", &dw.unit_line_path},
        {"dwarf_lineno", &dw.unit_line_number},
        {"dwarf_getsrcfiles", &dw.unit_files},
        {"dwarf_filesrc", &dw.file_path},
        {"dwarf_child", &dw.child},
        {"dwarf_siblingof", &dw.sibling},
        {"dwarf_tag", &dw.tag},
        {"dwarf_attr", &dw.attribute},
        {"dwarf_formudata", &dw.number},
    };
    for (size_t i = 0; i < COUNT_OF(symbols); i++) {
        void *found = dlsym(handle, symbols[i].name);
        if (!found) {
            dlclose(handle);
            return false;
        }
        __builtin_memcpy(symbols[i].slot, &found, sizeof found);
    }
    callbacks.find_elf = dw.find_elf;
    callbacks.find_debuginfo = no_separate_file;
    session = dw.begin(&callbacks);
    return session != NULL;
}

// Modules loaded since the last look are added; those known stay.
static Dwfl_Module *find_module(uintptr_t address)
{
    Dwfl_Module *module = dw.module_at(session, address);
    if (module) return module;
    dw.report_begin_add(session);
    bool reported = dw.report(session, getpid()) == 0;
    if (dw.report_end(session, NULL, NULL) != 0 || !reported) return NULL;
    return dw.module_at(session, address);
}

// The slow way, for programs without the table of address ranges, which clang does not write: ask each unit.
static struct dwarf_place search_units(Dwfl_Module *module, uint64_t address)
{
    struct dwarf_place place = {NULL, 0};
    uint64_t bias = 0;
    for (Dwarf_Die *unit = dw.next_unit(module, NULL, &bias); unit; unit = dw.next_unit(module, unit, &bias)) {
        if (dw.unit_has(unit, address - bias) <= 0) continue;
        Dwarf_Line *line = dw.unit_line_at(unit, address - bias);
        if (!line || dw.unit_line_number(line, &place.line) != 0) continue;
        place.path = dw.unit_line_path(line, NULL, NULL);
        if (place.path) break;
    }
    return place;
}

// Whether a file is a header of Kiln for C++, whose functions are parts of those that call them.
static bool is_part_of_caller(const char *path)
{
    const char *name = strrchr(path, '/'), *end = strrchr(path, '.');
    static const char folder[] = "/kiln";
    enum { FOLDER = sizeof folder - 1 };
    return name && end && !strcmp(end, ".hpp") && name - path >= FOLDER && !memcmp(name - FOLDER, folder, FOLDER);
}

static bool number_of(Dwarf_Die *die, unsigned name, uint64_t *out)
{
    Dwarf_Attribute attribute;
    return dw.attribute(die, name, &attribute) && dw.number(&attribute, out) == 0;
}

// Goes down to the innermost of the calls that were inlined at an address; the last that no header made is the place.
// Functions of local classes, lambdas among them, stand within others that do not hold their addresses: all are
// visited.
static void visit_inlined(Dwarf_Die *parent, uint64_t address, Dwarf_Files *files, size_t n_files,
                          struct dwarf_place *place)
{
    Dwarf_Die die;
    if (dw.child(parent, &die) != 0) return;
    do {
        if (dw.tag(&die) == TAG_INLINED_SUBROUTINE) {
            uint64_t file = 0, line = 0;
            if (dw.unit_has(&die, address) <= 0) continue;
            bool known = number_of(&die, ATTRIBUTE_CALL_FILE, &file) && number_of(&die, ATTRIBUTE_CALL_LINE, &line);
            const char *path = known && file < n_files ? dw.file_path(files, (size_t)file, NULL, NULL) : NULL;
            if (path && !is_part_of_caller(path)) *place = (struct dwarf_place){path, (int)line};
        }
        visit_inlined(&die, address, files, n_files, place);
    } while (dw.sibling(&die, &die) == 0);
}

static void leave_headers(Dwfl_Module *module, uint64_t address, struct dwarf_place *place)
{
    uint64_t bias = 0;
    for (Dwarf_Die *unit = dw.next_unit(module, NULL, &bias); unit; unit = dw.next_unit(module, unit, &bias)) {
        Dwarf_Files *files = NULL;
        size_t n_files = 0;
        if (dw.unit_has(unit, address - bias) <= 0) continue;
        if (dw.unit_files(unit, &files, &n_files) == 0) visit_inlined(unit, address - bias, files, n_files, place);
        return;
    }
}

static bool opened(void)
{
    if (!tried) {
        tried = true;
        open_libdw();
    }
    return session;
}

static struct dwarf_place look_up(uintptr_t address)
{
    struct dwarf_place place = {NULL, 0};
    if (!opened()) return place;
    Dwfl_Module *module = find_module(address);
    if (!module) return place;
    Dwfl_Line *line = dw.line_at(module, address);
    if (line)
        place.path = dw.line_info(line, NULL, &place.line, NULL, NULL, NULL);
    else
        place = search_units(module, address);
    if (place.path && is_part_of_caller(place.path)) leave_headers(module, address, &place);
    return place;
}

bool dwarf_resolve(uintptr_t address, struct dwarf_place *out)
{
    pthread_mutex_lock(&lock);
    size_t slot = (size_t)((address * 0x9e3779b97f4a7c15u) >> 32) & (CACHE_SIZE - 1);
    if (cache[slot].address != address) {
        cache[slot].place = look_up(address);
        cache[slot].address = address;
    }
    *out = cache[slot].place;
    pthread_mutex_unlock(&lock);
    return out->path != NULL;
}

bool dwarf_found(void)
{
    pthread_mutex_lock(&lock);
    bool found = opened();
    pthread_mutex_unlock(&lock);
    return found;
}
