// Data in files beside the model's: inside of its folder, reached without links, each byte of one tensor alone.
#include "onnx/model.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static kiln_status bad(const struct onnx_model *m, const struct onnx_constant *c, const char *why)
{
    return error_set(KILN_E_FORMAT, "%s: tensor \"%.80s\" lies in \"%.120s\", %s", m->where, c->name,
                     c->external->location, why);
}

static kiln_status check_location(const struct onnx_model *m, const struct onnx_constant *c)
{
    const char *at = c->external->location;
    if (*at == '/') return bad(m, c, "a path that does not begin in the model's folder");
    while (*at) {
        size_t len = strcspn(at, "/");
        if (len == 2 && at[0] == '.' && at[1] == '.') return bad(m, c, "a path that leaves the model's folder");
        at += len + (at[len] == '/');
    }
    return KILN_OK;
}

// Step by step from the model's folder; a link anywhere is refused.
static kiln_status open_beside(const struct onnx_model *m, const struct onnx_constant *c, int *out)
{
    char *folder = strdup(m->path), *names = strdup(c->external->location);
    char *slash = folder ? strrchr(folder, '/') : NULL, *rest = NULL;
    if (slash) slash[slash == folder] = 0;
    int fd = folder && names ? open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    char *name = names ? strtok_r(names, "/", &rest) : NULL;
    while (fd >= 0 && name) {
        char *next = strtok_r(NULL, "/", &rest);
        int inner = openat(fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (next ? O_DIRECTORY : 0));
        int number = errno;
        close(fd);
        errno = number;
        fd = inner;
        name = next;
    }
    int number = errno;
    free(folder);
    free(names);
    *out = fd;
    if (fd >= 0) return KILN_OK;
    if (number == ELOOP) return bad(m, c, "which is a link");
    return error_set(number == ENOENT ? KILN_E_MISSING : KILN_E_IO, "%s: tensor \"%.80s\" lies in \"%.120s\": %s",
                     m->where, c->name, c->external->location, strerror(number));
}

static kiln_status read_all(const struct onnx_model *m, const struct onnx_constant *c, int fd, void *out)
{
    const struct onnx_external *e = c->external;
    struct stat st;
    unsigned char *to = out;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) return bad(m, c, "which is no file");
    if (e->offset_B > (uint64_t)st.st_size || e->size_B > (uint64_t)st.st_size - e->offset_B)
        return error_set(KILN_E_FORMAT, "%s: tensor \"%.80s\" has %llu bytes at %llu of \"%.120s\", which has %lld",
                         m->where, c->name, (unsigned long long)e->size_B, (unsigned long long)e->offset_B, e->location,
                         (long long)st.st_size);
    for (uint64_t done = 0; out && done < e->size_B;) {
        uint64_t left = e->size_B - done;
        ssize_t n = pread(fd, to + done, left < 1 << 30 ? (size_t)left : 1 << 30, (off_t)(e->offset_B + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return bad(m, c, "which cannot be read whole");
        done += (uint64_t)n;
    }
    return KILN_OK;
}

// `out` NULL: only whether it could be.
kiln_status onnx_read_external(const struct onnx_model *m, const struct onnx_constant *c, void *out)
{
    int fd;
    TRY(open_beside(m, c, &fd));
    kiln_status status = read_all(m, c, fd, out);
    close(fd);
    return status;
}

static int compare(const void *a, const void *b)
{
    const struct onnx_external *x = (*(struct onnx_constant *const *)a)->external;
    const struct onnx_external *y = (*(struct onnx_constant *const *)b)->external;
    int names = strcmp(x->location, y->location);
    if (names) return names;
    if (x->offset_B != y->offset_B) return x->offset_B < y->offset_B ? -1 : 1;
    return x->size_B < y->size_B ? -1 : x->size_B > y->size_B;
}

static kiln_status check_apart(const struct onnx_model *m, struct onnx_constant **list, size_t n)
{
    qsort(list, n, sizeof *list, compare);
    for (size_t i = 1; i < n; i++) {
        const struct onnx_external *a = list[i - 1]->external, *b = list[i]->external;
        if (!a->size_B || strcmp(a->location, b->location) != 0 || b->offset_B >= a->offset_B + a->size_B) continue;
        return error_set(KILN_E_FORMAT, "%s: tensors \"%.80s\" and \"%.80s\" lie on each other in \"%.80s\"", m->where,
                         list[i - 1]->name, list[i]->name, a->location);
    }
    return KILN_OK;
}

kiln_status onnx_check_external(struct onnx_model *m)
{
    struct onnx_constant **list = malloc((m->constants.n + 1) * sizeof *list);
    if (!list) return error_set(KILN_E_MEMORY, "%s: out of memory", m->where);
    size_t n = 0;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < m->constants.n && !status; i++) {
        struct onnx_constant *c = m->constants.v[i];
        if (!c->external) continue;
        list[n++] = c;
        status = check_location(m, c);
        if (!status) status = onnx_read_external(m, c, NULL);
    }
    if (!status && n) status = check_apart(m, list, n);
    free(list);
    return status;
}
