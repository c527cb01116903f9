// Makes the k-th call of one function of the C library fail, in a process that preloads this.
//
// INJECT_CALL names the function, INJECT_AT is k (from 1; 0: none fails), INJECT_ERRNO the error,
// INJECT_COUNT a file that gets the number of its calls at the end. Descriptors 0, 1 and 2 do not
// count: messages must come through.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long n_calls;

// True if this call is the one that fails; sets errno.
static int fails(const char *name) {
    const char *wanted = getenv("INJECT_CALL");
    if (wanted == NULL || strcmp(wanted, name) != 0) return 0;
    const char *at = getenv("INJECT_AT"), *code = getenv("INJECT_ERRNO");
    long n = atomic_fetch_add(&n_calls, 1) + 1;
    if (at == NULL || n != atol(at)) return 0;
    errno = code == NULL ? EIO : atoi(code);
    return 1;
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("INJECT_COUNT");
    FILE *file = path == NULL ? NULL : fopen(path, "w");
    if (file == NULL) return;
    fprintf(file, "%ld\n", atomic_load(&n_calls));
    fclose(file);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t n) {
    return fd > 2 && fails("write") ? -1 : REAL(write)(fd, bytes, n);
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    return fd > 2 && fails("write") ? -1 : REAL(writev)(fd, parts, n);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at) {
    return fd > 2 && fails("write") ? -1 : REAL(pwrite64)(fd, bytes, n, at);
}

ssize_t read(int fd, void *bytes, size_t n) {
    return fd > 2 && fails("read") ? -1 : REAL(read)(fd, bytes, n);
}

int fsync(int fd) { return fails("fsync") ? -1 : REAL(fsync)(fd); }

int fdatasync(int fd) { return fails("fsync") ? -1 : REAL(fdatasync)(fd); }

int rename(const char *from, const char *to) {
    return fails("rename") ? -1 : REAL(rename)(from, to);
}

int mkdir(const char *path, mode_t mode) { return fails("mkdir") ? -1 : REAL(mkdir)(path, mode); }

int ftruncate64(int fd, off64_t n) { return fails("ftruncate") ? -1 : REAL(ftruncate64)(fd, n); }

// Opening for writing only: what is read is tested by damaged files.
int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    int writes = (flags & O_ACCMODE) != O_RDONLY;
    return writes && fails("open") ? -1 : REAL(open64)(path, flags, mode);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument) {
    if (fails("pthread_create")) return errno;
    return REAL(pthread_create)(thread, attributes, start, argument);
}
