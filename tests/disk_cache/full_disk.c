// Preloaded into a program: a file takes some bytes and no more, as on a disk that is full.
#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROOM_B 100

__attribute__((visibility("default"))) ssize_t write(int fd, const void *data, size_t size_B)
{
    struct stat st;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode)) {
        if (st.st_size >= ROOM_B) {
            errno = ENOSPC;
            return -1;
        }
        if (size_B > ROOM_B) size_B = ROOM_B;
    }
    return syscall(SYS_write, fd, data, size_B);
}
