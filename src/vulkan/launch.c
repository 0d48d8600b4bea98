// From a launch to commands: which form the kernel runs in, its argument block, its hazards, its dispatch.
#include "device/profile.h"
#include "ir/grid.h"
#include "ir/tile.h"
#include "scalar/scalar.h"
#include "vulkan/form.h"
#include "vulkan/vk.h"

#include <string.h>

#define MAX_WORDS             (2 * MAX_OPERANDS + MAX_RANK + MAX_OPERANDS * MAX_RANK + 2 * MAX_SCALARS + 3)
#define WIDE_POINTS           2048
#define OPERAND_BIT_IMMEDIATE 256u // as in shaders/args.glsl
#define OPERAND_BIT_SPLAT     512u
_Static_assert(DTYPE_COUNT <= 256, "a dtype has 8 bits of an operand's constant");

// Everything of a dispatch that the launch itself does not say.
struct plan {
    struct vk_form form;
    uint32_t splat; // bit i: operand i is constant along the innermost dimension
    uint32_t groups[3];
    uint32_t variant[4];
    uint64_t work;               // points, for the bound on a submission
    uint64_t scratch, scratch_B; // row kernels in phases
    uint32_t splits;
};

// --- recording ---

static uint32_t count_words(const struct launch *l, const struct plan *p)
{
    return 2u * l->n_operands + l->rank + (uint32_t)l->n_operands * l->rank + 2u * l->n_scalars +
           (p->form.phase ? 3u : 0u);
}

// An operand without elements, which drivers read all the same, ahead of the test that there is none.
static bool is_nothing(const struct launch_operand *o)
{
    return !(o->flags & OPERAND_IMMEDIATE) && o->range_lo_B == o->range_hi_B;
}

static uint32_t pack_words(const struct vk_device *vk, const struct launch *l, const struct plan *p, uint32_t *words)
{
    uint32_t n = 0;
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        uint64_t address = is_nothing(o) ? vk->owner->nothing : o->address;
        words[n++] = (uint32_t)address;
        words[n++] = (uint32_t)(address >> 32);
    }
    for (int d = 0; d < l->rank; d++) words[n++] = (uint32_t)l->sizes[d];
    for (int i = 0; i < l->n_operands; i++) {
        bool still = is_nothing(&l->operands[i]);
        for (int d = 0; d < l->rank; d++) words[n++] = still ? 0 : (uint32_t)l->operands[i].strides[d];
    }
    for (int i = 0; i < l->n_scalars; i++) {
        words[n++] = (uint32_t)l->scalars[i];
        words[n++] = (uint32_t)(l->scalars[i] >> 32);
    }
    if (p->form.phase) {
        words[n++] = (uint32_t)p->scratch;
        words[n++] = (uint32_t)(p->scratch >> 32);
        words[n++] = p->splits;
    }
    return n;
}

struct vk_lane *vk_lane_of(struct vk_device *vk, struct vk_recording *recording)
{
    return recording ? &recording->lane : &vk->lane;
}

void vk_order(struct vk_device *vk, struct vk_recording *recording)
{
    if (!recording) {
        vk_stream_barrier(vk);
        return;
    }
    vk_lane_barrier(vk, &recording->lane);
    recording->n_barriers++;
}

static void order_after_conflicts(struct vk_device *vk, struct vk_recording *recording, const struct launch *l,
                                  const struct plan *p)
{
    struct vk_hazards *h = &vk_lane_of(vk, recording)->hazards;
    bool conflict = p->scratch_B && vk_hazard_conflict(h, p->scratch, p->scratch + p->scratch_B, true);
    for (int i = 0; i < l->n_operands && !conflict; i++) {
        const struct launch_operand *o = &l->operands[i];
        if (o->flags & OPERAND_IMMEDIATE) continue;
        conflict = vk_hazard_conflict(h, o->address + (uint64_t)o->range_lo_B, o->address + (uint64_t)o->range_hi_B,
                                      o->flags & OPERAND_WRITE);
    }
    if (conflict) vk_order(vk, recording);
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        if (o->flags & OPERAND_IMMEDIATE) continue;
        vk_hazard_add(h, o->address + (uint64_t)o->range_lo_B, o->address + (uint64_t)o->range_hi_B,
                      o->flags & OPERAND_WRITE);
    }
    if (p->scratch_B) vk_hazard_add(h, p->scratch, p->scratch + p->scratch_B, true);
}

static struct vk_pipeline_key key_of(const struct launch *l, const struct plan *p)
{
    struct vk_pipeline_key key = {.shape = vk_form_pack(&p->form)};
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        uint32_t bits = o->dtype | (o->flags & OPERAND_IMMEDIATE ? OPERAND_BIT_IMMEDIATE : 0u) |
                        (p->splat >> i & 1 ? OPERAND_BIT_SPLAT : 0u);
        vk_key_operand_set(&key, i, bits);
    }
    key.variant[0] = p->variant[0] | (uint64_t)p->variant[1] << 32;
    key.variant[1] = p->variant[2] | (uint64_t)p->variant[3] << 32;
    return key;
}

static kiln_status push_address(struct vk_device *vk, const uint32_t *words, uint32_t n_words, uint32_t pushed[2])
{
    uint64_t at_B;
    TRY(vk_ring_take(vk, &vk->arguments, n_words * 4, &at_B));
    memcpy(vk->arguments.buffer.host + at_B, words, n_words * 4);
    uint64_t address = vk->arguments.buffer.address + at_B;
    pushed[0] = (uint32_t)address;
    pushed[1] = (uint32_t)(address >> 32);
    return KILN_OK;
}

// Arguments that are not pushed lie in memory of the recording.
static kiln_status prepare_recorded(struct vk_device *vk, struct vk_dispatch *d, bool indirect, uint32_t pushed[2])
{
    struct block *b = d->recording->arguments;
    if (!indirect) return KILN_OK;
    d->recording->arguments = NULL;
    TRY(vk_upload_locked(vk, b->address, d->words, d->n_words * 4));
    pushed[0] = (uint32_t)b->address;
    pushed[1] = (uint32_t)(b->address >> 32);
    d->words = pushed;
    d->n_words = 2;
    return KILN_OK;
}

kiln_status vk_prepare(struct vk_device *vk, struct vk_dispatch *d, bool indirect, uint32_t pushed[2])
{
    const uint32_t *words = d->words;
    uint32_t n_words = d->n_words;
    if (KILN_UNLIKELY(d->recording != NULL)) return prepare_recorded(vk, d, indirect, pushed);
    TRY(vk_stream_open(vk));
    if (indirect) {
        d->words = pushed;
        d->n_words = 2;
    }
    // What either takes may end the batch; both belong to the one in which the launch is.
    for (;;) {
        if (indirect) TRY(push_address(vk, words, n_words, pushed));
        uint64_t batch = vk_stream_last(vk);
        if (KILN_UNLIKELY(d->gate != NULL)) TRY(vk_gate_ready(vk, d->gate));
        if (KILN_LIKELY(vk_stream_last(vk) == batch)) return KILN_OK;
    }
}

static void dispatch_workgroups(struct vk_device *vk, const struct vk_dispatch *d)
{
    VkCommandBuffer commands = vk_lane_of(vk, d->recording)->commands;
    if (KILN_LIKELY(!d->gate)) {
        vk->fn.vkCmdDispatch(commands, d->groups[0], d->groups[1], d->groups[2]);
        return;
    }
    VkBuffer buffer;
    uint64_t at_B = vk_gate_slot(vk, d->gate, d->groups, &buffer);
    vk->fn.vkCmdDispatchIndirect(commands, buffer, at_B);
}

kiln_status vk_record(struct vk_device *vk, const struct vk_dispatch *d)
{
    struct vk_lane *lane = vk_lane_of(vk, d->recording);
    if (lane->bound != d->pipeline) {
        vk->fn.vkCmdBindPipeline(lane->commands, VK_PIPELINE_BIND_POINT_COMPUTE, d->pipeline);
        lane->bound = d->pipeline;
    }
    if (d->n_words)
        vk->fn.vkCmdPushConstants(lane->commands, vk->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, d->n_words * 4, d->words);
    if (KILN_UNLIKELY(d->recording != NULL)) {
        dispatch_workgroups(vk, d);
        d->recording->n++;
        d->recording->work += d->work;
        return KILN_OK;
    }
    bool timed = false;
    if (profile_on()) TRY(vk_profile_before(vk, "launch", &timed));
    dispatch_workgroups(vk, d);
    if (timed) vk_profile_after(vk);
    return vk_stream_recorded(vk, 1, d->work);
}

static kiln_status dispatch(struct vk_device *vk, const struct launch *l, struct plan *p)
{
    uint32_t words[MAX_WORDS], n_words = pack_words(vk, l, p, words);
    p->form.kernel = l->kernel;
    p->form.rank = l->rank;
    p->form.n_reduce = l->n_reduce;
    p->form.indirect = n_words > PUSH_WORDS;
    struct vk_pipeline_key key = key_of(l, p);
    struct vk_dispatch d = {.words = words,
                            .n_words = n_words,
                            .groups = {p->groups[0], p->groups[1], p->groups[2]},
                            .work = p->work,
                            .gate = l->gate,
                            .recording = vk_recording_of(l->record)};
    uint32_t pushed[2];
    TRY(vk_pipeline_get(vk, &key, &d.pipeline));
    TRY(vk_prepare(vk, &d, p->form.indirect, pushed));
    order_after_conflicts(vk, d.recording, l, p);
    return vk_record(vk, &d);
}

kiln_status vk_dispatch_group(struct vk_device *vk, const struct launch *l)
{
    struct plan p = {.groups = {1, 1, 1}, .work = 1};
    return dispatch(vk, l, &p);
}

static kiln_status dispatch_locked(struct vk_device *vk, const struct launch *l, struct plan *p)
{
    uint32_t n_words = count_words(l, p);
    TRY(vk_recording_reserve(vk, l->record, n_words > PUSH_WORDS, n_words));
    pthread_mutex_lock(&vk->lock);
    vk->op = l->op;
    vk->facts = l->facts;
    kiln_status status = dispatch(vk, l, p);
    vk->facts = NULL;
    pthread_mutex_unlock(&vk->lock);
    return status;
}

// --- tiles ---

// The tile that the launch asks for, as those do which measure it, else the one for such work.
static struct tile pick_tile(const struct vk_device *vk, const struct launch *l, const struct tile_work *w)
{
    if (KILN_UNLIKELY(l->variant[2] != 0)) return (struct tile){(uint16_t)l->variant[2], (uint16_t)l->variant[3]};
    return tile_choose(&vk->owner->caps, w);
}

// --- pointwise ---

// Whether all that lies in memory has two bytes an element.
static bool is_of_halves(const struct launch *l)
{
    bool any = false;
    for (int i = 0; i < l->n_operands; i++) {
        if (l->operands[i].flags & OPERAND_IMMEDIATE) continue;
        if (dtype_size_B[l->operands[i].dtype] != 2) return false;
        any = true;
    }
    return any;
}

// Whether n neighbours along the innermost dimension are one access for every operand; *splat gets those that stand
// still.
static bool can_widen(const struct launch *l, uint32_t n, uint32_t *splat)
{
    int inner = l->rank - 1;
    return inner >= 0 && (inner == 0 || l->sizes[inner] % n == 0) && vk_operands_widen(l, n, splat);
}

// A kernel of the catalogue that computes bools of bools computes four as a word.
static bool packs_bools(const struct launch *l)
{
    const struct kernel_info *info = kernel_info(l->kernel);
    if (info->cls != CLASS_BOOL || user_kernel(l->kernel)) return false;
    for (int i = 0; i < l->n_operands; i++)
        if (info->in_cls[i] != CLASS_BOOL || l->operands[i].dtype != KILN_BOOL) return false;
    return true;
}

// Short launches gain nothing from wide accesses, and one form less is one pipeline less to make; nor do processors
// from more than four.
static uint32_t neighbours(const struct vk_device *vk, const struct launch *l, uint64_t count, uint32_t *splat)
{
    if (count >= WIDE_POINTS) {
        if (packs_bools(l) && can_widen(l, 16, splat)) return 16;
        if (!grid_is_small(&vk->owner->caps) && is_of_halves(l) && can_widen(l, 8, splat)) return 8;
        if (can_widen(l, 4, splat)) return 4;
    }
    *splat = 0;
    return 1;
}

static kiln_status launch_pointwise(struct vk_device *vk, const struct launch *l, uint64_t count)
{
    struct plan p = {.work = count};
    p.form.wide = neighbours(vk, l, count, &p.splat);
    p.form.narrow = vk_operands_are_narrow(l);
    bool halves = p.form.wide == 8, fours = halves || (p.form.wide == 4 && dtype_size_B[l->operands[0].dtype] <= 4);
    struct tile_work w = {TILE_POINT, kernel_info(l->kernel)->cls, {count, halves ? 4 : p.form.wide, 1}};
    struct tile t = pick_tile(vk, l, &w);
    p.form.local = tile_local(TILE_POINT, t);
    p.form.each = !fours ? 1 : halves && t.run > 1 ? t.run / 2u : t.run;
    uint64_t points = (uint64_t)p.form.local * p.form.wide * p.form.each;
    uint64_t groups = ceil_div(count, points);
    grid_fold(groups, p.groups);
    // A folded grid may have workgroups that have no point.
    p.form.tail = count % points != 0 || (uint64_t)p.groups[0] * p.groups[1] != groups;
    return dispatch_locked(vk, l, &p);
}

// --- rows ---

static int64_t magnitude(int64_t v)
{
    return v < 0 ? -v : v;
}

// Rows that are dense in memory want their lanes side by side; where neighbouring rows are nearer than neighbours in
// a row, invocations side by side should be rows. The first input that moves along the row decides.
static bool lanes_adjacent(const struct launch *l)
{
    int along = l->rank - 1, across = l->rank - l->n_reduce - 1;
    if (across < 0 || along < 0) return true;
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        int64_t step = magnitude(o->strides[along]), next_row = magnitude(o->strides[across]);
        if (!(o->flags & OPERAND_IMMEDIATE) && step) return !(next_row && next_row < step);
    }
    return true;
}

// What a lane takes at a time, of about so many elements. What reads nothing is computed at length, and gains nothing
// from several.
static uint32_t row_neighbours(const struct vk_device *vk, const struct launch *l, uint64_t of, struct plan *p)
{
    int64_t inner = l->sizes[l->rank - 1];
    if (!p->form.wide || l->n_operands < 2) return 1;
    bool halves = of >= 8 && !grid_is_small(&vk->owner->caps) && is_of_halves(l);
    if (halves && inner % 8 == 0 && vk_operands_widen(l, 8, &p->splat)) return 8;
    return inner % 4 == 0 && vk_operands_widen(l, 4, &p->splat) ? 4 : 1;
}

static void plan_rows(const struct vk_device *vk, const struct launch *l, uint64_t n_rows, uint64_t length,
                      struct plan *p)
{
    p->form.wide = lanes_adjacent(l);
    struct tile_work w = {p->form.wide ? TILE_ROW : TILE_COLUMN, kernel_info(l->kernel)->cls, {n_rows, length, 1}};
    struct tile t = pick_tile(vk, l, &w);
    p->form.lanes = t.size;
    p->form.local = tile_local(w.kind, t);
    p->form.rows = p->form.local / p->form.lanes;
    p->form.narrow = vk_operands_are_narrow(l);
    p->form.each = row_neighbours(vk, l, length / p->form.lanes, p);
    if (p->form.each == 1) p->splat = 0;
}

// Until the launch that uses it; reuse is in stream order.
static kiln_status take_scratch(struct vk_device *vk, const struct launch *l, uint64_t size_B, struct block *out)
{
    struct block *kept;
    if (!l->record) return device_alloc(vk->owner, size_B, out);
    TRY(vk_recording_take(vk, vk_recording_of(l->record), size_B, &kept));
    *out = *kept;
    return KILN_OK;
}

static kiln_status launch_phases(struct vk_device *vk, const struct launch *l, const struct kernel_info *info,
                                 uint64_t n_rows, uint64_t groups, struct plan *p)
{
    struct block scratch;
    p->scratch_B = n_rows * p->splits * info->n_reductions * 16;
    if (p->scratch_B) TRY(take_scratch(vk, l, p->scratch_B, &scratch));
    p->scratch = p->scratch_B ? scratch.address : 0;
    grid_fold(groups * p->splits, p->groups);
    kiln_status status = KILN_OK;
    for (uint32_t phase = 1; phase <= info->n_stages + 1u && !status; phase++) {
        p->form.phase = phase;
        status = dispatch_locked(vk, l, p);
    }
    if (p->scratch_B && !l->record) device_release(vk->owner, &scratch);
    return status;
}

static kiln_status launch_rows(struct vk_device *vk, const struct launch *l, uint64_t n_rows, uint64_t length)
{
    const struct kernel_info *info = kernel_info(l->kernel);
    if (length >= UINT64_C(1) << 31) {
        return error_set(KILN_E_UNSUPPORTED, "%s: %s reduces at most 2147483647 elements at a time, not %llu", l->op,
                         vk->owner->name, (unsigned long long)length);
    }
    struct plan p = {.work = n_rows * length};
    plan_rows(vk, l, n_rows, length, &p);
    uint64_t groups = ceil_div(n_rows, p.form.rows);
    struct grid_rows rows = {
        .groups = groups, .length = length, .lanes = p.form.lanes, .local = p.form.local, .columns = !p.form.wide};
    p.splits = grid_splits(&vk->owner->caps, &rows);
    if (p.splits > 1) return launch_phases(vk, l, info, n_rows, groups, &p);
    grid_fold(groups, p.groups);
    return dispatch_locked(vk, l, &p);
}

// --- hand-written kernels ---

// A kernel that leaves the tile to the device computes squares of VARIANT_2 elements, and is told by
// VARIANT_0 how its operands lie, by VARIANT_1 how many steps are one run of instructions, by
// VARIANT_3 whether no square has an edge inside. One that multiplies matrices is told their side by VARIANT_1, and by
// VARIANT_3, from bit 1 on, how many invocations a subgroup has.
static void plan_product(const struct vk_device *vk, const struct launch *l, struct plan *p)
{
    const struct kernel_info *info = kernel_info(l->kernel);
    struct tile_work w = {.kind = TILE_PRODUCT, .cls = info->cls};
    w.sizes[0] = (uint64_t)l->extent[1], w.sizes[1] = (uint64_t)l->extent[0], w.sizes[2] = (uint64_t)l->extent[2];
    struct tile t = pick_tile(vk, l, &w);
    p->variant[2] = t.size;
    p->variant[3] = vk_product_is_even(l, t.size, info->matrices ? 32 : 16);
    p->variant[0] = vk_product_operands(l);
    p->variant[1] = t.run;
    p->form.local = tile_local(TILE_PRODUCT, t);
    if (!info->matrices) return;
    p->variant[1] = caps_matrix_side(&vk->owner->caps, l->operands[0].dtype);
    p->variant[3] |= vk->owner->caps.subgroup_size << 1;
}

static kiln_status launch_custom(struct vk_device *vk, const struct launch *l, uint64_t count)
{
    const struct kernel_info *info = kernel_info(l->kernel);
    const uint32_t *most = vk->physical.properties.limits.maxComputeWorkGroupCount;
    struct plan p = {.work = count};
    memcpy(p.variant, l->variant, sizeof p.variant);
    uint64_t tile[3] = {info->tile[0], info->tile[1], info->tile[2]}, groups[3];
    if (info->picks_tile) {
        plan_product(vk, l, &p);
        tile[0] = tile[1] = p.variant[2];
    }
    p.form.narrow = info->narrow && vk_ranges_are_narrow(l);
    if (info->by_rows) {
        p.form.local = p.variant[2];
        // Not on processors, which go both ways where fours may be had or not.
        p.variant[3] = grid_is_small(&vk->owner->caps) ? 0 : vk_operands_fours(l);
    }
    for (int i = 0; i < 3; i++) {
        if (l->extent[i] <= 0) return KILN_OK;
        groups[i] = ceil_div((uint64_t)l->extent[i], tile[i] ? tile[i] : 1);
        p.groups[i] = (uint32_t)groups[i];
    }
    if (groups[1] == 1 && groups[2] == 1 && groups[0] < UINT64_C(1) << 32) {
        grid_fold(groups[0], p.groups);
    } else {
        if (groups[2] > most[2]) p.groups[2] = most[2]; // the shader walks z with a step of gl_NumWorkGroups.z
        if (groups[0] > most[0] || groups[1] > most[1]) {
            return error_set(KILN_E_UNSUPPORTED, "%s: %s: a grid of %llu x %llu workgroups is too large", l->op,
                             vk->owner->name, (unsigned long long)groups[0], (unsigned long long)groups[1]);
        }
    }
    return dispatch_locked(vk, l, &p);
}

// --- sizes beyond 32 bits ---

static bool fits_32(int64_t v)
{
    return v == (int32_t)v;
}

// The dimension along which a launch has to be cut, -1 when none: one whose stride needs more than 32 bits, else,
// when there are too many points, the longest. *piece gets how much of it to take at a time.
static int dimension_to_cut(const struct vk_device *vk, const struct launch *l, int n_dims, uint64_t points,
                            int64_t *piece)
{
    int longest = 0;
    for (int d = 0; d < n_dims; d++) {
        if (l->sizes[d] > l->sizes[longest]) longest = d;
        for (int i = 0; i < l->n_operands; i++) {
            *piece = 1;
            if (l->sizes[d] > 1 && !fits_32(l->operands[i].strides[d])) return d;
        }
    }
    if (points < vk->max_points || n_dims == 0) return -1;
    *piece = (int64_t)ceil_div((uint64_t)l->sizes[longest], ceil_div(points, vk->max_points / 2));
    *piece -= *piece > 16 ? *piece % 16 : 0; // keeps neighbours in one piece
    return longest;
}

static kiln_status launch_any(struct vk_device *vk, const struct launch *l);

static kiln_status launch_in_pieces(struct vk_device *vk, const struct launch *l, int d, int64_t piece)
{
    struct launch part = *l;
    for (int64_t from = 0; from < l->sizes[d]; from += piece) {
        part.sizes[d] = l->sizes[d] - from < piece ? l->sizes[d] - from : piece;
        for (int i = 0; i < l->n_operands; i++) {
            const struct launch_operand *o = &l->operands[i];
            if (o->flags & OPERAND_IMMEDIATE) continue;
            uint64_t shift_B = (uint64_t)from * (uint64_t)o->strides[d] * dtype_size_B[o->dtype];
            part.operands[i].address = o->address + shift_B;
            part.operands[i].range_lo_B = o->range_lo_B - (int64_t)shift_B; // the whole launch's range
            part.operands[i].range_hi_B = o->range_hi_B - (int64_t)shift_B;
            if (piece == 1) part.operands[i].strides[d] = 0;
        }
        TRY(launch_any(vk, &part));
    }
    return KILN_OK;
}

// --- entries ---

static kiln_status launch_any(struct vk_device *vk, const struct launch *l)
{
    uint8_t kind = kernel_info(l->kernel)->kind;
    int n_outer = kind == KERNEL_ROW ? l->rank - l->n_reduce : l->rank;
    uint64_t outer = 1, inner = 1;
    bool narrow = true;
    for (int d = 0; d < l->rank; d++) {
        if (d < n_outer)
            outer *= (uint64_t)l->sizes[d];
        else
            inner *= (uint64_t)l->sizes[d];
        for (int i = 0; i < l->n_operands; i++) narrow = narrow && fits_32(l->operands[i].strides[d]);
    }
    if (outer == 0 || (inner == 0 && !kernel_info(l->kernel)->row_out)) return KILN_OK;
    if (kind == KERNEL_CUSTOM) {
        if (narrow) return launch_custom(vk, l, outer);
        return error_set(KILN_E_UNSUPPORTED, "%s: %s: a stride does not fit 32 bits", l->op, vk->owner->name);
    }
    if (KILN_UNLIKELY(!narrow || outer >= vk->max_points)) {
        int64_t piece;
        int d = dimension_to_cut(vk, l, n_outer, outer, &piece);
        if (d >= 0) return launch_in_pieces(vk, l, d, piece);
        for (int r = n_outer; r < l->rank; r++) {
            for (int i = 0; i < l->n_operands; i++) {
                if (l->sizes[r] > 1 && !fits_32(l->operands[i].strides[r])) {
                    return error_set(KILN_E_UNSUPPORTED, "%s: %s: a stride along the row does not fit 32 bits", l->op,
                                     vk->owner->name);
                }
            }
        }
    }
    return kind == KERNEL_ROW ? launch_rows(vk, l, outer, inner) : launch_pointwise(vk, l, outer);
}

bool vk_supports(kiln_device *dev, const struct launch *l)
{
    const struct vk_device *vk = dev->impl;
    uint8_t flags = vk->kernel_flags[l->kernel];
    if (!(flags & VK_KERNEL_HERE)) return false;
    if (flags & VK_KERNEL_F64) return true;
    for (int i = 0; i < l->n_operands; i++) {
        if (l->operands[i].dtype == KILN_F64 && !(l->operands[i].flags & OPERAND_IMMEDIATE)) return false;
    }
    return true;
}

kiln_status vk_launch(kiln_device *dev, const struct launch *l)
{
    return launch_any(dev->impl, l);
}
