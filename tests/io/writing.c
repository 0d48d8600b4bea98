// Writing that fails, links, permissions, pending errors.
#include "files.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t files_in_folder(void)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

void full_disk_leaves_the_old_file(void **state)
{
    static float many[100000];
    kiln_tensor *t = kiln_from_data(dev, KILN_F32, KILN_SHAPE(100000), many);
    make_checkpoint();
    size_t before = files_in_folder(), old_B, new_B;
    unsigned char *old = load_bytes(temp("run.ckpt"), &old_B);
    kiln_checkpoint *c = kiln_checkpoint_create();
    assert_int_equal(kiln_checkpoint_put(c, (const char *[]){"w"}, &t, 1), KILN_OK);

    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    kiln_status status = kiln_checkpoint_save(c, temp("run.ckpt"));
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, handler);

    assert_int_equal(status, KILN_E_IO);
    assert_non_null(strstr(kiln_error_message(), "run.ckpt"));
    assert_error(KILN_E_IO, "File too large");
    assert_int_equal(files_in_folder(), before);
    unsigned char *now = load_bytes(temp("run.ckpt"), &new_B);
    assert_int_equal(new_B, old_B);
    assert_memory_equal(now, old, old_B);
    free(old);
    free(now);

    assert_int_equal(kiln_checkpoint_save(c, "/dev/full"), KILN_E_IO);
    assert_error(KILN_E_IO, "No space left");
    assert_int_equal(kiln_checkpoint_save(c, temp("run.ckpt")), KILN_OK);
    kiln_checkpoint_free(&c);
    kiln_free(&t);
}

void paths_that_cannot_be(void **state)
{
    kiln_tensor *t = sample_tensor(&samples[8]);
    kiln_npy_save(temp("no/such/folder.npy"), t);
    assert_error(KILN_E_MISSING, "No such file");
    kiln_npy_save(folder, t);
    assert_error(KILN_E_IO, "Is a directory");
    kiln_npy_save(NULL, t);
    assert_error(KILN_E_ARGUMENT, "npy_save: the path is NULL");
    kiln_npy_save(temp("x.npy"), NULL);
    assert_error(KILN_E_ARGUMENT, "NULL");
    assert_null(kiln_npy_load(dev, folder));
    assert_error(KILN_E_IO, "not a regular file");
    assert_null(kiln_npy_load(dev, NULL));
    assert_error(KILN_E_ARGUMENT, "npy_load: the path is NULL");
    assert_null(kiln_archive_get(NULL, dev, "a"));
    assert_error(KILN_E_ARGUMENT, "the archive is NULL");
    kiln_free(&t);
}

void links_and_permissions_stay(void **state)
{
    kiln_tensor *t = sample_tensor(&samples[8]), *u = sample_tensor(&samples[9]);
    assert_int_equal(kiln_npy_save(temp("real.npy"), t), KILN_OK);
    assert_int_equal(chmod(temp("real.npy"), 0640), 0);
    assert_int_equal(symlink("real.npy", temp("link.npy")), 0);
    assert_int_equal(kiln_npy_save(temp("link.npy"), u), KILN_OK);
    struct stat st;
    assert_int_equal(lstat(temp("link.npy"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(temp("real.npy"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    kiln_tensor *back = kiln_npy_load(dev, temp("real.npy"));
    assert_sample(back, &samples[9]);
    free_all((kiln_tensor *[]){t, u, back}, 3);
}

// While an error is pending nothing is read or written.
void pending_errors_stop_all(void **state)
{
    kiln_tensor *t = sample_tensor(&samples[8]);
    kiln_checkpoint *c = kiln_checkpoint_create();
    assert_null(kiln_npy_load(dev, NULL));
    assert_int_equal(kiln_npy_save(temp("pending.npy"), t), KILN_E_ARGUMENT);
    assert_int_equal(kiln_checkpoint_save(c, temp("pending.npy")), KILN_E_ARGUMENT);
    assert_null(kiln_npz_load(golden("stored.npz")));
    assert_null(kiln_idx_load(dev, golden("images.idx")));
    assert_null(kiln_checkpoint_create());
    assert_error(KILN_E_ARGUMENT, "npy_load: the path is NULL");
    assert_int_equal(access(temp("pending.npy"), F_OK), -1);
    kiln_checkpoint_free(&c);
    kiln_free(&t);
}
