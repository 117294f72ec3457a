/* What a disk would still have after a loss of power: whenever a file in $SOAK_SYNCED_FROM is synced, its content is
 * copied into $SOAK_SYNCED_TO before the caller goes on. Loaded by LD_PRELOAD; see synced.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_folders(char *path) {
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0777);
            *p = '/';
        }
}

/* Bring the copy up to what the file holds, block by block; who is killed meanwhile never heard that it was synced. The
 * file is read by the caller's own descriptor: to close another one would give up the caller's locks on it. */
static void copy(int fd, char *to) {
    static __thread char now[1 << 16], then[1 << 16];
    struct stat seen;
    make_folders(to);
    int into = open(to, O_RDWR | O_CREAT, 0666);
    if (into < 0 || fstat(fd, &seen)) _exit(97);
    for (off_t at = 0; at < seen.st_size; at += sizeof now) {
        ssize_t got = pread(fd, now, sizeof now, at);
        ssize_t had = pread(into, then, sizeof then, at);
        if (got < 0) _exit(97);
        if ((had != got || memcmp(now, then, got)) && pwrite(into, now, got, at) != got) _exit(97);
    }
    if (ftruncate(into, seen.st_size)) _exit(97);
    close(into);
}

static void note(int fd) {
    const char *root = getenv("SOAK_SYNCED_FROM"), *to = getenv("SOAK_SYNCED_TO");
    char self[64], path[PATH_MAX], copied[PATH_MAX];
    struct stat seen;
    if (!root || !to || fstat(fd, &seen) || !S_ISREG(seen.st_mode)) return;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(self, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    size_t n = strlen(root);
    if (strncmp(path, root, n) || path[n] != '/' || strchr(path + n + 1, '/')) return;
    if (snprintf(copied, sizeof copied, "%s%s", to, path + n) >= (int)sizeof copied) _exit(97);
    copy(fd, copied);
}

static int synced(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int found = real(fd), kept = errno;
    if (!found) note(fd);
    errno = kept;
    return found;
}

int fsync(int fd) { return synced("fsync", fd); }
int fdatasync(int fd) { return synced("fdatasync", fd); }
