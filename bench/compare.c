// Ratios of two documents, row by row: the peer's time over ours, each in its better mode.
#include "bench.h"
#include "json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t size_B = 0, got = 1;
    while (f && got) {
        char *more = realloc(text, size_B + 65537);
        if (!more) {
            size_B = 0;
            break;
        }
        text = more;
        got = fread(text + size_B, 1, 65536, f);
        size_B += got;
    }
    bool ok = f && !ferror(f) && size_B;
    if (f) fclose(f);
    if (ok) {
        text[size_B] = 0;
        return text;
    }
    free(text);
    return NULL;
}

struct json *document_load(const char *path, const char *list)
{
    errno = 0;
    char *text = read_all(path), why[128] = "";
    if (!text) {
        fprintf(stderr, "kiln-bench: %s cannot be read: %s\n", path, errno ? strerror(errno) : "it is empty");
        return NULL;
    }
    struct json *j = json_parse(text, why, sizeof why);
    free(text);
    const struct json *rows = json_get(j, list);
    if (rows && rows->kind == JSON_ARRAY) return j;
    if (j) snprintf(why, sizeof why, "there is no list \"%s\"", list);
    fprintf(stderr, "kiln-bench: %s: %s\n", path, why);
    json_free(j);
    return NULL;
}

const struct json *document_best(const struct json *document, const char *name)
{
    const struct json *best = NULL;
    for (const struct json *r = json_get(document, "rows")->first; r; r = r->next) {
        if (strcmp(json_text(r, "name"), name) || !(json_number(r, "time_ns") > 0)) continue;
        if (!best || json_number(r, "time_ns") < json_number(best, "time_ns")) best = r;
    }
    return best;
}

static void print_heading(const struct json *peer, const struct json *own, FILE *f)
{
    fprintf(f, "peer: %s on %s, size %s\n", json_text(peer, "framework"), json_text(peer, "device"),
            json_text(peer, "size"));
    fprintf(f, "ours: %s on %s, size %s\n", json_text(own, "framework"), json_text(own, "device"),
            json_text(own, "size"));
    if (strcmp(json_text(peer, "size"), json_text(own, "size")))
        fprintf(f, "the sizes differ: the ratios mean nothing\n");
    fprintf(f, "%-18s %-8s %12s %12s %-8s %8s\n", "row", "mode", "ours, ms", "peer, ms", "its mode", "ratio");
}

// Whether an earlier row of the document has that name.
static bool is_repeated(const struct json *document, const struct json *row)
{
    const char *name = json_text(row, "name");
    for (const struct json *r = json_get(document, "rows")->first; r != row; r = r->next)
        if (!strcmp(json_text(r, "name"), name)) return true;
    return false;
}

// Prints the line of a row; its ratio, or NaN where there is none.
static double print_ratio(const struct json *peer, const struct json *own, const struct json *row, FILE *f)
{
    const char *name = json_text(row, "name");
    const struct json *ours = document_best(own, name), *theirs = document_best(peer, name);
    double own_ns = ours ? json_number(ours, "time_ns") : NAN, peer_ns = theirs ? json_number(theirs, "time_ns") : NAN;
    if (!ours)
        fprintf(f, "%-18s %-8s failed: %s\n", name, json_text(row, "mode"), json_text(row, "error"));
    else if (!theirs)
        fprintf(f, "%-18s %-8s %12.4f %12s\n", name, json_text(ours, "mode"), own_ns / 1e6, "-");
    else
        fprintf(f, "%-18s %-8s %12.4f %12.4f %-8s %8.2f\n", name, json_text(ours, "mode"), own_ns / 1e6, peer_ns / 1e6,
                json_text(theirs, "mode"), peer_ns / own_ns);
    return peer_ns / own_ns;
}

int compare(const char *peer_path, const char *own_path, FILE *f)
{
    struct json *peer = document_load(peer_path, "rows"), *own = peer ? document_load(own_path, "rows") : NULL;
    double log_sum = 0;
    int n = 0;
    if (own) print_heading(peer, own, f);
    for (const struct json *r = own ? json_get(own, "rows")->first : NULL; r; r = r->next) {
        if (is_repeated(own, r)) continue;
        double ratio = print_ratio(peer, own, r, f);
        if (isnan(ratio)) continue;
        log_sum += log(ratio);
        n++;
    }
    if (n)
        fprintf(f, "geometric mean of %d ratios: %.3f\n", n, exp(log_sum / n));
    else if (own)
        fprintf(stderr, "kiln-bench: the documents have no row in common\n");
    json_free(peer);
    json_free(own);
    return n ? 0 : 1;
}
