// In builds without libFuzzer: each input of the folders and files named on the command line, once.
#include "fuzz_file.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { MEMORY_MAX_B = 1 << 30 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t size_B, size_t max_B)
{
    (void)data, (void)max_B;
    return size_B;
}

struct input {
    char *bytes;
    size_t size_B;
};

static struct input *inputs;
static size_t n_inputs;

static void add(const char *path)
{
    inputs = realloc(inputs, (n_inputs + 1) * sizeof *inputs);
    NEED(inputs != NULL);
    inputs[n_inputs].bytes = fuzz_read_file(path, &inputs[n_inputs].size_B);
    n_inputs++;
}

static void add_folder(const char *folder)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    NEED(n >= 0);
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') add(path);
        free(entries[i]);
    }
    free(entries);
}

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED 0
#endif

// A sanitizer maps more than that for itself.
static void limit_memory(void)
{
    struct rlimit limit = {MEMORY_MAX_B, MEMORY_MAX_B};
    NEED(SANITIZED || !setrlimit(RLIMIT_DATA, &limit));
}

// Read first: a fuzzer works in a folder of its own.
int main(int argc, char **argv)
{
    struct stat st;
    for (int i = 1; i < argc; i++) {
        NEED(!stat(argv[i], &st));
        if (S_ISDIR(st.st_mode))
            add_folder(argv[i]);
        else
            add(argv[i]);
    }
    NEED(n_inputs > 0);
    LLVMFuzzerInitialize(&argc, &argv);
    limit_memory();
    for (size_t i = 0; i < n_inputs; i++) {
        // A copy that ends where the input ends, so that tools see reads beyond it.
        uint8_t *copy = malloc(inputs[i].size_B ? inputs[i].size_B : 1);
        NEED(copy != NULL);
        memcpy(copy, inputs[i].bytes, inputs[i].size_B);
        LLVMFuzzerTestOneInput(copy, inputs[i].size_B);
        free(copy);
        free(inputs[i].bytes);
    }
    printf("%zu inputs\n", n_inputs);
    free(inputs);
    kiln_device_close(&fuzz_device);
    return 0;
}
