// A profile from a file, which anybody may have written: JSON is read strictly, event by event, and what is not of
// interest is skipped.
//
// Invariants: `at` never passes `end`; each construct takes at least one byte or fails; nesting is bounded. Two passes
// over the text: devices stand in "otherData", which may come behind the events.
#include "base/c_locale.h"
#include "debug/profile_table.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64, TEXT_B = 1024, KEY_B = 64 };

struct reader {
    const char *path, *begin, *at, *end;
    int depth;
    struct profile_table *t;
    bool events; // of this pass; else the devices
};

static kiln_status refuse(const struct reader *r, const char *what)
{
    size_t line = 1;
    for (const char *c = r->begin; c < r->at; c++) line += *c == '\n';
    return error_set(KILN_E_FORMAT, "profile_print_file: %s:%zu: %s", r->path, line, what);
}

static void skip_space(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

static bool take(struct reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static kiln_status expect(struct reader *r, char c)
{
    char what[] = "'?' is missing";
    what[1] = c;
    return take(r, c) ? KILN_OK : refuse(r, what);
}

// --- texts: as UTF-8, cut where they are too long

struct text {
    char *v;
    size_t n, cap;
};

static void put(struct text *t, char c)
{
    if (t->n + 1 < t->cap) t->v[t->n++] = c;
}

static void put_code(struct text *t, unsigned code)
{
    if (code < 0x80) {
        put(t, (char)code);
    } else if (code < 0x800) {
        put(t, (char)(0xc0 | code >> 6));
        put(t, (char)(0x80 | (code & 0x3f)));
    } else {
        put(t, (char)(0xe0 | code >> 12));
        put(t, (char)(0x80 | (code >> 6 & 0x3f)));
        put(t, (char)(0x80 | (code & 0x3f)));
    }
}

static kiln_status read_escape(struct reader *r, struct text *t)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end) return refuse(r, "a string does not end");
    char c = *r->at++;
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        put(t, to[simple - from]);
        return KILN_OK;
    }
    unsigned code = 0;
    if (c != 'u' || r->end - r->at < 4) return refuse(r, "a string has an escape that there is not");
    for (int i = 0; i < 4; i++) {
        char d = *r->at++;
        int v = d >= '0' && d <= '9' ? d - '0' : (d | 32) >= 'a' && (d | 32) <= 'f' ? (d | 32) - 'a' + 10 : -1;
        if (v < 0) return refuse(r, "a string has an escape that there is not");
        code = code << 4 | (unsigned)v;
    }
    bool surrogate = code >= 0xd800 && code < 0xe000;
    put_code(t, surrogate || code == 0 ? '?' : code);
    return KILN_OK;
}

static kiln_status read_text(struct reader *r, char *out, size_t cap)
{
    struct text t = {out, 0, cap};
    TRY(expect(r, '"'));
    for (;;) {
        if (r->at == r->end) return refuse(r, "a string does not end");
        unsigned char c = (unsigned char)*r->at++;
        if (c == '"') break;
        if (c < 0x20) return refuse(r, "a string holds a control character");
        if (c == '\\')
            TRY(read_escape(r, &t));
        else
            put(&t, (char)c);
    }
    out[t.n] = '\0';
    return KILN_OK;
}

// The characters of a number are looked at first: strtod reads more than JSON allows.
static kiln_status read_number(struct reader *r, double *out)
{
    char text[64];
    size_t n = 0;
    skip_space(r);
    while (r->at < r->end && n < sizeof text - 1 && *r->at && strchr("+-.0123456789eE", *r->at)) text[n++] = *r->at++;
    text[n] = '\0';
    char *end = text;
    *out = c_strtod(text, &end);
    bool begins = text[0] == '-' || (text[0] >= '0' && text[0] <= '9');
    return n && begins && !*end && isfinite(*out) ? KILN_OK : refuse(r, "a value is no number that can be");
}

// --- any value

static kiln_status skip_value(struct reader *r);

static kiln_status skip_list(struct reader *r, char close, bool keyed)
{
    char key[KEY_B];
    if (++r->depth > DEEPEST) return refuse(r, "values lie too deep in each other");
    r->at++;
    if (!take(r, close)) {
        do {
            if (keyed) {
                TRY(read_text(r, key, sizeof key));
                TRY(expect(r, ':'));
            }
            TRY(skip_value(r));
        } while (take(r, ','));
        TRY(expect(r, close));
    }
    r->depth--;
    return KILN_OK;
}

static kiln_status skip_value(struct reader *r)
{
    static const char *const words[] = {"true", "false", "null"};
    char text[KEY_B];
    double number;
    skip_space(r);
    if (r->at == r->end) return refuse(r, "a value is missing");
    if (*r->at == '"') return read_text(r, text, sizeof text);
    if (*r->at == '{') return skip_list(r, '}', true);
    if (*r->at == '[') return skip_list(r, ']', false);
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(r->end - r->at) < n || memcmp(r->at, words[i], n)) continue;
        r->at += n;
        return KILN_OK;
    }
    return read_number(r, &number);
}

// --- objects: a function for each key, which reads the value or skips it

typedef kiln_status field_fn(struct reader *r, const char *key, void *user);

static kiln_status read_object(struct reader *r, field_fn *field, void *user)
{
    char key[KEY_B];
    TRY(expect(r, '{'));
    if (++r->depth > DEEPEST) return refuse(r, "values lie too deep in each other");
    if (!take(r, '}')) {
        do {
            TRY(read_text(r, key, sizeof key));
            TRY(expect(r, ':'));
            TRY(field(r, key, user));
        } while (take(r, ','));
        TRY(expect(r, '}'));
    }
    r->depth--;
    return KILN_OK;
}

static kiln_status read_array(struct reader *r, kiln_status (*item)(struct reader *r))
{
    TRY(expect(r, '['));
    if (take(r, ']')) return KILN_OK;
    do TRY(item(r));
    while (take(r, ','));
    return expect(r, ']');
}

struct event {
    char phase[4], category[KEY_B], name[TEXT_B], op[TEXT_B], line[TEXT_B], lines[TEXT_B], cell[TEXT_B], device[TEXT_B];
    double duration_us, read_B, written_B, flops;
};

static kiln_status read_amount(struct reader *r, double *out)
{
    TRY(read_number(r, out));
    return *out >= 0 ? KILN_OK : refuse(r, "an amount is negative");
}

static kiln_status read_arg(struct reader *r, const char *key, void *user)
{
    struct event *e = user;
    const struct {
        const char *key;
        char *text;
        double *number;
    } fields[] = {{"op", e->op, NULL},
                  {"line", e->line, NULL},
                  {"lines", e->lines, NULL},
                  {"cell", e->cell, NULL},
                  {"device", e->device, NULL},
                  {"read_B", NULL, &e->read_B},
                  {"written_B", NULL, &e->written_B},
                  {"flops", NULL, &e->flops}};
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        if (strcmp(key, fields[i].key)) continue;
        return fields[i].text ? read_text(r, fields[i].text, TEXT_B) : read_amount(r, fields[i].number);
    }
    return skip_value(r);
}

static kiln_status read_event_field(struct reader *r, const char *key, void *user)
{
    struct event *e = user;
    if (!strcmp(key, "ph")) return read_text(r, e->phase, sizeof e->phase);
    if (!strcmp(key, "cat")) return read_text(r, e->category, sizeof e->category);
    if (!strcmp(key, "name")) return read_text(r, e->name, sizeof e->name);
    if (!strcmp(key, "dur")) return read_amount(r, &e->duration_us);
    skip_space(r);
    if (!strcmp(key, "args") && r->at < r->end && *r->at == '{') return read_object(r, read_arg, e);
    return skip_value(r);
}

static kiln_status read_event(struct reader *r)
{
    struct event e;
    e.phase[0] = e.category[0] = e.name[0] = e.op[0] = e.line[0] = e.lines[0] = e.cell[0] = e.device[0] = '\0';
    e.duration_us = e.read_B = e.written_B = 0;
    e.flops = -1;
    TRY(read_object(r, read_event_field, &e));
    if (strcmp(e.phase, "X")) return KILN_OK;
    const struct profile_row row = {.category = e.category,
                                    .name = e.name,
                                    .op = e.op,
                                    .line = *e.lines ? e.lines : e.line,
                                    .cell = e.cell,
                                    .device = e.device,
                                    .n = 1,
                                    .total_us = e.duration_us,
                                    .bytes = e.read_B + e.written_B,
                                    .flops = e.flops};
    return table_add(r->t, &row);
}

struct device_fields {
    char name[TEXT_B], kind[KEY_B];
    double peak_B;
};

static kiln_status read_device_field(struct reader *r, const char *key, void *user)
{
    struct device_fields *d = user;
    if (!strcmp(key, "name")) return read_text(r, d->name, sizeof d->name);
    if (!strcmp(key, "kind")) return read_text(r, d->kind, sizeof d->kind);
    if (!strcmp(key, "peak_B")) return read_amount(r, &d->peak_B);
    return skip_value(r);
}

static kiln_status read_device(struct reader *r)
{
    struct device_fields d = {.name = ""};
    TRY(read_object(r, read_device_field, &d));
    struct table_device *to = table_add_device(r->t, d.name, d.kind);
    if (to) to->peak_B = d.peak_B;
    return KILN_OK;
}

static kiln_status read_other(struct reader *r, const char *key, void *unused)
{
    (void)unused;
    if (!strcmp(key, "devices")) return read_array(r, read_device);
    if (!strcmp(key, "lost")) return read_amount(r, &r->t->lost);
    return skip_value(r);
}

static kiln_status read_part(struct reader *r, const char *key, void *found)
{
    bool is_events = !strcmp(key, "traceEvents");
    *(bool *)found |= is_events;
    if (is_events && r->events) return read_array(r, read_event);
    if (!strcmp(key, "otherData") && !r->events) return read_object(r, read_other, NULL);
    return skip_value(r);
}

static kiln_status read_pass(struct reader *r)
{
    bool found = false;
    r->at = r->begin;
    r->depth = 0;
    TRY(read_object(r, read_part, &found));
    skip_space(r);
    if (r->at < r->end) return refuse(r, "something stands behind the object");
    return found ? KILN_OK : refuse(r, "\"traceEvents\" is missing: it is no profile");
}

// --- the file

static kiln_status load(const char *path, char **out, size_t *size_B)
{
    size_t cap = 1 << 16, n = 0, got = 1;
    char *text = malloc(cap);
    FILE *f = fopen(path, "r");
    kiln_status status = KILN_OK;
    if (!f) status = error_set(KILN_E_IO, "profile_print_file: %s cannot be read: %s", path, strerror(errno));
    while (!status && text && got) {
        if (n == cap) {
            char *more = realloc(text, cap *= 2);
            if (!more) free(text);
            text = more;
            if (!text) break;
        }
        errno = 0;
        got = fread(text + n, 1, cap - n, f);
        n += got;
    }
    if (!status && !text) status = error_set(KILN_E_MEMORY, "profile_print_file: out of memory for %s", path);
    if (!status && ferror(f))
        status = error_set(KILN_E_IO, "profile_print_file: %s cannot be read: %s", path, strerror(errno));
    if (f) fclose(f);
    if (status) free(text);
    *out = status ? NULL : text;
    *size_B = n;
    return status;
}

kiln_status profile_read(const char *path, struct profile_table *t, void (*ceilings)(struct table_device *))
{
    char *text;
    size_t size_B;
    TRY(load(path, &text, &size_B));
    struct reader r = {.path = path, .begin = text, .end = text + size_B, .t = t};
    kiln_status status = read_pass(&r);
    for (int i = 0; ceilings && i < t->n_devices && !status; i++) ceilings(&t->devices[i]);
    r.events = true;
    if (!status) status = read_pass(&r);
    free(text);
    return status;
}
