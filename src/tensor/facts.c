// Facts of eager calls.
#include "tensor/facts.h"
#include "base/where.h"
#include "ops/cost.h"
#include <stdio.h>
#include <string.h>

void types_text(const struct type *const *types, int n, char *out, size_t size_B)
{
    char one[TYPE_TEXT_MAX];
    size_t len = 0;
    out[0] = '\0';
    for (int i = 0; i < n; i++) {
        if (!types[i]) continue;
        if (types[i]->weak)
            snprintf(one, sizeof one, "number");
        else
            type_text(types[i], one, sizeof one);
        if (len + strlen(one) + 2 > size_B) return;
        len += (size_t)snprintf(out + len, size_B - len, "%s%s", len ? " " : "", one);
    }
}

void call_facts_make(struct call_facts *f, const struct op_call *c)
{
    const struct type *out[OP_MAX_OUT];
    for (int i = 0; i < c->n_out; i++) out[i] = &c->out[i];
    types_text(c->in, c->n_in, f->in, sizeof f->in);
    types_text(out, c->n_out, f->out, sizeof f->out);
    f->place = where_now();
    f->multiplied = false;
    f->facts = (struct launch_facts){
        .op = c->op->name, .in = f->in, .out = f->out, .flops = -1, .places = &f->place, .n_places = 1};
}

void call_facts_of_launch(struct call_facts *f, const struct op_call *c, const struct launch *l)
{
    struct launch_cost cost = launch_cost(c->op, c->in, &c->out[0], l);
    bool multiplies = c->op->products.kind && kernel_info(l->kernel)->kind == KERNEL_CUSTOM;
    f->facts.read_B = cost.read_B;
    f->facts.written_B = cost.written_B;
    f->facts.flops = multiplies && f->multiplied ? 0 : cost.flops;
    f->multiplied |= multiplies;
}
