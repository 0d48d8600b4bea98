// Rows as text and as JSON.
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct row *report_add(struct report *r, const char *name, const char *mode)
{
    if (r->n_rows == r->cap_rows) {
        int cap = r->cap_rows ? 2 * r->cap_rows : 32;
        struct row *rows = realloc(r->rows, (size_t)cap * sizeof *rows);
        if (!rows) return NULL;
        r->rows = rows;
        r->cap_rows = cap;
    }
    struct row *row = &r->rows[r->n_rows++];
    *row = (struct row){.time_ns = NAN,
                        .min_ns = NAN,
                        .p90_ns = NAN,
                        .most_ns = NAN,
                        .first_ns = NAN,
                        .launches = NAN,
                        .submits = NAN,
                        .waits = NAN,
                        .idle_waits = NAN,
                        .wasted_launches = NAN,
                        .kernels = NAN,
                        .moved_B = NAN,
                        .growth_B = NAN,
                        .slower = NAN,
                        .cpu_ns = NAN,
                        .driver_ns = NAN,
                        .ceiling_ns = NAN};
    snprintf(row->name, sizeof row->name, "%s", name);
    snprintf(row->mode, sizeof row->mode, "%s", mode);
    return row;
}

void report_free(struct report *r)
{
    free(r->rows);
    *r = (struct report){0};
}

double row_share(const struct row *r)
{
    return r->ceiling_ns / r->time_ns;
}

void write_row(const struct row *r, FILE *f)
{
    if (r->error[0]) {
        fprintf(f, "%-18s %-6s failed: %s\n", r->name, r->mode, r->error);
        return;
    }
    if (!isnan(r->growth_B)) {
        fprintf(f, "%-18s %-6s %12.2f MB more at most\n", r->name, r->mode, r->growth_B / 1e6);
        return;
    }
    fprintf(f, "%-18s %-6s %12.4f ms  min %12.4f  p90 %12.4f  %4d runs", r->name, r->mode, r->time_ns / 1e6,
            r->min_ns / 1e6, r->p90_ns / 1e6, r->runs);
    if (!isnan(r->most_ns)) fprintf(f, "  most %.4f ms", r->most_ns / 1e6);
    if (!isnan(r->launches)) fprintf(f, "  %6.0f launches", r->launches);
    if (r->wasted_launches > 0) fprintf(f, ", %.0f wasted, %.0f idle waits", r->wasted_launches, r->idle_waits);
    if (!isnan(r->cpu_ns))
        fprintf(f, "  %.0f ns/%s of the thread, %.1f submits, %.1f waits", r->cpu_ns,
                strcmp(r->mode, "jit") ? "op" : "launch", r->submits, r->waits);
    if (!isnan(r->driver_ns)) fprintf(f, "  of it the driver %.4f", r->driver_ns / 1e6);
    if (!isnan(row_share(r))) fprintf(f, "  %3.0f%% of %s", 100 * row_share(r), ceiling_name(r->ceiling));
    if (!isnan(r->slower)) fprintf(f, "  SLOWER than eager: %.2f times its time", r->slower);
    fputc('\n', f);
    for (int i = 0; r->has_extra && i < 6; i++) fprintf(f, "    %-24s %.0f\n", memory_keys[i], r->extra[i]);
}

// --- JSON

void write_json_string(const char *s, FILE *f)
{
    fputc('"', f);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < 0x20)
            fprintf(f, "\\u%04x", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}

static void write_number(const char *key, double v, FILE *f)
{
    fprintf(f, ", \"%s\": ", key);
    if (isfinite(v))
        fprintf(f, "%.12g", v);
    else
        fprintf(f, "null");
}

static void write_json_row(const struct row *r, FILE *f)
{
    fprintf(f, "  {\"name\": ");
    write_json_string(r->name, f);
    if (r->group) fprintf(f, ", \"group\": \"%s\"", r->group);
    fprintf(f, ", \"mode\": ");
    write_json_string(r->mode, f);
    if (r->error[0]) {
        fprintf(f, ", \"error\": ");
        write_json_string(r->error, f);
        fprintf(f, "}");
        return;
    }
    if (!isnan(r->growth_B)) write_number("growth_B", r->growth_B, f);
    write_number("time_ns", r->time_ns, f);
    write_number("min_ns", r->min_ns, f);
    write_number("p90_ns", r->p90_ns, f);
    if (!isnan(r->most_ns)) write_number("most_ns", r->most_ns, f);
    write_number("runs", r->runs, f);
    write_number("first_ns", r->first_ns, f);
    write_number("bytes", r->bytes, f);
    write_number("flops", r->flops, f);
    write_number("launches", r->launches, f);
    write_number("submits", r->submits, f);
    write_number("waits", r->waits, f);
    write_number("idle_waits", r->idle_waits, f);
    write_number("wasted_launches", r->wasted_launches, f);
    if (!isnan(r->kernels)) write_number("kernels", r->kernels, f);
    if (!isnan(r->moved_B)) write_number("moved_B", r->moved_B, f);
    if (!isnan(r->slower)) write_number("slower", r->slower, f);
    if (!isnan(r->cpu_ns)) write_number("cpu_ns", r->cpu_ns, f);
    if (!isnan(r->driver_ns)) write_number("driver_ns", r->driver_ns, f);
    fprintf(f, ", \"ceiling\": \"%s\"", ceiling_name(r->ceiling));
    write_number("ceiling_ns", r->ceiling_ns, f);
    write_number("share", row_share(r), f);
    for (int i = 0; r->has_extra && i < 6; i++) write_number(memory_keys[i], r->extra[i], f);
    fprintf(f, "}");
}

void write_json(const struct report *r, FILE *f)
{
    fprintf(f, "{\"framework\": \"kiln\", \"device\": ");
    write_json_string(r->device, f);
    fprintf(f, ", \"driver\": ");
    write_json_string(r->driver, f);
    fprintf(f, ", \"size\": \"%s\", \"threads\": %u,\n \"rows\": [\n", r->size, r->threads);
    for (int i = 0; i < r->n_rows; i++) {
        write_json_row(&r->rows[i], f);
        fprintf(f, "%s\n", i + 1 < r->n_rows ? "," : "");
    }
    fprintf(f, " ]}\n");
}
