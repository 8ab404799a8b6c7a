/*
 * libesker_fs: the files of an Esker target without a mount.
 *
 * A target is a folder that holds a database, or a server: "esker://HOST:PORT". Paths begin at the target's root ("/run7/out.nc");
 * "." and ".." are taken out by their text. What is done here is seen by mounts of the target and by the esker command, and the
 * other way round: whoever opens a file sees what was closed, or synced, before (docs/book/mount.md).
 *
 * Errors. What returns a number returns -1, what returns a pointer NULL; errno says why, as POSIX has it, and
 * esker_fs_last_error() in words. EIO: the target or a data folder did not answer; it may be tried again. ESTALE: a file that is open is
 * not known any more. EFBIG: a content is larger than the namespace takes and there are no data folders. EINVAL, EFAULT: arguments.
 *
 * Ownership. Whatever is passed in is the caller's and may be freed after the call. What esker_fs_open, esker_fs_open_file and
 * esker_fs_opendir return is freed by esker_fs_close, esker_fs_close_file and esker_fs_closedir, once, whatever those return. Files
 * and directories are closed before their target.
 *
 * Threads. All functions may be called from any thread, also with the same target or file; only a directory is of one thread at a
 * time. After fork() the child may use none of what was open before: it opens the target anew.
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
typedef struct esker_fs_dir esker_fs_dir;   /* a directory that is being listed */

/* How to open a target. Begin it with ESKER_FS_OPTIONS_INIT, then set what is to be otherwise. */
typedef struct esker_fs_options {
    size_t size;                      /* sizeof(esker_fs_options) */
    const char *data;                 /* data folders, separated by commas, those of the target's mounts; NULL: none */
    size_t inline_bytes;              /* contents up to this size lie in the namespace; 0: 4096, which is the most */
    int durable;                      /* not 0: each change survives a power failure when it returns */
    int write_behind;                 /* not 0: names and small contents are held back, and sent together; see esker_fs_flush */
    unsigned int write_behind_most;   /* so many changes at most; 0: 10,000 */
    unsigned int write_behind_millis; /* for so long at most; 0: 500 */
} esker_fs_options;

#define ESKER_FS_OPTIONS_INIT { sizeof(esker_fs_options), NULL, 0, 0, 0, 0, 0 }

/* An entry of a directory. */
typedef struct esker_fs_entry {
    const char *name;       /* until the next call for the same directory */
    struct stat attributes; /* as lstat gives them */
} esker_fs_entry;

/*
 * What the last call of this thread that failed said: which file, and what was wrong. Until the next call of this thread. "" if none has
 * failed.
 */
const char *esker_fs_last_error(void);

/* The library's version, as "0.1.0". */
const char *esker_fs_version(void);

/* ---- targets ---- */

/*
 * Opens a target, on behalf of the user and groups that this process has now. options may be NULL.
 * ENOENT: there is none; ECONNREFUSED, EIO: a server does not answer.
 */
esker_fs *esker_fs_open(const char *target, const esker_fs_options *options);

/* Sends what is held back and lets go of the target. fs is freed also where that fails; NULL is nothing. */
int esker_fs_close(esker_fs *fs);

/*
 * With write_behind, esker_fs_open_file with O_CREAT, unlink, rename, link and symlink return at once, and so do writes of small
 * contents into files that were just made. (mkdir and rmdir do not: others go on in those directories.) They are made in their order, once enough are held, or some time has passed, or this
 * process asks for anything that they might change, or here. What could not be made (a name that was taken, a right that was missing)
 * is told here: the first of all since the last flush, with how many there were. If the target did not answer they are held still.
 * Without write_behind it does nothing.
 */
int esker_fs_flush(esker_fs *fs);

/* The same, and everything that was told so far survives a power failure. */
int esker_fs_sync(esker_fs *fs);

/* How much room there is in the data folders, and how many files in the target. */
int esker_fs_statvfs(esker_fs *fs, struct statvfs *room);

/* ---- open files ---- */

/*
 * Opens a file; mode is that of one that is made, and no umask is taken off it. Of flags, the access mode, O_CREAT, O_EXCL, O_TRUNC,
 * O_APPEND and O_NOFOLLOW count.
 */
esker_fs_file *esker_fs_open_file(esker_fs *fs, const char *path, int flags, mode_t mode);

/*
 * Closes a file, and tells the target what was written: whoever opens it afterwards sees it. After an error what was written since the
 * last flush or sync may be lost. file is freed in any case; NULL is nothing.
 */
int esker_fs_close_file(esker_fs_file *file);

/* Read and write at the file's position, and move it; how many bytes, 0 at the end. */
ssize_t esker_fs_read(esker_fs_file *file, void *buffer, size_t size);
ssize_t esker_fs_write(esker_fs_file *file, const void *buffer, size_t size);

/* The same at an offset, without the position. */
ssize_t esker_fs_pread(esker_fs_file *file, void *buffer, size_t size, uint64_t offset);
ssize_t esker_fs_pwrite(esker_fs_file *file, const void *buffer, size_t size, uint64_t offset);

/* Moves the position (SEEK_SET, SEEK_CUR, SEEK_END); where it is then. */
int64_t esker_fs_lseek(esker_fs_file *file, int64_t offset, int whence);

/* Cuts the content, or fills it with zero bytes. */
int esker_fs_ftruncate(esker_fs_file *file, uint64_t size);

/* What the file is, with what was written and not told yet. */
int esker_fs_fstat(esker_fs_file *file, struct stat *attributes);

/* Content, name and attributes of this file survive a power failure. */
int esker_fs_fsync(esker_fs_file *file);

/* What was written is told to the target, as when it is closed. */
int esker_fs_flush_file(esker_fs_file *file);

/* ---- paths: as the functions of POSIX without the prefix ---- */

int esker_fs_stat(esker_fs *fs, const char *path, struct stat *attributes);
int esker_fs_lstat(esker_fs *fs, const char *path, struct stat *attributes);
int esker_fs_access(esker_fs *fs, const char *path, int mode);
int esker_fs_mkdir(esker_fs *fs, const char *path, mode_t mode);
int esker_fs_rmdir(esker_fs *fs, const char *path);
int esker_fs_unlink(esker_fs *fs, const char *path);
/* flags: 0, or RENAME_NOREPLACE (1) */
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
 * Makes count empty files in one call, whatever becomes of each: errors[i] is 0 or its errno; errors may be NULL. How many were
 * made; -1 if the call as a whole failed.
 */
ssize_t esker_fs_create_many(esker_fs *fs, const char *const *paths, size_t count, mode_t mode, int *errors);

/* ---- extended attributes; those of Esker's tags are "user.esker.NAME" ---- */

/* flags: 0 or AT_SYMLINK_NOFOLLOW, and of setxattr XATTR_CREATE, XATTR_REPLACE. A size of 0 asks how many bytes there are. */
ssize_t esker_fs_getxattr(esker_fs *fs, const char *path, const char *name, void *value, size_t size, int flags);
ssize_t esker_fs_listxattr(esker_fs *fs, const char *path, char *names, size_t size, int flags);
int esker_fs_setxattr(esker_fs *fs, const char *path, const char *name, const void *value, size_t size, int flags);
int esker_fs_removexattr(esker_fs *fs, const char *path, const char *name, int flags);

/* ---- directories ---- */

/* Lists a directory, "." and ".." left out. ENOTDIR: it is none. */
esker_fs_dir *esker_fs_opendir(esker_fs *fs, const char *path);

/* The next entry: 1, or 0 if there are no more. */
int esker_fs_readdir(esker_fs_dir *dir, esker_fs_entry *entry);

/* Ends a listing. NULL is nothing. */
int esker_fs_closedir(esker_fs_dir *dir);

#ifdef __cplusplus
}
#endif
#endif
