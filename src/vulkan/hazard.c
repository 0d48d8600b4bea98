// Which byte ranges the commands since the last barrier read and write.
//
// Without a barrier commands overlap freely. A command needs one when it reads what was written, or writes what was
// read or written since the last barrier. Ranges are compared one by one: the lists are short, for a barrier empties
// them, and a chain of dependent ops has one or two entries. When a list is full the next entry counts as a conflict,
// which costs one barrier too many and is never wrong. The lists live on across submissions, for these are no
// barriers either.
#include "vulkan/vk.h"

static bool overlaps(const struct vk_range *list, int n, uint64_t lo, uint64_t hi)
{
    for (int i = 0; i < n; i++) {
        if (lo < list[i].hi && list[i].lo < hi) return true;
    }
    return false;
}

bool vk_hazard_conflict(const struct vk_hazards *h, uint64_t lo, uint64_t hi, bool write)
{
    // A launch adds at most MAX_OPERANDS + 1 entries after its check.
    if (h->n_writes > HAZARD_WRITES - MAX_OPERANDS - 1 || h->n_reads > HAZARD_READS - MAX_OPERANDS - 1) return true;
    return overlaps(h->writes, h->n_writes, lo, hi) || (write && overlaps(h->reads, h->n_reads, lo, hi));
}

bool vk_hazard_has_room(const struct vk_hazards *h, uint32_t n)
{
    return (uint32_t)h->n_writes + n <= HAZARD_WRITES && (uint32_t)h->n_reads + n <= HAZARD_READS;
}

void vk_hazard_add(struct vk_hazards *h, uint64_t lo, uint64_t hi, bool write)
{
    struct vk_range range = {lo, hi};
    if (write) {
        h->writes[h->n_writes++] = range;
    } else {
        h->reads[h->n_reads++] = range;
    }
}
