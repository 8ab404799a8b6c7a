//! Faults that need real processes: a full disk, a client disconnected from the servers.

use crate::failover::{batch, identity};
use crate::moving::{Moving, find_all, found};
use crate::serve::{esker, run, text};
use esker_model::GraphWrite as _;
use esker_model::object::Identity;
use esker_testkit::wait::{HANG, eventually, wait_until};
use esker_wan::Wan;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A separate file system in memory, of a given size.
struct SmallFileSystem(std::path::PathBuf);

impl SmallFileSystem {
    fn mount(at: &Path, megabytes: u32) -> Self {
        std::fs::create_dir(at).unwrap();
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"])
            .arg(at)
            .status();
        assert!(done.unwrap().success());
        Self(at.to_owned())
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// On a full storage, writes are refused with a reason and reads continue; once there is space, servers accept writes again by
/// themselves. Acknowledged writes are present throughout, and nothing else.
#[test]
fn a_full_disk_refuses_writes_until_space_is_free() {
    if !is_root() {
        eprintln!("skipped: mounting a small file system takes root");
        return;
    }
    let small = tempfile::tempdir().unwrap();
    let disk = SmallFileSystem::mount(&small.path().join("disk"), 160);
    let storage = disk.0.join("lab");
    std::fs::create_dir(&storage).unwrap();
    // etcd uses another disk.
    let etcd = small.path().join("etcd");
    std::fs::create_dir(&etcd).unwrap();
    std::os::unix::fs::symlink(&etcd, storage.join("etcd")).unwrap();
    let cluster = Moving::up(
        2,
        4,
        &format!(
            "storage = \"{}\"\n[etcd]\nlease = \"2s\"\n",
            storage.display()
        ),
    );
    cluster.settled(2);
    let database = Moving::open(&cluster.members[0]);
    let mut acknowledged: BTreeSet<Identity> = BTreeSet::new();
    let mut doubtful: BTreeSet<Identity> = BTreeSet::new();
    let mut step = 0;
    let mut write = |doubtful: &mut BTreeSet<Identity>| {
        let steps = step..step + 8;
        step += 8;
        let all = steps.clone().map(|n| identity(0, n));
        match database.apply(batch(0, steps)) {
            Ok(commit) => {
                assert!(commit.applied);
                acknowledged.extend(all);
                None
            }
            Err(e) => {
                doubtful.extend(all);
                Some(e.to_string())
            }
        }
    };
    for _ in 0..20 {
        assert_eq!(write(&mut doubtful), None);
    }
    // The remaining space is filled.
    let ballast = disk.0.join("ballast");
    let filled = Command::new("dd")
        .args(["if=/dev/zero", "bs=64k"])
        .arg(format!("of={}", ballast.display()))
        .stderr(Stdio::null())
        .status();
    assert!(!filled.unwrap().success(), "it is full");
    let mut why = None;
    for _ in 0..4_000 {
        if let Some(said) = write(&mut doubtful) {
            why = Some(said);
            break;
        }
    }
    let why = why.expect("a write fails");
    assert!(
        why.contains("the disk is full") || why.contains("make room"),
        "{why}"
    );
    // Reads work nevertheless. If a server ran out of space while it applied its part of an acknowledged batch, that part waits for
    // room: a search names the server instead of leaving the part out.
    let (there, report) = find_all(&database);
    assert_eq!(report.complete, report.missing.is_empty(), "{report:?}");
    std::fs::remove_file(&ballast).unwrap();
    eventually(|| {
        let failed = (0..20).find_map(|_| write(&mut doubtful));
        failed.map_or(Ok(()), Err)
    });
    cluster.settled(2);
    let now = found(&database);
    let lost: Vec<_> = acknowledged.difference(&now).take(5).collect();
    assert!(lost.is_empty(), "{lost:?}");
    for identity in &now {
        assert!(
            acknowledged.contains(identity) || doubtful.contains(identity),
            "{identity:?}"
        );
    }
    assert!(there.is_subset(&now));
    let checked = cluster.command(&["check", "lab.toml"]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
}

/// A shell in the remote network namespace, used line by line.
struct RemoteShell {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl RemoteShell {
    fn start(wan: &Wan, folder: &Path, target: &str) -> Self {
        let mut child = wan
            .command(env!("CARGO_BIN_EXE_esker"))
            .args(["shell", target, "--trust-new-host"])
            .current_dir(folder)
            .env("HOME", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn hears(&self, within: Duration) -> Option<String> {
        self.lines.recv_timeout(within).ok()
    }
}

impl Drop for RemoteShell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client without a network waits and continues where it was once the network is back: servers and other clients
/// are not affected, and
/// its writes are applied once.
#[test]
fn a_client_that_is_cut_off_goes_on_afterwards() {
    if !is_root() {
        eprintln!("skipped: network namespaces take root");
        return;
    }
    let wan = Wan::open(Duration::from_millis(2)).unwrap();
    let near = wan.near_address();
    let home = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind((near, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let servers = format!("servers = [\"{near}:{port}\", \"{near}:{}\"]", port + 1);
    // A long lease, so that no store moves on a slow machine.
    let cluster = Moving::up_at(&servers, 4, "[etcd]\nlease = \"1m\"\n");
    let even = |m: &serde_json::Value| m["stores"] == 2;
    wait_until("stores are not shared out", || {
        cluster.rows(&["--members"]).iter().all(even)
    });
    // The first server to start may have had three stores before the second one came.
    let epochs = || -> Vec<_> {
        let stores = cluster.rows(&[]);
        stores.iter().map(|s| s["epoch"].clone()).collect()
    };
    let before = epochs();
    // Remote clients authenticate.
    let ssh = home.path().join(".ssh");
    std::fs::create_dir(&ssh).unwrap();
    let key = ssh.join("id_ed25519");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key)
        .status();
    assert!(made.unwrap().success());
    let public = key.with_extension("pub");
    let grant = ["grant", "lab.cluster", "--role", "write", "--key"];
    let granted = esker(cluster.path())
        .args(grant)
        .arg(&public)
        .output()
        .unwrap();
    assert!(granted.status.success(), "{}", text(&granted.stderr));
    let target = format!("esker://{near}:{port}");
    let patience = HANG.as_secs();
    let mut far = RemoteShell::start(&wan, home.path(), &format!("{target}?timeout={patience}s"));
    for n in 0..5 {
        far.say(&format!("put user:{n}"));
        let said = far.hears(HANG).unwrap();
        assert!(said.starts_with(&format!("inserted user:{n}")), "{said}");
    }
    let route = |what: &str| {
        let done = wan
            .command("ip")
            .args(["route", what, "blackhole", &format!("{near}/32")])
            .status();
        assert!(done.unwrap().success(), "{what}");
    };
    for n in 5..8 {
        route("add");
        far.say(&format!("put user:{n}"));
        // Longer than the time after which a client checks whether the store has moved. On a slow machine the client
        // waits less, and gets no
        // answer either.
        assert_eq!(far.hears(Duration::from_secs(5)), None);
        let name = format!("user:near{n}");
        let other = run(home.path(), &["put", &target, &name, "--trust-new-host"]);
        assert!(other.status.success(), "{}", text(&other.stderr));
        route("del");
        let said = far.hears(HANG).expect("it goes on");
        assert!(said.contains(&format!("user:{n}")), "{said}");
    }
    for n in 0..8 {
        let name = format!("user:{n}");
        let history = run(
            home.path(),
            &["history", &target, &name, "--format", "ndjson"],
        );
        let said = text(&history.stdout);
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    // No store has moved.
    assert_eq!(epochs(), before);
}
