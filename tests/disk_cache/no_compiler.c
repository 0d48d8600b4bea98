// Preloaded into a program: LLVM's optimisation, its code generation, the start of its code generator and, where the
// library links objects itself, LLVM's linker end the process.
#include <stdio.h>
#include <unistd.h>

#define CAUGHT 99
#define SEEN(name)                                          \
    __attribute__((visibility("default"))) void name(void); \
    void name(void)                                         \
    {                                                       \
        caught(#name);                                      \
    }

static void caught(const char *name)
{
    fprintf(stderr, "called: %s\n", name);
    _exit(CAUGHT);
}

SEEN(LLVMRunPasses)
SEEN(LLVMTargetMachineEmitToMemoryBuffer)
SEEN(LLVMTargetMachineEmitToFile)
SEEN(LLVMInitializeX86AsmPrinter)
SEEN(LLVMInitializeAArch64AsmPrinter)
#if defined(__x86_64__)
SEEN(LLVMOrcCreateLLJIT)
#endif
