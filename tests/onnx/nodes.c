// ONNX's own tests, from where they lie: folders with model.onnx and test_data_set_0/{input,output}_N.pb.
//
// usage: test_onnx_nodes [DEVICE [FOLDER [NAME]]]. FOLDER: else $KILN_TEST_ONNX_NODES; without either the test is
// skipped. Each failure is printed with its reason; those of what Kiln says it does not do are counted apart. With
// NAME, that one. $KILN_TEST_ONNX_TIME: how near results are, and how long a captured call takes.
#include "onnx_cases.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Those that differ, and why it stays so.
static const struct {
    const char *name, *why;
} known[] = {
    {"test_resize_downsample_scales_cubic_align_corners", "takes scale times length for the length of the result"},
    {"test_resize_downsample_scales_linear_align_corners", "takes scale times length for the length of the result"},
    {"test_qlinearmatmul_2D_int8_float16", "wraps where the op saturates; onnxruntime agrees with Kiln"},
    {"test_qlinearmatmul_2D_int8_float32", "wraps where the op saturates; onnxruntime agrees with Kiln"},
    {"test_qlinearmatmul_3D_int8_float16", "wraps where the op saturates; onnxruntime agrees with Kiln"},
    {"test_qlinearmatmul_3D_int8_float32", "wraps where the op saturates; onnxruntime agrees with Kiln"},
    {"test_affine_grid_3d_align_corners_expanded", "an input decides on the rank of a result; eagerly it is right"},
};

static const char *known_reason(const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) return known[i].why;
    return NULL;
}

static size_t read_tensors(kiln_device *dev, const char *folder, const char *kind, kiln_tensor **out)
{
    size_t n = 0;
    for (; n < CASE_TENSORS_MAX; n++) {
        char path[4096];
        size_t size_B;
        snprintf(path, sizeof path, "%s/test_data_set_0/%s_%zu.pb", folder, kind, n);
        unsigned char *bytes = read_bytes(path, &size_B);
        if (!bytes) break;
        out[n] = onnx_case_tensor(dev, bytes, size_B);
        free(bytes);
        if (!out[n]) return n;
    }
    return n;
}

static enum onnx_outcome run_folder(kiln_device *dev, const char *folder, const char *name, char *why, size_t why_B)
{
    char path[4096], model[4200];
    struct onnx_case c = {.name = name, .model = model};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(model, sizeof model, "%s/model.onnx", path);
    kiln_scope *scope = kiln_scope_begin();
    c.n_in = read_tensors(dev, path, "input", c.in);
    c.n_want = read_tensors(dev, path, "output", c.want);
    enum onnx_outcome outcome = CASE_UNSUPPORTED;
    if (kiln_error()) {
        snprintf(why, why_B, "its data: %s", kiln_error_message());
        kiln_error_clear();
    } else {
        outcome = run_onnx_case(dev, &c, why, why_B);
    }
    kiln_scope_end(&scope);
    return outcome;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 2 ? argv[2] : getenv("KILN_TEST_ONNX_NODES"), *only = argc > 3 ? argv[3] : NULL;
    if (!folder) {
        printf("KILN_TEST_ONNX_NODES names no folder\n");
        return 77;
    }
    kiln_device *dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    struct dirent **entries;
    int n = dev && !kiln_set_device(dev) ? scandir(folder, &entries, NULL, alphasort) : -1;
    size_t counts[CASE_OUTCOMES] = {0};
    static const char *const words[] = {"passed", "eager", "missing", "FAILED"};
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        char why[1400];
        if (name[0] == '.' || (only && strcmp(only, name) != 0)) continue;
        enum onnx_outcome outcome = run_folder(dev, folder, name, why, sizeof why);
        if (outcome == CASE_FAILED && known_reason(name)) {
            outcome = CASE_UNSUPPORTED;
            snprintf(why, sizeof why, "%s", known_reason(name));
        }
        counts[outcome]++;
        if (outcome != CASE_PASSED) printf("%s %s: %s\n", words[outcome], name, why);
        if (outcome == CASE_PASSED && getenv("KILN_TEST_ONNX_TIME"))
            printf("passed %s: off by %.2g of the bound at most, %.3f ms a call\n", name, onnx_case_worst(),
                   onnx_case_seconds() * 1e3);
        fflush(stdout);
    }
    printf("%zu passed, %zu pass eagerly alone, %zu are not supported, %zu failed\n", counts[CASE_PASSED],
           counts[CASE_UNKNOWN], counts[CASE_UNSUPPORTED], counts[CASE_FAILED]);
    kiln_device_close(&dev);
    return n < 0 || counts[CASE_FAILED] || !counts[CASE_PASSED];
}
