// kiln-prof: the table of a profile that lies in a file.
#include <kiln/debug.h>
#include <kiln/profile.h>

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: kiln-prof FILE [--by kernel|op|line|cell] [--top N] [--csv] [--no-ceilings]\n"
    "The launches and copies of a profile, as KILN_PROFILE=FILE and kiln_profile_begin leave it, as a table: calls,\n"
    "time, its share, bytes and operations a second, and the share of what the device can do at best.\n"
    "  --by WHAT      a row for each kernel (the default), op, line of the program or cell\n"
    "  --top N        the N rows that took longest, and the others as one\n"
    "  --csv          as comma-separated values\n"
    "  --no-ceilings  do not measure what the device can do at best\n"
    "  --version      print the version and exit\n"
    "  --help         print this text and exit\n";

static void print_version(void *user, const kiln_fact *f)
{
    (void)user;
    if (!strcmp(f->name, "kiln version")) printf("kiln-prof %s\n", f->text);
}

static int reject(const char *what, const char *value)
{
    fprintf(stderr, "kiln-prof: %s \"%s\"\n%s", what, value, usage);
    return 2;
}

static int reject_all(const char *what)
{
    fprintf(stderr, "kiln-prof: %s\n%s", what, usage);
    return 2;
}

static bool parse_by(const char *text, kiln_profile_by *by)
{
    static const char *const names[] = {"kernel", "op", "line", "cell"};
    for (int i = 0; i < 4; i++) {
        *by = (kiln_profile_by)i;
        if (!strcmp(text, names[i])) return true;
    }
    return false;
}

static bool parse_count(const char *text, size_t *n)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    *n = (size_t)v;
    return *text >= '0' && *text <= '9' && !*end && !errno && v > 0;
}

// 0 to go on, else the exit status plus one.
static int take_option(int c, kiln_profile_print_opts *o)
{
    switch (c) {
    case 'b': return parse_by(optarg, &o->by) ? 0 : 1 + reject("not kernel, op, line or cell:", optarg);
    case 't': return parse_count(optarg, &o->top) ? 0 : 1 + reject("not a number of rows:", optarg);
    case 'c': o->csv = true; return 0;
    case 'n': o->no_ceilings = true; return 0;
    case 'h': fputs(usage, stdout); return 1;
    case 'v': kiln_library_facts(print_version, NULL); return 1;
    default: fputs(usage, stderr); return 3;
    }
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"by", 1, NULL, 'b'},   {"top", 1, NULL, 't'},     {"csv", 0, NULL, 'c'}, {"no-ceilings", 0, NULL, 'n'},
        {"help", 0, NULL, 'h'}, {"version", 0, NULL, 'v'}, {NULL, 0, NULL, 0}};
    kiln_profile_print_opts o = *KILN_PROFILE_PRINT();
    unsetenv("KILN_PROFILE"); // this program's own would be written over the file that it reads
    for (int c; (c = getopt_long(argc, argv, "h", names, NULL)) != -1;) {
        int status = take_option(c, &o);
        if (status) return status - 1;
    }
    if (optind == argc) return reject_all("no file is given");
    if (optind + 1 < argc) return reject("unexpected argument", argv[optind + 1]);
    if (!kiln_profile_print_file(argv[optind], stdout, &o)) return 0;
    fprintf(stderr, "kiln-prof: %s\n", kiln_error_message());
    return 1;
}
