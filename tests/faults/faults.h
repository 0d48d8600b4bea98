// Failures by machine: of all operations of one kind that a program makes, the Nth fails. The library is linked as it
// is; the linker's --wrap puts these functions in the place of the C library's, and of dlsym for those of Vulkan.
#pragma once
#include <kiln/kiln.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fault_kind {
    FAULT_NONE,
    FAULT_ALLOCATION,
    FAULT_FILE,
    FAULT_THREAD,
    FAULT_LIBRARY,
    FAULT_VULKAN, // a call that returns a result says that memory of the device is out
    FAULT_HOST,   // or that of the host
    FAULT_LOST,   // a submission or a wait says that the device is lost, and so do all after it
    FAULT_KINDS,
};

// inject.c: from here on, operation `nth` of this kind fails, counted from 1.
void fault_begin(enum fault_kind kind, long nth);
long fault_end(void);                    // how many there were
bool fault_is_due(enum fault_kind kind); // counts one of this kind
extern bool fault_lasts;                 // and so do all after it, up to fault_end
extern bool fault_trace;                 // show where an operation fails

// blocks.c: the blocks that the library has taken and not given back.
enum { SITES_MAX = 1024 };
struct block_sites { // how many blocks by where they were taken
    uintptr_t site[SITES_MAX];
    int count[SITES_MAX];
    int total;
};
void blocks_add(void *p, void *site);
void blocks_remove(void *p);
void blocks_hide(bool on); // of this thread, until off: what is taken stays, and is not counted
void blocks_count(struct block_sites *out);
void blocks_print_excess(const struct block_sites *now, const struct block_sites *base);
void print_place(const char *what, uintptr_t place);

// vulkan.c
typedef void (*any_fn)(void);
any_fn vulkan_hook(any_fn get); // what dlsym gave for vkGetInstanceProcAddr
long vulkan_live(void);         // objects made and not destroyed

// programs.c, programs_jit.c, programs_io.c: a program opens its device, works, and closes it. It says what it computed
// in `out`; its error is left pending.
enum { OUT_MAX = 256 };
struct outcome {
    int n;
    float out[OUT_MAX];
};
struct program {
    const char *name;
    void (*run)(const char *device, struct outcome *o);
    void (*prepare)(const char *device);  // once, without faults; NULL: nothing
    void (*reset)(void);                  // before each run, without faults; NULL: nothing
    const char *(*check)(bool succeeded); // after each: what is wrong, or NULL; may be NULL
};
extern const struct program base_programs[], jit_programs[], io_programs[]; // up to one without a name
void outcome_add(struct outcome *o, const kiln_tensor *t);

extern char work_folder[64]; // for files
