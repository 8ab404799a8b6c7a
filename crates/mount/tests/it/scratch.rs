//! A namespace in a scratch folder, mounted.

use esker::{Database, OpenOptions};
use esker_model::Result;
use esker_model::namespace::Namespace;
use esker_mount::{How, Mounted, Options, Target};
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
        eprintln!("left out: needs root and /dev/fuse");
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
            mounted.unmount(How::Plain).unwrap();
            mounted.wait().unwrap();
        }
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

/// Fails if it takes longer than a minute: nothing may hang.
pub(crate) fn within_a_minute(test: impl FnOnce() + Send + 'static) {
    if !can_mount() {
        return;
    }
    let (sender, receiver) = channel();
    let worker = std::thread::spawn(move || {
        test();
        sender.send(()).unwrap();
    });
    match receiver.recv_timeout(Duration::from_secs(60)) {
        Ok(()) => worker.join().unwrap(),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
    }
}
