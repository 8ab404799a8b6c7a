//! Clusters whose stores move between processes, on a real etcd: servers are killed, paused, disconnected, added and
//! drained while clients
//! continue.

use crate::cluster::wait_for_count;
use crate::etcd_program::program;
use crate::failover::{batch, identity};
use crate::serve::{esker, patient, run, text};
use esker::Database;
use esker_model::filter::Expr;
use esker_model::namespace::{Change, NamePath, Namespace as _, NewFile};
use esker_model::object::{Find, FindReport, Identity, ObjectKey, ObjectRead as _};
use esker_model::{GraphWrite as _, NeverCancel};
use esker_testkit::port::free_port;
use esker_testkit::signal::signal;
use esker_testkit::wait::{eventually, wait_until};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A cluster supervised by `esker cluster up`, with its own etcd.
pub(crate) struct Moving {
    pub(crate) up: Child,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) members: Vec<String>,
    pub(crate) stores: u32,
}

impl Moving {
    /// Starts a cluster; `more` is added to its file.
    pub(crate) fn up(servers: u32, stores: u32, more: &str) -> Self {
        let port = free_port();
        let servers = format!("servers = {servers}\nlisten = \"127.0.0.1:{port}\"");
        Self::up_at(&servers, stores, more)
    }

    /// Starts a cluster with this `servers` line in its file.
    pub(crate) fn up_at(servers: &str, stores: u32, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("{servers}\nstores = {stores}\nmemory = \"64MiB\"\nvnodes = 64\n{more}");
        std::fs::write(folder.path().join("lab.toml"), text).unwrap();
        let (up, members) = Self::start(folder.path());
        Self {
            up,
            folder,
            members,
            stores,
        }
    }

    pub(crate) fn start(folder: &Path) -> (Child, Vec<String>) {
        let mut up = esker(folder)
            .args(["cluster", "up", "lab.toml"])
            .env("ESKER_ETCD", program())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.join("up.err")).unwrap())
            .spawn()
            .unwrap();
        let mut members = Vec::new();
        for line in BufReader::new(up.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if line.starts_with("ready: ") {
                return (up, members);
            }
            if let Some(rest) = line.strip_prefix("server  esker://") {
                members.push(rest.split(' ').next().unwrap().to_owned());
            }
        }
        let status = up.wait();
        let said = std::fs::read_to_string(folder.join("up.err")).unwrap();
        panic!("not ready: {status:?}: {said}");
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn command(&self, words: &[&str]) -> std::process::Output {
        let mut all = vec!["cluster"];
        all.extend(words);
        run(self.path(), &all)
    }

    /// Configuration lines for its etcd at an address, with certificates.
    fn endpoints(&self, url: &str) -> String {
        let own = self.path().join("lab.cluster/etcd");
        let own = own.display();
        format!(
            "endpoints = [\"{url}\"]\nca = \"{own}/ca.pem\"\ncertificate = \"{own}/client.pem\"\nkey = \"{own}/client.key\"\n"
        )
    }

    pub(crate) fn etcd(&self) -> u32 {
        let pid = std::fs::read_to_string(self.path().join("lab.cluster/etcd/pid"));
        pid.unwrap().trim().parse().unwrap()
    }

    pub(crate) fn done(&self, words: &[&str]) -> String {
        let output = self.command(words);
        assert!(
            output.status.success(),
            "{words:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Members and stores as rows of JSON.
    pub(crate) fn rows(&self, more: &[&str]) -> Vec<serde_json::Value> {
        let mut words = vec!["status", "lab.toml", "--format", "json"];
        words.extend(more);
        let output = self.command(&words);
        let text = text(&output.stdout);
        serde_json::from_str(&text).unwrap_or_else(|_| {
            text.lines()
                .map(|l| serde_json::from_str(l).unwrap())
                .collect()
        })
    }

    pub(crate) fn pid(&self, member: &str) -> u32 {
        let all = self.rows(&["--members"]);
        let server = format!("esker://{member}");
        let found = all.iter().find(|m| m["server"] == server.as_str());
        u32::try_from(
            found.unwrap_or_else(|| panic!("{member}: {all:?}"))["pid"]
                .as_u64()
                .unwrap(),
        )
        .unwrap()
    }

    /// Returns the number of stores of each member, once each store is assigned and all serve.
    pub(crate) fn settled(&self, members: usize) -> Vec<u64> {
        eventually(|| {
            let all = self.rows(&["--members"]);
            let counts: Vec<u64> = all.iter().map(|m| m["stores"].as_u64().unwrap()).collect();
            let taking = all.iter().filter(|m| m["state"] == "serving");
            let has: Vec<u64> = taking.map(|m| m["stores"].as_u64().unwrap()).collect();
            // A new member has no stores until an overloaded one releases some.
            let (most, least) = (has.iter().max(), has.iter().min());
            let even = most
                .zip(least)
                .is_some_and(|(most, least)| most - least <= 1);
            // A moving store is briefly unassigned.
            let all_served = counts.iter().sum::<u64>() == u64::from(self.stores);
            if has.len() == members
                && even
                && all_served
                && self.command(&["status", "lab.toml"]).status.success()
            {
                return Ok(counts);
            }
            Err(format!("{all:?}"))
        })
    }

    pub(crate) fn open(member: &str) -> Database {
        patient(&format!("esker://{member}"))
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let logs = std::fs::read_dir(self.path().join("lab.cluster"));
            for entry in logs.into_iter().flatten().flatten() {
                if entry.path().extension().is_some_and(|e| e == "log") {
                    let log = std::fs::read_to_string(entry.path()).unwrap_or_default();
                    let tail: Vec<&str> = log.lines().rev().take(25).collect();
                    eprintln!("{}", entry.path().display());
                    tail.iter().rev().for_each(|l| eprintln!("    {l}"));
                }
            }
        }
        let _ = self.command(&["down", "lab.toml"]);
        let _ = self.up.kill();
        let _ = self.up.wait();
    }
}

/// Acknowledged work of the clients.
pub(crate) struct Work {
    pub(crate) stop: AtomicBool,
    /// Number of batches, by client.
    pub(crate) done: Vec<AtomicU64>,
}

const BATCH: u64 = 8;

fn file(client: usize, n: u64) -> NamePath {
    NamePath::parse(format!("/c{client}/f{n}").as_bytes()).unwrap()
}

/// Creates objects and files, and reads them back immediately, until stopped. Returns the longest wait.
fn work(database: &Database, client: usize, work: &Work) -> Duration {
    let mut longest = Duration::ZERO;
    let done = &work.done[client];
    while !work.stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let n = done.load(Ordering::Relaxed);
        let first = (n * BATCH) as i64;
        let commit = database
            .apply(batch(client, first..first + BATCH as i64))
            .unwrap();
        assert!(commit.applied, "each batch is told as applied");
        let change = Change::Create(file(client, n), NewFile::new(0o100_644, 0, 0));
        // A retry after a lost answer may find the effect of the first attempt (docs/book/cluster.md).
        if let Err(e) = database.change(None, &[change]).unwrap().remove(0) {
            assert!(e.to_string().contains("exists"), "{e}");
        }
        // A session reads its own writes, whichever server has the store now.
        let last = ObjectKey::from(identity(client, first + BATCH as i64 - 1));
        let read = database.read_objects(&[last], None).unwrap();
        assert!(
            read[0].is_some(),
            "client {client} does not find its own object {n}"
        );
        database.stat(None, &file(client, n), false).unwrap();
        longest = longest.max(began.elapsed());
        done.fetch_add(1, Ordering::Relaxed);
    }
    longest
}

pub(crate) fn wait_for(work: &Work, more: u64) {
    let before: Vec<u64> = work
        .done
        .iter()
        .map(|c| c.load(Ordering::Relaxed))
        .collect();
    for (client, before) in work.done.iter().zip(before) {
        wait_for_count(client, before + more);
    }
}

/// All objects; no server may be missing.
pub(crate) fn found(database: &Database) -> BTreeSet<Identity> {
    let (all, report) = find_all(database);
    assert!(report.complete && report.missing.is_empty(), "{report:?}");
    all
}

/// All objects that a search finds, and its report.
pub(crate) fn find_all(database: &Database) -> (BTreeSet<Identity>, FindReport) {
    let mut all = BTreeSet::new();
    let mut sink = |object: esker_model::object::Found| {
        assert!(all.insert(object.identity().unwrap()), "{object:?} twice");
        ControlFlow::Continue(())
    };
    let report = database
        .find(&Find::all(Expr::All), &NeverCancel, &mut sink)
        .unwrap();
    (all, report)
}

/// Clients of all members work while `storm` runs; then all acknowledged work is present exactly once.
pub(crate) fn through(cluster: &Moving, storm: impl FnOnce(&Work)) {
    let count = cluster.members.len();
    let databases: Vec<Database> = cluster.members.iter().map(|m| Moving::open(m)).collect();
    for client in 0..count {
        let path = NamePath::parse(format!("/c{client}").as_bytes()).unwrap();
        let made =
            databases[0].change(None, &[Change::Create(path, NewFile::new(0o040_755, 0, 0))]);
        made.unwrap().remove(0).unwrap();
    }
    let state = Work {
        stop: AtomicBool::new(false),
        done: (0..count).map(|_| AtomicU64::new(0)).collect(),
    };
    let waits: Vec<Duration> = std::thread::scope(|scope| {
        let state = &state;
        let clients: Vec<_> = databases
            .iter()
            .enumerate()
            .map(|(client, database)| scope.spawn(move || work(database, client, state)))
            .collect();
        let stormed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for(state, 5);
            storm(state);
            wait_for(state, 5);
        }));
        state.stop.store(true, Ordering::Relaxed);
        let waits = clients.into_iter().map(|c| c.join().unwrap()).collect();
        stormed.unwrap();
        waits
    });
    eprintln!("longest waits {waits:?}, rounds {:?}", state.done);
    let mut expected = BTreeSet::new();
    for (client, done) in state.done.iter().enumerate() {
        let steps = 0..(done.load(Ordering::Relaxed) * BATCH) as i64;
        expected.extend(steps.map(|step| identity(client, step)));
    }
    for database in &databases {
        let found = found(database);
        let lost: Vec<_> = expected.difference(&found).take(5).collect();
        let more: Vec<_> = found.difference(&expected).take(5).collect();
        assert!(found == expected, "lost {lost:?}, nobody knows of {more:?}");
    }
    for (client, done) in state.done.iter().enumerate() {
        for n in 0..done.load(Ordering::Relaxed) {
            databases[0].stat(None, &file(client, n), false).unwrap();
        }
    }
}

/// SIGKILL, and a pause longer than the lease; a resumed server must not serve.
#[test]
fn stores_of_killed_and_paused_servers_go_to_others() {
    let cluster = Moving::up(3, 6, "[etcd]\nlease = \"2s\"\n");
    assert_eq!(cluster.settled(3), [2, 2, 2]);
    through(&cluster, |work| {
        signal(cluster.pid(&cluster.members[1]), "KILL");
        wait_for(work, 10);
        // `up` has restarted it, and it gets its share of stores.
        assert_eq!(cluster.settled(3), [2, 2, 2]);
        let paused = cluster.pid(&cluster.members[2]);
        signal(paused, "STOP");
        std::thread::sleep(Duration::from_secs(6));
        signal(paused, "CONT");
        wait_for(work, 10);
        assert_eq!(cluster.settled(3), [2, 2, 2]);
        assert_eq!(
            cluster.pid(&cluster.members[2]),
            paused,
            "the same process, with a new lease"
        );
    });
    let epochs = cluster.rows(&[]);
    let most = epochs.iter().map(|s| s["epoch"].as_u64().unwrap()).max();
    assert!(most >= Some(2), "{epochs:?}");
    // There is one folder for each store, regardless of the moves.
    let storage = cluster.path().join("lab.cluster");
    let stores = std::fs::read_dir(storage).unwrap().flatten();
    let stores = stores.filter(|e| e.file_name().to_string_lossy().starts_with("server-"));
    assert_eq!(stores.count(), 6);
}

/// A server that moves cuts off a search whose client reads slowly, and the client goes on with another server. Of 5,000 objects it got
/// 4,574, and the report said that the result was complete: searches of large objects lost some on each server, whether it moved or not.
#[test]
fn a_store_moves_while_a_client_reads_slowly() {
    let cluster = Moving::up(2, 4, "drain = \"1s\"\n[etcd]\nlease = \"2s\"\n");
    assert_eq!(cluster.settled(2), [2, 2]);
    let database = Moving::open(&cluster.members[0]);
    let mut long = esker_model::Batch::new();
    for step in 0..5_000 {
        long.push(esker_model::Op::CreateObject {
            identity: Identity {
                name: "long".repeat(100),
                app: String::new(),
                owner: 1,
                step,
            },
            attributes: esker_model::Properties::new(),
            tags: esker_model::Properties::new().with("note", "n".repeat(400)),
        });
    }
    database.apply(long).unwrap();
    let mut found = BTreeSet::new();
    let mut sink = |object: esker_model::object::Found| {
        found.insert(object.id);
        if found.len() == 100 {
            // The answer is larger than what is read ahead, so the search is in progress as long as nothing is read.
            cluster.done(&["drain", "lab.toml", &cluster.members[0]]);
            let counts = cluster.settled(1);
            assert!(counts.contains(&0), "{counts:?}");
        }
        ControlFlow::Continue(())
    };
    let report = database
        .find(&Find::all(Expr::All), &NeverCancel, &mut sink)
        .unwrap();
    // The search continues with another member. Its report names a server that moves at that time.
    let whole = found.len() == 5_000;
    assert_eq!(report.complete, whole, "{} found: {report:?}", found.len());
    assert_eq!(report.missing.is_empty(), whole, "{report:?}");
}

/// etcd is killed for longer than the lease, and briefly.
#[test]
fn without_etcd_clients_wait() {
    let cluster = Moving::up(2, 4, "[etcd]\nlease = \"2s\"\n");
    cluster.settled(2);
    through(&cluster, |work| {
        for _ in 0..2 {
            // `up` restarts it.
            let pid = cluster.etcd();
            signal(pid, "KILL");
            wait_until("etcd is not started again", || cluster.etcd() != pid);
            wait_for(work, 5);
        }
        let pid = cluster.etcd();
        signal(pid, "STOP");
        std::thread::sleep(Duration::from_secs(5));
        signal(pid, "CONT");
        wait_for(work, 5);
    });
    cluster.settled(2);
}

/// A server is added, then removed, while clients write; then all are stopped and restarted.
#[test]
fn servers_come_and_go_while_clients_go_on() {
    let mut cluster = Moving::up(2, 8, "");
    assert_eq!(cluster.settled(2), [4, 4]);
    through(&cluster, |work| {
        let said = cluster.done(&["add", "lab.toml"]);
        assert!(
            said.contains("stores 2") || said.contains("stores 3"),
            "{said}"
        );
        assert!(cluster.settled(3).iter().all(|n| (2..=3).contains(n)));
        wait_for(work, 5);
        let first = cluster.members[0].clone();
        cluster.done(&["drain", "lab.toml", &first]);
        assert_eq!(cluster.settled(2).iter().filter(|n| **n == 0).count(), 1);
        wait_for(work, 5);
        cluster.done(&["drain", "lab.toml", &first, "--undo"]);
        cluster.done(&["rebalance", "lab.toml"]);
        assert!(cluster.settled(3).iter().all(|n| (2..=3).contains(n)));
        let unknown = cluster.command(&["drain", "lab.toml", "nobody:1"]);
        let said = text(&unknown.stderr);
        assert!(
            said.contains("has no member nobody:1") && said.contains(&first),
            "{said}"
        );
    });
    let before = found(&Moving::open(&cluster.members[1]));
    cluster.done(&["down", "lab.toml"]);
    cluster.up.wait().unwrap();
    let (up, members) = Moving::start(cluster.path());
    (cluster.up, cluster.members) = (up, members);
    cluster.settled(2);
    assert!(found(&Moving::open(&cluster.members[0])) == before);
}

/// Mismatched configurations are refused with an explanation.
#[test]
fn mismatched_configurations_are_refused() {
    let cluster = Moving::up(1, 2, "");
    let url = std::fs::read_to_string(cluster.path().join("lab.cluster/etcd/url")).unwrap();
    let url = url.trim();
    let storage = cluster.path().join("lab.cluster");
    let storage = storage.display();
    let other = tempfile::tempdir().unwrap();
    let endpoints = format!("[etcd]\n{}", cluster.endpoints(url));
    let port = free_port();
    let servers = format!("servers = [\"127.0.0.9:{port}\"]\nvnodes = 64\n");
    let refused = |file: &str, content: &str, expected: &str| {
        std::fs::write(other.path().join(file), content).unwrap();
        let output = run(other.path(), &["cluster", "server", file, "--id", "0"]);
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains(expected),
            "{file}: {said}"
        );
    };
    let with = |more: &str| format!("{servers}{more}{endpoints}");
    // The name of that etcd's cluster for another folder: as if the folder were not mounted here.
    refused("lab.toml", &with("stores = 2\n"), "is it mounted here?");
    refused(
        "b.toml",
        &with(&format!("stores = 2\nstorage = \"{storage}\"\n")),
        "was made with name lab",
    );
    refused(
        "lab.toml",
        &with(&format!("stores = 3\nstorage = \"{storage}\"\n")),
        "was made with servers 2",
    );
    let alone = format!("servers = 2\nvnodes = 64\nstorage = \"{storage}\"\n");
    refused("lab.toml", &alone, "move between servers as etcd says");
    let nowhere = "stores = 2\n[etcd]\nendpoints = [\"http://127.0.0.1:1\"]\n";
    std::fs::write(other.path().join("c.toml"), format!("{servers}{nowhere}")).unwrap();
    let output = run(other.path(), &["cluster", "status", "c.toml"]);
    let said = text(&output.stderr);
    assert!(said.contains("etcd at http://127.0.0.1:1"), "{said}");
}

/// Forwards bytes, or holds them back.
fn relay(to: u16, cut: &'static AtomicBool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for from in listener.incoming().flatten() {
            let Ok(to) = TcpStream::connect(("127.0.0.1", to)) else {
                continue;
            };
            for (mut from, mut to) in [
                (from.try_clone().unwrap(), to.try_clone().unwrap()),
                (to, from),
            ] {
                std::thread::spawn(move || {
                    let mut piece = [0; 4096];
                    while let Ok(n @ 1..) = from.read(&mut piece) {
                        while cut.load(Ordering::Relaxed) {
                            std::thread::sleep(Duration::from_millis(10));
                        }
                        if to.write_all(&piece[..n]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    port
}

/// A server disconnected from etcd stops serving by itself; the others take over its stores.
#[test]
fn a_server_that_is_cut_off_from_etcd_serves_no_more() {
    static CUT: AtomicBool = AtomicBool::new(false);
    let mut cluster = Moving::up(2, 6, "[etcd]\nlease = \"2s\"\n");
    let url = std::fs::read_to_string(cluster.path().join("lab.cluster/etcd/url")).unwrap();
    let port = relay(
        url.trim().rsplit(':').next().unwrap().parse().unwrap(),
        &CUT,
    );
    let file = std::fs::read_to_string(cluster.path().join("lab.toml")).unwrap();
    let cut = file.replace(
        "[etcd]",
        &format!(
            "name = \"lab\"\nstorage = \"lab.cluster\"\n[etcd]\n{}",
            cluster.endpoints(&format!("https://127.0.0.1:{port}"))
        ),
    );
    std::fs::write(cluster.path().join("cut.toml"), cut).unwrap();
    let third = format!("127.0.0.8:{port}");
    let mut server = esker(cluster.path())
        .args(["cluster", "server", "cut.toml", "--listen", &third])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    cluster.members.push(third.clone());
    assert_eq!(cluster.settled(3), [2, 2, 2]);
    through(&cluster, |work| {
        for _ in 0..2 {
            CUT.store(true, Ordering::Relaxed);
            assert_eq!(cluster.settled(2), [3, 3]);
            wait_for(work, 5);
            CUT.store(false, Ordering::Relaxed);
            assert_eq!(cluster.settled(3), [2, 2, 2]);
        }
    });
    signal(server.id(), "TERM");
    assert!(server.wait().unwrap().success());
    assert_eq!(cluster.settled(2), [3, 3]);
}

/// Another user of this machine cannot read or change etcd's content: otherwise it could take stores away or have
/// them served twice.
#[test]
fn another_user_of_this_machine_gets_nothing_of_etcd() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let cluster = Moving::up(1, 2, "");
    // Other users can reach the folder.
    for place in [cluster.path(), &cluster.path().join("lab.cluster")] {
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let own = cluster.path().join("lab.cluster/etcd");
    let url = std::fs::read_to_string(own.join("url")).unwrap();
    let authority = url.trim().rsplit_once('/').unwrap().1.to_owned();
    let ask = |user: &str, scheme: &str, path: &str, body: &str, more: &[&str]| {
        Command::new("setpriv")
            .args([
                "--reuid",
                user,
                "--regid",
                user,
                "--clear-groups",
                "curl",
                "-s",
                "-k",
                "--max-time",
                "60",
            ])
            .args(more)
            .args(["-d", body, &format!("{scheme}://{authority}/v3/{path}")])
            .current_dir("/")
            .output()
            .unwrap()
    };
    // Every key: from the smallest one (in base64) on.
    let (range, put) = (
        ("kv/range", "{\"key\":\"AA==\",\"range_end\":\"AA==\"}"),
        ("kv/put", "{\"key\":\"L2Vza2Vy\",\"value\":\"eA==\"}"),
    );
    for (path, body) in [
        range,
        put,
        ("kv/deleterange", range.1),
        ("maintenance/status", "{}"),
    ] {
        for scheme in ["http", "https"] {
            let heard = ask("54321", scheme, path, body, &[]);
            let said = text(&heard.stdout);
            assert!(
                !heard.status.success() || said.contains("HTTP request to an HTTPS"),
                "{scheme} {path}: {said}"
            );
            assert!(!said.contains("revision"), "{scheme} {path}: {said}");
        }
    }
    // The certificates and all other files in the folder are unreadable, too.
    for entry in std::fs::read_dir(&own).unwrap() {
        let path = entry.unwrap().path();
        let read = Command::new("setpriv")
            .args([
                "--reuid",
                "54321",
                "--regid",
                "54321",
                "--clear-groups",
                "cat",
            ])
            .arg(&path)
            .output()
            .unwrap();
        assert!(
            !read.status.success() && read.stdout.is_empty(),
            "{}",
            path.display()
        );
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
    // The owner's processes have access to everything.
    let at = |name: &str| own.join(name).display().to_string();
    let (ca, client, key) = (at("ca.pem"), at("client.pem"), at("client.key"));
    let with = ["--cacert", &ca, "--cert", &client, "--key", &key];
    let heard = ask("0", "https", range.0, range.1, &with);
    assert!(
        text(&heard.stdout).contains("revision"),
        "{}",
        text(&heard.stderr)
    );
    cluster.settled(1);
}
