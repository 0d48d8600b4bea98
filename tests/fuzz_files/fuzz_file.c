// The frame of a fuzzer's call: a folder of its own, and nothing left behind: no tensor, descriptor or file.
#include "fuzz_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

kiln_device *fuzz_device;
const char *const fuzz_saved[2] = {"saved-0", "saved-1"};
static const char input_path[] = "input";
static kiln_scope *scope;
static uint64_t used_B, tensors_alive;
static int lowest_free;

void fuzz_need(bool good, const char *what, const char *file, int line)
{
    if (good) return;
    fprintf(stderr, "%s:%d: failed: %s: %s\n", file, line, what, kiln_error_message());
    abort();
}

// The process works in a folder of its own, so that paths are short and the same in every run.
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    const char *place = getenv("FUZZ_FOLDER");
    if (!place || chdir(place)) {
        fprintf(stderr, "FUZZ_FOLDER names no folder for files of this process; tests/fuzz_files/fuzz.py makes one\n");
        exit(2);
    }
    char folder[4096];
    NEED(getcwd(folder, sizeof folder) && !setenv("KILN_CACHE_DIR", folder, 1));
    fuzz_device = kiln_device_open("cpu");
    NEED(fuzz_device && !kiln_set_device(fuzz_device));
    // The first error opens the files with the lines of the callers, for good.
    NEED(!kiln_npy_load(NULL, "none"));
    FUZZ_REFUSED(KILN_E_MISSING);
    return 0;
}

static kiln_device_stats stats(void)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(fuzz_device, &s);
    return s;
}

static int free_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    NEED(fd >= 0 && !close(fd));
    return fd;
}

void fuzz_begin(void)
{
    used_B = stats().heap_used_B;
    tensors_alive = stats().tensors;
    lowest_free = free_descriptor();
    scope = kiln_scope_begin();
}

static void need_no_strange_file(void)
{
    DIR *d = opendir(".");
    NEED(d != NULL);
    for (struct dirent *e; (e = readdir(d));)
        NEED(e->d_name[0] == '.' || !strcmp(e->d_name, input_path) || !strcmp(e->d_name, fuzz_saved[0]) ||
             !strcmp(e->d_name, fuzz_saved[1]) || !strcmp(e->d_name, "objects"));
    closedir(d);
}

void fuzz_end(void)
{
    NEED(!kiln_error());
    kiln_scope_end(&scope);
    NEED(!kiln_error() && stats().tensors == tensors_alive && stats().heap_used_B == used_B);
    NEED(free_descriptor() == lowest_free);
    need_no_strange_file();
}

const char *fuzz_input(const uint8_t *data, size_t size_B)
{
    int fd = open(input_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    NEED(fd >= 0 && write(fd, data, size_B) == (ssize_t)size_B && !close(fd));
    return input_path;
}

char *fuzz_read_file(const char *path, size_t *size_B)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    NEED(fd >= 0 && !fstat(fd, &st));
    *size_B = (size_t)st.st_size;
    char *bytes = malloc(*size_B + 1);
    NEED(bytes && read(fd, bytes, *size_B) == (ssize_t)*size_B && !close(fd));
    return bytes;
}

void fuzz_need_same_files(const char *a, const char *b)
{
    size_t a_B, b_B;
    char *in_a = fuzz_read_file(a, &a_B), *in_b = fuzz_read_file(b, &b_B);
    NEED(a_B == b_B && !memcmp(in_a, in_b, a_B));
    free(in_a);
    free(in_b);
}

void fuzz_refused(const kiln_status *codes)
{
    while (*codes && *codes != kiln_error()) codes++;
    NEED(*codes && *kiln_error_message());
    kiln_error_clear();
}

void fuzz_need_same_tensors(const kiln_tensor *a, const kiln_tensor *b)
{
    size_t rank = kiln_rank(a), size_B = (size_t)kiln_numel(a) * kiln_dtype_size(kiln_tensor_dtype(a));
    NEED(rank == kiln_rank(b) && kiln_tensor_dtype(a) == kiln_tensor_dtype(b));
    NEED(!rank || !memcmp(kiln_dims(a), kiln_dims(b), rank * sizeof *kiln_dims(a)));
    char *in_a = malloc(size_B + 1), *in_b = malloc(size_B + 1);
    NEED(in_a && in_b && !kiln_read(a, in_a, size_B) && !kiln_read(b, in_b, size_B) && !memcmp(in_a, in_b, size_B));
    free(in_a);
    free(in_b);
}
