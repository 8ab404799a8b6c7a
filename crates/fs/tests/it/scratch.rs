//! A database in a scratch folder, and C programs compiled against the library of this build.

use esker::{Database, OpenOptions};
use esker_fs::{Fs, Options};
use esker_model::NeverCancel;
use esker_model::namespace::{NamePath, Namespace};
use esker_mount::data::Folders;
use esker_mount::orphans::{Search, check};
use esker_mount::{Mounted, Target, UnmountMode};
use esker_server::{Server, Settings};
use esker_testkit::wait::eventually;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Scratch {
    pub(crate) folder: tempfile::TempDir,
}

struct Served(Database);

impl Target for Served {
    fn names(&self) -> &dyn Namespace {
        &self.0
    }

    fn persist(&self) -> esker_model::Result<()> {
        self.0.persist()
    }
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Self { folder };
        let made = OpenOptions::new().create(true).open(&scratch.target());
        made.unwrap().close().unwrap();
        scratch
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn target(&self) -> String {
        self.path("db").to_str().unwrap().to_owned()
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            data: vec![self.path("data")],
            ..Options::default()
        }
    }

    pub(crate) fn open(&self) -> Arc<Fs> {
        Fs::open(&self.target(), &self.options()).unwrap()
    }

    /// Starts a server of the database.
    pub(crate) fn serve(&self) -> Server {
        let database = OpenOptions::new().open(&self.target()).unwrap();
        let settings = Settings {
            listen: "127.0.0.1:0".into(),
            ..Settings::default()
        };
        Server::start(database, settings).unwrap()
    }

    /// Checks that data folder and namespace agree.
    pub(crate) fn demand_sound(&self) {
        let database = OpenOptions::new().open(&self.target()).unwrap();
        let folders = Folders::open(&[self.path("data")]).unwrap();
        let search = Search {
            repair: false,
            older: Duration::ZERO,
        };
        let report = check(&database, &folders, search, &NeverCancel).unwrap();
        assert_eq!((&*report.orphans, &*report.missing), (&[][..], &[][..]));
        assert_eq!(report.files, report.objects);
    }

    /// Mounts a target with the same data folder.
    pub(crate) fn mount(&self, database: Database) -> Mounted {
        let at = self.path("mnt");
        std::fs::create_dir_all(&at).unwrap();
        let options = esker_mount::Options {
            data: vec![self.path("data")],
            ..esker_mount::Options::default()
        };
        esker_mount::mount(Arc::new(Served(database)), &at, options).unwrap()
    }

    /// Compiles a C program of this folder against the header and the library.
    pub(crate) fn compile(&self, name: &str) -> PathBuf {
        let here = std::path::absolute(".").unwrap();
        let libraries = libraries();
        let program = self.path(name);
        let out = Command::new("cc")
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-I"])
            .arg(here.join("include"))
            .arg("-o")
            .arg(&program)
            .arg(here.join("tests/it").join(format!("{name}.c")))
            .arg("-L")
            .arg(&libraries)
            .args(["-lesker_fs", "-lpthread"])
            .arg(format!("-Wl,-rpath,{}", libraries.display()))
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        program
    }
}

/// Returns the folder of this build's `libesker_fs.so`.
fn libraries() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap().to_owned();
    let library = folder.join("libesker_fs.so");
    assert!(library.exists(), "expected {}", library.display());
    folder
}

pub(crate) fn run(program: &Path, arguments: &[&str]) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&stdout).into_owned();
    let errors = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{arguments:?}: {status}\n{said}{errors}");
    said
}

pub(crate) fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

pub(crate) fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        eprintln!("skipped: needs root and /dev/fuse");
    }
    can
}

pub(crate) fn unmount(mounted: Mounted) {
    // A program that another test starts has this process's open files between its fork and its exec, and with them the
    // mount.
    eventually(|| mounted.unmount(UnmountMode::Plain));
    mounted.wait().unwrap();
}
