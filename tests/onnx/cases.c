// The committed cases: small models of each op that is mapped, eagerly and captured, beside what onnxruntime gives.
//
// usage: test_onnx_cases CASES [DEVICE]. A device that is not there is skipped.
#include "onnx_cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRITTEN_MIN = 285 }; // of the cases, which are written as models again

struct packed {
    const unsigned char *at, *end;
};

static uint32_t take_number(struct packed *p)
{
    uint32_t n = 0;
    if (p->end - p->at < 4) exit(2);
    for (int i = 0; i < 4; i++) n |= (uint32_t)*p->at++ << 8 * i;
    return n;
}

static const unsigned char *take_part(struct packed *p, size_t *size_B)
{
    *size_B = take_number(p);
    if (*size_B > (size_t)(p->end - p->at)) exit(2);
    const unsigned char *part = p->at;
    p->at += *size_B;
    return part;
}

static size_t take_tensors(kiln_device *dev, struct packed *p, kiln_tensor **out)
{
    size_t n = take_number(p), size_B;
    for (size_t i = 0; i < n && i < CASE_TENSORS_MAX; i++) {
        const unsigned char *part = take_part(p, &size_B);
        out[i] = onnx_case_tensor(dev, part, size_B);
        if (!out[i]) printf("a tensor of the case: %s\n", kiln_error_message());
    }
    return n;
}

static bool write_model(const char *path, const unsigned char *model, size_t size_B)
{
    FILE *f = fopen(path, "wb");
    bool written = f && fwrite(model, 1, size_B, f) == size_B;
    return f && !fclose(f) && written;
}

static bool run_next(kiln_device *dev, struct packed *p, const char *path)
{
    char name[200], why[1400] = "";
    size_t name_B, model_B;
    const unsigned char *text = take_part(p, &name_B), *model = take_part(p, &model_B);
    snprintf(name, sizeof name, "%.*s", (int)name_B, (const char *)text);
    struct onnx_case c = {.name = name, .model = path};
    kiln_scope *scope = kiln_scope_begin();
    c.n_in = take_tensors(dev, p, c.in);
    c.n_want = take_tensors(dev, p, c.want);
    bool good =
        !kiln_error() && write_model(path, model, model_B) && run_onnx_case(dev, &c, why, sizeof why) == CASE_PASSED;
    if (!good) printf("%s: %s %s\n", name, why, kiln_error_message());
    kiln_error_clear();
    kiln_scope_end(&scope);
    return good;
}

int main(int argc, char **argv)
{
    size_t size_B, count = 0, bad = 0;
    unsigned char *bytes = argc > 1 ? read_bytes(argv[1], &size_B) : NULL;
    if (!bytes) return 2;
    kiln_device *dev = kiln_device_open(argc > 2 ? argv[2] : "cpu");
    if (!dev || kiln_set_device(dev)) {
        printf("%s\n", kiln_error_message());
        return 77;
    }
    char path[] = "/tmp/kiln-onnx-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0) return 2;
    close(fd);
    for (struct packed p = {bytes, bytes + size_B}; p.at < p.end; count++) bad += !run_next(dev, &p, path);
    size_t written, refused;
    onnx_case_written(&written, &refused);
    printf("%zu cases, %zu failed; %zu written again, %zu not\n", count, bad, written, refused);
    unlink(path);
    free(bytes);
    kiln_device_close(&dev);
    return bad || count < 200 || written < WRITTEN_MIN;
}
