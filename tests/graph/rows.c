// The rows of the op table as files know them: no name goes, no attribute changes its kind or its default, and what is
// new has a default. The list is tests/golden/ops.txt; ROWS_WRITE names a file to write the list of today to.
#include "ir/op.h"
#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const kinds[] = {"int", "float", "bool", "ints", "dtype"};

static void describe_attr(const struct attr_info *a, struct str *s)
{
    str_addf(s, " %s:%s", a->name, kinds[a->kind]);
    if (!a->has_default) return;
    struct attr d = op_attr_default(a);
    if (a->kind == ATTR_FLOAT)
        str_addf(s, "=%.17g", d.f);
    else if (a->kind == ATTR_INTS) {
        str_add(s, "=[");
        for (int i = 0; i < d.count; i++) str_addf(s, "%s%lld", i ? "," : "", (long long)d.v[i]);
        str_add(s, "]");
    } else
        str_addf(s, "=%lld", (long long)d.i);
}

static void describe(const struct op *op, struct str *s)
{
    str_addf(s, "%s %d..%d %d", op->name, op->min_in, op->max_in, op->n_out);
    for (int i = 0; i < op->n_attrs; i++) describe_attr(&op->attrs[i], s);
}

static void write_list(const char *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < op_count; i++) {
        struct str s;
        str_init(&s);
        describe(op_table[i], &s);
        fprintf(f, "%s\n", str_text(&s));
        str_free(&s);
    }
    fclose(f);
}

static bool listed[OPS_MAX];

static void check_attrs(const struct op *op, char *words, const char *line)
{
    bool known[OP_MAX_ATTRS] = {false};
    for (char *save, *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(word, ":"), word);
        int at = op_attr_index(op, name);
        if (at < 0) fail_msg("%s has no attribute %s any more: files that name it would not be read", op->name, name);
        struct str now;
        str_init(&now);
        describe_attr(&op->attrs[at], &now);
        if (strcmp(str_text(&now) + 1, word)) fail_msg("attribute %s of %s was, in %s", str_text(&now), op->name, line);
        str_free(&now);
        known[at] = true;
    }
    for (int i = 0; i < op->n_attrs; i++)
        if (!known[i] && !op->attrs[i].has_default)
            fail_msg("attribute %s of %s is new and has no default: old files could not be read", op->attrs[i].name,
                     op->name);
}

static void check_line(char *line)
{
    char name[128], copy[1024];
    int min_in, max_in, n_out, used = 0;
    snprintf(copy, sizeof copy, "%s", line);
    assert_int_equal(sscanf(line, "%127s %d..%d %d%n", name, &min_in, &max_in, &n_out, &used), 4);
    const struct op *op = op_find(name);
    if (!op || strcmp(op->name, name))
        fail_msg("there is no row %s any more: files that use it would not be read", name);
    if (op->min_in > min_in || op->max_in < max_in) fail_msg("%s takes other numbers of inputs than %s", name, copy);
    if (op->n_out != n_out) fail_msg("%s has %d outputs, not those of %s", name, op->n_out, copy);
    listed[op->index] = true;
    check_attrs(op, line + used, copy);
}

static void rows_keep_what_files_say_of_them(void **state)
{
    const char *to = getenv("ROWS_WRITE");
    char path[4096], line[1024];
    if (to) write_list(to);
    snprintf(path, sizeof path, "%s/golden/ops.txt", getenv("KILN_TEST_SOURCE_DIR"));
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s is missing", path);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        check_line(line);
    }
    fclose(f);
    for (int i = 0; i < op_count; i++)
        if (!listed[i]) fail_msg("%s is new: add its line to tests/golden/ops.txt (ROWS_WRITE)", op_table[i]->name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_keep_what_files_say_of_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
