// Preloaded into a program: LLVM's optimisation, its code generation and the start of its code generator end the
// process.
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
