//! Kill -9 of a mount, of the server below it and of both, while four writers work: afterwards every acknowledged operation is there, and each
//! file is as of one moment, in its size, its bytes and its space.
//!
//! `ESKER_MOUNT_KILLS=200` kills more often (12), `ESKER_MOUNT_SEED=7` begins with another seed.

use crate::death::{MountProcess, serve_with};
use crate::history::{Random, number};
use crate::scratch::mounting;
use esker_testkit::wait::{eventually, wait_until};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SERVER: &str = "ESKER_MOUNT_TEST_SERVER";
/// Kills of one test: the time that one test may take is limited.
const KILLS_EACH: u64 = 20;
const WRITERS: u64 = 4;
const NAMES: u64 = 6;

#[test]
fn size_and_content_of_a_killed_append_are_of_one_moment() {
    mounting(|| {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let target = folder.join("db").to_str().unwrap().to_owned();
        let at = folder.join("mnt");
        let mut killed = MountProcess::mount(folder, &target, &at);
        fs::write(at.join("log"), vec![1; 4_097]).unwrap();
        fs::write(at.join("cut"), vec![1; 90_000]).unwrap();
        let mut log = File::options().append(true).open(at.join("log")).unwrap();
        log.write_all(&vec![2; 700_000]).unwrap();
        // A file is emptied, and only its beginning is written again.
        let mut cut = File::create(at.join("cut")).unwrap();
        cut.write_all(&vec![3; 5_000]).unwrap();
        killed.kill();
        drop((log, cut, killed));
        let _mounted = MountProcess::mount(folder, &target, &at);
        for (name, size) in [("log", 704_097), ("cut", 5_000)] {
            let meta = fs::metadata(at.join(name)).unwrap();
            let content = fs::read(at.join(name)).unwrap();
            assert_eq!((meta.len(), content.len()), (size, size as usize), "{name}");
            assert!(meta.blocks() * 512 >= size, "{name}: {}", meta.blocks());
        }
    });
}

/// Body of the server process that is killed; not a test.
#[test]
fn server() {
    let Some(folder) = std::env::var_os(SERVER) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let address = folder.join("address");
    let listen = fs::read_to_string(&address).unwrap_or_else(|_| "127.0.0.1:0".to_owned());
    // With leases, the first change of a file that was just read waits up to a second.
    let server = serve_with(&folder.join("db"), &listen, Duration::ZERO);
    fs::write(address, server.address().to_string()).unwrap();
    fs::write(folder.join("new-pid"), std::process::id().to_string()).unwrap();
    fs::rename(folder.join("new-pid"), folder.join("pid")).unwrap();
    loop {
        std::thread::park();
    }
}

/// A server that a shell starts again whenever it ends. This process must not start it while writers have files open: the child would close
/// its copies of them between fork and exec, and the mount would wait for the server to flush them.
struct ServerProcess {
    shell: Child,
    folder: PathBuf,
}

impl ServerProcess {
    fn start(folder: &Path) -> Self {
        let shell = Command::new("sh")
            .args(["-c", "while :; do \"$0\" --exact crash::server; done"])
            .arg(std::env::current_exe().unwrap())
            .env(SERVER, folder)
            .process_group(0)
            .stdout(Stdio::null())
            // The shell reports each kill.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            shell,
            folder: folder.to_path_buf(),
        }
    }

    /// Waits until the server serves; returns its address.
    fn address(&self) -> String {
        self.pid();
        fs::read_to_string(self.folder.join("address")).unwrap()
    }

    fn pid(&self) -> Pid {
        let text = || fs::read_to_string(self.folder.join("pid")).ok();
        let pid = || Pid::from_raw(text()?.parse().ok()?);
        eventually(|| pid().ok_or("the server is not started"))
    }

    fn kill(&self) {
        let pid = self.pid();
        fs::remove_file(self.folder.join("pid")).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.shell), Signal::KILL);
        let _ = self.shell.wait();
    }
}

/// An operation of a writer on the files of its directory.
#[derive(Debug, Clone)]
enum Operation {
    Write(u64, Vec<u8>),
    Append(u64, Vec<u8>, bool),
    Truncate(u64, usize),
    Rename(u64, u64),
    Unlink(u64),
}

/// Contents by the numbers of their files.
type Contents = BTreeMap<u64, Vec<u8>>;

impl Operation {
    fn draw(random: &mut Random, files: &Contents) -> Self {
        let name = random.number_below(NAMES);
        let size = match random.number_below(4) {
            0 => random.number_below(200),
            1 => 4_000 + random.number_below(200),
            2 => random.number_below(20_000),
            _ => 20_000 + random.number_below(100_000),
        };
        let first = random.number_below(1 << 20);
        let content = (first..first + size).map(|i| (i / 3 + i / 1_009) as u8);
        let content = content.collect();
        match random.number_below(9) {
            0..3 => Self::Write(name, content),
            3..6 => Self::Append(name, content, random.number_below(2) == 0),
            // Without holes, the space of a file follows from its size.
            6 => {
                let length = files.get(&name).map_or(0, Vec::len);
                Self::Truncate(name, size as usize % (length + 1))
            }
            7 if files.contains_key(&name) => Self::Rename(name, random.number_below(NAMES)),
            8 if files.contains_key(&name) => Self::Unlink(name),
            _ => Self::Append(name, content, true),
        }
    }

    /// Makes the operation in a folder; returns once it is acknowledged.
    fn make(&self, folder: &Path) -> std::io::Result<()> {
        let path = |name: &u64| folder.join(format!("{name}"));
        let close = |file: File| nix::unistd::close(file).map_err(std::io::Error::from);
        match self {
            Self::Write(name, content) => {
                let mut file = File::create(path(name))?;
                file.write_all(content)?;
                close(file)
            }
            Self::Append(name, content, sync) => {
                let mut how = File::options();
                let mut file = how.append(true).create(true).open(path(name))?;
                let (first, second) = content.split_at(content.len() / 2);
                file.write_all(first)?;
                if *sync {
                    file.sync_all()?;
                }
                file.write_all(second)?;
                close(file)
            }
            Self::Truncate(name, size) => {
                let mut how = File::options();
                let file = how
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(path(name))?;
                file.set_len(*size as u64)?;
                close(file)
            }
            Self::Rename(from, to) => fs::rename(path(from), path(to)),
            Self::Unlink(name) => fs::remove_file(path(name)),
        }
    }

    fn apply(&self, files: &mut Contents) {
        match self {
            Self::Write(name, content) => {
                files.insert(*name, content.clone());
            }
            Self::Append(name, content, _) => {
                files.entry(*name).or_default().extend_from_slice(content);
            }
            Self::Truncate(name, size) => files.entry(*name).or_default().resize(*size, 0),
            Self::Rename(from, to) => {
                let content = files.remove(from).unwrap();
                files.insert(*to, content);
            }
            Self::Unlink(name) => {
                files.remove(name);
            }
        }
    }

    /// Whether the files may be as found if the operation was interrupted.
    fn may_leave(&self, before: &Contents, found: &Contents) -> bool {
        let mut after = before.clone();
        self.apply(&mut after);
        if found == before || found == &after {
            return true;
        }
        let (name, kept) = match self {
            Self::Write(name, _) => (name, 0),
            Self::Append(name, ..) => (name, before.get(name).map_or(0, Vec::len)),
            // Creating the file and giving it its size are two steps.
            Self::Truncate(name, _) if !before.contains_key(name) => (name, 0),
            _ => return false,
        };
        // A part of the new content is there, and no other file has changed.
        let Some(part) = found.get(name) else {
            return false;
        };
        let fits = part.len() >= kept && after.get(name).is_some_and(|c| c.starts_with(part));
        after.insert(*name, part.clone());
        fits && found == &after
    }
}

/// State of one writer between two kills.
struct Writer {
    folder: String,
    random: Random,
    files: Contents,
    interrupted: Option<Operation>,
}

impl Writer {
    /// Makes operations until one fails or `stop` is set.
    fn work(&mut self, at: &Path, acknowledged: &AtomicU64, stop: &AtomicBool) {
        let folder = at.join(&self.folder);
        while !stop.load(Ordering::Acquire) {
            let operation = Operation::draw(&mut self.random, &self.files);
            if operation.make(&folder).is_err() {
                self.interrupted = Some(operation);
                return;
            }
            operation.apply(&mut self.files);
            acknowledged.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Compares the files with what was acknowledged; continues with what is there.
    fn compare(&mut self, at: &Path, when: &str) {
        let mut found = Contents::new();
        for entry in fs::read_dir(at.join(&self.folder)).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::metadata(&path).unwrap();
            let content = fs::read(&path).unwrap();
            let size = content.len() as u64;
            assert_eq!(meta.len(), size, "{when}: size of {}", path.display());
            assert!(
                size <= 4_096 || meta.blocks() * 512 >= size / 2,
                "{when}: {} has {size} bytes in {} blocks",
                path.display(),
                meta.blocks()
            );
            let name = path.file_name().unwrap().to_str().unwrap();
            found.insert(name.parse().unwrap(), content);
        }
        let interrupted = self.interrupted.take();
        let allowed = match &interrupted {
            None => found == self.files,
            Some(operation) => operation.may_leave(&self.files, &found),
        };
        let sizes = |files: &Contents| -> Vec<(u64, usize)> {
            files.iter().map(|(n, c)| (*n, c.len())).collect()
        };
        assert!(
            allowed,
            "{when}: {}: acknowledged {:?}, found {:?}, interrupted {:.80?}",
            self.folder,
            sizes(&self.files),
            sizes(&found),
            interrupted.map(|o| format!("{o:?}"))
        );
        self.files = found;
    }
}

fn kill_often(kills: std::ops::Range<u64>, seed: u64) {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let at = folder.join("mnt");
    let server = ServerProcess::start(folder);
    let target = format!("esker://{}", server.address());
    let mut mount = MountProcess::mount(folder, &target, &at);
    let mut random = Random::new(seed + kills.start);
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|n| Writer {
            folder: format!("{n}"),
            random: Random::new(1_000 * (seed + kills.start) + n),
            files: Contents::new(),
            interrupted: None,
        })
        .collect();
    for writer in &writers {
        fs::create_dir(at.join(&writer.folder)).unwrap();
    }
    for kill in kills {
        let when = format!("seed {seed}, kill {kill}");
        let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let after = 5 + random.number_below(60);
        std::thread::scope(|scope| {
            for writer in &mut writers {
                scope.spawn(|| writer.work(&at, &acknowledged, &stop));
            }
            let count = || acknowledged.load(Ordering::Acquire);
            wait_until("nothing is acknowledged", || count() >= after);
            let (of_mount, of_server) =
                [(true, false), (false, true), (true, true)][kill as usize % 3];
            if of_server {
                server.kill();
            }
            if of_mount {
                mount.kill();
            }
            if !of_mount {
                let continued = count() + after;
                wait_until("writers do not continue", || count() >= continued);
            }
            stop.store(true, Ordering::Release);
        });
        drop(mount);
        server.address();
        mount = MountProcess::mount(folder, &target, &at);
        for writer in &mut writers {
            writer.compare(&at, &when);
        }
    }
}

#[test]
fn acknowledged_operations_survive_kills() {
    let seed = number("ESKER_MOUNT_SEED").unwrap_or(1);
    let kills = number("ESKER_MOUNT_KILLS").unwrap_or(12);
    for first in (0..kills).step_by(KILLS_EACH as usize) {
        mounting(move || kill_often(first..kills.min(first + KILLS_EACH), seed));
    }
}
