// What goes with open dimensions.
#include "model/adding.h"

kiln_status fit_texts(struct adding *a, const struct captured *c, struct texts *base)
{
    (void)c, (void)base;
    return error_set(KILN_E_UNSUPPORTED, "model_add: %s has open dimensions", a->f->name);
}
