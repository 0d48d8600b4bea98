// Row kernels along the row: a row is read front to back, once a pass.
//
// A row is cut into chunks of a fixed length and those into blocks. Each block is folded by the generated code, blocks
// of a chunk one after the other, and chunks are joined in order; so the bits do not depend on the number of threads.
// Threads share out the rows, or, where there are few and long ones, the chunks of one row at a time.
//
// An operand of the kernel's class that is contiguous along the row is read where it lies. Others are gathered: the
// whole row once when it fits the cache and several passes read it, else block by block. One that is the same along the
// row is spread into a block once a row.
#include "cpu/kernels/row_job.h"
#include "cpu/kernels/stream.h"
#include <stdlib.h>

enum { BLOCK = 2048, CHUNK = 1 << 14, MOST_CHUNKS = 1024, WHOLE_ROW = 8192, LONG_RUN = 128, LEAST_STREAM_B = 1024 };

struct row_run { // one thread's
    const struct row_job *j;
    struct cpu_row_block b;
    char *memory[ROW_MAX_SIDES];
    bool as_is[ROW_MAX_SIDES], whole[ROW_MAX_SIDES], same[ROW_MAX_SIDES];
    bool runs; // blocks stay inside runs of the innermost dimension
    int64_t at_B[ROW_MAX_SIDES];
    char *keep; // n_keep arrays of `count` elements of 8 bytes
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static kiln_status start_run(struct row_run *t, const struct row_job *j, char *keep)
{
    *t = (struct row_run){.j = j, .b = {.count = j->count, .scalars = j->scalars}};
    int inner = j->n_par + j->n_red - 1;
    bool many = j->k->n_stages + !j->k->row_out > 1;
    t->runs = j->n_red == 1 || j->sizes[inner] >= LONG_RUN;
    int64_t length = j->count < BLOCK ? j->count : many && j->count <= WHOLE_ROW ? j->count : BLOCK;
    length = (length + 15) & ~(int64_t)15;
    char *memory = cpu_scratch(CPU_SCRATCH_BLOCKS, (size_t)(j->n_in + 1) * (size_t)length * 8 + 64);
    if (!memory) return error_pending;
    for (int i = 0; i <= j->n_in; i++) {
        t->memory[i] = memory + (size_t)i * (size_t)length * 8;
        t->same[i] = true;
        for (int d = j->n_par; d <= inner; d++) t->same[i] = t->same[i] && (j->strides[i][d] == 0 || j->sizes[d] == 1);
        t->as_is[i] =
            t->runs && j->side[i].native && j->strides[i][inner] == j->side[i].size_B && !(i < j->n_in && t->same[i]);
        t->whole[i] = many && !t->as_is[i] && !t->same[i] && j->count <= WHOLE_ROW;
        if (i < j->n_in && j->side[i].constant) CPU_FN(cpu_fill)
        (memory + (size_t)i * (size_t)length * 8, j->side[i].class_B, j->side[i].bits, smaller(j->count, BLOCK));
    }
    t->keep = keep;
    if (j->k->n_keep && !keep) {
        t->keep = cpu_scratch(CPU_SCRATCH_KEEP, (size_t)j->k->n_keep * (size_t)j->count * 8);
        if (!t->keep) return error_pending;
    }
    return KILN_OK;
}

// Positions [first, first + n) of operand i between memory and a dense block, run by run.
static void copy(const struct row_run *t, int i, char *block, int64_t first, int64_t n, bool store)
{
    const struct row_job *j = t->j;
    const struct cpu_side *s = &j->side[i];
    int inner = j->n_par + j->n_red - 1;
    while (n > 0) {
        int64_t run = smaller(j->sizes[inner] - first % j->sizes[inner], n);
        char *at = s->base + t->at_B[i] + row_position(j, i, first);
        if (store)
            cpu_side_scatter(s, block, at, run, j->strides[i][inner]);
        else
            cpu_side_gather(s, block, at, run, j->strides[i][inner]);
        block += run * s->class_B;
        first += run;
        n -= run;
    }
}

// Goes to a row: offsets, whole rows gathered, values that are the same along it spread.
static void enter_row(struct row_run *t, int64_t row)
{
    const struct row_job *j = t->j;
    memset(t->at_B, 0, sizeof t->at_B);
    row_offsets(j, 0, j->n_par, row, t->at_B);
    for (int i = 0; i < j->n_in; i++) {
        const struct cpu_side *s = &j->side[i];
        if (s->constant) {
            t->b.in[i] = t->memory[i];
        } else if (t->same[i]) {
            uint64_t bits = 0;
            cpu_side_gather(s, &bits, s->base + t->at_B[i], 1, s->size_B);
            CPU_FN(cpu_fill)(t->memory[i], s->class_B, bits, smaller(j->count, BLOCK));
            t->b.in[i] = t->memory[i];
        } else if (t->whole[i]) {
            copy(t, i, t->memory[i], 0, j->count, false);
        }
    }
}

// Of a result that is stored as it is.
static char *place_of(const struct row_run *t, int64_t position)
{
    const struct row_job *j = t->j;
    return j->side[j->n_in].base + t->at_B[j->n_in] + row_position(j, j->n_in, position);
}

// Calls the kernel for positions [first, end) of the row in one pass.
static void run_blocks(struct row_run *t, int pass, int64_t first, int64_t end)
{
    const struct row_job *j = t->j;
    int inner = j->n_par + j->n_red - 1;
    bool last = pass == j->k->n_stages;
    while (first < end) {
        int64_t n = smaller(end - first, BLOCK);
        if (t->runs && j->n_red > 1) n = smaller(n, j->sizes[inner] - first % j->sizes[inner]);
        for (int i = 0; i < j->n_in; i++) {
            const struct cpu_side *s = &j->side[i];
            if (t->same[i]) continue;
            if (t->as_is[i]) {
                t->b.in[i] = s->base + t->at_B[i] + row_position(j, i, first);
            } else if (t->whole[i]) {
                t->b.in[i] = t->memory[i] + first * s->class_B;
            } else {
                copy(t, i, t->memory[i], first, n, false);
                t->b.in[i] = t->memory[i];
            }
        }
        for (int i = 0; i < j->k->n_keep; i++)
            t->b.keep[i] = t->keep + (i * j->count * 8) + first * cpu_class_size_B[j->k->keep_cls[i]];
        t->b.n = n;
        t->b.first = first;
        if (last) t->b.out = t->as_is[j->n_in] && !j->streams ? place_of(t, first) : t->memory[j->n_in];
        j->k->fn.row(pass, &t->b);
        if (last && !t->as_is[j->n_in])
            copy(t, j->n_in, t->memory[j->n_in], first, n, true);
        else if (last && j->streams)
            stream(place_of(t, first), t->memory[j->n_in], n * j->side[j->n_in].size_B);
        first += n;
    }
}

static void start_pass(const struct cpu_kernel *k, int pass, struct cpu_acc *acc)
{
    for (int r = 0; r < k->n_reduce; r++)
        if (k->reduce[r].pass == pass) cpu_acc_start(&acc[r], &k->reduce[r]);
}

static void join_pass(const struct cpu_kernel *k, int pass, struct cpu_acc *acc, const struct cpu_acc *more)
{
    for (int r = 0; r < k->n_reduce; r++)
        if (k->reduce[r].pass == pass) cpu_acc_join(&acc[r], &more[r], &k->reduce[r]);
}

static void store_row_value(struct row_run *t)
{
    const struct row_job *j = t->j;
    const struct cpu_side *out = &j->side[j->n_in];
    char *to = out->base + t->at_B[j->n_in];
    uint64_t value = 0;
    t->b.out = out->native ? (void *)to : &value;
    j->k->fn.row(j->k->n_stages, &t->b);
    if (!out->native) cpu_side_scatter(out, &value, to, 1, out->size_B);
}

// Rows of one block each whose operands all lie as the kernel takes them, one stride from row to row: the common case,
// in which a short row would otherwise cost as much to enter as to fold.
static bool rows_are_plain(const struct row_run *t)
{
    const struct row_job *j = t->j;
    const struct cpu_side *out = &j->side[j->n_in];
    if (j->n_par != 1 || j->n_red != 1 || j->count == 0 || j->count > BLOCK || j->count > j->chunk) return false;
    for (int i = 0; i < j->n_in; i++)
        if (!t->as_is[i] && !j->side[i].constant) return false;
    return j->k->row_out ? out->native : t->as_is[j->n_in];
}

static void run_plain_rows(struct row_run *t, int64_t begin, int64_t end)
{
    const struct row_job *j = t->j;
    struct cpu_row_block *b = &t->b;
    struct cpu_acc fresh[CPU_MAX_REDUCE];
    char *at[ROW_MAX_SIDES];
    int64_t step_B[ROW_MAX_SIDES];
    for (int r = 0; r < j->k->n_reduce; r++) cpu_acc_start(&fresh[r], &j->k->reduce[r]);
    for (int i = 0; i < j->k->n_keep; i++) b->keep[i] = t->keep + i * j->count * 8;
    for (int i = 0; i <= j->n_in; i++) {
        bool constant = i < j->n_in && j->side[i].constant; // an immediate has no address
        step_B[i] = constant ? 0 : j->strides[i][0];
        at[i] = constant ? t->memory[i] : j->side[i].base + begin * step_B[i];
    }
    b->n = j->count;
    b->first = 0;
    for (int64_t row = begin; row < end; row++) {
        for (int i = 0; i < j->n_in; i++) {
            b->in[i] = at[i];
            at[i] += step_B[i];
        }
        b->out = j->streams ? t->memory[j->n_in] : at[j->n_in];
        memcpy(b->acc, fresh, (size_t)j->k->n_reduce * sizeof *fresh);
        for (int pass = 0; pass <= j->k->n_stages; pass++) j->k->fn.row(pass, b);
        if (j->streams) stream(at[j->n_in], b->out, j->count * j->side[j->n_in].size_B);
        at[j->n_in] += step_B[j->n_in];
    }
}

static kiln_status run_rows(void *user, int64_t begin, int64_t end)
{
    const struct row_job *j = user;
    struct row_run t;
    TRY(start_run(&t, j, NULL));
    bool plain = rows_are_plain(&t);
    if (plain) run_plain_rows(&t, begin, end);
    for (int64_t row = begin; row < end && !plain; row++) {
        enter_row(&t, row);
        for (int pass = 0; pass < j->k->n_stages; pass++) {
            start_pass(j->k, pass, t.b.acc);
            if (j->count <= j->chunk) {
                run_blocks(&t, pass, 0, j->count);
                continue;
            }
            struct cpu_acc total[CPU_MAX_REDUCE];
            start_pass(j->k, pass, total);
            for (int64_t c = 0; c < j->count; c += j->chunk) {
                start_pass(j->k, pass, t.b.acc);
                run_blocks(&t, pass, c, smaller(c + j->chunk, j->count));
                join_pass(j->k, pass, total, t.b.acc);
            }
            for (int r = 0; r < j->k->n_reduce; r++)
                if (j->k->reduce[r].pass == pass) t.b.acc[r] = total[r];
        }
        if (j->k->row_out)
            store_row_value(&t);
        else
            run_blocks(&t, j->k->n_stages, 0, j->count);
    }
    if (j->streams) stream_end();
    return KILN_OK;
}

// Few and long rows: the chunks of one pass of one row.
struct row_split {
    const struct row_job *j;
    int64_t row;
    int pass;
    char *keep;
    struct cpu_acc acc[CPU_MAX_REDUCE]; // of earlier passes
    struct cpu_acc *parts;              // CPU_MAX_REDUCE a chunk
};

static kiln_status run_chunks(void *user, int64_t begin, int64_t end)
{
    const struct row_split *s = user;
    const struct row_job *j = s->j;
    struct row_run t;
    TRY(start_run(&t, j, s->keep));
    enter_row(&t, s->row);
    for (int64_t c = begin; c < end; c++) {
        memcpy(t.b.acc, s->acc, sizeof t.b.acc);
        start_pass(j->k, s->pass, t.b.acc);
        run_blocks(&t, s->pass, c * j->chunk, smaller((c + 1) * j->chunk, j->count));
        memcpy(s->parts + c * CPU_MAX_REDUCE, t.b.acc, sizeof t.b.acc);
    }
    if (j->streams) stream_end();
    return KILN_OK;
}

static kiln_status split_rows(struct row_job *j)
{
    int64_t n_chunks = (j->count + j->chunk - 1) / j->chunk, cost = j->chunk * (1 + j->k->cost / 8);
    struct row_split s = {.j = j};
    struct row_run t;
    s.parts = cpu_scratch(CPU_SCRATCH_STATE, (size_t)n_chunks * CPU_MAX_REDUCE * sizeof *s.parts);
    if (!s.parts) return error_pending;
    if (j->k->n_keep) {
        s.keep = cpu_scratch(CPU_SCRATCH_KEEP, (size_t)j->k->n_keep * (size_t)j->count * 8);
        if (!s.keep) return error_pending;
    }
    for (s.row = 0; s.row < j->rows; s.row++) {
        for (s.pass = 0; s.pass < j->k->n_stages; s.pass++) {
            TRY(cpu_parallel(n_chunks, cost, run_chunks, &s));
            start_pass(j->k, s.pass, s.acc);
            for (int64_t c = 0; c < n_chunks; c++) join_pass(j->k, s.pass, s.acc, s.parts + c * CPU_MAX_REDUCE);
        }
        if (!j->k->row_out) {
            TRY(cpu_parallel(n_chunks, cost, run_chunks, &s));
            continue;
        }
        TRY(start_run(&t, j, s.keep));
        enter_row(&t, s.row);
        memcpy(t.b.acc, s.acc, sizeof t.b.acc);
        store_row_value(&t);
    }
    return KILN_OK;
}

kiln_status CPU_FN(cpu_row_form)(struct row_job *j)
{
    int64_t least = (j->count / MOST_CHUNKS / BLOCK + 1) * BLOCK;
    j->chunk = least > CHUNK ? least : CHUNK;
    if (j->rows < 2 * cpu_threads() && j->count >= 4 * j->chunk) return split_rows(j);
    return cpu_parallel(j->rows, j->count * (1 + j->k->cost / 8) + 32, run_rows, j);
}

// --- Preparation and choice of the form ---

// Appends dimension d of the launch, or merges it with the one before where all strides allow.
static void add_dim(struct row_job *j, const struct launch *l, int d, int *n, int first)
{
    if (l->sizes[d] == 1) return;
    bool merges = *n > first;
    for (int s = 0; s <= j->n_in && merges; s++) merges = j->strides[s][*n - 1] == j->side[s].strides[d] * l->sizes[d];
    if (merges)
        j->sizes[*n - 1] *= l->sizes[d];
    else
        j->sizes[(*n)++] = l->sizes[d];
    for (int s = 0; s <= j->n_in; s++) j->strides[s][*n - 1] = j->side[s].strides[d];
}

// A dimension of one element where there is none.
static void pad_dim(struct row_job *j, int *n, int first)
{
    if (*n > first) return;
    for (int s = 0; s <= j->n_in; s++) j->strides[s][*n] = j->side[s].size_B;
    j->sizes[(*n)++] = 1;
}

static void job_init(struct row_job *j, const struct cpu_kernel *k, const struct launch *l)
{
    j->k = k;
    j->scalars = l->scalars;
    j->n_in = k->n_in;
    j->n_par = j->n_red = 0;
    j->rows = j->count = 1;
    j->chunk = 0;
    j->streams = false;
    int n_par = l->rank - l->n_reduce, n = 0;
    for (int d = 0; d < l->rank; d++) *(d < n_par ? &j->rows : &j->count) *= l->sizes[d];
    if (j->rows == 0) return;
    struct launch empty;
    if (j->count == 0) { // nothing is read: the operands' values must not be looked at
        launch_copy(&empty, l);
        for (int i = 0; i < k->n_in; i++) empty.operands[i].flags |= OPERAND_IMMEDIATE;
        l = &empty;
    }
    for (int i = 0; i <= k->n_in; i++) cpu_side_init(&j->side[i], l, i, i < k->n_in ? k->in_cls[i] : k->out_cls);
    for (int d = 0; d < n_par; d++) add_dim(j, l, d, &n, 0);
    pad_dim(j, &n, 0);
    j->n_par = n;
    for (int d = n_par; d < l->rank; d++) add_dim(j, l, d, &n, j->n_par);
    pad_dim(j, &n, j->n_par);
    j->n_red = n - j->n_par;
}

// The parallel dimension whose rows lie side by side, or -1 for the row form. The first input that varies along the row
// and across rows decides: columns where its rows are not contiguous but their neighbours are, or where rows are so
// short that a vector is better filled with several.
enum { SHORT_ROW = 32, LEAST_COLUMNS = 8, LEAST_SHORT_ROWS = 16 };
static int find_columns(const struct row_job *j)
{
    int inner = j->n_par + j->n_red - 1, aside = -1;
    for (int i = 0; i < j->n_in; i++) {
        const struct cpu_side *s = &j->side[i];
        if (s->constant) continue;
        int best = -1;
        bool varies = false;
        for (int d = j->n_par; d <= inner; d++) varies = varies || j->strides[i][d] != 0;
        for (int d = 0; d < j->n_par; d++)
            if (j->strides[i][d] != 0 && (best < 0 || labs(j->strides[i][d]) < labs(j->strides[i][best]))) best = d;
        if (!varies && best >= 0 && aside < 0 && j->k->row_out && j->sizes[best] >= LEAST_SHORT_ROWS) aside = best;
        if (!varies || best < 0) continue;
        bool beside = j->strides[i][best] == s->size_B && j->sizes[best] >= LEAST_COLUMNS;
        if (beside && j->strides[i][inner] != s->size_B) return best;
        return j->count < SHORT_ROW && j->sizes[best] >= LEAST_SHORT_ROWS ? best : -1;
    }
    return aside;
}

kiln_status CPU_FN(cpu_row)(const struct cpu_kernel *k, const struct launch *l)
{
    struct row_job j;
    job_init(&j, k, l);
    if (j.rows == 0) return KILN_OK;
    j.streams = !k->row_out && j.count * j.side[j.n_in].size_B >= LEAST_STREAM_B && stream_pays(l, STREAM_QUARTERS);
    int columns = j.count > 1 ? find_columns(&j) : -1;
    return columns >= 0 ? CPU_FN(cpu_col_form)(&j, columns) : CPU_FN(cpu_row_form)(&j);
}
