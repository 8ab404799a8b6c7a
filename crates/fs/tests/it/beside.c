/* Library and mount see what the other one closed: beside TARGET DATA MOUNT */
#include <errno.h>
#include <esker_fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CHECK(what)                                                                            \
    do {                                                                                       \
        if (!(what)) {                                                                         \
            fprintf(stderr, "line %d: %s: errno %d, %s\n", __LINE__, #what, errno, esker_fs_last_error()); \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

static esker_fs *fs;
static const char *mount;

static const char *below(const char *path)
{
    static char whole[4096];
    snprintf(whole, sizeof whole, "%s%s", mount, path);
    return whole;
}

static void by_library(const char *path, const char *bytes, size_t size)
{
    esker_fs_file *f = esker_fs_open_file(fs, path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    CHECK(f && esker_fs_write(f, bytes, size) == (ssize_t)size && esker_fs_close_file(f) == 0);
}

static void by_mount(const char *path, const char *bytes, size_t size)
{
    int f = open(below(path), O_CREAT | O_WRONLY | O_TRUNC, 0644);
    CHECK(f >= 0 && write(f, bytes, size) == (ssize_t)size && close(f) == 0);
}

static void demand_both(const char *path, const char *bytes, size_t size)
{
    char *got = malloc(size + 1);
    esker_fs_file *f = esker_fs_open_file(fs, path, O_RDONLY, 0);
    CHECK(f && esker_fs_read(f, got, size + 1) == (ssize_t)size && memcmp(got, bytes, size) == 0);
    CHECK(esker_fs_close_file(f) == 0);
    int m = open(below(path), O_RDONLY);
    CHECK(m >= 0 && read(m, got, size + 1) == (ssize_t)size && memcmp(got, bytes, size) == 0);
    CHECK(close(m) == 0);
    free(got);
}

int main(int argc, char **argv)
{
    esker_fs_options options = ESKER_FS_OPTIONS_INIT;
    CHECK(argc == 4);
    options.data = argv[2];
    mount = argv[3];
    fs = esker_fs_open(argv[1], &options);
    CHECK(fs != NULL);
    enum { LARGE = 100000 };
    char *bytes = malloc(LARGE);
    for (int i = 0; i < LARGE; i++)
        bytes[i] = (char)(i * 13 + i / 777);

    by_library("/from-library", bytes, 60);
    demand_both("/from-library", bytes, 60);
    by_mount("/from-mount", bytes, 70);
    demand_both("/from-mount", bytes, 70);
    /* Large contents; each side overwrites what the other wrote. */
    by_mount("/from-library", bytes, LARGE);
    demand_both("/from-library", bytes, LARGE);
    by_library("/from-mount", bytes, LARGE);
    demand_both("/from-mount", bytes, LARGE);
    by_library("/from-mount", bytes + 1, 3);
    demand_both("/from-mount", bytes + 1, 3);
    for (int i = 1; i < 20; i++) {
        by_library("/turns", bytes + i, 500 * i);
        demand_both("/turns", bytes + i, 500 * i);
        by_mount("/turns", bytes + 2 * i, 400 * i);
        demand_both("/turns", bytes + 2 * i, 400 * i);
    }

    /* A file has the same number on both sides; tags are visible; removed files are absent. */
    struct stat a, b;
    CHECK(esker_fs_stat(fs, "/turns", &a) == 0 && stat(below("/turns"), &b) == 0);
    CHECK(a.st_ino == b.st_ino && a.st_mode == b.st_mode && a.st_size == b.st_size);
    CHECK(setxattr(below("/turns"), "user.esker.campaign", "winter24", 8, 0) == 0);
    char value[10];
    CHECK(esker_fs_getxattr(fs, "/turns", "user.esker.campaign", value, 10, 0) == 8 && memcmp(value, "winter24", 8) == 0);
    char *from = strdup(below("/turns"));
    CHECK(esker_fs_mkdir(fs, "/dir", 0755) == 0 && rename(from, below("/dir/turns")) == 0);
    CHECK(esker_fs_stat(fs, "/dir/turns", &b) == 0 && a.st_ino == b.st_ino);
    CHECK(esker_fs_stat(fs, "/turns", &b) < 0 && errno == ENOENT);
    CHECK(esker_fs_unlink(fs, "/dir/turns") == 0 && open(below("/dir/turns"), O_RDONLY) < 0 && errno == ENOENT);
    CHECK(rmdir(below("/dir")) == 0 && esker_fs_opendir(fs, "/dir") == NULL && errno == ENOENT);
    CHECK(esker_fs_close(fs) == 0);
    puts("both see the same");
    return 0;
}
