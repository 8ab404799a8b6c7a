//! A namespace in a scratch folder, mounted.

use esker::{Database, OpenOptions};
use esker_model::namespace::Namespace;
use esker_model::{NeverCancel, Result};
use esker_mount::data::Folders;
use esker_mount::orphans::{Search, check};
use esker_mount::{How, Mounted, Options, Target};
use esker_testkit::wait::{HANG, eventually};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// An open database, as something to mount.
pub(crate) struct Served(pub(crate) Database);

impl Target for Served {
    fn names(&self) -> &dyn Namespace {
        &self.0
    }

    fn persist(&self) -> Result<()> {
        self.0.persist()
    }
}

/// What is unmounted and removed at the end.
pub(crate) struct Scratch {
    pub(crate) database: Database,
    mounted: Option<Mounted>,
    folder: tempfile::TempDir,
}

/// Whether this machine lets this process mount. Says so where not.
pub(crate) fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        eprintln!("skipped: needs root and /dev/fuse");
    }
    can
}

impl Scratch {
    /// With one data folder.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        open_up(folder.path());
        let target = folder.path().join("db");
        let database = OpenOptions::new()
            .create(true)
            .open(target.to_str().unwrap())
            .unwrap();
        let mut scratch = Self {
            database,
            mounted: None,
            folder,
        };
        scratch.mount(change);
        scratch
    }

    /// With a database whose owner lets all users attach to the process that has it open.
    pub(crate) fn open_to_others() -> Self {
        let folder = tempfile::tempdir().unwrap();
        open_up(folder.path());
        let target = folder.path().join("db");
        let open = OpenOptions::new().create(true);
        let open = || open.open(target.to_str().unwrap()).unwrap();
        open().close().unwrap();
        open_up(&target);
        open_up(&target.join("owner"));
        let mut scratch = Self {
            database: open(),
            mounted: None,
            folder,
        };
        scratch.mount(|_| {});
        scratch
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            data: vec![self.data()],
            allow_other: true,
            source: "test".into(),
            ..Options::default()
        }
    }

    pub(crate) fn mount(&mut self, change: impl FnOnce(&mut Options)) {
        let at = self.at();
        std::fs::create_dir_all(&at).unwrap();
        let mut options = self.options();
        change(&mut options);
        let target = Arc::new(Served(self.database.clone()));
        self.mounted = Some(esker_mount::mount(target, &at, options).unwrap());
    }

    pub(crate) fn unmount(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            // A program that another test starts holds this process's open files between its fork and its exec, and with them the mount.
            eventually(|| mounted.unmount(How::Plain));
            mounted.wait().unwrap();
        }
    }

    /// The database is whole, and data folders and namespace agree.
    pub(crate) fn demand_sound(&self) {
        self.demand_sound_in(&self.data());
    }

    /// The same with that folder.
    pub(crate) fn demand_sound_in(&self, data: &Path) {
        let folders = Folders::open(&[data.to_owned()]).unwrap();
        let search = Search {
            repair: false,
            older: Duration::ZERO,
        };
        let report = check(&self.database, &folders, search, &NeverCancel).unwrap();
        assert_eq!((&*report.orphans, &*report.missing), (&[][..], &[][..]));
        assert_eq!(report.files, report.objects);
    }

    pub(crate) fn at(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.at().join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.mounted.take());
    }
}

/// Plays a test where one may mount, and fails if it hangs.
pub(crate) fn mounting(test: impl FnOnce() + Send + 'static) {
    if !can_mount() {
        return;
    }
    let (sender, receiver) = channel();
    let worker = std::thread::spawn(move || {
        test();
        sender.send(()).unwrap();
    });
    match receiver.recv_timeout(HANG) {
        Ok(()) => worker.join().unwrap(),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
            let_everything_go();
            panic!("it hangs");
        }
    }
}

/// A tmpfs of its own.
pub(crate) struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    pub(crate) fn new() -> Self {
        Self::sized("64m")
    }

    pub(crate) fn sized(size: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size},mode=755");
        let kind = Some("tmpfs");
        let flags = MsFlags::empty();
        mount(kind, folder.path(), kind, flags, Some(options.as_str())).unwrap();
        // So that everybody gets through to it.
        open_up(folder.path());
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
}

pub(crate) fn open_up(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Whoever waits for a mount of this process waits no more: not this process either, which could not end with open files.
fn let_everything_go() {
    for mount in esker_mount::place::mounts().unwrap_or_default() {
        if mount.is_ours() && mount.at.starts_with(std::env::temp_dir()) {
            let _ = esker_mount::place::unmount(&mount.at, How::Force);
        }
    }
}
