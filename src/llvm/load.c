// Objects made callable by ORC's object layer: one linker for the process, one tracker an object, so that each can be
// taken out again. Two objects of the same symbol are the same code: the second load counts up the first.
#include "llvm/load.h"
#include "llvm/emit.h"

#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct loaded {
    struct loaded *next;
    char symbol[sizeof((struct codegen_code *)0)->symbol];
    int refs;
    LLVMOrcResourceTrackerRef tracker;
    LLVMOrcExecutorAddress run, end;
};

static struct {
    pthread_mutex_t lock;
    LLVMOrcLLJITRef jit; // lives as long as the process: threads may be in its code until the end
    struct loaded *all;
    char reported[256]; // what went wrong below the call that fails
} linker = {.lock = PTHREAD_MUTEX_INITIALIZER};

static kiln_status failed(const char *symbol, LLVMErrorRef error)
{
    char *message = LLVMGetErrorMessage(error);
    kiln_status status = llvm_host->error(KILN_E_INTERNAL, "kernel %s: cannot be loaded: %s", symbol,
                                          *linker.reported ? linker.reported : message);
    LLVMDisposeErrorMessage(message);
    return status;
}

// In place of LLVM's own reporter, which prints.
static void report(void *unused, LLVMErrorRef error)
{
    char *message = LLVMGetErrorMessage(error);
    if (!*linker.reported) snprintf(linker.reported, sizeof linker.reported, "%s", message);
    LLVMDisposeErrorMessage(message);
}

// Of the machine, only its kind matters to a linker. Left to itself LLVM would ask what this processor is capable of.
static kiln_status start(void)
{
    LLVMTargetMachineRef machine = machine_for_linking();
    if (!machine) return KILN_E_UNSUPPORTED;
    LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(builder,
                                                  LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
    LLVMErrorRef error = LLVMOrcCreateLLJIT(&linker.jit, builder);
    if (error) return failed("linker", error);
    LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(linker.jit), report, NULL);
    return KILN_OK;
}

static LLVMErrorRef link(const struct codegen_code *code, struct loaded *l)
{
    char end[sizeof l->symbol + 8];
    LLVMOrcJITDylibRef library = LLVMOrcLLJITGetMainJITDylib(linker.jit);
    LLVMMemoryBufferRef object = LLVMCreateMemoryBufferWithMemoryRangeCopy(code->code, code->size_B, code->symbol);
    l->tracker = LLVMOrcJITDylibCreateResourceTracker(library);
    LLVMErrorRef error = LLVMOrcLLJITAddObjectFileWithRT(linker.jit, l->tracker, object);
    if (!error) error = LLVMOrcLLJITLookup(linker.jit, &l->run, code->symbol);
    snprintf(end, sizeof end, "%s_end", code->symbol);
    if (!error && code->plan.has_end) error = LLVMOrcLLJITLookup(linker.jit, &l->end, end);
    return error;
}

static void release(struct loaded *l)
{
    if (l->tracker) {
        LLVMErrorRef error = LLVMOrcResourceTrackerRemove(l->tracker);
        if (error) LLVMConsumeError(error);
        LLVMOrcReleaseResourceTracker(l->tracker);
    }
    free(l);
}

static struct loaded *find(const char *symbol)
{
    struct loaded *l = linker.all;
    while (l && strcmp(l->symbol, symbol)) l = l->next;
    return l;
}

static kiln_status add(const struct codegen_code *code, struct loaded **out)
{
    *linker.reported = 0;
    kiln_status status = linker.jit ? KILN_OK : start();
    if (status) return status;
    struct loaded *l = calloc(1, sizeof *l);
    if (!l) return llvm_host->error(KILN_E_MEMORY, "kernel %s: out of memory to load it", code->symbol);
    snprintf(l->symbol, sizeof l->symbol, "%s", code->symbol);
    LLVMErrorRef error = link(code, l);
    if (error) {
        status = failed(code->symbol, error);
        release(l);
        return status;
    }
    l->next = linker.all;
    linker.all = l;
    *out = l;
    return KILN_OK;
}

kiln_status load_object(const struct codegen_code *code, struct llvm_function *out)
{
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&linker.lock);
    struct loaded *l = find(code->symbol);
    if (!l) status = add(code, &l);
    if (!status) {
        l->refs++;
        out->loaded = l;
        memcpy(&out->run, &l->run, sizeof out->run);
        memcpy(&out->end, &l->end, sizeof out->end);
    }
    pthread_mutex_unlock(&linker.lock);
    return status;
}

void unload_object(struct llvm_function *f)
{
    pthread_mutex_lock(&linker.lock);
    struct loaded *l = f->loaded;
    if (--l->refs == 0) {
        struct loaded **at = &linker.all;
        while (*at != l) at = &(*at)->next;
        *at = l->next;
        release(l);
    }
    pthread_mutex_unlock(&linker.lock);
}
