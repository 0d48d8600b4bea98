// Cuts a failing program down: whatever can be left out while the same way still fails.
#include "fuzz.h"

static bool try_this(struct harness *h, struct program *p, const struct program *smaller, enum way way)
{
    struct program q = *smaller;
    struct finding f = check_program(h, &q);
    if (!f.found || f.way != way) return false;
    *p = q;
    return true;
}

static bool drop_steps(struct harness *h, struct program *p, enum way way)
{
    bool any = false;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        struct program q = *p;
        q.step[i].dropped = true;
        if (!p->step[i].dropped) any |= try_this(h, p, &q, way);
    }
    return any;
}

static bool drop_calls(struct harness *h, struct program *p, enum way way)
{
    bool any = false;
    for (int i = p->n_calls - 1; i >= 0 && p->n_calls > 1; i--) {
        struct program q = *p;
        q.n_calls--;
        for (int k = i; k < q.n_calls; k++) {
            q.event[k] = q.event[k + 1], q.fresh[k] = q.fresh[k + 1], q.rewritten[k] = q.rewritten[k + 1];
            memcpy(q.size[k], q.size[k + 1], sizeof q.size[k]);
            for (int s = 0; s < q.n_sources; s++) q.source[s].at[k] = q.source[s].at[k + 1];
        }
        any |= try_this(h, p, &q, way);
    }
    return any;
}

static bool drop_results(struct harness *h, struct program *p, enum way way)
{
    bool any = false;
    for (int i = p->n_results - 1; i >= 0 && p->n_results > 1; i--) {
        struct program q = *p;
        memmove(q.result + i, q.result + i + 1, sizeof *q.result * (size_t)(q.n_results - i - 1));
        q.n_results--;
        any |= try_this(h, p, &q, way);
    }
    return any;
}

static bool uses(const struct program *p, int value)
{
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i].a == value || (!p->step[i].dropped && (p->step[i].b == value || p->step[i].c == value)))
            return true;
    for (int i = 0; i < p->n_results; i++)
        if (p->result[i] == value) return true;
    for (int i = 0; i < p->n_sources; i++)
        if (p->source[i].same_as == value) return true;
    return false;
}

static void take_out_value(struct program *p, int value)
{
    for (int i = 0; i < p->n_steps; i++) {
        struct step *s = &p->step[i];
        s->a -= s->a > value, s->b -= s->b > value, s->c -= s->c > value;
    }
    for (int i = 0; i < p->n_results; i++) p->result[i] -= p->result[i] > value;
    for (int i = 0; i < p->n_sources; i++) p->source[i].same_as -= p->source[i].same_as > value;
}

// What reads a dropped step's value reads its first operand; then the step is not needed.
static bool remove_steps(struct harness *h, struct program *p, enum way way)
{
    bool any = false;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        struct program q = *p;
        uint8_t value = (uint8_t)(q.n_sources + i), a = q.step[i].a;
        if (!q.step[i].dropped) continue;
        for (int k = i + 1; k < q.n_steps; k++) {
            struct step *s = &q.step[k];
            s->a = s->a == value ? a : s->a, s->b = s->b == value ? a : s->b, s->c = s->c == value ? a : s->c;
        }
        for (int k = 0; k < q.n_results; k++) q.result[k] = q.result[k] == value ? a : q.result[k];
        memmove(q.step + i, q.step + i + 1, sizeof *q.step * (size_t)(q.n_steps - i - 1));
        q.n_steps--;
        take_out_value(&q, value);
        any |= try_this(h, p, &q, way);
    }
    return any;
}

static bool remove_sources(struct harness *h, struct program *p, enum way way)
{
    bool any = false;
    for (int i = p->n_sources - 1; i > 0; i--) {
        struct program q = *p;
        if (uses(&q, i)) continue;
        memmove(q.source + i, q.source + i + 1, sizeof *q.source * (size_t)(q.n_sources - i - 1));
        q.n_sources--;
        take_out_value(&q, i);
        any |= try_this(h, p, &q, way);
    }
    return any;
}

// Operands of steps are sources where that will do.
static bool shorten_operands(struct harness *h, struct program *p, enum way way)
{
    bool any = false;
    for (int i = 0; i < p->n_steps; i++)
        for (int which = 0; which < 3; which++) {
            struct program q = *p;
            uint8_t *operand = which == 0 ? &q.step[i].a : which == 1 ? &q.step[i].b : &q.step[i].c;
            if (*operand == 0 || q.step[i].dropped) continue;
            *operand = 0;
            any |= try_this(h, p, &q, way);
        }
    return any;
}

static bool plain_source(struct harness *h, struct program *p, int i, enum way way)
{
    bool any = false;
    struct program q = *p;
    if (q.source[i].same_as >= 0) q.source[i].same_as = -1, any |= try_this(h, p, &q, way);
    q = *p;
    if (q.source[i].leaf) q.source[i].leaf = false, any |= try_this(h, p, &q, way);
    q = *p;
    bool moves = false, formed = false;
    for (int k = 0; k < CALLS; k++) {
        moves |= memcmp(&q.source[i].at[k], &q.source[i].at[0], sizeof q.source[i].at[0]);
        formed |= q.source[i].at[k].form != FORM_PLAIN;
        q.source[i].at[k] = q.source[i].at[0];
    }
    if (moves) any |= try_this(h, p, &q, way);
    q = *p;
    for (int k = 0; k < CALLS; k++) q.source[i].at[k].form = FORM_PLAIN;
    if (formed) any |= try_this(h, p, &q, way);
    return any;
}

static bool simplify_world(struct harness *h, struct program *p, enum way way)
{
    bool any = false;
    struct program q;
    for (int i = 0; i < p->n_sources; i++) any |= plain_source(h, p, i, way);
    for (int call = 1; call < CALLS; call++) {
        q = *p, q.event[call] = EVENT_NONE;
        if (p->event[call]) any |= try_this(h, p, &q, way);
        q = *p, q.fresh[call] = false, q.rewritten[call] = 0;
        if (p->fresh[call] || p->rewritten[call]) any |= try_this(h, p, &q, way);
        q = *p, memcpy(q.size[call], q.size[0], sizeof q.size[call]);
        if (memcmp(p->size[call], p->size[0], sizeof q.size[call])) any |= try_this(h, p, &q, way);
    }
    q = *p, q.gradient = GRADIENT_NONE;
    if (p->gradient) any |= try_this(h, p, &q, way);
    q = *p, q.level = KILN_LEVEL_FUSION, q.eager_rounding = q.deterministic = false;
    if (p->level || p->eager_rounding || p->deterministic) any |= try_this(h, p, &q, way);
    q = *p, q.touches = false;
    if (p->touches) any |= try_this(h, p, &q, way);
    q = *p, q.even = true;
    if (!p->even) any |= try_this(h, p, &q, way);
    for (int b = 0; b < 2; b++) {
        q = *p, q.dtype[b] = KILN_F32;
        if (p->dtype[b] != KILN_F32) any |= try_this(h, p, &q, way);
    }
    return any;
}

void shrink_program(struct harness *h, struct program *p, enum way way)
{
    uint32_t ways = h->ways;
    h->ways = 1u << way;
    for (bool again = true; again;) {
        again = drop_calls(h, p, way);
        again |= drop_steps(h, p, way);
        again |= remove_steps(h, p, way);
        again |= drop_results(h, p, way);
        again |= simplify_world(h, p, way);
        again |= shorten_operands(h, p, way);
        again |= remove_sources(h, p, way);
    }
    h->ways = ways;
}
