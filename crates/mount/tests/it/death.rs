//! Mounts whose process dies, servers that are restarted, forced unmounts.

use crate::scratch::{Scratch, Served, mounting};
use esker::OpenOptions;
use esker_mount::mount_point::unmount;
use esker_mount::{Options, UnmountMode};
use esker_server::{Server, Settings};
use esker_testkit::wait::{eventually, wait_until};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const CHILD: &str = "ESKER_MOUNT_TEST_CHILD";

/// Body of the process that is killed; not a test.
#[test]
fn child() {
    let Some(what) = std::env::var_os(CHILD) else {
        return;
    };
    let folder = PathBuf::from(what);
    let target = fs::read_to_string(folder.join("target")).unwrap();
    let database = OpenOptions::new().create(true).open(&target).unwrap();
    let options = Options {
        data: vec![folder.join("data")],
        allow_other: true,
        ..Options::default()
    };
    let at = fs::read_to_string(folder.join("at")).unwrap();
    let mounted = esker_mount::mount(Arc::new(Served(database)), Path::new(&at), options).unwrap();
    mounted.wait().unwrap();
}

/// A mount in another process.
pub(crate) struct MountProcess {
    process: Child,
    pub(crate) at: PathBuf,
}

impl MountProcess {
    pub(crate) fn mount(folder: &Path, target: &str, at: &Path) -> Self {
        fs::create_dir_all(at).unwrap();
        fs::write(folder.join("target"), target).unwrap();
        fs::write(folder.join("at"), at.to_str().unwrap()).unwrap();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "death::child", "--nocapture"])
            .env(CHILD, folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("it does not mount", || {
            assert_eq!(process.try_wait().unwrap(), None, "it has ended");
            esker_mount::mount_point::mount_at(at).unwrap().is_some()
        });
        // The mount responds.
        fs::read_dir(at).unwrap();
        Self {
            process,
            at: at.to_path_buf(),
        }
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for MountProcess {
    fn drop(&mut self) {
        let _ = unmount(&self.at, UnmountMode::Force);
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn what_was_synced_survives_a_killed_mount() {
    mounting(|| {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let target = folder.join("db").to_str().unwrap().to_owned();
        let at = folder.join("mnt");
        let mut other = MountProcess::mount(folder, &target, &at);
        let mut open = Vec::new();
        for n in 0..1_000_usize {
            let mut file = File::create(at.join(format!("{n}"))).unwrap();
            // Every third file is large.
            let size = if n.is_multiple_of(3) { 9_000 } else { n };
            file.write_all(&vec![n as u8; size]).unwrap();
            if n.is_multiple_of(10) {
                file.sync_all().unwrap();
            }
            open.push(file);
        }
        other.kill();
        // Processes with open files get the error at their next sync, new ones at once. (Where the kernel writes to the
        // backing file itself, writes alone continue without error.)
        let told = open[1].sync_all().unwrap_err();
        assert!([107, 103].contains(&told.raw_os_error().unwrap()), "{told}");
        drop(open);
        let told = fs::read_dir(&at).unwrap_err();
        assert_eq!(told.raw_os_error(), Some(107), "{told}");
        let database = OpenOptions::new().open(&target).unwrap();
        let options = Options {
            data: vec![folder.join("data")],
            ..Options::default()
        };
        let again = |options: &Options| {
            let target = Arc::new(Served(database.clone()));
            esker_mount::mount(target, &at, options.clone())
        };
        let told = again(&options).unwrap_err().to_string();
        assert!(told.contains("is dead"), "{told}");
        unmount(&at, UnmountMode::Plain).unwrap();
        let mounted = again(&options).unwrap();
        for n in (0..1_000_usize).step_by(10) {
            let size = if n.is_multiple_of(3) { 9_000 } else { n };
            let content = fs::read(at.join(format!("{n}"))).unwrap();
            assert!(content == vec![n as u8; size], "{n}");
        }
        // All files are whole or empty: unflushed content was never published.
        for entry in fs::read_dir(&at).unwrap() {
            let entry = entry.unwrap();
            let n: usize = entry.file_name().to_str().unwrap().parse().unwrap();
            let size = if n.is_multiple_of(3) { 9_000 } else { n };
            let content = fs::read(entry.path()).unwrap();
            assert!(content.is_empty() || content == vec![n as u8; size], "{n}");
        }
        drop(mounted);
    });
}

fn serve(folder: &Path, listen: &str) -> Server {
    serve_with(folder, listen, Settings::default().lease)
}

/// Starts a server whose leases have this length.
pub(crate) fn serve_with(folder: &Path, listen: &str, lease: Duration) -> Server {
    // The port is free again after a moment.
    eventually(|| {
        let database = OpenOptions::new()
            .create(true)
            .open(folder.to_str().unwrap())
            .unwrap();
        let settings = Settings {
            listen: listen.to_owned(),
            drain: Duration::from_secs(2),
            lease,
            ..Settings::default()
        };
        Server::start(database, settings)
    })
}

#[test]
fn a_server_is_started_again_under_open_files() {
    mounting(|| {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let server = serve(&folder.join("db"), "127.0.0.1:0");
        let address = server.address().to_string();
        let at = folder.join("mnt");
        let other = MountProcess::mount(folder, &format!("esker://{address}"), &at);
        let mut small = File::create(at.join("small")).unwrap();
        let mut large = File::create(at.join("large")).unwrap();
        small.write_all(b"before ").unwrap();
        large.write_all(&[1; 10_000]).unwrap();
        server.stop().unwrap();
        let waiting = {
            let at = at.clone();
            std::thread::spawn(move || fs::write(at.join("meanwhile"), "waited"))
        };
        std::thread::sleep(Duration::from_millis(300));
        let server = serve(&folder.join("db"), &address);
        waiting.join().unwrap().unwrap();
        small.write_all(b"after").unwrap();
        large.write_all(&[2; 10_000]).unwrap();
        small.sync_all().unwrap();
        large.sync_all().unwrap();
        drop((small, large));
        assert_eq!(fs::read(at.join("small")).unwrap(), b"before after");
        assert_eq!(fs::read(at.join("large")).unwrap().len(), 20_000);
        assert_eq!(fs::read(at.join("meanwhile")).unwrap(), b"waited");
        drop(other);
        server.stop().unwrap();
    });
}

#[test]
fn a_busy_mount_goes_only_if_it_must() {
    mounting(|| {
        let scratch = Scratch::new();
        let at = scratch.at();
        let mut file = File::create(at.join("f")).unwrap();
        let told = unmount(&at, UnmountMode::Plain).unwrap_err();
        assert!(told.to_string().contains("--lazy"), "{told}");
        unmount(&at, UnmountMode::Detach).unwrap();
        // The mount is hidden, and programs that use it continue.
        assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
        file.write_all(&[5; 10_000]).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 10_000);
        drop(file);

        let scratch = Scratch::new();
        let at = scratch.at();
        let mut file = File::create(at.join("f")).unwrap();
        file.write_all(b"text").unwrap();
        unmount(&at, UnmountMode::Force).unwrap();
        assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
        file.metadata().unwrap_err();
    });
}

#[test]
fn two_mounts_see_what_was_closed() {
    mounting(|| {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let server = serve(&folder.join("db"), "127.0.0.1:0");
        let target = format!("esker://{}", server.address());
        let one = MountProcess::mount(folder, &target, &folder.join("one"));
        let two = MountProcess::mount(folder, &target, &folder.join("two"));
        let (one, two) = (&one.at, &two.at);
        for (n, size) in [10, 5_000, 20, 4_096, 100_000, 3, 0, 77]
            .into_iter()
            .enumerate()
        {
            // Each content is open at the other side before and while this side rewrites it.
            let (writer, reader) = if n % 2 == 0 { (one, two) } else { (two, one) };
            let kept = File::open(reader.join("same"));
            let content = vec![n as u8; size];
            fs::write(writer.join("same"), &content).unwrap();
            assert!(
                fs::read(reader.join("same")).unwrap() == content,
                "round {n}: {size} bytes"
            );
            let opened = File::open(reader.join("same")).unwrap();
            assert_eq!(opened.metadata().unwrap().len(), size as u64, "round {n}");
            drop(kept);

            // A file replaces another one, as editors and installers do it.
            fs::write(writer.join(".new"), &content).unwrap();
            fs::rename(writer.join(".new"), writer.join("same")).unwrap();
            assert!(
                fs::read(reader.join("same")).unwrap() == content,
                "round {n}, renamed"
            );

            // Both sides append in turn.
            for at in [writer, reader] {
                let mut log = File::options()
                    .append(true)
                    .create(true)
                    .open(at.join("log"))
                    .unwrap();
                log.write_all(&[n as u8; 700]).unwrap();
            }
            let log = fs::read(writer.join("log")).unwrap();
            assert_eq!(log.len(), (n + 1) * 1_400, "round {n}");
            for (i, part) in log.chunks(1_400).enumerate() {
                assert!(part.iter().all(|b| *b == i as u8), "round {n}, part {i}");
            }
        }
        // A file removed on one side can no longer be opened on the other.
        fs::remove_file(one.join("same")).unwrap();
        let told = File::open(two.join("same")).unwrap_err();
        assert_eq!(told.raw_os_error(), Some(2));
        // A new file is visible at once; a removed one disappears within the time-out.
        fs::create_dir(one.join("d")).unwrap();
        fs::write(one.join("d/new"), "x").unwrap();
        assert_eq!(fs::read(two.join("d/new")).unwrap(), b"x");
        fs::rename(one.join("d"), one.join("e")).unwrap();
        std::thread::sleep(Duration::from_millis(1_100));
        assert_eq!(fs::read(two.join("e/new")).unwrap(), b"x");
        // Only one of two moves of the same directory succeeds.
        let moves = [(one, "x"), (two, "y")].map(|(at, to)| {
            let at = at.clone();
            std::thread::spawn(move || fs::rename(at.join("e"), at.join(to)))
        });
        let moved = moves.map(|m| m.join().unwrap().is_ok());
        assert_eq!(moved.iter().filter(|m| **m).count(), 1, "{moved:?}");
    });
}
