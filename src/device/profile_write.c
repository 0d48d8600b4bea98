// The file of a profile: a JSON object whose "traceEvents" are spans ("ph": "X") with times in microseconds, counters
// ("ph": "C"), and one metadata event ("ph": "M") for the name of each track.
#include "base/caller.h"
#include "base/where.h"
#include "device/profile_state.h"
#include <inttypes.h>
#include <string.h>

static void write_quoted(FILE *f, const char *s, size_t n)
{
    fputc('"', f);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20)
            fprintf(f, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}

static void write_text(FILE *f, const char *s)
{
    write_quoted(f, s, strlen(s));
}

// "f32[2,3] f32[3]" as a list.
static void write_types(FILE *f, const char *key, const char *types)
{
    if (!*types) return;
    fprintf(f, ", \"%s\": [", key);
    for (bool first = true; *types; first = false) {
        size_t n = strcspn(types, " ");
        if (!first) fputs(", ", f);
        write_quoted(f, types, n);
        types += n + (types[n] == ' ');
    }
    fputc(']', f);
}

// Appends a text, unless the list has it. What does not fit is left out.
static void add_once(char *list, const char *text, const char *between)
{
    size_t n = strlen(list), m = strlen(text), b = strlen(between);
    for (const char *at = strstr(list, text); m && at; at = strstr(at + 1, text)) {
        bool begins = at == list || (at >= list + b && !memcmp(at - b, between, b));
        if (begins && (!at[m] || !strncmp(at + m, between, b))) return;
    }
    if (!m || n + b + m + 1 > PROFILE_LINES_B) return;
    snprintf(list + n, PROFILE_LINES_B - n, "%s%s", n ? between : "", text);
}

void label_places(const struct label *l, struct label_places *out)
{
    *out->line = *out->lines = *out->cells = '\0';
    out->backward = false;
    for (int i = 0; i < l->n_places; i++) {
        caller_describe(l->places[i], out->line, sizeof out->line);
        add_once(out->lines, out->line, ", ");
        add_once(out->cells, where_cell_of(l->places[i]), ", ");
        out->backward = where_is_backward(l->places[i]);
    }
}

static void write_place(FILE *f, const char *key, const char *text)
{
    if (!*text) return;
    fprintf(f, ", \"%s\": ", key);
    write_text(f, text);
}

static void write_places(FILE *f, const struct label *l)
{
    struct label_places places;
    label_places(l, &places);
    write_place(f, "line", places.line);
    if (strcmp(places.lines, places.line)) write_place(f, "lines", places.lines);
    write_place(f, "cell", places.cells);
    if (places.backward) fputs(", \"backward\": true", f);
}

static void write_args(FILE *f, const struct profile *p, const struct label *l)
{
    if (l->device < 0 && !l->has_facts) return;
    fputs(", \"args\": {\"op\": ", f);
    write_text(f, *l->op ? l->op : l->name);
    if (l->device >= 0) {
        fputs(", \"device\": ", f);
        write_text(f, p->devices[l->device].name);
    }
    write_types(f, "in", l->in);
    write_types(f, "out", l->out);
    if (l->has_facts) fprintf(f, ", \"read_B\": %.0f, \"written_B\": %.0f", l->read_B, l->written_B);
    if (l->flops >= 0) fprintf(f, ", \"flops\": %.0f", l->flops);
    write_places(f, l);
    fputc('}', f);
}

static void write_event(FILE *f, const struct profile *p, const struct profile_event *e)
{
    const struct label *l = p->labels.v[e->label];
    fputs(",\n{\"name\": ", f);
    write_text(f, l->name);
    fprintf(f, ", \"cat\": \"%s\", \"ph\": \"X\", \"pid\": 1, \"tid\": %" PRIu32 ", \"ts\": %.3f, \"dur\": %.3f",
            l->category, e->track, (double)(e->start_ns - p->from_ns) / 1e3, (double)(e->end_ns - e->start_ns) / 1e3);
    write_args(f, p, l);
    fputc('}', f);
}

static void write_count(FILE *f, const struct profile *p, const char *what, const struct profile_count *c, uint64_t B)
{
    char name[200];
    snprintf(name, sizeof name, "%s, %s", what, p->devices[c->device].name);
    fputs(",\n{\"name\": ", f);
    write_text(f, name);
    fprintf(f, ", \"ph\": \"C\", \"pid\": 1, \"ts\": %.3f, \"args\": {\"bytes\": %" PRIu64 "}}",
            (double)(c->at_ns - p->from_ns) / 1e3, B);
}

// What is in use, and the most that was: a point of the second track where it rises.
static void write_memory(FILE *f, const struct profile *p)
{
    uint64_t peaks_B[DEVICES_MAX] = {0};
    for (size_t i = 0; i < p->n_counts; i++) {
        const struct profile_count *c = &p->counts[i];
        write_count(f, p, "memory in use", c, c->used_B);
        if (c->used_B <= peaks_B[c->device]) continue;
        peaks_B[c->device] = c->used_B;
        write_count(f, p, "peak of memory", c, c->used_B);
    }
}

static void write_devices(FILE *f, const struct profile *p)
{
    fputs("\"devices\": [", f);
    for (int32_t i = 0; i < p->n_devices; i++) {
        fprintf(f, "%s{\"name\": ", i ? ", " : "");
        write_text(f, p->devices[i].name);
        fprintf(f, ", \"kind\": \"%s\", \"peak_B\": %" PRIu64 "}", p->devices[i].kind, p->devices[i].peak_B);
    }
    fputc(']', f);
}

void profile_write(FILE *f, const struct profile *p, const struct track *tracks, uint32_t n_tracks)
{
    fprintf(f, "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"lost\": %" PRIu64 ", ", p->n_lost);
    write_devices(f, p);
    fputs("}, \"traceEvents\": [\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": "
          "\"kiln\"}}",
          f);
    for (uint32_t i = 0; i < n_tracks; i++) {
        fprintf(
            f,
            ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": %" PRIu32 ", \"args\": {\"name\": ", i);
        write_text(f, tracks[i].name);
        fputs("}}", f);
    }
    for (size_t i = 0; i < p->n; i++) write_event(f, p, &p->events[i]);
    write_memory(f, p);
    fputs("\n]}\n", f);
}
