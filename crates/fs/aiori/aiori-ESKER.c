/*
 * A back end of IOR and mdtest: files of an Esker target through libesker_fs, without a mount. See README.md for how to build it.
 *
 *   mpirun -np 4 mdtest -a ESKER --esker.target=esker://127.0.0.1:7400 -n 25000 -F -d /bench
 *
 * Each rank opens the target by itself; -d is a path of the target. With --esker.behind, names and small contents are queued;
 * then use mdtest -Y, so that the time of each phase includes sending all of them.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <esker_fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aiori.h"
#include "ior.h"
#include "utilities.h"

typedef struct {
    char *target;
    char *data;
    int behind;
    int most;
    int durable;
} esker_options_t;

static esker_fs *fs;

static option_help *ESKER_options(aiori_mod_opt_t **initial, aiori_mod_opt_t *given)
{
    esker_options_t *o = malloc(sizeof *o);
    if (given)
        memcpy(o, given, sizeof *o);
    else
        memset(o, 0, sizeof *o);
    *initial = (aiori_mod_opt_t *)o;
    option_help options[] = {
        { 0, "esker.target", "Folder of a database, or esker://HOST:PORT", OPTION_OPTIONAL_ARGUMENT, 's', &o->target },
        { 0, "esker.data", "Data folders, separated by commas", OPTION_OPTIONAL_ARGUMENT, 's', &o->data },
        { 0, "esker.behind", "Hold names and small contents back (give mdtest -Y, too)", OPTION_FLAG, 'd', &o->behind },
        { 0, "esker.most", "So many at most", OPTION_OPTIONAL_ARGUMENT, 'd', &o->most },
        { 0, "esker.durable", "Each change survives a power failure", OPTION_FLAG, 'd', &o->durable },
        LAST_OPTION,
    };
    option_help *help = malloc(sizeof options);
    memcpy(help, options, sizeof options);
    return help;
}

static void failed(const char *what, const char *path)
{
    ERRF("ESKER: %s %s: %s", what, path, esker_fs_last_error());
}

static int ESKER_check_params(aiori_mod_opt_t *given)
{
    esker_options_t *o = (esker_options_t *)given;
    if (o->target == NULL)
        ERR("ESKER: --esker.target is missing: give the folder of a database, or esker://HOST:PORT");
    return 0;
}

static void ESKER_initialize(aiori_mod_opt_t *given)
{
    esker_options_t *o = (esker_options_t *)given;
    esker_fs_options options = ESKER_FS_OPTIONS_INIT;
    if (fs)
        return;
    if (o->target == NULL)
        ERR("ESKER: --esker.target is missing: give the folder of a database, or esker://HOST:PORT");
    options.data = o->data;
    options.durable = o->durable;
    options.write_behind = o->behind;
    options.write_behind_most = o->most;
    fs = esker_fs_open(o->target, &options);
    if (fs == NULL)
        failed("open", o->target);
}

static void ESKER_finalize(aiori_mod_opt_t *given)
{
    (void)given;
    if (fs && esker_fs_close(fs) < 0)
        failed("close", "the target");
    fs = NULL;
}

static int flags_of(int flags)
{
    int how = flags & IOR_RDWR ? O_RDWR : flags & IOR_WRONLY ? O_WRONLY : O_RDONLY;
    if (flags & IOR_CREAT)
        how |= O_CREAT;
    if (flags & IOR_EXCL)
        how |= O_EXCL;
    if (flags & IOR_TRUNC)
        how |= O_TRUNC;
    if (flags & IOR_APPEND)
        how |= O_APPEND;
    return how;
}

static aiori_fd_t *ESKER_open(char *path, int flags, aiori_mod_opt_t *given)
{
    (void)given;
    esker_fs_file *file = esker_fs_open_file(fs, path, flags_of(flags), 0664);
    if (file == NULL)
        failed("open", path);
    return (aiori_fd_t *)file;
}

static aiori_fd_t *ESKER_create(char *path, int flags, aiori_mod_opt_t *given)
{
    return ESKER_open(path, flags | IOR_CREAT, given);
}

static int ESKER_mknod(char *path)
{
    esker_fs_file *file = esker_fs_open_file(fs, path, O_CREAT | O_EXCL | O_WRONLY, 0664);
    return file == NULL ? -1 : esker_fs_close_file(file);
}

static IOR_offset_t ESKER_xfer(int access, aiori_fd_t *fd, IOR_size_t *buffer, IOR_offset_t size, IOR_offset_t offset, aiori_mod_opt_t *given)
{
    (void)given;
    esker_fs_file *file = (esker_fs_file *)fd;
    char *at = (char *)buffer;
    IOR_offset_t done = 0;
    while (done < size) {
        ssize_t n = access == WRITE ? esker_fs_pwrite(file, at + done, size - done, offset + done)
                                    : esker_fs_pread(file, at + done, size - done, offset + done);
        if (n < 0)
            failed(access == WRITE ? "write" : "read", "");
        if (n == 0)
            break;
        done += n;
    }
    return done;
}

static void ESKER_close(aiori_fd_t *fd, aiori_mod_opt_t *given)
{
    (void)given;
    if (esker_fs_close_file((esker_fs_file *)fd) < 0)
        failed("close", "");
}

static void ESKER_fsync(aiori_fd_t *fd, aiori_mod_opt_t *given)
{
    (void)given;
    if (esker_fs_fsync((esker_fs_file *)fd) < 0)
        failed("fsync", "");
}

/* Sends queued changes. The durability of a phase is set by --esker.durable. */
static void ESKER_sync(aiori_mod_opt_t *given)
{
    (void)given;
    if (esker_fs_flush(fs) < 0)
        failed("flush", "");
}

static void ESKER_remove(char *path, aiori_mod_opt_t *given)
{
    (void)given;
    if (esker_fs_unlink(fs, path) < 0)
        failed("unlink", path);
}

static IOR_offset_t ESKER_get_file_size(aiori_mod_opt_t *given, char *path)
{
    (void)given;
    struct stat st;
    if (esker_fs_stat(fs, path, &st) < 0)
        failed("stat", path);
    return st.st_size;
}

static int ESKER_statfs(const char *path, ior_aiori_statfs_t *to, aiori_mod_opt_t *given)
{
    (void)path;
    (void)given;
    struct statvfs room;
    if (esker_fs_statvfs(fs, &room) < 0)
        return -1;
    to->f_bsize = room.f_bsize;
    to->f_blocks = room.f_blocks;
    to->f_bfree = room.f_bfree;
    to->f_bavail = room.f_bavail;
    to->f_files = room.f_files;
    to->f_ffree = room.f_ffree;
    return 0;
}

static int ESKER_mkdir(const char *path, mode_t mode, aiori_mod_opt_t *given)
{
    (void)given;
    return esker_fs_mkdir(fs, path, mode);
}

static int ESKER_rmdir(const char *path, aiori_mod_opt_t *given)
{
    (void)given;
    return esker_fs_rmdir(fs, path);
}

static int ESKER_access(const char *path, int mode, aiori_mod_opt_t *given)
{
    (void)given;
    return esker_fs_access(fs, path, mode);
}

static int ESKER_stat(const char *path, struct stat *to, aiori_mod_opt_t *given)
{
    (void)given;
    return esker_fs_stat(fs, path, to);
}

static int ESKER_rename(const char *from, const char *to, aiori_mod_opt_t *given)
{
    (void)given;
    return esker_fs_rename(fs, from, to, 0);
}

static char *ESKER_version(void)
{
    return (char *)esker_fs_version();
}

ior_aiori_t esker_aiori = {
    .name = "ESKER",
    .name_legacy = NULL,
    .create = ESKER_create,
    .mknod = ESKER_mknod,
    .open = ESKER_open,
    .xfer = ESKER_xfer,
    .close = ESKER_close,
    .remove = ESKER_remove,
    .get_version = ESKER_version,
    .fsync = ESKER_fsync,
    .get_file_size = ESKER_get_file_size,
    .statfs = ESKER_statfs,
    .mkdir = ESKER_mkdir,
    .rmdir = ESKER_rmdir,
    .access = ESKER_access,
    .stat = ESKER_stat,
    .rename = ESKER_rename,
    .initialize = ESKER_initialize,
    .finalize = ESKER_finalize,
    .get_options = ESKER_options,
    .check_params = ESKER_check_params,
    .sync = ESKER_sync,
    .enable_mdtest = true,
};
