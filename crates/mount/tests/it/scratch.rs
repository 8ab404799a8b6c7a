//! A namespace in a scratch folder, mounted.

use esker::{Database, OpenOptions};
use esker_model::namespace::Namespace;
use esker_model::object::Principal;
use esker_model::{Error, NeverCancel, Result, VertexId};
use esker_mount::data::Folders;
use esker_mount::orphans::{Search, check};
use esker_mount::{Mounted, Options, Target, UnmountMode};
use esker_testkit::wait::{HANG, eventually};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// An open database as a mount target.
pub(crate) struct Served(pub(crate) Database);

impl Target for Served {
    fn names(&self) -> &dyn Namespace {
        &self.0
    }

    fn persist(&self) -> Result<()> {
        self.0.persist()
    }

    fn views(&self) -> &'static [&'static str] {
        &["reader", "nothing"]
    }

    /// The view `reader` says who reads which file; the other one has nothing to tell.
    fn view(&self, view: &str, principal: &Principal, file: VertexId) -> Result<Vec<u8>> {
        match view {
            "reader" => Ok(format!("{} reads {file}\n", principal.uid).into_bytes()),
            _ => Err(Error::NoVertex {
                name: file.to_string(),
                hint: String::new(),
            }),
        }
    }
}

/// A scratch folder and mount, unmounted and removed at the end.
pub(crate) struct Scratch {
    pub(crate) database: Database,
    mounted: Option<Mounted>,
    folder: tempfile::TempDir,
}

/// Whether this process may mount on this machine; prints the reason if not.
pub(crate) fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        eprintln!("skipped: needs root and /dev/fuse");
    }
    can
}

impl Scratch {
    /// Creates a mount with one data folder.
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

    /// Creates a mount of a database whose owner lets all users attach to its process.
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
            // A program that another test starts has this process's open files between its fork and its exec, and with
            // them the mount.
            eventually(|| mounted.unmount(UnmountMode::Plain));
            mounted.wait().unwrap();
        }
    }

    /// Checks that the database is whole, and that data folders and namespace agree.
    pub(crate) fn demand_sound(&self) {
        self.demand_sound_in(&self.data());
    }

    /// Checks that database, data folder and namespace agree, with a given folder.
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

/// Runs a test if mounting is possible; fails if the test hangs.
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
            abort_mounts();
            panic!("it hangs");
        }
    }
}

/// A tmpfs of this test alone.
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
        // Makes the path accessible to everybody.
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

/// Aborts all waits for mounts of this process, which could otherwise not end with open files.
fn abort_mounts() {
    for mount in esker_mount::mount_point::mounts().unwrap_or_default() {
        if mount.is_ours() && mount.at.starts_with(std::env::temp_dir()) {
            let _ = esker_mount::mount_point::unmount(&mount.at, UnmountMode::Force);
        }
    }
}
