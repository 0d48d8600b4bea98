// Row kernels across rows that lie side by side: a tile of up to 256 rows ("columns") is folded at once, position by
// position, each column with its own accumulator in an array; loops over the columns vectorise.
//
// Blocks are 64 positions: sums of f32 gather a block in f32 and then move to f64, so that long columns stay accurate.
// As in the row form positions are cut into chunks of a fixed length which are joined in order. Tiles are independent;
// where they are few and columns long, threads share out the chunks of one tile at a time.
#include "cpu/kernels/row_job.h"

enum { MOST_COLUMNS = 256, FEW_COLUMNS = 64, LONG_PIECE = 1024, BLOCK = 64, CHUNK = 1024, MOST_CHUNKS = 256 };
enum { CACHED = 1 << 20 }; // elements of a tile that several passes read: what half a level-2 cache holds

struct col_state {                // accumulators of one tile
    char *acc[CPU_MAX_REDUCE];    // class of the argument
    double *wide[CPU_MAX_REDUCE]; // sums and products of f32
    int64_t *index[CPU_MAX_REDUCE];
};

struct cols { // the job, seen by columns
    const struct row_job *j;
    int dim;              // the columns' dimension
    int64_t width, tiles; // columns a tile; tiles along `dim`
    int64_t outer;        // rows apart from it
};

struct col_run { // one thread's
    const struct cols *c;
    struct cpu_col_block b;
    char *memory[ROW_MAX_SIDES];
    char *rowval;
    char *keep;
    bool as_is[ROW_MAX_SIDES];
    bool loaded; // the whole tile is in memory: one block holds it
    int64_t at_B[ROW_MAX_SIDES];
    int64_t m;
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t state_size_B(const struct cols *c)
{
    return (size_t)c->j->k->n_reduce * (size_t)c->width * 24;
}

static void state_place(struct col_state *s, const struct cols *c, char *memory)
{
    size_t array_B = (size_t)c->width * 8;
    for (int r = 0; r < c->j->k->n_reduce; r++) {
        s->acc[r] = memory + (size_t)r * 3 * array_B;
        s->wide[r] = (double *)(void *)(s->acc[r] + array_B);
        s->index[r] = (int64_t *)(void *)(s->acc[r] + 2 * array_B);
    }
}

static void state_start(const struct col_state *s, const struct cpu_kernel *k, int pass, int64_t m)
{
    for (int r = 0; r < k->n_reduce; r++) {
        const struct cpu_reduce *red = &k->reduce[r];
        if (red->pass != pass) continue;
        CPU_FN(cpu_fill)(s->acc[r], cpu_class_size_B[red->cls], reduce_identity(red->reduce, red->cls).bits, m);
        if (cpu_reduce_is_wide(red))
            for (int64_t i = 0; i < m; i++) s->wide[r][i] = red->reduce == REDUCE_PROD ? 1 : 0;
        if (cpu_reduce_is_arg(red))
            for (int64_t i = 0; i < m; i++) s->index[r][i] = -1;
    }
}

// After a block: what f32 has gathered moves to f64.
static void state_flush(const struct col_state *s, const struct cpu_kernel *k, int pass, int64_t m)
{
    for (int r = 0; r < k->n_reduce; r++) {
        if (k->reduce[r].pass != pass || !cpu_reduce_is_wide(&k->reduce[r])) continue;
        float *acc = (float *)(void *)s->acc[r];
        double *wide = s->wide[r];
        if (k->reduce[r].reduce == REDUCE_SUM) {
#pragma omp simd
            for (int64_t i = 0; i < m; i++) wide[i] += (double)acc[i], acc[i] = 0;
        } else {
#pragma omp simd
            for (int64_t i = 0; i < m; i++) wide[i] *= (double)acc[i], acc[i] = 1;
        }
    }
}

// One column's accumulator in the form that single accumulators have.
static struct cpu_acc state_get(const struct col_state *s, const struct cpu_reduce *red, int r, int64_t i)
{
    struct cpu_acc a = {.v = {.bits = 0}, .index = cpu_reduce_is_arg(red) ? s->index[r][i] : -1};
    if (cpu_reduce_is_wide(red))
        a.v.f64 = s->wide[r][i];
    else
        memcpy(&a.v, s->acc[r] + i * cpu_class_size_B[red->cls], cpu_class_size_B[red->cls]);
    return a;
}

static void state_join(const struct col_state *s, const struct col_state *more, const struct cpu_kernel *k, int pass,
                       int64_t m)
{
    for (int r = 0; r < k->n_reduce; r++) {
        const struct cpu_reduce *red = &k->reduce[r];
        if (red->pass != pass) continue;
        for (int64_t i = 0; i < m; i++) {
            struct cpu_acc a = state_get(s, red, r, i), b = state_get(more, red, r, i);
            cpu_acc_join(&a, &b, red);
            if (cpu_reduce_is_wide(red))
                s->wide[r][i] = a.v.f64;
            else
                memcpy(s->acc[r] + i * cpu_class_size_B[red->cls], &a.v, cpu_class_size_B[red->cls]);
            if (cpu_reduce_is_arg(red)) s->index[r][i] = a.index;
        }
    }
}

static void state_finish(const struct col_state *s, const struct cpu_kernel *k, int pass, int64_t m)
{
    for (int r = 0; r < k->n_reduce; r++) {
        if (k->reduce[r].pass != pass || !cpu_reduce_is_wide(&k->reduce[r])) continue;
        float *acc = (float *)(void *)s->acc[r];
        for (int64_t i = 0; i < m; i++) acc[i] = (float)s->wide[r][i];
    }
}

static void use_state(struct col_run *t, const struct col_state *s)
{
    for (int r = 0; r < t->c->j->k->n_reduce; r++) {
        t->b.acc[r] = s->acc[r];
        t->b.index[r] = s->index[r];
    }
}

static size_t keep_size_B(const struct cols *c)
{
    return (size_t)c->j->k->n_keep * (size_t)c->j->count * (size_t)c->width * 8;
}

static kiln_status start_run(struct col_run *t, const struct cols *c, char *keep)
{
    const struct row_job *j = c->j;
    *t = (struct col_run){.c = c, .b = {.count = j->count, .scalars = j->scalars, .keep_ld = c->width}};
    size_t tile_B = (size_t)c->width * BLOCK * 8, rowval_B = (size_t)c->width * 8 * CPU_MAX_ROWVAL;
    char *memory = cpu_scratch(CPU_SCRATCH_BLOCKS, (size_t)(j->n_in + 1) * tile_B + rowval_B);
    if (!memory) return error_pending;
    for (int i = 0; i <= j->n_in; i++) {
        t->memory[i] = memory + (size_t)i * tile_B;
        t->as_is[i] =
            j->side[i].native && j->strides[i][c->dim] == j->side[i].size_B && !(i < j->n_in && j->side[i].constant);
        if (i < j->n_in && j->side[i].constant)
            CPU_FN(cpu_fill)(t->memory[i], j->side[i].class_B, j->side[i].bits, c->width);
    }
    for (int v = 0; v < CPU_MAX_ROWVAL; v++)
        t->b.rowval[v] = memory + (size_t)(j->n_in + 1) * tile_B + (size_t)v * (size_t)c->width * 8;
    t->keep = keep;
    if (j->k->n_keep && !keep) {
        t->keep = cpu_scratch(CPU_SCRATCH_KEEP, keep_size_B(c));
        if (!t->keep) return error_pending;
    }
    return KILN_OK;
}

// Goes to tile u: units count tiles fastest, then the other parallel dimensions.
static void enter_tile(struct col_run *t, int64_t u)
{
    const struct cols *c = t->c;
    const struct row_job *j = c->j;
    int64_t first = u % c->tiles * c->width, rest = u / c->tiles;
    t->m = smaller(c->width, j->sizes[c->dim] - first);
    t->b.m = t->m;
    t->loaded = false;
    for (int i = 0; i <= j->n_in; i++) t->at_B[i] = first * j->strides[i][c->dim];
    for (int d = j->n_par - 1; d >= 0; d--) {
        if (d == c->dim) continue;
        for (int i = 0; i <= j->n_in; i++) t->at_B[i] += rest % j->sizes[d] * j->strides[i][d];
        rest /= j->sizes[d];
    }
}

// Inputs of positions [first, first + n), which lie in one run of the innermost dimension.
static void load_block(struct col_run *t, int64_t first, int64_t n)
{
    const struct row_job *j = t->c->j;
    int inner = j->n_par + j->n_red - 1, dim = t->c->dim;
    for (int i = 0; i < j->n_in; i++) {
        const struct cpu_side *s = &j->side[i];
        const char *at = s->constant ? s->base : s->base + t->at_B[i] + row_position(j, i, first);
        t->b.in_ld[i] = s->constant ? 0 : t->as_is[i] ? j->strides[i][inner] / s->size_B : t->c->width;
        t->b.in[i] = t->as_is[i] ? at : t->memory[i];
        if (s->constant || t->as_is[i] || t->loaded) continue;
        CPU_FN(cpu_load_tile)
        (t->memory[i], t->c->width, s->cls, at, s->dtype, n, t->m, j->strides[i][inner] / s->size_B,
         j->strides[i][dim] / s->size_B);
    }
    t->loaded = n == j->count;
}

// Positions [first, end) in one pass; s has the pass's accumulators.
static void run_blocks(struct col_run *t, int pass, int64_t first, int64_t end, const struct col_state *s)
{
    const struct row_job *j = t->c->j;
    const struct cpu_side *out = &j->side[j->n_in];
    int inner = j->n_par + j->n_red - 1;
    bool last = pass == j->k->n_stages;
    while (first < end) {
        int64_t n = smaller(smaller(end - first, BLOCK), j->sizes[inner] - first % j->sizes[inner]);
        load_block(t, first, n);
        t->b.n = n;
        t->b.first = first;
        for (int i = 0; i < j->k->n_keep; i++)
            t->b.keep[i] =
                t->keep + i * j->count * t->c->width * 8 + first * t->c->width * cpu_class_size_B[j->k->keep_cls[i]];
        char *to = last ? out->base + t->at_B[j->n_in] + row_position(j, j->n_in, first) : NULL;
        t->b.out = t->as_is[j->n_in] ? to : t->memory[j->n_in];
        t->b.out_ld = t->as_is[j->n_in] ? j->strides[j->n_in][inner] / out->size_B : t->c->width;
        j->k->fn.col(2 * pass + 1, &t->b);
        if (!last) {
            state_flush(s, j->k, pass, t->m);
        } else if (!t->as_is[j->n_in]) {
            CPU_FN(cpu_store_tile)
            (to, out->dtype, j->strides[j->n_in][inner] / out->size_B, j->strides[j->n_in][t->c->dim] / out->size_B,
             t->memory[j->n_in], t->c->width, out->cls, n, t->m);
        }
        first += n;
    }
}

// The output of row values: one a column.
static void store_row_values(struct col_run *t)
{
    const struct row_job *j = t->c->j;
    const struct cpu_side *out = &j->side[j->n_in];
    char *to = out->base + t->at_B[j->n_in];
    t->b.out = t->as_is[j->n_in] ? to : t->memory[j->n_in];
    j->k->fn.col(2 * j->k->n_stages, &t->b);
    if (!t->as_is[j->n_in]) cpu_side_scatter(out, t->memory[j->n_in], to, t->m, j->strides[j->n_in][t->c->dim]);
}

static kiln_status run_tiles(void *user, int64_t begin, int64_t end)
{
    const struct cols *c = user;
    const struct row_job *j = c->j;
    struct col_run t;
    struct col_state total, part;
    TRY(start_run(&t, c, NULL));
    char *memory = cpu_scratch(CPU_SCRATCH_STATE, 2 * state_size_B(c));
    if (!memory) return error_pending;
    state_place(&total, c, memory);
    state_place(&part, c, memory + state_size_B(c));
    for (int64_t u = begin; u < end; u++) {
        enter_tile(&t, u);
        use_state(&t, &total);
        for (int pass = 0; pass < j->k->n_stages; pass++) {
            state_start(&total, j->k, pass, t.m);
            j->k->fn.col(2 * pass, &t.b);
            for (int64_t p = 0; p < j->count; p += j->chunk) {
                bool only = j->count <= j->chunk;
                const struct col_state *s = only ? &total : &part;
                if (!only) {
                    state_start(&part, j->k, pass, t.m);
                    for (int r = 0; r < j->k->n_reduce; r++) {
                        if (j->k->reduce[r].pass != pass) continue;
                        t.b.acc[r] = part.acc[r];
                        t.b.index[r] = part.index[r];
                    }
                }
                run_blocks(&t, pass, p, smaller(p + j->chunk, j->count), s);
                if (!only) state_join(&total, &part, j->k, pass, t.m);
            }
            state_finish(&total, j->k, pass, t.m);
            use_state(&t, &total);
        }
        if (j->k->row_out) {
            store_row_values(&t);
        } else {
            j->k->fn.col(2 * j->k->n_stages, &t.b);
            run_blocks(&t, j->k->n_stages, 0, j->count, &total);
        }
    }
    return KILN_OK;
}

// Few tiles of long columns: the chunks of one pass of one tile.
struct col_split {
    const struct cols *c;
    int64_t unit;
    int pass;
    char *keep, *parts;
    struct col_state total;
};

static kiln_status run_chunks(void *user, int64_t begin, int64_t end)
{
    const struct col_split *s = user;
    const struct row_job *j = s->c->j;
    struct col_run t;
    TRY(start_run(&t, s->c, s->keep));
    enter_tile(&t, s->unit);
    use_state(&t, &s->total);
    j->k->fn.col(2 * s->pass, &t.b);
    for (int64_t p = begin; p < end; p++) {
        struct col_state part;
        state_place(&part, s->c, s->parts + (size_t)p * state_size_B(s->c));
        state_start(&part, j->k, s->pass, t.m);
        for (int r = 0; r < j->k->n_reduce; r++) {
            if (j->k->reduce[r].pass != s->pass) continue;
            t.b.acc[r] = part.acc[r];
            t.b.index[r] = part.index[r];
        }
        run_blocks(&t, s->pass, p * j->chunk, smaller((p + 1) * j->chunk, j->count), &part);
    }
    return KILN_OK;
}

static kiln_status split_tiles(struct cols *c)
{
    const struct row_job *j = c->j;
    int64_t n_chunks = (j->count + j->chunk - 1) / j->chunk, cost = j->chunk * c->width * (1 + j->k->cost / 8);
    struct col_split s = {.c = c};
    char *memory = cpu_scratch(CPU_SCRATCH_STATE, (size_t)(n_chunks + 1) * state_size_B(c));
    if (!memory) return error_pending;
    state_place(&s.total, c, memory);
    s.parts = memory + state_size_B(c);
    if (j->k->n_keep) {
        s.keep = cpu_scratch(CPU_SCRATCH_KEEP, keep_size_B(c));
        if (!s.keep) return error_pending;
    }
    for (s.unit = 0; s.unit < c->outer * c->tiles; s.unit++) {
        struct col_run t;
        for (s.pass = 0; s.pass < j->k->n_stages; s.pass++) {
            TRY(cpu_parallel(n_chunks, cost, run_chunks, &s));
            TRY(start_run(&t, c, s.keep));
            enter_tile(&t, s.unit);
            state_start(&s.total, j->k, s.pass, t.m);
            for (int64_t p = 0; p < n_chunks; p++) {
                struct col_state part;
                state_place(&part, c, s.parts + (size_t)p * state_size_B(c));
                state_join(&s.total, &part, j->k, s.pass, t.m);
            }
            state_finish(&s.total, j->k, s.pass, t.m);
        }
        if (j->k->row_out) {
            use_state(&t, &s.total);
            store_row_values(&t);
        } else {
            TRY(cpu_parallel(n_chunks, cost, run_chunks, &s));
        }
    }
    return KILN_OK;
}

// Whether there are enough long pieces for all threads to end together.
static bool many_pieces(const struct cols *c)
{
#ifdef __AVX512F__ // measured only without
    return false;
#else
    int64_t pieces = c->outer * ((c->j->sizes[c->dim] + LONG_PIECE - 1) / LONG_PIECE);
    return pieces >= 8 * (int64_t)cpu_threads();
#endif
}

// Whether the columns are read once, where they lie, and threads have long pieces to share out, or the chunks of one:
// then memory is best read so.
static bool streams(const struct cols *c)
{
    const struct row_job *j = c->j;
    if (j->k->n_stages != 1 || !j->k->row_out || (j->count < 2 * j->chunk && !many_pieces(c))) return false;
    for (int i = 0; i < j->n_in; i++)
        if (!j->side[i].native || j->side[i].constant || j->strides[i][c->dim] != j->side[i].size_B) return false;
    return true;
}

kiln_status CPU_FN(cpu_col_form)(struct row_job *j, int col_dim)
{
    struct cols c = {.j = j, .dim = col_dim, .width = MOST_COLUMNS, .outer = j->rows / j->sizes[col_dim]};
    int64_t least = (j->count / MOST_CHUNKS / BLOCK + 1) * BLOCK, threads = cpu_threads();
    j->chunk = least > CHUNK ? least : CHUNK;
    bool passes = j->k->n_stages + !j->k->row_out > 1;
    if (passes && j->count > CACHED / MOST_COLUMNS) c.width = CACHED / j->count & ~(int64_t)15;
    // Width does not change results: enough tiles for all threads, but not so narrow that memory is read in crumbs.
    if (c.width > FEW_COLUMNS && c.outer * ((j->sizes[col_dim] + c.width - 1) / c.width) < 2 * threads)
        c.width = FEW_COLUMNS;
    if (streams(&c)) c.width = LONG_PIECE;
    if (c.width < 16) c.width = 16;
    if (c.width > j->sizes[col_dim]) c.width = (j->sizes[col_dim] + 15) & ~(int64_t)15;
    c.tiles = (j->sizes[col_dim] + c.width - 1) / c.width;
    if (threads > 1 && c.outer * c.tiles < threads && j->count >= 2 * j->chunk) return split_tiles(&c);
    return cpu_parallel(c.outer * c.tiles, j->count * c.width * (1 + j->k->cost / 8), run_tiles, &c);
}
