// The small language of `args` and of option fields.
#include "codegen/gen/gen.h"
#include <stdio.h>
#include <string.h>

static enum param_kind kind_of(const char *s)
{
    static const struct {
        const char *name;
        enum param_kind kind;
    } kinds[] = {
        {"int", PARAM_INT},    {"float", PARAM_FLOAT}, {"bool", PARAM_BOOL},   {"ints", PARAM_INTS},
        {"int2", PARAM_ARRAY}, {"int3", PARAM_ARRAY},  {"dtype", PARAM_DTYPE}, {"tensor", PARAM_TENSOR},
        {"size", PARAM_INT},   {"text", PARAM_TEXT},   {"sizes", PARAM_INTS},  {"limit", PARAM_FLOAT},
        {"axes", PARAM_INTS},  {"shifts", PARAM_INTS}, {"all2", PARAM_ARRAY},  {"all3", PARAM_ARRAY},
    };
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (!strcmp(kinds[i].name, s)) return kinds[i].kind;
    fprintf(stderr, "kiln-gen: unknown kind of parameter: %s\n", s);
    return PARAM_INT;
}

static void parse_one(const char *word, struct param *p)
{
    *p = (struct param){0};
    char kind[32] = "";
    if (word[0] == '@') {
        p->kind = PARAM_OPTIONS;
        snprintf(p->name, sizeof p->name, "%.31s", word + 1);
        return;
    }
    size_t name = strcspn(word, ":*");
    p->may_be_null = name && word[name - 1] == '?';
    snprintf(p->name, sizeof p->name, "%.*s", (int)name - p->may_be_null, word);
    if (word[name] == '*')
        p->kind = PARAM_LIST;
    else if (word[name] == ':') {
        const char *k = word + name + 1;
        size_t len = strcspn(k, "=");
        snprintf(kind, sizeof kind, "%.*s", (int)len, k);
        if (k[len] == '=') snprintf(p->fallback, sizeof p->fallback, "%s", k + len + 1);
        p->kind = kind_of(kind);
        if (p->kind == PARAM_ARRAY) p->count = (uint8_t)(kind[3] - '0');
        p->spreads = !strncmp(kind, "all", 3);
        p->is_list = !strcmp(kind, "axes") || !strcmp(kind, "shifts");
        p->is_size =
            !strcmp(kind, "size") || !strcmp(kind, "sizes") || !strcmp(kind, "limit") || !strcmp(kind, "shifts");
    } else
        p->kind = !strcmp(p->name, "dev") ? PARAM_DEVICE : PARAM_TENSOR;
}

int gen_params(const char *args, struct param *out, int cap)
{
    int n = 0;
    for (const char *p = args; *p && n < cap;) {
        char word[96];
        while (*p == ' ') p++;
        size_t len = strcspn(p, " ");
        if (!len) break;
        snprintf(word, sizeof word, "%.*s", (int)len, p);
        parse_one(word, &out[n++]);
        p += len;
    }
    return n;
}

const struct options_row *gen_options(const char *name)
{
    for (int i = 0; i < options_row_count; i++)
        if (!strcmp(options_rows[i].name, name)) return &options_rows[i];
    for (int i = 0; i < composite_options_row_count; i++)
        if (!strcmp(composite_options_rows[i].name, name)) return &composite_options_rows[i];
    fprintf(stderr, "kiln-gen: unknown options: %s\n", name);
    return NULL;
}

bool gen_is_attr(enum param_kind k)
{
    return k != PARAM_TENSOR && k != PARAM_LIST && k != PARAM_DEVICE && k != PARAM_OPTIONS && k != PARAM_TEXT;
}

bool gen_is_reserved(const struct structured_row *r, const struct param *p)
{
    return (r->flags & OP_RANDOM) && (!strcmp(p->name, "seed") || !strcmp(p->name, "offset"));
}

static void flatten(const char *args, bool inside, struct flat *f)
{
    struct param p[16];
    int n = gen_params(args, p, 16);
    for (int i = 0; i < n; i++) {
        if (p[i].kind == PARAM_OPTIONS)
            flatten(gen_options(p[i].name)->fields, true, f);
        else if (p[i].kind == PARAM_TENSOR || p[i].kind == PARAM_LIST) {
            strcpy(f->in[f->n_in++], p[i].name);
            if (!inside && !p[i].may_be_null) f->n_required++;
            f->list |= p[i].kind == PARAM_LIST;
        } else if (gen_is_attr(p[i].kind)) {
            p[i].is_option = inside;
            f->attrs[f->n_attrs++] = p[i];
        }
    }
}

void gen_flatten(const char *args, struct flat *f)
{
    flatten(args, false, f);
}
