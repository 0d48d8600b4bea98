// Tiles that were measured, in a text beside the driver's pipelines: one for each device and driver.
//
// The text has a head with a version, what it was measured on, a line a class of work, and an end with the number of
// those lines. A class is told by the largest sizes that it holds. What is not as this file would write it is ignored
// whole, with a message: no tile is taken that the list of its kind does not have, or the device no room for.
#include "base/cache.h"
#include "base/debug.h"
#include "base/hash.h"
#include "base/str.h"
#include "scalar/scalar.h"
#include "vulkan/vk.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FILE_B (1u << 18)
#define VERSION    "2"
#define LINE_B     256

_Static_assert(CLASS_F32 == 0 && CLASS_F64 == 1 && CLASS_I32 == 2 && CLASS_I64 == 3 &&
                   (int)CLASS_COUNT == (int)TILE_CLASSES,
               "the order that ir/tile.c has");
_Static_assert(MAX_FILE_B > TILE_PLACES * 64, "all tiles of one device");

static const char head[] = "kiln tiles ";

// --- where, and whose

static void add_hex(struct str *s, const uint8_t uuid[VK_UUID_SIZE])
{
    str_add(s, " ");
    for (int i = 0; i < (int)VK_UUID_SIZE; i++) str_addf(s, "%02x", uuid[i]);
}

static void add_owner(struct str *s, const struct vk_physical *p)
{
    const VkPhysicalDeviceProperties *v = &p->properties;
    str_addf(s, "device %04x:%04x driver %x", v->vendorID, v->deviceID, v->driverVersion);
    add_hex(s, p->device_uuid);
    add_hex(s, p->driver_uuid);
    add_hex(s, v->pipelineCacheUUID);
    str_add(s, "\n");
}

kiln_status vk_tiles_path(const struct vk_physical *p, char *out, size_t cap)
{
    char folder[3072];
    struct str owner;
    if (!cache_folder(folder, sizeof folder)) return KILN_E_MISSING;
    str_init(&owner);
    add_owner(&owner, p);
    unsigned long long id = hash_bytes(1, str_text(&owner), owner.len);
    bool failed = owner.failed;
    str_free(&owner);
    int n = snprintf(out, cap, "%s/tiles-%04x-%04x-%016llx.txt", folder, p->properties.vendorID, p->properties.deviceID,
                     id);
    return !failed && n > 0 && (size_t)n < cap ? KILN_OK : KILN_E_MISSING;
}

// --- the text

static void print_line(char *out, uint32_t place, struct tile t)
{
    struct tile_work w = tile_largest_of(place);
    snprintf(out, LINE_B, "%s %s %llu %llu %llu tile %u %u", tile_kind_names[w.kind],
             scalar_class_name((enum scalar_class)w.cls), (unsigned long long)w.sizes[0],
             (unsigned long long)w.sizes[1], (unsigned long long)w.sizes[2], t.size, t.run);
}

// NULL, or what is wrong with the line.
static const char *read_line(const char *line, const struct device_caps *caps, struct tile_table *t)
{
    char kind[16], cls[16], again[LINE_B];
    unsigned long long sizes[3];
    unsigned size, run;
    static const char none[] = "is no tile";
    if (sscanf(line, "%15s %15s %llu %llu %llu tile %u %u", kind, cls, &sizes[0], &sizes[1], &sizes[2], &size, &run) !=
        7)
        return none;
    struct tile_work w = {.kind = TILE_KINDS, .cls = CLASS_COUNT, .sizes = {sizes[0], sizes[1], sizes[2]}};
    for (int k = 0; k < TILE_KINDS; k++)
        if (!strcmp(kind, tile_kind_names[k])) w.kind = (enum tile_kind)k;
    for (int c = 0; c < CLASS_COUNT; c++)
        if (!strcmp(cls, scalar_class_name((enum scalar_class)c))) w.cls = (uint8_t)c;
    if (w.kind == TILE_KINDS || w.cls == CLASS_COUNT || size > UINT16_MAX || run > UINT16_MAX) return none;
    struct tile tile = {(uint16_t)size, (uint16_t)run};
    print_line(again, tile_place(&w), tile);
    unsigned number = tile_number(w.kind, tile);
    if (strcmp(again, line) || !number) return none;
    if (caps && !tile_fits(caps, w.kind, w.cls, tile)) return "is a tile for which the device has no room";
    tile_set(t, tile_place(&w), number);
    return NULL;
}

// Takes the next line off the text; NULL: there is no whole one.
static char *next_line(char **text)
{
    char *line = *text, *end = strchr(line, '\n');
    if (!end) return NULL;
    *end = 0;
    *text = end + 1;
    return line;
}

static bool read_lines(char *text, const struct device_caps *caps, struct tile_table *out, char *why, size_t cap)
{
    char end[32];
    int n = 0;
    for (char *line; (line = next_line(&text)); n++) {
        snprintf(end, sizeof end, "end %d", n);
        if (!strcmp(line, end) && !*text) return true;
        const char *wrong = read_line(line, caps, out);
        if (!wrong) continue;
        snprintf(why, cap, "line %d %s", n + 3, wrong);
        return false;
    }
    snprintf(why, cap, "it ends in the middle");
    return false;
}

static bool has_owner(const char *line, const struct vk_physical *p)
{
    struct str owner;
    str_init(&owner);
    add_owner(&owner, p);
    bool same = !owner.failed && strlen(line) + 1 == owner.len && !memcmp(line, str_text(&owner), owner.len - 1);
    str_free(&owner);
    return same;
}

bool vk_tiles_parse(char *text, const struct vk_physical *p, const struct device_caps *caps, struct tile_table *out,
                    char *why, size_t cap)
{
    char *line = next_line(&text), *owner = line ? next_line(&text) : NULL;
    memset(out->number, 0, sizeof out->number);
    if (!line || strncmp(line, head, strlen(head)))
        snprintf(why, cap, "it is no table of tiles");
    else if (strcmp(line + strlen(head), VERSION))
        snprintf(why, cap, "it is of version %.20s, this library has %s", line + strlen(head), VERSION);
    else if (!owner)
        snprintf(why, cap, "it ends in the middle");
    else if (p && !has_owner(owner, p))
        snprintf(why, cap, "it was measured on another device or driver");
    else if (read_lines(text, caps, out, why, cap))
        return true;
    memset(out->number, 0, sizeof out->number);
    return false;
}

bool vk_tiles_check(const void *file, size_t size_B)
{
    char why[LINE_B], *text = size_B <= MAX_FILE_B && !memchr(file, 0, size_B) ? strndup(file, size_B) : NULL;
    struct tile_table *t = text ? calloc(1, sizeof *t) : NULL;
    bool good = t && vk_tiles_parse(text, NULL, NULL, t, why, sizeof why);
    free(t);
    free(text);
    return good;
}

// --- the file

bool vk_tiles_read(const struct vk_physical *p, const struct device_caps *caps, struct tile_table *out, char *why,
                   size_t cap)
{
    char path[4096], cause[LINE_B] = "it cannot be read, or is not this user's alone, or too long";
    size_t size_B = 0;
    why[0] = 0;
    memset(out->number, 0, sizeof out->number);
    if (vk_tiles_path(p, path, sizeof path) || access(path, F_OK)) return false;
    char *data = cache_read(path, MAX_FILE_B, &size_B);
    char *text = data ? strndup(data, size_B) : NULL;
    bool good = text && vk_tiles_parse(text, p, caps, out, cause, sizeof cause);
    if (!good) snprintf(why, cap, "%s: %s", path, cause);
    free(text);
    free(data);
    return good;
}

// The same words once a process, however many devices are opened.
static void complain(const char *what)
{
    static _Atomic uint64_t last;
    uint64_t id = hash_bytes(1, what, strlen(what)) | 1;
    if (atomic_exchange(&last, id) == id) return;
    log_warn("%s; tiles are chosen as if there were no such file", what);
}

static bool force(const struct device_caps *caps, struct tile_table *t, const char *word)
{
    char kind[16] = "";
    unsigned size = 0, run = 1, number = 0;
    int end = 0;
    if (sscanf(word, "%15[a-z]:%u%n:%u%n", kind, &size, &end, &run, &end) < 2 || word[end]) return false;
    for (int k = 0; k < TILE_KINDS; k++) {
        if (strcmp(kind, tile_kind_names[k]) || size > UINT16_MAX || run > UINT16_MAX) continue;
        struct tile tile = {(uint16_t)size, (uint16_t)run};
        number = tile_number((enum tile_kind)k, tile);
        for (uint32_t place = 0; number && place < TILE_PLACES; place++) {
            struct tile_work w = tile_largest_of(place);
            if ((int)w.kind == k && tile_fits(caps, w.kind, w.cls, tile)) tile_set(t, place, number);
        }
    }
    return number != 0;
}

void vk_tiles_load(struct vk_device *vk)
{
    char why[4096 + LINE_B], word[32];
    const struct device_caps *caps = &vk->owner->caps;
    const char *tune = getenv("KILN_TUNE");
    vk->owner->caps.tiles = &vk->tiles;
    vk->tiles.notes = tune && !strcmp(tune, "1");
    if (!vk_tiles_read(&vk->physical, caps, &vk->tiles, why, sizeof why) && why[0]) complain(why);
    for (size_t at = 0; debug_value("tile", &at, word, sizeof word);) {
        vk->tiles.notes = false;
        vk->tiles.forced = true;
        if (!force(caps, &vk->tiles, word)) log_warn("KILN_DEBUG: tile=%s: there is no such tile", word);
    }
}

// What another process has measured meanwhile stays.
void vk_tiles_save(const struct vk_device *vk)
{
    char path[4096], why[4096 + LINE_B], line[LINE_B];
    if (vk->tiles.forced) return;
    struct tile_table *others = calloc(1, sizeof *others);
    struct str text;
    int n = 0;
    str_init(&text);
    str_addf(&text, "%s%s\n", head, VERSION);
    add_owner(&text, &vk->physical);
    if (others) vk_tiles_read(&vk->physical, &vk->owner->caps, others, why, sizeof why);
    for (uint32_t place = 0; place < TILE_PLACES; place++) {
        unsigned number = vk->tiles.number[place] || !others ? vk->tiles.number[place] : others->number[place];
        if (!number) continue;
        print_line(line, place, tile_of(tile_largest_of(place).kind, number));
        str_addf(&text, "%s\n", line);
        n++;
    }
    str_addf(&text, "end %d\n", n);
    if (!text.failed && !vk_tiles_path(&vk->physical, path, sizeof path))
        cache_write(path, str_text(&text), text.len, "", 0);
    str_free(&text);
    free(others);
}
