// Dtypes that an op does not take, labels and ids, and numbers that a dtype does not hold.
#include "mistakes.h"

static void ids_as_floats(void)
{
    AT(kiln_embedding(F32(10, 4), F32(3)));
}

static void labels_as_floats(void)
{
    AT(kiln_cross_entropy(F32(4, 10), F32(4), NULL));
}

static void labels_in_a_column(void)
{
    AT(kiln_cross_entropy(F32(4, 10), I64(4, 1), NULL));
}

static void labels_as_one_hot_integers(void)
{
    AT(kiln_cross_entropy(F32(4, 10), I64(4, 10), NULL));
}

static void logits_and_labels_exchanged(void)
{
    AT(kiln_cross_entropy(I64(4), F32(4, 10), NULL));
}

static void label_out_of_range(void)
{
    const int64_t labels[] = {0, 9, 10, 3};
    kiln_tensor *loss =
        AT(kiln_cross_entropy(F32(4, 10), kiln_from_bytes(dev, KILN_I64, KILN_SHAPE(4), KILN_BYTES(labels)), NULL));
    kiln_item(loss);
}

static void negative_label(void)
{
    const int64_t labels[] = {0, -100};
    kiln_tensor *loss =
        AT(kiln_cross_entropy(F32(2, 10), kiln_from_bytes(dev, KILN_I64, KILN_SHAPE(2), KILN_BYTES(labels)), NULL));
    kiln_item(loss);
}

static void id_out_of_range(void)
{
    const int64_t ids[] = {3, 10};
    kiln_tensor *rows = AT(kiln_embedding(F32(10, 4), kiln_from_bytes(dev, KILN_I64, KILN_SHAPE(2), KILN_BYTES(ids))));
    kiln_item(kiln_sum(rows, NULL));
}

static void index_to_gather_out_of_range(void)
{
    const int64_t at[] = {0, 3};
    kiln_tensor *got = AT(kiln_gather(F32(3), 0, kiln_from_bytes(dev, KILN_I64, KILN_SHAPE(2), KILN_BYTES(at))));
    kiln_item(kiln_sum(got, NULL));
}

static void mask_as_floats(void)
{
    AT(kiln_where(F32(3), F32(3), F32(3)));
}

static void floats_into_integers_in_place(void)
{
    AT(kiln_add_(I64(3), F32(3)));
}

static void fraction_into_integers_in_place(void)
{
    AT(kiln_mul_(I64(3), kiln_scalar(.5)));
}

static void integers_of_32_bits_as_64(void)
{
    const int labels[] = {3, 1, 4, 1};
    AT(kiln_from_bytes(dev, KILN_I64, KILN_SHAPE(4), KILN_BYTES(labels)));
}

static void doubles_as_floats(void)
{
    const double v[] = {1, 2, 3};
    AT(kiln_from_bytes(dev, KILN_F32, KILN_SHAPE(3), KILN_BYTES(v)));
}

static void data_that_is_null(void)
{
    AT(kiln_from_data(dev, KILN_F32, KILN_SHAPE(3), NULL));
}

static void number_that_i64_holds_and_double_does_not(void)
{
    AT(kiln_full(dev, KILN_I64, KILN_SHAPE(2), 9007199254740993.0));
}

static void number_beyond_the_dtype(void)
{
    AT(kiln_full(dev, KILN_U8, KILN_SHAPE(2), 300));
}

static void fraction_for_integers(void)
{
    AT(kiln_full(dev, KILN_I32, KILN_SHAPE(2), 2.5));
}

static void a_dtype_that_is_none(void)
{
    AT(kiln_zeros(dev, (kiln_dtype)99, KILN_SHAPE(2)));
}

static void f64_input_of_an_f32_network(void)
{
    kiln_cell *net = kiln_nn_dense(dev, 3, 4, NULL);
    AT(kiln_cell_call(net, kiln_ones(dev, KILN_F64, KILN_SHAPE(2, 3))));
    kiln_cell_free(&net);
}

static void read_into_an_array_of_other_size(void)
{
    float v[4];
    AT(kiln_read(F32(2, 3), v, sizeof v));
}

static void read_of_doubles_from_floats(void)
{
    double v[6];
    AT(kiln_read(F32(2, 3), v, sizeof v));
}

static void item_of_several(void)
{
    AT(kiln_item(F32(2, 3)));
}

static void write_of_another_size(void)
{
    const float v[] = {1, 2};
    AT(kiln_write(F32(3), v, sizeof v));
}

static void complex_numbers_where_there_are_none(void)
{
    AT(kiln_maximum(kiln_zeros(dev, KILN_C64, KILN_SHAPE(2)), kiln_zeros(dev, KILN_C64, KILN_SHAPE(2))));
}

static void arithmetic_on_a_storage_dtype(void)
{
    AT(kiln_add(kiln_zeros(dev, KILN_F8_E4M3, KILN_SHAPE(2)), F32(2)));
}

static void bits_of_floats(void)
{
    AT(kiln_bitwise_and(F32(2), F32(2)));
}

static void one_hot_of_floats(void)
{
    AT(kiln_one_hot(F32(3), 10));
}

static void probability_above_1(void)
{
    AT(kiln_dropout(F32(3), 1.5));
}

static void bounds_the_wrong_way_round(void)
{
    AT(kiln_uniform(dev, KILN_F32, KILN_SHAPE(2), 1, -1));
}

static void integers_of_an_empty_range(void)
{
    AT(kiln_randint(dev, KILN_I64, KILN_SHAPE(2), 5, 5));
}

// clang-format takes rows without commas for calls.
// clang-format off
const struct mistake mistakes_in_dtypes[] = {
    ROW(ids_as_floats, KILN_E_DTYPE, WHAT_TO_DO,
        "embedding: ids must be integers, it is f32[3] ({here})")
    ROW(labels_as_floats, KILN_E_SHAPE, WHAT_TO_DO,
        "cross_entropy: logits is f32[4,10], labels is f32[4]: class indices are integers of the shape without axis "
        "1, probabilities are floats of the same shape; kiln_cast makes integers of labels ({here})")
    ROW(labels_in_a_column, KILN_E_SHAPE, WHAT_TO_DO,
        "cross_entropy: logits is f32[4,10], labels is i64[4,1]: class indices are integers of the shape without "
        "axis 1, probabilities are floats of the same shape; kiln_squeeze(labels, KILN_AXES(1)) takes the last axis "
        "away ({here})")
    ROW(labels_as_one_hot_integers, KILN_E_SHAPE, WHAT_TO_DO,
        "cross_entropy: logits is f32[4,10], labels is i64[4,10]: class indices are integers of the shape without "
        "axis 1, probabilities are floats of the same shape; kiln_cast makes floats of labels, kiln_argmax indices "
        "({here})")
    ROW(logits_and_labels_exchanged, KILN_E_SHAPE, WHAT,
        "cross_entropy: logits is i64[4], labels is f32[4,10]: class indices are integers of the shape without axis "
        "0, probabilities are floats of the same shape; the logits come first ({here})")
    ROW_ON(ON_CPU, label_out_of_range, KILN_E_ARGUMENT, WHAT,
        "cross_entropy: label 10 at [2] is out of range for 10 classes ({here})")
    ROW_ON(ON_CPU, negative_label, KILN_E_ARGUMENT, WHAT,
        "cross_entropy: label -100 at [1] is out of range for 10 classes; options .ignore and .ignore_index leave a "
        "label out ({here})")
    ROW_ON(ON_CPU, id_out_of_range, KILN_E_ARGUMENT, WHAT,
        "embedding: index 10 is out of range for an axis of 10 elements ({here})")
    ROW_ON(ON_CPU, index_to_gather_out_of_range, KILN_E_ARGUMENT, WHAT,
        "gather: index 3 is out of range for an axis of 3 elements ({here})")
    ROW(mask_as_floats, KILN_E_DTYPE, WHAT_TO_DO,
        "where: condition must be bool, it is f32[3] ({here})")
    ROW(floats_into_integers_in_place, KILN_E_DTYPE, WHAT,
        "add_: a result of f32 does not go into i64 ({here})")
    ROW(fraction_into_integers_in_place, KILN_E_DTYPE, WHAT,
        "mul_: a result of f32 does not go into i64 ({here})")
    ROW(integers_of_32_bits_as_64, KILN_E_SHAPE, WHAT_TO_DO,
        "from_bytes: i64[4] takes 32 bytes, data has 16 ({here})")
    ROW(doubles_as_floats, KILN_E_SHAPE, WHAT_TO_DO,
        "from_bytes: f32[3] takes 12 bytes, data has 24 ({here})")
    ROW(data_that_is_null, KILN_E_ARGUMENT, WHAT,
        "from_data: data is NULL ({here})")
    ROW(number_that_i64_holds_and_double_does_not, KILN_OK, WHAT_TO_DO,
        "full: 9007199254740992 is 2^53 or more, from where doubles leave out integers; kiln_full_int takes each")
    ROW(number_beyond_the_dtype, KILN_E_ARGUMENT, WHAT_TO_DO,
        "full: 300 does not go into u8, which holds 0 to 255 ({here})")
    ROW(fraction_for_integers, KILN_OK, WHAT,
        "full: 2.5 is no integer, i32 holds 2")
    ROW(a_dtype_that_is_none, KILN_E_DTYPE, WHAT_TO_DO,
        "zeros: dtype 99 is not one of kiln_dtype ({here})")
    ROW(f64_input_of_an_f32_network, KILN_OK, WHAT_TO_DO,
        "dense 3 → 4: input 0 is f64 and the parameters are f32: all is computed in f64; kiln_cast(x, KILN_F32) "
        "keeps it as it is ({here})")
    ROW(read_into_an_array_of_other_size, KILN_E_ARGUMENT, WHAT_TO_DO,
        "read: f32[2,3] takes 24 bytes, size_B is 16 ({here})")
    ROW(read_of_doubles_from_floats, KILN_E_ARGUMENT, WHAT_TO_DO,
        "read: f32[2,3] takes 24 bytes, size_B is 48 ({here})")
    ROW(item_of_several, KILN_E_SHAPE, WHAT,
        "item: t has not one element: f32[2,3] ({here})")
    ROW(write_of_another_size, KILN_E_ARGUMENT, WHAT_TO_DO,
        "write: f32[3] takes 12 bytes, size_B is 8 ({here})")
    ROW(complex_numbers_where_there_are_none, KILN_E_DTYPE, WHAT_TO_DO,
        "maximum: takes no complex numbers, a is c64[2] (kiln_view_as_real has its pairs) ({here})")
    ROW(arithmetic_on_a_storage_dtype, KILN_E_DTYPE, WHAT_TO_DO,
        "add: takes no f8_e4m3fn, a is f8_e4m3fn[2]: convert it by kiln_cast ({here})")
    ROW(bits_of_floats, KILN_E_DTYPE, WHAT_TO_DO,
        "bitwise_and: takes integers and bool, not f32 ({here})")
    ROW(one_hot_of_floats, KILN_E_DTYPE, WHAT_TO_DO,
        "one_hot: ids must be integers, it is f32[3] ({here})")
    ROW(probability_above_1, KILN_E_ARGUMENT, WHAT_TO_DO,
        "dropout: p is 1.5, a probability lies in [0, 1] ({here})")
    ROW(bounds_the_wrong_way_round, KILN_E_ARGUMENT, WHAT,
        "uniform: the range from 1 to -1 is empty or not finite ({here})")
    ROW(integers_of_an_empty_range, KILN_E_ARGUMENT, WHAT,
        "randint: the range from 5 to 5 is empty ({here})")
    LAST_ROW
};
// clang-format on
