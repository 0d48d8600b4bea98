// Loaders.
#include "mistakes.h"

static kiln_loader *loader(const kiln_loader_opts *opts)
{
    kiln_tensor *sets[] = {F32(10, 3), I64(10)};
    return kiln_loader_create(dev, sets, 2, opts);
}

static void sets_of_other_lengths(void)
{
    kiln_tensor *sets[] = {F32(10, 3), I64(9)};
    AT(kiln_loader_create(dev, sets, 2, NULL));
}

static void batch_larger_than_the_set(void)
{
    kiln_tensor *sets[] = {F32(10, 3)};
    kiln_tensor *batch[1];
    bool more;
    kiln_loader *l = kiln_loader_create(dev, sets, 1, KILN_LOADER(.batch = 64, .drop_last = true));
    AT(kiln_loader_next(l, batch, 1, &more));
    kiln_loader_free(&l);
}

static void negative_batch(void)
{
    kiln_tensor *sets[] = {F32(10, 3)};
    AT(kiln_loader_create(dev, sets, 1, KILN_LOADER(.batch = -1)));
}

static void too_many_workers(void)
{
    kiln_tensor *sets[] = {F32(10, 3)};
    AT(kiln_loader_create(dev, sets, 1, KILN_LOADER(.workers = 1000)));
}

static void fields_of_another_number(void)
{
    kiln_tensor *batch[1];
    bool more;
    kiln_loader *l = loader(NULL);
    AT(kiln_loader_next(l, batch, 1, &more));
    kiln_loader_free(&l);
}

static void field_that_is_not_there(void)
{
    kiln_loader *l = loader(NULL);
    AT(kiln_loader_convert(l, 2, KILN_F32, NULL));
    kiln_loader_free(&l);
}

static void conversion_after_the_first_batch(void)
{
    kiln_tensor *batch[2];
    bool more;
    kiln_loader *l = loader(NULL);
    kiln_loader_next(l, batch, 2, &more);
    AT(kiln_loader_convert(l, 0, KILN_F64, NULL));
    kiln_loader_free(&l);
}

static void scalars_as_a_set(void)
{
    kiln_tensor *sets[] = {kiln_sum(F32(3), NULL)};
    AT(kiln_loader_create(dev, sets, 1, NULL));
}

static void loader_without_fields(void)
{
    kiln_tensor *batch[1];
    bool more;
    kiln_loader *l = kiln_loader_create(dev, NULL, 0, NULL);
    AT(kiln_loader_next(l, batch, 0, &more));
    kiln_loader_free(&l);
}

static void crop_of_what_is_no_image(void)
{
    kiln_loader *l = loader(NULL);
    AT(kiln_loader_random_crop(l, 0, 4, NULL));
    kiln_loader_free(&l);
}

static kiln_status sample(void *user, int64_t index, void *row, size_t row_B)
{
    (void)user, (void)row, (void)row_B;
    return index == 3 ? KILN_E_IO : KILN_OK;
}

static void sample_that_fails(void)
{
    kiln_tensor *batch[1];
    bool more;
    kiln_loader *l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 4));
    kiln_loader_add_fn(l, KILN_F32, KILN_SHAPE(10, 2), sample, NULL);
    AT(kiln_loader_next(l, batch, 1, &more));
    kiln_loader_free(&l);
}

static void windows_longer_than_the_text(void)
{
    kiln_loader *l = kiln_loader_create(dev, NULL, 0, NULL);
    AT(kiln_loader_add_windows(l, I64(8), 8, 0));
    kiln_loader_free(&l);
}

static void state_beyond_the_set(void)
{
    kiln_loader *l = loader(NULL);
    const kiln_loader_state state = {.size = sizeof state, .position = 11};
    AT(kiln_loader_set_state(l, &state));
    kiln_loader_free(&l);
}

// clang-format takes rows without commas for calls.
// clang-format off
const struct mistake mistakes_in_data[] = {
    ROW(sets_of_other_lengths, KILN_E_SHAPE, WHAT,
        "loader_create: field 1 has 9 samples, those before it have 10 ({here})")
    ROW(batch_larger_than_the_set, KILN_OK, WHAT,
        "loader_next: an epoch has no batch: .drop_last leaves out the only one, which has 10 samples of a batch of "
        "64 ({here})")
    ROW(negative_batch, KILN_E_ARGUMENT, WHAT,
        "loader_create: a batch of -1 samples ({here})")
    ROW(too_many_workers, KILN_E_ARGUMENT, WHAT_TO_DO,
        "loader_create: 1000 workers, from 0 to 256 are allowed ({here})")
    ROW(fields_of_another_number, KILN_E_ARGUMENT, WHAT,
        "loader_next: 1 outputs for 2 fields ({here})")
    ROW(field_that_is_not_there, KILN_E_ARGUMENT, WHAT,
        "loader_convert: there is no field 2, the loader has 2, from 0 ({here})")
    ROW(conversion_after_the_first_batch, KILN_E_STATE, WHAT_TO_DO,
        "loader_convert: the loader has given batches; set it up before the first ({here})")
    ROW(scalars_as_a_set, KILN_E_SHAPE, WHAT,
        "loader: a field of rank 0; the first dimension counts the samples ({here})")
    ROW(loader_without_fields, KILN_E_STATE, WHAT,
        "loader_next: the loader has no fields ({here})")
    ROW(crop_of_what_is_no_image, KILN_E_SHAPE, WHAT,
        "loader_random_crop: field 0 has rank 2, images have 3 or 4 ({here})")
    ROW(sample_that_fails, KILN_E_IO, WHAT,
        "loader: the function of field 0 failed on sample 3 with KILN_E_IO ({here})")
    ROW(windows_longer_than_the_text, KILN_E_SHAPE, WHAT,
        "loader_add_windows: 8 ids hold no window of 8 and one more ({here})")
    ROW(state_beyond_the_set, KILN_E_ARGUMENT, WHAT,
        "loader_set_state: position 11 in a set of 10 samples ({here})")
    LAST_ROW
};
// clang-format on
