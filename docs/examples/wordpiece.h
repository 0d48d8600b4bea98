// The tokeniser of BERT without upper case: text to the ids of a vocabulary of word pieces.
//
//     struct wordpiece w;
//     if (!wordpiece_load(&w, "vocab.txt")) return 1; // told on stderr
//     int64_t ids[256];
//     size_t n = wordpiece_ids(&w, "Grüße aus Köln!", ids, 256); // [CLS] gr ##u ##ße aus ko ##ln ! [SEP]
//     wordpiece_free(&w);
//
// Text is UTF-8. Controls, accents and bytes that are no UTF-8 are dropped, letters made small; words end at spaces,
// and at punctuation and Chinese characters, each of which is a word. A word is the longest piece that it begins with,
// then the longest piece "##..." that the rest begins with, and so on; [UNK] where there is none, or where it has more
// than 100 characters. The names of special pieces in a text are text.
#pragma once
#include "unicode.def"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_CODES_MAX = 100 };

struct piece {
    const char *text; // not ended by 0
    size_t size_B;
    int64_t id;
};

struct wordpiece {
    char *bytes; // the file
    struct piece *table;
    size_t slots; // of the table, a power of 2, more than half of them empty
    int64_t count;
    int64_t pad, unknown, begin, end;
};

// --- the vocabulary: a line a piece, whose number from 0 is its id

static inline struct piece *wordpiece_slot(const struct wordpiece *w, const char *text, size_t size_B)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < size_B; i++) hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    for (size_t at = hash >> 7;; at++) {
        struct piece *p = &w->table[at & (w->slots - 1)];
        if (!p->text || (p->size_B == size_B && !memcmp(p->text, text, size_B))) return p;
    }
}

// -1: no piece.
static inline int64_t wordpiece_id(const struct wordpiece *w, const char *text, size_t size_B)
{
    const struct piece *p = wordpiece_slot(w, text, size_B);
    return p->text ? p->id : -1;
}

static inline void wordpiece_free(struct wordpiece *w)
{
    free(w->bytes);
    free(w->table);
    *w = (struct wordpiece){0};
}

static inline char *wordpiece_read(const char *path, size_t *size_B)
{
    FILE *f = fopen(path, "rb");
    char *bytes = NULL;
    bool good = f != NULL;
    *size_B = 0;
    for (size_t room = 0, got = 1; good && got; *size_B += got) {
        if (*size_B == room) {
            room = room ? 2 * room : 1 << 16;
            char *more = realloc(bytes, room);
            good = more != NULL;
            if (!good) break;
            bytes = more;
        }
        got = fread(bytes + *size_B, 1, room - *size_B, f);
    }
    good = good && !ferror(f);
    if (!good) perror(path);
    if (f) fclose(f);
    if (good) return bytes;
    free(bytes);
    return NULL;
}

static inline bool wordpiece_fill(struct wordpiece *w, size_t size_B)
{
    size_t lines = 1;
    for (size_t i = 0; i < size_B; i++) lines += w->bytes[i] == '\n';
    for (w->slots = 16; w->slots < 2 * lines + 2;) w->slots *= 2;
    w->table = calloc(w->slots, sizeof *w->table);
    if (!w->table) return false;
    for (const char *at = w->bytes, *past = at + size_B; at < past; w->count++) {
        const char *newline = memchr(at, '\n', (size_t)(past - at)), *next = newline ? newline + 1 : past;
        size_t n = (size_t)((newline ? newline : past) - at);
        if (n && at[n - 1] == '\r') n--;
        *wordpiece_slot(w, at, n) = (struct piece){at, n, w->count};
        at = next;
    }
    return true;
}

static inline bool wordpiece_load(struct wordpiece *w, const char *path)
{
    size_t size_B;
    *w = (struct wordpiece){.bytes = wordpiece_read(path, &size_B)};
    if (!w->bytes) return false;
    bool good = wordpiece_fill(w, size_B);
    const char *const names[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
    int64_t *ids[] = {&w->pad, &w->unknown, &w->begin, &w->end};
    for (int i = 0; i < 4 && good; i++) {
        *ids[i] = wordpiece_id(w, names[i], 5);
        good = *ids[i] >= 0;
        if (!good) fprintf(stderr, "%s: no vocabulary of BERT: there is no line %s\n", path, names[i]);
    }
    if (!good) wordpiece_free(w);
    return good;
}

// --- characters

// The next code of a text; 0xFFFD for a byte that begins none. What is longer than it has to be, a surrogate or past
// the last code is none.
static inline uint32_t next_code(const char **text)
{
    const unsigned char *at = (const unsigned char *)*text;
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    int more = at[0] < 0x80 ? 0 : at[0] >= 0xF0 && at[0] < 0xF8 ? 3 : at[0] >= 0xE0 ? 2 : at[0] >= 0xC0 ? 1 : -1;
    uint32_t code = more <= 0 ? at[0] : at[0] & (0x3Fu >> more);
    ++*text;
    if (more < 0 || at[0] >= 0xF8) return 0xFFFD;
    for (int i = 1; i <= more; i++) {
        if ((at[i] & 0xC0) != 0x80) return 0xFFFD;
        code = code << 6 | (at[i] & 0x3F);
    }
    if (code < least[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0xFFFD;
    *text += more;
    return code;
}

static inline size_t put_code(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; --i; code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(0xF00u >> n | code);
    return n;
}

static inline bool in_ranges(uint32_t code, const struct code_range *ranges, size_t n)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && code >= ranges[low].first;
}
#define ROWS(table)             (sizeof(table) / sizeof *(table))
#define IN_RANGES(code, ranges) in_ranges(code, ranges, ROWS(ranges))

static inline bool is_chinese(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B820 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

// A syllable of Hangul is two or three letters, by its number.
static inline size_t fold_hangul(uint32_t syllable, uint32_t *out)
{
    out[0] = 0x1100 + syllable / 588;
    out[1] = 0x1161 + syllable % 588 / 28;
    out[2] = 0x11A7 + syllable % 28;
    return syllable % 28 ? 3 : 2;
}

// Without accents, in small letters: up to 3 codes.
static inline size_t fold_code(uint32_t code, uint32_t *out)
{
    out[0] = code;
    if (code < 0x80) {
        if (code >= 'A' && code <= 'Z') out[0] += 'a' - 'A';
        return 1;
    }
    if (code >= 0xAC00 && code < 0xD7A4) return fold_hangul(code - 0xAC00, out);
    for (size_t i = 0; i < ROWS(code_parts_of) && code_parts_of[i].code <= code; i++) {
        const struct code_parts *p = &code_parts_of[i];
        if (p->code != code) continue;
        memcpy(out, p->to, sizeof p->to);
        return p->to[2] ? 3 : 2;
    }
    for (size_t i = 0; i < ROWS(code_shifts) && code_shifts[i].first <= code; i++) {
        const struct code_shift *s = &code_shifts[i];
        if (code > s->last || (code - s->first) % s->step) continue;
        out[0] = (uint32_t)((int64_t)code + s->by);
        return 1;
    }
    return 1;
}

// --- words and their pieces

struct word_writer {
    const struct wordpiece *w;
    int64_t *ids;
    size_t n, max;
    char word[2 + 4 * WORD_CODES_MAX]; // behind the "##" of its rest
    size_t size_B;
    size_t codes; // also those that are too many for `word`
};

static inline void put_id(struct word_writer *to, int64_t id)
{
    if (to->n < to->max) to->ids[to->n++] = id;
}

// The longest piece of what begins at `from`, or -1. The two bytes before it become "##" where it is a rest.
static inline int64_t longest_piece(struct word_writer *to, size_t from, size_t *past)
{
    size_t begin = from > 2 ? from - 2 : from;
    if (from > 2) memcpy(to->word + begin, "##", 2);
    for (*past = to->size_B; *past > from; --*past) {
        if (*past < to->size_B && (to->word[*past] & 0xC0) == 0x80) continue; // inside of a character
        int64_t id = wordpiece_id(to->w, to->word + begin, *past - begin);
        if (id >= 0) return id;
    }
    return -1;
}

static inline void end_word(struct word_writer *to)
{
    if (!to->codes) return;
    size_t first = to->n;
    bool known = to->codes <= WORD_CODES_MAX;
    for (size_t at = 2; known && at < to->size_B;) {
        int64_t id = longest_piece(to, at, &at);
        known = id >= 0;
        if (known) put_id(to, id);
    }
    if (!known) {
        to->n = first;
        put_id(to, to->w->unknown);
    }
    to->codes = 0;
    to->size_B = 2;
}

static inline void add_to_word(struct word_writer *to, uint32_t code)
{
    if (++to->codes <= WORD_CODES_MAX) to->size_B += put_code(code, to->word + to->size_B);
}

static inline void add_code(struct word_writer *to, uint32_t code)
{
    uint32_t parts[3];
    if (IN_RANGES(code, code_dropped)) return;
    bool is_space = IN_RANGES(code, code_spaces), alone = is_chinese(code);
    if (is_space || alone) end_word(to);
    if (is_space) return;
    size_t n = fold_code(code, parts);
    for (size_t i = 0; i < n; i++) {
        bool mark = IN_RANGES(parts[i], code_punctuation);
        if (mark) end_word(to);
        add_to_word(to, parts[i]);
        if (mark) end_word(to);
    }
    if (alone) end_word(to);
}

// [CLS], the pieces, [SEP]; at most `max` of them, which is 2 or more: pieces at the end are left out. Returns how
// many.
static inline size_t wordpiece_ids(const struct wordpiece *w, const char *text, int64_t *ids, size_t max)
{
    struct word_writer to = {.w = w, .ids = ids, .max = max - 1, .size_B = 2};
    put_id(&to, w->begin);
    while (*text && to.n < to.max) add_code(&to, next_code(&text));
    end_word(&to);
    to.max = max;
    put_id(&to, w->end);
    return to.n;
}
