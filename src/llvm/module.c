// The module's entry: LLVM IR of a kernel, passes over it, the object; and what it offers the library.
//
// A compilation has a context, a module and a target machine of its own, so that threads
// share nothing. The IR is built with explicit
// vectors and stack slots, so that few passes are needed: slots to values, common expressions, loop invariants out.
#include "llvm/emit.h"
#include "llvm/load.h"
#include "llvm/module.h"

#include <kiln/version.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <llvm/Config/llvm-config.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct llvm_host *llvm_host;

static struct {
    char *triple, *cpu, *features;
} host;
static pthread_once_t host_once = PTHREAD_ONCE_INIT, target_once = PTHREAD_ONCE_INIT,
                      generator_once = PTHREAD_ONCE_INIT;

static void find_host(void)
{
    host.triple = LLVMGetDefaultTargetTriple();
    host.cpu = LLVMGetHostCPUName();
    host.features = LLVMGetHostCPUFeatures();
}

// Objects are loaded without the code generator.
static void start_target(void)
{
    LLVMInitializeNativeTarget();
}

static void start_generator(void)
{
    LLVMInitializeNativeAsmPrinter();
}

static LLVMTargetMachineRef machine_create(const char *cpu, const char *features)
{
    LLVMTargetRef target;
    char *message = NULL;
    pthread_once(&host_once, find_host);
    pthread_once(&target_once, start_target);
    if (LLVMGetTargetFromTriple(host.triple, &target, &message)) {
        llvm_host->error(KILN_E_UNSUPPORTED, "LLVM has no target for %s: %s", host.triple, message);
        LLVMDisposeMessage(message);
        return NULL;
    }
    return LLVMCreateTargetMachine(target, host.triple, cpu, features, LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                   LLVMCodeModelSmall);
}

LLVMTargetMachineRef machine_for_linking(void)
{
    return machine_create("", "");
}

// Machines that no compilation uses: a machine parses the features of the processor once, which costs as much as a
// small kernel.
enum { SPARE_MACHINES = 4 };
static struct {
    pthread_mutex_t lock;
    LLVMTargetMachineRef machines[SPARE_MACHINES];
    int n;
} spare = {.lock = PTHREAD_MUTEX_INITIALIZER};

static LLVMTargetMachineRef machine_take(void)
{
    LLVMTargetMachineRef machine = NULL;
    pthread_mutex_lock(&spare.lock);
    if (spare.n) machine = spare.machines[--spare.n];
    pthread_mutex_unlock(&spare.lock);
    pthread_once(&generator_once, start_generator);
    return machine ? machine : machine_create(host.cpu, host.features);
}

static void machine_give(LLVMTargetMachineRef machine)
{
    pthread_mutex_lock(&spare.lock);
    bool keep = spare.n < SPARE_MACHINES;
    if (keep) spare.machines[spare.n++] = machine;
    pthread_mutex_unlock(&spare.lock);
    if (!keep) LLVMDisposeTargetMachine(machine);
}

static bool has_feature(const char *name)
{
    for (const char *at = host.features; (at = strstr(at, name)); at++) {
        char end = at[strlen(name)];
        if (at > host.features && at[-1] == '+' && (end == ',' || !end)) return true;
    }
    return false;
}

static void set_types(struct emitter *e)
{
    e->i1 = LLVMInt1TypeInContext(e->context);
    e->i8 = LLVMInt8TypeInContext(e->context);
    e->i16 = LLVMInt16TypeInContext(e->context);
    e->i32 = LLVMInt32TypeInContext(e->context);
    e->i64 = LLVMInt64TypeInContext(e->context);
    e->f32 = LLVMFloatTypeInContext(e->context);
    e->f64 = LLVMDoubleTypeInContext(e->context);
    e->half = LLVMHalfTypeInContext(e->context);
    e->bytes = LLVMPointerType(e->i8, 0);
    e->has_f16 = has_feature("f16c");
    e->has_fma = has_feature("fma");
    e->has_avx2 = e->plan->choices[LLVM_VECTOR_BITS] >= 256 && has_feature("avx2");
    e->has_avx512 = e->plan->choices[LLVM_VECTOR_BITS] == 512 && has_feature("avx512f");
}

static void add_attribute(struct emitter *e, LLVMValueRef fn, const char *name, const char *value)
{
    LLVMAttributeRef a =
        LLVMCreateStringAttribute(e->context, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

void set_attributes(struct emitter *e)
{
    char bits[16];
    snprintf(bits, sizeof bits, "%u", e->plan->choices[LLVM_VECTOR_BITS]);
    unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
    for (LLVMValueRef fn = LLVMGetFirstFunction(e->module); fn; fn = LLVMGetNextFunction(fn)) {
        if (LLVMIsDeclaration(fn)) continue;
        add_attribute(e, fn, "target-cpu", host.cpu);
        add_attribute(e, fn, "target-features", host.features);
        add_attribute(e, fn, "prefer-vector-width", bits);
        add_attribute(e, fn, "min-legal-vector-width", bits);
        LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                LLVMCreateEnumAttribute(e->context, nounwind, 0));
    }
}

// One piece of memory for all arrays of the emitter.
void *tables_make(struct emitter *e)
{
    size_t n = (size_t)e->k->dag.n_nodes + 1;
    size_t values_B = n * sizeof *e->value, accs_B = n * sizeof *e->acc, words_B = CODEGEN_MAX_WORDS * sizeof *e->words;
    char *at = calloc(1, 2 * values_B + 2 * accs_B + words_B + 6 * n);
    if (!at) return NULL;
    e->value = (LLVMValueRef *)(void *)at;
    e->kept = e->value + n;
    e->words = e->kept + n;
    e->acc = (struct acc *)(void *)(at + 2 * values_B + words_B);
    e->lane_acc = e->acc + n;
    e->want = (uint8_t *)(e->lane_acc + n);
    e->kept_pass = e->want + 3 * n;
    e->waits = e->kept_pass + n;
    e->varies = (bool *)(e->waits + n);
    return at;
}

kiln_status run_passes(struct emitter *e, const char *passes, LLVMTargetMachineRef machine)
{
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(e->module, passes, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error) return KILN_OK;
    char *message = LLVMGetErrorMessage(error);
    kiln_status status = llvm_host->error(KILN_E_INTERNAL, "kernel %s: LLVM's passes: %s", e->k->name, message);
    LLVMDisposeErrorMessage(message);
    return status;
}

kiln_status verify(struct emitter *e)
{
    char *message = NULL;
    kiln_status status = KILN_OK;
    if (e->wrong) return llvm_host->error(KILN_E_INTERNAL, "kernel %s: cannot emit %s", e->k->name, e->wrong);
    if (LLVMVerifyModule(e->module, LLVMReturnStatusAction, &message))
        status = llvm_host->error(KILN_E_INTERNAL, "kernel %s: LLVM refuses its IR: %s", e->k->name, message);
    LLVMDisposeMessage(message);
    return status;
}

kiln_status open_module(struct emitter *e, const char *name, LLVMTargetMachineRef *machine)
{
    pthread_once(&host_once, find_host);
    *machine = machine_take();
    if (!*machine) return KILN_E_UNSUPPORTED;
    e->context = LLVMContextCreate();
    e->module = LLVMModuleCreateWithNameInContext(name, e->context);
    e->b = LLVMCreateBuilderInContext(e->context);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(*machine);
    LLVMSetModuleDataLayout(e->module, layout);
    LLVMDisposeTargetData(layout);
    LLVMSetTarget(e->module, host.triple);
    set_types(e);
    return KILN_OK;
}

// Builds the module of a kernel, ready for code generation. The caller disposes of context and machine.
static kiln_status build(struct emitter *e, const struct fused_kernel *k, const struct codegen_code *code,
                         LLVMTargetMachineRef *machine)
{
    *e = (struct emitter){.k = k, .plan = &code->plan};
    kiln_status status = open_module(e, k->name, machine);
    if (status) return status;
    void *tables = tables_make(e);
    if (!tables) return llvm_host->error(KILN_E_MEMORY, "kernel %s: out of memory for its code", k->name);
    emit_functions(e, code->symbol);
    set_attributes(e);
    status = verify(e);
    if (!status) status = run_passes(e, "function(mem2reg,early-cse)", *machine);
    free(tables);
    return status;
}

void unbuild(struct emitter *e, LLVMTargetMachineRef machine)
{
    if (e->b) LLVMDisposeBuilder(e->b);
    if (e->module) LLVMDisposeModule(e->module);
    if (e->context) LLVMContextDispose(e->context);
    if (machine) machine_give(machine);
}

kiln_status to_object(struct emitter *e, LLVMTargetMachineRef machine, struct codegen_code *code)
{
    LLVMMemoryBufferRef buffer = NULL;
    char *message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, e->module, LLVMObjectFile, &message, &buffer)) {
        kiln_status status =
            llvm_host->error(KILN_E_INTERNAL, "kernel %s: LLVM makes no object: %s", e->k->name, message);
        LLVMDisposeMessage(message);
        return status;
    }
    code->size_B = LLVMGetBufferSize(buffer);
    code->code = malloc(code->size_B);
    if (code->code) memcpy(code->code, LLVMGetBufferStart(buffer), code->size_B);
    LLVMDisposeMemoryBuffer(buffer);
    return code->code ? KILN_OK : llvm_host->error(KILN_E_MEMORY, "kernel %s: out of memory for its code", e->k->name);
}

static kiln_status compile(const struct fused_kernel *k, struct codegen_code *code)
{
    struct emitter e;
    LLVMTargetMachineRef machine = NULL;
    kiln_status status = build(&e, k, code, &machine);
    if (!status) status = to_object(&e, machine, code);
    unbuild(&e, machine);
    return status;
}

static char *text(const struct fused_kernel *k, const struct codegen_code *code)
{
    struct emitter e;
    LLVMTargetMachineRef machine = NULL;
    char *copy = NULL;
    if (!build(&e, k, code, &machine)) {
        char *printed = LLVMPrintModuleToString(e.module);
        copy = strdup(printed);
        LLVMDisposeMessage(printed);
    }
    unbuild(&e, machine);
    return copy;
}

static char *host_key(void)
{
    char *key = NULL;
    pthread_once(&host_once, find_host);
    if (asprintf(&key, "llvm %s, %s, %s, %s", LLVM_VERSION_STRING, host.triple, host.cpu, host.features) < 0)
        return NULL;
    return key;
}

__attribute__((visibility("default"))) llvm_module_fn kiln_llvm_module;

const struct llvm_module *kiln_llvm_module(uint32_t version, const struct llvm_host *services)
{
    static const struct llvm_module module = {LLVM_MODULE_VERSION,
                                              sizeof(struct fused_kernel),
                                              KILN_VERSION_STRING,
                                              LLVM_VERSION_STRING,
                                              compile,
                                              compile_series,
                                              load_object,
                                              unload_object,
                                              text,
                                              host_key};
    if (version != LLVM_MODULE_VERSION) return NULL;
    llvm_host = services;
    return &module;
}
