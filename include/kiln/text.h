/// @file text.h
/// Tables of CSV files, and texts as numbers.
///
///     kiln_table *t = kiln_csv_load("iris.csv", NULL);
///     kiln_tensor *x = kiln_table_matrix(t, dev, KILN_F32, KILN_TEXTS("sepal_length", "sepal_width"));
///     kiln_tensor *y = kiln_table_codes(t, dev, kiln_table_find(t, "species"));
///     kiln_table_free(&t);
///
///     kiln_vocabulary *v = kiln_vocabulary_of_file("book.txt");
///     kiln_tensor *ids = kiln_encode_file(v, dev, "book.txt", NULL);        // i64[characters]
///     char *again = kiln_decode(v, ids, NULL);
///     free(again);
///     kiln_vocabulary_free(&v);
///
/// Files are not trusted: see kiln/io.h, also for what errors mean. Tables and vocabularies do not change once they are
/// made and may be used by several threads.
#ifndef KILN_TEXT_H
#define KILN_TEXT_H

#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A list of texts, as two arguments: the texts and the count.
#define KILN_TEXTS(...) KILN_LIST_(const char *, __VA_ARGS__), KILN_COUNT_(const char *, __VA_ARGS__)

// --- tables

typedef struct kiln_table kiln_table;

/// What a column holds.
typedef enum kiln_column {
    KILN_COLUMN_AUTO = 0,  ///< the first of these that all its fields are
    KILN_COLUMN_BOOL = 1,  ///< true and false in any case; where it is asked for also 1 and 0
    KILN_COLUMN_INT = 2,   ///< i64
    KILN_COLUMN_FLOAT = 3, ///< f64, also inf and nan; a number that is missing is NaN
    KILN_COLUMN_TEXT = 4,
} kiln_column;

typedef struct kiln_csv_opts {
    size_t size KILN_0;
    char delimiter KILN_0;           ///< 0: a comma
    bool no_header KILN_0;           ///< the first line holds values; columns are named "0", "1", ...
    const kiln_column *types KILN_0; ///< of the first n_types columns; the others are AUTO
    size_t n_types KILN_0;
    kiln_names missing KILN_0; ///< texts that stand for nothing, as KILN_NAMES("NA", "?")
} kiln_csv_opts;
#define KILN_CSV(...) KILN_OPTS_(kiln_csv_opts, __VA_ARGS__)

/// Reads a table in the form of RFC 4180: fields between delimiters, lines that end with a line feed, or a carriage
/// return and one; in quotes a field may hold all three, and a quote by two. A byte order mark and empty lines are
/// passed over, spaces around numbers too. A field without quotes in which nothing stands is missing, in a column of
/// integers or bools an error where the type is given, else the column is of floats or texts. Decimal points are points
/// whatever the locale says. Errors, with line and column: KILN_E_FORMAT for lines of different lengths, quotes that do
/// not end or stand where none may, bytes of 0, and fields that are not of the type that was given.
KILN_API kiln_table *kiln_csv_load(const char *path, const kiln_csv_opts *opts);
/// Frees and nulls the pointer; NULL is fine.
KILN_API void kiln_table_free(kiln_table **table);

KILN_API int64_t kiln_table_rows(const kiln_table *table);
KILN_API size_t kiln_table_columns(const kiln_table *table);
/// Name and type of a column; the name is borrowed until the table is freed. Errors: KILN_E_ARGUMENT out of range.
KILN_API const char *kiln_table_name(const kiln_table *table, size_t column);
KILN_API kiln_column kiln_table_type(const kiln_table *table, size_t column);
/// The first column of a name. Errors: KILN_E_ARGUMENT where there is none, and SIZE_MAX, which is no column.
KILN_API size_t kiln_table_find(const kiln_table *table, const char *name);
/// A field as it stands in the file, without quotes; borrowed until the table is freed.
KILN_API const char *kiln_table_text(const kiln_table *table, int64_t row, size_t column);

/// A column: bool, i64 or f64 [rows]. Errors: KILN_E_DTYPE for a column of texts.
KILN_API kiln_tensor *kiln_table_column(const kiln_table *table, kiln_device *dev, size_t column);
/// Where a column has no value: bool [rows].
KILN_API kiln_tensor *kiln_table_missing(const kiln_table *table, kiln_device *dev, size_t column);
/// The different texts of a column, of any type, numbered from 0 in the order in which they come first: i64 [rows].
/// What is missing has -1.
KILN_API kiln_tensor *kiln_table_codes(const kiln_table *table, kiln_device *dev, size_t column);
/// n columns by name, side by side: f32 or f64 [rows, n].
KILN_API kiln_tensor *kiln_table_matrix(const kiln_table *table, kiln_device *dev, kiln_dtype dtype,
                                        const char *const *names, size_t n);

/// Writes n tensors of one length, of rank 1, as columns with a header; numbers in as few digits as give the same
/// number again. .delimiter and .no_header count. Errors: KILN_E_SHAPE, KILN_E_ARGUMENT for names as in kiln_npz_save.
KILN_API kiln_status kiln_csv_save(const char *path, const char *const *names, kiln_tensor *const *tensors, size_t n,
                                   const kiln_csv_opts *opts);

// --- texts

/// What stands for what: the bytes, or a set of characters, with their numbers.
typedef struct kiln_vocabulary kiln_vocabulary;

/// The 256 bytes: what is no UTF-8 is a text too.
KILN_API kiln_vocabulary *kiln_vocabulary_bytes(void);
/// The characters (code points) that occur in a text of UTF-8, in their order. Errors: KILN_E_FORMAT, with the offset,
/// for what is no UTF-8 and for characters 0.
KILN_API kiln_vocabulary *kiln_vocabulary_characters(const char *text, size_t size_B);
/// The same of a file.
KILN_API kiln_vocabulary *kiln_vocabulary_of_file(const char *path);
/// Frees and nulls the pointer; NULL is fine.
KILN_API void kiln_vocabulary_free(kiln_vocabulary **vocabulary);
KILN_API int64_t kiln_vocabulary_count(const kiln_vocabulary *vocabulary);
/// All its characters in order, as UTF-8: what kiln_vocabulary_characters makes the same vocabulary of, and what goes
/// into a checkpoint. Borrowed until the vocabulary is freed; "" for the bytes.
KILN_API const char *kiln_vocabulary_text(const kiln_vocabulary *vocabulary);

typedef struct kiln_encode_opts {
    size_t size KILN_0;
    bool drop_unknown KILN_0; ///< leave out characters that are not in the vocabulary
} kiln_encode_opts;
#define KILN_ENCODE(...) KILN_OPTS_(kiln_encode_opts, __VA_ARGS__)
/// The numbers of a text: i64 [characters]. Errors: KILN_E_FORMAT as above, KILN_E_ARGUMENT, with the offset, for a
/// character that is not in the vocabulary.
KILN_API kiln_tensor *kiln_encode(const kiln_vocabulary *vocabulary, kiln_device *dev, const char *text, size_t size_B,
                                  const kiln_encode_opts *opts);
/// The same of a file.
KILN_API kiln_tensor *kiln_encode_file(const kiln_vocabulary *vocabulary, kiln_device *dev, const char *path,
                                       const kiln_encode_opts *opts);
/// The text of integers of any shape, in row-major order, ended by a byte of 0; the caller frees it with free(). Its
/// length goes to *size_B (NULL: not asked for). NULL and KILN_E_ARGUMENT for a number that stands for nothing.
KILN_API char *kiln_decode(const kiln_vocabulary *vocabulary, const kiln_tensor *ids, size_t *size_B);

#ifdef __cplusplus
}
#endif
#endif
