/*
 * libesker_fs: the files of an Esker target without a mount.
 *
 * A target is a folder that contains a database, or a server: "esker://HOST:PORT". Paths begin at the target's root ("/run7/out.nc");
 * "." and ".." are resolved textually. Mounts of the target and the esker command see the changes made here, and the other way round:
 * an open sees everything that was closed, or synced, before (close-to-open consistency, docs/book/mount.md).
 *
 * Errors. A function that returns a number returns -1 on an error, one that returns a pointer NULL; errno has the reason as in POSIX,
 * and esker_fs_last_error() a message. EIO: the target or a data folder did not respond; the call may be repeated. ESTALE: an open file
 * is not known any more. EFBIG: a content is larger than the namespace accepts and there are no data folders. EINVAL, EFAULT: invalid
 * arguments.
 *
 * Ownership. Arguments belong to the caller and may be freed after the call. The results of esker_fs_open, esker_fs_open_file and
 * esker_fs_opendir are freed by esker_fs_close, esker_fs_close_file and esker_fs_closedir, once, whatever these return. Files and
 * directories must be closed before their target.
 *
 * Threads. All functions may be called from any thread, also with the same target or file; only a directory belongs to one thread at a
 * time. After fork() the child must not use anything that was open before: it must open the target anew.
 *
 * Link with: cc app.c $(pkg-config --cflags --libs esker_fs)
 */
#ifndef ESKER_FS_H
#define ESKER_FS_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct esker_fs esker_fs;           /* an open target */
typedef struct esker_fs_file esker_fs_file; /* an open file */
typedef struct esker_fs_dir esker_fs_dir;   /* a directory listing under way */

/* Options for opening a target. Initialise them with ESKER_FS_OPTIONS_INIT, then change members. */
typedef struct esker_fs_options {
    size_t size;                      /* sizeof(esker_fs_options) */
    const char *data;                 /* data folders, separated by commas: those of the target's mounts; NULL: none */
    size_t inline_bytes;              /* largest size of content stored in the namespace; 0: 4096, the maximum */
    int durable;                      /* non-zero: each change survives a power failure when it returns */
    int write_behind;                 /* non-zero: names and small contents are queued and sent in batches; see esker_fs_flush */
    unsigned int write_behind_most;   /* largest number of queued changes; 0: 10,000 */
    unsigned int write_behind_millis; /* longest time in the queue; 0: 500 */
} esker_fs_options;

#define ESKER_FS_OPTIONS_INIT { sizeof(esker_fs_options), NULL, 0, 0, 0, 0, 0 }

/* An entry of a directory. */
typedef struct esker_fs_entry {
    const char *name;       /* valid until the next call for the same directory */
    struct stat attributes; /* as from lstat */
} esker_fs_entry;

/*
 * Returns the message of this thread's last failed call: the file and the problem; "" if no call has failed. Valid until the next call
 * of this thread.
 */
const char *esker_fs_last_error(void);

/* Returns the version of the library, such as "0.1.0". */
const char *esker_fs_version(void);

/* ---- targets ---- */

/*
 * Opens a target on behalf of the present user and groups of this process. options may be NULL.
 * ENOENT: no such target; ECONNREFUSED, EIO: the server does not respond.
 */
esker_fs *esker_fs_open(const char *target, const esker_fs_options *options);

/* Sends queued changes and closes the target. fs is freed even on an error; NULL is ignored. */
int esker_fs_close(esker_fs *fs);

/*
 * Sends queued changes. With write_behind, esker_fs_open_file with O_CREAT, unlink, rename, link and symlink return at once, and so do
 * writes of small contents into new files. (mkdir and rmdir do not, because other processes continue in those directories.) The changes
 * are applied in order, when enough are queued, after some time, before any call of this process that could depend on them, or here.
 * Failed changes (a name was taken, a right was missing) are reported here: the first one since the last flush, with the number of
 * failures. If the target did not respond, the changes stay queued. Without write_behind this does nothing.
 */
int esker_fs_flush(esker_fs *fs);

/* Sends queued changes and makes all changes so far survive a power failure. */
int esker_fs_sync(esker_fs *fs);

/* Returns the size and free space of the data folders, and the number of files in the target. */
int esker_fs_statvfs(esker_fs *fs, struct statvfs *room);

/* ---- open files ---- */

/*
 * Opens a file. mode is used for a new file, without the umask. The used flags are the access mode, O_CREAT, O_EXCL, O_TRUNC,
 * O_APPEND and O_NOFOLLOW.
 */
esker_fs_file *esker_fs_open_file(esker_fs *fs, const char *path, int flags, mode_t mode);

/*
 * Publishes what was written, so that later opens see it, and closes the file. After an error, data written since the last flush or
 * sync may be lost. file is freed in any case; NULL is ignored.
 */
int esker_fs_close_file(esker_fs_file *file);

/* Read and write at the file's position, and move it. Return the number of bytes, 0 at the end. */
ssize_t esker_fs_read(esker_fs_file *file, void *buffer, size_t size);
ssize_t esker_fs_write(esker_fs_file *file, const void *buffer, size_t size);

/* Read and write at an offset, without using the position. */
ssize_t esker_fs_pread(esker_fs_file *file, void *buffer, size_t size, uint64_t offset);
ssize_t esker_fs_pwrite(esker_fs_file *file, const void *buffer, size_t size, uint64_t offset);

/* Moves the position (SEEK_SET, SEEK_CUR, SEEK_END); returns the new one. */
int64_t esker_fs_lseek(esker_fs_file *file, int64_t offset, int whence);

/* Truncates the content, or extends it with zero bytes. */
int esker_fs_ftruncate(esker_fs_file *file, uint64_t size);

/* Returns the file's attributes, including unpublished writes. */
int esker_fs_fstat(esker_fs_file *file, struct stat *attributes);

/* Makes content, name and attributes of the file survive a power failure. */
int esker_fs_fsync(esker_fs_file *file);

/* Publishes what was written, as closing does. */
int esker_fs_flush_file(esker_fs_file *file);

/* ---- paths: like the POSIX functions of the same name without the prefix ---- */

int esker_fs_stat(esker_fs *fs, const char *path, struct stat *attributes);
int esker_fs_lstat(esker_fs *fs, const char *path, struct stat *attributes);
int esker_fs_access(esker_fs *fs, const char *path, int mode);
int esker_fs_mkdir(esker_fs *fs, const char *path, mode_t mode);
int esker_fs_rmdir(esker_fs *fs, const char *path);
int esker_fs_unlink(esker_fs *fs, const char *path);
/* flags: 0, RENAME_NOREPLACE (1) or RENAME_EXCHANGE (2) */
int esker_fs_rename(esker_fs *fs, const char *from, const char *to, unsigned int flags);
int esker_fs_link(esker_fs *fs, const char *from, const char *to);
int esker_fs_symlink(esker_fs *fs, const char *target, const char *path);
ssize_t esker_fs_readlink(esker_fs *fs, const char *path, char *buffer, size_t size);
int esker_fs_truncate(esker_fs *fs, const char *path, uint64_t size);
int esker_fs_chmod(esker_fs *fs, const char *path, mode_t mode);
/* -1 leaves an id as it is; flags: 0 or AT_SYMLINK_NOFOLLOW */
int esker_fs_chown(esker_fs *fs, const char *path, uid_t uid, gid_t gid, int flags);
/* times of the last read and the last write, UTIME_NOW and UTIME_OMIT too; NULL: now. flags: 0 or AT_SYMLINK_NOFOLLOW */
int esker_fs_utimens(esker_fs *fs, const char *path, const struct timespec times[2], int flags);

/*
 * Creates count empty files in one call, each independently: errors[i] is 0 or its errno; errors may be NULL. Returns the number of
 * files created; -1 if the whole call failed.
 */
ssize_t esker_fs_create_many(esker_fs *fs, const char *const *paths, size_t count, mode_t mode, int *errors);

/* ---- extended attributes; those of Esker's tags are "user.esker.NAME" ---- */

/* flags: 0 or AT_SYMLINK_NOFOLLOW, and for setxattr also XATTR_CREATE and XATTR_REPLACE. A size of 0 asks for the number of bytes. */
ssize_t esker_fs_getxattr(esker_fs *fs, const char *path, const char *name, void *value, size_t size, int flags);
ssize_t esker_fs_listxattr(esker_fs *fs, const char *path, char *names, size_t size, int flags);
int esker_fs_setxattr(esker_fs *fs, const char *path, const char *name, const void *value, size_t size, int flags);
int esker_fs_removexattr(esker_fs *fs, const char *path, const char *name, int flags);

/* ---- directories ---- */

/* Lists a directory without "." and "..". ENOTDIR: the path is not a directory. */
esker_fs_dir *esker_fs_opendir(esker_fs *fs, const char *path);

/* Reads the next entry: returns 1, or 0 at the end. */
int esker_fs_readdir(esker_fs_dir *dir, esker_fs_entry *entry);

/* Ends a listing. NULL is ignored. */
int esker_fs_closedir(esker_fs_dir *dir);

#ifdef __cplusplus
}
#endif
#endif
