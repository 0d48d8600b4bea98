// What a kernel is given: run-time scalars and accesses to buffers, each of which it has once.
#include "fuse/build.h"
#include <string.h>

int build_scalar_of(struct builder *b, enum scalar_class cls, uint64_t bits, uint16_t input)
{
    struct fused_kernel *k = b->k;
    int i = 0;
    while (i < k->n_scalars && (k->scalar_cls[i] != cls || k->scalars[i] != bits || k->scalar_input[i] != input)) i++;
    if (i == FUSED_MAX_SCALARS) {
        b->why = "too many scalars";
        return -1;
    }
    if (i == k->n_scalars) {
        k->scalar_cls[i] = (uint8_t)cls;
        k->scalars[i] = bits;
        k->scalar_input[i] = input;
        k->n_scalars++;
    }
    return dag_input(&b->dag, cls, (uint16_t)i);
}

int build_scalar(struct builder *b, enum scalar_class cls, uint64_t bits)
{
    return build_scalar_of(b, cls, bits, 0);
}

int build_access_of(struct builder *b, const struct fused_access *a)
{
    struct fused_kernel *k = b->k;
    int i = 0;
    while (i < k->n_in && memcmp(&k->in[i], a, sizeof *a)) i++;
    if (i == FUSED_MAX_IN) {
        b->why = "too many inputs";
        return -1;
    }
    if (i == k->n_in) k->in[k->n_in++] = *a;
    return i;
}

int build_access(struct builder *b, const struct launch_operand *o, const struct form *f)
{
    struct fused_access a = {
        .buffer = o->slot, .dtype = o->dtype, .cls = (uint8_t)dtype_class(o->dtype), .offset = f->offset};
    for (int d = 0; d < b->space.n_dims; d++) a.strides[d] = b->space.sizes[d] == 1 ? 0 : f->k[d];
    return build_access_of(b, &a);
}
