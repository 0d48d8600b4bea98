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
} linker = {.lock = PTHREAD_MUTEX_INITIALIZER};

static kiln_status failed(const char *symbol, LLVMErrorRef error)
{
    char *message = LLVMGetErrorMessage(error);
    kiln_status status = llvm_host->error(KILN_E_INTERNAL, "kernel %s: cannot be loaded: %s", symbol, message);
    LLVMDisposeErrorMessage(message);
    return status;
}

static LLVMErrorRef link(const struct codegen_code *code, struct loaded *l)
{
    char end[sizeof l->symbol + 8];
    LLVMErrorRef error = linker.jit ? NULL : LLVMOrcCreateLLJIT(&linker.jit, NULL);
    if (error) return error;
    LLVMOrcJITDylibRef library = LLVMOrcLLJITGetMainJITDylib(linker.jit);
    LLVMMemoryBufferRef object = LLVMCreateMemoryBufferWithMemoryRangeCopy(code->code, code->size_B, code->symbol);
    l->tracker = LLVMOrcJITDylibCreateResourceTracker(library);
    error = LLVMOrcLLJITAddObjectFileWithRT(linker.jit, l->tracker, object);
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
    struct loaded *l = calloc(1, sizeof *l);
    if (!l) return llvm_host->error(KILN_E_MEMORY, "kernel %s: out of memory to load it", code->symbol);
    snprintf(l->symbol, sizeof l->symbol, "%s", code->symbol);
    LLVMErrorRef error = link(code, l);
    if (error) {
        kiln_status status = failed(code->symbol, error);
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
