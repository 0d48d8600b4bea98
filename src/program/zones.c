// Redzones around what a program keeps in its arena: laid before the action that uses a temporary first, checked behind
// the last one, for in between other temporaries lie there.
#include "device/redzone.h"
#include "program/impl.h"

void zones_lay(const struct program *p, int i, uint64_t arena)
{
    for (const struct program_zone *z = p->zones; z < p->zones + p->n_zones; z++)
        if (z->first == i)
            redzone_fill((void *)(uintptr_t)(arena + z->at_B - REDZONE_B), REDZONE_B + z->size_B + z->behind_B);
}

void zones_check(const struct program *p, int i, uint64_t arena)
{
    for (const struct program_zone *z = p->zones; z < p->zones + p->n_zones; z++)
        if (z->last == i)
            redzone_check((void *)(uintptr_t)(arena + z->at_B), z->size_B, z->behind_B, "temporaries of a program");
}
