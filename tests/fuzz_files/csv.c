// CSV: each field of a table that loads is there, columns agree with their types, and a table of its numbers is saved
// and loads again as the same. The first byte chooses the options.
#include "fuzz_file.h"

#include <kiln/text.h>

static kiln_table *load(const char *path, unsigned choice)
{
    static const kiln_column types[] = {KILN_COLUMN_AUTO, KILN_COLUMN_FLOAT, KILN_COLUMN_TEXT};
    return kiln_csv_load(path, KILN_CSV(.delimiter = choice & 1 ? ';' : '\0', .no_header = choice & 2, .types = types,
                                        .n_types = choice & 4 ? 3 : 0, .missing = KILN_NAMES("NA", "?")));
}

static void save_again(kiln_tensor **columns, size_t n)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    NEED(!kiln_csv_save(fuzz_saved[0], names, columns, n, NULL));
    kiln_table *t = kiln_csv_load(fuzz_saved[0], NULL);
    NEED(t != NULL && kiln_table_columns(t) == n && kiln_table_rows(t) == kiln_dim(columns[0], 0));
    kiln_tensor *matrix = kiln_table_matrix(t, NULL, KILN_F64, names, n), *again;
    NEED(matrix != NULL);
    for (size_t c = 0; c < n; c++) {
        again = kiln_table_column(t, NULL, c);
        NEED(again != NULL);
        // Where all were whole or true the type may be another, but the numbers are the same.
        if (kiln_tensor_dtype(again) == kiln_tensor_dtype(columns[c]) && kiln_tensor_dtype(again) != KILN_F64)
            fuzz_need_same_tensors(again, columns[c]);
    }
    kiln_table_free(&t);
}

static void check(kiln_table *t)
{
    kiln_tensor *columns[4];
    size_t n = 0;
    int64_t rows = kiln_table_rows(t);
    for (size_t c = 0; c < kiln_table_columns(t); c++) {
        NEED(kiln_table_name(t, c) != NULL);
        for (int64_t row = 0; row < rows; row++) NEED(kiln_table_text(t, row, c) != NULL);
        if (c >= 8) continue; // enough
        kiln_tensor *codes = kiln_table_codes(t, NULL, c), *missing = kiln_table_missing(t, NULL, c);
        NEED(codes && missing && kiln_numel(codes) == rows && kiln_numel(missing) == rows);
        kiln_column type = kiln_table_type(t, c);
        kiln_tensor *column = kiln_table_column(t, NULL, c);
        if (type == KILN_COLUMN_TEXT)
            FUZZ_REFUSED(KILN_E_DTYPE);
        else
            NEED(column && kiln_numel(column) == rows);
        if (column && n < 4) columns[n++] = column;
    }
    if (n) save_again(columns, n);
    NEED(!kiln_error());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    fuzz_begin();
    kiln_table *t = size_B ? load(fuzz_input(data + 1, size_B - 1), data[0]) : NULL;
    if (t)
        check(t);
    else if (size_B)
        FUZZ_REFUSED(FUZZ_BAD_FILE, KILN_E_ARGUMENT);
    kiln_table_free(&t);
    fuzz_end();
    return 0;
}
