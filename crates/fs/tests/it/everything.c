/* Every function of the header with its expected result: everything TARGET DATA [behind] */
#include <errno.h>
#include <esker_fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#define CHECK(what)                                                                            \
    do {                                                                                       \
        if (!(what)) {                                                                         \
            fprintf(stderr, "line %d: %s: errno %d, %s\n", __LINE__, #what, errno, esker_fs_last_error()); \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)
/* Expects a call to fail with an errno and a message. */
#define FAILS(what, why) CHECK((errno = 0, (what) < 0) && errno == (why) && esker_fs_last_error()[0] != 0)

static esker_fs *fs;

static void put(const char *path, const char *text, size_t size)
{
    esker_fs_file *f = esker_fs_open_file(fs, path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    CHECK(f != NULL);
    CHECK(esker_fs_write(f, text, size) == (ssize_t)size);
    CHECK(esker_fs_close_file(f) == 0);
}

static void demand(const char *path, const char *text, size_t size)
{
    char *got = malloc(size + 10);
    esker_fs_file *f = esker_fs_open_file(fs, path, O_RDONLY, 0);
    CHECK(f != NULL);
    size_t n = 0;
    ssize_t more;
    while ((more = esker_fs_read(f, got + n, size + 10 - n)) > 0)
        n += more;
    CHECK(more == 0 && n == size && memcmp(got, text, size) == 0);
    CHECK(esker_fs_close_file(f) == 0);
    free(got);
}

static void *one_of_four(void *which)
{
    char path[64];
    for (int i = 0; i < 50; i++) {
        snprintf(path, sizeof path, "/lab/threads/%d.%d", *(int *)which, i);
        put(path, path, strlen(path));
        demand(path, path, strlen(path));
    }
    FAILS(esker_fs_unlink(fs, "/lab/threads"), EISDIR);
    return NULL;
}

int main(int argc, char **argv)
{
    esker_fs_options options = ESKER_FS_OPTIONS_INIT;
    options.data = argv[2];
    int behind = argc > 3 && strcmp(argv[3], "behind") == 0;
    CHECK(esker_fs_version()[0] == '0');

    /* Missing files and invalid arguments. */
    CHECK(esker_fs_open("/nowhere/at/all", NULL) == NULL && errno != 0 && strstr(esker_fs_last_error(), "nowhere"));
    options.size = 3;
    CHECK(esker_fs_open(argv[1], &options) == NULL && errno == EINVAL);
    options.size = sizeof options;
    fs = esker_fs_open(argv[1], &options);
    CHECK(fs != NULL);
    FAILS(esker_fs_stat(fs, NULL, NULL), EFAULT);
    FAILS(esker_fs_stat(NULL, "/", NULL), EINVAL);
    FAILS(esker_fs_mkdir(fs, "", 0755), ENOENT);
    FAILS(esker_fs_mkdir(fs, "lab", 0755), EINVAL);

    /* Names. */
    struct stat st;
    CHECK(esker_fs_mkdir(fs, "/lab", 0755) == 0);
    FAILS(esker_fs_mkdir(fs, "/lab", 0755), EEXIST);
    CHECK(esker_fs_stat(fs, "/lab", &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0755);
    put("/lab/small", "hello", 5);
    demand("/lab/small", "hello", 5);
    CHECK(esker_fs_stat(fs, "/lab/small", &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 5 && st.st_nlink == 1);
    CHECK(esker_fs_open_file(fs, "/lab/small", O_CREAT | O_EXCL | O_WRONLY, 0644) == NULL && errno == EEXIST);
    CHECK(esker_fs_open_file(fs, "/lab/none", O_RDONLY, 0) == NULL && errno == ENOENT);
    CHECK(strstr(esker_fs_last_error(), "/lab/none") != NULL);
    CHECK(esker_fs_open_file(fs, "/lab", O_WRONLY, 0) == NULL && errno == EISDIR);
    CHECK(esker_fs_rename(fs, "/lab/small", "/lab/moved", 0) == 0);
    FAILS(esker_fs_stat(fs, "/lab/small", &st), ENOENT);
    put("/lab/other", "x", 1);
    FAILS(esker_fs_rename(fs, "/lab/other", "/lab/moved", 1), EEXIST);
    FAILS(esker_fs_rename(fs, "/lab/other", "/lab/moved", 64), EINVAL);
    CHECK(esker_fs_link(fs, "/lab/moved", "/lab/linked") == 0);
    CHECK(esker_fs_stat(fs, "/lab/linked", &st) == 0 && st.st_nlink == 2);
    CHECK(esker_fs_unlink(fs, "/lab/moved") == 0);
    demand("/lab/linked", "hello", 5);
    CHECK(esker_fs_symlink(fs, "linked", "/lab/symbolic") == 0);
    char link[16];
    CHECK(esker_fs_readlink(fs, "/lab/symbolic", link, sizeof link) == 6 && memcmp(link, "linked", 6) == 0);
    CHECK(esker_fs_lstat(fs, "/lab/symbolic", &st) == 0 && S_ISLNK(st.st_mode));
    demand("/lab/symbolic", "hello", 5);
    CHECK(esker_fs_open_file(fs, "/lab/symbolic", O_RDONLY | O_NOFOLLOW, 0) == NULL && errno == ELOOP);
    FAILS(esker_fs_rmdir(fs, "/lab"), ENOTEMPTY);
    CHECK(esker_fs_access(fs, "/lab/linked", R_OK | W_OK) == 0);
    FAILS(esker_fs_access(fs, "/lab/linked", X_OK), EACCES);
    CHECK(esker_fs_chmod(fs, "/lab/linked", 0600) == 0);
    CHECK(esker_fs_chown(fs, "/lab/linked", 12, -1, 0) == 0);
    struct timespec times[2] = { { 1, 2 }, { 3, 4 } };
    CHECK(esker_fs_utimens(fs, "/lab/linked", times, 0) == 0);
    CHECK(esker_fs_stat(fs, "/lab/linked", &st) == 0 && (st.st_mode & 07777) == 0600 && st.st_uid == 12);
    CHECK(st.st_mtim.tv_sec == 3 && st.st_mtim.tv_nsec == 4 && st.st_atim.tv_nsec == 2);

    /* Contents: small ones, one that grows large, one that is truncated. */
    size_t large = 300000;
    char *bytes = malloc(large);
    for (size_t i = 0; i < large; i++)
        bytes[i] = (char)(i * 7 + i / 1000);
    esker_fs_file *f = esker_fs_open_file(fs, "/lab/grows", O_CREAT | O_RDWR, 0640);
    CHECK(f != NULL);
    CHECK(esker_fs_write(f, bytes, 100) == 100);
    CHECK(esker_fs_flush_file(f) == 0);
    CHECK(esker_fs_stat(fs, "/lab/grows", &st) == 0 && st.st_size == 100);
    CHECK(esker_fs_pwrite(f, bytes + 100, large - 100, 100) == (ssize_t)(large - 100));
    CHECK(esker_fs_fstat(f, &st) == 0 && st.st_size == (off_t)large);
    CHECK(esker_fs_lseek(f, -10, SEEK_END) == (int64_t)large - 10);
    char tail[20];
    CHECK(esker_fs_read(f, tail, sizeof tail) == 10 && memcmp(tail, bytes + large - 10, 10) == 0);
    FAILS(esker_fs_lseek(f, -1, SEEK_SET), EINVAL);
    CHECK(esker_fs_fsync(f) == 0);
    demand("/lab/grows", bytes, large);
    CHECK(esker_fs_unlink(fs, "/lab/grows") == 0);
    CHECK(esker_fs_pread(f, tail, 10, 50) == 10 && memcmp(tail, bytes + 50, 10) == 0);
    CHECK(esker_fs_close_file(f) == 0);
    put("/lab/large", bytes, large);
    CHECK(esker_fs_truncate(fs, "/lab/large", 10) == 0);
    demand("/lab/large", bytes, 10);
    put("/lab/large", bytes, large);
    f = esker_fs_open_file(fs, "/lab/log", O_CREAT | O_WRONLY | O_APPEND, 0644);
    esker_fs_file *second = esker_fs_open_file(fs, "/lab/log", O_WRONLY | O_APPEND, 0);
    CHECK(f && second);
    CHECK(esker_fs_write(f, "one ", 4) == 4 && esker_fs_write(second, "two ", 4) == 4 && esker_fs_write(f, "three", 5) == 5);
    FAILS(esker_fs_read(f, tail, 1), EBADF);
    CHECK(esker_fs_ftruncate(f, 12) == 0);
    CHECK(esker_fs_close_file(f) == 0 && esker_fs_close_file(second) == 0);
    demand("/lab/log", "one two thre", 12);

    /* Extended attributes. */
    CHECK(esker_fs_setxattr(fs, "/lab/log", "user.esker.campaign", "winter24", 8, XATTR_CREATE) == 0);
    FAILS(esker_fs_setxattr(fs, "/lab/log", "user.esker.campaign", "x", 1, XATTR_CREATE), EEXIST);
    CHECK(esker_fs_getxattr(fs, "/lab/log", "user.esker.campaign", NULL, 0, 0) == 8);
    FAILS(esker_fs_getxattr(fs, "/lab/log", "user.esker.campaign", tail, 2, 0), ERANGE);
    CHECK(esker_fs_getxattr(fs, "/lab/log", "user.esker.campaign", tail, 20, 0) == 8 && memcmp(tail, "winter24", 8) == 0);
    CHECK(esker_fs_setxattr(fs, "/lab/log", "user.note", "n", 1, 0) == 0);
    char names[100];
    CHECK(esker_fs_listxattr(fs, "/lab/log", names, sizeof names, 0) == 20 + 10);
    CHECK(esker_fs_removexattr(fs, "/lab/log", "user.note", 0) == 0);
    FAILS(esker_fs_getxattr(fs, "/lab/log", "user.note", tail, 20, 0), ENODATA);

    /* Many files in one call, and their listing. */
    CHECK(esker_fs_mkdir(fs, "/lab/many", 0700) == 0);
    enum { MANY = 1500 };
    char *paths[MANY];
    int errors[MANY];
    for (int i = 0; i < MANY; i++) {
        paths[i] = malloc(32);
        /* The last file exists already. */
        snprintf(paths[i], 32, "/lab/many/%d", i == MANY - 1 ? 0 : i);
    }
    CHECK(esker_fs_create_many(fs, (const char *const *)paths, MANY, 0644, errors) == MANY - 1);
    CHECK(errors[0] == 0 && errors[MANY - 1] == EEXIST);
    char seen[MANY] = { 0 };
    esker_fs_dir *dir = esker_fs_opendir(fs, "/lab/many");
    CHECK(dir != NULL);
    esker_fs_entry entry;
    int more, count = 0;
    while ((more = esker_fs_readdir(dir, &entry)) > 0) {
        CHECK(S_ISREG(entry.attributes.st_mode) && !seen[atoi(entry.name)]);
        seen[atoi(entry.name)] = 1;
        count++;
    }
    CHECK(more == 0 && count == MANY - 1 && esker_fs_closedir(dir) == 0);
    CHECK(esker_fs_opendir(fs, "/lab/log") == NULL && errno == ENOTDIR);
    struct statvfs room;
    CHECK(esker_fs_statvfs(fs, &room) == 0 && room.f_blocks > 0 && room.f_namemax == 255);

    /* Threads. */
    CHECK(esker_fs_mkdir(fs, "/lab/threads", 0755) == 0);
    pthread_t threads[4];
    int which[4];
    for (int i = 0; i < 4; i++) {
        which[i] = i;
        CHECK(pthread_create(&threads[i], NULL, one_of_four, &which[i]) == 0);
    }
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(esker_fs_sync(fs) == 0 && esker_fs_flush(fs) == 0);

    /* Queued changes, and sending them. */
    if (behind) {
        esker_fs *plain = fs;
        options.write_behind = 1;
        options.write_behind_millis = 3600 * 1000;
        fs = esker_fs_open(argv[1], &options);
        CHECK(fs != NULL);
        CHECK(esker_fs_mkdir(fs, "/lab/behind", 0755) == 0);
        put("/lab/behind/a", "held back", 9);
        FAILS(esker_fs_stat(plain, "/lab/behind/a", &st), ENOENT);
        demand("/lab/behind/a", "held back", 9);
        CHECK(esker_fs_stat(plain, "/lab/behind/a", &st) == 0 && st.st_size == 9);
        FAILS(esker_fs_mkdir(fs, "/lab/behind", 0755), EEXIST);
        CHECK(esker_fs_unlink(fs, "/lab/none") == 0);
        CHECK(esker_fs_symlink(fs, "x", "/lab/behind/a") == 0);
        FAILS(esker_fs_flush(fs), ENOENT);
        CHECK(strstr(esker_fs_last_error(), "2 buffered changes") != NULL);
        CHECK(esker_fs_flush(fs) == 0);
        CHECK(esker_fs_close(fs) == 0);
        fs = plain;
    }
    CHECK(esker_fs_close(fs) == 0);
    puts("all is as it should be");
    return 0;
}
