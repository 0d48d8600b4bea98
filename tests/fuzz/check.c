// Compares what two runs left. Other orders of additions, and values that fused kernels keep unrounded, may move a
// number; how far, noisy runs tell: eager ones that move every value by some units of its last place. Where they agree
// to the bit, as on integers, all must. What fails that is compared again by many more of them.
#include "fuzz.h"

enum { NOISY_FIRST = 2, NOISY_MORE = 40, NOISY_MOST = NOISY_FIRST + NOISY_MORE, NOISY_WIDE = 12 };

static double least_of(kiln_dtype dtype)
{
    return dtype == KILN_F16 ? 0x1p-22 : dtype == KILN_BF16 || dtype == KILN_F32 ? 0x1p-120 : 0;
}

static double unit_of(kiln_dtype dtype)
{
    return dtype == KILN_F16 ? 0x1p-11 : dtype == KILN_BF16 ? 0x1p-8 : 0x1p-24;
}

static double eps_of(kiln_dtype dtype)
{
    return dtype == KILN_F64 ? 0x1p-53 : unit_of(dtype);
}

static bool same_type(const struct entry *a, const struct entry *b, bool wide)
{
    if (strcmp(a->name, b->name) || a->call != b->call || a->rank != b->rank || a->n != b->n) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return a->dtype == b->dtype || (wide && is_floating(a->dtype) && is_floating(b->dtype));
}

// What has overflowed is infinite or no number by the order in which it is added up or multiplied.
static bool same_number(double a, double b)
{
    return a == b || (!isfinite(a) && !isfinite(b));
}

// What noisy runs made of one number: how far it moved; infinite where it was finite in some and not in others.
static double spread_of(const struct trace *noisy, int n, size_t entry, const struct entry *want, int64_t i)
{
    double most = 0;
    for (int k = 0; k < n; k++) {
        const struct entry *e = entry < noisy[k].n ? &noisy[k].entry[entry] : NULL;
        if (!e || !same_type(e, want, false)) return INFINITY;
        double d = same_number(e->v[i], want->v[i]) ? 0 : fabs(e->v[i] - want->v[i]);
        if (!(d <= most)) most = isnan(d) ? INFINITY : d;
    }
    return most;
}

// Where the same happens to all elements, as when they are noise, the noisy runs may have missed this one.
static double spread_of_all(const struct trace *noisy, int n, size_t entry, const struct entry *want)
{
    double most = 0;
    for (int64_t i = 0; i < want->n && n == NOISY_MOST; i++) {
        double d = spread_of(noisy, n, entry, want, i);
        if (d > most && !isinf(d)) most = d;
    }
    return most;
}

static double largest_of(const struct entry *e)
{
    double most = 0;
    for (int64_t i = 0; i < e->n && is_floating(e->dtype); i++)
        if (isfinite(e->v[i]) && fabs(e->v[i]) > most) most = fabs(e->v[i]);
    return most;
}

static double most_of_trace(const struct trace *t)
{
    double most = 0;
    for (size_t i = 0; i < t->n; i++) most = fmax(most, largest_of(&t->entry[i]));
    return most;
}

// What a run in f64 may be away for not rounding where noisy runs add no noise, as where memory is written: some units
// of the largest number that is left.
static double rounding_of_trace(const struct trace *t, double unit)
{
    return 8 * unit * most_of_trace(t);
}

struct references {
    struct trace want, noisy[NOISY_MOST];
    int n_noisy;
};

static bool has_halves(const struct program *p)
{
    for (int i = 0; i < p->n_sources; i++) {
        kiln_dtype dtype = p->dtype[p->source[i].base];
        if (dtype == KILN_F16 || dtype == KILN_BF16) return true;
    }
    return false;
}

static bool is_second(enum gradient g)
{
    return g == GRADIENT_TWICE || g == GRADIENT_SECOND;
}

// How far two runs of a program may be apart, beyond what noise says.
struct slack {
    bool wide, overflows; // the program has halves, which overflow unless they are kept unrounded
    double wide_by;       // of an entry in f64
    double most;          // of a gradient: rules round inside, where no noise comes, sums that nearly cancel
    double halves_by;     // of an entry in halves of a second derivative: sums of products that nearly cancel
    bool has_halves;      // the program
    bool second;          // derivatives, in which rules divide what they have rounded by numbers near 0
    bool whole;           // a second derivative comes through integers, which cut off what each part of it adds
    bool results_are_second;
    bool zeros;     // a branch that is not taken gives zeros to what was infinite
    double written; // in a program that writes in place, where no noise comes: the largest number
    int lost_from;  // the first result that is a gradient which may lack what was written over
};

static bool writes(const struct program *p)
{
    for (int i = 0; i < p->n_steps; i++)
        if (!p->step[i].dropped && (step_kinds[p->step[i].kind].flags & STEP_WRITES)) return true;
    return false;
}

// What comes by memory that was written over later is a gradient of zeros in eager mode, and no number where a rule
// multiplies it by infinity. Captured, an input is memory of its own, and what is all written over has no history.
static int first_lost(const struct program *p, enum way way)
{
    if (way == WAY_AUTO || way == WAY_REGION || !p->gradient || !writes(p)) return INT32_MAX;
    return p->gradient == GRADIENT_SECOND   ? 0
           : p->gradient == GRADIENT_OF     ? 1 + p->n_results
           : p->gradient == GRADIENT_INSIDE ? p->n_results
                                            : INT32_MAX - 1;
}

static bool may_be_lost(const struct slack *s, const char *name)
{
    int k;
    if (s->lost_from == INT32_MAX) return false;
    return !strncmp(name, "gradient of", 11) || (sscanf(name, "result %d", &k) == 1 && k >= s->lost_from);
}

static struct slack slack_of(const struct program *p, const struct trace *want, enum way way)
{
    double unit = 0;
    for (size_t i = 0; i < want->n; i++) unit = fmax(unit, unit_of(want->entry[i].dtype));
    return (struct slack){.wide = way == WAY_WIDE,
                          .overflows = way == WAY_WIDE || has_halves(p) || want->halves,
                          .wide_by = rounding_of_trace(want, unit),
                          .most = p->gradient ? most_of_trace(want) : 0,
                          .halves_by = is_second(p->gradient) ? rounding_of_trace(want, unit) * most_of_trace(want) : 0,
                          .has_halves = has_halves(p),
                          .second = is_second(p->gradient),
                          .whole = is_second(p->gradient) && want->whole,
                          .results_are_second = p->gradient == GRADIENT_SECOND,
                          .zeros = p->gradient && want->overflows,
                          .written = writes(p) ? most_of_trace(want) : 0,
                          .lost_from = first_lost(p, way)};
}

static bool entry_agrees(const struct entry *got, const struct references *r, size_t at, const struct slack *slack,
                         struct finding *f)
{
    const struct entry *want = &r->want.entry[at];
    bool half = want->dtype == KILN_F16 || want->dtype == KILN_BF16;
    // Halves are rounded where gradients are added up, too, after the noise. What is wider and was made of halves is as
    // far apart as they are; a second derivative by the gradient of a half is, too.
    kiln_dtype halves = r->want.halves ? r->want.halves : slack->second && slack->has_halves ? KILN_BF16 : 0;
    double unit = half ? unit_of(want->dtype) : halves ? unit_of(halves) : 0;
    bool of_halves = half || (halves && is_floating(want->dtype));
    double rounding = slack->wide
                          ? slack->wide_by
                          : (of_halves ? slack->halves_by : 0) + 4 * unit * fmax(largest_of(want), slack->written);
    if (is_floating(want->dtype)) rounding += 8 * eps_of(want->dtype) * slack->most;
    if (is_floating(want->dtype) && slack->second) rounding += 0x1p-9 * largest_of(want);
    if (!same_type(got, want, slack->wide)) {
        snprintf(f->what, sizeof f->what, "%s: %s of rank %d with %d elements, not %s: %s of rank %d with %d",
                 got->name, kiln_dtype_name(got->dtype), got->rank, (int)got->n, want->name,
                 kiln_dtype_name(want->dtype), want->rank, (int)want->n);
        return false;
    }
    if (slack->wide && !is_floating(want->dtype)) return true; // which rounding may decide
    bool lost = may_be_lost(slack, want->name);
    if (slack->whole && !strncmp(want->name, slack->results_are_second ? "result" : "gradient of", 6)) return true;
    for (int64_t i = 0; i < got->n; i++) {
        // As an integer, what overflowed is the largest.
        bool overflowed = !isfinite(want->v[i]) || (!is_floating(want->dtype) && fabs(want->v[i]) >= INT16_MAX);
        if (same_number(got->v[i], want->v[i]) || (slack->overflows && overflowed)) continue;
        if ((lost && isnan(want->v[i])) || (slack->zeros && isnan(got->v[i]))) continue;
        double spread = spread_of(r->noisy, r->n_noisy, at, want, i);
        spread = fmax(spread, 0.5 * spread_of_all(r->noisy, r->n_noisy, at, want));
        // What a rule divides by may be 0 where halves are not rounded, and all of the number be rounding.
        if (slack->second && slack->has_halves && isnan(got->v[i]) && spread > fabs(want->v[i])) continue;
        double by = fabs(got->v[i] - want->v[i]);
        // A logarithm of a sum next to 1 shows the units of 1.
        double of_one = spread > 0 ? 4 * unit_of(want->dtype) : 0;
        if (by <= (slack->wide ? 24 : 6) * spread + of_one + rounding + least_of(want->dtype) || isinf(spread))
            continue;
        snprintf(f->what, sizeof f->what, "%s: element %d of %d is %.9g, not %.9g (within %.3g)", got->name, (int)i,
                 (int)got->n, got->v[i], want->v[i], 6 * spread);
        return false;
    }
    return true;
}

// What the documentation says that a capture cannot do.
static bool is_refusal(const struct trace *got, enum way way, bool twice)
{
    static const char *const limits[] = {
        "uses a tensor that depends on others outside of the capture",
        "that depends on others outside of the capture, perhaps on wrt",
        "requires a gradient and shares its memory with another tensor, and that memory is written",
        "shares with another tensor, and the parameter requires a gradient",
        "gave, shares with another tensor",
        "shares with another tensor, and the state was written with a gradient",
        "it comes to an input that is no parameter; with .create_graph",
        "a part of this gradient comes through",
        "in a way that gradients of its gradients do not follow",
        "reaches memory around one of its inputs",
        "that it also reaches as that of a parameter's gradient",
        "writes memory that it also reaches by kiln_stop_gradient",
        "the gradient keeps a tensor of rank 16 of each trip",
        "is differentiated by shares its memory with another one, and a region uses it",
        "a condition that is a constant chose this region",
        "the host is not asked again",
        "of a tensor that requires a gradient and shows elements several times",
        "backward: in a region of",
        "backward: a region of",
        "backward: regions of",
        "backward: the body of a loop of",
        "gradient: the body of a loop of",
    };
    // A call is one node of the tape, and a state that it wrote leads to it.
    bool one_node = way != WAY_AUTO && way != WAY_REGION;
    if (got->status == KILN_E_GRADIENT && strstr(got->message, "the tape of jit was used up")) return one_node;
    if (got->status == KILN_E_GRADIENT && strstr(got->message, "the gradient of jit needs its input")) return one_node;
    // It lies behind a cond, whichever branch eager mode takes.
    if (got->status == KILN_E_GRADIENT && strstr(got->message, "the tape of cond was used up")) return one_node;
    if (got->status == KILN_E_GRADIENT && strstr(got->message, "so that it has no gradient there")) return one_node;
    // Both branches are captured, whichever eager mode takes.
    if (got->status == KILN_E_GRADIENT && strstr(got->message, "leaf that requires a gradient; write it"))
        return one_node;
    if (got->status == KILN_E_DTYPE && strstr(got->message, ": they differ in dtype")) return one_node;
    if (got->status == KILN_E_ARGUMENT && strstr(got->message, "share memory: ")) return one_node;
    // Gradients of gradients run the function's ops again, on inputs that it may have written.
    if (got->status == KILN_E_GRADIENT) return twice && strstr(got->message, "has changed since");
    if (got->status != KILN_E_UNSUPPORTED || way == WAY_AUTO || way == WAY_REGION) return false;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (strstr(got->message, limits[i])) return true;
    return false;
}

static struct finding compare(const struct trace *got, const struct references *r, enum way way,
                              const struct program *p)
{
    const struct trace *want = &r->want;
    struct finding f = {.way = way};
    const struct slack slack = slack_of(p, want, way);
    for (size_t i = 0; i < got->n && i < want->n; i++) {
        f.call = want->entry[i].call;
        if (!entry_agrees(&got->entry[i], r, i, &slack, &f)) return f.found = true, f;
    }
    f.call = got->call;
    f.refused = is_refusal(got, way, p->gradient == GRADIENT_TWICE);
    if (f.refused) return f;
    f.found = got->status || got->n != want->n;
    if (got->status)
        snprintf(f.what, sizeof f.what, "%s: %s", kiln_status_name(got->status), got->message);
    else if (f.found)
        snprintf(f.what, sizeof f.what, "%d things are left, not %d", (int)got->n, (int)want->n);
    return f;
}

// --- a program in all ways

static void relent(struct program *p, const struct trace *t)
{
    int last = p->n_steps - 1;
    if (t->failed_step >= 0) {
        p->step[t->failed_step].dropped = true;
        return;
    }
    while (last >= 0 && (p->step[last].dropped || !(step_kinds[p->step[last].kind].flags & STEP_WRITES))) last--;
    if (last >= 0)
        p->step[last].dropped = true;
    else if (p->event[1] || p->event[2] || p->event[3])
        memset(p->event, 0, sizeof p->event);
    else
        p->gradient = GRADIENT_NONE;
}

// A capture meets what stands behind the place where a run breaks off, too.
static bool runs_to_the_end(struct harness *h, struct program *p)
{
    struct trace t;
    int breaks = p->breaks;
    p->breaks = -1;
    run_program(p, WAY_EAGER, h->cpu, 0, NULL, &t);
    p->breaks = breaks;
    bool fine = !t.status || t.status == KILN_E_INTERNAL; // which is no refusal
    if (!fine && h->tells_refusals) printf("%llu: %s\n", (unsigned long long)p->seed, t.message);
    if (!fine) relent(p, &t);
    trace_free(&t);
    return fine;
}

bool settle(struct harness *h, struct program *p)
{
    for (int i = 0; i < 2 * STEPS; i++)
        if (runs_to_the_end(h, p)) return true;
    return false;
}

static bool has_numbers(const struct program *p)
{
    for (int i = 0; i < p->n_sources; i++)
        if (p->source[i].kind == SOURCE_NUMBER || p->source[i].kind == SOURCE_MUTABLE) return true;
    return false;
}

// The second derivatives of halves are sums of large numbers that nearly cancel, each rounded: no noise tells how far.
static bool suits(const struct harness *h, const struct program *p, enum way way)
{
    if (!(h->ways >> way & 1)) return false;
    if (way == WAY_EAGER) return h->dev != h->cpu;
    if (way == WAY_NOISY) return false;
    // Eager mode itself, for who asks: a program may decide by a rounding, or take it out of all proportion.
    if (way == WAY_WIDE)
        return h->ways == 1u << WAY_WIDE && h->dev == h->cpu && !(is_second(p->gradient) && has_halves(p));
    if (p->reads) return way == WAY_AUTO || way == WAY_REGION;
    if (way == WAY_BUNDLE && has_numbers(p)) return false; // which are entries of other kinds
    // One of the rarer ways a program.
    enum way rare = WAY_REGION + (enum way)(p->seed % (WAYS - WAY_REGION));
    return way <= WAY_AUTO || way == rare || h->ways == 1u << way;
}

static void add_noisy(struct harness *h, const struct program *p, struct references *r, int n)
{
    for (; n--; r->n_noisy++) run_program(p, WAY_NOISY, h->cpu, (uint32_t)r->n_noisy + 1, NULL, &r->noisy[r->n_noisy]);
}

// Whether eager mode is as near to f64 as runs in f64 are to each other whose values move by units of f32.
static bool within_noise_of_wide(struct harness *h, const struct program *p, const struct trace *wide,
                                 const struct references *r)
{
    struct references of_wide = {.want = *wide};
    for (int i = 0; i < NOISY_WIDE; i++)
        run_program(p, WAY_WIDE, h->cpu, (uint32_t)i + 1, NULL, &of_wide.noisy[of_wide.n_noisy++]);
    struct finding f = compare(&r->want, &of_wide, WAY_WIDE, p);
    for (int i = 0; i < NOISY_WIDE; i++) trace_free(&of_wide.noisy[i]);
    return !f.found;
}

// The second derivatives of f32 are sums of products that nearly cancel, and round inside of rules, where no noise
// comes. Whether a run is about as near to f64 as eager mode is.
static bool as_near_to_wide(struct harness *h, const struct program *p, const struct trace *got,
                            const struct trace *want)
{
    struct trace wide;
    run_program(p, WAY_WIDE, h->cpu, 0, NULL, &wide);
    bool near = !wide.status && !got->status && wide.n == want->n && got->n == want->n;
    for (size_t i = 0; near && i < want->n; i++) {
        const struct entry *a = &got->entry[i], *e = &want->entry[i], *w = &wide.entry[i];
        double most = 0, far = 0;
        near = same_type(a, e, false) && same_type(w, e, true);
        for (int64_t k = 0; near && k < e->n; k++) {
            if (!same_number(w->v[k], e->v[k])) most = fmax(most, fabs(w->v[k] - e->v[k]));
            if (!same_number(w->v[k], a->v[k])) far = fmax(far, fabs(w->v[k] - a->v[k]));
            near = isfinite(a->v[k]) == isfinite(e->v[k]);
        }
        near &= is_floating(e->dtype) ? far <= 16 * most : far == most;
    }
    trace_free(&wide);
    return near;
}

// Whether halves that are kept unrounded everywhere give something else: a program may divide by what rounding made.
static bool rounding_decides(struct harness *h, const struct program *p, const struct references *r)
{
    struct trace wide;
    run_program(p, WAY_WIDE, h->cpu, 0, NULL, &wide);
    struct finding f = compare(&wide, r, WAY_WIDE, p);
    bool decides = !wide.status && f.found;
    trace_free(&wide);
    return decides;
}

static bool same_course(const struct trace *a, const struct trace *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++) same = same_type(&a->entry[i], &b->entry[i], false);
    return same;
}

// Whether rounding decides a condition, and `got` took the course that a noisy run took.
static bool goes_with_noise(const struct trace *got, const struct references *r)
{
    bool goes = false;
    for (int k = 0; !got->status && k < r->n_noisy && !goes; k++)
        goes = same_course(got, &r->noisy[k]) && !same_course(got, &r->want);
    return goes;
}

static struct finding check_way(struct harness *h, const struct program *p, enum way way, struct references *r)
{
    struct trace got;
    run_program(p, way, way == WAY_WIDE ? h->cpu : h->dev, 0, NULL, &got);
    struct finding f = compare(&got, r, way, p);
    if (f.found && r->n_noisy < NOISY_MOST) {
        add_noisy(h, p, r, NOISY_MORE);
        f = compare(&got, r, way, p);
    }
    if (f.found && goes_with_noise(&got, r)) f.found = false;
    if (f.found && way == WAY_WIDE && !got.status && within_noise_of_wide(h, p, &got, r)) f.found = false;
    bool halves = has_halves(p) || r->want.halves;
    if (f.found && is_second(p->gradient) && !halves && way != WAY_WIDE)
        f.found = !as_near_to_wide(h, p, &got, &r->want);
    if (f.found && halves && way != WAY_WIDE && !got.status) f.found = !rounding_decides(h, p, r);
    h->by_way[way]++;
    h->refused[way] += f.refused;
    trace_free(&got);
    return f;
}

struct finding check_program(struct harness *h, struct program *p)
{
    struct finding f = {.found = false};
    struct references r = {.n_noisy = 0};
    if (!settle(h, p)) return h->skipped++, f;
    run_program(p, WAY_EAGER, h->cpu, 0, NULL, &r.want);
    if (r.want.status) f = (struct finding){.found = true, .way = WAY_EAGER, .call = r.want.call};
    if (f.found) snprintf(f.what, sizeof f.what, "%s: %s", kiln_status_name(r.want.status), r.want.message);
    add_noisy(h, p, &r, NOISY_FIRST);
    for (int way = 0; way < WAYS && !f.found; way++)
        if (suits(h, p, (enum way)way)) f = check_way(h, p, (enum way)way, &r);
    h->programs++;
    h->by_gradient[p->gradient]++;
    trace_free(&r.want);
    for (int i = 0; i < r.n_noisy; i++) trace_free(&r.noisy[i]);
    return f;
}
