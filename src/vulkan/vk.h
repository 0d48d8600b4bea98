// The Vulkan device, inside: one struct, one file an object. Functions that take a vk_device are called with its lock
// held; those that take a kiln_device, the entries of the vtable, take the lock.
#pragma once
#include "device/device.h"
#include "ir/tile.h"
#include "spirv/spirv.h"
#include "vulkan/functions.h"
#include "vulkan/modules.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#define MAX_BATCHES    16   // command buffers in flight
#define PUSH_WORDS     32   // argument blocks up to this size are pushed; larger ones go through the argument ring
#define PIPELINE_FRONT 1024 // direct-mapped entries in front of the pipeline table; a power of two

#define FIELD(name) PFN_##name name;
struct vk_global_functions {
    PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr;
    VK_GLOBAL_FUNCTIONS(FIELD)
};
struct vk_instance_functions {
    VK_INSTANCE_FUNCTIONS(FIELD) VK_DEBUG_FUNCTIONS(FIELD)
};
struct vk_functions {
    VK_DEVICE_FUNCTIONS(FIELD)
};
#undef FIELD

// instance.c: one instance for the process, made at first use.
struct vk_instance {
    VkInstance handle;
    uint32_t api_version;
    bool validation; // VK_LAYER_KHRONOS_validation is active
    VkDebugUtilsMessengerEXT messenger;
    struct vk_instance_functions fn;
};
kiln_status vk_loader_open(const struct vk_global_functions **out); // KILN_E_MISSING without libvulkan
kiln_status vk_instance_get(struct vk_instance **out);

// physical.c: which device, and what it offers.
struct vk_physical {
    VkPhysicalDevice handle;
    VkPhysicalDeviceProperties properties;
    char driver[192];
    uint8_t driver_uuid[VK_UUID_SIZE], device_uuid[VK_UUID_SIZE];
    uint32_t subgroup_size;
    bool shuffle;                 // compute shaders exchange values within a subgroup
    uint32_t matrix, matrix_bf16; // see device_caps
    uint64_t memory_B;            // of the device-local heaps
    bool software, integrated;
    bool f64;
    struct spirv_modes modes; // of floats
    bool halves;              // see device_caps
    bool sync2_extension;     // 1.2: synchronization2 comes from the extension
    char missing[160];        // names of required features that are absent; "" when the device fits
};
bool vk_has_extension(struct vk_instance *i, VkPhysicalDevice handle, const char *name);
kiln_status vk_physical_list(struct vk_instance *i, struct vk_physical **out, uint32_t *count); // free() the list
kiln_status vk_physical_choose(struct vk_instance *i, const char *spec, struct vk_physical *out);

// A VkBuffer with memory of its own. `host` is NULL where the memory is not mapped.
struct vk_buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    uint64_t address, size_B;
    uint8_t *host;
    uint64_t last_value; // put aside: of the last batch that may use it
};
enum vk_memory_use {
    VK_MEMORY_DEVICE,
    VK_MEMORY_UPLOAD,
    VK_MEMORY_DOWNLOAD,
    VK_MEMORY_GROUPS
}; // the last: of launches

// hazard.c: byte ranges touched since the last barrier.
#define HAZARD_WRITES 64
#define HAZARD_READS  64
struct vk_range {
    uint64_t lo, hi;
};
struct vk_hazards {
    int n_writes, n_reads;
    struct vk_range writes[HAZARD_WRITES], reads[HAZARD_READS];
};
bool vk_hazard_conflict(const struct vk_hazards *h, uint64_t lo, uint64_t hi, bool write);
bool vk_hazard_has_room(const struct vk_hazards *h, uint32_t n); // for n entries of either kind
void vk_hazard_add(struct vk_hazards *h, uint64_t lo, uint64_t hi, bool write);

// Where commands go: the open batch, or a recording.
struct vk_lane {
    VkCommandBuffer commands;
    VkPipeline bound;
    struct vk_hazards hazards;
};

// ring.c: mapped memory handed out in order and reused when the batch that read it is done.
struct vk_ring {
    struct vk_buffer buffer;
    uint64_t head_B, tail_B; // ever growing; position = value mod size
    int first_mark, n_marks;
    struct {
        uint64_t value, head_B;
    } marks[2 * MAX_BATCHES];
};

struct vk_pipeline_key {
    uint64_t operands[2]; // 12 bits each, 5 a word: storage dtype and flags, see shaders/args.glsl
    uint64_t shape;       // kernel, rank and form; packed by vk_form_bits
    uint64_t variant[2];
};
_Static_assert(MAX_OPERANDS <= 10, "the key has room for 10 operands");
static inline void vk_key_operand_set(struct vk_pipeline_key *k, int i, uint32_t bits)
{
    k->operands[i / 5] |= (uint64_t)bits << (12 * (i % 5));
}
static inline uint32_t vk_key_operand(const struct vk_pipeline_key *k, int i)
{
    return (uint32_t)(k->operands[i / 5] >> (12 * (i % 5))) & 0xfff;
}
struct vk_pipeline_entry {
    struct vk_pipeline_key key;
    VkPipeline pipeline;
};

struct vk_batch {
    VkCommandPool pool;
    VkCommandBuffer commands;
    uint64_t value;
};

struct vk_device {
    kiln_device *owner;
    pthread_mutex_t lock; // never held while the heap is called, which may call back for a slab
    struct vk_instance *instance;
    struct vk_physical physical;
    struct vk_functions fn;
    VkDevice device;
    VkQueue queue;
    uint32_t queue_family;
    struct tile_table tiles;
    VkPhysicalDeviceMemoryProperties memory;
    bool shared_memory;               // tensors lie in mapped memory
    bool blocking;                    // KILN_LAUNCH_BLOCKING=1: submit and wait at each launch
    bool lost;                        // sticky
    uint64_t max_points;              // launches with more are cut: shaders count points in 32 bits
    const char *op;                   // being recorded, for messages
    const struct launch_facts *facts; // of what is being recorded, for profiles; else NULL

    // stream.c
    VkSemaphore timeline;
    uint64_t submitted, completed;
    uint64_t wait_limit_ns;
    struct vk_batch batches[MAX_BATCHES];
    int batch; // index of the open or the next batch
    bool open;
    bool sealed; // its recording has ended, but the queue has not taken it yet
    bool ramped; // the small first batch has gone
    int holds;   // programs that are being recorded: the number of commands ends no batch
    bool whole;  // what is being recorded may not be parted from what comes next
    uint32_t n_recorded;
    uint64_t work, work_limit; // estimated points of the open batch
    struct vk_lane lane;       // of the stream: the hazards live on from batch to batch
    struct vk_ring upload, download, arguments;

    // timestamp.c
    VkQueryPool timestamps;  // made at the first mark
    uint32_t timestamp_bits; // valid ones on this queue; 0: it has no clock
    uint32_t marks_set;      // bit by mark

    // profile.c
    struct vk_profile *profile; // made at the first launch while a profile is taken

    // gate.c
    struct vk_gates *gates; // made at the first gate

    // memory.c
    struct vk_buffers {
        struct vk_buffer *v;
        uint32_t n, cap;
    } slabs, retired; // by address; given back, and perhaps still in use

    // recording.c
    VkCommandPool recording_pool;           // made at the first recording
    struct vk_recording *recordings;        // alive, or dropped and still in flight; the newest first
    uint64_t n_recorded_all, most_recorded; // commands that they hold, and may before the oldest make room

    // compiled.c
    struct vk_compiled *compiled; // loaded, or unloaded and still in use by the queue

    // pipeline.c
    VkPipelineLayout layout;
    VkPipelineCache cache;
    uint32_t n_new_pipelines; // since the cache was read
    bool driver_specialises;  // KILN_DEBUG=spec: modules go to the driver as they are
    uint8_t *kernel_flags;    // by kernel id: enum vk_kernel_flags
    struct vk_pipeline_entry *table;
    uint32_t table_cap, table_n; // open addressing, cap a power of two
    struct vk_pipeline_entry front[PIPELINE_FRONT];

    struct vk_device *next_abandoned; // device.c
};

// error.c
const char *vk_result_name(VkResult r);
kiln_status vk_result_status(VkResult r);
kiln_status vk_failed(struct vk_device *vk, VkResult r, const char *call);
// The same, after which nothing that the device holds can be trusted: it counts as lost.
kiln_status vk_lose(struct vk_device *vk, VkResult r, const char *call);
// A driver call that may fail: VK_TRY(vk, vkCreateBuffer, vk->device, &info, NULL, &buffer).
#define VK_TRY(vk, name, ...)                                                   \
    do {                                                                        \
        VkResult result_ = (vk)->fn.name(__VA_ARGS__);                          \
        if (KILN_UNLIKELY(result_ < 0)) return vk_failed((vk), result_, #name); \
    } while (0)
// The same for one that makes an object: what it leaves at `out` when it fails is no handle.
#define VK_CREATE(vk, name, info, out)                                   \
    do {                                                                 \
        VkResult result_ = (vk)->fn.name((vk)->device, info, NULL, out); \
        if (KILN_UNLIKELY(result_ < 0)) {                                \
            *(out) = VK_NULL_HANDLE;                                     \
            return vk_failed((vk), result_, #name);                      \
        }                                                                \
    } while (0)
kiln_status vk_alive(struct vk_device *vk); // KILN_E_DEVICE_LOST once the device is lost

// memory.c
kiln_status vk_buffer_create(struct vk_device *vk, uint64_t size_B, enum vk_memory_use use, struct vk_buffer *out);
void vk_buffer_destroy(struct vk_device *vk, struct vk_buffer *b);
kiln_status vk_slab_alloc(kiln_device *dev, uint64_t size_B, struct slab *out);
void vk_slab_free(kiln_device *dev, struct slab *s);
void vk_slabs_finish(struct vk_device *vk);
// The slab that holds [address, address + size); NULL when none does.
const struct vk_buffer *vk_slab_find(const struct vk_device *vk, uint64_t address, uint64_t size_B);

// stream.c
kiln_status vk_stream_init(struct vk_device *vk);
void vk_stream_finish(struct vk_device *vk);
kiln_status vk_stream_open(struct vk_device *vk); // a batch to record into
// n commands more: submits when the batch is full.
kiln_status vk_stream_recorded(struct vk_device *vk, uint32_t n, uint64_t work);
kiln_status vk_stream_hold(struct vk_device *vk, bool begin); // between, the number of commands ends no batch
kiln_status vk_stream_submit(struct vk_device *vk);           // hands the open or the sealed batch over
kiln_status vk_stream_wait(struct vk_device *vk, uint64_t value);
kiln_status vk_stream_follow(struct vk_device *vk, uint64_t value); // the same; the limit is for each batch on the way
kiln_status vk_stream_drain(struct vk_device *vk);                  // submit, and wait for all
kiln_status vk_stream_poll(struct vk_device *vk);                   // updates `completed` without waiting
bool vk_stream_idle(struct vk_device *vk);                          // nothing recorded, nothing in flight
uint64_t vk_stream_last(const struct vk_device *vk); // the value after which nothing recorded so far runs
void vk_stream_look(struct vk_device *vk);           // the same as a poll where a failure means nothing: sets no error
// Hands over what is recorded and waits. True when nothing on the queue or on its way there uses memory any more. Sets
// no error.
bool vk_stream_quiet(struct vk_device *vk);
void vk_stream_barrier(struct vk_device *vk);                     // into the open batch; forgets all hazards
void vk_lane_barrier(struct vk_device *vk, struct vk_lane *lane); // the same there; the caller counts it
void vk_stream_groups_barrier(struct vk_device *vk); // the same, also for the workgroups that launches find in memory

// ring.c
kiln_status vk_ring_init(struct vk_device *vk, struct vk_ring *r, uint64_t size_B, enum vk_memory_use use);
void vk_ring_finish(struct vk_device *vk, struct vk_ring *r);
// `size_B` bytes of the ring at *offset_B, valid until the batch that is open then is done. size_B is at most half the
// ring.
kiln_status vk_ring_take(struct vk_device *vk, struct vk_ring *r, uint64_t size_B, uint64_t *offset_B);
void vk_ring_mark(struct vk_ring *r, uint64_t value); // what was taken so far is free once `value` is reached

// timestamp.c: entries of the vtable.
kiln_status vk_mark(kiln_device *dev, unsigned mark);
kiln_status vk_elapsed(kiln_device *dev, unsigned from, unsigned to, double *time_ns);

// profile.c: with the lock of the device. Before and after the command of a launch; what follows only where that said
// so. The rest only where vk->profile is set.
kiln_status vk_profile_before(struct vk_device *vk, const char *category, bool *timed);
void vk_profile_after(struct vk_device *vk);
void vk_profile_submitted(struct vk_device *vk, int batch);
void vk_profile_collect(struct vk_device *vk); // reads what is done
void vk_profile_finish(struct vk_device *vk);

// gate.c, fault.c: what the vtable and the rest of the device ask; see vulkan/gates.h.
extern const struct gate_ops vk_gate_ops;
kiln_status vk_gate_ready(struct vk_device *vk, struct device_gate *g); // for one launch, in the open batch
// Then: where in the buffer its workgroups will lie. `groups`: those that it has if it runs.
uint64_t vk_gate_slot(struct vk_device *vk, struct device_gate *g, const uint32_t groups[3], VkBuffer *buffer);
void vk_gates_tally(struct vk_device *vk); // counts what was left out, as far as the device has come
// The first fault that was found: of this thread's launches, or of all.
kiln_status vk_gates_judge(struct vk_device *vk, bool all);
void vk_gates_finish(struct vk_device *vk);

// transfer.c
// One copy between buffers, in order after what it conflicts with; an address of 0 for the side that is no slab.
kiln_status vk_record_copy(struct vk_device *vk, VkBuffer dst, uint64_t dst_B, VkBuffer src, uint64_t src_B,
                           uint64_t size_B, uint64_t write_address, uint64_t read_address);
kiln_status vk_copy(kiln_device *dev, uint64_t dst, uint64_t src, uint64_t size_B, const struct launch_facts *facts);
kiln_status vk_upload_locked(struct vk_device *vk, uint64_t dst, const void *src, uint64_t size_B);
kiln_status vk_upload(kiln_device *dev, uint64_t dst, const void *src, uint64_t size_B);
kiln_status vk_download(kiln_device *dev, void *dst, uint64_t src, uint64_t size_B);

// device.c: what the tests look at.
struct vk_device *vk_of(kiln_device *dev);
void vk_caps_of(const struct vk_physical *p, struct device_caps *out);

// pipeline.c
kiln_status vk_pipelines_init(struct vk_device *vk);
void vk_pipelines_finish(struct vk_device *vk);
kiln_status vk_pipeline_get(struct vk_device *vk, const struct vk_pipeline_key *key, VkPipeline *out);
// A pipeline from a module, counted; `constants` may be NULL.
kiln_status vk_pipeline_create(struct vk_device *vk, const uint32_t *words, size_t n_words,
                               const VkSpecializationInfo *constants, VkPipeline *out);

// cache.c: the driver's pipeline cache on disk.
VkPipelineCache vk_cache_load(struct vk_device *vk); // an empty cache when there is no usable file
void vk_cache_save(struct vk_device *vk);
bool vk_cache_check(const void *file, size_t size_B);                         // whether it is whole, of whatever device
kiln_status vk_cache_path(const struct vk_device *vk, char *out, size_t cap); // KILN_E_MISSING: no home

// tiles.c: the file of tiles that were measured.
void vk_tiles_load(struct vk_device *vk);
void vk_tiles_save(const struct vk_device *vk);
kiln_status vk_tiles_path(const struct vk_physical *p, char *out, size_t cap);
// False: there is no such file, or `why` says what is wrong with it; then `out` has no tile.
bool vk_tiles_read(const struct vk_physical *p, const struct device_caps *caps, struct tile_table *out, char *why,
                   size_t cap);
// The same of a text, which is taken apart. NULL: measured on whichever device, with whatever room.
bool vk_tiles_parse(char *text, const struct vk_physical *p, const struct device_caps *caps, struct tile_table *out,
                    char *why, size_t cap);
bool vk_tiles_check(const void *file, size_t size_B); // whether it is whole, of whatever device

// tune.c: entries of the vtable.
kiln_status vk_tune(kiln_device *dev);
void vk_leave(kiln_device *dev);

// recording.c: launches that are run again, see device/record.h.
extern const struct record_ops vk_record_ops;
struct vk_recording {
    struct vk_recording *next;
    struct vk_lane lane; // no commands: they made room for others
    uint32_t n, n_barriers;
    uint64_t work, most_work; // estimated points; with so many it is full
    uint64_t last_value;      // of the last batch that runs it
    bool ended, dropped;
    struct block *blocks; // that its launches use: arguments and scratch memory
    uint32_t n_blocks, cap;
    struct block *arguments; // of the next launch; NULL: they are pushed
};
static inline struct vk_recording *vk_recording_of(struct device_record *r)
{
    return (struct vk_recording *)(void *)r;
}
// Memory of the recording's own, without the lock of the device. *out lives until the next.
kiln_status vk_recording_take(struct vk_device *vk, struct vk_recording *r, uint64_t size_B, struct block **out);
// Room for the arguments of the next launch, where they are not pushed.
kiln_status vk_recording_reserve(struct vk_device *vk, struct device_record *r, bool indirect, uint32_t n_words);
void vk_recordings_finish(struct vk_device *vk);

// compiled.c: entries of the vtable, and what is left of them at close.
kiln_status vk_load_compiled(kiln_device *dev, const struct compiled_code *code, void **out);
void vk_unload_compiled(kiln_device *dev, void *compiled);
kiln_status vk_launch_compiled(kiln_device *dev, const struct compiled_launch *l);
void vk_compiled_finish(struct vk_device *vk);

// launch.c
// Argument block, pipeline and dispatch of one launch whose hazards are in order.
struct vk_dispatch {
    VkPipeline pipeline;
    const uint32_t *words; // of the push constants
    uint32_t n_words, groups[3];
    uint64_t work;
    struct device_gate *gate;
    struct vk_recording *recording; // NULL: the open batch
};
kiln_status vk_record(struct vk_device *vk, const struct vk_dispatch *d);
struct vk_lane *vk_lane_of(struct vk_device *vk, struct vk_recording *recording); // NULL: the stream's
void vk_order(struct vk_device *vk, struct vk_recording *recording); // what follows there waits for what went before
uint32_t vk_product_operands(const struct launch *l); // of a matrix product: the first variant of its kernel
bool vk_product_is_even(const struct launch *l, uint32_t tile,
                        uint32_t depth);             // no tile and no slice goes beyond the sizes
bool vk_operands_are_narrow(const struct launch *l); // no offset is negative; in bytes all are below 2 GiB
bool vk_ranges_are_narrow(const struct launch *l);   // the same of all that the launch may touch
uint32_t vk_operands_fours(
    const struct launch *l); // a bit an operand: four neighbours in the innermost dimension are one access
// Whether n neighbours along the innermost dimension are one aligned access of each operand; *splat gets those that
// stand still.
bool vk_operands_widen(const struct launch *l, uint32_t n, uint32_t *splat);
kiln_status vk_dispatch_group(struct vk_device *vk, const struct launch *l); // one workgroup of a kernel by hand
// Before its hazards: a batch is open, and what the launch needs there beside it is in place. `indirect`: its words lie
// in memory, and it gets `pushed`, their address, instead.
kiln_status vk_prepare(struct vk_device *vk, struct vk_dispatch *d, bool indirect, uint32_t pushed[2]);
enum vk_kernel_flags { VK_KERNEL_HERE = 1, VK_KERNEL_F64 = 2 }; // runs on this device; its module has class f64
bool vk_supports(kiln_device *dev, const struct launch *l);
kiln_status vk_launch(kiln_device *dev, const struct launch *l);

// validation.c: messages of the validation layer, for the whole process.
VkBool32 VKAPI_PTR vk_validation_report(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                        VkDebugUtilsMessageTypeFlagsEXT types,
                                        const VkDebugUtilsMessengerCallbackDataEXT *data, void *user);
// How many messages the validation layer has sent since the last reset, and the texts (at most 64 KiB, valid until the
// next message). `text` may be NULL.
uint64_t vk_validation_messages(kiln_device *dev, const char **text);
void vk_validation_reset(void);
bool vk_validation_active(kiln_device *dev);
