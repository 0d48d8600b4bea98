// What the fuzzers of file formats and texts share. Each is one function, LLVMFuzzerTestOneInput, that libFuzzer calls
// with inputs of its own, or replay.c with those of the corpus. An input that fails ends the process.
#pragma once
#include <kiln/io.h>
#include <kiln/kiln.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B);
// Where a format has checksums, inputs that are changed blindly fail there: these put right what the change made wrong.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size_B, size_t max_B, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size_B, size_t max_B);

extern kiln_device *fuzz_device;

#define NEED(condition) fuzz_need(condition, #condition, __FILE__, __LINE__)
void fuzz_need(bool good, const char *what, const char *file, int line);

// Between these nothing is left behind: no tensor, no open file, no file in the folder but those named here, no error.
void fuzz_begin(void);
void fuzz_end(void);

// Files of a folder that is this process's own.
const char *fuzz_input(const uint8_t *data, size_t size_B); // the input as a file
extern const char *const fuzz_saved[2];                     // where what was loaded is saved, and saved once more
char *fuzz_read_file(const char *path, size_t *size_B);     // from malloc
void fuzz_need_same_files(const char *a, const char *b);

// The call failed, as it may: with one of these codes and a message. The error is cleared.
#define FUZZ_REFUSED(...) fuzz_refused((const kiln_status[]){__VA_ARGS__, KILN_OK})
#define FUZZ_BAD_FILE     KILN_E_FORMAT, KILN_E_UNSUPPORTED
void fuzz_refused(const kiln_status *codes);

void fuzz_need_same_tensors(const kiln_tensor *a, const kiln_tensor *b);

// Archives: what loads is saved, loads again as the same, and is saved again to the same bytes.
typedef kiln_archive *(*fuzz_load_fn)(const char *path);
typedef kiln_status (*fuzz_save_fn)(const char *path, const char *const *names, kiln_tensor *const *tensors, size_t n);
void fuzz_archive(const char *path, fuzz_load_fn load, fuzz_save_fn save);
// The same of formats that are saved as another.
void fuzz_foreign_archive(const char *path, fuzz_load_fn load, fuzz_load_fn load_saved, fuzz_save_fn save);
