// out[p] = label[p] where all labels name one of the classes or are those that count for nothing; else an error.
// Scalars: how many classes there are, and the label to ignore.
#include "cpu/kernels/index.h"
#include "cpu/kernels/walk.h"
#include <stdio.h>

struct cpu_work CPU_FN(cpu_units_check_labels)(const struct launch *l)
{
    struct cpu_work w = {1, 1};
    for (int d = 0; d < l->rank; d++) w.units *= l->sizes[d];
    return w;
}

static kiln_status not_a_class(const struct launch *l, int64_t label, int64_t point)
{
    char place[MAX_RANK * 24] = "";
    int64_t at[MAX_RANK];
    for (int d = l->rank - 1; d >= 0; d--) {
        at[d] = point % l->sizes[d];
        point /= l->sizes[d];
    }
    for (int d = 0, n = 0; d < l->rank; d++)
        n += snprintf(place + n, sizeof place - (size_t)n, "%s%lld", d ? ", " : "", (long long)at[d]);
    return error_set(KILN_E_ARGUMENT, "%s: label %lld at [%s] is out of range for %lld classes%s", l->op,
                     (long long)label, place, (long long)l->scalars[0],
                     label < 0 ? "; options .ignore and .ignore_index leave a label out" : "");
}

kiln_status CPU_FN(cpu_kernel_check_labels)(const struct launch *l, int64_t begin, int64_t end)
{
    int64_t classes = (int64_t)l->scalars[0], ignored = (int64_t)l->scalars[1], labels[INDEX_BLOCK];
    const struct launch_operand *in = &l->operands[0], *out = &l->operands[1];
    struct walk w;
    walk_start(&w, l, -1, begin);
    int d = walk_inner(&w);
    while (begin < end) {
        int64_t n = walk_run(&w), step = d < 0 ? 1 : in->strides[d], out_step = d < 0 ? 1 : out->strides[d];
        if (n > end - begin) n = end - begin;
        if (n > INDEX_BLOCK) n = INDEX_BLOCK;
        CPU_FN(cpu_load)(in->dtype, CLASS_I64, labels, w.at[0] + w.inner * step * cpu_dtype_size_B[in->dtype], n, step);
        int64_t *to = (int64_t *)(void *)w.at[1] + w.inner * out_step;
        for (int64_t i = 0; i < n; i++) {
            bool known = (labels[i] >= 0 && labels[i] < classes) || labels[i] == ignored;
            if (!known) return not_a_class(l, labels[i], begin + i);
            to[i * out_step] = labels[i];
        }
        begin += n;
        walk_next(&w, n);
    }
    return KILN_OK;
}
