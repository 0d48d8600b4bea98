// A small reader of JSON: enough for the documents of kiln-bench and its peers.
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_kind kind;
    double number;      // JSON_NUMBER, JSON_BOOL
    char *text;         // JSON_STRING
    char *key;          // of a member of an object
    struct json *first; // JSON_ARRAY, JSON_OBJECT: the children, linked by next
    struct json *next;
};

// The document in `text`; NULL when it is none, with the reason in `why`.
struct json *json_parse(const char *text, char *why, size_t why_size);
void json_free(struct json *j);
const struct json *json_get(const struct json *object, const char *key); // NULL when absent
const char *json_text(const struct json *object, const char *key);       // "" when it is no string
double json_number(const struct json *object, const char *key);          // NaN when it is no number

// compare.c: the document in a file, which has that list, NULL told on stderr; the fastest mode of a row, NULL when
// none has a time.
struct json *document_load(const char *path, const char *list);
const struct json *document_best(const struct json *document, const char *name);
