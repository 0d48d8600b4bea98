// Names of the reductions, and their identities as texts of each target language.
#include "scalar/reduce.h"
#include <string.h>

_Static_assert((int)CLASS_F32 + 1 == CLASS_F64 && (int)CLASS_F64 + 1 == CLASS_I32 && (int)CLASS_I32 + 1 == CLASS_I64 &&
                   (int)CLASS_I64 + 1 == CLASS_BOOL && CLASS_COUNT == 5,
               "reduce_identity counts the classes in this order");

const char *reduce_identity_text(unsigned how, enum scalar_class cls, enum scalar_target target)
{
    static const struct {
        uint8_t identity;
        const char *c, *glsl;
    } texts[] = {
#define REDUCE(...)
#define IDENTITY(id, member, c, glsl) {IDENTITY_##id, #c, glsl},
#include "scalar/reduce.def"
#undef REDUCE
#undef IDENTITY
    };
    size_t at = (size_t)reduce_info[how].identity * CLASS_COUNT + cls; // the rows of an identity stand together
    return target == TARGET_GLSL ? texts[at].glsl : texts[at].c;
}

int reduce_find(const char *name, size_t length)
{
    for (int i = 0; length > 1 && name[0] == 'r' && i < REDUCE_COUNT; i++)
        if (strlen(reduce_info[i].name) == length - 1 && !memcmp(reduce_info[i].name, name + 1, length - 1)) return i;
    return -1;
}
