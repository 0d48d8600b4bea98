// kiln-info: the version, what is opened at run time, the cache, the environment; the devices of this machine, their
// limits and features, which fast paths are on and why not.
#include <kiln/debug.h>
#include <kiln/version.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: kiln-info [--json]\n"
                            "Shows the version, the libraries that are opened at run time, where the disk cache is and "
                            "how large, the variables\n"
                            "of the environment that are set; and the devices of this machine, their limits and "
                            "features, which fast paths are\n"
                            "on and why others are not.\n"
                            "  --json     one JSON document\n"
                            "  --version  print the version and exit\n"
                            "  --help     print this text and exit\n";

// Facts come in groups; a group is a heading, or an object in JSON.
struct printer {
    bool json;
    char group[32];
};

static void print_string(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void print_json_fact(struct printer *p, const kiln_fact *f)
{
    if (strcmp(p->group, f->group)) {
        printf("%s\n   ", p->group[0] ? "}," : "");
        print_string(f->group);
        printf(": {");
        snprintf(p->group, sizeof p->group, "%s", f->group);
    } else {
        printf(",");
    }
    printf("\n    ");
    print_string(f->name);
    printf(": ");
    if (f->kind == KILN_FACT_TEXT)
        print_string(f->text);
    else if (f->kind == KILN_FACT_NUMBER)
        printf("%.17g", f->number);
    else if (f->number != 0)
        printf("true");
    else
        printf("false");
    if (f->note && f->kind != KILN_FACT_NUMBER) {
        char name[128];
        snprintf(name, sizeof name, "%s: %s", f->name, f->kind == KILN_FACT_BOOL ? "why not" : "note");
        printf(",\n    ");
        print_string(name);
        printf(": ");
        print_string(f->note);
    }
}

static void print_text_fact(struct printer *p, const kiln_fact *f)
{
    if (strcmp(p->group, f->group)) {
        printf("  %s\n", f->group);
        snprintf(p->group, sizeof p->group, "%s", f->group);
    }
    printf("    %-38s ", f->name);
    if (f->kind == KILN_FACT_TEXT)
        printf(f->note ? "%s (%s)\n" : "%s\n", f->text, f->note);
    else if (f->kind == KILN_FACT_BOOL && f->number != 0)
        printf("yes\n");
    else if (f->kind == KILN_FACT_BOOL)
        printf("no%s%s\n", f->note ? ": " : "", f->note ? f->note : "");
    else if (f->note && !strcmp(f->note, "bytes") && f->number >= 1 << 20)
        printf("%.*f MiB\n", f->number < 10 << 20 ? 1 : 0, f->number / (1 << 20));
    else
        printf("%.10g%s%s\n", f->number, f->note ? " " : "", f->note ? f->note : "");
}

static void on_fact(void *user, const kiln_fact *f)
{
    struct printer *p = user;
    if (p->json)
        print_json_fact(p, f);
    else
        print_text_fact(p, f);
}

// Groups of one device, or of the libraries when `device` is NULL.
static kiln_status print_facts(bool json, const char *device)
{
    struct printer p = {.json = json};
    kiln_status status = device ? kiln_device_facts(device, on_fact, &p) : kiln_library_facts(on_fact, &p);
    if (json) printf("%s", p.group[0] ? "}" : "");
    return status;
}

static void print_device(bool json, size_t index, const char *name)
{
    if (json) {
        printf("%s\n  {\"id\": ", index ? "," : "");
        print_string(name);
        printf(",");
    } else {
        printf("%s\n", name);
    }
    if (print_facts(json, name)) {
        if (json) {
            printf("\"error\": ");
            print_string(kiln_error_message());
        } else {
            printf("  %s\n", kiln_error_message());
        }
        kiln_error_clear();
    }
    if (json) printf("}");
}

static int print_all(bool json)
{
    if (json) printf("{");
    if (print_facts(json, NULL)) {
        fprintf(stderr, "kiln-info: %s\n", kiln_error_message());
        return 1;
    }
    printf("%s", json ? ",\n\"devices\": [" : "\n");
    size_t n = kiln_device_list(NULL, 0);
    print_device(json, 0, "cpu");
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "vulkan:%zu", i);
        if (!json) printf("\n");
        print_device(json, i + 1, name);
    }
    if (json)
        printf("]}\n");
    else if (n == 0)
        printf("\nno Vulkan device\n");
    return fflush(stdout) ? 1 : 0;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"json", 0, NULL, 'j'}, {"help", 0, NULL, 'h'}, {"version", 0, NULL, 'v'}, {NULL, 0, NULL, 0}};
    bool json = false;
    for (int c; (c = getopt_long(argc, argv, "h", names, NULL)) != -1;) {
        switch (c) {
        case 'j': json = true; break;
        case 'h': fputs(usage, stdout); return 0;
        case 'v': printf("kiln-info %s\n", kiln_version_string()); return 0;
        default: fputs(usage, stderr); return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "kiln-info: unexpected argument \"%s\"\n%s", argv[optind], usage);
        return 2;
    }
    return print_all(json);
}
